//! The operations of hashes.

use varve_base::Ref;
use varve_packed::leaf::pair::LeafField;
use varve_packed::leaf::{LeafElement, PackedLeafMut};
use varve_packed::node::PackedEntry;
use varve_segment::{NewObject, NewValue, Owner};

use super::reshape::EXPECTED_MIN;
use super::{ELEMENT_MAX, ElementForm, Found, LeafTable, NUMBER_BYTES};
use crate::kinds;
use crate::{ReadCtx, WriteCtx};

impl LeafTable {
    /// A hash without fields.
    pub fn fields() -> LeafTable {
        LeafTable::new(ElementForm::Pair)
    }

    #[inline(always)]
    pub(super) fn find_field(&self, ctx: ReadCtx<'_>, hash: u64, field: &[u8]) -> Option<Found> {
        if field.len() > ELEMENT_MAX {
            return self.find(ctx, hash, field, |_| false);
        }
        let coded = LeafField::of(field);
        self.find(ctx, hash, field, |element| coded.is_of(element))
    }

    /// Sets a field's value; true if the field is new.
    #[inline]
    pub fn set(&mut self, ctx: &mut WriteCtx<'_>, field: &[u8], value: &[u8]) -> bool {
        debug_assert_eq!(self.form, ElementForm::Pair, "a set has no values");
        let hash = self.hash_of(ctx.seed, field);
        let found = self.find_field(ctx.read(), hash, field);
        let is_new = found.is_none();
        if field.len() + value.len() > ELEMENT_MAX {
            self.set_elsewhere(ctx, hash, found, field, value);
            return is_new;
        }
        LeafField::of(field).with_value(value, |parts| {
            self.put_parts(ctx, (hash, field), found, parts_size(parts), parts);
        });
        is_new
    }

    /// Puts an element in its leaf, in the place of the one that was found.
    #[inline(always)]
    pub(super) fn put_parts(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        (mut hash, field): (u64, &[u8]),
        found: Option<Found>,
        size: usize,
        parts: &[&[u8]],
    ) {
        if let Some(found) = found {
            if self.replace(ctx, hash, found, parts) {
                return;
            }
            self.take_out(ctx, hash, found);
            hash = self.hash_of(ctx.seed, field);
        }
        self.put_named(ctx, (hash, field), size, |leaf, tag| leaf.push(tag, parts));
    }

    /// Sets fields in order; how many are new. Of many fields each is written about once.
    #[inline]
    pub fn set_all<'p>(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> usize {
        let many = pairs.size_hint().0 >= EXPECTED_MIN;
        if many {
            self.expect_all(pairs.clone().map(|(field, value)| field.len() + value.len() + 1));
        }
        let new = pairs.filter(|(field, value)| self.set(ctx, field, value)).count();
        if many {
            self.settle(ctx);
        }
        new
    }

    /// Writes another content over an element that has its bytes in the leaf; false, and nothing is done, if the leaf has
    /// no room for that, or the element lies elsewhere.
    #[inline]
    fn replace(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, found: Found, parts: &[&[u8]]) -> bool {
        self.before(ctx.read(), hash);
        let mut object = ctx.access.open_mut(ctx.log, found.leaf);
        let mut leaf = PackedLeafMut::open(object.value_mut());
        matches!(leaf.leaf().get(found.pos), LeafElement::Here(_)) && leaf.replace(found.pos, parts).is_ok()
    }

    /// Sets the value of a field whose element is too long for a leaf.
    #[cold]
    fn set_elsewhere(
        &mut self,
        ctx: &mut WriteCtx<'_>,
        mut hash: u64,
        found: Option<Found>,
        field: &[u8],
        value: &[u8],
    ) {
        if let Some(found) = found {
            self.before(ctx.read(), hash);
            if let Some(r) = self.own_object(ctx, found)
                && ctx.access.open(ctx.log, r).expiry_ms().is_none()
                && self.readers.as_ref().is_none_or(|readers| !readers.leaves.needs(r))
                && self.change_object(ctx, r, |object| object.set_value(value))
            {
                return;
            }
            self.take_out(ctx, hash, found);
            hash = self.hash_of(ctx.seed, field);
        }
        let new = NewObject::new(kinds::ELEMENT, Owner::Collection(ctx.id.number()), field, b"");
        let new = NewObject { value: NewValue::Bytes(value), room: value.len(), ..new };
        let r = ctx.appender.append(ctx.log, &new);
        self.count_in(ctx.access, ctx.log, r);
        self.put_named(ctx, (hash, field), NUMBER_BYTES, |leaf, tag| leaf.push_elsewhere(tag, r.bits()));
    }

    /// The object of an element that lies elsewhere.
    pub(super) fn own_object(&self, ctx: &WriteCtx<'_>, found: Found) -> Option<Ref> {
        match super::open(ctx.log, ctx.access, found.leaf).get(found.pos) {
            LeafElement::Elsewhere(number) => Some(ctx.log.recall(number)),
            LeafElement::Here(_) => None,
        }
    }

    /// Shows every field, its value, and when it expires, in milliseconds of Unix time.
    pub fn for_each<'a>(&self, ctx: ReadCtx<'a>, mut show: impl FnMut(PackedEntry<'a>, PackedEntry<'a>, Option<i64>)) {
        self.leaves(ctx, |leaf| {
            for (_, element) in leaf.iter() {
                let (field, value) = self.form.parts(ctx, element);
                show(field, value, self.form.expiry_ms(ctx, element));
            }
        });
    }
}

/// Bytes of an element of these parts.
#[inline(always)]
pub(super) fn parts_size(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}
