//! Bytes become operations on a log of kilobyte segments and on a naive list beside it; everything is compared at the end.
//!
//! One byte chooses the geometry; then five bytes an operation: what, and two numbers for it.

#![no_main]

#[path = "../../engine/segment/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use model::{Model, Op, tiny};
use varve_segment::{ObjectKind, SegmentClass};

const OPERATIONS_MAX: usize = 1_000;

fuzz_target!(|bytes: &[u8]| {
    let [geometry, operations @ ..] = bytes else { return };
    let mut model = Model::new(tiny(geometry % 2 == 0));
    for bytes in operations.chunks_exact(5).take(OPERATIONS_MAX) {
        let one = usize::from(bytes[1]) | usize::from(bytes[2]) << 8;
        let two = usize::from(bytes[3]) | usize::from(bytes[4]) << 8;
        model.step(operation(bytes[0], one, two));
    }
    model.check();
    model.finish();
});

fn operation(what: u8, one: usize, two: usize) -> Op {
    let class = [SegmentClass::Ordinary, SegmentClass::Volatile, SegmentClass::Survivor][two % 3];
    // None, six bytes, eight bytes.
    let expiry = [None, None, Some(one as i64), Some(-(two as i64))][one % 4];
    // Mostly short; at times for a piece of its own or a run.
    let len = if two.is_multiple_of(8) { two / 4 } else { two % 256 };
    match what % 32 {
        0..10 => Op::Append {
            kind: [ObjectKind::key(1), ObjectKind::key(7), ObjectKind::part(8), ObjectKind::part(14), ObjectKind::BARE]
                [one / 4 % 5],
            key_len: 1 + if one.is_multiple_of(64) { one / 32 } else { one % 40 },
            len,
            extra: if one.is_multiple_of(8) { one / 128 } else { 0 },
            expiry,
            class,
            clock: one as u32 * 257,
        },
        10 => Op::Adopt { key_len: 1 + one % 3000, len: 2049 + two % 20_000, expiry },
        11..15 => Op::Kill(one),
        15 | 16 => Op::Resize(one, len),
        17 if two.is_multiple_of(2) => Op::Extend(one, two / 2 % 50, two / 128),
        17 => Op::Rename(one, two / 2 % 3000),
        18 if two.is_multiple_of(2) => Op::Write(one, two / 2, one % 300),
        18 => Op::Expire(one, [None, Some(two as i64), Some(-(two as i64))][two % 3]),
        19 => Op::Mark(one, two as u32 * 257, two.is_multiple_of(2)),
        20 => Op::Relocate(one, class),
        21 => Op::Pin(one),
        22 if two.is_multiple_of(2) => Op::Read(one, two / 2, one % 3000),
        22 => Op::Unpin(one),
        23 | 24 => Op::Park,
        25 => Op::Choose,
        26..29 => Op::Drain { which: one, objects: 1 + one % 64, evict: two as u8, busy: (two >> 8) as u8 },
        29 => Op::Release(1 + one),
        30 => Op::SealAll,
        _ if one.is_multiple_of(8) => Op::Clear,
        _ => Op::Abandon(one),
    }
}
