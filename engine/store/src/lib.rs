//! The keyspace: shards, gate, strings, expiry, eviction.

#![forbid(unsafe_code)]
