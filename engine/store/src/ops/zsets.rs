//! Sorted sets: members with a score each, in the order of (score, member).
//!
//! ```text
//! packed     | member | score | member | score | ...     one node, in order          `varve_collection::zset::packed`
//! big        SortedSet: elements found by hash, and a tree of them by (score, member)  `varve_collection::zset`
//! ```
//! A packed one becomes big when a member is added that would make it longer than `zset_entries` or `SMALL_BYTES_MAX`, or
//! has more than `zset_value` bytes; a big one stays big. Only [`Tx::zset_store`] chooses anew. What looks at ranges is in
//! `zsets_walk`.

use varve_collection::Collection;
use varve_collection::zset::{SortedSet, Verdict, ZAdd, ZAdded, judge, packed};
use varve_packed::node::{Grow, Node, NodeMut, buffer_bytes};

use super::{Found, Tx};
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::shapes::SMALL_BYTES_MAX;
use crate::state::types::{Type, WrongType};

const ROOM: &str = "the node has the room that was asked for";

impl Tx<'_> {
    /// Number of members, 0 without the key. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_len(&mut self, k: &Key<'_>) -> Result<usize, WrongType> {
        Ok(self.typed_read(k, Type::Zset)?.map_or(0, |p| self.zset_len_at(p)))
    }

    /// Adds a member or changes its score, under conditions; makes the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_add(&mut self, k: &Key<'_>, member: &[u8], score: f64, how: ZAdd) -> Result<ZAdded, WrongType> {
        let outcome = match self.typed(k, Type::Zset)? {
            Some(p) if self.encoding(p) == Some(Encoding::Big) => self.add_big(p, member, score, how),
            Some(p) => self.add_packed(k, p, member, score, how),
            None if how.xx => ZAdded::Refused,
            None => {
                self.new_zset(k, member, score);
                ZAdded::Added(score)
            }
        };
        if matches!(outcome, ZAdded::Added(_) | ZAdded::Updated(_)) {
            self.changed(k, 1);
        }
        Ok(outcome)
    }

    /// A member's score. For readers: counts a hit or miss of the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub fn zset_score(&mut self, k: &Key<'_>, member: &[u8]) -> Result<Option<f64>, WrongType> {
        Ok(self.typed_read(k, Type::Zset)?.and_then(|p| self.score_at(p, member)))
    }

    /// As [`Tx::zset_score`] without a lookup counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_peek(&mut self, k: &Key<'_>, member: &[u8]) -> Result<Option<f64>, WrongType> {
        Ok(self.typed(k, Type::Zset)?.and_then(|p| self.score_at(p, member)))
    }

    /// Removes a member, and the key with the last one; true if it was there.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_remove(&mut self, k: &Key<'_>, member: &[u8]) -> Result<bool, WrongType> {
        let Some(mut p) = self.typed(k, Type::Zset)? else { return Ok(false) };
        let (removed, left) = match self.encoding(p) {
            Some(Encoding::Big) => self.big(p, |body, hands| {
                let set = ordered_mut(body);
                (set.remove(hands, member), set.len())
            }),
            _ => self.edit_packed(k, &mut p, 0, |node| {
                let found = packed::find(node.node(), member);
                if let Some((place, ..)) = found {
                    packed::remove(node, place);
                }
                (found.is_some(), packed::len(node.node()))
            }),
        };
        if removed {
            self.zset_shrunk(k, p, 1, left);
        }
        Ok(removed)
    }

    /// A member's rank, from 0, counted from the highest if `rev`; and its score. For readers: counts a hit or miss of the
    /// key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_rank(&mut self, k: &Key<'_>, member: &[u8], rev: bool) -> Result<Option<(u64, f64)>, WrongType> {
        let Some(p) = self.typed_read(k, Type::Zset)? else { return Ok(None) };
        let found = match self.encoding(p) {
            Some(Encoding::Big) => self.big_ref(p, |body, ctx| ordered(body).rank(ctx, member)),
            _ => packed::find(self.packed(p), member).map(|(_, rank, score)| (rank as u64, score)),
        };
        let turned = |rank| if rev { self.zset_len_at(p) as u64 - 1 - rank } else { rank };
        Ok(found.map(|(rank, score)| (turned(rank), score)))
    }

    /// Makes the key a sorted set of these members (none twice, in any order: they are sorted here), whatever it held, without
    /// an expiry; removes it if there are none.
    pub fn zset_store<M: AsRef<[u8]>>(&mut self, k: &Key<'_>, items: &mut [(M, f64)]) {
        let old = self.live(k);
        if items.is_empty() {
            if let Some(p) = old {
                self.remove_at(k, self.before(p));
            }
            return;
        }
        items.sort_unstable_by(|a, b| {
            a.1.partial_cmp(&b.1).expect("no score is NaN").then_with(|| a.0.as_ref().cmp(b.0.as_ref()))
        });
        let longest = items.iter().map(|(member, _)| member.as_ref().len()).max().expect("there are some");
        let bytes = items.iter().map(|(member, score)| packed::pair_bytes(member.as_ref(), *score)).sum();
        if self.zset_fits(items.len(), longest, bytes) {
            self.put_zset(k, old, bytes, |node| {
                for (member, score) in &*items {
                    packed::push(node, member.as_ref(), *score).expect(ROOM);
                }
            });
        } else {
            self.put_big(k, old, Type::Zset, |hands| {
                Collection::Zset(Box::new(SortedSet::build(hands, items.len(), |push| {
                    items.iter().for_each(|(member, score)| push(member.as_ref(), *score))
                })))
            });
        }
        self.changed(k, 1);
    }

    /// The members of a sorted set that is there, without a lookup counted.
    pub(super) fn zset_len_at(&self, p: Found) -> usize {
        match self.encoding(p) {
            Some(Encoding::Big) => self.big_ref(p, |body, _| ordered(body).len()),
            _ => packed::len(self.packed(p)),
        }
    }

    #[inline]
    fn score_at(&self, p: Found, member: &[u8]) -> Option<f64> {
        match self.encoding(p) {
            Some(Encoding::Big) => self.big_ref(p, |body, ctx| ordered(body).score(ctx, member)),
            _ => packed::find(self.packed(p), member).map(|(_, _, score)| score),
        }
    }

    /// Follows the removal of so many members, `left` of which are left.
    pub(super) fn zset_shrunk(&mut self, k: &Key<'_>, p: Found, removed: usize, left: usize) {
        if left == 0 {
            // The removal of the key is a change by itself.
            self.changed(k, removed as u64 - 1);
            self.remove_at(k, self.before(p));
        } else {
            self.changed(k, removed as u64);
        }
    }

    /// Would a sorted set of so many members be packed, the longest of so many bytes, all entries of so many?
    fn zset_fits(&self, members: usize, longest: usize, bytes: usize) -> bool {
        let shapes = self.store.shapes();
        let few = members as u64 <= shapes.zset_entries() && bytes <= SMALL_BYTES_MAX;
        few && longest as u64 <= shapes.zset_value()
    }

    #[inline]
    fn add_big(&mut self, p: Found, member: &[u8], score: f64, how: ZAdd) -> ZAdded {
        self.big(p, |body, hands| ordered_mut(body).add(hands, member, score, how))
    }

    fn add_packed(&mut self, k: &Key<'_>, mut p: Found, member: &[u8], score: f64, how: ZAdd) -> ZAdded {
        let node = self.packed(p);
        let Some((_, _, old)) = packed::find(node, member) else {
            if how.xx {
                return ZAdded::Refused;
            }
            let bytes = packed::pair_bytes(member, score);
            if !self.zset_fits(packed::len(node) + 1, member.len(), node.bytes() + bytes) {
                self.spread_zset(k, &mut p);
                return self.add_big(p, member, score, how);
            }
            self.edit_packed(k, &mut p, bytes, |node| {
                packed::insert(node, member, score).expect(ROOM);
            });
            return ZAdded::Added(score);
        };
        let new = match judge(old, score, how) {
            Verdict::Put(new) => new,
            Verdict::Leave(outcome) => return outcome,
        };
        let more = packed::pair_bytes(member, new).saturating_sub(packed::pair_bytes(member, old));
        self.edit_packed(k, &mut p, more, |node| {
            let (place, ..) = packed::find(node.node(), member).expect("found just now");
            packed::remove(node, place);
            packed::insert(node, member, new).expect(ROOM);
        });
        ZAdded::Updated(new)
    }

    /// Makes the key a sorted set of one member.
    fn new_zset(&mut self, k: &Key<'_>, member: &[u8], score: f64) {
        let bytes = packed::pair_bytes(member, score);
        if self.zset_fits(1, member.len(), bytes) {
            self.put_zset(k, None, bytes, |node| {
                packed::push(node, member, score).expect(ROOM);
            });
        } else {
            self.put_big(k, None, Type::Zset, |hands| {
                Collection::Zset(Box::new(SortedSet::build(hands, 1, |push| push(member, score))))
            });
        }
    }

    /// Makes the key a packed sorted set, in the place of whatever it held: `fill` is given a node with room for `bytes` of
    /// entries. Counts no change.
    fn put_zset(&mut self, k: &Key<'_>, old: Option<Found>, bytes: usize, fill: impl FnOnce(&mut NodeMut<'_>)) {
        let mut scratch = self.local.lend_scratch();
        scratch.clear();
        scratch.resize(buffer_bytes(bytes), 0);
        fill(&mut NodeMut::init(&mut scratch, Grow::Back).expect("an empty node fits"));
        self.put_small(k, old, Type::Zset, Encoding::Packed, &scratch);
        self.local.return_scratch(scratch);
    }

    /// Makes a packed sorted set a big one, which SORT does to what it sorts.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_spread(&mut self, k: &Key<'_>) -> Result<(), WrongType> {
        if let Some(mut p) = self.typed(k, Type::Zset)?
            && self.encoding(p) == Some(Encoding::Packed)
        {
            self.spread_zset(k, &mut p);
        }
        Ok(())
    }

    /// Makes a packed sorted set a big one.
    #[cold]
    fn spread_zset(&mut self, k: &Key<'_>, p: &mut Found) {
        self.make_big(k, p, |hands, old| {
            Collection::Zset(Box::new(SortedSet::build(hands, packed::len(Node::open(old)), |push| {
                packed::for_each(Node::open(old), push)
            })))
        });
    }
}

/// A big sorted set.
#[inline]
pub(super) fn ordered(body: &Collection) -> &SortedSet {
    match body {
        Collection::Zset(set) => set,
        _ => unreachable!("the key object says that this is a sorted set"),
    }
}

/// The same, to change.
#[inline]
pub(super) fn ordered_mut(body: &mut Collection) -> &mut SortedSet {
    match body {
        Collection::Zset(set) => set,
        _ => unreachable!("the key object says that this is a sorted set"),
    }
}
