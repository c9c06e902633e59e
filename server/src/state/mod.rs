//! The state that all workers share: the store, the configuration's snapshot, the mailboxes, the counters.
//!
//! ```text
//!                      Arc<ServerState>
//!        +---------------+----------------+--------------------+
//!      store          config           workers[i]           command_logs, next_client, stopping
//!   (own locks)   RwLock<Arc<Config>>  mailbox + counters
//! ```
//!
//! Each worker keeps the `Arc<Config>` that it works by and takes a new one when a message says so; nobody takes the lock
//! on a request's path. A worker's counters are written by that worker alone and read by INFO. Not here: connections;
//! they belong to their worker, and what needs all of them is a question (worker/ask_all_workers.rs).

pub(crate) mod ask_all_workers;
pub(crate) mod awaited;
pub(crate) mod command;
pub(crate) mod copies;
pub(crate) mod ctx;
pub(crate) mod errands;
pub(crate) mod handshakes;
pub(crate) mod identity;
mod load;
pub(crate) mod mail;
mod now;
mod rates;
pub(crate) mod watchdog;
pub(crate) mod work;
mod worker_handle;

pub(crate) use load::Load;
pub(crate) use now::Now;
pub(crate) use rates::RatesNow;
pub(crate) use worker_handle::{WaitTimes, WaitsOn, WorkerHandle, WorkerStats};

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::MutexGuard;
use varve_base::counted::{CountedGuard, CountedMutex};
use varve_base::counter::Counter;
use varve_base::hist::Counts;
use varve_base::shared::{SharedBool, SharedI64, SharedMutex, SharedU64};
use varve_exec::batch::ScriptParts;
use varve_exec::pause::Pause;
use varve_exec::{Command, CommandSet, CommandTable};
use varve_scripts::{Keeper, Scripts};
use varve_store::Store;

use crate::config::Live;
use crate::features::acl::state::AccessControl;
use crate::features::clients::state::room::ClientRoom;
use crate::features::command_log::state::CommandLogs;
use crate::features::hot_keys::state::Collecting;
use crate::features::latency::state as latency;
use crate::features::monitor::state::Monitors;
use crate::features::pause::state::{Hold, Pauses};
use crate::features::persist::state::Persist;
use crate::features::persist::state::aof::Aof;
use crate::features::persist::state::batch::SERVER_ENDS;
use crate::features::pubsub::state::Registry;
use crate::features::replication::state::Replication;
use crate::features::tracking::state::TrackingTable;
use crate::net::sockets::Sockets;
use crate::net::tls::Contexts;
use crate::system::memory::system_memory_bytes;
use handshakes::Handshakes;
use mail::Message;
use rates::{Rates, Totals};

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct ServerState {
    store: Arc<Store>,
    config: Live,
    commands: CommandSet,
    table: Arc<CommandTable>,
    workers: Vec<WorkerHandle>,
    sockets: Sockets,
    tls: Contexts,
    handshakes: Vec<Handshakes>,
    pubsub: Arc<Registry>,
    tracking: Arc<TrackingTable>,
    acl: AccessControl,
    monitors: Monitors,
    pauses: Pauses,
    client_room: ClientRoom,
    persist: Persist,
    replication: Replication,
    scripts: Arc<Scripts>,
    command_logs: CountedMutex<CommandLogs>,
    latency: SharedMutex<latency::Monitor>,
    hot_keys: Collecting,
    /// Nothing happens by the clock on the workers (DEBUG PAUSE-CRON).
    ticks_paused: SharedBool,
    /// Until when DEBUG SLEEP keeps the server asleep, milliseconds of the steady clock.
    asleep_until_ms: SharedI64,
    /// Connections keep the room of outputs that are written (DEBUG REPLYBUFFER RESIZING 0).
    outputs_kept: SharedBool,
    started: Instant,
    /// 40 hexadecimal digits, new at each start.
    run_id: String,
    next_client: SharedU64,
    /// When a client that spoke another protocol was last logged, milliseconds of Unix time.
    foreign_logged_ms: SharedI64,
    stopping: SharedBool,
    rates: SharedMutex<Rates>,
    accepting: AcceptStats,
}

/// The counts of the thread that accepts.
#[derive(Debug, Default)]
pub(crate) struct AcceptStats {
    /// Connections accepted since the start.
    pub(crate) accepted: Counter,
    /// Connections refused, for `maxclients` or in protected mode.
    pub(crate) rejected: Counter,
}

/// The parts that a start makes before the state.
pub(crate) struct Parts {
    pub(crate) store: Arc<Store>,
    pub(crate) config: Live,
    pub(crate) commands: CommandSet,
    /// They by the names that they have here.
    pub(crate) table: Arc<CommandTable>,
    /// 40 hexadecimal digits.
    pub(crate) run_id: String,
    /// 40 hexadecimal digits: the first id of the replication stream.
    pub(crate) stream_id: String,
    pub(crate) sockets: Sockets,
    pub(crate) tls: Contexts,
    /// One for each thread that does handshakes.
    pub(crate) handshakes: Vec<Handshakes>,
    /// In the order of their indices.
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) pubsub: Arc<Registry>,
    /// A file is to be loaded before clients are served.
    pub(crate) loads: bool,
    pub(crate) aof: Aof,
}

impl ServerState {
    /// Nothing has happened yet.
    pub(crate) fn new(parts: Parts) -> ServerState {
        let Parts {
            store,
            config,
            commands,
            table,
            run_id,
            stream_id,
            sockets,
            tls,
            handshakes,
            workers,
            pubsub,
            loads,
            aof,
        } = parts;
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        assert!(!workers.is_empty(), "somebody must serve");
        let replication = Replication::new(stream_id, workers.len());
        let sizes = &config.snapshot().replication;
        replication.set_sizes(sizes.backlog_bytes, sizes.spool_bytes);
        let tracking = Arc::new(TrackingTable::new(Arc::clone(&pubsub)));
        tracking.set_keys_max(config.snapshot().tracked_keys_max);
        store.set_observer(tracking.clone());
        let scripts = config.snapshot().scripts;
        ServerState {
            store,
            acl: AccessControl::new(&commands, &config.snapshot()),
            config,
            commands,
            table,
            monitors: Monitors::new(workers.len()),
            pauses: Pauses::default(),
            client_room: ClientRoom::new(system_memory_bytes()),
            persist: Persist::new(now_s, loads, aof),
            replication,
            scripts: Arc::new(Scripts::new(scripts)),
            workers,
            sockets,
            tls,
            handshakes,
            pubsub,
            tracking,
            command_logs: CountedMutex::default(),
            latency: SharedMutex::default(),
            hot_keys: Collecting::default(),
            ticks_paused: SharedBool::new(false),
            asleep_until_ms: SharedI64::new(0),
            outputs_kept: SharedBool::new(false),
            started: Instant::now(),
            run_id,
            next_client: SharedU64::new(1),
            foreign_logged_ms: SharedI64::new(i64::MIN),
            stopping: SharedBool::new(false),
            rates: SharedMutex::new(Rates::default()),
            accepting: AcceptStats::default(),
        }
    }

    /// The keys.
    #[inline]
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The settings.
    #[inline]
    pub(crate) fn config(&self) -> &Live {
        &self.config
    }

    /// All commands of this server.
    pub(crate) fn commands(&self) -> &CommandSet {
        &self.commands
    }

    /// The commands by the names that they have here.
    pub(crate) fn table(&self) -> &Arc<CommandTable> {
        &self.table
    }

    /// All workers, in the order of their indices.
    #[inline]
    pub(crate) fn workers(&self) -> &[WorkerHandle] {
        &self.workers
    }

    /// The listening sockets.
    pub(crate) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// The context that new TLS connections get.
    pub(crate) fn tls(&self) -> &Contexts {
        &self.tls
    }

    /// The threads that do handshakes: a connection is given to the one that has fewest.
    pub(crate) fn handshakes(&self) -> &[Handshakes] {
        &self.handshakes
    }

    /// Channels, their subscriptions and the workers' inboxes.
    #[inline]
    pub(crate) fn pubsub(&self) -> &Arc<Registry> {
        &self.pubsub
    }

    /// Keys that clients keep copies of.
    #[inline]
    pub(crate) fn tracking(&self) -> &TrackingTable {
        &self.tracking
    }

    /// Clients that get a line for every command.
    #[inline]
    pub(crate) fn monitors(&self) -> &Monitors {
        &self.monitors
    }

    /// Users and what they may do.
    #[inline]
    pub(crate) fn acl(&self) -> &AccessControl {
        &self.acl
    }

    /// Room for clients where no setting bounds them.
    pub(crate) fn client_room(&self) -> &ClientRoom {
        &self.client_room
    }

    /// CLIENT PAUSE.
    #[inline]
    pub(crate) fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Saving and loading.
    #[inline]
    pub(crate) fn persist(&self) -> &Persist {
        &self.persist
    }

    /// Replication: the stream, and both of its ends.
    #[inline]
    pub(crate) fn replication(&self) -> &Replication {
        &self.replication
    }

    /// The scripts that are known, and the one that runs.
    #[inline]
    pub(crate) fn scripts(&self) -> &Arc<Scripts> {
        &self.scripts
    }

    /// The parts with which worker `index` runs scripts, to be used by its thread.
    pub(crate) fn script_parts(&self, index: usize) -> ScriptParts {
        let (worker, table) = (self.store.script_worker(index), Arc::clone(&self.table));
        ScriptParts { worker, table, keeper: self.keeper(), aside: self.keeper() }
    }

    /// The state that scripts have of which one thread at a time runs one.
    pub(crate) fn keeper(&self) -> Box<Keeper> {
        Box::new(Keeper::new(Arc::clone(&self.scripts)))
    }

    /// The logs of commands, locked. The lock is a leaf.
    pub(crate) fn command_logs(&self) -> CountedGuard<'_, CommandLogs> {
        self.command_logs.lock()
    }

    /// Bytes of the logs of commands, which count against the memory limit.
    pub(crate) fn command_log_bytes(&self) -> usize {
        self.command_logs.bytes()
    }

    /// The latency monitor, locked. The lock is a leaf.
    pub(crate) fn latency(&self) -> MutexGuard<'_, latency::Monitor> {
        self.latency.lock()
    }

    /// Gives the latency monitor what took at least `threshold_ms` milliseconds; nothing where that is 0.
    pub(crate) fn note_spike(&self, event: latency::Event, took: Duration, threshold_ms: u64) {
        let millis = took.as_millis() as u64;
        if threshold_ms > 0 && millis >= threshold_ms {
            self.latency().add(event, Now::read().unix_ms / 1000, millis);
        }
    }

    /// The collection of the keys that cost most (HOTKEYS).
    pub(crate) fn hot_keys(&self) -> &Collecting {
        &self.hot_keys
    }

    /// 40 hexadecimal digits, new at each start.
    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// True if nothing happens by the clock on the workers.
    pub(crate) fn ticks_paused(&self) -> bool {
        self.ticks_paused.load(Ordering::Relaxed)
    }

    /// DEBUG PAUSE-CRON.
    pub(crate) fn pause_ticks(&self, on: bool) {
        self.ticks_paused.store(on, Ordering::Relaxed);
    }

    /// DEBUG SLEEP: workers, and the thread of the link to a primary, do nothing until this time of the steady clock.
    pub(crate) fn sleep_until(&self, steady_ms: i64) {
        self.asleep_until_ms.fetch_max(steady_ms, Ordering::Relaxed);
        self.send_all(|| Message::Sleep);
    }

    /// Does nothing while DEBUG SLEEP lasts. The caller holds nothing.
    pub(crate) fn sleep_out(&self) {
        let left_ms = self.asleep_until_ms.load(Ordering::Relaxed).saturating_sub(Now::read().steady_ms);
        if let Ok(left_ms) = u64::try_from(left_ms) {
            std::thread::sleep(Duration::from_millis(left_ms));
        }
    }

    /// True if connections keep the room of outputs that are written.
    #[inline]
    pub(crate) fn outputs_kept(&self) -> bool {
        self.outputs_kept.load(Ordering::Relaxed)
    }

    /// DEBUG REPLYBUFFER RESIZING: 0 keeps the room.
    pub(crate) fn keep_outputs(&self, on: bool) {
        self.outputs_kept.store(on, Ordering::Relaxed);
    }

    /// Goes on with a primary's stream, which was held for an instant.
    pub(crate) fn release_instant(&self) {
        self.wake_to_apply(self.replication().replica().release_instant().iter());
    }

    /// Wakes these workers, which look for commands of a file or of a primary that they are to run.
    pub(crate) fn wake_to_apply(&self, workers: impl IntoIterator<Item = usize>) {
        workers.into_iter().for_each(|worker| self.workers()[worker].send(Message::Load));
    }

    /// Sends each worker a message of its own.
    pub(crate) fn send_all(&self, message: impl Fn() -> Message) {
        for worker in &self.workers {
            worker.send(message());
        }
    }

    /// Tells all workers to end; a second call changes nothing. Safe from any thread (the signal thread calls it).
    pub(crate) fn stop(&self) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            self.scripts.running().abandon();
            // Before any connection is closed: a client that sees that it was, and comes again, is refused.
            self.sockets.close();
            self.send_all(|| Message::Stop);
            self.sockets.wake();
            self.handshakes.iter().for_each(Handshakes::wake);
            self.persist.loading.batches.stop();
            self.persist.aof.applier.stop(SERVER_ENDS);
            self.replication.replica().applier.stop(SERVER_ENDS);
            self.replication.replica().wake();
        }
    }

    /// True once the server is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The counts of whoever accepts.
    pub(crate) fn accepting(&self) -> &AcceptStats {
        &self.accepting
    }

    /// Holds writes back for a reason of the server's own, from the next turn of each worker on.
    pub(crate) fn hold_writes(&self, hold: Hold) {
        self.pauses.hold(hold);
        self.hold_expiry(Now::read());
    }

    /// Holds writes back for this reason no longer.
    pub(crate) fn release_writes(&self, hold: Hold) {
        self.pauses.release(hold);
        self.hold_expiry(Now::read());
        self.send_all(|| Message::Refresh);
    }

    /// Nothing expires or is evicted while clients are paused. A pause goes by the steady clock and expiry by the wall clock, so
    /// this is said anew at each tick.
    pub(crate) fn hold_expiry(&self, now: Now) {
        let held = self.pauses().now(now.steady_ms) != Pause::None;
        let left_ms = self.pauses().until_ms().saturating_sub(now.steady_ms);
        self.store().stand_still_until(if held { now.unix_ms.saturating_add(left_ms) } else { 0 });
    }

    /// The worker to which the next connection is to be given, at this time in milliseconds of Unix time.
    pub(crate) fn least_busy(&self, now_ms: i64) -> usize {
        let estimate = |worker: &WorkerHandle| worker.load().estimate(worker.assigned(), now_ms);
        let estimates = self.workers.iter().map(estimate).enumerate();
        estimates.min_by_key(|(_, estimate)| *estimate).expect("somebody serves").0
    }

    /// True if a client that speaks another protocol is to be logged: at most one is in a minute, whoever sends how much.
    pub(crate) fn may_warn_of_foreign(&self, now_ms: i64) -> bool {
        let last_ms = self.foreign_logged_ms.load(Ordering::Relaxed);
        now_ms.saturating_sub(last_ms) > 60_000
            && self.foreign_logged_ms.compare_exchange(last_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
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
        let greeting: u64 = self.handshakes.iter().map(Handshakes::count).sum();
        greeting + self.workers.iter().map(|worker| worker.assigned()).sum::<u64>()
    }

    /// The sum of one counter over all workers.
    pub(crate) fn total(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.workers.iter().map(|worker| counter(worker.stats()).get()).sum()
    }

    /// The largest value of one counter over all workers.
    pub(crate) fn peak(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.workers.iter().map(|worker| counter(worker.stats()).get()).max().unwrap_or(0)
    }

    /// Takes a sample of the rates; worker 0 calls it each 100 ms.
    pub(crate) fn sample_rates(&self) {
        let totals = Totals {
            commands: self.total(|stats| &stats.commands),
            input_bytes: self.total(|stats| &stats.input_bytes),
            output_bytes: self.total(|stats| &stats.output_bytes),
            replica_input_bytes: self.replication().replica().received_bytes(),
            replica_output_bytes: self.total(|stats| &stats.replica_output_bytes),
        };
        self.rates.lock().sample(totals);
    }

    /// The rates as last sampled.
    pub(crate) fn rates(&self) -> RatesNow {
        self.rates.lock().now()
    }

    /// The durations of one command's calls over all workers; None if it was never called.
    pub(crate) fn call_durations(&self, row: &Command) -> Option<Counts> {
        let mut all: Option<Counts> = None;
        for hist in self.workers.iter().filter_map(|worker| worker.commands().of(row).latency.get()) {
            hist.read_into(all.get_or_insert_default());
        }
        all
    }
}
