//! A worker: a thread with an event loop, its own connections, and a mailbox. As many as cores unless configured.
//!
//! ```text
//!   +-> poll (waits only if nothing is ready) -> events: read, execute, write      group.rs, serve.rs, run.rs
//!   |   ready queue: connections with more to do, one turn each                    group.rs
//!   |   mailbox, behind all sockets: newcomers, questions, a new configuration, stop                   here, ask_all_workers.rs
//!   |   blocked clients whose time is up                                           core.rs
//!   |   a slice of the script that rests                                             scripts.rs
//!   |   tick: timeouts in slices, rates                                            tick.rs
//!   +-- the store's background steps                                               here
//! ```
//!
//! A request without a pipeline costs one poll, one read, one write and two readings of the clock. Sockets are registered
//! once, edge-triggered for both directions; a timer is only the poll's timeout. Connections come from a thread of its own
//! (accept.rs), by mail; those by TLS after their handshake (handshakes.rs). Not here: what commands do.

mod abandoned;
mod accept;
mod ask_all_workers;
mod core;
mod deliver;
mod group;
mod handshakes;
mod left;
mod links;
mod replicas;
mod resting;
mod run;
mod scripts;
mod serve;
mod settling;
mod sums;
mod tick;
mod transaction;
mod users;
mod waits;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Token, Waker};
use varve_base::shared;
use varve_exec::CommandTable;
use varve_protocol::Reply;

use self::accept::Acceptor;
use self::core::Core;
use self::handshakes::Greeter;
use self::sums::{Share, Sums};
use crate::config::Live;
use crate::features;
use crate::features::clients::evict_clients;
use crate::features::info;
use crate::features::latency::state as latency;
use crate::features::persist;
use crate::features::persist::state::aof::Aof;
use crate::features::pubsub::publishers::ROOM_CHECK;
use crate::features::pubsub::state::{ConnId, ConnRef, Home};
use crate::features::pubsub::state::{Inbox, Registry};
use crate::net::conn::{Conn, Newcomer, Pool};
use crate::net::links::{LinkSettings, Links};
use crate::net::listen::Listener;
use crate::net::tls::Context;
use crate::net::tls::Contexts;
use crate::state::handshakes::Handshakes;
use crate::state::mail::{Mailbox, Message};
use crate::state::{Now, Parts, ServerState, WorkerHandle};
use crate::system::{random, threads};

/// The poll's token of the mailbox; connections' tokens are their numbers, and links have theirs above (net/links.rs).
const MAILBOX: Token = Token(usize::MAX);
/// Events taken from one poll.
const EVENTS: usize = 1024;
/// Bytes of the scratch buffer that connections without a half request are read into: a pipeline of 256 small commands
/// fits, and the pages that it touches count with every worker.
const SCRATCH_BYTES: usize = 32 * 1024;
/// Background steps take a quarter of the time since the last ones began, within these bounds. A client that sends one
/// request at a time waits for a short turn only; under load the steps keep up.
const BACKGROUND_MIN: Duration = Duration::from_micros(25);
const BACKGROUND_MAX: Duration = Duration::from_micros(100);
/// Workers from which on two threads do handshakes.
const TWO_GREETERS_FROM: usize = 4;
/// How long replies being written may take when the server ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// The buffers of a worker, which requests lie in and replies go to while they are executed.
struct Buffers {
    scratch: Box<[u8]>,
    reply: Reply,
    /// For connections with half a request.
    pool: Pool,
    /// Bytes of the pool that the worker's sum has.
    pool_counted_bytes: usize,
}

/// See the module's text.
struct Worker {
    core: Core,
    poll: Poll,
    buffers: Buffers,
    /// Connections that events or the queue name, which are visited next.
    visits: Vec<ConnRef>,
    /// Those of them that were read together.
    group: Vec<group::Arrived>,
    mail: Vec<Message>,
    /// When background steps were last begun.
    background_at: Instant,
    tick: tick::Tick,
    sums: Sums,
    stopping: bool,
}

/// The parts that the workers are started with.
pub(crate) struct Setup {
    pub(crate) store: Arc<varve_store::Store>,
    pub(crate) config: Live,
    pub(crate) table: Arc<CommandTable>,
    pub(crate) run_id: String,
    pub(crate) listeners: Vec<Listener>,
    /// The context of TLS connections; None: there are none.
    pub(crate) tls: Option<Context>,
    /// Number of workers, at least 1.
    pub(crate) workers: usize,
    /// Data is to be loaded before clients are served.
    pub(crate) loads: bool,
}

/// The running workers.
pub(crate) struct Running {
    pub(crate) state: Arc<ServerState>,
    threads: Vec<JoinHandle<()>>,
    /// The acceptor begins with a word from here.
    accepts: SyncSender<()>,
}

impl Running {
    /// Has connections accepted from now on. Until then the system keeps those that come.
    pub(crate) fn accept(&self) {
        // A second call finds the first one's word still there, or the thread gone on or ended.
        let _ = self.accepts.try_send(());
    }

    /// Waits until the server is to end, then for the end of all threads, [`LEAVE_MAX`] at most: a command that does not return
    /// keeps no server.
    pub(crate) fn join(mut self) {
        // It ends with the stop, whatever the workers do.
        let acceptor = self.threads.pop().expect("it was begun last");
        acceptor.join().expect("a thread ends by returning");
        for name in join_within(self.threads, LEAVE_MAX) {
            let seconds = LEAVE_MAX.as_secs();
            tracing::warn!("The thread {name} has not ended {seconds} s after the stop: the server ends without it.");
        }
    }
}

/// For how long threads are waited for that are to end. The last save is done by then: a worker ends with its turn.
const LEAVE_MAX: Duration = Duration::from_secs(10);
/// The interval between two looks at whether they have ended.
const LEAVE_LOOK: Duration = Duration::from_millis(1);

/// Waits until all threads have ended, but no longer than this; the names of those that have not.
///
/// # Panics
/// If a thread has ended by a panic.
fn join_within(mut threads: Vec<JoinHandle<()>>, most: Duration) -> Vec<String> {
    let until = Instant::now() + most;
    loop {
        let (ended, left) = threads.into_iter().partition::<Vec<_>, _>(JoinHandle::is_finished);
        ended.into_iter().for_each(|thread| thread.join().expect("a thread ends by returning"));
        threads = left;
        if threads.is_empty() || Instant::now() >= until {
            return threads
                .iter()
                .map(|thread| thread.thread().name().unwrap_or("without a name").to_owned())
                .collect();
        }
        std::thread::sleep(LEAVE_LOOK);
    }
}

/// Starts the workers, and the thread that accepts connections on `listeners`: at once, or, where data is loaded first, from
/// [`Running::accept`] on.
pub(crate) fn start(setup: Setup) -> io::Result<Running> {
    assert!(setup.workers > 0, "somebody must serve");
    let mut polls = Vec::new();
    let mut handles = Vec::new();
    let mut inboxes = Vec::new();
    let mut wakers = Vec::new();
    for _ in 0..setup.workers {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), MAILBOX)?);
        inboxes.push(Inbox::new(Arc::clone(&waker)));
        wakers.push(Arc::clone(&waker));
        handles.push(WorkerHandle::new(Mailbox::new(waker), features::commands()));
        polls.push(poll);
    }
    let (acceptor, sockets) = Acceptor::new(setup.listeners)?;
    let tls = Contexts::default();
    tls.exchange(setup.tls);
    let (greeters, handshakes) = make_greeters(setup.workers)?.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let aof = Aof::new(wakers);
    let state = Arc::new(ServerState::new(Parts {
        store: setup.store,
        config: setup.config,
        commands: *features::commands(),
        table: Arc::clone(&setup.table),
        run_id: setup.run_id,
        stream_id: random::hex(40)?,
        sockets,
        tls,
        handshakes,
        workers: handles,
        pubsub: Arc::new(Registry::new(inboxes, Arc::clone(aof.journal()))),
        loads: setup.loads,
        aof,
    }));
    persist::aof::set_journal(&state);
    state.acl().start(&state.config().declared_users(), &state.config().snapshot()).map_err(io::Error::other)?;
    let mut threads = Vec::new();
    for (index, poll) in polls.into_iter().enumerate() {
        let resolver = Arc::clone(&state);
        let resolve = move |link, resolved| resolver.workers()[index].send(Message::Resolved { link, resolved });
        let contexts = Arc::clone(&state);
        let context = Box::new(move || LinkSettings {
            tls: contexts.tls().client(),
            source: contexts.config().snapshot().source_address,
        });
        let links = Links::new(poll.registry().try_clone()?, Arc::new(resolve), context);
        let state = Arc::clone(&state);
        // It is made where it runs: a script that rests is its thread's.
        let run = move || Worker::new(poll, Core::new(index, state, links)).run();
        threads.push(threads::start(format!("worker-{index}"), run)?);
    }
    for greeter in greeters {
        let state = Arc::clone(&state);
        threads.push(threads::start("handshakes", move || greeter.run(&state))?);
    }
    let accepting = Arc::clone(&state);
    let (accepts, begins) = sync_channel(1);
    let accept = move || {
        if begins.recv().is_ok() {
            acceptor.run(&accepting);
        }
    };
    threads.push(threads::start("acceptor", accept)?);
    let running = Running { state, threads, accepts };
    if !setup.loads {
        running.accept();
    }
    Ok(running)
}

/// The parts that do handshakes, and what they are given.
fn make_greeters(workers: usize) -> io::Result<Vec<(Greeter, Handshakes)>> {
    (0..if workers < TWO_GREETERS_FROM { 1 } else { 2 }).map(Greeter::new).collect()
}

impl Worker {
    fn new(poll: Poll, core: Core) -> Worker {
        let buffers = Buffers {
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            reply: Reply::new(),
            pool: Pool::default(),
            pool_counted_bytes: 0,
        };
        Worker {
            core,
            poll,
            buffers,
            visits: Vec::new(),
            group: Vec::new(),
            mail: Vec::new(),
            background_at: Instant::now(),
            tick: tick::Tick::default(),
            sums: Sums::new(Instant::now()),
            stopping: false,
        }
    }

    /// The loop, until the server ends.
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut background_due_ms = Some(0);
        self.core.handle().runs_here();
        self.sum_clients();
        while !self.stopping {
            let timeout = self.timeout(background_due_ms);
            if timeout != Some(Duration::ZERO) {
                self.core.handle().load().sleep();
            }
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => panic!("poll: {error}"),
                _ => {}
            }
            let writes = shared::writes();
            self.core.now = Now::read();
            let woken = self.core.now.instant;
            self.core.handle().load().wake(self.core.now.steady_ms);
            self.core.delivery_time.begin_turn();
            self.core.follow_config();
            let mut mail_came = false;
            for event in &events {
                mail_came |= self.dispatch(event);
            }
            self.serve_arrived();
            self.core.settle_links();
            self.core.release_waiting();
            self.core.release_filed();
            self.serve_ready();
            self.core.go_on_left();
            self.core.serve_rest();
            self.core.go_on_leaving();
            self.go_on_with_script();
            self.core.fan_out();
            self.limit_clients();
            self.core.limit_strangers();
            // Behind the sockets: a newcomer gets the number of a connection that an event of this batch was for, and a
            // question is answered by what the sockets have brought.
            if mail_came {
                self.read_mail();
            }
            self.core.go_on_answering();
            self.core.now = Now::read();
            self.tick.add_busy(self.core.now.instant - woken);
            self.core.end_waits();
            self.tick();
            self.core.limit_tracked_keys();
            self.core.go_on_settling();
            background_due_ms = self.background();
            if self.core.load() {
                background_due_ms = Some(0);
            }
            self.core.send_background_changes();
            self.count_turn(writes);
            self.core.sleep_when_shut_out();
        }
        self.end_script_at_once();
        self.farewell();
    }

    /// Counts the turn, and its writes to what workers share, for a test: in debug builds, and without the turns that have a
    /// tick, ten a second.
    #[inline(always)]
    fn count_turn(&self, writes_before: u64) {
        #[cfg(debug_assertions)]
        if !self.tick.is_of(self.core.now.instant) {
            let stats = self.core.handle().stats();
            stats.turns.add(1);
            stats.shared_writes.add(shared::writes() - writes_before);
        }
        #[cfg(not(debug_assertions))]
        let _ = writes_before;
    }

    /// The store's background steps; those that took long go to the latency monitor.
    fn background(&mut self) -> Option<i64> {
        let core = &mut self.core;
        let now_ms = core.now.unix_ms;
        let since = core.now.instant.saturating_duration_since(self.background_at);
        let budget = (since / 4).clamp(BACKGROUND_MIN, BACKGROUND_MAX);
        self.background_at = core.now.instant;
        if core.config.latency_threshold_ms == 0 {
            return core.store.background(now_ms, budget);
        }
        let (start, before) = (Instant::now(), core.state.store().totals());
        let due = core.store.background(now_ms, budget);
        let millis = start.elapsed().as_millis() as u64;
        if millis >= core.config.latency_threshold_ms {
            let after = core.state.store().totals();
            let event = if after.evicted > before.evicted {
                latency::Event::Evict
            } else if after.expired > before.expired {
                latency::Event::Expire
            } else {
                latency::Event::Background
            };
            core.state.latency().add(event, now_ms / 1000, millis);
        }
        due
    }

    /// How long the poll may wait: not at all with work at hand, else until the tick or the store's next step.
    fn timeout(&mut self, background_due_ms: Option<i64>) -> Option<Duration> {
        let core = &mut self.core;
        let script_waits = core.script_waits();
        let owes = core.conns.any_ready()
            || core.owes_delivery()
            || core.questions.any()
            || core.script.is_some() && !script_waits
            || core.hub.is_leaving()
            || core.owes_tracked_memory()
            || core.tracks_too_much();
        if owes || !core.may_rest() || !core.may_wait_for_file() {
            return Some(Duration::ZERO);
        }
        let background = background_due_ms.map(|due| {
            let left_ms = due.saturating_sub(core.now.unix_ms).max(0);
            Duration::from_millis(left_ms as u64)
        });
        let waits = [
            core.blocked.due_in(core.now.instant),
            core.links.due_in(core.now.instant),
            core.publishers.due_in(),
            core.left.due_in(),
            core.service_due_in(),
            script_waits.then_some(ROOM_CHECK),
            core.resting.due_in(core.now.instant),
            core.paused.due_in(core.state.pauses().until_ms(), core.now.steady_ms),
            background,
            self.sums.due_in(core.now.instant, core.stats().buffer_bytes.get()),
        ];
        let tick = self.tick.due_in(core.now.instant);
        Some(waits.into_iter().flatten().fold(tick, Duration::min))
    }

    /// Notes an event for its connection; true if it is the mailbox's.
    fn dispatch(&mut self, event: &Event) -> bool {
        let token = event.token();
        if token == MAILBOX {
            return true;
        }
        if Links::owns(token) {
            self.core.note_link(event);
            return false;
        }
        if let Some(conn) = self.core.conns.at(ConnId(token.0)) {
            conn.note_event(event);
            self.visits.push(conn.who());
        }
        false
    }

    fn read_mail(&mut self) {
        let mut mail = std::mem::take(&mut self.mail);
        self.core.handle().take_mail(&mut mail);
        for message in mail.drain(..) {
            match message {
                Message::Adopt(newcomer) => self.adopt(newcomer),
                Message::Ask(gather) => self.core.answer(&gather),
                Message::Gathered(gather) => self.core.gathered(&gather),
                Message::Served { served, filed } => self.core.serve_waiter(served, filed),
                Message::WorkDone { conn, done } => self.core.work_done(conn, done),
                Message::Resolved { link, resolved } => self.core.resolved(&link, resolved),
                Message::EvictClients => {
                    self.core.handle().begin_evicting();
                    self.sum_clients();
                }
                Message::Stream => self.core.feed_replicas(),
                Message::Copied { client } => self.core.look_for_copies(client),
                // Looked for in each turn: it has only to wake.
                Message::Load => {}
                Message::Sleep => self.core.state.sleep_out(),
                Message::Alone(work) => self.core.alone(work),
                Message::Follows(answer) => {
                    self.core.unblock_all();
                    self.core.settle(answer);
                }
                Message::Settle(answer) => self.core.settle(answer),
                Message::Shutdown(options) => self.core.shutdown(options),
                Message::Stays { client } => self.core.stays(client),
                Message::Refresh => self.core.follow_config(),
                Message::Stop => self.stopping = true,
            }
        }
        self.mail = mail;
    }

    /// Adds up what the clients of all workers take, if that is due.
    #[inline]
    fn limit_clients(&mut self) {
        let core = &mut self.core;
        let pool = self.buffers.pool.bytes();
        if pool != self.buffers.pool_counted_bytes {
            core.stats().buffer_bytes.change(self.buffers.pool_counted_bytes, pool);
            self.buffers.pool_counted_bytes = pool;
        }
        let own = Share {
            buffers: core.stats().buffer_bytes.get(),
            weights: core.handle().weights().total(),
            max: core.config.client_bytes_max(),
        };
        if self.sums.is_due(core.now.instant, own) {
            self.sum_clients();
        }
    }

    /// Closes clients while all together are over the limit, and gives the store the sum of their buffers.
    fn sum_clients(&mut self) {
        let core = &mut self.core;
        let limit = core.config.client_bytes_max();
        let max = if limit > 0 { limit } else { core.state.client_room().bytes() };
        // Bytes over the limit go at once, and must not cost a key its place before.
        let buffers = core.state.total(|stats| &stats.buffer_bytes) + core.state.pubsub().payload_bytes() as u64;
        let buffers = buffers.min(max);
        let scripts = core.state.scripts().bytes();
        let stream = core.state.replication().counted_bytes();
        let (tracking, rights) = (core.state.tracking().bytes(), core.state.acl().bytes());
        let logs = core.state.command_log_bytes();
        let tables = (tracking + rights + logs) as u64;
        core.state.store().set_outside_bytes(info::startup_bytes() + buffers + tables + scripts + stream);
        let taken = evict_clients::total(&core.state);
        core.follow_clients(taken);
        if taken > max {
            core.evict_clients(max);
        }
    }

    /// Makes a newcomer one of this worker's connections.
    fn adopt(&mut self, mut newcomer: Newcomer) {
        let core = &mut self.core;
        let id = core.conns.next_id();
        let default = Arc::clone(core.state.acl().users().default_user());
        let names = newcomer.names.take();
        let mut conn = Conn::new(id, newcomer, &core.config, default, core.now.steady_ms);
        let registered = conn.register(self.poll.registry(), Token(id.0));
        core.state.pubsub().arrive(conn.session().id(), Home { worker: core.index, conn: id });
        core.conns.add(conn);
        if let Some(names) = names {
            core.log_in_by_certificate(id, &names);
        }
        core.stats().connected.set(core.conns.len() as u64);
        match registered {
            Ok(()) => self.visit(id),
            Err(error) => {
                tracing::warn!("registering a connection: {error}");
                core.close(id);
            }
        }
    }

    /// The end: writes what the sockets still take within [`FAREWELL`], then closes everything.
    fn farewell(&mut self) {
        let core = &mut self.core;
        let until = Instant::now() + FAREWELL;
        let unsent = core.conns.iter().filter(|conn| !conn.output().is_empty());
        let mut waiting: Vec<ConnId> = unsent.map(|conn| conn.who().conn).collect();
        while !waiting.is_empty() && Instant::now() < until {
            core.release_filed();
            waiting.retain(|&id| {
                let conn = &mut core.conns[id];
                conn.waits_for_file() || conn.write_unsent().is_ok() && !conn.output().is_empty()
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        core.conns.clear();
    }
}
