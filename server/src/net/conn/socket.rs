//! A connection's socket: its two ends, reading and writing, and what its last event and its last read said of it.
//!
//! ```text
//!            event                    the read filled its room
//!   Empty ----------> Ready <-----------------------------------+
//!     ^                 |  read ---------------------------------+
//!     |  would block    |    |  a short read: probably the last
//!     +-----------------+    +------> Doubted ---- the tick, within a second ----> Ready
//! ```
//! Sockets report edges, so only a read that would block proves that nothing is left. A short read does not: out of band
//! data end a read early, and so do descriptors that come with bytes of a Unix socket. A second read behind each request
//! would cost a call a request, so a doubted socket is looked at again at the connection's next tick.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;

use mio::event::{Event, Source};
use mio::{Interest, Registry, Token};
use varve_protocol::Reply;

use super::output::{Flush, Flushed, flush};

/// Bytes read in one visit, at most.
pub(super) const READ_BYTES: usize = 256 * 1024;

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
    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, interest),
            Stream::Unix(stream) => stream.register(registry, token, interest),
        }
    }

    /// One read.
    fn read(&self, room: &mut [u8]) -> io::Result<usize> {
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
    pub(super) fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write_vectored(pieces),
            Stream::Unix(stream) => (&mut &*stream).write_vectored(pieces),
        }
    }

    /// The socket's descriptor, as CLIENT LIST shows it.
    fn fd(&self) -> RawFd {
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

/// Whether a socket holds bytes, as far as is known. See the module's picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// A read would have waited, and no event has come since.
    Empty,
    /// The last read was short.
    Doubted,
    /// There may be bytes.
    Ready,
}

/// A connection's socket, and what is known of it. Sockets report edges: nobody reports a second time that a socket is
/// readable or writable.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    ends: Ends,
    readiness: Readiness,
    /// It took less than it was given, and will report when it is writable.
    full: bool,
    /// The client has closed its side; bytes that it sent before may still lie in the socket.
    hung_up: bool,
    /// All that the client sent has been read, and it will send nothing more.
    ended: bool,
}

impl Socket {
    /// A new socket, which may hold bytes already.
    pub(crate) fn new(stream: Stream, ends: Ends) -> Socket {
        Socket { stream, ends, readiness: Readiness::Ready, full: false, hung_up: false, ended: false }
    }

    /// Registers for reading and writing, so that no later call changes the interest.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.register(registry, token)
    }

    /// Notes what the poll reports.
    pub(crate) fn note(&mut self, event: &Event) {
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.readiness = Readiness::Ready;
        }
        self.hung_up |= event.is_read_closed() || event.is_error();
        self.full &= !(event.is_writable() || event.is_error());
    }

    /// Reads once, and notes whether there may be more. None if the socket holds nothing now.
    #[inline]
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        let count = match self.stream.read(room) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readiness = Readiness::Empty;
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error),
        };
        self.ended = count == 0;
        self.hung_up |= self.ended;
        // Where the client has hung up, the end of the stream lies behind the bytes, and no event will report it.
        if count < room.len() && !self.hung_up {
            self.readiness = Readiness::Doubted;
        }
        Ok(Some(count))
    }

    /// Writes as much as the socket takes, `most` bytes at most, within one flush's share.
    pub(crate) fn write(&mut self, replies: &mut Reply, most: usize) -> io::Result<Flush> {
        let done = flush(&self.stream, replies, most)?;
        self.full = done.end == Flushed::Blocked;
        Ok(done)
    }

    /// True if there may be bytes to read.
    pub(crate) fn is_readable(&self) -> bool {
        self.readiness == Readiness::Ready && !self.ended
    }

    /// A socket whose last read was short is to be read again; false if the last read was not short.
    pub(super) fn resolve_doubt(&mut self) -> bool {
        let doubted = self.readiness == Readiness::Doubted;
        if doubted {
            self.readiness = Readiness::Ready;
        }
        doubted
    }

    /// True if the client has closed its side. Bytes that it sent before may still lie in the socket.
    pub(crate) fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    /// True if it has taken less than it was given, and has not reported since.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// True if the client sends nothing more and all is read.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Both ends.
    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// The socket's descriptor, as CLIENT LIST shows it.
    pub(crate) fn fd(&self) -> RawFd {
        self.stream.fd()
    }
}

/// An accepted socket on its way to its worker.
#[derive(Debug)]
pub(crate) struct Newcomer {
    /// The client's id.
    pub(crate) client: u64,
    pub(crate) stream: Stream,
    pub(crate) ends: Ends,
}
