//! A naive index beside a real one: a list of (hash, reference) that is searched from end to end.
//!
//! Property tests and the fuzz target drive both through [`World::apply`], which compares every answer.

use std::collections::HashSet;
use varve_base::Ref;
use varve_base::group::Tag;
use varve_base::hash::mix64;
use varve_base::rng::Rng;
use varve_index::{IndexGeometry, IndexTable, POSITIONS, Rehash};

/// One thing to do to both. Numbers select: any value is good.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Insert an entry with a hash of this kind.
    Insert(HashKind, u64),
    /// Remove one of the entries.
    Remove(u64),
    /// Remove many, so that the table is left nearly empty.
    RemoveMany(u64),
    /// Give an entry another reference.
    Replace(u64),
    /// Look for an entry in each way that there is.
    Find(u64),
    /// Look for a hash that may be absent.
    FindHash(HashKind, u64),
    /// Some buckets of background work; from 240 on, another number of entries is expected.
    Step(u8),
    /// A step of a scan that goes on between the other operations; begins one when there is none.
    Scan,
    /// A random entry.
    Sample(u64),
    /// Check everything.
    Verify,
    /// Remove all.
    Clear,
}

/// How a number becomes a hash.
#[derive(Clone, Copy, Debug)]
pub enum HashKind {
    /// Spread over everything.
    Spread,
    /// One of 40 hashes spread over everything.
    Few,
    /// One hash for all.
    Equal,
    /// Different places, one tag.
    SameTag,
    /// One place, different tags.
    SamePlace,
    /// Places at the end of hash space, whose extensions wrap into its start.
    Last,
}

impl HashKind {
    const ALL: [HashKind; 6] =
        [HashKind::Spread, HashKind::Few, HashKind::Equal, HashKind::SameTag, HashKind::SamePlace, HashKind::Last];

    /// A kind by number.
    pub fn of(number: u8) -> HashKind {
        Self::ALL[usize::from(number) % Self::ALL.len()]
    }

    fn hash(self, x: u64) -> u64 {
        let spread = mix64(x.wrapping_add(1).wrapping_mul(varve_base::hash::GOLDEN_RATIO));
        match self {
            HashKind::Spread => spread,
            HashKind::Few => mix64(x % 40 + 1),
            HashKind::Equal => 0x0123_4567_89ab_cdef,
            HashKind::SameTag => spread & !0xffff | 0x8000,
            HashKind::SamePlace => 0x0005_0000_0000_0000 | spread & 0xffff,
            HashKind::Last => spread & 0xffff | (POSITIONS - 1 - (spread >> 32 & 0xffff)) << 16,
        }
    }
}

/// Which hash each reference was inserted with; references are numbered from 1.
#[derive(Default)]
struct Hashes(Vec<u64>);

impl Rehash for Hashes {
    fn hash(&self, r: Ref, _: Tag) -> u64 {
        self.0[r.bits() as usize - 1]
    }
}

/// A scan under way.
struct Scan {
    cursor: u64,
    seen: Vec<Ref>,
    /// Entries that were there at the start and have stayed, by number.
    must_see: HashSet<usize>,
    changed: bool,
}

/// Both, and what has been going on.
pub struct World {
    table: IndexTable,
    hashes: Hashes,
    /// The number of an entry, its hash and its reference.
    entries: Vec<(usize, u64, Ref)>,
    next_number: usize,
    scan: Option<Scan>,
}

impl World {
    /// Two empty ones.
    pub fn new(geometry: IndexGeometry) -> World {
        World {
            table: IndexTable::new(geometry),
            hashes: Hashes::default(),
            entries: Vec::new(),
            next_number: 0,
            scan: None,
        }
    }

    fn new_ref(&mut self, hash: u64) -> Ref {
        self.hashes.0.push(hash);
        // SAFETY: in range, and never followed.
        unsafe { Ref::from_bits(self.hashes.0.len() as u64) }
    }

    fn pick(&self, which: u64) -> Option<usize> {
        (!self.entries.is_empty()).then(|| (which % self.entries.len() as u64) as usize)
    }

    /// Does one thing to both and compares.
    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Insert(kind, x) => self.insert(kind.hash(x)),
            Op::Remove(which) => self.remove(which),
            Op::RemoveMany(keep) => {
                let keep = (keep % 8) as usize;
                while self.entries.len() > keep {
                    self.remove(keep as u64);
                }
            }
            Op::Replace(which) => self.replace(which),
            Op::Find(which) => self.find(which),
            Op::FindHash(kind, x) => self.find_hash(kind.hash(x)),
            Op::Step(expected @ 240..) => self.table.expect(usize::from(expected - 240) * 50),
            Op::Step(buckets) => {
                self.table.step(&self.hashes, usize::from(buckets % 16) + 1);
                self.changed();
            }
            Op::Scan => self.scan_step(),
            Op::Sample(seed) => self.sample(seed),
            Op::Verify => self.verify(),
            Op::Clear => self.clear(),
        }
        assert_eq!(self.table.len(), self.entries.len());
    }

    fn changed(&mut self) {
        if let Some(scan) = &mut self.scan {
            scan.changed = true;
        }
    }

    fn insert(&mut self, hash: u64) {
        let r = self.new_ref(hash);
        self.table.insert(hash, r, &self.hashes);
        self.entries.push((self.next_number, hash, r));
        self.next_number += 1;
        self.changed();
    }

    fn remove(&mut self, which: u64) {
        let Some(at) = self.pick(which) else { return };
        let (number, hash, r) = self.entries.swap_remove(at);
        let entry = self.table.find_ref(hash, r).expect("the entry is there");
        assert_eq!(self.table.remove(entry), r);
        assert_eq!(self.table.find_ref(hash, r), None);
        if let Some(scan) = &mut self.scan {
            scan.must_see.remove(&number);
        }
        self.changed();
    }

    fn replace(&mut self, which: u64) {
        let Some(at) = self.pick(which) else { return };
        let (_, hash, old) = self.entries[at];
        let new = self.new_ref(hash);
        let entry = self.table.find_ref(hash, old).expect("the entry is there");
        self.table.replace(entry, new);
        assert_eq!(self.table.get(entry), new);
        self.entries[at].2 = new;
    }

    fn find(&self, which: u64) {
        let Some(at) = self.pick(which) else { return };
        let (_, hash, r) = self.entries[at];
        self.table.prefetch(hash);
        let entry = self.table.find(hash, |other| other == r).expect("the entry is found by hash");
        assert_eq!(self.table.get(entry), r);
        let bits48 = (hash >> 16 & (POSITIONS - 1)) << 12 | hash & 0xfff;
        assert_eq!(self.table.find_partial(bits48, |other| other == r), Some(entry), "by 48 bits of the hash");
    }

    /// All candidates with the hash, and no more false ones than tags allow.
    fn find_hash(&self, hash: u64) {
        let mut offered = HashSet::new();
        let found = self.table.find(hash, |r| {
            assert!(offered.insert(r), "{r:?} is offered twice");
            false
        });
        assert_eq!(found, None);
        for &(_, other, r) in &self.entries {
            assert!(other != hash || offered.contains(&r), "{r:?} has the hash and is not offered");
        }
        assert!(
            offered.iter().all(|&r| self.hashes.hash(r, Tag(hash as u16)) as u16 == hash as u16),
            "a candidate with another tag"
        );
    }

    fn scan_step(&mut self) {
        let scan = self.scan.get_or_insert_with(|| Scan {
            cursor: 0,
            seen: Vec::new(),
            must_see: self.entries.iter().map(|e| e.0).collect(),
            changed: false,
        });
        let next = self.table.scan(scan.cursor, &self.hashes, |r| scan.seen.push(r));
        let seen_now: HashSet<Ref> = scan.seen.iter().copied().collect();
        // References change by replace, so they are turned into numbers at once.
        for (number, _, r) in &self.entries {
            if seen_now.contains(r) {
                scan.must_see.remove(number);
            }
        }
        if !scan.changed {
            assert_eq!(seen_now.len(), scan.seen.len(), "an entry came twice");
        }
        match next {
            Some(next) => {
                assert!(next > scan.cursor, "a scan goes forward");
                scan.cursor = next;
            }
            None => {
                assert!(scan.must_see.is_empty(), "entries that the scan missed: {:?}", scan.must_see);
                self.scan = None;
            }
        }
    }

    fn sample(&self, seed: u64) {
        let sampled = self.table.sample(&mut Rng::seeded(seed));
        assert_eq!(sampled.is_some(), !self.entries.is_empty());
        assert!(sampled.is_none_or(|r| self.entries.iter().any(|e| e.2 == r)), "{sampled:?} is not there");
    }

    fn clear(&mut self) {
        self.table.clear();
        self.entries.clear();
        if let Some(scan) = &mut self.scan {
            scan.must_see.clear();
        }
        assert_eq!(self.table.bytes(), 0);
        self.changed();
    }

    /// Checks the table in itself and against the list.
    pub fn verify(&self) {
        assert_eq!(self.table.verify(&self.hashes).total(), self.entries.len());
        let mut all = Vec::new();
        self.table.for_each(|r| all.push(r));
        let mut expected: Vec<Ref> = self.entries.iter().map(|e| e.2).collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }

    /// Empties both in steps, with searches and removals in between.
    pub fn drain(mut self, seed: u64) {
        self.scan = None;
        let mut rng = Rng::seeded(seed);
        loop {
            let mut gone = Vec::new();
            let done = self.table.drain_step(rng.below(12) as usize, &mut |r| gone.push(r));
            for r in gone {
                let at = self.entries.iter().position(|e| e.2 == r).expect("it was there, and came once");
                self.entries.swap_remove(at);
            }
            assert_eq!(self.table.len(), self.entries.len());
            assert!(!self.table.step(&self.hashes, 1) && !self.table.wants_move());
            if done {
                break;
            }
            match rng.below(4) {
                0 => self.remove(rng.next_u64()),
                1 => self.find(rng.next_u64()),
                2 => self.replace(rng.next_u64()),
                _ => self.verify(),
            }
        }
        assert_eq!((self.table.len(), self.entries.len(), self.table.bytes()), (0, 0, 0));
        // As good as new.
        self.insert(7);
        self.verify();
    }

    /// Ends a scan, verifies, lets background work come to its end, verifies again.
    pub fn finish(mut self) -> IndexTable {
        while self.scan.is_some() {
            self.scan_step();
        }
        self.verify();
        self.table.expect(0);
        let mut steps = 0;
        while self.table.step(&self.hashes, 3) {
            steps += 1;
            assert!(steps < 1_000_000, "background work does not end");
        }
        self.verify();
        self.table
    }
}
