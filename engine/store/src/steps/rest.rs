//! A store at rest: where nobody writes for two seconds, what is dead is given back, down to the floor of MEMORY PURGE.
//!
//! ```text
//!   written --2 s without a write or a death--> purge --down to the floor--> at rest: nothing is done
//!      ^                                          |                             |
//!      '------------ a write ---------------------+-----------------------------'
//! ```
//! While there are writes, some of what is appended stays dead (`debt.rs`): what dies next to it makes it cheaper to
//! reclaim. At rest nothing dies any more, and a load that is over would keep a fifth of its memory for ever.

use std::sync::atomic::Ordering::Relaxed;

use super::debt;
use crate::keyspace::store::Store;

/// How long nothing is written and nothing dies until the store is at rest, ms. Shorter gaps are pauses of a load, behind
/// which more of what is dead lies together.
const REST_MS: u64 = 2000;

/// Looks whether anybody writes.
pub(crate) fn look(store: &Store, now_ms: i64) {
    let rest = &store.reclaimer().rest;
    let (written, live) = (store.log().written_bytes(), debt::live_bytes(store));
    let wrote = rest.written.load(Relaxed) != written;
    if wrote || rest.live.load(Relaxed) != live {
        rest.written.store(written, Relaxed);
        rest.live.store(live, Relaxed);
        rest.since_ms.store(now_ms, Relaxed);
        rest.purged.store(false, Relaxed);
        if wrote {
            // The writer's own garbage comes first: the rest is over.
            store.reclaimer().purge.end_rest();
        }
    } else if is_quiet_for(store, now_ms, REST_MS) && !rest.purged.swap(true, Relaxed) {
        let used = store.log().used_bytes();
        if used.saturating_sub(live) > debt::purge_floor(used) {
            store.reclaimer().purge.begin_rest();
        }
    }
}

/// True if nothing has been written and nothing has died for `ms` ms, as of the last look.
pub(super) fn is_quiet_for(store: &Store, now_ms: i64, ms: u64) -> bool {
    now_ms.abs_diff(store.reclaimer().rest.since_ms.load(Relaxed)) >= ms
}
