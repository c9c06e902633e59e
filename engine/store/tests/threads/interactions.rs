//! Conditions that must hold where two matters meet, stepped by hand: two workers, one of which acts with its shards
//! held while the other runs single steps of the background on a thread of its own; `verify()` after each step.
//!
//! ```text
//! worker 0   commands, the gate alone        worker 1   background(0): one round of steps, by try_lock
//! ```
//! Not here: the replies of blocking commands (compat/commands/tests/handlers/blocking.rs).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use varve_base::rng::Rng;
use varve_store::{
    Effect, EventClass, Key, Limits, ListEnd, LogGeometry, NextWaiter, Options, PerType, SmallLimits, Store,
    StoreWorker, StringForm, Ttl, Tx, Type, Waiter, Waiting, ZAdd,
};

use crate::with_keys::{shards, with};

const NOW: i64 = 1_000_000;

fn store() -> (Arc<Store>, StoreWorker, StoreWorker) {
    let geometry = LogGeometry {
        segment_bytes: 16 << 10,
        piece_bytes: 1 << 10,
        extent_min_bytes: 4 << 10,
        release_bytes: 4 << 10,
        reserve_bytes: 1 << 30,
    };
    let options = Options { databases: 4, workers: 2, shards: 8, seed: 3, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    let small = PerType::new(|_| SmallLimits { entries: 8, value_bytes: 64 });
    store.shapes().set(&Limits { list_fill: 8, small, ..Limits::default() });
    // Over these limits a collection is big, whatever its bytes.
    [Type::Hash, Type::Set, Type::Zset].into_iter().for_each(|ty| store.shapes().small(ty).set_outgrown_bytes(0));
    let mut workers = [store.worker(0), store.worker(1)];
    workers.iter_mut().for_each(|worker| worker.set_now(NOW));
    let [one, two] = workers;
    (store, one, two)
}

/// One round of background steps on a thread of its own, since this one may hold shards; true if more is owed.
fn step(worker: &mut StoreWorker) -> bool {
    thread::scope(|s| {
        s.spawn(|| worker.background(NOW, Duration::ZERO).is_some_and(|at| at <= NOW)).join().expect("a step ends well")
    })
}

/// After each of the first steps, then after one of 16: each looks at everything.
fn verify_now_and_then(store: &Store, n: usize) {
    if n < 32 || n.is_multiple_of(16) {
        store.verify();
    }
}

fn work_off(store: &Store, worker: &mut StoreWorker) {
    for n in 0..1_000_000 {
        if !step(worker) {
            return;
        }
        verify_now_and_then(store, n);
    }
    panic!("the background does not end");
}

/// Two names in different shards.
fn apart(worker: &mut StoreWorker) -> [Vec<u8>; 2] {
    with(worker, 0, &[], |tx| {
        let names = (0..).map(|n: u32| format!("name {n}").into_bytes());
        let first = b"name 0".to_vec();
        let second = names.skip(1).find(|name| tx.shard_of_bytes(name) != tx.shard_of_bytes(&first));
        [first, second.expect("there are several shards")]
    })
}

/// Every other member is over 1 KB and has an object of its own. The others lie in leaves.
fn member(n: u32) -> String {
    if n.is_multiple_of(2) { format!("member {n:01100}") } else { format!("member {n}") }
}

fn add(worker: &mut StoreWorker, key: &[u8], members: std::ops::Range<u32>) {
    with(worker, 0, &[key], |tx| {
        for n in members {
            let score = f64::from(n % 50);
            tx.zset_add(&tx.key(key), member(n).as_bytes(), score, ZAdd::default()).expect("a sorted set");
        }
    });
}

fn remove(worker: &mut StoreWorker, key: &[u8], members: std::ops::Range<u32>) {
    with(worker, 0, &[key], |tx| {
        for n in members {
            assert_eq!(tx.zset_remove(&tx.key(key), member(n).as_bytes()), Ok(true));
        }
    });
}

fn members(worker: &mut StoreWorker, key: &[u8]) -> Vec<(Vec<u8>, f64)> {
    let mut all = Vec::new();
    with(worker, 0, &[key], |tx| {
        tx.zset_for_each(&tx.key(key), &mut |member, score| all.push((member.to_vec(), score))).expect("a sorted set");
    });
    all
}

/// Sets keys and removes them again, so that every segment has something dead.
fn litter(worker: &mut StoreWorker, many: usize) {
    litter_where(worker, many, |_, _| true);
}

/// Does the same with names that `takes` says yes to.
fn litter_where(worker: &mut StoreWorker, many: usize, takes: impl Fn(&Tx<'_>, &[u8]) -> bool) {
    let names = (0..).map(|n| format!("litter {n}").into_bytes());
    let keys = with(worker, 0, &[], |tx| names.filter(|name| takes(tx, name)).take(many).collect::<Vec<_>>());
    for key in keys {
        with(worker, 0, &[&key], |tx| {
            tx.set(&tx.key(&key), &[7; 100], Ttl::Clear, StringForm::Auto);
            tx.remove(&tx.key(&key));
        });
    }
}

/// Interaction 2: reclaim comes to members and leaves of a sorted set whose shards a RENAME holds, and to those of one
/// that has just gone to another shard.
#[test]
fn reclaim_meets_a_sorted_set_that_moves_to_another_shard() {
    let (store, mut one, mut two) = store();
    let names = apart(&mut one);
    // Little by little: where the dead lie in segments of their own, reclaim takes those and never comes to the set.
    for n in 0..600 {
        add(&mut one, &names[0], n * 2..n * 2 + 2);
        litter(&mut one, 8);
    }
    let expected = members(&mut one, &names[0]);
    assert_eq!(expected.len(), 1200);
    let mut at = 0;
    for round in 0..120 {
        let (from, to) = (&names[at], &names[1 - at]);
        with(&mut one, 0, &[from, to], |tx| {
            // The set's shard is held: whatever of it reclaim comes to has to wait.
            let moved = store.totals().moved;
            (0..3).for_each(|_| _ = step(&mut two));
            assert_eq!(store.totals().moved, moved, "nothing else lives than the set");
            assert!(tx.rename(&tx.key(from), &tx.key(to)));
            step(&mut two);
        });
        at = 1 - at;
        store.verify();
        step(&mut two);
        store.verify();
        litter(&mut one, 20);
        if round % 10 == 0 {
            // A member that is written anew lies elsewhere than the others of its collection.
            remove(&mut one, &names[at], round * 10..round * 10 + 5);
            add(&mut one, &names[at], round * 10..round * 10 + 5);
        }
    }
    // 522 were seen.
    assert!(store.totals().moved > 400, "{:?}", store.totals());
    work_off(&store, &mut two);
    store.verify();
    assert_eq!(members(&mut one, &names[at]), expected);
}

/// Both workers run at full speed: one that reads the collection's shard may find it gone once it has the lock.
#[test]
fn reclaim_beside_renames_loses_no_member() {
    let (store, mut one, mut two) = store();
    let names = apart(&mut one);
    add(&mut one, &names[0], 0..600);
    let expected = members(&mut one, &names[0]);
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(SeqCst) {
                two.background(NOW, Duration::from_micros(50));
            }
        });
        for n in 0..3000 {
            let (from, to) = (&names[n % 2], &names[(n + 1) % 2]);
            with(&mut one, 0, &[from, to], |tx| assert!(tx.rename(&tx.key(from), &tx.key(to))));
            litter(&mut one, 5);
        }
        stop.store(true, SeqCst);
    });
    store.verify();
    assert_eq!(members(&mut one, &names[0]), expected);
}

/// A member's name that, the first times it is asked for, lets the other worker reclaim.
struct Slow<'a>(Vec<u8>, &'a AtomicUsize, &'a std::sync::Barrier);

impl AsRef<[u8]> for Slow<'_> {
    fn as_ref(&self) -> &[u8] {
        if self.1.fetch_add(1, SeqCst).is_multiple_of(200) {
            self.2.wait();
            self.2.wait();
        }
        &self.0
    }
}

/// Reclaim comes to members of a sorted set that is still being made: nothing leads to them yet, and they live.
#[test]
fn reclaim_meets_a_collection_in_the_making() {
    let (store, mut one, mut two) = store();
    litter(&mut one, 40);
    let (asked, meet, done) = (AtomicUsize::new(1), std::sync::Barrier::new(2), AtomicBool::new(false));
    let member = |n: u32| Slow(format!("member {n:60}").into_bytes(), &asked, &meet);
    let mut items: Vec<_> = (0..2000).map(|n| (member(n), f64::from(n))).collect();
    thread::scope(|s| {
        s.spawn(|| {
            loop {
                meet.wait();
                if done.load(SeqCst) {
                    return;
                }
                // Something dead in what is being filled, so that it is worth reclaiming.
                litter_where(&mut two, 20, |tx, name| tx.shard_of_bytes(name) != tx.shard_of_bytes(b"made"));
                (0..200).for_each(|_| _ = two.background(NOW + 1000, Duration::from_micros(100)));
                meet.wait();
            }
        });
        with(&mut one, 0, &[b"made"], |tx| tx.zset_store(&tx.key(b"made"), &mut items));
        done.store(true, SeqCst);
        meet.wait();
    });
    store.verify();
    assert_eq!(members(&mut one, b"made").len(), 2000);
}

/// Interaction 4, as far as the store has a part in it: a list that one waiter moves to where another waits. The shards of
/// the first's destination are taken too, each is claimed once, and nothing is left over.
#[test]
fn a_push_serves_who_moves_it_on_and_who_waits_there() {
    let (store, mut one, mut two) = store();
    let [k, d] = apart(&mut one);
    let who = |client| Waiting { worker: 1, client, db: 0 };
    let moves = Arc::new(Waiter::new(who(1), Type::List, [&k[..]], Some(&d[..]), Box::new(1u64)));
    let takes = Arc::new(Waiter::new(who(2), Type::List, [&d[..]], None, Box::new(2u64)));
    with(&mut two, 0, &[&k, &d], |tx| [&moves, &takes].into_iter().for_each(|waiter| tx.wait(waiter)));
    let mut served = Vec::new();
    with(&mut one, 0, &[&k], |tx| {
        let mut needed = shards(tx, &[&k]);
        assert!(tx.widen(&mut needed, [&k[..]]), "the destination's shard is missing");
        tx.hold(&needed);
        assert!(!tx.widen(&mut needed, [&k[..]]), "and nothing else");
        let report = |tx: &mut Tx<'_>, key: &Key<'_>| tx.did(key, Effect::sent(EventClass::List, "rpush", 1));
        let first = tx.key(&k);
        tx.list_push(&first, ListEnd::Back, [&b"element"[..]].into_iter(), false).expect("a list");
        report(tx, &first);
        while let Some(ready) = tx.next_ready() {
            let key = tx.key(&ready.bytes);
            while let NextWaiter::Take(waiter) = tx.next_waiter(&key) {
                assert!(waiter.claim() && !waiter.claim(), "claimed once");
                let client = *waiter.task::<u64>().expect("what it was made with");
                let done = match client {
                    1 => tx.list_move(&key, &tx.key(&d), ListEnd::Front, ListEnd::Back, |_| ()),
                    _ => tx.list_pop(&key, ListEnd::Front, |element| assert_eq!(element, b"element")),
                };
                assert_eq!(done, Ok(true));
                report(tx, &tx.key(&d));
                served.push((client, ready.bytes.to_vec()));
            }
        }
    });
    assert_eq!(served, [(1, k.clone()), (2, d.clone())]);
    with(&mut two, 0, &[&k, &d], |tx| assert!(!tx.any_waiters() && !tx.exists(&tx.key(&k)) && !tx.exists(&tx.key(&d))));
    store.verify();
}

/// The contents of a database, in a form that compares.
type Contents = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Fills a database with keys of every type, small and big.
fn fill(worker: &mut StoreWorker, db: u32, keys: u32, rng: &mut Rng) {
    for n in 0..keys {
        let key = format!("key {n}").into_bytes();
        let words: Vec<String> = (0..1 + rng.below(40)).map(|_| format!("word {}", rng.below(10_000))).collect();
        let words = || words.iter().map(|word| word.as_bytes());
        with(worker, db, &[&key], |tx| {
            let k = tx.key(&key);
            match n % 5 {
                0 => {
                    tx.set(&k, &[n as u8; 90], if n % 2 == 0 { Ttl::Clear } else { Ttl::At(NOW * 2) }, StringForm::Auto)
                }
                1 => _ = tx.list_push(&k, ListEnd::Back, words(), false).expect("a list"),
                2 => _ = tx.hash_set(&k, words().zip(words().rev())).expect("a hash"),
                3 => _ = tx.set_add(&k, words()).expect("a set"),
                _ => words().for_each(|word| _ = tx.zset_add(&k, word, 1.0, ZAdd::default()).expect("a sorted set")),
            }
        });
    }
}

fn contents(worker: &mut StoreWorker, db: u32) -> Contents {
    let store = Arc::clone(worker.store());
    let mut keys = Vec::new();
    store.for_each_key(worker, db, &mut |key, _, _| keys.push(key.to_vec()));
    let mut read = |key: Vec<u8>| {
        let mut all: Vec<Vec<u8>> = Vec::new();
        with(worker, db, &[&key], |tx| {
            let k = tx.key(&key);
            match tx.type_of(&k).expect("a key that was shown") {
                Type::String => all.push(tx.get(&k).expect("a string").expect("a value").to_vec()),
                Type::List => tx
                    .list_range(&k, 0, -1, |part| {
                        if let varve_store::ListPart::Element(element) = part {
                            all.push(element.to_vec());
                        }
                    })
                    .expect("a list"),
                Type::Hash => tx.hash_for_each(&k, |field, value| all.push([field, value].concat())).expect("a hash"),
                Type::Set => tx
                    .set_view(&k)
                    .expect("a set")
                    .expect("it is there")
                    .for_each(|member| all.push(member.text(&mut [0; 20]).to_vec())),
                _ => _ = tx.zset_for_each(&k, &mut |member, _| all.push(member.to_vec())).expect("a sorted set"),
            }
            if tx.type_of(&k) != Some(Type::List) {
                all.sort();
            }
        });
        (key, all)
    };
    keys.into_iter().map(&mut read).collect()
}

fn alone(worker: &mut StoreWorker, f: impl FnOnce(&Store, &mut StoreWorker)) {
    let store = Arc::clone(worker.store());
    let _alone = store.gate().exclusive(worker.id());
    f(&store, worker);
}

/// Interaction 6: FLUSHDB while reclaim is in the middle of segments that are full of that database's keys and elements,
/// with another database's between them; and the database is filled again while the old one is still swept.
#[test]
fn a_database_is_flushed_while_reclaim_drains_its_segments() {
    for seed in 1..=4 {
        let (store, mut one, mut two) = store();
        let mut rng = Rng::seeded(seed);
        for _ in 0..3 {
            fill(&mut one, 0, 60, &mut rng);
            fill(&mut one, 1, 160, &mut rng);
            litter(&mut one, 200);
        }
        let keeps = contents(&mut one, 0);
        let moved = store.totals().moved;
        while store.totals().moved == moved {
            assert!(step(&mut two), "there is something to reclaim");
        }
        store.verify();
        alone(&mut one, |store, w| store.flush_db(w, 1));
        assert_eq!((store.len(1), contents(&mut one, 1).len()), (0, 0));
        store.verify();
        step(&mut two);
        store.verify();
        fill(&mut one, 1, 60, &mut rng);
        let new = contents(&mut one, 1);
        // Flushed once more, and its number exchanged, while the first is still being swept.
        if seed % 2 == 0 {
            alone(&mut one, |store, w| store.flush_db(w, 1));
            alone(&mut one, |store, _| store.swap_db(1, 2));
        }
        work_off(&store, &mut two);
        store.verify();
        assert_eq!(contents(&mut one, 0), keeps);
        let other = if seed % 2 == 0 { Contents::new() } else { new };
        assert_eq!(contents(&mut one, 1), other);
        alone(&mut one, |store, w| store.flush_db(w, 0));
        work_off(&store, &mut two);
        store.verify();
        assert_eq!((contents(&mut one, 1), store.len(0)), (other, 0));
    }
}

/// Interaction 7: a figure of what lives that is older than the keys, at a clock that stands still. One segment is
/// drained by it; then the figure is read anew, and nothing is dead.
#[test]
fn reclaim_ends_though_the_clock_stands_still() {
    let (store, mut one, _) = store();
    // The first look finds an empty store.
    step(&mut one);
    let keys = 1000;
    for n in 0..keys {
        let key = format!("key {n}").into_bytes();
        with(&mut one, 0, &[&key], |tx| tx.set(&tx.key(&key), &[b'v'; 90], Ttl::Clear, StringForm::Auto));
    }
    let steps = (0..5000).take_while(|_| step(&mut one)).count();
    let moved = store.totals().moved;
    assert!(steps < 5000 && moved < keys / 4, "{moved} of {keys} live objects were moved in {steps} steps");
    store.verify();
}
