//! Changing a collection: a key is opened for a change once, and what changes it asks for the [`Writable`] that came of it.
//!
//! ```text
//! open_mut --> Writable --+-- small   edit_packed, edit_integers, edit_leaf, change_value, shrink; outgrow, make_big
//!                         `-- big     change_big, change_near;            make_small
//! no key   --> put_small, put_big --> Writable
//! ```
//! The walker of a walk under way sees the key's object when the key is opened for a change, before any of its bytes
//! changes: once, though a command may open its key once for each element (ZADD of several members, HGETDEL).
//!
//! A small collection's value is the whole buffer of its packed node, integer set or packed leaf, free room included: an
//! edit that fits changes it in place. One that does not fit writes a new object, a quarter larger than needed. A stream's
//! value has no free room, but its object may. Nothing here counts a change.

use varve_base::Ref;
use varve_collection::zset::small::SmallZset;
use varve_collection::{Collection, CollectionId, ReadCtx, WriteCtx};
use varve_packed::Full;
use varve_packed::intset::{IntSet, IntSetMut, Width};
use varve_packed::leaf::{PackedLeaf, PackedLeafMut, leaf_bytes};
use varve_packed::node::{Node, NodeMut};
use varve_segment::{Access, Log, NewObject, NewValue, ObjectKind, Owner};

use super::opened::Opened;
use super::strings::class_of;
use super::{Changing, Found, Kept, Tx};
use crate::keyspace::door::{RootTransfer, Shown};
use crate::state::key::Key;
use crate::state::link::{Encoding, Link};
use crate::state::shapes::SMALL_BYTES_MAX;
use crate::state::small::{Small, dated_value, due_of, leaf_of, leaf_span};
use crate::state::types::{Type, WrongType};

/// A small value of at most this many bytes is not made shorter because it has become too large for what it holds.
const SHRINK_FROM: usize = 256;

/// A key that may be changed: the walker of a walk under way has seen it as it was.
pub(super) struct Writable {
    key: Changing,
    link: Option<Link>,
}

/// The form of a new key's value.
enum NewForm<'v> {
    Small(Encoding, &'v [u8]),
    Big(Link),
}

impl Writable {
    /// The key, to read.
    #[inline(always)]
    pub(super) fn opened(&self) -> Opened {
        Opened { at: self.key.found, link: self.link }
    }

    /// True for a big collection.
    #[inline(always)]
    pub(super) fn is_big(&self) -> bool {
        self.link.is_some()
    }

    #[inline(always)]
    fn place(&self) -> u32 {
        self.link.expect("a big collection has a link").place
    }
}

/// Fields for which a small hash is written anew at once: more would have more bytes than it may, and would make it a big one though
/// they take the places of others.
pub const REWRITTEN_AT_ONCE: usize = 32;

impl Tx<'_> {
    /// Opens a key that must hold this type for a change, if there is one. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub(super) fn open_mut(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<Writable>, WrongType> {
        self.open_mut_inlined(k, ty)
    }

    /// [`Tx::open_mut`] inlined, for the commands that nearly every request is.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline(always)]
    pub(super) fn open_mut_inlined(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<Writable>, WrongType> {
        let Some(Opened { at, link }) = self.open_inlined(k, ty)? else { return Ok(None) };
        Ok(Some(Writable { key: self.before(at), link }))
    }

    /// The bytes of a small collection, its free room included.
    pub(super) fn small_value(&self, w: &Writable) -> &[u8] {
        debug_assert!(!w.is_big(), "a big collection is no value");
        self.object_at(w.key.found).value()
    }

    /// A sorted set.
    #[inline]
    pub(super) fn scored(&self, w: &Writable) -> SmallZset<'_> {
        debug_assert!(!w.is_big(), "a big collection has many leaves");
        SmallZset::open(self.object_at(w.key.found).value())
    }

    /// A packed value.
    #[inline]
    pub(super) fn packed(&self, w: &Writable) -> Node<'_> {
        debug_assert!(!w.is_big(), "a big collection has no packed value");
        Node::open(self.object_at(w.key.found).value())
    }

    /// A set of integers.
    #[inline]
    pub(super) fn integers(&self, w: &Writable) -> IntSet<'_> {
        debug_assert!(!w.is_big(), "a big collection is no set of integers");
        IntSet::open(self.object_at(w.key.found).value())
    }

    /// The leaf of a hash, or of a set that has members other than integers.
    #[inline]
    pub(super) fn leaf(&self, w: &Writable) -> PackedLeaf<'_> {
        debug_assert!(!w.is_big(), "a big collection has many leaves");
        PackedLeaf::open(self.object_at(w.key.found).value())
    }

    /// True for a collection in its key's object that is, or has been, beyond the limits of a small one.
    #[inline]
    pub(super) fn is_outgrown(&self, w: &Writable) -> bool {
        Encoding::of(self.object_at(w.key.found).tag()) == Encoding::Outgrown
    }

    /// True for a hash in its key's object that has fields which expire.
    #[inline]
    pub(super) fn is_dated(&self, w: &Writable) -> bool {
        Encoding::of(self.object_at(w.key.found).tag()) == Encoding::Dated
    }

    /// Bytes of the leaf in the value of a small hash.
    pub(super) fn leaf_span(&self, w: &Writable) -> usize {
        leaf_span(&self.object_at(w.key.found))
    }

    /// Has `edit` change a copy of the leaf of a small hash, or an empty one without a key, in which there is room for `more` bytes,
    /// and makes that the key's value, if `edit` gives something and the value has at most `most` bytes: else there is `None`, and
    /// nothing has changed. A leaf that is left empty is not written: the caller removes the key.
    pub(super) fn rewrite_fields<R>(
        &mut self,
        k: &Key<'_>,
        w: &mut Option<Writable>,
        (more, most): (usize, usize),
        edit: impl FnOnce(&mut PackedLeafMut<'_>) -> Option<R>,
    ) -> Option<R> {
        let (mut bytes, mut before_ms) = (Vec::new(), None);
        match w {
            Some(w) => {
                let object = self.object_at(w.key.found);
                let leaf = leaf_of(&object);
                before_ms = due_of(&object);
                bytes.resize(leaf.copied_bytes() + leaf.len() + more, 0);
                leaf.copy_into(&mut bytes).expect("a larger buffer");
            }
            None => {
                bytes.resize(leaf_bytes(0, 0, 0) + more, 0);
                PackedLeafMut::init(&mut bytes).expect("there is room for a head");
            }
        }
        let mut leaf = PackedLeafMut::open(&mut bytes);
        let done = edit(&mut leaf)?;
        if leaf.leaf().is_empty() {
            return Some(done);
        }
        let (encoding, value) = dated_value(leaf.leaf());
        if value.len() > most {
            return None;
        }
        let before = w.as_ref().map(|w| w.key.found.r);
        match w {
            Some(w) if self.is_dated(w) && encoding == Encoding::Dated => self.put_small_value(k, w, &value),
            Some(w) => self.make_small(k, w, encoding, &value),
            None => *w = Some(self.put_small(k, None, Type::Hash, encoding, &value)),
        }
        let is_new = w.as_ref().map(|w| w.key.found.r) != before;
        self.follow_small_fields(k, is_new, before_ms);
        Some(done)
    }

    /// Has a small collection named as a big one from now on. Its form stays, which must not follow from that.
    #[cold]
    pub(super) fn outgrow(&mut self, w: &Writable) {
        debug_assert!(!w.is_big() && !self.is_outgrown(w), "it is named as a big one already");
        let mut object = self.held.at_mut(w.key.found.shard).open_mut(self.store.log(), w.key.found.r, w.key.shown);
        object.set_tag(Encoding::Outgrown.tag());
    }

    /// Most bytes that a collection of this type and encoding may have in its key's object, free room not counted.
    #[inline]
    pub(super) fn bytes_max(&self, ty: Type, is_outgrown: bool) -> usize {
        if is_outgrown { self.store.shapes().small(ty).outgrown_bytes() } else { SMALL_BYTES_MAX }
    }

    /// Changes a leaf, which gets the room that `edit` asks for, and some for `ahead` bytes more ([`with_room`]), as long as
    /// it may have `most` bytes.
    ///
    /// # Errors
    /// If it may not have as many; then nothing has changed.
    #[inline]
    pub(super) fn edit_leaf<R>(
        &mut self,
        k: &Key<'_>,
        w: &mut Writable,
        most: usize,
        ahead: impl Fn() -> usize,
        edit: impl Fn(&mut PackedLeafMut<'_>) -> Result<R, Full>,
    ) -> Result<R, Full> {
        loop {
            match self.change_leaf(w, &edit) {
                Err(Full { needed }) => match with_room(needed, most, &ahead) {
                    Some(bytes) => self.resize(k, w, bytes),
                    None => return Err(Full { needed }),
                },
                done => return done,
            }
        }
    }

    /// Changes a leaf in the room that it has.
    #[inline]
    pub(super) fn change_leaf<R>(&mut self, w: &Writable, change: impl FnOnce(&mut PackedLeafMut<'_>) -> R) -> R {
        self.change_value(w, |value| change(&mut PackedLeafMut::open(value)))
    }

    /// Changes a small value in the bytes that it has.
    #[inline]
    pub(super) fn change_value<R>(&mut self, w: &Writable, change: impl FnOnce(&mut [u8]) -> R) -> R {
        debug_assert!(!w.is_big(), "a big collection has many leaves");
        let mut object = self.held.at_mut(w.key.found.shard).open_mut(self.store.log(), w.key.found.r, w.key.shown);
        change(object.value_mut())
    }

    /// Writes a small value anew, in the bytes that it has if `needed` are not more, else in `bytes` bytes, which
    /// `fill` fills.
    pub(super) fn write_anew(
        &mut self,
        k: &Key<'_>,
        w: &mut Writable,
        (needed, bytes): (usize, usize),
        fill: impl FnOnce(&mut [u8]),
    ) {
        debug_assert!(needed <= bytes, "{needed} bytes in {bytes}");
        if needed <= self.object_at(w.key.found).value().len() {
            return self.change_value(w, fill);
        }
        self.with_scratch(bytes, |tx, scratch| {
            fill(scratch);
            tx.put_value(k, w, scratch);
        });
    }

    /// Changes a packed value. Before `edit` runs the node has room for `more` bytes of entries beyond those that it has,
    /// so nothing that adds no more can fail for lack of it.
    pub(super) fn edit_packed<R>(
        &mut self,
        k: &Key<'_>,
        w: &mut Writable,
        more: usize,
        edit: impl FnOnce(&mut NodeMut<'_>) -> R,
    ) -> R {
        if more > 0 && self.packed(w).room() < more || self.is_pinned(w) {
            let needed = self.packed(w).needed_bytes(more);
            self.resize(k, w, needed + needed / 4);
        }
        let mut object = self.held.at_mut(w.key.found.shard).open_mut(self.store.log(), w.key.found.r, w.key.shown);
        let mut node = NodeMut::open(object.value_mut());
        let done = edit(&mut node);
        let (has, needs) = (object.value().len(), Node::open(object.value()).needed_bytes(0));
        if is_sparse(has, needs) {
            self.resize(k, w, needs + needs / 4);
        }
        done
    }

    /// Changes a set of integers, which has room for `value` when `edit` runs.
    pub(super) fn edit_integers<R>(
        &mut self,
        k: &Key<'_>,
        w: &mut Writable,
        value: i64,
        edit: impl FnOnce(&mut IntSetMut<'_>) -> R,
    ) -> R {
        let (needed, has) = (self.integers(w).needed_bytes(value), self.object_at(w.key.found).value().len());
        if needed > has || self.is_pinned(w) {
            let spare = needed / 4 / Width::of(value).bytes() * Width::of(value).bytes();
            let copied = self.integers(w).copied_bytes();
            self.resize(k, w, needed.max(copied) + spare);
        }
        let mut object = self.held.at_mut(w.key.found.shard).open_mut(self.store.log(), w.key.found.r, w.key.shown);
        edit(&mut IntSetMut::open(object.value_mut()))
    }

    /// Takes integers out of a set of integers.
    pub(super) fn thin_integers<R>(
        &mut self,
        k: &Key<'_>,
        w: &mut Writable,
        edit: impl FnOnce(&mut IntSetMut<'_>) -> R,
    ) -> R {
        // A value that the set has needs no room.
        let has = self.integers(w).get(0);
        self.edit_integers(k, w, has, edit)
    }

    /// Makes a small value shorter whose free room is most of it.
    pub(super) fn shrink(&mut self, k: &Key<'_>, w: &mut Writable) {
        let object = self.object_at(w.key.found);
        let Some(small) = Small::of(&object) else { return };
        let (has, needs) = (object.value().len(), small.copied_bytes());
        if is_sparse(has, needs) {
            self.resize(k, w, needs + needs / 4);
        }
    }

    /// Writes a small value anew in `bytes` bytes, where it lies if its object has the room. Room that it does not fill
    /// counts as dead, and a drain leaves it behind.
    #[cold]
    pub(super) fn resize(&mut self, k: &Key<'_>, w: &mut Writable, bytes: usize) {
        self.with_scratch(bytes, |tx, scratch| {
            let object = tx.object_at(w.key.found);
            let small = Small::of(&object).expect("a small collection");
            small.copy_into(scratch, Type::of_kind(object.kind()).grows_at());
            tx.put_value(k, w, scratch);
        });
    }

    /// Gives a small collection that has no free room in its value another value, which may be longer: an object that is
    /// written anew gets room for a quarter more beside it.
    pub(super) fn put_small_value(&mut self, k: &Key<'_>, w: &mut Writable, value: &[u8]) {
        self.put_value_with_room(k, w, value, value.len() / 4);
    }

    /// Gives a small collection another value of its form: where it lies if the object has the room, else in another object.
    fn put_value(&mut self, k: &Key<'_>, w: &mut Writable, value: &[u8]) {
        self.put_value_with_room(k, w, value, 0);
    }

    /// [`Tx::put_value`], with room for `spare` bytes more in an object that is written anew.
    fn put_value_with_room(&mut self, k: &Key<'_>, w: &mut Writable, value: &[u8], spare: usize) {
        let mut object = self.held.at_mut(w.key.found.shard).open_mut(self.store.log(), w.key.found.r, w.key.shown);
        let (has, room) = (object.value().len(), object.read().room());
        if object.pinned() || value.len() > room {
            let encoding = Encoding::of(object.read().tag());
            return self.replace_value(k, w, (encoding, spare), value);
        }
        if value.len() < has {
            object.shorten_value(value.len());
        } else {
            assert!(object.resize_value(value.len()), "a value of {has} bytes gets {} of {room}", value.len());
        }
        object.value_mut().copy_from_slice(value);
    }

    /// A value that somebody reads where it lies is not replaced there.
    fn is_pinned(&mut self, w: &Writable) -> bool {
        self.held.at_mut(w.key.found.shard).is_pinned(self.store.log(), w.key.found.r)
    }

    /// Gives a collection a small value, its expiry kept. A big one that it had is freed in the background.
    pub(super) fn make_small(&mut self, k: &Key<'_>, w: &mut Writable, encoding: Encoding, value: &[u8]) {
        debug_assert!(encoding != Encoding::Big, "a small value");
        self.replace_value(k, w, (encoding, 0), value);
        w.link = None;
    }

    /// Turns a small collection into a big one, which `build` makes of the old value.
    pub(super) fn make_big(
        &mut self,
        k: &Key<'_>,
        w: &mut Writable,
        build: impl FnOnce(&mut WriteCtx<'_>, &[u8]) -> Collection,
    ) {
        debug_assert!(!w.is_big(), "it is big already");
        let link = self.with_scratch(0, |tx, old| {
            old.extend_from_slice(tx.object_at(w.key.found).value());
            tx.found(w.key.found.shard, |ctx| build(ctx, old))
        });
        self.replace_value(k, w, (Encoding::Big, 0), &link.bytes());
        w.link = Some(link);
    }

    /// Puts another object in the place of a key's, with room for `spare` bytes beyond its value.
    fn replace_value(&mut self, k: &Key<'_>, w: &mut Writable, (encoding, spare): (Encoding, usize), value: &[u8]) {
        let object = self.object_at(w.key.found);
        let (kind, expiry) = (object.kind(), object.expiry_ms());
        let r = self.append_key(k, kind, (encoding, spare), value, self.kept(k, Some(&w.key), expiry));
        self.install(k, Some(w.key), r, expiry, RootTransfer::None);
        w.key.found.r = r;
    }

    /// Makes a key with a small collection, in the place of whatever it held.
    pub(super) fn put_small(
        &mut self,
        k: &Key<'_>,
        old: Option<Found>,
        ty: Type,
        encoding: Encoding,
        value: &[u8],
    ) -> Writable {
        self.put(k, old, ty, NewForm::Small(encoding, value))
    }

    /// Makes a key with a big collection, in the place of whatever it held.
    pub(super) fn put_big(
        &mut self,
        k: &Key<'_>,
        old: Option<Found>,
        ty: Type,
        build: impl FnOnce(&mut WriteCtx<'_>) -> Collection,
    ) -> Writable {
        let at = self.held.position(self.store.shard_of(k.hash));
        let link = self.found(at, build);
        self.put(k, old, ty, NewForm::Big(link))
    }

    /// Makes a key with a big collection that was built before under a number of its own.
    pub(super) fn put_built(
        &mut self,
        k: &Key<'_>,
        old: Option<Found>,
        ty: Type,
        id: CollectionId,
        collection: Collection,
    ) -> Writable {
        let shard = self.store.shard_of(k.hash);
        let at = self.held.position(shard);
        let link = self.held.at_mut(at).place_root(self.store.ground(), shard, id, collection);
        self.put(k, old, ty, NewForm::Big(link))
    }

    /// Makes a key with the big collection that a root of its shard is.
    pub(super) fn put_link(&mut self, k: &Key<'_>, old: Option<Found>, ty: Type, link: Link) -> Writable {
        self.put(k, old, ty, NewForm::Big(link))
    }

    fn put(&mut self, k: &Key<'_>, old: Option<Found>, ty: Type, form: NewForm<'_>) -> Writable {
        let old = old.map(|p| self.before(p));
        let kept = self.kept(k, old.as_ref(), None);
        let (r, link) = match form {
            NewForm::Small(encoding, value) => (self.append_key(k, ty.kind(), (encoding, 0), value, kept), None),
            NewForm::Big(link) => (self.append_key(k, ty.kind(), (Encoding::Big, 0), &link.bytes(), kept), Some(link)),
        };
        self.install(k, old, r, None, RootTransfer::None);
        let at = self.live_inlined(k).expect("it was put there just now");
        Writable { key: Changing { found: at, shown: Shown::of_new() }, link }
    }

    fn append_key(
        &mut self,
        k: &Key<'_>,
        kind: ObjectKind,
        (encoding, spare): (Encoding, usize),
        value: &[u8],
        kept: Kept,
    ) -> Ref {
        let new = NewObject {
            kind,
            owner: Owner::Database(k.db),
            key: k.bytes,
            value: NewValue::Bytes(value),
            room: value.len() + spare,
            expiry_ms: kept.expiry_ms,
            saved: kept.saved,
            clock: self.local.new_clock(self.store),
            tag: encoding.tag(),
            class: class_of(kept.expiry_ms),
        };
        self.local.appender().append(self.store.log(), &new)
    }

    /// Makes a big collection in a held shard: a number, its elements, a root.
    pub(super) fn found(&mut self, shard: usize, build: impl FnOnce(&mut WriteCtx<'_>) -> Collection) -> Link {
        let (store, id) = (self.store, self.held.id(shard));
        let appender = self.local.appender();
        self.held.at_mut(shard).found_root(store.ground(), appender, id, build)
    }

    /// Changes a big collection.
    #[inline(always)]
    pub(super) fn change_big<R>(
        &mut self,
        w: &Writable,
        work: impl FnOnce(&mut Collection, &mut WriteCtx<'_>) -> R,
    ) -> R {
        let (ground, appender) = (self.store.ground(), self.local.appender());
        let shard = self.held.at_mut(w.key.found.shard);
        shard.change_root(ground, appender, w.place(), w.key.shown, |root, ctx| work(&mut root.body, ctx))
    }

    /// A big collection, for a change that needs neither its tables nor room in the log.
    #[inline(always)]
    pub(super) fn change_near(&mut self, w: &Writable) -> (&mut Collection, &Log, &mut Access) {
        let (collection, access) = self.held.at_mut(w.key.found.shard).change_near(w.place(), w.key.shown);
        (collection, self.store.log(), access)
    }

    /// Removes the key of a collection. The removal is a change by itself.
    pub(super) fn remove_opened(&mut self, k: &Key<'_>, w: &Writable) {
        self.remove_at(k, w.key);
    }

    /// Copies a big collection to another key.
    pub(super) fn copy_big(
        &mut self,
        to: &Key<'_>,
        (source, link): (Found, Link),
        old: Option<Found>,
        expiry: Option<i64>,
    ) {
        let (store, id) = (self.store, self.store.shard_of(to.hash));
        let (number, kind) = (store.ground().take_number(id), self.object_at(source).kind());
        let shard = self.held.at(source.shard);
        let from = ReadCtx { log: store.log(), access: shard.access(), seed: store.seed() };
        let copy = shard.root(link.place).body.copy(from, self.local.appender(), number);
        let target = self.held.position(id);
        let link = self.held.at_mut(target).place_root(store.ground(), id, number, copy);
        let old = old.map(|p| self.before(p));
        let r = self.append_key(to, kind, (Encoding::Big, 0), &link.bytes(), self.kept(to, old.as_ref(), expiry));
        self.publish(to, old, r, expiry);
        self.follow_fields(to, true);
    }

    /// Brings the root of a detached key object to the shard of the key `to`, if it has one and the shard is another.
    /// Gives the object, written anew with the link if the root has moved.
    pub(super) fn carry_root(&mut self, from: usize, r: Ref, to: &Key<'_>) -> Ref {
        let store = self.store;
        let shard = self.held.at_mut(from);
        let Some(link) = shard.link_of(store.log(), r) else { return r };
        let id = store.shard_of(to.hash);
        let target = self.held.position(id);
        if target == from {
            return r;
        }
        let root = self.held.at_mut(from).take_root(store.ground(), link.place);
        let link = self.held.at_mut(target).adopt_root(store.ground(), id, root);
        self.held.at_mut(from).relink_detached(store.log(), r, link);
        r
    }
}

/// Most of a small value's bytes are free room.
fn is_sparse(has: usize, needs: usize) -> bool {
    has > SHRINK_FROM && needs * 2 < has
}

/// The bytes of a leaf that needs `needed` and may have `most`: room for `ahead` bytes more, which its command is going to
/// ask for, or for a quarter more if that is none. Free room counts in `most`, since what is written there later is not
/// looked at again. `None` if the leaf may not have what it needs.
#[inline]
pub(super) fn with_room(needed: usize, most: usize, ahead: impl FnOnce() -> usize) -> Option<usize> {
    if needed > most {
        return None;
    }
    let more = match ahead() {
        0 => needed / 4,
        bytes => bytes,
    };
    Some(needed.saturating_add(more).min(most))
}

/// Bytes of a leaf with elements of these sizes.
///
/// # Errors
/// If they are more than `most`: the bytes of a leaf with as many of the first ones as fit.
pub(super) fn leaf_bytes_of(sizes: impl Iterator<Item = usize>, most: usize) -> Result<usize, usize> {
    let (mut count, mut bytes, mut longest, mut fit) = (0, 0, 0, leaf_bytes(0, 0, 0));
    for size in sizes {
        (count, bytes, longest) = (count + 1, bytes + size, longest.max(size));
        let needed = leaf_bytes(count, bytes, longest);
        if needed > most {
            return Err(fit);
        }
        fit = needed;
    }
    Ok(fit)
}

/// The sum of these numbers of bytes; those behind the one with which it reaches `most` are not looked at.
pub(super) fn sum_up_to(most: usize, bytes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    for bytes in bytes {
        if sum >= most {
            break;
        }
        sum += bytes;
    }
    sum
}
