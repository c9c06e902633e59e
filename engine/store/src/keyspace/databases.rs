//! Logical databases over physical ones.
//!
//! A client selects a logical database; objects carry a physical number. FLUSHDB gives the logical database a fresh
//! physical number and leaves the old one to be swept in steps; SWAPDB exchanges two numbers. Both run under the gate
//! alone, so within a batch the map does not change.
//!
//! ```text
//! physical number:  free --assign--> in use --retire--> dying --(swept)--> free
//! ```
//!
//! **Fresh databases** are a second set, one for each logical database, which no client can select: data is loaded into them
//! beside the data that is served. They are swapped in, all at once and under the gate alone, or dropped.
//!
//! ```text
//! map   | 0 .. count | count .. 2 count |        begin_fresh: the right half gets numbers
//!         served       fresh                      swap_in_fresh: they move to the left half, whose old ones die
//!                                                 drop_fresh: they die
//! ```

use std::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use varve_base::rank::{Rank, RankedMutex};

/// The map from logical to physical numbers, and the numbers that are being swept.
pub(crate) struct Databases {
    /// The numbers of the logical databases, and behind them those of the fresh ones, which count only while there are any.
    map: Box<[AtomicU16]>,
    /// There are fresh databases.
    fresh: AtomicBool,
    /// Counts the map's changes, each after it was made.
    changes: AtomicU64,
    numbers: RankedMutex<Numbers>,
    /// How many numbers are dying, to be asked without the lock.
    sweeping: AtomicUsize,
}

#[derive(Debug)]
struct Numbers {
    /// Lowest number never used.
    unused: u32,
    /// Numbers whose sweep is over, to be used again.
    free: Vec<u16>,
    /// Numbers whose keys are being removed, oldest first.
    dying: Vec<u16>,
}

impl Numbers {
    /// Numbers that may be assigned.
    fn left(&self) -> usize {
        self.free.len() + (usize::from(u16::MAX) + 1 - self.unused as usize)
    }

    /// A number that nobody uses; None with all being in use or swept.
    fn assign(&mut self) -> Option<u16> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        let number = u16::try_from(self.unused).ok()?;
        self.unused += 1;
        Some(number)
    }
}

impl Databases {
    /// `count` databases, each with the physical number of its logical one.
    pub(crate) fn new(count: u32) -> Databases {
        assert!((1..=u32::from(u16::MAX) / 2).contains(&count), "1 to 32767 databases");
        let map = (0..2 * count).map(|d| AtomicU16::new((d % count) as u16)).collect();
        let numbers = Numbers { unused: count, free: Vec::new(), dying: Vec::new() };
        Databases {
            map,
            fresh: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            numbers: RankedMutex::new(Rank::Leaf, numbers),
            sweeping: AtomicUsize::new(0),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        (self.map.len() / 2) as u32
    }

    /// The physical number of a logical database, or of a fresh one.
    #[inline]
    pub(crate) fn physical(&self, logical: u32) -> u16 {
        debug_assert!(logical < self.count() || self.has_fresh(), "a number beyond the databases that there are");
        self.map[logical as usize].load(Relaxed)
    }

    /// The logical database that a physical number stands for, if it does: fresh ones are nobody's yet.
    pub(crate) fn logical(&self, physical: u16) -> Option<u32> {
        self.map[..self.count() as usize].iter().position(|n| n.load(Relaxed) == physical).map(|db| db as u32)
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
        let Some(number) = n.assign() else { return false };
        let old = self.map[logical as usize].swap(number, Relaxed);
        n.dying.push(old);
        self.sweeping.store(n.dying.len(), Relaxed);
        self.changed();
        true
    }

    /// True while there are fresh databases.
    #[inline]
    pub(crate) fn has_fresh(&self) -> bool {
        self.fresh.load(Acquire)
    }

    /// Gives each fresh database a number, under which nothing lies. False, and nothing is done, if too few are free: the caller
    /// waits for the sweeps.
    pub(crate) fn begin_fresh(&self) -> bool {
        assert!(!self.has_fresh(), "one set of fresh databases at a time");
        let mut n = self.numbers.lock();
        if n.left() < self.count() as usize {
            return false;
        }
        for place in &self.map[self.count() as usize..] {
            place.store(n.assign().expect("they were counted"), Relaxed);
        }
        self.fresh.store(true, Release);
        true
    }

    /// Has the fresh databases take the places of all logical ones, and lists the old numbers for sweeping, but for those that
    /// `is_unused` finds without a trace; under the gate alone.
    pub(crate) fn swap_in_fresh(&self, is_unused: impl Fn(u16) -> bool) {
        let (served, fresh) = self.map.split_at(self.count() as usize);
        for (place, new) in served.iter().zip(fresh) {
            // The fresh half has the old numbers now, which go.
            new.store(place.swap(new.load(Relaxed), Relaxed), Relaxed);
        }
        self.changed();
        self.drop_fresh(is_unused);
    }

    /// There are no fresh databases any more: their numbers are listed for sweeping, but for those that `is_unused` finds without a
    /// trace. Nobody uses one.
    pub(crate) fn drop_fresh(&self, is_unused: impl Fn(u16) -> bool) {
        assert!(self.fresh.swap(false, Release), "there are fresh databases");
        let mut n = self.numbers.lock();
        let numbers = self.map[self.count() as usize..].iter().map(|place| place.load(Relaxed));
        let (unused, used): (Vec<u16>, Vec<u16>) = numbers.partition(|number| is_unused(*number));
        n.free.extend(unused);
        n.dying.extend(used);
        self.sweeping.store(n.dying.len(), Relaxed);
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
    fn fresh_databases_are_nobodys_until_they_are_swapped_in() {
        let d = Databases::new(3);
        assert!(d.begin_fresh() && d.has_fresh());
        assert_eq!([0, 1, 2, 3, 4, 5].map(|db| d.physical(db)), [0, 1, 2, 3, 4, 5]);
        assert_eq!((d.logical(2), d.logical(3)), (Some(2), None));
        d.swap(0, 2);
        let changes = d.changes();
        d.swap_in_fresh(|number| number == 1);
        assert_eq!([0, 1, 2].map(|db| d.physical(db)), [3, 4, 5]);
        assert!(!d.has_fresh() && d.changes() > changes);
        assert_eq!((d.dying(), d.logical(4)), (Some(2), Some(1)), "in the order of the logical databases");
        // The number without a trace is used again at once, and the others once they are swept.
        assert!(d.retire(1));
        assert_eq!(d.physical(1), 1);
        assert!(d.begin_fresh());
        d.drop_fresh(|_| true);
        assert_eq!([0, 1, 2].map(|db| d.physical(db)), [3, 1, 5]);
        [2, 0, 4].into_iter().for_each(|number| d.swept(number));
        assert!(!d.owes_sweep());
    }

    #[test]
    fn fresh_databases_wait_for_the_sweeps_where_numbers_are_short() {
        let d = Databases::new(u32::from(u16::MAX) / 2);
        (0..3).for_each(|db| assert!(d.retire(db)));
        assert!(!d.begin_fresh() && !d.has_fresh(), "32 766 are left");
        d.swept(0);
        assert!(d.begin_fresh());
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
