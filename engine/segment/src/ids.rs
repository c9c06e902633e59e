//! Free segment numbers: the lowest first, neighbours joined, so that runs find numbers in a row and the opened part
//! of the range stays short.
//!
//! ```text
//!  0     2   3        7      next              max
//!  | used |free| used |free.. | never taken ... |
//! ```

use std::collections::BTreeMap;

/// The numbers `0..max` of which some are taken.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Begin and count of each stretch of free numbers below `next`. No two touch, none touches `next`.
    free: BTreeMap<u32, u32>,
    next: u32,
    max: u32,
}

impl Ids {
    pub(crate) fn new(max: u32) -> Ids {
        Ids { free: BTreeMap::new(), next: 0, max }
    }

    /// The least number that was never taken or has come back with all above it: no taken number lies at or above.
    pub(crate) fn end(&self) -> u32 {
        self.next
    }

    /// Takes the lowest `count` numbers in a row; None if there is no such row.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        assert!(count > 0, "no numbers are taken");
        if let Some((&first, &len)) = self.free.iter().find(|&(_, &len)| len >= count) {
            self.free.remove(&first);
            if len > count {
                self.free.insert(first + count, len - count);
            }
            return Some(first);
        }
        let end = self.next.checked_add(count).filter(|&end| end <= self.max)?;
        Some(std::mem::replace(&mut self.next, end))
    }

    /// Takes this number, which must be free.
    pub(crate) fn take_this(&mut self, id: u32) {
        assert!(id < self.max, "number {id} of {}", self.max);
        if id >= self.next {
            if id > self.next {
                self.free.insert(self.next, id - self.next);
            }
            self.next = id + 1;
            return;
        }
        let (&first, &len) = self.free.range(..=id).next_back().expect("a free segment");
        assert!(id < first + len, "segment {id} is not free");
        self.free.remove(&first);
        if id > first {
            self.free.insert(first, id - first);
        }
        if first + len > id + 1 {
            self.free.insert(id + 1, first + len - id - 1);
        }
    }

    /// Takes `count` numbers back.
    pub(crate) fn give(&mut self, first: u32, count: u32) {
        let (mut first, mut count) = (first, count);
        assert!(count > 0 && first + count <= self.next, "{count} numbers from {first} of {}", self.next);
        if let Some((&before, &len)) = self.free.range(..first).next_back() {
            assert!(before + len <= first, "segment {first} freed twice");
            if before + len == first {
                self.free.remove(&before);
                (first, count) = (before, len + count);
            }
        }
        if let Some((&after, &len)) = self.free.range(first..).next() {
            assert!(first + count <= after, "segment {first} freed twice");
            if first + count == after {
                self.free.remove(&after);
                count += len;
            }
        }
        if first + count == self.next {
            self.next = first;
        } else {
            self.free.insert(first, count);
        }
    }

    /// Free numbers below `end`.
    pub(crate) fn free_below_end(&self) -> u32 {
        self.free.values().sum()
    }

    /// Numbers at `end` and above, all free.
    pub(crate) fn above_end(&self) -> u32 {
        self.max - self.next
    }

    /// True if `all` numbers are free, `row` of them in a row.
    pub(crate) fn have(&self, all: u64, row: u64) -> bool {
        let (mut sum, mut longest) = (u64::from(self.above_end()), u64::from(self.above_end()));
        let mut stretches = self.free.values();
        while sum < all || longest < row {
            let Some(&len) = stretches.next() else { return false };
            sum += u64::from(len);
            longest = longest.max(len.into());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lowest_first_and_joined(steps in prop::collection::vec((any::<bool>(), 1u32..5, any::<prop::sample::Index>()), 1..200)) {
            let mut ids = Ids::new(64);
            let mut taken = [false; 64];
            let mut held: Vec<(u32, u32)> = vec![];
            for (take, count, which) in steps {
                if take && count == 4 {
                    let free: Vec<usize> = (0..64).filter(|&at| !taken[at]).collect();
                    if !free.is_empty() {
                        let id = free[which.index(free.len())];
                        ids.take_this(id as u32);
                        taken[id] = true;
                        held.push((id as u32, 1));
                    }
                } else if take {
                    let lowest = (0..=64 - count as usize).find(|&at| taken[at..at + count as usize].iter().all(|t| !t));
                    prop_assert_eq!(ids.take(count), lowest.map(|at| at as u32));
                    if let Some(at) = lowest {
                        taken[at..at + count as usize].fill(true);
                        held.push((at as u32, count));
                    }
                } else if !held.is_empty() {
                    let (first, count) = held.swap_remove(which.index(held.len()));
                    taken[first as usize..(first + count) as usize].fill(false);
                    ids.give(first, count);
                }
                let end = taken.iter().rposition(|&t| t).map_or(0, |at| at + 1);
                prop_assert_eq!(ids.end() as usize, end);
                let free = taken.iter().filter(|t| !**t).count();
                let longest = taken.split(|t| *t).map(<[bool]>::len).max().unwrap_or(0);
                for (all, row) in [(free, longest), (free + 1, 0), (0, longest + 1), (free / 2, longest / 2)] {
                    prop_assert_eq!(ids.have(all as u64, row as u64), all <= free && row <= longest);
                }
                prop_assert_eq!(ids.free_below_end() as usize, taken[..end].iter().filter(|t| !**t).count());
            }
        }
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freed_twice() {
        let mut ids = Ids::new(8);
        ids.take(4);
        ids.give(1, 1);
        ids.give(1, 1);
    }
}
