//! Leaves of a sorted set that are written, grow, shrink, split and are joined; what is in them stays in order, and the
//! index follows.
//!
//! ```text
//!   put ---- in place: free room, and the scale has a difference for the score
//!     |----- made longer: half as much again, in the room of its object, which is the limit of a leaf of such members
//!     `----- split: half of the bytes each; at an end of the tree nearly all stay, so that members in order leave full leaves
//!   taken out ---- joined with a neighbour, if both have at most 3/4 of a leaf
//!            `---- made shorter, if more than 3/8 of it is free room
//! ```
//! The members that go to a leaf of another number are repointed in the index, half of a leaf for each half a leaf of
//! insertions. A leaf keeps its object as long as that has the room: a split writes one object, that of the new leaf. The
//! room that a leaf does not fill counts as dead, and a drain leaves it behind. The largest piece of work is a leaf split and
//! another one made: below 20 us for 128 members.
//!
//! Not here: which members are put and taken out (`SortedSet`), and where they belong (`tree`).

use smallvec::SmallVec;
use varve_base::Ref;
use varve_base::hash::hash64;
use varve_segment::{NewObject, NewValue, ObjectMut, Owner, SegmentClass};

use super::leaf::{self, LeafBytes, LeafMember, ScoredLeaf};
use super::scores::in_order;
use super::tree::{Probe, TreePos};
use super::{LeafHashes, MEMBERS_MAX, SortedSet};
use crate::counted_tree::Leaf;
use crate::leaf_table::{ELEMENT_MAX, Fit, LIMIT_MAX, limit};
use crate::{ReadCtx, WriteCtx, kinds};

/// A leaf of at least this many bytes is made shorter when 3/8 of it are free room: growing leaves a third.
const TRIM_FROM: usize = 256;
/// Of a leaf that is split at an end of the tree, 1/16 goes to the new leaf.
const END_PART: usize = 16;
/// From this number of leaves on, a new leaf at an end has all its room at once.
const LEAVES_MANY: usize = 16;

/// A leaf's bytes while it is written anew.
type Copied = SmallVec<[u8; LIMIT_MAX]>;
/// The members of a leaf while it is written anew.
type Members<'a> = SmallVec<[LeafMember<'a>; MEMBERS_MAX]>;

impl SortedSet {
    /// The object of a leaf that is about to change: every change in place goes through here, and every other one through
    /// [`SortedSet::write_leaf`].
    #[inline]
    pub(super) fn leaf_mut<'c>(&mut self, ctx: &'c mut WriteCtx<'_>, leaf: Leaf) -> ObjectMut<'c> {
        debug_assert!(!self.freeing, "a set that dies is not changed");
        self.before(ctx.read(), leaf);
        ctx.access.open_mut(ctx.log, self.tree.counted.leaf_ref(leaf))
    }

    /// Adds a member that is in no leaf, with its bytes; gives its leaf. The index is the caller's.
    pub(super) fn put(&mut self, ctx: &mut WriteCtx<'_>, member: LeafMember<'_>, bytes: &[u8]) -> Leaf {
        let order_key = in_order(member.key);
        debug_assert!(leaf::size(member.element) <= ELEMENT_MAX, "a longer member has an object of its own");
        let Some(pos) = self.tree.seek_new(ctx.read(), &Probe::Element(order_key, bytes)) else {
            return self.put_first(ctx, member);
        };
        let pos = if self.put_here(ctx, pos, member) { pos } else { self.put_anew(ctx, pos, member) };
        if pos.index == 0 && self.tree.counted.first() == Some(pos.leaf) {
            self.tree.begin_first(pos.leaf, order_key);
        }
        pos.leaf
    }

    /// Adds a member to a leaf in the bytes that it has, if it has a place for it; whether it did.
    #[inline]
    fn put_here(&mut self, ctx: &mut WriteCtx<'_>, pos: TreePos, member: LeafMember<'_>) -> bool {
        let most = self.members_max;
        let done = leaf::insert(self.leaf_mut(ctx, pos.leaf).value_mut(), pos.index, member, most).is_ok();
        if done {
            self.tree.counted.add(pos.leaf, 1);
        }
        done
    }

    /// Makes the first leaf.
    fn put_first(&mut self, ctx: &mut WriteCtx<'_>, member: LeafMember<'_>) -> Leaf {
        debug_assert!(self.tree.counted.first().is_none(), "no leaf is there yet");
        let LeafBytes { needed, members } = LeafBytes::of([member].into_iter());
        let fit = Fit::growing(needed, limit(1, members));
        let r = self.write_leaf(ctx, self.tree.counted.upcoming(), fit, |value| {
            leaf::write(value, [member].into_iter());
        });
        let leaf = self.tree.counted.insert_after(None, r, 1, in_order(member.key));
        self.tree.begin(ctx.read(), leaf);
        leaf
    }

    /// Adds a member to a leaf that has no place for it as it is.
    #[cold]
    fn put_anew(&mut self, ctx: &mut WriteCtx<'_>, pos: TreePos, member: LeafMember<'_>) -> TreePos {
        let copied = self.copied(ctx.read(), pos.leaf);
        let old = ScoredLeaf::open(&copied);
        let (bytes, few) = (old.member_bytes() + leaf::size(member.element), old.len() < self.members_max);
        let most = limit(old.len() + 1, bytes);
        if let (Some(needed), true) = (leaf::bytes_with(old, member), few)
            && needed <= most
        {
            self.refill(ctx, pos.leaf, Fit::growing(needed, most), |value| leaf::copy(value, old));
            assert!(self.put_here(ctx, pos, member), "a leaf that was made larger has room");
            return pos;
        }
        let mut members: Members<'_> = old.members().collect();
        members.insert(pos.index, member);
        let LeafBytes { needed, .. } = LeafBytes::of(members.iter().copied());
        if few && needed <= most {
            let members = members.iter().copied();
            self.refill(ctx, pos.leaf, Fit::growing(needed, most), |value| leaf::write(value, members));
            self.tree.counted.add(pos.leaf, 1);
            return pos;
        }
        debug_assert!(old.len() > 1, "a leaf of one member has a place for another one");
        let pos = self.split(ctx, pos);
        if self.put_here(ctx, pos, member) { pos } else { self.put_anew(ctx, pos, member) }
    }

    /// Gives a leaf other bytes, which `fill` writes: where it lies if its object has the room, else in another object.
    fn refill(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, fit: Fit, fill: impl FnOnce(&mut [u8])) {
        let room = ctx.access.open(ctx.log, self.tree.counted.leaf_ref(leaf)).room();
        let Some(bytes) = fit.value_in(room) else {
            return self.replace_leaf(ctx, leaf, fit, fill);
        };
        let mut object = self.leaf_mut(ctx, leaf);
        let (before, has) = (object.read().live_bytes() as u64, object.value().len());
        if bytes < has {
            object.shorten_value(bytes);
        } else {
            assert!(object.resize_value(bytes), "a leaf of {has} bytes gets {bytes}");
        }
        fill(object.value_mut());
        let after = object.read().live_bytes() as u64;
        self.object_bytes = self.object_bytes + after - before;
    }

    /// Writes the object of a leaf anew and kills the old one.
    fn replace_leaf(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, fit: Fit, fill: impl FnOnce(&mut [u8])) {
        self.before(ctx.read(), leaf);
        let old = self.tree.counted.leaf_ref(leaf);
        let new = self.write_leaf(ctx, leaf, fit, fill);
        debug_assert!(new != old, "an object of its own");
        self.tree.counted.set_ref(leaf, new);
        self.kill(ctx, old);
    }

    /// Writes the object of a leaf, whose value `fill` fills.
    fn write_leaf(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, fit: Fit, fill: impl FnOnce(&mut [u8])) -> Ref {
        debug_assert!(!self.freeing, "a set that dies is not changed");
        let number = leaf.number().to_le_bytes();
        let new = NewObject::new(kinds::NODE, Owner::Collection(ctx.id.number()), &number, b"");
        let new = NewObject { value: NewValue::Stale(fit.value), room: fit.room, class: SegmentClass::Ordinary, ..new };
        let r = ctx.appender.append(ctx.log, &new);
        fill(ctx.access.open_mut(ctx.log, r).value_mut());
        self.count_in(ctx.read(), r)
    }

    /// Counts an object that was written just now.
    pub(super) fn count_in(&mut self, reader: ReadCtx<'_>, r: Ref) -> Ref {
        self.object_bytes += reader.access.open(reader.log, r).live_bytes() as u64;
        r
    }

    /// Marks an object of the set dead.
    pub(super) fn kill(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        self.object_bytes -= ctx.access.open(ctx.log, r).live_bytes() as u64;
        ctx.access.kill(ctx.log, r);
    }

    fn copied(&self, reader: ReadCtx<'_>, leaf: Leaf) -> Copied {
        Copied::from_slice(reader.access.open(reader.log, self.tree.counted.leaf_ref(leaf)).value())
    }

    /// Splits a leaf to which a member is to be added at `pos`; gives that place in the leaf that has it now.
    fn split(&mut self, ctx: &mut WriteCtx<'_>, TreePos { leaf, index }: TreePos) -> TreePos {
        let copied = self.copied(ctx.read(), leaf);
        let members: Members<'_> = ScoredLeaf::open(&copied).members().collect();
        let count = members.len();
        let few = (count / END_PART).max(1);
        let at_start = index == 0 && self.tree.counted.first() == Some(leaf);
        let at_end = index == count && self.tree.counted.last() == Some(leaf);
        let cut = match (at_start, at_end) {
            (true, _) => few,
            (_, true) => count - few,
            _ => middle(&members),
        };
        debug_assert!(index <= count, "a member before number {index} of {count}");
        debug_assert!(0 < cut && cut < count, "{count} members are cut at {cut}");
        let (low, high) = members.split_at(cut);
        let (stays, goes) = if at_start { (high, low) } else { (low, high) };
        let new = self.add_leaf(ctx, leaf, goes, at_start, at_start || at_end);
        self.keep(ctx, leaf, stays);
        if at_start {
            self.tree.begin_as(new, leaf);
            self.tree.begin(ctx.read(), leaf);
        } else {
            self.tree.begin(ctx.read(), new);
        }
        self.repoint(ctx, goes, leaf, new);
        let (low, high) = if at_start { (new, leaf) } else { (leaf, new) };
        // At the cut it goes to the part where it does not need to be the first.
        if index <= cut { TreePos { leaf: low, index } } else { TreePos { leaf: high, index: index - cut } }
    }

    /// Adds a leaf of some members beside another one, before it or behind it.
    fn add_leaf(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        beside: Leaf,
        members: &[LeafMember<'_>],
        before: bool,
        at_end: bool,
    ) -> Leaf {
        let LeafBytes { needed, members: bytes } = LeafBytes::of(members.iter().copied());
        let most = limit(members.len(), bytes);
        debug_assert!(!members.is_empty(), "no leaf is empty");
        let many = at_end && self.tree.counted.leaves() >= LEAVES_MANY;
        let fit = Fit::growing(needed, most).at_least(if many { most } else { 0 });
        let r = self.write_leaf(ctx, self.tree.counted.upcoming(), fit, |value| {
            leaf::write(value, members.iter().copied());
        });
        let counted = &mut self.tree.counted;
        let after = if before { counted.prev(beside) } else { Some(beside) };
        let separator = if before { counted.separator(beside) } else { in_order(members[0].key) };
        counted.insert_after(after, r, members.len() as u32, separator)
    }

    /// Leaves some of its members to a leaf that was split.
    fn keep(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, members: &[LeafMember<'_>]) {
        let LeafBytes { needed, members: bytes } = LeafBytes::of(members.iter().copied());
        let fit = Fit::growing(needed, limit(members.len(), bytes));
        let gone = self.tree.counted.count_of(leaf) as i64 - members.len() as i64;
        debug_assert!(gone > 0, "a leaf that was split has lost members");
        self.refill(ctx, leaf, fit, |value| leaf::write(value, members.iter().copied()));
        self.tree.counted.add(leaf, -gone);
    }

    /// Has the index name another leaf for these members.
    fn repoint(&mut self, ctx: &WriteCtx<'_>, members: &[LeafMember<'_>], from: Leaf, to: Leaf) {
        debug_assert!(from != to, "two leaves");
        let reader = ctx.read();
        let hashes: LeafHashes =
            members.iter().map(|member| hash64(reader.seed, reader.member(member.element))).collect();
        hashes.iter().for_each(|&hash| self.index.line(hash).fetch());
        hashes.iter().for_each(|&hash| self.index.repoint(hash, from, to));
    }

    /// Takes the member at a place out of its leaf, which goes with its last one; how many are left in it. Index and object
    /// are the caller's.
    pub(super) fn take_out(&mut self, ctx: &mut WriteCtx<'_>, TreePos { leaf, index }: TreePos) -> usize {
        let left = leaf::remove(self.leaf_mut(ctx, leaf).value_mut(), index);
        if left == 0 {
            self.remove_leaf(ctx, leaf);
        } else {
            self.tree.counted.add(leaf, -1);
        }
        left
    }

    /// Takes the members `from..to` of a leaf out of it, which goes with its last one; how many are left in it. Index and
    /// objects are the caller's.
    pub(super) fn take_out_run(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, from: usize, to: usize) -> usize {
        if to - from == 1 {
            return self.take_out(ctx, TreePos { leaf, index: from });
        }
        let count = self.tree.counted.count_of(leaf) as usize;
        debug_assert!(from < to && to <= count, "members {from}..{to} of {count}");
        if to - from == count {
            self.remove_leaf(ctx, leaf);
            return 0;
        }
        let copied = self.copied(ctx.read(), leaf);
        let members: Members<'_> = ScoredLeaf::open(&copied).members().collect();
        let kept = members[..from].iter().chain(&members[to..]).copied();
        leaf::write(self.leaf_mut(ctx, leaf).value_mut(), kept);
        self.tree.counted.add(leaf, -((to - from) as i64));
        count - (to - from)
    }

    /// Follows the removal of one member from a leaf that has `left` of them. Whether another form is due is looked at with
    /// every fourth member, and with each of the last few.
    #[inline]
    pub(super) fn after_removal(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf, left: usize) {
        if left.is_multiple_of(4) || left < 4 {
            self.reshape(ctx, leaf);
        }
    }

    /// Follows removals from a leaf: joins it with a neighbour, or makes it shorter.
    pub(super) fn reshape(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf) {
        let opened = self.tree.open(ctx.read(), leaf);
        let (count, used) = (opened.len(), leaf::bytes_used(opened));
        let (most, room) = (limit(count, opened.member_bytes()), opened.room());
        let all = ctx.access.open(ctx.log, self.tree.counted.leaf_ref(leaf)).value().len();
        debug_assert_eq!(count as u64, self.tree.counted.count_of(leaf), "the tree counts the members");
        let counted = &self.tree.counted;
        for (low, high) in [(Some(leaf), counted.next(leaf)), (counted.prev(leaf), Some(leaf))] {
            let (Some(low), Some(high)) = (low, high) else { continue };
            let both = (counted.count_of(low) + counted.count_of(high)) as usize;
            if used * both / count <= most * 3 / 4 && both <= self.members_max * 3 / 4 {
                return self.join(ctx, low, high);
            }
        }
        if all >= TRIM_FROM && room > all * 3 / 8 {
            let copied = self.copied(ctx.read(), leaf);
            self.refill(ctx, leaf, Fit::shrunk(used), |value| leaf::copy(value, ScoredLeaf::open(&copied)));
        }
    }

    /// Makes one leaf of two neighbours, if it is not nearly full then.
    #[cold]
    fn join(&mut self, ctx: &mut WriteCtx<'_>, low: Leaf, high: Leaf) {
        debug_assert_eq!(self.tree.counted.next(low), Some(high), "neighbours");
        let both = [low, high].map(|leaf| self.copied(ctx.read(), leaf));
        let leaves = [ScoredLeaf::open(&both[0]), ScoredLeaf::open(&both[1])];
        let members: Members<'_> = leaves[0].members().chain(leaves[1].members()).collect();
        let LeafBytes { needed, members: bytes } = LeafBytes::of(members.iter().copied());
        let most = limit(members.len(), bytes);
        if needed > most * 7 / 8 {
            return;
        }
        let gone = leaves[1].len();
        debug_assert_eq!(members.len(), leaves[0].len() + gone, "the members of both");
        self.refill(ctx, low, Fit::shrunk(needed), |value| leaf::write(value, members.iter().copied()));
        self.repoint(ctx, &members[leaves[0].len()..], high, low);
        self.remove_leaf(ctx, high);
        self.tree.counted.add(low, gone as i64);
    }

    /// Takes a leaf out of the tree and kills its object.
    pub(super) fn remove_leaf(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf) {
        self.before(ctx.read(), leaf);
        let r = self.tree.counted.remove(leaf);
        self.kill(ctx, r);
    }

    /// Moves a leaf that reclaim has come to, which leaves its free room behind.
    pub(super) fn relocate_leaf(&mut self, ctx: &mut WriteCtx<'_>, leaf: Leaf) {
        let old = self.tree.counted.leaf_ref(leaf);
        let mut value = self.copied(ctx.read(), leaf);
        let used = leaf::bytes_used(ScoredLeaf::open(&value));
        if used < value.len() {
            let copied = value.clone();
            value.truncate(used);
            leaf::copy(&mut value, ScoredLeaf::open(&copied));
        }
        let bytes = ctx.access.open(ctx.log, old).live_bytes() as u64;
        let new = ctx.relocate_with(old, &value);
        self.tree.counted.set_ref(leaf, new);
        self.object_bytes -= bytes;
        self.count_in(ctx.read(), new);
    }

    /// Writes the object of a member that is too long for a leaf; gives its number in the leaf.
    pub(super) fn write_own(&mut self, ctx: &mut WriteCtx<'_>, member: &[u8]) -> u64 {
        debug_assert!(member.len() > ELEMENT_MAX, "{} bytes fit a leaf", member.len());
        let new = NewObject::new(kinds::MEMBER, Owner::Collection(ctx.id.number()), member, b"");
        let r = ctx.appender.append(ctx.log, &new);
        self.count_in(ctx.read(), r).bits()
    }
}

/// Where members are cut so that each part has half of their bytes.
fn middle(members: &[LeafMember<'_>]) -> usize {
    let size = |member: &LeafMember<'_>| leaf::size(member.element) + 4;
    debug_assert!(members.len() > 1, "one member is not cut");
    let all: usize = members.iter().map(size).sum();
    let mut before = 0;
    let cut = members.iter().take_while(|member| {
        before += size(member);
        before <= all / 2
    });
    cut.count().clamp(1, members.len() - 1)
}
