//! Fields that expire: which leaves of a hash are to be looked at, and when.
//!
//! ```text
//!   queue   (time, position) ─ sorted by time ──▶ leaf of the position ──▶ its due fields are removed, the rest is filed again
//!   places  position ──▶ time                    one for each leaf that has a field which expires, at most one for each half
//!                                                of a leaf that was joined
//! ```
//! A field's time lies in its element (`varve_packed::leaf::pair`), or in the object of its own. Here is one entry a leaf
//! and none a field: a leaf has some 25 fields, so an entry costs two bytes a field. The entry's time is that of the first
//! field of the leaf to expire, or earlier: a field that is removed, or that lives longer, leaves it as it is. A leaf is
//! then looked at once for nothing.
//!
//! A wheel with an entry a field was the other choice. It takes 6 to 10 bytes a field, and each entry is a search of its own,
//! where here the fields of a leaf that are due together are found together.
//!
//! The time is the caller's: nothing here reads a clock. Not here: who removes a key without fields.

use std::collections::{BTreeMap, BTreeSet};

use varve_packed::leaf::LeafElement;
use varve_packed::leaf::pair::{self, LeafField};
use varve_segment::{NewObject, NewValue, Owner};

use super::fields::parts_size;
use super::reading::range_of;
use super::{ELEMENT_MAX, ElementForm, Found, LeafTable, NUMBER_BYTES, open};
use crate::{ReadCtx, WriteCtx, kinds};

/// Bytes of an entry: 16 in each of the two trees, whose nodes are two thirds full on average.
const ENTRY_BYTES: usize = 48;

/// When which leaves are to be looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Dues {
    queue: BTreeSet<(i64, u64)>,
    places: BTreeMap<u64, i64>,
}

impl Dues {
    /// The least time of the entries with positions from `first` to `last`.
    fn least(&self, (first, last): (u64, u64)) -> Option<i64> {
        self.places.range(first..=last).map(|(_, &due_ms)| due_ms).min()
    }

    /// Files one entry in the place of those with positions from `first` to `last`; none without a time.
    fn file(&mut self, (first, last): (u64, u64), due_ms: Option<i64>) {
        while let Some((&at, &due_ms)) = self.places.range(first..=last).next() {
            self.places.remove(&at);
            let was_queued = self.queue.remove(&(due_ms, at));
            debug_assert!(was_queued, "an entry has a place in the queue");
        }
        if let Some(due_ms) = due_ms {
            self.places.insert(first, due_ms);
            self.queue.insert((due_ms, first));
        }
    }

    fn bytes(&self) -> usize {
        self.places.len() * ENTRY_BYTES + size_of::<Dues>()
    }
}

impl LeafTable {
    /// A time before which no field expires, in milliseconds of Unix time; `None` if none does at all.
    #[inline]
    pub fn next_due_ms(&self) -> Option<i64> {
        self.dues.as_ref()?.queue.first().map(|&(due_ms, _)| due_ms)
    }

    /// Bytes of the entries.
    #[inline]
    pub(super) fn dues_bytes(&self) -> usize {
        self.dues.as_ref().map_or(0, |dues| dues.bytes())
    }

    /// When a field expires: `None` without the field, `Some(None)` if it does not.
    pub fn expiry_ms(&self, ctx: ReadCtx<'_>, field: &[u8]) -> Option<Option<i64>> {
        let found = self.find_named(ctx, self.hash_of(ctx.seed, field), field)?;
        if self.dues.is_none() {
            return Some(None);
        }
        Some(self.form.expiry_ms(ctx, open(ctx.log, ctx.access, found.leaf).get(found.pos)))
    }

    /// Sets a field's value, and when it expires; true if the field is new.
    ///
    /// # Panics
    /// If the time is negative or beyond [`pair::PAIR_EXPIRY_MAX`].
    pub fn set_expiring(&mut self, ctx: &mut WriteCtx<'_>, field: &[u8], value: &[u8], expiry_ms: i64) -> bool {
        debug_assert_eq!(self.form, ElementForm::Pair, "a set has no values");
        let hash = self.hash_of(ctx.seed, field);
        let found = self.find_field(ctx.read(), hash, field);
        let is_new = found.is_none();
        if field.len() + value.len() > ELEMENT_MAX {
            if let Some(found) = found {
                self.take_out(ctx, hash, found);
            }
            self.put_expiring_elsewhere(ctx, field, value, expiry_ms);
        } else {
            LeafField::of(field).with_expiring(value, expiry_ms, |parts| {
                let size = parts_size(parts);
                self.put_parts(ctx, (hash, field), found, size, parts);
            });
        }
        let hash = self.hash_of(ctx.seed, field);
        self.file_due(hash, expiry_ms);
        is_new
    }

    /// Sets fields in order, each with its value and when it expires, if it does; how many are new.
    pub fn set_all_dated<'p>(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8], Option<i64>)>,
    ) -> usize {
        let set = |(field, value, expiry_ms): (&[u8], &[u8], Option<i64>)| match expiry_ms {
            Some(expiry_ms) => self.set_expiring(ctx, field, value, expiry_ms),
            None => self.set(ctx, field, value),
        };
        pairs.map(set).filter(|&is_new| is_new).count()
    }

    fn put_expiring_elsewhere(&mut self, ctx: &mut WriteCtx<'_>, field: &[u8], value: &[u8], expiry_ms: i64) {
        let new = NewObject::new(kinds::ELEMENT, Owner::Collection(ctx.id.number()), field, b"");
        let new = NewObject { value: NewValue::Bytes(value), room: value.len(), expiry_ms: Some(expiry_ms), ..new };
        let r = ctx.appender.append(ctx.log, &new);
        self.count_in(ctx.access, ctx.log, r);
        let hash = self.hash_of(ctx.seed, field);
        self.put_named(ctx, (hash, field), NUMBER_BYTES, |leaf, tag| leaf.push_elsewhere(tag, r.bits()));
    }

    /// Sets when a field expires, or that it does not; false without the field. The value is written anew where its object
    /// has no place for the time: those of 256 KB and more have one.
    pub fn set_expiry_ms(&mut self, ctx: &mut WriteCtx<'_>, field: &[u8], expiry_ms: Option<i64>) -> bool {
        let hash = self.hash_of(ctx.seed, field);
        let Some(found) = self.find_field(ctx.read(), hash, field) else { return false };
        if self.set_expiry_in_place(ctx, hash, found, expiry_ms) {
            return true;
        }
        let (_, value) = self.form.parts(ctx.read(), open(ctx.log, ctx.access, found.leaf).get(found.pos));
        let value = value.text(&mut [0; 20]).to_vec();
        let is_new = match expiry_ms {
            Some(expiry_ms) => self.set_expiring(ctx, field, &value, expiry_ms),
            None => self.set(ctx, field, &value),
        };
        debug_assert!(!is_new, "the field has a value");
        true
    }

    /// Sets when a field expires that has an object of its own with a place for the time; false, and nothing is done, for others.
    #[inline]
    fn set_expiry_in_place(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, found: Found, expiry_ms: Option<i64>) -> bool {
        let Some(r) = self.own_object(ctx, found) else { return false };
        self.before(ctx.read(), hash);
        if self.readers.as_ref().is_some_and(|readers| readers.leaves.needs(r))
            || !self.change_object(ctx, r, |object| object.set_expiry_ms(expiry_ms))
        {
            return false;
        }
        if let Some(expiry_ms) = expiry_ms {
            self.file_due(hash, expiry_ms);
        }
        true
    }

    /// Whether more leaves than this are to be looked at, since their time has come at `now_ms`. O(leaves).
    pub fn is_much_due(&self, now_ms: i64, leaves: usize) -> bool {
        let due = |dues: &Dues| dues.queue.range(..=(now_ms, u64::MAX)).nth(leaves).is_some();
        self.dues.as_deref().is_some_and(due)
    }

    /// Removes fields whose time has come at `now_ms`, those of at most `leaves` leaves, and shows their names. More is left
    /// if [`LeafTable::next_due_ms`] says so.
    pub fn remove_due(&mut self, ctx: &mut WriteCtx<'_>, now_ms: i64, leaves: usize, mut show: impl FnMut(&[u8])) {
        let (mut names, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..leaves {
            let Some(&(due_ms, at)) = self.dues.as_ref().and_then(|dues| dues.queue.first()) else { break };
            if due_ms > now_ms {
                break;
            }
            names.clear();
            ends.clear();
            self.for_each_expiring(ctx.read(), at, |element, expiry_ms| {
                if expiry_ms <= now_ms {
                    self.form.name(ctx.read(), element, |name| names.extend_from_slice(name));
                    ends.push(names.len());
                }
            });
            let mut start = 0;
            for &end in &ends {
                let name = &names[start..end];
                let was_there = self.remove(ctx, name);
                debug_assert!(was_there, "a field that is due is removed once");
                show(name);
                start = end;
            }
            self.file_leaf(ctx.read(), at);
        }
    }

    /// Shows the elements of the leaf of a hash that expire.
    fn for_each_expiring(&self, ctx: ReadCtx<'_>, hash: u64, mut show: impl FnMut(LeafElement<'_>, i64)) {
        let Some(r) = self.directory.get(hash).leaf(ctx.log) else { return };
        for (_, element) in open(ctx.log, ctx.access, r).iter() {
            if let Some(expiry_ms) = self.form.expiry_ms(ctx, element) {
                show(element, expiry_ms);
            }
        }
    }

    /// Files the leaf of a hash by its first field to expire; a leaf without one has no entry.
    fn file_leaf(&mut self, ctx: ReadCtx<'_>, hash: u64) {
        let mut least = None;
        self.for_each_expiring(ctx, hash, |_, expiry_ms| {
            least = Some(least.map_or(expiry_ms, |least: i64| least.min(expiry_ms)));
        });
        let range = range_of(hash, self.directory.get(hash).depth());
        let Some(dues) = &mut self.dues else { return };
        dues.file(range, least);
        if dues.queue.is_empty() {
            self.dues = None;
        }
    }

    /// Files that a field with this hash expires.
    pub(super) fn file_due(&mut self, hash: u64, expiry_ms: i64) {
        let range = range_of(hash, self.directory.get(hash).depth());
        let dues = self.dues.get_or_insert_default();
        if dues.least(range).is_none_or(|least| least > expiry_ms) {
            dues.file(range, Some(expiry_ms));
        }
    }

    /// Follows the split of a leaf, which had this hash and depth: each half has an entry of the leaf's time.
    #[inline]
    pub(super) fn split_dues(&mut self, hash: u64, depth: u8) {
        let Some(dues) = &mut self.dues else { return };
        let least = dues.least(range_of(hash, depth));
        for half in [hash & !(1 << (63 - depth)), hash | 1 << (63 - depth)] {
            dues.file(range_of(half, depth + 1), least);
        }
    }

    /// Follows the join of two leaves, of which the one with this hash came.
    #[inline]
    pub(super) fn join_dues(&mut self, hash: u64) {
        let Some(dues) = &mut self.dues else { return };
        let range = range_of(hash, self.directory.get(hash).depth());
        dues.file(range, dues.least(range));
    }

    /// Files an element again that was put in another leaf.
    #[inline]
    pub(super) fn follow_due(&mut self, ctx: ReadCtx<'_>, hash: u64, element: LeafElement<'_>) {
        if self.dues.is_some()
            && let Some(expiry_ms) = self.form.expiry_ms(ctx, element)
        {
            self.file_due(hash, expiry_ms);
        }
    }

    /// Checks that each field which expires has an entry that is not later, and queue and places against each other.
    pub(super) fn verify_dues(&self, ctx: ReadCtx<'_>) {
        let none = Dues::default();
        let dues = self.dues.as_deref().unwrap_or(&none);
        assert!(self.dues.is_none() || !dues.queue.is_empty(), "a hash without entries keeps no list of them");
        assert_eq!(dues.queue.len(), dues.places.len(), "entries in the queue and by place");
        for (&at, &due_ms) in &dues.places {
            assert!(dues.queue.contains(&(due_ms, at)), "the entry at {at:x} is queued");
        }
        self.directory.walk(0, |at, cell| {
            let least = dues.least(range_of(at, cell.depth()));
            self.for_each_expiring(ctx, at, |_, expiry_ms| {
                assert!(
                    least.is_some_and(|least| least <= expiry_ms),
                    "a field expires at {expiry_ms}, before {least:?}"
                );
            });
            true
        });
    }
}

impl ElementForm {
    /// When an element expires, in milliseconds of Unix time.
    #[inline]
    pub(super) fn expiry_ms(self, ctx: ReadCtx<'_>, element: LeafElement<'_>) -> Option<i64> {
        match element {
            _ if self == ElementForm::Member => None,
            LeafElement::Here(bytes) => pair::expiry_ms(bytes),
            LeafElement::Elsewhere(number) => ctx.access.open(ctx.log, ctx.log.recall(number)).expiry_ms(),
        }
    }
}
