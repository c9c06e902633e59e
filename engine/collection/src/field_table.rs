//! The members of a sorted set: objects of their own in the log, found through an index of the collection's own.
//!
//! ```text
//! hash64(seed, member) -> IndexTable (64-byte buckets) -> Ref -> object { owner: collection id, key: member, score }
//! ```
//! The buckets are like a shard's, with all 52 low bits of the hash. Not here: order (a sorted set's tree), and what the
//! values mean.

use std::collections::HashSet;

use varve_base::Ref;
use varve_base::group::CELLS;
use varve_base::hash::hash64;
use varve_base::mem::{Line, equal};
use varve_base::rng::Rng;
use varve_index::{IndexEntry, IndexGeometry, IndexTable, TableStats};
use varve_segment::{Appender, Log, NewObject, NewValue, ObjectHead, Owner};

use crate::kinds;
use crate::{CollectionId, ReadCtx, WriteCtx};

/// Buckets of the first table of a collection that becomes big at some hundred elements.
const FIRST_BUCKETS: u32 = 24;
/// And of one that is big from its first element on, or from a long one: there are many such, of a few elements each.
const FEW_BUCKETS: u32 = 2;
/// Elements from which the first table is the larger one.
const MANY: usize = 64;
/// Collections grow at different sizes, so that many alike do not all double their tables at one time.
const STAGGER: u32 = 16;
/// Objects fetched into the cache ahead of those that are visited.
const AHEAD: usize = 16;
/// Buckets that a scan looks at for each element asked for, where most of them are empty.
const SCAN_BUCKETS_EACH: usize = 10;
/// Large tables grow by little: their load stays over 0.80.
const GROWTH: f64 = 1.125;

/// The elements of a collection under their own index.
pub struct FieldTable {
    table: IndexTable,
    /// Bytes of all element objects.
    object_bytes: u64,
}

/// An element that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    entry: IndexEntry,
    /// Its object.
    pub r: Ref,
}

impl FieldTable {
    /// An empty table for the collection with this number, which is about to get `expected` elements.
    pub fn new(id: CollectionId, expected: usize) -> FieldTable {
        let shard_scale = (id.number() % STAGGER, STAGGER);
        let first_buckets = if expected < MANY { FEW_BUCKETS } else { FIRST_BUCKETS };
        let geometry = IndexGeometry { first_buckets, growth: GROWTH, shard_scale, ..IndexGeometry::default() };
        FieldTable { table: IndexTable::new(geometry), object_bytes: 0 }
    }

    /// Number of elements.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an empty collection is no key")]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of all element objects in the log.
    #[inline]
    pub fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// Bytes of the index.
    #[inline]
    pub fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Where the bucket of a hash is.
    #[inline]
    pub fn bucket_line(&self, hash: u64) -> Line {
        self.table.line(hash)
    }

    /// Where the object begins that a hash may mean.
    #[inline]
    pub fn object_line(&self, log: &Log, hash: u64) -> Option<Line> {
        let mut line = None;
        self.table.find(hash, |r| {
            line = Some(log.line(r));
            true
        });
        line
    }

    /// Figures of the index.
    pub fn table_stats(&self) -> TableStats {
        self.table.stats()
    }

    /// The element of this name.
    #[inline]
    pub fn find(&self, ctx: ReadCtx<'_>, field: &[u8]) -> Option<Found> {
        self.find_hashed(ctx, hash64(ctx.seed, field), field)
    }

    /// Finds the element with this name and hash.
    #[inline]
    fn find_hashed(&self, ctx: ReadCtx<'_>, hash: u64, field: &[u8]) -> Option<Found> {
        let mut found = None;
        let entry = self.table.find(hash, |r| {
            found = Some(r);
            equal(ctx.access.open(ctx.log, r).key(), field)
        })?;
        Some(Found { entry, r: found? })
    }

    /// The value of the element of this name.
    #[inline]
    pub fn get<'a>(&self, ctx: ReadCtx<'a>, field: &[u8]) -> Option<&'a [u8]> {
        let mut found = None;
        self.table.find(hash64(ctx.seed, field), |r| {
            let object = ctx.access.open(ctx.log, r);
            found = Some(object);
            equal(object.key(), field)
        })?;
        found.map(|object| object.value())
    }

    /// Adds an element that is not there yet; gives its object.
    #[inline]
    pub fn insert(&mut self, ctx: &mut WriteCtx<'_>, field: &[u8], value: &[u8]) -> Ref {
        self.insert_hashed(ctx, hash64(ctx.seed, field), field, value)
    }

    /// Inserts an element with this name and hash.
    fn insert_hashed(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, field: &[u8], value: &[u8]) -> Ref {
        let r = ctx.appender.append(ctx.log, &element(ctx.id, field, value));
        debug_assert_eq!(hash, hash64(ctx.seed, field), "the hash of this name");
        debug_assert!(self.find_hashed(ctx.read(), hash, field).is_none(), "an element is there once");
        self.object_bytes += ctx.access.open(ctx.log, r).bytes() as u64;
        self.table.insert(hash, r, &ctx.read());
        r
    }

    /// Gives an element another value, in place if its object takes it; gives its object.
    #[inline]
    pub fn replace(&mut self, ctx: &mut WriteCtx<'_>, found: Found, value: &[u8]) -> Ref {
        if ctx.access.open_mut(ctx.log, found.r).set_value(value) {
            return found.r;
        }
        let old = ctx.access.open(ctx.log, found.r);
        let new = NewObject { value: NewValue::Bytes(value), room: value.len(), ..NewObject::like(&old) };
        let r = ctx.appender.append(ctx.log, &new);
        let bytes = |r| ctx.access.open(ctx.log, r).bytes() as u64;
        self.object_bytes = self.object_bytes + bytes(r) - bytes(found.r);
        self.table.replace(found.entry, r);
        ctx.access.kill(ctx.log, found.r);
        r
    }

    /// Removes an element that was found just now.
    pub(crate) fn remove_found(&mut self, ctx: &mut WriteCtx<'_>, found: Found) {
        self.object_bytes -= ctx.access.open(ctx.log, found.r).bytes() as u64;
        self.table.remove(found.entry);
        ctx.access.kill(ctx.log, found.r);
    }

    /// An element at random.
    pub fn sample(&self, rng: &mut Rng) -> Option<Ref> {
        self.table.sample(rng)
    }

    /// SCAN's step: shows some elements from `cursor` on, about `count`, and returns the next cursor, 0 at the end. It
    /// looks at up to [`SCAN_BUCKETS_EACH`] buckets for each element asked for.
    pub fn scan(&self, ctx: ReadCtx<'_>, cursor: u64, count: usize, emit: &mut dyn FnMut(&[u8], &[u8])) -> u64 {
        let (mut shown, mut buckets) = (0, count.saturating_mul(SCAN_BUCKETS_EACH));
        let mut next = Some(cursor);
        while let (Some(from), true) = (next, shown < count && buckets > 0) {
            buckets -= 1;
            next = self.table.scan(from, &ctx, |r| {
                shown += 1;
                let object = ctx.access.open(ctx.log, r);
                emit(object.key(), object.value());
            });
        }
        next.unwrap_or(0)
    }

    /// Visits every element's object, which is asked for some elements before.
    pub fn for_each_ref(&self, log: &Log, mut visit: impl FnMut(Ref)) {
        let mut ahead = [None; AHEAD];
        let mut at = 0;
        self.table.for_each(|r| {
            log.prefetch(r);
            if let Some(r) = ahead[at].replace(r) {
                visit(r);
            }
            at = (at + 1) % AHEAD;
        });
        (0..AHEAD).filter_map(|i| ahead[(at + i) % AHEAD]).for_each(visit);
    }

    /// The element whose object is at `r`, by its name.
    pub fn find_ref(&self, seed: u64, field: &[u8], r: Ref) -> Option<Found> {
        self.table.find_ref(hash64(seed, field), r).map(|entry| Found { entry, r })
    }

    /// Puts a moved object in its element's place.
    pub(crate) fn repoint(&mut self, ctx: &WriteCtx<'_>, found: Found, new: Ref, old_bytes: usize) {
        self.object_bytes = self.object_bytes + ctx.access.open(ctx.log, new).bytes() as u64 - old_bytes as u64;
        self.table.replace(found.entry, new);
    }

    /// Moves the element that reclaim has come to; false if it is not in this table.
    pub fn relocate(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        let Some(found) = self.find_ref(ctx.seed, head.key, head.r) else { return false };
        debug_assert_eq!(head.kind, kinds::ELEMENT, "an element of this table");
        let new = ctx.relocate(head.r);
        self.repoint(ctx, found, new, head.bytes);
        true
    }

    /// True while the index moves to another size, or should.
    #[inline]
    pub fn wants_step(&self) -> bool {
        self.table.is_moving() || self.table.wants_move()
    }

    /// Moves about `buckets` buckets of the index towards its other size.
    pub fn step(&mut self, ctx: &WriteCtx<'_>, buckets: usize) {
        self.table.step(&ctx.read(), buckets);
    }

    /// Kills about `objects` elements, which no key leads to any more; true when none is left.
    pub fn free_step(&mut self, ctx: &mut WriteCtx<'_>, objects: usize) -> bool {
        let mut doomed = smallvec::SmallVec::<[Ref; 64]>::new();
        let empty = self.table.drain_step(objects.div_ceil(CELLS), &mut |r| doomed.push(r));
        debug_assert!(!empty || self.table.is_empty(), "drained when no entry is left");
        for r in doomed {
            self.object_bytes -= ctx.access.open(ctx.log, r).bytes() as u64;
            ctx.access.kill(ctx.log, r);
        }
        empty
    }

    /// Gives back some of the table; true when nothing is left of it.
    pub fn shrink_step(&mut self) -> bool {
        self.table.discard_step()
    }

    /// Copies the elements as objects of the collection `id`.
    pub fn copy(&self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId) -> FieldTable {
        let mut copy = FieldTable::new(id, self.len());
        let ReadCtx { log, access, seed } = from;
        self.table.for_each(|old| {
            let object = access.open(log, old);
            let r = appender.append(log, &element(id, object.key(), object.value()));
            copy.object_bytes += access.open(log, r).bytes() as u64;
            copy.table.insert(hash64(seed, object.key()), r, &from);
        });
        debug_assert_eq!(copy.len(), self.len(), "every element was copied");
        copy
    }

    /// Checks everything and adds every live object's Ref. O(N).
    pub fn verify(&self, ctx: ReadCtx<'_>, id: CollectionId, live: &mut HashSet<Ref>) {
        self.table.verify(&ctx);
        let mut bytes = 0;
        self.table.for_each(|r| {
            let object = ctx.access.open(ctx.log, r);
            assert_eq!(object.kind(), kinds::ELEMENT, "the elements of {id:?} are of one kind");
            assert_eq!(object.owner(), Owner::Collection(id.number()), "an element carries its collection's id");
            assert!(live.insert(r), "an element is in one cell only");
            bytes += object.bytes() as u64;
        });
        assert_eq!(bytes, self.object_bytes, "bytes of the elements of {id:?}");
    }
}

/// An element with no more room than its value.
fn element<'a>(id: CollectionId, field: &'a [u8], value: &'a [u8]) -> NewObject<'a> {
    NewObject::new(kinds::ELEMENT, Owner::Collection(id.number()), field, value)
}
