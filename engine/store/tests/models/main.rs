//! The store's tests on one thread: against models, each type, and each matter by itself. One program: to link twenty would
//! take longer than to run them.

mod all_types;
mod all_types_model;
mod databases;
mod fresh;
mod hashes;
mod limit;
mod lists;
mod memory_usage;
mod one_store;
mod own_dates;
mod policies;
mod sets;
mod small_collection_bounds;
mod small_forms;
mod small_store;
#[path = "../shared/string_writes.rs"]
mod string_writes;
mod strings_model;
mod walker;
mod zsets;

/// The number in a variable of the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}
