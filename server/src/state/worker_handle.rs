//! How others reach a worker, and what they may read of it: its mailbox and its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use varve_exec::CommandSet;
use varve_exec::stats::CommandStats;

use super::load::Load;
use super::mail::{Mailbox, Message};
use crate::features::clients::state::on_show::OnShow;
use crate::features::clients::state::weights::Weights;
use crate::system::sys;
use varve_base::counter::Counter;
use varve_base::hist::Hist;

/// The counters of a worker. Their cache lines are its own: it writes some of them with every visit.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerStats {
    /// Connections served now.
    pub(crate) connected: Counter,
    /// Connections that wait for keys now, and those of them with a timeout.
    pub(crate) blocked: Counter,
    pub(crate) blocked_with_timeout: Counter,
    /// Bytes read from sockets.
    pub(crate) input_bytes: Counter,
    /// Bytes written to sockets but those of replicas.
    pub(crate) output_bytes: Counter,
    /// Bytes written to replicas' sockets: the data set and the stream.
    pub(crate) replica_output_bytes: Counter,
    /// Commands executed.
    pub(crate) commands: Counter,
    /// Reads and writes done for clients.
    pub(crate) reads: Counter,
    pub(crate) writes: Counter,
    /// Connections that CLIENT PAUSE holds back.
    pub(crate) held: Counter,
    /// Sockets to other servers that are kept for later commands.
    pub(crate) kept_links: Counter,
    /// Bytes that connections and the pool of buffers take.
    pub(crate) buffer_bytes: Counter,
    /// Bytes of the buffers of connections that are not authenticated.
    pub(crate) stranger_bytes: Counter,
    /// Largest input and output buffers seen, for INFO's `client_recent_max_*`.
    pub(crate) input_peak_bytes: Counter,
    pub(crate) output_peak_bytes: Counter,
    /// Connections closed because a buffer limit was passed.
    pub(crate) query_limit_closed: Counter,
    pub(crate) output_limit_closed: Counter,
    /// Connections closed because all together took too much.
    pub(crate) evicted: Counter,
    /// How long connections have waited.
    pub(crate) waits: WaitTimes,
    /// Turns of the loop without a tick, and their writes to what workers share: in debug builds, for a test.
    #[cfg(debug_assertions)]
    pub(crate) turns: Counter,
    #[cfg(debug_assertions)]
    pub(crate) shared_writes: Counter,
}

/// The things that a connection waits for while others hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitsOn {
    /// A shard: another worker runs a command on it.
    Shards,
    /// The gate: another worker is alone behind it, or wants to be.
    Gate,
    /// The sync of the append-only file, behind which its replies leave.
    Sync,
    /// Its client, which does not read what is sent.
    Socket,
}

impl WaitsOn {
    /// All of them, with the words that figures have for them.
    pub(crate) const ALL: [(WaitsOn, &str); 4] =
        [(WaitsOn::Shards, "shards"), (WaitsOn::Gate, "gate"), (WaitsOn::Sync, "sync"), (WaitsOn::Socket, "socket")];
}

/// How long connections have waited, by what for.
#[derive(Debug, Default)]
pub(crate) struct WaitTimes([Hist; WaitsOn::ALL.len()]);

impl WaitTimes {
    /// The durations of the waits for this.
    pub(crate) fn of(&self, on: WaitsOn) -> &Hist {
        &self.0[on as usize]
    }
}

/// How others reach a worker. It begins on a cache line of its own, since the handles lie side by side.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerHandle {
    mailbox: Mailbox,
    stats: WorkerStats,
    commands: Arc<CommandStats>,
    weights: Weights,
    load: Load,
    on_show: OnShow,
    /// The system's number of its thread, 0 before it runs.
    thread: AtomicI32,
    /// It has been asked to evict clients, and has not begun.
    asked_to_evict: AtomicBool,
    /// Connections that were given to this worker and are not closed, those still in the mailbox included.
    assigned: AtomicU64,
}

impl WorkerHandle {
    /// A worker that counts these commands.
    pub(crate) fn new(mailbox: Mailbox, commands: &CommandSet) -> WorkerHandle {
        WorkerHandle {
            mailbox,
            stats: WorkerStats::default(),
            commands: CommandStats::new(commands.ids()),
            weights: Weights::default(),
            load: Load::default(),
            on_show: OnShow::default(),
            thread: AtomicI32::new(0),
            asked_to_evict: AtomicBool::new(false),
            assigned: AtomicU64::new(0),
        }
    }

    /// Sends the worker a message, and wakes it.
    pub(crate) fn send(&self, message: Message) {
        self.mailbox.send(message);
    }

    /// Moves the worker's messages to `into`, which is empty.
    pub(crate) fn take_mail(&self, into: &mut Vec<Message>) {
        self.mailbox.collect(into);
    }

    /// The worker's counts.
    #[inline]
    pub(crate) fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    /// The worker's counts of each command.
    pub(crate) fn commands(&self) -> &Arc<CommandStats> {
        &self.commands
    }

    /// The weights of its clients.
    #[inline]
    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The calling thread is the worker's.
    pub(crate) fn runs_here(&self) {
        self.thread.store(sys::thread_id(), Ordering::Relaxed);
    }

    /// The system's number of the worker's thread.
    pub(crate) fn thread_id(&self) -> i32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// How much it has to do.
    #[inline]
    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// Those of its clients that a page shows.
    pub(crate) fn on_show(&self) -> &OnShow {
        &self.on_show
    }

    /// Asks the worker to evict clients, unless it is asked already.
    pub(crate) fn ask_to_evict(&self) {
        if !self.asked_to_evict.swap(true, Ordering::AcqRel) {
            self.send(Message::EvictClients);
        }
    }

    /// The worker begins to evict: it may be asked again.
    pub(crate) fn begin_evicting(&self) {
        self.asked_to_evict.store(false, Ordering::Release);
    }

    /// One more connection is given to the worker.
    pub(crate) fn assign(&self) {
        self.assigned.fetch_add(1, Ordering::Relaxed);
        self.load.add_newcomer();
    }

    /// One of its connections is closed.
    pub(crate) fn release(&self) {
        self.assigned.fetch_sub(1, Ordering::Relaxed);
    }

    /// Connections that are given to the worker and not closed.
    pub(crate) fn assigned(&self) -> u64 {
        self.assigned.load(Ordering::Relaxed)
    }
}
