//! A worker without its buffers: its connections, the store's worker and the executor, and each matter's part of it.
//!
//! Commands run here; the buffers that requests lie in and replies go to are lent by the event loop (`Worker`). Not here:
//! polling, reading (serve.rs), the loop (mod.rs).

use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_exec::apply::ApplyWorker;
use varve_exec::batch::Batch;
use varve_exec::stats::CommandStats;
use varve_exec::{Blocked, CommandError, CommandTable, Served};
use varve_protocol::Reply;
use varve_store::StoreWorker;

use super::abandoned::Abandoned;
use super::ask_all_workers::Questions;
use super::left::LeftCommands;
use super::replicas::Following;
use super::resting::Resting;
use super::scripts::ScriptAtRest;
use super::settling::Settling;
use super::waits::Waits;
use crate::config::{Config, ShutdownOptions};
use crate::errors;
use crate::features::clients::blocked::BlockedClients;
use crate::features::clients::state::ClientClass;
use crate::features::clients::{self, evict_clients, strangers};
use crate::features::pause::paused::PausedClients;
use crate::features::persist;
use crate::features::persist::aof::waiting::WaitingForFile;
use crate::features::persist::shutdown::Ending;
use crate::features::pubsub::delivery::DeliveryTime;
use crate::features::pubsub::held_replies::HeldReplies;
use crate::features::pubsub::listening;
use crate::features::pubsub::publishers::WaitingPublishers;
use crate::features::pubsub::receivers::Receivers;
use crate::features::pubsub::state::{ConnId, ConnRef};
use crate::features::pubsub::state::{Hub, Sink};
use crate::features::replication::primary;
use crate::features::tracking::invalidation_barrier::InvalidationBarrier;
use crate::net::conn::WaitReasons;
use crate::net::conns::Conns;
use crate::net::links::Links;
use crate::state::mail::{AloneWork, Message};
use crate::state::{Now, ServerState, WaitsOn, WorkerHandle, WorkerStats};

/// How soon clients are tried again whose service was put off, if nothing could be done for them: as soon as connections that
/// have met a busy shard.
const SERVICE_REST: Duration = Duration::from_millis(1);

/// See the module's text.
pub(super) struct Core {
    pub(super) index: usize,
    pub(super) state: Arc<ServerState>,
    pub(super) config: Arc<Config>,
    /// Bytes of one connection's replies where its class has no limit, as clients took memory when it was last summed.
    reply_bytes_max: usize,
    /// The count of changes that `config` has seen.
    config_changes: u64,
    pub(super) table: Arc<CommandTable>,
    pub(super) conns: Conns,
    pub(super) batch: Batch,
    pub(super) store: StoreWorker,
    /// The connections to other servers.
    pub(super) links: Links,
    /// The subscriptions of its connections.
    pub(super) hub: Hub,
    pub(super) paused: PausedClients,
    /// The connections that deliveries have reached and that are not written.
    pub(super) receivers: Receivers,
    pub(super) delivery_time: DeliveryTime,
    pub(super) held_replies: HeldReplies,
    pub(super) publishers: WaitingPublishers,
    pub(super) barrier: InvalidationBarrier,
    pub(super) blocked: BlockedClients,
    pub(super) now: Now,
    pub(super) resting: Resting,
    /// The connections whose replies wait for the append-only file.
    pub(super) filed: WaitingForFile,
    /// Those that are replicas of this server.
    pub(super) following: Following,
    /// Those who wait until nothing more is written of what was begun.
    pub(super) settling: Settling,
    /// Questions about all connections that are not answered yet.
    pub(super) questions: Questions,
    /// Run its share of the commands of a file that is being loaded, and of a primary's stream. Either may have commands that are
    /// half done while the other goes on: DEBUG LOADAOF at a replica.
    applies_file: Option<Box<ApplyWorker>>,
    applies_stream: Option<Box<ApplyWorker>>,
    /// The connections that wait for what others hold.
    pub(super) waits: Waits,
    /// Turns in a row that ended because a shard was busy, or the gate shut.
    pub(super) busy: u32,
    /// When they had become many.
    pub(super) busy_since: Instant,
    /// The last of them found the gate shut.
    pub(super) is_shut_out: bool,
    /// The script that rests.
    pub(super) script: Option<ScriptAtRest>,
    /// Until when clients whose service was put off are not tried again.
    service_rests: Option<Instant>,
    /// The commands that clients have left behind.
    pub(super) left: LeftCommands,
    /// The questions that clients have left behind.
    pub(super) abandoned: Abandoned,
}

impl Core {
    /// Of worker `index`.
    pub(super) fn new(index: usize, state: Arc<ServerState>, links: Links) -> Core {
        let mut batch = Batch::new(Arc::clone(state.workers()[index].commands()));
        let mut store = state.store().worker(index);
        batch.set_scripts(state.script_parts(index));
        let sink = |author| Sink::new(Arc::clone(state.pubsub()), author);
        batch.set_events(&mut store, sink(index), sink(state.pubsub().scripts_of(index)));
        let mut core = Core {
            index,
            config: state.config().snapshot(),
            reply_bytes_max: state.client_room().reply_bytes(0, state.workers().len()),
            config_changes: 0,
            table: Arc::clone(state.table()),
            conns: Conns::default(),
            batch,
            store,
            links,
            hub: Hub::new(index),
            paused: PausedClients::default(),
            receivers: Receivers::default(),
            delivery_time: DeliveryTime::default(),
            held_replies: HeldReplies::default(),
            publishers: WaitingPublishers::default(),
            barrier: InvalidationBarrier::default(),
            blocked: BlockedClients::default(),
            now: Now::read(),
            resting: Resting::default(),
            filed: WaitingForFile::default(),
            following: Following::default(),
            settling: Settling::default(),
            questions: Questions::default(),
            applies_file: None,
            applies_stream: None,
            waits: Waits::default(),
            busy: 0,
            busy_since: Instant::now(),
            is_shut_out: false,
            script: None,
            service_rests: None,
            left: LeftCommands::default(),
            abandoned: Abandoned::default(),
            state,
        };
        core.refresh();
        core
    }

    /// The handle through which others see this worker.
    pub(super) fn handle(&self) -> &WorkerHandle {
        &self.state.workers()[self.index]
    }

    /// The counters of this worker.
    #[inline]
    pub(super) fn stats(&self) -> &WorkerStats {
        self.state.workers()[self.index].stats()
    }

    /// Takes the current configuration if it is a new one. Done before each batch of events, behind each read of a socket and
    /// after each command of the server itself: a client that has seen CONFIG SET succeed finds its effect on every connection.
    pub(super) fn follow_config(&mut self) {
        if self.state.config().changes() != self.config_changes {
            self.refresh();
        }
    }

    fn refresh(&mut self) {
        self.config_changes = self.state.config().changes();
        self.config = self.state.config().snapshot();
        self.batch.slow().set(self.config.noted_from);
        self.batch.stats().track_latency(self.config.latency_tracking);
        self.conns.iter_mut().for_each(|conn| conn.set_limits(&self.config));
    }

    /// Closes a connection at once; output that is unsent is lost.
    pub(super) fn close(&mut self, id: ConnId) {
        self.forget_replica(id);
        self.forget_waits(id);
        let conn = &mut self.conns[id];
        let who = conn.who();
        conn.session_mut().leave_transaction(&mut self.store);
        let left = conn.session_mut().leave_ongoing(&mut self.store);
        left.into_iter().for_each(|command| self.left.add(command));
        let deferred = conn.take_deferred();
        if let Some(subscriptions) = conn.take_subscriptions() {
            self.hub.leave(self.state.pubsub(), who.client, *subscriptions);
        }
        listening::stop_all(conn, &mut self.hub, &self.state);
        self.state.pubsub().leave(who.client);
        if let Some(deferred) = deferred {
            self.abandon(who, deferred.left());
        }
        // Closing the socket takes it out of the poll.
        let conn = self.conns.remove(id);
        let handle = &self.state.workers()[self.index];
        if conn.waits(WaitReasons::KEYS) {
            self.blocked.abandon(who.client, &mut self.store, handle.stats());
            self.state.replication().waiters().forget(who.client);
        }
        if conn.waits(WaitReasons::PAUSE) {
            self.paused.forget(who, handle.stats());
        }
        evict_clients::forget(&conn, handle);
        handle.release();
        handle.stats().connected.set(self.conns.len() as u64);
    }

    /// Counts what the connection takes now.
    #[inline]
    pub(super) fn count(&mut self, id: ConnId) {
        evict_clients::count(&mut self.conns[id], &self.state.workers()[self.index]);
    }

    /// Closes the largest clients while all together take more than `max` bytes and the largest are here.
    #[cold]
    pub(super) fn evict_clients(&mut self, max: u64) {
        while evict_clients::total(&self.state) > max {
            let largest = evict_clients::largest(&self.conns, &self.state, self.index);
            if largest.is_empty() {
                return;
            }
            for ConnRef { conn, .. } in largest {
                if evict_clients::total(&self.state) <= max {
                    return;
                }
                let line = clients::line(&self.conns[conn], self.now.steady_ms);
                tracing::info!("Evicting client: {line}");
                self.stats().evicted.add(1);
                self.close(conn);
            }
        }
    }

    /// Lets those connections go on that waited for the end of a pause.
    pub(super) fn release_waiting(&mut self) {
        self.resting.release(&mut self.conns, self.now.instant);
        let (state, now_ms) = (&self.state, self.now.steady_ms);
        self.paused.release(&mut self.conns, || state.pauses().now(now_ms), state.workers()[self.index].stats());
    }

    /// Forgets tracked keys while there are more than the configuration admits. The first worker also forgets clients that
    /// track no more, and gives back the memory of what was forgotten: one is enough, and the others write nothing that it reads.
    #[inline]
    pub(super) fn limit_tracked_keys(&mut self) {
        if self.owes_tracked_memory() {
            self.state.tracking().free_some();
        }
        if self.index == 0 && self.state.tracking().is_dirty() {
            self.state.tracking().sweep(self.now.steady_ms);
        }
        if self.state.tracking().is_over() {
            self.state.tracking().limit(self.index);
        }
    }

    /// Whether memory of tracked keys is to be given back here.
    #[inline]
    pub(super) fn owes_tracked_memory(&self) -> bool {
        self.index == 0 && self.state.tracking().owes_memory()
    }

    /// Whether more keys are tracked than the configuration admits: the first worker does not sleep then.
    #[inline]
    pub(super) fn tracks_too_much(&self) -> bool {
        self.index == 0 && self.state.tracking().is_over()
    }

    /// Sends what background steps have changed. Nobody waits for that.
    pub(super) fn send_background_changes(&mut self) {
        let (registry, until) = (self.state.pubsub(), self.store.take_awaited());
        // A script that rests has a visit of its own.
        for author in self.authors() {
            self.state.tracking().flush(author);
            if registry.owes(author) {
                drop(registry.take_latch(author));
            }
            registry.end_visit(author, until);
        }
    }

    /// CLIENT PAUSE holds the connection's next request back. The pause that the turn ran under counts: it may have ended
    /// while the turn's commands ran.
    #[cold]
    pub(super) fn hold_back(&mut self, id: ConnId) {
        let pause = self.batch.pause();
        self.paused.hold_back(&mut self.conns[id], pause, self.state.workers()[self.index].stats());
    }

    /// Gives the replies to clients that waited, and were served by this worker's commands, to their workers.
    #[inline]
    pub(super) fn deliver_served(&mut self) {
        let served = self.batch.take_served();
        self.deliver(served);
    }

    fn deliver(&mut self, served: Option<Vec<Served>>) {
        let Some(all) = served else { return };
        let filed = self.store.awaited();
        for served in all {
            if served.worker == self.index {
                self.serve_waiter(served, filed);
            } else {
                self.state.workers()[served.worker].send(Message::Served { served, filed });
            }
        }
    }

    /// Serves some of the clients that wait for keys which earlier commands have made ready, and of which there were many. Where
    /// nobody could be served, since others hold what it needs, they are tried again a little later.
    #[inline]
    pub(super) fn serve_rest(&mut self) {
        if self.service_due_in() == Some(Duration::ZERO) {
            self.restrain(false);
            let went_on = self.batch.serve_rest(&mut self.store);
            self.service_rests = (!went_on).then(|| self.now.instant + SERVICE_REST);
            self.deliver_served();
        }
    }

    /// Time until clients are served whose service was put off; None if there are none.
    #[inline]
    pub(super) fn service_due_in(&self) -> Option<Duration> {
        let rest = |until: Instant| until.saturating_duration_since(self.now.instant);
        self.batch.owes_service(&self.store).then(|| self.service_rests.map_or(Duration::ZERO, rest))
    }

    /// Goes on with commands whose clients have left.
    #[inline]
    pub(super) fn go_on_left(&mut self) {
        if self.left.any() {
            let stats = self.state.workers()[self.index].stats();
            self.left.go_on(&mut self.batch, &mut self.store, stats);
            self.deliver_served();
        }
    }

    /// Ends subscriptions of connections that have gone.
    #[inline]
    pub(super) fn go_on_leaving(&mut self) {
        if self.hub.is_leaving() {
            self.hub.go_on_leaving(self.state.pubsub());
        }
    }

    /// Gives its reply to a client that waited for keys; it leaves when the append-only file is synced up to `filed`.
    pub(super) fn serve_waiter(&mut self, served: Served, filed: u64) {
        // It may be served behind the last save, in which it is not.
        if self.state.is_stopping() {
            return;
        }
        let Some(id) = self.blocked.conn(served.client) else { return };
        let (is_wanted, is_lost) = (!self.conns[id].session().is_muted(), served.reply.is_overflown());
        let mut unsent = 0;
        let reply = |_: &Blocked, out: &mut Reply| {
            unsent = out.len();
            if !is_lost {
                out.append(*served.reply);
            }
        };
        let Some(who) = self.unblock(served.client, reply) else { return };
        if is_lost && is_wanted && self.over_output_limit(id, 0, true) {
            // No part of the reply is sent; replies before it are.
            self.conns[id].wait(WaitReasons::CLOSING);
        }
        let Some(conn) = self.conns.get_mut(who) else { return };
        let from = conn.output_place(unsent);
        self.filed.stand_by(conn, &self.state.persist().aof, from, filed);
        if let Some(slow) = served.slow {
            self.log_slow(who.conn, [*slow]);
        }
    }

    /// Lets those go on whose replies waited for the append-only file.
    #[inline]
    pub(super) fn release_filed(&mut self) {
        let times = self.state.workers()[self.index].stats().waits.of(WaitsOn::Sync);
        self.filed.release(&mut self.conns, &self.state.persist().aof, times);
    }

    /// The worker is about to wait: false if replies may leave meanwhile. From then on the file's thread wakes it.
    #[inline]
    pub(super) fn may_wait_for_file(&self) -> bool {
        self.filed.may_rest(&self.state.persist().aof, self.index, self.hub.waits_until())
    }

    /// Ends a client's wait for keys with this reply, and goes on with requests that it sent behind. If the client listens,
    /// messages that were published before stand before the reply. A client that tracks keys gets its reply at once: what
    /// its own command invalidates lies in the inbox too, and is to stand behind. None, and nothing happens, if the client is
    /// gone.
    pub(super) fn unblock(&mut self, client: u64, reply: impl FnOnce(&Blocked, &mut Reply)) -> Option<ConnRef> {
        let stats = &self.state.workers()[self.index].stats();
        self.state.replication().waiters().forget(client);
        let (who, mark) = self.blocked.end(client, &mut self.conns, &mut self.store, stats, reply)?;
        let (conn, until) = (&mut self.conns[who.conn], self.state.pubsub().inbox(self.index).pushed());
        if conn.listens() && !conn.session().tracking().on && self.hub.done() < until {
            let reply = conn.split_output(mark);
            self.held_replies.hold_served(conn, until, reply);
        }
        Some(who)
    }

    /// Inserts some of the data that is being loaded, or runs commands of a stream; false if none waits.
    #[inline]
    pub(super) fn load(&mut self) -> bool {
        let (loads, applies) = (self.state.persist().loading.is_on(), self.state.replication().replica().applies());
        if !loads {
            self.applies_file = None;
        }
        if !applies {
            self.applies_stream = None;
        }
        if !loads && !applies {
            return false;
        }
        if loads && persist::load::step(&self.state, &mut self.store, self.now.unix_ms) {
            return true;
        }
        // DEBUG LOADAOF, sent to a replica, loads while the primary's stream may go on: that one waits.
        self.apply(applies && !loads)
    }

    /// Runs this worker's share of a stream's commands; false if none waits. Those of a primary's stream have the effects of
    /// clients' commands on other clients; a file's have none.
    fn apply(&mut self, is_primarys: bool) -> bool {
        let (state, now_ms) = (Arc::clone(&self.state), self.now.unix_ms);
        let replica = state.replication().replica();
        let applier = if is_primarys { &replica.applier } else { &state.persist().aof.applier };
        if self.index >= applier.workers() {
            return false;
        }
        let known = if is_primarys { self.applies_stream.take() } else { self.applies_file.take() };
        let mut share = known.unwrap_or_else(|| self.new_share(is_primarys));
        let ready = share.step(applier, &mut self.store, &self.table, now_ms);
        let served = share.take_served();
        let place = if is_primarys { &mut self.applies_stream } else { &mut self.applies_file };
        *place = Some(share);
        self.state.wake_to_apply(ready.unwrap_or_default().iter().filter(|other| *other != self.index));
        if is_primarys && ready.is_some() {
            self.deliver(served);
            replica.try_hand_on(state.persist().aof.journal());
        }
        ready.is_some()
    }

    fn new_share(&mut self, is_primarys: bool) -> Box<ApplyWorker> {
        let keeper = self.state.keeper();
        let stats = match is_primarys {
            true => Arc::clone(self.handle().commands()),
            false => CommandStats::new(self.state.commands().ids()),
        };
        let mut share = Box::new(ApplyWorker::new(self.index, stats, Some(keeper), self.now.unix_ms));
        if is_primarys {
            share.set_events(&mut self.store, Sink::new(Arc::clone(self.state.pubsub()), self.index));
        }
        share
    }

    /// Does something alone behind the gate, or has itself asked again if that is not to be had.
    pub(super) fn alone(&mut self, work: AloneWork) {
        let state = Arc::clone(&self.state);
        match state.store().gate().try_exclusive(self.store.id(), 0) {
            Some(_alone) => work.run(&mut self.store),
            None => self.handle().send(Message::Alone(work)),
        }
    }

    /// Ends the waits of all clients for keys: this server is no longer the one to serve them. Their connections end behind that.
    #[cold]
    pub(super) fn unblock_all(&mut self) {
        for client in self.blocked.clients() {
            if !self.blocked.cancel(client) {
                continue;
            }
            let stats = Arc::clone(self.batch.stats());
            let who = self.unblock(client, |blocked, out| blocked.reply_failed(&CommandError::DEMOTED, &stats, out));
            if let Some(conn) = who.and_then(|who| self.conns.get_mut(who)) {
                conn.session_mut().end_after_reply();
            }
        }
    }

    /// A signal asks for the end of the server.
    pub(super) fn shutdown(&mut self, options: ShutdownOptions) {
        match persist::shutdown::ask(&self.state, &mut self.store, &self.config, options, None) {
            Ending::Ends | Ending::Waits => {}
            Ending::Busy => self.handle().send(Message::Shutdown(options)),
            Ending::Failed => {
                tracing::warn!("The end of the server was asked for, but saving failed: it goes on");
            }
        }
    }

    /// The server goes on, although this client has asked for its end.
    pub(super) fn stays(&mut self, client: u64) {
        let stats = Arc::clone(self.batch.stats());
        self.unblock(client, |blocked, out| blocked.reply_failed(&errors::SHUTDOWN_FAILED, &stats, out));
    }

    /// The work for which a connection waits has ended: replies, and lets it go on. Nothing happens if the client is gone.
    pub(super) fn work_done(&mut self, who: ConnRef, done: bool) {
        let Some(conn) = self.conns.get_mut(who) else { return };
        conn.requests_mut().set_running(0);
        let asked = conn.session().last_command().expect("a command waits for the work");
        let wanted = !conn.session_mut().drop_reply();
        let stats = self.batch.stats();
        conn.write_output(|out| {
            let mark = out.mark();
            match done {
                true => out.ok(),
                // Nothing else fails.
                false => stats.fail(asked, &errors::SAVE_FAILED, mark, out),
            }
            if !wanted {
                out.truncate(mark);
            }
        });
        self.conns.lift(who, WaitReasons::WORK);
        let conn = &mut self.conns[who.conn];
        if conn.session().ends_after_reply() {
            conn.wait(WaitReasons::CLOSING);
        }
    }

    /// Ends the waits whose time is up.
    pub(super) fn end_waits(&mut self) {
        if self.blocked.due_in(self.now.instant).is_some_and(|due| due.is_zero()) {
            while let Some(client) = self.blocked.pop_expired(self.now.instant) {
                let state = Arc::clone(&self.state);
                let reached = |awaited, out: &mut Reply| primary::wait::reply(&state, awaited, out);
                self.unblock(client, |blocked, out| blocked.reply_timeout(out, &reached));
            }
        }
    }

    /// CLIENT UNBLOCK; false if no such client of this worker waits.
    pub(super) fn unblock_client(&mut self, client: u64, error: bool) -> bool {
        let waits = self.blocked.cancel(client);
        if waits {
            let (stats, state) = (Arc::clone(self.batch.stats()), Arc::clone(&self.state));
            let reached = |awaited, out: &mut Reply| primary::wait::reply(&state, awaited, out);
            self.unblock(client, |blocked, out| blocked.reply_unblocked(error, &stats, out, &reached));
        }
        waits
    }

    /// Follows what all clients take together, which is this number of bytes: so much less is left for replies.
    pub(super) fn follow_clients(&mut self, taken: u64) {
        self.reply_bytes_max = self.state.client_room().reply_bytes(taken, self.state.workers().len());
    }

    /// Bytes that a connection's replies may come to while they are made: the hard limit of its class, else its worker's part of
    /// what is left for clients. A command whose reply has no end stops there, and its connection is closed.
    #[inline]
    pub(super) fn reply_ceiling(&self, id: ConnId) -> usize {
        let limit = &self.config.output_limits[ClientClass::of_output(&self.conns[id]).limit()];
        if limit.hard_bytes > 0 { limit.hard_bytes as usize } else { self.reply_bytes_max }
    }

    /// True if the connection keeps more unsent output than its class may have.
    pub(super) fn over_output(&mut self, id: ConnId) -> bool {
        let conn = &self.conns[id];
        self.over_output_limit(id, conn.unsent_bytes(), conn.output().is_overflown())
    }

    /// True if the connection has more unsent output, `unsent` bytes, than its class may have, or if some of it is lost. As
    /// in Redis, nothing of an output over the limit is sent. Elements that are kept for a reply in parts count as unsent:
    /// a client that does not read would else have the store keep all that others change.
    pub(super) fn over_output_limit(&mut self, id: ConnId, unsent: usize, lost: bool) -> bool {
        let unsent = unsent + self.conns[id].session().kept_bytes() + self.stream_behind(id);
        let conn = &mut self.conns[id];
        let mut limit = self.config.output_limits[ClientClass::of_output(conn).limit()];
        if conn.following().is_some() {
            // A replica that comes back for all of the backlog is not to be closed for that.
            limit = limit.at_least(self.config.replication.backlog_bytes);
        }
        let over = conn.is_over(&limit, unsent, self.now.steady_ms) || lost;
        if over {
            let line = clients::line(conn, self.now.steady_ms);
            tracing::warn!("Client {line} scheduled to be closed ASAP for overcoming of output buffer limits.");
            self.stats().output_limit_closed.add(1);
        }
        over
    }

    /// True if the connection has to authenticate first and leaves more unread than it may.
    pub(super) fn over_stranger_limit(&mut self, id: ConnId) -> bool {
        let over = strangers::reads_too_little(&self.conns[id]);
        if over {
            let line = clients::line(&self.conns[id], self.now.steady_ms);
            tracing::warn!(
                "Client {line} scheduled to be closed ASAP for overcoming of output buffer limits: it has not authenticated."
            );
            self.stats().output_limit_closed.add(1);
        }
        over
    }

    /// Closes the largest connections that have to authenticate first while all of this worker take too much.
    #[inline]
    pub(super) fn limit_strangers(&mut self) {
        if self.strangers_take_too_much() {
            self.close_strangers(strangers::share_bytes(self.state.workers().len()));
        }
    }

    /// Whether the connections of this worker that have to authenticate first take more than they may.
    #[inline]
    pub(super) fn strangers_take_too_much(&self) -> bool {
        self.stats().stranger_bytes.get() > strangers::share_bytes(self.state.workers().len())
    }

    #[cold]
    fn close_strangers(&mut self, share: u64) {
        for ConnRef { conn, .. } in strangers::largest(&self.conns, share) {
            let line = clients::line(&self.conns[conn], self.now.steady_ms);
            tracing::warn!("Closing a client that has not authenticated, since all of these take too much: {line}");
            self.close(conn);
        }
    }

    /// True if the connection has sent more that waits than a client may.
    pub(super) fn over_query_limit(&self, id: ConnId) -> bool {
        let conn = &self.conns[id];
        let waiting = conn.requests().waiting_bytes();
        let known = conn.session().is_authenticated();
        let max = if known { u64::MAX } else { strangers::INPUT_BYTES_MAX };
        let over = waiting as u64 > max.min(self.config.query_buffer_bytes_max);
        if over {
            let line = clients::line(conn, self.now.steady_ms);
            // redis-server shows the first bytes too; a password may be among them.
            tracing::warn!("Closing client that reached max query buffer length: {line}");
            self.stats().query_limit_closed.add(1);
        }
        over
    }
}
