//! Bytes become operations on a packed leaf and on a list of what it holds; or they are taken for a leaf, or for a field and
//! its value, and must be refused or readable.
//!
//! The first byte chooses, the second is the capacity; then four bytes an operation: what, a tag, and two of a number.

#![no_main]

#[allow(unreachable_pub, dead_code, reason = "shared with the tests of the crate")]
#[path = "../../engine/packed/tests/leaf_model/mod.rs"]
mod leaf_model;

use leaf_model::{LeafOp, LeafWorld};
use libfuzzer_sys::fuzz_target;
use varve_packed::leaf::{PackedLeaf, PackedLeafMut, pair};

/// Everything is compared after each operation, so longer inputs only waste time.
const OPERATIONS_MAX: usize = 200;

fuzz_target!(|bytes: &[u8]| {
    let [first, second, rest @ ..] = bytes else { return };
    match first % 4 {
        0 => damaged(rest),
        1 => damaged_pair(rest),
        _ => {
            let mut world = LeafWorld::new((*second).into());
            rest.chunks_exact(4).take(OPERATIONS_MAX).for_each(|operation| world.apply(&op(operation, first / 4)));
        }
    }
});

fn op(bytes: &[u8], spread: u8) -> LeafOp {
    let (tag, number) = (bytes[1] % (1 + spread), usize::from(bytes[2]) | usize::from(bytes[3]) << 8);
    let element = || {
        let len = match bytes[2] % 8 {
            0 => 250 + usize::from(bytes[3] % 12),
            1 => number % 2000,
            _ => usize::from(bytes[3] % 16),
        };
        vec![bytes[1]; len]
    };
    match bytes[0] % 16 {
        0..4 => LeafOp::Push(tag, element(), number),
        4 => LeafOp::Insert(number, tag, element()),
        5 => LeafOp::InsertElsewhere(number, tag, number as u64),
        6 => LeafOp::PushElsewhere(tag, number as u64),
        7..10 => LeafOp::Replace(bytes[0] as usize / 16, element()),
        10 => LeafOp::ReplaceElsewhere(number, u64::from(tag)),
        11..14 => LeafOp::Remove(number),
        14 => LeafOp::Copy(number % 300),
        _ => LeafOp::Find(tag, number % 20),
    }
}

/// Bytes that pass the check can be read, copied and changed.
fn damaged(bytes: &[u8]) {
    let Ok(leaf) = PackedLeaf::check(bytes) else { return };
    assert_eq!(leaf.iter().count(), leaf.len());
    let mut larger = vec![0; leaf.copied_bytes() + 300];
    leaf.copy_into(&mut larger).expect("large enough");
    let mut leaf = PackedLeafMut::open(&mut larger);
    if leaf.push(1, &[b"one", b" more"]).is_ok() {
        let pos = leaf.leaf().pos(0);
        leaf.remove(pos);
    }
    PackedLeaf::check(&larger).expect("a sound leaf stays one");
}

/// A pair that passes the check is the one that its field, its value and the time at which it expires make.
fn damaged_pair(bytes: &[u8]) {
    if bytes.len() > usize::from(u16::MAX) || pair::check(bytes).is_err() {
        return;
    }
    let (field, value) = pair::split(bytes);
    let (mut field_text, mut value_text) = ([0; 20], [0; 20]);
    let coded = pair::LeafField::of(field.text(&mut field_text));
    assert!(coded.is_of(bytes));
    let (value, same) = (value.text(&mut value_text), |parts: &[&[u8]]| assert_eq!(parts.concat(), bytes));
    match pair::expiry_ms(bytes) {
        Some(expiry_ms) => coded.with_expiring(value, expiry_ms, same),
        None => coded.with_value(value, same),
    }
}
