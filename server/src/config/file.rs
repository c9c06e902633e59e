//! Reading configuration lines: from files with their includes, from standard input, from the command line.
//!
//! ```text
//!   # a comment takes a whole line
//!   name word word ...       a setting: one row of the table; the last one counts, `save` and buffer limits add up
//!   include pattern          the lines of other files, here
//!   rename-command old new   the new name of a command, "" to take it away
//!   user name rule ...       a user and its rules, once a user
//!   loadmodule               refused: not available
//! ```
//! The first error ends the reading and says where it is. Not here: the effect of the settings.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use varve_acl::{KnownCommands, RuleContext, RuleError, User, UserLine, merge_selectors};
use varve_base::glob::Glob;
use varve_catalog::RenameError;
use varve_exec::{CommandSet, CommandTable};
use varve_protocol::words;
use zeroize::Zeroizing;

use super::guide::no_effect;
use super::table::{self, DIRECTIVES, Role, SECRET_DIRECTIVES, Values};
use super::{Config, grammar};
use crate::system::error_text;

/// Why the configuration was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// A line that cannot be taken.
    Line { origin: String, number: usize, text: String, reason: String },
    /// A file that cannot be read.
    File { path: PathBuf, reason: String },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Line { origin, number, text, reason } => {
                let version = crate::system::version::VERSION;
                writeln!(f, "\n*** FATAL CONFIG FILE ERROR (Varve {version}) ***")?;
                writeln!(f, "In {origin}, line {number}:\n>>> '{text}'\n{reason}")
            }
            LoadError::File { path, reason } => {
                writeln!(f, "Fatal error, can't open config file '{}': {reason}", path.display())
            }
        }
    }
}

/// Directives that Redis 7.0 takes with one value and forgets.
const FORGOTTEN: [&[u8]; 3] = [b"list-max-ziplist-entries", b"list-max-ziplist-value", b"lua-replicate-commands"];
/// A file that includes itself is an error after this number of levels.
const DEPTH_MAX: usize = 32;

/// Collects lines until `finish`.
pub(crate) struct Loader {
    values: Values,
    commands: CommandTable,
    /// The commands that the rules of users may name.
    known: KnownCommands,
    /// Rows that some line has set.
    set: BTreeSet<usize>,
    depth: usize,
}

impl Loader {
    /// The defaults; `rename-command` finds its names in this set.
    pub(crate) fn new(commands: &CommandSet) -> Loader {
        let (known, commands) = (KnownCommands::new(commands.rows()), CommandTable::new(commands));
        Loader { values: Values::default(), commands, known, set: BTreeSet::new(), depth: 0 }
    }

    /// Takes the lines of a file, and of those that it includes.
    pub(crate) fn file(&mut self, path: &Path) -> Result<(), LoadError> {
        let text = std::fs::read(path)
            .map_err(|error| LoadError::File { path: path.to_owned(), reason: error_text(&error) })?;
        // There may be passwords in it.
        let text = Zeroizing::new(text);
        self.text(&path.display().to_string(), &text)
    }

    /// Takes lines; `origin` names their source in errors.
    pub(crate) fn text(&mut self, origin: &str, text: &[u8]) -> Result<(), LoadError> {
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = trim(line);
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            self.line(line).map_err(|problem| match problem {
                Problem::Here(reason) => {
                    LoadError::Line { origin: origin.to_owned(), number: index + 1, text: shown(line), reason }
                }
                Problem::Elsewhere(error) => error,
            })?;
        }
        Ok(())
    }

    /// The values, the commands under their new names, and one remark for each setting that does not do what it says.
    pub(crate) fn finish(self) -> Loaded {
        let remark = |row: &usize| match DIRECTIVES[*row].role {
            Role::Live | Role::Missing(_) => None,
            Role::Accepted if self.values.at(*row) == DIRECTIVES[*row].default.as_bytes() => None,
            Role::Accepted => Some(accepted(DIRECTIVES[*row].name)),
        };
        let remarks = self.set.iter().filter_map(remark).collect();
        let config = Config::new(&self.values);
        Loaded { values: self.values, config, commands: self.commands, remarks }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Problem> {
        let words = words::words(line).ok_or_else(|| here("Unbalanced quotes in configuration line"))?;
        let words = Zeroizing::new(words);
        let Some((name, arguments)) = words.split_first() else {
            return Ok(());
        };
        if let Some(row) = table::find(name) {
            return self.setting(row, arguments);
        }
        let name = name.to_ascii_lowercase();
        match (name.as_slice(), arguments) {
            (b"include", [pattern]) => self.include(pattern),
            (b"rename-command", [old, new]) => self.rename(old, new),
            (b"loadmodule", [_, ..]) => Err(here("modules are not available")),
            (b"user", [user, rules @ ..]) => self.user(user, rules),
            (b"sentinel", [_, ..]) => Err(here("Sentinel mode is not available yet")),
            (name, [_]) if FORGOTTEN.contains(&name) => Ok(()),
            _ => Err(here("Bad directive or wrong number of arguments")),
        }
    }

    fn setting(&mut self, row: usize, arguments: &[Vec<u8>]) -> Result<(), Problem> {
        let directive = &DIRECTIVES[row];
        let mut canonical = match arguments {
            [] if !directive.kind.takes_many() => Err("wrong number of arguments".into()),
            [one] if directive.kind.takes_many() => directive.kind.parse(&list(one), self.values.at(row)),
            _ => directive.kind.parse(arguments, self.values.at(row)),
        }
        .map_err(|reason| here(&reason))?;
        refuse_missing(row, &canonical).map_err(Problem::Here)?;
        let first = self.set.insert(row);
        // The first `save` replaces the default save points; later ones add to it, and an empty one starts afresh.
        if directive.name == "save" && !first && !canonical.is_empty() && !self.values.at(row).is_empty() {
            canonical = [self.values.at(row), &canonical].join(&b' ');
        }
        self.values.put(row, canonical);
        Ok(())
    }

    fn include(&mut self, pattern: &[u8]) -> Result<(), Problem> {
        if self.depth == DEPTH_MAX {
            return Err(here("Files include each other without end"));
        }
        self.depth += 1;
        for path in expand(&grammar::path_of(pattern)) {
            self.file(&path).map_err(Problem::Elsewhere)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// A rule that names no command is refused at the start, as in redis-server: the log says which.
    fn user(&mut self, name: &[u8], rules: &[Vec<u8>]) -> Result<(), Problem> {
        // A rule of a password is not shown: the log may be read by more people than the file.
        let refused = |what: &[u8], reason: &str| {
            // A password whose sign was forgotten looks like a word that no rule knows.
            let is_known = what == name || what.first().is_some_and(|sign| b"~%&+-#(".contains(sign));
            let secret = !is_known || what.iter().any(|byte| matches!(byte, b'>' | b'<'));
            let shown = if secret { "(redacted)".into() } else { String::from_utf8_lossy(what) };
            here(&format!("Error in user declaration '{shown}': {reason}"))
        };
        if self.values.users().iter().any(|line| line.name == name) {
            return Err(refused(name, "Duplicate user found. A user can only be defined once in config files"));
        }
        let rules = merge_selectors(rules).map_err(|number| refused(&rules[number], "Unmatched parenthesis"))?;
        let context = RuleContext { commands: &self.known, all_channels: false };
        let mut user = User::new(name, &context);
        for rule in &rules {
            match user.apply(rule, &context) {
                Ok(()) | Err(RuleError::Unknown) => {}
                Err(error) => return Err(refused(rule, error.text())),
            }
        }
        self.values.declare_user(UserLine::new(name, &rules));
        Ok(())
    }

    fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), Problem> {
        self.commands.rename(old, new).map_err(|error| match error {
            RenameError::Unknown => here("No such command in rename-command"),
            RenameError::Taken => here("Target command name already exists"),
        })
    }
}

/// The result of a `Loader`.
pub(crate) struct Loaded {
    pub(crate) values: Values,
    pub(crate) config: Config,
    pub(crate) commands: CommandTable,
    /// Lines for the log about settings.
    pub(crate) remarks: Vec<String>,
}

/// A line as errors show it: a line that has passwords in it, or may have, by its first word alone.
fn shown(line: &[u8]) -> String {
    let end = line.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(line.len());
    let is = |secret: &str| secret.as_bytes().eq_ignore_ascii_case(&line[..end]);
    let is_secret = SECRET_DIRECTIVES.iter().copied().any(is) || is("user");
    let text = String::from_utf8_lossy(if is_secret { &line[..end] } else { line });
    if is_secret { format!("{text} (redacted)") } else { text.into_owned() }
}

fn accepted(name: &str) -> String {
    let reason = no_effect(name).unwrap_or_default();
    format!("{name} is accepted for compatibility and has no effect: {}", reason.trim_end_matches('.'))
}

enum Problem {
    Here(String),
    Elsewhere(LoadError),
}

fn here(reason: &str) -> Problem {
    Problem::Here(reason.to_owned())
}

/// The words of a list that was given as one argument: parted by single spaces, as CONFIG SET has it.
pub(crate) fn list(argument: &[u8]) -> Vec<Vec<u8>> {
    if argument.is_empty() {
        return Vec::new();
    }
    argument.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect()
}

/// Refuses a value that asks for something whose absence would go unnoticed.
pub(crate) fn refuse_missing(row: usize, canonical: &[u8]) -> Result<(), String> {
    match DIRECTIVES[row].role {
        Role::Missing(what) if canonical != DIRECTIVES[row].default.as_bytes() => Err(what.to_owned()),
        _ => Ok(()),
    }
}

fn trim(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// The files that an include names, in order of their names. A path without `*`, `?` or `[` is itself, there or not; a
/// pattern may match nothing. Names with a leading dot need one in the pattern.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::new()];
    for component in pattern.components() {
        let part = grammar::bytes_of(component.as_ref());
        if !grammar::is_pattern(&part) {
            paths.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        paths = paths.iter().flat_map(|path| matching(path, &part)).collect();
        // The path behind a pattern must exist, or the pattern did not match.
        paths.sort();
    }
    let has_pattern = grammar::is_pattern(&grammar::bytes_of(pattern));
    paths.retain(|path| !has_pattern || path.exists());
    paths
}

fn matching(directory: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let place = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(entries) = std::fs::read_dir(place) else {
        return Vec::new();
    };
    let glob = Glob::new(pattern);
    let fits = |name: &[u8]| (name[0] != b'.' || pattern[0] == b'.') && glob.matches(name);
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    names.filter(|name| fits(&grammar::bytes_of(name.as_ref()))).map(|name| directory.join(name)).collect()
}
