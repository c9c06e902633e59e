//! A data set that is loaded into fresh databases beside the one that is served: swapped in, or dropped.

use std::sync::Arc;
use std::time::Duration;

use varve_store::{Effect, EventClass, LogGeometry, Options, Policy, Store, StoreWorker, StringForm, Ttl, Watcher};

const NOW: i64 = 1_000_000;

/// A store of four databases with one worker.
fn store() -> (Arc<Store>, StoreWorker) {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    let options = Options { databases: 4, geometry, seed: 3, shards: 8, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    let mut worker = store.worker(0);
    worker.set_now(NOW);
    (store, worker)
}

/// Sets keys `0 .. keys` of a database, logical or fresh, to this value.
fn fill(worker: &mut StoreWorker, db: u32, keys: u64, value: &[u8]) {
    for n in 0..keys {
        set(worker, db, &n.to_string(), value);
    }
}

fn set(worker: &mut StoreWorker, db: u32, name: &str, value: &[u8]) {
    worker.inside(db, |tx| {
        let key = tx.key(name.as_bytes());
        tx.hold(&[tx.shard_of(key.hash)]);
        tx.set(&key, value, Ttl::Clear, StringForm::Auto);
    });
}

fn get(worker: &mut StoreWorker, db: u32, name: &str) -> Option<Vec<u8>> {
    worker.inside(db, |tx| {
        let key = tx.key(name.as_bytes());
        tx.hold(&[tx.shard_of(key.hash)]);
        tx.get(&key).expect("a string").map(|value| value.to_vec())
    })
}

/// Steps of the background, far more than there is to do.
fn settle(worker: &mut StoreWorker) {
    for _ in 0..5000 {
        let _ = worker.background(NOW, Duration::ZERO);
    }
}

fn sizes(store: &Store) -> Vec<u64> {
    (0..store.databases()).map(|db| store.len(db)).collect()
}

#[test]
fn issue_17_fresh_databases_are_unseen_until_they_are_swapped_in() {
    let (store, mut worker) = store();
    fill(&mut worker, 0, 500, b"old");
    fill(&mut worker, 2, 10, b"old");
    assert!(store.begin_fresh());
    fill(&mut worker, store.fresh_database(0), 300, b"new");
    fill(&mut worker, store.fresh_database(3), 20, b"new");
    assert_eq!(sizes(&store), [500, 0, 10, 0], "they are nobody's");
    assert_eq!(get(&mut worker, 0, "7").as_deref(), Some(&b"old"[..]));
    set(&mut worker, 0, "late", b"old");
    let changes = store.database_changes();
    worker.exclusive(|worker| store.swap_in_fresh(worker, NOW));
    assert!(!store.has_fresh() && store.database_changes() > changes);
    assert_eq!(sizes(&store), [300, 0, 0, 20]);
    assert_eq!(get(&mut worker, 0, "7").as_deref(), Some(&b"new"[..]));
    assert_eq!(get(&mut worker, 0, "late"), None);
    worker.park();
    store.verify();
    settle(&mut worker);
    let held: u64 = store.index_loads().map(|load| load.keys).sum();
    assert_eq!(held, 320, "the old keys are swept");
    store.verify();
    // Another data set may follow.
    assert!(store.begin_fresh());
    worker.exclusive(|worker| store.swap_in_fresh(worker, NOW));
    assert_eq!(sizes(&store), [0; 4]);
    settle(&mut worker);
    store.verify();
}

#[test]
fn issue_17_what_was_loaded_in_vain_goes_and_the_old_data_stays_whole() {
    let (store, mut worker) = store();
    fill(&mut worker, 0, 100, b"old");
    assert!(store.begin_fresh());
    fill(&mut worker, store.fresh_database(0), 400, b"new");
    fill(&mut worker, store.fresh_database(1), 1, b"new");
    store.drop_fresh();
    assert_eq!(sizes(&store), [100, 0, 0, 0]);
    assert_eq!(get(&mut worker, 0, "7").as_deref(), Some(&b"old"[..]));
    settle(&mut worker);
    assert_eq!(store.index_loads().map(|load| load.keys).sum::<u64>(), 100);
    worker.park();
    store.verify();
}

/// FLUSHALL gives the whole log up where nothing else is in it, and FLUSHDB where no other database has keys.
#[test]
fn issue_17_flushes_leave_fresh_databases_alone() {
    for flushes_all in [true, false] {
        let (store, mut worker) = store();
        fill(&mut worker, 0, 100, b"old");
        assert!(store.begin_fresh());
        fill(&mut worker, store.fresh_database(0), 50, b"new");
        worker.park();
        let flush =
            |worker: &mut StoreWorker| if flushes_all { store.flush_all(worker) } else { store.flush_db(worker, 0) };
        worker.exclusive(flush);
        assert_eq!(sizes(&store), [0; 4]);
        fill(&mut worker, 0, 3, b"between");
        worker.exclusive(|worker| store.swap_in_fresh(worker, NOW));
        assert_eq!(sizes(&store), [50, 0, 0, 0], "flushes all: {flushes_all}");
        assert_eq!(get(&mut worker, 0, "2").as_deref(), Some(&b"new"[..]));
        settle(&mut worker);
        worker.park();
        store.verify();
    }
}

/// Two data sets are more than the limit. No key goes for that, neither while both are there nor while the old one is swept.
#[test]
fn issue_17_the_limit_rests_while_two_data_sets_are_there() {
    let (store, mut worker) = store();
    let value = [b'v'; 4000];
    fill(&mut worker, 0, 4000, &value);
    worker.park();
    store.set_limit(store.used_memory() + (1 << 20), Policy::AllKeysLru);
    let evicts = |worker: &mut StoreWorker| {
        (0..20).for_each(|_| _ = worker.background(NOW, Duration::from_millis(1)));
        let admitted = worker.inside(0, |tx| tx.admit(1 << 20).is_ok());
        assert!(admitted);
        store.totals().evicted > 0
    };
    assert!(store.begin_fresh());
    fill(&mut worker, store.fresh_database(0), 4000, &value);
    assert!(store.used_memory() > store.limit_bytes() && !evicts(&mut worker));
    assert_eq!(sizes(&store)[0], 4000);
    worker.exclusive(|worker| store.swap_in_fresh(worker, NOW));
    settle(&mut worker);
    assert_eq!((sizes(&store)[0], store.totals().evicted), (4000, 0));
    // One data set is left, and the limit holds again.
    store.set_limit(8 << 20, Policy::AllKeysLru);
    assert!(evicts(&mut worker));
    worker.park();
    store.verify();
}

#[test]
fn issue_17_watched_keys_of_either_data_set_change_at_the_swap() {
    let (store, mut worker) = store();
    for name in ["old", "both"] {
        set(&mut worker, 0, name, b"1");
    }
    let watches = ["old", "both", "new", "neither"].map(|name| {
        worker.inside(0, |tx| {
            let key = tx.key(name.as_bytes());
            tx.hold(&[tx.shard_of(key.hash)]);
            let watcher = Watcher::default();
            tx.watch(&key, &watcher);
            (name, watcher)
        })
    });
    assert!(store.begin_fresh());
    for name in ["new", "both"] {
        set(&mut worker, store.fresh_database(0), name, b"2");
    }
    assert!(watches.iter().all(|(_, watcher)| !watcher.is_touched()), "nobody has seen what is loaded");
    worker.exclusive(|worker| store.swap_in_fresh(worker, NOW));
    let touched: Vec<_> = watches.iter().filter(|(_, watcher)| watcher.is_touched()).map(|(name, _)| *name).collect();
    assert_eq!(touched, ["old", "both", "new"]);
    // A watch that was not touched goes on in the data set that is served.
    worker.inside(0, |tx| {
        let key = tx.key(b"neither");
        tx.hold(&[tx.shard_of(key.hash)]);
        tx.set(&key, b"3", Ttl::Clear, StringForm::Auto);
        tx.did(&key, Effect::sent(EventClass::Generic, "set", 1));
    });
    assert!(watches[3].1.is_touched());
}
