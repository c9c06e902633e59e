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

use std::io;
use std::os::fd::RawFd;

use mio::event::Event;
use mio::{Registry, Token};
use varve_protocol::Reply;

use super::output::{Flush, Flushed, flush, flush_sealed};
use crate::net::stream::{Ends, Stream};
use crate::net::tls::{Got, Tls};

/// Bytes read in one visit, at most.
pub(super) const READ_BYTES: usize = 256 * 1024;

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
    /// None: bytes are sent as they are.
    tls: Option<Box<Tls>>,
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
    pub(crate) fn new(stream: Stream, ends: Ends, tls: Option<Box<Tls>>) -> Socket {
        Socket { stream, ends, tls, readiness: Readiness::Ready, full: false, hung_up: false, ended: false }
    }

    /// Has small writes wait for what follows them: fewer packets, and more delay. Without effect where the system refuses.
    pub(crate) fn gather_writes(&self) {
        let _ = self.stream.set_nodelay(false);
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
        if self.tls.is_some() && event.is_writable() {
            self.send_sealed();
        }
    }

    /// Sends records that waited for the socket: those of control have no reply that would be written later.
    #[cold]
    fn send_sealed(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        // A socket that fails shows it to the next read as well.
        self.full = !tls.send_sealed(&self.stream).unwrap_or(true);
    }

    /// Reads once, and notes whether there may be more. None if the socket holds nothing now.
    #[inline]
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        if self.tls.is_some() {
            return self.read_sealed(room);
        }
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

    /// Reads once by TLS. A record that is not whole, or carries none of the client's bytes, gives None.
    #[cold]
    fn read_sealed(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        let tls = self.tls.as_mut().expect("the caller has looked");
        match tls.read(&self.stream, room)? {
            Got::Nothing => {
                self.readiness = Readiness::Empty;
                Ok(None)
            }
            Got::End => {
                (self.ended, self.hung_up) = (true, true);
                Ok(Some(0))
            }
            Got::Bytes { count, more, short } => {
                if short && !more && !self.hung_up {
                    self.readiness = Readiness::Doubted;
                }
                Ok(Some(count).filter(|&count| count > 0))
            }
        }
    }

    /// Writes as much as the socket takes, `most` bytes at most, within one flush's share.
    pub(crate) fn write(&mut self, replies: &mut Reply, most: usize) -> io::Result<Flush> {
        let done = match &mut self.tls {
            None => flush(&self.stream, replies, most)?,
            Some(tls) => flush_sealed(&self.stream, tls, replies, most)?,
        };
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

    /// Bytes of memory that TLS takes for the connection, 0 without it.
    #[inline]
    pub(crate) fn tls_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.held_bytes())
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

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end(&self.stream);
        }
    }
}

/// An accepted socket on its way to its worker.
#[derive(Debug)]
pub(crate) struct Newcomer {
    /// The client's id.
    pub(crate) client: u64,
    pub(crate) stream: Stream,
    pub(crate) ends: Ends,
    /// None: bytes are sent as they are.
    pub(crate) tls: Option<Box<Tls>>,
    /// The names in its certificate by which it may be a user; None if none is looked for.
    pub(crate) names: Option<Vec<Vec<u8>>>,
}
