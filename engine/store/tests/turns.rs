//! A worker's turn writes nothing that all workers share while no work is owed: 64 workers on threads, counted.
//!
//! Writes are counted by `varve_base::shared`, in debug builds; in release builds nothing is counted and nothing is asked.

#![cfg(debug_assertions)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_base::shared::writes;
use varve_store::{Options, Store, StoreWorker, StringForm, Ttl};

const WORKERS: usize = 64;
/// Keys of each worker: as short as the turns are, so that reclaim has no reason to begin.
const KEYS: usize = 200;
/// Turns of each worker.
const TURNS: i64 = 400;
const BEGIN_MS: i64 = 1_795_000_000_000;

fn key_of(worker: usize, n: usize) -> String {
    format!("key:{worker}:{n}")
}

fn set(worker: &mut StoreWorker, name: &str, value: &[u8]) {
    worker.inside(0, |tx| {
        let key = tx.key(name.as_bytes());
        tx.hold(&[tx.shard_of(key.hash)]);
        tx.set(&key, value, Ttl::Clear, StringForm::Auto);
    });
}

fn get(worker: &mut StoreWorker, name: &str) {
    worker.inside(0, |tx| {
        let key = tx.key(name.as_bytes());
        tx.hold(&[tx.shard_of(key.hash)]);
        assert!(tx.get(&key).expect("a string").is_some());
    });
}

fn rest(worker: &mut StoreWorker, now_ms: i64) {
    for _ in 0..200_000 {
        if worker.background(now_ms, Duration::from_millis(1)).is_none_or(|next| next > now_ms) {
            return;
        }
    }
    panic!("the background does not come to rest");
}

/// A store with keys of all workers, in which nothing is owed.
fn rested() -> Arc<Store> {
    let store = Store::new(&Options { workers: WORKERS, ..Options::default() }).expect("an address range");
    let mut workers: Vec<StoreWorker> = (0..WORKERS).map(|worker| store.worker(worker)).collect();
    for (worker, of) in workers.iter_mut().enumerate() {
        (0..KEYS).for_each(|n| set(of, &key_of(worker, n), b"value"));
    }
    for turn in 0..500 {
        workers.iter_mut().for_each(|worker| rest(worker, BEGIN_MS + turn * 10));
    }
    store
}

/// Writes that `turn` of all workers, each on a thread of its own, makes in all.
fn count(store: &Arc<Store>, turn: impl Fn(&mut StoreWorker, usize, i64) + Sync) -> u64 {
    std::thread::scope(|s| {
        let spawn = |id| {
            let turn = &turn;
            s.spawn(move || {
                let mut worker = store.worker(id);
                // The first turn of a thread looks at what is due.
                turn(&mut worker, id, 0);
                let before = writes();
                (1..=TURNS).for_each(|n| turn(&mut worker, id, n));
                writes() - before
            })
        };
        let threads: Vec<_> = (0..WORKERS).map(spawn).collect();
        // Joined one by one: the thread sanitizer does not see the end of a scope.
        threads.into_iter().map(|thread| thread.join().expect("its turns end")).sum()
    })
}

#[test]
fn a_turn_writes_nothing_that_all_workers_share() {
    let store = rested();
    let now_ms = BEGIN_MS + 5000;
    let still = count(&store, |worker, _, _| {
        worker.background(now_ms, Duration::from_micros(25));
    });
    assert_eq!(still, 0, "no time passes, nothing is owed");
    let read = count(&store, |worker, id, n| {
        get(worker, &key_of(id, n as usize % KEYS));
        worker.background(now_ms, Duration::from_micros(25));
    });
    assert_eq!(read, 0, "batches that read, and background between them");
    // Time passes: one worker of all looks every 8 ms at what the background decides by, and may write.
    let start = Instant::now();
    let passing = count(&store, |worker, _, _| {
        worker.background(now_ms + 10 + start.elapsed().as_millis() as i64, Duration::from_micros(25));
    });
    let (turns, looks) = (WORKERS as u64 * TURNS as u64, start.elapsed().as_millis() as u64 / 8 + 2);
    println!("{passing} shared writes in {turns} turns, {looks} looks");
    assert!(passing <= looks * 10, "{passing} writes for {looks} looks");
    let written = count(&store, |worker, id, n| set(worker, &key_of(id, n as usize % KEYS), &[b'v'; 60]));
    println!("{:.2} shared writes a batch with one SET, of which half append", written as f64 / turns as f64);
    assert!(written <= 4 * turns, "{written} in {turns} batches, of which half append");
    store.verify();
}
