//! The store's tests with several threads, which run under the thread sanitizer too, but for the stress test.

mod effects;
mod held_shard;
mod idle_store;
mod interactions;
#[path = "../shared/string_writes.rs"]
mod string_writes;
mod waiters;
mod with_keys;
