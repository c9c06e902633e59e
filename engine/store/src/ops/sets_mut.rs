//! Sets to change: members added, removed, moved, and taken out at random.
//!
//! A set of integers becomes a leaf with its first member that is none, or when it has more than
//! `set-max-intset-entries`, and a leaf becomes a big set when it has too many bytes (`set_leaf`). A set never goes back;
//! one that is made by a STORE command starts anew.

use varve_base::number::parse_i64;
use varve_packed::intset;
use varve_packed::intset::{IntSetMut, Width};
use varve_packed::node::PackedEntry;

use super::Tx;
use super::sets::SetView;
use super::writable::Writable;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::types::{Type, WrongType};

/// From this many integers on that are taken out of one set at once it is written anew: each by itself moves all behind.
const REWRITE_FROM: usize = 8;

/// The set at a key, to change; without one, the first member makes it.
struct SetViewMut<'t, 's> {
    tx: &'t mut Tx<'s>,
    k: &'t Key<'t>,
    w: Option<Writable>,
}

impl<'s> Tx<'s> {
    fn set_mut<'t>(&'t mut self, k: &'t Key<'t>) -> Result<SetViewMut<'t, 's>, WrongType> {
        let w = self.open_mut(k, Type::Set)?;
        Ok(SetViewMut { tx: self, k, w })
    }

    /// Adds members, making the set if there is none; how many are new.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn set_add<'m>(
        &mut self,
        k: &Key<'_>,
        members: impl IntoIterator<Item = &'m [u8], IntoIter: Clone>,
    ) -> Result<usize, WrongType> {
        let w = self.open_mut_inlined(k, Type::Set)?;
        Ok(SetViewMut { tx: self, k, w }.add(members.into_iter()))
    }

    /// Removes members; how many there were. An empty set is no key any more.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn set_remove<'m>(
        &mut self,
        k: &Key<'_>,
        members: impl IntoIterator<Item = &'m [u8]>,
    ) -> Result<usize, WrongType> {
        Ok(self.set_mut(k)?.remove(members.into_iter()))
    }

    /// The first half of a move: takes a member out of a set, to be added to another one; true if it was there. Nothing is
    /// taken out where both are one set. What the two halves do is reported apart, since the second may make a key.
    ///
    /// # Errors
    /// [`WrongType`] if the first key exists and one of the two holds another type.
    pub fn set_take_to_move(&mut self, from: &Key<'_>, to: &Key<'_>, member: &[u8]) -> Result<bool, WrongType> {
        let Some(set) = self.set_peek(from)? else { return Ok(false) };
        let there = set.contains(member);
        self.open(to, Type::Set)?;
        if there && (from.db, from.bytes) != (to.db, to.bytes) {
            self.set_remove(from, [member])?;
        }
        Ok(there)
    }

    /// Takes up to `count` members out at random, showing each; how many. A set of which none is left is no key any more.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn set_pop(
        &mut self,
        k: &Key<'_>,
        count: u64,
        mut show: impl FnMut(PackedEntry<'_>),
    ) -> Result<usize, WrongType> {
        let w = self.open_mut_inlined(k, Type::Set)?;
        let set = SetViewMut { tx: self, k, w };
        Ok(if count == 1 { set.pop_one(&mut show) } else { set.pop(count, &mut show) })
    }

    /// Most integers in a set of integers.
    pub(super) fn integers_max(&self) -> u64 {
        self.store.shapes().small(Type::Set).entries()
    }
}

impl SetViewMut<'_, '_> {
    fn add<'m>(self, mut members: impl Iterator<Item = &'m [u8]> + Clone) -> usize {
        let SetViewMut { tx, k, w } = self;
        if let Some(w) = &w
            && w.is_big()
        {
            let added = add_all(tx, w, members);
            if added > 0 {
                tx.wrote(k);
            }
            return added;
        }
        let all = members.clone();
        let mut next = members.next();
        if next.is_none() {
            return 0;
        }
        let mut w = match w {
            Some(w) => w,
            None => new_set(tx, k, all),
        };
        let mut added = 0;
        while let Some(member) = next
            && !w.is_big()
        {
            match (tx.is_outgrown(&w), parse_i64(member)) {
                (true, _) => {
                    added += usize::from(tx.add_to_leaf(k, &mut w, member, &members));
                    next = members.next();
                }
                (false, Some(value)) => {
                    added += usize::from(add_integer(tx, k, &mut w, value));
                    next = members.next();
                }
                (false, None) => tx.leave_integers(k, &mut w),
            }
        }
        if let Some(member) = next {
            added += add_all(tx, &w, std::iter::once(member).chain(members));
        }
        if added > 0 {
            tx.wrote(k);
        }
        added
    }

    fn remove<'m>(self, members: impl Iterator<Item = &'m [u8]>) -> usize {
        let SetViewMut { tx, k, w } = self;
        let Some(mut w) = w else { return 0 };
        let (removed, left) = if w.is_big() {
            tx.change_big(&w, |collection, ctx| {
                let table = collection.set_mut();
                (members.filter(|member| table.remove(ctx, member)).count(), table.len())
            })
        } else if tx.is_outgrown(&w) {
            tx.remove_from_leaf(&w, members)
        } else {
            tx.thin_integers(k, &mut w, |set| {
                let values = members.filter_map(parse_i64);
                (values.filter(|&value| set.remove(value)).count(), set.set().len())
            })
        };
        after_removal(tx, k, w, removed, left);
        removed
    }

    /// Takes one member out, unless it is the last: that one goes with the key. Gives how many it took.
    #[inline(always)]
    fn pop_one(self, show: &mut impl FnMut(PackedEntry<'_>)) -> usize {
        let SetViewMut { tx, k, w } = self;
        let Some(mut w) = w else { return 0 };
        if w.is_big() {
            // The member follows from one random number, so that it can be found ahead.
            let number = tx.local.rng().next_u64();
            let left = tx.change_big(&w, |collection, ctx| {
                collection.set_mut().take_drawn(ctx, number, |member| show(PackedEntry::Bytes(member)))
            });
            if left > 0 {
                tx.wrote(k);
            } else {
                tx.remove_opened(k, &w);
            }
            return 1;
        }
        let left = if tx.is_outgrown(&w) { tx.pop_from_leaf(&w, show) } else { pop_integer(tx, k, &mut w, show) };
        after_removal(tx, k, w, 1, left);
        1
    }

    /// Takes `count` members out, or all if there are fewer; gives how many.
    fn pop(self, count: u64, show: &mut dyn FnMut(PackedEntry<'_>)) -> usize {
        let SetViewMut { tx, k, w } = self;
        let Some(mut w) = w else { return 0 };
        let set = SetView::open(&tx.held, tx.store, w.opened());
        let all = set.len();
        let count = usize::try_from(count).unwrap_or(all).min(all);
        if count == all {
            set.for_each(show);
        } else if count == 0 {
            return 0;
        } else {
            let ids = set.draw(tx.local.rng(), count);
            ids.iter().for_each(|&id| show(set.member(id)));
            if w.is_big() {
                tx.change_big(&w, |collection, ctx| collection.set_mut().remove_numbers(ctx, ids));
            } else if tx.is_outgrown(&w) {
                tx.remove_numbers_from_leaf(&w, ids);
            } else {
                remove_integers(tx, k, &mut w, ids);
            }
        }
        after_removal(tx, k, w, count, all - count);
        count
    }
}

/// Adds members to a big set; how many are new.
#[inline]
fn add_all<'m>(tx: &mut Tx<'_>, w: &Writable, members: impl Iterator<Item = &'m [u8]> + Clone) -> usize {
    tx.change_big(w, |collection, ctx| collection.set_mut().add_all(ctx, members))
}

/// An empty set of the encoding that its first member asks for, with room for all of them.
fn new_set<'m>(tx: &mut Tx<'_>, k: &Key<'_>, all: impl Iterator<Item = &'m [u8]> + Clone) -> Writable {
    let integers_max = tx.integers_max().max(1) as usize;
    let (mut count, mut width) = (0, Width::of(0));
    for value in all.clone().take(integers_max).map_while(parse_i64) {
        count += 1;
        width = width.max(Width::of(value));
    }
    if count == 0 {
        return tx.new_leaf(k, all);
    }
    tx.with_scratch(intset::buffer_bytes(count, width), |tx, scratch| {
        IntSetMut::init(scratch).expect("there is room for a head");
        tx.put_small(k, None, Type::Set, Encoding::Small, scratch)
    })
}

/// Adds an integer to a set of integers, which may become too long for that.
fn add_integer(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable, value: i64) -> bool {
    if tx.integers(w).contains(value) {
        return false;
    }
    tx.edit_integers(k, w, value, |set| set.insert(value)).expect("there is room for it");
    if tx.integers(w).len() as u64 > tx.integers_max() {
        tx.leave_integers(k, w);
    }
    true
}

/// Takes one integer out at random, unless it is the last. Gives how many are left.
fn pop_integer(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable, show: &mut impl FnMut(PackedEntry<'_>)) -> usize {
    let set = tx.integers(w);
    let len = set.len();
    if len == 1 {
        show(PackedEntry::Int(set.get(0)));
        return 0;
    }
    let at = tx.local.rng().below(len as u64) as usize;
    show(PackedEntry::Int(tx.thin_integers(k, w, |set| set.remove_at(at))));
    len - 1
}

/// Removes the integers of these numbers, but not all.
fn remove_integers(tx: &mut Tx<'_>, k: &Key<'_>, w: &mut Writable, mut numbers: Vec<u64>) {
    numbers.sort_unstable();
    if numbers.len() < REWRITE_FROM {
        let gone = numbers.iter().rev();
        tx.thin_integers(k, w, |set| {
            gone.for_each(|&at| {
                set.remove_at(at as usize);
            });
        });
        return;
    }
    let set = tx.integers(w);
    let mut scratch = vec![0; intset::buffer_bytes(set.len() - numbers.len(), Width::Eight)];
    let mut left = IntSetMut::init(&mut scratch).expect("there is room for a head");
    let mut gone = numbers.into_iter().peekable();
    for (at, value) in (0..).zip(set.iter()) {
        if gone.next_if_eq(&at).is_none() {
            left.insert(value).expect("there is room for what is left");
        }
    }
    let mut value = vec![0; left.set().copied_bytes()];
    left.set().copy_into(&mut value).expect("it has the bytes that the set asked for");
    tx.make_small(k, w, Encoding::Small, &value);
}

/// Follows the removal of members: of the key too, if none is left.
fn after_removal(tx: &mut Tx<'_>, k: &Key<'_>, mut w: Writable, removed: usize, left: usize) {
    if left == 0 {
        return tx.remove_opened(k, &w);
    }
    if removed > 0 {
        tx.wrote(k);
        tx.shrink(k, &mut w);
    }
}
