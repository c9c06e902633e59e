//! The registry that all workers share: for each channel, pattern and prefix, how many listeners each worker has.
//!
//! ```text
//!  channels, shard channels: 64 stripes each: SharedMutex { name -> [count of worker 0, count of worker 1, ...] }
//!  patterns, prefixes:       SharedRwLock { pattern -> [counts] }, asked only while there is one
//!  homes:                    16 stripes: SharedMutex { client id -> worker, connection }
//!  inboxes:                  one a worker
//!  authors:                  workers 0 .. n, and behind them their scripts n .. 2n: visit and latch of what each has pushed
//! ```
//!
//! Publishing holds its channel's stripe, so it is ordered with every other publishing to the channel and with each
//! subscription. Not here: connections.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_base::glob::{self, Glob};
use varve_base::shared::{SharedBool, SharedMutex, SharedRwLock, SharedUsize};
use varve_exec::journal::Journal;
use varve_exec::notify::Events;

use super::inbox::{Entry, Inbox, Item, Message};
use super::latch::Latch;
use super::visit::Visits;
use super::{Home, Kind, Name, Payload};

/// Independent locks of each name space.
const STRIPES: usize = 64;
/// Independent locks of the homes.
const HOME_STRIPES: usize = 16;

/// Bytes that an inbox is owed, once a listener, from which on those who fill it wait: with 1000 subscribers and short
/// messages this is about 200 messages, and a few milliseconds of work.
const CROWDED_BYTES: usize = 32 << 20;

/// A name's listeners, by worker.
pub(super) type Counts = Box<[u32]>;

/// One name space of channels, found by name.
#[derive(Debug)]
struct Exact {
    stripes: Box<[SharedMutex<HashMap<Name, Counts>>]>,
    /// Names with a listener.
    len: SharedUsize,
}

/// One name space of patterns or prefixes, all of which are tried.
#[derive(Debug, Default)]
struct Tried {
    names: SharedRwLock<HashMap<Name, Counts>>,
    len: SharedUsize,
}

/// The latch of the visit that an author is at, if its commands have made something stale that others keep.
#[derive(Debug, Default)]
struct Owed {
    any: SharedBool,
    /// A leaf that nobody else takes.
    latch: SharedMutex<Option<Arc<Latch>>>,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Registry {
    channels: Exact,
    shard_channels: Exact,
    patterns: Tried,
    prefixes: Tried,
    homes: Box<[SharedMutex<HashMap<u64, Home>>]>,
    inboxes: Box<[Inbox]>,
    /// By worker: its connections have filled an inbox too far.
    crowded: Box<[SharedBool]>,
    /// By author.
    owed: Box<[Owed]>,
    visits: Visits,
    /// Bytes of the large payloads that inboxes and outputs hold.
    payload_bytes: Arc<SharedUsize>,
    hasher: RandomState,
}

/// Where what an author's commands publish goes, and its keyspace events.
#[derive(Clone)]
pub(crate) struct Sink {
    registry: Arc<Registry>,
    author: usize,
}

impl Sink {
    pub(crate) fn new(registry: Arc<Registry>, author: usize) -> Sink {
        Sink { registry, author }
    }
}

impl Events for Sink {
    fn publish(&mut self, shard: bool, channel: &[u8], message: &[u8]) -> u64 {
        let kind = if shard { Kind::Shard } else { Kind::Channel };
        self.registry.publish(kind, channel, message, self.author)
    }
}

/// Where a kind of names is kept.
enum Space<'r> {
    Exact(&'r Exact),
    Tried(&'r Tried),
}

impl Exact {
    fn new() -> Exact {
        Exact { stripes: (0..STRIPES).map(|_| SharedMutex::default()).collect(), len: SharedUsize::new(0) }
    }
}

impl Registry {
    /// For the workers with these inboxes, whose effects go to this journal.
    pub(crate) fn new(inboxes: impl IntoIterator<Item = Inbox>, journal: Arc<Journal>) -> Registry {
        let inboxes: Box<[Inbox]> = inboxes.into_iter().collect();
        Registry {
            visits: Visits::new(2 * inboxes.len(), journal),
            channels: Exact::new(),
            shard_channels: Exact::new(),
            patterns: Tried::default(),
            prefixes: Tried::default(),
            homes: (0..HOME_STRIPES).map(|_| SharedMutex::default()).collect(),
            crowded: inboxes.iter().map(|_| SharedBool::new(false)).collect(),
            owed: (0..2 * inboxes.len()).map(|_| Owed::default()).collect(),
            payload_bytes: Arc::default(),
            inboxes,
            hasher: RandomState::new(),
        }
    }

    /// A worker's inbox.
    pub(crate) fn inbox(&self, worker: usize) -> &Inbox {
        &self.inboxes[worker]
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.inboxes.len()
    }

    /// Number of authors.
    pub(crate) fn authors(&self) -> usize {
        self.owed.len()
    }

    /// The author that a worker's scripts are, like their part of the store. The worker itself has its own number.
    #[inline]
    pub(crate) fn scripts_of(&self, worker: usize) -> usize {
        self.inboxes.len() + worker
    }

    /// The worker on whose thread an author is.
    #[inline]
    fn worker_of(&self, author: usize) -> usize {
        author % self.inboxes.len()
    }

    /// A connection has come to its worker.
    pub(crate) fn arrive(&self, id: u64, home: Home) {
        self.homes[id as usize % HOME_STRIPES].lock().insert(id, home);
    }

    /// A connection is gone.
    pub(crate) fn leave(&self, id: u64) {
        self.homes[id as usize % HOME_STRIPES].lock().remove(&id);
    }

    /// Where a connection is; None if there is none of this number.
    pub(crate) fn home(&self, id: u64) -> Option<Home> {
        self.homes[id as usize % HOME_STRIPES].lock().get(&id).copied()
    }

    /// Adds one subscription of a worker. Gives the name as it is shared, and the number of the worker's first item that
    /// the subscription is for.
    pub(crate) fn subscribe(&self, kind: Kind, name: &[u8], worker: usize) -> (Name, u64) {
        let add = |names: &mut HashMap<Name, Counts>| {
            let state = names.get_key_value(name).map_or_else(|| Name::from(name), |(known, _)| Arc::clone(known));
            let counts = names.entry(Arc::clone(&state)).or_insert_with(|| vec![0; self.inboxes.len()].into());
            counts[worker] += 1;
            (state, self.inboxes[worker].pushed(), names.len())
        };
        match self.space(kind) {
            Space::Tried(tried) => {
                let mut names = tried.names.write();
                let (state, since, len) = add(&mut names);
                tried.len.store(len, Ordering::Release);
                (state, since)
            }
            Space::Exact(exact) => {
                let mut stripe = exact.stripes[self.stripe(name)].lock();
                let before = stripe.len();
                let (state, since, len) = add(&mut stripe);
                exact.len.fetch_add(len - before, Ordering::AcqRel);
                (state, since)
            }
        }
    }

    /// Takes one subscription of a worker away.
    pub(crate) fn unsubscribe(&self, kind: Kind, name: &[u8], worker: usize) {
        let take = |names: &mut HashMap<Name, Counts>| {
            let counts = names.get_mut(name).expect("who ends a subscription has it");
            assert!(counts[worker] > 0, "the worker has this subscription");
            counts[worker] -= 1;
            let empty = counts.iter().all(|&count| count == 0);
            if empty {
                names.remove(name);
            }
            empty
        };
        match self.space(kind) {
            Space::Tried(tried) => {
                let mut names = tried.names.write();
                take(&mut names);
                tried.len.store(names.len(), Ordering::Release);
            }
            Space::Exact(exact) => {
                let empty = take(&mut exact.stripes[self.stripe(name)].lock());
                exact.len.fetch_sub(usize::from(empty), Ordering::AcqRel);
            }
        }
    }

    /// Publishes to a channel or shard channel; gives the number of subscriptions that the message goes to. `own` is the
    /// author, whose worker looks into its inbox by itself.
    pub(crate) fn publish(&self, kind: Kind, channel: &[u8], payload: &[u8], own: usize) -> u64 {
        let by_pattern = kind == Kind::Channel && self.len(Kind::Pattern) > 0;
        let Space::Exact(channels) = self.space(kind) else { unreachable!("messages are published to channels") };
        if !by_pattern && channels.len.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let mut wake = Vec::new();
        let receivers = {
            let stripe = channels.stripes[self.stripe(channel)].lock();
            let direct = stripe.get_key_value(channel);
            let patterns = by_pattern.then(|| self.patterns.names.read());
            let patterns = patterns.iter().flat_map(|patterns| patterns.iter());
            let matching: Vec<(&Name, &Counts)> = patterns.filter(|(p, _)| glob::matches(p, channel, false)).collect();
            if direct.is_none() && matching.is_empty() {
                return 0;
            }
            let counts = || direct.iter().map(|(_, c)| *c).chain(matching.iter().map(|(_, c)| *c));
            let message = Arc::new(Message {
                kind,
                channel: direct.map_or_else(|| Name::from(channel), |(name, _)| Arc::clone(name)),
                payload: Payload::new(payload, &self.payload_bytes),
                patterns: matching.iter().map(|(pattern, _)| Arc::clone(pattern)).collect(),
            });
            let listeners = |worker: usize| counts().map(|counts| counts[worker] as usize).sum();
            wake.extend(self.push_where(listeners, own, || Item::Message(Arc::clone(&message))));
            counts().flat_map(|counts| counts.iter()).map(|&count| u64::from(count)).sum()
        };
        self.wake(&wake);
        receivers
    }

    /// Puts an item into the inboxes of the workers that have listeners to it, whose number is `listeners`; gives those to
    /// be woken, the calling one not among them.
    pub(crate) fn push_where(
        &self,
        listeners: impl Fn(usize) -> usize,
        own: usize,
        item: impl Fn() -> Item,
    ) -> impl Iterator<Item = usize> {
        let workers = (0..self.inboxes.len()).map(move |worker| (worker, listeners(worker)));
        workers.filter_map(move |(worker, count)| {
            let wakes = count > 0 && {
                let item = item();
                let latch = item.is_owed().then(|| self.latch(own));
                self.put(worker, own, Entry::new(item, count, latch).behind(self.visits.current(own)))
            };
            wakes.then_some(worker)
        })
    }

    /// Puts an item into an inbox, on behalf of author `own`; true if the other worker has to be woken.
    fn put(&self, worker: usize, own: usize, entry: Entry) -> bool {
        let (inbox, own) = (&self.inboxes[worker], self.worker_of(own));
        let rested = inbox.push(entry, worker == own);
        if inbox.owed_bytes() > CROWDED_BYTES {
            self.crowded[own].store(true, Ordering::Relaxed);
        }
        rested && worker != own
    }

    /// The visits that items wait for.
    #[inline]
    pub(crate) fn visits(&self) -> &Visits {
        &self.visits
    }

    /// The visit of this author, or its turn of the background, has ended: what it has pushed may leave when the journal is
    /// synced up to `until`.
    #[inline]
    pub(crate) fn end_visit(&self, author: usize, until: u64) {
        let sleepers = self.visits.end(author, until);
        self.wake(&sleepers);
    }

    /// Wakes workers.
    pub(crate) fn wake(&self, workers: &[usize]) {
        workers.iter().for_each(|&worker| self.inboxes[worker].wake());
    }

    /// True if this worker's connections have filled some inbox so far that they should wait.
    #[inline]
    pub(crate) fn is_crowded(&self, worker: usize) -> bool {
        self.crowded[worker].load(Ordering::Relaxed)
    }

    /// True if this worker's connections have filled some inbox so far that they should wait; told once.
    #[inline]
    pub(crate) fn take_crowded(&self, worker: usize) -> bool {
        self.is_crowded(worker) && self.crowded[worker].swap(false, Ordering::Relaxed)
    }

    /// True if all inboxes have room again.
    pub(crate) fn has_room(&self) -> bool {
        self.inboxes.iter().all(|inbox| inbox.owed_bytes() <= CROWDED_BYTES / 2)
    }

    /// Bytes of the large payloads that are held anywhere.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload_bytes.load(Ordering::Relaxed)
    }

    /// True if this author has made something stale since its latch was last taken.
    #[inline]
    pub(crate) fn owes(&self, author: usize) -> bool {
        self.owed[author].any.load(Ordering::Relaxed)
    }

    /// Takes the latch of the author's visit: all that its commands have made stale has a share in it.
    pub(crate) fn take_latch(&self, author: usize) -> Option<Arc<Latch>> {
        let owed = &self.owed[author];
        owed.any.store(false, Ordering::Relaxed);
        owed.latch.lock().take()
    }

    /// A share in the latch of the author's visit.
    fn latch(&self, author: usize) -> Arc<Latch> {
        let owed = &self.owed[author];
        owed.any.store(true, Ordering::Relaxed);
        let mut latch = owed.latch.lock();
        Arc::clone(latch.get_or_insert_with(|| Arc::new(Latch::new(self.inboxes[self.worker_of(author)].opened()))))
    }

    /// Puts an item for `listeners` connections into one worker's inbox.
    pub(crate) fn send(&self, to: usize, own: usize, item: Item, listeners: usize) {
        let latch = item.is_owed().then(|| self.latch(own));
        if self.put(to, own, Entry::new(item, listeners, latch).behind(self.visits.current(own))) {
            self.inboxes[to].wake();
        }
    }

    /// Passes on to another worker what was delivered to a connection of worker `own`: whoever waits for it waits on. The
    /// append-only file has what it tells of.
    pub(crate) fn pass_on(&self, to: usize, own: usize, item: Item, listeners: usize, latch: Option<Arc<Latch>>) {
        if self.put(to, own, Entry::new(item, listeners, latch)) {
            self.inboxes[to].wake();
        }
    }

    /// Calls `each` with every prefix that the key begins with, in the order of their names.
    pub(crate) fn each_prefix(&self, key: &[u8], mut each: impl FnMut(&Name)) {
        if self.len(Kind::Prefix) == 0 {
            return;
        }
        let names = self.prefixes.names.read();
        names.keys().filter(|prefix| key.starts_with(prefix)).for_each(&mut each);
    }

    /// Puts an item into the inboxes of all workers with a listener to the prefix.
    pub(crate) fn broadcast(&self, prefix: &[u8], own: usize, item: impl Fn() -> Item) {
        let wake: Vec<usize> = {
            let names = self.prefixes.names.read();
            let Some(counts) = names.get(prefix) else { return };
            self.push_where(|worker| counts[worker] as usize, own, item).collect()
        };
        self.wake(&wake);
    }

    /// The channels (or shard channels) with a subscription whose names match, in no order.
    pub(crate) fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Name> {
        let Space::Exact(exact) = self.space(kind) else { unreachable!("channels are listed") };
        let pattern = pattern.map(Glob::new);
        let mut found = Vec::new();
        for stripe in &exact.stripes {
            let stripe = stripe.lock();
            found.extend(stripe.keys().filter(|name| pattern.as_ref().is_none_or(|p| p.matches(name))).cloned());
        }
        found
    }

    /// Subscriptions to a channel or shard channel by its name.
    pub(crate) fn count(&self, kind: Kind, channel: &[u8]) -> u64 {
        let Space::Exact(exact) = self.space(kind) else { unreachable!("channels are counted") };
        let stripe = exact.stripes[self.stripe(channel)].lock();
        stripe.get(channel).map_or(0, |counts| counts.iter().map(|&count| u64::from(count)).sum())
    }

    /// How many names of a kind have a listener.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        match self.space(kind) {
            Space::Exact(exact) => exact.len.load(Ordering::Acquire),
            Space::Tried(tried) => tried.len.load(Ordering::Acquire),
        }
    }

    fn space(&self, kind: Kind) -> Space<'_> {
        match kind {
            Kind::Channel => Space::Exact(&self.channels),
            Kind::Shard => Space::Exact(&self.shard_channels),
            Kind::Pattern => Space::Tried(&self.patterns),
            Kind::Prefix => Space::Tried(&self.prefixes),
        }
    }

    fn stripe(&self, name: &[u8]) -> usize {
        self.hasher.hash_one(name) as usize % STRIPES
    }
}
