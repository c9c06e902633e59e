//! Many ranges of one sorted set: a search that looks into the set as often as it needs opens it once.
//!
//! Not here: one range of one command (`zsets`).

use varve_collection::zset::{ScoreBound, ZRange};

use super::Tx;
use super::zsets::{ZsetView, cut};
use crate::state::key::Key;
use crate::state::types::WrongType;

/// A sorted set whose members are looked up by scores, its shard held.
#[derive(Clone, Copy)]
pub struct ZRanges<'a> {
    set: ZsetView<'a>,
}

impl Tx<'_> {
    /// Opens the sorted set at a key, to look up many ranges; None without the key. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_ranges(&mut self, k: &Key<'_>) -> Result<Option<ZRanges<'_>>, WrongType> {
        Ok(self.zset_view(k)?.map(|set| ZRanges { set }))
    }

    /// Opens it for a second look of one command: no hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_ranges_again(&mut self, k: &Key<'_>) -> Result<Option<ZRanges<'_>>, WrongType> {
        Ok(self.zset_open(k)?.map(|set| ZRanges { set }))
    }
}

impl ZRanges<'_> {
    /// A member's score. O(1), and O(n) in a small set.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.set.score(member)
    }

    /// Number of members.
    pub fn len(&self) -> u64 {
        self.set.len() as u64
    }

    /// True if it is more than one object: it may be read over several holds of its shard.
    pub fn is_big(&self) -> bool {
        matches!(self.set, ZsetView::Big(..))
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ranks of the members whose scores are `low` or more and below `high`: the first, and the one behind the last.
    /// O(log n).
    pub fn ranks(&self, low: f64, high: f64) -> (u64, u64) {
        let bound = |value, open| ScoreBound { value, open };
        self.set.span(&ZRange::Score { min: bound(low, false), max: bound(high, true) }, false)
    }

    /// Shows the members at ranks that [`ZRanges::ranks`] gave, in order: all but the first `skip`, at most `limit`.
    pub fn walk(&self, ranks: (u64, u64), skip: usize, limit: usize, show: impl FnMut(&[u8], f64)) {
        self.set.walk(cut(ranks, false, skip, limit), false, show);
    }
}
