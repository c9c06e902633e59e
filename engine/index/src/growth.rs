//! The way of a table from one size to the next.
//!
//! ```text
//! one table --- load over 0.90 (insert), or under 0.50 (step) ---> two tables, split at 0
//!     ^                                                                 | each insert moves a few buckets, `step` more:
//!     +------------ last bucket moved, old table freed ----------------+ the split goes up
//! ```
//!
//! Where the system refuses the memory of the new table, the old one takes more than its load allows, into chains.
//!
//! The overflow buckets of the old table, some megabytes in a table of millions, are freed bit by bit by `step` afterwards.

use crate::cell::IndexCell;
use crate::geometry::{LOAD_MIN, entries_max};
use crate::hash_space::{POSITIONS, Rehash, position};
use crate::part::Part;
use crate::table::{IndexTable, NEW, OLD};
use varve_base::group::Tag;

/// The most buckets that an insert moves: it ends moves to a far smaller table late, whose buckets are nearly empty.
const MOVE_MAX: u64 = 8;

/// Buckets of a table that the heap gives: less than a page of them.
const HEAP_BUCKETS: u64 = 32;

/// A table whose growth was refused tries again when it has grown by 1/64 of its entries; one whose shrinking was refused,
/// when it has lost half of them.
const RETRY_PART: usize = 64;

/// The memory of a table of known size is asked for when it has one entry for this number of its buckets: a file may announce keys
/// that do not come.
const EXPECTED_SEEN: usize = 1024;

/// How many buckets ahead of the move references are prefetched; the buckets themselves twice as far.
const AHEAD: u64 = 2;

impl<E: IndexCell> IndexTable<E> {
    /// Whether entries are on their way from one table to another.
    #[inline]
    pub fn is_moving(&self) -> bool {
        self.split < POSITIONS
    }

    /// The table is going to have this number of entries: it begins with a size for them, or grows to it next, and it does not
    /// shrink meanwhile. With 0 none are expected any more.
    pub fn expect(&mut self, entries: usize) {
        self.expected = if entries == 0 { 0 } else { self.geometry.fitting(entries) };
        debug_assert!(
            entries == 0 || entries_max(self.expected) >= entries,
            "the last of {entries} entries moves none"
        );
    }

    /// The work of an insert before it puts its entry: the first table, the start of growth, a bit of moving.
    #[cold]
    pub(crate) fn make_way(&mut self, rehash: &impl Rehash<E>) {
        if self.parts[NEW].is_none() {
            let buckets = self.begin();
            self.grow_at = entries_max(buckets);
            if self.expected > 0 {
                self.grow_at = self.grow_at.min(self.expected as usize / EXPECTED_SEEN);
            }
            self.publish_hint();
            return;
        }
        if !self.is_moving() && self.len < entries_max(self.parts[NEW].count()) {
            // The entries that are expected have begun to come. They come in no order, and are looked for before they are put.
            let new = &mut self.parts[NEW];
            if self.expected > 0 {
                new.populate_to(new.count() - 1);
                debug_assert!(new.is_populated(), "memory for all {} buckets", new.count());
            }
            self.grow_at = entries_max(new.count());
            return;
        }
        if self.is_moving() || self.grow() {
            self.advance(rehash, u64::from(self.move_pace));
        }
    }

    /// Makes the first part; its buckets. Where the system refuses them, it begins with what the heap gives.
    fn begin(&mut self) -> u64 {
        let wanted = self.geometry.buckets(0).max(self.expected);
        let (part, buckets) = match Part::new(wanted) {
            Ok(part) => (part, wanted),
            Err(_) => (Part::new(HEAP_BUCKETS).expect("less than a page comes from the heap"), HEAP_BUCKETS),
        };
        self.parts[NEW] = part;
        buckets
    }

    /// Begins to grow; false if the system refuses the memory.
    fn grow(&mut self) -> bool {
        let larger = self.geometry.larger(self.parts[NEW].count());
        if self.expected > larger {
            if self.start_move(self.expected) {
                return true;
            }
            self.expected = 0;
        }
        self.start_move(larger)
    }

    /// Begins a move; false if the system refuses the memory. Then the table goes on as it is, its chains grow longer, and
    /// some entries later it tries again.
    fn start_move(&mut self, buckets: u64) -> bool {
        assert!(!self.is_moving() && self.parts[OLD].is_none(), "one move at a time");
        assert!(self.drained.is_none(), "a table that is being emptied takes nothing in");
        let (old, room) = (self.parts[NEW].count(), entries_max(buckets).saturating_sub(self.len) as u64);
        let pace = old.div_ceil((room / 2).max(1)).min(MOVE_MAX) as u32;
        self.move_pace = pace.max(self.geometry.move_buckets);
        let Ok(part) = Part::new(buckets) else {
            if buckets > old {
                (self.refused, self.grow_at) = (true, self.len + self.len / RETRY_PART + 1);
            } else {
                self.shrink_below = self.len / 2;
            }
            return false;
        };
        (self.refused, self.shrink_below) = (false, usize::MAX);
        self.parts.swap(NEW, OLD);
        self.parts[NEW] = part;
        self.split = 0;
        self.moved = 0;
        // Every insert moves while there is something to move.
        self.grow_at = 0;
        self.publish_hint();
        true
    }

    /// True if the system has refused the table its next size, and it has not got it since.
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Moves `buckets` buckets of the old table.
    fn advance(&mut self, rehash: &impl Rehash<E>, buckets: u64) {
        let displace = self.geometry.displace;
        let end = (self.moved + buckets).min(self.parts[OLD].count());
        if self.moved < end {
            let [new, old] = &mut self.parts;
            new.populate_to(new.home(old.first_position(end) - 1));
        }
        while self.moved < end {
            self.prefetch_ahead(rehash);
            let [new, old] = &mut self.parts;
            old.drain_home(
                self.moved,
                |word, tag| rehash.hash(E::of(word), tag),
                |hash, r| new.put(new.home(position(hash)), Tag(hash as u16), r, displace),
            );
            self.moved += 1;
        }
        self.parts[OLD].release_before(self.moved);
        if self.moved == self.parts[OLD].count() {
            self.end_move();
        } else {
            self.split = self.parts[OLD].first_position(self.moved);
            if let Some(hint) = &self.hint {
                hint.set_split(self.split);
            }
        }
    }

    fn prefetch_ahead(&self, rehash: &impl Rehash<E>) {
        let old = &self.parts[OLD];
        if self.moved + AHEAD < old.count() {
            let bucket = old.bucket(self.moved + AHEAD);
            for cell in bucket.head().native() {
                rehash.prefetch(E::of(bucket.get(cell)));
            }
        }
        old.prefetch(self.moved + 2 * AHEAD);
    }

    fn end_move(&mut self) {
        debug_assert!(self.parts[OLD].pool().used() == 0, "the old table still has overflow buckets");
        debug_assert!(self.parts[NEW].is_populated(), "entries have moved to all homes");
        self.parts[OLD].retire();
        self.split = POSITIONS;
        self.moved = 0;
        self.grow_at = entries_max(self.parts[NEW].count());
        self.publish_hint();
    }

    /// Background work: moves up to `buckets` buckets, starting to grow or shrink where the load asks for it. Returns
    /// whether work is left.
    ///
    /// Shrinking begins here only, since a removal has no hashes to move entries by; without calls of `step` a table keeps its
    /// size after mass deletion.
    pub fn step(&mut self, rehash: &impl Rehash<E>, buckets: usize) -> bool {
        if self.drained.is_some() {
            return false;
        }
        if !self.is_moving() {
            if self.has_idle_pool() {
                self.parts[OLD].pool_mut().discard();
                return self.wants_move();
            }
            if !self.wants_move() {
                return false;
            }
            if self.len == 0 {
                self.clear();
                return false;
            }
            let moves =
                if self.len > self.grow_at { self.grow() } else { self.start_move(self.geometry.shrunk(self.len)) };
            if !moves {
                return false;
            }
        }
        self.advance(rehash, buckets as u64);
        self.is_moving() || self.wants_move()
    }

    /// Whether overflow buckets of a table that is gone are still to be freed.
    #[inline]
    fn has_idle_pool(&self) -> bool {
        !self.is_moving() && self.parts[OLD].pool().is_idle()
    }

    /// Whether the size does not fit the number of entries, or `step` has something to free.
    #[inline]
    pub fn wants_move(&self) -> bool {
        let now = self.parts[NEW].count();
        if self.parts[NEW].is_none() || self.drained.is_some() {
            return false;
        }
        self.len > self.grow_at
            || self.has_idle_pool()
            || (self.expected == 0 && self.load() < LOAD_MIN && (self.len == 0 || self.shrinks(now)))
    }

    /// Whether a table of this many buckets would be smaller, and that was not just refused.
    fn shrinks(&self, now: u64) -> bool {
        self.len < self.shrink_below && self.geometry.shrunk(self.len) < now
    }

    pub(crate) fn publish_hint(&self) {
        if let Some(hint) = &self.hint {
            hint.set(self.split, &self.parts);
        }
    }
}
