//! Somebody who wants to know which keys clients have read, and of every change of a key: client-side caching.
//!
//! ```text
//!  Tx::changed, expiry, eviction --on? one relaxed load--> Observer::changed(key)     shards held: it takes leaf locks only
//! ```
//! A key that is read and remembered under its shard's lock is reported when it changes, since the change needs that
//! lock too. Not here: who is told, and how (the server).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, atomic::AtomicBool};

use varve_index::Slot;

use crate::shard::Shard;
use crate::store::Store;
use crate::worker::{Local, Worker};

/// On whose behalf something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    /// The worker that does it.
    pub worker: usize,
    /// The connection that asked for it; 0 for what the store does by itself.
    pub client: u64,
}

/// Who wants to know. Called with shards held: it may take locks that are leaves, and waits for nobody.
pub trait Observer: Send + Sync {
    /// A client has read a key and keeps what it read.
    fn read(&self, client: u64, key: &[u8]);
    /// A key has changed, or is gone; in which database is not told.
    fn changed(&self, by: Author, key: &[u8]);
    /// A database was emptied.
    fn emptied(&self, by: Author);
}

/// The store's place for an observer.
#[derive(Default)]
pub(crate) struct Observed {
    on: AtomicBool,
    observer: OnceLock<Arc<dyn Observer>>,
}

impl Store {
    /// Says who wants to know; at most once, before [`Store::observe`].
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        assert!(self.observed.observer.set(observer).is_ok(), "a store has one observer");
    }

    /// Reports to the observer from now on, or not. Without it a change costs one relaxed load.
    pub fn observe(&self, on: bool) {
        assert!(!on || self.observed.observer.get().is_some(), "somebody to report to");
        self.observed.on.store(on, Relaxed);
    }

    /// The observer, while it wants to know.
    #[inline]
    pub fn observer(&self) -> Option<&dyn Observer> {
        if self.observed.on.load(Relaxed) { self.observed.observer.get().map(|observer| &**observer) } else { None }
    }

    /// Reports that a database was emptied.
    pub(crate) fn report_emptied(&self, local: &Local) {
        if let Some(observer) = self.observer() {
            observer.emptied(Author { worker: local.id, client: local.client });
        }
    }
}

impl Worker {
    /// Sets on whose behalf the next commands run: a connection's number, 0 for nobody's.
    #[inline]
    pub fn set_client(&mut self, client: u64) {
        self.local.client = client;
    }

    /// Sets whether the next commands leave the clocks of the keys that they use as they are (CLIENT NO-TOUCH).
    #[inline]
    pub fn set_no_touch(&mut self, no_touch: bool) {
        self.local.no_touch = no_touch;
    }
}

impl Local {
    /// Reports a change on behalf of the client that is served.
    #[inline]
    pub(crate) fn report_changed(&self, store: &Store, key: &[u8]) {
        if let Some(observer) = store.observer() {
            observer.changed(Author { worker: self.id, client: self.client }, key);
        }
    }

    /// Reports that the store is about to remove the key of an entry by itself.
    #[inline]
    pub(crate) fn report_gone(&self, store: &Store, shard: &Shard, slot: Slot) {
        if let Some(observer) = store.observer() {
            let object = shard.access.open(&store.log, shard.index.get(slot));
            observer.changed(Author { worker: self.id, client: 0 }, object.key());
        }
    }
}
