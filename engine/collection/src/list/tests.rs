//! Lists of tiny nodes against a deque of strings, checked after every step. Seeds are printed; VARVE_SEED repeats one.

use std::collections::{HashSet, VecDeque};

use varve_base::rng::Rng;
use varve_segment::LogGeometry;

use super::read::{QuicklistReader, Search};
use super::*;

const ID: CollectionId = CollectionId::new(7);

struct Both {
    log: Log,
    access: Access,
    appender: Appender,
    scratch: CompressScratch,
    list: Quicklist,
    model: VecDeque<Vec<u8>>,
    rng: Rng,
    shape: Shape,
}

impl Both {
    fn new(seed: u64, shape: Shape) -> Both {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let log = Log::new(geometry).expect("an address range");
        let access = log.access();
        let (appender, scratch) = (Appender::new(), CompressScratch::default());
        let (model, rng) = (VecDeque::new(), Rng::seeded(seed));
        Both { log, access, appender, scratch, list: Quicklist::empty(), model, rng, shape }
    }

    fn change<R>(&mut self, work: impl FnOnce(&mut Quicklist, &mut ListCtx<'_, '_>) -> R) -> R {
        let Both { log, access, appender, scratch, list, shape, .. } = self;
        let mut ctx = WriteCtx { log, access, appender, seed: 1, id: ID };
        work(list, &mut ListCtx { write: &mut ctx, scratch, shape: *shape })
    }

    fn look(&mut self) -> QuicklistReader<'_> {
        let Both { log, access, scratch, list, .. } = self;
        QuicklistReader { list, ctx: ReadCtx { log, access, seed: 1 }, scratch }
    }

    /// Few different ones, so that searches hit; some larger than a node.
    fn word(&mut self) -> Vec<u8> {
        let n = self.rng.below(6);
        match self.rng.below(12) {
            0..5 => format!("{}", n * 100).into_bytes(),
            5..10 => format!("word {n}").repeat(1 + n as usize).into_bytes(),
            10 => vec![b'x'; 300 + n as usize],
            _ => Vec::new(),
        }
    }

    fn end(&mut self) -> End {
        if self.rng.below(2) == 0 { End::Front } else { End::Back }
    }

    fn push(&mut self) {
        let (end, word) = (self.end(), self.word());
        self.change(|list, ctx| list.push(ctx, end, &Coded::of(&word)));
        match end {
            End::Front => self.model.push_front(word),
            End::Back => self.model.push_back(word),
        }
    }

    fn pop(&mut self) {
        let end = self.end();
        let mut got = None;
        let any = self.change(|list, ctx| list.pop(ctx, end, |entry| got = Some(text(entry))));
        let want = match end {
            End::Front => self.model.pop_front(),
            End::Back => self.model.pop_back(),
        };
        assert_eq!((any, got), (want.is_some(), want));
    }

    fn take(&mut self) {
        let (end, count) = (self.end(), self.rng.below(self.model.len() as u64 / 2 + 2));
        let mut got = Vec::new();
        self.change(|list, ctx| list.take(ctx, end, count, |entry| got.push(text(entry))));
        let count = (count as usize).min(self.model.len());
        let want: Vec<Vec<u8>> = match end {
            End::Front => self.model.drain(..count).collect(),
            End::Back => self.model.drain(self.model.len() - count..).rev().collect(),
        };
        assert_eq!(got, want);
    }

    fn cut(&mut self) {
        let (end, count) = (self.end(), self.rng.below(self.model.len() as u64 / 2 + 2));
        self.change(|list, ctx| list.cut(ctx, end, count));
        let count = (count as usize).min(self.model.len());
        match end {
            End::Front => drop(self.model.drain(..count)),
            End::Back => self.model.truncate(self.model.len() - count),
        }
    }

    fn set(&mut self) {
        if self.model.is_empty() {
            return;
        }
        let (at, word) = (self.rng.below(self.model.len() as u64), self.word());
        self.change(|list, ctx| list.set(ctx, at, &Coded::of(&word)));
        self.model[at as usize] = word;
    }

    fn insert(&mut self) {
        let (pivot, word, before) = (self.word(), self.word(), self.rng.below(2) == 0);
        let found = self.look().find(&Coded::of(&pivot));
        let want = self.model.iter().position(|w| *w == pivot);
        assert_eq!(found.is_some(), want.is_some());
        if let (Some(found), Some(at)) = (found, want) {
            self.change(|list, ctx| list.insert(ctx, found, before, &Coded::of(&word)));
            self.model.insert(if before { at } else { at + 1 }, word);
        }
    }

    fn remove(&mut self) {
        let (word, end) = (self.word(), self.end());
        let count = if self.rng.below(8) == 0 { u64::MAX } else { self.rng.below(4) };
        let removed = self.change(|list, ctx| list.remove(ctx, &Coded::of(&word), count, end));
        let mut left = count;
        let mut keep = |w: &Vec<u8>| {
            let goes = left > 0 && *w == word;
            left -= u64::from(goes);
            !goes
        };
        match end {
            End::Front => self.model.retain(&mut keep),
            End::Back => {
                self.model = std::mem::take(&mut self.model).into_iter().rev().filter(&mut keep).collect();
                self.model = std::mem::take(&mut self.model).into_iter().rev().collect();
            }
        }
        assert_eq!(removed, count - left);
    }

    fn search(&mut self) {
        let word = self.word();
        let (from, skip, count) = (self.end(), self.rng.below(4), 1 + self.rng.below(4));
        let compare = if self.rng.below(2) == 0 { u64::MAX } else { self.rng.below(30) };
        let mut got = Vec::new();
        let s = Search { needle: Coded::of(&word), from, skip, count, compare };
        self.look().search(&s, |at| got.push(at));
        let numbered: Vec<(u64, &Vec<u8>)> = (0..).zip(&self.model).collect();
        let ordered: Vec<_> = match from {
            End::Front => numbered,
            End::Back => numbered.into_iter().rev().collect(),
        };
        let hits = ordered.into_iter().take(compare.min(1 << 40) as usize).filter(|(_, w)| **w == word);
        let want: Vec<u64> = hits.map(|(at, _)| at).skip(skip as usize).take(count as usize).collect();
        assert_eq!(got, want);
    }

    fn range(&mut self) {
        let (first, count, from) = (self.rng.below(self.model.len() as u64 + 1), self.rng.below(40), self.end());
        let mut got = Vec::new();
        self.look().range(first, count, from, |entry| got.push(text(entry)));
        let all = self.model.iter().cloned();
        let want: Vec<Vec<u8>> = match from {
            End::Front => all.skip(first as usize).take(count as usize).collect(),
            End::Back if first as usize >= self.model.len() => Vec::new(),
            End::Back => all.take(first as usize + 1).rev().take(count as usize).collect(),
        };
        assert_eq!(got, want);
        if (first as usize) < self.model.len() {
            let mut got = Vec::new();
            self.look().get(first, |entry| got = text(entry));
            assert_eq!(got, self.model[first as usize]);
        }
    }

    /// Moves some node, which reclaim does.
    fn relocate(&mut self) {
        let leaves: Vec<Leaf> = std::iter::successors(self.list.tree.first(), |l| self.list.tree.next(*l)).collect();
        if leaves.is_empty() {
            return;
        }
        let leaf = leaves[self.rng.below(leaves.len() as u64) as usize];
        let r = self.list.tree.leaf_ref(leaf);
        let key = leaf.number().to_le_bytes();
        let bytes = self.access.open(&self.log, r).bytes();
        let head = ObjectHead { r, kind: super::kinds::NODE, owner: Owner::Collection(ID.number()), key: &key, bytes };
        assert!(self.change(|list, ctx| list.relocate(ctx.write, &head)));
        assert!(!self.change(|list, ctx| list.relocate(ctx.write, &head)), "it is there no more");
    }

    fn settings(&mut self) {
        let depth = self.rng.below(4) as usize;
        let own_node_bytes = [1, 5, 10, 40, usize::MAX, usize::MAX][self.rng.below(6) as usize];
        self.shape = Shape { bytes: 64 << self.rng.below(4), entries: 1 << self.rng.below(6), depth, own_node_bytes };
    }

    fn step(&mut self, growing: bool) {
        match self.rng.below(if growing { 20 } else { 14 }) {
            0..3 => self.pop(),
            3 if self.rng.below(2) == 0 => self.cut(),
            3 => self.take(),
            4 => self.remove(),
            5..7 => self.set(),
            7..9 => self.insert(),
            9 => self.search(),
            10 => self.range(),
            11 => self.relocate(),
            _ => self.push(),
        }
    }

    fn verify(&mut self) {
        let mut live = HashSet::new();
        self.list.verify(ReadCtx { log: &self.log, access: &self.access, seed: 1 }, ID, &mut live);
        assert_eq!(self.list.len(), self.model.len() as u64);
        let mut got = Vec::new();
        self.look().range(0, u64::MAX, End::Front, |entry| got.push(text(entry)));
        assert!(got.iter().eq(&self.model), "the elements in order");
    }

    fn compressed(&self) -> usize {
        let leaves = std::iter::successors(self.list.tree.first(), |l| self.list.tree.next(*l));
        leaves.filter(|l| is_compressed(self.access.open(&self.log, self.list.tree.leaf_ref(*l)).value())).count()
    }

    /// Frees everything; nothing is left in the log.
    fn finish(mut self) {
        while !self.change(|list, ctx| list.free_step(ctx.write, 3)) {}
        assert_eq!(self.list.object_bytes(), 0);
        self.appender.park(&self.log);
        self.log.verify_with(|_, dead| {
            assert!(dead, "nothing lives any more");
            false
        });
    }
}

fn text(entry: PackedEntry<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    entry.push_to(&mut text);
    text
}

fn shape(bytes: usize, entries: usize, depth: usize) -> Shape {
    Shape { bytes, entries, depth, own_node_bytes: usize::MAX }
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("VARVE_SEED").ok().map(|s| s.parse().expect("VARVE_SEED is a number"));
    given.map_or(1..5, |seed: u64| seed..seed + 1)
}

#[test]
fn agrees_with_a_deque() {
    for seed in seeds() {
        println!("VARVE_SEED={seed}");
        for (bytes, entries, depth) in
            [(64, 512, 0), (128, 4, 0), (256, 512, 1), (128, 1, 0), (512, 16, 2), (8192, 3, 1)]
        {
            let mut both = Both::new(seed, shape(bytes, entries, depth));
            for n in 0..1200 {
                both.step(n % 500 < 350);
                both.verify();
            }
            both.finish();
        }
    }
}

#[test]
fn settings_may_change_at_any_time() {
    for seed in seeds() {
        println!("VARVE_SEED={seed}");
        let mut both = Both::new(seed, Shape::of(-2, 0, u64::MAX));
        for n in 0..4000 {
            if n % 50 == 0 {
                both.settings();
            }
            both.step(n % 900 < 600);
            both.verify();
        }
        both.finish();
    }
}

#[test]
fn inner_nodes_are_squeezed_and_ends_are_not() {
    let mut both = Both::new(1, shape(512, 512, 2));
    for n in 0..1000 {
        let word = format!("{n:020}");
        both.change(|list, ctx| list.push(ctx, End::Back, &Coded::of(word.as_bytes())));
        both.model.push_back(word.into_bytes());
    }
    both.verify();
    assert_eq!(both.compressed(), both.list.tree.leaves() - 4);
    while both.list.len() > 0 {
        both.pop();
        assert!(both.compressed() <= both.list.tree.leaves().saturating_sub(4));
    }
    both.verify();
    both.finish();
}

/// An element of its own node that is long stays plain: it would be expanded whole each time that it is read.
#[test]
fn issue_11_long_nodes_are_not_squeezed() {
    let mut both = Both::new(1, shape(512, 512, 1));
    for bytes in [10, 200 << 10, 300 << 10, 200 << 10, 10] {
        let word = vec![b'x'; bytes];
        both.change(|list, ctx| list.push(ctx, End::Back, &Coded::of(&word)));
        both.model.push_back(word);
    }
    both.verify();
    assert_eq!((both.compressed(), both.list.tree.leaves()), (2, 5));
    both.finish();
}

#[test]
fn ends_do_not_move_what_is_there() {
    // A whole fill of pushes at either end: nodes are full, whichever way the list grew.
    for end in [End::Front, End::Back] {
        let mut both = Both::new(1, Shape::of(-2, 0, u64::MAX));
        for _ in 0..20_000 {
            both.change(|list, ctx| list.push(ctx, end, &Coded::of(&[b'x'; 40])));
        }
        let full = 8 << 10;
        assert_eq!(both.list.tree.leaves(), 20_000_usize.div_ceil((full - 7) / 42));
        assert!(both.list.object_bytes() < both.list.tree.leaves() as u64 * (full as u64 + 24));
        both.finish();
    }
}

/// Issue 12: a list a little longer than a node had a second one of 8 KB, 2.24 bytes for each of its elements' bytes.
#[test]
fn issue_12_a_short_list_has_little_free_room() {
    for (end, count) in
        [End::Front, End::Back].into_iter().flat_map(|end| (195..1200).step_by(37).map(move |n| (end, n)))
    {
        let mut both = Both::new(1, Shape::of(-2, 0, u64::MAX));
        for n in 0..count {
            let word = format!("{n:040}x");
            both.change(|list, ctx| list.push(ctx, end, &Coded::of(word.as_bytes())));
            if end == End::Front {
                both.model.push_front(word.into_bytes())
            } else {
                both.model.push_back(word.into_bytes())
            }
        }
        both.verify();
        let (entries, has) = (count as f64 * 43.0, both.list.object_bytes() as f64);
        assert!(has < 1.15 * entries, "{has} bytes for {entries} of {count} entries");
        // Nodes become longer where they lie.
        let written = both.log.used_bytes() as f64;
        assert!(written < entries + 2.0 * 8192.0, "{written} bytes written for {entries}");
        both.finish();
    }
}

#[test]
fn what_is_cut_off_is_killed_in_steps() {
    let mut both = Both::new(1, shape(64, 512, 0));
    for n in 0..10_000 {
        let word = format!("{n:010}");
        both.change(|list, ctx| list.push(ctx, End::Back, &Coded::of(word.as_bytes())));
        both.model.push_back(word.into_bytes());
    }
    both.change(|list, ctx| {
        list.cut(ctx, End::Front, 4000);
        list.cut(ctx, End::Back, 5000);
    });
    both.model = both.model.range(4000..5000).cloned().collect();
    assert!(both.list.wants_step());
    both.verify();
    while both.list.wants_step() {
        both.relocate();
        both.push();
        both.change(|list, ctx| list.step(ctx.write, 10));
        both.verify();
    }
    both.finish();
}

#[test]
fn removal_in_the_middle_leaves_few_nodes() {
    let mut both = Both::new(1, shape(256, 512, 0));
    for n in 0..4000 {
        let word = format!("{:010}", n % 10);
        both.change(|list, ctx| list.push(ctx, End::Back, &Coded::of(word.as_bytes())));
    }
    let before = both.list.tree.leaves();
    for n in 1..10 {
        let word = format!("{n:010}");
        assert_eq!(both.change(|list, ctx| list.remove(ctx, &Coded::of(word.as_bytes()), u64::MAX, End::Front)), 400);
    }
    assert_eq!(both.list.len(), 400);
    assert!(both.list.tree.leaves() * 3 < before, "{} of {before} nodes", both.list.tree.leaves());
    both.finish();
}
