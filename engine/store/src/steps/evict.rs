//! Eviction: which keys go when there is no room.
//!
//! ```text
//! allkeys-*   the drain passes objects: those beyond the cutoff are dropped in place of copied      Cutoff
//!             beside it, where a drain drops nothing (big collections, large values, no victim):
//! volatile-*  some keys are drawn, by the timing wheels if they must be volatile; the best of       Candidates
//!             these draws and of the ones before goes
//! ```
//! The **cutoff** is a quantile of what the policy judges by, over 64 keys drawn at random: with `maxmemory-samples` of
//! N, the drain drops one object in N + 1, the ones that the best of N draws would be among. Each object that is
//! dropped saves N copies, so the setting trades work for a better choice, as it does in Redis. Under a random policy
//! half of the objects go.
//!
//! A key is always removed as DEL removes one: watched keys, events, client-side caching; the parts of a big collection
//! are freed in steps. A collection that somebody reads over several holds, or that the walk under way would read from then
//! on, is passed over: its parts stay until the reader ends, so that key after key would go for one write. Not here: when there is too little room, and what drains (`reclaim.rs`).

use varve_base::Ref;
use varve_base::rank::RankedGuard;
use varve_index::IndexEntry;
use varve_segment::Object;

use super::Slice;
use crate::keyspace::shard::{NEVER, Shard};
use crate::keyspace::store::Store;
use crate::keyspace::worker::WorkerState;
use crate::state::candidates::{Candidate, Cutoff};
use crate::state::clock::idle_s;
use crate::state::events::EventClass;
use crate::state::key::{Place, database_of, hash_of, wheel_bits};
use crate::state::policy::{Measure, Policy};

/// Keys drawn to find a cutoff.
const CUTOFF_SAMPLES: usize = 64;
/// Objects that a cutoff judges before another is found.
const CUTOFF_USES: u32 = 1024;
/// A drain drops at least one of this number of objects, however many samples are asked for: an object that is dropped costs
/// the copies of the others.
const ONE_IN_MAX: u64 = 17;
/// Entries of a wheel that are drawn until one stands for a key.
const WHEEL_DRAWS: usize = 8;
/// Keys drawn in a row whose removal would free nothing, until the draw is given up.
const KEPT_DRAWS: usize = 16;
/// Rounds of draws without an eviction, until the shards are searched.
const ROUNDS_MAX: usize = 8;
/// Buckets that a search looks at with a shard held: some 900 objects.
const SEARCH_BUCKETS: usize = 128;

/// How much a key deserves to go, the more the sooner.
fn score(store: &Store, measure: Measure, object: &Object<'_>, now_ms: i64) -> u64 {
    match measure {
        Measure::Chance => 0,
        Measure::Idle => idle_s(object.clock(), now_ms).into(),
        Measure::Uses => {
            let counter = store.limit().lfu().map_or(0, |lfu| lfu.counter(object.clock(), now_ms));
            u64::from(255 - counter)
        }
        Measure::Ttl => object.expiry_ms().map_or(0, |t| u64::MAX / 2 - t.max(0) as u64),
    }
}

/// The cutoff for the next objects that a drain passes; None if the policy evicts only by draws.
pub(crate) fn cutoff(store: &Store, worker: &mut WorkerState, objects: usize) -> Option<Cutoff> {
    let policy = store.limit().policy();
    if !policy.takes_all_keys() {
        return None;
    }
    let known = worker.background().cutoff.filter(|known| known.policy == policy && known.uses > 0);
    let mut cutoff = known.unwrap_or_else(|| find_cutoff(store, worker, policy));
    cutoff.uses = cutoff.uses.saturating_sub(objects as u32);
    worker.background_mut().cutoff = Some(cutoff);
    Some(cutoff)
}

fn find_cutoff(store: &Store, worker: &mut WorkerState, policy: Policy) -> Cutoff {
    if policy.measure() == Measure::Chance {
        return Cutoff { policy, score: 0, ties: 1 << 15, uses: CUTOFF_USES };
    }
    let mut scores = [0; CUTOFF_SAMPLES];
    let mut found = 0;
    for _ in 0..CUTOFF_SAMPLES {
        if let Some(candidate) = draw(store, worker, policy) {
            scores[found] = candidate.score;
            found += 1;
        }
    }
    let scores = &mut scores[..found];
    scores.sort_unstable_by(|a, b| b.cmp(a));
    let one_in = (u64::from(store.limit().samples()) + 1).min(ONE_IN_MAX);
    cutoff_of(policy, scores, one_in)
}

/// Does the cutoff drop this object?
pub(crate) fn is_beyond(store: &Store, cutoff: &Cutoff, object: &Object<'_>, worker: &mut WorkerState) -> bool {
    let score = score(store, cutoff.policy.measure(), object, worker.now_ms());
    score > cutoff.score || score == cutoff.score && worker.rng().next_u64() & 0xffff < cutoff.ties
}

/// Removes an entry to make room.
pub(crate) fn evict_entry(store: &Store, worker: &mut WorkerState, shard: &mut Shard, id: usize, entry: IndexEntry) {
    worker.report_removed(store, EventClass::Evicted, shard, entry);
    shard.remove(store.ground(), entry);
    worker.hand_on_of(store, shard);
    shard.follow_index(store.ground(), id);
    worker.counters().evicted.add(1);
}

/// Evicts the best of some keys drawn. [`Slice::Busy`] if none was found and the shards of some were held: there may be
/// keys to evict among those. [`Slice::Nothing`] if no key may be evicted.
pub(crate) fn evict_drawn(store: &Store, worker: &mut WorkerState) -> Slice {
    let policy = store.limit().policy();
    worker.background_mut().candidates.follow(policy);
    let draws = if policy.measure() == Measure::Chance { 1 } else { store.limit().samples() };
    worker.background_mut().passed_held = false;
    for round in 0..=ROUNDS_MAX {
        for _ in 0..draws {
            let searches = round == ROUNDS_MAX && !policy.takes_all_keys();
            let drawn = if searches { search_volatile(store, worker, policy) } else { draw(store, worker, policy) };
            if let Some(candidate) = drawn {
                worker.background_mut().candidates.add(candidate);
            }
        }
        while let Some(best) = worker.background_mut().candidates.best.pop() {
            if evict_candidate(store, worker, policy, best) {
                return Slice::Progress;
            }
        }
    }
    if worker.background().passed_held { Slice::Busy } else { Slice::Nothing }
}

/// Takes a shard unless it is held, and notes if it is.
fn try_shard<'s>(store: &'s Store, worker: &mut WorkerState, id: usize) -> Option<RankedGuard<'s, Shard>> {
    let taken = store.cells()[id].lock.try_lock();
    worker.background_mut().passed_held |= taken.is_none();
    taken
}

/// Evicts a candidate, unless it is gone, was used since it was drawn, or is no longer one that the policy may evict.
fn evict_candidate(store: &Store, worker: &mut WorkerState, policy: Policy, candidate: Candidate) -> bool {
    let id = store.shard_of(candidate.hash);
    let Some(mut shard) = try_shard(store, worker, id) else { return false };
    let Some(entry) = shard.index().find_ref(candidate.hash, candidate.r) else { return false };
    let object = shard.open(store.log(), candidate.r);
    // PERSIST changes the object in place: it has the Ref and the clock that it was drawn with.
    let may_go = policy.takes_all_keys() || object.expiry_ms().is_some();
    if !may_go
        || shard.is_kept_for_readers(store.ground(), candidate.r)
        || score(store, policy.measure(), &object, worker.now_ms()) < candidate.score
    {
        return false;
    }
    evict_entry(store, worker, &mut shard, id, entry);
    true
}

/// Draws a key that the policy may evict, from a random shard or the first behind it that is free and has one. Draws of
/// volatile keys may miss what there is.
fn draw(store: &Store, worker: &mut WorkerState, policy: Policy) -> Option<Candidate> {
    let shards = store.cells().len();
    let first = worker.rng().below(shards as u64) as usize;
    let volatile = !policy.takes_all_keys();
    let mut kept = 0;
    for id in (first..shards).chain(0..first) {
        let cell = &store.cells()[id];
        if volatile && cell.due() == NEVER {
            continue;
        }
        // A shard that is held for long stops no eviction: another one has keys as well.
        let Some(shard) = try_shard(store, worker, id) else { continue };
        let drawn = match volatile {
            false => shard.index().sample(worker.rng()),
            true if shard.counts().volatile() == 0 => None,
            true => draw_volatile(store, &shard, worker),
        };
        let Some(r) = drawn else { continue };
        if shard.is_kept_for_readers(store.ground(), r) {
            kept += 1;
            if kept == KEPT_DRAWS {
                return None;
            }
            continue;
        }
        return Some(candidate_of(store, &shard, policy, r, worker.now_ms()));
    }
    None
}

fn candidate_of(store: &Store, shard: &Shard, policy: Policy, r: Ref, now_ms: i64) -> Candidate {
    let score = score(store, policy.measure(), &shard.open(store.log(), r), now_ms);
    Candidate { score, hash: shard.hashes(store.log(), store.seed()).hash(r), r }
}

/// Looks for a volatile key through all shards that have some, from where the worker's last search has ended. A shard is
/// held for a bounded number of buckets at a time. None if a whole round has found nothing.
fn search_volatile(store: &Store, worker: &mut WorkerState, policy: Policy) -> Option<Candidate> {
    let shards = store.cells().len();
    let begin = worker.background().search;
    let mut place = begin;
    // The shard in which the search begins is met once more at the end, for the places before the beginning.
    for _ in 0..=shards {
        let id = place.shard() % shards;
        let mut next = Some(place.position());
        while let Some(from) = next {
            // Another shard's keys go in place of those of one that is held.
            let Some(shard) = try_shard(store, worker, id) else { break };
            if shard.counts().volatile() == 0 {
                break;
            }
            let (found, behind) = volatile_from(store, &shard, from);
            if let Some(r) = found {
                worker.background_mut().search = Place::new(id, from);
                return Some(candidate_of(store, &shard, policy, r, worker.now_ms()));
            }
            next = behind;
        }
        place = Place::new((id + 1) % shards, 0);
    }
    None
}

/// A volatile key of the next buckets of a shard, and the position behind them.
fn volatile_from(store: &Store, shard: &Shard, from: u64) -> (Option<Ref>, Option<u64>) {
    let hashes = shard.hashes(store.log(), store.seed());
    let (mut found, mut next) = (None, Some(from));
    for _ in 0..SEARCH_BUCKETS {
        let Some(at) = next.filter(|_| found.is_none()) else { break };
        next = shard.index().scan(at, &hashes, |r| {
            if shard.open(store.log(), r).expiry_ms().is_some() && !shard.is_kept_for_readers(store.ground(), r) {
                found = Some(r);
            }
        });
    }
    (found, next)
}

/// A volatile key of a shard by its wheel, whose entries may be stale.
fn draw_volatile(store: &Store, shard: &Shard, worker: &mut WorkerState) -> Option<Ref> {
    (0..WHEEL_DRAWS).find_map(|_| {
        let bits = shard.wheel().sample(|| worker.rng().next_u64())?;
        let entry = shard.index().find_partial(bits, |r| {
            let object = shard.open(store.log(), r);
            let hash = || hash_of(store.seed(), database_of(&object), object.key());
            object.expiry_ms().is_some() && wheel_bits(hash()) == bits
        })?;
        Some(shard.index().get(entry))
    })
}

/// The cutoff beyond which one in `one_in` of these scores, greatest first, is.
fn cutoff_of(policy: Policy, scores: &[u64], one_in: u64) -> Cutoff {
    let uses = CUTOFF_USES;
    let Some(&score) = scores.get(scores.len() / one_in as usize) else {
        // No key could be looked at: whatever the drain passes may go as well as stay.
        return Cutoff { policy, score: 0, ties: 1 << 15, uses };
    };
    let above = scores.partition_point(|&s| s > score) as u64;
    let equal = scores.partition_point(|&s| s >= score) as u64 - above;
    let wanted = ((scores.len() as u64) << 16) / one_in;
    let ties = wanted.saturating_sub(above << 16) / equal;
    Cutoff { policy, score, ties, uses }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cutoff_lets_one_in_so_many_go() {
        let scores: Vec<u64> = (0..60).rev().collect();
        let cutoff = cutoff_of(Policy::AllKeysLru, &scores, 6);
        // Ten are above 49; of the one at it none goes.
        assert_eq!((cutoff.score, cutoff.ties), (49, 0));
        let cutoff = cutoff_of(Policy::AllKeysLru, &[7; 64], 4);
        assert_eq!((cutoff.score, cutoff.ties), (7, 1 << 14), "among equals chance decides");
        let cutoff = cutoff_of(Policy::AllKeysLru, &[9, 5, 5, 5], 2);
        assert_eq!((cutoff.score, cutoff.ties), (5, (1 << 16) / 3));
        assert_eq!(cutoff_of(Policy::AllKeysLru, &[], 6).ties, 1 << 15);
    }
}
