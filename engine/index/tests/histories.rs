//! Every short history of a small table, against a list.
//!
//! A table has three hashes here, all with one tag: two are at home in the first bucket of every table that is this
//! small, the third in the last bucket, so that what it borrows wraps to the front. Each start is a table at an edge:
//! about to grow, in the middle of a move, with chains, far too large for what it holds. From each start every sequence
//! of operations is run. A state that several histories pass through is examined once.
//!
//! Not here: long histories and other hashes (`properties.rs`).

use std::collections::HashSet;
use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::rng::Rng;
use varve_index::{IndexGeometry, IndexTable, POSITIONS, Rehash};

/// The hashes: two at home in the first bucket, one in the last. One tag for all.
const HASHES: [u64; 3] = [0x8001, 0x1234 << 16 | 0x8001, (POSITIONS - 1) << 16 | 0x8001];

/// Operations: of each hash insert one entry, remove the oldest, remove the one at four fifths of its list; replace the
/// newest of all three; one bucket of background work; all of it.
const OPS: u32 = 12;

/// The hash of a reference is in its low bits: reference `4 n + h` was inserted with hash `h`.
struct LowBits;

impl Rehash for LowBits {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        HASHES[(r.bits() % 4) as usize]
    }
}

/// A table to begin with: entries of each hash are inserted, then the oldest are removed until so few are left.
#[derive(Clone, Copy, Debug)]
struct Start {
    first_buckets: u32,
    displace: u32,
    inserted: [usize; 3],
    left: [usize; 3],
    /// After that, as many entries of the first hash are removed behind the 14 that its home and its extension hold.
    holes: usize,
}

/// The table and the list: for each hash its references, the oldest first.
struct Pair {
    table: IndexTable,
    entries: [Vec<Ref>; 3],
    next: u64,
}

impl Pair {
    fn new(start: Start) -> Pair {
        let Start { first_buckets, displace, inserted, left, holes } = start;
        let geometry = IndexGeometry { first_buckets, displace, move_buckets: 1, ..IndexGeometry::default() };
        let mut pair = Pair { table: IndexTable::new(geometry), entries: Default::default(), next: 1 };
        for (h, count) in inserted.into_iter().enumerate() {
            (0..count).for_each(|_| pair.insert(h));
        }
        for (h, count) in left.into_iter().enumerate() {
            (count..inserted[h]).for_each(|_| pair.remove(h, 0));
        }
        (0..holes).for_each(|_| pair.remove(0, 14));
        pair
    }

    fn new_ref(&mut self, h: usize) -> Ref {
        self.next += 1;
        // SAFETY: in range, and never followed.
        unsafe { Ref::from_bits(self.next * 4 + h as u64) }
    }

    fn insert(&mut self, h: usize) {
        let r = self.new_ref(h);
        self.table.insert(HASHES[h], r, &LowBits);
        self.entries[h].push(r);
    }

    fn remove(&mut self, h: usize, at: usize) {
        if at >= self.entries[h].len() {
            return;
        }
        let r = self.entries[h].remove(at);
        let entry = self.table.find_ref(HASHES[h], r).expect("it is there");
        assert_eq!((self.table.get(entry), self.table.remove(entry)), (r, r));
        assert_eq!(self.table.find_ref(HASHES[h], r), None);
    }

    fn replace_newest(&mut self) {
        for (h, hash) in HASHES.into_iter().enumerate() {
            let Some(old) = self.entries[h].pop() else { continue };
            let new = self.new_ref(h);
            let entry = self.table.find_ref(hash, old).expect("it is there");
            self.table.replace(entry, new);
            assert_eq!(self.table.find_ref(hash, new), Some(entry));
            self.entries[h].push(new);
        }
    }

    fn apply(&mut self, op: u32) {
        let h = op as usize % 3;
        match op / 3 {
            0 => self.insert(h),
            1 => self.remove(h, 0),
            2 => self.remove(h, self.entries[h].len() * 4 / 5),
            _ if h == 0 => self.replace_newest(),
            _ => {
                let most = if h == 1 { 1 } else { 64 };
                let more = self.table.step(&LowBits, most);
                assert!(h == 1 || !more || !self.table.is_moving(), "64 buckets are more than there are");
            }
        }
    }

    /// Everything that can be asked of the table is as the list has it.
    fn examine(&self) {
        let mut expected: Vec<Ref> = self.entries.concat();
        expected.sort_unstable();
        assert_eq!((self.table.len(), self.table.is_empty()), (expected.len(), expected.is_empty()));
        assert_eq!(self.table.verify(&LowBits).total(), expected.len());
        for (h, &hash) in HASHES.iter().enumerate() {
            let mut offered = HashSet::new();
            assert_eq!(self.table.find(hash, |r| !offered.insert(r)), None, "a candidate is offered once");
            assert!(self.entries[h].iter().all(|r| offered.contains(r)), "every entry of the hash is offered");
            let bits48 = (hash >> 16) << 12 | hash & 0xfff;
            let by_part = |&r: &Ref| self.table.find_partial(bits48, |other| other == r).map(|e| self.table.get(e));
            assert!(self.entries[h].iter().all(|r| by_part(r) == Some(*r)), "found by 48 bits of the hash");
        }
        let sorted = |mut refs: Vec<Ref>| {
            refs.sort_unstable();
            refs
        };
        let (mut all, mut scanned, mut from) = (Vec::new(), Vec::new(), Some(0));
        self.table.for_each(|r| all.push(r));
        while let Some(position) = from {
            from = self.table.scan(position, &LowBits, |r| scanned.push(r));
        }
        assert_eq!((sorted(all), sorted(scanned)), (expected.clone(), expected.clone()), "for_each and scan");
        let sampled = self.table.sample(&mut Rng::seeded(7));
        assert!(sampled.map_or(expected.is_empty(), |r| expected.binary_search(&r).is_ok()), "{sampled:?}");
    }

    /// Empties the table in steps of one bucket: each reference comes once, and what is left is found.
    fn drain(mut self) {
        let mut done = false;
        while !done {
            let mut gone = HashSet::new();
            done = self.table.drain_step(1, &mut |r| assert!(gone.insert(r), "{r:?} came twice"));
            let before = self.entries.iter().map(Vec::len).sum::<usize>();
            self.entries.iter_mut().for_each(|refs| refs.retain(|r| !gone.contains(r)));
            assert_eq!(before - gone.len(), self.table.len());
            for (h, refs) in self.entries.iter().enumerate() {
                assert!(refs.iter().all(|&r| self.table.find_ref(HASHES[h], r).is_some()), "what is left is found");
            }
        }
        assert_eq!((self.table.len(), self.table.bytes()), (0, 0));
    }
}

/// Runs every sequence of `steps` operations from `start`.
fn every_history(start: Start, steps: u32) {
    for history in 0..OPS.pow(steps) {
        let mut pair = Pair::new(start);
        for step in 0..steps {
            let rest = history / OPS.pow(step);
            pair.apply(rest % OPS);
            // The later operations of the first history that passes through this state are all number 0.
            if rest < OPS {
                pair.examine();
            }
        }
        // Draining all would take longer than the rest: those are drained whose first operation is an insert.
        if history % OPS < 3 {
            pair.drain();
        }
    }
}

/// Three operations from each of many starts: every number of entries around the sizes at which small tables grow.
#[test]
fn every_history_of_three_from_every_edge() {
    for (first_buckets, displace) in [(1, 0), (1, 2), (2, 1), (3, 2)] {
        for inserted in [[0, 0, 0], [5, 0, 1], [6, 6, 0], [0, 3, 9], [7, 0, 7], [12, 0, 0], [4, 4, 10], [9, 9, 9]] {
            every_history(Start { first_buckets, displace, inserted, left: inserted, holes: 0 }, 3);
            every_history(Start { first_buckets, displace, inserted, left: inserted.map(|n| n.min(1)), holes: 0 }, 3);
        }
    }
}

/// Four operations where a move begins, goes on or ends within them, and where a chain loses a bucket.
#[test]
fn every_history_of_four() {
    let start = Start { first_buckets: 1, displace: 2, inserted: [0; 3], left: [0; 3], holes: 0 };
    for start in [
        // The table of one bucket is full: an insert makes it grow.
        Start { inserted: [6, 0, 0], left: [6, 0, 0], ..start },
        // In the middle of a move, with chains in the old table and the new one.
        Start { inserted: [14, 0, 12], left: [14, 0, 12], ..start },
        // Far too large for three entries: a step makes it shrink.
        Start { inserted: [10, 2, 12], left: [1, 1, 1], ..start },
        // The second bucket of a chain has one entry left, at four fifths of the list.
        Start { first_buckets: 8, inserted: [24, 0, 0], left: [24, 0, 0], holes: 6, ..start },
    ] {
        every_history(start, 4);
    }
}
