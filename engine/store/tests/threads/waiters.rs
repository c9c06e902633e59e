//! Waiters in the shards: queues and their order, claims and cancellations, the shards that serving needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use varve_store::{
    Effect, EventClass, LogGeometry, NextWaiter, Options, Store, StoreWorker, StringForm, Ttl, Tx, Type, Waiter,
    Waiting,
};

use crate::with_keys::{shards, with};

fn store(workers: usize) -> Arc<Store> {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    Store::new(&Options { seed: 11, workers, geometry, ..Options::default() }).expect("an address range")
}

fn waiter(client: u64, db: u32, keys: &[&[u8]], target: Option<&[u8]>) -> Arc<Waiter> {
    let who = Waiting { worker: 0, client, db };
    Arc::new(Waiter::new(who, Type::String, keys.iter().copied(), target, Box::new(client)))
}

fn wait(worker: &mut StoreWorker, waiter: &Arc<Waiter>, keys: &[&[u8]]) {
    with(worker, waiter.who().db, keys, |tx| tx.wait(waiter));
}

/// Sets a key and reports it.
fn put(tx: &mut Tx<'_>, key: &[u8]) {
    let key = tx.key(key);
    tx.set(&key, b"v", Ttl::Clear, StringForm::Auto);
    tx.did(&key, Effect::sent(EventClass::String, "set", 1));
}

/// Sets a key and gives the clients that are next, in order; each is claimed.
fn set(worker: &mut StoreWorker, db: u32, key: &[u8]) -> Vec<u64> {
    with(worker, db, &[key], |tx| {
        put(tx, key);
        take_all(tx)
    })
}

fn take_all(tx: &mut Tx<'_>) -> Vec<u64> {
    let mut taken = Vec::new();
    while let Some(ready) = tx.next_ready() {
        tx.select(ready.db);
        let key = tx.key(&ready.bytes);
        while let NextWaiter::Take(waiter) = tx.next_waiter(&key) {
            if waiter.claim() {
                taken.push(*waiter.task::<u64>().expect("what it was made with"));
            }
        }
    }
    taken
}

#[test]
fn first_come_first_served_and_only_in_its_database() {
    let store = store(1);
    let mut w = store.worker(0);
    let other = waiter(9, 1, &[b"a"], None);
    wait(&mut w, &other, &[b"a"]);
    for client in 1..=3 {
        wait(&mut w, &waiter(client, 0, &[b"a", b"b", b"a"], None), &[b"a", b"b"]);
    }
    assert_eq!(set(&mut w, 0, b"c"), []);
    assert_eq!(set(&mut w, 0, b"b"), [1, 2, 3]);
    assert_eq!(set(&mut w, 0, b"a"), [], "all that waited here were served at b");
    assert_eq!(set(&mut w, 1, b"a"), [9]);
    assert!(!other.cancel(), "who is claimed is not cancelled");
}

#[test]
fn the_cancelled_are_passed_over_and_forgotten() {
    let store = store(1);
    let mut w = store.worker(0);
    let all: Vec<_> = (1..=3).map(|client| waiter(client, 0, &[b"a", b"b"], None)).collect();
    for waiter in &all {
        wait(&mut w, waiter, &[b"a", b"b"]);
    }
    assert!(all[0].cancel() && !all[0].claim() && !all[0].is_waiting());
    assert_eq!(set(&mut w, 0, b"a"), [2, 3]);
    for waiter in &all {
        assert!(Arc::strong_count(waiter) > 1, "still in the queue of b");
        w.forget(waiter);
        assert_eq!(Arc::strong_count(waiter), 1);
    }
    with(&mut w, 0, &[b"a", b"b"], |tx| assert!(!tx.any_waiters()));
}

#[test]
fn only_a_key_of_the_wanted_type_is_ready() {
    let store = store(1);
    let mut w = store.worker(0);
    let list =
        Arc::new(Waiter::new(Waiting { worker: 0, client: 1, db: 0 }, Type::List, [&b"a"[..]], None, Box::new(1u64)));
    wait(&mut w, &list, &[b"a"]);
    assert_eq!(set(&mut w, 0, b"a"), []);
    with(&mut w, 0, &[b"a"], |tx| {
        let key = tx.key(b"a");
        assert!(tx.remove(&key));
        tx.did(&key, Effect::sent(EventClass::Generic, "del", 1));
        assert!(!tx.has_ready(), "a key that is gone is not ready");
    });
    assert!(list.is_waiting());
}

/// k -> d -> e, each in a shard of its own: asked for k, all three are needed.
#[test]
fn shards_of_targets_and_of_their_targets() {
    let store = store(1);
    let mut w = store.worker(0);
    let keys: [&[u8]; 3] = [b"k", b"d", b"e"];
    wait(&mut w, &waiter(1, 0, &[b"k"], Some(b"d")), &[b"k", b"d"]);
    wait(&mut w, &waiter(2, 0, &[b"d"], Some(b"e")), &[b"d", b"e"]);
    wait(&mut w, &waiter(3, 0, &[b"e"], Some(b"k")), &[b"e", b"k"]);
    with(&mut w, 0, &[b"k"], |tx| {
        let mut list = shards(tx, &[b"k"]);
        let mut rounds = 0;
        while tx.widen(&mut list, [&b"k"[..]]) {
            tx.hold(&list);
            rounds += 1;
        }
        assert_eq!((rounds, list), (2, shards(tx, &keys)));
        put(tx, b"k");
        assert_eq!(take_all(tx), [1]);
    });
    with(&mut w, 0, &[b"d"], |tx| {
        put(tx, b"d");
        let ready = tx.next_ready().expect("somebody waits for d");
        assert!(matches!(tx.next_waiter(&tx.key(b"d")), NextWaiter::Far), "e is not held");
        assert!(tx.regather(ready), "nobody else holds a shard");
        assert_eq!(take_all(tx), [2]);
    });
}

#[test]
fn keys_in_the_order_in_which_they_became_ready() {
    let store = store(1);
    let mut w = store.worker(0);
    for (client, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
        wait(&mut w, &waiter(client, 0, &[key], None), &[key]);
    }
    let taken = with(&mut w, 0, &[b"a", b"b", b"c"], |tx| {
        for key in [b"b", b"c", b"b", b"a"] {
            put(tx, key);
        }
        take_all(tx)
    });
    assert_eq!(taken, [2, 3, 1]);
}

#[test]
fn an_exchange_of_databases_makes_keys_ready() {
    let store = store(1);
    let mut w = store.worker(0);
    wait(&mut w, &waiter(1, 1, &[b"a"], Some(b"t")), &[b"a", b"t"]);
    wait(&mut w, &waiter(2, 0, &[b"b"], None), &[b"b"]);
    assert_eq!(set(&mut w, 0, b"a"), []);
    let alone = store.gate().exclusive(0);
    store.swap_db(0, 1);
    let mut tx = Tx::new(&store, w.parts().1, 0);
    tx.recheck(Default::default());
    assert_eq!(take_all(&mut tx), [1]);
    tx.finish();
    drop(alone);
    assert_eq!(set(&mut w, 0, b"b"), [2], "who waits in a database goes on waiting in it");
}

/// Claims from several threads and cancellations from another: each waiter ends once.
#[test]
fn one_of_many_ends_a_wait() {
    const WAITERS: u64 = 2_000;
    let all: Vec<_> = (0..WAITERS).map(|client| waiter(client, 0, &[b"a"], None)).collect();
    let ended = AtomicUsize::new(0);
    thread::scope(|s| {
        for by in 0..4 {
            let (all, ended) = (&all, &ended);
            s.spawn(move || {
                for waiter in all {
                    let won = if by == 0 { waiter.cancel() } else { waiter.claim() };
                    ended.fetch_add(usize::from(won), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(ended.load(Ordering::Relaxed), all.len());
}
