//! A walker: what sees each object before it changes. A snapshot is one, and so is a reader that takes long.
//!
//! Not here: the calls (`keyspace/door.rs`).

use varve_collection::Collection;
use varve_segment::{Access, Log, Object};

use super::key::database_of;

/// Sees each object before it changes. Called with the object's shard held: it may take locks that are leaves, and waits
/// for nothing.
pub trait Walker: Send + Sync {
    /// The object is about to change or to be removed. Its bytes, and its elements, are as they were.
    fn before(&self, old: &Before<'_>);

    /// Every database is about to be emptied at once.
    fn before_all(&self);
}

/// An object that is about to change.
pub struct Before<'a> {
    object: Object<'a>,
    collection: Option<&'a Collection>,
    log: &'a Log,
    access: &'a Access,
}

impl std::fmt::Debug for Before<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Before").field("db", &self.db()).finish_non_exhaustive()
    }
}

impl<'a> Before<'a> {
    /// The object, with its elements if they are a big collection.
    pub(crate) fn new(
        object: Object<'a>,
        collection: Option<&'a Collection>,
        log: &'a Log,
        access: &'a Access,
    ) -> Before<'a> {
        Before { object, collection, log, access }
    }

    /// The physical number of the key's database.
    pub fn db(&self) -> u16 {
        database_of(&self.object)
    }

    /// The object of the key: its bytes, its kind, its expiry.
    pub fn object(&self) -> &Object<'a> {
        &self.object
    }

    /// The elements of a big collection, with what opens them; `None` for a string or a small collection.
    pub fn collection(&self) -> Option<(&'a Collection, &'a Log, &'a Access)> {
        Some((self.collection?, self.log, self.access))
    }
}
