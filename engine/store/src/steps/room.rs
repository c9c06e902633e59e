//! Room: admission of writes before their locks are taken, and the limit in the background.
//!
//! ```text
//! writer over the limit --> admit --> slice of drain (+ eviction in passing) --> room, or Redis's OOM error
//! background over it    --> limit_step --^
//!
//! every lock busy: a write that can be put back looks on for a millisecond, and is put back (NotAdmitted::Busy)
//!                  one that cannot waits, and sleeps in between
//! ```
//! far over the limit: a write that can be put back makes its own room, and works for a millisecond; the rest is left to others
//! A worker that sleeps serves nobody, and the lock may be held by a script that rests on this very worker: only a write that
//! nobody can put back waits here.
//!
//! Not here: what a slice does (`drain.rs`), which keys go (`evict.rs`).

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::drain::SLICE_OBJECTS;
use super::sweep::{self, Swept};
use super::{Slice, Step, debt, drain, evict, free, is_near};
use crate::keyspace::store::Store;
use crate::keyspace::worker::WorkerState;
use crate::state::policy::Policy;
use crate::state::request::{NotAdmitted, OutOfMemory};

/// Live bytes, in percent of what is appended, above which draining alone frees too little: eviction joins in, or a
/// write is refused.
const FULL_PERCENT: u64 = 92;
/// Slices in a row of a drain that should evict and does not, until keys are drawn: it passes parts of collections.
const BARREN_MAX: u32 = 2;
/// Pieces of work in one step of the background over the limit.
const BACKGROUND_ROUNDS: usize = 4;
/// How long the background waits where nothing helped, ms.
const LIMIT_RETRY_MS: i64 = 100;
/// How long it waits where all that would go is held, ms.
const HELD_RETRY_MS: i64 = 1;
/// Megabytes of dead large values that one admission gives back for their addresses.
const RELEASES_MAX: usize = 1024;
const RELEASED_BYTES: usize = 1 << 20;
/// Slices that one admission may run before it gives up; far more than room for the largest value needs.
const ADMIT_SLICES_MAX: u32 = 1 << 20;
/// Slices in a row that found every lock busy, until a writer that waits sleeps between them, and for how long.
const YIELDS: u32 = 16;
const NAP: Duration = Duration::from_micros(50);
/// For how long every lock is found busy until a writer is put back that can be.
const PATIENCE: Duration = Duration::from_millis(1);
/// For how long a writer makes room, if it has made its own: buffers that grow by 100 MB at once (a SORT's) are not for one
/// writer alone to make up for. Writers behind it and the background go on; redis-server's writers do the same.
const SHARE: Duration = Duration::from_millis(1);
/// Bytes by which the limit is passed where that is so. What writes themselves pass it by is less, and made up for at once.
const FAR_BYTES: u64 = 1 << 20;
/// For how long a writer that has met a busy lock works on beside drains that go on: what they give may never be enough.
const BUSY_MAX: Duration = Duration::from_millis(20);
/// Slices that find every lock busy before it is put back, whatever the time: a victim's, and draws of keys behind it.
const BUSY_SLICES_MIN: u32 = BARREN_MAX + 2;
/// Victims that an admission drains without the memory in use having come lower than before, until keys are evicted or it
/// gives up: what it could still free is held by segments that are open, or taken by other writers at once.
const FRUITLESS_DRAINS_MAX: u32 = 32;

/// Steps of the walk under way that one attempt makes where no key may go before it is shown: a millisecond in all, about.
const WALK_STEPS_MAX: u32 = 16;
/// Buckets that such a step passes.
const WALK_BUCKETS: usize = 4;

/// The part of the limit by which what lives may pass it where no room can be made: in transactions and scripts, which hold
/// their shards to the end.
const OVERDRAFT_PART: u64 = 8;
/// How many times the limit what is dead may fill there, with what lives.
const OVERDRAFT_TIMES: u64 = 2;

/// Slices in a row without a victim, until keys are evicted or the admission gives up.
const IDLE_MAX: u32 = 2;

/// An attempt to make room, and how far it has come.
struct ReclaimAttempt {
    /// Slices in a row without a victim.
    idle: u32,
    /// Victims drained in a row without a gain, and what was in use at the least.
    fruitless: u32,
    lowest: u64,
    /// Slices in a row that evicted nothing.
    barren: u32,
    /// Slices so far, and slices in a row that found every lock busy.
    slices: u32,
    busy: u32,
    /// When the first that did was.
    busy_from: Option<Instant>,
    /// Some slice has removed keys of an emptied database; the last one has.
    has_swept: bool,
    swept_last: bool,
    /// Steps of the walk under way.
    walk_steps: u32,
    /// When it began.
    begun: Instant,
    /// Bytes that lived, and died in its steps.
    gained: u64,
}

/// The way of a writer that finds every lock busy, or much to make room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is put back while locks are busy, and makes its own room at least: it writes no more than it is admitted for.
    OwnRoom,
    /// It is put back, and tried again until all have room: a transaction or a script, which may pass the limit in its middle.
    AllRoom,
    /// It waits, and makes room for all.
    Waits,
}

impl ReclaimAttempt {
    /// Waits where every lock was busy: whoever holds one needs the processor.
    fn rest(&self, way: Way) {
        match self.busy {
            0 => {}
            busy if busy < YIELDS || way != Way::Waits => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }

    /// True once every lock was busy for long enough; at once (`is_known`) where the admission before this one found that: of
    /// many writers that are put back, each would look on for a millisecond in each turn of their worker.
    fn gives_up(&self, is_known: bool) -> bool {
        let waits = |time| self.busy_from.is_some_and(|from| from.elapsed() >= time);
        (self.busy >= BUSY_SLICES_MIN && (is_known || waits(PATIENCE))) || waits(BUSY_MAX)
    }

    /// Counts the slices that found every lock busy. Waiting is no work: it brings the end of the attempt no nearer.
    fn count_busy(&mut self, slice: Slice) {
        match slice {
            Slice::Busy => {
                self.busy += 1;
                self.busy_from = self.busy_from.or_else(|| Some(Instant::now()));
                self.slices -= 1;
            }
            // Draws that find every lock busy and drains that find no victim come in turns.
            Slice::Nothing => {}
            Slice::Progress | Slice::Drained => self.busy = 0,
        }
    }

    /// Draining alone does not help, though by the sums it should: what is dead lies in segments that are open, or between
    /// objects, where it comes anew with each copy.
    fn drains_in_vain(&self) -> bool {
        self.idle > IDLE_MAX || self.fruitless >= FRUITLESS_DRAINS_MAX
    }

    /// True once it has worked for its share of time at an emptied database, whose keys are many: it is tried again.
    fn has_swept_its_share(&self) -> bool {
        self.has_swept && self.begun.elapsed() >= SHARE
    }

    /// True once it has worked for its share of time, where the limit is passed by far, and as much has died as the `bytes` bytes
    /// that it is for: so writes do not add to what lives beyond the limit.
    fn has_done_its_share(&self, store: &Store, bytes: u64, limit: u64) -> bool {
        store.used_memory() > limit.saturating_add(FAR_BYTES) && self.gained >= bytes && self.begun.elapsed() >= SHARE
    }

    fn new() -> ReclaimAttempt {
        ReclaimAttempt {
            idle: 0,
            fruitless: 0,
            lowest: u64::MAX,
            barren: 0,
            slices: 0,
            busy: 0,
            busy_from: None,
            has_swept: false,
            swept_last: false,
            walk_steps: 0,
            begun: Instant::now(),
            gained: 0,
        }
    }
}

/// True if a write of at most `bytes` fits under the limit as things are, and there are addresses for it.
#[inline]
pub(crate) fn has_room(store: &Store, bytes: u64) -> bool {
    let limit = store.limit().bytes();
    (limit == 0 || store.used_memory() + bytes <= limit) && store.log().has_addresses(bytes)
}

/// Admits a write of at most `bytes`, making room under the limit; holds no lock before and after.
///
/// # Errors
/// The limit is reached and nothing may be freed, or no addresses are left; or all that may be freed is held by others, for a
/// millisecond.
#[inline]
pub(crate) fn admit(store: &Store, worker: &mut WorkerState, bytes: u64, way: Way) -> Result<(), NotAdmitted> {
    if has_room(store, bytes) { Ok(()) } else { make_room_timed(store, worker, bytes, way) }
}

/// Admits a write like [`admit`], for a command that cannot be put back: it waits for what others hold.
///
/// # Errors
/// [`OutOfMemory`] if the limit is reached and nothing may be freed, or no addresses are left.
#[inline]
pub(crate) fn admit_waiting(store: &Store, worker: &mut WorkerState, bytes: u64) -> Result<(), OutOfMemory> {
    if has_room(store, bytes) {
        return Ok(());
    }
    make_room_timed(store, worker, bytes, Way::Waits).map_err(|_| OutOfMemory)
}

#[cold]
fn make_room_timed(store: &Store, worker: &mut WorkerState, bytes: u64, way: Way) -> Result<(), NotAdmitted> {
    let start = Instant::now();
    let made = make_room(store, worker, bytes, way);
    worker.add_room_ns(start.elapsed().as_nanos() as u64);
    debug_assert!(made != Err(NotAdmitted::Busy) || way != Way::Waits, "nobody tries this write again");
    made
}

/// True if a write of at most `bytes` may be made with shards held, where room is made later: it fits under the limit, or
/// passes it by no more than an eighth once what is dead has gone. Dead large values are given back for that.
#[inline]
pub(crate) fn may_overdraw(store: &Store, bytes: u64) -> bool {
    has_room(store, bytes) || overdraws(store, bytes)
}

#[cold]
fn overdraws(store: &Store, bytes: u64) -> bool {
    let limit = store.limit().bytes();
    let fits = || {
        limit == 0
            || least_bytes(store) + bytes <= limit + limit / OVERDRAFT_PART
                && store.used_memory() + bytes <= limit.saturating_mul(OVERDRAFT_TIMES)
    };
    for _ in 0..RELEASES_MAX {
        if fits() || !store.log().release_step(RELEASED_BYTES) {
            break;
        }
    }
    fits() && find_addresses(store, bytes)
}

fn make_room(store: &Store, worker: &mut WorkerState, bytes: u64, way: Way) -> Result<(), NotAdmitted> {
    let limit = store.limit().bytes();
    if !find_addresses(store, bytes) || (limit != 0 && bytes + fixed_bytes(store) > limit) {
        return Err(NotAdmitted::OutOfMemory);
    }
    if limit == 0 {
        return Ok(());
    }
    if way != Way::Waits && worker.has_swept_in_this_turn() && store.database_map().owes_sweep() {
        return Err(NotAdmitted::Busy);
    }
    let mut attempt = ReclaimAttempt::new();
    while attempt.slices < ADMIT_SLICES_MAX {
        if store.used_memory() + bytes <= limit {
            return Ok(());
        }
        let lived = least_bytes(store);
        if !step(store, worker, &mut attempt, bytes, limit) {
            return Err(NotAdmitted::OutOfMemory);
        }
        attempt.gained += lived.saturating_sub(least_bytes(store));
        if way != Way::Waits && attempt.gives_up(worker.room_is_held()) {
            worker.set_room_is_held(true);
            return Err(NotAdmitted::Busy);
        }
        if attempt.busy == 0 {
            worker.set_room_is_held(false);
        }
        if way != Way::Waits && attempt.has_done_its_share(store, bytes, limit) {
            // Dead bytes fill the memory as far as they may in a transaction.
            let goes_on = way == Way::OwnRoom && store.used_memory() + bytes <= limit.saturating_mul(OVERDRAFT_TIMES);
            return if goes_on { Ok(()) } else { Err(NotAdmitted::Busy) };
        }
        if way != Way::Waits && attempt.has_swept_its_share() {
            worker.note_swept();
            return Err(NotAdmitted::Busy);
        }
        attempt.rest(way);
    }
    Err(NotAdmitted::OutOfMemory)
}

/// True if there are addresses for a write, once those of large values that have died are free again.
pub(crate) fn find_addresses(store: &Store, bytes: u64) -> bool {
    for _ in 0..RELEASES_MAX {
        if store.log().has_addresses(bytes) || !store.log().release_step(RELEASED_BYTES) {
            break;
        }
    }
    store.log().has_addresses(bytes)
}

/// Bytes that draining and eviction cannot free: where these leave no room, no other key must lose its place.
fn fixed_bytes(store: &Store) -> u64 {
    let used = store.used_memory();
    used - store.log().used_bytes().min(used)
}

/// True if the limit is passed (lowered, or by buffers), keys may be evicted, and that was not just tried in vain. Where
/// the walk under way has no room for the keys that would go, or the journal for their removal, they stay: only writers that
/// have been let in evict then.
pub(crate) fn owes_eviction(store: &Store, worker: &WorkerState) -> bool {
    let limit = store.limit().bytes();
    limit != 0
        && store.used_memory() > limit
        && store.limit().policy() != Policy::NoEviction
        && !is_near(worker.background().limit_retry_ms, worker.now_ms(), LIMIT_RETRY_MS)
        && !store.stands_still(worker.now_ms())
        && !store.walker_is_full()
        && !store.journal_is_full()
}

/// When the background tries again, milliseconds of Unix time, where all that would go was held just now.
pub(super) fn held_until_ms(worker: &WorkerState) -> Option<i64> {
    let retry_ms = worker.background().limit_retry_ms;
    is_near(retry_ms, worker.now_ms(), HELD_RETRY_MS).then_some(retry_ms)
}

/// Makes room in the background while the limit is passed.
pub(super) fn limit_step(store: &Store, worker: &mut WorkerState) -> Step {
    if !owes_eviction(store, worker) {
        return Step::Done;
    }
    let limit = store.limit().bytes();
    let mut attempt = ReclaimAttempt::new();
    for _ in 0..BACKGROUND_ROUNDS {
        // Buffers may take the place of keys, but not of all: no key goes for what they take over 3/4 of the limit.
        let excess = store.limit().outside.load(Relaxed).saturating_sub(limit / 4 * 3);
        let limit = limit + excess;
        // As in redis-server: where the limit cannot be met at all, every key that may be evicted is.
        if store.used_memory() <= limit || !step(store, worker, &mut attempt, 0, limit) {
            worker.background_mut().limit_retry_ms = worker.now_ms() + LIMIT_RETRY_MS;
            return Step::Done;
        }
        if store.used_memory() <= limit {
            return Step::Done;
        }
    }
    if attempt.busy > 0 {
        // Others hold what would go, a script perhaps for seconds: to ask all the time would be 100% of each processor.
        worker.background_mut().limit_retry_ms = worker.now_ms() + HELD_RETRY_MS;
        return Step::Done;
    }
    Step::More
}

/// One bounded piece of the work that makes room; false if nothing helps.
fn step(store: &Store, worker: &mut WorkerState, p: &mut ReclaimAttempt, bytes: u64, limit: u64) -> bool {
    // Dead parts and large values go first: until they have, they count as if they lived.
    if free::step(store, worker) == Step::More || store.log().release_step(1 << 20) {
        return true;
    }
    p.slices += 1;
    // So do the keys of a database that was emptied, which no policy finds. What they leave dead is the drain's to free, in turns.
    let swept = if p.swept_last { Swept::Nothing } else { sweep::some(store) };
    p.swept_last = swept == Swept::Some;
    if p.swept_last {
        p.has_swept = true;
        p.count_busy(Slice::Progress);
        return true;
    }
    let full = is_full(store, bytes, limit) || p.drains_in_vain();
    match swept {
        // Others hold what would be swept: the drain and the policy do what they can, and nobody is refused before.
        Swept::Held => {
            let slice = drain_or_evict(store, worker, p, full).unwrap_or(Slice::Nothing);
            if slice == Slice::Nothing {
                p.count_busy(Slice::Busy);
            }
            true
        }
        // Nothing is left to be swept.
        Swept::Counted => drain_or_evict(store, worker, p, full).is_some(),
        // Another worker is about to free what goes first. No key goes for what it will have freed.
        Swept::Elsewhere if full => {
            p.count_busy(Slice::Busy);
            true
        }
        // No key goes for another one while keys that are gone already still take memory.
        _ if full && store.database_map().owes_sweep() => true,
        _ => drain_or_evict(store, worker, p, full).is_some(),
    }
}

/// A piece of the work that drains and, where that frees too little (`full`), evicts; None if nothing helps.
fn drain_or_evict(store: &Store, worker: &mut WorkerState, p: &mut ReclaimAttempt, full: bool) -> Option<Slice> {
    let policy = store.limit().policy();
    let evicting = full && policy != Policy::NoEviction && !store.stands_still(worker.now_ms());
    if full && !evicting {
        return None;
    }
    let drawing = !policy.takes_all_keys() || p.barren >= BARREN_MAX || draws_for_extent(store, worker);
    // Draws alone free nothing: what they leave dead is the drain's.
    let dead = store.used_memory().saturating_sub(least_bytes(store));
    let drains_too = p.slices.is_multiple_of(2) && dead > store.limit().bytes() / OVERDRAFT_PART;
    if evicting && drawing && !drains_too {
        p.barren = 0;
        let slice = evict::evict_drawn(store, worker);
        p.count_busy(slice);
        return (slice != Slice::Nothing || walk_on(store, worker, p)).then_some(slice);
    }
    let evicted = worker.counters().evicted.get();
    let slice = drain::slice(store, worker, SLICE_OBJECTS, evicting && policy.takes_all_keys());
    p.barren = if worker.counters().evicted.get() == evicted { p.barren + 1 } else { 0 };
    match slice {
        Slice::Progress => p.idle = 0,
        Slice::Drained if store.used_memory() >= p.lowest => p.fruitless += 1,
        Slice::Drained => (p.fruitless, p.lowest) = (0, store.used_memory()),
        Slice::Busy => {}
        Slice::Nothing if evicting => p.barren = BARREN_MAX,
        Slice::Nothing => p.idle += 1,
    }
    p.count_busy(slice);
    Some(slice)
}

/// Makes a step of the walk under way, where it may be that no key goes since the walk has yet to show them: those that it
/// has shown may go. False if there is none to make, or this attempt has made enough of them.
fn walk_on(store: &Store, worker: &mut WorkerState, p: &mut ReclaimAttempt) -> bool {
    p.walk_steps += 1;
    p.walk_steps <= WALK_STEPS_MAX && store.owes_walk() && store.walk_step(worker, WALK_BUCKETS)
}

/// No drain passes large values: keys are drawn as often as those have a part in what lives.
fn draws_for_extent(store: &Store, worker: &mut WorkerState) -> bool {
    let (live, extents) = store.log().unreclaimable_bytes();
    extents > 0 && worker.rng().below(live.max(1)) < extents
}

/// True if draining alone frees too little for `bytes` more: there is hardly anything dead, or what lives and what is
/// not the log's leave no room even if all that is dead were gone.
fn is_full(store: &Store, bytes: u64, limit: u64) -> bool {
    let (used, live) = (store.log().used_bytes(), debt::live_bytes(store));
    live * 100 > used * FULL_PERCENT || least_bytes(store) + bytes > limit
}

/// Bytes in use that would be left if all that is dead were gone.
fn least_bytes(store: &Store) -> u64 {
    let dead = store.log().used_bytes().saturating_sub(debt::live_bytes(store));
    store.used_memory().saturating_sub(dead)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{LogGeometry, Options, StoreWorker, StringForm, Ttl};

    /// A store at its limit with 20 000 keys, and as many of a database that was emptied.
    fn half_emptied(policy: Policy) -> (Arc<Store>, StoreWorker) {
        let geometry = LogGeometry {
            segment_bytes: 64 << 10,
            piece_bytes: 4 << 10,
            extent_min_bytes: 8 << 10,
            release_bytes: 4 << 10,
            reserve_bytes: 1 << 30,
        };
        let store = Store::new(&Options { seed: 5, geometry, ..Options::default() }).expect("an address range");
        let mut worker = store.worker(0);
        for (db, n) in (0..2).flat_map(|db| (0..20_000).map(move |n| (db, n))) {
            worker.inside(db, |tx| {
                let name = format!("key:{n}").into_bytes();
                let key = tx.key(&name);
                tx.hold(&[tx.shard_of(key.hash)]);
                tx.set(&key, &[b'v'; 100], Ttl::Clear, StringForm::Auto);
            });
        }
        store.set_limit(store.used_memory(), policy);
        worker.exclusive(|worker| store.flush_db(worker, 1));
        worker.park();
        (store, worker)
    }

    /// Somebody holds the shard whose keys of an emptied database would be the next to go: those of other shards go, and nobody
    /// waits for it. Where they are all that is left of that database, other keys go.
    #[test]
    fn issue_11_a_shard_that_is_held_is_in_nobody_s_way() {
        for is_last in [false, true] {
            let (store, mut worker) = half_emptied(Policy::AllKeysRandom);
            let held = store.cells()[0].lock.lock();
            std::thread::scope(|scope| {
                let (worker, store) = (&mut worker, &store);
                let write = move || {
                    let mut some = 0;
                    while is_last && sweep::some(store) == Swept::Some {
                        some += 1;
                    }
                    assert!(some > 0 || !is_last, "other shards had some");
                    if is_last {
                        // Less than lives: to free all that is dead is not enough.
                        store.set_limit(store.used_memory() * 9 / 20, Policy::AllKeysRandom);
                    }
                    assert_eq!(worker.admit(300_000), Ok(()));
                };
                scope.spawn(write).join().expect("it has room");
            });
            drop(held);
            assert_eq!(store.totals().evicted > 0, is_last, "keys that live go when there is nothing else");
            assert!(store.database_map().owes_sweep(), "those of the held shard are still to go");
            while sweep::some(&store) == Swept::Some {}
            assert!(!store.database_map().owes_sweep(), "it was looked at again");
            store.verify();
        }
    }

    /// All that is left to be swept is in a shard that somebody holds for long, and nothing else may go: the background waits.
    #[test]
    fn issue_11_the_background_waits_for_what_others_hold() {
        let (store, mut worker) = half_emptied(Policy::VolatileLru);
        let held = store.cells()[0].lock.lock();
        std::thread::scope(|scope| {
            let (worker, store) = (&mut worker, &store);
            let wait = move || {
                while sweep::some(store) == Swept::Some {}
                store.set_limit(store.used_memory() / 4, Policy::VolatileLru);
                let due = |now_ms| {
                    let mut calls = (0..1000).map(|_| worker.background(now_ms, Duration::from_millis(1)));
                    calls.find_map(|due| due.filter(|due| *due > now_ms))
                };
                let all: Vec<Option<i64>> = (1..10).map(due).collect();
                assert!(all.iter().zip(1..).all(|(due, now_ms)| *due == Some(now_ms + 1)), "{all:?}");
            };
            scope.spawn(wait).join().expect("it waits");
        });
        drop(held);
    }

    /// Another worker is at the emptied database at every moment: its keys go first, though this one cannot help.
    #[test]
    fn issue_11_no_key_goes_while_another_worker_sweeps() {
        let (store, mut worker) = half_emptied(Policy::AllKeysRandom);
        let swept = store.detached().sweep.lock();
        std::thread::scope(|scope| {
            let worker = &mut worker;
            scope
                .spawn(move || {
                    let (store, local) = worker.parts();
                    assert_eq!(admit(store, local, 300_000, Way::OwnRoom), Err(NotAdmitted::Busy));
                })
                .join()
                .expect("it is put back");
        });
        drop(swept);
        assert_eq!(store.totals().evicted, 0);
        assert_eq!(worker.admit(300_000), Ok(()));
        assert_eq!(store.totals().evicted, 0, "the emptied database's keys were enough");
    }

    /// A write behind FLUSHDB of many keys sweeps for its share of time, and is tried again.
    #[test]
    fn issue_11_a_write_sweeps_for_its_share_of_time() {
        let (store, mut worker) = half_emptied(Policy::NoEviction);
        let (_, local) = worker.parts();
        let mut attempt = ReclaimAttempt::new();
        attempt.begun -= SHARE;
        assert!(!attempt.has_swept_its_share(), "it has not swept");
        let limit = store.limit().bytes();
        assert!(step(&store, local, &mut attempt, 300_000, limit) && attempt.has_swept_its_share());
        // Many writers have one share in a turn, and not one each.
        local.note_swept();
        let mut tries = 0;
        let in_turn = |local: &mut WorkerState, tries: &mut u32| {
            *tries += 1;
            admit(&store, local, 300_000, Way::OwnRoom)
        };
        let before = store.used_memory();
        (0..10).for_each(|_| assert_eq!(in_turn(local, &mut tries), Err(NotAdmitted::Busy)));
        assert_eq!(store.used_memory(), before, "nothing was done in this turn");
        loop {
            worker.set_now(i64::from(tries));
            if in_turn(worker.parts().1, &mut tries) == Ok(()) {
                break;
            }
            assert!(tries < 100_000, "it has room at last");
        }
        assert!(has_room(&store, 300_000));
    }
}
