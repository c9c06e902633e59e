//! Handshakes of TLS: threads of their own do them, since one costs as much as a thousand commands. They touch no data.
//!
//! ```text
//!   acceptor --> queue --> half open: read, sign, write as the client goes on --> done: Message::Adopt to a worker
//!                              | 10 s have passed, or the client breaks the protocol, or there are too many
//!                              v
//!                            closed
//! ```
//! A flood of handshakes, or of clients that begin one and go silent, takes one core for each thread here and a bounded piece of
//! memory; it takes no worker's time. Where more than [`HALF_OPEN_MAX`] are half open, the oldest makes room: a client that means
//! it needs milliseconds. Not here: what a handshake is (net/tls).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Events, Poll, Token, Waker};
use slab::Slab;

use super::accept::{give, is_denied};
use crate::errors;
use crate::net::conn::Newcomer;
use crate::net::stream::Stream;
use crate::net::tls::Got;
use crate::state::handshakes::Handshakes;
use crate::state::{Now, ServerState};
use crate::system::cpus;

/// Time that a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Handshakes of one thread that are under way at most.
const HALF_OPEN_MAX: usize = 2048;
/// Bytes that the half-open connections of one thread may take together.
const BYTES_MAX: usize = 16 << 20;
/// The poll's token of the queue.
const QUEUE: Token = Token(usize::MAX);
/// Time between two lines of the log about handshakes that have failed.
const COMPLAINT_EVERY: Duration = Duration::from_secs(1);

/// See the module's picture.
pub(super) struct Greeter {
    /// Its number among those of its kind.
    index: usize,
    poll: Poll,
    half_open: Slab<Newcomer>,
    /// Bytes that these take.
    held_bytes: usize,
    /// Clients in the order of their coming, with the time at which each is closed; those that are gone as well.
    due: VecDeque<(usize, u64, Instant)>,
    complained: Option<Instant>,
}

/// How far a handshake is.
enum Progress {
    /// The client has to go on.
    Waits,
    Done,
}

impl Greeter {
    /// A thread's part, and the queue by which others give it connections.
    ///
    /// # Errors
    /// When the system gives no poll.
    pub(super) fn new(index: usize) -> io::Result<(Greeter, Handshakes)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), QUEUE)?;
        let (half_open, due) = (Slab::new(), VecDeque::new());
        Ok((Greeter { index, poll, half_open, held_bytes: 0, due, complained: None }, Handshakes::new(waker)))
    }

    /// Does handshakes until the server ends.
    pub(super) fn run(mut self, state: &Arc<ServerState>) {
        cpus::keep_thread_on(&state.config().snapshot().process.cpus.helpers);
        let mut events = Events::with_capacity(256);
        while !state.is_stopping() {
            let timeout = self.due.front().map(|(.., due)| due.saturating_duration_since(Instant::now()));
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => panic!("poll: {error}"),
                _ => {}
            }
            for event in &events {
                if event.token() != QUEUE {
                    self.go_on(state, event.token().0);
                }
            }
            for newcomer in self.queue(state).take() {
                self.begin(state, newcomer);
            }
            self.close_late(state);
        }
    }

    fn queue<'s>(&self, state: &'s ServerState) -> &'s Handshakes {
        &state.handshakes()[self.index]
    }

    fn begin(&mut self, state: &ServerState, mut newcomer: Newcomer) {
        let entry = self.half_open.vacant_entry();
        let at = entry.key();
        if let Err(error) = newcomer.stream.register(self.poll.registry(), Token(at)) {
            tracing::warn!("registering a connection: {error}");
            self.queue(state).end();
            return;
        }
        self.due.push_back((at, newcomer.client, Instant::now() + HANDSHAKE_MAX));
        self.held_bytes += held_bytes(&newcomer);
        entry.insert(newcomer);
        self.go_on(state, at);
    }

    /// The client has sent something, or takes more. Nothing happens if its connection is gone.
    fn go_on(&mut self, state: &ServerState, at: usize) {
        let Some(newcomer) = self.half_open.get_mut(at) else { return };
        let before = held_bytes(newcomer);
        let progress = advance(newcomer);
        self.held_bytes = self.held_bytes - before + held_bytes(newcomer);
        match progress {
            Ok(Progress::Waits) => {}
            Ok(Progress::Done) if shows_what_has_ended(newcomer) => {
                self.complain(at, &io::Error::other("the client's certificate has expired"));
                drop(self.take(state, at));
            }
            Ok(Progress::Done) => self.finish(state, at),
            Err(error) => {
                self.complain(at, &error);
                drop(self.take(state, at));
            }
        }
    }

    /// The handshake is done: the connection is a worker's.
    fn finish(&mut self, state: &ServerState, at: usize) {
        let mut newcomer = self.take(state, at);
        let config = state.config().snapshot();
        newcomer.names = config.tls.user.zip(newcomer.tls.as_ref()).and_then(|(kind, tls)| tls.peer_names(kind));
        let Newcomer { stream: Stream::Tcp(stream), .. } = &mut newcomer else { unreachable!("TLS has a port") };
        if let Err(error) = stream.deregister(self.poll.registry()) {
            tracing::warn!("handing a connection over: {error}");
        } else if is_denied(state, &config, &newcomer.ends) {
            state.accepting().rejected.add(1);
            let (Some(tls), stream) = (&mut newcomer.tls, &newcomer.stream) else { return };
            // The reason goes out as far as the socket takes it. A peer that does not read it misses it.
            if let Err(error) = tls.seal(stream, std::iter::once(errors::PROTECTED_MODE), usize::MAX) {
                tracing::debug!("refusing a connection: {error}");
            }
            tls.end(stream);
        } else {
            give(state, newcomer);
        }
    }

    /// Takes a connection out, which is half open no longer.
    fn take(&mut self, state: &ServerState, at: usize) -> Newcomer {
        let newcomer = self.half_open.remove(at);
        self.held_bytes -= held_bytes(&newcomer);
        self.queue(state).end();
        newcomer
    }

    /// Closes those whose time is up, and the oldest where there are too many, or all take too much.
    fn close_late(&mut self, state: &ServerState) {
        let now = Instant::now();
        while let Some(&(at, client, due)) = self.due.front() {
            if self.half_open.get(at).is_some_and(|newcomer| newcomer.client == client) {
                if due > now && self.half_open.len() <= HALF_OPEN_MAX && self.held_bytes <= BYTES_MAX {
                    return;
                }
                drop(self.take(state, at));
            }
            self.due.pop_front();
        }
    }

    /// Logs a failure, one in a second at most: whoever reaches the port can make many.
    fn complain(&mut self, at: usize, error: &io::Error) {
        let now = Instant::now();
        if self.complained.is_some_and(|last| now - last < COMPLAINT_EVERY) {
            return;
        }
        self.complained = Some(now);
        let ends = &self.half_open[at].ends;
        let (peer, local) = (ends.peer(), ends.local());
        tracing::warn!("Error accepting a client connection: {error} (addr={peer} laddr={local})");
    }
}

/// True for a client that resumes a session of a certificate which has ended meanwhile: it could else go on for ever.
fn shows_what_has_ended(newcomer: &Newcomer) -> bool {
    let now_s = Now::read().unix_ms / 1000;
    newcomer.tls.as_ref().is_some_and(|tls| tls.peer_has_ended(now_s))
}

/// Reads, signs and writes as far as the client has gone on.
///
/// # Errors
/// The socket's, and those of a client that breaks the protocol or closes.
fn advance(newcomer: &mut Newcomer) -> io::Result<Progress> {
    let Newcomer { stream, tls: Some(tls), .. } = newcomer else { unreachable!("others need no handshake") };
    loop {
        if tls.is_open() {
            let all_sent = tls.send_sealed(stream)?;
            return Ok(if all_sent { Progress::Done } else { Progress::Waits });
        }
        match tls.read(stream, &mut [])? {
            Got::Bytes { .. } => {}
            Got::Nothing => return Ok(Progress::Waits),
            Got::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn held_bytes(newcomer: &Newcomer) -> usize {
    newcomer.tls.as_ref().map_or(0, |tls| tls.held_bytes())
}
