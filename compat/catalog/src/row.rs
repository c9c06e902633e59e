//! The declaration of a command: one [`Row`] each, from which dispatch, arity checks, key extraction, COMMAND and the table
//! of supported commands derive.
//!
//! A row is a constant built with the `const fn`s below, under the handler of its command; it states what cannot be
//! derived. When a server's commands are numbered, [`Row::derive`] fills in what follows from the rest:
//!
//! ```text
//!  row (const)                  derived
//!  name arity since flags acl   id       dense, subcommands included: an index for counters
//!  key specs, arguments     ->  range    (first, last, step), the fast path of key extraction
//!  behaviour, secret            flags    + movablekeys      acl    + read, write, fast, slow, admin, ...
//! ```
//!
//! Not here: looking a command up (`names`), finding its keys (`keys`), running it (the executor).

use varve_protocol::Args;

use crate::key_spec::{KeyRange, KeySpec, legacy_range};
use crate::secret::{Secret, Shown};
use crate::{Acl, Argument, Behaviour, Flags, KeyFlags};

/// In the place of an argument that names an element: the command takes one at random, by one random number.
pub const DRAWN: u8 = 1;

/// A command or a subcommand, as data. What runs it stands beside its row in the executor's `Command`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Own name in lower case, without the container's.
    pub name: &'static str,
    /// Name as Redis prints it: `get`, `config|set`.
    pub full_name: &'static str,
    /// Group of the command in the documentation.
    pub group: Group,
    /// Number of arguments, name (and subcommand) included; negative: at least this number, without its sign.
    pub arity: i32,
    /// First Redis (or Valkey) version that has it.
    pub since: &'static str,
    /// One line about what it does.
    pub summary: &'static str,
    /// Cost in big-O terms, empty if there is nothing to say.
    pub complexity: &'static str,
    /// How the command may run.
    pub flags: Flags,
    /// ACL categories; those that follow from the flags are added when the table is built.
    pub acl: Acl,
    /// Where its keys are and what is done to them.
    pub keys: &'static [KeySpec],
    /// Fixed positions of the keys, derived from `keys`; `first` is 0 if there are none.
    pub range: KeyRange,
    /// Hints for proxies and clients, as COMMAND INFO tells them.
    pub tips: &'static [&'static str],
    /// Set when the command should no longer be used: since when, and what replaces it.
    pub deprecated: Option<Deprecated>,
    /// True for a command that is meant for the system alone.
    pub system: bool,
    /// Version and change, oldest first.
    pub history: &'static [(&'static str, &'static str)],
    /// Grammar of the arguments, as COMMAND DOCS tells it.
    pub arguments: &'static [Argument],
    /// For keys whose flags depend on the arguments: the flags of every key of this request.
    pub vary: Option<fn(Args<'_>) -> KeyFlags>,
    /// Which argument names an element of the collection at its one key, [`DRAWN`] if one is drawn at random, 0 if there is
    /// none: it is fetched ahead.
    pub element: u8,
    /// Its only key is argument 1, which every request has that it takes. Derived.
    pub one_key: bool,
    /// Its behaviour beside its flags.
    pub behaviour: Behaviour,
    /// The arguments that are channels to which a right is needed.
    pub channels: Channels,
    /// Arguments that logs and MONITOR do not show.
    pub secret: Secret,
    /// Each call is timed by itself: its cost is not constant, or it may wait. Derived.
    pub timed: bool,
    /// Dense number, containers and subcommands in one sequence from 0: an index for counters.
    pub id: u16,
}

/// The arguments of a command that are channels. Whoever leaves a channel needs no right to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// None.
    None,
    /// Argument 1, to which it publishes.
    Published,
    /// All behind the name, to which it listens.
    Listened,
    /// All behind the name are patterns of channels, to which it listens.
    Patterns,
}

/// Since when a command is deprecated and what to use in its place.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// Version.
    pub since: &'static str,
    /// Replacement, in words.
    pub replaced_by: &'static str,
}

/// Group of a command in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Group {
    String,
    List,
    Hash,
    Generic,
    Connection,
    Set,
    Transactions,
    Pubsub,
    Server,
    SortedSet,
    Geo,
    Cluster,
    Bitmap,
    Hyperloglog,
    Stream,
    Scripting,
}

impl Group {
    /// The name that COMMAND DOCS answers.
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::List => "list",
            Group::Hash => "hash",
            Group::Generic => "generic",
            Group::Connection => "connection",
            Group::Set => "set",
            Group::Transactions => "transactions",
            Group::Pubsub => "pubsub",
            Group::Server => "server",
            Group::Bitmap => "bitmap",
            Group::Hyperloglog => "hyperloglog",
            Group::Cluster => "cluster",
            Group::SortedSet => "sorted-set",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::Scripting => "scripting",
        }
    }
}

impl Row {
    /// A row to build on: a command without keys, flags and words.
    pub const fn new(name: &'static str, group: Group, arity: i32, since: &'static str) -> Row {
        Row {
            name,
            full_name: name,
            group,
            arity,
            since,
            summary: "",
            complexity: "",
            flags: Flags::NONE,
            acl: Acl::NONE,
            keys: &[],
            range: KeyRange { first: 0, last: 0, step: 0 },
            tips: &[],
            deprecated: None,
            system: false,
            history: &[],
            arguments: &[],
            vary: None,
            element: 0,
            one_key: false,
            behaviour: Behaviour::NONE,
            channels: Channels::None,
            secret: Secret::None,
            timed: false,
            id: 0,
        }
    }

    /// A subcommand's row: `full_name` is `container|name`.
    pub const fn sub(
        full_name: &'static str,
        name: &'static str,
        group: Group,
        arity: i32,
        since: &'static str,
    ) -> Row {
        Row { full_name, ..Row::new(name, group, arity, since) }
    }

    /// With what it does and what it costs.
    pub const fn about(self, summary: &'static str, complexity: &'static str) -> Row {
        Row { summary, complexity, ..self }
    }

    /// With these flags.
    pub const fn flags(self, flags: &'static [Flags]) -> Row {
        let mut all = self.flags;
        let mut i = 0;
        while i < flags.len() {
            all = all.and(flags[i]);
            i += 1;
        }
        Row { flags: all, ..self }
    }

    /// With these ACL categories beside those that the flags imply.
    pub const fn acl(self, acl: &'static [Acl]) -> Row {
        let mut all = self.acl;
        let mut i = 0;
        while i < acl.len() {
            all = all.and(acl[i]);
            i += 1;
        }
        Row { acl: all, ..self }
    }

    /// With these keys.
    pub const fn keys(self, keys: &'static [KeySpec]) -> Row {
        Row { keys, ..self }
    }

    /// With these hints.
    pub const fn tips(self, tips: &'static [&'static str]) -> Row {
        Row { tips, ..self }
    }

    /// Deprecated since, replaced by.
    pub const fn deprecated(self, since: &'static str, replaced_by: &'static str) -> Row {
        Row { deprecated: Some(Deprecated { since, replaced_by }), ..self }
    }

    /// For the system alone.
    pub const fn system(self) -> Row {
        Row { system: true, ..self }
    }

    /// With what changed in which version.
    pub const fn history(self, history: &'static [(&'static str, &'static str)]) -> Row {
        Row { history, ..self }
    }

    /// With this grammar.
    pub const fn args(self, arguments: &'static [Argument]) -> Row {
        Row { arguments, ..self }
    }

    /// With the argument that names an element of the collection at its one key, or [`DRAWN`].
    pub const fn element(self, at: u8) -> Row {
        Row { element: at, ..self }
    }

    /// With key flags that depend on the arguments.
    pub const fn vary(self, vary: fn(Args<'_>) -> KeyFlags) -> Row {
        Row { vary: Some(vary), ..self }
    }

    /// True for a subcommand, whose full name begins with its container's.
    #[inline]
    pub fn is_subcommand(&self) -> bool {
        self.full_name.len() != self.name.len()
    }

    /// True if a request of this number of arguments is neither too short nor too long.
    #[inline]
    pub fn takes(&self, arguments: usize) -> bool {
        let want = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= want } else { arguments == want }
    }

    /// With what it does beside what its flags say.
    pub const fn behaviour(self, behaviour: Behaviour) -> Row {
        Row { behaviour: self.behaviour.and(behaviour), ..self }
    }

    /// With arguments that are channels.
    pub const fn channels(self, channels: Channels) -> Row {
        Row { channels, ..self }
    }

    /// With arguments that logs and MONITOR do not show.
    pub const fn secret(self, secret: Secret) -> Row {
        Row { secret, ..self }
    }

    /// True if a connection that is subscribed in RESP2 may run it.
    #[cold]
    pub fn runs_while_subscribed(&self) -> bool {
        self.behaviour.has(Behaviour::WHILE_SUBSCRIBED)
    }

    /// True if it may change keys.
    pub fn writes(&self) -> bool {
        self.flags.has(Flags::WRITE) || self.behaviour.has(Behaviour::WRITES_TOO)
    }

    /// True if it may change keys, or sends messages to others.
    pub fn changes(&self) -> bool {
        self.writes() || self.publishes()
    }

    /// True if it reads or changes the keyspace, or sends messages to others.
    pub fn interacts(&self) -> bool {
        self.changes() || self.flags.has(Flags::READONLY)
    }

    /// True if it sends messages to others.
    pub fn publishes(&self) -> bool {
        self.behaviour.has(Behaviour::PUBLISHES)
    }

    /// True if its confirmations are sent even where CLIENT REPLY has turned replies off.
    pub fn confirms_always(&self) -> bool {
        self.behaviour.has(Behaviour::CONFIRMS_ALWAYS)
    }

    /// The arguments of a request as everybody may see them.
    pub fn shown<'a>(&self, args: Args<'a>) -> Shown<'a> {
        Shown::new(self.secret, args)
    }

    /// Fills in what follows from the row.
    ///
    /// `holds_keys` says whether the shards of its keys are held while it runs.
    #[must_use]
    pub fn derive(mut self, id: u16, holds_keys: bool) -> Row {
        self.id = id;
        self.acl = self.acl | implied(self.flags, self.acl);
        let (range, movable) = legacy_range(self.keys);
        self.range = range;
        if movable {
            self.flags = self.flags | Flags::MOVABLEKEYS;
        }
        let behind_name = (range.first, range.last) == (1, 1) && self.arity.unsigned_abs() > 1;
        self.one_key = behind_name && !movable && holds_keys;
        let is_constant = self.flags.has(Flags::FAST) || self.behaviour.has(Behaviour::CONSTANT_TIME);
        self.timed = !is_constant || self.flags.has(Flags::BLOCKING);
        self
    }
}

/// The ACL categories that flags imply. A script that only reads is no reading command: what it does is another right.
fn implied(flags: Flags, own: Acl) -> Acl {
    let mut acl = if flags.has(Flags::FAST) { Acl::FAST } else { Acl::SLOW };
    let pairs = [
        (Flags::WRITE, Acl::WRITE),
        (Flags::ADMIN, Acl::ADMIN | Acl::DANGEROUS),
        (Flags::PUBSUB, Acl::PUBSUB),
        (Flags::BLOCKING, Acl::BLOCKING),
    ];
    for (flag, category) in pairs {
        if flags.has(flag) {
            acl = acl | category;
        }
    }
    if flags.has(Flags::READONLY) && !own.has(Acl::SCRIPTING) { acl | Acl::READ } else { acl }
}
