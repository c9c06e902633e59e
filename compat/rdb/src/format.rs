//! The numbers of the format: magic words, opcodes, types of values.
//!
//! ```text
//! magic            versions          types from 22 on
//! "REDIS" 0001..   1 to 12, 13..15   22, 23 hashes with field expiry before 7.4; 24, 25 since; 26, 27 streams;
//!                                    28 an array, 29 to 32 hashes by templates: refused by key, like what is unknown
//! "VALKEY" 080..   80, 81            22 a hash with field expiry
//! "VCS"                              one of these files, compressed (`read/envelope.rs`)
//! "REDIS"          11, of Valkey 8   as Redis 7.2
//! ```
//! A number may mean one thing to Redis and another to Valkey, so a type is looked up by (dialect, number). DUMP's
//! payload has a version without a magic word: 80 and above is Valkey's.

use std::fmt;

/// The version that is written: redis-server 7.0 loads it, and everything later.
pub const VERSION: u16 = 10;
/// The version that is written where fields of hashes expire: redis-server 7.4 loads it, and everything later.
pub const FIELD_EXPIRY_VERSION: u16 = 12;
/// The versions that a setting may pin.
pub const PINNED_VERSIONS: [u16; 2] = [VERSION, FIELD_EXPIRY_VERSION];
/// Newest version of Redis of which some types are read.
pub const REDIS_VERSION_MAX: u16 = 15;
/// Oldest version that only Valkey writes.
pub const VALKEY_VERSION_MIN: u16 = 80;
/// Newest version of Valkey that is read.
pub const VALKEY_VERSION_MAX: u16 = 81;

/// The version to write: the one that is pinned; where none is, the least that the data needs. `is_dated`: fields of a hash
/// expire.
///
/// # Errors
/// The pinned version has no place for what the data has.
pub fn version_for(pinned: Option<u16>, is_dated: bool) -> Result<u16, TooOld> {
    let needed = if is_dated { FIELD_EXPIRY_VERSION } else { VERSION };
    match pinned {
        None => Ok(needed),
        Some(pinned) if pinned >= needed => Ok(pinned),
        Some(pinned) => Err(TooOld { pinned, needed }),
    }
}

/// The version that is pinned is older than the data needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// The version that is pinned.
    pub pinned: u16,
    /// The least version that has a place for all of the data.
    pub needed: u16,
}

impl fmt::Display for TooOld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooOld { pinned, needed } = self;
        write!(f, "rdb-version is {pinned}, and fields of hashes that expire take version {needed}")
    }
}

impl std::error::Error for TooOld {}

/// The name of a field that stands before a stream whose messages have names (XADD with IDMP): Varve's own. redis-server passes
/// over fields that it does not know. Many names stand in several such fields, one behind the other. The value's bytes:
///
/// ```text
///   1 | duration, s (4) | most names (4) | added (8) | duplicates (8) | message ..        numbers: low byte first
///   message   length (4) | producer | length (4) | name | ID: ms (8), number (8) | time, ms of Unix time (8)
/// ```
pub const MESSAGE_NAMES: &[u8] = b"varve-idempotence";

/// Fields of one entry of a stream, at most, for all that make entries and all that read them: each file that was written is read.
pub const ENTRY_FIELDS_MAX: u64 = 1 << 25;

/// Bytes of the name of a message or of its producer, at most: 64 KB. A part has up to 64 names, each with its producer, and is made in
/// one step.
pub const MESSAGE_NAME_BYTES_MAX: usize = 64 << 10;

/// Opcodes: what stands in the place of a type where no value follows.
pub(crate) mod op {
    /// Of Valkey, in a data set for a replica that has asked for it.
    pub(crate) const UPDATE: u8 = 242;
    /// Of Valkey.
    pub(crate) const SLOT_IMPORT: u8 = 243;
    /// Of Redis: what modules keep about the key that follows.
    pub(crate) const KEY_DATA: u8 = 243;
    pub(crate) const SLOT_INFO: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    pub(crate) const FUNCTION_PRE_GA: u8 = 246;
    pub(crate) const MODULE_AUX: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQ: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const RESIZE_DB: u8 = 251;
    pub(crate) const EXPIRE_MS: u8 = 252;
    pub(crate) const EXPIRE_S: u8 = 253;
    pub(crate) const SELECT_DB: u8 = 254;
    pub(crate) const EOF: u8 = 255;
}

/// The types that are written.
pub(crate) mod ty {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const HASH: u8 = 4;
    pub(crate) const ZSET: u8 = 5;
    pub(crate) const STREAM: u8 = 19;
    /// A hash with fields that expire.
    pub(crate) const HASH_FIELDS: u8 = 24;
}

/// A string's length prefix, its first two bits.
///
/// ```text
/// 00llllll                 6 bits       10000000 + 4 bytes   32 bits, high byte first
/// 01llllll + 1 byte       14 bits       10000001 + 8 bytes   64 bits, high byte first
/// 11eeeeee                 no length: an integer of 1, 2 or 4 bytes, or a compressed string
/// ```
pub(crate) mod len {
    pub(crate) const BITS_14: u8 = 0x40;
    pub(crate) const BITS_32: u8 = 0x80;
    pub(crate) const BITS_64: u8 = 0x81;
    pub(crate) const INT_8: u8 = 0xc0;
    pub(crate) const INT_16: u8 = 0xc1;
    pub(crate) const INT_32: u8 = 0xc2;
    pub(crate) const LZF: u8 = 0xc3;
}

/// The word that a file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    /// "REDIS" and four digits.
    Redis,
    /// "VALKEY" and three digits.
    Valkey,
}

/// The facts of a stream beside its entries and groups. IDs are milliseconds and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTail {
    /// Number of entries.
    pub len: u64,
    /// The greatest ID that the stream has ever had.
    pub last: (u64, u64),
    /// The ID of the first entry.
    pub first: (u64, u64),
    /// The greatest ID that was deleted.
    pub max_deleted: (u64, u64),
    /// Entries that were ever added.
    pub added: u64,
}

/// The server that these numbers are of, and the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The magic word.
    pub magic: Magic,
    /// The version behind it.
    pub version: u16,
}

impl Dialect {
    /// The dialect of what is written.
    pub const OURS: Dialect = Dialect { magic: Magic::Redis, version: VERSION };

    /// The dialect of a magic word and a version; None if it is too old, too new or of nobody.
    pub fn of(magic: Magic, version: u16) -> Option<Dialect> {
        let known = match magic {
            Magic::Redis => (1..=REDIS_VERSION_MAX).contains(&version),
            Magic::Valkey => (VALKEY_VERSION_MIN..=VALKEY_VERSION_MAX).contains(&version),
        };
        known.then_some(Dialect { magic, version })
    }

    /// The dialect of DUMP's payload with this version.
    pub fn of_dump(version: u16) -> Option<Dialect> {
        let magic = if version >= VALKEY_VERSION_MIN { Magic::Valkey } else { Magic::Redis };
        Dialect::of(magic, version)
    }
}

/// The type of a value to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    String,
    List,
    Set,
    Zset,
    Hash,
    Stream,
    Module,
}

impl Kind {
    /// The name that TYPE answers; "module" for a module's.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Zset => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
            Kind::Module => "module",
        }
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    String,
    List,
    Set,
    /// Scores as text.
    ZsetText,
    /// Scores of eight bytes.
    Zset,
    Hash,
    ModulePreGa,
    Module,
    HashZipmap,
    ListZiplist,
    SetIntset,
    ZsetZiplist,
    HashZiplist,
    /// A list of ziplists.
    Quicklist,
    HashListpack,
    ZsetListpack,
    /// A list of listpacks and of large elements.
    Quicklist2,
    SetListpack,
    /// A stream, by the number of its form, from 1 to 5.
    Stream(u8),
    /// Field expiry as it was before Redis 7.4: each absolute.
    HashFieldsPreGa,
    HashListpackFieldsPreGa,
    /// Field expiry of Redis 7.4: each relative to the least.
    HashFields,
    HashListpackFields,
    /// Field expiry of Valkey 9.
    HashFieldsValkey,
}

/// Encodings that Redis and Valkey have in common, by their number.
const COMMON: [Option<Encoding>; 22] = [
    Some(Encoding::String),
    Some(Encoding::List),
    Some(Encoding::Set),
    Some(Encoding::ZsetText),
    Some(Encoding::Hash),
    Some(Encoding::Zset),
    Some(Encoding::ModulePreGa),
    Some(Encoding::Module),
    None,
    Some(Encoding::HashZipmap),
    Some(Encoding::ListZiplist),
    Some(Encoding::SetIntset),
    Some(Encoding::ZsetZiplist),
    Some(Encoding::HashZiplist),
    Some(Encoding::Quicklist),
    Some(Encoding::Stream(1)),
    Some(Encoding::HashListpack),
    Some(Encoding::ZsetListpack),
    Some(Encoding::Quicklist2),
    Some(Encoding::Stream(2)),
    Some(Encoding::SetListpack),
    Some(Encoding::Stream(3)),
];

impl Encoding {
    /// The encoding with a number; None if the dialect has none, or none that is known.
    pub(crate) fn of(dialect: Dialect, number: u8) -> Option<Encoding> {
        if let Some(common) = COMMON.get(usize::from(number)) {
            return *common;
        }
        match (dialect.magic, number) {
            (Magic::Valkey, 22) => Some(Encoding::HashFieldsValkey),
            (Magic::Redis, 22) => Some(Encoding::HashFieldsPreGa),
            (Magic::Redis, 23) => Some(Encoding::HashListpackFieldsPreGa),
            (Magic::Redis, 24) => Some(Encoding::HashFields),
            (Magic::Redis, 25) => Some(Encoding::HashListpackFields),
            (Magic::Redis, 26) => Some(Encoding::Stream(4)),
            (Magic::Redis, 27) => Some(Encoding::Stream(5)),
            _ => None,
        }
    }

    /// The type of the value.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Encoding::String => Kind::String,
            Encoding::List | Encoding::ListZiplist | Encoding::Quicklist | Encoding::Quicklist2 => Kind::List,
            Encoding::Set | Encoding::SetIntset | Encoding::SetListpack => Kind::Set,
            Encoding::ZsetText | Encoding::Zset | Encoding::ZsetZiplist | Encoding::ZsetListpack => Kind::Zset,
            Encoding::Hash
            | Encoding::HashZipmap
            | Encoding::HashZiplist
            | Encoding::HashListpack
            | Encoding::HashFieldsPreGa
            | Encoding::HashListpackFieldsPreGa
            | Encoding::HashFields
            | Encoding::HashListpackFields
            | Encoding::HashFieldsValkey => Kind::Hash,
            Encoding::Stream(_) => Kind::Stream,
            Encoding::ModulePreGa | Encoding::Module => Kind::Module,
        }
    }

    /// Its name, for people who read about a damaged file.
    /// The name of a packed form as redis-server's log has it where one is damaged; None of what is not packed. `in_blob`: the
    /// fault is in the packed bytes themselves, which a stream is more than.
    pub(crate) fn form(self, in_blob: bool) -> Option<&'static str> {
        match self {
            Encoding::String | Encoding::List | Encoding::Set | Encoding::Hash => None,
            Encoding::Zset | Encoding::ZsetText | Encoding::Module | Encoding::ModulePreGa => None,
            Encoding::HashFields | Encoding::HashFieldsPreGa | Encoding::HashFieldsValkey => None,
            Encoding::HashZipmap => Some("Zipmap"),
            Encoding::ListZiplist => Some("Ziplist"),
            Encoding::SetIntset => Some("Intset"),
            Encoding::ZsetZiplist => Some("Zset ziplist"),
            Encoding::HashZiplist => Some("Hash ziplist"),
            Encoding::Quicklist => Some("Quicklist ziplist"),
            Encoding::HashListpack => Some("Hash listpack"),
            Encoding::ZsetListpack => Some("Zset listpack"),
            Encoding::Quicklist2 => Some("Quicklist listpack"),
            Encoding::SetListpack => Some("Set listpack"),
            Encoding::Stream(_) => Some(if in_blob { "Stream listpack" } else { "Stream" }),
            Encoding::HashListpackFieldsPreGa | Encoding::HashListpackFields => Some("Hash listpack"),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Encoding::String => "string",
            Encoding::List => "list",
            Encoding::Set => "set",
            Encoding::ZsetText => "sorted set with scores as text",
            Encoding::Zset => "sorted set",
            Encoding::Hash => "hash",
            Encoding::ModulePreGa => "module value of the first form",
            Encoding::Module => "module value",
            Encoding::HashZipmap => "hash as zipmap",
            Encoding::ListZiplist => "list as ziplist",
            Encoding::SetIntset => "set as intset",
            Encoding::ZsetZiplist => "sorted set as ziplist",
            Encoding::HashZiplist => "hash as ziplist",
            Encoding::Quicklist => "quicklist of ziplists",
            Encoding::HashListpack => "hash as listpack",
            Encoding::ZsetListpack => "sorted set as listpack",
            Encoding::Quicklist2 => "quicklist of listpacks",
            Encoding::SetListpack => "set as listpack",
            Encoding::Stream(_) => "stream",
            Encoding::HashFieldsPreGa | Encoding::HashFields | Encoding::HashFieldsValkey => "hash with field expiry",
            Encoding::HashListpackFieldsPreGa | Encoding::HashListpackFields => "hash with field expiry as listpack",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_looked_up_by_its_dialect() {
        let of = |magic, version, number| Encoding::of(Dialect::of(magic, version).unwrap(), number);
        assert_eq!(of(Magic::Redis, 12, 22), Some(Encoding::HashFieldsPreGa));
        assert_eq!(of(Magic::Valkey, 80, 22), Some(Encoding::HashFieldsValkey));
        assert_eq!(of(Magic::Valkey, 80, 24), None);
        assert_eq!(of(Magic::Redis, 1, 8), None);
        assert_eq!(Dialect::of(Magic::Redis, 0), None);
        assert_eq!(Dialect::of(Magic::Redis, 80), None);
        assert_eq!(Dialect::of_dump(80).map(|dialect| dialect.magic), Some(Magic::Valkey));
        assert_eq!(Dialect::of_dump(16), None);
    }
}
