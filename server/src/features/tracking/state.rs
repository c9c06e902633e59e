//! The table of what tracking clients have read, and the changes that wait to be broadcast.
//!
//! ```text
//!  256 stripes: SharedMutex { key -> [client, ...], sums }  pending, one an author: SharedMutex { prefix -> { key -> author } }
//!
//!  a client ends tracking:  its number stays with the keys that it has read
//!  sweep, a stripe a turn:  numbers of clients that track no more are taken out, keys without numbers too
//!  all at once:             when the last one ends, or a database is emptied; the memory goes bit by bit, in later turns
//! ```
//!
//! A key is told once: its entry goes when it is. A sweep begins when enough clients have ended tracking to pay for the
//! walk, or some time after the last one; in between a dead number costs its bytes, which count as used memory. Locks:
//! the sweep's, then the clients', then a stripe's or that of what is to be freed; pending, then the prefixes'.

use std::collections::{BTreeMap, HashMap, HashSet, hash_map};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;
use varve_base::share::Share;
use varve_base::shared::{SharedBool, SharedMutex, SharedUsize};
use varve_store::{Author, Observer, Store};

use crate::features::pubsub::state::{Item, Kind, Name, Registry, Stale};

/// Independent locks of the table. A sweep looks at one stripe a turn: 4000 keys at the default tracking-table-max-keys.
const STRIPES: usize = 256;
/// Keys that one call of [`TrackingTable::limit`] takes out at most.
const EVICT_MAX: usize = 256;
/// Keys that go for one that is new where there are too many.
const REPLACED: usize = 2;
/// Entries whose memory one turn gives back, where those that wait are not very many: some 0.2 ms.
const FREE_MAX: usize = 1024;
/// A sweep begins when one client has ended tracking for this number of numbers in the table.
const SWEEP_ITEMS_EACH: usize = 16;
/// Fewer clients than this have a sweep only after [`SWEEP_EVERY_MS`].
const SWEEP_CLIENTS: usize = 64;
/// Milliseconds after which a sweep begins for one client too.
const SWEEP_EVERY_MS: i64 = 10_000;
/// Bytes of a key's entry beyond the key and more clients than two: the pair in the map, which is two thirds full in the
/// mean, and the key's allocation.
const ENTRY_BYTES: usize = size_of::<(Box<[u8]>, Readers)>() * 3 / 2 + 16;

/// The clients that have read a key, ascending.
type Readers = SmallVec<[u64; 2]>;

/// Keys and the clients that have read them.
type Keys = HashMap<Box<[u8]>, Readers>;

/// One of the table's parts, which has a lock of its own.
#[derive(Debug, Default)]
struct Stripe {
    keys: Keys,
    /// Readers of all its keys.
    items: usize,
    /// Bytes of its entries.
    bytes: usize,
}

impl Stripe {
    /// Takes a key out; gives who has read it.
    fn remove(&mut self, key: &[u8]) -> Option<Readers> {
        let readers = self.keys.remove(key)?;
        self.items -= readers.len();
        self.bytes -= entry_bytes(key, &readers);
        Some(readers)
    }
}

/// Bytes that an entry takes.
fn entry_bytes(key: &[u8], readers: &Readers) -> usize {
    let list = if readers.spilled() { readers.capacity() * size_of::<u64>() } else { 0 };
    ENTRY_BYTES + key.len() + list
}

/// The clients that track, and how many have ended since a sweep began.
#[derive(Debug, Default)]
struct Clients {
    tracking: HashSet<u64>,
    ended: usize,
}

/// The places of the two walks over the stripes.
#[derive(Debug, Default)]
struct Walks {
    /// Stripe that the next eviction looks at first.
    evict: usize,
    /// Stripe that the sweep comes to next; None while no sweep is under way.
    sweep: Option<usize>,
    /// When the last sweep began, in ms of Unix time.
    swept_ms: i64,
}

/// Changes of one author that wait to be broadcast.
#[derive(Debug, Default)]
struct Pending {
    any: SharedBool,
    /// By prefix, then by key: who changed it last.
    keys: SharedMutex<BTreeMap<Name, BTreeMap<Name, u64>>>,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct TrackingTable {
    registry: Arc<Registry>,
    stripes: Box<[SharedMutex<Stripe>]>,
    keys: SharedUsize,
    /// Keys that there may be, 0 for no limit: `tracking-table-max-keys`.
    keys_max: SharedUsize,
    items: SharedUsize,
    /// Bytes of all entries.
    bytes: SharedUsize,
    /// Entries that nobody is told of any more, and whose memory is to be given back.
    to_free: SharedMutex<Vec<Freed>>,
    /// Bytes of these.
    freeing_bytes: SharedUsize,
    /// There are such.
    owes_memory: SharedBool,
    clients: SharedMutex<Clients>,
    /// True from the end of a client's tracking to the end of a sweep that began after it.
    dirty: SharedBool,
    pending: Box<[Pending]>,
    /// Held by the worker that evicts or sweeps, so that two do not both take the last key too many.
    walks: SharedMutex<Walks>,
    hasher: RandomState,
}

impl TrackingTable {
    pub(crate) fn new(registry: Arc<Registry>) -> TrackingTable {
        TrackingTable {
            stripes: (0..STRIPES).map(|_| SharedMutex::default()).collect(),
            keys: SharedUsize::new(0),
            keys_max: SharedUsize::new(0),
            items: SharedUsize::new(0),
            bytes: SharedUsize::new(0),
            to_free: SharedMutex::default(),
            freeing_bytes: SharedUsize::new(0),
            owes_memory: SharedBool::new(false),
            clients: SharedMutex::default(),
            dirty: SharedBool::new(false),
            pending: (0..registry.authors()).map(|_| Pending::default()).collect(),
            walks: SharedMutex::default(),
            hasher: RandomState::new(),
            registry,
        }
    }

    /// A client tracks from now on, or no longer; the store reports while one does.
    pub(crate) fn count_client(&self, store: &Store, client: u64, on: bool) {
        store.observe(self.note_client(client, on));
    }

    /// Notes that a client tracks, or no longer; true while one does. The clients' lock covers the clearing, so that
    /// nothing is lost that the next client reads.
    fn note_client(&self, client: u64, on: bool) -> bool {
        let mut clients = self.clients.lock();
        if on {
            clients.tracking.insert(client);
        } else if clients.tracking.remove(&client) {
            clients.ended += 1;
            self.dirty.store(true, Relaxed);
        }
        if clients.tracking.is_empty() {
            self.clear();
        }
        !clients.tracking.is_empty()
    }

    /// Tracking clients.
    pub(crate) fn clients(&self) -> usize {
        self.clients.lock().tracking.len()
    }

    /// Bytes of keys and of the numbers of their readers, which the log does not hold, and of those that are still to be freed.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed) + self.freeing_bytes.load(Relaxed)
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

    /// Broadcasts what this author's commands have changed.
    #[inline]
    pub(crate) fn flush(&self, author: usize) {
        if self.pending[author].any.load(Relaxed) {
            self.broadcast(author);
        }
    }

    #[cold]
    fn broadcast(&self, author: usize) {
        let pending = &self.pending[author];
        let waiting = {
            let mut keys = pending.keys.lock();
            pending.any.store(false, Relaxed);
            std::mem::take(&mut *keys)
        };
        for (prefix, keys) in waiting {
            let stale = Arc::new(Stale::Keys(keys.into_iter().collect()));
            self.registry.broadcast(&prefix, author, || Item::Prefix(Arc::clone(&prefix), Arc::clone(&stale)));
        }
    }

    /// Sets how many keys there may be, 0 for no limit.
    pub(crate) fn set_keys_max(&self, most: usize) {
        self.keys_max.store(most, Relaxed);
    }

    /// Takes keys out while there are too many, a bounded number a call; who read them is told that they changed.
    pub(crate) fn limit(&self, worker: usize) {
        let Some(mut walks) = self.walks.try_lock() else { return };
        for _ in 0..EVICT_MAX {
            if !self.is_over() {
                return;
            }
            walks.evict = (walks.evict + 1) % STRIPES;
            let taken = (0..STRIPES).find_map(|n| {
                let mut stripe = self.stripes[(walks.evict + n) % STRIPES].lock();
                let key = stripe.keys.keys().next()?.clone();
                stripe.remove(&key).map(|clients| (key, clients))
            });
            let Some((key, clients)) = taken else { return };
            self.tell(&key, clients, Author { part: worker, client: 0 });
        }
    }

    /// True if [`TrackingTable::sweep`] may have work to do.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.load(Relaxed)
    }

    /// Takes the numbers of clients that track no more out of one stripe, if a sweep is under way or due.
    pub(crate) fn sweep(&self, now_ms: i64) {
        let Some(mut walks) = self.walks.try_lock() else { return };
        let mut clients = self.clients.lock();
        let at = match walks.sweep {
            Some(at) => at,
            None if self.is_due(&clients, now_ms - walks.swept_ms) => {
                (walks.swept_ms, clients.ended) = (now_ms, 0);
                0
            }
            None => return,
        };
        self.sweep_stripe(at, &clients.tracking);
        walks.sweep = (at + 1 < STRIPES).then_some(at + 1);
        if walks.sweep.is_none() && clients.ended == 0 {
            self.dirty.store(false, Relaxed);
        }
    }

    fn is_due(&self, clients: &Clients, since_ms: i64) -> bool {
        let many = clients.ended >= SWEEP_CLIENTS && clients.ended * SWEEP_ITEMS_EACH >= self.items();
        clients.ended > 0 && (many || !(0..SWEEP_EVERY_MS).contains(&since_ms))
    }

    fn sweep_stripe(&self, at: usize, tracking: &HashSet<u64>) {
        let mut stripe = self.stripes[at].lock();
        let (mut keys, mut items, mut bytes) = (0, 0, 0);
        stripe.keys.retain(|key, readers| {
            let (had, took) = (readers.len(), entry_bytes(key, readers));
            readers.retain(|client| tracking.contains(client));
            readers.shrink_to_fit();
            let stays = !readers.is_empty();
            keys += usize::from(!stays);
            items += had - readers.len();
            bytes += took - if stays { entry_bytes(key, readers) } else { 0 };
            stays
        });
        if stripe.keys.capacity() / 4 > stripe.keys.len() {
            stripe.keys.shrink_to_fit();
        }
        (stripe.items, stripe.bytes) = (stripe.items - items, stripe.bytes - bytes);
        self.keys.fetch_sub(keys, Relaxed);
        self.items.fetch_sub(items, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    /// True if [`TrackingTable::limit`] has work to do.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        let most = self.keys_max.load(Relaxed);
        most > 0 && self.keys() > most
    }

    /// Takes out keys of a stripe in the place of one that a client has read: more than one, so that a table whose limit was lowered
    /// comes down as well.
    #[cold]
    fn make_room(&self, read: &[u8], client: u64) {
        let Some(home) = self.registry.home(client) else { return };
        for _ in 0..REPLACED {
            let taken = {
                let mut stripe = self.stripe(read).lock();
                let key = stripe.keys.keys().find(|key| ***key != *read).cloned();
                key.and_then(|key| stripe.remove(&key).map(|clients| (key, clients)))
            };
            let Some((key, clients)) = taken else { return };
            self.tell(&key, clients, Author { part: home.worker, client: 0 });
            if !self.is_over() {
                return;
            }
        }
    }

    /// Takes all keys out. Their memory stays for [`TrackingTable::free_some`]: a million keys take a tenth of a second.
    fn clear(&self) {
        let mut freed = Vec::new();
        for stripe in &self.stripes {
            let Stripe { keys, items, bytes } = std::mem::take(&mut *stripe.lock());
            self.keys.fetch_sub(keys.len(), Relaxed);
            self.items.fetch_sub(items, Relaxed);
            self.freeing_bytes.fetch_add(bytes, Relaxed);
            self.bytes.fetch_sub(bytes, Relaxed);
            if !keys.is_empty() {
                freed.push(Freed { keys: keys.into_iter(), bytes });
            }
        }
        if !freed.is_empty() {
            let mut lists = self.to_free.lock();
            lists.append(&mut freed);
            self.owes_memory.store(true, Relaxed);
        }
    }

    /// True if entries wait for [`TrackingTable::free_some`].
    #[inline]
    pub(crate) fn owes_memory(&self) -> bool {
        self.owes_memory.load(Relaxed)
    }

    /// Gives back the memory of some entries that were taken out all at once.
    pub(crate) fn free_some(&self) {
        let (taken, left) = {
            let mut lists = self.to_free.lock();
            // The flag says with the lock held whether there are any: it would stay on for ever otherwise.
            self.owes_memory.store(!lists.is_empty(), Relaxed);
            let left: usize = lists.iter().map(|list| list.keys.len()).sum();
            (lists.pop(), left)
        };
        let Some(mut list) = taken else { return };
        let freed = list.free(Share::of(left, FREE_MAX));
        self.freeing_bytes.fetch_sub(freed, Relaxed);
        let mut lists = self.to_free.lock();
        if list.keys.len() > 0 {
            lists.push(list);
        }
        self.owes_memory.store(!lists.is_empty(), Relaxed);
    }

    /// Tells the clients of an entry that was taken out, each through its worker's inbox.
    fn tell(&self, key: &[u8], clients: Readers, by: Author) {
        self.keys.fetch_sub(1, Relaxed);
        self.items.fetch_sub(clients.len(), Relaxed);
        self.bytes.fetch_sub(entry_bytes(key, &clients), Relaxed);
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
                self.registry.send(worker, by.part, Item::Stale(Arc::clone(&stale), clients.into()), count);
            }
        }
    }

    fn stripe(&self, key: &[u8]) -> &SharedMutex<Stripe> {
        &self.stripes[self.hasher.hash_one(key) as usize % STRIPES]
    }
}

/// Entries of a stripe that were taken out all at once.
#[derive(Debug)]
struct Freed {
    keys: hash_map::IntoIter<Box<[u8]>, Readers>,
    bytes: usize,
}

impl Freed {
    /// Frees a share of the entries; their bytes, about: all of the last ones.
    fn free(&mut self, share: Share) -> usize {
        let before = self.keys.len();
        share.zip(self.keys.by_ref()).for_each(drop);
        let left = self.keys.len();
        let bytes = if left == 0 { self.bytes } else { self.bytes / before * (before - left) };
        self.bytes -= bytes;
        bytes
    }
}

impl Observer for TrackingTable {
    fn read(&self, client: u64, key: &[u8]) {
        let mut guard = self.stripe(key).lock();
        let stripe = &mut *guard;
        let more = match stripe.keys.get_mut(key) {
            Some(readers) => {
                // Numbers ascend with time: a new reader is mostly the last one.
                let Err(at) = readers.binary_search(&client) else { return };
                let took = entry_bytes(key, readers);
                readers.insert(at, client);
                entry_bytes(key, readers) - took
            }
            None => {
                let readers = SmallVec::from_slice(&[client]);
                let more = entry_bytes(key, &readers);
                stripe.keys.insert(key.into(), readers);
                self.keys.fetch_add(1, Relaxed);
                more
            }
        };
        stripe.items += 1;
        stripe.bytes += more;
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add(more, Relaxed);
        drop(guard);
        if self.is_over() {
            // Each turn's share would not do: one request may read a hundred thousand keys.
            self.make_room(key, client);
        }
    }

    fn changed(&self, by: Author, key: &[u8]) {
        self.registry.each_prefix(key, |prefix| {
            let pending = &self.pending[by.part];
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
        let wake: Vec<usize> = self.registry.push_where(|_| 1, by.part, || Item::AllStale).collect();
        self.registry.wake(&wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::pubsub::state::{ConnId, Home, Inbox};

    fn table(workers: usize) -> TrackingTable {
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let inboxes = (0..workers).map(|_| Inbox::new(Arc::clone(&waker)));
        TrackingTable::new(Arc::new(Registry::new(inboxes, varve_exec::journal::Journal::new(workers))))
    }

    /// Turns until no sweep is under way.
    fn sweep(table: &TrackingTable, now_ms: i64) -> usize {
        table.sweep(now_ms);
        let more = || table.walks.lock().sweep.is_some();
        1 + std::iter::from_fn(|| more().then(|| table.sweep(now_ms))).count()
    }

    fn figures(table: &TrackingTable) -> (usize, usize, usize) {
        (table.keys(), table.items(), table.bytes.load(Relaxed))
    }

    #[test]
    fn issue_11_clients_that_ended_tracking_leave_nothing() {
        let table = table(1);
        table.note_client(1, true);
        table.read(1, b"hot");
        table.read(1, b"quiet");
        let alone = figures(&table);
        assert_eq!(alone, (2, 2, 2 * ENTRY_BYTES + 8));
        // One after the other: what is left of them never passes what a sweep waits for.
        let (mut sweeps, mut most) = (0, 0);
        for client in 2..20_002 {
            table.note_client(client, true);
            table.read(client, b"hot");
            table.note_client(client, false);
            assert!(table.is_dirty());
            table.sweep(1);
            sweeps += usize::from(table.walks.lock().sweep == Some(1));
            most = most.max(table.items());
        }
        assert!(
            sweeps <= 20_000 / SWEEP_CLIENTS && most <= 2 * STRIPES + SWEEP_CLIENTS,
            "{sweeps} sweeps, {most} items"
        );
        // All at once, each with a key of its own too.
        for client in 30_000..50_000_u64 {
            table.note_client(client, true);
            table.read(client, b"hot");
            table.read(client, format!("own {client}").as_bytes());
        }
        assert!(table.bytes() > 20_000 * (ENTRY_BYTES + 9 + 8));
        (30_000..50_000).for_each(|client| _ = table.note_client(client, false));
        assert!(sweep(&table, 2) <= STRIPES);
        sweep(&table, 3 + SWEEP_EVERY_MS);
        assert_eq!((figures(&table), table.is_dirty()), (alone, false));
        table.note_client(1, false);
        assert_eq!(figures(&table), (0, 0, 0));
    }

    #[test]
    fn a_sweep_takes_no_key_of_a_client_that_tracks() {
        let table = table(1);
        for client in 1..=200_u64 {
            table.note_client(client, true);
            table.read(client, b"hot");
        }
        (1..=200).filter(|client| client % 3 > 0).for_each(|client| _ = table.note_client(client, false));
        // A client that comes back while the sweep is under way keeps what it reads then.
        table.sweep(1);
        table.note_client(7, true);
        table.read(7, b"late");
        sweep(&table, 1);
        assert!(table.stripe(b"late").lock().keys[&b"late"[..]].contains(&7));
        let hot = table.stripe(b"hot").lock().keys[&b"hot"[..]].clone();
        assert!(hot.iter().all(|client| client % 3 == 0 || *client == 7) && hot.len() >= 66, "{hot:?}");
    }

    #[test]
    fn one_client_that_ended_is_swept_after_a_while() {
        let table = table(1);
        table.sweep(1);
        for client in [1, 2] {
            table.note_client(client, true);
            (0..1000).for_each(|n| table.read(client, format!("key {n}").as_bytes()));
        }
        table.walks.lock().swept_ms = 100;
        table.note_client(2, false);
        sweep(&table, 101);
        assert_eq!(figures(&table).1, 2000, "not yet");
        sweep(&table, 100 + SWEEP_EVERY_MS);
        assert_eq!(table.items(), 1000);
    }

    #[test]
    fn bytes_are_those_of_keys_and_readers() {
        let table = table(1);
        (1..=3).for_each(|client| _ = table.note_client(client, true));
        table.read(1, &vec![b'k'; 500_000]);
        table.read(1, b"k");
        assert_eq!(table.bytes(), 2 * ENTRY_BYTES + 500_001);
        table.read(2, b"k");
        table.read(3, b"k");
        table.read(2, b"k");
        let list = table.stripe(b"k").lock().keys[&b"k"[..]].capacity() * 8;
        assert_eq!(figures(&table), (2, 4, 2 * ENTRY_BYTES + 500_001 + list));
        table.changed(Author { part: 0, client: 0 }, &vec![b'k'; 500_000]);
        table.changed(Author { part: 0, client: 0 }, b"k");
        assert_eq!(figures(&table), (0, 0, 0));
    }

    /// The last client that tracks has read many keys, and goes: no turn gives all their memory back.
    #[test]
    fn the_memory_of_many_keys_goes_bit_by_bit() {
        let table = table(1);
        let left = |table: &TrackingTable| table.to_free.lock().iter().map(|list| list.keys.len()).sum::<usize>();
        for round in 0..2 {
            table.note_client(round, true);
            (0..20 * FREE_MAX).for_each(|n| table.read(round, format!("key {n}").as_bytes()));
            let bytes = table.bytes();
            table.note_client(round, false);
            assert_eq!((figures(&table), left(&table), table.owes_memory()), ((0, 0, 0), 20 * FREE_MAX, true));
            assert_eq!(table.bytes(), bytes, "what is to be freed counts until then");
            let mut turns = 0;
            while table.owes_memory() {
                let before = (left(&table), table.bytes());
                table.free_some();
                assert!(
                    before.0 - left(&table) <= FREE_MAX && table.bytes() < before.1,
                    "what is freed counts no more"
                );
                turns += 1;
            }
            assert_eq!(table.bytes(), 0);
            // Nothing is there, whatever the flag said.
            table.owes_memory.store(true, Relaxed);
            table.free_some();
            assert!(!table.owes_memory(), "nobody spins for it");
            assert!(left(&table) == 0 && (20..=STRIPES).contains(&turns), "{turns} turns");
        }
    }

    /// A client reads new keys without end, in a turn of its own: the limit holds while it does.
    #[test]
    fn the_limit_holds_while_keys_are_read() {
        let table = table(1);
        table.set_keys_max(10_000);
        table.registry.arrive(1, Home { worker: 0, conn: ConnId(0) });
        table.note_client(1, true);
        let mut most = 0;
        for n in 0..100_000 {
            table.read(1, format!("key {n}").as_bytes());
            most = most.max(table.keys());
        }
        assert!((10_000..10_000 + STRIPES).contains(&most), "{most} keys");
        assert_eq!(table.keys(), table.stripes.iter().map(|stripe| stripe.lock().keys.len()).sum::<usize>());
        table.note_client(1, false);
        assert_eq!(figures(&table), (0, 0, 0));
    }

    #[test]
    fn workers_that_evict_together_leave_what_may_stay() {
        let table = table(2);
        for round in 0..50_u32 {
            table.set_keys_max(0);
            (0..60_u32).for_each(|n| table.read(1, format!("key {round} {n}").as_bytes()));
            table.set_keys_max(10);
            std::thread::scope(|s| {
                for worker in 0..2 {
                    let table = &table;
                    s.spawn(move || {
                        while table.is_over() {
                            table.limit(worker);
                        }
                    });
                }
            });
            assert_eq!((table.keys(), table.items()), (10, 10), "round {round}");
        }
    }
}
