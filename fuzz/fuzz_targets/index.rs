//! Bytes become operations on a table of four buckets and on a naive list beside it; `verify` at the end.
//!
//! Two bytes choose the geometry; then three bytes an operation: what, and a number for it.

#![no_main]

#[path = "../../engine/index/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use model::{HashKind, Op, World};
use varve_index::IndexGeometry;

/// The list is searched from end to end, so longer inputs only waste time.
const OPERATIONS_MAX: usize = 1_000;

fuzz_target!(|bytes: &[u8]| {
    let [first, bounds, operations @ ..] = bytes else { return };
    let mut world = World::new(IndexGeometry {
        first_buckets: 1 + u32::from(first % 8),
        shard_scale: (u32::from(first / 8), 32),
        displace: u32::from(bounds % 4),
        move_buckets: 1 + u32::from(bounds / 4 % 4),
        ..IndexGeometry::default()
    });
    for operation in operations.chunks_exact(3).take(OPERATIONS_MAX) {
        let number = u64::from(operation[1]) | u64::from(operation[2]) << 8;
        let kind = HashKind::of(operation[0] / 16);
        world.apply(match operation[0] % 16 {
            0..6 => Op::Insert(kind, number),
            6..9 => Op::Remove(number),
            9 => Op::Replace(number),
            10 => Op::Find(number),
            11 => Op::FindHash(kind, number),
            12 => Op::Step(operation[1]),
            13 => Op::Scan,
            14 => Op::Sample(number),
            _ if number % 64 == 0 => Op::Clear,
            _ if number % 8 == 1 => Op::Verify,
            _ => Op::RemoveMany(number),
        });
    }
    if first / 8 % 2 == 0 {
        world.finish();
    } else {
        world.drain(u64::from(*bounds));
    }
});
