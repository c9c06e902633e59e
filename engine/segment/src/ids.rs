//! Free segment numbers: segments are taken from the bottom of the range, extents from its top.
//!
//! ```text
//!  0     2   3        7      low                    high      high + 3           max
//!  | used |free| used |        never taken, or back      | used |  free  | used   |
//!  segments: the lowest number ->                          <- extents: the shortest stretch that is long enough
//! ```
//! Both sides have advice of their own for the system's pages, so they do not mix: the one side takes from the other only
//! when nothing else is left. Neighbours are joined, and what touches the middle is given back to it. Every operation
//! costs the logarithm of the number of stretches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Free stretches of one side, none of which touches another or the middle.
#[derive(Debug, Default)]
struct Stretches {
    /// Begin and count.
    by_place: BTreeMap<u32, u32>,
    /// Count and begin.
    by_count: BTreeSet<(u32, u32)>,
    /// Numbers in all of them.
    numbers: u32,
}

impl Stretches {
    fn insert(&mut self, first: u32, count: u32) {
        if count > 0 {
            self.by_place.insert(first, count);
            self.by_count.insert((count, first));
            self.numbers += count;
        }
    }

    fn remove(&mut self, first: u32) -> u32 {
        let count = self.by_place.remove(&first).expect("a stretch that was just found");
        self.by_count.remove(&(count, first));
        self.numbers -= count;
        count
    }

    fn lowest(&self) -> Option<u32> {
        self.by_place.first_key_value().map(|(&first, _)| first)
    }

    fn has(&self, id: u32) -> bool {
        self.by_place.range(..=id).next_back().is_some_and(|(&first, &count)| id < first + count)
    }

    /// Takes the lowest number.
    fn take_lowest(&mut self) -> Option<u32> {
        let first = self.lowest()?;
        let count = self.remove(first);
        self.insert(first + 1, count - 1);
        Some(first)
    }

    /// Takes the upper end of the shortest stretch that is long enough.
    fn take_row(&mut self, count: u32) -> Option<u32> {
        let &(found, first) = self.by_count.range((count, 0)..).next()?;
        self.remove(first);
        self.insert(first, found - count);
        Some(first + found - count)
    }

    /// Takes one number out of the stretch that has it.
    fn take_this(&mut self, id: u32) {
        let (&first, &count) = self.by_place.range(..=id).next_back().expect("a free segment");
        assert!(id < first + count, "segment {id} is not free");
        self.remove(first);
        self.insert(first, id - first);
        self.insert(id + 1, first + count - id - 1);
    }

    /// Takes numbers back, and gives the stretch that they are part of now.
    fn give(&mut self, first: u32, count: u32) -> (u32, u32) {
        let (mut first, mut count) = (first, count);
        if let Some((&before, &len)) = self.by_place.range(..=first).next_back() {
            assert!(before + len <= first, "segment {first} freed twice");
            if before + len == first {
                self.remove(before);
                (first, count) = (before, len + count);
            }
        }
        if let Some((&after, &len)) = self.by_place.range(first..).next() {
            assert!(first + count <= after, "segment {first} freed twice");
            if first + count == after {
                self.remove(after);
                count += len;
            }
        }
        self.insert(first, count);
        (first, count)
    }

    fn longest(&self) -> u32 {
        self.by_count.last().map_or(0, |&(count, _)| count)
    }
}

/// The numbers `0..max` of which some are taken.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Free numbers below `low`, and at `high` and above.
    below: Stretches,
    above: Stretches,
    /// The numbers from `low` to `high` are free.
    low: u32,
    high: u32,
    max: u32,
    /// The highest `low` and the lowest `high` so far.
    peaks: (u32, u32),
}

impl Ids {
    pub(crate) fn new(max: u32) -> Ids {
        Ids { below: Stretches::default(), above: Stretches::default(), low: 0, high: max, max, peaks: (0, max) }
    }

    /// The middle, which no taken number lies in: from the end of the segments' side to the begin of the extents'.
    pub(crate) fn middle(&self) -> Range<u32> {
        self.low..self.high
    }

    /// How many numbers have ever been in use, counted from either end without the holes.
    pub(crate) fn reached(&self) -> [u32; 2] {
        [self.peaks.0, self.max - self.peaks.1]
    }

    /// Takes the lowest number for a segment.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(id) = self.below.take_lowest() {
            return Some(id);
        }
        if self.low < self.high {
            self.set_middle(self.low + 1, self.high);
            return Some(self.low - 1);
        }
        self.above.take_lowest()
    }

    /// Takes `count` numbers in a row for an extent; None if there is no such row.
    pub(crate) fn take_row(&mut self, count: u32) -> Option<u32> {
        assert!(count > 0, "no numbers are taken");
        if let Some(first) = self.take_row_above(count) {
            return Some(first);
        }
        if self.high - self.low >= count {
            self.set_middle(self.low, self.high - count);
            return Some(self.high);
        }
        self.below.take_row(count)
    }

    /// Takes `count` numbers in a row above the middle.
    pub(crate) fn take_row_above(&mut self, count: u32) -> Option<u32> {
        self.above.take_row(count)
    }

    /// Takes this number, which must be free.
    pub(crate) fn take_this(&mut self, id: u32) {
        assert!(id < self.max, "number {id} of {}", self.max);
        match id {
            id if id < self.low => self.below.take_this(id),
            id if id >= self.high => self.above.take_this(id),
            id => {
                let from = self.low;
                self.set_middle(id + 1, self.high);
                self.below.insert(from, id - from);
            }
        }
    }

    /// Takes `count` numbers back.
    pub(crate) fn give(&mut self, first: u32, count: u32) {
        assert!(count > 0 && first + count <= self.max, "{count} numbers from {first} of {}", self.max);
        assert!(first + count <= self.low || first >= self.high, "segment {first} freed twice");
        if first < self.low {
            let (first, count) = self.below.give(first, count);
            if first + count == self.low {
                self.below.remove(first);
                self.set_middle(first, self.high);
            }
        } else {
            let (first, count) = self.above.give(first, count);
            if first == self.high {
                self.above.remove(first);
                self.set_middle(self.low, first + count);
            }
        }
    }

    fn set_middle(&mut self, low: u32, high: u32) {
        assert!(low <= high && high <= self.max, "the middle is {low}..{high} of {}", self.max);
        (self.low, self.high) = (low, high);
        self.peaks = (self.peaks.0.max(low), self.peaks.1.min(high));
    }

    /// The number that `take` would give.
    pub(crate) fn next(&self) -> Option<u32> {
        let middle = (self.low < self.high).then_some(self.low);
        self.below.lowest().or(middle).or_else(|| self.above.lowest())
    }

    /// True if nobody has this number.
    pub(crate) fn is_free(&self, id: u32) -> bool {
        match id {
            id if id < self.low => self.below.has(id),
            id if id >= self.high => self.above.has(id),
            _ => true,
        }
    }

    /// Free numbers outside of the middle.
    pub(crate) fn free_in_use(&self) -> u32 {
        self.below.numbers + self.above.numbers
    }

    /// Free numbers below the middle.
    pub(crate) fn free_below(&self) -> u32 {
        self.below.numbers
    }

    /// Free numbers in a row above the middle, at the most.
    pub(crate) fn longest_above(&self) -> u32 {
        self.above.longest()
    }

    /// Numbers in the middle, all free.
    pub(crate) fn in_middle(&self) -> u32 {
        self.high - self.low
    }

    /// True if `all` numbers are free, `row` of them in a row.
    pub(crate) fn have(&self, all: u64, row: u64) -> bool {
        let sum = u64::from(self.in_middle()) + u64::from(self.free_in_use());
        let longest = self.in_middle().max(self.below.longest()).max(self.above.longest());
        sum >= all && u64::from(longest) >= row
    }

    /// The numbers in use from this one on, in stretches, by number.
    pub(crate) fn taken(&self, from: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        let sides = [(0..self.low, &self.below), (self.high..self.max, &self.above)];
        sides.into_iter().flat_map(move |(side, free)| {
            let start = side.start.max(from);
            let covering = free.by_place.range(..=start).next_back().map(|(first, count)| first + count);
            let behind = || free.by_place.range(start.saturating_add(1)..);
            let begins = std::iter::once(covering.map_or(start, |end| end.max(start)));
            let begins = begins.chain(behind().map(|(first, count)| first + count));
            let ends = behind().map(|(first, _)| *first).chain(std::iter::once(side.end));
            begins.zip(ends).map(|(begin, end)| begin..end).filter(|stretch| !stretch.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: u32 = 64;

    /// The numbers in the naive way.
    struct Naive {
        taken: [bool; MAX as usize],
        low: usize,
        high: usize,
    }

    impl Naive {
        fn set(&mut self, first: u32, count: u32, taken: bool) {
            self.taken[first as usize..(first + count) as usize].fill(taken);
            if taken && (first as usize) < self.high && (first as usize) >= self.low {
                // Out of the middle: the caller says on which side.
                return;
            }
            while self.low > 0 && !self.taken[self.low - 1] {
                self.low -= 1;
            }
            while self.high < MAX as usize && !self.taken[self.high] {
                self.high += 1;
            }
        }

        fn free_row(&self, from: usize, to: usize, count: usize) -> bool {
            to >= from + count && (from..=to - count).any(|at| self.taken[at..at + count].iter().all(|t| !t))
        }
    }

    proptest! {
        #[test]
        fn sides_do_not_mix_and_neighbours_are_joined(
            steps in prop::collection::vec((0u8..4, 1u32..5, any::<prop::sample::Index>()), 1..200)
        ) {
            let mut ids = Ids::new(MAX);
            let mut naive = Naive { taken: [false; MAX as usize], low: 0, high: MAX as usize };
            let mut held: Vec<(u32, u32)> = vec![];
            for (what, count, which) in steps {
                let (low, high) = (naive.low, naive.high);
                let free = |id: u32| !naive.taken[id as usize];
                prop_assert!((0..MAX).all(|id| ids.is_free(id) == free(id)), "{ids:?}");
                match what {
                    0 => {
                        let lowest = (0..low).chain(low..high).chain(high..MAX as usize).find(|&at| !naive.taken[at]);
                        prop_assert_eq!(ids.next(), lowest.map(|at| at as u32));
                        prop_assert_eq!(ids.take(), lowest.map(|at| at as u32));
                        if let Some(at) = lowest {
                            naive.low = if at < high { low.max(at + 1) } else { low };
                            naive.set(at as u32, 1, true);
                            held.push((at as u32, 1));
                        }
                    }
                    1 => {
                        let n = count as usize;
                        let above = naive.free_row(high, MAX as usize, n);
                        let fits = above || high - low >= n || naive.free_row(0, low, n);
                        let first = ids.take_row(count);
                        prop_assert_eq!(first.is_some(), fits);
                        if let Some(first) = first {
                            let at = first as usize;
                            prop_assert!(naive.taken[at..at + n].iter().all(|t| !t), "{first} is taken");
                            prop_assert!(!above || at >= high, "{first} is not of the upper side, which has room");
                            prop_assert!(above || high - low < n || at == high - n, "{first} is not the middle's end");
                            naive.high = if at >= low && at < high { at } else { high };
                            naive.set(first, count, true);
                            held.push((first, count));
                        }
                    }
                    2 => {
                        let free: Vec<usize> = (0..MAX as usize).filter(|&at| !naive.taken[at]).collect();
                        if !free.is_empty() {
                            let at = free[which.index(free.len())];
                            ids.take_this(at as u32);
                            naive.low = if at < high { low.max(at + 1) } else { low };
                            naive.set(at as u32, 1, true);
                            held.push((at as u32, 1));
                        }
                    }
                    _ if held.is_empty() => {}
                    _ => {
                        let (first, count) = held.swap_remove(which.index(held.len()));
                        ids.give(first, count);
                        naive.set(first, count, false);
                    }
                }
                prop_assert_eq!(ids.middle(), naive.low as u32..naive.high as u32);
                let free = naive.taken.iter().filter(|t| !**t).count();
                prop_assert_eq!((ids.free_in_use() + ids.in_middle()) as usize, free);
                prop_assert!(ids.have(free as u64, 1) == (free > 0) && !ids.have(free as u64 + 1, 0));
                for from in [0, 1, MAX / 2, MAX - 1, MAX] {
                    let mut taken = [false; MAX as usize];
                    ids.taken(from).for_each(|stretch| taken[stretch.start as usize..stretch.end as usize].fill(true));
                    prop_assert!(taken[..from as usize].iter().all(|taken| !taken));
                    prop_assert_eq!(&taken[from as usize..], &naive.taken[from as usize..]);
                }
            }
        }
    }

    #[test]
    fn an_extent_takes_the_shortest_stretch_that_is_long_enough() {
        let mut ids = Ids::new(100);
        let rows: Vec<u32> = [3, 5, 2, 4, 1].iter().map(|&count| ids.take_row(count).expect("a free range")).collect();
        assert_eq!(rows, [97, 92, 90, 86, 85]);
        ids.give(92, 5);
        ids.give(86, 4);
        assert_eq!((ids.take_row(4), ids.take_row(3), ids.take_row(2)), (Some(86), Some(94), Some(92)));
        assert_eq!((ids.middle(), ids.reached()), (0..85, [0, 15]));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freed_twice() {
        let mut ids = Ids::new(8);
        (0..4).for_each(|id| assert_eq!(ids.take(), Some(id)));
        ids.give(1, 1);
        ids.give(1, 1);
    }
}
