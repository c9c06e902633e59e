//! What all workers share: the store, the configuration's snapshot, the mailboxes, the counters.
//!
//! ```text
//!                      Arc<Shared>
//!        +---------------+----------------+--------------------+
//!      store          config           workers[i]           slowlog, next_client, stopping
//!   (own locks)   RwLock<Arc<Config>>  mailbox + counters
//! ```
//!
//! Each worker keeps the `Arc<Config>` that it works by and takes a new one when a message says so; nobody takes the lock
//! on a request's path. A worker's counters are written by that worker alone and read by INFO. Not here: connections;
//! they belong to their worker, and what needs all of them is a question (worker/gather.rs).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use varve_command::stats::CommandStats;
use varve_store::Store;

use crate::clients::weight::Weights;
use crate::config::Live;
use crate::info;
use crate::latency;
use crate::monitor::Monitors;
use crate::pause::Pauses;
use crate::pubsub::Registry;
use crate::slowlog::Slowlog;
use crate::sockets::Sockets;
use crate::tracking::Table;
use crate::worker::{Mailbox, Message};

/// A counter that one thread writes and all may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. Only the owning worker calls this, so a load and a store suffice.
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Raises the counter to `value` if that is more (peaks).
    pub(crate) fn raise(&self, value: u64) {
        if value > self.0.load(Ordering::Relaxed) {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    /// A part of a gauge is `after` in place of `before`. Only the owning worker calls this.
    pub(crate) fn change(&self, before: usize, after: usize) {
        self.set(self.get() + after as u64 - before as u64);
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value at some recent moment.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a worker counts.
#[derive(Debug, Default)]
pub(crate) struct WorkerStats {
    /// Connections served now.
    pub(crate) connected: Counter,
    /// Connections accepted since the start or CONFIG RESETSTAT (counted by the accepting worker).
    pub(crate) accepted: Counter,
    /// Connections refused for `maxclients`.
    pub(crate) rejected: Counter,
    /// Connections that wait for keys now, and those of them with a timeout.
    pub(crate) blocked: Counter,
    pub(crate) blocked_with_timeout: Counter,
    /// Bytes read from sockets.
    pub(crate) input_bytes: Counter,
    /// Bytes written to sockets.
    pub(crate) output_bytes: Counter,
    /// Commands executed.
    pub(crate) commands: Counter,
    /// Reads and writes done for clients.
    pub(crate) reads: Counter,
    pub(crate) writes: Counter,
    /// Connections that CLIENT PAUSE holds back.
    pub(crate) held: Counter,
    /// Bytes that connections and the pool of buffers take.
    pub(crate) buffer_bytes: Counter,
    /// Largest input and output buffers seen, for INFO's `client_recent_max_*`.
    pub(crate) input_peak_bytes: Counter,
    pub(crate) output_peak_bytes: Counter,
    /// Connections closed because a buffer limit was passed.
    pub(crate) query_limit_closed: Counter,
    pub(crate) output_limit_closed: Counter,
    /// Connections closed because all together took too much.
    pub(crate) evicted: Counter,
}

/// How others reach a worker.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    pub(crate) mailbox: Mailbox,
    pub(crate) stats: WorkerStats,
    /// What the worker counts of each command.
    pub(crate) commands: Arc<CommandStats>,
    /// What its clients take.
    pub(crate) weights: Weights,
    /// It has been told that clients are to be evicted, and has not got to it.
    pub(crate) crowded: AtomicBool,
    /// Connections that were given to this worker and are not closed: what the accepting worker balances by, ahead of
    /// `stats.connected` by those still in the mailbox.
    pub(crate) assigned: AtomicU64,
}

impl WorkerHandle {
    pub(crate) fn new(mailbox: Mailbox) -> WorkerHandle {
        WorkerHandle {
            mailbox,
            stats: WorkerStats::default(),
            commands: CommandStats::new(),
            weights: Weights::default(),
            crowded: AtomicBool::new(false),
            assigned: AtomicU64::new(0),
        }
    }
}

/// Samples that a rate is the mean of, one each 100 ms.
const SAMPLES: usize = 16;

/// A rate as INFO's `instantaneous_*` show it: the mean over the last [`SAMPLES`] samples.
#[derive(Debug, Default)]
struct Rate {
    last: u64,
    per_s: [u64; SAMPLES],
    next: usize,
}

impl Rate {
    fn sample(&mut self, total: u64, passed_us: u64) {
        let grown = total.saturating_sub(self.last);
        self.last = total;
        self.per_s[self.next] = (u128::from(grown) * 1_000_000 / u128::from(passed_us.max(1))) as u64;
        self.next = (self.next + 1) % SAMPLES;
    }

    fn mean(&self) -> u64 {
        self.per_s.iter().sum::<u64>() / SAMPLES as u64
    }
}

#[derive(Debug, Default)]
struct Rates {
    at: Option<Instant>,
    commands: Rate,
    input: Rate,
    output: Rate,
}

/// Rates a second over the last 1.6 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RatesNow {
    pub(crate) commands: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) config: Live,
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) sockets: Sockets,
    pub(crate) pubsub: Arc<Registry>,
    pub(crate) tracking: Arc<Table>,
    pub(crate) monitors: Monitors,
    pub(crate) pauses: Pauses,
    pub(crate) slowlog: Mutex<Slowlog>,
    pub(crate) latency: Mutex<latency::Monitor>,
    /// Nothing happens by the clock on the workers (DEBUG PAUSE-CRON).
    pub(crate) ticks_paused: AtomicBool,
    /// Connections keep the room of outputs that are written (DEBUG REPLYBUFFER RESIZING 0).
    pub(crate) outputs_kept: AtomicBool,
    pub(crate) started: Instant,
    /// 40 hexadecimal digits, new at each start.
    pub(crate) run_id: String,
    next_client: AtomicU64,
    stopping: AtomicBool,
    rates: Mutex<Rates>,
}

impl Shared {
    /// For `workers` in the order of their indices.
    pub(crate) fn new(
        store: Arc<Store>,
        config: Live,
        run_id: String,
        sockets: Sockets,
        workers: Vec<WorkerHandle>,
        pubsub: Arc<Registry>,
    ) -> Shared {
        assert!(!workers.is_empty(), "somebody must serve");
        let tracking = Arc::new(Table::new(Arc::clone(&pubsub)));
        store.set_observer(tracking.clone());
        Shared {
            store,
            config,
            monitors: Monitors::new(workers.len()),
            pauses: Pauses::default(),
            workers,
            sockets,
            pubsub,
            tracking,
            slowlog: Mutex::new(Slowlog::default()),
            latency: Mutex::default(),
            ticks_paused: AtomicBool::new(false),
            outputs_kept: AtomicBool::new(false),
            started: Instant::now(),
            run_id,
            next_client: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            rates: Mutex::new(Rates::default()),
        }
    }

    /// Sends each worker a message of its own.
    pub(crate) fn tell_all(&self, message: impl Fn() -> Message) {
        for worker in &self.workers {
            worker.mailbox.send(message());
        }
    }

    /// Tells all workers to end; a second call changes nothing. Safe from any thread (the signal thread calls it).
    pub(crate) fn stop(&self) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            self.tell_all(|| Message::Stop);
        }
    }

    /// The id of the next connection.
    pub(crate) fn next_client(&self) -> u64 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// Milliseconds since the start, the clock of connections' ages.
    pub(crate) fn uptime_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Connections, those on their way to their worker included.
    pub(crate) fn connections(&self) -> u64 {
        self.workers.iter().map(|worker| worker.assigned.load(Ordering::Relaxed)).sum()
    }

    /// The sum of one counter over all workers.
    pub(crate) fn total(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.workers.iter().map(|worker| counter(&worker.stats).get()).sum()
    }

    /// The largest value of one counter over all workers.
    pub(crate) fn peak(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.workers.iter().map(|worker| counter(&worker.stats).get()).max().unwrap_or(0)
    }

    /// Takes a sample of the rates, and of memory; worker 0 calls it each 100 ms.
    pub(crate) fn sample_rates(&self) {
        let now = Instant::now();
        let mut rates = self.rates.lock();
        let passed_us = rates.at.map_or(0, |at| now.duration_since(at).as_micros() as u64);
        rates.at = Some(now);
        rates.commands.sample(self.total(|stats| &stats.commands), passed_us.max(1));
        rates.input.sample(self.total(|stats| &stats.input_bytes), passed_us.max(1));
        rates.output.sample(self.total(|stats| &stats.output_bytes), passed_us.max(1));
        drop(rates);
        info::tell_memory(&self.store);
    }

    /// The rates as last sampled.
    pub(crate) fn rates(&self) -> RatesNow {
        let rates = self.rates.lock();
        RatesNow { commands: rates.commands.mean(), input_bytes: rates.input.mean(), output_bytes: rates.output.mean() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_its_mean() {
        let mut rate = Rate::default();
        let mut total = 0;
        for _ in 0..SAMPLES {
            total += 500;
            rate.sample(total, 100_000);
        }
        assert_eq!(rate.mean(), 5_000);
        rate.sample(0, 100_000);
        assert!(rate.mean() < 5_000, "a counter that was reset gives no rate");
    }
}
