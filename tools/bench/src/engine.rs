//! `engine`: the store without network or commands, driven by 1 to N threads, beside maps that people use.
//!
//! ```text
//! trace of (key, read or write) --64 at a time--> gate, prefetch, try_lock, get or set --> background, as a worker does
//! ```
//!
//! | map | what |
//! |---|---|
//! | store | one store for all threads |
//! | journal | one store whose writes go to a journal; one more thread takes and discards them, as that of a file does |
//! | apart | a store for each thread: what the machine gives when nothing is shared |
//! | dashmap | `DashMap<Box<[u8]>, Box<[u8]>>`, one operation at a time |
//! | mutex | `Mutex<HashMap<Box<[u8]>, Box<[u8]>>>` of the standard library |
//!
//! A read copies the value into a buffer, as a reply does; a write replaces it. A figure is the median of its rounds, with their
//! range; `by CPU` counts operations by the threads' time on a CPU, so that it holds on a machine that is not quiet, but waiting
//! asleep does not show in it.

use crate::draw::{self, Draw};
use crate::report::{Better, Figure, Findings, Form, Role, Series, Value};
use crate::say;
use std::collections::HashMap;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use varve_exec::journal::{Journal, Reached, Taken};
use varve_store::{Effect, EffectSink, EventClass, Options, Store, StoreWorker, StringForm, Ttl, Tx};
use varve_testkit::Random;

/// Operations that are handed over at once: a turn of the executor.
const BATCH: usize = 64;
/// Commands in a row that keep a shard, as in the executor.
const KEEP_MAX: usize = 16;
/// Fruitless turns after which a thread lets others run, as in the server.
const BUSY_SPINS: u32 = 16;
const BACKGROUND: Duration = Duration::from_micros(100);
/// Rest of the thread that takes from a journal: that of a file has the same.
const REST: Duration = Duration::from_millis(1);
/// Milliseconds of Unix time at which a store begins.
const START_MS: i64 = 1_795_000_000_000;
const VALUE: [u8; 64] = [b'v'; 64];
/// Operations of a thread's trace, which it repeats.
const TRACE: usize = 1 << 20;
/// In an operation, beside the key's number.
const WRITE: u32 = 1 << 31;
/// Two threads' throughput over one's that the store should reach, for each of [`draw::NAMES`].
const TARGETS: [f64; 3] = [1.8, 1.6, 0.9];
/// That of a store with a journal.
const JOURNAL_TARGET: f64 = 1.6;
/// The CPU of an operation of such a store with two threads over that with one, at most: what sharing the journal costs.
const CPU_TARGET: f64 = 1.15;

struct Scale {
    keys: u64,
    rounds: usize,
    time: Duration,
}

/// Runs the experiment with 1 to `threads` threads.
///
/// # Errors
/// When a store cannot be made or the table cannot be written.
pub(crate) fn run(threads: usize, quick: bool) -> io::Result<Findings> {
    let scale = match quick {
        true => Scale { keys: 20_000, rounds: 1, time: Duration::from_millis(20) },
        false => Scale { keys: 1_000_000, rounds: 7, time: Duration::from_millis(400) },
    };
    let counts: Vec<usize> = (1..=threads.max(1)).collect();
    let mut figures: Vec<[Figure; 3]> = Vec::new();
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        let mut maps = Vec::new();
        for &count in &counts {
            maps.push(kind.filled(count, scale.keys)?);
        }
        let mixes = [(5, "95:5"), (50, "50:50")].into_iter();
        let cases = mixes.flat_map(|mix| draw::NAMES.iter().zip(TARGETS).map(move |draw| (mix, draw)));
        for (case, ((writes, mix), (name, target))) in cases.enumerate() {
            let draw = Draw::named(name, scale.keys);
            let traces: Vec<Vec<u32>> = (0..threads as u64).map(|seed| trace(&draw, writes, seed)).collect();
            let mut rounds: Vec<Vec<Rate>> = vec![Vec::new(); counts.len()];
            for _ in 0..scale.rounds {
                for (map, rounds) in maps.iter_mut().zip(&mut rounds) {
                    rounds.push(measure(map.hands(), &traces, scale.time));
                }
            }
            let rates: Vec<Rates> = rounds.iter().map(|rounds| Rates::of(rounds)).collect();
            if number == 0 {
                figures.push(empty(&format!("{mix} {name}"), &counts));
            }
            let aim = match kind {
                Kind::Store => target,
                Kind::Journal if writes == 50 => JOURNAL_TARGET,
                _ => f64::NAN,
            };
            say!(
                "{} {mix} {name}: {:.2} M/s of one thread, aim of two {aim}",
                kind.name(),
                rates[0].per_second.median / 1e6
            );
            if let [one, two, ..] = &rates[..] {
                let growth = two.per_second.median / one.per_second.median;
                let cpu = one.per_cpu_second.median / two.per_cpu_second.median;
                let aim = if kind == Kind::Journal && writes == 50 { CPU_TARGET } else { f64::NAN };
                say!("  two threads: {growth:.2} times, an operation takes {cpu:.2} times the CPU, aim {aim}");
            }
            add(&mut figures[case], kind, &rates);
        }
    }
    Ok(Findings::new("engine", "Growth with threads, in process").with(figures.into_iter().flatten()).note(
        "The store without network or commands. CPU is that of the threads which ask, without \
               the one that takes from a journal. The aims are 1.8 times for two threads with uniform keys, 1.6 with \
               Zipf's, 0.9 with one key, and 1.6 for a store with a journal.",
    ))
}

/// Figures of rates, of growth and of CPU, without series.
fn empty(case: &str, counts: &[usize]) -> [Figure; 3] {
    let figure = |what: &str, unit: &str, better| {
        Figure::new(format!("{case}: {what}"), unit, better, Form::Lines).over("threads", counts)
    };
    [
        figure("operations", "operations a second", Better::More),
        figure("growth", "times one thread", Better::More),
        figure("CPU", "nanoseconds of CPU per operation", Better::Less),
    ]
}

/// Adds a map's series to the figures of a case.
fn add([operations, growth, cpu]: &mut [Figure; 3], kind: Kind, rates: &[Rates]) {
    let role = if kind == Kind::Store { Role::Varve } else { Role::Other };
    let push = |figure: &mut Figure, name: String, role, of: &dyn Fn(usize, &Rates) -> Value| {
        let mut series = Series::new(name, role);
        rates.iter().enumerate().for_each(|(place, rates)| series.push(place, of(place, rates)));
        figure.series.push(series);
    };
    let one = rates[0];
    push(operations, kind.name().into(), role, &|_, rates| rates.per_second);
    push(growth, format!("{}, by CPU", kind.name()), Role::Other, &|place, rates| {
        rates.per_cpu_second.scaled((place + 1) as f64).over(one.per_cpu_second)
    });
    push(growth, kind.name().into(), role, &|_, rates| rates.per_second.over(one.per_second));
    push(cpu, kind.name().into(), role, &|_, rates| rates.cpu_ns);
}

/// Operations: their keys are drawn, and `writes_percent` of a hundred are writes.
fn trace(draw: &Draw, writes_percent: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed + 1);
    let mut op = || {
        let write = if random.below(100) < writes_percent { WRITE } else { 0 };
        draw.key(&mut random) as u32 | write
    };
    (0..TRACE).map(|_| op()).collect()
}

/// The 16 bytes of a key.
fn key(op: u32) -> [u8; 16] {
    let number = u64::from(op & !WRITE);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key[8..].copy_from_slice(&number.wrapping_mul(varve_base::hash::GOLDEN_RATIO).to_le_bytes());
    key
}

#[derive(Clone, Copy, Default)]
struct Rate {
    per_second: f64,
    per_cpu_second: f64,
}

/// The rates of some rounds.
#[derive(Clone, Copy)]
struct Rates {
    per_second: Value,
    per_cpu_second: Value,
    /// Nanoseconds of CPU of an operation.
    cpu_ns: Value,
}

impl Rates {
    fn of(rounds: &[Rate]) -> Rates {
        let value = |of: fn(&Rate) -> f64| Value::of(rounds.iter().map(of).collect());
        Rates {
            per_second: value(|rate| rate.per_second),
            per_cpu_second: value(|rate| rate.per_cpu_second),
            cpu_ns: value(|rate| 1e9 / rate.per_cpu_second),
        }
    }
}

/// Has each pair of hands work on its trace for a while.
fn measure(hands: Vec<Box<dyn Hands + Send + '_>>, traces: &[Vec<u32>], time: Duration) -> Rate {
    let (stop, begin) = (&AtomicBool::new(false), &Barrier::new(hands.len() + 1));
    let count = hands.len() as f64;
    std::thread::scope(|scope| {
        let pairs = hands.into_iter().zip(traces);
        let threads: Vec<_> =
            pairs.map(|(hands, trace)| scope.spawn(|| one_thread(hands, trace, begin, stop))).collect();
        begin.wait();
        std::thread::sleep(time);
        stop.store(true, Relaxed);
        let rates = threads.into_iter().map(|thread| thread.join().expect("a thread of the experiment"));
        rates.fold(Rate::default(), |sum, rate| Rate {
            per_second: sum.per_second + rate.per_second,
            per_cpu_second: sum.per_cpu_second + rate.per_cpu_second / count,
        })
    })
}

fn one_thread(mut hands: Box<dyn Hands + Send + '_>, trace: &[u32], begin: &Barrier, stop: &AtomicBool) -> Rate {
    begin.wait();
    let (start, cpu) = (Instant::now(), cpu_ns());
    let done = work_until(&mut *hands, trace, stop) as f64;
    let (wall, cpu) = (start.elapsed().as_secs_f64(), (cpu_ns() - cpu) as f64 / 1e9);
    Rate { per_second: done / wall, per_cpu_second: done / cpu.max(1e-9) }
}

/// Repeats the trace until it is told to stop; operations done.
fn work_until(hands: &mut dyn Hands, trace: &[u32], stop: &AtomicBool) -> u64 {
    let (mut done, mut at, mut fruitless) = (0, 0, 0);
    while !stop.load(Relaxed) {
        let end = trace.len().min(at + BATCH);
        let count = hands.work(&trace[at..end]);
        fruitless = if count == 0 { fruitless + 1 } else { 0 };
        if fruitless >= BUSY_SPINS {
            std::thread::yield_now();
            fruitless = 0;
        }
        done += count as u64;
        at = (at + count) % trace.len();
    }
    done
}

/// Time of this thread on a CPU, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// One thread's access to a map.
trait Hands {
    /// Does operations in order, as many as it can without waiting for a lock, and says how many.
    fn work(&mut self, ops: &[u32]) -> usize;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Store,
    Journal,
    Apart,
    Dash,
    Mutex,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Store, Kind::Journal, Kind::Apart, Kind::Dash, Kind::Mutex];

    fn name(self) -> &'static str {
        match self {
            Kind::Store => "store",
            Kind::Journal => "journal",
            Kind::Apart => "apart",
            Kind::Dash => "dashmap",
            Kind::Mutex => "mutex",
        }
    }

    /// A map for `threads` threads, with all keys in it.
    fn filled(self, threads: usize, keys: u64) -> io::Result<Map> {
        let store = |workers: usize, seed: u64| Store::new(&Options { workers, seed, ..Options::default() });
        let mut map = match self {
            Kind::Store | Kind::Journal => {
                let store = store(threads, 1)?;
                let taker = (self == Kind::Journal).then(|| Taker::start(&store, threads));
                Map::Store((0..threads).map(|id| store.worker(id)).collect(), Instant::now(), taker)
            }
            Kind::Apart => {
                let stores: io::Result<Vec<Arc<Store>>> = (0..threads as u64).map(|id| store(1, id)).collect();
                Map::Store(stores?.iter().map(|store| store.worker(0)).collect(), Instant::now(), None)
            }
            Kind::Dash => Map::Dash(dashmap::DashMap::new(), threads),
            Kind::Mutex => Map::Mutex(Mutex::default(), threads),
        };
        let all: Vec<u32> = (0..keys as u32).map(|number| number | WRITE).collect();
        let fillers = if self == Kind::Apart { threads } else { 1 };
        for mut hands in map.hands().into_iter().take(fillers) {
            let mut at = 0;
            while at < all.len() {
                at += hands.work(&all[at..all.len().min(at + BATCH)]);
            }
        }
        Ok(map)
    }
}

type Bytes = Box<[u8]>;

enum Map {
    Store(Vec<StoreWorker>, Instant, Option<Taker>),
    Dash(dashmap::DashMap<Bytes, Bytes>, usize),
    Mutex(Mutex<HashMap<Bytes, Bytes>>, usize),
}

/// A journal, and the thread that takes what is appended to it.
struct Taker {
    journal: Arc<Journal>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Taker {
    /// Has the store keep its effects in a journal, and starts the thread: like that of a file it rests a millisecond
    /// behind each take.
    fn start(store: &Store, workers: usize) -> Taker {
        let (journal, stop) = (Journal::new(workers), Arc::new(AtomicBool::new(false)));
        store.set_effect_sink(Arc::clone(&journal) as Arc<dyn EffectSink>);
        store.keep_effects(true);
        let (from, stops) = (Arc::clone(&journal), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut emptied = Vec::new();
            while !stops.load(Relaxed) {
                let Taken { chunks, end, .. } = from.take(REST, &mut emptied);
                from.reached(Reached { synced: end, released: end });
                let empty = |mut bytes: Vec<u8>| {
                    bytes.clear();
                    bytes
                };
                emptied.extend(chunks.into_iter().filter_map(Arc::into_inner).map(|chunk| empty(chunk.bytes)));
                std::thread::sleep(REST);
            }
        });
        Taker { journal, stop, thread: Some(thread) }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.journal.poke();
        if let Some(thread) = self.thread.take() {
            // It has failed if the experiment has: that says so.
            let _ = thread.join();
        }
    }
}

impl Map {
    /// The access of each thread.
    fn hands(&mut self) -> Vec<Box<dyn Hands + Send + '_>> {
        match self {
            Map::Store(workers, start, taker) => workers
                .iter_mut()
                .map(|worker| {
                    let (start, hashes, out, reports) = (*start, Vec::new(), Vec::new(), taker.is_some());
                    Box::new(OfStore { worker, start, hashes, out, reports }) as Box<dyn Hands + Send>
                })
                .collect(),
            Map::Dash(map, threads) => (0..*threads)
                .map(|_| Box::new(OfDash { map: &*map, out: Vec::new() }) as Box<dyn Hands + Send>)
                .collect(),
            Map::Mutex(map, threads) => (0..*threads)
                .map(|_| Box::new(OfMutex { map: &*map, out: Vec::new() }) as Box<dyn Hands + Send>)
                .collect(),
        }
    }
}

struct OfStore<'m> {
    worker: &'m mut StoreWorker,
    /// When the store began.
    start: Instant,
    hashes: Vec<u64>,
    out: Vec<u8>,
    /// Writes are reported, for the journal.
    reports: bool,
}

impl Hands for OfStore<'_> {
    /// A turn of the executor, without its commands.
    fn work(&mut self, ops: &[u32]) -> usize {
        // The background looks at the store anew every few milliseconds of this clock.
        let now_ms = START_MS + self.start.elapsed().as_millis() as i64;
        let done = self.turn(ops, now_ms);
        self.worker.background(now_ms, BACKGROUND);
        done
    }
}

impl OfStore<'_> {
    fn turn(&mut self, ops: &[u32], now_ms: i64) -> usize {
        self.worker.set_now(now_ms);
        let (store, local) = self.worker.parts();
        self.out.clear();
        self.hashes.clear();
        for &op in ops {
            let hash = store.key(0, &key(op)).hash;
            store.prefetch(hash);
            self.hashes.push(hash);
        }
        let _inside = store.gate().enter(local.id());
        let mut tx = Tx::new(store, local, 0);
        // Found first and fetched in a row, as the executor does.
        let find = |&hash| if tx.try_hold(&[tx.shard_of(hash)]) { tx.object_line(hash) } else { None };
        let lines: Vec<_> = self.hashes.iter().filter_map(find).collect();
        lines.iter().for_each(|line| line.fetch_pair());
        let mut done = 0;
        for (&op, &hash) in ops.iter().zip(&self.hashes) {
            if done % KEEP_MAX == 0 {
                tx.release();
            }
            if !tx.try_hold(&[tx.shard_of(hash)]) {
                break;
            }
            let bytes = key(op);
            let key = tx.key_hashed(&bytes, hash);
            if op & WRITE != 0 {
                tx.set(&key, &VALUE, Ttl::Clear, StringForm::Auto);
                if self.reports {
                    tx.did(&key, Effect::sent(EventClass::String, "set", 1));
                    tx.end_command(&|words| _ = words.add(b"SET").add(&bytes).add(&VALUE));
                }
            } else if let Ok(Some(value)) = tx.get(&key) {
                self.out.extend_from_slice(value);
            }
            done += 1;
        }
        tx.finish();
        black_box(&self.out);
        done
    }
}

struct OfDash<'m> {
    map: &'m dashmap::DashMap<Bytes, Bytes>,
    out: Vec<u8>,
}

impl Hands for OfDash<'_> {
    fn work(&mut self, ops: &[u32]) -> usize {
        self.out.clear();
        for &op in ops {
            if op & WRITE != 0 {
                self.map.insert(Box::from(key(op)), Box::from(VALUE));
            } else if let Some(value) = self.map.get(&key(op)[..]) {
                self.out.extend_from_slice(&value);
            }
        }
        black_box(&self.out);
        ops.len()
    }
}

struct OfMutex<'m> {
    map: &'m Mutex<HashMap<Bytes, Bytes>>,
    out: Vec<u8>,
}

impl Hands for OfMutex<'_> {
    fn work(&mut self, ops: &[u32]) -> usize {
        self.out.clear();
        for &op in ops {
            let mut map = self.map.lock().expect("no holder panics");
            if op & WRITE != 0 {
                map.insert(Box::from(key(op)), Box::from(VALUE));
            } else if let Some(value) = map.get(&key(op)[..]) {
                self.out.extend_from_slice(value);
            }
        }
        black_box(&self.out);
        ops.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_work_on_every_map() {
        for kind in Kind::ALL {
            let mut map = kind.filled(2, 500).unwrap();
            let traces: Vec<Vec<u32>> = (0..2).map(|seed| trace(&Draw::Uniform(500), 50, seed)).collect();
            let rate = measure(map.hands(), &traces, Duration::from_millis(5));
            assert!(rate.per_second > 0.0, "{}", kind.name());
            let mut figures = empty("case", &[1]);
            add(&mut figures, kind, &[Rates::of(&[Rate { per_second: 5e6, per_cpu_second: 4e6 }])]);
            let last = |figure: &Figure| figure.series.last().unwrap().at(0).unwrap().median;
            assert_eq!(figures.each_ref().map(last), [5e6, 1.0, 250.0]);
        }
    }

    #[test]
    fn a_store_reads_what_was_written() {
        let mut map = Kind::Store.filled(1, 100).unwrap();
        let Map::Store(workers, start, _) = &mut map else { panic!("a store") };
        let mut hands =
            OfStore { worker: &mut workers[0], start: *start, hashes: Vec::new(), out: Vec::new(), reports: false };
        assert_eq!(hands.turn(&[3, 99, 100], START_MS), 3);
        assert_eq!(hands.out, [VALUE, VALUE].concat(), "key 100 is not there");
    }
}
