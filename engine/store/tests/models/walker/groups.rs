//! Streams with many groups, consumers, or names of messages, changed while a walk shows them: a writer copies a few nodes of
//! what the walk has too, however much there is, and the walk has all as it was when it began. What a walk that is given up had
//! alone is given back in steps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use varve_store::{
    Before, Idempotence, IdempotenceLimits, KeptBytes, NamedMessage, PartSink, PendingEntry, Store, StoreWorker,
    StreamGroup, StreamId, StreamNeed, StreamOutline, StreamWriter, ValuePart, Walker,
};

use super::{end, store, work_off};

const KEY: &[u8] = b"stream";
/// The group that has many consumers.
const CROWDED: &[u8] = b"crowded";
/// Groups, consumers of one group, and names of messages.
const MANY: u64 = 20_000;
const PRODUCERS: u64 = 40;
const LIMITS: IdempotenceLimits = IdempotenceLimits { duration_s: 1000, names_max: 10_000 };
const NOW: i64 = 1_000_000;
/// Bytes that one change may copy: nodes of four levels of three maps, and of a tree of pending entries.
const COPIED_MAX: usize = 3 * 4 * 33 * (size_of::<StreamGroup>() + 64);
/// Leaves that a step of the background gives back.
const STEP_LEAVES: u64 = 64;
/// Entries of a leaf.
const LEAF: u64 = 32;

/// Keeps the outline of the only stream, until it is dropped or was shown.
#[derive(Default)]
struct Keeper {
    kept: KeptBytes,
    shown: Mutex<Option<StreamOutline>>,
    /// The outline is to stay with its receiver.
    rests: AtomicBool,
}

struct Kept {
    keeper: Arc<Keeper>,
    outline: StreamOutline,
}

impl Walker for Keeper {
    fn before(&self, _: &Before<'_>) {
        panic!("the stream is long");
    }

    fn before_long(self: Arc<Self>, old: &Before<'_>) -> Option<Box<dyn PartSink>> {
        let outline = old.stream().expect("a stream");
        Some(Box::new(Kept { keeper: self, outline }))
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

impl PartSink for Kept {
    fn part(&mut self, _: ValuePart<'_>) {}

    fn hold_ended(&mut self) {}

    fn rest(&mut self) -> bool {
        self.keeper.rests.load(Relaxed)
    }

    fn end(self: Box<Self>) {
        let Kept { keeper, outline } = *self;
        *keeper.shown.lock().expect("no panic") = Some(outline);
    }
}

/// The consumers of a group, with the times when they were seen, and the number of its pending entries.
type PlainGroup = (BTreeMap<Vec<u8>, i64>, u64);

/// Groups and names as the model has them: each group's consumers and the number of its pending entries, each producer's names.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plain {
    groups: BTreeMap<Vec<u8>, PlainGroup>,
    names: BTreeMap<(Vec<u8>, Vec<u8>), StreamId>,
}

impl Plain {
    fn of<'a>(groups: impl Iterator<Item = (&'a [u8], &'a StreamGroup)>, names: Option<&Idempotence>) -> Plain {
        let mut plain = Plain::default();
        for (name, group) in groups {
            let consumers = group.consumers().map(|(name, consumer)| (name.to_vec(), consumer.seen_ms)).collect();
            plain.groups.insert(name.to_vec(), (consumers, group.pending()));
        }
        names.expect("it has names").for_each(|NamedMessage { producer, name, id, .. }| {
            plain.names.insert((producer.to_vec(), name.to_vec()), id);
        });
        plain
    }

    fn of_outline(outline: &StreamOutline) -> Plain {
        let groups = outline.groups().expect("it has groups");
        Plain::of(groups.all().iter().map(|(name, group)| (&**name, group)), outline.idempotence())
    }
}

fn named(what: &str, n: u64) -> Vec<u8> {
    format!("{what} {n}").into_bytes()
}

fn change<R>(worker: &mut StoreWorker, work: impl FnOnce(&mut StreamWriter<'_, '_>) -> R) -> R {
    worker.inside(0, |tx| {
        let k = tx.key(KEY);
        tx.hold(&[tx.shard_of(k.hash)]);
        let done = tx.stream_mut_for(&k, StreamNeed::Everything, work).expect("a stream");
        done.expect("it is there")
    })
}

fn add_name(stream: &mut StreamWriter<'_, '_>, producer: u64, name: &[u8]) {
    let (producer, id) = (named("producer", producer), StreamId::new(7, producer));
    let message = NamedMessage { producer: &producer, name, id, time_ms: NOW };
    stream.change_idempotence(|| Idempotence::new(LIMITS), |kept| kept.add(message, NOW));
}

/// A stream of one entry with all of these.
fn fill(worker: &mut StoreWorker) {
    worker.inside(0, |tx| {
        let k = tx.key(KEY);
        tx.hold(&[tx.shard_of(k.hash)]);
        tx.make_stream(&k, StreamNeed::Everything, |stream| {
            stream.add(StreamId::new(1, 1), [(&b"field"[..], &b"value"[..])].into_iter());
            for n in 0..MANY {
                assert!(stream.add_group(&named("group", n), StreamGroup::new(StreamId::MIN, None)));
                add_name(stream, n % PRODUCERS, &named("name", n));
            }
            assert!(stream.add_group(CROWDED, StreamGroup::new(StreamId::MIN, None)));
            stream.change_group(CROWDED, |group| {
                (0..MANY).for_each(|n| assert!(group.meet(&named("consumer", n), NOW, true)));
            });
        });
    });
}

fn plain_of(worker: &mut StoreWorker) -> Plain {
    change(worker, |stream| {
        let stream = stream.read();
        let groups = stream.groups().expect("it has groups").iter().map(|(name, group)| (&**name, group));
        Plain::of(groups, stream.idempotence())
    })
}

/// Changes something of everything, spread over it.
fn change_some(stream: &mut StreamWriter<'_, '_>, n: u64, at: u64) {
    match n % 7 {
        0 => assert!(stream.change_group(&named("group", at), |group| group.meet(b"a", NOW, true)).is_some()),
        1 => assert!(stream.remove_group(&named("group", at))),
        2 => assert!(stream.add_group(&named("new", n), StreamGroup::new(StreamId::MIN, None))),
        3 => {
            let done = stream.change_group(CROWDED, |group| {
                assert!(!group.meet(&named("consumer", at), NOW + 1, true), "it is there");
                let consumer = group.consumer(&named("consumer", at)).expect("it is there").number();
                group.set_pending(PendingEntry { id: StreamId::new(2, at), time_ms: NOW, count: 1, consumer });
            });
            assert!(done.is_some());
        }
        4 => {
            let gone = stream.change_group(CROWDED, |group| group.remove_consumer(&named("consumer", at)));
            assert!(gone.flatten().is_some());
        }
        5 => add_name(stream, at % PRODUCERS, &named("new", n)),
        _ => {
            let producer = named("producer", at % PRODUCERS);
            stream
                .change_idempotence(|| unreachable!("it is there"), |kept| kept.forget(&producer, &named("name", at)));
        }
    }
}

/// Begins a walk, and has its walker take the stream over as it is.
fn begin(store: &Store, worker: &mut StoreWorker) -> Arc<Keeper> {
    let keeper = Arc::<Keeper>::default();
    assert!(store.begin_walk(keeper.clone()), "no other walk is under way");
    // The first change shows it: the walk has not come to it.
    change(worker, |stream| assert!(stream.add_group(b"first", StreamGroup::new(StreamId::MIN, None))));
    assert!(store.has_readers(), "it is being shown");
    keeper
}

#[test]
fn issue_13_a_change_beside_a_walk_copies_a_few_nodes_of_what_the_walk_has() {
    let (store, mut worker) = store();
    fill(&mut worker);
    let before = plain_of(&mut worker);
    let used = store.used_memory();
    let keeper = begin(&store, &mut worker);
    let first = keeper.kept.get();
    assert!(first <= COPIED_MAX, "the first change has copied {first} bytes");
    // A node of each map is copied once: after that a change of it copies nothing.
    let (mut kept, mut grew) = (first, 0);
    for n in 0..4000 {
        let at = n * (MANY / 4000);
        change(&mut worker, |stream| change_some(stream, n, at));
        let now = keeper.kept.get();
        let copied = now - kept;
        assert!(copied <= COPIED_MAX, "change {n} has copied {copied} bytes");
        (kept, grew) = (now, grew + u64::from(copied > 0));
    }
    assert!(grew > 1000, "{grew} changes have copied nodes");
    assert!(kept > used as usize / 100, "{kept} bytes are kept of {used}: what was changed all over");
    store.verify();
    let changed = plain_of(&mut worker);
    assert!(changed != before, "it has changed");
    end(&mut worker);
    let outline = keeper.shown.lock().expect("no panic").take().expect("it was shown");
    assert!(Plain::of_outline(&outline) == before, "the walk has all as it was when it began");
    drop(outline);
    work_off(&mut worker, NOW);
    assert_eq!(keeper.kept.get(), 0, "nothing is kept for it any more");
    assert!(plain_of(&mut worker) == changed, "and the stream has what it had");
    store.verify();
}

/// Groups and names that a walk alone still has go back in steps where the walk is given up, as those of a deleted stream do.
#[test]
fn issue_13_what_an_abandoned_walk_had_alone_is_freed_in_steps() {
    for is_abandoned in [true, false] {
        let (store, mut worker) = store();
        fill(&mut worker);
        let keeper = begin(&store, &mut worker);
        keeper.rests.store(is_abandoned, Relaxed);
        if !is_abandoned {
            end(&mut worker);
            *keeper.shown.lock().expect("no panic") = None;
        }
        worker.inside(0, |tx| {
            let k = tx.key(KEY);
            tx.hold(&[tx.shard_of(k.hash)]);
            assert!(tx.remove(&k));
        });
        if is_abandoned {
            while store.has_readers() {
                assert!(worker.walk_step(1));
            }
            // The stream goes at once, since the walk has nearly all that it had.
            work_off(&mut worker, NOW);
            assert_eq!(store.freeing().pending, 0, "the stream is gone");
            store.abandon_walk(&*keeper);
            assert_eq!(store.freeing().pending, 1, "what the walk had is left to the background");
        }
        let mut rounds = 0;
        while store.freeing().pending > 0 {
            assert!(rounds < 1_000_000, "it comes to an end");
            rounds += 1;
            // A round of steps, one of each kind.
            worker.background(NOW, std::time::Duration::ZERO);
        }
        // Each group is a leaf of consumers or less, each name two entries of leaves.
        let least = (MANY + 2 * MANY / LEAF) / STEP_LEAVES / 2;
        assert!(rounds > least, "{rounds} rounds, abandoned: {is_abandoned}");
        assert_eq!(keeper.kept.get(), 0);
        store.verify();
    }
}
