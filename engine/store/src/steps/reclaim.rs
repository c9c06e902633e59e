//! Room: admission before the locks, reclaim of segments, eviction.
//!
//! ```text
//! writer over the limit --> admit --> slice of drain (+ eviction in passing) --> room, or Redis's OOM error
//! background, debt due  ----------------^
//! ```
//! One drain runs at a time, under a lock that ranks between the gate and the shards. Each object of the victim is
//! settled under its own shard's lock: dead if the index does not hold this very Ref, else copied and repointed. A
//! busy shard ends a slice; nobody waits for one while holding another lock.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use varve_base::hash::hash64;
use varve_collection::CollectionId;
use varve_packed::intset::IntSet;
use varve_packed::node::{Grow, Node};
use varve_segment::{DrainState, Object, ObjectHead, Owner, Relocate, Relocated, SLICE};

use crate::keyspace::store::Store;
use crate::keyspace::worker::{Local, Worker};
use crate::state::candidates::Cutoff;
use crate::state::events::EventClass;
use crate::state::key::hash_of;
use crate::state::kinds;
use crate::state::link::Encoding;
use crate::state::meter::Tally;
use crate::state::policy::Policy;
use crate::state::reclaim::Draining;
use crate::state::types::OutOfMemory;

/// Objects a slice settles: some microseconds of work.
const SLICE_OBJECTS: usize = 64;
/// Dead bytes, in percent of what is appended, from which the background reclaims: without a limit, and under one, where
/// writers make room as they need it and reclaiming earlier would copy more for the same room (at 80% live, draining at
/// 15% dead copied half as much again as draining at the limit).
const BACKGROUND_DEAD_PERCENT: u64 = 18;
const BACKGROUND_DEAD_PERCENT_LIMITED: u64 = 30;
/// Dead bytes from which the background reclaims when they are more than what lives; over what sealing a segment early
/// can leave as fillers.
const BACKGROUND_DEAD_BYTES: u64 = 256 << 10;
/// Slices that the background does in one turn at most: they fill the turn.
const SLICES_MAX: u32 = 16;
/// Slices between looks at the live bytes of all segments.
const LOOK_SLICES: u32 = 16;
/// Live bytes, in percent of what is appended, above which draining alone frees too little: eviction joins in, or a
/// write is refused.
const FULL_PERCENT: u64 = 92;
/// Slices in a row of a drain that should evict and does not, until keys are drawn: it passes parts of collections.
const BARREN_MAX: u32 = 2;
/// Pieces of work in one step of the background over the limit.
const BACKGROUND_ROUNDS: usize = 4;
/// Slices that MEMORY PURGE does itself: some ten milliseconds.
const PURGE_SLICES_MAX: usize = 2000;
/// MEMORY PURGE leaves 1/50 of the used bytes dead, since freeing a byte would cost 50 bytes of copying, and the bytes
/// that sealing segments early leaves as fillers.
const PURGE_LEAVES_PART: u64 = 50;
/// How long the background waits where nothing helped, ms.
const LIMIT_RETRY_MS: i64 = 100;
/// How long memory is kept for new segments while none is opened, ms: then taking it anew costs next to nothing.
const KEPT_MS: i64 = 100;
/// Megabytes of dead large values that one admission gives back for their addresses.
const RELEASES_MAX: usize = 1024;
/// Slices that one admission may run before it gives up; far more than room for the largest value needs.
const ADMIT_SLICES_MAX: u32 = 1 << 20;
/// Victims that an admission drains without the memory in use having come lower than before, until it gives up: what it
/// could still free is held by segments that are open, or taken by other writers at once.
const FRUITLESS_DRAINS_MAX: u32 = 32;

/// An attempt to make room, and how far it has come.
struct ReclaimAttempt {
    /// Bytes that draining cannot free, as far as is known.
    live: u64,
    /// Slices since that was looked at.
    looked_ago: u32,
    /// Slices in a row without a victim.
    idle: u32,
    /// Victims drained in a row without a gain, and what was in use at the least.
    fruitless: u32,
    lowest: u64,
    /// Slices in a row that evicted nothing.
    barren: u32,
}

impl ReclaimAttempt {
    fn new(live: u64) -> ReclaimAttempt {
        ReclaimAttempt { live, looked_ago: 0, idle: 0, fruitless: 0, lowest: u64::MAX, barren: 0 }
    }

    /// Nothing helps as far as is known: true if that is worth another look.
    fn look_again(&mut self) -> bool {
        let stale = self.looked_ago > 1;
        self.looked_ago = LOOK_SLICES;
        stale
    }
}

/// The result of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// Objects were settled; more may be left.
    Progress,
    /// As before, and the victim is done.
    Drained,
    /// A lock was busy.
    Busy,
    /// There is no victim.
    Nothing,
}

impl Store {
    /// True if a write of at most `bytes` fits under the limit as things are, and there are addresses for it.
    #[inline]
    pub fn has_room(&self, bytes: u64) -> bool {
        let limit = self.limit().bytes();
        (limit == 0 || self.used_memory() + bytes <= limit) && self.log().has_addresses(bytes)
    }

    /// Admits a write of at most `bytes`, making room under the limit; holds no lock before and after.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the limit is reached and nothing may be freed, or no addresses are left.
    #[inline]
    pub fn admit(&self, local: &mut Local, bytes: u64) -> Result<(), OutOfMemory> {
        if self.has_room(bytes) {
            return Ok(());
        }
        let start = Instant::now();
        let made = self.make_room(local, bytes, self.limit().bytes());
        local.room_ns += start.elapsed().as_nanos() as u64;
        made
    }

    #[cold]
    fn make_room(&self, local: &mut Local, bytes: u64, limit: u64) -> Result<(), OutOfMemory> {
        if !self.find_addresses(bytes) || (limit != 0 && bytes + self.fixed_bytes() > limit) {
            return Err(OutOfMemory);
        }
        if limit == 0 {
            return Ok(());
        }
        let mut pursuit = ReclaimAttempt::new(self.look_at_live());
        for _ in 0..ADMIT_SLICES_MAX {
            if self.used_memory() + bytes <= limit {
                return Ok(());
            }
            if !self.pursue(local, &mut pursuit, bytes, limit) {
                return Err(OutOfMemory);
            }
        }
        Err(OutOfMemory)
    }

    /// True if there are addresses for a write, once those of large values that have died are free again.
    fn find_addresses(&self, bytes: u64) -> bool {
        for _ in 0..RELEASES_MAX {
            if self.log().has_addresses(bytes) || !self.log().release_step(1 << 20) {
                break;
            }
        }
        self.log().has_addresses(bytes)
    }

    /// Bytes that draining and eviction cannot free: where these leave no room, no other key must lose its place.
    fn fixed_bytes(&self) -> u64 {
        let used = self.used_memory();
        used - self.log().used_bytes().min(used)
    }

    /// True if the limit is passed (lowered, or by buffers), keys may be evicted, and that was not just tried in vain.
    pub(crate) fn owes_eviction(&self, local: &Local) -> bool {
        let limit = self.limit().bytes();
        limit != 0
            && self.used_memory() > limit
            && self.limit().policy() != Policy::NoEviction
            && local.now_ms >= local.limit_retry_ms
            && !self.stands_still(local.now_ms)
    }

    /// The step of the background while the limit is passed; true while it may do more.
    pub(crate) fn limit_step(&self, local: &mut Local) -> bool {
        if !self.owes_eviction(local) {
            return false;
        }
        let limit = self.limit().bytes();
        let mut pursuit = ReclaimAttempt::new(self.look_at_live());
        for _ in 0..BACKGROUND_ROUNDS {
            // Buffers may take the place of keys, but not of all: what they take over three quarters is not made up for.
            let excess = self.limit().outside.load(Relaxed).saturating_sub(limit / 4 * 3);
            let limit = limit + excess;
            // As the peer does: where the limit cannot be met at all, all that may go goes.
            if self.used_memory() <= limit || !self.pursue(local, &mut pursuit, 0, limit) {
                local.limit_retry_ms = local.now_ms + LIMIT_RETRY_MS;
                return false;
            }
            if self.used_memory() <= limit {
                return false;
            }
        }
        true
    }

    /// One bounded piece of the work that makes room; false if nothing helps.
    fn pursue(&self, local: &mut Local, p: &mut ReclaimAttempt, bytes: u64, limit: u64) -> bool {
        // Parts that have died already: an earlier estimate of them no longer holds.
        if self.free_step(local) || self.log().release_step(1 << 20) {
            p.looked_ago = LOOK_SLICES;
            return true;
        }
        if p.looked_ago >= LOOK_SLICES {
            (p.live, p.looked_ago) = (self.look_at_live(), 0);
        }
        p.looked_ago += 1;
        let policy = self.limit().policy();
        let full = self.is_full(p.live, bytes, limit);
        let evicting = full && policy != Policy::NoEviction && !self.stands_still(local.now_ms);
        if full && !evicting {
            return p.look_again();
        }
        let drawing = !policy.takes_all_keys() || p.barren >= BARREN_MAX || self.draws_for_run(local, p.live);
        if evicting && drawing {
            let Some(freed) = self.evict_drawn(local) else { return p.look_again() };
            p.live = p.live.saturating_sub(freed);
            (p.barren, p.idle) = (0, 0);
            return true;
        }
        let evicted = local.counters.evicted.get();
        let slice = self.reclaim_slice(local, SLICE_OBJECTS, evicting);
        p.barren = if local.counters.evicted.get() == evicted { p.barren + 1 } else { 0 };
        match slice {
            Slice::Progress => p.idle = 0,
            Slice::Drained if self.used_memory() >= p.lowest => p.fruitless += 1,
            Slice::Drained => (p.fruitless, p.lowest) = (0, self.used_memory()),
            Slice::Busy => std::thread::yield_now(),
            Slice::Nothing if evicting => p.barren = BARREN_MAX,
            Slice::Nothing => p.idle += 1,
        }
        p.idle <= 2 && p.fruitless < FRUITLESS_DRAINS_MAX
    }

    /// No drain passes large values: keys are drawn as often as those have a part in what lives.
    fn draws_for_run(&self, local: &mut Local, live: u64) -> bool {
        let runs = self.reclaimer().runs.load(Relaxed);
        runs > 0 && local.rng.below(live.max(1)) < runs
    }

    /// True if draining alone frees too little for `bytes` more: there is hardly anything dead, or what lives and what is
    /// not the log's leave no room even if all that is dead were gone.
    fn is_full(&self, live: u64, bytes: u64, limit: u64) -> bool {
        let used = self.log().used_bytes();
        let least = self.used_memory().saturating_sub(used.saturating_sub(live));
        live * 100 > used * FULL_PERCENT || least + bytes > limit
    }

    /// True if the background should reclaim: there is much dead in all, or some and little else.
    pub(crate) fn owes_reclaim(&self) -> bool {
        self.reclaim_slices() > 0
    }

    /// How many slices the background may do in one turn, by how much is dead; 0 if it should not.
    pub(crate) fn reclaim_slices(&self) -> u32 {
        let used = self.log().used_bytes();
        let live = self.reclaimer().live.load(Relaxed);
        if live == 0 && used > 0 {
            // A victim that has died as a whole costs nothing to drain.
            return SLICES_MAX;
        }
        let dead = used.saturating_sub(live);
        let purging = self.reclaimer().purging.load(Relaxed);
        if purging && dead <= purge_floor(used) {
            self.reclaimer().purging.store(false, Relaxed);
        } else if purging || (dead * 2 > used && dead > BACKGROUND_DEAD_BYTES) {
            return SLICES_MAX;
        }
        let limited = self.limit().bytes() != 0;
        let percent = if limited { BACKGROUND_DEAD_PERCENT_LIMITED } else { BACKGROUND_DEAD_PERCENT };
        let over = (dead * 100).saturating_sub(used * percent);
        let mut slices = 0;
        if over > 0 && dead > self.log().geometry().segment_bytes as u64 / 2 {
            // At half as much again as is tolerated, all that there is time for.
            slices = 1 + (over * u64::from(SLICES_MAX) / (used * percent / 2).max(1)).min(SLICES_MAX.into()) as u32;
        }
        slices.max((self.defrag_cycle(dead, live) * SLICES_MAX).div_ceil(100))
    }

    /// Tells the meter of active defragmentation whether there is something to do; after a look at what lives.
    pub(crate) fn follow_defrag(&self, now_ms: i64) {
        let (used, live) = (self.log().used_bytes(), self.reclaimer().live.load(Relaxed));
        self.reclaimer().meter.follow(self.defrag_cycle(used.saturating_sub(live), live), now_ms);
    }

    /// Counts the result of a slice of the background.
    pub(crate) fn count_background_slice(&self, slice: Slice, tally: &Tally) {
        if self.reclaimer().meter.is_active() {
            self.reclaimer().meter.add(tally);
        }
        if slice == Slice::Nothing {
            self.reclaimer().purging.store(false, Relaxed);
        }
    }

    /// Adds up the bytes that draining cannot free, for the decisions until the next look.
    pub(crate) fn look_at_live(&self) -> u64 {
        let (live, runs) = self.log().unreclaimable_bytes();
        self.reclaimer().runs.store(runs, Relaxed);
        self.reclaimer().live.store(live, Relaxed);
        live
    }

    /// Looks whether segments are still being opened.
    pub(crate) fn look_at_kept(&self, now_ms: i64) {
        let (cooling, opens) = (&self.reclaimer().cooling, self.log().opens());
        if cooling.opens.swap(opens, Relaxed) != opens {
            cooling.since_ms.store(now_ms, Relaxed);
            cooling.on.store(false, Relaxed);
        } else if now_ms - cooling.since_ms.load(Relaxed) >= KEPT_MS && self.log().has_cached_pages() {
            cooling.on.store(true, Relaxed);
        }
    }

    pub(crate) fn owes_cooling(&self) -> bool {
        self.reclaimer().cooling.on.load(Relaxed)
    }

    /// Gives some of the kept memory back if nobody seems to need it; true while there is more.
    pub(crate) fn cool_step(&self, now_ms: i64) -> bool {
        let on = &self.reclaimer().cooling.on;
        if !on.load(Relaxed) {
            return false;
        }
        let drained = |store: &Store| {
            let mut draining = store.reclaimer().drain.try_lock()?;
            Some(store.log().release_drained_step(draining.drain.as_mut()?))
        };
        let more = self.log().release_cached_step() || drained(self).unwrap_or(false);
        if !more {
            // The pages that are still cached are promised to the drain: there is nothing to do for as long again.
            self.reclaimer().cooling.since_ms.store(now_ms, Relaxed);
            on.store(false, Relaxed);
        }
        more
    }

    /// Gives back what died: large values, and by draining all else that is worth it. Called inside the gate; what a busy
    /// lock or too much of it leaves is the background's, which goes on until it is done.
    pub fn purge(&self, w: &mut Worker) {
        while self.log().release_step(1 << 20) || self.log().release_cached_step() {}
        self.reclaimer().purging.store(true, Relaxed);
        for _ in 0..PURGE_SLICES_MAX {
            let used = self.log().used_bytes();
            if used.saturating_sub(self.look_at_live()) <= purge_floor(used) {
                break;
            }
            match self.reclaim_slice(&mut w.local, SLICE_OBJECTS, false) {
                Slice::Progress | Slice::Drained => {}
                Slice::Busy => return,
                Slice::Nothing => {
                    self.reclaimer().purging.store(false, Relaxed);
                    return;
                }
            }
        }
    }

    /// Settles up to `objects` of the victim, choosing one if none is being drained.
    pub(crate) fn reclaim_slice(&self, local: &mut Local, objects: usize, evicting: bool) -> Slice {
        local.tally = Tally::default();
        let Some(mut draining) = self.reclaimer().drain.try_lock() else { return Slice::Busy };
        let Draining { drain, seen } = &mut *draining;
        let cutoff = if evicting { self.cutoff(local, objects) } else { None };
        if drain.is_none() {
            *drain = self.choose(local, seen, cutoff.as_ref());
        }
        let Some(victim) = drain.as_mut() else { return Slice::Nothing };
        let tally = Tally::default();
        let mut mover = Mover { store: self, local, cutoff, tally, hashes: [0; SLICE], refs: [0; SLICE], len: 0 };
        let state = self.log().drain_step(victim, &mut mover, objects);
        mover.local.tally = mover.tally;
        mover.local.appender.park(self.log());
        match state {
            DrainState::More => Slice::Progress,
            DrainState::Done => {
                *drain = None;
                Slice::Drained
            }
            DrainState::Busy => Slice::Busy,
        }
    }
}

/// Dead bytes that a purge leaves.
fn purge_floor(used: u64) -> u64 {
    (used / PURGE_LEAVES_PART).max(BACKGROUND_DEAD_BYTES)
}

/// Answers the log's question what becomes of an object.
struct Mover<'a> {
    store: &'a Store,
    local: &'a mut Local,
    /// Objects beyond it are evicted.
    cutoff: Option<Cutoff>,
    tally: Tally,
    /// Hashes of the heads read ahead, with the Refs that they belong to.
    hashes: [u64; SLICE],
    refs: [u64; SLICE],
    len: usize,
}

impl Mover<'_> {
    /// Settles a part of a big collection: its root is where the slot says, which is read again under that shard's lock.
    /// The collection has killed every part that it no longer has.
    fn relocate_part(&mut self, head: &ObjectHead<'_>, id: CollectionId) -> Relocated {
        let Some(at) = self.store.collections().get(id) else { return Relocated::Dead };
        let Some(mut shard) = self.store.cells()[at.shard].lock.try_lock() else { return Relocated::Busy };
        if self.store.collections().get(id) != Some(at) {
            return Relocated::Busy;
        }
        let moved = shard.with_root(self.store.ground(), &mut self.local.appender, at.place, |root, hands| {
            root.body.relocate(hands, head)
        });
        if !moved {
            return Relocated::Dead;
        }
        self.local.counters.moved.add(1);
        Relocated::Moved
    }

    fn hash(&self, head: &ObjectHead<'_>) -> u64 {
        match self.refs[..self.len].iter().position(|&r| r == head.r.bits()) {
            Some(at) => self.hashes[at],
            None => self.compute(head),
        }
    }

    fn compute(&self, head: &ObjectHead<'_>) -> u64 {
        match head.owner {
            Owner::Database(db) => hash_of(self.store.seed(), db, head.key),
            Owner::Collection(_) => hash64(self.store.seed(), head.key),
        }
    }
}

/// Writes the value of a small collection without its free room into `scratch`, where that saves an eighth or more.
fn trim(object: &Object<'_>, scratch: &mut Vec<u8>) -> bool {
    let value = object.value();
    let worth = |needed: usize| needed + value.len() / 8 < value.len();
    if object.kind() == kinds::STRING {
        return false;
    }
    match Encoding::of(object.tag()) {
        Encoding::Packed if worth(Node::open(value).needed_bytes(0)) => {
            let node = Node::open(value);
            scratch.clear();
            scratch.resize(node.needed_bytes(0), 0);
            node.copy_into(scratch, Grow::Both).expect("it has the bytes that the node asked for");
            true
        }
        Encoding::Integers if worth(IntSet::open(value).copied_bytes()) => {
            let set = IntSet::open(value);
            scratch.clear();
            scratch.resize(set.copied_bytes(), 0);
            set.copy_into(scratch).expect("it has the bytes that the set asked for");
            true
        }
        _ => false,
    }
}

impl Relocate for Mover<'_> {
    fn prepare(&mut self, heads: &[ObjectHead<'_>]) {
        self.len = heads.len().min(SLICE);
        for (at, head) in heads.iter().take(SLICE).enumerate() {
            self.refs[at] = head.r.bits();
            self.hashes[at] = self.compute(head);
            match head.owner {
                Owner::Database(_) => self.store.prefetch(self.hashes[at]),
                Owner::Collection(_) => {}
            }
        }
    }

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        let settled = match head.owner {
            Owner::Collection(number) => self.relocate_part(head, CollectionId::new(number)),
            Owner::Database(_) => self.relocate_key(head),
        };
        if matches!(settled, Relocated::Moved | Relocated::Dead) {
            self.tally.count(head.owner, settled == Relocated::Moved);
        }
        settled
    }
}

impl Mover<'_> {
    fn relocate_key(&mut self, head: &ObjectHead<'_>) -> Relocated {
        let hash = self.hash(head);
        let id = self.store.shard_of(hash);
        let Some(mut shard) = self.store.cells()[id].lock.try_lock() else { return Relocated::Busy };
        let log = self.store.log();
        let Some(slot) = shard.index().find_ref(hash, head.r) else { return Relocated::Dead };
        let due = shard.open(log, head.r).expiry_ms();
        let still = self.store.stands_still(self.local.now_ms);
        if due.is_some_and(|t| t <= self.local.now_ms) && self.store.expires_actively() && !still {
            self.local.report_removed(self.store, EventClass::Expired, &shard, slot);
            shard.remove(self.store.ground(), slot);
            self.local.hand_on(self.store);
            self.local.counters.expired.add(1);
            return Relocated::Evicted;
        }
        if let Some(cutoff) = self.cutoff
            && self.store.is_beyond(&cutoff, &shard.open(log, head.r), self.local)
        {
            self.store.evict_entry(self.local, &mut shard, id, slot);
            return Relocated::Evicted;
        }
        let trimmed = trim(&shard.open(log, head.r), &mut self.local.scratch);
        let value = trimmed.then_some(self.local.scratch.as_slice());
        shard.relocate(log, &mut self.local.appender, slot, value);
        self.local.counters.moved.add(1);
        Relocated::Moved
    }
}
