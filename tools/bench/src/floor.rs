//! The floor: one thread, one event loop, no parsing. Every `request_bytes` bytes that arrive are answered `+OK`.
//!
//! The floor is the cost that no design of a server can go below on this machine with this number of connections: the
//! kernel's work, and one read and one write for each batch.

use crate::load::{Traffic, poll_events};
use crate::turns::{Pace, pace_of};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LISTENER: Token = Token(usize::MAX);

/// Serves until it is killed.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn serve(port: u16, request_bytes: usize) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(256);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        poll_events(&mut poll, &mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    poll.registry().register(&mut stream, Token(connections.len()), Interest::READABLE)?;
                    connections.push(Some(Connection { stream, partial: 0 }));
                }
                continue;
            }
            let place = &mut connections[event.token().0];
            let alive = place.as_mut().is_some_and(|connection| connection.turn(&mut buffer, request_bytes).is_ok());
            if !alive {
                *place = None;
            }
        }
    }
}

struct Connection {
    stream: mio::net::TcpStream,
    /// bytes of a request that has not wholly arrived
    partial: usize,
}

impl Connection {
    /// Reads until there is no more, answers after each read. Replies are a small part of the requests' bytes, so that the
    /// socket's buffer takes them; a client that lets it fill is dropped.
    fn turn(&mut self, buffer: &mut [u8], request_bytes: usize) -> io::Result<()> {
        loop {
            let got = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.partial += got;
            let replies = b"+OK\r\n".repeat(self.partial / request_bytes);
            self.partial %= request_bytes;
            self.stream.write_all(&replies)?;
            if got < buffer.len() {
                return Ok(());
            }
        }
    }
}

/// Requests with which the floor is measured, at most: it has no data, so that more of them tell the same.
const REQUESTS_MAX: u64 = 200_000;
/// Requests from which the mean length of a load's is taken.
const SAMPLE: u32 = 1000;

/// The floor under a load: it is sent as many bytes a request as the load's requests have on average.
///
/// Its answers are `+OK`, so that what a server pays to send longer ones is above the floor.
pub(crate) struct Under {
    floor: Floor,
    request: Vec<u8>,
}

impl Under {
    /// A floor under the load whose requests `write` writes.
    ///
    /// # Errors
    /// Those of [`Floor::start`].
    pub(crate) fn load(write: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<Under> {
        let mut sample = Vec::new();
        (0..SAMPLE).for_each(|_| write(&mut sample));
        Under::requests_of(sample.len() / SAMPLE as usize)
    }

    /// A floor under requests of this length.
    ///
    /// # Errors
    /// Those of [`Floor::start`].
    pub(crate) fn requests_of(bytes: usize) -> io::Result<Under> {
        let request = vec![b'x'; bytes.max(1)];
        Ok(Under { floor: Floor::start(request.len())?, request })
    }

    /// The floor's pace at this traffic.
    ///
    /// # Errors
    /// When the floor is lost.
    pub(crate) fn pace(&self, plan: Traffic) -> io::Result<Pace> {
        let plan = Traffic { requests: plan.requests.min(REQUESTS_MAX), ..plan };
        let send = &mut |out: &mut Vec<u8>| out.extend_from_slice(&self.request);
        pace_of(self.floor.address(), self.floor.pid(), plan, send)
    }
}

/// A floor server as a process of its own, ended when this is dropped.
pub(crate) struct Floor {
    child: Child,
    address: SocketAddr,
}

impl Floor {
    /// Starts one for requests of this length.
    ///
    /// # Errors
    /// When it cannot be started or does not listen within five seconds.
    pub(crate) fn start(request_bytes: usize) -> io::Result<Floor> {
        Floor::start_with(request_bytes, &[])
    }

    /// Starts one that copies a message of this length to all other connections for each request ([`crate::fan_floor`]).
    ///
    /// # Errors
    /// Those of [`Floor::start`].
    pub(crate) fn start_fan(request_bytes: usize, message_bytes: usize) -> io::Result<Floor> {
        Floor::start_with(request_bytes, &["--message-bytes", &message_bytes.to_string()])
    }

    fn start_with(request_bytes: usize, more: &[&str]) -> io::Result<Floor> {
        let port = varve_testkit::server::free_port()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let args = ["floor", "--port", &port.to_string(), "--request-bytes", &request_bytes.to_string()];
        let child = Command::new(std::env::current_exe()?).args(args).args(more).stdin(Stdio::null()).spawn()?;
        let floor = Floor { child, address };
        for _ in 0..500 {
            if TcpStream::connect(address).is_ok() {
                return Ok(floor);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(io::Error::other("the floor server does not listen"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
