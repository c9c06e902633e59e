//! Append and reclaim in bytes a second, beside `memcpy` of the same bytes from one buffer to another.
//!
//! `append/N` writes objects of N bytes of value in batches of 16, each batch parked, into memory that is fresh from the
//! system, whose page faults count; `reclaim/N` drains a log of which every
//! other object is dead, without an index, so it is the log's own cost.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use varve_segment::{
    Access, Appender, DrainState, Log, LogGeometry, NewObject, ObjectHead, ObjectKind, Owner, Ref, Relocate, Relocated,
    SegmentClass,
};

const KEY: [u8; 16] = *b"key:000000000001";
/// Bytes of log that a run works on: more than the caches hold.
const SET: usize = 64 << 20;

fn object(value: &[u8]) -> NewObject<'_> {
    NewObject::new(ObjectKind::key(1), Owner::Database(0), &KEY, value)
}

fn filled(count: usize, value: &[u8]) -> (Log, Appender, Vec<Ref>) {
    let log = Log::new(LogGeometry { reserve_bytes: 4 << 30, ..LogGeometry::default() }).expect("addresses");
    let mut appender = Appender::new();
    let refs = (0..count).map(|_| appender.append(&log, &object(value))).collect();
    appender.park(&log);
    (log, appender, refs)
}

struct Mover<'a> {
    log: &'a Log,
    access: Access,
    appender: Appender,
}

impl Relocate for Mover<'_> {
    fn prepare(&mut self, heads: &[ObjectHead<'_>]) {
        black_box(heads);
    }

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        black_box(self.appender.relocate(self.log, &mut self.access, head.r, SegmentClass::Survivor));
        Relocated::Moved
    }
}

/// Drains victims until `used_bytes` is at most `limit`; answers the time.
fn drain_to(log: &Log, mover: &mut Mover<'_>, limit: u64) -> Duration {
    let start = Instant::now();
    while log.used_bytes() > limit {
        let Some(mut drain) = log.choose_victim() else { break };
        while log.drain_step(&mut drain, mover, 512) != DrainState::Done {}
        mover.appender.park(log);
    }
    start.elapsed()
}

fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("append");
    for len in [16usize, 128, 1024, 16 << 10] {
        let value = vec![7u8; len];
        let bytes = len + KEY.len() + 7 + usize::from(len > 240);
        let count = SET / bytes;
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter_custom(|iterations| {
                let mut time = Duration::ZERO;
                let mut left = iterations as usize;
                while left > 0 {
                    let now = left.min(count);
                    let (log, mut appender, _) = filled(0, &value);
                    let start = Instant::now();
                    for n in 0..now {
                        black_box(appender.append(&log, &object(&value)));
                        if n % 16 == 15 {
                            appender.park(&log);
                        }
                    }
                    appender.park(&log);
                    time += start.elapsed();
                    left -= now;
                }
                time
            });
        });
    }
    group.finish();
}

fn memcpy(c: &mut Criterion) {
    let mut group = c.benchmark_group("memcpy");
    for len in [39usize, 151, 1048, 16_408] {
        let (from, mut to) = (vec![7u8; SET], vec![0u8; SET]);
        let mut at = 0;
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter(|| {
                at = if at + 2 * len > SET { 0 } else { at + len };
                to[at..at + len].copy_from_slice(black_box(&from[at..at + len]));
            });
        });
        black_box(&to);
    }
    group.finish();
}

fn reclaim(c: &mut Criterion) {
    let mut group = c.benchmark_group("reclaim");
    for len in [16usize, 200, 1024] {
        let value = vec![7u8; len];
        let bytes = len + KEY.len() + 7 + usize::from(len > 240);
        let count = SET / bytes;
        // The bytes that are measured for one object: its segment's bytes moved or skipped, half of them live.
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter_custom(|iterations| {
                let mut time = Duration::ZERO;
                let mut left = iterations as i64;
                while left > 0 {
                    let (log, appender, refs) = filled(count, &value);
                    let mut mover = Mover { log: &log, access: log.access(), appender };
                    refs.iter().step_by(2).for_each(|r| mover.access.kill(&log, *r));
                    time += drain_to(&log, &mut mover, (SET / 2 + SET / 16) as u64);
                    left -= count as i64;
                }
                // A whole set is drained each time, whatever was asked for.
                let done = (iterations as i64 - left) as f64;
                time.mul_f64(iterations as f64 / done)
            });
        });
    }
    group.finish();
}

fn open(c: &mut Criterion) {
    let (log, _, refs) = filled(1000, &[7; 32]);
    let access = log.access();
    let mut group = c.benchmark_group("open");
    group.bench_function("key and value, cached", |b| {
        let mut n = 0;
        b.iter(|| {
            n = if n + 1 == refs.len() { 0 } else { n + 1 };
            let object = access.open(&log, refs[n]);
            object.key() == KEY && object.value()[0] == 7
        });
    });
    group.finish();
}

fn config() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10)
}

criterion_group! { name = benches; config = config(); targets = append, memcpy, reclaim, open }
criterion_main!(benches);
