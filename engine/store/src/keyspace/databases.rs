//! Logical databases over physical ones.
//!
//! A client selects a logical database; objects carry a physical number. FLUSHDB gives the logical database a fresh
//! physical number and leaves the old one to be swept in steps; SWAPDB exchanges two numbers. Both run under the gate
//! alone, so within a batch the map does not change.
//!
//! ```text
//! physical number:  free --assign--> in use --retire--> dying --(swept)--> free
//! ```

use std::sync::atomic::{
    AtomicU16, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use varve_base::rank::{Rank, RankedMutex};

/// The map from logical to physical numbers, and the numbers that are being swept.
pub(crate) struct Databases {
    map: Box<[AtomicU16]>,
    /// Counts the map's changes, each after it was made.
    changes: AtomicU64,
    numbers: RankedMutex<Numbers>,
    /// How many numbers are dying, to be asked without the lock.
    sweeping: AtomicUsize,
}

#[derive(Debug)]
struct Numbers {
    /// Lowest number never used.
    fresh: u32,
    /// Numbers whose sweep is over, to be used again.
    free: Vec<u16>,
    /// Numbers whose keys are being removed, oldest first.
    dying: Vec<u16>,
}

impl Databases {
    /// `count` databases, each with the physical number of its logical one.
    pub(crate) fn new(count: u32) -> Databases {
        assert!((1..=u32::from(u16::MAX) / 2).contains(&count), "1 to 32767 databases");
        let map = (0..count).map(|d| AtomicU16::new(d as u16)).collect();
        let numbers = Numbers { fresh: count, free: Vec::new(), dying: Vec::new() };
        Databases {
            map,
            changes: AtomicU64::new(0),
            numbers: RankedMutex::new(Rank::Leaf, numbers),
            sweeping: AtomicUsize::new(0),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.map.len() as u32
    }

    /// The physical number of a logical database.
    #[inline]
    pub(crate) fn physical(&self, logical: u32) -> u16 {
        self.map[logical as usize].load(Relaxed)
    }

    /// The logical database that a physical number stands for, if it does.
    pub(crate) fn logical(&self, physical: u16) -> Option<u32> {
        self.map.iter().position(|n| n.load(Relaxed) == physical).map(|db| db as u32)
    }

    /// Exchanges two logical databases; under the gate alone.
    pub(crate) fn swap(&self, a: u32, b: u32) {
        let (pa, pb) = (self.physical(a), self.physical(b));
        self.map[a as usize].store(pb, Relaxed);
        self.map[b as usize].store(pa, Relaxed);
        self.changed();
    }

    /// Gives a logical database an empty physical one and lists the old one for sweeping; under the gate alone.
    /// False if no number is free, with 32 767 databases still being swept: the caller sweeps first.
    pub(crate) fn retire(&self, logical: u32) -> bool {
        let mut n = self.numbers.lock();
        let number = match n.free.pop() {
            Some(number) => number,
            None if n.fresh <= u32::from(u16::MAX) => {
                n.fresh += 1;
                (n.fresh - 1) as u16
            }
            None => return false,
        };
        let old = self.map[logical as usize].swap(number, Relaxed);
        n.dying.push(old);
        self.sweeping.store(n.dying.len(), Relaxed);
        self.changed();
        true
    }

    /// How often the map has changed. Who reads this first and then the map, outside the gate, has read the present map
    /// if the number is still the same inside the gate.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Counts a change of what logical databases stand for, or have; under the gate alone.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Release);
    }

    /// True if a number is to be swept. One relaxed load.
    #[inline]
    pub(crate) fn owes_sweep(&self) -> bool {
        self.sweeping.load(Relaxed) > 0
    }

    /// The number that is swept next.
    pub(crate) fn dying(&self) -> Option<u16> {
        self.numbers.lock().dying.first().copied()
    }

    /// The sweep of a number is over.
    pub(crate) fn swept(&self, number: u16) {
        let mut n = self.numbers.lock();
        n.dying.retain(|&d| d != number);
        self.sweeping.store(n.dying.len(), Relaxed);
        n.free.push(number);
    }

    /// Everything was dropped at once: nothing is left to sweep; under the gate alone.
    pub(crate) fn all_swept(&self) {
        let mut n = self.numbers.lock();
        let dying = std::mem::take(&mut n.dying);
        self.sweeping.store(0, Relaxed);
        n.free.extend(dying);
    }
}

#[cfg(test)]
mod tests {
    use super::Databases;

    #[test]
    fn retired_numbers_come_back_after_the_sweep() {
        let d = Databases::new(2);
        assert!(d.retire(0));
        assert_eq!((d.physical(0), d.physical(1), d.dying()), (2, 1, Some(0)));
        assert!(d.owes_sweep());
        d.swap(0, 1);
        assert_eq!((d.physical(0), d.physical(1)), (1, 2));
        d.swept(0);
        assert_eq!(d.dying(), None);
        assert!(!d.owes_sweep());
        assert!(d.retire(0));
        assert_eq!(d.physical(0), 0);
    }

    #[test]
    fn numbers_run_out_rather_than_repeat() {
        let d = Databases::new(1);
        let mut retired = 0;
        while d.retire(0) {
            retired += 1;
        }
        assert_eq!(retired, 65535);
    }
}
