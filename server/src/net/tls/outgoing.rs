//! A connection to another server as one stream, by TLS or not.
//!
//! ```text
//!   write: bytes --> rustls --> records --> socket      what the socket does not take waits: `flush` sends it
//!   read:  socket --> records --> rustls --> bytes
//! ```
//! Links are few and do not idle for long, so that each may have buffers of its own, unlike connections of clients. A handshake
//! by TLS waits, and is done by a thread of its own (net/links.rs). Not here: whom to connect to, and what is said.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use socket2::{Domain, Protocol, Socket, Type};

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Outgoing {
    stream: mio::net::TcpStream,
    /// None: bytes are sent as they are.
    tls: Option<Box<ClientConnection>>,
}

impl Outgoing {
    /// Begins to connect, from the address `source` if this machine has it; nothing waits.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn begin(address: SocketAddr, source: Option<IpAddr>) -> io::Result<Outgoing> {
        let stream = match bound(address, source) {
            None => mio::net::TcpStream::connect(address)?,
            Some(socket) => {
                socket.set_nonblocking(true)?;
                match socket.connect(&address.into()) {
                    Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
                    _ => mio::net::TcpStream::from_std(socket.into()),
                }
            }
        };
        Ok(Outgoing { stream, tls: None })
    }

    /// Connects and does the handshake, all of which has to be done by `until`. The other is told the name under which it is
    /// looked for (SNI), if `host` is one: it may have certificates for several.
    ///
    /// # Errors
    /// Nobody answers in time, or the other is not whom our authorities know.
    pub(crate) fn connect_tls(
        (host, address): (&str, SocketAddr),
        source: Option<IpAddr>,
        until: Instant,
        context: Arc<ClientConfig>,
    ) -> io::Result<Outgoing> {
        let mut stream = match bound(address, source) {
            None => std::net::TcpStream::connect_timeout(&address, left(until)?)?,
            Some(socket) => {
                socket.connect_timeout(&address.into(), left(until)?)?;
                socket.into()
            }
        };
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(host.to_owned()).unwrap_or_else(|_| ServerName::from(address.ip()));
        let mut tls = ClientConnection::new(context, name).map_err(io::Error::other)?;
        while tls.is_handshaking() || tls.wants_write() {
            let left = Some(left(until)?);
            if tls.wants_write() {
                stream.set_write_timeout(left)?;
                tls.write_tls(&mut stream)?;
                continue;
            }
            stream.set_read_timeout(left)?;
            if tls.read_tls(&mut stream)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Err(error) = tls.process_new_packets() {
                // The other learns of it, if its socket takes the alert.
                _ = tls.write_tls(&mut stream);
                return Err(io::Error::other(error));
            }
        }
        stream.set_nonblocking(true)?;
        Ok(Outgoing { stream: mio::net::TcpStream::from_std(stream), tls: Some(Box::new(tls)) })
    }

    /// Whether the socket, which was connecting, is connected.
    ///
    /// # Errors
    /// It will not be.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// True if it is by TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &mio::net::TcpStream {
        &self.stream
    }

    /// Has the poll report when it is readable and writable.
    ///
    /// # Errors
    /// The poll's.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Has the poll report under another token.
    ///
    /// # Errors
    /// The poll's.
    pub(crate) fn reregister(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.reregister(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Bytes that the other has sent; 0 if it sends nothing more.
    ///
    /// # Errors
    /// The socket's, and those of an end that breaks the protocol.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.read(room) };
        loop {
            match tls.reader().read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            if tls.read_tls(&mut self.stream)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Takes bytes of the front of `bytes`; the number of them.
    ///
    /// # Errors
    /// The socket's. It takes nothing while earlier bytes wait for the socket.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let Some(tls) = &mut self.tls else { return self.stream.write(bytes) };
        let count = tls.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(count),
            result => result.map(|()| count),
        }
    }

    /// Sends what waits for the socket.
    ///
    /// # Errors
    /// The socket's; one that takes no more is an error as well.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            if tls.write_tls(&mut self.stream)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

/// A socket bound to `source`, to connect to `address`. None where there is no source, and where the source cannot be had: the
/// system chooses then, as for redis-server.
fn bound(address: SocketAddr, source: Option<IpAddr>) -> Option<Socket> {
    let source = SocketAddr::new(source?, 0);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).ok()?;
    socket.bind(&source.into()).ok()?;
    Some(socket)
}

/// The time until then.
///
/// # Errors
/// It has passed.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
