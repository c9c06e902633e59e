//! The small types that commands and the store share: what a write does to an expiry, how it is refused, what a key's
//! report says.

use super::types::Type;

/// Bytes of the largest value that the store takes.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// The effect of a write on a key's time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// The key has no expiry afterwards.
    Clear,
    /// The key keeps the expiry that it has.
    Keep,
    /// The key expires at this time, in milliseconds of Unix time.
    At(i64),
}

/// The write was refused: the store is at its memory limit and the policy frees nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Why a write that may be tried again is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It is refused ([`OutOfMemory`]).
    OutOfMemory,
    /// All that might be freed is behind locks that others hold. No word is said about the limit: the write is put back.
    Busy,
}

impl From<OutOfMemory> for NotAdmitted {
    fn from(_: OutOfMemory) -> NotAdmitted {
        NotAdmitted::OutOfMemory
    }
}

/// The facts of a key that OBJECT, MEMORY USAGE and DEBUG OBJECT report.
#[derive(Clone, Debug)]
pub struct ObjectInfo {
    /// Type of the value.
    pub ty: Type,
    /// Name of the encoding, as Redis 7.0.15 names it.
    pub encoding: &'static str,
    /// COPY made it: an integer in it is the key's own.
    pub is_copy: bool,
    /// Seconds since the last use; of no meaning under policies that count uses.
    pub idle_s: u64,
    /// Logarithmic counter of uses; 0 under policies that do not count them.
    pub freq: u8,
    /// Bytes in segments and index.
    pub bytes: usize,
    /// Length of the serialised value, as DEBUG OBJECT reports it.
    pub serialized_bytes: usize,
}
