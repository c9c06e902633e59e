//! The drain: objects of a victim are moved out of it, slice by slice, until it is empty.
//!
//! Each group of workers has a drain, under a lock that ranks between the gate and the shards; all groups choose their
//! victims under one lock. Each object of the victim is looked up under its own shard's lock: it is dead if the index does not
//! hold this very Ref, else it is copied and repointed. An object whose shard is busy is passed over. Where only such objects
//! are left of a victim it is left as it is, with a few pages, and tried again behind the next victim: a shard that is held for
//! long stops no writer of others.
//! Nobody waits for a shard under the drain's lock.

use varve_collection::CollectionId;
use varve_packed::node::Grow;
use varve_segment::{Drain, DrainState, Object, ObjectHead, Owner, Relocate, Relocated, SLICE};

use super::{Slice, evict, victim};
use crate::keyspace::store::Store;
use crate::keyspace::worker::WorkerState;
use crate::state::candidates::Cutoff;
use crate::state::clock::is_over;
use crate::state::key::hash_of;
use crate::state::meter::Tally;
use crate::state::reclaim::Victims;
use crate::state::small::Small;

/// Objects of a slice: some microseconds of work.
pub(crate) const SLICE_OBJECTS: usize = 64;

/// Relocates up to `objects` of the victim of the worker's group, choosing one if that drains none; where there is none to choose, of
/// another group's, whose workers may be at rest.
pub(crate) fn slice(store: &Store, worker: &mut WorkerState, objects: usize, evicting: bool) -> Slice {
    worker.background_mut().tally = Tally::default();
    let reclaimer = store.reclaimer();
    let Some(mut own) = reclaimer.drain_of(worker.id()).try_lock() else { return Slice::Busy };
    let cutoff = if evicting { evict::cutoff(store, worker, objects) } else { None };
    if own.is_none()
        && let Err(without) = begin(store, worker, &mut own, cutoff.as_ref())
    {
        drop(own);
        return match without {
            Without::Lock => Slice::Busy,
            Without::Victim => help(store, worker, objects, cutoff),
        };
    }
    advance(store, worker, &mut own, (objects, cutoff))
}

/// Why no victim was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    /// Another group chooses one just now.
    Lock,
    /// There is none, but those that were left, and were tried just before.
    Victim,
}

/// Chooses a victim.
///
/// # Errors
/// None was chosen.
fn begin(
    store: &Store,
    worker: &mut WorkerState,
    drain: &mut Option<Drain>,
    cutoff: Option<&Cutoff>,
) -> Result<(), Without> {
    let Some(mut victims) = store.reclaimer().victims.try_lock() else { return Err(Without::Lock) };
    let Victims { seen, left } = &mut *victims;
    *drain = left.take_due().and_then(|segment| store.log().choose_this(segment));
    if drain.is_none() && !left.is_full() {
        *drain = victim::choose(store, worker, seen, left, cutoff);
    }
    if drain.is_none() {
        return Err(Without::Victim);
    }
    store.reclaimer().begun();
    Ok(())
}

/// Goes on with the drain of another group, if there is one.
fn help(store: &Store, worker: &mut WorkerState, objects: usize, cutoff: Option<Cutoff>) -> Slice {
    if !store.reclaimer().is_draining() {
        // Looked at behind the drains: one that has just ended may have left its victim.
        return if store.reclaimer().victims.lock().left.is_empty() { Slice::Nothing } else { Slice::Busy };
    }
    for drain in store.reclaimer().drains() {
        if let Some(mut drain) = drain.try_lock()
            && drain.is_some()
        {
            return advance(store, worker, &mut drain, (objects, cutoff));
        }
    }
    Slice::Busy
}

/// Relocates up to `objects` of the victim under way.
fn advance(
    store: &Store,
    worker: &mut WorkerState,
    drain: &mut Option<Drain>,
    (objects, cutoff): (usize, Option<Cutoff>),
) -> Slice {
    let victim = drain.as_mut().expect("a drain is under way");
    let (reclaimer, used) = (store.reclaimer(), store.log().used_bytes());
    let mut mover = Mover { store, worker, cutoff, tally: Tally::default(), hashes: [0; SLICE], next: 0 };
    let state = store.log().drain_step(victim, &mut mover, objects);
    mover.worker.background_mut().tally = mover.tally;
    mover.worker.park(store);
    match state {
        DrainState::More => Slice::Progress,
        DrainState::Done => {
            *drain = None;
            reclaimer.ended();
            reclaimer.victims.lock().left.settled();
            Slice::Drained
        }
        DrainState::Busy if victim.passed() > 0 => {
            // The shards of all that is left are held: another victim, and this one again later.
            if let Some(drain) = drain.take() {
                reclaimer.victims.lock().left.add(store.log().leave(drain));
                reclaimer.ended();
            }
            if store.log().used_bytes() < used { Slice::Progress } else { Slice::Busy }
        }
        DrainState::Busy => Slice::Busy,
    }
}

/// Decides for the log what becomes of each object: the [`Relocate`] of a drain.
struct Mover<'a> {
    store: &'a Store,
    worker: &'a mut WorkerState,
    /// Objects beyond it are evicted.
    cutoff: Option<Cutoff>,
    tally: Tally,
    /// Hashes of the keys among the heads that were prepared, in the heads' order. A part of a collection has none.
    hashes: [u64; SLICE],
    /// The place in `hashes` of the head that is relocated next. Heads are relocated in the order in which they were
    /// prepared, until one is busy; then they are prepared anew.
    next: usize,
}

impl Mover<'_> {
    /// Relocates a part of a big collection. Its root is where the table of collections says, which is read again under that
    /// shard's lock. An object that the collection no longer has is dead.
    fn relocate_part(&mut self, head: &ObjectHead<'_>, id: CollectionId) -> Relocated {
        let Some(at) = self.store.collections().get(id) else { return Relocated::Dead };
        let Some(mut shard) = self.store.cells()[at.shard].lock.try_lock() else { return Relocated::Busy };
        if self.store.collections().get(id) != Some(at) {
            return Relocated::Busy;
        }
        // It may have died since its head was read. Its bytes mean nothing then: they may be those of a leaf without
        // elements, and its collection's number may be another collection's.
        if shard.access().open(self.store.log(), head.r).is_dead() {
            return Relocated::Dead;
        }
        let moved = shard.with_root(self.store.ground(), self.worker.appender(), at.place, |root, hands| {
            root.body.relocate(hands, head)
        });
        if !moved {
            return Relocated::Dead;
        }
        self.worker.counters().moved.add(1);
        Relocated::Moved
    }
}

/// Writes the value of a small collection without its free room into `scratch`, where that saves an eighth or more.
fn trim(object: &Object<'_>, scratch: &mut Vec<u8>) -> bool {
    let Some(small) = Small::of(object) else { return false };
    let (needs, has) = (small.copied_bytes(), object.value().len());
    let worth = needs + has / 8 < has;
    if worth {
        scratch.clear();
        scratch.resize(needs, 0);
        small.copy_into(scratch, Grow::Both);
    }
    worth
}

impl Relocate for Mover<'_> {
    fn prepare(&mut self, heads: &[ObjectHead<'_>]) {
        self.next = 0;
        for (hash, head) in self.hashes.iter_mut().zip(heads) {
            if let Owner::Database(db) = head.owner {
                *hash = hash_of(self.store.seed(), db, head.key);
                self.store.prefetch(*hash);
            }
        }
    }

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        let hash = self.hashes[self.next];
        self.next += 1;
        let settled = match head.owner {
            Owner::Collection(number) => self.relocate_part(head, CollectionId::new(number)),
            Owner::Database(db) => {
                debug_assert_eq!(hash, hash_of(self.store.seed(), db, head.key), "heads come in the order prepared");
                self.relocate_key(head, hash)
            }
        };
        if matches!(settled, Relocated::Moved | Relocated::Dead) {
            self.tally.count(head.owner, settled == Relocated::Moved);
        }
        settled
    }
}

impl Mover<'_> {
    /// True if keys whose time is over are removed in passing.
    fn expires(&self) -> bool {
        let store = self.store;
        store.expires_actively() && !store.stands_still(self.worker.now_ms()) && !store.journal_is_full()
    }

    fn relocate_key(&mut self, head: &ObjectHead<'_>, hash: u64) -> Relocated {
        let id = self.store.shard_of(hash);
        let Some(mut shard) = self.store.cells()[id].lock.try_lock() else { return Relocated::Busy };
        let log = self.store.log();
        let Some(entry) = shard.index().find_ref(hash, head.r) else { return Relocated::Dead };
        let over = is_over(shard.open(log, head.r).expiry_ms(), self.worker.now_ms());
        if over && self.expires() {
            self.worker.expire_entry(self.store, &mut shard, id, entry);
            self.worker.hand_on_of(self.store, &mut shard);
            return Relocated::Evicted;
        }
        if let Some(cutoff) = self.cutoff
            && evict::is_beyond(self.store, &cutoff, &shard.open(log, head.r), self.worker)
            && !shard.is_kept_for_readers(self.store.ground(), head.r)
        {
            evict::evict_entry(self.store, self.worker, &mut shard, id, entry);
            return Relocated::Evicted;
        }
        self.worker.with_scratch(|worker, scratch| {
            let value = trim(&shard.open(log, head.r), scratch).then_some(scratch.as_slice());
            shard.relocate(log, worker.appender(), entry, value);
        });
        self.worker.counters().moved.add(1);
        Relocated::Moved
    }
}

#[cfg(test)]
mod tests {
    use varve_segment::LogGeometry;

    use super::*;
    use crate::{Options, StoreWorker, StringForm, Ttl};

    fn key(worker: &mut StoreWorker, n: usize, is_there: bool) {
        worker.inside(0, |tx| {
            let name = format!("key:{n}");
            let key = tx.key(name.as_bytes());
            tx.hold(&[tx.shard_of(key.hash)]);
            if is_there {
                tx.set(&key, &[b'v'; 1000], Ttl::Clear, StringForm::Auto);
            } else {
                assert!(tx.remove(&key));
            }
        });
    }

    /// The workers of a group may rest in the middle of a victim.
    #[test]
    fn a_group_without_a_victim_ends_the_drain_of_another() {
        let geometry = LogGeometry {
            segment_bytes: 1 << 20,
            piece_bytes: 16 << 10,
            extent_min_bytes: 64 << 10,
            release_bytes: 64 << 10,
            reserve_bytes: 1 << 30,
        };
        let options = Options { seed: 3, workers: 2, workers_a_drain: 1, geometry, ..Options::default() };
        let store = Store::new(&options).expect("an address range");
        let (mut one, mut other) = (store.worker(0), store.worker(1));
        (0..5000).for_each(|n| key(&mut one, n, true));
        (0..5000).filter(|n| n % 4 > 0).for_each(|n| key(&mut one, n, false));
        one.park();
        let begun = |worker: usize| store.reclaimer().drain_of(worker).lock().is_some();
        assert_eq!(slice(&store, other.parts().1, 1, false), Slice::Progress);
        assert!(begun(1) && !begun(0) && store.reclaimer().is_draining());
        let mut slices = 0;
        while help(&store, one.parts().1, SLICE_OBJECTS, None) == Slice::Progress {
            slices += 1;
            assert!(slices < 1000, "{slices} slices of {SLICE_OBJECTS} objects for a victim of some thousand");
        }
        assert!(!begun(1) && !begun(0) && !store.reclaimer().is_draining(), "the victim is drained");
        assert!(slices > 0 && help(&store, one.parts().1, SLICE_OBJECTS, None) == Slice::Nothing);
        one.park();
        other.park();
        store.verify();
    }
}
