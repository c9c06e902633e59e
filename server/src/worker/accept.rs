//! Accepting: a thread of its own takes connections from the listening sockets and gives each to the worker that has least
//! to do. No command runs here, so a worker in a long command keeps nobody from being accepted.
//!
//! ```text
//!   poll --> accept until nothing waits, 256 with the sockets' lock held --> refuse, or Message::Adopt to a worker
//!     |                                                                       by TLS: to a thread for its handshake first
//!     ^            | no descriptors, no memory: what waits stays in the backlog
//!     +------------+ tried again after 100 ms
//! ```
//! Refused here, with Redis's texts: connections over `maxclients`, and connections from elsewhere in protected mode.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};
use socket2::{SockRef, TcpKeepalive};

use crate::config::Config;
use crate::errors;
use crate::net::conn::Newcomer;
use crate::net::listen::{Door, Listener};
use crate::net::sockets::Sockets;
use crate::net::stream::{Ends, Stream};
use crate::net::tls::Tls;
use crate::state::mail::Message;
use crate::state::{Now, ServerState};

/// Connections accepted before the sockets' lock is let go: CONFIG SET may wait for it.
const ACCEPTS_MAX: usize = 256;
/// Time between two tries while the system gives no descriptors.
const RETRY: Duration = Duration::from_millis(100);
/// The poll's token of all listening sockets.
const LISTENERS: Token = Token(0);
/// The poll's token by which the end of the server wakes it.
const END: Token = Token(1);

/// See the module's picture.
pub(super) struct Acceptor {
    poll: Poll,
    /// Accepting fails at present, and the log says so.
    failing: bool,
}

/// How a round of accepting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Nothing waits any more: the next connection is an event.
    Empty,
    /// More may wait.
    More,
    /// The system gives no descriptors. The event has passed, so the sockets must be tried without one.
    Failed,
}

impl Acceptor {
    /// An acceptor for these listening sockets, and the sockets as others change them.
    ///
    /// # Errors
    /// When the system gives no poll.
    pub(super) fn new(listeners: Vec<Listener>) -> io::Result<(Acceptor, Sockets)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), END)?;
        let sockets = Sockets::new(poll.registry().try_clone()?, LISTENERS, waker, listeners)?;
        Ok((Acceptor { poll, failing: false }, sockets))
    }

    /// Accepts until the server ends; then closes the listening sockets.
    pub(super) fn run(mut self, state: &Arc<ServerState>) {
        let mut events = Events::with_capacity(64);
        let mut round = Round::More;
        while !state.is_stopping() {
            let timeout = match round {
                Round::Empty => None,
                Round::More => Some(Duration::ZERO),
                Round::Failed => Some(RETRY),
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => panic!("poll: {error}"),
                _ => {}
            }
            round = self.accept(state);
        }
        state.sockets().close();
    }

    /// Accepts what waits, at most [`ACCEPTS_MAX`].
    fn accept(&mut self, state: &Arc<ServerState>) -> Round {
        let mut accepted = Vec::new();
        let mut round = Round::Empty;
        for listener in state.sockets().open().iter() {
            while round != Round::More {
                match accept_one(listener) {
                    Ok(newcomer) => accepted.push(newcomer),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if is_passing(&error) => {}
                    Err(error) => {
                        self.complain(&error);
                        round = Round::Failed;
                        break;
                    }
                }
                if accepted.len() >= ACCEPTS_MAX {
                    round = Round::More;
                }
            }
        }
        self.failing &= round == Round::Failed;
        let config = state.config().snapshot();
        for (stream, ends, door) in accepted {
            admit(state, &config, stream, ends, door);
        }
        round
    }

    /// Logs an error of the system, once until accepting succeeds again.
    fn complain(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!("Accepting client connection: {error}");
        }
    }
}

/// Refuses a new connection, or gives it to the worker with least to do. By TLS nothing can be said before the handshake: one
/// over `maxclients` is closed without a word.
fn admit(state: &ServerState, config: &Config, stream: Stream, ends: Ends, door: Door) {
    let counts = state.accepting();
    if state.connections() >= u64::from(config.max_clients) {
        if door == Door::Plain {
            refuse(&stream, errors::TOO_MANY_CLIENTS);
        }
        counts.rejected.add(1);
        return;
    }
    counts.accepted.add(1);
    prepare(&stream, config);
    match door {
        Door::Plain if is_denied(state, config, &ends) => {
            refuse(&stream, errors::PROTECTED_MODE);
            counts.rejected.add(1);
        }
        Door::Plain => give(state, Newcomer { client: state.next_client(), stream, ends, tls: None, names: None }),
        Door::Tls => greet(state, stream, ends),
    }
}

/// True for a connection from elsewhere in protected mode.
pub(super) fn is_denied(state: &ServerState, config: &Config, ends: &Ends) -> bool {
    config.protected_mode && !ends.is_local() && state.acl().users().default_user().needs_no_password()
}

/// Gives a connection to the worker with least to do.
pub(super) fn give(state: &ServerState, newcomer: Newcomer) {
    let worker = &state.workers()[state.least_busy(Now::read().steady_ms)];
    worker.assign();
    worker.send(Message::Adopt(newcomer));
}

/// Has a thread do the handshake of a connection.
fn greet(state: &ServerState, stream: Stream, ends: Ends) {
    // None if TLS has just been turned off.
    let Some(context) = state.tls().server() else { return };
    match Tls::new(context) {
        Ok(tls) => {
            let tls = Some(Box::new(tls));
            let thread = state.handshakes().iter().min_by_key(|thread| thread.count()).expect("there is one");
            thread.begin(Newcomer { client: state.next_client(), stream, ends, tls, names: None });
        }
        Err(error) => tracing::warn!("Error accepting a client connection: {error}"),
    }
}

fn accept_one(listener: &Listener) -> io::Result<(Stream, Ends, Door)> {
    match listener {
        Listener::Tcp(listener, door) => {
            let (stream, peer) = listener.accept()?;
            let local = stream.local_addr()?;
            Ok((Stream::Tcp(stream), Ends::Tcp { peer, local }, *door))
        }
        Listener::Unix(listener, path) => {
            let (stream, _) = listener.accept()?;
            Ok((Stream::Unix(stream), Ends::Unix(path.as_path().into()), Door::Plain))
        }
    }
}

/// Errors of a connection that was gone before it was accepted, or of an interrupted call: the next may do better.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// One write without waiting, then the socket closes when it is dropped; a peer that does not read misses the reason.
fn refuse(stream: &Stream, text: &[u8]) {
    if let Err(error) = stream.write(text) {
        tracing::debug!("refusing a connection: {error}");
    }
}

fn prepare(stream: &Stream, config: &Config) {
    let Stream::Tcp(stream) = stream else { return };
    let socket = SockRef::from(stream);
    let mut result = socket.set_tcp_nodelay(true);
    if result.is_ok() && config.tcp_keepalive_s > 0 {
        let idle = u64::from(config.tcp_keepalive_s);
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(idle))
            .with_interval(Duration::from_secs((idle / 3).max(1)))
            .with_retries(3);
        result = socket.set_tcp_keepalive(&keepalive);
    }
    if let Err(error) = result {
        tracing::debug!("setting options of a connection: {error}");
    }
}
