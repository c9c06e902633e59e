//! Links: the connections that a worker makes to other servers, for commands that its connections run.
//!
//! ```text
//!   stand_by --> queue --> Resolving --> Connecting --> Open --> the command has ended --> Kept, for 10 s --> closed
//!                           a thread      the poll       |            and keeps it           |
//!                                                        +--> failed: closed                 +--> Open again, for the same server
//!   by TLS (`tls-cluster`): the thread connects as well, and does the handshake
//! ```
//! A process has [`LINK_FILES`] sockets to others at most, those that are kept included, which are reserved like those of its files; a link beyond waits.
//! A connection whose command waits for its link has [`WaitReasons::LINK`]; it is lifted when bytes have come or gone, and when
//! the link fails. Names are resolved by threads, since that may take seconds; handshakes as well, since one may take
//! milliseconds of a worker. Not here: what is said over a link.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Registry, Token};
use rustls::ClientConfig;
use slab::Slab;
use varve_base::shared::SharedUsize;
use varve_exec::link::{LINK_LOW_BYTES, Link, LinkFault, LinkState};

use super::conn::WaitReasons;
use super::conns::Conns;
use super::tls::Outgoing;
use crate::features::pubsub::state::ConnRef;
use crate::system::open_files::LINK_FILES;

/// The poll's tokens of links begin here; those below are connections'.
const TOKENS: usize = usize::MAX / 2;
/// Sockets that are kept for later commands, a worker.
const KEPT_MAX: usize = 16;
/// How often a link that waits for a socket looks for one that others have closed.
const QUEUE_LOOK: Duration = Duration::from_millis(10);
/// How long an unused socket is kept.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Bytes that a command has not taken at which its link fails: nobody answers so much.
const RECEIVED_MAX: usize = 1 << 20;
/// Bytes read or written by one call.
const IO_BYTES: usize = 64 << 10;
/// Sockets to other servers that the process has.
static SOCKETS: SharedUsize = SharedUsize::new(0);

/// The right to have a socket.
#[derive(Debug)]
struct Place;

impl Place {
    fn take() -> Option<Place> {
        SOCKETS
            .fetch_update(AcqRel, Relaxed, |count| ((count as u64) < LINK_FILES).then_some(count + 1))
            .ok()
            .map(|_| Place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        SOCKETS.fetch_sub(1, AcqRel);
    }
}

/// The result of a thread's work.
#[derive(Debug)]
pub(crate) enum Resolved {
    /// The addresses of a name, or none.
    Addresses(Vec<SocketAddr>),
    /// A connection by TLS whose handshake is done.
    Connected(Outgoing),
    /// There is none.
    Failed(LinkFault),
}

/// Has a thread's result come back to [`Links::resolved`].
pub(crate) type Resolve = dyn Fn(Arc<Link>, Resolved) + Send + Sync;

/// The settings with which connections to other servers are made.
#[derive(Debug)]
pub(crate) struct LinkSettings {
    /// The context of links by TLS; None while links are not by TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// The local address; None leaves it to the system.
    pub(crate) source: Option<IpAddr>,
}

/// The settings of the moment.
pub(crate) type LinkContext = dyn Fn() -> LinkSettings + Send + Sync;

/// See the module's picture.
pub(crate) struct Links {
    registry: Registry,
    resolve: Arc<Resolve>,
    context: Box<LinkContext>,
    all: Slab<Outbound>,
    /// The links that wait for a socket, and since when.
    queue: VecDeque<(User, Instant)>,
    kept: usize,
}

/// A socket, or a place for one.
#[derive(Debug)]
struct Outbound {
    host: String,
    port: u16,
    /// When something last happened.
    since: Instant,
    /// The command waits for it.
    awaited: bool,
    stage: Stage,
    place: Place,
}

#[derive(Debug)]
enum Stage {
    Resolving(User),
    /// The addresses that are left to try.
    Connecting(User, Outgoing, Vec<SocketAddr>),
    Open(User, Outgoing),
    /// The number that the last user has left.
    Kept(Outgoing, Option<u64>),
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
    pub(crate) fn new(registry: Registry, resolve: Arc<Resolve>, context: Box<LinkContext>) -> Links {
        Links { registry, resolve, context, all: Slab::new(), queue: VecDeque::new(), kept: 0 }
    }

    /// True if there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.queue.is_empty()
    }

    /// Sockets that are kept for later commands.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// True if this token is a link's.
    pub(crate) fn owns(token: Token) -> bool {
        token.0 >= TOKENS && token.0 < usize::MAX
    }

    /// The connection's command waits for its link, which is opened if it is new.
    pub(crate) fn stand_by(&mut self, conns: &mut Conns, who: ConnRef, now: Instant) {
        let conn = &mut conns[who.conn];
        let link = conn.session().link().expect("its command has a link");
        conn.wait(WaitReasons::LINK);
        if link.state() == LinkState::New {
            link.begin();
            self.queue.push_back((User { link, who }, now));
            return self.begin_some(conns, now);
        }
        match self.place_of(&link) {
            Some(at) => {
                self.all[at].awaited = true;
                if link.take_progress() {
                    self.all[at].since = now;
                }
                self.work(at, conns, now);
            }
            // It has failed.
            None => conns.lift(who, WaitReasons::LINK),
        }
    }

    fn place_of(&self, link: &Arc<Link>) -> Option<usize> {
        let is_it = |outbound: &Outbound| outbound.stage.user().is_some_and(|user| Arc::ptr_eq(&user.link, link));
        self.all.iter().find(|(_, outbound)| is_it(outbound)).map(|(at, _)| at)
    }

    /// Begins to open links that wait for a socket, as many as there are sockets for.
    fn begin_some(&mut self, conns: &mut Conns, now: Instant) {
        while let Some((user, _)) = self.queue.front() {
            if let Some(at) = self.kept_for(&user.link) {
                let (user, _) = self.queue.pop_front().expect("it was looked at");
                self.reuse(at, user, conns, now);
                continue;
            }
            let Some(place) = Place::take().or_else(|| self.drop_kept()) else { return };
            let (user, _) = self.queue.pop_front().expect("it was looked at");
            self.begin(user, place, conns, now);
        }
    }

    /// A socket that is kept for the server of a link.
    fn kept_for(&self, link: &Link) -> Option<usize> {
        let by_tls = (self.context)().tls.is_some();
        let fits = |outbound: &Outbound| match &outbound.stage {
            Stage::Kept(stream, _) => {
                stream.is_tls() == by_tls && outbound.host == link.host() && outbound.port == link.port()
            }
            _ => false,
        };
        self.all.iter().find(|(_, outbound)| fits(outbound)).map(|(at, _)| at)
    }

    /// Closes a socket that is kept for another server.
    fn drop_kept(&mut self) -> Option<Place> {
        let (at, _) = self.all.iter().find(|(_, outbound)| matches!(outbound.stage, Stage::Kept(..)))?;
        self.kept -= 1;
        Some(self.all.remove(at).place)
    }

    /// Opens a link over a socket that is kept.
    fn reuse(&mut self, at: usize, user: User, conns: &mut Conns, now: Instant) {
        let outbound = &mut self.all[at];
        let stage = std::mem::replace(&mut outbound.stage, Stage::Resolving(user.clone()));
        let Stage::Kept(stream, note) = stage else { unreachable!("the caller looked for one that is kept") };
        self.kept -= 1;
        user.link.open(note);
        conns.lift(user.who, WaitReasons::LINK);
        (outbound.stage, outbound.since, outbound.awaited) = (Stage::Open(user, stream), now, false);
    }

    /// Opens a link over a new socket.
    fn begin(&mut self, user: User, place: Place, conns: &mut Conns, now: Instant) {
        let (link, host, port) = (Arc::clone(&user.link), user.link.host().to_owned(), user.link.port());
        let stage = Stage::Resolving(user);
        let at = self.all.insert(Outbound { host: host.clone(), port, since: now, awaited: true, stage, place });
        let LinkSettings { tls, source } = (self.context)();
        if let (Ok(address), None) = (host.parse(), &tls) {
            self.connect(at, vec![SocketAddr::new(address, port)]);
            return self.work(at, conns, now);
        }
        let until = now + idle_max(&link);
        let resolve = Arc::clone(&self.resolve);
        let work = move || {
            let addresses: Vec<SocketAddr> =
                (host.as_str(), port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
            let resolved = match tls {
                None => Resolved::Addresses(addresses),
                Some(context) => connect_tls((&host, &addresses), source, until, &context),
            };
            resolve(link, resolved);
        };
        if std::thread::Builder::new().name("resolver".into()).spawn(work).is_err() {
            self.fail(at, LinkFault::Refused, conns);
        }
    }

    /// A thread has resolved the name of a link's server, or has connected to it.
    pub(crate) fn resolved(&mut self, conns: &mut Conns, link: &Arc<Link>, resolved: Resolved, now: Instant) {
        let Some(at) = self.place_of(link) else { return };
        self.all[at].since = now;
        match resolved {
            Resolved::Addresses(addresses) if addresses.is_empty() => {
                return self.fail(at, LinkFault::Refused, conns);
            }
            Resolved::Addresses(addresses) => self.connect(at, addresses),
            Resolved::Connected(stream) => self.connected(at, stream, conns),
            Resolved::Failed(fault) => return self.fail(at, fault, conns),
        }
        self.work(at, conns, now);
    }

    /// A thread has opened a link's connection.
    fn connected(&mut self, at: usize, mut stream: Outgoing, conns: &mut Conns) {
        let user = self.all[at].stage.user().expect("somebody waits for it").clone();
        if stream.register(&self.registry, Token(TOKENS + at)).is_err() {
            return user.link.fail(LinkFault::Broken);
        }
        user.link.open(None);
        conns.lift(user.who, WaitReasons::LINK);
        let outbound = &mut self.all[at];
        (outbound.stage, outbound.awaited) = (Stage::Open(user, stream), false);
    }

    /// Tries the addresses one after the other; the stage stays `Resolving` if none is left.
    fn connect(&mut self, at: usize, addresses: Vec<SocketAddr>) {
        let mut left = addresses.into_iter();
        let source = (self.context)().source;
        let user = self.all[at].stage.user().expect("somebody waits for it").clone();
        self.all[at].stage = Stage::Resolving(user.clone());
        while let Some(address) = left.next() {
            let Ok(mut stream) = Outgoing::begin(address, source) else { continue };
            _ = stream.socket().set_nodelay(true);
            if stream.register(&self.registry, Token(TOKENS + at)).is_ok() {
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
            Some(Stage::Connecting(..) | Stage::Open(..)) => self.work(at, conns, now),
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
            Ok(Exchanged { sent, news }) => {
                if sent > 0 {
                    outbound.since = now;
                }
                if news {
                    outbound.awaited = false;
                    conns.lift(user.who, WaitReasons::LINK);
                }
            }
            Err(_) => self.fail(at, LinkFault::Broken, conns),
        }
    }

    /// A socket that was connecting is open now, or another address is tried.
    fn follow_connecting(&mut self, at: usize, conns: &mut Conns) {
        let Stage::Connecting(user, stream, left) = &mut self.all[at].stage else { return };
        let (user, done, left) = (user.clone(), stream.is_connected(), std::mem::take(left));
        match done {
            Ok(true) => {
                let stage = std::mem::replace(&mut self.all[at].stage, Stage::Resolving(user.clone()));
                let Stage::Connecting(_, stream, _) = stage else { unreachable!("it was connecting") };
                user.link.open(None);
                let outbound = &mut self.all[at];
                (outbound.stage, outbound.awaited) = (Stage::Open(user.clone(), stream), false);
                conns.lift(user.who, WaitReasons::LINK);
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

    /// Time until something is to be looked at: a link that has been silent, a socket that has been kept, or one that others
    /// may have closed; None without any.
    pub(crate) fn due_in(&self, now: Instant) -> Option<Duration> {
        let due = self.all.iter().filter_map(|(_, outbound)| outbound.due());
        let left = due.map(|due| due.saturating_duration_since(now)).min();
        if self.queue.is_empty() { left } else { Some(left.map_or(QUEUE_LOOK, |left| left.min(QUEUE_LOOK))) }
    }

    /// Ends links that nothing has happened on for too long, and those whose command has ended; begins others.
    #[cold]
    pub(crate) fn settle(&mut self, conns: &mut Conns, now: Instant) {
        let places: Vec<usize> = self.all.iter().map(|(at, _)| at).collect();
        for at in places {
            let outbound = &self.all[at];
            let is_due = outbound.due().is_some_and(|due| due <= now);
            match outbound.stage.user() {
                None if is_due => {
                    self.kept -= 1;
                    self.all.remove(at);
                }
                None => {}
                // A command that has ended well has dropped its link, and a closed connection has no command.
                Some(user) if Arc::strong_count(&user.link) == 1 || !conns.is_there(user.who) => self.release(at, now),
                Some(_) if is_due => self.fail(at, LinkFault::TimedOut, conns),
                Some(_) => {}
            }
        }
        self.queue.retain(|(user, since)| {
            let is_due = *since + user.idle_max() <= now;
            if is_due {
                user.link.fail(LinkFault::TimedOut);
                conns.lift(user.who, WaitReasons::LINK);
            }
            !is_due && conns.is_there(user.who)
        });
        self.begin_some(conns, now);
    }

    /// The command that used a socket has ended: the socket is kept if it is open and the command said so.
    fn release(&mut self, at: usize, now: Instant) {
        let outbound = self.all.remove(at);
        let Stage::Open(user, mut stream) = outbound.stage else { return };
        let Some(note) = user.link.kept().filter(|_| self.kept < KEPT_MAX) else { return };
        // The place's number is its token.
        let at = self.all.vacant_key();
        if stream.reregister(&self.registry, Token(TOKENS + at)).is_ok() {
            self.kept += 1;
            let (host, port, place, stage) = (outbound.host, outbound.port, outbound.place, Stage::Kept(stream, note));
            self.all.insert(Outbound { host, port, since: now, awaited: false, stage, place });
        }
    }
}

impl User {
    fn idle_max(&self) -> Duration {
        idle_max(&self.link)
    }
}

impl Outbound {
    /// When it has been silent, or kept, for long enough; None while its command does something else.
    fn due(&self) -> Option<Instant> {
        match self.stage.user() {
            None => Some(self.since + KEPT_FOR),
            Some(user) => self.awaited.then(|| self.since + user.idle_max()),
        }
    }
}

/// Time in which nothing may happen at a link. Instants do not reach further everywhere.
fn idle_max(link: &Link) -> Duration {
    link.idle_max().min(Duration::from_secs(1 << 30))
}

/// Connects to the first of the addresses that answers.
fn connect_tls(
    (host, addresses): (&str, &[SocketAddr]),
    source: Option<IpAddr>,
    until: Instant,
    context: &Arc<ClientConfig>,
) -> Resolved {
    let mut fault = LinkFault::Refused;
    for &address in addresses {
        match Outgoing::connect_tls((host, address), source, until, Arc::clone(context)) {
            Ok(stream) => return Resolved::Connected(stream),
            Err(error) => {
                tracing::warn!("Connecting to {address} by TLS: {error}");
                let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                fault = if is_late { LinkFault::TimedOut } else { LinkFault::Broken };
            }
        }
    }
    Resolved::Failed(fault)
}

/// The outcome of a look at a socket.
struct Exchanged {
    /// Bytes that were sent.
    sent: usize,
    /// The command has something to do.
    news: bool,
}

/// Writes and reads as much as goes.
///
/// # Errors
/// The socket fails, or the other end has closed it and everything that it had sent is with the command.
fn exchange(stream: &mut Outgoing, link: &Link) -> io::Result<Exchanged> {
    let (mut sent, mut received) = (0, 0);
    // Answers first: they lie in the socket also of one that takes no more.
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
    // Records that the socket has not taken hold the bytes behind them back.
    match stream.flush() {
        Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
        _ => {}
    }
    loop {
        match link.send_with(|bytes| stream.write(&bytes[..bytes.len().min(IO_BYTES)])) {
            Ok(0) => break,
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Exchanged { sent, news: received > 0 || sent > 0 && link.unsent_bytes() < LINK_LOW_BYTES })
}
