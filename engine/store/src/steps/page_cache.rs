//! Decay of cached pages: memory that is kept for new segments goes back to the system where none is opened.

use std::sync::atomic::Ordering::Relaxed;

use super::Step;
use crate::keyspace::store::Store;

/// How long memory is kept for new segments while none is opened, ms: then taking it anew costs next to nothing.
const KEPT_MS: u64 = 100;

/// Looks whether segments are still being opened.
pub(crate) fn look_at_cached(store: &Store, now_ms: i64) {
    let (cooling, opens) = (&store.reclaimer().cooling, store.log().opens());
    if cooling.opens.load(Relaxed) != opens {
        cooling.opens.store(opens, Relaxed);
        cooling.since_ms.store(now_ms, Relaxed);
        cooling.on.store(false, Relaxed);
    } else if now_ms.abs_diff(cooling.since_ms.load(Relaxed)) >= KEPT_MS && store.log().has_cached_pages() {
        cooling.on.store(true, Relaxed);
    }
}

pub(crate) fn owes_decay(store: &Store) -> bool {
    store.reclaimer().cooling.on.load(Relaxed)
}

/// Gives some of the kept memory back if nobody seems to need it; true while there is more.
pub(super) fn step(store: &Store, now_ms: i64) -> Step {
    let on = &store.reclaimer().cooling.on;
    if !on.load(Relaxed) {
        return Step::Done;
    }
    let drained = |store: &Store| {
        let mut draining = store.reclaimer().drain.try_lock()?;
        Some(store.log().release_drained_step(draining.drain.as_mut()?))
    };
    let more = store.log().release_cached_step() || drained(store).unwrap_or(false);
    if !more {
        // The pages that are still cached are promised to the drain: there is nothing to do for as long again.
        store.reclaimer().cooling.since_ms.store(now_ms, Relaxed);
        on.store(false, Relaxed);
    }
    Step::more(more)
}
