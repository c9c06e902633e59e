//! A collection of very many elements, shown by a walk while it is changed, renamed, moved by a swap of databases, and at the end
//! deleted or flushed: all of it is shown as it was, and no hold shows more than a step and a leaf.
//!
//! `VARVE_ELEMENTS` sets the number of elements: 10 000 000 of each type in `cargo xtask long collections`.

use std::sync::{Arc, Mutex};

use varve_base::hash::hash64;
use varve_base::rng::Rng;
use varve_store::{
    Before, KeptBytes, ListEnd, Options, PartSink, Store, StoreWorker, StreamId, StreamNeed, StreamWriter, Tx, Type,
    ValuePart, Walker, ZAdd,
};

use super::work_off;
use crate::setting;

const TYPES: [Type; 5] = [Type::Hash, Type::Set, Type::List, Type::Zset, Type::Stream];
const BIG: &[u8] = b"big";
const RENAMED: &[u8] = b"renamed";
const NOW: i64 = 1_000_000;
/// Elements of a command that fills a collection.
const BATCH: u64 = 1000;
/// Elements that change for each step of the walk.
const CHANGES: u64 = 20;
/// Elements of a step, and of the leaf or node at whose end it ends: a list's has some 700 short ones.
const HOLD_MAX: u64 = 1024 + 1024;

/// The number of elements, and a sum of what they are that does not mind their order, nor, for a list, the front from the back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    count: u64,
    sum: u64,
}

impl Digest {
    fn add(&mut self, first: &[u8], second: &[u8]) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash64(hash64(1, first), second));
    }

    fn add_part(&mut self, part: ValuePart<'_>) {
        match part {
            ValuePart::Element(element) => self.add(element, b""),
            ValuePart::Pair(field, value, _) => self.add(field, value),
            ValuePart::Scored(member, score) => self.add(member, &score.to_le_bytes()),
            ValuePart::Entries(node) => node.for_each(|entry| {
                self.add(&[entry.id.ms.to_le_bytes(), entry.id.seq.to_le_bytes()].concat(), b"");
                entry.fields.for_each(|(name, value)| self.sum = self.sum.wrapping_add(hash64(hash64(2, name), value)));
            }),
            part => panic!("{part:?} of a collection"),
        }
    }
}

/// A walker of one long collection.
#[derive(Default)]
struct Counter {
    kept: KeptBytes,
    shown: Mutex<Option<Shown>>,
}

/// A collection that was shown whole.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    digest: Digest,
    /// Holds of the shard, the most elements of one of them, and those before the hold under way.
    holds: u64,
    most: u64,
    before: u64,
}

struct Sink {
    counter: Arc<Counter>,
    shown: Shown,
}

impl Walker for Counter {
    fn before(&self, _: &Before<'_>) {
        panic!("the collection is the only key");
    }

    fn before_long(self: Arc<Self>, _: &Before<'_>) -> Option<Box<dyn PartSink>> {
        Some(Box::new(Sink { counter: self, shown: Shown::default() }))
    }

    fn before_all(&self) {}

    fn ended(&self) {}

    /// The test makes the steps.
    fn has_room(&self) -> bool {
        false
    }

    fn kept_bytes(&self) -> KeptBytes {
        self.kept.clone()
    }
}

impl Sink {
    fn end_hold(&mut self) {
        let Shown { digest, holds, most, before } = &mut self.shown;
        (*holds, *most) = (*holds + 1, (*most).max(digest.count - *before));
        *before = digest.count;
    }
}

impl PartSink for Sink {
    fn part(&mut self, part: ValuePart<'_>) {
        self.shown.digest.add_part(part);
    }

    fn hold_ended(&mut self) {
        self.end_hold();
    }

    fn end(mut self: Box<Self>) {
        // The last elements are followed by no other hold.
        self.end_hold();
        let before = self.counter.shown.lock().expect("no panic").replace(self.shown);
        assert!(before.is_none(), "it is shown once");
    }
}

fn with<R>(worker: &mut StoreWorker, db: u32, keys: &[&[u8]], work: impl FnOnce(&mut Tx<'_>) -> R) -> R {
    worker.inside(db, |tx| {
        let shards = keys.iter().map(|key| tx.shard_of(tx.key(key).hash)).collect::<varve_store::ShardSet>();
        tx.hold(&shards);
        work(tx)
    })
}

/// Puts the elements of these numbers into the collection at a key; those that are there get another value or score.
fn put(tx: &mut Tx<'_>, key: &[u8], ty: Type, numbers: std::ops::Range<u64>, value: &[u8]) {
    let k = tx.key(key);
    let names: Vec<Vec<u8>> = numbers.clone().map(|n| format!("element {n}").into_bytes()).collect();
    let each = || names.iter().map(Vec::as_slice);
    match ty {
        Type::Hash => _ = tx.hash_set(&k, each().map(|name| (name, value))).expect("a hash"),
        Type::Set => _ = tx.set_add(&k, each()).expect("a set"),
        Type::List => _ = tx.list_push(&k, ListEnd::Back, each(), false).expect("a list"),
        Type::Zset => {
            for (n, name) in numbers.zip(each()) {
                let score = (n + value.len() as u64) as f64;
                _ = tx.zset_add(&k, name, score, ZAdd::default()).expect("a sorted set");
            }
        }
        _ => {
            let add = |stream: &mut StreamWriter<'_, '_>| {
                for name in each() {
                    let id = stream.state().last.next().expect("a small one");
                    stream.add(id, [(name, value)].into_iter());
                }
            };
            if tx.exists(&k) {
                tx.stream_mut_for(&k, StreamNeed::Everything, add).expect("a stream");
            } else {
                tx.make_stream(&k, StreamNeed::Everything, add);
            }
        }
    }
}

/// Takes one element out.
fn take(tx: &mut Tx<'_>, key: &[u8], ty: Type, n: u64) {
    let (k, name) = (tx.key(key), format!("element {n}").into_bytes());
    match ty {
        Type::Hash => _ = tx.hash_remove(&k, [&name[..]].into_iter()).expect("a hash"),
        Type::Set => _ = tx.set_remove(&k, [&name[..]]).expect("a set"),
        Type::List => {
            _ = tx
                .list_pop(&k, if n.is_multiple_of(2) { ListEnd::Front } else { ListEnd::Back }, |_| ())
                .expect("a list")
        }
        Type::Zset => _ = tx.zset_remove(&k, &name).expect("a sorted set"),
        _ => _ = tx.stream_mut(&k, |stream| stream.remove(StreamId::new(0, n + 1))).expect("a stream"),
    }
}

/// The elements that [`put`] makes of new ones.
fn digest_of(ty: Type, elements: u64) -> Digest {
    let mut digest = Digest::default();
    for n in 0..elements {
        let name = format!("element {n}").into_bytes();
        match ty {
            Type::Hash => digest.add(&name, b"value"),
            Type::Zset => digest.add(&name, &((n + 5) as f64).to_le_bytes()),
            Type::Stream => {
                digest.add(&[0_u64.to_le_bytes(), (n + 1).to_le_bytes()].concat(), b"");
                digest.sum = digest.sum.wrapping_add(hash64(hash64(2, &name), b"value"));
            }
            _ => digest.add(&name, b""),
        }
    }
    digest
}

/// The end of the collection, at three quarters of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Deleted,
    Flushed,
}

/// A walk over a collection that changes at each step; at a quarter it is renamed, at half the databases are swapped.
fn walk(ty: Type, fate: Fate, elements: u64, rng: &mut Rng) {
    let case = format!("{ty:?}, {fate:?}, {elements} elements");
    let store =
        Store::new(&Options { databases: 2, workers: 1, shards: 4, ..Options::default() }).expect("an address range");
    let mut worker = store.worker(0);
    worker.set_now(NOW);
    for first in (0..elements).step_by(BATCH as usize) {
        with(&mut worker, 0, &[BIG], |tx| put(tx, BIG, ty, first..elements.min(first + BATCH), b"value"));
    }
    let counter = Arc::<Counter>::default();
    assert!(store.begin_walk(counter.clone()), "no other walk is under way");
    let least_steps = elements / HOLD_MAX;
    let (mut step, mut db, mut key, mut lives) = (0, 0, BIG, true);
    let mut most_kept = 0;
    loop {
        if step == least_steps / 4 {
            with(&mut worker, 0, &[BIG, RENAMED], |tx| assert!(tx.rename(&tx.key(BIG), &tx.key(RENAMED))));
            key = RENAMED;
        }
        if step == least_steps / 2 {
            worker.exclusive(|_| store.swap_db(0, 1));
            db = 1;
        }
        if step == least_steps * 3 / 4 && fate != Fate::Stays {
            assert!(store.has_readers(), "{case}: it is being shown");
            match fate {
                Fate::Flushed => worker.exclusive(|worker| store.flush_db(worker, db)),
                _ => with(&mut worker, db, &[key], |tx| assert!(tx.remove(&tx.key(key)))),
            }
            lives = false;
        }
        for _ in 0..if lives { CHANGES } else { 0 } {
            let n = rng.below(elements);
            with(&mut worker, db, &[key], |tx| {
                if n.is_multiple_of(3) { take(tx, key, ty, n) } else { put(tx, key, ty, n..n + 1, b"another") }
            });
        }
        most_kept = most_kept.max(counter.kept.get());
        if step % 64 == 0 {
            work_off(&mut worker, NOW);
        }
        step += 1;
        if !worker.walk_step(1) {
            break;
        }
    }
    let shown = counter.shown.lock().expect("no panic").take().unwrap_or_else(|| panic!("{case}: it is not shown"));
    assert_eq!(shown.digest, digest_of(ty, elements), "{case}: it is shown as it was when the walk began");
    assert!(shown.most <= HOLD_MAX, "{case}: {} elements in one hold", shown.most);
    assert!(shown.holds >= least_steps, "{case}: {} holds", shown.holds);
    assert!(most_kept > 0 && counter.kept.get() == 0, "{case}: {most_kept} bytes were kept, and none is at the end");
    work_off(&mut worker, NOW);
    assert!(!store.has_readers(), "{case}: its reader has ended");
    store.verify();
}

#[test]
fn issue_13_a_very_long_collection_is_shown_as_it_was_in_bounded_holds() {
    let (elements, seed) = (setting("VARVE_ELEMENTS", 200_000), setting("VARVE_SEED", 13));
    println!("VARVE_SEED={seed}");
    let mut rng = Rng::seeded(seed);
    for ty in TYPES {
        for fate in [Fate::Stays, Fate::Deleted, Fate::Flushed] {
            walk(ty, fate, elements, &mut rng);
        }
    }
}
