//! Sets of named bits: how a command may run, its ACL categories, what it does to its keys, how often an argument may stand.
//!
//! A name is what COMMAND INFO shows; a bit without a name is not shown.

use std::ops::BitOr;

/// Declares a set of named bits: constants, `|`, questions, and the names in the order in which replies list them.
macro_rules! bitset {
    ($(#[$doc:meta])* $ty:ident { $($(#[$bit_doc:meta])* $bit:ident = $n:expr, $name:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $ty(u32);

        impl $ty {
            /// The empty set.
            pub const NONE: $ty = $ty(0);
            /// Every member.
            pub const ALL: $ty = $ty(0 $(| 1 << $n)*);
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
    /// The bits that say what a command does to a key: one of RO, RW, OW, RM, and details.
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

bitset! {
    /// Bits for behaviour that neither the flags nor the documentation say. Replies show none of it.
    Behaviour {
        /// Its cost is constant although it is not flagged as fast: its calls share one reading of the clock.
        CONSTANT_TIME = 0, "";
        /// Sends messages to others: counts as a change where changes are held back or refused, and runs in the server
        /// where the publisher itself listens.
        PUBLISHES = 1, "";
        /// Its confirmations are sent even where CLIENT REPLY has turned replies off.
        CONFIRMS_ALWAYS = 2, "";
        /// Runs for a connection that is subscribed in RESP2.
        WHILE_SUBSCRIBED = 3, "";
        /// Runs at once between MULTI and EXEC too.
        NEVER_QUEUED = 4, "";
        /// The word of CLIENT CACHING outlasts it.
        KEEPS_CACHING = 5, "";
        /// Argument 1 becomes the selected database.
        SELECTS = 6, "";
        /// Is refused like a write where writes are refused: whoever asks how the server is learns of it.
        TELLS_HEALTH = 7, "";
        /// May change keys although it is not flagged as writing: it keeps in them what it has found, or runs a script.
        WRITES_TOO = 8, "";
        /// In a primary's stream it is a question to whoever reads it, and changes nothing.
        ASKS_REPLICAS = 9, "";
        /// Takes memory that is no data, which the server keeps for the client or a script has. The command is refused while the
        /// system refuses memory.
        TAKES_MEMORY = 10, "";
    }
}
