//! The tree against a vector of leaves. Seeds are printed; VARVE_SEED repeats one.

use super::*;
use std::num::NonZeroU64;
use varve_base::rng::Rng;

/// The leaf that the model expects.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    leaf: Leaf,
    place: u64,
    count: u64,
    separator: u64,
}

struct Both {
    tree: CountedTree<u64>,
    model: Vec<Cell>,
    /// The leaves in detached.
    detached: Vec<Cell>,
    rng: Rng,
    keyed: bool,
}

impl Both {
    fn new(seed: u64, keyed: bool) -> Both {
        let tree = if keyed { CountedTree::keyed() } else { CountedTree::new() };
        Both { tree, model: Vec::new(), detached: Vec::new(), rng: Rng::seeded(seed), keyed }
    }

    fn pick(&mut self) -> usize {
        let len = self.model.len() as u64;
        match self.rng.below(4) {
            0 => 0,
            1 => len as usize - 1,
            _ => self.rng.below(len) as usize,
        }
    }

    /// A key that may stand at `at`: between its neighbours, which it often equals.
    fn key_at(&mut self, before: Option<usize>, after: usize) -> u64 {
        if !self.keyed {
            return 0;
        }
        let low = before.map_or(0, |at| self.model[at].separator);
        let high = self.model.get(after).map_or(low + 20, |cell| cell.separator);
        low + self.rng.below(high - low + 1)
    }

    fn insert(&mut self) {
        let at = match self.rng.below(3) {
            0 => 0,
            1 => self.model.len(),
            _ => self.rng.below(self.model.len() as u64 + 1) as usize,
        };
        let (place, count) = (self.rng.next_u64(), self.rng.below(5) as u32);
        let separator = self.key_at(at.checked_sub(1), at);
        let before = at.checked_sub(1).map(|at| self.model[at].leaf);
        let upcoming = self.tree.upcoming();
        let leaf = self.tree.insert_after(before, place, count, separator);
        assert_eq!(leaf, upcoming);
        self.model.insert(at, Cell { leaf, place, count: u64::from(count), separator });
    }

    fn remove(&mut self) {
        let at = self.pick();
        let cell = self.model.remove(at);
        assert_eq!(self.tree.remove(cell.leaf), cell.place);
        assert_eq!(self.tree.leaf(cell.leaf.number()), None);
    }

    fn change(&mut self) {
        let at = self.pick();
        let leaf = self.model[at].leaf;
        let count = self.rng.below(9);
        self.tree.add(leaf, count as i64 - self.model[at].count as i64);
        self.model[at].count = count;
        let place = self.rng.next_u64();
        self.tree.set_ref(leaf, place);
        self.model[at].place = place;
        if self.keyed {
            let separator = self.key_at(at.checked_sub(1), at + 1);
            self.tree.set_separator(leaf, separator);
            self.model[at].separator = separator;
        }
    }

    fn cut(&mut self) {
        let at = self.pick();
        let leaf = self.model[at].leaf;
        let gone = match self.rng.below(4) {
            0 => {
                self.tree.cut_before(leaf);
                0..at
            }
            1 => {
                self.tree.cut_after(leaf);
                at + 1..self.model.len()
            }
            _ => {
                let (low, high) = (at.min(self.model.len() - 2), self.model.len() - 1);
                let high = low + 1 + self.rng.below((high - low) as u64) as usize;
                self.tree.cut_between(self.model[low].leaf, self.model[high].leaf);
                low + 1..high
            }
        };
        self.detached.extend(self.model.drain(gone));
    }

    fn take_detached(&mut self, many: u64) {
        for _ in 0..many {
            assert_eq!(self.tree.has_detached(), !self.detached.is_empty());
            let next = self.tree.next_detached();
            assert!(next.is_none_or(|leaf| self.tree.is_detached(leaf)));
            assert_eq!(self.tree.next_detached(), next);
            let taken = self.tree.take_detached();
            let at = self.detached.iter().position(|cell| Some((cell.leaf, cell.place)) == next.zip(taken));
            match at {
                Some(at) => drop(self.detached.swap_remove(at)),
                None => assert!(taken.is_none() && self.detached.is_empty()),
            }
        }
    }

    fn step(&mut self, growing: bool) {
        if self.model.len() > 1 && self.rng.below(if growing { 400 } else { 100 }) == 0 {
            return self.cut();
        }
        if self.rng.below(4) == 0 {
            let many = self.rng.below(12);
            self.take_detached(many);
        }
        match self.rng.below(10) {
            _ if self.model.is_empty() => self.insert(),
            0..2 => self.change(),
            2..4 => self.remove(),
            _ if growing => self.insert(),
            _ => self.remove(),
        }
    }

    /// Looks at one leaf, one position and one key.
    fn look(&mut self) {
        let total: u64 = self.model.iter().map(|cell| cell.count).sum();
        assert_eq!((self.tree.leaves(), self.tree.count()), (self.model.len() + self.detached.len(), total));
        assert_eq!(self.tree.is_single(), self.model.len() == 1);
        assert_eq!(self.tree.first(), self.model.first().map(|cell| cell.leaf));
        assert_eq!(self.tree.last(), self.model.last().map(|cell| cell.leaf));
        assert_eq!(self.tree.locate(total), None);
        if self.tree.keyed {
            self.look_for_key();
        }
        if self.model.is_empty() {
            return;
        }
        let at = self.pick();
        let Cell { leaf, place, count, separator } = self.model[at];
        assert_eq!(self.tree.leaf(leaf.number()), Some(leaf));
        assert!(!self.tree.is_detached(leaf));
        assert!(self.detached.iter().all(|cell| self.tree.is_detached(cell.leaf)));
        let found = (self.tree.leaf_ref(leaf), self.tree.count_of(leaf), self.tree.separator(leaf));
        assert_eq!(found, (place, count, separator));
        assert_eq!(self.tree.next(leaf), self.model.get(at + 1).map(|cell| cell.leaf));
        assert_eq!(self.tree.prev(leaf), at.checked_sub(1).map(|at| self.model[at].leaf));
        let before: u64 = self.model[..at].iter().map(|cell| cell.count).sum();
        assert_eq!(self.tree.position_of(leaf), before);
        if count > 0 {
            let offset = self.rng.below(count);
            assert_eq!(self.tree.locate(before + offset), Some((leaf, offset)));
        }
    }

    /// The leaf that a key leads to is the last one whose separator is not greater.
    fn look_for_key(&mut self) {
        let key = self.model.last().map_or(0, |cell| self.rng.below(cell.separator + 2));
        let least = self.model.iter().rfind(|cell| cell.separator <= key).or(self.model.first());
        let by_separator = |separator: u64| if separator <= key { Ordering::Less } else { Ordering::Greater };
        let found = self.tree.descend_by(
            by_separator,
            None::<fn(Leaf) -> Ordering>,
            |_| unreachable!("no key is equal"),
            |_| {},
        );
        assert_eq!(found, least.map(|cell| cell.leaf), "key {key}");
    }

    /// Walks all leaves in both directions.
    fn walk(&self) {
        let mut leaves: Vec<Leaf> = std::iter::successors(self.tree.first(), |&leaf| self.tree.next(leaf)).collect();
        assert!(leaves.iter().eq(self.model.iter().map(|cell| &cell.leaf)), "forward");
        leaves.reverse();
        assert!(std::iter::successors(self.tree.last(), |&leaf| self.tree.prev(leaf)).eq(leaves), "backward");
    }
}

fn run(seed: u64, keyed: bool) {
    let mut both = Both::new(seed, keyed);
    for round in 0..6 {
        for _ in 0..1500 {
            both.step(round % 2 == 0);
            both.look();
            both.tree.verify();
        }
        both.walk();
    }
    both.take_detached(both.detached.len() as u64 + 1);
    while !both.model.is_empty() {
        both.remove();
        both.tree.verify();
    }
    both.look();
}

#[test]
fn agrees_with_a_vector() {
    let given = std::env::var("VARVE_SEED").ok().map(|s| s.parse().expect("VARVE_SEED is a number"));
    for seed in given.map_or(1..5, |seed| seed..seed + 1) {
        println!("VARVE_SEED={seed}");
        run(seed, false);
        run(seed, true);
    }
}

#[test]
fn growth_at_an_end_makes_full_nodes() {
    for front in [false, true] {
        let mut tree: CountedTree<NonZeroU64> = CountedTree::new();
        for n in 0..100_000 {
            let before = if front { None } else { tree.last() };
            tree.insert_after(before, NonZeroU64::MIN.saturating_add(n), 1, 0);
        }
        tree.verify();
        assert!(tree.bytes() <= 100_000 * 28, "{} bytes", tree.bytes());
        assert_eq!(tree.locate(50_000).unwrap().1, 0);
    }
}

#[test]
fn what_is_removed_at_random_gives_its_nodes_back() {
    let (mut tree, mut rng) = (CountedTree::<NonZeroU64>::keyed(), Rng::seeded(5));
    let mut leaves = Vec::new();
    for n in 0..10_000 {
        leaves.push(tree.insert_after(leaves.last().copied(), NonZeroU64::MIN, 1, n));
    }
    let full = tree.bytes();
    for left in (1000..leaves.len()).rev() {
        let gone = leaves.swap_remove(rng.below(left as u64 + 1) as usize);
        tree.remove(gone);
    }
    tree.verify();
    let cells = tree.refs.bytes() + tree.parents.bytes();
    assert!(tree.bytes() - cells <= (full - cells) * 2 / 5, "{} bytes for a tenth of {full}", tree.bytes());
}

/// Ranges are cut out of the middle until little is left: no node is left with a child or two.
#[test]
fn issue_11_cuts_in_the_middle_leave_no_thin_tree() {
    let mut tree = CountedTree::<NonZeroU64>::keyed();
    let mut leaves = Vec::new();
    for n in 0..100_000 {
        leaves.push(tree.insert_after(leaves.last().copied(), NonZeroU64::MIN, 1, n));
    }
    for part in leaves.chunks(100) {
        tree.cut_between(part[0], part[99]);
        while tree.take_detached().is_some() {}
    }
    tree.verify();
    assert_eq!((tree.leaves(), tree.count()), (2000, 2000));
    assert!(tree.nodes.len() < 2000 / FAN_MIN + 16, "{} nodes for 2000 leaves", tree.nodes.len());
}
