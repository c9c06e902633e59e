//! The arguments of a command as COMMAND DOCS describes them: redis-cli completes from it.

use crate::ArgFlags;

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ArgKind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

impl ArgKind {
    /// The name that COMMAND DOCS answers.
    pub fn name(self) -> &'static str {
        match self {
            ArgKind::String => "string",
            ArgKind::Integer => "integer",
            ArgKind::Double => "double",
            ArgKind::Key => "key",
            ArgKind::Pattern => "pattern",
            ArgKind::UnixTime => "unix-time",
            ArgKind::PureToken => "pure-token",
            ArgKind::OneOf => "oneof",
            ArgKind::Block => "block",
        }
    }
}

/// One argument of a command, for documentation: redis-cli completes from it.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Name for humans.
    pub name: &'static str,
    /// Its kind.
    pub kind: ArgKind,
    /// Word that stands before it, or is it.
    pub token: &'static str,
    /// Which key specification it belongs to.
    pub key_spec: Option<u8>,
    /// First version that takes it, where that is later than the command's.
    pub since: &'static str,
    /// Version that deprecated it.
    pub deprecated_since: &'static str,
    /// How often it may stand.
    pub flags: ArgFlags,
    /// Parts of a block, choices of a one-of.
    pub arguments: &'static [Argument],
}

/// An argument to build on.
pub const fn arg(name: &'static str, kind: ArgKind) -> Argument {
    Argument {
        name,
        kind,
        token: "",
        key_spec: None,
        since: "",
        deprecated_since: "",
        flags: ArgFlags::NONE,
        arguments: &[],
    }
}

/// A key, the n-th specification's.
pub const fn key(name: &'static str, spec: u8) -> Argument {
    Argument { key_spec: Some(spec), ..arg(name, ArgKind::Key) }
}

/// A word alone.
pub const fn word(name: &'static str, token: &'static str) -> Argument {
    arg(name, ArgKind::PureToken).token(token)
}

/// One of these.
pub const fn one_of(name: &'static str, arguments: &'static [Argument]) -> Argument {
    Argument { arguments, ..arg(name, ArgKind::OneOf) }
}

/// All of these.
pub const fn block(name: &'static str, arguments: &'static [Argument]) -> Argument {
    Argument { arguments, ..arg(name, ArgKind::Block) }
}

impl Argument {
    /// With a word before it.
    pub const fn token(self, token: &'static str) -> Argument {
        Argument { token, ..self }
    }

    /// With the first version that takes it.
    pub const fn since(self, since: &'static str) -> Argument {
        Argument { since, ..self }
    }

    /// Its token is repeated with it.
    pub const fn multiple_token(self) -> Argument {
        Argument { flags: self.flags.and(ArgFlags::MULTIPLE_TOKEN), ..self }
    }

    /// With the version that deprecated it.
    pub const fn deprecated_since(self, deprecated_since: &'static str) -> Argument {
        Argument { deprecated_since, ..self }
    }

    /// May be left out.
    pub const fn optional(self) -> Argument {
        Argument { flags: self.flags.and(ArgFlags::OPTIONAL), ..self }
    }

    /// May be repeated.
    pub const fn multiple(self) -> Argument {
        Argument { flags: self.flags.and(ArgFlags::MULTIPLE), ..self }
    }
}
