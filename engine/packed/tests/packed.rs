//! Random operations on a packed node and a set of integers beside what they mean, everything compared after each.
//! The seed is printed and taken from VARVE_SEED.

#[allow(unreachable_pub, dead_code, reason = "shared with the fuzz target, which uses other parts of it")]
mod model;

use model::{Ints, Op, Text, World, grow};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A runner whose whole sequence follows from one printed seed.
fn runner(cases: u32) -> TestRunner {
    let seed = std::env::var("VARVE_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos() as u64));
    println!("VARVE_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Lengths at and around the bounds of every form.
fn text(longest: usize) -> impl Strategy<Value = Text> + Clone {
    let edges = [0usize, 1, 7, 8, 9, 63, 64, 110, 111, 112, 3694, 3695, 4095, 4096, 65_530, 65_531];
    let edges: Vec<usize> = edges.into_iter().filter(|&len| len <= longest).collect();
    prop_oneof![
        6 => (-200i64..300).prop_map(Text::Int),
        2 => (0u32..64, -1i64..2).prop_map(|(bit, past)| Text::Int((1i64 << bit).wrapping_add(past))),
        2 => (0u32..64).prop_map(|bit| Text::Int((1i64 << bit).wrapping_neg())),
        6 => (0u8..4, 0usize..20).prop_map(|(byte, len)| Text::Bytes(byte, len)),
        2 => (0u8..4, prop::sample::select(edges)).prop_map(|(byte, len)| Text::Bytes(byte, len)),
        1 => (0usize..24).prop_map(Text::Digits),
    ]
}

fn op(longest: usize) -> impl Strategy<Value = Op> {
    let index = any::<u16>().prop_map(usize::from);
    let two = (index.clone(), index.clone());
    let with_text = (index.clone(), text(longest));
    prop_oneof![
        8 => text(longest).prop_map(Op::PushFront),
        8 => text(longest).prop_map(Op::PushBack),
        5 => Just(Op::PopFront),
        5 => Just(Op::PopBack),
        3 => with_text.clone().prop_map(|(i, text)| Op::InsertBefore(i, text)),
        3 => with_text.clone().prop_map(|(i, text)| Op::InsertAfter(i, text)),
        3 => with_text.prop_map(|(i, text)| Op::Replace(i, text)),
        3 => index.clone().prop_map(Op::Remove),
        1 => (index.clone(), 0usize..6).prop_map(|(i, many)| Op::RemoveRange(i, many)),
        1 => two.prop_map(|(a, b)| Op::RemoveIndices(a, b)),
        2 => (index.clone(), 1usize..4).prop_map(|(i, stride)| Op::Find(i, stride)),
        1 => text(longest).prop_map(Op::FindText),
        1 => (index.clone(), any::<bool>()).prop_map(|(i, tail)| Op::Split(i, tail)),
        1 => (index, any::<bool>()).prop_map(|(i, front)| Op::Halves(i, front)),
        2 => (0usize..400, any::<u8>()).prop_map(|(room, at)| Op::Resize(room, at)),
        1 => (0usize..30).prop_map(Op::GrowInPlace),
        1 => Just(Op::Trim),
        1 => Just(Op::Compress),
    ]
}

fn run_node(cases: u32, longest: usize, operations: usize, capacities: std::ops::Range<usize>) {
    let ops = prop::collection::vec(op(longest), 1..operations);
    runner(cases)
        .run(&(capacities, any::<u8>(), ops), |(capacity, at, ops)| {
            let mut world = World::new(capacity, grow(at));
            ops.iter().for_each(|op| world.apply(op));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_tiny_node_agrees_with_a_list() {
    run_node(400, 9, 120, 3..60);
}

#[test]
fn a_node_around_the_width_of_a_byte_agrees_with_a_list() {
    run_node(150, 112, 120, 200..300);
}

#[test]
fn a_node_around_64_kb_agrees_with_a_list() {
    run_node(12, 65_531, 60, 65_500..65_560);
}

#[test]
fn a_set_of_integers_agrees_with_a_tree() {
    let value = prop_oneof![
        4 => -60i64..60,
        1 => (0u32..64, -1i64..2).prop_map(|(bit, past)| (1i64 << bit).wrapping_add(past)),
        1 => (0u32..64).prop_map(|bit| (1i64 << bit).wrapping_neg()),
    ];
    let ops = prop::collection::vec((0u8..10, value), 1..200);
    runner(200)
        .run(&ops, |ops| {
            let mut ints = Ints::new();
            for (what, value) in ops {
                match what {
                    0..6 => ints.insert(value),
                    6..9 => ints.remove(value),
                    _ => ints.narrow(),
                }
            }
            Ok(())
        })
        .unwrap();
}
