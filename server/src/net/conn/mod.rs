//! A connection: its socket, its half-read requests, its unsent replies, and what it said about itself.
//!
//! ```text
//!   socket --> requests (parser, input, large arguments) --> executed while no reason to wait --> output --> socket
//! ```
//!
//! The reasons to wait are a set (wait.rs): each is added by the matter that holds the connection back, and lifted by it. A
//! client that has closed its side still gets the replies to what it asked; then the connection ends.
//!
//! A connection belongs to one worker; no other thread ever touches it. Not here: executing (worker/serve.rs).

mod deferred;
mod filed;
mod input;
mod large;
mod output;
mod parts;
mod requests;
mod socket;
mod wait;

pub(crate) use deferred::{Deferred, DeferredQuestion};
use filed::Filed;
pub(crate) use input::Pool;
use output::Flush;
pub(crate) use parts::Parts;
use requests::Reading;
pub(crate) use requests::Requests;
pub(crate) use socket::{Newcomer, Socket};
pub(crate) use wait::WaitReasons;

use std::sync::Arc;
use std::{fmt, io, mem};

use mio::event::Event;
use mio::{Registry, Token};
use varve_acl::User;
use varve_exec::{LargeArguments, Session};
use varve_protocol::{Mark, Parser, Reply};

use crate::config::{Config, OutputLimit};
use crate::features::clients::state::Question;
use crate::features::pubsub::state::Subscriptions;
use crate::features::pubsub::state::{ConnId, ConnRef};
use crate::features::replication::state::peer::{Following, Peer};

/// A client that has this much unsent output is not executed any further until half of it is gone.
pub(crate) const PAUSE_BYTES: usize = 32 * 1024 * 1024;

/// See the module's text.
pub(crate) struct Conn {
    id: ConnId,
    socket: Socket,
    session: Session,
    requests: Requests,
    /// Replies that the socket has not taken yet; empty between requests.
    output: Reply,
    /// Messages that have come in the middle of a reply; they stand behind it. None mostly.
    behind: Option<Box<Reply>>,
    /// A transaction whose questions are still to be asked or answered.
    deferred: Option<Box<Deferred>>,
    /// Its subscriptions; None until it subscribes.
    subscriptions: Option<Box<Subscriptions>>,
    /// The rest of a command of the server itself that goes on in parts.
    parts: Option<Box<Parts>>,
    waits: WaitReasons,
    /// The things that it has said as a server that replicates this one; None if it has not.
    peer: Option<Box<Peer>>,
    filed: Filed,
    /// Stands in the worker's ready queue.
    queued: bool,
    /// When the soft output limit was passed (milliseconds of Unix time), if it is passed now.
    over_soft_since_ms: Option<i64>,
    /// Stands in the worker's queue of connections that deliveries have reached.
    reached: bool,
    /// When it was first seen without authentication, milliseconds of Unix time; None if it is authenticated.
    stranger_since_ms: Option<i64>,
    counted: Counted,
}

/// The bytes of a connection that its worker has counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Its share of the worker's weights, 0 if it may not be evicted.
    pub(crate) weight: usize,
    /// Its share of the worker's sum, which is a part of `maxmemory`.
    pub(crate) bytes: usize,
    /// Bytes of its buffers if it is not authenticated, in place of `bytes`.
    pub(crate) stranger_bytes: usize,
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("client", &self.session.id()).field("waits", &self.waits).finish_non_exhaustive()
    }
}

impl Conn {
    /// A connection of the `default` user that has said nothing yet, and will have the number `id` in its worker.
    pub(crate) fn new(id: ConnId, newcomer: Newcomer, config: &Config, default: Arc<User>, now_ms: i64) -> Conn {
        let mut conn = Conn {
            id,
            socket: Socket::new(newcomer.stream, newcomer.ends, newcomer.tls),
            session: Session::of_client(newcomer.client, now_ms, default),
            requests: Requests::new(),
            output: Reply::new(),
            behind: None,
            deferred: None,
            subscriptions: None,
            parts: None,
            waits: WaitReasons::default(),
            peer: None,
            filed: Filed::default(),
            queued: false,
            over_soft_since_ms: None,
            reached: false,
            stranger_since_ms: None,
            counted: Counted::default(),
        };
        conn.set_limits(config);
        conn
    }

    /// The connection as others note it.
    pub(crate) fn who(&self) -> ConnRef {
        ConnRef { conn: self.id, client: self.session.id() }
    }

    /// The connection as commands see it.
    #[inline]
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The session, for commands that change it.
    #[inline]
    pub(crate) fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Whether a command of its goes on in a later turn.
    #[inline]
    pub(crate) fn is_ongoing(&self) -> bool {
        self.session.is_ongoing() || self.parts.is_some()
    }

    /// Takes the rest of a command of the server itself; [`Conn::keep_parts`] gives back what is left of it.
    #[inline]
    pub(crate) fn take_parts(&mut self) -> Option<Box<Parts>> {
        self.parts.take()
    }

    /// Keeps the rest of a command of the server itself.
    pub(crate) fn keep_parts(&mut self, parts: Box<Parts>) {
        assert!(self.parts.is_none() && !self.session.is_ongoing(), "one command goes on at a time");
        self.parts = Some(parts);
    }

    /// Bytes of a command of the server itself that goes on in parts.
    pub(crate) fn parts_bytes(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.held_bytes())
    }

    /// Gives the session and the parser the limits of the configuration, those of clients that are not authenticated yet
    /// among them.
    pub(crate) fn set_limits(&mut self, config: &Config) {
        let bulk_max = (config.bulk_bytes_max as usize).min(varve_store::VALUE_BYTES_MAX);
        self.session.limit_strings(bulk_max);
        self.session.pin_rdb_version(config.save.version);
        self.requests.set_limits(bulk_max, !self.session.is_authenticated());
    }

    /// The socket, for what is to be known of it.
    #[inline]
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Has the poll report the socket's edges under this token.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket.register(registry, token)
    }

    /// Notes what the poll reports of the socket.
    pub(crate) fn note_event(&mut self, event: &Event) {
        self.socket.note(event);
    }

    /// Reads once: into `scratch`, or behind what is held.
    #[inline]
    pub(crate) fn read(
        &mut self,
        scratch: &mut [u8],
        pool: &mut Pool,
        store: &mut varve_store::StoreWorker,
    ) -> io::Result<Reading> {
        self.requests.read(&mut self.socket, scratch, pool, store)
    }

    /// Writes replies as far as the socket takes them.
    #[inline]
    pub(crate) fn write(&mut self, replies: &mut Reply) -> io::Result<Flush> {
        let done = self.socket.write(replies, self.filed.sendable())?;
        self.filed.note_sent(done.bytes);
        Ok(done)
    }

    /// Writes what is unsent, as far as the socket takes it.
    pub(crate) fn write_unsent(&mut self) -> io::Result<Flush> {
        let mut output = self.take_output();
        let done = self.write(&mut output);
        self.keep_output(output);
        done
    }

    /// Number of the byte behind the first `unsent` bytes of its output, among all that it is ever sent.
    #[inline]
    pub(crate) fn output_place(&self, unsent: usize) -> u64 {
        self.filed.end(unsent)
    }

    /// Output behind this byte waits until the journal is synced up to `until`. True if none waited.
    pub(crate) fn hold_output(&mut self, from: u64, until: u64) -> bool {
        self.filed.hold(from, until)
    }

    /// The journal is synced up to here: output that waited for that may be sent. Gives the position that the rest waits for.
    pub(crate) fn let_output_go(&mut self, synced: u64) -> Option<u64> {
        self.filed.let_go(synced)
    }

    /// True if the append-only file is to have something before the next byte is sent.
    pub(crate) fn waits_for_file(&self) -> bool {
        self.filed.sendable() == 0
    }

    /// Its requests that are not executed.
    #[inline]
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Its requests, for what reads and executes them.
    #[inline]
    pub(crate) fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// The parts that a turn works with: the parser, the large arguments of the request, and the session.
    #[inline]
    pub(crate) fn turn_parts(&mut self) -> (&mut Parser, &mut LargeArguments, &mut Session) {
        let (parser, large) = self.requests.parts();
        (parser, large, &mut self.session)
    }

    /// Replies that the socket has not taken yet.
    #[inline]
    pub(crate) fn output(&self) -> &Reply {
        &self.output
    }

    /// Takes the unsent replies, for writing them or more behind them; what is left comes back by
    /// [`Conn::keep_output`].
    #[inline]
    pub(crate) fn take_output(&mut self) -> Reply {
        mem::take(&mut self.output)
    }

    /// Keeps replies that the socket has not taken. The ceiling under which they were made holds no longer: the class of the
    /// connection and its limit may change, and what is written behind is measured when it is sent.
    #[inline]
    pub(crate) fn keep_output(&mut self, mut output: Reply) {
        debug_assert!(self.output.is_empty(), "output is kept in its order");
        output.set_ceiling(usize::MAX);
        self.output = output;
    }

    /// Writes something behind the unsent replies, in the connection's protocol.
    pub(crate) fn write_output(&mut self, write: impl FnOnce(&mut Reply)) {
        self.output.set_resp(self.session.resp());
        write(&mut self.output);
    }

    /// True while a message is to stand behind a reply: of any kind, while one is sent in parts; of keys that are stale to this
    /// connection itself, while one is made that may have their old values, by a transaction that waits for answers, or by a
    /// transaction or a script that rests.
    pub(crate) fn holds_back(&self, is_stale: bool) -> bool {
        self.session.holds_messages() || is_stale && (self.deferred.is_some() || self.waits(WaitReasons::SCRIPT))
    }

    /// The place of messages that come now: the output, or, if they are held back, behind the reply that is still to be completed.
    /// It comes back by [`Conn::keep_message_output`].
    pub(crate) fn take_message_output(&mut self, is_held: bool) -> Reply {
        let mut out = if is_held {
            self.behind.take().map_or_else(|| self.output.like(), |behind| *behind)
        } else {
            self.take_output()
        };
        out.set_resp(self.session.resp());
        out
    }

    /// Keeps messages where [`Conn::take_message_output`] has their place.
    pub(crate) fn keep_message_output(&mut self, out: Reply, is_held: bool) {
        if is_held { self.behind = Some(Box::new(out)) } else { self.keep_output(out) }
    }

    /// Puts the messages that have come in the middle of a reply behind it, once it is complete.
    #[inline]
    pub(crate) fn end_parts(&mut self, out: &mut Reply) {
        if self.behind.is_some() && !self.session.is_ongoing() {
            self.put_behind(out);
        }
    }

    /// Writes a reply that was long in the making, and the messages that have come meanwhile behind it. They have no part in the
    /// reply's ceiling, beyond which they would be lost: what is unsent is measured when it is sent.
    pub(crate) fn complete_reply(&mut self, reply: Reply) {
        debug_assert!(!reply.is_overflown(), "of a reply that is too long no part is sent");
        let behind = self.behind.take();
        self.write_output(|out| {
            out.append(reply);
            if let Some(behind) = behind {
                out.append(*behind);
            }
        });
    }

    /// Puts the messages that have come in the middle of a reply behind it: it is complete.
    pub(crate) fn put_behind(&mut self, out: &mut Reply) {
        if let Some(behind) = self.behind.take() {
            out.append(*behind);
        }
    }

    /// Bytes of memory of its output.
    pub(crate) fn output_held_bytes(&self) -> usize {
        let deferred = self.deferred.as_ref().map_or(0, |deferred| deferred.held_bytes());
        self.output.held_bytes() + self.behind.as_ref().map_or(0, |behind| behind.held_bytes()) + deferred
    }

    /// Bytes of output that are unsent, messages in the middle of a reply among them, and the reply of a transaction that waits for
    /// answers.
    pub(crate) fn unsent_bytes(&self) -> usize {
        let deferred = self.deferred.as_ref().map_or(0, |deferred| deferred.unsent_bytes());
        self.output.len() + self.behind.as_ref().map_or(0, |behind| behind.len()) + deferred
    }

    /// Takes away what was written behind the unsent replies since.
    pub(crate) fn split_output(&mut self, mark: Mark) -> Reply {
        self.output.split_off(mark)
    }

    /// Gives the room of an output that is sent back to the system.
    pub(crate) fn free_output(&mut self) {
        self.output.clear(0);
    }

    /// A transaction has left questions, to be asked one after the other; its reply waits for all of them.
    pub(crate) fn defer(&mut self, deferred: Box<Deferred>) {
        self.deferred = Some(deferred);
    }

    /// Has messages stand behind the reply that is still to be completed.
    pub(crate) fn hold_messages(&mut self, messages: Reply) {
        if !messages.is_empty() {
            let mut behind = self.take_message_output(true);
            behind.append(messages);
            self.keep_message_output(behind, true);
        }
    }

    /// The next question that a transaction has left, to be asked now.
    pub(crate) fn next_question(&mut self) -> Option<Question> {
        self.deferred.as_mut()?.next_question()
    }

    /// The transaction whose first question has been answered now; None if a command of its own asked.
    pub(crate) fn take_deferred(&mut self) -> Option<Box<Deferred>> {
        self.deferred.take()
    }

    /// Its subscriptions; None if it has none.
    #[inline]
    pub(crate) fn subscriptions(&self) -> Option<&Subscriptions> {
        self.subscriptions.as_deref()
    }

    /// Its subscriptions, for adding to them.
    pub(crate) fn subscriptions_mut(&mut self) -> &mut Subscriptions {
        self.subscriptions.get_or_insert_default()
    }

    /// Its subscriptions, for taking them away; None if it has none.
    pub(crate) fn some_subscriptions(&mut self) -> Option<&mut Subscriptions> {
        self.subscriptions.as_deref_mut()
    }

    /// Takes all its subscriptions out; None if it has none.
    pub(crate) fn take_subscriptions(&mut self) -> Option<Box<Subscriptions>> {
        self.subscriptions.take()
    }

    /// Tells the session how many subscriptions there are, after they changed.
    pub(crate) fn count_subscriptions(&mut self) {
        let total = self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.total());
        self.session.count_subscriptions(total as u32);
        if self.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.is_empty()) {
            self.subscriptions = None;
        }
    }

    /// The things that it has said of itself as another server, to be added to.
    pub(crate) fn peer_mut(&mut self) -> &mut Peer {
        self.peer.get_or_insert_default()
    }

    /// Its place as a replica; None if it is none.
    #[inline]
    pub(crate) fn following(&self) -> Option<&Following> {
        self.peer.as_ref()?.replica.as_ref()
    }

    /// Its place as a replica, to be changed; None if it is none.
    pub(crate) fn following_mut(&mut self) -> Option<&mut Following> {
        self.peer.as_mut()?.replica.as_mut()
    }

    /// True if something may be sent to it out of turn.
    pub(crate) fn listens(&self) -> bool {
        self.session.is_subscribed() || self.session.tracking().on || self.session.is_monitor()
    }

    /// True if bytes may be read from the socket: there may be some, and no whole request waits here. A client that waits
    /// for nothing but room for its output, or for keys, is read all the same, up to the query limit: it may write all of
    /// its requests before it reads its first reply, and the end of one that is gone stands behind all that it wrote. Not
    /// read, it would be served with an element of a list that nobody gets.
    pub(crate) fn may_read(&self) -> bool {
        let wanted = !self.requests.may_be_whole()
            || self.waits.is_only(WaitReasons::OUTPUT)
            || self.waits.is_only(WaitReasons::KEYS);
        self.socket.is_readable() && wanted && !self.waits(WaitReasons::CLOSING)
    }

    /// A socket whose last read was short is to be read again; true if that may be done now.
    pub(crate) fn doubts_socket(&mut self) -> bool {
        self.socket.resolve_doubt() && self.may_read()
    }

    /// True if requests may be executed.
    #[inline]
    pub(crate) fn may_run(&self) -> bool {
        self.waits.is_empty()
    }

    /// True if its requests may be executed, or the command that goes on, whether or not its client reads.
    #[inline]
    pub(crate) fn may_go_on(&self) -> bool {
        self.may_run() || self.is_bound_to_go_on() && self.waits_for_client()
    }

    /// True if a command goes on although its client does not read, or has left: one that keeps others from a key, and one of the
    /// server itself, which may end the very messages that the client does not read.
    #[inline]
    pub(crate) fn is_bound_to_go_on(&self) -> bool {
        self.parts.is_some() || self.session.keeps_key()
    }

    /// True if its requests wait for nothing but that the client takes its output.
    #[inline]
    pub(crate) fn waits_for_client(&self) -> bool {
        self.waits.is_for_client()
    }

    /// True if output may be written to the socket.
    pub(crate) fn may_write(&self) -> bool {
        !self.socket.is_full() && !self.waits(WaitReasons::BARRIER) && !self.waits_for_file()
    }

    /// True if it waits for this reason.
    #[inline]
    pub(crate) fn waits(&self, reason: WaitReasons) -> bool {
        self.waits.has(reason)
    }

    /// Its requests wait for this reason from now on; false if they do already.
    pub(crate) fn wait(&mut self, reason: WaitReasons) -> bool {
        self.waits.add(reason)
    }

    /// Takes a reason away; false if it was not there. `Conns::lift` queues the connection too.
    pub(super) fn lift(&mut self, reason: WaitReasons) -> bool {
        self.waits.lift(reason)
    }

    /// Has the connection wait as its unsent output asks; whether it waits now, if that has changed.
    pub(crate) fn balance(&mut self) -> Option<bool> {
        let unsent = self.output.len();
        let waited = self.waits(WaitReasons::OUTPUT);
        let waits = unsent > PAUSE_BYTES || (waited && unsent > PAUSE_BYTES / 2);
        self.waits.set(WaitReasons::OUTPUT, waits);
        (waits != waited).then_some(waits)
    }

    /// True if nothing more comes of it, but for output that is unsent: it closes, or the client has closed its side and
    /// all that came has been executed. A client that has closed its side while it waits for keys, or for the end of a
    /// pause, has given up. While a question is out, or a message of its own, the answer is still to come.
    pub(crate) fn is_done(&self) -> bool {
        if [WaitReasons::QUESTION, WaitReasons::MESSAGES, WaitReasons::WORK, WaitReasons::SCRIPT]
            .into_iter()
            .any(|reason| self.waits(reason))
        {
            return false;
        }
        // A reply in parts goes to its end for a client that has closed its sending side alone. One that is gone for good
        // is known by a write that fails.
        if self.is_ongoing() {
            return self.waits(WaitReasons::CLOSING);
        }
        let gave_up = self.waits(WaitReasons::KEYS) || self.waits(WaitReasons::PAUSE);
        self.waits(WaitReasons::CLOSING)
            || self.socket.has_hung_up() && gave_up
            || self.socket.is_ended() && !self.requests.may_be_whole()
    }

    /// Puts it into a queue, if it stands in none; true then.
    pub(super) fn enqueue(&mut self) -> bool {
        !std::mem::replace(&mut self.queued, true)
    }

    /// It has left the queue.
    pub(super) fn dequeue(&mut self) {
        self.queued = false;
    }

    /// True if `unsent` bytes of output are more than the limit admits: at once, or since too long.
    pub(crate) fn is_over(&mut self, limit: &OutputLimit, unsent: usize, now_ms: i64) -> bool {
        let unsent = unsent as u64;
        if limit.soft_bytes == 0 || unsent <= limit.soft_bytes {
            self.over_soft_since_ms = None;
        } else if self.over_soft_since_ms.is_none() {
            self.over_soft_since_ms = Some(now_ms);
        }
        let soft_ms = limit.soft_s as i64 * 1000;
        let too_long = self.over_soft_since_ms.is_some_and(|since| now_ms - since > soft_ms);
        too_long || (limit.hard_bytes > 0 && unsent > limit.hard_bytes)
    }

    /// A delivery has reached it; false if it is known already that it has to be written.
    pub(crate) fn note_reached(&mut self) -> bool {
        !std::mem::replace(&mut self.reached, true)
    }

    /// It is being written: the next delivery is news again.
    pub(crate) fn note_written(&mut self) {
        self.reached = false;
    }

    /// When it was first seen without authentication, milliseconds of Unix time.
    pub(crate) fn stranger_since_ms(&self) -> Option<i64> {
        self.stranger_since_ms
    }

    /// It was first seen without authentication then; None: it is authenticated.
    pub(crate) fn set_stranger_since(&mut self, since_ms: Option<i64>) {
        self.stranger_since_ms = since_ms;
    }

    /// The worker's counts of it.
    pub(crate) fn counted(&self) -> Counted {
        self.counted
    }

    /// The worker counts this of it from now on.
    pub(crate) fn set_counted(&mut self, counted: Counted) {
        self.counted = counted;
    }
}
