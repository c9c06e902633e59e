//! Waiters: clients that wait until a key has something for them.
//!
//! ```text
//!   Shard.waiters (none while nobody waits: one branch)
//!     key bytes --> database, line --> Arc<Waiter> in order    a waiter of several keys stands in several queues,
//!                                                             of several shards
//!   Line::Element(type)   by ticket: the first takes what there is, the others wait on
//!   Line::Entries         by the ID behind which they read, then by ticket: all may read: those are served who come
//!                         before the stream's last entry, and nobody looks at those behind it
//!   Line::Group(name)     by ticket: the first is given what its group has not been given, or learns that key or group is gone
//!   Waiter.state      Waiting --claim--> Claimed      by the worker that makes a key ready, with the key's shard held
//!                        \-----cancel--> Cancelled    by its own worker: time is up, unblocked, gone
//! ```
//! One compare-and-swap decides which worker ends the wait. An entry whose waiter no longer waits is dead: it is skipped,
//! dropped when it is found, and removed by the waiter's own worker ([`crate::Store::forget`]).
//!
//! Queues belong to logical databases: a client that waits in database 3 goes on waiting there after SWAPDB and FLUSHDB.
//!
//! The meaning of serving is the caller's: a waiter carries a task that this crate does not look into.
//!
//! **Frozen keys** stand beside the waiters: a command that moves a key to another server has it frozen, and whoever is about
//! to change it finds that out on the same path on which it looks for waiters. A key is frozen in all databases. One that is
//! *occupied* is worked on over several holds of its shard: whoever would read it waits as well. What the parts of such a
//! command have done stands with the key until the last one, and goes to the journal as one unit.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU64};

use smallvec::SmallVec;

use varve_collection::stream::{StreamId, StreamReader};

use super::effects::Prepared;
use super::types::Type;

#[cfg(test)]
thread_local! {
    /// Counts the looks at waiters: what depends on how many wait would show here.
    static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

pub(crate) const WAITING: u8 = 0;
pub(crate) const CLAIMED: u8 = 1;
pub(crate) const CANCELLED: u8 = 2;

/// The client that waits, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Worker of the connection.
    pub worker: usize,
    /// Number of the connection.
    pub client: u64,
    /// Logical database.
    pub db: u32,
}

/// The thing that a waiter waits for at its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
    /// An element of a collection of this type, to take it.
    Element(Type),
    /// Entries of a stream behind an ID, which each key has one of.
    Entries(Box<[StreamId]>),
    /// Entries of a stream that were not given to this group yet, or the end of the stream or of the group.
    Group(Box<[u8]>),
}

impl From<Type> for Wants {
    fn from(ty: Type) -> Wants {
        Wants::Element(ty)
    }
}

/// Those that wait at a key for one thing stand in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Element(Type),
    Entries,
    Group(Box<[u8]>),
}

/// The value of a key, as those who wait look at it.
pub(crate) enum Offer<'a> {
    /// No key, or no key that is alive.
    Nothing,
    /// A value of this type, which is no stream.
    Value(Type),
    /// A stream.
    Stream(StreamReader<'a>),
}

impl Offer<'_> {
    /// Those of a line are served whose place is below this one; nobody for None.
    fn serves(&self, line: &Line) -> Option<StreamId> {
        match (self, line) {
            (Offer::Value(ty), Line::Element(wanted)) => (ty == wanted).then_some(StreamId::MAX),
            (Offer::Stream(stream), Line::Entries) => stream.last().map(|entry| entry.id),
            (Offer::Stream(stream), Line::Group(name)) => match stream.group(name) {
                Some(group) => stream.last().filter(|entry| entry.id > group.last()).map(|_| StreamId::MAX),
                None => Some(StreamId::MAX),
            },
            (_, Line::Group(_)) => Some(StreamId::MAX),
            (Offer::Nothing | Offer::Stream(_), _) | (Offer::Value(_), Line::Entries) => None,
        }
    }
}

/// Bytes of a key that is waited for beside its own, which are there twice: the waiter's list, the shard's table at half its
/// room, the queue, and the first node of its tree, which has eleven places.
const KEY_BYTES: usize = size_of::<Box<[u8]>>()
    + 2 * (size_of::<Box<[u8]>>() + size_of::<SmallVec<[Queue; 1]>>())
    + 11 * (size_of::<Place>() + size_of::<Arc<Waiter>>());

/// A client that waits, shared by the queues of its keys and its connection.
pub struct Waiter {
    pub(crate) state: AtomicU8,
    pub(crate) who: Waiting,
    line: Line,
    /// Without repeats, in the order of the request.
    pub(crate) keys: Box<[Box<[u8]>]>,
    /// The ID behind which it reads each key; empty in other lines.
    behind: Box<[StreamId]>,
    pub(crate) target: Option<Box<[u8]>>,
    /// Its place in the queues, drawn when it begins to wait.
    ticket: AtomicU64,
    pub(crate) task: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("who", &self.who).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Waiter {
    /// A waiter for any of `keys` to have what it wants. `target` is the other key that serving it writes; `task` is what
    /// serving it means. A key that comes again is passed over.
    pub fn new<'k>(
        who: Waiting,
        wants: impl Into<Wants>,
        keys: impl IntoIterator<Item = &'k [u8]>,
        target: Option<&[u8]>,
        task: Box<dyn Any + Send + Sync>,
    ) -> Waiter {
        let (line, ids) = match wants.into() {
            Wants::Element(ty) => (Line::Element(ty), Box::default()),
            Wants::Entries(ids) => (Line::Entries, ids),
            Wants::Group(name) => (Line::Group(name), Box::default()),
        };
        let (mut all, mut behind) = (Vec::<Box<[u8]>>::new(), Vec::new());
        let mut seen = HashSet::new();
        for (at, key) in keys.into_iter().enumerate() {
            if seen.insert(key) {
                all.push(key.into());
                behind.extend(ids.get(at));
            }
        }
        assert!(!all.is_empty(), "a waiter waits for a key");
        assert!(ids.is_empty() || behind.len() == all.len(), "each key has an ID");
        let (keys, target) = (all.into(), target.map(Box::from));
        let state = AtomicU8::new(WAITING);
        Waiter { state, who, line, keys, behind: behind.into(), target, ticket: AtomicU64::new(0), task }
    }

    /// Its place in the line at its key of this number.
    fn place(&self, nth: usize) -> Place {
        (self.behind.get(nth).copied().unwrap_or(StreamId::MIN), self.ticket())
    }

    /// Bytes that it takes, here and in the queues of its keys, but its task.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| 2 * key.len()).sum();
        size_of::<Waiter>() + keys + self.keys.len() * KEY_BYTES + self.behind.len() * size_of::<StreamId>()
    }

    /// The client that waits, and where.
    pub fn who(&self) -> Waiting {
        self.who
    }

    /// Gives it its place in the queues, with the shards of all its keys held.
    pub(crate) fn draw_ticket(&self, ticket: u64) {
        self.ticket.store(ticket, Relaxed);
    }

    fn ticket(&self) -> u64 {
        self.ticket.load(Relaxed)
    }

    /// True if it waits for entries that others may read as well, of which a key may have any number.
    pub fn only_reads(&self) -> bool {
        matches!(self.line, Line::Entries)
    }

    /// True while neither served nor cancelled.
    pub fn is_waiting(&self) -> bool {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        self.state.load(Acquire) == WAITING
    }

    /// Claims the waiter: true for one caller, which is to serve it.
    #[must_use = "who has claimed a waiter owes it a reply"]
    pub fn claim(&self) -> bool {
        self.state.compare_exchange(WAITING, CLAIMED, AcqRel, Acquire).is_ok()
    }

    /// Ends the wait without being served; false if somebody has claimed it, whose reply is on its way.
    #[must_use = "a waiter that was claimed has a reply on its way"]
    pub fn cancel(&self) -> bool {
        self.state.compare_exchange(WAITING, CANCELLED, AcqRel, Acquire).is_ok()
    }

    /// The task, if it is a `T`.
    pub fn task<T: 'static>(&self) -> Option<&T> {
        self.task.downcast_ref()
    }
}

/// The waiter that is next at a ready key.
#[derive(Debug)]
pub enum NextWaiter {
    /// No waiter that could be served.
    Nobody,
    /// This one, taken out of the key's queue. It may have been cancelled since.
    Take(Arc<Waiter>),
    /// There is one, but the shard of its target is not held.
    Far,
    /// There is one, but the key, or its target, is kept by a command: it is served behind that.
    Later,
}

/// How a key is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// It moves to another server: commands that would change it wait, and so do those that may change any key.
    Moving,
    /// A command makes something of it over several holds of its shard: commands that name it and would change it wait.
    Source,
    /// A command works on it over several holds of its shard: all other commands wait.
    Occupied,
}

/// A frozen key.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) how: Freeze,
    /// The effects so far of the command that occupies it.
    pub(crate) prepared: Option<Prepared>,
}

/// The waiters for the keys of one shard.
#[derive(Default)]
pub(crate) struct Waiters {
    keys: HashMap<Box<[u8]>, SmallVec<[Queue; 1]>>,
    frozen: HashMap<Box<[u8]>, Frozen>,
}

/// Where a waiter stands in its line: the ID behind which it reads, which is the least in other lines, and its ticket.
/// Tickets are drawn with the shard locked, so they ascend in the order of coming.
type Place = (StreamId, u64);

/// The waiters for one key in one database that stand in one line. What it costs to serve one, to leave, or to learn of
/// targets does not depend on how many wait.
struct Queue {
    db: u32,
    line: Line,
    waiters: BTreeMap<Place, Arc<Waiter>>,
    /// The different targets, each with the number of waiters in the queue that have it.
    targets: HashMap<Box<[u8]>, usize>,
}

impl Queue {
    fn add(&mut self, place: Place, waiter: &Arc<Waiter>) {
        if let Some(target) = &waiter.target {
            *self.targets.entry(target.clone()).or_default() += 1;
        }
        let known = self.waiters.insert(place, Arc::clone(waiter));
        debug_assert!(known.is_none(), "a ticket is one waiter's");
    }

    fn remove(&mut self, place: Place) -> Option<Arc<Waiter>> {
        let waiter = self.waiters.remove(&place)?;
        if let Some(target) = &waiter.target
            && let Some(count) = self.targets.get_mut(target)
        {
            *count -= 1;
            if *count == 0 {
                self.targets.remove(target);
            }
        }
        Some(waiter)
    }

    /// The place of the first one that still waits, if it is below this one. Those before it, who wait no longer, are
    /// dropped.
    fn first(&mut self, below: StreamId) -> Option<Place> {
        loop {
            let (&place, waiter) = self.waiters.first_key_value().filter(|((behind, _), _)| *behind < below)?;
            if waiter.is_waiting() {
                return Some(place);
            }
            self.remove(place);
        }
    }
}

impl Waiters {
    /// True if nobody waits and no key is frozen.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.frozen.is_empty()
    }

    /// Freezes a key; false if it is frozen already.
    #[must_use = "a key that is frozen for somebody else stays theirs"]
    pub(crate) fn freeze(&mut self, key: &[u8], how: Freeze) -> bool {
        match self.frozen.entry(key.into()) {
            Entry::Vacant(free) => {
                free.insert(Frozen { how, prepared: None });
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Ends that a key is frozen; gives how it was, if it was.
    pub(crate) fn thaw(&mut self, key: &[u8]) -> Option<Frozen> {
        self.frozen.remove(key)
    }

    /// How a key is frozen, if it is.
    pub(crate) fn frozen(&self, key: &[u8]) -> Option<Freeze> {
        self.frozen.get(key).map(|frozen| frozen.how)
    }

    /// A frozen key.
    pub(crate) fn frozen_mut(&mut self, key: &[u8]) -> Option<&mut Frozen> {
        self.frozen.get_mut(key)
    }

    /// True if somebody may wait for this key in any database.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// The keys that somebody may wait for, with their databases. A key may come several times.
    pub(crate) fn waited(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.keys.iter().flat_map(|(key, queues)| queues.iter().map(|queue| (queue.db, &**key)))
    }

    /// The logical databases in which somebody may wait for this key. One may come several times.
    pub(crate) fn databases(&self, key: &[u8]) -> impl Iterator<Item = u32> {
        self.keys.get(key).into_iter().flatten().map(|queue| queue.db)
    }

    /// Puts a waiter that has drawn its ticket into its line at its key of this number.
    pub(crate) fn add(&mut self, nth: usize, waiter: &Arc<Waiter>) {
        let key = &*waiter.keys[nth];
        let queues = match self.keys.get_mut(key) {
            Some(queues) => queues,
            None => self.keys.entry(key.into()).or_default(),
        };
        let db = waiter.who.db;
        let at = queues.iter().position(|queue| queue.db == db && queue.line == waiter.line).unwrap_or_else(|| {
            let line = waiter.line.clone();
            queues.push(Queue { db, line, waiters: BTreeMap::new(), targets: HashMap::new() });
            queues.len() - 1
        });
        queues[at].add(waiter.place(nth), waiter);
    }

    /// True if the key's value in a database serves somebody who still waits.
    pub(crate) fn any(&mut self, key: &[u8], db: u32, offer: &Offer<'_>) -> bool {
        self.find(key, db, offer, |queue, below| queue.first(below).map(|_| ())).is_some()
    }

    /// The waiter that is next for what a key's value in a database offers, taken out if its target, as far as it has one,
    /// is held.
    pub(crate) fn next(
        &mut self,
        key: &[u8],
        db: u32,
        offer: &Offer<'_>,
        holds: impl Fn(&[u8]) -> bool,
    ) -> Option<NextWaiter> {
        self.find(key, db, offer, |queue, below| {
            let place = queue.first(below)?;
            if queue.waiters[&place].target.as_deref().is_some_and(|target| !holds(target)) {
                return Some(NextWaiter::Far);
            }
            queue.remove(place).map(NextWaiter::Take)
        })
    }

    /// The target of the waiter that [`Waiters::next`] would give, if it has one.
    pub(crate) fn next_target(&mut self, key: &[u8], db: u32, offer: &Offer<'_>) -> Option<Box<[u8]>> {
        let next = self.find(key, db, offer, |queue, below| {
            let place = queue.first(below)?;
            Some(queue.waiters[&place].target.clone())
        });
        next.flatten()
    }

    /// Removes a waiter from its line at its key of this number, if it is there.
    pub(crate) fn remove(&mut self, nth: usize, waiter: &Waiter) {
        let key = &*waiter.keys[nth];
        let Some(queues) = self.keys.get_mut(key) else { return };
        let own = |queue: &&mut Queue| queue.db == waiter.who.db && queue.line == waiter.line;
        if let Some(queue) = queues.iter_mut().find(own) {
            queue.remove(waiter.place(nth));
        }
        self.drop_empty(key);
    }

    /// The first result among those of the queues that the offer serves; those that are found empty are dropped. A queue that
    /// goes does not move all behind it: there may be thousands of groups, each with a line of its own.
    fn find<R>(
        &mut self,
        key: &[u8],
        db: u32,
        offer: &Offer<'_>,
        mut look: impl FnMut(&mut Queue, StreamId) -> Option<R>,
    ) -> Option<R> {
        let queues = self.keys.get_mut(key)?;
        let (mut at, mut found) = (0, None);
        while let Some(queue) = queues.get_mut(at).filter(|_| found.is_none()) {
            if queue.db == db
                && let Some(below) = offer.serves(&queue.line)
            {
                found = look(queue, below);
            }
            if queue.waiters.is_empty() {
                queues.swap_remove(at);
            } else {
                at += 1;
            }
        }
        if queues.is_empty() {
            self.keys.remove(key);
        }
        found
    }

    fn drop_empty(&mut self, key: &[u8]) {
        if let Some(queues) = self.keys.get_mut(key) {
            queues.retain(|queue| !queue.waiters.is_empty());
            if queues.is_empty() {
                self.keys.remove(key);
            }
        }
    }

    /// The different targets of the waiters for a key, in any database. Some of them may wait no longer.
    pub(crate) fn targets(&self, key: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.keys.get(key).into_iter().flatten().flat_map(|queue| queue.targets.keys()).map(|target| &**target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(client: u64, wants: Type, target: Option<&[u8]>) -> Arc<Waiter> {
        let who = Waiting { worker: 0, client, db: 0 };
        let waiter = Arc::new(Waiter::new(who, wants, [&b"k"[..]], target, Box::new(())));
        waiter.draw_ticket(client);
        waiter
    }

    /// The client that is next, taken out.
    fn taken(waiters: &mut Waiters, wants: Type) -> Option<u64> {
        match waiters.next(b"k", 0, &Offer::Value(wants), |_| true) {
            Some(NextWaiter::Take(waiter)) => Some(waiter.who.client),
            _ => None,
        }
    }

    /// Looks at waiters that `work` takes.
    fn looks(work: impl FnOnce()) -> usize {
        let before = LOOKS.get();
        work();
        LOOKS.get() - before
    }

    #[test]
    fn a_push_looks_at_one_waiter_however_many_wait() {
        let mut waiters = Waiters::default();
        let all: Vec<_> = (0..10_000).map(|n| waiter(n, Type::List, None)).collect();
        all.iter().for_each(|waiter| waiters.add(0, waiter));
        let others: Vec<_> = (10_000..20_000).map(|n| waiter(n, Type::Zset, Some(b"t"))).collect();
        others.iter().for_each(|waiter| waiters.add(0, waiter));
        assert_eq!(looks(|| assert_eq!(waiters.targets(b"k").collect::<Vec<_>>(), [b"t"])), 0);
        assert_eq!(looks(|| assert!(waiters.any(b"k", 0, &Offer::Value(Type::Zset)))), 1);
        assert_eq!(looks(|| assert_eq!(taken(&mut waiters, Type::Zset), Some(10_000))), 1);
        assert_eq!(looks(|| waiters.remove(0, &others[5000])), 0, "leaving looks at nobody");
        // A push behind many that have left at once drops each of them, once.
        all[..9000].iter().for_each(|waiter| assert!(waiter.cancel()));
        assert_eq!(looks(|| assert_eq!(taken(&mut waiters, Type::List), Some(9000))), 9001);
        assert_eq!(looks(|| assert_eq!(taken(&mut waiters, Type::List), Some(9001))), 1);
        assert!(all[..9000].iter().all(|waiter| Arc::strong_count(waiter) == 1), "who left is not kept");
    }

    /// To find the ID of each key among all of them took two seconds for 40 000, with the shards of all held.
    #[test]
    fn a_reader_of_many_streams_stands_at_each_by_its_own_id() {
        let names: Vec<[u8; 4]> = (0..40_000_u32).map(u32::to_be_bytes).collect();
        let ids = (0..40_000).map(|n| StreamId { ms: n, seq: 0 }).collect();
        let who = Waiting { worker: 0, client: 7, db: 0 };
        let keys = names.iter().map(|name| &name[..]);
        let waiter = Arc::new(Waiter::new(who, Wants::Entries(ids), keys, None, Box::new(())));
        waiter.draw_ticket(1);
        let mut waiters = Waiters::default();
        (0..40_000).for_each(|nth| waiters.add(nth, &waiter));
        for nth in [0, 1, 20_000, 39_999] {
            let queue = &waiters.keys[&names[nth][..]][0];
            assert_eq!(queue.waiters.keys().collect::<Vec<_>>(), [&(StreamId { ms: nth as u64, seq: 0 }, 1)]);
        }
        assert!(waiter.bytes() > 40_000 * (2 * 4 + size_of::<Queue>()));
        (0..40_000).for_each(|nth| waiters.remove(nth, &waiter));
        assert!(waiters.is_empty());
    }

    #[test]
    fn a_queue_goes_with_its_last_waiter() {
        let mut waiters = Waiters::default();
        let all: Vec<_> = (0..3).map(|n| waiter(n, Type::List, Some(b"t"))).collect();
        all.iter().for_each(|waiter| waiters.add(0, waiter));
        all[..2].iter().for_each(|waiter| waiters.remove(0, waiter));
        assert_eq!((waiters.targets(b"k").count(), waiters.has(b"k")), (1, true));
        waiters.remove(0, &all[0]);
        assert!(all[2].cancel() && taken(&mut waiters, Type::List).is_none());
        assert!(waiters.is_empty() && waiters.targets(b"k").count() == 0);
    }
}
