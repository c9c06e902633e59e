//! Waiters: clients that wait until a key has something for them.
//!
//! ```text
//!   Shard.waiters (none while nobody waits: one branch)
//!     key bytes --> database, type --> FIFO of Arc<Waiter>    a waiter of several keys stands in several queues,
//!                                                             of several shards
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
//! to change it finds that out on the same path on which it looks for waiters. A key is frozen in all databases.

use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU64};

use smallvec::SmallVec;

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

/// A client that waits, shared by the queues of its keys and its connection.
pub struct Waiter {
    pub(crate) state: AtomicU8,
    pub(crate) who: Waiting,
    /// The type that its keys must have.
    pub(crate) wants: Type,
    /// Without repeats, in the order of the request.
    pub(crate) keys: Box<[Box<[u8]>]>,
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
    /// A waiter for any of `keys` to be of type `wants`. `target` is the other key that
    /// serving it writes; `task` is what serving it means.
    pub fn new<'k>(
        who: Waiting,
        wants: Type,
        keys: impl IntoIterator<Item = &'k [u8]>,
        target: Option<&[u8]>,
        task: Box<dyn Any + Send + Sync>,
    ) -> Waiter {
        let mut all: Vec<Box<[u8]>> = Vec::new();
        let mut seen = HashSet::new();
        all.extend(keys.into_iter().filter(|key| seen.insert(*key)).map(Box::from));
        assert!(!all.is_empty(), "a waiter waits for a key");
        let (keys, target) = (all.into(), target.map(Box::from));
        Waiter { state: AtomicU8::new(WAITING), who, wants, keys, target, ticket: AtomicU64::new(0), task }
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

/// A key that got something while somebody waits for it.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadyKey {
    /// Logical database.
    pub db: u32,
    /// The key.
    pub bytes: Box<[u8]>,
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
}

/// The waiters for the keys of one shard.
#[derive(Default)]
pub(crate) struct Waiters {
    keys: HashMap<Box<[u8]>, SmallVec<[Queue; 1]>>,
    frozen: HashSet<Box<[u8]>>,
}

/// The waiters for one key in one database that want one type, first come first. What it costs to serve one, to leave, or
/// to learn of targets does not depend on how many wait.
struct Queue {
    db: u32,
    wants: Type,
    /// By ticket: tickets are drawn with the shard locked, so they ascend in the order of coming.
    fifo: BTreeMap<u64, Arc<Waiter>>,
    /// The different targets, each with the number of waiters in the queue that have it.
    targets: HashMap<Box<[u8]>, usize>,
}

impl Queue {
    fn add(&mut self, waiter: &Arc<Waiter>) {
        if let Some(target) = &waiter.target {
            *self.targets.entry(target.clone()).or_default() += 1;
        }
        let known = self.fifo.insert(waiter.ticket(), Arc::clone(waiter));
        debug_assert!(known.is_none(), "a ticket is one waiter's");
    }

    fn remove(&mut self, ticket: u64) -> Option<Arc<Waiter>> {
        let waiter = self.fifo.remove(&ticket)?;
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

    /// The first one that still waits. Those before it, who wait no longer, are dropped.
    fn first(&mut self) -> Option<&Arc<Waiter>> {
        while let Some((&ticket, waiter)) = self.fifo.first_key_value()
            && !waiter.is_waiting()
        {
            self.remove(ticket);
        }
        self.fifo.first_key_value().map(|(_, waiter)| waiter)
    }
}

impl Waiters {
    /// True if nobody waits and no key is frozen.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.frozen.is_empty()
    }

    /// Freezes a key; false if it is frozen already.
    #[must_use = "a key that is frozen for somebody else stays theirs"]
    pub(crate) fn freeze(&mut self, key: &[u8]) -> bool {
        self.frozen.insert(key.into())
    }

    /// Ends that a key is frozen; false if it was not.
    pub(crate) fn thaw(&mut self, key: &[u8]) -> bool {
        self.frozen.remove(key)
    }

    /// True if a key is frozen.
    pub(crate) fn is_frozen(&self, key: &[u8]) -> bool {
        self.frozen.contains(key)
    }

    /// True if somebody may wait for this key in any database.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// The keys that somebody may wait for, with their databases. A key may come several times.
    pub(crate) fn waited(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.keys.iter().flat_map(|(key, queues)| queues.iter().map(|queue| (queue.db, &**key)))
    }

    /// Puts a waiter that has drawn its ticket at the end of a key's queue.
    pub(crate) fn add(&mut self, key: &[u8], waiter: &Arc<Waiter>) {
        let queues = match self.keys.get_mut(key) {
            Some(queues) => queues,
            None => self.keys.entry(key.into()).or_default(),
        };
        let (db, wants) = (waiter.who.db, waiter.wants);
        let at = queues.iter().position(|queue| (queue.db, queue.wants) == (db, wants)).unwrap_or_else(|| {
            queues.push(Queue { db, wants, fifo: BTreeMap::new(), targets: HashMap::new() });
            queues.len() - 1
        });
        queues[at].add(waiter);
    }

    /// True if somebody still waits for a key in a database to be of a type, which is asked for only if anybody is there.
    pub(crate) fn any(&mut self, key: &[u8], db: u32, wants: impl FnOnce() -> Option<Type>) -> bool {
        self.edit(key, db, wants, |queue| queue.first().is_some()).unwrap_or(false)
    }

    /// The waiter that is next for a key in a database to be of this type, taken out if its target, as far as it has one,
    /// is held.
    pub(crate) fn next(
        &mut self,
        key: &[u8],
        db: u32,
        wants: Type,
        holds: impl FnOnce(&[u8]) -> bool,
    ) -> Option<NextWaiter> {
        let take = |queue: &mut Queue| {
            let first = queue.first()?;
            if first.target.as_deref().is_some_and(|target| !holds(target)) {
                return Some(NextWaiter::Far);
            }
            let ticket = first.ticket();
            queue.remove(ticket).map(NextWaiter::Take)
        };
        self.edit(key, db, || Some(wants), take).flatten()
    }

    /// Removes a waiter from a key's queue, if it is there.
    pub(crate) fn remove(&mut self, key: &[u8], waiter: &Waiter) {
        self.edit(key, waiter.who.db, || Some(waiter.wants), |queue| queue.remove(waiter.ticket()));
    }

    /// Works on a queue; an empty one is dropped.
    fn edit<R>(
        &mut self,
        key: &[u8],
        db: u32,
        wants: impl FnOnce() -> Option<Type>,
        edit: impl FnOnce(&mut Queue) -> R,
    ) -> Option<R> {
        let queues = self.keys.get_mut(key)?;
        let wants = wants()?;
        let at = queues.iter().position(|queue| (queue.db, queue.wants) == (db, wants))?;
        let result = edit(&mut queues[at]);
        if queues[at].fifo.is_empty() {
            queues.remove(at);
            if queues.is_empty() {
                self.keys.remove(key);
            }
        }
        Some(result)
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
        match waiters.next(b"k", 0, wants, |_| true) {
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
        all.iter().for_each(|waiter| waiters.add(b"k", waiter));
        let others: Vec<_> = (10_000..20_000).map(|n| waiter(n, Type::Zset, Some(b"t"))).collect();
        others.iter().for_each(|waiter| waiters.add(b"k", waiter));
        assert_eq!(looks(|| assert_eq!(waiters.targets(b"k").collect::<Vec<_>>(), [b"t"])), 0);
        assert_eq!(looks(|| assert!(waiters.any(b"k", 0, || Some(Type::Zset)))), 1);
        assert_eq!(looks(|| assert_eq!(taken(&mut waiters, Type::Zset), Some(10_000))), 1);
        assert_eq!(looks(|| waiters.remove(b"k", &others[5000])), 0, "leaving looks at nobody");
        // A push behind many that have left at once drops each of them, once.
        all[..9000].iter().for_each(|waiter| assert!(waiter.cancel()));
        assert_eq!(looks(|| assert_eq!(taken(&mut waiters, Type::List), Some(9000))), 9001);
        assert_eq!(looks(|| assert_eq!(taken(&mut waiters, Type::List), Some(9001))), 1);
        assert!(all[..9000].iter().all(|waiter| Arc::strong_count(waiter) == 1), "who left is not kept");
    }

    #[test]
    fn a_queue_goes_with_its_last_waiter() {
        let mut waiters = Waiters::default();
        let all: Vec<_> = (0..3).map(|n| waiter(n, Type::List, Some(b"t"))).collect();
        all.iter().for_each(|waiter| waiters.add(b"k", waiter));
        all[..2].iter().for_each(|waiter| waiters.remove(b"k", waiter));
        assert_eq!((waiters.targets(b"k").count(), waiters.has(b"k")), (1, true));
        waiters.remove(b"k", &all[0]);
        assert!(all[2].cancel() && taken(&mut waiters, Type::List).is_none());
        assert!(waiters.is_empty() && waiters.targets(b"k").count() == 0);
    }
}
