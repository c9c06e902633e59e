//! Waiters: clients that wait until a key has something for them.
//!
//! ```text
//!   Shard.waiters (none while nobody waits: one branch)
//!     key bytes --> database --> FIFO of Arc<Waiter>          a waiter of several keys stands in several queues,
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

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use smallvec::SmallVec;

use super::types::Type;

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
        Waiter { state: AtomicU8::new(WAITING), who, wants, keys, target, task }
    }

    /// The client that waits, and where.
    pub fn who(&self) -> Waiting {
        self.who
    }

    /// True while neither served nor cancelled.
    pub fn is_waiting(&self) -> bool {
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
    pub(crate) keys: HashMap<Box<[u8]>, SmallVec<[Queue; 1]>>,
}

/// The waiters for one key in one database, first come first.
pub(crate) struct Queue {
    pub(crate) db: u32,
    pub(crate) fifo: VecDeque<Arc<Waiter>>,
}

impl Waiters {
    pub(crate) fn add(&mut self, key: &[u8], waiter: &Arc<Waiter>) {
        let queues = match self.keys.get_mut(key) {
            Some(queues) => queues,
            None => self.keys.entry(key.into()).or_default(),
        };
        let at = queues.iter().position(|queue| queue.db == waiter.who.db).unwrap_or_else(|| {
            queues.push(Queue { db: waiter.who.db, fifo: VecDeque::new() });
            queues.len() - 1
        });
        queues[at].fifo.push_back(Arc::clone(waiter));
    }

    pub(crate) fn queue(&self, key: &[u8], db: u32) -> Option<&Queue> {
        self.keys.get(key)?.iter().find(|queue| queue.db == db)
    }

    /// Edits a key's queue; an empty one is dropped.
    pub(crate) fn edit<R>(
        &mut self,
        key: &[u8],
        db: u32,
        edit: impl FnOnce(&mut VecDeque<Arc<Waiter>>) -> R,
    ) -> Option<R> {
        let queues = self.keys.get_mut(key)?;
        let at = queues.iter().position(|queue| queue.db == db)?;
        let result = edit(&mut queues[at].fifo);
        if queues[at].fifo.is_empty() {
            queues.remove(at);
            if queues.is_empty() {
                self.keys.remove(key);
            }
        }
        Some(result)
    }

    /// The targets of the waiters for a key, in any database.
    pub(crate) fn targets(&self, key: &[u8]) -> impl Iterator<Item = &[u8]> {
        let all = self.keys.get(key).into_iter().flatten().flat_map(|queue| &queue.fifo);
        all.filter(|waiter| waiter.is_waiting()).filter_map(|waiter| waiter.target.as_deref())
    }
}
