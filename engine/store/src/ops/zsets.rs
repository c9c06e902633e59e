//! Sorted sets to read: members with a score each, in the order of (score, member).
//!
//! ```text
//! small      one leaf in the key's object, in order                               `varve_collection::zset::small`
//! big        SortedSet: packed leaves by (score, member), and an index of the members
//! ```
//! A range is first found, as positions counted from the low end (two searches, or none for a range by rank), and what is
//! done with it is done by position. What changes a sorted set is in `zsets_mut`.

use varve_collection::ReadCtx;
use varve_collection::zset::small::SmallZset;
use varve_collection::zset::{SortedSet, ZRange, ZShown};

use super::Tx;
use super::draw::{Lot, Pick};
use super::opened::{Opened, big, small};
use super::reading::{ZsetReader, is_long_zset_range};
use crate::keyspace::guards::ShardGuards;
use crate::keyspace::store::Store;
use crate::state::key::Key;
use crate::state::types::{Type, WrongType};

/// A sorted set to read, its shard held.
#[derive(Clone, Copy)]
pub(super) enum ZsetView<'a> {
    /// A small sorted set, and the seed of hashes.
    Small(SmallZset<'a>, u64),
    Big(&'a SortedSet, ReadCtx<'a>),
}

impl<'a> ZsetView<'a> {
    #[inline(always)]
    pub(super) fn open(held: &'a ShardGuards<'_>, store: &'a Store, opened: Opened) -> ZsetView<'a> {
        match opened.link {
            Some(link) => {
                let (collection, ctx) = big(held, store, opened.at, link);
                ZsetView::Big(collection.zset(), ctx)
            }
            None => ZsetView::Small(SmallZset::open(small(held, store, opened.at)), store.seed()),
        }
    }

    /// Number of members.
    pub(super) fn len(&self) -> usize {
        match self {
            ZsetView::Small(set, _) => set.len(),
            ZsetView::Big(set, _) => set.len(),
        }
    }

    /// A member's score.
    #[inline]
    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        match *self {
            ZsetView::Small(set, seed) => set.find(seed, member).map(|(_, score)| score),
            ZsetView::Big(set, ctx) => set.score(ctx, member),
        }
    }

    /// A member's rank from the low end, and its score.
    fn rank(&self, member: &[u8]) -> Option<(u64, f64)> {
        match *self {
            ZsetView::Small(set, seed) => set.find(seed, member).map(|(rank, score)| (rank as u64, score)),
            ZsetView::Big(set, ctx) => set.rank(ctx, member),
        }
    }

    /// The positions of a range, from the low end; `rev` turns ranks only.
    pub(super) fn span(&self, range: &ZRange<'_>, rev: bool) -> (u64, u64) {
        match *self {
            ZsetView::Small(set, _) => set.span(range, rev),
            ZsetView::Big(set, ctx) => set.span(ctx, range, rev),
        }
    }

    /// Shows the members at the positions `from..to`, downwards if `rev`.
    #[inline]
    pub(super) fn walk(&self, (from, to): (u64, u64), rev: bool, mut show: impl FnMut(&[u8], f64)) {
        if from == to {
            return;
        }
        let first = if rev { to - 1 } else { from };
        match *self {
            ZsetView::Small(set, _) => set.walk(first, rev, to - from, &mut show),
            ZsetView::Big(set, ctx) => set.walk(ctx, first, rev, to - from, show),
        }
    }

    fn for_each(&self, show: &mut dyn FnMut(&[u8], f64)) {
        self.walk((0, self.len() as u64), false, show);
    }

    pub(super) fn lot(&self) -> Lot<'a> {
        match *self {
            ZsetView::Small(set, _) => Lot::Numbers(set.len()),
            ZsetView::Big(set, ctx) => Lot::Ranks(set, ctx),
        }
    }

    /// Shows the member with an id of [`ZsetView::lot`].
    pub(super) fn show(&self, id: u64, show: &mut dyn FnMut(&[u8], f64)) {
        match *self {
            ZsetView::Small(set, _) => set.walk(id, false, 1, show),
            ZsetView::Big(set, ctx) => set.walk(ctx, id, false, 1, show),
        }
    }
}

impl Tx<'_> {
    /// The sorted set at a key, to read; counts a hit or a miss.
    #[inline]
    pub(super) fn zset_view(&mut self, k: &Key<'_>) -> Result<Option<ZsetView<'_>>, WrongType> {
        let found = self.open_read(k, Type::Zset)?;
        Ok(found.map(|opened| ZsetView::open(&self.held, self.store, opened)))
    }

    /// The sorted set at a key, to read; no hit or miss is counted.
    pub(super) fn zset_open(&mut self, k: &Key<'_>) -> Result<Option<ZsetView<'_>>, WrongType> {
        let found = self.open(k, Type::Zset)?;
        Ok(found.map(|opened| ZsetView::open(&self.held, self.store, opened)))
    }

    /// Number of members, 0 without the key. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_len(&mut self, k: &Key<'_>) -> Result<usize, WrongType> {
        Ok(self.zset_view(k)?.map_or(0, |set| set.len()))
    }

    /// A member's score. For readers: counts a hit or miss of the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn zset_score(&mut self, k: &Key<'_>, member: &[u8]) -> Result<Option<f64>, WrongType> {
        Ok(self.zset_view(k)?.and_then(|set| set.score(member)))
    }

    /// A member's score, without a lookup counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_peek(&mut self, k: &Key<'_>, member: &[u8]) -> Result<Option<f64>, WrongType> {
        Ok(self.zset_open(k)?.and_then(|set| set.score(member)))
    }

    /// A member's rank, from 0, counted from the highest if `rev`; and its score. For readers: counts a hit or miss of the
    /// key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_rank(&mut self, k: &Key<'_>, member: &[u8], rev: bool) -> Result<Option<(u64, f64)>, WrongType> {
        let Some(set) = self.zset_view(k)? else { return Ok(None) };
        let turned = |rank| if rev { set.len() as u64 - 1 - rank } else { rank };
        Ok(set.rank(member).map(|(rank, score)| (turned(rank), score)))
    }

    /// Members in a range; O(log n) in a big set. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_count(&mut self, k: &Key<'_>, range: &ZRange<'_>) -> Result<usize, WrongType> {
        let Some(set) = self.zset_view(k)? else { return Ok(0) };
        let (from, to) = set.span(range, false);
        Ok((to - from) as usize)
    }

    /// Shows the members of a range in order, or backwards if `rev` (ranks count from the highest then): all but the
    /// first `skip`, at most `limit`. `range` is called with the number of members, but not without the key.
    /// Gives how many; O(log n) and what is shown. For readers: counts a hit or miss.
    ///
    /// Where that takes too long for one hold, and `shown` takes parts, only `begin` is called, and the reader of the members
    /// is given back too.
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
    ) -> Result<(usize, Option<ZsetReader>), WrongType> {
        let Some(opened) = self.open_read(k, Type::Zset)? else {
            shown.begin(0);
            return Ok((0, None));
        };
        let set = ZsetView::open(&self.held, self.store, opened);
        let span = cut(set.span(&range(set.len()), rev), rev, skip, limit);
        let count = (span.1 - span.0) as usize;
        shown.begin(count);
        if shown.takes_parts()
            && let (Some(link), ZsetView::Big(big, _)) = (opened.link, set)
            && is_long_zset_range(big, span, self.store.ground().readers().bounds())
        {
            let reader = self.begin_zset_part((opened.at, link), span, rev);
            return Ok((count, Some(reader)));
        }
        set.walk(span, rev, |member, score| shown.member(member, score));
        Ok((count, None))
    }

    /// Begins to read what [`Tx::zset_range`] would show over several holds; `None`, and nothing is counted, if it is to be
    /// shown at once, each member taking as long as showing `times` of them. Else counts a hit.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn begin_zset_range<'r>(
        &mut self,
        k: &Key<'_>,
        range: impl FnOnce(usize) -> ZRange<'r>,
        rev: bool,
        (skip, limit): (usize, usize),
        times: u64,
    ) -> Result<Option<ZsetReader>, WrongType> {
        let Some(opened @ Opened { at, link: Some(link) }) = self.open(k, Type::Zset)? else { return Ok(None) };
        let set = ZsetView::open(&self.held, self.store, opened);
        let span = cut(set.span(&range(set.len()), rev), rev, skip, limit);
        if span.0 == span.1 || !self.is_long_work(span.1 - span.0, times) {
            return Ok(None);
        }
        self.note_lookup(true);
        Ok(Some(self.begin_zset_part((at, link), span, rev)))
    }

    /// Begins to read these spans of ranks of a big sorted set over several holds, none of them empty: a reader for each. No hit
    /// or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    ///
    /// # Panics
    /// For a set that is no big one.
    pub fn begin_zset_spans(&mut self, k: &Key<'_>, spans: &[(u64, u64)]) -> Result<Vec<ZsetReader>, WrongType> {
        let Some(Opened { at, link: Some(link), .. }) = self.open(k, Type::Zset)? else {
            panic!("a sorted set that is one object has no readers");
        };
        Ok(spans.iter().map(|&span| self.begin_zset_part((at, link), span, false)).collect())
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
        let Some(set) = self.zset_open(k)? else { return Ok(0) };
        let (from, to) = cut(set.span(range, rev), rev, skip, limit);
        Ok((to - from) as usize)
    }

    /// ZSCAN's step: emits some members from `cursor` on, about `count`, and gives the next cursor, 0 at the end. A small
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
        Ok(match self.zset_view(k)? {
            Some(ZsetView::Big(set, ctx)) => set.scan(ctx, cursor, count, emit),
            Some(ZsetView::Small(set, _)) => {
                set.for_each(emit);
                0
            }
            None => 0,
        })
    }

    /// Emits every member in order; false without the key. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_for_each(&mut self, k: &Key<'_>, emit: &mut dyn FnMut(&[u8], f64)) -> Result<bool, WrongType> {
        let Some(set) = self.zset_open(k)? else { return Ok(false) };
        set.for_each(emit);
        Ok(true)
    }

    /// Emits members chosen at random; none without the key. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_pick(&mut self, k: &Key<'_>, pick: Pick, emit: &mut dyn FnMut(&[u8], f64)) -> Result<(), WrongType> {
        let Some(opened) = self.open(k, Type::Zset)? else { return Ok(()) };
        let set = ZsetView::open(&self.held, self.store, opened);
        match pick {
            Pick::Distinct(count) if count >= set.len() => set.for_each(emit),
            _ => set.lot().pick(self.local.rng(), pick, |id| set.show(id, emit)),
        }
        Ok(())
    }
}

/// The positions of a range that are left when the first `skip` are passed over, and at most `limit` taken.
pub(super) fn cut((from, to): (u64, u64), rev: bool, skip: usize, limit: usize) -> (u64, u64) {
    let skip = (skip as u64).min(to - from);
    let count = (limit as u64).min(to - from - skip);
    if rev { (to - skip - count, to - skip) } else { (from + skip, from + skip + count) }
}
