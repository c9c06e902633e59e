//! Several workers on one store: random commands on shared keys of every type, tiny segments, reclaim at the limit, growth
//! and shrinking, limits of encodings that change meanwhile; then `verify()`. What all workers raise, push and pop tells
//! whether an update was ever lost, and a store whose keys are all removed must be empty to the byte.
//!
//! ```text
//! kept    database 0: counters; a hash, a sorted set, a list and a set that move between two names each
//! shared  databases 0 to 3, SWAPDB and FLUSHDB of 1 to 3: whatever comes
//! mixed   database 0, where nothing is evicted: transfers under WATCH, clients that wait (stress_sessions/mod.rs)
//! ```
//! In both runs somebody observes the store, and wants all events.
//! `VARVE_SEED` sets the seed, `VARVE_STRESS_SECONDS` the length. Small enough to run under the thread sanitizer.

mod stress_sessions;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use stress_sessions::{Hand, Mixed};
use varve_base::rng::Rng;
use varve_store::{
    Effect, EventClass, Key, Limits, ListEnd, ListPart, LogGeometry, Options, PackedEntry, Policy, SetOp, Store,
    StoreWorker, StringForm, Ttl, Tx, Type, ZAdd, ZRange,
};

const WORKERS: usize = 4;
const COUNTERS: u64 = 8;
/// Fields and members of what is kept.
const FIELDS: u64 = 600;
/// Keys that are shared.
const KEYS: u64 = 500;
/// Without eviction, so that all that is kept has room; with it, half of that.
const LIMIT_BYTES: u64 = 3 << 20;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

fn length() -> Duration {
    let seconds = std::env::var("VARVE_STRESS_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(1.5))
}

fn store(seed: u64, policy: Policy) -> Arc<Store> {
    let geometry = LogGeometry {
        segment_bytes: 64 << 10,
        piece_bytes: 4 << 10,
        extent_min_bytes: 8 << 10,
        release_bytes: 4 << 10,
        reserve_bytes: 1 << 30,
    };
    // Every other seed has a drain for each worker.
    let workers_a_drain = if seed.is_multiple_of(2) { 1 } else { WORKERS };
    let options =
        Options { databases: 4, workers: WORKERS, workers_a_drain, shards: 16, seed, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    let limit = if policy == Policy::NoEviction { LIMIT_BYTES } else { LIMIT_BYTES / 2 };
    store.set_limit(limit, policy);
    store
}

/// Runs `f` as one command on these keys of databases, trying again while a shard is busy.
fn command_in<R>(worker: &mut StoreWorker, db: u32, keys: &[(u32, &[u8])], f: impl FnOnce(&mut Tx<'_>) -> R) -> R {
    let (store, local) = worker.parts();
    let _inside = store.gate().enter(local.id());
    let mut tx = Tx::new(store, local, db);
    let mut shards: Vec<u16> = keys.iter().map(|(db, k)| tx.shard_of(tx.key_in(*db, k).hash)).collect();
    shards.sort_unstable();
    shards.dedup();
    while !tx.try_hold(&shards) {
        std::thread::yield_now();
    }
    let result = f(&mut tx);
    tx.end_command(&|_| unreachable!("nobody keeps effects"));
    drop(tx);
    local.park(store);
    result
}

/// Runs a command in database 0.
fn command<R>(worker: &mut StoreWorker, keys: &[&[u8]], f: impl FnOnce(&mut Tx<'_>) -> R) -> R {
    let keys: Vec<(u32, &[u8])> = keys.iter().map(|&k| (0, k)).collect();
    command_in(worker, 0, &keys, f)
}

fn alone(worker: &mut StoreWorker, f: impl FnOnce(&mut StoreWorker)) {
    let store = Arc::clone(worker.store());
    let _alone = store.gate().exclusive(worker.id());
    f(worker);
}

/// The changes that all workers made to the kept keys.
#[derive(Default)]
struct Tally {
    counters: [AtomicU64; COUNTERS as usize],
    fields: AtomicU64,
    scores: AtomicU64,
    /// Sums of the numbers pushed and popped.
    pushed: AtomicU64,
    popped: AtomicU64,
    members: AtomicU64,
}

fn raise(worker: &mut StoreWorker, key: &[u8]) {
    command(worker, &[key], |tx| {
        let k = tx.key(key);
        let old: u64 = match tx.peek(&k).expect("a string") {
            Some(text) => std::str::from_utf8(text).expect("digits").parse().expect("a number"),
            None => 0,
        };
        tx.set(&k, (old + 1).to_string().as_bytes(), Ttl::Keep, StringForm::Auto);
        tx.did(&k, Effect::sent(EventClass::String, "incrby", 1));
    });
}

/// Runs `f` on the one of two names that has a key (the first without one), which is then often renamed to the other.
fn kept<R>(worker: &mut StoreWorker, rng: &mut Rng, name: &str, f: impl FnOnce(&mut Tx<'_>, &Key<'_>) -> R) -> R {
    let names = [format!("{name}:a").into_bytes(), format!("kept {name} elsewhere").into_bytes()];
    let rename = rng.below(20) == 0;
    command(worker, &[&names[0], &names[1]], |tx| {
        let [a, b] = [tx.key(&names[0]), tx.key(&names[1])];
        let (this, other) = if tx.exists(&b) { (b, a) } else { (a, b) };
        assert!(!tx.exists(&other), "one of the two names only");
        let result = f(tx, &this);
        if rename && tx.exists(&this) {
            assert!(tx.rename(&this, &other));
        }
        result
    })
}

fn number(entry: &[u8]) -> u64 {
    std::str::from_utf8(entry).expect("digits").parse().expect("a number")
}

/// One change of something that is kept.
fn keep(worker: &mut StoreWorker, rng: &mut Rng, tally: &Tally, growing: bool) {
    let field = format!("field {}", rng.below(FIELDS));
    match rng.below(5) {
        0 => {
            let n = rng.below(COUNTERS);
            raise(worker, format!("counter:{n}").as_bytes());
            tally.counters[n as usize].fetch_add(1, Relaxed);
        }
        1 => {
            kept(worker, rng, "hash", |tx, k| tx.hash_add(k, field.as_bytes(), 1)).expect("numbers");
            tally.fields.fetch_add(1, Relaxed);
        }
        2 => {
            let how = ZAdd { incr: true, ..ZAdd::default() };
            kept(worker, rng, "zset", |tx, k| tx.zset_add(k, field.as_bytes(), 1.0, how)).expect("a sorted set");
            tally.scores.fetch_add(1, Relaxed);
        }
        3 => keep_list(worker, rng, tally, growing),
        _ => {
            let member = rng.next_u64().to_string();
            if growing || rng.below(3) == 0 {
                let added = kept(worker, rng, "set", |tx, k| tx.set_add(k, [member.as_bytes(), field.as_bytes()]));
                tally.members.fetch_add(added.expect("a set") as u64, Relaxed);
            } else {
                let mut shown = 0;
                let many = rng.below(5);
                let popped = kept(worker, rng, "set", |tx, k| tx.set_pop(k, many, |_| shown += 1));
                assert_eq!(popped, Ok(shown));
                tally.members.fetch_sub(shown as u64, Relaxed);
            }
        }
    }
}

fn keep_list(worker: &mut StoreWorker, rng: &mut Rng, tally: &Tally, growing: bool) {
    let end = if rng.below(2) == 0 { ListEnd::Front } else { ListEnd::Back };
    if growing || rng.below(3) == 0 {
        let values: Vec<u64> = (0..1 + rng.below(8)).map(|_| rng.below(1 << 40)).collect();
        let texts: Vec<String> = values.iter().map(|v| v.to_string()).collect();
        let texts = texts.iter().map(|t| t.as_bytes());
        kept(worker, rng, "list", |tx, k| tx.list_push(k, end, texts, false)).expect("a list");
        tally.pushed.fetch_add(values.iter().sum(), Relaxed);
        return;
    }
    let (count, mut sum) = (1 + rng.below(12), 0);
    let take = |part: ListPart<'_>| {
        if let ListPart::Element(text) = part {
            sum += number(text);
        }
    };
    kept(worker, rng, "list", |tx, k| tx.list_pop_many(k, end, count, take)).expect("a list");
    tally.popped.fetch_add(sum, Relaxed);
}

/// Whatever it was: a key of another type, nothing to do, done.
fn done<T>(_: T) {}

/// The database and name of a shared key.
fn shared_key(rng: &mut Rng) -> (u32, Vec<u8>) {
    (rng.below(4) as u32, format!("key:{}", rng.below(KEYS)).into_bytes())
}

fn words(rng: &mut Rng, many: u64) -> Vec<Vec<u8>> {
    let integers = rng.below(2) == 0;
    (0..many)
        .map(|_| match rng.below(60) {
            0 => vec![b'w'; rng.below(3000) as usize],
            1..=5 => vec![b'x'; rng.below(90) as usize],
            _ if integers => (rng.below(2000) as i64 - 500).to_string().into_bytes(),
            _ => format!("word {}", rng.below(2000)).into_bytes(),
        })
        .collect()
}

/// One command on shared keys. The key may be of another type: then it does nothing.
fn shared(worker: &mut StoreWorker, rng: &mut Rng, now: i64) {
    let ((db, key), (db2, other)) = (shared_key(rng), shared_key(rng));
    let many = if rng.below(30) == 0 { 400 } else { 1 + rng.below(12) };
    let words = words(rng, many);
    let slices = || words.iter().map(Vec::as_slice);
    let both = [(db, key.as_slice()), (db2, other.as_slice())];
    let roll = rng.below(100);
    let at = now + rng.below(80) as i64;
    match roll {
        0..=29 => command_in(worker, db, &both[..1], |tx| add(tx, &tx.key(&key), roll % 6, &slices, at)),
        30..=54 => command_in(worker, db, &both[..1], |tx| change(tx, &tx.key(&key), roll % 13, &slices, many)),
        55..=62 => command_in(worker, db, &both[..1], |tx| done(tx.remove(&tx.key(&key)))),
        63..=68 => command_in(worker, db, &both[..1], |tx| done(tx.set_expiry(&tx.key(&key), Some(at)))),
        69..=76 => command_in(worker, db, &both, |tx| done(tx.rename(&tx.key(&key), &tx.key_in(db2, &other)))),
        77..=81 => command_in(worker, db, &both, |tx| done(tx.copy(&tx.key(&key), &tx.key_in(db2, &other)))),
        82..=90 => command_in(worker, db, &both, |tx| {
            let (from, to) = (tx.key(&key), tx.key_in(db2, &other));
            match roll % 3 {
                0 => done(tx.list_move(&from, &to, ListEnd::Front, ListEnd::Back, |_| ())),
                1 => done(tx.set_take_to_move(&from, &to, &words[0]).and_then(|there| {
                    if there {
                        tx.set_add(&to, [&*words[0]])?;
                    }
                    Ok(there)
                })),
                _ => done(tx.set_store(SetOp::Union, &to, &[from, to])),
            }
        }),
        _ => command_in(worker, db, &both[..1], |tx| look(tx, &tx.key(&key))),
    }
}

fn add<'w, I: Iterator<Item = &'w [u8]> + Clone>(tx: &mut Tx<'_>, k: &Key<'_>, what: u64, w: &dyn Fn() -> I, at: i64) {
    match what {
        0 => {
            tx.set(k, w().next().expect("a word"), if at % 3 == 0 { Ttl::At(at) } else { Ttl::Clear }, StringForm::Auto)
        }
        1 => done(tx.list_push(k, if at % 2 == 0 { ListEnd::Front } else { ListEnd::Back }, w(), false)),
        2 => done(tx.set_add(k, w())),
        3 => done(tx.hash_set(k, w().zip(w().skip(1)))),
        4 => w().enumerate().for_each(|(n, word)| done(tx.zset_add(k, word, (n % 7) as f64, ZAdd::default()))),
        _ => {
            let mut items: Vec<(&[u8], f64)> = w().map(|word| (word, word.len() as f64)).collect();
            items.sort_by(|a, b| a.0.cmp(b.0));
            items.dedup_by(|a, b| a.0 == b.0);
            tx.zset_store(k, &mut items);
        }
    }
}

fn change<'w, I: Iterator<Item = &'w [u8]>>(tx: &mut Tx<'_>, k: &Key<'_>, what: u64, w: &dyn Fn() -> I, many: u64) {
    let word = w().next().expect("a word");
    match what {
        0 => done(tx.list_pop_many(k, ListEnd::Front, many, |_| ())),
        1 => done(tx.list_pop(k, ListEnd::Back, |_| ())),
        2 => done(tx.list_trim(k, many as i64, -2)),
        3 => done(tx.list_remove(k, word, many, ListEnd::Back)),
        4 => done(tx.list_set(k, many as i64, word)),
        5 => done(tx.list_insert(k, b"5", many.is_multiple_of(2), word)),
        6 => done(tx.set_remove(k, w())),
        7 => done(tx.set_pop(k, many, |_| ())),
        8 => done(tx.hash_remove(k, w())),
        9 => w().for_each(|word| done(tx.zset_remove(k, word))),
        10 => done(tx.zset_pop(k, many.is_multiple_of(2), many as usize, &mut |_, _| ())),
        11 => done(tx.zset_remove_range(k, &ZRange::Rank { start: 2, stop: 2 + many })),
        _ => done(tx.append(k, word)),
    }
}

/// Reads a key whole, by whatever way its type has.
fn look(tx: &mut Tx<'_>, k: &Key<'_>) {
    let bytes = tx.object(k).map(|object| object.bytes);
    assert!(bytes.is_none_or(|bytes| bytes > 0), "a key takes room");
    if tx.get(k).is_ok() {
        return;
    }
    let mut seen = 0;
    let _ = tx.list_range(k, 0, -1, |part| seen += usize::from(matches!(part, ListPart::Element(_))));
    if let Ok(Some(set)) = tx.set_view(k) {
        set.for_each(|_: PackedEntry<'_>| seen += 1);
        assert_eq!(seen, set.len());
    }
    let _ = tx.hash_for_each(k, |_, _| seen += 1);
    let _ = tx.zset_for_each(k, &mut |_, _| seen += 1);
    assert!(seen > 0, "no collection is empty");
}

/// A command that concerns everything, or limits.
fn wide(worker: &mut StoreWorker, rng: &mut Rng, flush_all: bool) {
    match rng.below(8) {
        0..=2 => {
            let (a, b) = (1 + rng.below(3) as u32, 1 + rng.below(3) as u32);
            alone(worker, |w| w.store().swap_db(a, b));
        }
        3 if rng.below(8) == 0 => {
            let db = 1 + rng.below(3) as u32;
            alone(worker, |w| Arc::clone(w.store()).flush_db(w, db));
        }
        4 if flush_all && rng.below(10) == 0 => alone(worker, |w| Arc::clone(w.store()).flush_all(w)),
        5 => {
            let few = rng.below(3) == 0;
            let limits = Limits {
                list_fill: if few { 1 + rng.below(20) as i64 } else { -1 - rng.below(5) as i64 },
                list_depth: rng.below(3),
                ..Limits::default()
            };
            let (entries, bytes) = (if few { 4 } else { 200 }, if few { 8 } else { 4000 });
            let limits = limits.with(Type::Hash, rng.below(entries), bytes).with(Type::Zset, rng.below(entries), bytes);
            let limits = limits.with(Type::Set, rng.below(300), 0);
            worker.store().shapes().set(&limits);
            let bytes = [0, 100, 8 << 10][rng.below(3) as usize];
            for ty in [Type::Hash, Type::Set, Type::Zset] {
                worker.store().shapes().small(ty).set_outgrown_bytes(bytes);
            }
        }
        _ => {
            let cursor = rng.below(16) << 36;
            worker.inside(0, |tx| tx.scan(cursor, 20, &mut |_, _| ()));
        }
    }
}

fn work(
    mut worker: StoreWorker,
    mut rng: Rng,
    (tally, mixed): (&Tally, &Mixed),
    keeps: bool,
    length: Duration,
) -> StoreWorker {
    let (begin, mut hand) = (Instant::now(), Hand::default());
    let mut growing = true;
    mixed.listen(&mut worker);
    while begin.elapsed() < length {
        let now = 1_000_000 + begin.elapsed().as_millis() as i64;
        worker.set_now(now);
        growing ^= rng.below(2000) == 0;
        let admitted = worker.inside(0, |tx| tx.admit(100_000).is_ok());
        if admitted {
            shared(&mut worker, &mut rng, now);
        } else {
            let (db, key) = shared_key(&mut rng);
            command_in(&mut worker, db, &[(db, &key)], |tx| done(tx.remove(&tx.key(&key))));
        }
        if keeps {
            keep(&mut worker, &mut rng, tally, growing && admitted);
            mixed.step(&mut worker, &mut rng, &mut hand, admitted);
        }
        if rng.below(200) == 0 {
            wide(&mut worker, &mut rng, !keeps);
        }
        worker.background(now, Duration::from_micros(100));
    }
    mixed.finish(&mut worker, hand);
    worker.park();
    worker
}

fn run(seed: u64, policy: Policy) {
    println!("VARVE_SEED={seed} policy {policy:?}");
    let (store, tally, keeps) = (store(seed, policy), Tally::default(), policy == Policy::NoEviction);
    let mixed = Mixed::new(&store, WORKERS, COUNTERS as usize);
    let (start, length) = (Barrier::new(WORKERS), length());
    let mut workers: Vec<StoreWorker> = std::thread::scope(|scope| {
        let work = |id| {
            let (worker, both, start) = (store.worker(id), (&tally, &mixed), &start);
            scope.spawn(move || {
                start.wait();
                work(worker, Rng::seeded(seed ^ id as u64), both, keeps, length)
            })
        };
        let threads: Vec<_> = (0..WORKERS).map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker ends well")).collect()
    });
    store.verify();
    workers.iter_mut().for_each(|worker| worker.set_now(2_000_000));
    if keeps {
        check(&mut workers[0], &tally);
        mixed.check(&mut workers[0], &tally.counters);
    }
    let totals = store.totals();
    println!("{totals:?}");
    assert!(totals.moved > 0, "reclaim ran");
    empty(&mut workers);
}

/// Checks that the kept keys are the sum of all changes.
fn check(worker: &mut StoreWorker, tally: &Tally) {
    for (n, raised) in tally.counters.iter().enumerate() {
        let key = format!("counter:{n}").into_bytes();
        let found = command(worker, &[&key], |tx| tx.get(&tx.key(&key)).expect("a string").map_or(0, number));
        assert_eq!(found, raised.load(Relaxed), "an update of counter {n} was lost");
    }
    let mut rng = Rng::seeded(1);
    let mut sum = 0;
    kept(worker, &mut rng, "hash", |tx, k| tx.hash_for_each(k, |_, value| sum += number(value))).expect("a hash");
    assert_eq!(sum, tally.fields.load(Relaxed), "sum of the fields");
    let mut sum = 0.0;
    kept(worker, &mut rng, "zset", |tx, k| tx.zset_for_each(k, &mut |_, score| sum += score)).expect("a sorted set");
    assert_eq!(sum as u64, tally.scores.load(Relaxed), "sum of the scores");
    let mut sum = tally.popped.load(Relaxed);
    let show = |part: ListPart<'_>| {
        if let ListPart::Element(text) = part {
            sum += number(text);
        }
    };
    kept(worker, &mut rng, "list", |tx, k| tx.list_range(k, 0, -1, show)).expect("a list");
    assert_eq!(sum, tally.pushed.load(Relaxed), "sum of what was pushed");
    let len = kept(worker, &mut rng, "set", |tx, k| tx.set_view(k).expect("a set").map_or(0, |set| set.len()));
    assert_eq!(len as u64, tally.members.load(Relaxed), "members");
}

/// Runs background steps until none is owed.
fn work_off(workers: &mut [StoreWorker]) {
    for _ in 0..100_000 {
        let mut left = false;
        for worker in &mut *workers {
            let now = worker.now_ms();
            left |= worker.background(now, Duration::from_millis(1)).is_some_and(|at| at <= now);
        }
        if !left {
            return;
        }
    }
    panic!("the background does not end");
}

/// Removes every key, and looks for anything that is left.
fn empty(workers: &mut [StoreWorker]) {
    let store = Arc::clone(workers[0].store());
    work_off(workers);
    store.verify();
    let worker = &mut workers[0];
    for db in 0..store.databases() {
        let mut keys = Vec::new();
        store.for_each_key(worker, db, &mut |key, _, _| keys.push(key.to_vec()));
        for key in keys {
            command_in(worker, db, &[(db, &key)], |tx| assert!(tx.remove(&tx.key(&key)), "a key that was shown"));
        }
        assert_eq!(store.len(db), 0, "keys of database {db}");
    }
    work_off(workers);
    store.verify();
    assert_eq!(store.log().live_bytes(), 0, "bytes that live without a key");
    let used = store.used_memory();
    println!("{used} bytes without a key");
    assert!(used < 2 << 20, "{used} bytes without a key");
    alone(&mut workers[0], |w| store.flush_all(w));
    work_off(workers);
    store.verify();
}

#[test]
fn no_update_is_lost_at_the_limit() {
    run(setting("VARVE_SEED", 1), Policy::NoEviction);
}

#[test]
fn random_eviction_with_flushes_keeps_log_and_index_in_step() {
    run(setting("VARVE_SEED", 2), Policy::AllKeysRandom);
}
