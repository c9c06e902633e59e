//! The timing wheel: adding entries and getting them out. Times are for a whole round; throughput is per entry.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use varve_store::wheel::Wheel;

const START_MS: i64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;

/// Entries with due times spread over `span_ms`, in no order.
fn entries(n: u64, span_ms: u64) -> Vec<(u64, i64)> {
    let mix = |i: u64| {
        (i + 1).wrapping_mul(varve_base::hash::GOLDEN_RATIO).rotate_left(29).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    (0..n).map(|i| (mix(i) >> 16, START_MS + 1 + (mix(i ^ n) % span_ms) as i64)).collect()
}

fn filled(entries: &[(u64, i64)]) -> Wheel {
    let mut wheel = Wheel::new();
    let _ = wheel.advance(START_MS, 0, &mut Vec::new());
    entries.iter().for_each(|&(bits, due)| wheel.add(bits, due));
    wheel
}

/// One wheel of 4 k entries is a shard's share of a million volatile keys; 1 M in one wheel is out of the caches.
fn wheel(c: &mut Criterion) {
    for (name, n, span_ms) in [("4k_1h", 4_000, HOUR_MS), ("4k_4s", 4_000, 4_000), ("1M_1h", 1_000_000, HOUR_MS)] {
        let entries = entries(n, span_ms);
        let mut group = c.benchmark_group(format!("wheel/{name}"));
        group.throughput(Throughput::Elements(n)).sample_size(10);
        group.bench_function("add", |b| {
            b.iter_batched(
                || filled(&[]),
                |mut wheel| {
                    entries.iter().for_each(|&(bits, due)| wheel.add(bits, due));
                    wheel
                },
                BatchSize::LargeInput,
            );
        });
        group.bench_function("advance", |b| {
            b.iter_batched(
                || (filled(&entries), Vec::with_capacity(64)),
                |(mut wheel, mut out)| {
                    let mut now_ms = START_MS;
                    while let Some(next_ms) = wheel.next_due(now_ms) {
                        now_ms = next_ms;
                        while wheel.advance(now_ms, 64, &mut out).more {
                            black_box(&out);
                            out.clear();
                        }
                        out.clear();
                    }
                    wheel
                },
                BatchSize::LargeInput,
            );
        });
        group.finish();
        println!("wheel/{name}: {:.1} bytes an entry", filled(&entries).bytes() as f64 / n as f64);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(std::time::Duration::from_millis(300)).measurement_time(std::time::Duration::from_secs(1));
    targets = wheel
}
criterion_main!(benches);
