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
//! are freed in steps. Not here: when there is too little room, and what drains (`reclaim.rs`).

use varve_base::Ref;
use varve_index::{IndexEntry, Rehash};
use varve_segment::Object;

use crate::keyspace::shard::{NEVER, Shard};
use crate::keyspace::store::Store;
use crate::keyspace::worker::WorkerState;
use crate::state::candidates::{Candidate, Cutoff};
use crate::state::clock::idle_s;
use crate::state::events::EventClass;
use crate::state::key::{database_of, hash_of, wheel_bits};
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
/// Rounds of draws without an eviction, until every shard is searched.
const ROUNDS_MAX: usize = 8;

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
        if let Some(candidate) = draw(store, worker, policy, false) {
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
    worker.hand_on(store);
    shard.follow_index(store.ground(), id);
    worker.counters().evicted.add(1);
}

/// Evicts the best of some keys drawn; false if no key may be evicted.
pub(crate) fn evict_drawn(store: &Store, worker: &mut WorkerState) -> bool {
    let policy = store.limit().policy();
    worker.background_mut().candidates.follow(policy);
    let draws = if policy.measure() == Measure::Chance { 1 } else { store.limit().samples() };
    for round in 0..=ROUNDS_MAX {
        for _ in 0..draws {
            let drawn = draw(store, worker, policy, round == ROUNDS_MAX);
            if let Some(candidate) = drawn {
                worker.background_mut().candidates.add(candidate);
            }
        }
        while let Some(best) = worker.background_mut().candidates.best.pop() {
            if evict_candidate(store, worker, policy, best) {
                return true;
            }
        }
    }
    false
}

/// Evicts a candidate, unless it is gone or was used since it was drawn.
fn evict_candidate(store: &Store, worker: &mut WorkerState, policy: Policy, candidate: Candidate) -> bool {
    let id = store.shard_of(candidate.hash);
    let mut shard = store.cells()[id].lock.lock();
    let Some(entry) = shard.index().find_ref(candidate.hash, candidate.r) else { return false };
    let object = shard.open(store.log(), candidate.r);
    if score(store, policy.measure(), &object, worker.now_ms()) < candidate.score {
        return false;
    }
    evict_entry(store, worker, &mut shard, id, entry);
    true
}

/// Draws a key that the policy may evict, from a random shard or the first behind it that has one. Where draws may
/// miss what there is, `search` looks through all of a shard.
fn draw(store: &Store, worker: &mut WorkerState, policy: Policy, search: bool) -> Option<Candidate> {
    let shards = store.cells().len();
    let first = worker.rng().below(shards as u64) as usize;
    let volatile = !policy.takes_all_keys();
    for id in (first..shards).chain(0..first) {
        let cell = &store.cells()[id];
        if volatile && cell.due() == NEVER {
            continue;
        }
        let shard = cell.lock.lock();
        let drawn = match volatile {
            false => shard.index().sample(worker.rng()),
            true if shard.counts().volatile() == 0 => None,
            true if search => first_volatile(store, &shard),
            true => draw_volatile(store, &shard, worker),
        };
        let Some(r) = drawn else { continue };
        let object = shard.open(store.log(), r);
        let score = score(store, policy.measure(), &object, worker.now_ms());
        return Some(Candidate { score, hash: shard.hashes(store.log(), store.seed()).hash(r), r });
    }
    None
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

/// Some volatile key of a shard.
fn first_volatile(store: &Store, shard: &Shard) -> Option<Ref> {
    let mut found = None;
    shard.index().for_each(|r| {
        if found.is_none() && shard.open(store.log(), r).expiry_ms().is_some() {
            found = Some(r);
        }
    });
    found
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
