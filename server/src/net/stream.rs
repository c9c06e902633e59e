//! A socket of either kind as one type, and its two ends as texts. It knows neither what the bytes mean nor whether they are
//! encrypted (tls).

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;

use mio::event::Source;
use mio::{Interest, Registry, Token};

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

    /// Small writes are sent at once, or wait for what follows them. A Unix socket always sends at once.
    pub(crate) fn set_nodelay(&self, on: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(on),
            Stream::Unix(_) => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn issue_17_small_writes_may_wait_for_what_follows() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let system = stream.try_clone().expect("another descriptor of the socket");
        stream.set_nonblocking(true).expect("a mode");
        let stream = Stream::Tcp(mio::net::TcpStream::from_std(stream));
        for on in [true, false] {
            stream.set_nodelay(on).expect("set");
            assert_eq!(system.nodelay().expect("the system's word"), on);
        }
    }
}
