//! Bytes become operations on one big collection, a list, a hash, a set, a sorted set or a stream, over a log of small segments and
//! without a store; a naive model stands beside it. Fields of a hash may expire, a stream may have groups of consumers. Reclaim
//! moves its objects in between; at the end it is copied, freed, and nothing of it is left in the log.
//!
//! Two bytes choose the type and the shape; then four bytes an operation: what, two numbers, a length.

#![no_main]

#[path = "../models/groups.rs"]
mod groups;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use groups::{GroupChange, PlainGroups};
use libfuzzer_sys::fuzz_target;
use varve_collection::leaf_table::LeafTable;
use varve_collection::list::{CompressScratch, End, ListCtx, Quicklist, QuicklistReader, Shape};
use varve_collection::stream::{NodeLimits, Stream, StreamId, StreamReader, Trim};
use varve_collection::zset::{ScoreBound, SortedSet, ZAdd, ZAdded, ZRange};
use varve_collection::{Collection, CollectionId, ReadCtx, WriteCtx};
use varve_packed::node::{Coded, PackedEntry};
use varve_segment::{Access, Appender, Drain, DrainState, Log, LogGeometry, ObjectHead, Relocate, Relocated};

/// The collection is verified as a whole now and then, so longer inputs only waste time.
const OPERATIONS_MAX: usize = 600;
const VERIFY_EACH: usize = 16;
const SEED: u64 = 11;
const ID: CollectionId = CollectionId::new(3);

fuzz_target!(|bytes: &[u8]| {
    let [ty, shape, operations @ ..] = bytes else { return };
    let mut world = World::new(*ty, *shape);
    for (n, operation) in operations.chunks_exact(4).take(OPERATIONS_MAX).enumerate() {
        world.apply([operation[0], operation[1], operation[2], operation[3]]);
        if n % VERIFY_EACH == 0 {
            world.verify();
        }
    }
    world.verify();
    world.compare();
    world.copy_and_free();
});

enum Model {
    List(VecDeque<Vec<u8>>),
    Fields(Fields),
    Scores(BTreeMap<Vec<u8>, f64>),
    Entries(Entries),
}

/// Each field's value, and when it expires; a set's members have neither.
type Fields = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

/// Each entry has one field.
#[derive(Default)]
struct Entries {
    entries: BTreeMap<StreamId, (Vec<u8>, Vec<u8>)>,
    groups: PlainGroups,
}

struct World {
    log: Log,
    access: Access,
    appender: Appender,
    scratch: CompressScratch,
    shape: Shape,
    drain: Option<Drain>,
    collection: Collection,
    model: Model,
    /// Milliseconds; it passes where an operation says so.
    now_ms: i64,
}

/// Reclaim's questions answered by the one collection that there is.
struct Mover<'a> {
    log: &'a Log,
    access: &'a mut Access,
    appender: &'a mut Appender,
    collection: &'a mut Collection,
}

impl Relocate for Mover<'_> {
    fn prepare(&mut self, _heads: &[ObjectHead<'_>]) {}

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        let mut ctx = WriteCtx { log: self.log, access: self.access, appender: self.appender, seed: SEED, id: ID };
        if self.collection.relocate(&mut ctx, head) { Relocated::Moved } else { Relocated::Dead }
    }
}

impl World {
    fn new(ty: u8, shape: u8) -> World {
        let log = Log::new(LogGeometry {
            segment_bytes: 16 << 10,
            piece_bytes: 1 << 10,
            extent_min_bytes: 8 << 10,
            release_bytes: 4 << 10,
            reserve_bytes: 1 << 28,
        })
        .expect("addresses");
        let (collection, model) = match ty % 5 {
            0 => (Collection::List(Quicklist::empty()), Model::List(VecDeque::new())),
            1 => (Collection::Hash(LeafTable::fields()), Model::Fields(BTreeMap::new())),
            2 => (Collection::Set(LeafTable::members()), Model::Fields(BTreeMap::new())),
            3 => (Collection::Zset(Box::new(SortedSet::new(ID, 1))), Model::Scores(BTreeMap::new())),
            _ => (Collection::Stream(Box::new(Stream::empty())), Model::Entries(Entries::default())),
        };
        let fill = [4, 2, 9, -1][usize::from(shape % 4)];
        let own_node = if shape & 8 == 0 { u64::MAX } else { 60 };
        World {
            access: log.access(),
            log,
            appender: Appender::new(),
            scratch: CompressScratch::default(),
            shape: Shape::of(fill, u64::from(shape / 4 % 2), own_node),
            drain: None,
            collection,
            model,
            now_ms: 1_000,
        }
    }

    fn apply(&mut self, operation: [u8; 4]) {
        if operation[0] % 16 == 15 {
            return self.reclaim();
        }
        let World { log, access, appender, scratch, shape, collection, model, now_ms, .. } = self;
        let mut ctx = WriteCtx { log, access, appender, seed: SEED, id: ID };
        if operation[0] % 16 == 14 {
            collection.step(&mut ctx, usize::from(operation[1] % 8) + 1);
            return appender.park(log);
        }
        match (&mut *collection, model) {
            (Collection::List(list), Model::List(model)) => {
                let mut list_ctx = ListCtx { write: &mut ctx, scratch, shape: *shape };
                change_list(list, &mut list_ctx, model, operation);
            }
            (Collection::Hash(table), Model::Fields(model)) if operation[0] & 128 != 0 => {
                change_times(table, &mut ctx, model, now_ms, operation);
            }
            (Collection::Hash(table), Model::Fields(model)) => change_fields(table, &mut ctx, model, false, operation),
            (Collection::Set(table), Model::Fields(model)) => change_fields(table, &mut ctx, model, true, operation),
            (Collection::Zset(set), Model::Scores(model)) => change_scores(set, &mut ctx, model, operation),
            (Collection::Stream(stream), Model::Entries(Entries { entries, groups })) if operation[0] & 128 != 0 => {
                let [verb, one, two, three] = operation;
                *now_ms += i64::from(three);
                let change = GroupChange { verb, one, two, now_ms: *now_ms };
                groups.change((stream, &mut ctx), entries.keys(), &change);
            }
            (Collection::Stream(stream), Model::Entries(model)) => {
                change_entries(stream, &mut ctx, &mut model.entries, operation);
            }
            _ => unreachable!("the model is of the collection's type"),
        }
        appender.park(log);
    }

    fn reclaim(&mut self) {
        let World { log, access, appender, drain, collection, .. } = self;
        if drain.is_none() {
            *drain = log.choose_victim();
        }
        let Some(victim) = drain else { return };
        let state = log.drain_step(victim, &mut Mover { log, access, appender, collection }, 20);
        appender.park(log);
        if state == DrainState::Done {
            *drain = None;
        }
    }

    fn read(&self) -> ReadCtx<'_> {
        ReadCtx { log: &self.log, access: &self.access, seed: SEED }
    }

    /// Every object of the collection is alive, and nothing else is.
    fn verify(&self) {
        let mut live = HashSet::new();
        self.collection.verify(self.read(), ID, &mut live);
        self.log.verify_with(|head, _| live.contains(&head.r));
    }

    /// The whole collection is what the model is.
    fn compare(&mut self) {
        let ctx = ReadCtx { log: &self.log, access: &self.access, seed: SEED };
        match (&self.collection, &self.model) {
            (Collection::List(list), Model::List(model)) => {
                let mut reader = QuicklistReader { list, ctx, scratch: &mut self.scratch };
                let mut shown = Vec::new();
                reader.range(0, list.len(), End::Front, |entry| shown.push(text(entry)));
                assert!(shown.iter().eq(model), "{shown:?}");
            }
            (Collection::Hash(table) | Collection::Set(table), Model::Fields(model)) => {
                let mut shown = BTreeMap::new();
                table.for_each(ctx, |field, value, expiry_ms| {
                    assert!(shown.insert(text(field), (text(value), expiry_ms)).is_none(), "a field twice");
                });
                assert_eq!(&shown, model);
                let first = model.values().filter_map(|(_, expiry_ms)| *expiry_ms).min();
                assert!(first.is_none_or(|first| table.next_due_ms().is_some_and(|due_ms| due_ms <= first)));
            }
            (Collection::Zset(set), Model::Scores(model)) => {
                let mut shown = Vec::new();
                set.walk(ctx, 0, false, set.len() as u64, |member, score| shown.push((score, member.to_vec())));
                let mut wanted: Vec<(f64, Vec<u8>)> = model.iter().map(|(m, s)| (*s, m.clone())).collect();
                wanted.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
                assert_eq!(shown, wanted);
            }
            (Collection::Stream(stream), Model::Entries(model)) => {
                let mut shown = BTreeMap::new();
                let reader = StreamReader::Big(stream, ctx);
                reader.range(StreamId::MIN, StreamId::MAX, false, |mut entry| {
                    let (name, value) = entry.fields.next().expect("a field");
                    shown.insert(entry.id, (name.to_vec(), value.to_vec())).is_none()
                });
                assert_eq!(shown, model.entries);
                model.groups.compare(&reader);
            }
            _ => unreachable!("the model is of the collection's type"),
        }
    }

    fn copy_and_free(mut self) {
        let other = CollectionId::new(ID.number() + 1);
        let World { log, access, appender, collection, .. } = &mut self;
        let ctx = ReadCtx { log, access, seed: SEED };
        let mut copy = collection.copy(ctx, appender, other);
        copy.verify(ctx, other, &mut HashSet::new());
        for (collection, id) in [(collection, ID), (&mut copy, other)] {
            let mut ctx = WriteCtx { log, access, appender, seed: SEED, id };
            while !collection.free_step(&mut ctx, 7) {}
            while !collection.shrink_step() {}
        }
        appender.park(log);
        log.verify_with(|_, _| false);
    }
}

fn text(entry: PackedEntry<'_>) -> Vec<u8> {
    entry.text(&mut [0; 20]).to_vec()
}

/// Few different texts, so that searches hit: integers, short texts, some long ones.
fn word(n: u8, long: u8) -> Vec<u8> {
    match n % 8 {
        0..3 => (i64::from(n) << (long % 40)).to_string().into_bytes(),
        3..7 => format!("word:{:03}", n / 8).into_bytes(),
        _ => vec![b'a' + n / 8; usize::from(long) * 3],
    }
}

fn change_list(
    list: &mut Quicklist,
    ctx: &mut ListCtx<'_, '_>,
    model: &mut VecDeque<Vec<u8>>,
    [what, one, two, three]: [u8; 4],
) {
    let end = if what & 16 == 0 { End::Front } else { End::Back };
    let (new, len) = (word(two, three), model.len() as u64);
    let at = if len == 0 { 0 } else { u64::from(one) * len / 256 };
    match what % 16 {
        0..=5 => {
            list.push(ctx, end, &Coded::of(&new));
            if end == End::Front { model.push_front(new) } else { model.push_back(new) }
        }
        6 | 7 => {
            let mut shown = None;
            let popped = list.pop(ctx, end, |entry| shown = Some(text(entry)));
            let wanted = if end == End::Front { model.pop_front() } else { model.pop_back() };
            assert_eq!((popped, shown), (wanted.is_some(), wanted));
        }
        8 if len > 0 => {
            list.set(ctx, at, &Coded::of(&new));
            model[at as usize] = new;
        }
        9 | 10 if len > 0 => {
            let needle = word(one, three);
            let write = &mut *ctx.write;
            let reader = ReadCtx { log: write.log, access: write.access, seed: SEED };
            let found = QuicklistReader { list, ctx: reader, scratch: ctx.scratch }.find(&Coded::of(&needle));
            let wanted = model.iter().position(|element| *element == needle);
            assert_eq!(found.is_some(), wanted.is_some(), "{needle:?}");
            if let (Some(found), Some(wanted)) = (found, wanted) {
                let before = what & 32 == 0;
                list.insert(ctx, found, before, &Coded::of(&new));
                model.insert(if before { wanted } else { wanted + 1 }, new);
            }
        }
        11 => {
            let count = u64::from(one % 4) + 1;
            assert_eq!(list.remove(ctx, &Coded::of(&new), count, end), remove_equal(model, &new, count, end));
        }
        12 => {
            list.cut(ctx, end, at);
            for _ in 0..at {
                if end == End::Front {
                    model.pop_front()
                } else {
                    model.pop_back()
                };
            }
        }
        _ => {
            let mut shown = Vec::new();
            list.take(ctx, end, at, |entry| shown.push(text(entry)));
            let wanted = (0..at).filter_map(|_| if end == End::Front { model.pop_front() } else { model.pop_back() });
            assert!(shown.into_iter().eq(wanted), "taken in the order of pops");
        }
    }
    assert_eq!(list.len(), model.len() as u64);
}

/// Removes up to `count` equal elements, beginning at an end; how many there were.
fn remove_equal(model: &mut VecDeque<Vec<u8>>, needle: &[u8], count: u64, end: End) -> u64 {
    let mut left = count;
    let mut keep = |element: &Vec<u8>| {
        let goes = *element == needle && left > 0;
        left -= u64::from(goes);
        !goes
    };
    if end == End::Front {
        model.retain(&mut keep);
    } else {
        let kept: Vec<Vec<u8>> = model.drain(..).rev().filter(&mut keep).collect();
        model.extend(kept.into_iter().rev());
    }
    count - left
}

fn change_fields(
    table: &mut LeafTable,
    ctx: &mut WriteCtx<'_>,
    model: &mut Fields,
    is_set: bool,
    [what, one, two, three]: [u8; 4],
) {
    let field = if what & 64 == 0 { word(one, three) } else { vec![one, two, what] };
    match what % 16 {
        0..=6 if is_set => {
            let new = model.insert(field.clone(), (Vec::new(), None)).is_none();
            assert_eq!(table.add(ctx, &field), new);
        }
        0..=6 => {
            let value = word(two, three);
            let new = model.insert(field.clone(), (value.clone(), None)).is_none();
            assert_eq!(table.set(ctx, &field, &value), new);
        }
        7..=10 => assert_eq!(table.remove(ctx, &field), model.remove(&field).is_some()),
        11 if table.len() > 1 => {
            let mut shown = Vec::new();
            let left = table.take_drawn(ctx, u64::from(one) << 56 | u64::from(two), |member| shown = member.to_vec());
            assert!(model.remove(&shown).is_some(), "what is drawn is there");
            assert_eq!(left, model.len());
        }
        12 => {
            let (mut cursor, mut shown) = (0, BTreeMap::new());
            loop {
                cursor = table.scan(ctx.read(), cursor, usize::from(one % 8) + 1, &mut |field, value| {
                    shown.insert(text(field), text(value));
                });
                if cursor == 0 {
                    break;
                }
            }
            let values = model.iter().map(|(field, (value, _))| (field, value));
            assert!(shown.iter().eq(values), "a scan of a table at rest shows all: {shown:?}");
        }
        _ => {
            let value = model.get(&field).map(|(value, _)| value);
            assert_eq!(table.get(ctx.read(), &field).map(text).as_ref(), value);
        }
    }
    assert_eq!(table.len(), model.len());
}

/// Fields that get, keep and lose times, and go when these have come.
fn change_times(
    table: &mut LeafTable,
    ctx: &mut WriteCtx<'_>,
    model: &mut Fields,
    now_ms: &mut i64,
    [what, one, two, three]: [u8; 4],
) {
    let field = if what & 64 == 0 { word(one, three) } else { vec![one, two, what] };
    let expiry_ms = *now_ms + i64::from(two) * i64::from(three % 4);
    match what % 16 {
        0..=5 => {
            let value = word(two, three);
            let new = model.insert(field.clone(), (value.clone(), Some(expiry_ms))).is_none();
            assert_eq!(table.set_expiring(ctx, &field, &value, expiry_ms), new);
        }
        6..=9 => {
            let expiry_ms = (what & 32 == 0).then_some(expiry_ms);
            assert_eq!(table.set_expiry_ms(ctx, &field, expiry_ms), model.contains_key(&field));
            if let Some((_, time)) = model.get_mut(&field) {
                *time = expiry_ms;
            }
        }
        10 | 11 => {
            *now_ms += i64::from(one);
            let (mut gone, leaves) = (BTreeSet::new(), usize::from(three % 4) + 1);
            // Each look at leaves is some of the way, and the last one leaves nothing that is due.
            while table.next_due_ms().is_some_and(|due_ms| due_ms <= *now_ms) {
                table.remove_due(ctx, *now_ms, leaves, |field| {
                    assert!(gone.insert(field.to_vec()), "a field goes once")
                });
            }
            let due = |expiry_ms: &Option<i64>| expiry_ms.is_some_and(|expiry_ms| expiry_ms <= *now_ms);
            let wanted: BTreeSet<Vec<u8>> =
                model.iter().filter(|(_, (_, time))| due(time)).map(|(field, _)| field.clone()).collect();
            assert_eq!(gone, wanted);
            model.retain(|field, _| !wanted.contains(field));
        }
        _ => assert_eq!(table.expiry_ms(ctx.read(), &field), model.get(&field).map(|(_, time)| *time)),
    }
    assert_eq!(table.len(), model.len());
}

fn change_entries(
    stream: &mut Stream,
    ctx: &mut WriteCtx<'_>,
    model: &mut BTreeMap<StreamId, (Vec<u8>, Vec<u8>)>,
    [what, one, two, three]: [u8; 4],
) {
    let limits = NodeLimits { bytes: 400, entries: 1 + u64::from(what / 16) };
    let some = model.keys().nth(usize::from(one) % model.len().max(1)).copied().unwrap_or_default();
    match what % 16 {
        0..=8 => {
            let last = stream.state().last;
            let id = StreamId::new(last.ms + u64::from(two % 4), last.seq + 1);
            let field = (word(one, three), word(two, three));
            stream.add(ctx, limits, id, [(&field.0[..], &field.1[..])].into_iter());
            model.insert(id, field);
        }
        9..=11 => assert_eq!(stream.remove(ctx, limits, some), model.remove(&some).is_some()),
        12 => {
            let most = u64::from(two);
            let gone = stream.trim(ctx, Trim::ToLength(most), None);
            assert_eq!(gone, (model.len() as u64).saturating_sub(most));
            (0..gone).for_each(|_| _ = model.pop_first());
        }
        _ => {
            let gone = stream.trim(ctx, Trim::Below(some), (what & 32 != 0).then_some(u64::from(three)));
            assert!(gone <= model.range(..some).count() as u64);
            (0..gone).for_each(|_| _ = model.pop_first());
        }
    }
    assert_eq!(stream.len(), model.len() as u64);
}

fn change_scores(
    set: &mut SortedSet,
    ctx: &mut WriteCtx<'_>,
    model: &mut BTreeMap<Vec<u8>, f64>,
    [what, one, two, three]: [u8; 4],
) {
    let member = if what & 64 == 0 { word(one, three) } else { vec![one, two, what] };
    let score = match three % 8 {
        0..3 => 7.0,
        3 => f64::from(two) / 3.0,
        4 => -f64::from(two),
        5 => f64::INFINITY,
        _ => f64::from(u16::from(one) << 8 | u16::from(two)),
    };
    let len = model.len() as u64;
    let (from, to) = (u64::from(one) * len / 256, u64::from(two) * len / 256);
    match what % 16 {
        0..=6 => {
            let added = set.add(ctx, &member, score, ZAdd::default());
            let wanted = match model.insert(member, score) {
                None => ZAdded::Added(score),
                Some(old) if old == score => ZAdded::Same(score),
                Some(_) => ZAdded::Updated(score),
            };
            assert_eq!(added, wanted);
        }
        7 | 8 => assert_eq!(set.remove(ctx, &member), model.remove(&member).is_some()),
        9 | 10 => {
            let rank = set.rank(ctx.read(), &member);
            let wanted = model.get(&member).map(|&score| {
                let below = |(m, s): &(&Vec<u8>, &f64)| (**s, *m) < (score, &member);
                (model.iter().filter(below).count() as u64, score)
            });
            assert_eq!(rank, wanted);
        }
        11 | 12 if from < to && to - from < len => {
            let mut shown = Vec::new();
            let left = set.take_span(ctx, (from, to), what & 32 != 0, &mut |member, _| shown.push(member.to_vec()));
            for member in &shown {
                assert!(model.remove(member).is_some(), "what is taken is there");
            }
            assert_eq!((shown.len() as u64, left), (to - from, model.len()));
        }
        _ => {
            let min = ScoreBound { value: score, open: what & 16 == 0 };
            let max = ScoreBound { value: score + f64::from(one), open: what & 32 == 0 };
            let (from, to) = set.span(ctx.read(), &ZRange::Score { min, max }, false);
            let above = |s: f64| if min.open { s > min.value } else { s >= min.value };
            let below = |s: f64| if max.open { s < max.value } else { s <= max.value };
            assert_eq!(to - from, model.values().filter(|&&s| above(s) && below(s)).count() as u64);
        }
    }
    assert_eq!(set.len(), model.len());
}
