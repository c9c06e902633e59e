//! The versions that a first byte chooses, for the targets that read RDB files and payloads and for the maker of their seeds.

use varve_rdb::{Dialect, Magic};

/// How a file begins.
#[allow(dead_code, reason = "each user has use for one of the two")]
pub const HEADS: [&[u8]; 10] = [
    b"REDIS0003",
    b"REDIS0006",
    b"REDIS0009",
    b"REDIS0010",
    b"REDIS0011",
    b"REDIS0012",
    b"VALKEY080",
    b"REDIS0015",
    b"VALKEY081",
    // A compressed file: its envelope, and the head of a frame whose blocks stand alone and have no sums.
    b"VCS\x01\x01\x00\x01\x04\x22\x4d\x18\x60\x40\x82",
];

/// How a payload of DUMP ends.
#[allow(dead_code, reason = "each user has use for one of the two")]
pub const VERSIONS: [u16; 7] = [6, 9, 10, 11, 12, 80, 14];

/// The place in [`HEADS`] for a file of this dialect.
#[allow(dead_code, reason = "only the maker of seeds asks")]
pub fn head_of(dialect: Dialect) -> u8 {
    match (dialect.magic, dialect.version) {
        (Magic::Valkey, _) => 6,
        (Magic::Redis, ..=3) => 0,
        (Magic::Redis, ..=6) => 1,
        (Magic::Redis, ..=9) => 2,
        (Magic::Redis, 10) => 3,
        (Magic::Redis, 11) => 4,
        (Magic::Redis, 12) => 5,
        (Magic::Redis, _) => 7,
    }
}

/// The place in [`VERSIONS`] for a value of a file of this dialect.
#[allow(dead_code, reason = "only the maker of seeds asks")]
pub fn version_of(dialect: Dialect) -> u8 {
    match (dialect.magic, dialect.version) {
        (Magic::Valkey, _) => 5,
        (Magic::Redis, ..=6) => 0,
        (Magic::Redis, ..=9) => 1,
        (Magic::Redis, 10) => 2,
        (Magic::Redis, 11) => 3,
        (Magic::Redis, _) => 4,
    }
}
