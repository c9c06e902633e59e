//! At the limit, a thread that holds a shard for long stops no writer of another shard, and no writer makes room for all. Nothing
//! is judged by time: the shard is held until the writes are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::string_writes::set;
use varve_store::{LogGeometry, NotAdmitted, Options, Policy, Store, StoreWorker, StringForm, Ttl, Tx};

const LIMIT: u64 = 12 << 20;
const VALUE_BYTES: usize = 1000;
/// Keys that fit under the limit, and writes beside the held shard: several times the limit.
const KEYS: usize = 8000;
const WRITES: usize = 40_000;

fn store() -> Arc<Store> {
    let geometry = LogGeometry {
        segment_bytes: 1 << 20,
        piece_bytes: 16 << 10,
        extent_min_bytes: 64 << 10,
        release_bytes: 64 << 10,
        reserve_bytes: 1 << 30,
    };
    Store::new(&Options { seed: 3, workers: 2, geometry, ..Options::default() }).expect("an address range")
}

/// Issue 11: where all keys that may be evicted were in shards that were held just then, a write was refused.
#[test]
fn eviction_waits_for_the_shard_that_has_all_keys() {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    let options = Options { seed: 3, workers: 2, shards: 1, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    let mut worker = store.worker(0);
    for n in 0..1000 {
        let (store, local) = worker.parts();
        let _inside = store.gate().enter(local.id());
        let mut tx = Tx::new(store, local, 0);
        let name = format!("key:{n}");
        let key = tx.key(name.as_bytes());
        tx.hold(&[tx.shard_of(key.hash)]);
        tx.set(&key, &[b'v'; VALUE_BYTES], Ttl::At(i64::MAX / 4), StringForm::Auto);
        tx.finish();
    }
    store.set_limit(store.used_memory(), Policy::VolatileRandom);
    let (is_held, wait_held) = channel();
    let asked = Arc::new(AtomicBool::new(false));
    let holder = {
        let (store, asked) = (Arc::clone(&store), Arc::clone(&asked));
        std::thread::spawn(move || {
            let mut worker = store.worker(1);
            let (store, local) = worker.parts();
            let _inside = store.gate().enter(local.id());
            let mut tx = Tx::new(store, local, 0);
            tx.hold(&[0]);
            is_held.send(()).expect("the test waits");
            // Until it is asked, and for some thousand turns of the writer more.
            while !asked.load(Relaxed) {
                std::thread::yield_now();
            }
            (0..10_000).for_each(|_| std::thread::yield_now());
            tx.finish();
        })
    };
    wait_held.recv().expect("the holder sends");
    asked.store(true, Relaxed);
    assert!(worker.admit(VALUE_BYTES as u64).is_ok(), "there are keys to evict");
    holder.join().expect("the holder ends");
    assert!(store.totals().evicted > 0);
    worker.park();
    store.verify();
}

/// Draws that found every lock busy and drains that found no victim came in turns, and the wait for the locks began anew with each:
/// a write was refused after a million of them.
#[test]
fn a_write_is_put_back_while_all_keys_are_held_and_no_segment_is_sealed() {
    for policy in [Policy::AllKeysRandom, Policy::AllKeysLru] {
        let store = store();
        let mut worker = store.worker(0);
        (0..100).for_each(|n| set(&mut worker, n, VALUE_BYTES));
        store.set_limit(store.used_memory(), policy);
        let mut other = store.worker(1);
        let (held, local) = other.parts();
        let _inside = held.gate().enter(local.id());
        let mut tx = Tx::new(held, local, 0);
        let mut all: Vec<u16> = (0..100).map(|n| tx.shard_of(tx.key(format!("key:{n}").as_bytes()).hash)).collect();
        all.sort_unstable();
        all.dedup();
        tx.hold(&all);
        let admitted = std::thread::scope(|scope| {
            let admitting = scope.spawn(|| worker.admit_soon(VALUE_BYTES as u64));
            admitting.join().expect("it ends")
        });
        assert_eq!(admitted, Err(NotAdmitted::Busy), "{policy:?}");
        tx.finish();
    }
}

/// The background that found all held wants to try again a millisecond later. A turn of its worker before that lost the wish: the
/// limit stayed passed until something else woke it.
#[test]
fn the_background_comes_back_to_what_was_held_however_often_its_worker_turns() {
    const NOW_MS: i64 = 1_795_000_000_000;
    let (store, turn) = (store(), Duration::from_millis(1));
    let mut worker = store.worker(0);
    (0..1000).for_each(|n| set(&mut worker, n, VALUE_BYTES));
    let ((is_held, wait_held), (let_go, wait_end)) = (channel(), channel::<()>());
    let holder = {
        let store = Arc::clone(&store);
        std::thread::spawn(move || {
            let mut worker = store.worker(1);
            worker.inside(0, |tx| {
                tx.hold(&(0..store.shard_count() as u16).collect::<Vec<_>>());
                is_held.send(()).expect("the test waits");
                wait_end.recv().expect("the test says so");
            });
        })
    };
    wait_held.recv().expect("the holder sends");
    let limit = store.used_memory() / 2;
    store.set_limit(limit, Policy::AllKeysRandom);
    let came_to_rest = (0..2000).any(|_| worker.background(NOW_MS, turn).is_none_or(|next| next > NOW_MS));
    assert!(came_to_rest, "it does not ask all the time");
    for _ in 0..3 {
        let next = worker.background(NOW_MS, turn);
        assert!(next.is_some_and(|next| next <= NOW_MS + 2), "{next:?}: it is not to be called again");
    }
    let_go.send(()).expect("the holder waits");
    holder.join().expect("the holder ends");
    let mut turns = (0..100_000).map(|n| worker.background(NOW_MS + n / 10, turn));
    assert!(turns.any(|_| store.used_memory() <= limit), "the limit is kept again");
    worker.park();
    store.verify();
}

/// The first write behind buffers that had grown (a SORT's, by 100 MB at once) made up for all of them, and its worker served
/// nobody for that long.
#[test]
fn a_write_makes_its_own_room_and_leaves_that_of_buffers_to_all() {
    const MANY: usize = 100_000;
    for policy in [Policy::VolatileRandom, Policy::AllKeysRandom] {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let options = Options { seed: 3, workers: 2, geometry, ..Options::default() };
        let store = Store::new(&options).expect("an address range");
        let mut worker = store.worker(0);
        let set = |tx: &mut Tx<'_>, n: usize| {
            let name = format!("key:{n}");
            let key = tx.key(name.as_bytes());
            tx.hold(&[tx.shard_of(key.hash)]);
            tx.set(&key, &[b'v'; VALUE_BYTES], Ttl::At(i64::MAX / 4), StringForm::Auto);
        };
        (0..MANY).for_each(|n| worker.inside(0, |tx| set(tx, n)));
        let limit = store.used_memory();
        store.set_limit(limit, policy);
        // Half of what the keys have.
        let buffers = (MANY / 2 * VALUE_BYTES) as u64;
        store.set_outside_bytes(store.outside_bytes() + buffers);
        // A transaction writes more than it is admitted for: it waits for the room of all.
        assert_eq!(worker.admit_soon(VALUE_BYTES as u64), Err(NotAdmitted::Busy), "{policy:?}");
        let write = |worker: &mut StoreWorker, n: usize| {
            worker.inside(0, |tx| {
                assert_eq!(tx.admit(VALUE_BYTES as u64), Ok(()), "{policy:?}");
                set(tx, n);
            });
        };
        write(&mut worker, MANY);
        let evicted = store.totals().evicted;
        assert!(evicted > 0 && evicted < MANY as u64 / 2, "{policy:?}: {evicted} keys at once");
        for n in 1..100_000 {
            write(&mut worker, MANY + n);
            assert!(store.used_memory() < 2 * limit, "{policy:?}: what is dead is given back meanwhile");
            if store.used_memory() <= limit + buffers / 4 {
                break;
            }
        }
        assert!(store.used_memory() <= limit + buffers / 4, "{policy:?}: all of them make up for it");
        assert!(
            (0..100_000).any(|_| worker.admit_soon(VALUE_BYTES as u64) == Ok(())),
            "{policy:?}: then the transaction has its turn"
        );
        assert!(store.used_memory() <= limit, "{policy:?}");
        worker.park();
        store.verify();
    }
}

/// The shards of all keys.
fn shards(worker: &mut StoreWorker) -> Vec<u16> {
    let (store, local) = worker.parts();
    let tx = Tx::new(store, local, 0);
    (0..KEYS + WRITES).map(|n| tx.shard_of(tx.key(format!("key:{n}").as_bytes()).hash)).collect()
}

/// Writes keys of other shards than `held` at the limit; how many were refused.
fn write_others(worker: &mut StoreWorker, shards: &[u16], held: u16, fresh: bool) -> usize {
    let mut refused = 0;
    let keys = (0..WRITES).map(|write| if fresh { KEYS + write } else { write % KEYS });
    for n in keys.filter(|&n| shards[n] != held) {
        match worker.admit(VALUE_BYTES as u64 + 100) {
            Ok(()) => set(worker, n, VALUE_BYTES),
            Err(_) => refused += 1,
        }
    }
    refused
}

#[test]
fn a_shard_that_is_held_stops_no_writer_of_another() {
    for (policy, fresh) in [(Policy::NoEviction, false), (Policy::AllKeysRandom, true), (Policy::AllKeysLru, true)] {
        let store = store();
        let mut worker = store.worker(0);
        for n in 0..KEYS {
            set(&mut worker, n, VALUE_BYTES);
        }
        store.set_limit(LIMIT, policy);
        let shards = shards(&mut worker);
        let held = shards[7];
        let (is_held, wait_held) = channel();
        let (done, wait_done) = channel::<()>();
        let holder = {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                let mut worker = store.worker(1);
                let (store, local) = worker.parts();
                let _inside = store.gate().enter(local.id());
                let mut tx = Tx::new(store, local, 0);
                tx.hold(&[held]);
                is_held.send(()).expect("the test waits");
                wait_done.recv().expect("the test sends");
                tx.finish();
            })
        };
        wait_held.recv().expect("the holder sends");
        let refused = write_others(&mut worker, &shards, held, fresh);
        let used = store.used_memory();
        done.send(()).expect("the holder waits");
        holder.join().expect("the holder ends");
        assert_eq!(refused, 0, "{policy:?}: of {WRITES} writes");
        assert!(used <= LIMIT, "{policy:?}: {used} bytes in use");
        worker.park();
        store.verify();
        // Victims that were left are drained once the shard is free.
        for n in 0..KEYS {
            if worker.admit(VALUE_BYTES as u64 + 100).is_ok() {
                set(&mut worker, n, VALUE_BYTES);
            }
        }
        worker.park();
        store.verify();
        assert!(store.used_memory() <= LIMIT);
    }
}
