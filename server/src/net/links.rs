//! Links: the connections that a worker makes to other servers, for commands that its connections run.
//!
//! ```text
//!   stand_by --> Resolving --> Connecting --> Open --> the command has ended --> Kept, for 10 s --> closed
//!                 a thread      the poll       |            and keeps it           |
//!                                              +--> failed: closed                 +--> Open again, for the same server
//! ```
//! A connection whose command waits for its link has [`WaitReasons::LINK`]; it is lifted when bytes have come or gone, and when
//! the link fails. Names are resolved by threads, since that may take seconds. Not here: what is said over a link.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use slab::Slab;
use varve_exec::link::{LINK_LOW_BYTES, Link, LinkFault, LinkState};

use super::conn::{Conn, WaitReasons};
use super::conns::Conns;
use crate::features::pubsub::state::ConnRef;

/// The poll's tokens of links begin here; those below are connections'.
const TOKENS: usize = usize::MAX / 2;
/// Sockets that are kept for later commands, a worker.
const KEPT_MAX: usize = 64;
/// How long an unused socket is kept.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Bytes that a command has not taken at which its link fails: nobody answers so much.
const RECEIVED_MAX: usize = 1 << 20;
/// Bytes read or written by one call.
const IO_BYTES: usize = 64 << 10;
/// Threads that resolve names at the same time, in the process. Where there are more, a link fails.
const RESOLVERS_MAX: usize = 16;

static RESOLVERS: AtomicUsize = AtomicUsize::new(0);

/// The addresses of a name, or none.
pub(crate) type Resolved = Vec<SocketAddr>;

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Links {
    registry: Registry,
    all: Slab<Outbound>,
    kept: usize,
}

/// A socket, or a place for one.
#[derive(Debug)]
struct Outbound {
    host: String,
    port: u16,
    /// When something last happened.
    since: Instant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Resolving(User),
    /// The addresses that are left to try.
    Connecting(User, TcpStream, Resolved),
    Open(User, TcpStream),
    /// The number that the last user has left.
    Kept(TcpStream, Option<u64>),
}

/// The command that uses a socket.
#[derive(Clone, Debug)]
struct User {
    link: Arc<Link>,
    who: ConnRef,
}

impl Stage {
    fn user(&self) -> Option<&User> {
        match self {
            Stage::Resolving(user) | Stage::Connecting(user, ..) | Stage::Open(user, _) => Some(user),
            Stage::Kept(..) => None,
        }
    }
}

impl Links {
    /// No links; sockets are registered with this poll.
    pub(crate) fn new(registry: Registry) -> Links {
        Links { registry, all: Slab::new(), kept: 0 }
    }

    /// True if there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Sockets that are kept for later commands.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// True if this token is a link's.
    pub(crate) fn owns(token: Token) -> bool {
        token.0 >= TOKENS && token.0 < usize::MAX
    }

    /// The connection's command waits for its link, which is opened if it is new. `resolve` has a thread's result come back
    /// to [`Links::resolved`].
    pub(crate) fn stand_by(
        &mut self,
        conns: &mut Conns,
        who: ConnRef,
        now: Instant,
        resolve: impl FnOnce(Arc<Link>, Resolved) + Send + 'static,
    ) {
        let conn = &mut conns[who.conn];
        let link = conn.session().link().expect("its command has a link");
        conn.wait(WaitReasons::LINK);
        if link.state() == LinkState::New {
            self.begin(User { link: Arc::clone(&link), who }, now, resolve);
            if link.state() == LinkState::Open {
                // Over a socket that was kept: the command may begin.
                conns.lift(who, WaitReasons::LINK);
            }
        }
        match self.place_of(&link) {
            Some(at) => {
                self.all[at].since = now;
                self.work(at, conns, now);
            }
            // It has failed at once, or is one that has failed before.
            None => conns.lift(who, WaitReasons::LINK),
        }
    }

    fn place_of(&self, link: &Arc<Link>) -> Option<usize> {
        let is_it = |outbound: &Outbound| outbound.stage.user().is_some_and(|user| Arc::ptr_eq(&user.link, link));
        self.all.iter().find(|(_, outbound)| is_it(outbound)).map(|(at, _)| at)
    }

    /// Opens a link: over a socket that is kept, or over a new one.
    fn begin(&mut self, user: User, now: Instant, resolve: impl FnOnce(Arc<Link>, Resolved) + Send + 'static) {
        let (host, port) = (user.link.host().to_owned(), user.link.port());
        let fits = |outbound: &Outbound| {
            matches!(outbound.stage, Stage::Kept(..)) && outbound.host == host && outbound.port == port
        };
        let kept = self.all.iter().find(|(_, outbound)| fits(outbound)).map(|(at, _)| at);
        if let Some(at) = kept
            && let Stage::Kept(stream, note) =
                std::mem::replace(&mut self.all[at].stage, Stage::Resolving(user.clone()))
        {
            self.kept -= 1;
            user.link.open(note);
            self.all[at].stage = Stage::Open(user, stream);
            return;
        }
        user.link.begin();
        let at =
            self.all.insert(Outbound { host: host.clone(), port, since: now, stage: Stage::Resolving(user.clone()) });
        if let Ok(address) = host.parse() {
            return self.connect(at, vec![SocketAddr::new(address, port)]);
        }
        let link = Arc::clone(&user.link);
        if !resolve_apart(host, port, move |addresses| resolve(link, addresses)) {
            user.link.fail(LinkFault::Refused);
            self.all.remove(at);
        }
    }

    /// A thread has resolved the name of a link's server.
    pub(crate) fn resolved(&mut self, conns: &mut Conns, link: &Arc<Link>, addresses: Resolved, now: Instant) {
        let Some(at) = self.place_of(link) else { return };
        self.all[at].since = now;
        if addresses.is_empty() {
            return self.fail(at, LinkFault::Refused, conns);
        }
        self.connect(at, addresses);
        self.work(at, conns, now);
    }

    /// Tries the addresses one after the other; the stage stays `Resolving` if none is left.
    fn connect(&mut self, at: usize, addresses: Resolved) {
        let mut left = addresses.into_iter();
        let user = self.all[at].stage.user().expect("somebody waits for it").clone();
        self.all[at].stage = Stage::Resolving(user.clone());
        while let Some(address) = left.next() {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            _ = stream.set_nodelay(true);
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.registry.register(&mut stream, Token(TOKENS + at), interest).is_ok() {
                self.all[at].stage = Stage::Connecting(user, stream, left.collect());
                return;
            }
        }
        user.link.fail(LinkFault::Broken);
    }

    /// Something has happened at a socket.
    pub(crate) fn note(&mut self, event: &Event, conns: &mut Conns, now: Instant) {
        let at = event.token().0 - TOKENS;
        match self.all.get(at).map(|outbound| &outbound.stage) {
            Some(Stage::Kept(..)) if event.is_readable() || event.is_read_closed() || event.is_error() => {
                self.kept -= 1;
                self.all.remove(at);
            }
            Some(Stage::Connecting(..) | Stage::Open(..)) => {
                self.all[at].since = now;
                self.work(at, conns, now);
            }
            _ => {}
        }
    }

    /// Does what can be done at a socket now, and has the command go on if something has come of it.
    fn work(&mut self, at: usize, conns: &mut Conns, now: Instant) {
        self.follow_connecting(at, conns);
        let outbound = &mut self.all[at];
        let Some(user) = outbound.stage.user().cloned() else { return };
        if let LinkState::Failed(fault) = user.link.state() {
            return self.fail(at, fault, conns);
        }
        let Stage::Open(_, stream) = &mut outbound.stage else { return };
        match exchange(stream, &user.link) {
            Ok(news) => {
                outbound.since = now;
                if news {
                    conns.lift(user.who, WaitReasons::LINK);
                }
            }
            Err(_) => self.fail(at, LinkFault::Broken, conns),
        }
    }

    /// A socket that was connecting is open now, or another address is tried.
    fn follow_connecting(&mut self, at: usize, conns: &mut Conns) {
        let Stage::Connecting(user, stream, left) = &mut self.all[at].stage else { return };
        let (user, done, left) = (user.clone(), is_connected(stream), std::mem::take(left));
        match done {
            Ok(true) => {
                let stage = std::mem::replace(&mut self.all[at].stage, Stage::Resolving(user.clone()));
                let Stage::Connecting(_, stream, _) = stage else { unreachable!("it was connecting") };
                user.link.open(None);
                conns.lift(user.who, WaitReasons::LINK);
                self.all[at].stage = Stage::Open(user, stream);
            }
            Ok(false) => {
                if let Stage::Connecting(_, _, kept) = &mut self.all[at].stage {
                    *kept = left;
                }
            }
            Err(_) => self.connect(at, left),
        }
    }

    /// Closes a socket that is in use, and has the command learn of it.
    fn fail(&mut self, at: usize, fault: LinkFault, conns: &mut Conns) {
        let outbound = self.all.remove(at);
        if let Some(user) = outbound.stage.user() {
            user.link.fail(fault);
            conns.lift(user.who, WaitReasons::LINK);
        }
    }

    /// Time until a link has been silent for too long, or a socket has been kept for long enough; None without any.
    pub(crate) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.all.iter().map(|(_, outbound)| outbound.due().saturating_duration_since(now)).min()
    }

    /// Ends links that nothing has happened on for too long, and those whose command has ended.
    #[cold]
    pub(crate) fn settle(&mut self, conns: &mut Conns, now: Instant) {
        let places: Vec<usize> = self.all.iter().map(|(at, _)| at).collect();
        for at in places {
            let outbound = &mut self.all[at];
            match &outbound.stage {
                Stage::Kept(..) if outbound.due() <= now => {
                    self.kept -= 1;
                    self.all.remove(at);
                }
                Stage::Kept(..) => {}
                Stage::Open(user, _) if Arc::strong_count(&user.link) == 1 => self.release(at, now),
                stage => {
                    let user = stage.user().expect("it is in use");
                    if Arc::strong_count(&user.link) == 1 {
                        self.all.remove(at);
                    } else if outbound.due() <= now && waits(conns, user.who) {
                        self.fail(at, LinkFault::TimedOut, conns);
                    }
                }
            }
        }
    }

    /// The command that used an open socket has ended: the socket is kept if the command said so.
    fn release(&mut self, at: usize, now: Instant) {
        let outbound = self.all.remove(at);
        let Stage::Open(user, mut stream) = outbound.stage else { unreachable!("the caller looked") };
        let Some(note) = user.link.kept().filter(|_| self.kept < KEPT_MAX) else { return };
        // The place's number is its token.
        let at = self.all.vacant_key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.registry.reregister(&mut stream, Token(TOKENS + at), interest).is_ok() {
            self.kept += 1;
            let (host, port) = (outbound.host, outbound.port);
            self.all.insert(Outbound { host, port, since: now, stage: Stage::Kept(stream, note) });
        }
    }
}

fn waits(conns: &mut Conns, who: ConnRef) -> bool {
    conns.get_mut(who).is_some_and(|conn: &mut Conn| conn.waits(WaitReasons::LINK))
}

impl Outbound {
    fn due(&self) -> Instant {
        self.since + self.stage.user().map_or(KEPT_FOR, |user| user.link.idle_max().min(Duration::from_secs(1 << 30)))
    }
}

/// Whether a socket that was connecting is connected.
///
/// # Errors
/// It will not be.
fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes and reads as much as goes; true if the command has something to do.
///
/// # Errors
/// The socket fails, or the other end has closed it and everything that it had sent is with the command.
fn exchange(stream: &mut TcpStream, link: &Link) -> io::Result<bool> {
    let (mut sent, mut received) = (0, 0);
    loop {
        match link.send_with(|bytes| stream.write(&bytes[..bytes.len().min(IO_BYTES)])) {
            Ok(0) => break,
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut room = [0; 4096];
    loop {
        match stream.read(&mut room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                link.receive(&room[..count]);
                received += count;
                if link.received_bytes() > RECEIVED_MAX {
                    return Err(ErrorKind::InvalidData.into());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(received > 0 || sent > 0 && link.unsent_bytes() < LINK_LOW_BYTES)
}

/// Resolves a name in a thread of its own; false if there are too many of them.
fn resolve_apart(host: String, port: u16, then: impl FnOnce(Resolved) + Send + 'static) -> bool {
    if RESOLVERS.fetch_add(1, Relaxed) >= RESOLVERS_MAX {
        RESOLVERS.fetch_sub(1, Relaxed);
        return false;
    }
    let work = move || {
        let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        RESOLVERS.fetch_sub(1, Relaxed);
        then(addresses);
    };
    let started = std::thread::Builder::new().name("resolver".into()).spawn(work).is_ok();
    if !started {
        RESOLVERS.fetch_sub(1, Relaxed);
    }
    started
}
