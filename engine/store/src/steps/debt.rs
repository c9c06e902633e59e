//! The debt of reclaim: how much is dead, and how many slices the background owes for it.

use std::sync::atomic::Ordering::Relaxed;

use super::Slice;
use crate::keyspace::store::Store;
use crate::state::meter::{Defragged, Tally};
use crate::state::victims::{Defrag, Formula, ReclaimCost};

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
/// MEMORY PURGE leaves 1/50 of the used bytes dead, since freeing a byte would cost 50 bytes of copying, and the bytes
/// that sealing segments early leaves as fillers. It ends above that where copying frees less than 1/50 of what it copies: the
/// segments are too small for their objects, and each has the same loss at its end.
const PURGE_LEAVES_PART: u64 = 50;

/// Victims after which a purge is asked for what it has freed, at least.
const LOOKED_AT_AFTER: u32 = 32;

impl Store {
    /// The figures of active defragmentation.
    pub fn defragged(&self, now_ms: i64) -> Defragged {
        self.reclaimer().meter.read(now_ms)
    }

    /// Sets how victims are chosen, and whether the background reclaims earlier than by itself.
    pub fn set_reclaim(&self, formula: Formula, defrag: Option<Defrag>) {
        self.reclaimer().settings.set(formula, defrag);
    }

    /// The cost of reclaim since the start or the last [`Store::reset_measures`].
    pub fn reclaim_cost(&self) -> ReclaimCost {
        self.reclaimer().cost.read()
    }
}

/// How many slices the background may do in one turn, by how much is dead; 0 if it should not. Publishes whether there is
/// something to do.
pub(crate) fn look(store: &Store) -> u32 {
    let (slices, owed) = (reclaim_slices(store), &store.reclaimer().owed);
    if owed.load(Relaxed) != (slices > 0) {
        owed.store(slices > 0, Relaxed);
    }
    slices
}

fn reclaim_slices(store: &Store) -> u32 {
    let used = store.log().used_bytes();
    let live = live_bytes(store);
    if live == 0 && used > 0 {
        // A victim that has died as a whole costs nothing to drain.
        return SLICES_MAX;
    }
    let dead = used.saturating_sub(live);
    let purging = store.reclaimer().purge.is_on();
    if purging && dead <= purge_floor(used) {
        store.reclaimer().purge.end();
    } else if purging || (dead * 2 > used && dead > BACKGROUND_DEAD_BYTES) {
        return SLICES_MAX;
    }
    let limited = store.limit().bytes() != 0;
    let percent = if limited { BACKGROUND_DEAD_PERCENT_LIMITED } else { BACKGROUND_DEAD_PERCENT };
    let over = (dead * 100).saturating_sub(used * percent);
    let mut slices = 0;
    if over > 0 && dead > store.log().geometry().segment_bytes as u64 / 2 {
        // At half as much again as is tolerated, all that there is time for.
        slices = 1 + (over * u64::from(SLICES_MAX) / (used * percent / 2).max(1)).min(SLICES_MAX.into()) as u32;
    }
    slices.max((defrag_cycle(store, dead, live) * SLICES_MAX).div_ceil(100))
}

/// Reports to the meter of active defragmentation whether there is something to do.
pub(crate) fn follow_defrag(store: &Store, now_ms: i64) {
    let (used, live) = (store.log().used_bytes(), live_bytes(store));
    store.reclaimer().meter.follow(defrag_cycle(store, used.saturating_sub(live), live), now_ms);
}

/// Counts the result of a slice of the background.
pub(crate) fn count_background_slice(store: &Store, slice: Slice, tally: &Tally) {
    if store.reclaimer().meter.is_active() {
        store.reclaimer().meter.add(tally);
    }
    match slice {
        Slice::Nothing => store.reclaimer().purge.end(),
        Slice::Drained if store.reclaimer().purge.is_on() => {
            let used = store.log().used_bytes();
            let kept = used as i64 - store.log().written_bytes() as i64;
            let segments = (used / store.log().geometry().segment_bytes as u64) as u32;
            let segments = segments.max(LOOKED_AT_AFTER);
            let copied = u64::from(segments) * store.log().geometry().segment_bytes as u64;
            store.reclaimer().purge.count_victim(kept, segments, (copied / PURGE_LEAVES_PART) as i64);
        }
        _ => {}
    }
}

/// Bytes that draining cannot free: live ones, and large values dead or alive. The log keeps the sum.
pub(crate) fn live_bytes(store: &Store) -> u64 {
    store.log().unreclaimable_bytes().0
}

/// The share of its time, in percent, that active defragmentation has the background spend; 0 without it.
pub(crate) fn defrag_cycle(store: &Store, dead: u64, live: u64) -> u32 {
    store.reclaimer().settings.defrag().map_or(0, |defrag| defrag.cycle(dead, live))
}

/// Dead bytes that a purge leaves.
pub(crate) fn purge_floor(used: u64) -> u64 {
    (used / PURGE_LEAVES_PART).max(BACKGROUND_DEAD_BYTES)
}
