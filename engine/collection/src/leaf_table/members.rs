//! The operations of sets.

use varve_base::mem::equal;
use varve_segment::{NewObject, Owner};

use super::reshape::EXPECTED_MIN;
use super::{ELEMENT_MAX, ElementForm, Found, LeafTable, NUMBER_BYTES};
use crate::kinds;
use crate::{ReadCtx, WriteCtx};

impl LeafTable {
    /// A set without members.
    pub fn members() -> LeafTable {
        LeafTable::new(ElementForm::Member)
    }

    #[inline(always)]
    pub(super) fn find_member(&self, ctx: ReadCtx<'_>, hash: u64, member: &[u8]) -> Option<Found> {
        self.find(ctx, hash, member, |bytes| equal(bytes, member))
    }

    /// Adds a member; true if it is new.
    #[inline]
    pub fn add(&mut self, ctx: &mut WriteCtx<'_>, member: &[u8]) -> bool {
        debug_assert_eq!(self.form, ElementForm::Member, "members are added to sets");
        let hash = self.hash_of(ctx.seed, member);
        if self.find_member(ctx.read(), hash, member).is_some() {
            return false;
        }
        if member.len() <= ELEMENT_MAX {
            self.put_named(ctx, (hash, member), member.len(), |leaf, tag| leaf.push(tag, &[member]));
        } else {
            self.add_elsewhere(ctx, hash, member);
        }
        true
    }

    /// Adds members; how many are new. Of many members each is written about once.
    #[inline]
    pub fn add_all<'m>(&mut self, ctx: &mut WriteCtx<'_>, members: impl Iterator<Item = &'m [u8]> + Clone) -> usize {
        let many = members.size_hint().0 >= EXPECTED_MIN;
        if many {
            self.expect_all(members.clone().map(<[u8]>::len));
        }
        let added = members.filter(|member| self.add(ctx, member)).count();
        if many {
            self.settle(ctx);
        }
        added
    }

    #[cold]
    fn add_elsewhere(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, member: &[u8]) {
        let new = NewObject::new(kinds::MEMBER, Owner::Collection(ctx.id.number()), member, b"");
        let r = ctx.appender.append(ctx.log, &new);
        self.count_in(ctx.access, ctx.log, r);
        self.put_named(ctx, (hash, member), NUMBER_BYTES, |leaf, tag| leaf.push_elsewhere(tag, r.bits()));
    }

    /// Shows every member.
    pub fn for_each_member<'a>(&self, ctx: ReadCtx<'a>, mut show: impl FnMut(&'a [u8])) {
        self.leaves(ctx, |leaf| leaf.iter().for_each(|(_, element)| show(self.member_of(ctx, element))));
    }

    /// Shows the members in groups, each those of a leaf, until `show` says that it is enough.
    pub fn groups<'a>(&self, ctx: ReadCtx<'a>, show: &mut dyn FnMut(&mut dyn Iterator<Item = &'a [u8]>) -> bool) {
        self.directory.walk(0, |_, cell| {
            let Some(r) = cell.leaf(ctx.log) else { return true };
            let leaf = super::open(ctx.log, ctx.access, r);
            !show(&mut leaf.iter().map(|(_, element)| self.member_of(ctx, element)))
        });
    }
}
