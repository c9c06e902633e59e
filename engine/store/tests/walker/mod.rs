//! A walker sees each object before it changes, with its old bytes still there: random commands on every type, expiry,
//! eviction, and the sweep of FLUSHDB.
//!
//! `VARVE_SEED` sets the first seed, `VARVE_WORLDS` how many of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::all_types::value::Plain;
use crate::all_types::{Name, Op, World};
use crate::setting;
use varve_base::rng::Rng;
use varve_store::{Before, LogGeometry, Options, Policy, Store, StoreWorker, StringForm, Ttl, Type, ValuePart, Walker};

/// A walker that remembers what it was shown.
#[derive(Default)]
struct Recorder {
    recorded: Mutex<Recorded>,
    /// The number of the command that runs.
    command: Arc<AtomicU64>,
}

#[derive(Default)]
struct Recorded {
    shown: Vec<Shown>,
    /// How often everything was about to be emptied.
    all: usize,
}

struct Shown {
    command: u64,
    name: Name,
    value: Plain,
    expiry: Option<i64>,
}

impl Walker for Recorder {
    fn before(&self, old: &Before<'_>) {
        let name = (u32::from(old.db()), old.key().to_vec());
        let command = self.command.load(Relaxed);
        let shown = Shown { command, name, value: plain(old), expiry: old.expiry_ms() };
        self.recorded.lock().expect("no panic").shown.push(shown);
    }

    fn before_all(&self) {
        self.recorded.lock().expect("no panic").all += 1;
    }
}

impl Recorder {
    fn take(&self) -> Recorded {
        std::mem::take(&mut self.recorded.lock().expect("no panic"))
    }
}

fn plain(old: &Before<'_>) -> Plain {
    let mut value = Plain::empty(old.ty());
    old.for_each(&mut |part| match (&mut value, part) {
        (Plain::String(text), ValuePart::Whole(bytes)) => text.extend(bytes),
        (Plain::List(list), ValuePart::Element(element)) => list.push_back(element.to_vec()),
        (Plain::Set(set), ValuePart::Element(member)) => assert!(set.insert(member.to_vec()), "a member twice"),
        (Plain::Hash(hash), ValuePart::Pair(field, value)) => {
            assert!(hash.insert(field.to_vec(), value.to_vec()).is_none(), "a field twice");
        }
        (Plain::Zset(zset), ValuePart::Scored(member, score)) => {
            assert!(zset.insert(member.to_vec(), score).is_none(), "a member twice");
        }
        (value, part) => panic!("{part:?} of {value:?}"),
    });
    value
}

/// Compares what the walker was shown during one operation with the model before and after it.
fn check(world: &World, old: &BTreeMap<Name, (Plain, Option<i64>)>, recorded: &Recorded, op: Op) {
    let (mut shown, mut once) = (BTreeSet::new(), BTreeSet::new());
    for Shown { command, name, value, expiry } in &recorded.shown {
        assert!(once.insert((command, name)), "{op:?} shows {name:?} twice in one command");
        let first = shown.insert(name.clone());
        // The model keeps a key whose time has come until it is looked at.
        let is_over = |expiry: &Option<i64>| expiry.is_some_and(|at| at <= world.now);
        if let Some((old_value, old_expiry)) = old.get(name).filter(|(_, expiry)| first && !is_over(expiry)) {
            assert_eq!((value, expiry), (old_value, old_expiry), "{op:?} shows {name:?} as it no longer is");
        }
    }
    for (name, before) in old {
        let over = before.1.is_some_and(|at| at <= world.now);
        let same = world.model.get(name) == Some(before);
        assert!(same || over || recorded.all > 0 || shown.contains(name), "{op:?} changed {name:?} unseen");
    }
}

#[test]
fn each_change_of_random_operations_is_shown_once_before_it() {
    let first = setting("VARVE_SEED", 1);
    let mut count = 0;
    for seed in first..first + setting("VARVE_WORLDS", 12) {
        println!("VARVE_SEED={seed}");
        let mut rng = Rng::seeded(seed);
        let mut byte = || rng.next_u64() as u8;
        let mut world = World::new(byte());
        let recorder = Arc::new(Recorder { command: Arc::clone(&world.commands), ..Recorder::default() });
        world.store.set_walker(Some(&(recorder.clone() as Arc<dyn Walker>)));
        for _ in 0..1500 {
            let op = Op { what: byte(), one: byte(), two: byte(), number: byte() };
            // After FLUSHDB and SWAPDB the physical numbers of databases are no longer the logical ones.
            if op.what % 64 == 60 || op.what % 64 == 59 && op.number >= 8 {
                continue;
            }
            let old = world.model.clone();
            world.apply(op);
            let recorded = recorder.take();
            count += recorded.shown.len();
            check(&world, &old, &recorded, op);
        }
        world.store.set_walker(None);
        world.apply(Op { what: 43, one: 0, two: 1, number: 1 });
        assert!(recorder.take().shown.is_empty(), "a walker that was taken away is shown nothing");
        world.verify();
    }
    assert!(count > 1000, "{count} objects were shown");
}

fn store() -> (Arc<Store>, StoreWorker, Arc<Recorder>) {
    let geometry = LogGeometry {
        segment_bytes: 64 << 10,
        piece_bytes: 4 << 10,
        extent_min_bytes: 16 << 10,
        release_bytes: 32 << 10,
        ..LogGeometry::default()
    };
    let options = Options { databases: 2, workers: 1, shards: 4, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    let recorder = Arc::new(Recorder::default());
    store.set_walker(Some(&(recorder.clone() as Arc<dyn Walker>)));
    let worker = store.worker(0);
    (store, worker, recorder)
}

fn set(worker: &mut StoreWorker, db: u32, key: &[u8], ttl: Ttl) {
    worker.inside(db, |tx| {
        let k = tx.key(key);
        tx.hold(&[tx.shard_of(k.hash)]);
        tx.set(&k, &[b'v'; 100], ttl, StringForm::Auto);
    });
}

/// Runs the background until it has nothing more to do.
fn work_off(worker: &mut StoreWorker, now_ms: i64) {
    while worker.background(now_ms, Duration::from_millis(1)).is_some_and(|at| at <= now_ms) {}
}

/// The keys shown, none of them twice, all with the value that they had.
fn names(recorded: &Recorded) -> BTreeSet<Vec<u8>> {
    let mut names = BTreeSet::new();
    for Shown { name: (_, key), value, .. } in &recorded.shown {
        assert!(names.insert(key.clone()), "{key:?} is shown twice");
        assert_eq!(value, &Plain::String(vec![b'v'; 100]));
    }
    names
}

fn key(n: usize) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

#[test]
fn a_database_that_is_flushed_is_shown_key_by_key_as_it_is_swept() {
    let (store, mut worker, recorder) = store();
    (0..500).for_each(|n| set(&mut worker, 1, &key(n), Ttl::Clear));
    set(&mut worker, 0, b"other", Ttl::Clear);
    assert!(recorder.take().shown.is_empty(), "what is new was not there before");
    worker.exclusive(|worker| store.flush_db(worker, 1));
    work_off(&mut worker, 1);
    let recorded = recorder.take();
    assert_eq!((names(&recorded), recorded.all), ((0..500).map(key).collect(), 0));
    worker.exclusive(|worker| store.flush_db(worker, 0));
    let recorded = recorder.take();
    assert_eq!((recorded.shown.len(), recorded.all), (0, 1), "the last database with keys goes at once");
}

#[test]
fn keys_that_expire_or_are_evicted_are_shown() {
    let (store, mut worker, recorder) = store();
    worker.set_now(1000);
    (0..300).for_each(|n| set(&mut worker, 0, &key(n), Ttl::At(2000)));
    work_off(&mut worker, 3000);
    assert_eq!(names(&recorder.take()), (0..300).map(key).collect());
    (0..3000).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    store.set_limit(store.used_memory() / 2, Policy::AllKeysRandom);
    work_off(&mut worker, 3001);
    let gone = names(&recorder.take());
    assert_eq!(gone.len() as u64 + store.len(0), 3000, "each key is there, or was shown");
    assert_eq!(gone.len() as u64, store.totals().evicted);
    assert!(gone.len() > 500, "{} keys were evicted", gone.len());
}

#[test]
fn a_read_is_no_change() {
    let (_store, mut worker, recorder) = store();
    set(&mut worker, 0, b"a", Ttl::Clear);
    worker.set_now(5000);
    worker.inside(0, |tx| {
        let k = tx.key(b"a");
        tx.hold(&[tx.shard_of(k.hash)]);
        assert!(tx.get(&k).expect("a string").is_some());
        assert!(tx.touch(&k));
        assert_eq!(tx.type_of(&k), Some(Type::String));
    });
    assert!(recorder.take().shown.is_empty(), "the clock of a key is no part of it");
}
