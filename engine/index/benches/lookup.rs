//! Lookup hit, lookup miss and insert, beside hashbrown holding the same references.
//!
//! 1 k and 1 M entries; 20 M too when VARVE_BENCH_LARGE is set. References are numbers and their hash is a mix of
//! them, so that nothing but the index is touched: what a store adds is one access of the object.

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use hashbrown::HashTable;
use std::hint::black_box;
use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::hash::mix64;
use varve_base::rng::Rng;
use varve_index::{IndexGeometry, IndexTable, Rehash};

struct Mixed;

impl Rehash for Mixed {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        mix64(r.bits())
    }
}

fn r(bits: u64) -> Ref {
    // SAFETY: in range, never followed.
    unsafe { Ref::from_bits(bits) }
}

fn sizes() -> Vec<u64> {
    let mut sizes = vec![1_000, 1_000_000];
    if std::env::var_os("VARVE_BENCH_LARGE").is_some() {
        sizes.push(20_000_000);
    }
    sizes
}

fn ours(many: u64) -> IndexTable {
    let mut table = IndexTable::new(IndexGeometry::default());
    (1..=many).for_each(|i| table.insert(mix64(i), r(i), &Mixed));
    while table.step(&Mixed, 64) {}
    table
}

fn theirs(many: u64) -> HashTable<Ref> {
    let mut table = HashTable::new();
    for i in 1..=many {
        table.insert_unique(mix64(i), r(i), |r| mix64(r.bits()));
    }
    table
}

fn lookups(c: &mut Criterion) {
    for many in sizes() {
        let (table, rival) = (ours(many), theirs(many));
        for (what, base) in [("hit", 0), ("miss", many)] {
            let mut group = c.benchmark_group(what);
            let mut rng = Rng::seeded(1);
            let mut draw = move || base + 1 + rng.below(many);
            group.bench_function(BenchmarkId::new("index", many), |b| {
                b.iter(|| {
                    let key = draw();
                    table.find(mix64(key), |r| r.bits() == key).map(|entry| table.get(entry))
                });
            });
            let mut rng = Rng::seeded(1);
            let mut draw = move || base + 1 + rng.below(many);
            group.bench_function(BenchmarkId::new("hashbrown", many), |b| {
                b.iter(|| {
                    let key = draw();
                    rival.find(mix64(key), |r| r.bits() == key).copied()
                });
            });
        }
    }
}

/// A table filled from nothing, growth included.
fn inserts(c: &mut Criterion) {
    let mut group = c.benchmark_group("insert all");
    group.sample_size(10);
    for many in sizes() {
        group.throughput(criterion::Throughput::Elements(many));
        group.bench_function(BenchmarkId::new("index", many), |b| {
            b.iter_batched(
                || IndexTable::new(IndexGeometry::default()),
                |mut table| {
                    (1..=many).for_each(|i| table.insert(mix64(i), r(i), &Mixed));
                    black_box(table)
                },
                BatchSize::PerIteration,
            );
        });
        group.bench_function(BenchmarkId::new("hashbrown", many), |b| b.iter(|| black_box(theirs(many))));
    }
}

criterion_group!(benches, lookups, inserts);
criterion_main!(benches);
