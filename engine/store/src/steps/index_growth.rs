//! Growth and shrinking of the shards' indexes, some buckets a step.

use std::sync::atomic::Ordering::Relaxed;

use super::Step;
use crate::keyspace::store::Store;
use crate::keyspace::worker::WorkerState;

/// Buckets that one index step migrates.
const INDEX_BUCKETS: usize = 32;

/// Migrates some buckets of an index that grows or shrinks.
pub(super) fn step(store: &Store, worker: &mut WorkerState) -> Step {
    let words = store.ground().growing().len();
    for n in 0..words {
        let word = (worker.background().turn as usize + n) % words;
        let bits = store.ground().growing()[word].load(Relaxed);
        if bits == 0 {
            continue;
        }
        // Workers start at different bits, so that they rarely meet at one shard.
        let first = (worker.background().turn as u32 + worker.id() as u32 * 32) % 64;
        let id = word * 64 + ((first + bits.rotate_right(first).trailing_zeros()) % 64) as usize;
        worker.background_mut().turn += 1;
        let Some(mut shard) = store.cells()[id].lock.try_lock() else { return Step::Busy };
        if !shard.step_index(store.ground(), INDEX_BUCKETS) {
            store.ground().unmark_growing(id);
        }
        shard.follow_index(store.ground(), id);
        return Step::More;
    }
    Step::Done
}
