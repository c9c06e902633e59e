//! Leaf tables: the elements of a big hash or set in packed leaves, in order of their hashes.
//!
//! ```text
//!   hash64(seed, name) -> directory (first bits) -> leaf: an object of the log -> tag (last byte) -> element
//!                                                    { owner: collection id, no key, value: a packed leaf }
//!   an element over 1 KB -> its number in the leaf -> { owner: collection id, key: name, value } of its own
//! ```
//! An object for each element costs a head and a cell of an index, 15 to 17 bytes beside its own; in a leaf it is 2 for a
//! member and 3 for a field. A leaf has some dozens of elements: fewer make the directory large, more make the search of
//! tags long. So its limit follows the size of its elements, see [`limit`].
//!
//! A leaf grows in the room of its object, up to its limit, and then it is split by the next bit of the hashes: one of the
//! two keeps the object. Reclaim leaves the room behind, so that what is not written any more has none.
//!
//! | file | what |
//! |---|---|
//! | `directory` | from a hash to a leaf |
//! | `reshape` | leaves that grow, shrink, split and are joined |
//! | `members`, `fields` | the operations of sets, and of hashes |
//! | `draw` | elements by number, and at random |
//! | `dues` | fields that expire |
//! | `crowded` | elements that find no place by their hash |
//! | `reading` | readers over several holds of the shard, who see the table as it was when they began |

mod crowded;
mod directory;
mod draw;
mod dues;
mod fields;
mod members;
mod reading;
mod reshape;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use varve_base::Ref;
use varve_base::mem::Line;
use varve_index::TableStats;
use varve_packed::leaf::pair;
use varve_packed::leaf::{ElementPos, LeafElement, PackedLeaf, PackedLeafMut};
use varve_packed::node::PackedEntry;
use varve_segment::{Access, Appender, Log, NewObject, ObjectHead, ObjectKind, ObjectMut, Owner, SegmentClass};

use crate::kinds;
use crate::{CollectionId, ReadCtx, WriteCtx};
use crowded::Crowded;
use directory::{DEPTH_MAX, Directory};
use dues::Dues;
use reading::Readers;
use reshape::Expected;

/// The last time at which a field may expire, in milliseconds of Unix time: in the year 10889.
pub const FIELD_EXPIRY_MS_MAX: i64 = pair::PAIR_EXPIRY_MAX;
/// An element of more bytes than this has an object of its own.
pub const ELEMENT_MAX: usize = 1024;
/// Bytes of a leaf's objects, at most, for elements up to 40, up to 80, and of more bytes on average.
const LIMITS: [usize; 3] = [1024, 2048, 4096];
/// Bytes of the largest leaf.
pub(crate) const LIMIT_MAX: usize = LIMITS[2];
/// Most bytes that a leaf grows to which is not to be split, because its hashes have too many bits in common.
const UNSPLIT_MAX: usize = 4 * LIMIT_MAX;
/// Bytes of a number in a leaf.
const NUMBER_BYTES: usize = 8;

/// The elements of a big hash or set.
pub struct LeafTable {
    directory: Directory,
    len: usize,
    /// Bytes of all objects, leaves and elements of their own, that are in use: what the log counts as alive.
    object_bytes: u64,
    form: ElementForm,
    expected: Expected,
    /// Elements that lie by another hash than their name's, because its leaf was full; none nearly always.
    crowded: Option<Box<Crowded>>,
    /// The position up to which the leaves of a table to which nothing leads any more are killed.
    freed: u64,
    /// Those that are shown the table as it was; none nearly always.
    readers: Option<Box<Readers>>,
    /// When fields expire; none in a hash without such fields, and in a set.
    dues: Option<Box<Dues>>,
}

/// The parts of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementForm {
    /// A member.
    Member,
    /// A field and its value.
    Pair,
}

/// An element that was found.
#[derive(Clone, Copy, Debug)]
struct Found {
    leaf: Ref,
    pos: ElementPos,
}

/// Most bytes of a leaf of `count` elements of `bytes` bytes together: it has some 20 to 50 of them when it is full.
pub fn limit(count: usize, bytes: usize) -> usize {
    let average = bytes / count.max(1);
    LIMITS[usize::from(average > 40) + usize::from(average > 80)]
}

/// The bytes of a leaf's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Bytes without which the elements have no place.
    needed: usize,
    /// Bytes of the value, some of them free.
    pub(crate) value: usize,
    /// Bytes that the value may grow to.
    pub(crate) room: usize,
}

impl Fit {
    /// For a leaf that needs `needed` bytes and is going to grow, up to its limit: a value of half as much again. What the
    /// value does not have of the room counts as dead: 15% on average where elements come in any order, which is less than
    /// has the background reclaim; by steps of a quarter it was 20%. A leaf over its limit is one that cannot be split.
    pub(crate) fn growing(needed: usize, limit: usize) -> Fit {
        let more = needed + needed / 2;
        let value = more.min(if needed > limit { UNSPLIT_MAX.max(needed) } else { limit });
        Fit { needed, value, room: value.max(limit) }
    }

    /// For a leaf that has lost elements: none of its value is free, since more is going to become so, and a quarter more is
    /// at hand where it is written anew. With a quarter free, a sorted set of which 90% was deleted took 1.39 of the memory
    /// of one that never had more.
    pub(crate) fn shrunk(needed: usize) -> Fit {
        Fit { room: needed + needed / 4, ..Fit::exact(needed) }
    }

    /// For a leaf that is not going to grow.
    pub(crate) fn exact(needed: usize) -> Fit {
        Fit { needed, value: needed, room: needed }
    }

    /// With a value of this number of bytes or more.
    pub(crate) fn at_least(self, bytes: usize) -> Fit {
        Fit { value: self.value.max(bytes), room: self.room.max(bytes), ..self }
    }

    /// Bytes of the value in an object that has this room; `None` if that is too little.
    #[inline]
    pub(crate) fn value_in(self, room: usize) -> Option<usize> {
        debug_assert!(self.needed <= self.value && self.value <= self.room, "{self:?}");
        (self.needed <= room).then(|| self.value.min(room))
    }
}

/// The byte of a hash by which a leaf finds an element.
#[inline(always)]
fn tag(hash: u64) -> u8 {
    hash as u8
}

/// The leaf whose object is at `r`.
#[inline(always)]
fn open<'a>(log: &'a Log, access: &'a Access, r: Ref) -> PackedLeaf<'a> {
    PackedLeaf::open(access.open(log, r).value())
}

impl ElementForm {
    /// The name of an element, for its hash.
    #[inline]
    fn name<R>(self, ctx: ReadCtx<'_>, element: LeafElement<'_>, show: impl FnOnce(&[u8]) -> R) -> R {
        match element {
            LeafElement::Here(bytes) if self == ElementForm::Member => show(bytes),
            LeafElement::Here(bytes) => show(pair::split(bytes).0.text(&mut [0; 20])),
            LeafElement::Elsewhere(number) => show(ctx.access.open(ctx.log, ctx.log.recall(number)).key()),
        }
    }

    /// Kind of an element's own object.
    fn kind(self) -> ObjectKind {
        match self {
            ElementForm::Member => kinds::MEMBER,
            ElementForm::Pair => kinds::ELEMENT,
        }
    }

    /// Name and value of an element; a member has an empty value.
    #[inline]
    fn parts<'a>(self, ctx: ReadCtx<'a>, element: LeafElement<'a>) -> (PackedEntry<'a>, PackedEntry<'a>) {
        match element {
            LeafElement::Here(bytes) if self == ElementForm::Member => {
                (PackedEntry::Bytes(bytes), PackedEntry::Bytes(b""))
            }
            LeafElement::Here(bytes) => pair::split(bytes),
            LeafElement::Elsewhere(number) => self.own_parts(ctx, ctx.log.recall(number)),
        }
    }

    /// Name and value of the element whose own object is at `r`.
    #[inline]
    fn own_parts<'a>(self, ctx: ReadCtx<'a>, r: Ref) -> (PackedEntry<'a>, PackedEntry<'a>) {
        let object = ctx.access.open(ctx.log, r);
        let value = if self == ElementForm::Member { &b""[..] } else { object.value() };
        (PackedEntry::Bytes(object.key()), PackedEntry::Bytes(value))
    }
}

impl LeafTable {
    fn new(form: ElementForm) -> LeafTable {
        LeafTable {
            directory: Directory::new(),
            len: 0,
            object_bytes: 0,
            form,
            expected: Expected::default(),
            crowded: None,
            freed: 0,
            readers: None,
            dues: None,
        }
    }

    /// Number of elements.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "an empty collection is no key")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the objects in the log that are in use.
    #[inline]
    pub fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// Bytes of the directory, of the places of elements that lie by another hash, of the times at which leaves are to be
    /// looked at, and of what was handed over to readers.
    #[inline]
    pub fn table_bytes(&self) -> usize {
        self.directory.bytes() + self.crowded_bytes() + self.dues_bytes() + self.handed_bytes()
    }

    /// Figures of the directory: its cells count as buckets.
    pub fn table_stats(&self) -> TableStats {
        let buckets = self.directory.cells() as u64;
        let bytes = self.table_bytes();
        TableStats { entries: self.len, buckets, old_buckets: 0, moved_buckets: 0, overflow_buckets: 0, bytes }
    }

    /// Gives the directory's memory back, some pages at a time; true when none is left. Nothing else may be asked of the
    /// table from then on.
    pub fn shrink_step(&mut self) -> bool {
        self.directory.discard_step()
    }

    /// Where the directory's cell of a hash is.
    #[inline]
    pub fn cell_line(&self, hash: u64) -> Line {
        Line::of(self.directory.cell(hash))
    }

    /// Where the leaf of a hash begins.
    #[inline]
    pub fn leaf_line(&self, log: &Log, hash: u64) -> Option<Line> {
        Some(log.line(self.directory.get(hash).leaf(log)?))
    }

    /// Asks for the cell of a name that will be looked for.
    #[inline]
    pub fn prefetch(&self, seed: u64, name: &[u8]) {
        self.cell_line(self.hash_of(seed, name)).fetch();
    }

    /// Finds the element with this hash that `is` says yes to, by its bytes in the leaf or by the name of its own object.
    #[inline(always)]
    fn find(&self, ctx: ReadCtx<'_>, hash: u64, name: &[u8], is: impl Fn(&[u8]) -> bool) -> Option<Found> {
        let leaf = self.directory.get(hash).leaf(ctx.log)?;
        let pos = open(ctx.log, ctx.access, leaf).find(tag(hash), |element| match element {
            LeafElement::Here(bytes) => is(bytes),
            LeafElement::Elsewhere(number) => ctx.access.open(ctx.log, ctx.log.recall(number)).key() == name,
        })?;
        Some(Found { leaf, pos })
    }

    /// Finds the element of this name and hash.
    #[inline(always)]
    fn find_named(&self, ctx: ReadCtx<'_>, hash: u64, name: &[u8]) -> Option<Found> {
        match self.form {
            ElementForm::Member => self.find_member(ctx, hash, name),
            ElementForm::Pair => self.find_field(ctx, hash, name),
        }
    }

    /// Whether there is an element of this name.
    #[inline]
    pub fn contains(&self, ctx: ReadCtx<'_>, name: &[u8]) -> bool {
        self.find_named(ctx, self.hash_of(ctx.seed, name), name).is_some()
    }

    /// The value of the element of this name; a member's is empty.
    #[inline]
    pub fn get<'a>(&self, ctx: ReadCtx<'a>, name: &[u8]) -> Option<PackedEntry<'a>> {
        let found = self.find_named(ctx, self.hash_of(ctx.seed, name), name)?;
        let element = open(ctx.log, ctx.access, found.leaf).get(found.pos);
        Some(self.form.parts(ctx, element).1)
    }

    /// Removes the element of this name; true if it was there.
    pub fn remove(&mut self, ctx: &mut WriteCtx<'_>, name: &[u8]) -> bool {
        let hash = self.hash_of(ctx.seed, name);
        let found = self.find_named(ctx.read(), hash, name);
        if let Some(found) = found {
            self.take_out(ctx, hash, found);
            self.after_removal(ctx, hash);
        }
        found.is_some()
    }

    /// Sees to it that readers have the leaf of a hash as it is: it is about to change.
    #[inline(always)]
    fn before(&mut self, ctx: ReadCtx<'_>, hash: u64) {
        if self.readers.is_some() {
            self.hand_over(ctx, hash);
        }
    }

    /// Takes an element out of its leaf, whose form stays. An object of its own dies, and so does a leaf without elements.
    fn take_out(&mut self, ctx: &mut WriteCtx<'_>, hash: u64, found: Found) {
        self.before(ctx.read(), hash);
        if self.crowded.is_some() {
            self.forget_place(ctx.read(), found);
        }
        let mut object = ctx.access.open_mut(ctx.log, found.leaf);
        let mut leaf = PackedLeafMut::open(object.value_mut());
        let element = leaf.leaf().get(found.pos);
        let elsewhere = if let LeafElement::Elsewhere(number) = element { Some(number) } else { None };
        leaf.remove(found.pos);
        let count = leaf.leaf().len();
        debug_assert_eq!(count + 1, self.directory.get(hash).count(), "the directory counts the elements of a leaf");
        self.len -= 1;
        if let Some(number) = elsewhere {
            self.let_go(ctx, ctx.log.recall(number));
        }
        let left = (count > 0).then_some(found.leaf);
        if left.is_none() {
            self.kill(ctx, found.leaf);
        }
        self.directory.set(hash, left, count);
    }

    /// Lets the object of an element go, which dies if no reader needs it.
    fn let_go(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        let bytes = ctx.access.open(ctx.log, r).live_bytes();
        if self.readers.as_mut().is_some_and(|readers| readers.leaves.let_go(r, bytes)) {
            self.object_bytes -= bytes as u64;
        } else {
            self.kill(ctx, r);
        }
    }

    /// Marks an object of the table dead.
    fn kill(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) {
        self.object_bytes -= ctx.access.open(ctx.log, r).live_bytes() as u64;
        ctx.access.kill(ctx.log, r);
    }

    /// Counts an object that was written just now.
    fn count_in(&mut self, access: &Access, log: &Log, r: Ref) -> Ref {
        self.object_bytes += access.open(log, r).live_bytes() as u64;
        r
    }

    /// Changes one of the table's objects, and counts the change of its bytes.
    fn change_object<R>(&mut self, ctx: &mut WriteCtx<'_>, r: Ref, change: impl FnOnce(&mut ObjectMut<'_>) -> R) -> R {
        let mut object = ctx.access.open_mut(ctx.log, r);
        let before = object.read().live_bytes() as u64;
        let done = change(&mut object);
        self.object_bytes = self.object_bytes + object.read().live_bytes() as u64 - before;
        done
    }

    /// Shows every leaf in order of hash. The next one is asked for before.
    fn leaves<'a>(&self, ctx: ReadCtx<'a>, mut show: impl FnMut(PackedLeaf<'a>)) {
        let mut before = None;
        self.directory.walk(0, |_, cell| {
            if let Some(r) = cell.leaf(ctx.log) {
                ctx.log.line(r).fetch_pair();
                if let Some(r) = before.replace(r) {
                    show(open(ctx.log, ctx.access, r));
                }
            }
            true
        });
        if let Some(r) = before {
            show(open(ctx.log, ctx.access, r));
        }
    }

    /// SCAN's step: shows the elements of some leaves from `cursor` on, about `count` elements, and returns the next
    /// cursor, 0 at the end. A cursor is a position in hash space, a number of 48 bits: an element that is there from
    /// the first call to the last is shown, whatever is split or joined between.
    pub fn scan(
        &self,
        ctx: ReadCtx<'_>,
        cursor: u64,
        count: usize,
        show: &mut dyn FnMut(PackedEntry<'_>, PackedEntry<'_>),
    ) -> u64 {
        let (mut shown, mut bytes, mut ranges) = (0, 0, count.saturating_mul(10));
        let form = self.form;
        let next = self.directory.walk(cursor << (64 - DEPTH_MAX), |_, cell| {
            if let Some(r) = cell.leaf(ctx.log) {
                shown += cell.count();
                for (_, element) in open(ctx.log, ctx.access, r).iter() {
                    let (name, value) = form.parts(ctx, element);
                    bytes += name.text_len() + value.text_len();
                    show(name, value);
                }
            }
            ranges = ranges.saturating_sub(1);
            shown < count && bytes < crate::SCAN_BYTES && ranges > 0
        });
        next.map_or(0, |at| at >> (64 - DEPTH_MAX))
    }

    /// Moves what reclaim has come to, a leaf or an element of its own; false if it is not in this table.
    pub fn relocate(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        if head.kind == kinds::LEAF { self.relocate_leaf(ctx, head) } else { self.relocate_element(ctx, head) }
    }

    /// Moves a leaf, which leaves its free room behind.
    fn relocate_leaf(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        let leaf = open(ctx.log, ctx.access, head.r);
        let hash = self.hash_of_element(ctx.read(), leaf.nth(0));
        let count = leaf.len();
        if self.directory.get(hash).leaf(ctx.log) != Some(head.r) {
            return false;
        }
        let fit = Fit::exact(leaf.copied_bytes());
        let new = self.rewrite(ctx, head.r, fit, SegmentClass::Survivor);
        self.directory.set(hash, Some(new), count);
        true
    }

    /// Moves an element that has an object of its own, or had it when a reader began.
    fn relocate_element(&mut self, ctx: &mut WriteCtx<'_>, head: &ObjectHead<'_>) -> bool {
        let hash = self.hash_of(ctx.seed, head.key);
        let number = LeafElement::Elsewhere(head.r.bits());
        let found = self.directory.get(hash).leaf(ctx.log).and_then(|leaf| {
            let pos = open(ctx.log, ctx.access, leaf).find(tag(hash), |element| element == number)?;
            Some((leaf, pos))
        });
        let Some((leaf, pos)) = found else {
            return self.readers.as_mut().is_some_and(|readers| readers.leaves.relocate(ctx, head.r));
        };
        self.object_bytes -= ctx.access.open(ctx.log, head.r).live_bytes() as u64;
        let new = ctx.relocate(head.r);
        self.count_in(ctx.access, ctx.log, new);
        self.readers.iter_mut().for_each(|readers| readers.leaves.moved(head.r, new));
        let mut object = ctx.access.open_mut(ctx.log, leaf);
        let mut leaf = PackedLeafMut::open(object.value_mut());
        leaf.replace_elsewhere(pos, new.bits()).expect("a number has the room of a number");
        true
    }

    /// Kills about `objects` objects, which no key leads to any more; true when none is left.
    pub fn free_step(&mut self, ctx: &mut WriteCtx<'_>, objects: usize) -> bool {
        debug_assert!(!self.is_read(), "what somebody reads is not freed");
        let mut doomed = smallvec::SmallVec::<[(u64, Ref); 64]>::new();
        let log = ctx.log;
        let next = self.directory.walk(self.freed, |at, cell| {
            doomed.extend(cell.leaf(log).map(|r| (at, r)));
            doomed.len() < objects
        });
        for (at, r) in doomed {
            let numbers: Vec<u64> = open(log, ctx.access, r)
                .iter()
                .filter_map(|(_, element)| if let LeafElement::Elsewhere(n) = element { Some(n) } else { None })
                .collect();
            numbers.into_iter().for_each(|number| self.kill(ctx, log.recall(number)));
            self.len -= open(log, ctx.access, r).len();
            self.kill(ctx, r);
            self.directory.set(at, None, 0);
        }
        debug_assert!(next.is_none_or(|at| at > self.freed), "freeing goes on");
        debug_assert!(next.is_some() || (self.len == 0 && self.object_bytes == 0), "freed when nothing is left");
        self.freed = next.unwrap_or(0);
        next.is_none()
    }

    /// Copies the elements as objects of the collection `id`.
    pub fn copy(&self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId) -> LeafTable {
        let mut copy = LeafTable {
            directory: self.directory.clone(),
            len: self.len,
            crowded: self.crowded.clone(),
            dues: self.dues.clone(),
            ..LeafTable::new(self.form)
        };
        let mut value = Vec::new();
        self.directory.walk(0, |at, cell| {
            let Some(r) = cell.leaf(from.log) else { return true };
            let leaf = open(from.log, from.access, r);
            value.clear();
            value.resize(leaf.copied_bytes(), 0);
            leaf.copy_into(&mut value).expect("it has the bytes that it asked for");
            copy.copy_elsewhere(from, appender, id, &mut value);
            let new = NewObject::new(kinds::LEAF, Owner::Collection(id.number()), b"", &value);
            let new = appender.append(from.log, &new);
            copy.count_in(from.access, from.log, new);
            copy.directory.set(at, Some(new), leaf.len());
            true
        });
        copy
    }

    /// Copies the elements of a leaf that have objects of their own, and has the leaf's bytes name the copies.
    fn copy_elsewhere(&mut self, from: ReadCtx<'_>, appender: &mut Appender, id: CollectionId, leaf: &mut [u8]) {
        let mut leaf = PackedLeafMut::open(leaf);
        for index in 0..leaf.leaf().len() {
            let pos = leaf.leaf().pos(index);
            let LeafElement::Elsewhere(number) = leaf.leaf().get(pos) else { continue };
            let old = from.access.open(from.log, from.log.recall(number));
            let new = NewObject { owner: Owner::Collection(id.number()), ..NewObject::like(&old) };
            let r = appender.append(from.log, &new);
            self.count_in(from.access, from.log, r);
            leaf.replace_elsewhere(pos, r.bits()).expect("a number has the room of a number");
        }
    }

    /// Checks everything and adds every live object's Ref. O(N).
    pub fn verify(&self, ctx: ReadCtx<'_>, id: CollectionId, live: &mut HashSet<Ref>) {
        self.directory.verify();
        self.verify_readers(ctx, live);
        self.verify_dues(ctx);
        let (mut bytes, mut len) = (0, 0);
        let mut own = |r, kind| {
            let object = ctx.access.open(ctx.log, r);
            assert_eq!(object.kind(), kind, "an object of {id:?}");
            assert_eq!(object.owner(), Owner::Collection(id.number()), "an object carries its collection's id");
            assert!(live.insert(r), "an object has one place only");
            bytes += object.live_bytes() as u64;
        };
        self.directory.walk(0, |first, cell| {
            let Some(r) = cell.leaf(ctx.log) else { return true };
            own(r, kinds::LEAF);
            let leaf = open(ctx.log, ctx.access, r);
            leaf.verify();
            assert!(leaf.len() == cell.count() && !leaf.is_empty(), "elements of a leaf");
            len += leaf.len();
            for (tagged, element) in leaf.iter() {
                let hash = self.hash_of_element(ctx, element);
                assert_eq!(tagged, tag(hash), "the tag is of the hash");
                assert!(cell.depth() == 0 || (hash ^ first) >> (64 - cell.depth()) == 0, "an element is in its leaf");
                match element {
                    LeafElement::Elsewhere(number) => own(ctx.log.recall(number), self.form.kind()),
                    LeafElement::Here(bytes) if self.form == ElementForm::Pair => pair::check(bytes).expect("a pair"),
                    LeafElement::Here(_) => {}
                }
            }
            true
        });
        assert_eq!(len, self.len, "elements of {id:?}");
        assert_eq!(bytes, self.object_bytes, "bytes of the objects of {id:?}");
    }
}
