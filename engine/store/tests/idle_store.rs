//! The background of a store at rest: what is left to do is done, and then its turns cost next to nothing.

mod string_writes;

use std::time::Duration;

use string_writes::set;
use varve_store::{LogGeometry, Options, Store};

/// A drain that has stopped halfway keeps memory for whoever opens the next segment. Nobody does: it must not be looked
/// through again at every turn.
#[test]
fn a_store_at_rest_has_next_to_nothing_to_do() {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    let store = Store::new(&Options { seed: 5, geometry, ..Options::default() }).expect("an address range");
    let mut worker = store.worker(0);
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
