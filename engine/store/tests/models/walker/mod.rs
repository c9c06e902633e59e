//! A walk shows each key once, as it was when the walk began: beside random commands on every type, expiry, eviction, and
//! the sweep of FLUSHDB.
//!
//! `VARVE_SEED` sets the first seed, `VARVE_WORLDS` how many of them.

mod groups;
mod large;
mod long;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::all_types::value::{Plain, PlainGroups};
use crate::all_types::{Name, Op, World};
use crate::setting;
use varve_base::rng::Rng;
use varve_store::{
    Before, KeptBytes, LogGeometry, Options, PartSink, Pin, Policy, ReadBounds, Store, StoreWorker, StreamOutline,
    StringForm, Ttl, Type, ValuePart, Walker,
};

/// Steps that a long collection takes behind its elements.
const RESTS: usize = 2;

/// A walker that remembers what it was shown.
#[derive(Default)]
struct Recorder {
    recorded: Mutex<Recorded>,
    /// The steps of the walk are to wait.
    full: AtomicBool,
    /// And so is whatever removes keys and can wait.
    is_full: AtomicBool,
    /// Steps more that a long collection takes behind its elements, less the usual ones.
    rests: AtomicUsize,
    /// The bytes that long collections keep for the walk.
    kept: KeptBytes,
    /// Pins of the large strings that were shown, while the walker has a use for them.
    pins: Option<Mutex<Vec<Pin>>>,
}

#[derive(Default)]
struct Recorded {
    shown: Vec<Shown>,
    /// Values among them that were shown over several holds, and the most elements of one hold.
    long: usize,
    most: u64,
    /// How often everything was about to be emptied.
    all: usize,
    /// How often a walk has come to its end.
    ends: usize,
}

struct Shown {
    name: Name,
    value: Plain,
    expiry: Option<i64>,
}

impl Walker for Recorder {
    fn before(&self, old: &Before<'_>) {
        if let Some((pins, pin)) = self.pins.as_ref().zip(old.pin()) {
            pins.lock().expect("no panic").push(pin);
        }
        let mut value = Plain::empty(old.ty());
        let mut parts = 0;
        old.for_each(&mut |part| {
            parts += elements(&part);
            add_part(&mut value, part);
        });
        assert_eq!(old.len(), parts, "the number of parts is known before they are shown");
        self.add(old, value);
    }

    fn before_long(self: Arc<Self>, old: &Before<'_>) -> Option<Box<dyn PartSink>> {
        let name = (u32::from(old.db()), old.key().to_vec());
        let shown = Shown { name, value: Plain::empty(old.ty()), expiry: old.expiry_ms() };
        let outline = old.stream();
        Some(Box::new(Long { shown, outline, parts: 0, len: old.len(), most: 0, before: 0, rests: 0, recorder: self }))
    }

    fn before_all(&self) {
        self.recorded.lock().expect("no panic").all += 1;
    }

    fn ended(&self) {
        self.recorded.lock().expect("no panic").ends += 1;
    }

    fn has_room(&self) -> bool {
        !self.full.load(Relaxed)
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    fn kept_bytes(&self) -> KeptBytes {
        self.kept.clone()
    }
}

/// A long collection that is being shown.
struct Long {
    shown: Shown,
    outline: Option<StreamOutline>,
    parts: u64,
    len: u64,
    /// The most elements of one hold, and those before the hold.
    most: u64,
    before: u64,
    /// Steps behind its elements.
    rests: usize,
    recorder: Arc<Recorder>,
}

impl PartSink for Long {
    fn part(&mut self, part: ValuePart<'_>) {
        self.parts += elements(&part);
        add_part(&mut self.shown.value, part);
    }

    fn hold_ended(&mut self) {
        self.most = self.most.max(self.parts - self.before);
        self.before = self.parts;
    }

    fn rest(&mut self) -> bool {
        assert_eq!(self.len, self.parts, "all elements come before the rest");
        self.rests += 1;
        self.rests <= RESTS + self.recorder.rests.load(Relaxed)
    }

    fn end(mut self: Box<Self>) {
        assert_eq!(self.rests, RESTS + 1 + self.recorder.rests.load(Relaxed), "it has said that nothing is left");
        if let Some(outline) = &self.outline {
            outline.for_each(|part| add_part(&mut self.shown.value, part));
        }
        assert_eq!(self.len, self.parts, "the number of parts is known before they are shown");
        let mut recorded = self.recorder.recorded.lock().expect("no panic");
        recorded.long += 1;
        recorded.most = recorded.most.max(self.most);
        recorded.shown.push(self.shown);
    }
}

impl Recorder {
    fn add(&self, old: &Before<'_>, value: Plain) {
        let name = (u32::from(old.db()), old.key().to_vec());
        self.recorded.lock().expect("no panic").shown.push(Shown { name, value, expiry: old.expiry_ms() });
    }

    fn take(&self) -> Recorded {
        std::mem::take(&mut self.recorded.lock().expect("no panic"))
    }

    /// Objects shown so far.
    fn count(&self) -> usize {
        self.recorded.lock().expect("no panic").shown.len()
    }

    /// The keys shown so far.
    fn names(&self) -> BTreeSet<Vec<u8>> {
        names(&self.recorded.lock().expect("no panic"))
    }

    /// Of these keys, those that were not shown yet.
    fn ahead_of(&self, all: &BTreeSet<Vec<u8>>) -> Vec<Vec<u8>> {
        all.difference(&self.names()).cloned().collect()
    }
}

/// Elements of a part.
fn elements(part: &ValuePart<'_>) -> u64 {
    match part {
        ValuePart::Entries(node) => node.len() as u64,
        ValuePart::Facts(_) | ValuePart::Groups(_) => 0,
        _ => 1,
    }
}

fn add_part(value: &mut Plain, part: ValuePart<'_>) {
    match (value, part) {
        (Plain::String(text), ValuePart::Whole(bytes)) => text.extend(bytes),
        (Plain::List(list), ValuePart::Element(element)) => list.push_back(element.to_vec()),
        (Plain::Set(set), ValuePart::Element(member)) => assert!(set.insert(member.to_vec()), "a member twice"),
        (Plain::Hash(hash), ValuePart::Pair(field, value, _)) => {
            assert!(hash.insert(field.to_vec(), value.to_vec()).is_none(), "a field twice");
        }
        (Plain::Zset(zset), ValuePart::Scored(member, score)) => {
            assert!(zset.insert(member.to_vec(), score).is_none(), "a member twice");
        }
        (Plain::Stream(stream), ValuePart::Entries(node)) => node.for_each(|entry| {
            let fields = entry.fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            assert!(stream.entries.insert(entry.id, fields).is_none(), "an entry twice");
        }),
        (Plain::Stream(stream), ValuePart::Facts(facts)) => {
            assert_eq!(facts.len, stream.entries.len() as u64);
            stream.last = facts.state.last;
        }
        (Plain::Stream(stream), ValuePart::Groups(groups)) => stream.groups = PlainGroups::of(groups),
        (value, part) => panic!("{part:?} of {value:?}"),
    }
}

/// Begins a walk with a walker that remembers. The background leaves its steps to the test.
fn begin(store: &Store) -> Arc<Recorder> {
    let recorder = Arc::new(Recorder { full: AtomicBool::new(true), ..Recorder::default() });
    assert!(store.begin_walk(recorder.clone()), "no other walk is under way");
    recorder
}

/// Walks to the end.
fn end(worker: &mut StoreWorker) {
    assert!((0..1_000_000).any(|_| !worker.walk_step(8)), "a walk ends");
}

/// The model as a walker is shown it.
struct Model {
    /// Value and expiry of each key, by the physical number of its database.
    keys: BTreeMap<Name, (Plain, Option<i64>)>,
    /// The databases; others are being swept, and their keys are nobody's.
    databases: Vec<u16>,
}

fn model(world: &World) -> Model {
    let databases = world.store.physical_databases();
    let numbered = |((db, key), value): (&Name, &(Plain, Option<i64>))| {
        ((u32::from(databases[*db as usize]), key.clone()), value.clone())
    };
    Model { keys: world.model.iter().map(numbered).collect(), databases }
}

/// Compares what a walk has shown with the model of when it began. Keys whose time had come by then may still have been
/// there; a walk that was cut short by FLUSHALL has shown some.
fn check(world: &World, began_ms: i64, old: &Model, recorded: &Recorded) {
    let lives = |expiry: &Option<i64>| expiry.is_none_or(|at| at > began_ms);
    let is_ours = |shown: &&Shown| old.databases.iter().any(|&db| u32::from(db) == shown.name.0);
    let mut shown = BTreeSet::new();
    for Shown { name, value, expiry } in recorded.shown.iter().filter(is_ours).filter(|shown| lives(&shown.expiry)) {
        assert!(shown.insert(name), "{name:?} is shown twice");
        let (old_value, old_expiry) = old.keys.get(name).unwrap_or_else(|| panic!("{name:?} was not there"));
        assert_eq!((value, expiry), (old_value, old_expiry), "{name:?} is shown as it was not");
    }
    let all = old.keys.iter().filter(|(_, (_, expiry))| lives(expiry)).map(|(name, _)| name);
    let missing: Vec<&Name> = all.filter(|name| !shown.contains(name)).collect();
    assert!(recorded.all > 0 || missing.is_empty(), "{missing:?} are not shown, at {}", world.now);
}

#[test]
fn a_walk_beside_random_operations_shows_the_keys_of_its_beginning() {
    let first = setting("VARVE_SEED", 1);
    let (mut count, mut long) = (0, 0);
    for seed in first..first + setting("VARVE_WORLDS", 12) {
        println!("VARVE_SEED={seed}");
        let mut rng = Rng::seeded(seed);
        let mut byte = || rng.next_u64() as u8;
        let mut world = World::new(byte());
        // Many collections take several holds.
        world.store.set_read_bounds(ReadBounds { long_elements: 6, hold_elements: 2 });
        let mut walk: Option<(Arc<Recorder>, i64, Model)> = None;
        for n in 0..3000 {
            let op = Op { what: byte(), one: byte(), two: byte(), number: byte() };
            world.apply(op);
            match &walk {
                None if n % 8 == 0 => walk = Some((begin(&world.store), world.now, model(&world))),
                // One step for some ten operations: a walk meets most keys after they have changed.
                Some((recorder, began_ms, old)) if byte() < 24 && !world.workers[0].walk_step(1) => {
                    let recorded = recorder.take();
                    check(&world, *began_ms, old, &recorded);
                    count += recorded.shown.len();
                    long += recorded.long;
                    walk = None;
                }
                _ => {}
            }
        }
        end(&mut world.workers[0]);
        if let Some((recorder, began_ms, old)) = walk {
            check(&world, began_ms, &old, &recorder.take());
        }
        world.verify();
    }
    assert!(count > 1000 && long > 20, "{count} objects were shown, {long} of them over several holds");
}

/// Renames from either side of the walk to either side of it.
#[test]
fn a_value_that_is_renamed_across_the_walk_is_shown_once_under_its_old_name() {
    let (store, mut worker) = store();
    let all: BTreeSet<Vec<u8>> = (0..400).map(key).collect();
    all.iter().for_each(|key| set(&mut worker, 0, key, Ttl::Clear));
    let recorder = begin(&store);
    while recorder.count() < all.len() / 2 {
        assert!(worker.walk_step(1));
    }
    let passed = recorder.names();
    let ahead: Vec<&Vec<u8>> = all.difference(&passed).collect();
    let rename = |worker: &mut StoreWorker, from: &[u8], to: &[u8]| {
        worker.inside(0, |tx| {
            let (from, to) = (tx.key(from), tx.key(to));
            let shards: varve_store::ShardSet = [&from, &to].iter().map(|k| tx.shard_of(k.hash)).collect();
            tx.hold(&shards);
            assert!(tx.rename(&from, &to));
        });
    };
    let shown = recorder.count();
    for (n, from) in passed.iter().enumerate() {
        let to = if n % 2 == 0 { ahead[n % ahead.len()].clone() } else { [b"new ", &from[..]].concat() };
        rename(&mut worker, from, &to);
    }
    assert!(recorder.count() > shown, "keys that were replaced are shown");
    for (n, from) in recorder.ahead_of(&all).into_iter().enumerate() {
        rename(&mut worker, &from, &[b"other ", &[n as u8][..], &from].concat());
    }
    store.verify();
    end(&mut worker);
    assert_eq!(names(&recorder.take()), all);
    store.verify();
}

#[test]
fn a_walk_that_is_abandoned_shows_nothing_more_and_the_next_one_waits_for_its_end() {
    let (store, mut worker) = store();
    (0..300).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    let recorder = begin(&store);
    (0..100).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    assert_eq!(names(&recorder.take()), (0..100).map(key).collect(), "they are shown as they are changed");
    store.abandon_walk(&*recorder);
    (0..300).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    store.verify();
    assert!(!store.begin_walk(recorder.clone()), "marks are still to be taken away");
    end(&mut worker);
    assert!(recorder.take().shown.is_empty(), "the walker is shown nothing more");
    store.verify();
    let recorder = begin(&store);
    end(&mut worker);
    assert_eq!(names(&recorder.take()), (0..300).map(key).collect());
}

fn store() -> (Arc<Store>, StoreWorker) {
    let geometry = LogGeometry {
        segment_bytes: 64 << 10,
        piece_bytes: 4 << 10,
        extent_min_bytes: 16 << 10,
        release_bytes: 32 << 10,
        ..LogGeometry::default()
    };
    let options = Options { databases: 2, workers: 1, shards: 4, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    let worker = store.worker(0);
    (store, worker)
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
    let (store, mut worker) = store();
    (0..500).for_each(|n| set(&mut worker, 1, &key(n), Ttl::Clear));
    let recorder = begin(&store);
    set(&mut worker, 0, b"other", Ttl::Clear);
    set(&mut worker, 0, b"other", Ttl::Clear);
    assert!(recorder.take().shown.is_empty(), "what is new was not there before");
    worker.exclusive(|worker| store.flush_db(worker, 1));
    work_off(&mut worker, 1);
    let recorded = recorder.take();
    assert_eq!((names(&recorded), recorded.all), ((0..500).map(key).collect(), 0));
    worker.exclusive(|worker| store.flush_db(worker, 0));
    work_off(&mut worker, 1);
    let recorded = recorder.take();
    assert_eq!((recorded.shown.len(), recorded.all), (0, 0), "the last database with keys is swept as well");
    worker.exclusive(|worker| store.flush_all(worker));
    assert_eq!(recorder.take().all, 1);
}

#[test]
fn keys_that_expire_or_are_evicted_are_shown() {
    let (store, mut worker) = store();
    worker.set_now(1000);
    (0..300).for_each(|n| set(&mut worker, 0, &key(n), Ttl::At(2000)));
    let recorder = begin(&store);
    work_off(&mut worker, 3000);
    assert_eq!(names(&recorder.take()), (0..300).map(key).collect());
    end(&mut worker);
    (0..3000).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    let recorder = begin(&store);
    store.set_limit(store.used_memory() / 2, Policy::AllKeysRandom);
    work_off(&mut worker, 3001);
    let gone = names(&recorder.take());
    assert_eq!(gone.len() as u64 + store.len(0), 3000, "each key is there, or was shown");
    assert_eq!(gone.len() as u64, store.totals().evicted);
    assert!(gone.len() > 500, "{} keys were evicted", gone.len());
}

/// The tables move to twenty times their size, and back, while the walk is in the middle of them.
#[test]
fn indexes_that_grow_and_shrink_beside_a_walk_show_each_key_once() {
    let (store, mut worker) = store();
    (0..300).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    work_off(&mut worker, 1);
    let recorder = begin(&store);
    for n in 300..6300 {
        set(&mut worker, 0, &key(n), Ttl::Clear);
        if n % 100 == 0 {
            assert!(worker.walk_step(1), "the walk is in the middle");
            work_off(&mut worker, n as i64);
        }
    }
    assert!(recorder.count() > 0 && recorder.count() < 300, "{} were shown meanwhile", recorder.count());
    for n in 300..6300 {
        worker.inside(0, |tx| {
            let name = key(n);
            let k = tx.key(&name);
            tx.hold(&[tx.shard_of(k.hash)]);
            assert!(tx.remove(&k));
        });
        if n % 1000 == 0 {
            worker.walk_step(1);
            work_off(&mut worker, 10_000 + n as i64);
        }
    }
    end(&mut worker);
    let recorded = recorder.take();
    assert_eq!((names(&recorded), recorded.all), ((0..300).map(key).collect(), 0));
    store.verify();
}

#[test]
fn the_background_walks_while_the_walker_has_room() {
    let (store, mut worker) = store();
    (0..500).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    let recorder = begin(&store);
    work_off(&mut worker, 1);
    assert_eq!(recorder.count(), 0, "there is no room");
    assert_eq!(worker.background(1, Duration::from_millis(1)), Some(2), "it is looked at again soon");
    set(&mut worker, 0, &key(7), Ttl::Clear);
    assert_eq!(recorder.count(), 1, "a change does not wait for room");
    recorder.full.store(false, Relaxed);
    work_off(&mut worker, 3);
    let recorded = recorder.take();
    assert_eq!((names(&recorded), recorded.ends, recorded.all), ((0..500).map(key).collect(), 1, 0));
    assert!(!store.walks());
    store.verify();
}

#[test]
fn a_read_is_no_change() {
    let (store, mut worker) = store();
    set(&mut worker, 0, b"a", Ttl::Clear);
    let recorder = begin(&store);
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
