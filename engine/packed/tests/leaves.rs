//! Leaves beside a list of what they hold, and damaged leaves.

#[allow(unreachable_pub, reason = "shared with the fuzz target")]
mod leaf_model;

use std::panic::catch_unwind;

use leaf_model::{LeafOp, LeafWorld};
use varve_base::rng::Rng;
use varve_packed::leaf::PackedLeaf;

fn random_element(rng: &mut Rng, longest: u64) -> Vec<u8> {
    let len = if rng.below(8) == 0 { rng.below(longest + 1) } else { rng.below(12) };
    (0..len).map(|_| rng.below(3) as u8).collect()
}

#[test]
fn leaves_do_as_lists_do() {
    for seed in 0..60 {
        let mut rng = Rng::seeded(seed);
        let mut world = LeafWorld::new(4 + rng.below(64) as usize);
        let longest = [10, 255, 256, 700, 20_000][seed as usize % 5];
        let some_elsewhere = seed % 8 == 7;
        for _ in 0..400 {
            let (element, tag) = (random_element(&mut rng, longest), rng.below(6) as u8);
            let (number, is_few) = (rng.below(1000) as usize, world.len() < 120);
            world.apply(&match rng.below(10) {
                0..=3 if is_few => LeafOp::Push(tag, element, number),
                4 if some_elsewhere && is_few && tag == 0 => LeafOp::InsertElsewhere(number, tag, rng.next_u64()),
                4 if is_few => LeafOp::Insert(number, tag, element),
                5 if some_elsewhere && is_few => LeafOp::PushElsewhere(tag, rng.next_u64()),
                5..=6 if some_elsewhere && rng.below(4) == 0 => LeafOp::ReplaceElsewhere(number, 77),
                5..=6 => LeafOp::Replace(number, element),
                7..=8 => LeafOp::Remove(number),
                _ => LeafOp::Copy(rng.below(9) as usize),
            });
            world.apply(&LeafOp::Find(tag, 3));
        }
    }
}

#[test]
fn a_leaf_of_many_bytes_is_as_sound_as_a_small_one() {
    let mut world = LeafWorld::new(4);
    for n in 0..40 {
        world.apply(&LeafOp::Push(n as u8, vec![n as u8; 8_000 + n], n));
    }
    world.apply(&LeafOp::Replace(3, vec![7; 9_000]));
    (0..20).for_each(|_| world.apply(&LeafOp::Remove(11)));
    assert!(PackedLeaf::open(world.bytes()).bytes() > 1 << 16, "more bytes than the low half of the head counts");
}

#[test]
fn sizes_are_summed_however_many_there_are() {
    let mut world = LeafWorld::new(4);
    (0..1030).for_each(|n| world.apply(&LeafOp::Push(n as u8, vec![1; 255 - n % 2], 0)));
}

#[test]
fn damage_is_found() {
    let mut world = LeafWorld::new(64);
    world.apply(&LeafOp::Push(7, b"seven".to_vec(), 0));
    world.apply(&LeafOp::Push(8, b"eight".to_vec(), 0));
    let more = "more elements than bytes";
    for (at, what) in [(1, more), (2, "the sizes are not"), (3, more), (6, "the sizes")] {
        let mut buf = world.bytes().to_vec();
        buf[at] ^= 0x10;
        let fault = PackedLeaf::check(&buf).expect_err("damage");
        assert!(fault.what.starts_with(what), "{at}: {fault:?}");
    }
    assert_eq!(PackedLeaf::check(&[0; 3]).expect_err("too short").what, "no head");
    assert!(catch_unwind(|| PackedLeaf::open(&[2, 0, 9, 0, 1]).len()).is_err(), "elements beyond the buffer");
}
