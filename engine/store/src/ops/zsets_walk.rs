//! Sorted sets: ranges counted, shown and removed; pops, a scan's page, members chosen at random.
//!
//! A range is first found, as positions counted from the low end (two searches, or none for a range by rank), and what is
//! done with it is done by position.

use std::collections::HashSet;

use varve_base::rng::Rng;
use varve_collection::zset::{ZRange, ZShown, packed};

use super::hashes_walk::Pick;
use super::zsets::{ordered, ordered_mut};
use super::{Found, Tx};
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::types::{Type, WrongType};

/// Distinct members are drawn one by one up to one in so many of all; beyond, all are gone through.
const DRAW_UP_TO_ONE_IN: usize = 3;

impl Tx<'_> {
    /// Members in a range; O(log n) in a big set. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_count(&mut self, k: &Key<'_>, range: &ZRange<'_>) -> Result<usize, WrongType> {
        let Some(p) = self.typed_read(k, Type::Zset)? else { return Ok(0) };
        let (from, to) = self.span_at(p, range, false);
        Ok((to - from) as usize)
    }

    /// Shows the members of a range in order, or backwards if `rev` (ranks count from the highest then): all but the
    /// first `skip`, at most `limit`. The range is told of a set of so many members; without the key it is not asked for.
    /// Gives how many; O(log n) and what is shown. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type: nothing was shown.
    pub fn zset_range<'r>(
        &mut self,
        k: &Key<'_>,
        range: impl FnOnce(usize) -> ZRange<'r>,
        rev: bool,
        (skip, limit): (usize, usize),
        shown: &mut impl ZShown,
    ) -> Result<usize, WrongType> {
        let Some(p) = self.typed_read(k, Type::Zset)? else {
            shown.begin(0);
            return Ok(0);
        };
        if self.encoding(p) != Some(Encoding::Big) {
            let node = self.packed(p);
            let span = packed::span(node, &range(packed::len(node)), rev);
            let (from, to) = cut(span, rev, skip, limit);
            shown.begin((to - from) as usize);
            if from < to {
                let first = if rev { to - 1 } else { from };
                packed::walk(node, first, rev, to - from, &mut |member, score| shown.member(member, score));
            }
            return Ok((to - from) as usize);
        }
        let (body, ctx) = self.big_parts(p);
        let set = ordered(body);
        let (from, to) = cut(set.span(ctx, &range(set.len()), rev), rev, skip, limit);
        shown.begin((to - from) as usize);
        if from < to {
            let first = if rev { to - 1 } else { from };
            set.walk(ctx, first, rev, to - from, |member, score| shown.member(member, score));
        }
        Ok((to - from) as usize)
    }

    /// How many members [`Tx::zset_range`] would show. Counts no hit or miss: it goes before that one, or serves a writer.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_range_len(
        &mut self,
        k: &Key<'_>,
        range: &ZRange<'_>,
        rev: bool,
        skip: usize,
        limit: usize,
    ) -> Result<usize, WrongType> {
        let Some(p) = self.typed(k, Type::Zset)? else { return Ok(0) };
        let (from, to) = cut(self.span_at(p, range, rev), rev, skip, limit);
        Ok((to - from) as usize)
    }

    /// Removes the members of a range, and the key with the last one; gives how many.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_remove_range(&mut self, k: &Key<'_>, range: &ZRange<'_>) -> Result<usize, WrongType> {
        let Some(p) = self.typed(k, Type::Zset)? else { return Ok(0) };
        let (from, to) = self.span_at(p, range, false);
        let removed = (to - from) as usize;
        if removed == self.zset_len_at(p) {
            // What goes with its key is freed in the background.
            self.zset_shrunk(k, p, removed, 0);
        } else {
            self.take_span_at(k, p, |_| (from, to), false, &mut |_, _| {});
        }
        Ok(removed)
    }

    /// Removes up to `count` members from the low end, or from the high end if `max`, and emits them in the order of
    /// removal; removes the key with the last one. Gives how many.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_pop(
        &mut self,
        k: &Key<'_>,
        max: bool,
        count: usize,
        emit: &mut dyn FnMut(&[u8], f64),
    ) -> Result<usize, WrongType> {
        let Some(p) = self.typed(k, Type::Zset)? else { return Ok(0) };
        Ok(self.take_span_at(k, p, |len| cut((0, len), max, 0, count), max, emit))
    }

    /// ZSCAN's step: emits some members from `cursor` on, about `count`, and gives the next cursor, 0 at the end. A packed
    /// set is shown whole. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_scan(
        &mut self,
        k: &Key<'_>,
        cursor: u64,
        count: usize,
        emit: &mut dyn FnMut(&[u8], f64),
    ) -> Result<u64, WrongType> {
        let Some(p) = self.typed_read(k, Type::Zset)? else { return Ok(0) };
        if self.encoding(p) != Some(Encoding::Big) {
            packed::for_each(self.packed(p), emit);
            return Ok(0);
        }
        Ok(self.big_ref(p, |body, ctx| ordered(body).scan(ctx, cursor, count, emit)))
    }

    /// Emits every member in order; false without the key. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_for_each(&mut self, k: &Key<'_>, emit: &mut dyn FnMut(&[u8], f64)) -> Result<bool, WrongType> {
        let Some(p) = self.typed(k, Type::Zset)? else { return Ok(false) };
        self.walk_at(p, (0, self.zset_len_at(p) as u64), false, emit);
        Ok(true)
    }

    /// Emits members chosen at random; none without the key. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_pick(&mut self, k: &Key<'_>, pick: Pick, emit: &mut dyn FnMut(&[u8], f64)) -> Result<(), WrongType> {
        let Some(p) = self.typed(k, Type::Zset)? else { return Ok(()) };
        let len = self.zset_len_at(p) as u64;
        let mut rng = self.local.coming_draws();
        match pick {
            Pick::Any(many) => {
                for _ in 0..many {
                    let at = rng.below(len);
                    self.walk_at(p, (at, at + 1), false, emit);
                }
            }
            Pick::Distinct(many) => self.pick_distinct_at(p, &mut rng, many, emit),
        }
        *self.local.rng() = rng;
        Ok(())
    }

    fn pick_distinct_at(&self, p: Found, rng: &mut Rng, mut many: usize, emit: &mut dyn FnMut(&[u8], f64)) {
        let len = self.zset_len_at(p);
        if many <= len / DRAW_UP_TO_ONE_IN {
            let mut drawn = HashSet::with_capacity(many);
            while drawn.len() < many {
                let at = rng.below(len as u64);
                if drawn.insert(at) {
                    self.walk_at(p, (at, at + 1), false, emit);
                }
            }
            return;
        }
        // Each one in passing, with the chance that as many are found as are wanted.
        let mut left = len as u64;
        self.walk_at(p, (0, left), false, &mut |member, score| {
            if many > 0 && rng.below(left) < many as u64 {
                emit(member, score);
                many -= 1;
            }
            left -= 1;
        });
    }

    /// The positions of a range, from the low end; `rev` turns ranks only.
    fn span_at(&self, p: Found, range: &ZRange<'_>, rev: bool) -> (u64, u64) {
        match self.encoding(p) {
            Some(Encoding::Big) => self.big_ref(p, |body, ctx| ordered(body).span(ctx, range, rev)),
            _ => packed::span(self.packed(p), range, rev),
        }
    }

    /// Shows the members at the positions `from..to`, downwards if `rev`.
    fn walk_at(&self, p: Found, (from, to): (u64, u64), rev: bool, emit: &mut dyn FnMut(&[u8], f64)) {
        if from == to {
            return;
        }
        let first = if rev { to - 1 } else { from };
        match self.encoding(p) {
            Some(Encoding::Big) => self.big_ref(p, |body, ctx| {
                ordered(body).walk(ctx, first, rev, to - from, emit);
            }),
            _ => packed::walk(self.packed(p), first, rev, to - from, emit),
        }
    }

    /// Removes the members at the positions that `span` chooses of so many, from the high end if `rev`, and shows them; the
    /// key goes with the last one. Gives how many.
    #[inline]
    fn take_span_at(
        &mut self,
        k: &Key<'_>,
        mut p: Found,
        span: impl FnOnce(u64) -> (u64, u64),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) -> usize {
        let (taken, left) = match self.encoding(p) {
            Some(Encoding::Big) => self.big(p, |body, hands| {
                let set = ordered_mut(body);
                let (from, to) = span(set.len() as u64);
                ((to - from) as usize, set.take_span(hands, (from, to), rev, emit))
            }),
            _ => {
                let (from, to) = span(packed::len(self.packed(p)) as u64);
                ((to - from) as usize, self.take_packed(k, &mut p, (from, to), rev, emit))
            }
        };
        if taken > 0 {
            self.zset_shrunk(k, p, taken, left);
        }
        taken
    }

    /// The same with a packed set, but for the key. Gives how many are left.
    fn take_packed(
        &mut self,
        k: &Key<'_>,
        p: &mut Found,
        (from, to): (u64, u64),
        rev: bool,
        emit: &mut dyn FnMut(&[u8], f64),
    ) -> usize {
        let left = packed::len(self.packed(*p)) - (to - from) as usize;
        if from == to {
            return left;
        }
        let first = if rev { to - 1 } else { from };
        if left == 0 {
            packed::walk(self.packed(*p), first, rev, to - from, emit);
            return 0;
        }
        self.edit_packed(k, p, 0, |node| {
            packed::walk(node.node(), first, rev, to - from, emit);
            packed::remove_span(node, (from, to));
        });
        left
    }
}

/// Of the positions of a range, those that are left when `skip` are passed over from its beginning, at most `limit`.
fn cut((from, to): (u64, u64), rev: bool, skip: usize, limit: usize) -> (u64, u64) {
    let skip = (skip as u64).min(to - from);
    let count = (limit as u64).min(to - from - skip);
    if rev { (to - skip - count, to - skip) } else { (from + skip, from + skip + count) }
}
