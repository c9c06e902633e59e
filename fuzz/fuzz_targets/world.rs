//! Bytes become operations on keys of every type, done to a store and to a model of it, by two workers on segments of
//! 8 KB with the least limits of encodings; the background runs in single steps in between.
//!
//! One byte chooses the store's shape and its limits; then four bytes an operation: what, a key, another or an element,
//! a number (`engine/store/tests/models/all_types`).

#![no_main]

#[path = "../../engine/store/tests/models/all_types/mod.rs"]
mod all_types;

use all_types::{Op, World};
use libfuzzer_sys::fuzz_target;

/// The key that it was about is compared after each operation, so longer inputs only waste time.
const OPERATIONS_MAX: usize = 500;

fuzz_target!(|bytes: &[u8]| {
    let [shape, operations @ ..] = bytes else { return };
    let mut world = World::new(*shape);
    for op in operations.chunks_exact(4).take(OPERATIONS_MAX) {
        world.apply(Op { what: op[0], one: op[1], two: op[2], number: op[3] });
    }
    world.finish();
});
