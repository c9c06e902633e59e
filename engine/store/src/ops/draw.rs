//! Elements drawn at random: of hashes, sets and sorted sets alike.
//!
//! Each element has an id, which no other shares and which is valid until the collection changes: the number of an entry
//! of a small collection, a number that the leaf table gives for an element of a big one, the rank of a sorted set's member. Every element is as likely as any other, and so is every
//! selection and every order of it. Distinct elements are drawn one by one up to a third of all; above that, the ids of
//! all (8 bytes each) are brought into a random order as far as they are wanted.

use std::collections::HashSet;

use varve_base::rng::Rng;
use varve_collection::ReadCtx;
use varve_collection::leaf_table::LeafTable;
use varve_collection::zset::SortedSet;

/// Up to a third of all elements, distinct ones are drawn one by one.
const ONE_BY_ONE_UP_TO: usize = 3;
/// Elements that are fetched into the cache ahead of the one that is shown.
const AHEAD: usize = 8;

/// How many elements to choose at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This many, each any of all.
    Any(usize),
    /// This many different ones, or all if there are fewer.
    Distinct(usize),
}

/// A draw over several holds of the shard, between which the collection does not change.
#[derive(Debug)]
pub struct Picker {
    left: usize,
    /// The ids that were drawn, if none is to be drawn twice.
    drawn: Option<HashSet<u64>>,
}

impl Picker {
    /// A draw of elements, of which there are many times as many.
    pub fn new(pick: Pick) -> Picker {
        match pick {
            Pick::Any(left) => Picker { left, drawn: None },
            // A set that grows would be moved with the shard held.
            Pick::Distinct(left) => Picker { left, drawn: Some(HashSet::with_capacity(left)) },
        }
    }

    /// Elements that are still to be drawn.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Bytes of memory, about.
    pub fn held_bytes(&self) -> usize {
        self.drawn.as_ref().map_or(0, |drawn| drawn.capacity() * (size_of::<u64>() + 2))
    }

    /// True if this element was not drawn before, or may be drawn again.
    fn takes(&mut self, id: u64) -> bool {
        self.drawn.as_mut().is_none_or(|drawn| drawn.insert(id))
    }
}

/// The elements that are drawn from; there is at least one.
#[derive(Clone, Copy)]
pub(super) enum Lot<'a> {
    /// Entries of a small collection, by number from 0.
    Numbers(usize),
    /// Elements of a big hash or set, by their numbers.
    Leaves(&'a LeafTable, ReadCtx<'a>),
    /// Members of a big sorted set, by their ranks.
    Ranks(&'a SortedSet, ReadCtx<'a>),
}

impl Lot<'_> {
    fn len(&self) -> usize {
        match self {
            Lot::Numbers(count) => *count,
            Lot::Leaves(table, _) => table.len(),
            Lot::Ranks(set, _) => set.len(),
        }
    }

    /// Shows the ids that are picked.
    pub(super) fn pick(&self, rng: &mut Rng, pick: Pick, mut show: impl FnMut(u64)) {
        match pick {
            Pick::Any(count) => (0..count).for_each(|_| show(self.any(rng))),
            Pick::Distinct(count) => {
                let ids = self.distinct(rng, count);
                for (n, &id) in ids.iter().enumerate() {
                    if let Some(&next) = ids.get(n + AHEAD) {
                        self.fetch(next);
                    }
                    show(id);
                }
            }
        }
    }

    /// Shows the ids of the next elements of a draw, at most this number.
    pub(super) fn pick_some(&self, rng: &mut Rng, picker: &mut Picker, most: usize, mut show: impl FnMut(u64)) {
        debug_assert!(picker.drawn.as_ref().is_none_or(|drawn| drawn.len() + picker.left < self.len()), "few of many");
        let wanted = most.min(picker.left);
        let mut ids = Vec::with_capacity(wanted);
        while ids.len() < wanted {
            let id = self.any(rng);
            if picker.takes(id) {
                self.fetch(id);
                ids.push(id);
            }
        }
        picker.left -= wanted;
        ids.into_iter().for_each(&mut show);
    }

    /// The id of one element, each as likely as any other.
    fn any(&self, rng: &mut Rng) -> u64 {
        match self {
            Lot::Numbers(count) => rng.below(*count as u64),
            Lot::Leaves(table, _) => table.sample(rng),
            Lot::Ranks(set, _) => rng.below(set.len() as u64),
        }
    }

    /// The ids of `count` elements, none twice; all of them if there are not more.
    pub(super) fn distinct(&self, rng: &mut Rng, count: usize) -> Vec<u64> {
        let all = self.len();
        let count = count.min(all);
        if count * ONE_BY_ONE_UP_TO <= all {
            let (mut ids, mut drawn) = (Vec::with_capacity(count), HashSet::with_capacity(count));
            while ids.len() < count {
                let id = self.any(rng);
                if drawn.insert(id) {
                    ids.push(id);
                }
            }
            return ids;
        }
        let mut ids = Vec::with_capacity(all);
        match self {
            Lot::Numbers(count) => ids.extend(0..*count as u64),
            Lot::Leaves(table, _) => table.for_each_number(|number| ids.push(number)),
            Lot::Ranks(set, _) => ids.extend(0..set.len() as u64),
        }
        for at in 0..count {
            let other = at + rng.below((all - at) as u64) as usize;
            ids.swap(at, other);
        }
        ids.truncate(count);
        ids
    }

    fn fetch(&self, id: u64) {
        match self {
            Lot::Numbers(_) => {}
            Lot::Leaves(table, ctx) => table.prefetch_number(ctx.log, id),
            Lot::Ranks(set, ctx) => set.prefetch_position(ctx.log, id),
        }
    }
}
