//! The guide to the settings: a few words about each, and why some have no effect.
//!
//! ```text
//!   guide.txt   == Chapter          docs/configuration.md, the commented file of a package and its manual page are
//!               (blank)             made of it and of the table (tools/docs)
//!               name
//!               text | No effect: reason
//! ```
//! A test holds it against the table: each setting stands in it once, and says "No effect" exactly where the table has
//! [`Role::Accepted`]. Not here: what values mean to the server (`Config`).

use super::table::{Change, DIRECTIVES, Directive, Role};

const TEXT: &str = include_str!("guide.txt");
/// How the text of a setting begins that does nothing.
const NO_EFFECT: &str = "No effect: ";

/// When a setting may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changeable {
    /// By CONFIG SET.
    Running,
    /// By CONFIG SET where `enable-protected-configs` allows it.
    Protected,
    /// Only at start.
    AtStart,
}

/// A setting as documents describe it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name in the file.
    pub name: &'static str,
    /// An older or newer name of the same thing.
    pub alias: Option<&'static str>,
    /// The heading under which it stands.
    pub chapter: &'static str,
    /// A few words about it; empty for one without an effect.
    pub about: &'static str,
    /// Why it does nothing; None if it does something.
    pub no_effect: Option<&'static str>,
    /// The values that it takes, in words.
    pub values: String,
    /// Its value where nobody sets it, as a line of the file has it; empty where that depends on the machine.
    pub default: String,
    /// When it may be changed.
    pub change: Changeable,
}

/// All settings, in the order of the guide.
pub fn settings() -> Vec<Setting> {
    entries().map(|entry| entry.setting()).collect()
}

/// Why a directive has no effect.
pub(super) fn no_effect(name: &str) -> Option<&'static str> {
    entries().find(|entry| entry.name == name)?.text.strip_prefix(NO_EFFECT)
}

/// One entry of the text.
struct Entry {
    chapter: &'static str,
    name: &'static str,
    text: &'static str,
}

fn entries() -> impl Iterator<Item = Entry> {
    let mut chapter = "";
    TEXT.split("\n\n").filter_map(move |block| {
        let block = block.trim_end();
        if let Some(title) = block.strip_prefix("== ") {
            chapter = title;
            return None;
        }
        let (name, text) = block.split_once('\n')?;
        Some(Entry { chapter, name, text })
    })
}

impl Entry {
    fn setting(&self) -> Setting {
        let row = DIRECTIVES.iter().find(|row| row.name == self.name).expect("a test compares guide and table");
        let no_effect = self.text.strip_prefix(NO_EFFECT);
        Setting {
            name: row.name,
            alias: row.alias,
            chapter: self.chapter,
            about: if no_effect.is_some() { "" } else { self.text },
            no_effect,
            values: values(row),
            default: default(row),
            change: match row.change {
                Change::Any => Changeable::Running,
                Change::Protected => Changeable::Protected,
                Change::Never => Changeable::AtStart,
            },
        }
    }
}

fn values(row: &Directive) -> String {
    match row.role {
        Role::Missing(what) => format!("its default alone: {what}"),
        Role::Live | Role::Accepted => row.kind.in_words(),
    }
}

/// The default as a line has it.
fn default(row: &Directive) -> String {
    match (row.name, row.default) {
        ("io-threads" | "dir", _) => String::new(),
        (_, text) if text.is_empty() || text.starts_with('{') => format!("\"{text}\""),
        (_, text) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{DIRECTIVES, Role, entries, settings};
    use crate::config::kind::Kind;
    use crate::config::special::Special;
    use crate::config::{Config, Values};

    #[test]
    fn the_guide_has_each_setting_once_and_says_which_do_nothing() {
        let mut named = BTreeSet::new();
        for entry in entries() {
            assert!(named.insert(entry.name), "{} stands in the guide twice", entry.name);
            assert!(!entry.chapter.is_empty() && entry.text.ends_with('.'), "{}: {}", entry.name, entry.text);
            // A line break ends the row of the table in docs/configuration.md.
            assert!(!entry.text.contains(['\n', '|']), "{}: its text is not one line of a table", entry.name);
            let row = DIRECTIVES.iter().find(|row| row.name == entry.name);
            let row = row.unwrap_or_else(|| panic!("{}: no such setting", entry.name));
            let says = entry.text.starts_with(super::NO_EFFECT);
            assert_eq!(says, row.role == Role::Accepted, "{}: does it have an effect?", entry.name);
        }
        let missing: Vec<_> = DIRECTIVES.iter().filter(|row| !named.contains(row.name)).map(|row| row.name).collect();
        assert!(missing.is_empty(), "the guide has no word about {missing:?}");
        assert_eq!(settings().len(), DIRECTIVES.len());
    }

    /// Another value than `current`, in the canonical form. None: its kind has the default alone.
    fn another(kind: Kind, current: &[u8]) -> Vec<u8> {
        let text = |text: &str| text.as_bytes().to_vec();
        let either = |one: String, other: String| text(if one.as_bytes() == current { &other } else { &one });
        match kind {
            Kind::Bool => either("yes".into(), "no".into()),
            Kind::Int { min, .. } | Kind::Clipped { to: (min, _), .. } => {
                either(min.max(1).to_string(), (min.max(1) + 1).to_string())
            }
            Kind::Octal { .. } => text("7"),
            Kind::Memory { min, .. } => either(min.max(1).to_string(), (min.max(1) + 1).to_string()),
            Kind::MemoryOrPercent => text("5%"),
            Kind::Enum(words) => {
                text(words.iter().rfind(|word| word.as_bytes() != current).expect("two words at least"))
            }
            Kind::Text => text("127.0.0.1"),
            Kind::Special(special) => text(match special {
                Special::Save => "1 2",
                Special::Bind => "::1",
                Special::OutputLimits => "normal 1 2 3 slave 4 5 6 pubsub 7 8 9",
                Special::ShutdownOptions => "nosave",
                Special::OomScore => "absolute",
                Special::OomValues => "1 2 3",
                Special::Percentiles => "1",
                Special::KeyspaceEvents => "AK",
                Special::Master => "::1 1",
                Special::FileName { .. } => "other",
                Special::Directory => "/",
                Special::HostName => "h",
                Special::Policy => "allkeys-lru",
                Special::PowerOfTwo { .. } => "4096",
                Special::Period { .. } => "300",
                Special::Title => "x",
            }),
        }
    }

    /// A setting without effect that is set to something else leaves the snapshot as it is, and one with an effect changes it.
    #[test]
    fn settings_do_something_exactly_where_the_table_says_so() {
        let mut base = Values::default();
        // These are parts of others, which must be there.
        for on in ["syslog-enabled", "oom-score-adj", "activedefrag"] {
            base.set(on, b"yes".to_vec());
        }
        for file in ["tls-cert-file", "tls-key-file", "tls-client-cert-file", "tls-client-key-file"] {
            base.set(file, b"x".to_vec());
        }
        let before = Config::new(&base);
        for (at, row) in DIRECTIVES.iter().enumerate() {
            let does = match row.role {
                Role::Live => true,
                Role::Accepted => false,
                Role::Missing(_) => continue,
            };
            let mut values = base.clone();
            values.put(at, another(row.kind, base.at(at)));
            // INFO shows it, and that is all.
            let after = Config { hz: before.hz, ..Config::new(&values) };
            assert_eq!(after != before, does, "{}: does it do what the table says?", row.name);
        }
    }
}
