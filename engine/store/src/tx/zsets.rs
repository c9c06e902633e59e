//! Sorted sets: members with a score each, in the order of (score, member).

use super::Tx;
use crate::key::Key;
use crate::types::WrongType;
use crate::zset_types::{ZAdd, ZAdded, ZRange};

impl Tx<'_> {
    /// Number of members, 0 without the key. For readers: counts a hit or miss and moves the access clock, as do all
    /// operations here that change nothing.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; so with all operations on sorted sets.
    pub fn zset_len(&mut self, _k: &Key<'_>) -> Result<usize, WrongType> {
        panic!("follows")
    }

    /// Adds a member or changes its score, under conditions; makes the key.
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_add(&mut self, _k: &Key<'_>, _member: &[u8], _score: f64, _how: ZAdd) -> Result<ZAdded, WrongType> {
        panic!("follows")
    }

    /// A member's score.
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_score(&mut self, _k: &Key<'_>, _member: &[u8]) -> Result<Option<f64>, WrongType> {
        panic!("follows")
    }

    /// Removes a member, and the key with the last one; true if it was there.
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_remove(&mut self, _k: &Key<'_>, _member: &[u8]) -> Result<bool, WrongType> {
        panic!("follows")
    }

    /// A member's rank, from 0, counted from the highest if `rev`; and its score.
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_rank(&mut self, _k: &Key<'_>, _member: &[u8], _rev: bool) -> Result<Option<(u64, f64)>, WrongType> {
        panic!("follows")
    }

    /// Members in a range. O(log n).
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_count(&mut self, _k: &Key<'_>, _range: &ZRange<'_>) -> Result<usize, WrongType> {
        panic!("follows")
    }

    /// Emits the members of a range in order, or backwards if `rev` (ranks count from the highest then): all but the
    /// first `skip`, at most `limit`. Gives how many it emitted. O(log n) and what it emits.
    ///
    /// # Errors
    /// [`WrongType`]
    #[allow(clippy::too_many_arguments, reason = "each of them is one option of ZRANGE")]
    pub fn zset_range(
        &mut self,
        _k: &Key<'_>,
        _range: &ZRange<'_>,
        _rev: bool,
        _skip: usize,
        _limit: usize,
        _emit: &mut dyn FnMut(&[u8], f64),
    ) -> Result<usize, WrongType> {
        panic!("follows")
    }

    /// How many members [`Tx::zset_range`] would emit. Counts no hit or miss: it goes before that one.
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_range_len(
        &mut self,
        _k: &Key<'_>,
        _range: &ZRange<'_>,
        _rev: bool,
        _skip: usize,
        _limit: usize,
    ) -> Result<usize, WrongType> {
        panic!("follows")
    }

    /// Removes the members of a range, and the key with the last one; gives how many.
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_remove_range(&mut self, _k: &Key<'_>, _range: &ZRange<'_>) -> Result<usize, WrongType> {
        panic!("follows")
    }

    /// Removes up to `count` members from the low end, or from the high end if `max`, and emits them in the order of
    /// removal; removes the key with the last one. Gives how many.
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_pop(
        &mut self,
        _k: &Key<'_>,
        _max: bool,
        _count: usize,
        _emit: &mut dyn FnMut(&[u8], f64),
    ) -> Result<usize, WrongType> {
        panic!("follows")
    }

    /// ZSCAN's step: emits some members from `cursor` on, about `count`, and gives the next cursor, 0 at the end.
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_scan(
        &mut self,
        _k: &Key<'_>,
        _cursor: u64,
        _count: usize,
        _emit: &mut dyn FnMut(&[u8], f64),
    ) -> Result<u64, WrongType> {
        panic!("follows")
    }

    /// Emits every member in order; false without the key. For other types' operations on it (ZUNIONSTORE, SORT, GEO).
    ///
    /// # Errors
    /// [`WrongType`]
    pub fn zset_for_each(&mut self, _k: &Key<'_>, _emit: &mut dyn FnMut(&[u8], f64)) -> Result<bool, WrongType> {
        panic!("follows")
    }

    /// Makes the key a sorted set of these members (no member twice, in any order: they are sorted here), whatever it
    /// held, with its expiry gone; removes it if there are none.
    pub fn zset_store(&mut self, _k: &Key<'_>, _items: &mut Vec<(Vec<u8>, f64)>) {
        panic!("follows")
    }
}
