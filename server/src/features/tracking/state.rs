//! The table of what tracking clients have read, and the changes that wait to be broadcast.
//!
//! ```text
//!  64 stripes: Mutex { key -> [client, ...] }         pending, one a worker: Mutex { prefix -> { key -> author } }
//! ```
//!
//! A key is told once: its entry goes when it is. Clients that are gone, or no longer track, leave their numbers behind
//! until the key changes; they are never used again. Locks are leaves (a stripe's, then nothing; pending, then the
//! prefixes').

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use varve_store::{Author, Observer, Store};

use crate::features::pubsub::state::{Item, Kind, Name, Registry, Stale};

/// Independent locks of the table.
const STRIPES: usize = 64;
/// Keys that one call of [`TrackingTable::limit`] takes out at most.
const EVICT_MAX: usize = 256;

/// Keys and the clients that have read them.
type Stripe = Mutex<HashMap<Box<[u8]>, Vec<u64>>>;

/// Changes of one worker that wait to be broadcast.
#[derive(Debug, Default)]
struct Pending {
    any: AtomicBool,
    /// By prefix, then by key: who changed it last.
    keys: Mutex<BTreeMap<Name, BTreeMap<Name, u64>>>,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct TrackingTable {
    registry: Arc<Registry>,
    stripes: Box<[Stripe]>,
    keys: AtomicUsize,
    items: AtomicUsize,
    clients: Mutex<usize>,
    pending: Box<[Pending]>,
    /// Stripe that the next eviction looks at first; held by the worker that evicts, so that two do not both take the
    /// last key too many.
    turn: Mutex<usize>,
    hasher: RandomState,
}

impl TrackingTable {
    pub(crate) fn new(registry: Arc<Registry>) -> TrackingTable {
        TrackingTable {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            clients: Mutex::new(0),
            pending: (0..registry.workers()).map(|_| Pending::default()).collect(),
            turn: Mutex::new(0),
            hasher: RandomState::new(),
            registry,
        }
    }

    /// One client more tracks, or one less; the store reports while there is one.
    pub(crate) fn count_client(&self, store: &Store, on: bool) {
        let mut clients = self.clients.lock();
        *clients = if on { *clients + 1 } else { *clients - 1 };
        store.observe(*clients > 0);
        if *clients == 0 {
            self.clear();
        }
    }

    /// Tracking clients.
    pub(crate) fn clients(&self) -> usize {
        *self.clients.lock()
    }

    /// Keys in the table.
    pub(crate) fn keys(&self) -> usize {
        self.keys.load(Relaxed)
    }

    /// Clients of all keys in the table.
    pub(crate) fn items(&self) -> usize {
        self.items.load(Relaxed)
    }

    /// Prefixes that somebody tracks.
    pub(crate) fn prefixes(&self) -> usize {
        self.registry.len(Kind::Prefix)
    }

    /// Broadcasts what this worker's commands have changed.
    #[inline]
    pub(crate) fn flush(&self, worker: usize) {
        if self.pending[worker].any.load(Relaxed) {
            self.broadcast(worker);
        }
    }

    #[cold]
    fn broadcast(&self, worker: usize) {
        let pending = &self.pending[worker];
        let waiting = {
            let mut keys = pending.keys.lock();
            pending.any.store(false, Relaxed);
            std::mem::take(&mut *keys)
        };
        for (prefix, keys) in waiting {
            let stale = Arc::new(Stale::Keys(keys.into_iter().collect()));
            self.registry.broadcast(&prefix, worker, || Item::Prefix(Arc::clone(&prefix), Arc::clone(&stale)));
        }
    }

    /// Takes keys out until there are at most `most` (0: no limit), a bounded number a call; who read them is told that
    /// they changed.
    pub(crate) fn limit(&self, most: usize, worker: usize) {
        let Some(mut turn) = self.turn.try_lock() else { return };
        for _ in 0..EVICT_MAX {
            if most == 0 || self.keys() <= most {
                return;
            }
            *turn = (*turn + 1) % STRIPES;
            let taken = (0..STRIPES).find_map(|n| {
                let mut stripe = self.stripes[(*turn + n) % STRIPES].lock();
                let key = stripe.keys().next()?.clone();
                stripe.remove(&key).map(|clients| (key, clients))
            });
            let Some((key, clients)) = taken else { return };
            self.tell(&key, clients, Author { worker, client: 0 });
        }
    }

    /// True if [`TrackingTable::limit`] has work to do.
    pub(crate) fn is_over(&self, most: usize) -> bool {
        most > 0 && self.keys() > most
    }

    fn clear(&self) {
        for stripe in &self.stripes {
            let entries = std::mem::take(&mut *stripe.lock());
            self.keys.fetch_sub(entries.len(), Relaxed);
            self.items.fetch_sub(entries.values().map(Vec::len).sum(), Relaxed);
        }
    }

    /// Tells the clients of an entry that was taken out, each through its worker's inbox.
    fn tell(&self, key: &[u8], clients: Vec<u64>, by: Author) {
        self.keys.fetch_sub(1, Relaxed);
        self.items.fetch_sub(clients.len(), Relaxed);
        let mut of_worker: Vec<Vec<u64>> = vec![Vec::new(); self.registry.workers()];
        for client in clients {
            if let Some(home) = self.registry.home(client) {
                of_worker[home.worker].push(client);
            }
        }
        let stale = Arc::new(Stale::Keys(vec![(key.into(), by.client)]));
        for (worker, clients) in of_worker.into_iter().enumerate() {
            if !clients.is_empty() {
                let count = clients.len();
                self.registry.send(worker, by.worker, Item::Stale(Arc::clone(&stale), clients.into()), count);
            }
        }
    }

    fn stripe(&self, key: &[u8]) -> &Stripe {
        &self.stripes[self.hasher.hash_one(key) as usize % STRIPES]
    }
}

impl Observer for TrackingTable {
    fn read(&self, client: u64, key: &[u8]) {
        let mut stripe = self.stripe(key).lock();
        match stripe.get_mut(key) {
            Some(clients) => {
                if clients.contains(&client) {
                    return;
                }
                clients.push(client);
            }
            None => {
                stripe.insert(key.into(), vec![client]);
                self.keys.fetch_add(1, Relaxed);
            }
        }
        self.items.fetch_add(1, Relaxed);
    }

    fn changed(&self, by: Author, key: &[u8]) {
        self.registry.each_prefix(key, |prefix| {
            let pending = &self.pending[by.worker];
            pending.keys.lock().entry(Arc::clone(prefix)).or_default().insert(key.into(), by.client);
            pending.any.store(true, Relaxed);
        });
        if self.keys() == 0 {
            return;
        }
        let taken = self.stripe(key).lock().remove(key);
        if let Some(clients) = taken {
            self.tell(key, clients, by);
        }
    }

    fn emptied(&self, by: Author) {
        self.clear();
        let wake: Vec<usize> = self.registry.push_where(|_| 1, by.worker, || Item::AllStale).collect();
        self.registry.wake(&wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::pubsub::state::Inbox;

    #[test]
    fn workers_that_evict_together_leave_what_may_stay() {
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let table = TrackingTable::new(Arc::new(Registry::new((0..2).map(|_| Inbox::new(Arc::clone(&waker))))));
        for round in 0..50_u32 {
            (0..60_u32).for_each(|n| table.read(1, format!("key {round} {n}").as_bytes()));
            std::thread::scope(|s| {
                for worker in 0..2 {
                    let table = &table;
                    s.spawn(move || {
                        while table.is_over(10) {
                            table.limit(10, worker);
                        }
                    });
                }
            });
            assert_eq!((table.keys(), table.items()), (10, 10), "round {round}");
        }
    }
}
