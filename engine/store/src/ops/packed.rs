//! What the operations on lists, hashes, sets and sorted sets stand on: typed lookups, packed values, big collections.
//!
//! ```text
//! look --> Found and Link: all that a command on one key asks of its object, read in one go
//! typed / typed_read --> Found --> encoding --+-- Packed    packed, edit_packed, put_small
//!                                             +-- Integers  integers, edit_integers, put_small
//!                                             `-- Big       big_ref, big;   make_big, put_big
//! ```
//! A small collection's value is the whole buffer of its packed node or integer set, free room included: an edit that
//! fits changes it in place. One that does not fit writes a new object, a quarter larger than needed. A [`Found`] is
//! updated by what moves its object, and not to be used after any other change of the key.

use varve_collection::{Collection, CollectionId, ReadCtx, WriteCtx};
use varve_packed::intset::{IntSet, IntSetMut, Width};
use varve_packed::node::{Grow, Node, NodeMut};
use varve_segment::{NewObject, NewValue, ObjectKind, Owner};

use super::strings::class_of;
use super::{Found, Kept, Tx};
use crate::keyspace::door::RootTransfer;
use crate::keyspace::shard::Shard;
use crate::state::clock::is_over;
use crate::state::key::Key;
use crate::state::kinds;
use crate::state::kinds::kind_of;
use crate::state::link::{Encoding, Link};
use crate::state::types::{Type, WrongType};

/// Below this many bytes a packed value is not written anew only because it has become too large for what it holds.
const SHRINK_FROM: usize = 256;

impl Tx<'_> {
    /// A key that must hold this type, if there is one: for writers, no hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub(super) fn typed(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<Found>, WrongType> {
        Ok(self.look(k, ty)?.map(|(p, _)| p))
    }

    /// As `typed`, and where the root is of a big collection.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline(always)]
    pub(super) fn look(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<(Found, Option<Link>)>, WrongType> {
        let store = self.store;
        let at = self.held.position(store.shard_of(k.hash));
        let shard = self.held.at(at);
        let mut found = None;
        let slot = shard.index().find(k.hash, |r| {
            let object = shard.open(store.log(), r);
            let is_it = k.is_of(&object);
            if is_it {
                found = Some((r, object));
            }
            is_it
        });
        let (Some(slot), Some((r, object))) = (slot, found) else { return Ok(None) };
        if is_over(object.expiry_ms(), self.local.now_ms()) {
            if !self.keeps_expired {
                self.expire(at, slot);
            }
            return Ok(None);
        }
        let is_right = object.kind() == kind_of(ty);
        let is_big = is_right && ty != Type::String && Encoding::of(object.tag()) == Encoding::Big;
        let link = is_big.then(|| Link::read(object.value()));
        if !self.local.no_touch() {
            let before = object.clock();
            let clock = self.local.used_clock(store, before);
            if clock != before {
                self.held.at_mut(at).set_clock(store.log(), r, clock);
            }
        }
        if is_right { Ok(Some((Found { shard: at, slot, r }, link))) } else { Err(WrongType) }
    }

    /// As `look`, for readers: counts a hit or a miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline(always)]
    pub(super) fn look_read(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<(Found, Option<Link>)>, WrongType> {
        let found = self.look(k, ty);
        self.note_read(k, !matches!(found, Ok(None)));
        found
    }

    /// As `typed`, for readers: counts a hit or a miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub(super) fn typed_read(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<Found>, WrongType> {
        let found = self.typed(k, ty);
        self.note_read(k, !matches!(found, Ok(None)));
        found
    }

    /// How a collection is held; `None` for a string.
    #[inline]
    pub(super) fn encoding(&self, p: Found) -> Option<Encoding> {
        let object = self.object_at(p);
        (object.kind() != kinds::STRING).then(|| Encoding::of(object.tag()))
    }

    /// A packed value.
    #[inline]
    pub(super) fn packed(&self, p: Found) -> Node<'_> {
        Node::open(self.object_at(p).value())
    }

    /// A set of integers.
    #[inline]
    pub(super) fn integers(&self, p: Found) -> IntSet<'_> {
        IntSet::open(self.object_at(p).value())
    }

    /// Changes a packed value. Before `edit` runs the node has room for `more` bytes of entries beyond those that it has,
    /// so nothing that adds no more can fail for lack of it. Counts no change.
    pub(super) fn edit_packed<R>(
        &mut self,
        k: &Key<'_>,
        p: &mut Found,
        more: usize,
        edit: impl FnOnce(&mut NodeMut<'_>) -> R,
    ) -> R {
        if more > 0 && self.packed(*p).room() < more || self.is_pinned(*p) {
            self.rewrite_packed(k, p, more);
        }
        let shown = self.before(*p).shown;
        let mut object = self.held.at_mut(p.shard).open_mut(self.store.log(), p.r, shown);
        let mut node = NodeMut::open(object.value_mut());
        let done = edit(&mut node);
        let (has, needs) = (object.value().len(), Node::open(object.value()).needed_bytes(0));
        if has > SHRINK_FROM && needs * 4 < has {
            self.rewrite_packed(k, p, needs / 4);
        }
        done
    }

    /// Writes a packed value anew, with room for `more` bytes of entries and a quarter of it all.
    #[cold]
    fn rewrite_packed(&mut self, k: &Key<'_>, p: &mut Found, more: usize) {
        let mut scratch = self.local.lend_scratch();
        let node = self.packed(*p);
        let needed = node.needed_bytes(more);
        scratch.clear();
        scratch.resize(needed + needed / 4, 0);
        let grow = if self.object_at(*p).kind() == kinds::LIST { Grow::Both } else { Grow::Back };
        node.copy_into(&mut scratch, grow).expect("it has the bytes that the node asked for");
        self.rewrite_small(k, p, Encoding::Packed, &scratch);
        self.local.return_scratch(scratch);
    }

    /// Changes a set of integers, which has room for `value` when `edit` runs. Counts no change.
    pub(super) fn edit_integers<R>(
        &mut self,
        k: &Key<'_>,
        p: &mut Found,
        value: i64,
        edit: impl FnOnce(&mut IntSetMut<'_>) -> R,
    ) -> R {
        let (needed, has) = (self.integers(*p).needed_bytes(value), self.object_at(*p).value().len());
        if needed > has || self.is_pinned(*p) {
            let mut scratch = self.local.lend_scratch();
            let set = self.integers(*p);
            scratch.clear();
            let spare = needed / 4 / Width::of(value).bytes() * Width::of(value).bytes();
            scratch.resize(needed.max(set.copied_bytes()) + spare, 0);
            set.copy_into(&mut scratch).expect("it has the bytes that the set asked for");
            self.rewrite_small(k, p, Encoding::Integers, &scratch);
            self.local.return_scratch(scratch);
        }
        let shown = self.before(*p).shown;
        let mut object = self.held.at_mut(p.shard).open_mut(self.store.log(), p.r, shown);
        edit(&mut IntSetMut::open(object.value_mut()))
    }

    /// As `edit_integers` where nothing is added.
    pub(super) fn thin_integers<R>(
        &mut self,
        k: &Key<'_>,
        p: &mut Found,
        edit: impl FnOnce(&mut IntSetMut<'_>) -> R,
    ) -> R {
        if self.is_pinned(*p) {
            // Any value has room that is there.
            let has = self.integers(*p).get(0);
            return self.edit_integers(k, p, has, edit);
        }
        let shown = self.before(*p).shown;
        let mut object = self.held.at_mut(p.shard).open_mut(self.store.log(), p.r, shown);
        edit(&mut IntSetMut::open(object.value_mut()))
    }

    /// A value in a run that is being sent from where it lies cannot change.
    fn is_pinned(&mut self, p: Found) -> bool {
        self.held.at_mut(p.shard).is_pinned(self.store.log(), p.r)
    }

    /// Gives a collection another small value, its expiry kept. Counts no change.
    pub(super) fn rewrite_small(&mut self, k: &Key<'_>, p: &mut Found, encoding: Encoding, value: &[u8]) {
        let object = self.object_at(*p);
        let (kind, expiry) = (object.kind(), object.expiry_ms());
        let changing = self.before(*p);
        let r = self.append_key(k, kind, encoding, value, self.kept(Some(&changing), expiry));
        self.install(k, Some(changing), r, expiry, RootTransfer::None);
        p.r = r;
    }

    /// Makes a key with a small collection, in the place of whatever it held. Counts no change.
    pub(super) fn put_small(
        &mut self,
        k: &Key<'_>,
        old: Option<Found>,
        ty: Type,
        encoding: Encoding,
        value: &[u8],
    ) -> Found {
        let old = old.map(|p| self.before(p));
        let r = self.append_key(k, kind_of(ty), encoding, value, self.kept(old.as_ref(), None));
        self.install(k, old, r, None, RootTransfer::None);
        self.live(k).expect("it was put there just now")
    }

    fn append_key(
        &mut self,
        k: &Key<'_>,
        kind: ObjectKind,
        encoding: Encoding,
        value: &[u8],
        kept: Kept,
    ) -> varve_base::Ref {
        let new = NewObject {
            kind,
            owner: Owner::Database(k.db),
            key: k.bytes,
            value: NewValue::Bytes(value),
            room: value.len(),
            expiry_ms: kept.expiry_ms,
            clock: self.local.new_clock(self.store),
            tag: encoding.tag(),
            saved: kept.saved,
            class: class_of(kept.expiry_ms),
        };
        self.local.appender().append(self.store.log(), &new)
    }

    /// Where a big collection is.
    #[inline]
    fn link(&self, p: Found) -> Link {
        Link::read(self.object_at(p).value())
    }

    #[inline(always)]
    fn read_ctx<'a>(&'a self, shard: &'a Shard) -> ReadCtx<'a> {
        ReadCtx { log: self.store.log(), access: shard.access(), seed: self.store.seed() }
    }

    /// Reads a big collection.
    #[inline]
    pub(super) fn big_ref<R>(&self, p: Found, read: impl FnOnce(&Collection, ReadCtx<'_>) -> R) -> R {
        let shard = self.held.at(p.shard);
        read(&shard.root(self.link(p).place).body, self.read_ctx(shard))
    }

    /// As [`Tx::changed`], of a key whose place is known: where nobody watches, waits or observes it costs a few comparisons.
    #[inline(always)]
    pub(super) fn changed_at(&mut self, k: &Key<'_>, p: Found, count: u64) {
        let _ = p;
        self.changed(k, count);
    }

    /// The body that `look` has shown the way to, with what opens its objects.
    #[inline(always)]
    pub(super) fn body_at(&self, p: Found, link: Link) -> (&Collection, ReadCtx<'_>) {
        let shard = self.held.at(p.shard);
        (&shard.root(link.place).body, self.read_ctx(shard))
    }

    /// As `big`, where `look` has shown the way.
    #[inline(always)]
    pub(super) fn big_at<R>(
        &mut self,
        p: Found,
        link: Link,
        work: impl FnOnce(&mut Collection, &mut WriteCtx<'_>) -> R,
    ) -> R {
        let (place, shown) = (link.place, self.before(p).shown);
        let (ground, appender) = (self.store.ground(), self.local.appender());
        self.held.at_mut(p.shard).change_root(ground, appender, place, shown, |root, hands| work(&mut root.body, hands))
    }

    /// The body of a big collection, with what opens its objects: for who keeps what it borrows.
    #[inline]
    pub(super) fn big_parts(&self, p: Found) -> (&Collection, ReadCtx<'_>) {
        let shard = self.held.at(p.shard);
        (&shard.root(self.link(p).place).body, self.read_ctx(shard))
    }

    /// Changes a big collection. Counts no change.
    #[inline]
    pub(super) fn big<R>(&mut self, p: Found, work: impl FnOnce(&mut Collection, &mut WriteCtx<'_>) -> R) -> R {
        let (place, shown) = (self.link(p).place, self.before(p).shown);
        let (ground, appender) = (self.store.ground(), self.local.appender());
        self.held.at_mut(p.shard).change_root(ground, appender, place, shown, |root, hands| work(&mut root.body, hands))
    }

    /// Turns a small collection into a big one, which `build` makes of the old value. Counts no change.
    pub(super) fn make_big(
        &mut self,
        k: &Key<'_>,
        p: &mut Found,
        build: impl FnOnce(&mut WriteCtx<'_>, &[u8]) -> Collection,
    ) {
        let object = self.object_at(*p);
        let (kind, expiry) = (object.kind(), object.expiry_ms());
        let mut old = self.local.lend_scratch();
        old.clear();
        old.extend_from_slice(self.object_at(*p).value());
        let link = self.found(p.shard, |hands| build(hands, &old));
        self.local.return_scratch(old);
        let changing = self.before(*p);
        let r = self.append_key(k, kind, Encoding::Big, &link.bytes(), self.kept(Some(&changing), expiry));
        self.install(k, Some(changing), r, expiry, RootTransfer::None);
        p.r = r;
    }

    /// Turns a big collection into a small one with this value; the old one is freed in the background. Counts no change.
    pub(super) fn make_small(&mut self, k: &Key<'_>, p: &mut Found, encoding: Encoding, value: &[u8]) {
        debug_assert_eq!(self.encoding(*p), Some(Encoding::Big));
        self.rewrite_small(k, p, encoding, value);
    }

    /// Makes a key with a big collection, in the place of whatever it held. Counts no change.
    pub(super) fn put_big(
        &mut self,
        k: &Key<'_>,
        old: Option<Found>,
        ty: Type,
        build: impl FnOnce(&mut WriteCtx<'_>) -> Collection,
    ) -> Found {
        let at = self.held.position(self.store.shard_of(k.hash));
        let link = self.found(at, build);
        let old = old.map(|p| self.before(p));
        let r = self.append_key(k, kind_of(ty), Encoding::Big, &link.bytes(), self.kept(old.as_ref(), None));
        self.install(k, old, r, None, RootTransfer::None);
        self.live(k).expect("it was put there just now")
    }

    /// As `put_big`, of a body that was built before under a slot number of its own.
    pub(super) fn put_built(
        &mut self,
        k: &Key<'_>,
        old: Option<Found>,
        ty: Type,
        slot: CollectionId,
        body: Collection,
    ) {
        let id = self.store.shard_of(k.hash);
        let shard = self.held.at_mut(self.held.position(id));
        let link = shard.place_root(self.store.ground(), id, slot, body);
        let old = old.map(|p| self.before(p));
        let r = self.append_key(k, kind_of(ty), Encoding::Big, &link.bytes(), self.kept(old.as_ref(), None));
        self.install(k, old, r, None, RootTransfer::None);
    }

    /// Founds a collection in a held shard: a slot number, a body, a root.
    fn found(&mut self, shard: usize, build: impl FnOnce(&mut WriteCtx<'_>) -> Collection) -> Link {
        let store = self.store;
        let id = self.held.id(shard);
        let appender = self.local.appender();
        self.held.at_mut(shard).found_root(store.ground(), appender, id, build)
    }

    /// Copies a big collection to another key.
    pub(super) fn copy_big(&mut self, to: &Key<'_>, source: Found, old: Option<Found>, expiry: Option<i64>) {
        let store = self.store;
        let id = store.shard_of(to.hash);
        let slot = store.collections().take(id);
        let kind = self.object_at(source).kind();
        let shard = self.held.at(source.shard);
        let root = shard.root(self.link(source).place);
        let from = ReadCtx { log: store.log(), access: shard.access(), seed: store.seed() };
        let body = root.body.copy(from, self.local.appender(), slot);
        let shard = self.held.at_mut(self.held.position(id));
        let link = shard.place_root(store.ground(), id, slot, body);
        let old = old.map(|p| self.before(p));
        let r = self.append_key(to, kind, Encoding::Big, &link.bytes(), self.kept(old.as_ref(), expiry));
        self.publish(to, old, r, expiry);
    }

    /// Brings the root of a detached key object to the shard of the key `to`, if it has one and the shard is another.
    /// Gives the object, written anew with the link if the root has moved.
    pub(super) fn carry_root(&mut self, from: usize, r: varve_base::Ref, to: &Key<'_>) -> varve_base::Ref {
        let store = self.store;
        let shard = self.held.at_mut(from);
        let Some(link) = shard.link_of(store.log(), r) else { return r };
        let id = store.shard_of(to.hash);
        let target = self.held.position(id);
        if target == from {
            return r;
        }
        let root = self.held.at_mut(from).take_root(link.place);
        let link = self.held.at_mut(target).adopt_root(store.ground(), id, root);
        self.held.at_mut(from).relink_detached(store.log(), r, link);
        r
    }
}
