//! `apply`: a stream of commands, as an append-only file has it, applied by 1 to N workers; no file and no network.
//!
//! ```text
//!  stream in memory --64 KB at a time--> router (a thread) --> worker 0 (a thread)    1 worker: one thread does both in turns
//!                                                          --> worker 1 (a thread)
//! ```
//! Half of the commands are SETs of 64 bytes; the rest is HSET, RPUSH, ZADD and INCR on keys of their own, and a hundredth
//! touches two keys. A figure is the middle of its rounds; `CPU` is that of all threads for a command.

use crate::engine::cpu_ns;
use crate::report::{Better, Findings, Table};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Instant;
use varve_commands::commands;
use varve_exec::CommandTable;
use varve_exec::apply::{Applier, ApplyWorker, Router, WorkerSet};
use varve_exec::stats::CommandStats;
use varve_store::{Options, Store, StoreWorker};
use varve_testkit::Random;

/// Bytes that are routed at once: a piece of a file.
const PIECE_BYTES: usize = 64 << 10;
/// Milliseconds of Unix time at which a store begins.
const START_MS: i64 = 1_795_000_000_000;
/// Throughput of two workers over one's that should be reached.
const TARGET: f64 = 1.5;

/// Runs the experiment with 1 to `threads` workers.
///
/// # Errors
/// When a store cannot be made.
pub(crate) fn run(threads: usize, quick: bool) -> io::Result<Findings> {
    let better = |column: &str| if column.starts_with("CPU") { Better::Less } else { Better::More };
    let figures = rates(threads, quick)?.apart("A stream of commands", better);
    Ok(Findings::new("apply", "A stream of commands, applied in process")
        .with(figures)
        .note(format!("Two workers are to reach {TARGET} times the MB a second of one.")))
}

/// The rates of 1 to `threads` workers.
///
/// # Errors
/// When a store cannot be made.
pub(crate) fn rates(threads: usize, quick: bool) -> io::Result<Table> {
    let (count, rounds) = if quick { (30_000, 1) } else { (3_000_000, 3) };
    let stream = stream(count);
    let mut table = Table::new(&["MB a second", "times one worker", "CPU us a command"]);
    for _ in 0..rounds {
        let mut one = f64::NAN;
        for workers in 1..=threads.max(1) {
            crate::screen::go_on()?;
            let (seconds, cpu_ns) = apply(workers, &stream)?;
            let rate = stream.bytes.len() as f64 / 1e6 / seconds;
            if workers == 1 {
                one = rate;
            }
            let cpu_us = cpu_ns as f64 / 1000.0 / count as f64;
            table.add(format!("workers: {workers}, varve"), vec![rate, rate / one, cpu_us]);
        }
    }
    Ok(table)
}

/// Whole commands.
struct Stream {
    bytes: Vec<u8>,
    /// Where pieces end.
    ends: Vec<usize>,
}

fn stream(count: usize) -> Stream {
    let (mut random, mut bytes, mut ends) = (Random::new(7), Vec::new(), Vec::new());
    let keys = count / 2;
    let value = "v".repeat(64);
    for _ in 0..count {
        let (draw, number) = (random.below(200), random.below(keys).to_string());
        let small = (random.below(keys) / 20).to_string();
        match draw {
            0 | 1 => {
                put(&mut bytes, &["MSET", &format!("key:{number:0>12}"), &value, &format!("key:{small:0>12}"), &value])
            }
            2..100 => put(&mut bytes, &["SET", &format!("key:{number:0>12}"), &value]),
            100..130 => put(&mut bytes, &["HSET", &format!("hash:{small:0>11}"), &number, &value]),
            130..150 => put(&mut bytes, &["RPUSH", &format!("list:{small:0>11}"), &value]),
            150..170 => put(&mut bytes, &["ZADD", &format!("zset:{small:0>11}"), &number, &number]),
            _ => put(&mut bytes, &["INCR", &format!("count:{number:0>10}")]),
        }
        if bytes.len() - ends.last().copied().unwrap_or(0) >= PIECE_BYTES {
            ends.push(bytes.len());
        }
    }
    ends.push(bytes.len());
    Stream { bytes, ends }
}

fn put(out: &mut Vec<u8>, words: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// A stream on its way into a store.
struct Applying {
    store: Arc<Store>,
    applier: Applier,
    table: CommandTable,
    /// The threads of the workers, where they have threads of their own.
    sleepers: Vec<OnceLock<Thread>>,
    ended: AtomicBool,
}

impl Applying {
    fn wake(&self, workers: WorkerSet) {
        workers.iter().filter_map(|worker| self.sleepers[worker].get()).for_each(Thread::unpark);
    }

    fn step(&self, share: &mut ApplyWorker, worker: &mut StoreWorker) -> bool {
        let ready = share.step(&self.applier, worker, &self.table, START_MS);
        self.wake(ready.unwrap_or_default());
        ready.is_some()
    }

    /// The thread of a worker; its CPU in nanoseconds.
    fn work(&self, number: usize) -> u64 {
        let (mut worker, mut share) = (self.store.worker(number), share(number));
        self.sleepers[number].get_or_init(thread::current);
        while !self.ended.load(Relaxed) {
            if !self.step(&mut share, &mut worker) {
                thread::park();
            }
        }
        worker.park();
        cpu_ns()
    }

    /// Routes all, and has `between` run behind each piece.
    fn route(&self, stream: &Stream, mut between: impl FnMut()) {
        let (mut router, mut begin, mut piece) = (Router::new(), 0, Vec::new());
        for &end in &stream.ends {
            piece.clear();
            piece.extend_from_slice(&stream.bytes[begin..end]);
            assert!(self.applier.wait_for_room(), "nothing is refused");
            let to = (&self.applier, &*self.store, &self.table);
            let pushed = router.push(to, begin as u64, &mut piece);
            assert!(pushed.fault.is_none(), "commands: {:?}", pushed.fault);
            self.wake(pushed.workers);
            between();
            begin = end;
        }
    }
}

fn share(number: usize) -> ApplyWorker {
    ApplyWorker::new(number, CommandStats::new(commands().ids()), None, START_MS)
}

/// Applies a stream; seconds, and nanoseconds of CPU.
fn apply(workers: usize, stream: &Stream) -> io::Result<(f64, u64)> {
    let applying = Applying {
        store: Store::new(&Options { workers, ..Options::default() })?,
        applier: Applier::new(workers),
        table: CommandTable::new(commands()),
        sleepers: (0..workers).map(|_| OnceLock::new()).collect(),
        ended: AtomicBool::new(false),
    };
    applying.store.set_loading(true);
    applying.applier.begin(0);
    let (start, before) = (Instant::now(), cpu_ns());
    if workers == 1 {
        let (mut worker, mut share) = (applying.store.worker(0), share(0));
        applying.route(stream, || while applying.step(&mut share, &mut worker) {});
        applying.applier.finish().expect("nothing is refused");
        return Ok((start.elapsed().as_secs_f64(), cpu_ns() - before));
    }
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|number| {
                scope.spawn({
                    let applying = &applying;
                    move || applying.work(number)
                })
            })
            .collect();
        applying.route(stream, || ());
        applying.applier.finish().expect("nothing is refused");
        let seconds = start.elapsed().as_secs_f64();
        applying.ended.store(true, Relaxed);
        applying.sleepers.iter().filter_map(OnceLock::get).for_each(Thread::unpark);
        let cpu = threads.into_iter().map(|thread| thread.join().expect("a thread of the experiment")).sum::<u64>();
        (seconds, cpu + cpu_ns() - before)
    }))
}
