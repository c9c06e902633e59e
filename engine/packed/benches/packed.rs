//! Pushes and pops at both ends, a search over 8 KB, the middle of a node, and sets of integers.
//!
//! The figures to look at: pushes and pops cost the same at every capacity, in one direction and when a node turns round.
//! Throughput is per entry where a routine does many.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use varve_packed::intset::{self, IntSet, IntSetMut};
use varve_packed::node::{Coded, CompressedNode, Compressor, Grow, Node, NodeMut, compress_bound, expand};

const CAPACITIES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
const FORTY: &[u8] = b"forty bytes, as the quicklist's sheet has";

/// A node with entries of `make(i)` until `free` bytes are left.
fn filled(capacity: usize, free: usize, make: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut buf = vec![0; capacity];
    let mut node = NodeMut::init(&mut buf, Grow::Back).expect("room for a header");
    for i in 0.. {
        let text = make(i);
        let coded = Coded::of(&text);
        if node.node().room() < free + coded.size() || node.push_back(&coded).is_err() {
            break;
        }
    }
    buf
}

/// Fills an empty node and empties it again.
fn ends(c: &mut Criterion) {
    let mut group = c.benchmark_group("ends");
    for capacity in CAPACITIES {
        let many = Node::open(&filled(capacity, 0, |_| FORTY.to_vec())).len();
        group.throughput(Throughput::Elements(2 * many as u64));
        for (name, front_in, front_out) in [("push_back_pop_front", false, true), ("push_front_pop_back", true, false)]
        {
            group.bench_function(BenchmarkId::new(name, capacity), |b| {
                let mut buf = vec![0; capacity];
                let at = if front_in { Grow::Front } else { Grow::Back };
                b.iter(|| {
                    let mut node = NodeMut::init(&mut buf, at).expect("room for a header");
                    for _ in 0..many {
                        let coded = Coded::of(black_box(FORTY));
                        if front_in { node.push_front(&coded) } else { node.push_back(&coded) }.expect("room");
                    }
                    for _ in 0..many {
                        black_box(if front_out { node.pop_front() } else { node.pop_back() });
                    }
                });
            });
        }
    }
    group.finish();
}

/// The last becomes the first, in a node with an eighth of its room free, and with a thirty-second: what slides cost.
fn turn(c: &mut Criterion) {
    let mut group = c.benchmark_group("turn");
    for capacity in CAPACITIES {
        for part in [8, 32] {
            let mut buf = filled(capacity, capacity / part, |_| FORTY.to_vec());
            group.bench_function(BenchmarkId::new(format!("one_{part}th_free"), capacity), |b| {
                b.iter(|| {
                    let mut node = NodeMut::open(&mut buf);
                    black_box(node.pop_back());
                    node.push_front(&Coded::of(black_box(FORTY))).expect("room");
                });
            });
        }
    }
    group.finish();
}

fn walks(c: &mut Criterion) {
    let strings = filled(8 << 10, 0, |i| format!("a field of some length, number {i:06}").into_bytes());
    let mixed = filled(8 << 10, 0, |i| vec![b'x'; i * 7919 % 40]);
    let integers = filled(8 << 10, 0, |i| (i * 977 % 100_000).to_string().into_bytes());
    let mut group = c.benchmark_group("walk_8k");
    for (name, buf) in [("strings", &strings), ("mixed", &mixed), ("integers", &integers)] {
        let node = Node::open(buf);
        let (first, len) = (node.first().expect("filled"), node.len());
        println!("{name}: {len} entries");
        let absent = vec![b'z'; 38];
        for (kind, needle) in
            [("find_absent", absent.as_slice()), ("find_like", b"a field of some length, number 999999")]
        {
            group.bench_function(BenchmarkId::new(kind, name), |b| {
                b.iter(|| black_box(node).find(&Coded::of(black_box(needle)), first, 1));
            });
        }
        group.bench_function(BenchmarkId::new("nth_middle", name), |b| {
            b.iter(|| black_box(node).nth(black_box(len / 2)));
        });
        group.bench_function(BenchmarkId::new("nth_before_middle", name), |b| {
            b.iter(|| black_box(node).nth(black_box(len / 2 + 1)));
        });
    }
    group.finish();
}

fn small_hash(c: &mut Criterion) {
    let mut buf = vec![0; 200];
    let mut node = NodeMut::init(&mut buf, Grow::Back).expect("room for a header");
    for i in 0..8 {
        node.push_back(&Coded::of(format!("field{i}").as_bytes())).expect("room");
        node.push_back(&Coded::of(format!("value{i}").as_bytes())).expect("room");
    }
    c.bench_function("hash_8_fields/get", |b| {
        b.iter(|| {
            let node = Node::open(black_box(&buf));
            let found = node.find(&Coded::of(black_box(b"field5")), node.first()?, 2)?.0;
            node.next(found).map(|place| node.get(place).text_len())
        });
    });
    c.bench_function("hash_8_fields/replace", |b| {
        let mut long = false;
        b.iter(|| {
            let mut node = NodeMut::open(black_box(&mut buf));
            let first = node.node().first().expect("filled");
            let found = node.node().find(&Coded::of(black_box(b"field5")), first, 2).expect("there").0;
            let place = node.node().next(found).expect("a value");
            long = !long;
            node.replace(place, &Coded::of(if long { b"a longer value" } else { b"value" })).expect("room")
        });
    });
}

fn compress(c: &mut Criterion) {
    let buf = filled(8 << 10, 0, |i| format!("a field of some length, number {i:06}").into_bytes());
    let (mut compressor, mut out) = (Compressor::default(), vec![0; compress_bound(8 << 10)]);
    let size = compressor.compress(Node::open(&buf), &mut out).expect("it is regular");
    println!("8192 bytes become {size}");
    let image = out[..size].to_vec();
    c.bench_function("lz4_8k/compress", |b| b.iter(|| compressor.compress(Node::open(black_box(&buf)), &mut out)));
    let mut again = vec![0; 8 << 10];
    c.bench_function("lz4_8k/expand", |b| {
        b.iter(|| expand(CompressedNode::open(black_box(&image)).expect("sound"), &mut again, Grow::Back));
    });
}

fn integers(c: &mut Criterion) {
    let mut group = c.benchmark_group("intset_512");
    for (name, spread) in [("16", 50i64), ("32", 1 << 20), ("64", 1 << 40)] {
        let mut buf = vec![0; intset::buffer_bytes(513, intset::Width::Eight)];
        let mut set = IntSetMut::init(&mut buf).expect("room for a header");
        (0..512).for_each(|i| assert_eq!(set.insert(i * spread), Ok(true)));
        let set = IntSet::open(&buf);
        group.bench_function(BenchmarkId::new("contains", name), |b| {
            let mut i = 0;
            b.iter(|| {
                i = (i + 331) & 511;
                black_box(set).contains(i * spread)
            });
        });
        group.bench_function(BenchmarkId::new("insert_remove_middle", name), |b| {
            b.iter_batched_ref(
                || buf.clone(),
                |buf| {
                    let mut set = IntSetMut::open(buf);
                    black_box(set.insert(256 * spread + 1)).expect("room");
                    set.remove(256 * spread + 1)
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(100))
        .measurement_time(std::time::Duration::from_millis(400));
    targets = ends, turn, walks, small_hash, compress, integers
}
criterion_main!(benches);
