//! Collections that take several holds of their shard, changed in every way while a walk shows them: it shows them as they
//! were when it began. The index grows at every step.

use std::collections::BTreeMap;
use std::sync::Arc;

use varve_store::{
    ListEnd, PendingEntry, ReadBounds, StoreWorker, StreamGroup, StreamId, StreamNeed, StreamWriter, StringForm, Ttl,
    Tx, Type, ZAdd,
};

use super::{Recorder, begin, key, set, store, work_off};
use crate::all_types::value::Plain;

/// Elements of a collection: far more than a hold shows.
const ELEMENTS: usize = 3000;
/// Elements of a hold, at the end of whose leaf it ends.
const HOLD: usize = 64;
const BIG: &[u8] = b"big";
const TYPES: [Type; 5] = [Type::Hash, Type::Set, Type::List, Type::Zset, Type::Stream];
const NOW: i64 = 1_000_000;

fn element(n: usize) -> Vec<u8> {
    format!("element {n}").into_bytes()
}

/// The collection as it is made.
fn original(ty: Type) -> Plain {
    let mut value = Plain::empty(ty);
    for n in 0..ELEMENTS {
        match &mut value {
            Plain::Hash(hash) => _ = hash.insert(element(n), element(n + 1)),
            Plain::Set(set) => _ = set.insert(element(n)),
            Plain::List(list) => list.push_back(element(n)),
            Plain::Zset(zset) => _ = zset.insert(element(n), n as f64),
            Plain::Stream(stream) => {
                stream.last = StreamId::new(0, n as u64 + 1);
                stream.entries.insert(stream.last, vec![(element(n), element(n + 1))]);
            }
            Plain::String(_) => unreachable!("types that take several holds"),
        }
    }
    value
}

fn with<R>(worker: &mut StoreWorker, keys: &[&[u8]], work: impl FnOnce(&mut Tx<'_>) -> R) -> R {
    worker.inside(0, |tx| {
        let shards = keys.iter().map(|key| tx.shard_of(tx.key(key).hash)).collect::<varve_store::ShardSet>();
        tx.hold(&shards);
        work(tx)
    })
}

/// Adds elements of these numbers, or changes those that are there.
fn add(worker: &mut StoreWorker, ty: Type, numbers: std::ops::Range<usize>, suffix: &str) {
    for n in numbers {
        let value = [&element(n + 1)[..], suffix.as_bytes()].concat();
        with(worker, &[BIG], |tx| {
            let k = tx.key(BIG);
            match ty {
                Type::Hash => _ = tx.hash_set(&k, [(&element(n)[..], &value[..])].into_iter()).expect("a hash"),
                Type::Stream => {
                    let add = |stream: &mut StreamWriter<'_, '_>| {
                        let id = stream.state().last.next().expect("a small one");
                        stream.add(id, [(&element(n)[..], &value[..])].into_iter());
                    };
                    let need = StreamNeed::entry([(&element(n)[..], &value[..])].into_iter());
                    if tx.exists(&k) {
                        tx.stream_mut_for(&k, need, add).expect("a stream");
                    } else {
                        tx.make_stream(&k, need, add);
                    }
                }
                Type::Set => _ = tx.set_add(&k, [&element(n)[..]]).expect("a set"),
                // A member that is there gets a score that brings it to another leaf.
                Type::Zset => {
                    let score = (n + suffix.len() * ELEMENTS) as f64;
                    _ = tx.zset_add(&k, &element(n), score, ZAdd::default()).expect("a sorted set");
                }
                _ => _ = tx.list_push(&k, ListEnd::Back, [&element(n)[..]].into_iter(), false).expect("a list"),
            }
        });
    }
}

fn take(worker: &mut StoreWorker, ty: Type, numbers: impl Iterator<Item = usize>) {
    for n in numbers {
        with(worker, &[BIG], |tx| {
            let k = tx.key(BIG);
            match ty {
                Type::Hash => _ = tx.hash_remove(&k, [&element(n)[..]].into_iter()).expect("a hash"),
                Type::Stream => {
                    let id = StreamId::new(0, n as u64 + 1);
                    tx.stream_mut(&k, |stream| stream.remove(id)).expect("a stream");
                }
                Type::Set => _ = tx.set_remove(&k, [&element(n)[..]]).expect("a set"),
                Type::Zset => _ = tx.zset_remove(&k, &element(n)).expect("a sorted set"),
                _ if n % 2 == 0 => _ = tx.list_pop(&k, ListEnd::Back, |_| ()).expect("a list"),
                _ => _ = tx.list_remove(&k, &element(n), 1, ListEnd::Front).expect("a list"),
            }
        });
    }
}

/// One way in which a collection may change while it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Elements,
    AllElements,
    Rename,
    /// It is renamed, and another one is made under its name.
    Moved,
    Delete,
    Replace,
    Expire,
    FlushDatabase,
    SwapAndFlush,
    FlushAll,
}

const CHANGES: [Change; 11] = [
    Change::Nothing,
    Change::Elements,
    Change::AllElements,
    Change::Rename,
    Change::Moved,
    Change::Delete,
    Change::Replace,
    Change::Expire,
    Change::FlushDatabase,
    Change::SwapAndFlush,
    Change::FlushAll,
];

fn change(worker: &mut StoreWorker, ty: Type, change: Change) {
    let store = std::sync::Arc::clone(worker.store());
    let rename = |worker: &mut StoreWorker| {
        with(worker, &[BIG, b"other name"], |tx| assert!(tx.rename(&tx.key(BIG), &tx.key(b"other name"))));
    };
    match change {
        Change::Nothing => {}
        Change::Elements => {
            add(worker, ty, 0..ELEMENTS / 3, "changed");
            take(worker, ty, (0..ELEMENTS).step_by(7));
            add(worker, ty, ELEMENTS..ELEMENTS + 500, "");
        }
        Change::AllElements => {
            take(worker, ty, 0..ELEMENTS);
            add(worker, ty, 0..ELEMENTS / 2, "again");
        }
        Change::Rename => rename(worker),
        Change::Moved => {
            rename(worker);
            add(worker, ty, 0..200, "new");
        }
        Change::Delete => with(worker, &[BIG], |tx| assert!(tx.remove(&tx.key(BIG)))),
        Change::Replace => set(worker, 0, BIG, Ttl::Clear),
        Change::Expire => {
            with(worker, &[BIG], |tx| assert!(tx.set_expiry(&tx.key(BIG), Some(NOW + 1))));
            worker.set_now(NOW + 10);
            with(worker, &[BIG], |tx| assert!(!tx.exists(&tx.key(BIG))));
        }
        Change::FlushDatabase => worker.exclusive(|worker| store.flush_db(worker, 0)),
        Change::SwapAndFlush => worker.exclusive(|worker| {
            store.swap_db(0, 1);
            store.flush_db(worker, 1);
        }),
        Change::FlushAll => worker.exclusive(|worker| store.flush_all(worker)),
    }
}

/// A walk over one collection and some keys, which changes when `at` steps have been made.
fn walk(ty: Type, what: Change, at: usize) {
    let (store, mut worker) = store();
    store.set_read_bounds(ReadBounds { long_elements: ELEMENTS as u64, hold_elements: HOLD });
    worker.set_now(NOW);
    add(&mut worker, ty, 0..ELEMENTS, "");
    (0..100).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    let recorder = begin(&store);
    let mut steps = 0;
    let mut grown = 1000;
    // FLUSHALL comes when the walk reads.
    while (steps < at || what == Change::FlushAll && !store.has_readers()) && worker.walk_step(1) {
        steps += 1;
        (0..8).for_each(|n| set(&mut worker, 0, &key(grown + n), Ttl::Clear));
        grown += 8;
    }
    change(&mut worker, ty, what);
    store.verify();
    while worker.walk_step(1) {
        (0..8).for_each(|n| set(&mut worker, 0, &key(grown + n), Ttl::Clear));
        grown += 8;
        if grown % 256 == 0 {
            // Reclaim, freeing of what was removed, growth.
            work_off(&mut worker, NOW + 10);
        }
    }
    store.verify();
    let recorded = recorder.take();
    let case = format!("{ty:?}, {what:?} at step {at}");
    if what == Change::FlushAll {
        assert_eq!((recorded.all, recorded.ends, recorded.long), (1, 0, 0), "{case}: it ends the walk at once");
        assert!(!store.has_readers(), "{case}: and the walk's reader");
        return;
    }
    let mut shown = BTreeMap::new();
    for one in recorded.shown {
        assert!(shown.insert(one.name.clone(), one.value).is_none(), "{case}: {:?} is shown twice", one.name);
    }
    let big = shown.keys().find(|(_, key)| key == BIG).cloned().unwrap_or_else(|| panic!("{case}: it is not shown"));
    assert!(shown.remove(&big) == Some(original(ty)), "{case}: it is shown as it was not");
    assert_eq!(recorded.all, 0, "{case}: while a collection is read nothing goes at once");
    assert_eq!(shown.len(), 100, "{case}: the keys of the beginning are shown, and no other");
    assert_eq!(recorded.long, 1, "{case}: it takes several holds");
    // A node of a list has some 600 of them.
    assert!(recorded.most < 1024, "{case}: {} elements in one hold", recorded.most);
    work_off(&mut worker, NOW + 20);
    assert!(!store.has_readers(), "{case}: the reader has ended");
    store.verify();
}

#[test]
fn a_long_collection_is_shown_as_it_was_whatever_becomes_of_it() {
    for ty in TYPES {
        for what in CHANGES {
            let steps: &[usize] = if what == Change::FlushAll { &[0] } else { &[0, 13, 17, 25] };
            steps.iter().for_each(|&at| walk(ty, what, at));
        }
    }
}

/// Long hashes that a walk has yet to show free nothing where they are removed: each one that goes brings the next one no
/// nearer to being spared.
#[test]
fn eviction_passes_over_what_the_walk_would_keep() {
    const HASHES: usize = 60;
    let (store, mut worker) = store();
    let name = |n: usize| format!("hash {n}").into_bytes();
    for n in 0..HASHES {
        with(&mut worker, &[&name(n)], |tx| {
            let fields: Vec<Vec<u8>> = (0..ELEMENTS).map(element).collect();
            let pairs = fields.iter().map(|field| (&field[..], &field[..]));
            let _ = tx.hash_set(&tx.key(&name(n)), pairs).expect("a hash");
        });
    }
    let recorder = begin(&store);
    let lower_limit = || store.set_limit(store.used_memory() / 100 * 95, varve_store::Policy::AllKeysRandom);
    lower_limit();
    // Dead bytes go first.
    let is_refused = (0..100).any(|_| {
        let refused = worker.admit(1000).is_err();
        lower_limit();
        refused
    });
    assert!(is_refused, "no key may go before it is shown");
    assert_eq!(store.totals().evicted, 0);
    recorder.full.store(false, std::sync::atomic::Ordering::Relaxed);
    let admitted = (0..1000).any(|_| worker.admit(1000).is_ok());
    assert!(admitted, "the walk goes on, and what it has shown may go");
    let evicted = store.totals().evicted;
    assert!(evicted > 0 && evicted < HASHES as u64 / 4, "{evicted} hashes went for 5% of the bytes");
    super::end(&mut worker);
    assert_eq!(recorder.take().long, HASHES, "each was shown");
    store.verify();
}

/// A large string that a walk has yet to show, or has pinned, frees nothing where it is removed, like a long collection.
#[test]
fn eviction_passes_over_large_strings_that_are_or_would_be_pinned() {
    const STRINGS: usize = 60;
    let (store, mut worker) = store();
    let name = |n: usize| format!("string {n}").into_bytes();
    for n in 0..STRINGS {
        with(&mut worker, &[&name(n)], |tx| tx.set(&tx.key(&name(n)), &[b'v'; 40_000], Ttl::Clear, StringForm::Auto));
    }
    let recorder = Arc::new(Recorder { full: true.into(), pins: Some(Default::default()), ..Recorder::default() });
    assert!(store.begin_walk(recorder.clone()));
    let lower_limit = || store.set_limit(store.used_memory() / 100 * 95, varve_store::Policy::AllKeysRandom);
    let refused = |worker: &mut StoreWorker| {
        (0..100).any(|_| {
            lower_limit();
            worker.admit(1000).is_err()
        })
    };
    assert!(refused(&mut worker), "no string may go before it is shown");
    assert_eq!(store.totals().evicted, 0, "none was shown");
    super::end(&mut worker);
    assert_eq!(recorder.take().shown.len(), STRINGS);
    assert!(refused(&mut worker), "no string may go while it is pinned");
    assert_eq!(store.totals().evicted, 0, "all are pinned");
    recorder.pins.as_ref().expect("it keeps pins").lock().expect("no panic").clear();
    lower_limit();
    assert!(worker.admit(1000).is_ok(), "they are written, and may go");
    let evicted = store.totals().evicted;
    assert!((1..STRINGS as u64 / 4).contains(&evicted), "{evicted} strings went for 5% of the bytes");
    store.verify();
}

/// The sum of all that is kept for a walk falls as it is shown, and is zero when the walk was given up or all was emptied.
#[test]
fn the_walker_learns_how_much_long_collections_keep_for_it() {
    for ty in TYPES {
        for what in [Change::Nothing, Change::FlushAll, Change::Delete] {
            let (store, mut worker) = store();
            store.set_read_bounds(ReadBounds { long_elements: ELEMENTS as u64, hold_elements: HOLD });
            worker.set_now(NOW);
            add(&mut worker, ty, 0..ELEMENTS, "");
            let recorder = begin(&store);
            let used = store.used_memory();
            // The list of a sequence's leaves is kept from the beginning.
            take(&mut worker, ty, 0..ELEMENTS / 2);
            let (kept, case) = (recorder.kept.get(), format!("{ty:?}, {what:?}"));
            assert!(kept > ELEMENTS / 2 * 10, "{case}: {kept} bytes of {used} are kept");
            if what == Change::Nothing {
                let mut before = kept;
                while worker.walk_step(1) {
                    assert!(recorder.kept.get() <= before, "{case}: what is shown is kept no more");
                    before = recorder.kept.get();
                }
            } else if what == Change::Delete {
                store.abandon_walk(&*recorder);
            }
            change(&mut worker, ty, what);
            work_off(&mut worker, NOW + 20);
            assert_eq!(recorder.kept.get(), 0, "{case}");
            store.verify();
        }
    }
}

#[test]
fn a_walk_that_is_abandoned_lets_long_collections_go() {
    let (store, mut worker) = store();
    store.set_read_bounds(ReadBounds { long_elements: ELEMENTS as u64, hold_elements: HOLD });
    add(&mut worker, Type::List, 0..ELEMENTS, "");
    let recorder = begin(&store);
    add(&mut worker, Type::List, 0..1, "");
    assert!(worker.walk_step(1) && worker.walk_step(1), "it is being shown");
    assert!(store.has_readers());
    store.abandon_walk(&*recorder);
    work_off(&mut worker, NOW);
    assert!(!store.has_readers(), "the background has its reader forgotten");
    super::end(&mut worker);
    assert_eq!(recorder.take().shown.len(), 0);
    store.verify();
}

#[test]
fn nothing_that_can_wait_removes_keys_while_the_walker_is_full() {
    let (store, mut worker) = store();
    (0..2000).for_each(|n| set(&mut worker, 0, &key(n), Ttl::Clear));
    set(&mut worker, 1, b"other", Ttl::Clear);
    let recorder = begin(&store);
    let removes = |recorder: &Recorder, worker: &mut StoreWorker| {
        let before = recorder.count();
        work_off(worker, NOW);
        recorder.count() > before
    };
    recorder.is_full.store(true, std::sync::atomic::Ordering::Relaxed);
    worker.exclusive(|worker| store.flush_db(worker, 0));
    assert!(!removes(&recorder, &mut worker), "a sweep waits");
    store.set_limit(1, varve_store::Policy::AllKeysRandom);
    assert!(!removes(&recorder, &mut worker), "eviction waits");
    recorder.is_full.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(removes(&recorder, &mut worker), "both go on");
    store.verify();
}

/// The least bytes of a pending entry.
const PENDING_BYTES: usize = 16;

/// How a group changes behind a walk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GroupChange {
    /// All entries but one.
    Acknowledged,
    Destroyed,
    /// With its stream.
    Deleted,
}

const GROUP_CHANGES: [GroupChange; 3] = [GroupChange::Acknowledged, GroupChange::Destroyed, GroupChange::Deleted];

/// A stream with few entries is long if its groups are. What they were is counted for the walk as they change.
#[test]
fn issue_13_a_stream_is_shown_over_several_steps_for_its_groups_alone() {
    for (entries, what) in [0, 3].into_iter().flat_map(|entries| GROUP_CHANGES.map(|what| (entries, what))) {
        let (store, mut worker) = store();
        add(&mut worker, Type::Stream, 0..10, "");
        let pending = |tx: &mut Tx<'_>, change: &mut dyn FnMut(&mut StreamGroup)| {
            let k = tx.key(BIG);
            let done = tx.stream_mut(&k, |stream| stream.change_group(b"group", |group| change(group)));
            assert!(done.expect("a stream").flatten().is_some(), "the group is there");
        };
        with(&mut worker, &[BIG], |tx| {
            let k = tx.key(BIG);
            tx.stream_mut_for(&k, StreamNeed::Everything, |stream| {
                stream.add_group(b"group", StreamGroup::new(StreamId::MIN, None));
            })
            .expect("a stream");
            pending(tx, &mut |group| {
                group.meet(b"consumer", NOW, true);
                let consumer = group.consumer(b"consumer").expect("it was met").number();
                for n in 1..=3000 {
                    group.set_pending(PendingEntry { id: StreamId::new(0, n), time_ms: NOW, count: 1, consumer });
                }
            });
        });
        take(&mut worker, Type::Stream, entries..10);
        let recorder = begin(&store);
        with(&mut worker, &[BIG], |tx| match what {
            GroupChange::Acknowledged => {
                pending(tx, &mut |group| (1..3000).for_each(|n| assert!(group.acknowledge(StreamId::new(0, n)))));
            }
            GroupChange::Destroyed => {
                let done = tx.stream_mut(&tx.key(BIG), |stream| stream.remove_group(b"group"));
                assert_eq!(done.expect("a stream"), Some(true));
            }
            GroupChange::Deleted => assert!(tx.remove(&tx.key(BIG))),
        });
        let kept = recorder.kept.get();
        // The stream still has what it had until its own reader has ended.
        let least = if what == GroupChange::Deleted { 0 } else { 3000 * PENDING_BYTES };
        assert!((least..=2 * 3000 * PENDING_BYTES).contains(&kept), "{kept} bytes are kept of what was {what:?}");
        super::end(&mut worker);
        assert_eq!(recorder.kept.get(), 0, "all was shown");
        let recorded = recorder.take();
        assert_eq!((recorded.shown.len(), recorded.long), (1, 1), "with {entries} entries");
        let Plain::Stream(stream) = &recorded.shown[0].value else { panic!("a stream") };
        assert_eq!(stream.entries.len(), entries);
        assert_eq!(stream.groups.0[&b"group"[..]].pending.len(), 3000, "all that was pending when the walk began");
        assert!(!store.has_readers());
        store.verify();
    }
}

/// While a receiver goes on behind the elements of a collection, somebody else may read one: all databases are not emptied at once.
#[test]
fn flushall_minds_readers_beside_a_walk_whose_own_has_ended() {
    let (store, mut worker) = store();
    add(&mut worker, Type::List, 0..ELEMENTS, "");
    let recorder = begin(&store);
    recorder.rests.store(1000, std::sync::atomic::Ordering::Relaxed);
    let mut has_read = false;
    while !has_read || store.has_readers() {
        assert!(worker.walk_step(1));
        has_read |= store.has_readers();
    }
    let reader = with(&mut worker, &[BIG], |tx| tx.begin_reading_whole(&tx.key(BIG), Type::List).expect("a list"));
    assert!(reader.is_some() && store.has_readers());
    worker.exclusive(|worker| store.flush_all(worker));
    assert_eq!(recorder.take().all, 0, "the walk goes on, as the reader does");
    super::end(&mut worker);
    drop(reader);
    work_off(&mut worker, NOW);
    assert!(!store.has_readers());
    store.verify();
}

/// Bytes that a list keeps for a reader are counted in the change for which it is kept, also where an element finds room in its node.
#[test]
fn what_a_list_keeps_for_a_reader_is_counted_at_once() {
    for pops in [false, true] {
        let (store, mut worker) = store();
        add(&mut worker, Type::List, 0..ELEMENTS, "");
        let reader = with(&mut worker, &[BIG], |tx| tx.begin_reading_whole(&tx.key(BIG), Type::List).expect("a list"));
        if pops {
            take(&mut worker, Type::List, [0].into_iter());
        } else {
            add(&mut worker, Type::List, 0..1, "");
        }
        store.verify();
        drop(reader);
        work_off(&mut worker, NOW);
        store.verify();
    }
}
