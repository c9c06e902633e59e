//! Bytes become operations on a packed node or a set of integers and on what they mean; or they are taken for a node,
//! a compressed node or a set themselves, and must be refused or readable.
//!
//! The first byte chooses, two choose the capacity; then six bytes an operation: what, an index, and a text.

#![no_main]

#[path = "../../engine/packed/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use model::{Ints, Op, Text, World, grow};
use varve_packed::intset::IntSet;
use varve_packed::node::{CompressedNode, Grow, Node, NodeMut, expand};

/// Everything is compared after each operation, so longer inputs only waste time.
const OPERATIONS_MAX: usize = 200;
/// Entries that a damaged compressed node may claim to hold, in bytes.
const EXPANDED_MAX: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let [first, rest @ ..] = bytes else { return };
    match first % 4 {
        0 => damaged(rest),
        1 => integers(rest),
        _ => node(*first, rest),
    }
});

fn node(first: u8, bytes: &[u8]) {
    let [low, high, operations @ ..] = bytes else { return };
    let capacity = match first / 4 % 3 {
        0 => usize::from(*low),
        1 => 240 + usize::from(*low % 32),
        _ => usize::from(*low) | usize::from(*high % 4) << 8,
    };
    let mut world = World::new(capacity, grow(*high));
    for operation in operations.chunks_exact(6).take(OPERATIONS_MAX) {
        world.apply(&op(operation));
    }
}

fn op(bytes: &[u8]) -> Op {
    let index = usize::from(bytes[1]);
    let number = usize::from(bytes[3]) | usize::from(bytes[4]) << 8;
    let text = match bytes[2] % 8 {
        0 => Text::Int(i64::from(bytes[3] as i8)),
        1 => Text::Int((i64::from(bytes[3] as i8)) << (bytes[4] % 57)),
        2 => Text::Int((i64::from(bytes[3] as i8)).wrapping_mul(0x0102_0408_1020_4081)),
        3 => Text::Digits(usize::from(bytes[3] % 24)),
        4 => Text::Bytes(bytes[4], number % 5000),
        5 => Text::Bytes(bytes[4], 56 + usize::from(bytes[3] % 64)),
        _ => Text::Bytes(bytes[4] % 4, usize::from(bytes[3] % 16)),
    };
    match bytes[0] % 24 {
        0..3 => Op::PushFront(text),
        3..6 => Op::PushBack(text),
        6 => Op::PopFront,
        7 => Op::PopBack,
        8 | 9 => Op::InsertBefore(index, text),
        10 => Op::InsertAfter(index, text),
        11 | 12 => Op::Replace(index, text),
        13 => Op::Remove(index),
        14 => Op::RemoveRange(index, usize::from(bytes[3] % 8)),
        15 => Op::RemoveIndices(index, usize::from(bytes[3])),
        16 => Op::Find(index, 1 + usize::from(bytes[3] % 3)),
        17 => Op::FindText(text),
        18 => Op::Split(index, bytes[3].is_multiple_of(2)),
        19 => Op::Halves(index, bytes[3].is_multiple_of(2)),
        20 => Op::Resize(number % 600, bytes[5]),
        21 => Op::GrowInPlace(number % 300),
        22 => Op::Trim,
        _ if number % 16 == 0 => Op::Clear(bytes[5]),
        _ => Op::Compress,
    }
}

fn integers(bytes: &[u8]) {
    let mut ints = Ints::new();
    for operation in bytes.chunks_exact(3).take(OPERATIONS_MAX) {
        let value = i64::from(operation[1] as i8).wrapping_shl(u32::from(operation[2] % 64));
        match operation[0] % 8 {
            0..5 => ints.insert(value),
            5 | 6 => ints.remove(value),
            _ => ints.narrow(),
        }
    }
}

/// Bytes that pass the check can be read from either end to the other.
fn damaged(bytes: &[u8]) {
    if let Ok(node) = Node::check(bytes) {
        assert_eq!(node.iter().count(), node.iter().rev().count());
        let mut larger = vec![0; node.needed_bytes(5)];
        node.copy_into(&mut larger, Grow::Both).expect("large enough");
        NodeMut::open(&mut larger).push_back(&varve_packed::node::Coded::int(1 << 12)).expect("room for five bytes");
        Node::check(&larger).expect("a sound node stays one");
    }
    if let Ok(set) = IntSet::check(bytes) {
        set.verify();
    }
    if let Ok(compressed) = CompressedNode::open(bytes)
        && compressed.bytes() <= EXPANDED_MAX
    {
        let mut into = vec![0; EXPANDED_MAX + 16];
        if expand(compressed, &mut into, Grow::Back).is_ok() {
            let _ = Node::check(&into);
        }
    }
}
