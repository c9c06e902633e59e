//! Several workers on one store: random commands on shared keys, tiny segments, reclaim at the limit, growth and
//! shrinking; then `verify()`. Counters that all workers raise tell whether an update was ever lost.
//!
//! `VARVE_SEED` sets the seed, `VARVE_STRESS_MS` the length. Small enough to run under the thread sanitizer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use varve_base::rng::Rng;
use varve_store::{Form, Geometry, Options, Policy, Store, Ttl, Tx, Worker};

const WORKERS: usize = 4;
const COUNTERS: u64 = 8;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

fn store(seed: u64, policy: Policy) -> Arc<Store> {
    let geometry = Geometry {
        segment_bytes: 64 << 10,
        piece_bytes: 4 << 10,
        run_min_bytes: 8 << 10,
        release_bytes: 4 << 10,
        reserve_bytes: 1 << 30,
    };
    let options = Options { workers: WORKERS, shards: 16, seed, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    store.set_limit(8 << 20, policy);
    store
}

/// Runs `f` as one command on these keys, trying again while a shard is busy.
fn command<R>(worker: &mut Worker, keys: &[&[u8]], f: impl FnOnce(&mut Tx<'_>) -> R) -> R {
    let Worker { store, local, .. } = worker;
    let _inside = store.gate().enter(local.id());
    let mut tx = Tx::new(store, local, 0);
    let mut shards: Vec<u16> = keys.iter().map(|k| tx.shard_of(tx.key(k).hash)).collect();
    shards.sort_unstable();
    shards.dedup();
    while !tx.try_hold(&shards) {
        std::thread::yield_now();
    }
    let result = f(&mut tx);
    drop(tx);
    local.park(store);
    result
}

fn raise(worker: &mut Worker, key: &[u8]) -> u64 {
    command(worker, &[key], |tx| {
        let k = tx.key(key);
        let old: u64 = match tx.peek(&k).expect("a string") {
            Some(text) => std::str::from_utf8(text).expect("digits").parse().expect("a number"),
            None => 0,
        };
        tx.set(&k, (old + 1).to_string().as_bytes(), Ttl::Keep, Form::Auto);
        old + 1
    })
}

fn random_command(worker: &mut Worker, rng: &mut Rng, now: i64) {
    let key = format!("key:{}", rng.below(3000)).into_bytes();
    let other = format!("key:{}", rng.below(3000)).into_bytes();
    let value = vec![b'v'; if rng.below(200) == 0 { 10_000 } else { rng.below(400) as usize }];
    match rng.below(12) {
        0..=3 => {
            let ttl = if rng.below(3) == 0 { Ttl::At(now + rng.below(50) as i64) } else { Ttl::Clear };
            command(worker, &[&key], |tx| tx.set(&tx.key(&key), &value, ttl, Form::Auto));
        }
        4 | 5 => {
            let length = command(worker, &[&key], |tx| tx.get(&tx.key(&key)).expect("a string").map(<[u8]>::len));
            assert!(length.is_none_or(|n| n <= 600_000), "{length:?}");
        }
        6 => command(worker, &[&key], |tx| {
            let k = tx.key(&key);
            if tx.peek(&k).expect("a string").is_none_or(|v| v.len() < 50_000) {
                tx.append(&k, &value).expect("a string");
            }
        }),
        7 => {
            command(worker, &[&key], |tx| tx.remove(&tx.key(&key)));
        }
        8 => {
            command(worker, &[&key, &other], |tx| tx.rename(&tx.key(&key), &tx.key(&other)));
        }
        9 => {
            command(worker, &[&key, &other], |tx| tx.copy(&tx.key(&key), &tx.key(&other)));
        }
        10 => {
            command(worker, &[&key], |tx| tx.set_expiry(&tx.key(&key), Some(now + 20)));
        }
        _ => {
            let mut seen = 0;
            let store = Arc::clone(&worker.store);
            let _inside = store.gate().enter(worker.id());
            let _ = store.scan(worker, 0, rng.below(16) << 36, 20, &mut |_, _| seen += 1);
        }
    }
}

fn run(seed: u64, policy: Policy) {
    println!("VARVE_SEED={seed} policy {policy:?}");
    let store = store(seed, policy);
    let raised: Arc<Vec<AtomicU64>> = Arc::new((0..COUNTERS).map(|_| AtomicU64::new(0)).collect());
    let start = Arc::new(Barrier::new(WORKERS));
    let length = Duration::from_millis(setting("VARVE_STRESS_MS", 1500));
    let threads: Vec<_> = (0..WORKERS)
        .map(|id| {
            let (store, raised, start) = (Arc::clone(&store), Arc::clone(&raised), Arc::clone(&start));
            std::thread::spawn(move || {
                let mut worker = store.worker(id);
                let mut rng = Rng::seeded(seed ^ id as u64);
                start.wait();
                let begin = Instant::now();
                while begin.elapsed() < length {
                    let now = 1_000_000 + begin.elapsed().as_millis() as i64;
                    worker.set_now(now);
                    let admitted = store.admit(&mut worker.local, 20_000).is_ok();
                    if admitted {
                        random_command(&mut worker, &mut rng, now);
                    }
                    if policy == Policy::NoEviction {
                        let n = rng.below(COUNTERS);
                        raise(&mut worker, format!("counter:{n}").as_bytes());
                        raised[n as usize].fetch_add(1, Relaxed);
                    }
                    if rng.below(500) == 0 {
                        let store = Arc::clone(&worker.store);
                        let _alone = store.gate().alone(id);
                        store.swap_db(1, 2);
                        if policy == Policy::AllKeysRandom && rng.below(20) == 0 {
                            store.flush_all(&mut worker);
                        }
                    }
                    worker.background(now, Duration::from_micros(100));
                }
                worker.park();
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a worker ends well");
    }
    store.verify();
    if policy == Policy::NoEviction {
        check_counters(&store, &raised);
    }
    let totals = store.totals();
    println!("{totals:?}");
    assert!(totals.moved > 0, "reclaim ran");
}

fn check_counters(store: &Arc<Store>, raised: &[AtomicU64]) {
    let mut seen = 0;
    let worker = &mut store.worker(0);
    for (n, count) in raised.iter().enumerate() {
        let key = format!("counter:{n}").into_bytes();
        let text = command(worker, &[&key], |tx| tx.get(&tx.key(&key)).expect("a string").map(<[u8]>::to_vec));
        let expected = count.load(Relaxed);
        let found = text.map_or(0, |t| String::from_utf8(t).expect("digits").parse().expect("a number"));
        assert_eq!(found, expected, "an update of counter {n} was lost");
        seen += 1;
    }
    assert_eq!(seen, COUNTERS);
}

#[test]
fn no_update_is_lost_at_the_limit() {
    run(setting("VARVE_SEED", 1), Policy::NoEviction);
}

#[test]
fn random_eviction_with_flushes_keeps_log_and_index_in_step() {
    run(setting("VARVE_SEED", 2), Policy::AllKeysRandom);
}
