//! A big sorted set against a naive model: random operations, leaves of a few cells, segments of a few kilobytes, reclaim
//! in between.
//!
//! The seed is printed; `VARVE_SEED` sets it, `VARVE_STEPS` the number of operations.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use varve_base::rng::Rng;
use varve_segment::{Access, Appender, Drain, DrainState, Log, LogGeometry, ObjectHead, Relocate, Relocated};

use super::*;
use crate::{Forgotten, ReaderBytes, ReaderNumber};

const SEED: u64 = 77;
const ID: CollectionId = CollectionId::new(5);

/// Scores that compare as numbers do.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl Ord for Score {
    fn cmp(&self, other: &Score) -> std::cmp::Ordering {
        self.0.partial_cmp(&other.0).expect("no NaN")
    }
}
impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Score {
    fn eq(&self, other: &Score) -> bool {
        self.0 == other.0
    }
}
impl Eq for Score {}

#[derive(Default)]
struct Model {
    scores: BTreeMap<Vec<u8>, f64>,
    order: BTreeSet<(Score, Vec<u8>)>,
}

impl Model {
    fn put(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        self.scores.insert(member.to_vec(), score);
        self.order.insert((Score(score), member.to_vec()));
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let old = self.scores.remove(member);
        old.is_some_and(|score| self.order.remove(&(Score(score), member.to_vec())))
    }

    fn all(&self) -> Vec<(Vec<u8>, u64)> {
        // The model's order has a score of its own only where it is not a zero; the sign is the member's.
        self.order.iter().map(|(_, member)| (member.clone(), self.scores[member].to_bits())).collect()
    }
}

/// A reader of a range: what it is still to be shown.
struct Shown {
    number: ReaderNumber,
    bytes: ReaderBytes,
    rev: bool,
    expected: VecDeque<(Vec<u8>, u64)>,
}

struct World {
    readers: Vec<Shown>,
    /// Readers that were shown all.
    ended: u64,
    log: Log,
    access: Access,
    appender: Appender,
    drain: Option<Drain>,
    set: SortedSet,
    model: Model,
    rng: Rng,
    scores: u64,
    members: u64,
    names: u64,
}

fn tiny() -> LogGeometry {
    LogGeometry {
        segment_bytes: 16 << 10,
        piece_bytes: 1 << 10,
        extent_min_bytes: 2 << 10,
        release_bytes: 4 << 10,
        reserve_bytes: 1 << 30,
    }
}

/// Reclaim's questions answered by the one set that there is.
struct Mover<'a> {
    access: &'a mut Access,
    appender: &'a mut Appender,
    set: &'a mut SortedSet,
    log: &'a Log,
}

impl Relocate for Mover<'_> {
    fn prepare(&mut self, _heads: &[ObjectHead<'_>]) {}

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        let mut ctx = WriteCtx { log: self.log, access: self.access, appender: self.appender, seed: SEED, id: ID };
        if self.set.relocate(&mut ctx, head) { Relocated::Moved } else { Relocated::Dead }
    }
}

impl World {
    fn new(seed: u64, members_max: usize) -> World {
        let log = Log::new(tiny()).expect("addresses");
        let mut rng = Rng::seeded(seed);
        World {
            readers: Vec::new(),
            ended: 0,
            access: log.access(),
            appender: Appender::new(),
            drain: None,
            set: SortedSet::with_leaves(ID, 1, members_max),
            model: Model::default(),
            scores: [1, 3, 50, 1 << 40][rng.below(4) as usize],
            members: [30, 300, 3000][rng.below(3) as usize],
            names: rng.below(4),
            rng,
            log,
        }
    }

    fn with<R>(&mut self, work: impl FnOnce(&mut SortedSet, &mut WriteCtx<'_>) -> R) -> R {
        let World { log, access, appender, set, .. } = self;
        let done = work(set, &mut WriteCtx { log, access, appender, seed: SEED, id: ID });
        self.appender.park(&self.log);
        done
    }

    fn member(&mut self) -> Vec<u8> {
        let n = self.rng.below(self.members);
        let long = n % 50 == 7;
        match self.names {
            0 if long => vec![b'm'; 40 + n as usize / 50 + if n % 100 == 7 { ELEMENT_MAX } else { 0 }],
            0 => format!("m{n}").into_bytes(),
            1 if long => format!("element:0000{n}/").into_bytes(),
            1 => format!("element:{:012}", n * n * 7).into_bytes(),
            2 => vec![0xff; (n % 301) as usize].into_iter().chain((n / 301).to_be_bytes()).collect(),
            _ => n.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect(),
        }
    }

    fn score(&mut self) -> f64 {
        let n = self.rng.below(self.scores);
        match self.rng.below(30) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => -0.0,
            3 => 0.0,
            4..=8 => n as f64 / 7.0,
            9..=12 => -(n as f64),
            13 => f64::from_bits(self.rng.next_u64() >> 2),
            _ => n as f64,
        }
    }

    fn step(&mut self) {
        match self.rng.below(44) {
            40 if self.readers.len() < 3 => self.begin_reading(),
            41..=43 => self.read_some(),
            0..=17 => self.add(),
            18..=24 => {
                let member = self.member();
                let there = self.model.remove(&member);
                assert_eq!(self.with(|set, ctx| set.remove(ctx, &member)), there);
            }
            25..=28 => self.look_up(),
            29..=31 => self.ranges(),
            32 if self.rng.below(4) == 0 => self.remove_span(),
            33 if self.rng.below(8) == 0 => self.copy_and_free(),
            34 => self.scan(),
            35..=38 => self.reclaim(),
            39 if self.rng.below(30) == 0 => self.rebuild(),
            _ => {
                let buckets = 4 + self.rng.below(20) as usize;
                self.with(|set, ctx| set.step(ctx, buckets));
            }
        }
    }

    fn add(&mut self) {
        let (member, score) = (self.member(), self.score());
        let bits = self.rng.below(64);
        let how = ZAdd { nx: bits == 1, xx: bits & 7 == 2, gt: bits & 7 == 3, lt: bits & 7 == 4, incr: bits & 3 == 3 };
        let outcome = self.with(|set, ctx| set.add(ctx, &member, score, how));
        let expected = match self.model.scores.get(&member) {
            None if how.xx => ZAdded::Refused,
            None => ZAdded::Added(score),
            Some(&old) => match judge(old, score, how) {
                Verdict::Put(new) => ZAdded::Updated(new),
                Verdict::Leave(outcome) => outcome,
            },
        };
        assert_eq!(outcome, expected, "{member:?} {score} {how:?}");
        if let ZAdded::Added(new) | ZAdded::Updated(new) = outcome {
            self.model.put(&member, new);
        }
    }

    fn look_up(&mut self) {
        let member = self.member();
        let expected = self.model.scores.get(&member).copied();
        let score = self.set.score(self.read(), &member);
        assert_eq!(score.map(f64::to_bits), expected.map(f64::to_bits));
        let rank = self.set.rank(self.read(), &member).map(|(rank, _)| rank as usize);
        assert_eq!(rank, expected.and_then(|_| self.model.order.iter().position(|(_, m)| *m == member)));
    }

    fn ranges(&mut self) {
        let (a, b) = (ScoreBound { value: self.score(), open: self.rng.below(2) == 0 }, self.score());
        let b = ScoreBound { value: b, open: self.rng.below(2) == 0 };
        let inside = |score: f64| {
            (if a.open { score > a.value } else { score >= a.value })
                && (if b.open { score < b.value } else { score <= b.value })
        };
        let all = self.model.all();
        let expected: Vec<_> = all.iter().filter(|(_, bits)| inside(f64::from_bits(*bits))).cloned().collect();
        self.check_range(&ZRange::Score { min: a, max: b }, false, expected);
        let (start, stop) = (self.rng.below(40), self.rng.below(60));
        let some = |all: Vec<(Vec<u8>, u64)>| {
            all.into_iter().skip(start as usize).take((stop + 1).saturating_sub(start) as usize).collect::<Vec<_>>()
        };
        self.check_range(&ZRange::Rank { start, stop }, false, some(all.clone()));
        self.check_range(&ZRange::Rank { start, stop }, true, some(all.into_iter().rev().collect()));
        if self.scores == 1 && self.model.scores.values().all(|&score| score == 0.0) {
            self.lex();
        }
    }

    fn lex(&mut self) {
        let (a, b) = (self.member(), self.member());
        let all = self.model.all();
        let inside = |m: &Vec<u8>| *m > a && *m <= b;
        let expected = all.iter().filter(|(m, _)| inside(m)).cloned().collect();
        self.check_range(&ZRange::Lex { min: LexBound::Excl(&a), max: LexBound::Incl(&b) }, false, expected);
        let expected = all.iter().filter(|(m, _)| *m >= a).cloned().collect();
        self.check_range(&ZRange::Lex { min: LexBound::Incl(&a), max: LexBound::Max }, false, expected);
        let expected = all.iter().filter(|(m, _)| *m < b).cloned().collect();
        self.check_range(&ZRange::Lex { min: LexBound::Min, max: LexBound::Excl(&b) }, false, expected);
    }

    fn check_range(&mut self, range: &ZRange<'_>, rev: bool, mut expected: Vec<(Vec<u8>, u64)>) {
        let (from, to) = self.set.span(self.read(), range, rev);
        assert_eq!((to - from) as usize, expected.len(), "{range:?}");
        if rev {
            expected.reverse();
        }
        for rev in [false, true] {
            let mut shown = Vec::new();
            let first = if rev { to.saturating_sub(1) } else { from };
            self.set.walk(self.read(), first, rev, to - from, |member: &[u8], score: f64| {
                shown.push((member.to_vec(), score.to_bits()));
            });
            if rev {
                shown.reverse();
            }
            // Of nothing, nothing is asked for by those who walk.
            if to > from {
                assert_eq!(shown, expected, "{range:?}");
            }
        }
    }

    fn remove_span(&mut self) {
        let len = self.model.order.len() as u64;
        let from = self.rng.below(len + 1);
        let to = from + self.rng.below(len - from + 1);
        let rev = self.rng.below(2) == 0;
        let mut expected = self.model.all()[from as usize..to as usize].to_vec();
        if rev {
            expected.reverse();
        }
        let mut shown = Vec::new();
        let mut show = |member: &[u8], score: f64| shown.push((member.to_vec(), score.to_bits()));
        // Members that are all of a set go with their key.
        match if to - from == len { 0 } else { self.rng.below(3) } {
            0 => self.with(|set, ctx| set.remove_span(ctx, (from, to), rev, &mut show)),
            1 => _ = self.with(|set, ctx| set.take_span(ctx, (from, to), rev, &mut show)),
            _ => {
                assert_eq!(self.with(|set, ctx| set.drop_span(ctx, (from, to))) as u64, len - (to - from));
                expected.iter().for_each(|(member, bits)| show(member, f64::from_bits(*bits)));
            }
        }
        assert_eq!(shown, expected);
        for (member, _) in expected {
            assert!(self.model.remove(&member));
        }
    }

    fn read(&self) -> ReadCtx<'_> {
        ReadCtx { log: &self.log, access: &self.access, seed: SEED }
    }

    fn scan(&mut self) {
        let (mut cursor, mut seen) = (0, BTreeMap::new());
        loop {
            cursor = self.set.scan(self.read(), cursor, 3, &mut |member, score| {
                seen.insert(member.to_vec(), score.to_bits());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, self.model.all().into_iter().collect());
    }

    /// A copy under another number is the same; then it is freed, and nothing of it is left.
    fn copy_and_free(&mut self) {
        let World { log, access, appender, set, .. } = self;
        let other = CollectionId::new(ID.number() + 1);
        let mut copy = set.copy(ReadCtx { log, access, seed: SEED }, appender, other);
        appender.park(log);
        let mut live = HashSet::new();
        copy.verify(ReadCtx { log, access, seed: SEED }, other, &mut live);
        let mut shown = Vec::new();
        copy.walk(ReadCtx { log, access, seed: SEED }, 0, false, copy.len() as u64, |member: &[u8], score: f64| {
            shown.push((member.to_vec(), score.to_bits()));
        });
        if !shown.is_empty() {
            assert_eq!(shown, self.model.all());
        }
        let mut ctx = WriteCtx { log, access, appender, seed: SEED, id: other };
        while !copy.free_step(&mut ctx, 7) {
            copy.verify(ctx.read(), other, &mut HashSet::new());
        }
        assert_eq!((copy.len(), copy.object_bytes), (0, 0));
    }

    fn begin_reading(&mut self) {
        let all = self.model.all();
        if all.is_empty() {
            return;
        }
        let from = self.rng.below(all.len() as u64);
        let count = 1 + self.rng.below(all.len() as u64 - from);
        let (number, bytes) = (ReaderNumber::new(self.rng.next_u64()), ReaderBytes::default());
        let mut expected: VecDeque<_> = all[from as usize..(from + count) as usize].to_vec().into();
        let rev = self.rng.below(2) == 0;
        if rev {
            expected.make_contiguous().reverse();
        }
        let first = if rev { from + count - 1 } else { from };
        self.set.begin_reading((number, bytes.clone()), first, count, rev);
        self.readers.push(Shown { number, bytes, rev, expected });
    }

    /// Shows a reader some more, or ends it.
    fn read_some(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        let at = self.rng.below(self.readers.len() as u64) as usize;
        let mut reader = self.readers.swap_remove(at);
        if self.rng.below(50) == 0 {
            self.end_reading(&reader);
            return;
        }
        let World { log, access, appender, set, rng, .. } = self;
        let mut ctx = WriteCtx { log, access, appender, seed: SEED, id: ID };
        let is_left = set.read_on(&mut ctx, (reader.number, reader.rev), |member, score| {
            assert_eq!(reader.expected.pop_front(), Some((member.to_vec(), score.to_bits())), "in order, as it was");
            rng.below(8) > 0
        });
        assert_eq!(is_left, !reader.expected.is_empty());
        if is_left {
            self.readers.push(reader);
        } else {
            assert_eq!(reader.bytes.get(), 0, "what was shown is not kept");
            self.ended += 1;
        }
    }

    fn end_reading(&mut self, reader: &Shown) {
        while self.with(|set, ctx| set.end_reading(ctx, reader.number)) == Forgotten::Partly {}
        assert_eq!(reader.bytes.get(), 0, "what nobody wants is not kept");
    }

    fn rebuild(&mut self) {
        std::mem::take(&mut self.readers).iter().for_each(|reader| self.end_reading(reader));
        let all = self.model.all();
        let mut set = SortedSet::with_leaves(ID, 1, self.set.members_max);
        self.with(|_, ctx| all.iter().for_each(|(member, bits)| set.insert(ctx, member, f64::from_bits(*bits))));
        let mut old = std::mem::replace(&mut self.set, set);
        self.with(|_, ctx| while !old.free_step(ctx, 100) {});
    }

    fn reclaim(&mut self) {
        if self.drain.is_none() {
            self.drain = self.log.choose_victim();
        }
        let Some(drain) = &mut self.drain else { return };
        let World { log, access, appender, set, .. } = self;
        let state = log.drain_step(drain, &mut Mover { access, appender, set, log }, 20);
        self.appender.park(&self.log);
        match state {
            DrainState::Done => self.drain = None,
            DrainState::More | DrainState::Busy => {}
        }
    }

    fn verify(&self) {
        let mut live = HashSet::new();
        self.set.verify(self.read(), ID, &mut live);
        self.log.verify_with(|head, _| live.contains(&head.r));
        let mut shown = Vec::new();
        self.set.walk(self.read(), 0, false, self.set.len() as u64, |member: &[u8], score: f64| {
            shown.push((member.to_vec(), score.to_bits()));
        });
        assert_eq!(shown, self.model.all());
        assert_eq!(self.set.len(), shown.len());
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn behaves_like_the_model() {
    let first = setting("VARVE_SEED", 1);
    let (seeds, mut ended) = (if std::env::var("VARVE_SEED").is_ok() { 1 } else { 24 }, 0);
    for seed in first..first + seeds {
        println!("VARVE_SEED={seed}");
        let mut world = World::new(seed, [2, 3, 4, 8, 16, 128][seed as usize % 6]);
        for n in 0..setting("VARVE_STEPS", 1500) {
            world.step();
            if n % 10 == 0 {
                world.verify();
            }
        }
        world.verify();
        if let Some(drain) = world.drain.take() {
            world.log.abandon(drain);
        }
        ended += world.ended;
    }
    assert!(ended > 10 * seeds, "{ended} readers came to the end");
}

#[test]
fn leaves_are_full_whatever_the_order() {
    for (name, most) in [("ascending", 22.0), ("descending", 22.0), ("random", 25.5), ("equal", 23.0)] {
        let mut world = World::new(3, MEMBERS_MAX);
        for n in 0..20_000u64 {
            let member = format!("{:016}", if name == "equal" { n.wrapping_mul(0x9e37_79b9) % 100_000_007 } else { n });
            let score = match name {
                "ascending" => n as f64,
                "descending" => -(n as f64),
                "equal" => 1.0,
                _ => (n.wrapping_mul(varve_base::hash::GOLDEN_RATIO) >> 44) as f64,
            };
            world.with(|set, ctx| set.add(ctx, member.as_bytes(), score, ZAdd::default()));
        }
        world.set.verify(world.read(), ID, &mut HashSet::new());
        if name == "equal" {
            assert!(world.set.tree.has_fingerprints(), "searches would look into leaves");
        }
        let (leaves, index, tree) = (world.set.object_bytes, world.set.index.bytes(), world.set.tree.bytes());
        let each = |bytes: usize| bytes as f64 / 20_000.0;
        let [leaves, index, tree] = [leaves as usize, index, tree].map(each);
        println!("{name}: {leaves:.2} bytes a member in leaves, {index:.2} in the index, {tree:.2} in the tree");
        assert!(leaves < most, "{name}: {leaves:.2} bytes a member of 16");
        let written = world.log.used_bytes() as f64 / 20_000.0;
        println!("{name}: {written:.2} bytes a member were written");
        assert!(written < 36.0, "{name}: {written:.2} bytes a member were written, most of which is dead");
    }
}

#[test]
fn leaves_that_have_lost_most_members_are_joined() {
    let mut world = World::new(5, MEMBERS_MAX);
    let number = |n: u64| n.wrapping_mul(varve_base::hash::GOLDEN_RATIO) >> 44;
    for n in 0..20_000 {
        let member = format!("{n:016}");
        world.with(|set, ctx| set.add(ctx, member.as_bytes(), number(n) as f64, ZAdd::default()));
    }
    let before = world.set.object_bytes as f64 / 20_000.0;
    for n in (0..20_000).filter(|n| n % 10 != 3) {
        let member = format!("{n:016}");
        assert!(world.with(|set, ctx| set.remove(ctx, member.as_bytes())));
    }
    while world.set.wants_step() {
        world.with(|set, ctx| set.step(ctx, 100));
    }
    world.set.verify(world.read(), ID, &mut HashSet::new());
    let set = &world.set;
    let [leaves, index, tree] =
        [set.object_bytes as usize, set.index.bytes(), set.tree.bytes()].map(|bytes| bytes as f64 / 2_000.0);
    println!(
        "{leaves:.2} bytes a member in leaves, of {before:.2} before, {index:.2} in the index, {tree:.2} in the tree"
    );
    assert!(leaves < 1.35 * before && index < 16.0, "{leaves:.2} and {index:.2} bytes a member");
}

/// A long range goes at once: of its members, those of the leaves at its ends alone are taken out of leaves and index.
#[test]
fn issue_11_a_long_range_is_cut_out_and_cleared_in_steps() {
    const MEMBERS: u64 = 50_000;
    for (from, to) in [(0, 30_000), (20_001, MEMBERS), (777, 44_444)] {
        let mut world = World::new(9, MEMBERS_MAX);
        for n in 0..MEMBERS {
            let member = format!("{n:08}");
            world.with(|set, ctx| set.add(ctx, member.as_bytes(), n as f64, ZAdd::default()));
            world.model.put(member.as_bytes(), n as f64);
        }
        while world.set.wants_step() {
            world.with(|set, ctx| set.step(ctx, 100));
        }
        let number = ReaderNumber::new(1);
        world.set.begin_reading((number, ReaderBytes::default()), from, to - from, false);
        assert_eq!(world.with(|set, ctx| set.drop_span(ctx, (from, to))) as u64, MEMBERS - (to - from));
        let left = world.set.index.len();
        assert!(left + 2 * MEMBERS_MAX >= MEMBERS as usize, "{left} cells are left at once");
        (from..to).for_each(|n| assert!(world.model.remove(format!("{n:08}").as_bytes())));
        world.verify();
        // A member that was cut off is not there, and may come back.
        let member = format!("{:08}", from + 1000);
        assert_eq!(world.set.score(world.read(), member.as_bytes()), None);
        assert!(!world.with(|set, ctx| set.remove(ctx, member.as_bytes())));
        world.with(|set, ctx| set.add(ctx, member.as_bytes(), 5.5, ZAdd::default()));
        world.model.put(member.as_bytes(), 5.5);
        assert_eq!(world.set.score(world.read(), member.as_bytes()), Some(5.5));
        world.scan();
        // Steps go on although somebody reads, who is shown all that was there.
        let mut steps = 0;
        while world.set.wants_step() {
            world.with(|set, ctx| set.step(ctx, BUCKETS_A_LEAF));
            steps += 1;
            if steps % 50 == 0 {
                world.verify();
            }
        }
        assert!(steps > 100, "{steps} steps");
        world.verify();
        assert_eq!(world.set.index.len(), world.set.len());
        let mut shown = from;
        while world.with(|set, ctx| {
            set.read_on(ctx, (number, false), |member, score| {
                assert_eq!((member, score), (format!("{shown:08}").as_bytes(), shown as f64));
                shown += 1;
                true
            })
        }) {}
        assert_eq!(shown, to);
        world.verify();
    }
}

#[test]
fn leaves_that_are_emptied_from_an_end_are_seldom_written_anew() {
    for rev in [false, true] {
        let mut world = World::new(4, MEMBERS_MAX);
        for n in 0..4000u64 {
            let member = format!("{n:08}");
            world.with(|set, ctx| set.add(ctx, member.as_bytes(), (n * 7919 % 4001) as f64, ZAdd::default()));
        }
        let refs =
            |set: &SortedSet| set.tree.leaves().map(|leaf| set.tree.counted.leaf_ref(leaf)).collect::<Vec<Ref>>();
        let (mut written, mut before) = (0, Vec::new());
        for left in (0..4000).rev() {
            let span = if rev { (left, left + 1) } else { (0, 1) };
            world.with(|set, ctx| set.remove_span(ctx, span, rev, &mut |_, _| ()));
            let leaves = refs(&world.set);
            written += leaves.iter().filter(|leaf| !before.contains(*leaf)).count();
            before = leaves;
            if left % 50 == 0 {
                world.set.verify(world.read(), ID, &mut HashSet::new());
            }
        }
        println!("{written} leaves written by 4000 removals");
        assert!(written < 500, "{written} leaves written, rev: {rev}");
        assert_eq!((world.set.len(), world.set.object_bytes), (0, 0));
    }
}
