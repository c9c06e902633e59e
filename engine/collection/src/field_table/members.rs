//! Operations of sets alone: members are their names alone, added if absent, and drawn at random.

use smallvec::SmallVec;
use varve_base::Ref;
use varve_base::hash::{GOLDEN_RATIO, hash64, mix64};
use varve_base::mem::{Line, equal};
use varve_segment::{Appender, Log, Owner};

use super::{FieldTable, Found};
use crate::kinds;
use crate::{CollectionId, ReadCtx, WriteCtx};

/// Buckets that are moved on for a member that was drawn and taken out.
const MOVED_EACH: usize = 2;

impl FieldTable {
    /// An empty table for the set with this number, which is about to get `expected` members.
    pub fn members(id: CollectionId, expected: usize) -> FieldTable {
        FieldTable { kind: kinds::MEMBER, ..FieldTable::new(id, expected) }
    }

    /// Adds a member; true if it is new.
    #[inline]
    pub fn add(&mut self, ctx: &mut WriteCtx<'_>, member: &[u8]) -> bool {
        let id = ctx.id;
        let (reader, appender) = ctx.parts();
        self.add_beside(reader, appender, id, member)
    }

    /// Adds a member to a set that is being built while others are read. The access may be that of any shard that is
    /// held: nothing leads to this set's objects yet.
    #[inline]
    pub fn add_beside(&mut self, ctx: ReadCtx<'_>, appender: &mut Appender, id: CollectionId, member: &[u8]) -> bool {
        let ReadCtx { log, access, seed } = ctx;
        let hash = hash64(seed, member);
        if self.table.find(hash, |r| equal(access.open(log, r).key(), member)).is_some() {
            return false;
        }
        debug_assert_eq!(self.kind, kinds::MEMBER, "a table without values");
        let r = appender.append(log, &self.element(id, member, b""));
        self.object_bytes += access.open(log, r).bytes() as u64;
        self.table.insert(hash, r, &ctx);
        true
    }

    /// Where lies what [`FieldTable::take_drawn`] looks at first.
    #[inline]
    pub fn draw_lines(&self, number: u64) -> [Line; 2] {
        self.table.sample_lines(draws(number))
    }

    /// Where the object lies that a number draws, if it is found soon.
    #[inline]
    pub fn drawn_line(&self, log: &Log, number: u64) -> Option<Line> {
        self.table.sample_soon(draws(number)).map(|r| log.line(r))
    }

    /// Takes out the member that a number draws, and shows it first; the last one is only shown. How many are left.
    #[inline]
    pub fn take_drawn(&mut self, ctx: &mut WriteCtx<'_>, number: u64, show: impl FnOnce(&[u8])) -> usize {
        let (r, entry) = self.table.sample_by(draws(number)).expect("a set is never empty");
        debug_assert_eq!(
            ctx.access.open(ctx.log, r).owner(),
            Owner::Collection(ctx.id.number()),
            "a member of this set"
        );
        show(ctx.access.open(ctx.log, r).key());
        let left = self.len() - 1;
        if left > 0 {
            match entry {
                Some(entry) => self.remove_found(ctx, Found { entry, r }),
                None => self.remove_ref(ctx, r),
            }
            if self.table.is_moving() {
                // A table that shrinks more slowly than it is emptied has ever fewer entries to draw from.
                self.step(ctx, MOVED_EACH);
            }
        }
        left
    }

    /// Asks for the bucket of a name that will be looked for.
    #[inline]
    pub fn prefetch(&self, seed: u64, field: &[u8]) {
        self.table.prefetch(hash64(seed, field));
    }

    /// Shows the objects of all elements in groups of about `size` until `show` says that it is enough.
    pub fn groups(&self, ctx: ReadCtx<'_>, size: usize, show: &mut dyn FnMut(&[Ref]) -> bool) {
        let (mut group, mut next) = (SmallVec::<[Ref; 32]>::new(), Some(0));
        while let Some(from) = next {
            next = self.table.scan(from, &ctx, |r| group.push(r));
            if group.len() >= size || next.is_none() {
                if show(&group) {
                    return;
                }
                group.clear();
            }
        }
    }

    /// Removes the element whose object is at `r`.
    pub fn remove_ref(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        let field = ctx.access.open(ctx.log, r).key();
        let found = self.find_ref(ctx.seed, field, r).expect("an element that was drawn is there");
        self.remove_found(ctx, found);
    }
}

/// Random numbers below what is asked for, the same of the same number.
#[inline]
fn draws(mut number: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        let drawn = ((u128::from(number) * u128::from(below)) >> 64) as u64;
        number = mix64(number.wrapping_add(GOLDEN_RATIO));
        drawn
    }
}
