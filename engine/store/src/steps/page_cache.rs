//! Decay of cached pages: memory that is kept for new segments goes back to the system where none is opened.

use std::sync::atomic::Ordering::Relaxed;

use super::{Step, rest};
use crate::keyspace::store::Store;

/// How long memory is kept for new segments while none is opened, ms: then taking it anew costs next to nothing.
const KEPT_MS: u64 = 100;
/// How long memory is kept ahead of the appenders while nobody writes, ms. To make it again takes a helper a millisecond, once
/// for each pause that is longer.
const QUIET_MS: u64 = 200;

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
        store.reclaimer().drains().any(|drain| {
            drain
                .try_lock()
                .is_some_and(|mut drain| drain.as_mut().is_some_and(|drain| store.log().release_drained_step(drain)))
        })
    };
    // The memory ahead of the appenders stays while anybody writes, a purge too.
    let all = rest::is_quiet_for(store, now_ms, QUIET_MS)
        && !store.reclaimer().purge.is_on()
        && !store.reclaimer().meter.is_active();
    let more = store.log().release_cached_step(all) || drained(store);
    if !more {
        // The pages that are still cached are promised to the drain, or appenders come to them next: there is nothing to do
        // for as long again.
        store.reclaimer().cooling.since_ms.store(now_ms, Relaxed);
        on.store(false, Relaxed);
    }
    Step::more(more)
}
