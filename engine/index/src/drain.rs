//! Emptying a table from the front, in bounded steps: how a collection of millions dies.
//!
//! ```text
//! buckets    0 ............... released ........... cursor - 25 ....... cursor ............... count
//!            | system has it back | to be released    | links of homes   | still complete        |
//!                                                       whose entries lie behind the cursor
//! ```
//!
//! A bucket is emptied as it lies there: its own entries, those that others have borrowed room for, and its chain. No
//! hash is asked for. The homes of the borrowed ones are the five buckets before it that could have chosen it; they
//! lose their link. So every entry that is left is found as before, and may be removed between two steps.
//!
//! The part that a growing table fills goes first, then the one that it leaves. Overflow buckets are given back with the
//! last chunk of their part, a few chunks a step.

use crate::bucket::{EXTENSION_REACH, EXTENSIONS};
use crate::cell::{IndexCell, Word};
use crate::hash_space::POSITIONS;
use crate::part::{Part, RELEASE_BYTES};
use crate::table::{IndexTable, NEW, OLD};

/// Buckets that a step of discarding passes: those of one release.
const DISCARD_BUCKETS: u64 = (RELEASE_BYTES / size_of::<crate::bucket::Bucket>()) as u64;

impl<E: IndexCell> IndexTable<E> {
    /// Empties about `buckets` buckets, at least one, from the front; every reference is handed out once. True when the
    /// table is empty and its memory has gone back.
    ///
    /// Once it has begun, what is left can be found and removed, but nothing may be inserted: that panics where the
    /// table would grow.
    pub fn drain_step(&mut self, buckets: usize, gone: &mut dyn FnMut(E)) -> bool {
        let mut budget = buckets.max(1);
        while budget > 0 {
            let side = if self.parts[NEW].is_none() { OLD } else { NEW };
            if self.parts[side].is_none() {
                if self.parts[side].pool_mut().free_chunks(budget) {
                    break;
                }
                return false;
            }
            budget -= 1;
            let at = u64::from(self.drained.unwrap_or(0));
            if at < self.drain_end(side) {
                self.parts[side].empty_bucket(at, &mut |r| {
                    self.len -= 1;
                    gone(E::of(r));
                });
                self.parts[side].release_before(at.saturating_sub(EXTENSION_REACH));
                let moved_before = side == OLD && at + 1 == EXTENSION_REACH;
                self.drained = Some(if moved_before { self.moved.max(at + 1) } else { at + 1 } as u32);
            } else if self.parts[side].pool_mut().free_chunks(1) {
                self.parts[side] = Part::none();
                self.drained = Some(0);
                self.publish_hint();
            }
        }
        let done = self.is_released();
        if done {
            assert!(self.len == 0, "{} entries were lost", self.len);
            self.clear();
        }
        done
    }

    /// Gives back some of the memory of a table whose entries mean nothing any more, at most one release unit of either
    /// part; true when none is left. Nothing may be looked for from the first call on.
    pub fn discard_step(&mut self) -> bool {
        let at = self.drained.map_or(0, u64::from) + DISCARD_BUCKETS;
        self.drained = Some(at.min(u64::from(u32::MAX)) as u32);
        for part in &mut self.parts {
            if at < part.count() {
                part.release_before(at);
            } else if part.pool_mut().discard() {
                *part = Part::none();
            }
        }
        let done = self.is_released();
        if done {
            self.clear();
        }
        done
    }

    /// Whether neither part has memory.
    fn is_released(&self) -> bool {
        self.parts.iter().all(|part| part.is_none() && !part.pool().is_idle())
    }

    /// The first bucket that can hold nothing: of the part that is being filled, those that it has not come to.
    fn drain_end(&self, side: usize) -> u64 {
        let part = &self.parts[side];
        let filled = if side == NEW && self.split < POSITIONS { part.home(self.split) + 1 } else { part.count() };
        (filled + EXTENSION_REACH).min(part.count())
    }
}

impl Part {
    /// Takes out whatever lies in a bucket and in its chain.
    fn empty_bucket(&mut self, at: u64, gone: &mut dyn FnMut(Word)) {
        while let Some(id) = self.bucket(at).chain() {
            let next = self.pool().get(id).chain();
            let bucket = self.pool_mut().get_mut(id);
            bucket.head().valid().for_each(|cell| gone(bucket.take(cell).1));
            self.bucket_mut(at).set_chain(next);
            self.pool_mut().release_kept(id);
        }
        if !self.bucket(at).head().foreign().is_empty() {
            self.forget_borrowed(at);
        }
        let bucket = self.bucket_mut(at);
        bucket.head().valid().for_each(|cell| gone(bucket.take(cell).1));
    }

    /// The homes whose extension is `at` have none any more.
    fn forget_borrowed(&mut self, at: u64) {
        for k in 1..=EXTENSIONS {
            let back = k * k % self.count();
            let home = self.step(at, self.count() - back);
            if self.extension(home) == Some(at) {
                while self.bucket(home).borrowed() > 0 {
                    self.bucket_mut(home).give_back_one();
                }
            }
        }
    }
}
