//! What is known of a command: one [`Descriptor`] each, from which dispatch, arity checks, key extraction, COMMAND and
//! the table of supported commands derive.
//!
//! A row of the table is a constant built with the `const fn`s below; it states what cannot be derived. On first use
//! `table::all` copies the rows, numbers them and fills in what follows from the rest:
//!
//! ```text
//!  row (const)                  derived
//!  name arity since flags acl   id       dense, subcommands included: an index for counters
//!  key specs, arguments     ->  range    (first, last, step), the fast path of key extraction
//!  run                          flags    + movablekeys      acl    + read, write, fast, slow, admin, ...
//! ```
//!
//! Not here: looking a command up (`table`), finding its keys (`keys`), replying about it (`introspect`).

use crate::errors::CmdResult;
use crate::transaction::Step;
use crate::{Ctx, SessionCtx, WideCtx};
use std::ops::BitOr;

/// In the place of an argument that names an element: the command takes one at random, by one random number.
pub const DRAWN: u8 = 1;

/// A command or, inside [`Descriptor::subcommands`], a subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Own name in lower case, without the container's.
    pub name: &'static str,
    /// Name as Redis prints it: `get`, `config|set`.
    pub full_name: &'static str,
    /// Group of the command in the documentation.
    pub group: Group,
    /// Number of arguments, name (and subcommand) included; negative: at least so many.
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
    /// The subcommands, if this is a container.
    pub subcommands: &'static [Descriptor],
    /// For keys whose flags depend on the arguments: the flags of every key of this request.
    pub vary: Option<fn(varve_protocol::Args<'_>) -> KeyFlags>,
    /// Which argument names an element of the collection at its one key, [`DRAWN`] if one is drawn at random, 0 if there is
    /// none: it is fetched ahead.
    pub element: u8,
    /// Its only key is argument 1, which every request has that it takes. Derived.
    pub one_key: bool,
    /// Its cost is not constant: each call is timed by itself. Derived.
    pub timed: bool,
    /// Who runs it, and under which locks.
    pub run: Run,
    /// Dense number, containers and subcommands in one sequence from 0: see `table::count_ids`.
    pub id: u16,
}

/// Since when a command is deprecated and what to use in its place.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// Version.
    pub since: &'static str,
    /// Replacement, in words.
    pub replaced_by: &'static str,
}

/// A command on the keys that it names: their shards are held, it replies by itself, errors included.
pub type StoreFn = fn(&mut Ctx<'_, '_>) -> CmdResult;
/// A command on the whole keyspace.
pub type WideFn = fn(&mut WideCtx<'_>) -> CmdResult;
/// A command that touches no key.
pub type SessionFn = fn(&mut SessionCtx<'_>) -> CmdResult;

/// Who runs a command, and what is locked meanwhile.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// The shards of its keys are held.
    Store(StoreFn),
    /// It locks by itself, shard by shard: SCAN, DBSIZE, RANDOMKEY.
    Keyspace(WideFn),
    /// Runs with the gate held alone: KEYS, FLUSHALL, SWAPDB.
    Alone(WideFn),
    /// Touches no key: PING, ECHO, SELECT.
    Session(SessionFn),
    /// The executor itself: MULTI, EXEC, DISCARD, UNWATCH.
    Transaction(Step),
    /// The server runs it, found by `full_name`: CLIENT, CONFIG, INFO, AUTH, HELLO, SHUTDOWN, SLOWLOG.
    Host,
    /// A container alone does nothing: without a subcommand its arity is wrong.
    Container,
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
            Group::SortedSet => "sorted-set",
        }
    }
}

/// Declares a set of named bits: constants, `|`, questions, and the names in the order in which replies list them.
macro_rules! bitset {
    ($(#[$doc:meta])* $ty:ident { $($(#[$bit_doc:meta])* $bit:ident = $n:expr, $name:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $ty(u32);

        impl $ty {
            /// The empty set.
            pub const NONE: $ty = $ty(0);
            $($(#[$bit_doc])* pub const $bit: $ty = $ty(1 << $n);)*
            const NAMES: &'static [($ty, &'static str)] = &[$(($ty::$bit, $name)),*];

            /// Both sets' members; what `|` does, but usable in constants.
            pub const fn and(self, other: $ty) -> $ty {
                $ty(self.0 | other.0)
            }

            /// True if all of `other` is in this set.
            pub const fn has(self, other: $ty) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if nothing is in it.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The names that replies show, in Redis's order; bits that replies hide are left out.
            pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
                Self::NAMES.iter().filter(move |(bit, name)| self.has(*bit) && !name.is_empty()).map(|(_, name)| *name)
            }

            /// The member of this name in lower case, None if there is none.
            pub fn from_name(name: &[u8]) -> Option<$ty> {
                let shown = |(_, n): &&($ty, &'static str)| !n.is_empty() && n.as_bytes().eq_ignore_ascii_case(name);
                Self::NAMES.iter().find(shown).map(|(bit, _)| *bit)
            }
        }

        impl BitOr for $ty {
            type Output = $ty;
            fn bitor(self, other: $ty) -> $ty {
                self.and(other)
            }
        }
    };
}

bitset! {
    /// How a command may run. An empty name is a bit that COMMAND INFO hides.
    Flags {
        /// May change the keyspace.
        WRITE = 0, "write";
        /// Reads keys and changes none.
        READONLY = 1, "readonly";
        /// Refused when memory is at its limit.
        DENYOOM = 2, "denyoom";
        /// For administrators.
        ADMIN = 3, "admin";
        /// Concerns publish/subscribe.
        PUBSUB = 4, "pubsub";
        /// Refused inside scripts.
        NOSCRIPT = 5, "noscript";
        /// May block its client.
        BLOCKING = 6, "blocking";
        /// Runs while a dump is loaded.
        LOADING = 7, "loading";
        /// Runs on a replica whose data is stale.
        STALE = 8, "stale";
        /// Not shown to MONITOR.
        SKIP_MONITOR = 9, "skip_monitor";
        /// Not logged as slow.
        SKIP_SLOWLOG = 10, "skip_slowlog";
        /// Accepts a slot that is being imported.
        ASKING = 11, "asking";
        /// Constant or logarithmic time.
        FAST = 12, "fast";
        /// Runs before authentication.
        NO_AUTH = 13, "no_auth";
        /// Answers an empty list of keys where others refuse.
        NO_MANDATORY_KEYS = 14, "no_mandatory_keys";
        /// Refused unless the configuration allows it (`enable-debug-command`).
        PROTECTED = 15, "";
        /// Refused while a replica loads in the background.
        NO_ASYNC_LOADING = 16, "no_async_loading";
        /// Refused inside MULTI.
        NO_MULTI = 17, "no_multi";
        /// Some of its keys are not at fixed positions.
        MOVABLEKEYS = 18, "movablekeys";
        /// Runs while a script is busy.
        ALLOW_BUSY = 19, "allow_busy";
        /// May touch keys that it does not name.
        TOUCHES_ARBITRARY_KEYS = 20, "";
        /// Acts on all databases.
        ALL_DBS = 21, "";
    }
}

bitset! {
    /// ACL categories.
    Acl {
        /// Keys of any type.
        KEYSPACE = 0, "keyspace";
        /// Reads values or metadata.
        READ = 1, "read";
        /// Changes values or metadata.
        WRITE = 2, "write";
        /// Sets.
        SET = 3, "set";
        /// Sorted sets.
        SORTEDSET = 4, "sortedset";
        /// Lists.
        LIST = 5, "list";
        /// Hashes.
        HASH = 6, "hash";
        /// Strings.
        STRING = 7, "string";
        /// Bitmaps.
        BITMAP = 8, "bitmap";
        /// HyperLogLogs.
        HYPERLOGLOG = 9, "hyperloglog";
        /// Geographical indexes.
        GEO = 10, "geo";
        /// Streams.
        STREAM = 11, "stream";
        /// Publish/subscribe.
        PUBSUB = 12, "pubsub";
        /// Administration.
        ADMIN = 13, "admin";
        /// Constant or logarithmic time.
        FAST = 14, "fast";
        /// All that is not fast.
        SLOW = 15, "slow";
        /// May block.
        BLOCKING = 16, "blocking";
        /// To be given with care.
        DANGEROUS = 17, "dangerous";
        /// The connection itself.
        CONNECTION = 18, "connection";
        /// MULTI and its kin.
        TRANSACTION = 19, "transaction";
        /// Scripts and functions.
        SCRIPTING = 20, "scripting";
    }
}

bitset! {
    /// What a command does to a key: one of RO, RW, OW, RM, and details.
    KeyFlags {
        /// Reads only.
        RO = 0, "RO";
        /// Reads and changes.
        RW = 1, "RW";
        /// Overwrites, whatever was there.
        OW = 2, "OW";
        /// Removes, whatever was there.
        RM = 3, "RM";
        /// The value (or a part) is returned, used or copied.
        ACCESS = 4, "access";
        /// The value is changed depending on the old one, or replaced.
        UPDATE = 5, "update";
        /// Something is added, nothing overwritten.
        INSERT = 6, "insert";
        /// Content is removed.
        DELETE = 7, "delete";
        /// Looks like a key, but is none (a channel, say).
        NOT_KEY = 8, "not_key";
        /// The specification may miss keys.
        INCOMPLETE = 9, "incomplete";
        /// The flags depend on the arguments.
        VARIABLE_FLAGS = 10, "variable_flags";
    }
}

bitset! {
    /// How often an argument may stand.
    ArgFlags {
        /// May be left out.
        OPTIONAL = 0, "optional";
        /// May be repeated.
        MULTIPLE = 1, "multiple";
        /// Its token is repeated with it.
        MULTIPLE_TOKEN = 2, "multiple_token";
    }
}

/// Where a group of keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(u16),
    /// After this word, looked for from this argument on (negative: backwards from that far before the end).
    Keyword(&'static str, i16),
    /// At the argument of SORT's last STORE, which may stand anywhere; replies tell it as unknown. One key.
    SortStore,
    /// It cannot be told from the arguments.
    Unknown,
}

/// Which arguments from the beginning on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`-th up to `last`: relative to the beginning, or from the end if negative; with a `limit` of 2 or
    /// more, only the first one-limit-th of the arguments that are left.
    Range {
        /// Last key.
        last: i16,
        /// Distance of keys.
        step: u16,
        /// Divisor of the arguments that are left, 0 and 1 for all.
        limit: u16,
    },
    /// An argument holds the number of keys. All positions are relative to the beginning.
    Keynum {
        /// Where the number is.
        num: u16,
        /// Where the first key is.
        first: u16,
        /// Distance of keys.
        step: u16,
    },
    /// It cannot be told from the arguments.
    Unknown,
}

/// One group of keys among a command's arguments.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where it begins.
    pub begin: Begin,
    /// How far it goes.
    pub find: Find,
    /// What is done to the keys.
    pub flags: KeyFlags,
    /// A remark that COMMAND INFO shows, or empty.
    pub notes: &'static str,
}

/// Keys at fixed positions: `first` and every `step`-th up to `last` (negative: from the end); `first` 0: no keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// First key's argument.
    pub first: u16,
    /// Last key's argument.
    pub last: i16,
    /// Distance.
    pub step: u16,
}

/// What an argument is.
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
    /// What it is.
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
pub(crate) const fn arg(name: &'static str, kind: ArgKind) -> Argument {
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
pub(crate) const fn key(name: &'static str, spec: u8) -> Argument {
    Argument { key_spec: Some(spec), ..arg(name, ArgKind::Key) }
}

/// A word alone.
pub(crate) const fn word(name: &'static str, token: &'static str) -> Argument {
    arg(name, ArgKind::PureToken).token(token)
}

/// One of these.
pub(crate) const fn one_of(name: &'static str, arguments: &'static [Argument]) -> Argument {
    Argument { arguments, ..arg(name, ArgKind::OneOf) }
}

/// All of these.
pub(crate) const fn block(name: &'static str, arguments: &'static [Argument]) -> Argument {
    Argument { arguments, ..arg(name, ArgKind::Block) }
}

impl Argument {
    /// With a word before it.
    pub(crate) const fn token(self, token: &'static str) -> Argument {
        Argument { token, ..self }
    }

    /// With the first version that takes it.
    pub(crate) const fn since(self, since: &'static str) -> Argument {
        Argument { since, ..self }
    }

    /// Its token is repeated with it.
    pub(crate) const fn multiple_token(self) -> Argument {
        Argument { flags: self.flags.and(ArgFlags::MULTIPLE_TOKEN), ..self }
    }

    /// With the version that deprecated it.
    pub(crate) const fn deprecated_since(self, deprecated_since: &'static str) -> Argument {
        Argument { deprecated_since, ..self }
    }

    /// May be left out.
    pub(crate) const fn optional(self) -> Argument {
        Argument { flags: self.flags.and(ArgFlags::OPTIONAL), ..self }
    }

    /// May be repeated.
    pub(crate) const fn multiple(self) -> Argument {
        Argument { flags: self.flags.and(ArgFlags::MULTIPLE), ..self }
    }
}

impl KeySpec {
    /// Keys from argument `first` up to `last` (relative to it, negative: from the end), every `step`-th.
    pub(crate) const fn range(first: u16, last: i16, step: u16, flags: KeyFlags) -> KeySpec {
        KeySpec { begin: Begin::Index(first), find: Find::Range { last, step, limit: 0 }, flags, notes: "" }
    }

    /// One key.
    pub(crate) const fn one(at: u16, flags: KeyFlags) -> KeySpec {
        KeySpec::range(at, 0, 1, flags)
    }

    /// As many keys as the argument `at` says, behind it, every `step`-th.
    pub(crate) const fn counted(at: u16, step: u16, flags: KeyFlags) -> KeySpec {
        KeySpec { begin: Begin::Index(at), find: Find::Keynum { num: 0, first: 1, step }, flags, notes: "" }
    }

    /// With a remark.
    pub(crate) const fn notes(self, notes: &'static str) -> KeySpec {
        KeySpec { notes, ..self }
    }
}

impl Descriptor {
    /// A row to build on: a command without keys, flags and words.
    pub(crate) const fn new(name: &'static str, group: Group, arity: i32, since: &'static str, run: Run) -> Descriptor {
        Descriptor {
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
            subcommands: &[],
            vary: None,
            element: 0,
            one_key: false,
            timed: false,
            run,
            id: 0,
        }
    }

    /// A subcommand's row: `full_name` is `container|name`.
    pub(crate) const fn sub(
        full_name: &'static str,
        name: &'static str,
        group: Group,
        arity: i32,
        since: &'static str,
        run: Run,
    ) -> Descriptor {
        Descriptor { full_name, ..Descriptor::new(name, group, arity, since, run) }
    }

    /// With what it does and what it costs.
    pub(crate) const fn about(self, summary: &'static str, complexity: &'static str) -> Descriptor {
        Descriptor { summary, complexity, ..self }
    }

    /// With these flags.
    pub(crate) const fn flags(self, flags: &'static [Flags]) -> Descriptor {
        let mut all = self.flags;
        let mut i = 0;
        while i < flags.len() {
            all = all.and(flags[i]);
            i += 1;
        }
        Descriptor { flags: all, ..self }
    }

    /// With these ACL categories beside those that the flags imply.
    pub(crate) const fn acl(self, acl: &'static [Acl]) -> Descriptor {
        let mut all = self.acl;
        let mut i = 0;
        while i < acl.len() {
            all = all.and(acl[i]);
            i += 1;
        }
        Descriptor { acl: all, ..self }
    }

    /// With these keys.
    pub(crate) const fn keys(self, keys: &'static [KeySpec]) -> Descriptor {
        Descriptor { keys, ..self }
    }

    /// With these hints.
    pub(crate) const fn tips(self, tips: &'static [&'static str]) -> Descriptor {
        Descriptor { tips, ..self }
    }

    /// Deprecated since, replaced by.
    pub(crate) const fn deprecated(self, since: &'static str, replaced_by: &'static str) -> Descriptor {
        Descriptor { deprecated: Some(Deprecated { since, replaced_by }), ..self }
    }

    /// For the system alone.
    pub(crate) const fn system(self) -> Descriptor {
        Descriptor { system: true, ..self }
    }

    /// With what changed in which version.
    pub(crate) const fn history(self, history: &'static [(&'static str, &'static str)]) -> Descriptor {
        Descriptor { history, ..self }
    }

    /// With this grammar.
    pub(crate) const fn args(self, arguments: &'static [Argument]) -> Descriptor {
        Descriptor { arguments, ..self }
    }

    /// With these subcommands.
    pub(crate) const fn subcommands(self, subcommands: &'static [Descriptor]) -> Descriptor {
        Descriptor { subcommands, ..self }
    }

    /// With the argument that names an element of the collection at its one key, or [`DRAWN`].
    pub(crate) const fn element(self, at: u8) -> Descriptor {
        Descriptor { element: at, ..self }
    }

    /// With key flags that depend on the arguments.
    pub(crate) const fn vary(self, vary: fn(varve_protocol::Args<'_>) -> KeyFlags) -> Descriptor {
        Descriptor { vary: Some(vary), ..self }
    }

    /// True if a request of so many arguments is neither too short nor too long.
    #[inline]
    pub fn takes(&self, arguments: usize) -> bool {
        let want = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= want } else { arguments == want }
    }

    /// True if a connection that is subscribed in RESP2 may run it.
    #[cold]
    pub fn runs_while_subscribed(&self) -> bool {
        self.confirms_always() || matches!(self.full_name, "ping" | "quit" | "reset")
    }

    /// True if it reads or changes the keyspace, or tells others something.
    pub fn interacts(&self) -> bool {
        self.flags.has(Flags::WRITE) || self.flags.has(Flags::READONLY) || self.publishes()
    }

    /// True for PUBLISH and SPUBLISH.
    pub fn publishes(&self) -> bool {
        self.flags.has(Flags::PUBSUB) && self.flags.has(Flags::FAST)
    }

    /// True if its confirmations are sent even where CLIENT REPLY has turned replies off: those of subscriptions.
    pub fn confirms_always(&self) -> bool {
        self.flags.has(Flags::PUBSUB) && self.flags.has(Flags::NOSCRIPT)
    }

    /// Fills in what follows from the row.
    pub(crate) fn derive(mut self, id: u16) -> Descriptor {
        self.id = id;
        self.acl = self.acl | implied(self.flags);
        let (range, movable) = legacy_range(self.keys);
        self.range = range;
        if movable {
            self.flags = self.flags | Flags::MOVABLEKEYS;
        }
        let behind_name = (range.first, range.last) == (1, 1) && self.arity.unsigned_abs() > 1;
        self.one_key = behind_name && !movable && matches!(self.run, Run::Store(_));
        self.timed = !self.flags.has(Flags::FAST) && self.complexity != "O(1)";
        self
    }
}

/// The ACL categories that flags imply.
fn implied(flags: Flags) -> Acl {
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
    if flags.has(Flags::READONLY) { acl | Acl::READ } else { acl }
}

/// First, last and step as clients of old know them, and whether some keys are elsewhere. Several specifications make
/// one range if each continues where the one before ended.
fn legacy_range(specs: &[KeySpec]) -> (KeyRange, bool) {
    let mut range = KeyRange::default();
    let mut movable = false;
    for spec in specs {
        let (Begin::Index(first), Find::Range { last, step, .. }) = (spec.begin, spec.find) else {
            movable = true;
            continue;
        };
        let last = if last < 0 { last } else { last + first as i16 };
        movable |= spec.flags.has(KeyFlags::INCOMPLETE);
        if range.first == 0 {
            range = KeyRange { first, last, step };
        } else if step == 1 && range.step == 1 && range.last == first as i16 - 1 {
            range.last = last;
        } else {
            movable = true;
        }
    }
    (range, movable)
}
