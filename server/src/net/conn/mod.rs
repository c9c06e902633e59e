//! A connection: its socket, its half-read request, its unsent replies, and what it said about itself.
//!
//! ```text
//!             requests                      QUIT, protocol error, CLIENT KILL of itself
//!   Open ------------------> Open     Open ---------------------------------------------> Closing
//!   Open --a question to all workers--> Waiting --all have answered--> Open
//!   Open --output over PAUSE_BYTES--> (paused: reads on, executes nothing) --output drained--> Open
//!   Open --a command waits for keys--> Blocked --served, time up, unblocked--> Open
//!   any  --peer closed its side--> ended: what was asked is still answered, then closed
//!   Closing: nothing is read or executed any more; closed when the output is written
//! ```
//!
//! A connection belongs to one worker; no other thread ever touches it. Not here: reading, executing and flushing
//! (worker/serve.rs).

mod deferred;
mod input;
mod large;
mod output;

pub(crate) use deferred::DeferredQuestion;
pub(crate) use input::{Input, Pool};
pub(crate) use large::{Filling, Large};
pub(crate) use output::{Flushed, flush};

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use varve_exec::Session;
use varve_protocol::{Limits, Parser, Reply};

use crate::config::Config;
use crate::features::pubsub::state::Subscriptions;

/// A client that has this much unsent output is not executed any further until half of it is gone.
pub(crate) const PAUSE_BYTES: usize = 32 * 1024 * 1024;

/// The largest value that the store takes, whatever `proto-max-bulk-len` says.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// The socket of a connection.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Over TCP.
    Tcp(mio::net::TcpStream),
    /// Over the Unix socket.
    Unix(mio::net::UnixStream),
}

impl Stream {
    /// Registers for reading and writing at once, edge-triggered, so that no later call changes the interest.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, interest),
            Stream::Unix(stream) => stream.register(registry, token, interest),
        }
    }

    /// One read.
    pub(crate) fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(room),
            Stream::Unix(stream) => (&mut &*stream).read(room),
        }
    }

    /// One write.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    /// One write of several pieces.
    pub(crate) fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write_vectored(pieces),
            Stream::Unix(stream) => (&mut &*stream).write_vectored(pieces),
        }
    }

    /// The socket's descriptor, as CLIENT LIST shows it.
    pub(crate) fn fd(&self) -> RawFd {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

/// Both ends of a connection, written as Redis writes them.
#[derive(Clone, Debug)]
pub(crate) enum Ends {
    /// Addresses of the peer and of this side.
    Tcp { peer: SocketAddr, local: SocketAddr },
    /// The path of the Unix socket; the peer has no name.
    Unix(Arc<Path>),
}

impl Ends {
    /// The peer's end: `ip:port`, `[ip]:port` or `path:0`.
    pub(crate) fn peer(&self) -> String {
        match self {
            Ends::Tcp { peer, .. } => peer.to_string(),
            Ends::Unix(path) => format!("{}:0", path.display()),
        }
    }

    /// This side's end, in the same form.
    pub(crate) fn local(&self) -> String {
        match self {
            Ends::Tcp { local, .. } => local.to_string(),
            Ends::Unix(path) => format!("{}:0", path.display()),
        }
    }

    /// True for the Unix socket and for loopback addresses: what protected mode and `local` settings admit.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Ends::Tcp { peer, .. } => peer.ip().to_canonical().is_loopback(),
            Ends::Unix(_) => true,
        }
    }
}

/// An accepted socket on its way to its worker.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) id: u64,
    pub(crate) stream: Stream,
    pub(crate) ends: Ends,
}

/// What a connection may do at present; see the module's picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requests are read and executed.
    Open,
    /// A question of this connection is with the workers; its later requests wait.
    Waiting,
    /// A command of this connection waits for keys; its later requests wait.
    Blocked,
    /// Output is written, then the socket is closed.
    Closing,
}

/// A connection.
pub(crate) struct Conn {
    pub(crate) stream: Stream,
    pub(crate) ends: Ends,
    pub(crate) session: Session,
    pub(crate) parser: Parser,
    pub(crate) input: Input,
    /// Large arguments of the request that is not whole yet, which lie outside the input.
    pub(crate) large: Large,
    /// Replies that the socket has not taken yet; empty between requests.
    pub(crate) output: Reply,
    /// Questions of a transaction that are still to be asked, with the replies behind each.
    pub(crate) later: VecDeque<DeferredQuestion>,
    /// Bytes that the parser asked for at least.
    pub(crate) want: usize,
    pub(crate) phase: Phase,
    /// The socket may hold bytes that have not been read (edge-triggered: nobody will say it again).
    pub(crate) readable: bool,
    /// The socket took less than it was given; it will report when it is writable.
    pub(crate) blocked: bool,
    /// Nothing is executed until enough of the output is written.
    pub(crate) paused: bool,
    /// The peer has closed its side; what it sent before may still lie in the socket.
    pub(crate) hung_up: bool,
    /// All that the peer sent has been read, and it will send nothing more.
    pub(crate) ended: bool,
    /// Stands in the worker's ready queue.
    pub(crate) queued: bool,
    /// Bytes of the request that the server itself runs at present: CLIENT LIST counts them as unread.
    pub(crate) request_bytes: usize,
    /// Bytes that the worker's weights count of it (`clients::weight`), 0 if it is not to be evicted.
    pub(crate) weight: usize,
    /// Bytes that the worker's sum counts of it (`clients::memory`): a part of `maxmemory`.
    pub(crate) counted_bytes: usize,
    /// When the soft output limit was passed (milliseconds of Unix time), if it is passed now.
    pub(crate) soft_ms: Option<i64>,
    /// What it listens to; None until it subscribes.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// What the worker's inbox must have delivered before its next request.
    pub(crate) due: Option<u64>,
    /// CLIENT PAUSE holds its next request back.
    pub(crate) held: bool,
    /// It has published more than a worker's inbox takes, and waits for room there.
    pub(crate) crowded: bool,
    /// Its replies wait until those have been told who keep what it has changed.
    pub(crate) awaits: bool,
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("id", &self.session.id).field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl Conn {
    /// A connection that has said nothing yet.
    pub(crate) fn new(newcomer: Newcomer, config: &Config, now_ms: i64) -> Conn {
        let authenticated = config.password.is_none();
        let mut conn = Conn {
            stream: newcomer.stream,
            ends: newcomer.ends,
            session: Session::new(newcomer.id, now_ms, authenticated),
            parser: Parser::new(Limits::default()),
            input: Input::default(),
            large: Large::default(),
            output: Reply::new(),
            later: VecDeque::new(),
            want: 0,
            phase: Phase::Open,
            readable: true,
            blocked: false,
            paused: false,
            hung_up: false,
            ended: false,
            queued: false,
            request_bytes: 0,
            weight: 0,
            counted_bytes: 0,
            soft_ms: None,
            subscriptions: None,
            due: None,
            held: false,
            crowded: false,
            awaits: false,
        };
        conn.set_limits(config);
        conn
    }

    /// Gives the parser the limits of the configuration, and of clients that are not authenticated yet.
    pub(crate) fn set_limits(&mut self, config: &Config) {
        let unauthenticated = !self.session.authenticated;
        let bulk_max = (config.bulk_bytes_max as usize).min(VALUE_BYTES_MAX);
        self.session.bulk_max = bulk_max;
        self.parser.set_limits(Limits { bulk_max, unauthenticated, ..Limits::default() });
    }

    /// Tells the session how many subscriptions there are, after they changed.
    pub(crate) fn count_subscriptions(&mut self) {
        let total = self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.total());
        self.session.subscriptions = total as u32;
        if self.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.is_empty()) {
            self.subscriptions = None;
        }
    }

    /// True if something may be sent to it out of turn.
    pub(crate) fn listens(&self) -> bool {
        self.session.subscriptions > 0 || self.session.tracking.on || self.session.monitors
    }

    /// True if bytes may be read from the socket.
    pub(crate) fn may_read(&self) -> bool {
        self.readable && !self.ended && self.phase != Phase::Closing
    }

    /// True if requests may be executed.
    pub(crate) fn may_run(&self) -> bool {
        self.phase == Phase::Open && !self.paused && !self.held && !self.crowded && !self.awaits
    }

    /// True if output may be written to the socket.
    pub(crate) fn may_write(&self) -> bool {
        !self.blocked && !self.awaits
    }

    /// Pauses or resumes execution as the unsent output asks.
    pub(crate) fn balance(&mut self) {
        let waiting = self.output.len();
        self.paused = waiting > PAUSE_BYTES || (self.paused && waiting > PAUSE_BYTES / 2);
    }
}
