//! Waiters: clients that wait until a key has something for them.
//!
//! ```text
//!   Shard.waiters (none while nobody waits: one branch)
//!     key bytes --> database --> FIFO of Arc<Waiter>          a waiter of several keys stands in several queues,
//!                                                             of several shards
//!   Waiter.state      Waiting --claim--> Claimed      whoever makes a key ready, with the key's shard held
//!                        \-----cancel--> Cancelled    its own worker: time is up, unblocked, gone
//! ```
//! One compare-and-swap decides who ends the wait. An entry whose waiter no longer waits is dead: it is skipped, dropped
//! when met, and removed by the waiter's own worker ([`Store::forget`]).
//!
//! Queues belong to logical databases: a client that waits in database 3 goes on waiting there after SWAPDB and FLUSHDB.
//!
//! A waiter may have a **target**, another key that serving it will write. A command holds all its shards before it
//! changes a byte, so before a command that may make a key ready the shards of the targets of those who wait for it are
//! taken too, and of those who wait for the targets, and so on ([`Tx::widen`]).
//!
//! What serving means is the caller's: a waiter carries a task that this crate does not look into.

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU8,
    Ordering::{AcqRel, Acquire},
};

use smallvec::SmallVec;

use crate::key::{Key, hash_of};
use crate::shard::Shard;
use crate::store::Store;
use crate::tx::{Tx, type_of_kind};
use crate::types::Type;
use crate::worker::Worker;

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const CANCELLED: u8 = 2;

/// Who waits, and where.
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
    state: AtomicU8,
    who: Waiting,
    /// The type that its keys must have.
    wants: Type,
    /// Without repeats, in the order of the request.
    keys: Box<[Box<[u8]>]>,
    target: Option<Box<[u8]>>,
    task: Box<dyn Any + Send + Sync>,
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

    /// Who waits, and where.
    pub fn who(&self) -> Waiting {
        self.who
    }

    /// True while neither served nor cancelled.
    pub fn is_waiting(&self) -> bool {
        self.state.load(Acquire) == WAITING
    }

    /// True for the one who is to serve it.
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
    /// Nobody who could be served.
    Nobody,
    /// This one, taken out of the key's queue. It may have been cancelled since.
    Take(Arc<Waiter>),
    /// There is one, but the shard of its target is not held.
    Far,
}

/// Who waits for the keys of one shard.
#[derive(Default)]
pub(crate) struct Waiters {
    keys: HashMap<Box<[u8]>, SmallVec<[Queue; 1]>>,
}

/// Who waits for one key in one database, first come first.
struct Queue {
    db: u32,
    fifo: VecDeque<Arc<Waiter>>,
}

impl Waiters {
    fn add(&mut self, key: &[u8], waiter: &Arc<Waiter>) {
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

    fn queue(&self, key: &[u8], db: u32) -> Option<&Queue> {
        self.keys.get(key)?.iter().find(|queue| queue.db == db)
    }

    /// Edits a key's queue; an empty one is dropped.
    fn edit<R>(&mut self, key: &[u8], db: u32, edit: impl FnOnce(&mut VecDeque<Arc<Waiter>>) -> R) -> Option<R> {
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

    /// The targets of those who wait for a key, in any database.
    fn targets(&self, key: &[u8]) -> impl Iterator<Item = &[u8]> {
        let all = self.keys.get(key).into_iter().flatten().flat_map(|queue| &queue.fifo);
        all.filter(|waiter| waiter.is_waiting()).filter_map(|waiter| waiter.target.as_deref())
    }
}

impl Shard {
    /// Removes a waiter's entry for a key, if it is there.
    fn forget(&mut self, key: &[u8], waiter: &Waiter) {
        let Some(waiters) = &mut self.waiters else { return };
        waiters.edit(key, waiter.who.db, |fifo| fifo.retain(|other| !std::ptr::eq(&**other, waiter)));
        if waiters.keys.is_empty() {
            self.waiters = None;
        }
    }
}

impl Tx<'_> {
    /// The number of the worker that runs this.
    pub fn worker(&self) -> usize {
        self.local.id
    }

    /// Lets a client wait for its keys, whose shards are held.
    pub fn wait(&mut self, waiter: &Arc<Waiter>) {
        debug_assert_eq!(waiter.who.db, self.db(), "a client waits in the database that it has selected");
        for key in &waiter.keys {
            let at = self.held.position(self.store.shard_of(self.key(key).hash));
            self.held.at_mut(at).waiters.get_or_insert_default().add(key, waiter);
        }
    }

    /// True if somebody waits for a key of a shard that is held.
    #[inline]
    pub fn any_waiters(&self) -> bool {
        self.held.iter().any(|shard| shard.waiters.is_some())
    }

    /// Adds to the ascending `shards`, which are those held, the ones that serving the waiters of `keys` may need: true
    /// if there are any, which are then to be held before this is asked again. It ends, for the list only grows.
    pub fn widen<'k>(&self, shards: &mut Vec<u16>, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        debug_assert!(self.held.is(shards), "the shards are those held");
        let mut far = Vec::new();
        let mut seen = HashSet::new();
        let mut next: Vec<&[u8]> = keys.into_iter().collect();
        while let Some(key) = next.pop() {
            let id = self.shard_of_bytes(key);
            if shards.binary_search(&id).is_err() {
                far.push(id);
                continue;
            }
            let shard = self.held.at(self.held.position(usize::from(id)));
            let Some(waiters) = &shard.waiters else { continue };
            if waiters.keys.contains_key(key) && seen.insert(key) {
                next.extend(waiters.targets(key));
            }
        }
        shards.extend(&far);
        shards.sort_unstable();
        shards.dedup();
        !far.is_empty()
    }

    /// The shard of a key, whatever its database.
    pub fn shard_of_bytes(&self, key: &[u8]) -> u16 {
        self.store.shard_of(hash_of(self.store.seed, 0, key)) as u16
    }

    /// Notes that a key has changed, for those who wait for it.
    #[inline]
    pub(crate) fn wake(&mut self, k: &Key<'_>) {
        let at = self.held.position(self.store.shard_of(k.hash));
        if self.held.at(at).waiters.is_some() {
            self.note_ready(k, at);
        }
    }

    /// A key is ready if it has the type that somebody waits for.
    #[cold]
    fn note_ready(&mut self, k: &Key<'_>, at: usize) {
        let store = self.store;
        let Some(db) = (0..store.databases()).find(|db| store.databases.physical(*db) == k.db) else { return };
        let shard = self.held.at(at);
        let Some(queue) = shard.waiters.as_ref().and_then(|waiters| waiters.queue(k.bytes, db)) else { return };
        let Some(slot) = shard.find(&store.log, k) else { return };
        let ty = type_of_kind(shard.access.open(&store.log, shard.index.get(slot)).kind());
        let wanted = queue.fifo.iter().any(|waiter| waiter.wants == ty && waiter.is_waiting());
        let known = |ready: &ReadyKey| ready.db == db && *ready.bytes == *k.bytes;
        if wanted && !self.ready.iter().any(known) {
            self.ready.push_back(ReadyKey { db, bytes: k.bytes.into() });
        }
    }

    /// True if keys have become ready that were not taken with [`Tx::next_ready`] yet.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The key that became ready first.
    pub fn next_ready(&mut self) -> Option<ReadyKey> {
        self.ready.pop_front()
    }

    /// Puts a ready key back, before all others, and holds all shards that serving the ready keys may need, waiting for
    /// each as long as it takes. What the keys held before may be gone.
    #[cold]
    pub fn regather(&mut self, ready: ReadyKey) {
        self.ready.push_front(ready);
        let mut shards: Vec<u16> = self.ready.iter().map(|ready| self.shard_of_bytes(&ready.bytes)).collect();
        shards.sort_unstable();
        shards.dedup();
        loop {
            self.hold(&shards);
            let keys = self.ready.iter().map(|ready| &*ready.bytes);
            if !self.widen(&mut shards, keys) {
                return;
            }
        }
    }

    /// The first who waits for a key in the selected database and wants what is there. The key's shard is held.
    pub fn next_waiter(&mut self, k: &Key<'_>) -> NextWaiter {
        let Some(ty) = self.type_of(k) else { return NextWaiter::Nobody };
        let (store, db) = (self.store, self.db());
        let at = self.held.position(store.shard_of(k.hash));
        let Some(queue) = self.held.at(at).waiters.as_ref().and_then(|waiters| waiters.queue(k.bytes, db)) else {
            return NextWaiter::Nobody;
        };
        let Some(first) = queue.fifo.iter().position(|waiter| waiter.wants == ty && waiter.is_waiting()) else {
            return NextWaiter::Nobody;
        };
        let target = queue.fifo[first].target.as_deref();
        if target.is_some_and(|target| !self.held.holds(self.shard_of_bytes(target))) {
            return NextWaiter::Far;
        }
        let shard = self.held.at_mut(at);
        let waiters = shard.waiters.as_mut().expect("just looked at");
        let taken = waiters.edit(k.bytes, db, |fifo| fifo.remove(first));
        if waiters.keys.is_empty() {
            shard.waiters = None;
        }
        NextWaiter::Take(taken.flatten().expect("just found"))
    }

    /// The keys that are ready, in order; serving them is put off, and up to the caller.
    pub fn take_ready(&mut self) -> VecDeque<ReadyKey> {
        std::mem::take(&mut self.ready)
    }

    /// Marks every key ready that somebody waits for and that is there, in any database, behind those of `ready`, and
    /// holds the shards of all with all that serving them may need: after databases were exchanged, and for what was put
    /// off. Under the gate alone.
    pub fn recheck(&mut self, ready: VecDeque<ReadyKey>) {
        let store = self.store;
        let mut waited = Vec::new();
        let mut shards = Vec::new();
        self.release();
        for (id, cell) in store.shards.iter().enumerate() {
            let shard = cell.lock.lock();
            let Some(waiters) = &shard.waiters else { continue };
            shards.push(id as u16);
            for (key, queues) in &waiters.keys {
                waited.extend(queues.iter().map(|queue| (queue.db, key.clone())));
            }
        }
        if waited.is_empty() {
            return;
        }
        self.ready = ready;
        self.ready.retain(|ready| waited.iter().any(|(db, key)| *db == ready.db && *key == ready.bytes));
        self.hold(&shards);
        waited.sort_unstable();
        for (db, key) in &waited {
            let k = store.key(*db, key);
            if self.exists(&k) {
                self.wake(&k);
            }
        }
        while self.widen(&mut shards, waited.iter().map(|(_, key)| &**key)) {
            self.hold(&shards);
        }
    }
}

impl Store {
    /// Removes the entries of a waiter that waits no longer. The worker holds nothing and is outside the gate.
    pub fn forget(&self, worker: &Worker, waiter: &Waiter) {
        debug_assert!(!waiter.is_waiting(), "a client that waits is not forgotten");
        let _inside = self.gate.enter(worker.id());
        for key in &waiter.keys {
            let id = self.shard_of(hash_of(self.seed, 0, key));
            self.shards[id].lock.lock().forget(key, waiter);
        }
    }
}
