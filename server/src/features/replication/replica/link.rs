//! The connection to a primary, as its thread uses it: lines and bytes come, requests go, and whoever wants something else of
//! the thread ends each wait.
//!
//! ```text
//!   Line --poll: socket, waker--> bytes        End: the goal has changed, the link is broken, or what came makes no sense
//! ```
//! Names are resolved, and handshakes by TLS done, by a thread of their own: the system may take half a minute for one. Not here:
//! what is said (`handshake.rs`), and what becomes of it (`sync.rs`, `stream.rs`).

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use varve_exec::journal::put_request;

use super::Thread;
use crate::features::replication::state::replica::{Address, LinkStage};
use crate::net::tls::Outgoing;
use crate::system::error_text;

/// The poll's tokens.
pub(super) const WAKER: Token = Token(0);
const SOCKET: Token = Token(1);

/// Longest line of a primary.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The words of the log for a primary that is silent for too long: those of redis-server.
const CONNECTING: &str = "connecting to the MASTER";
const RECEIVING: &str = "receiving bulk data from MASTER";
/// Bytes that are read at a time.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Why a link ended.
#[derive(Debug)]
pub(super) enum End {
    /// Something else is wanted of the thread, or the server ends.
    Unwanted,
    /// The link is made anew: why.
    Broken(String),
    /// The link is not made any more until somebody asks for it: why.
    Refused(String),
}

impl End {
    /// The end that an error of the socket is.
    pub(super) fn of(what: &str, error: &io::Error) -> End {
        End::Broken(format!("{what}: {}", error_text(error)))
    }
}

/// See the module's picture.
#[derive(Debug)]
pub(super) struct Line {
    stream: Outgoing,
    /// Bytes that came and are not taken.
    pub(super) input: Vec<u8>,
    /// When something came last.
    heard: Instant,
}

/// The addresses or the connection that a thread has found for a name.
type Found = io::Result<Opened>;

enum Opened {
    Addresses(Vec<SocketAddr>),
    Connected(Box<Outgoing>),
}

impl Line {
    /// Connects to a primary.
    ///
    /// # Errors
    /// Nobody answers there, or something else is wanted.
    pub(super) fn connect(thread: &mut Thread, primary: &Address, until: Instant) -> Result<Line, End> {
        let receiver = resolve(thread, primary, until)?;
        let stream = match found(thread, &receiver, until)? {
            Opened::Connected(mut stream) => {
                let registered = stream.register(thread.poll.registry(), SOCKET);
                registered.map_err(|error| End::of("Unable to connect to MASTER", &error))?;
                *stream
            }
            Opened::Addresses(addresses) => connect_first(thread, &addresses, until)?,
        };
        let _ = stream.socket().set_nodelay(true);
        Ok(Line { stream, input: Vec::new(), heard: Instant::now() })
    }

    /// The address of the other end, as clients' addresses are shown.
    pub(super) fn peer(&self) -> Option<String> {
        let peer = self.stream.socket().peer_addr().ok()?;
        Some(SocketAddr::new(peer.ip().to_canonical(), peer.port()).to_string())
    }

    /// When something came last.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// Says that this server is still there, as far as the link takes it: an end of the link is found when it is read.
    pub(super) fn say_alive(&mut self) {
        let _ = self.stream.write(b"\n").and_then(|_| self.stream.flush());
    }

    /// Nothing was read for as long as this server was at something else: the primary's silence begins now.
    pub(super) fn begin_listening(&mut self) {
        self.heard = Instant::now();
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The link is broken, or the other takes nothing until then.
    pub(super) fn send(&mut self, thread: &mut Thread, words: &[&[u8]], until: Instant) -> Result<(), End> {
        let mut request = Vec::new();
        put_request(&mut request, words.iter().copied());
        let mut rest = &request[..];
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread.wait_until(until, "sending to MASTER")?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(End::of("I/O error writing to MASTER", &error)),
            }
        }
        loop {
            match self.stream.flush() {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread.wait_until(until, "sending to MASTER")?,
                Err(error) => return Err(End::of("I/O error writing to MASTER", &error)),
            }
        }
    }

    /// Reads what has come behind `input`, at most [`READ_BYTES`]; the number of bytes, 0 if nothing has.
    ///
    /// # Errors
    /// The link is broken.
    pub(super) fn read_some(&mut self) -> Result<usize, End> {
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let read = loop {
            match self.stream.read(&mut self.input[before..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.input.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(End::Broken("Connection with master lost.".to_owned())),
            Ok(count) => {
                self.heard = Instant::now();
                Ok(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(End::of("Error reading from master", &error)),
        }
    }

    /// Waits until more has come behind `input`.
    ///
    /// # Errors
    /// The link is broken, or nothing comes for as long as `repl-timeout` says.
    pub(super) fn fill(&mut self, thread: &mut Thread) -> Result<usize, End> {
        loop {
            let count = self.read_some()?;
            if count > 0 {
                thread.note_heard(count);
                return Ok(count);
            }
            let until = self.heard + thread.timeout();
            let is_sync = thread.state.replication().replica().facts().stage == LinkStage::Sync;
            thread.wait_until(until, if is_sync { RECEIVING } else { CONNECTING })?;
        }
    }

    /// The next line, without its end.
    ///
    /// # Errors
    /// Like [`Line::fill`]; or the line has no end.
    pub(super) fn line(&mut self, thread: &mut Thread) -> Result<Vec<u8>, End> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.input.drain(..=end).collect();
                line.truncate(line.len() - 1);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            if self.input.len() > LINE_BYTES_MAX {
                return Err(End::Broken("MASTER sends a line without an end".to_owned()));
            }
            self.fill(thread)?;
        }
    }
}

/// Has a thread find the primary.
fn resolve(thread: &Thread, primary: &Address, until: Instant) -> Result<Receiver<Found>, End> {
    let (sender, receiver) = sync_channel(1);
    let (Address { host, port }, waker) = (primary.clone(), Arc::clone(&thread.waker));
    let config = thread.state.config().snapshot();
    let (by_tls, source) = (config.replica.by_tls, config.source_address);
    let context = thread.state.tls().client().filter(|_| by_tls);
    let work = move || {
        let found =
            (host.as_str(), port).to_socket_addrs().map(Iterator::collect).and_then(
                |addresses: Vec<_>| match context {
                    None => Ok(Opened::Addresses(addresses)),
                    Some(context) => {
                        let mut last = io::Error::from(ErrorKind::NotFound);
                        for address in addresses {
                            match Outgoing::connect_tls((&host, address), source, until, Arc::clone(&context)) {
                                Ok(stream) => return Ok(Opened::Connected(Box::new(stream))),
                                Err(error) => last = error,
                            }
                        }
                        Err(last)
                    }
                },
            );
        // The link's thread may want something else by now.
        let _ = sender.send(found);
        let _ = waker.wake();
    };
    let spawned = std::thread::Builder::new().name("resolver".into()).spawn(work);
    spawned.map_err(|error| End::of("Resolving the name of MASTER", &error))?;
    Ok(receiver)
}

fn found(thread: &mut Thread, receiver: &Receiver<Found>, until: Instant) -> Result<Opened, End> {
    loop {
        match receiver.try_recv() {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(error)) => return Err(End::of("Unable to connect to MASTER", &error)),
            Err(TryRecvError::Disconnected) => return Err(End::Broken("Unable to connect to MASTER".to_owned())),
            Err(TryRecvError::Empty) => thread.wait_until(until, CONNECTING)?,
        }
    }
}

/// Connects to the first of the addresses that answers.
fn connect_first(thread: &mut Thread, addresses: &[SocketAddr], until: Instant) -> Result<Outgoing, End> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    let source = thread.state.config().snapshot().source_address;
    for &address in addresses {
        let tried = Outgoing::begin(address, source).and_then(|mut stream| {
            stream.register(thread.poll.registry(), SOCKET)?;
            Ok(stream)
        });
        let stream = match tried {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        loop {
            match stream.is_connected() {
                Ok(true) => return Ok(stream),
                Ok(false) => thread.wait_until(until, CONNECTING)?,
                Err(error) => {
                    last = error;
                    break;
                }
            }
        }
    }
    Err(End::of("Error condition on socket for SYNC", &last))
}

/// The parts of the thread that wait.
impl Thread {
    /// A poll whose waker is this thread's.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn poll() -> io::Result<(Poll, Arc<Waker>)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok((poll, waker))
    }

    /// Waits until something happens at the socket, or somebody wakes the thread.
    ///
    /// # Errors
    /// The time is up; or something else is wanted.
    pub(super) fn wait_until(&mut self, until: Instant, what: &str) -> Result<(), End> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(End::Broken(format!("Timeout {what}...")));
        }
        self.wait(left)
    }

    /// Waits until something happens at the socket, somebody wakes the thread, or this time has passed.
    ///
    /// # Errors
    /// Something else is wanted.
    pub(super) fn wait(&mut self, most: Duration) -> Result<(), End> {
        let mut events = Events::with_capacity(4);
        match self.poll.poll(&mut events, Some(most)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(End::of("Waiting for MASTER", &error)),
            _ => {}
        }
        self.look_at_goal()
    }
}
