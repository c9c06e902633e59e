//! Sorted sets to change: members added, removed and popped.
//!
//! A small one is outgrown when a member is added that would make it longer than `zset-max-listpack-entries`, or has more
//! than `zset-max-listpack-value` bytes. It becomes a big one with more bytes than its encoding may have in the key's object.
//! Neither goes back; only [`Tx::zset_store`] chooses anew.
//!
//! Until it is outgrown a small one keeps a score of -0 as 0: redis-server's listpack has integers there.

use varve_collection::Collection;
use varve_collection::zset::small::{self, SmallMembers, SmallZset};
use varve_collection::zset::{SortedSet, Verdict, ZAdd, ZAdded, ZRange, judge};

use super::opened::Opened;
use super::reading::{ZsetReader, is_long_zset_range};
use super::writable::{Writable, with_room};
use super::zsets::{ZsetView, cut};
use super::{Found, Tx};
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::shapes::SMALL_ENTRIES_MAX;
use crate::state::types::{Type, WrongType};

/// Members of one command that are looked at for the room that a small sorted set gets at once.
const AHEAD_MAX: usize = SMALL_ENTRIES_MAX as usize;

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

    /// Adds members of a value that is being loaded; gives how many are new. A sorted set that begins with them has the
    /// encoding that all of them lead to: one that is small on its way would lose the sign of a score of -0, which redis-server
    /// keeps in a set that it loads with too many members, or too long ones, for a small one.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; then nothing has changed.
    pub fn zset_load<'m>(
        &mut self,
        k: &Key<'_>,
        mut items: impl Iterator<Item = (&'m [u8], f64)> + Clone,
    ) -> Result<usize, WrongType> {
        let sizes = |(members, longest): (usize, usize), item: (&[u8], f64)| (members + 1, longest.max(item.0.len()));
        let (members, longest) = items.clone().fold((0, 0), sizes);
        let encoding = self.encoding_of_new(members, longest);
        let mut new = 0;
        while let Some(item) = items.next() {
            let added = self.zset_mut(k)?.add_to(item, ZAdd::default(), &items, Some(encoding));
            new += usize::from(matches!(added, ZAdded::Added(_)));
        }
        Ok(new)
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

    /// Removes what [`Tx::zset_pop`] would, and gives a reader of it, and how many members it shows; `None`, and nothing is
    /// done, if they are few enough to be shown at once.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn zset_pop_in_parts(
        &mut self,
        k: &Key<'_>,
        max: bool,
        count: usize,
    ) -> Result<Option<(usize, ZsetReader)>, WrongType> {
        let Some(w) = self.open_mut(k, Type::Zset)? else { return Ok(None) };
        let Opened { at, link: Some(link) } = w.opened() else { return Ok(None) };
        let set = self.held.at(at.shard).root(link.place).body.zset();
        let (from, to) = cut((0, set.len() as u64), max, 0, count);
        if !is_long_zset_range(set, (from, to), self.store.ground().readers().bounds()) {
            return Ok(None);
        }
        let reader = self.begin_zset_part((at, link), (from, to), max);
        let popped = ZsetViewMut { tx: self, k, w: Some(w) }.drop_span((from, to));
        Ok(Some((popped, reader)))
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
        let encoding = self.encoding_of_new(items.len(), longest);
        let is_outgrown = encoding == Encoding::Outgrown;
        let all = items.iter().map(|(member, score)| (member.as_ref(), kept(*score, is_outgrown)));
        // More are not small, whatever their bytes.
        let few = (items.len() <= AHEAD_MAX).then(|| SmallMembers::of(self.store.seed(), all));
        let most = self.bytes_max(Type::Zset, is_outgrown);
        if let Some((members, bytes)) = few.and_then(|members| members.bytes().map(|bytes| (members, bytes)))
            && bytes <= most
        {
            put_members(self, k, old, encoding, bytes, &members);
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
        self.add_to((member, score), how, ahead, None)
    }

    /// Adds a member or changes its score; a new sorted set gets this encoding, without one that of its first member.
    #[inline]
    fn add_to<'m>(
        self,
        (member, score): (&[u8], f64),
        how: ZAdd,
        ahead: &(impl Iterator<Item = (&'m [u8], f64)> + Clone),
        encoding: Option<Encoding>,
    ) -> ZAdded {
        let ZsetViewMut { tx, k, w } = self;
        let ahead =
            |members: &SmallMembers<'_>| members.bytes_with(ahead.clone().take(AHEAD_MAX)).unwrap_or(usize::MAX);
        let outcome = match w {
            Some(w) if w.is_big() => add_big(tx, &w, member, score, how),
            Some(w) => add_small(tx, k, w, (member, score), how, &ahead),
            None if how.xx => ZAdded::Refused,
            None => {
                let encoding = encoding.unwrap_or_else(|| tx.encoding_of_new(1, member.len()));
                new_zset(tx, k, (member, score), &ahead, encoding);
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
            let set = tx.scored(&w);
            let (found, len) = (set.find(tx.store.seed(), member), set.len());
            // The last one dies with its key.
            if let (Some((at, _)), true) = (found, len > 1) {
                tx.change_value(&w, |value| small::remove(value, at));
                tx.shrink(k, &mut w);
            }
            (found.is_some(), len - usize::from(found.is_some()))
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
        self.drop_span((from, to))
    }

    /// Removes the members at some positions, and the key with the last one; gives how many.
    fn drop_span(self, (from, to): (u64, u64)) -> usize {
        let ZsetViewMut { tx, k, w } = self;
        let Some(mut w) = w else { return 0 };
        let removed = (to - from) as usize;
        let left = if w.is_big() {
            tx.change_big(&w, |collection, ctx| collection.zset_mut().drop_span(ctx, (from, to)))
        } else {
            take_small(tx, k, &mut w, (from, to), false, &mut |_, _| {})
        };
        after_removal(tx, k, &w, removed, left);
        removed
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
            let (from, to) = span(tx.scored(&w).len() as u64);
            ((to - from) as usize, take_small(tx, k, &mut w, (from, to), rev, emit))
        };
        if taken > 0 {
            after_removal(tx, k, &w, taken, left);
        }
        taken
    }
}

/// Removes the members at some positions of a small set, but not all: those go with the key. Gives how many are left.
fn take_small(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    w: &mut Writable,
    (from, to): (u64, u64),
    rev: bool,
    emit: &mut dyn FnMut(&[u8], f64),
) -> usize {
    let set = tx.scored(w);
    let left = set.len() - (to - from) as usize;
    if from == to {
        return left;
    }
    set.walk(if rev { to - 1 } else { from }, rev, to - from, emit);
    if left == 0 {
        return 0;
    }
    if to - from == 1 {
        tx.change_value(w, |value| small::remove(value, from as usize));
    } else {
        tx.with_scratch(0, |tx, old| {
            old.extend_from_slice(tx.small_value(w));
            let kept = SmallZset::open(old).without((from, to));
            tx.change_value(w, |value| kept.write(value));
        });
    }
    tx.shrink(k, w);
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

/// The score that a small sorted set keeps.
fn kept(score: f64, is_outgrown: bool) -> f64 {
    if is_outgrown { score } else { score + 0.0 }
}

#[inline]
fn add_big(tx: &mut Tx<'_>, w: &Writable, member: &[u8], score: f64, how: ZAdd) -> ZAdded {
    tx.change_big(w, |collection, ctx| collection.zset_mut().add(ctx, member, score, how))
}

/// Bytes that a sorted set of some members and of those that its command is going to add next would have.
type Ahead<'a> = &'a dyn Fn(&SmallMembers<'_>) -> usize;

/// Adds a member to a small sorted set, or changes its score.
fn add_small(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    mut w: Writable,
    (member, score): (&[u8], f64),
    how: ZAdd,
    ahead: Ahead<'_>,
) -> ZAdded {
    let (seed, set) = (tx.store.seed(), tx.scored(&w));
    let Some((at, old)) = set.find(seed, member) else {
        if how.xx {
            return ZAdded::Refused;
        }
        if !fits(tx, set.len() + 1, member.len()) && !tx.is_outgrown(&w) {
            outgrow(tx, k, &mut w);
        }
        if !w.is_big() {
            let stored = (member, kept(score, tx.is_outgrown(&w)));
            if tx.change_value(&w, |value| small::insert(value, seed, stored))
                || put_anew(tx, k, &mut w, None, stored, ahead)
            {
                return ZAdded::Added(score);
            }
            spread(tx, k, &mut w);
        }
        return add_big(tx, &w, member, score, how);
    };
    let new = match judge(old, score, how) {
        Verdict::Put(new) => new,
        Verdict::Leave(outcome) => return outcome,
    };
    let stored = (member, kept(new, tx.is_outgrown(&w)));
    if !tx.change_value(&w, |value| small::set_score(value, seed, at, stored))
        && !put_anew(tx, k, &mut w, Some(at), stored, ahead)
    {
        // Scores that have become wider are too many bytes.
        spread(tx, k, &mut w);
        add_big(tx, &w, member, new, ZAdd::default());
    }
    ZAdded::Updated(new)
}

/// Writes a small sorted set anew with a new member, and without that of rank `without`. False, and nothing is done, if it may
/// not have as many bytes.
#[cold]
fn put_anew(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    w: &mut Writable,
    without: Option<usize>,
    item: (&[u8], f64),
    ahead: Ahead<'_>,
) -> bool {
    if !small::has_place(item.0) {
        return false;
    }
    let most = tx.bytes_max(Type::Zset, tx.is_outgrown(w));
    tx.with_scratch(0, |tx, old| {
        old.extend_from_slice(tx.small_value(w));
        let members = SmallZset::open(old).with(tx.store.seed(), without, item);
        let Some(needed) = members.bytes() else { return false };
        // A changed score says nothing of what comes. To count those that come each time would be a square.
        let ahead = || if without.is_some() { 0 } else { ahead(&members).saturating_sub(needed) };
        let Some(bytes) = with_room(needed, most, ahead) else { return false };
        tx.write_anew(k, w, (needed, bytes), |value| members.write(value));
        true
    })
}

/// Makes the key a sorted set of one member, with room for what `ahead` says.
fn new_zset(tx: &mut Tx<'_>, k: &Key<'_>, (member, score): (&[u8], f64), ahead: Ahead<'_>, encoding: Encoding) {
    let is_outgrown = encoding == Encoding::Outgrown;
    let (stored, most) = (kept(score, is_outgrown), tx.bytes_max(Type::Zset, is_outgrown));
    let members = SmallMembers::of(tx.store.seed(), std::iter::once((member, stored)));
    match members.bytes() {
        Some(needed) if needed <= most => {
            put_members(tx, k, None, encoding, ahead(&members).clamp(needed, most), &members);
        }
        _ => {
            tx.put_big(k, None, Type::Zset, |ctx| {
                Collection::Zset(Box::new(SortedSet::build(ctx, 1, |push| push(member, score))))
            });
        }
    }
}

/// Makes the key a small sorted set in `bytes` bytes, in the place of whatever it held.
fn put_members(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    old: Option<Found>,
    encoding: Encoding,
    bytes: usize,
    members: &SmallMembers<'_>,
) {
    tx.with_scratch(bytes, |tx, scratch| {
        members.write(scratch);
        tx.put_small(k, old, Type::Zset, encoding, scratch);
    });
}

/// Has a small sorted set named as a big one from now on, and makes it one if it has too many bytes for the key's object.
#[cold]
fn outgrow(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable) {
    tx.outgrow(w);
    if tx.scored(w).copied_bytes() > tx.bytes_max(Type::Zset, true) {
        spread(tx, k, w);
    }
}

/// Makes a small sorted set a big one.
#[cold]
fn spread(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable) {
    tx.make_big(k, w, |ctx, old| {
        let old = SmallZset::open(old);
        Collection::Zset(Box::new(SortedSet::build(ctx, old.len(), |push| old.for_each(push))))
    });
}
