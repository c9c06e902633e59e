//! The running server's configuration: CONFIG GET, SET and REWRITE.
//!
//! ```text
//!   SET pairs ─> all checked, with a copy of the values ─> Effects::apply ─> the copy is current ─> Effects::publish
//!                 │ any refusal: nothing changed            │ refused: nothing changed
//! ```
//! One change at a time; whoever reads takes the snapshot of the moment. Not here: replies (features/config.rs), and telling
//! the workers of a change, which is `Effects::publish`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_acl::UserLine;
use varve_base::glob::Glob;
use varve_base::shared::{SharedMutex, SharedRwLock, SharedU64};
use varve_exec::{CmdResult, CommandError};

use super::file::{list, refuse_missing};
use super::grammar::is_pattern;
use super::rewrite::{self, UserLines};
use super::table::{Change, DIRECTIVES, Values, find};
use super::tls::names_file;
use super::{Config, Guard};
use crate::errors;
use crate::system::error_text;

/// The effects that a change of the configuration has on the rest of the server.
pub(crate) trait Effects {
    /// Brings a change about. An error means that nothing of it was done (or that it was undone).
    /// The old snapshot is still the current one.
    fn apply(&self, old: &Config, new: &Config) -> Result<(), Ineffective>;
    /// True while data is being loaded.
    fn is_loading(&self) -> bool {
        false
    }
    /// The change is done and the new snapshot is the current one: whoever keeps a snapshot should take it.
    fn publish(&self);
}

/// A change that the server could not make, although its value is fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ineffective {
    /// Its name, or the begin of several and a star.
    pub(crate) directive: &'static str,
    pub(crate) reason: String,
}

/// The configuration of a running server.
#[derive(Debug)]
pub(crate) struct Live {
    /// Changed under the lock of `changing` only, and never held while anything else is done.
    current: SharedRwLock<Arc<Config>>,
    /// Counts the changes, so that a worker sees with one load whether its snapshot is the current one.
    changes: SharedU64,
    /// The settings as texts, also changed under the lock of `changing` only: a reader of settings does not wait for a change, which
    /// may ask for the address of a host.
    values: SharedMutex<Arc<Values>>,
    /// Held while settings are changed.
    changing: SharedMutex<()>,
    /// Absolute path of the file that the server was started with.
    file: Option<PathBuf>,
    /// Held while that file is written.
    rewrites: SharedMutex<()>,
}

impl Live {
    pub(crate) fn new(values: Values, file: Option<PathBuf>) -> Live {
        let current = SharedRwLock::new(Arc::new(Config::new(&values)));
        let values = SharedMutex::new(Arc::new(values));
        let (changing, rewrites) = (SharedMutex::default(), SharedMutex::default());
        Live { current, changes: SharedU64::new(0), values, changing, file, rewrites }
    }

    /// The settings as they are now.
    pub(crate) fn snapshot(&self) -> Arc<Config> {
        Arc::clone(&self.current.read())
    }

    /// How often the settings have changed. Read before `snapshot`, it is never ahead of what that gives.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(super) fn values(&self) -> Values {
        Values::clone(&self.values.lock())
    }

    /// The users that the configuration declared at the start.
    pub(crate) fn declared_users(&self) -> Vec<UserLine> {
        self.values.lock().users().to_vec()
    }

    /// The file that CONFIG REWRITE writes.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.file.clone()
    }

    /// Names and values of all directives that match one of the patterns ([`is_pattern`]) or have one of the names, each once.
    pub(crate) fn get<'p>(&self, patterns: impl Iterator<Item = &'p [u8]> + Clone) -> Vec<(Vec<u8>, Vec<u8>)> {
        let values = Arc::clone(&self.values.lock());
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &[u8], row: usize| {
            if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                found.push((name.to_vec(), values.at(row).to_vec()));
            }
        };
        let mut asked = HashSet::new();
        for pattern in patterns.filter(|pattern| asked.insert(*pattern)) {
            let glob = Glob::without_case(pattern);
            if !is_pattern(pattern) {
                find(pattern).into_iter().for_each(|row| add(pattern, row));
                continue;
            }
            for (row, directive) in DIRECTIVES.iter().enumerate().filter(|(_, directive)| !directive.hidden) {
                let alias = directive.alias.filter(|_| !directive.hides_alias);
                let names = [Some(directive.name), alias].into_iter().flatten();
                names.filter(|name| glob.matches(name.as_bytes())).for_each(|name| {
                    add(name.as_bytes(), row);
                });
            }
        }
        found
    }

    /// Makes all the changes, or none. `local` says that the client is on this machine.
    pub(crate) fn set(&self, pairs: &[(&[u8], &[u8])], local: bool, effects: &dyn Effects) -> CmdResult {
        let _alone = self.changing.lock();
        let old = self.snapshot();
        let rows = rows(pairs, &old, local, effects.is_loading())?;
        let mut values = Values::clone(&self.values.lock());
        for (&row, &(name, value)) in rows.iter().zip(pairs) {
            let canonical = parse(row, value, &values).map_err(|reason| errors::config_set(name, &reason))?;
            values.put(row, canonical);
        }
        let mut new = Config::new(&values);
        new.tls.files_named = old.tls.files_named + rows.iter().any(|&row| names_file(DIRECTIVES[row].name)) as u64;
        effects.apply(&old, &new).map_err(|no| errors::config_set(spelled(pairs, no.directive), &no.reason))?;
        self.put(values, new);
        effects.publish();
        Ok(())
    }

    /// The server follows another one from now on, at this host and port, or nobody: no client sets that by CONFIG SET.
    pub(crate) fn note_primary(&self, primary: Option<(&str, u16)>) {
        let _alone = self.changing.lock();
        let mut values = Values::clone(&self.values.lock());
        let text = primary.map(|(host, port)| format!("{host} {port}").into_bytes());
        values.set("replicaof", text.unwrap_or_default());
        let mut new = Config::new(&values);
        new.tls.files_named = self.snapshot().tls.files_named;
        self.put(values, new);
    }

    /// These are the settings from now on.
    fn put(&self, values: Values, config: Config) {
        *self.values.lock() = Arc::new(values);
        *self.current.write() = Arc::new(config);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Writes the file that the server was started with anew, with these lines of users. `all` writes every
    /// directive, whatever its value (DEBUG CONFIG-REWRITE-FORCE-ALL).
    pub(crate) fn rewrite(&self, all: bool, users: &UserLines) -> CmdResult {
        let Some(path) = &self.file else {
            return Err(errors::NO_CONFIG_FILE);
        };
        let _alone = self.rewrites.lock();
        // The disk may take its time: who asks for settings meanwhile has them.
        let values = Arc::clone(&self.values.lock());
        rewrite::rewrite(path, &values, all, users).map_err(|error| {
            let reason = error_text(&error);
            tracing::warn!("CONFIG REWRITE failed: {reason}");
            errors::config_rewrite(&reason)
        })?;
        tracing::warn!("CONFIG REWRITE executed with success.");
        Ok(())
    }
}

/// The rows that the pairs name, if each may be changed and is named once.
fn rows(pairs: &[(&[u8], &[u8])], config: &Config, local: bool, loading: bool) -> CmdResult<Vec<usize>> {
    let mut rows = Vec::with_capacity(pairs.len());
    for (at, &(name, _)) in pairs.iter().enumerate() {
        let Some(row) = find(name) else {
            return Err(errors::no_directive(name));
        };
        let guarded = match config.protected_configs {
            Guard::No => true,
            Guard::Yes => false,
            Guard::Local => !local,
        };
        match DIRECTIVES[row].change {
            Change::Never => return Err(errors::config_set(name, "can't set immutable config")),
            Change::Protected if guarded => return Err(errors::config_set(name, "can't set protected config")),
            _ => {}
        }
        if loading && DIRECTIVES[row].rests_while_loading {
            return Err(CommandError::LOADING);
        }
        // A name and its alias count as two, as in Redis.
        if pairs[..at].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
            return Err(errors::config_set(name, "duplicate parameter"));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn parse(row: usize, value: &[u8], values: &Values) -> Result<Vec<u8>, String> {
    let directive = &DIRECTIVES[row];
    let arguments = if directive.kind.takes_many() { list(value) } else { vec![value.to_vec()] };
    let canonical = directive.kind.parse(&arguments, values.at(row))?;
    refuse_missing(row, &canonical)?;
    Ok(canonical)
}

/// The directive's name as the client wrote it: of a family, the first that it named.
fn spelled<'p>(pairs: &[(&'p [u8], &[u8])], directive: &'static str) -> &'p [u8] {
    let row = find(directive.as_bytes());
    let is = |name: &[u8]| match directive.strip_suffix('*') {
        Some(family) => name.get(..family.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(family.as_bytes())),
        None => find(name) == row,
    };
    pairs.iter().map(|&(name, _)| name).find(|name| is(name)).unwrap_or(directive.as_bytes())
}
