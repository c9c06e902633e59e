//! The state that all workers share: the store, the configuration's snapshot, the mailboxes, the counters.
//!
//! ```text
//!                      Arc<ServerState>
//!        +---------------+----------------+--------------------+
//!      store          config           workers[i]           slowlog, next_client, stopping
//!   (own locks)   RwLock<Arc<Config>>  mailbox + counters
//! ```
//!
//! Each worker keeps the `Arc<Config>` that it works by and takes a new one when a message says so; nobody takes the lock
//! on a request's path. A worker's counters are written by that worker alone and read by INFO. Not here: connections;
//! they belong to their worker, and what needs all of them is a question (worker/ask_all_workers.rs).

pub(crate) mod ask_all_workers;
pub(crate) mod ctx;
pub(crate) mod mail;
mod now;
mod rates;
mod worker_handle;

pub(crate) use now::Now;
pub(crate) use rates::RatesNow;
pub(crate) use worker_handle::{WorkerHandle, WorkerStats};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use varve_base::hist::Counts;
use varve_exec::Command;
use varve_store::Store;

use crate::config::Live;
use crate::features::latency::state as latency;
use crate::features::monitor::state::Monitors;
use crate::features::pause::state::Pauses;
use crate::features::pubsub::state::Registry;
use crate::features::slowlog::state::Slowlog;
use crate::features::tracking::state::Table;
use crate::net::sockets::Sockets;
use mail::Message;
use rates::Rates;
use varve_base::counter::Counter;

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct ServerState {
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

impl ServerState {
    /// For `workers` in the order of their indices.
    pub(crate) fn new(
        store: Arc<Store>,
        config: Live,
        run_id: String,
        sockets: Sockets,
        workers: Vec<WorkerHandle>,
        pubsub: Arc<Registry>,
    ) -> ServerState {
        assert!(!workers.is_empty(), "somebody must serve");
        let tracking = Arc::new(Table::new(Arc::clone(&pubsub)));
        store.set_observer(tracking.clone());
        ServerState {
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

    /// Takes a sample of the rates; worker 0 calls it each 100 ms.
    pub(crate) fn sample_rates(&self) {
        let totals = [
            self.total(|stats| &stats.commands),
            self.total(|stats| &stats.input_bytes),
            self.total(|stats| &stats.output_bytes),
        ];
        self.rates.lock().sample(totals);
    }

    /// The rates as last sampled.
    pub(crate) fn rates(&self) -> RatesNow {
        self.rates.lock().now()
    }

    /// The durations of one command's calls over all workers; None if it was never called.
    pub(crate) fn call_durations(&self, row: &Command) -> Option<Counts> {
        let mut all: Option<Counts> = None;
        for hist in self.workers.iter().filter_map(|worker| worker.commands.of(row).latency.get()) {
            hist.read_into(all.get_or_insert_default());
        }
        all
    }
}
