//! A connection that the server makes to another server for a command that goes on over several turns.
//!
//! ```text
//!   the command                          Link                          the server
//!   send(write)           -->  unsent bytes                  -->       socket
//!   take_received()       <--  received bytes                <--       socket
//!   state()               <--  New, Connecting, Open, Failed <--       resolving, connecting, time-outs, errors
//! ```
//! The command makes the link and waits ([`crate::Progress::Waits`]); its server opens it and has the command go on whenever
//! something has come of it. A link ends when the command drops it. Its socket is kept for the next command to the same
//! server, if the command has said so. Not here: sockets.

use std::time::Duration;

use varve_base::shared::SharedMutex;

/// Unsent bytes below which a command that had more is to go on.
pub const LINK_LOW_BYTES: usize = 256 << 10;

/// How a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Nobody has begun to open it.
    New,
    /// It is being opened.
    Connecting,
    /// Bytes may go both ways.
    Open,
    /// It is of no more use, but for bytes that were received before.
    Failed(LinkFault),
}

/// Why a link is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// There is no connection: the name is unknown, or nobody answers there.
    Refused,
    /// Nothing has happened for too long.
    TimedOut,
    /// The connection has ended.
    Broken,
}

/// See the module's picture.
#[derive(Debug)]
pub struct Link {
    host: String,
    port: u16,
    idle_max: Duration,
    inner: SharedMutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: LinkState,
    unsent: Vec<u8>,
    received: Vec<u8>,
    /// It was open when its state last changed to failed.
    was_open: bool,
    /// The number that the last user of the socket has left with it.
    note: Option<u64>,
    /// The command has ended well and leaves the socket to others.
    keeps: bool,
    /// The command has sent something, or has got a whole answer, since this was last asked.
    progress: bool,
}

impl Link {
    /// A link to a server that nobody has opened. It fails when nothing happens on it for `idle_max`.
    pub fn new(host: String, port: u16, idle_max: Duration) -> Link {
        let inner = Inner {
            state: LinkState::New,
            unsent: Vec::new(),
            received: Vec::new(),
            was_open: false,
            note: None,
            keeps: false,
            progress: false,
        };
        Link { host, port, idle_max, inner: SharedMutex::new(inner) }
    }

    /// The name or the address of the other server.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How long nothing may happen.
    pub fn idle_max(&self) -> Duration {
        self.idle_max
    }

    /// How it stands.
    pub fn state(&self) -> LinkState {
        self.inner.lock().state
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        let inner = self.inner.lock();
        inner.unsent.capacity() + inner.received.capacity()
    }
}

/// The command's side.
impl Link {
    /// Has `write` put bytes behind those that are to be sent.
    pub fn send(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.inner.lock();
        write(&mut inner.unsent);
        inner.progress = true;
    }

    /// A whole answer has come: the other server is not silent. One that sends byte by byte is.
    pub fn note_progress(&self) {
        self.inner.lock().progress = true;
    }

    /// Bytes that are not sent yet.
    pub fn unsent_bytes(&self) -> usize {
        self.inner.lock().unsent.len()
    }

    /// Moves what was received behind `into`.
    pub fn take_received(&self, into: &mut Vec<u8>) {
        into.append(&mut self.inner.lock().received);
    }

    /// True if it failed after it had been open, rather than while it was being opened.
    pub fn was_open(&self) -> bool {
        self.inner.lock().was_open
    }

    /// The number that the last command over the same socket has left, if it has left one.
    pub fn note(&self) -> Option<u64> {
        self.inner.lock().note
    }

    /// Leaves the socket to later commands, with a number for them.
    pub fn keep(&self, note: Option<u64>) {
        let mut inner = self.inner.lock();
        (inner.keeps, inner.note) = (true, note);
    }
}

/// The server's side.
impl Link {
    /// It is being opened from now on.
    pub fn begin(&self) {
        self.inner.lock().state = LinkState::Connecting;
    }

    /// It is open; `note` is what the socket's last user has left with it.
    pub fn open(&self, note: Option<u64>) {
        let mut inner = self.inner.lock();
        (inner.state, inner.note, inner.was_open) = (LinkState::Open, note, true);
    }

    /// It has failed.
    pub fn fail(&self, fault: LinkFault) {
        self.inner.lock().state = LinkState::Failed(fault);
    }

    /// Has `write` take bytes from the front of those that are unsent; it gives how many it has taken.
    ///
    /// # Errors
    /// That of `write`, which has taken nothing then.
    pub fn send_with<E>(&self, write: impl FnOnce(&[u8]) -> Result<usize, E>) -> Result<usize, E> {
        let mut inner = self.inner.lock();
        if inner.unsent.is_empty() {
            return Ok(0);
        }
        let count = write(&inner.unsent)?;
        inner.unsent.drain(..count);
        if inner.unsent.is_empty() {
            inner.unsent.shrink_to(LINK_LOW_BYTES);
        }
        Ok(count)
    }

    /// Whether the command has sent something, or has got a whole answer, since this was last asked.
    pub fn take_progress(&self) -> bool {
        std::mem::take(&mut self.inner.lock().progress)
    }

    /// Adds bytes to those that were received.
    pub fn receive(&self, bytes: &[u8]) {
        self.inner.lock().received.extend_from_slice(bytes);
    }

    /// Bytes that the command has not taken.
    pub fn received_bytes(&self) -> usize {
        self.inner.lock().received.len()
    }

    /// Whether the command has left the socket to others, and with which number.
    pub fn kept(&self) -> Option<Option<u64>> {
        let inner = self.inner.lock();
        inner.keeps.then_some(inner.note)
    }
}
