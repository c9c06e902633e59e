//! A worker: a thread with an event loop, its own connections, and a mailbox. As many as cores unless configured.
//!
//! ```text
//!   +-> poll (waits only if nothing is ready) -> events: read, execute, write      group.rs, serve.rs
//!   |                                         -> listeners (worker 0): accept      accept.rs
//!   |   ready queue: connections with more to do, one turn each                    group.rs
//!   |   mailbox: newcomers, questions, a new configuration, stop                   here, ask_all_workers.rs
//!   |   blocked clients whose time is up                                           blocked.rs
//!   |   tick: timeouts in slices, rates                                            tick.rs
//!   +-- the store's background steps                                               here
//! ```
//!
//! A request without a pipeline costs one poll, one read, one write and two readings of the clock. Sockets are registered
//! once, edge-triggered for both directions; a timer is only the poll's timeout. Not here: what commands do.

mod accept;
mod ask_all_workers;
mod blocked;
mod deliver;
mod evict_clients;
mod group;
mod invalidation_barrier;
mod paused;
mod serve;
mod tick;
mod transaction;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Token, Waker};
use slab::Slab;
use varve_exec::CommandTable;
use varve_exec::batch::Batch;
use varve_protocol::Reply;

use crate::config::{Config, Live};
use crate::features::latency::state as latency;
use crate::features::pubsub::listening;
use crate::features::pubsub::state::{Hub, Inbox, Registry, Sink};
use crate::net::conn::{Conn, Phase, Pool, flush};
use crate::net::listen::Listener;
use crate::net::sockets::Sockets;
use crate::state::mail::{Mailbox, Message};
use crate::state::{Now, ServerState, WorkerHandle};

/// The poll's tokens of the mailbox and of all listening sockets; connections' tokens are their slots.
const MAILBOX: Token = Token(usize::MAX);
const LISTENERS: Token = Token(usize::MAX - 1);
/// Events taken from one poll.
const EVENTS: usize = 1024;
/// Bytes of the scratch buffer that connections without a half request are read into: a pipeline of 256 small commands
/// fits, and the pages that it touches count with every worker.
const SCRATCH_BYTES: usize = 32 * 1024;
/// What background steps may take of one turn of the loop: a quarter of the time since the last ones began, within these.
/// Who sends one request at a time waits for a short turn only; under load they keep up.
const BACKGROUND_MIN: Duration = Duration::from_micros(25);
const BACKGROUND_MAX: Duration = Duration::from_micros(100);
/// How long replies being written may take when the server ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// A connection in the ready queue; the id tells whether the slot has changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ready {
    slot: usize,
    id: u64,
}

/// See the module's text.
struct Worker {
    index: usize,
    state: Arc<ServerState>,
    config: Arc<Config>,
    /// The count of changes that `config` has seen.
    config_changes: u64,
    table: Arc<CommandTable>,
    poll: Poll,
    conns: Slab<Box<Conn>>,
    ready: VecDeque<Ready>,
    /// Connections that events or the queue name: whose turn it is.
    turns: Vec<Ready>,
    /// Those of them that were read together.
    group: Vec<group::Arrived>,
    mail: Vec<Message>,
    scratch: Box<[u8]>,
    pool: Pool,
    reply: Reply,
    batch: Batch,
    store: varve_store::Worker,
    /// What its connections listen to.
    hub: Hub,
    /// Connections that CLIENT PAUSE holds back.
    held: paused::PausedClients,
    /// Connections whose replies wait until others have been told.
    told: invalidation_barrier::InvalidationBarrier,
    now: Now,
    /// When background steps were last begun.
    background_at: Instant,
    /// Worker 0: whether some socket may have connections that were not accepted yet.
    accept_due: bool,
    tick: tick::Tick,
    blocked: blocked::BlockedClients,
    stopping: bool,
    /// Turns in a row that ended because a shard was busy.
    busy: u32,
}

/// What the workers are started with.
pub(crate) struct Setup {
    pub(crate) store: Arc<varve_store::Store>,
    pub(crate) config: Live,
    pub(crate) table: Arc<CommandTable>,
    pub(crate) run_id: String,
    pub(crate) listeners: Vec<Listener>,
    /// Number of workers, at least 1.
    pub(crate) workers: usize,
}

/// The running workers.
pub(crate) struct Running {
    pub(crate) state: Arc<ServerState>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Waits until all workers have ended.
    pub(crate) fn join(self) {
        for thread in self.threads {
            thread.join().expect("a worker ends by returning");
        }
    }
}

/// Starts the workers. Worker 0 accepts connections on `listeners`.
pub(crate) fn start(setup: Setup) -> io::Result<Running> {
    assert!(setup.workers > 0, "somebody must serve");
    let mut polls = Vec::new();
    let mut handles = Vec::new();
    let mut inboxes = Vec::new();
    for _ in 0..setup.workers {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), MAILBOX)?);
        inboxes.push(Inbox::new(Arc::clone(&waker)));
        handles.push(WorkerHandle::new(Mailbox::new(waker)));
        polls.push(poll);
    }
    let sockets = Sockets::new(polls[0].registry().try_clone()?, LISTENERS, setup.listeners)?;
    let state = Arc::new(ServerState::new(
        setup.store,
        setup.config,
        setup.run_id,
        sockets,
        handles,
        Arc::new(Registry::new(inboxes)),
    ));
    let mut threads = Vec::new();
    for (index, poll) in polls.into_iter().enumerate() {
        let mut worker = Worker::new(index, poll, Arc::clone(&state), Arc::clone(&setup.table));
        worker.refresh();
        let name = format!("worker-{index}");
        threads.push(std::thread::Builder::new().name(name).spawn(move || worker.run())?);
    }
    Ok(Running { state, threads })
}

impl Worker {
    fn new(index: usize, poll: Poll, state: Arc<ServerState>, table: Arc<CommandTable>) -> Worker {
        let config = state.config.snapshot();
        let mut store = state.store.worker(index);
        let mut batch = Batch::new(Arc::clone(&state.workers[index].commands));
        batch.set_events(&mut store, Sink::new(Arc::clone(&state.pubsub), index));
        Worker {
            index,
            config,
            config_changes: 0,
            table,
            poll,
            conns: Slab::new(),
            ready: VecDeque::new(),
            turns: Vec::new(),
            group: Vec::new(),
            mail: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            pool: Pool::default(),
            reply: Reply::new(),
            batch,
            store,
            hub: Hub::new(index),
            held: paused::PausedClients::default(),
            told: invalidation_barrier::InvalidationBarrier::default(),
            now: Now::read(),
            background_at: Instant::now(),
            accept_due: false,
            tick: tick::Tick::default(),
            blocked: blocked::BlockedClients::default(),
            stopping: false,
            busy: 0,
            state,
        }
    }

    /// The loop, until the server ends.
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut background_due_ms = Some(0);
        while !self.stopping {
            let timeout = self.timeout(background_due_ms);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => panic!("poll: {error}"),
                _ => {}
            }
            self.now = Now::read();
            self.follow_config();
            for event in &events {
                self.dispatch(event);
            }
            self.serve_arrived();
            self.release_held();
            self.fan_out();
            self.serve_ready();
            self.report_told();
            self.limit_clients();
            if self.accept_due {
                self.accept();
            }
            self.now = Now::read();
            self.end_waits();
            self.tick();
            if self.state.tracking.is_over(self.config.tracked_keys_max) {
                self.state.tracking.limit(self.config.tracked_keys_max, self.index);
            }
            background_due_ms = self.background();
            self.state.tracking.flush(self.index);
            self.forget_owed();
        }
        self.farewell();
    }

    /// The store's background steps; the latency monitor hears of those that took long.
    fn background(&mut self) -> Option<i64> {
        let now_ms = self.now.unix_ms;
        let since = self.now.instant.saturating_duration_since(self.background_at);
        let budget = (since / 4).clamp(BACKGROUND_MIN, BACKGROUND_MAX);
        self.background_at = self.now.instant;
        if self.config.latency_threshold_ms == 0 {
            return self.store.background(now_ms, budget);
        }
        let (start, before) = (Instant::now(), self.state.store.totals());
        let due = self.store.background(now_ms, budget);
        let millis = start.elapsed().as_millis() as u64;
        if millis >= self.config.latency_threshold_ms {
            let after = self.state.store.totals();
            let event = if after.evicted > before.evicted {
                latency::Event::Evict
            } else if after.expired > before.expired {
                latency::Event::Expire
            } else {
                latency::Event::Background
            };
            self.state.latency.lock().add(event, now_ms / 1000, millis);
        }
        due
    }

    /// How long the poll may wait: not at all with work at hand, else until the tick or the store's next step.
    fn timeout(&self, background_due_ms: Option<i64>) -> Option<Duration> {
        if !self.ready.is_empty() || self.accept_due || self.owes_delivery() {
            return Some(Duration::ZERO);
        }
        let tick = self.tick.due_in(self.now.instant);
        let tick = self.blocked.due_in(self.now.instant).map_or(tick, |due| tick.min(due));
        let tick = self.held_for().map_or(tick, |due| tick.min(due));
        Some(
            background_due_ms.map_or(tick, |due| {
                tick.min(Duration::from_millis(due.saturating_sub(self.now.unix_ms).max(0) as u64))
            }),
        )
    }

    fn dispatch(&mut self, event: &Event) {
        let token = event.token();
        if token == MAILBOX {
            self.read_mail();
        } else if token == LISTENERS {
            self.accept_due = true;
        } else if let Some(conn) = self.conns.get_mut(token.0) {
            conn.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
            conn.hung_up |= event.is_read_closed() || event.is_error();
            conn.blocked &= !(event.is_writable() || event.is_error());
            self.turns.push(Ready { slot: token.0, id: conn.session.id });
        }
    }

    /// Visits the connections that the events named.
    fn serve_arrived(&mut self) {
        let mut turns = std::mem::take(&mut self.turns);
        self.serve_all(&turns);
        turns.clear();
        self.turns = turns;
    }

    fn read_mail(&mut self) {
        let mut mail = std::mem::take(&mut self.mail);
        self.state.workers[self.index].mailbox.collect(&mut mail);
        for message in mail.drain(..) {
            match message {
                Message::Adopt(newcomer) => self.adopt(newcomer),
                Message::Ask(gather) => self.answer(&gather),
                Message::Gathered(gather) => self.gathered(&gather),
                Message::Served(served) => self.served(&served),
                Message::Crowded => self.crowded(),
                Message::Refresh => self.follow_config(),
                Message::Stop => self.stopping = true,
            }
        }
        self.mail = mail;
    }

    /// Takes the current configuration if it is a new one. Done before each batch of events and after each command of the
    /// server itself: a client that has seen CONFIG SET succeed finds its effect on every connection.
    fn follow_config(&mut self) {
        if self.state.config.changes() != self.config_changes {
            self.refresh();
        }
    }

    fn refresh(&mut self) {
        self.config_changes = self.state.config.changes();
        self.config = self.state.config.snapshot();
        self.batch.slow().set(self.config.slowlog_slower_than_us, self.config.latency_threshold_ms);
        self.batch.stats().track_latency(self.config.latency_tracking);
        for (_, conn) in &mut self.conns {
            conn.set_limits(&self.config);
        }
    }

    /// Puts a connection behind those that are ready, once.
    fn queue(&mut self, slot: usize) {
        let conn = &mut self.conns[slot];
        if !conn.queued {
            conn.queued = true;
            self.ready.push_back(Ready { slot, id: conn.session.id });
        }
    }

    /// Closes a connection at once; what it has not sent is lost.
    fn close(&mut self, slot: usize) {
        self.conns[slot].session.leave_transaction(&mut self.store);
        let conn = &mut self.conns[slot];
        listening::stop_all(conn, &mut self.hub, &self.state, slot);
        self.state.pubsub.leave(conn.session.id);
        // Closing the socket takes it out of the poll.
        let conn = self.conns.remove(slot);
        if conn.phase == Phase::Blocked {
            self.abandon_wait(conn.session.id);
        }
        if conn.held {
            self.forget_held(conn.session.id);
        }
        let handle = &self.state.workers[self.index];
        handle.weights.change(conn.weight, 0);
        handle.stats.buffer_bytes.change(conn.counted_bytes, 0);
        handle.assigned.fetch_sub(1, Ordering::Relaxed);
        handle.stats.connected.set(self.conns.len() as u64);
    }

    /// The end: writes what the sockets still take within [`FAREWELL`], then closes everything.
    fn farewell(&mut self) {
        let until = Instant::now() + FAREWELL;
        let mut waiting: Vec<usize> = self.conns.iter().filter(|(_, c)| !c.output.is_empty()).map(|(s, _)| s).collect();
        while !waiting.is_empty() && Instant::now() < until {
            waiting.retain(|&slot| {
                let conn = &mut self.conns[slot];
                flush(&conn.stream, &mut conn.output).is_ok() && !conn.output.is_empty()
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.index == 0 {
            self.state.sockets.close();
        }
        self.conns.clear();
    }
}
