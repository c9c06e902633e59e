//! Keys to which clients of a replica that may be written give a time: the replica removes them, and no others.

use std::sync::Arc;
use std::time::Duration;

use varve_store::{LogGeometry, Options, Overdue, Store, StoreWorker, StringForm, Ttl};

const NOW: i64 = 1_000_000;

fn store() -> (Arc<Store>, StoreWorker) {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    let store = Store::new(&Options { geometry, seed: 3, shards: 4, ..Options::default() }).expect("an address range");
    let mut worker = store.worker(0);
    worker.set_now(NOW);
    (store, worker)
}

/// Sets a key with a time: as a client, or as the primary's stream.
fn set(worker: &mut StoreWorker, name: &str, ttl: Ttl, overdue: Overdue) {
    worker.inside(0, |tx| {
        tx.set_overdue(overdue);
        let key = tx.key(name.as_bytes());
        tx.hold(&[tx.shard_of(key.hash)]);
        tx.set(&key, b"v", ttl, StringForm::Auto);
    });
}

fn background(worker: &mut StoreWorker, now_ms: i64) {
    for turn in 0..1000 {
        let _ = worker.background(now_ms + turn / 10, Duration::ZERO);
    }
}

#[test]
fn issue_17_a_replica_removes_the_keys_of_its_own_clients_alone() {
    let (store, mut worker) = store();
    set(&mut worker, "before", Ttl::At(NOW + 1000), Overdue::Removed);
    store.set_following(true, true);
    for n in 0..1000 {
        set(&mut worker, &format!("own {n}"), Ttl::At(NOW + 1000), Overdue::Removed);
        set(&mut worker, &format!("primary's {n}"), Ttl::At(NOW + 1000), Overdue::Alive);
    }
    set(&mut worker, "later", Ttl::At(NOW + 100_000), Overdue::Removed);
    set(&mut worker, "longer", Ttl::At(NOW + 1000), Overdue::Removed);
    worker.inside(0, |tx| {
        let key = tx.key(b"longer");
        tx.hold(&[tx.shard_of(key.hash)]);
        assert!(tx.set_expiry(&key, Some(NOW + 200_000)));
        tx.loaded(&key);
    });
    assert_eq!((store.len(0), store.own_dates()), (2003, 1003));
    background(&mut worker, NOW + 5);
    assert_eq!(store.len(0), 2003, "their time has not come");
    background(&mut worker, NOW + 1500);
    assert_eq!((store.len(0), store.totals().expired), (1003, 1000), "the primary says when its keys go");
    // One key was given two times, and may be filed by both.
    assert!((2..=3).contains(&store.own_dates()));
    worker.park();
    store.verify();
    background(&mut worker, NOW + 100_500);
    assert_eq!(store.len(0), 1002);
    assert!((1..=2).contains(&store.own_dates()));
    // It follows nobody any more: all that is due goes.
    store.set_following(false, false);
    assert_eq!(store.own_dates(), 0);
    background(&mut worker, NOW + 101_000);
    assert_eq!(store.len(0), 1, "the longer one is left");
    background(&mut worker, NOW + 300_000);
    assert_eq!(store.len(0), 0);
    worker.park();
    store.verify();
}

/// One key that is given a time again and again takes no room for each of them.
#[test]
fn issue_17_stale_times_of_a_replica_are_cleared_up() {
    let (store, mut worker) = store();
    store.set_following(true, true);
    for n in 0..200_000 {
        set(&mut worker, "k", Ttl::At(NOW + 1_000_000 + n * 100), Overdue::Removed);
        if n % 1000 == 0 {
            let _ = worker.background(NOW + n / 100, Duration::ZERO);
        }
    }
    background(&mut worker, NOW + 10_000);
    assert!(store.own_dates() < 10_000, "{} times of one key", store.own_dates());
    worker.exclusive(|worker| store.flush_all(worker));
    assert_eq!(store.own_dates(), 0);
    worker.park();
    store.verify();
}
