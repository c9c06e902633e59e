//! Scripts and functions as whoever runs them sees them.

use std::collections::HashSet;

use mlua::Function;

/// A compiled script of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LuaChunk(pub(crate) u32);

/// The name of a script in errors.
#[derive(Clone, Copy, Debug)]
pub enum ScriptName<'a> {
    /// The SHA-1 of its text, shown in hexadecimal digits.
    Digest(&'a [u8; 20]),
    /// The name of a function.
    Function(&'a [u8]),
}

impl ScriptName<'_> {
    pub(crate) fn push(self, text: &mut Vec<u8>) {
        match self {
            ScriptName::Digest(digest) => {
                digest.iter().for_each(|byte| text.extend_from_slice(format!("{byte:02x}").as_bytes()));
            }
            ScriptName::Function(name) => text.extend_from_slice(name),
        }
    }
}

/// The name and the arguments with which a script is run.
#[derive(Clone, Copy, Debug)]
pub struct ScriptInput<'a> {
    /// Named in errors.
    pub name: ScriptName<'a>,
    /// KEYS.
    pub keys: &'a [&'a [u8]],
    /// ARGV.
    pub argv: &'a [&'a [u8]],
}

/// The flags that a script or a function declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// It runs on replicas and where writes are refused.
    pub no_writes: bool,
    /// It runs beyond the memory limit.
    pub allow_oom: bool,
    /// It runs on a replica that is not in step with its master.
    pub allow_stale: bool,
    /// It is refused in a cluster.
    pub no_cluster: bool,
    /// Its keys may lie in several slots.
    pub allow_cross_slot_keys: bool,
}

impl ScriptFlags {
    /// The names, in the order in which FUNCTION LIST shows them.
    pub const NAMES: [&'static str; 5] =
        ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

    /// Sets the flag of this name; false if there is none.
    pub fn set(&mut self, name: &[u8]) -> bool {
        let flags = [
            &mut self.no_writes,
            &mut self.allow_oom,
            &mut self.allow_stale,
            &mut self.no_cluster,
            &mut self.allow_cross_slot_keys,
        ];
        let found = Self::NAMES.iter().zip(flags).find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, flag)| *flag = true).is_some()
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let flags = [self.no_writes, self.allow_oom, self.allow_stale, self.no_cluster, self.allow_cross_slot_keys];
        Self::NAMES.into_iter().zip(flags).filter_map(|(name, set)| set.then_some(name))
    }
}

/// A function of a library.
#[derive(Clone, Debug)]
pub struct LibraryFunction {
    /// Letters, digits and underscores.
    pub name: Vec<u8>,
    /// Any text.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: ScriptFlags,
    /// Runs it.
    pub chunk: LuaChunk,
}

/// A function that the library being loaded has registered.
pub(crate) struct Registered {
    pub(crate) name: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    pub(crate) flags: ScriptFlags,
    pub(crate) function: Function,
}

/// The functions that the library being loaded has registered, in order.
#[derive(Default)]
pub(crate) struct Registrations {
    list: Vec<Registered>,
    names: HashSet<Vec<u8>>,
}

impl Registrations {
    /// Adds a function; false if there is one of this name.
    pub(crate) fn add(&mut self, registered: Registered) -> bool {
        let is_new = self.names.insert(registered.name.clone());
        if is_new {
            self.list.push(registered);
        }
        is_new
    }

    /// All of them.
    pub(crate) fn into_list(self) -> Vec<Registered> {
        self.list
    }
}

/// A set of the globals KEYS and ARGV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedGlobals(u8);

impl NamedGlobals {
    pub(crate) const KEYS: NamedGlobals = NamedGlobals(1);
    pub(crate) const ARGV: NamedGlobals = NamedGlobals(2);

    /// Those whose names stand anywhere in this text.
    pub(crate) fn in_text(text: &[u8]) -> NamedGlobals {
        let has = |name: &[u8; 4]| text.windows(name.len()).any(|part| part == name);
        NamedGlobals(u8::from(has(b"KEYS")) | u8::from(has(b"ARGV")) << 1)
    }

    /// The names.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [("KEYS", NamedGlobals::KEYS), ("ARGV", NamedGlobals::ARGV)];
        all.into_iter().filter_map(move |(name, which)| self.has(which).then_some(name))
    }

    pub(crate) fn has(self, other: NamedGlobals) -> bool {
        self.0 & other.0 != 0
    }

    /// These and those.
    pub(crate) fn and(self, other: NamedGlobals) -> NamedGlobals {
        NamedGlobals(self.0 | other.0)
    }

    /// Those that are in both sets.
    pub(crate) fn both(self, other: NamedGlobals) -> NamedGlobals {
        NamedGlobals(self.0 & other.0)
    }

    /// Those that are not in this set.
    pub(crate) fn others(self) -> NamedGlobals {
        NamedGlobals(!self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_they_stand() {
        for (text, named) in [("return 1", 0), ("KEYS[1]", 1), ("xARGVx", 2), ("ARGV KEYS", 3), ("KEY", 0), ("", 0)] {
            assert_eq!(NamedGlobals::in_text(text.as_bytes()), NamedGlobals(named), "{text}");
        }
    }
}
