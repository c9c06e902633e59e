//! The registry that all workers share: for each channel, pattern and prefix, how many listeners each worker has.
//!
//! ```text
//!  channels, shard channels: 64 stripes each: SharedMutex { name -> [count of worker 0, count of worker 1, ...] }
//!  patterns:                 SharedRwLock { pattern -> [counts] }, all of which are tried, while there is one
//!  prefixes:                 SharedRwLock { prefix -> [counts] }, found by a hash of each length that there is (`prefixes`)
//!  homes:                    16 stripes: SharedMutex { client id -> worker, connection }
//!  inboxes:                  one a worker
//!  authors:                  workers 0 .. n, and behind them their scripts n .. 2n: visit and latch of what each has pushed
//! ```
//!
//! Publishing holds its channel's stripe, so it is ordered with every other publishing to the channel and with each
//! subscription. Not here: connections.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_base::glob::Glob;
use varve_base::shared::{SharedBool, SharedMutex, SharedRwLock, SharedUsize};
use varve_exec::journal::Journal;
use varve_exec::notify::Events;

use super::inbox::{Entry, Inbox, Item, Message};
use super::latch::Latch;
use super::prefixes::KnownPrefixes;
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

/// The name space of patterns.
#[derive(Debug, Default)]
struct Patterns {
    names: SharedRwLock<HashMap<Glob<Name>, Counts>>,
    len: SharedUsize,
}

/// The name space of prefixes.
#[derive(Debug, Default)]
struct Prefixes {
    known: SharedRwLock<KnownPrefixes<Counts>>,
    len: SharedUsize,
}

/// A name as a name space has it.
trait Known: Borrow<[u8]> + Hash + Eq {
    fn name(&self) -> &Name;
}

impl Known for Name {
    fn name(&self) -> &Name {
        self
    }
}

/// A pattern, prepared for all messages that come.
impl Known for Glob<Name> {
    fn name(&self) -> &Name {
        self.given()
    }
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
    patterns: Patterns,
    prefixes: Prefixes,
    homes: Box<[SharedMutex<HashMap<u64, Home>>]>,
    inboxes: Box<[Inbox]>,
    /// By author: a worker's connections, or its scripts, have filled an inbox too far.
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
    Patterns(&'r Patterns),
    Prefixes(&'r Prefixes),
}

impl Exact {
    fn new() -> Exact {
        Exact { stripes: (0..STRIPES).map(|_| SharedMutex::default()).collect(), len: SharedUsize::new(0) }
    }
}

/// Takes one subscription of a worker away; true if it was the name's last one.
fn take<K: Known>(names: &mut HashMap<K, Counts>, name: &[u8], worker: usize) -> bool {
    let counts = names.get_mut(name).expect("who ends a subscription has it");
    assert!(counts[worker] > 0, "the worker has this subscription");
    counts[worker] -= 1;
    let empty = counts.iter().all(|&count| count == 0);
    if empty {
        names.remove(name);
    }
    empty
}

impl Registry {
    /// For the workers with these inboxes, whose effects go to this journal.
    pub(crate) fn new(inboxes: impl IntoIterator<Item = Inbox>, journal: Arc<Journal>) -> Registry {
        let inboxes: Box<[Inbox]> = inboxes.into_iter().collect();
        Registry {
            visits: Visits::new(2 * inboxes.len(), journal),
            channels: Exact::new(),
            shard_channels: Exact::new(),
            patterns: Patterns::default(),
            prefixes: Prefixes::default(),
            homes: (0..HOME_STRIPES).map(|_| SharedMutex::default()).collect(),
            crowded: (0..2 * inboxes.len()).map(|_| SharedBool::new(false)).collect(),
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
        let shared = || Name::from(name);
        match self.space(kind) {
            Space::Patterns(patterns) => {
                // A long one takes a while to prepare, for which nobody is kept from publishing.
                let prepared = Glob::new(shared());
                let mut names = patterns.names.write();
                let added = self.add(&mut names, (name, || prepared), worker);
                patterns.len.store(names.len(), Ordering::Release);
                added
            }
            Space::Prefixes(prefixes) => {
                let mut known = prefixes.known.write();
                let added = known.change(name, |names| self.add(names, (name, shared), worker));
                prefixes.len.store(known.names().len(), Ordering::Release);
                added
            }
            Space::Exact(exact) => {
                let mut stripe = exact.stripes[self.stripe(name)].lock();
                let before = stripe.len();
                let added = self.add(&mut stripe, (name, shared), worker);
                exact.len.fetch_add(stripe.len() - before, Ordering::AcqRel);
                added
            }
        }
    }

    /// Adds one subscription of a worker, like [`Registry::subscribe`].
    fn add<K: Known>(
        &self,
        names: &mut HashMap<K, Counts>,
        (name, new): (&[u8], impl FnOnce() -> K),
        worker: usize,
    ) -> (Name, u64) {
        if !names.contains_key(name) {
            names.insert(new(), vec![0; self.inboxes.len()].into());
        }
        names.get_mut(name).expect("it is there now")[worker] += 1;
        let (known, _) = names.get_key_value(name).expect("it is there now");
        (Arc::clone(known.name()), self.inboxes[worker].pushed())
    }

    /// Takes one subscription of a worker away.
    pub(crate) fn unsubscribe(&self, kind: Kind, name: &[u8], worker: usize) {
        match self.space(kind) {
            Space::Patterns(patterns) => {
                let mut names = patterns.names.write();
                take(&mut names, name, worker);
                patterns.len.store(names.len(), Ordering::Release);
            }
            Space::Prefixes(prefixes) => {
                let mut known = prefixes.known.write();
                known.change(name, |names| take(names, name, worker));
                prefixes.len.store(known.names().len(), Ordering::Release);
            }
            Space::Exact(exact) => {
                let empty = take(&mut exact.stripes[self.stripe(name)].lock(), name, worker);
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
        // A copy of a large one takes long: others wait for the stripe meanwhile.
        let mut large = Payload::of_large(payload, &self.payload_bytes);
        let receivers = {
            let stripe = channels.stripes[self.stripe(channel)].lock();
            let direct = stripe.get_key_value(channel);
            let patterns = by_pattern.then(|| self.patterns.names.read());
            let patterns = patterns.iter().flat_map(|patterns| patterns.iter());
            let matching = patterns.filter(|(pattern, _)| pattern.matches(channel));
            let matching: Vec<(&Name, &Counts)> = matching.map(|(pattern, counts)| (pattern.name(), counts)).collect();
            if direct.is_none() && matching.is_empty() {
                return 0;
            }
            let counts = || direct.iter().map(|(_, c)| *c).chain(matching.iter().map(|(_, c)| *c));
            let message = Arc::new(Message {
                kind,
                channel: direct.map_or_else(|| Name::from(channel), |(name, _)| Arc::clone(name)),
                payload: large.take().unwrap_or_else(|| Payload::new(payload, &self.payload_bytes)),
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
        let (inbox, author, own) = (&self.inboxes[worker], own, self.worker_of(own));
        let rested = inbox.push(entry, worker == own);
        if inbox.owed_bytes() > CROWDED_BYTES {
            self.crowded[author].store(true, Ordering::Relaxed);
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

    /// True if this author, a worker's connections or its scripts, has filled some inbox so far that it should wait.
    #[inline]
    pub(crate) fn is_crowded(&self, author: usize) -> bool {
        self.crowded[author].load(Ordering::Relaxed)
    }

    /// True if this author has filled some inbox so far that it should wait; told once.
    #[inline]
    pub(crate) fn take_crowded(&self, author: usize) -> bool {
        self.is_crowded(author) && self.crowded[author].swap(false, Ordering::Relaxed)
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

    /// Calls `each` with every prefix that the key begins with, the shortest one first.
    pub(crate) fn each_prefix(&self, key: &[u8], mut each: impl FnMut(&Name)) {
        if self.len(Kind::Prefix) == 0 {
            return;
        }
        self.prefixes.known.read().each_of(key, &mut each);
    }

    /// Puts an item into the inboxes of all workers with a listener to the prefix.
    pub(crate) fn broadcast(&self, prefix: &[u8], own: usize, item: impl Fn() -> Item) {
        let wake: Vec<usize> = {
            let known = self.prefixes.known.read();
            let Some(counts) = known.names().get(prefix) else { return };
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
            // Publishers do not wait for the matching.
            let mut names: Vec<Name> = stripe.lock().keys().cloned().collect();
            names.retain(|name| pattern.as_ref().is_none_or(|pattern| pattern.matches(name)));
            found.append(&mut names);
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
            Space::Patterns(patterns) => patterns.len.load(Ordering::Acquire),
            Space::Prefixes(prefixes) => prefixes.len.load(Ordering::Acquire),
        }
    }

    fn space(&self, kind: Kind) -> Space<'_> {
        match kind {
            Kind::Channel => Space::Exact(&self.channels),
            Kind::Shard => Space::Exact(&self.shard_channels),
            Kind::Pattern => Space::Patterns(&self.patterns),
            Kind::Prefix => Space::Prefixes(&self.prefixes),
        }
    }

    fn stripe(&self, name: &[u8]) -> usize {
        self.hasher.hash_one(name) as usize % STRIPES
    }
}
