//! The costs of the gate for a batch, and of a histogram for a background step.

use criterion::{Criterion, criterion_group, criterion_main};
use varve_base::hist::Hist;
use varve_base::rank::{Rank, RankedMutex};
use varve_store::gate::Gate;

fn gate(c: &mut Criterion) {
    let gate = Gate::new(4);
    c.bench_function("gate/enter_and_leave", |b| b.iter(|| drop(gate.enter(1))));
    c.bench_function("gate/alone_of_4", |b| b.iter(|| drop(gate.exclusive(1))));
    let shard = RankedMutex::new(Rank::Shard(0), 0u64);
    c.bench_function("rank/try_lock", |b| b.iter(|| *shard.try_lock().expect("free") += 1));
    let hist = Hist::new();
    let mut ns = 1;
    c.bench_function("hist/record", |b| {
        b.iter(|| {
            ns = ns * 5 % 1_000_003;
            hist.record_ns(ns);
        })
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(std::time::Duration::from_millis(200)).measurement_time(std::time::Duration::from_millis(500));
    targets = gate
}
criterion_main!(benches);
