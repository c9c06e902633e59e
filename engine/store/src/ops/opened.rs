//! Finding a key that must hold a type. Type and encoding of a key's object are asked here and nowhere else: what follows
//! has an [`Opened`], from which the view of the type is made.

use varve_collection::{Collection, ReadCtx};

use super::{Found, Overdue, Tx};
use crate::keyspace::guards::ShardGuards;
use crate::keyspace::store::Store;
use crate::state::clock::is_over;
use crate::state::key::Key;
use crate::state::link::Link;
use crate::state::small::due_of;
use crate::state::types::{Type, WrongType};

/// A live key that holds the type which was asked for.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    pub(super) at: Found,
    /// Where the root of a big collection is; `None` for a string or a small collection.
    pub(super) link: Option<Link>,
}

/// The value of a small collection's key.
#[inline(always)]
pub(super) fn small<'a>(held: &'a ShardGuards<'_>, store: &'a Store, at: Found) -> &'a [u8] {
    held.at(at.shard).open(store.log(), at.r).value()
}

/// The big collection behind a link, and what opens its objects.
#[inline(always)]
pub(super) fn big<'a>(
    held: &'a ShardGuards<'_>,
    store: &'a Store,
    at: Found,
    link: Link,
) -> (&'a Collection, ReadCtx<'a>) {
    let shard = held.at(at.shard);
    let ctx = ReadCtx { log: store.log(), access: shard.access(), seed: store.seed() };
    (&shard.root(link.place).body, ctx)
}

impl Tx<'_> {
    /// The key that must hold this type, if there is one. No hit or miss is counted; the access clock moves.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub(super) fn open(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<Opened>, WrongType> {
        self.open_inlined(k, ty)
    }

    /// [`Tx::open`] inlined, for the commands that nearly every request is.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline(always)]
    pub(super) fn open_inlined(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<Opened>, WrongType> {
        let store = self.store;
        let at = self.held.position(store.shard_of(k.hash));
        let shard = self.held.at(at);
        let mut found = None;
        for (entry, r) in shard.index().candidates(k.hash) {
            let object = shard.open(store.log(), r);
            if k.is_of(&object) {
                found = Some((entry, r, object));
                break;
            }
        }
        let Some((entry, r, object)) = found else { return Ok(None) };
        if is_over(object.expiry_ms(), self.local.now_ms()) && self.overdue != Overdue::Alive {
            self.meet_overdue(at, entry);
            return Ok(None);
        }
        let is_right = object.kind() == ty.kind();
        let link = if is_right && ty != Type::String { Link::of_collection(&object) } else { None };
        let small_due = if ty == Type::Hash && is_right && link.is_none() { due_of(&object) } else { None };
        if !self.local.no_touch() {
            let before = object.clock();
            let clock = self.local.used_clock(store, before);
            if clock != before {
                self.held.at_mut(at).set_clock(store.log(), r, clock);
            }
        }
        if !is_right {
            return Err(WrongType);
        }
        let opened = Opened { at: Found { shard: at, entry, r }, link };
        if ty == Type::Hash {
            let due = match link {
                Some(link) => self.held.at(at).root(link.place).body.next_due_ms(),
                None => small_due,
            };
            if is_over(due, self.local.now_ms()) {
                return self.open_due(opened);
            }
        }
        Ok(Some(opened))
    }

    /// [`Tx::open`] for readers: counts a hit or a miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline]
    pub(super) fn open_read(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<Opened>, WrongType> {
        let found = self.open(k, ty);
        self.note_read(k, !matches!(found, Ok(None)));
        found
    }

    /// [`Tx::open_inlined`] for readers: counts a hit or a miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    #[inline(always)]
    pub(super) fn open_read_inlined(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<Opened>, WrongType> {
        let found = self.open_inlined(k, ty);
        self.note_read(k, !matches!(found, Ok(None)));
        found
    }
}
