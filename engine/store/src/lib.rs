//! The keyspace: shards, gate, strings, expiry, eviction.

#![forbid(unsafe_code)]

pub mod gate;
pub mod hist;
pub mod rank;
pub mod wheel;
