//! A turn of a worker's loop costs this besides commands: background steps of which none is owed, with one worker, and with
//! 64 on threads of this machine. What all workers share is read only, so a turn costs the same beside others.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use varve_store::{Options, Store};

const WORKERS: usize = 64;
const NOW_MS: i64 = 1_795_000_000_000;
/// Turns of a thread, whole: starting it is to count for little.
const TURNS: u64 = 10_000;

fn rested(workers: usize) -> Arc<Store> {
    let store = Store::new(&Options { workers, ..Options::default() }).expect("an address range");
    for id in 0..workers {
        let mut worker = store.worker(id);
        while worker.background(NOW_MS, Duration::from_millis(1)).is_some_and(|due| due <= NOW_MS) {}
    }
    store
}

/// Time that one worker's `turns` turns take a core, each of the workers on a thread of its own.
fn turns(store: &Arc<Store>, workers: usize, turns: u64) -> Duration {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(workers);
    let start = Instant::now();
    std::thread::scope(|s| {
        for id in 0..workers {
            s.spawn(move || {
                let mut worker = store.worker(id);
                for _ in 0..turns {
                    black_box(worker.background(NOW_MS, Duration::from_micros(25)));
                    drop(black_box(store.gate().enter(id)));
                }
            });
        }
    });
    start.elapsed() * cores as u32 / workers as u32
}

fn bench(c: &mut Criterion) {
    for workers in [1, WORKERS] {
        let store = rested(workers);
        c.bench_function(&format!("turn/{workers}_workers"), |b| {
            b.iter_custom(|rounds| {
                let whole = rounds.div_ceil(TURNS) * TURNS;
                turns(&store, workers, whole).mul_f64(rounds as f64 / whole as f64)
            })
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(500));
    targets = bench
}
criterion_main!(benches);
