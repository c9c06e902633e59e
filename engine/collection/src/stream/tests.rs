//! Streams of small nodes against a map, checked after every step. Seeds are printed; VARVE_SEED repeats one.

use std::collections::{BTreeMap, HashSet};

use varve_base::rng::Rng;
use varve_segment::{Access, Log, LogGeometry};

use super::*;
use crate::{ReaderBytes, ReaderNumber};

const ID: CollectionId = CollectionId::new(7);

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

struct Both {
    log: Log,
    access: Access,
    appender: Appender,
    stream: Stream,
    model: BTreeMap<StreamId, Pairs>,
    rng: Rng,
    limits: NodeLimits,
}

fn plain(entry: StreamEntry<'_>) -> (StreamId, Pairs) {
    (entry.id, entry.fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
}

impl Both {
    fn new(seed: u64, limits: NodeLimits) -> Both {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let log = Log::new(geometry).expect("an address range");
        let (access, appender) = (log.access(), Appender::new());
        let (stream, model, rng) = (Stream::empty(), BTreeMap::new(), Rng::seeded(seed));
        Both { log, access, appender, stream, model, rng, limits }
    }

    fn change<R>(&mut self, work: impl FnOnce(&mut Stream, &mut WriteCtx<'_>, NodeLimits) -> R) -> R {
        let Both { log, access, appender, stream, limits, .. } = self;
        work(stream, &mut WriteCtx { log, access, appender, seed: 1, id: ID }, *limits)
    }

    fn look_ctx(&self) -> ReadCtx<'_> {
        ReadCtx { log: &self.log, access: &self.access, seed: 1 }
    }

    fn look(&self) -> StreamReader<'_> {
        StreamReader::Big(&self.stream, self.look_ctx())
    }

    fn fields(&mut self) -> Pairs {
        let count = 1 + self.rng.below(3);
        let names: [&[u8]; 3] = [b"name", b"12", b""];
        let shift = usize::from(self.rng.below(6) == 0);
        let value = |rng: &mut Rng| match rng.below(6) {
            0 => Vec::new(),
            1 => vec![b'v'; rng.below(300) as usize],
            _ => (rng.below(1 << 20) as i64 - 1000).to_string().into_bytes(),
        };
        (0..count as usize).map(|at| (names[(at + shift) % 3].to_vec(), value(&mut self.rng))).collect()
    }

    fn add(&mut self) {
        let last = self.stream.state().last;
        let id = match self.rng.below(8) {
            0..3 => last.next().expect("far from the greatest"),
            3 => StreamId::new(last.ms + 1, u64::MAX - self.rng.below(3)),
            _ => StreamId::new(last.ms + 1 + self.rng.below(1000), self.rng.below(2)),
        };
        if id <= last {
            return;
        }
        let fields = self.fields();
        let pairs = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        self.change(|stream, ctx, limits| stream.add(ctx, limits, id, pairs));
        self.model.insert(id, fields);
    }

    /// The ID of an entry, or one near it.
    fn some_id(&mut self) -> StreamId {
        if self.model.is_empty() {
            return StreamId::new(self.rng.below(10), 0);
        }
        let at = self.rng.below(self.model.len() as u64) as usize;
        let id = *self.model.keys().nth(at).expect("below the length");
        match self.rng.below(6) {
            0 => id.next().unwrap_or(id),
            1 => id.prev().unwrap_or(id),
            _ => id,
        }
    }

    fn remove(&mut self) {
        let id = self.some_id();
        let removed = self.change(|stream, ctx, limits| stream.remove(ctx, limits, id));
        assert_eq!(removed, self.model.remove(&id).is_some(), "{id:?}");
    }

    fn trim(&mut self) {
        let len = self.model.len() as u64;
        let trim = match self.rng.below(12) {
            0 => Trim::ToLength(0),
            1..6 => Trim::ToLength(len.saturating_sub(self.rng.below(9))),
            _ => Trim::Below(self.some_id()),
        };
        let whole_nodes = match self.rng.below(3) {
            0 => None,
            1 => Some(u64::MAX),
            _ => Some(self.rng.below(20)),
        };
        let goes = |at: usize, id: StreamId| match trim {
            Trim::ToLength(most) => at as u64 + most < len,
            Trim::Below(least) => id < least,
        };
        let ids: Vec<StreamId> = self.model.keys().copied().collect();
        let want = ids.iter().enumerate().filter(|(at, id)| goes(*at, **id)).count() as u64;
        let gone = self.change(|stream, ctx, _| stream.trim(ctx, trim, whole_nodes));
        assert!(gone <= want.min(whole_nodes.unwrap_or(u64::MAX)), "{gone} of {want}");
        assert!(whole_nodes.is_some() || gone == want, "{gone} of {want}");
        ids[..gone as usize].iter().for_each(|id| _ = self.model.remove(id));
    }

    fn range(&mut self) {
        let (from, to) = (self.some_id(), self.some_id());
        let (rev, count) = (self.rng.below(2) == 0, 1 + self.rng.below(30) as usize);
        let mut shown = Vec::new();
        self.look().range(from, to, rev, |entry| {
            shown.push(plain(entry));
            shown.len() < count
        });
        let mut want: Vec<(StreamId, Pairs)> =
            self.model.iter().filter(|(id, _)| **id >= from && **id <= to).map(|(id, f)| (*id, f.clone())).collect();
        if rev {
            want.reverse();
        }
        want.truncate(count);
        assert_eq!(shown, want);
        let below = self.model.keys().filter(|id| **id < from).count() as u64;
        assert_eq!(self.look().rank(from), below);
        assert_eq!(self.look().has(from), self.model.contains_key(&from));
        assert_eq!(self.look().first().map(plain).as_ref().map(|e| &e.0), self.model.keys().next());
        assert_eq!(self.look().last().map(plain).as_ref().map(|e| &e.0), self.model.keys().last());
    }

    fn relocate(&mut self) {
        let Some(leaf) = self.stream.tree.first() else { return };
        let leaf = self.stream.tree.next(leaf).unwrap_or(leaf);
        let r = self.stream.tree.leaf_ref(leaf);
        let number = leaf.number().to_le_bytes();
        let bytes = self.access.open(&self.log, r).bytes();
        let head = ObjectHead { r, kind: kinds::NODE, owner: Owner::Collection(ID.number()), key: &number, bytes };
        assert!(self.change(|stream, ctx, _| stream.relocate(ctx, &head)));
    }

    fn verify(&self) {
        let mut live = HashSet::new();
        let ctx = ReadCtx { log: &self.log, access: &self.access, seed: 1 };
        self.stream.verify(ctx, ID, &mut live);
        assert_eq!(self.stream.len(), self.model.len() as u64);
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..11 => self.add(),
            11..14 => self.remove(),
            14 => self.trim(),
            15 => self.relocate(),
            _ => self.range(),
        }
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        self.appender.park(&self.log);
    }
}

fn seeds() -> impl Iterator<Item = u64> {
    let given = std::env::var("VARVE_SEED").ok().and_then(|seed| seed.parse().ok());
    let from = given.unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_nanos() as u64
    });
    (0..if given.is_some() { 1 } else { 6 }).map(move |n| from.wrapping_add(n)).inspect(|seed| println!("seed {seed}"))
}

#[test]
fn streams_hold_what_a_map_holds() {
    let limits = [(4096, 4), (200, 100), (0, 7), (300, 0), (4096, 1), (0, 0)];
    for (seed, (bytes, entries)) in seeds().zip(limits) {
        let mut both = Both::new(seed, NodeLimits { bytes, entries });
        for _ in 0..2500 {
            both.step();
            both.verify();
        }
    }
}

#[test]
fn a_small_stream_does_what_a_big_one_does_until_it_is_full() {
    let mut became_big = 0;
    for seed in seeds() {
        let mut both = Both::new(seed, NodeLimits { bytes: 4096, entries: 40 });
        let mut small = SmallStreamCopy::empty();
        let mut value = Vec::new();
        small.write(&mut value);
        for _ in 0..400 {
            let number = both.rng.below(8);
            let id = both.some_id();
            small = SmallStreamCopy::of(&value);
            match number {
                0..4 => {
                    let id = small.read().state().last.next().expect("far from the greatest");
                    let fields = both.fields();
                    let pairs = fields.iter().map(|(name, value)| (&name[..], &value[..]));
                    if !small.serves(StreamNeed::entry(pairs.clone()), both.limits) {
                        became_big += 1;
                        break;
                    }
                    small.add(id, pairs.clone());
                    both.change(|stream, ctx, limits| stream.add(ctx, limits, id, pairs));
                    both.model.insert(id, fields);
                }
                4 | 5 => {
                    let gone = both.change(|stream, ctx, limits| stream.remove(ctx, limits, id));
                    assert_eq!(small.remove(id), gone, "{id:?}");
                    both.model.remove(&id);
                }
                6 => {
                    let len = both.model.len() as u64;
                    let most = len.saturating_sub(both.rng.below(4));
                    let trim = if both.rng.below(2) == 0 { Trim::ToLength(most) } else { Trim::Below(id) };
                    let whole = (both.rng.below(2) == 0).then(|| both.rng.below(30));
                    let gone = both.change(|stream, ctx, _| stream.trim(ctx, trim, whole));
                    assert_eq!(small.trim(trim, whole), gone, "{trim:?} {whole:?}");
                    (0..gone).for_each(|_| _ = both.model.pop_first());
                }
                _ => {
                    let state = StreamState { added: both.rng.below(1 << 40), ..small.read().state() };
                    small.set_state(state);
                    both.stream.set_state(state);
                }
            }
            small.write(&mut value);
            let (look, small) = (both.look(), SmallStream::open(&value));
            small.verify();
            let read = StreamReader::Small(small);
            assert_eq!((read.facts(), read.state(), read.nodes()), (look.facts(), look.state(), look.nodes()));
            let shown = |reader: StreamReader<'_>, rev| {
                let mut all = Vec::new();
                reader.range(id, StreamId::MAX, rev, |entry| {
                    all.push(plain(entry));
                    true
                });
                (all, reader.rank(id), reader.has(id), reader.first().map(plain), reader.last().map(plain))
            };
            let rev = number.is_multiple_of(2);
            assert_eq!(shown(read, rev), shown(look, rev));
        }
        becomes_big(&mut both, SmallStream::open(&value));
    }
    assert!(became_big > 0, "no stream was full");
}

fn becomes_big(both: &mut Both, small: SmallStream<'_>) {
    both.verify();
    let mut big = both.change(|_, ctx, _| Stream::of_small(ctx, small));
    let mut shown = Vec::new();
    StreamReader::Big(&big, both.look_ctx()).for_each_node(|node| node.for_each(|entry| shown.push(plain(entry))));
    assert!(shown.into_iter().eq(both.model.clone()) && big.state() == small.state());
    both.change(|_, ctx, _| while !big.free_step(ctx, 7) {});
}

#[test]
fn a_stream_of_one_short_entry_takes_a_few_bytes() {
    let mut small = SmallStreamCopy::empty();
    let fields = [(&b"field"[..], &b"payload"[..])];
    small.add(StreamId::new(1_700_000_000_000, 0), fields.into_iter());
    let mut value = Vec::new();
    small.write(&mut value);
    assert!(value.len() < 70, "{} bytes", value.len());
}

#[test]
fn a_reader_is_shown_the_entries_of_its_beginning() {
    for seed in seeds() {
        let mut both = Both::new(seed, NodeLimits { bytes: 4096, entries: 5 });
        for number in 0..60 {
            (0..20).for_each(|_| both.step());
            let len = both.stream.len();
            if len == 0 {
                continue;
            }
            let rev = both.rng.below(2) == 0;
            let count = 1 + both.rng.below(len);
            let skip = both.rng.below(len - count + 1);
            let first = if rev { len - 1 - skip } else { skip };
            let entries = both.model.clone().into_iter();
            let want: Vec<(StreamId, Pairs)> = if rev {
                entries.rev().skip(skip as usize).take(count as usize).collect()
            } else {
                entries.skip(skip as usize).take(count as usize).collect()
            };
            let reader = ReaderNumber::new(number);
            both.stream.begin_reading((reader, ReaderBytes::default()), first, count, rev);
            let mut shown = Vec::new();
            while both.change(|stream, ctx, _| {
                stream.read_on(ctx.read(), (reader, rev), |part| {
                    part.for_each(|entry| shown.push(plain(entry)));
                    false
                })
            }) {
                (0..4).for_each(|_| both.step());
                both.verify();
            }
            assert_eq!(shown, want);
            assert!(!both.stream.is_read(), "the reader is forgotten");
        }
    }
}

#[test]
fn removing_nine_of_ten_leaves_few_bytes_beside_the_entries() {
    let mut both = Both::new(1, NodeLimits { bytes: 4096, entries: 100 });
    for n in 0..20_000u64 {
        let value = n.to_string();
        let fields = [(&b"f"[..], value.as_bytes()), (b"g", b"1")];
        both.change(|stream, ctx, limits| stream.add(ctx, limits, StreamId::new(1000 + n, 0), fields.into_iter()));
    }
    let full = both.stream.object_bytes();
    assert!(full < 17 * 20_000, "{full} bytes for 20000 entries");
    for n in 0..20_000u64 {
        if !n.wrapping_mul(0x9e37_79b9_7f4a_7c15).is_multiple_of(10) {
            both.change(|stream, ctx, limits| assert!(stream.remove(ctx, limits, StreamId::new(1000 + n, 0))));
        }
    }
    let (len, left) = (both.stream.len(), both.stream.object_bytes());
    assert!(left * 20_000 < full * len * 13 / 10 + full, "{left} bytes for {len} entries, {full} for all");
}

#[test]
fn a_stream_is_copied_and_freed() {
    let mut both = Both::new(3, NodeLimits { bytes: 4096, entries: 4 });
    (0..500).for_each(|_| both.add());
    let other = CollectionId::new(8);
    let Both { log, access, appender, stream, model, .. } = &mut both;
    let mut copy = stream.copy(ReadCtx { log, access, seed: 1 }, appender, other);
    let ctx = ReadCtx { log, access, seed: 1 };
    copy.verify(ctx, other, &mut HashSet::new());
    let mut shown = Vec::new();
    StreamReader::Big(&copy, ctx).for_each_node(|node| node.for_each(|entry| shown.push(plain(entry))));
    assert!(shown.into_iter().eq(model.clone()) && copy.state() == stream.state());
    let mut ctx = WriteCtx { log, access, appender, seed: 1, id: other };
    while !copy.free_step(&mut ctx, 7) {}
    while !copy.shrink_step() {}
    assert_eq!(copy.object_bytes(), 0);
}
