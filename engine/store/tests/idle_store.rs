//! The background of a store at rest: what is left to do is done, and then its turns cost next to nothing.

mod string_writes;

use std::time::Duration;

use string_writes::set;
use varve_store::{LogGeometry, Options, Store, StoreWorker};

fn store() -> (std::sync::Arc<Store>, StoreWorker) {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    let store = Store::new(&Options { seed: 5, geometry, ..Options::default() }).expect("an address range");
    let worker = store.worker(0);
    (store, worker)
}

/// Runs a turn of the background each millisecond.
fn wait(worker: &mut StoreWorker, now_ms: &mut i64, ms: usize) {
    for _ in 0..ms {
        *now_ms += 1;
        worker.background(*now_ms, Duration::from_micros(100));
    }
}

/// Dead bytes.
fn dead(store: &Store) -> u64 {
    store.log().used_bytes() - store.log().live_bytes()
}

/// Issue 11: a load that was over kept what had died in it, up to 18% of all, and cached pages.
#[test]
fn a_store_at_rest_gives_back_what_died() {
    let (store, mut worker) = store();
    let mut now_ms = 1_795_000_000_000;
    for n in 0..40_000 {
        set(&mut worker, n * 7 % 24_000, 300 + n % 799);
        if n % 16 == 0 {
            wait(&mut worker, &mut now_ms, 1);
        }
    }
    wait(&mut worker, &mut now_ms, 1900);
    assert!(dead(&store) > store.log().used_bytes() / 10, "{} bytes died", dead(&store));
    wait(&mut worker, &mut now_ms, 3000);
    let floor = store.log().used_bytes() / 50 + (256 << 10);
    assert!(dead(&store) <= floor, "{} dead bytes are left of {}", dead(&store), store.log().used_bytes());
    // One unit at the frontier of each open segment is kept.
    let kept = store.log().stats().cached_bytes;
    assert!(kept <= 3 * (256 << 10), "{kept} bytes are kept for segments that nobody opens");
    let moved = store.totals().moved;
    wait(&mut worker, &mut now_ms, 10_000);
    assert_eq!(store.totals().moved, moved, "a store at rest stays as it is");
    worker.park();
    store.verify();
}

/// The purge of a rest ends with the first write: the garbage of a writer is worth more to reclaim.
#[test]
fn a_write_ends_the_purge_of_a_rest() {
    let (store, mut worker) = store();
    let mut now_ms = 1_795_000_000_000;
    (0..50_000).for_each(|n| set(&mut worker, n, 900));
    (0..6000).for_each(|n| set(&mut worker, n * 8, 1000));
    wait(&mut worker, &mut now_ms, 1900);
    let before = store.totals().moved;
    (0..1000).for_each(|_| {
        if store.totals().moved == before {
            wait(&mut worker, &mut now_ms, 1);
        }
    });
    assert!(store.totals().moved > before, "a rest has a purge");
    set(&mut worker, 1, 950);
    wait(&mut worker, &mut now_ms, 20);
    let moved = store.totals().moved;
    for n in 0..1000 {
        set(&mut worker, n, 900);
        wait(&mut worker, &mut now_ms, 1);
    }
    assert_eq!(store.totals().moved, moved, "there is not much dead, and somebody writes");
    worker.park();
    store.verify();
}

/// A drain that has stopped halfway keeps memory for whoever opens the next segment. Nobody does: it must not be looked
/// through again at every turn.
#[test]
fn a_store_at_rest_has_next_to_nothing_to_do() {
    let (store, mut worker) = store();
    let mut now_ms = 1_795_000_000_000;
    for round in 0..12 {
        // A value that is replaced by a longer one dies where it lay.
        for n in 0..4000 {
            set(&mut worker, (n * 7 + round * 500) % 12_000, 1000 + 100 * round);
            if n % 16 == 0 {
                now_ms += 1;
                worker.background(now_ms, Duration::from_micros(100));
            }
        }
        for _ in 0..3000 {
            now_ms += 1;
            worker.background(now_ms, Duration::from_micros(100));
        }
        let before = store.slices.read().count();
        for _ in 0..1000 {
            now_ms += 1;
            worker.background(now_ms, Duration::from_micros(100));
        }
        let turns = store.slices.read().count() - before;
        assert!(turns <= 50, "round {round}: {turns} turns of a thousand had something to do");
    }
    worker.park();
    store.verify();
}
