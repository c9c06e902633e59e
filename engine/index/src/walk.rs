//! Going through a table: scan in the order of hashes, sampling, and everything at once.
//!
//! A scan's cursor is a position in hash space, not a place in a table. Where a table has been cut into more or fewer
//! buckets meanwhile, the cursor may point into the middle of a bucket: the whole bucket is shown, so that an entry may
//! come twice, but none whose position is at or behind the cursor is passed over.

use crate::part::Part;
use crate::table::{NEW, OLD, Table};
use crate::{POSITIONS, Rehash};
use varve_base::Ref;
use varve_base::group::SLOTS;
use varve_base::rng::Rng;

/// Random slots that `sample` looks at before it walks.
const SAMPLE_TRIES: usize = 128;

impl Table {
    /// Shows the entries of the bucket that holds position `from`, and returns the position to go on from.
    pub fn scan(&self, from: u64, rehash: &impl Rehash, emit: impl FnMut(Ref)) -> Option<u64> {
        if from >= POSITIONS {
            return None;
        }
        let side = if from >= self.split { OLD } else { NEW };
        let part = &self.parts[side];
        let home = part.home(from);
        part.each_at_home(home, rehash, emit);
        let end = part.first_position(home + 1);
        let next = if side == NEW { end.min(self.split) } else { end };
        (next < POSITIONS).then_some(next)
    }

    /// A random entry: each slot of the table is as likely as any other.
    ///
    /// In a table that is nearly empty, entries behind long gaps are likelier.
    pub fn sample(&self, rng: &mut Rng) -> Option<Ref> {
        if self.len == 0 {
            return None;
        }
        let all: u64 = self.parts.iter().map(buckets_and_overflow).sum();
        for _ in 0..SAMPLE_TRIES {
            let draw = rng.below(all * SLOTS as u64);
            if let Some(r) = self.slot_of_all(draw / SLOTS as u64, (draw % SLOTS as u64) as usize) {
                return Some(r);
            }
        }
        let start = rng.below(all);
        let slots = (start..all).chain(0..start).flat_map(|bucket| (0..SLOTS).map(move |slot| (bucket, slot)));
        slots.filter_map(|(bucket, slot)| self.slot_of_all(bucket, slot)).next()
    }

    /// A slot by the number of its bucket, those of both parts and their overflow buckets counted through.
    fn slot_of_all(&self, mut number: u64, slot: usize) -> Option<Ref> {
        let part = self.parts.iter().find(|part| {
            let here = buckets_and_overflow(part);
            let found = number < here;
            if !found {
                number -= here;
            }
            found
        })?;
        let bucket =
            if number < part.count() { part.bucket(number) } else { part.pool().get((number - part.count()) as u32) };
        bucket.head().valid().has(slot).then(|| bucket.get(slot))
    }

    /// Shows every entry, in no order.
    pub fn for_each(&self, mut f: impl FnMut(Ref)) {
        for (side, part) in self.parts.iter().enumerate() {
            // What lies behind the cursor is empty and its memory given back, but for what wrapped into the start.
            let skip = if side == OLD { crate::bucket::EXTENSION_REACH..self.moved } else { 0..0 };
            for at in (0..part.count()).filter(|at| !skip.contains(at)) {
                let bucket = part.bucket(at);
                bucket.head().valid().for_each(|slot| f(bucket.get(slot)));
            }
            for id in 0..part.pool().ids() {
                let bucket = part.pool().get(id);
                bucket.head().valid().for_each(|slot| f(bucket.get(slot)));
            }
        }
    }
}

fn buckets_and_overflow(part: &Part) -> u64 {
    if part.is_none() { 0 } else { part.count() + u64::from(part.pool().ids()) }
}
