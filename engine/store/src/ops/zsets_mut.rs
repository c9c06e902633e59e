//! Sorted sets to change: members added, removed and popped.
//!
//! A small one is outgrown when a member is added that would make it longer than `zset-max-listpack-entries`, or has more
//! than `zset-max-listpack-value` bytes. It becomes a big one with more bytes than its encoding may have in the key's object.
//! Neither goes back; only [`Tx::zset_store`] chooses anew.
//!
//! Until it is outgrown a small one keeps a score of -0 as 0: redis-server's listpack has integers there.

use varve_collection::Collection;
use varve_collection::zset::{SortedSet, Verdict, ZAdd, ZAdded, ZRange, judge, packed};
use varve_packed::node::{Grow, Node, NodeMut, buffer_bytes};

use super::writable::{Writable, sum_up_to};
use super::zsets::{ZsetView, cut};
use super::{Found, Tx};
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::types::{Type, WrongType};

/// Most members of a sorted set beyond the limits that is one object: a node is searched from its front.
const OUTGROWN_MEMBERS_MAX: usize = 256;
const ROOM: &str = "the node has the room that was asked for";

/// The sorted set at a key, to change; without one, the first member makes it.
struct ZsetViewMut<'t, 's> {
    tx: &'t mut Tx<'s>,
    k: &'t Key<'t>,
    w: Option<Writable>,
}

impl<'s> Tx<'s> {
    #[inline]
    fn zset_mut<'t>(&'t mut self, k: &'t Key<'t>) -> Result<ZsetViewMut<'t, 's>, WrongType> {
        let w = self.open_mut(k, Type::Zset)?;
        Ok(ZsetViewMut { tx: self, k, w })
    }

    /// Adds a member or changes its score, under conditions; makes the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_add(&mut self, k: &Key<'_>, member: &[u8], score: f64, how: ZAdd) -> Result<ZAdded, WrongType> {
        Ok(self.zset_mut(k)?.add((member, score), how, &std::iter::empty()))
    }

    /// Adds members or changes their scores one after the other, like [`Tx::zset_add`], and shows what became of each. Room
    /// is made for all of them at once.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; then nothing has changed.
    pub fn zset_add_all<'m>(
        &mut self,
        k: &Key<'_>,
        mut items: impl Iterator<Item = (&'m [u8], f64)> + Clone,
        how: ZAdd,
        mut show: impl FnMut(ZAdded),
    ) -> Result<(), WrongType> {
        while let Some(item) = items.next() {
            show(self.zset_mut(k)?.add(item, how, &items));
        }
        Ok(())
    }

    /// Removes a member, and the key with the last one; true if it was there.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_remove(&mut self, k: &Key<'_>, member: &[u8]) -> Result<bool, WrongType> {
        Ok(self.zset_mut(k)?.remove(member))
    }

    /// Removes the members of a range, and the key with the last one; gives how many.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_remove_range(&mut self, k: &Key<'_>, range: &ZRange<'_>) -> Result<usize, WrongType> {
        Ok(self.zset_mut(k)?.remove_range(range))
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
        Ok(self.zset_mut(k)?.take(|len| cut((0, len), max, 0, count), max, emit))
    }

    /// Makes the key a sorted set of these members (none twice, in any order: they are sorted here), whatever it held, without
    /// an expiry; removes it if there are none.
    pub fn zset_store<M: AsRef<[u8]>>(&mut self, k: &Key<'_>, items: &mut [(M, f64)]) {
        let old = self.live(k);
        if items.is_empty() {
            if let Some(p) = old {
                let p = self.before(p);
                self.remove_at(k, p);
            }
            return;
        }
        items.sort_unstable_by(|a, b| {
            a.1.partial_cmp(&b.1).expect("no score is NaN").then_with(|| a.0.as_ref().cmp(b.0.as_ref()))
        });
        let longest = items.iter().map(|(member, _)| member.as_ref().len()).max().expect("there are some");
        let bytes = items.iter().map(|(member, score)| packed::pair_bytes(member.as_ref(), *score)).sum();
        let encoding = self.encoding_of_new(items.len(), longest);
        let is_outgrown = encoding == Encoding::Outgrown;
        if is_one_object(self, items.len(), bytes, is_outgrown) {
            put_packed(self, k, old, encoding, bytes, |node| {
                for (member, score) in &*items {
                    packed::push(node, member.as_ref(), kept(*score, is_outgrown)).expect(ROOM);
                }
            });
        } else {
            self.put_big(k, old, Type::Zset, |ctx| {
                Collection::Zset(Box::new(SortedSet::build(ctx, items.len(), |push| {
                    items.iter().for_each(|(member, score)| push(member.as_ref(), *score))
                })))
            });
        }
        self.wrote(k);
    }

    /// The encoding of a new sorted set of this number of members, of which the longest has `longest` bytes.
    fn encoding_of_new(&self, members: usize, longest: usize) -> Encoding {
        if fits(self, members, longest) { Encoding::Small } else { Encoding::Outgrown }
    }

    /// Has a small sorted set named as a big one from now on, which SORT does to what it sorts.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_spread(&mut self, k: &Key<'_>) -> Result<(), WrongType> {
        if let Some(mut w) = self.open_mut(k, Type::Zset)?
            && !w.is_big()
            && !self.is_outgrown(&w)
        {
            outgrow(self, k, &mut w);
        }
        Ok(())
    }
}

impl ZsetViewMut<'_, '_> {
    /// Adds a member or changes its score. Those of `ahead` will come next.
    #[inline]
    fn add<'m>(
        self,
        (member, score): (&[u8], f64),
        how: ZAdd,
        ahead: &(impl Iterator<Item = (&'m [u8], f64)> + Clone),
    ) -> ZAdded {
        let ZsetViewMut { tx, k, w } = self;
        let ahead = |most| sum_up_to(most, ahead.clone().map(|(member, score)| packed::pair_bytes(member, score)));
        let outcome = match w {
            Some(w) if w.is_big() => add_big(tx, &w, member, score, how),
            Some(w) => add_packed(tx, k, w, (member, score), how, &ahead),
            None if how.xx => ZAdded::Refused,
            None => {
                new_zset(tx, k, (member, score), &ahead);
                ZAdded::Added(score)
            }
        };
        if matches!(outcome, ZAdded::Added(_) | ZAdded::Updated(_)) {
            tx.wrote(k);
        }
        outcome
    }

    fn remove(self, member: &[u8]) -> bool {
        let ZsetViewMut { tx, k, w } = self;
        let Some(mut w) = w else { return false };
        let (removed, left) = if w.is_big() {
            tx.change_big(&w, |collection, ctx| {
                let set = collection.zset_mut();
                (set.remove(ctx, member), set.len())
            })
        } else {
            tx.edit_packed(k, &mut w, 0, |node| {
                let found = packed::find(node.node(), member);
                if let Some((pos, ..)) = found {
                    packed::remove(node, pos);
                }
                (found.is_some(), packed::len(node.node()))
            })
        };
        if removed {
            after_removal(tx, k, &w, 1, left);
        }
        removed
    }

    fn remove_range(self, range: &ZRange<'_>) -> usize {
        let Some(w) = &self.w else { return 0 };
        let set = ZsetView::open(&self.tx.held, self.tx.store, w.opened());
        let (from, to) = set.span(range, false);
        let removed = (to - from) as usize;
        if removed == set.len() {
            // Elements that die with their key are freed in the background.
            after_removal(self.tx, self.k, w, removed, 0);
            return removed;
        }
        self.take(|_| (from, to), false, &mut |_, _| {})
    }

    /// Removes the members at the positions that `span` chooses, given their number, from the high end if `rev`, and shows
    /// them; the key goes with the last one. Gives how many.
    #[inline]
    fn take(self, span: impl FnOnce(u64) -> (u64, u64), rev: bool, emit: &mut dyn FnMut(&[u8], f64)) -> usize {
        let ZsetViewMut { tx, k, w } = self;
        let Some(mut w) = w else { return 0 };
        let (taken, left) = if w.is_big() {
            tx.change_big(&w, |collection, ctx| {
                let set = collection.zset_mut();
                let (from, to) = span(set.len() as u64);
                ((to - from) as usize, set.take_span(ctx, (from, to), rev, emit))
            })
        } else {
            let (from, to) = span(packed::len(tx.packed(&w)) as u64);
            ((to - from) as usize, take_packed(tx, k, &mut w, (from, to), rev, emit))
        };
        if taken > 0 {
            after_removal(tx, k, &w, taken, left);
        }
        taken
    }
}

/// Removes the members at some positions of a packed set, but not all: those go with the key. Gives how many are left.
fn take_packed(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    w: &mut Writable,
    (from, to): (u64, u64),
    rev: bool,
    emit: &mut dyn FnMut(&[u8], f64),
) -> usize {
    let left = packed::len(tx.packed(w)) - (to - from) as usize;
    if from == to {
        return left;
    }
    let first = if rev { to - 1 } else { from };
    if left == 0 {
        packed::walk(tx.packed(w), first, rev, to - from, emit);
        return 0;
    }
    tx.edit_packed(k, w, 0, |node| {
        packed::walk(node.node(), first, rev, to - from, emit);
        packed::remove_span(node, (from, to));
    });
    left
}

/// Follows the removal of `removed` members, after which `left` are left.
fn after_removal(tx: &mut Tx<'_>, k: &Key<'_>, w: &Writable, removed: usize, left: usize) {
    if left == 0 {
        tx.remove_opened(k, w);
    } else if removed > 0 {
        tx.wrote(k);
    }
}

/// True if a sorted set of this number of members, of which the longest has `longest` bytes, is within the limits of a small
/// one.
fn fits(tx: &Tx<'_>, members: usize, longest: usize) -> bool {
    let shape = tx.store.shapes().small(Type::Zset);
    members as u64 <= shape.entries() && longest as u64 <= shape.value_bytes()
}

/// True if a sorted set of this number of members and bytes of entries lies in its key's object.
fn is_one_object(tx: &Tx<'_>, members: usize, bytes: usize, is_outgrown: bool) -> bool {
    bytes <= tx.bytes_max(Type::Zset, is_outgrown) && (!is_outgrown || members <= OUTGROWN_MEMBERS_MAX)
}

/// The score that a small sorted set keeps.
fn kept(score: f64, is_outgrown: bool) -> f64 {
    if is_outgrown { score } else { score + 0.0 }
}

#[inline]
fn add_big(tx: &mut Tx<'_>, w: &Writable, member: &[u8], score: f64, how: ZAdd) -> ZAdded {
    tx.change_big(w, |collection, ctx| collection.zset_mut().add(ctx, member, score, how))
}

/// Adds a member to a small sorted set, or changes its score; `ahead` gives the bytes, up to a number, that the command is
/// going to add next.
fn add_packed(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    mut w: Writable,
    (member, score): (&[u8], f64),
    how: ZAdd,
    ahead: &dyn Fn(usize) -> usize,
) -> ZAdded {
    let node = tx.packed(&w);
    let Some((_, _, old)) = packed::find(node, member) else {
        if how.xx {
            return ZAdded::Refused;
        }
        if !fits(tx, packed::len(node) + 1, member.len()) && !tx.is_outgrown(&w) {
            outgrow(tx, k, &mut w);
        }
        if !w.is_big() && insert(tx, k, &mut w, (member, score), ahead) {
            return ZAdded::Added(score);
        }
        return add_big(tx, &w, member, score, how);
    };
    let new = match judge(old, score, how) {
        Verdict::Put(new) => new,
        Verdict::Leave(outcome) => return outcome,
    };
    let stored = kept(new, tx.is_outgrown(&w));
    let more = packed::pair_bytes(member, stored).saturating_sub(packed::pair_bytes(member, old));
    tx.edit_packed(k, &mut w, more, |node| {
        let (pos, ..) = packed::find(node.node(), member).expect("found just now");
        packed::remove(node, pos);
        packed::insert(node, member, stored).expect(ROOM);
    });
    ZAdded::Updated(new)
}

/// Adds a member that a small sorted set does not have. False, and the set has become a big one, if it may not have as many
/// bytes.
fn insert(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    w: &mut Writable,
    (member, score): (&[u8], f64),
    ahead: &dyn Fn(usize) -> usize,
) -> bool {
    let is_outgrown = tx.is_outgrown(w);
    let (stored, most) = (kept(score, is_outgrown), tx.bytes_max(Type::Zset, is_outgrown));
    let bytes = packed::pair_bytes(member, stored);
    let node = tx.packed(w);
    let sum = node.bytes() + bytes;
    if !is_one_object(tx, packed::len(node) + 1, sum, is_outgrown) {
        spread(tx, k, w);
        return false;
    }
    if node.room() < bytes {
        let more = ahead(most - sum).min(most - sum);
        if more > 0 {
            tx.resize(k, w, buffer_bytes(sum + more));
        }
    }
    tx.edit_packed(k, w, bytes, |node| packed::insert(node, member, stored).expect(ROOM));
    true
}

/// Makes the key a sorted set of one member, with room for what `ahead` says.
fn new_zset(tx: &mut Tx<'_>, k: &Key<'_>, (member, score): (&[u8], f64), ahead: &dyn Fn(usize) -> usize) {
    let encoding = tx.encoding_of_new(1, member.len());
    let stored = kept(score, encoding == Encoding::Outgrown);
    let (bytes, most) = (packed::pair_bytes(member, stored), tx.bytes_max(Type::Zset, encoding == Encoding::Outgrown));
    if bytes <= most {
        let room = bytes + ahead(most - bytes).min(most - bytes);
        put_packed(tx, k, None, encoding, room, |node| {
            packed::push(node, member, stored).expect(ROOM);
        });
    } else {
        tx.put_big(k, None, Type::Zset, |ctx| {
            Collection::Zset(Box::new(SortedSet::build(ctx, 1, |push| push(member, score))))
        });
    }
}

/// Makes the key a packed sorted set, in the place of whatever it held: `fill` is given a node with room for `bytes` of
/// entries.
fn put_packed(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    old: Option<Found>,
    encoding: Encoding,
    bytes: usize,
    fill: impl FnOnce(&mut NodeMut<'_>),
) {
    tx.with_scratch(buffer_bytes(bytes), |tx, scratch| {
        fill(&mut NodeMut::init(scratch, Grow::Back).expect("an empty node fits"));
        tx.put_small(k, old, Type::Zset, encoding, scratch);
    });
}

/// Has a small sorted set named as a big one from now on, and makes it one if it has too many bytes for the key's object.
#[cold]
fn outgrow(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable) {
    tx.outgrow(w);
    let node = tx.packed(w);
    if !is_one_object(tx, packed::len(node), node.bytes(), true) {
        spread(tx, k, w);
    }
}

/// Makes a packed sorted set a big one.
#[cold]
fn spread(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable) {
    tx.make_big(k, w, |ctx, old| {
        Collection::Zset(Box::new(SortedSet::build(ctx, packed::len(Node::open(old)), |push| {
            packed::for_each(Node::open(old), push)
        })))
    });
}
