//! Keyspace events: what happened to which key, for those who asked to be told.
//!
//! ```text
//!  mask (bits of the classes wanted, 0: none)  --one load and a branch-->  Local::events  --the worker takes them-->
//! ```
//! Operations and handlers queue events in the worker's own list; the executor takes them after each command, with its
//! shards still held, so that events of one key stand in the order of its changes. What a background step finds (keys
//! whose time has come, evicted ones) is taken after the step.
//!
//! Not here: channels, messages, subscribers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_index::IndexEntry;

use super::shard::Shard;
use super::store::Store;
use super::worker::{Local, Worker};
use crate::state::events::{Event, EventClass};
use crate::state::key::database_of;
use crate::state::observe::{Author, Observer};

impl Store {
    /// Sets which classes of events are wanted: bits of [`EventClass`]; 0 for none.
    pub fn set_event_mask(&self, mask: u32) {
        self.event_mask.store(mask, Relaxed);
    }

    /// The classes that are wanted.
    pub fn event_mask(&self) -> u32 {
        self.event_mask.load(Relaxed)
    }

    /// True if events of this class are wanted.
    #[inline]
    pub fn wants(&self, class: EventClass) -> bool {
        self.event_mask.load(Relaxed) & class as u32 != 0
    }
}

impl Local {
    /// Queues an event of a key of a physical database, if its class is wanted.
    #[inline]
    pub(crate) fn note(&mut self, store: &Store, class: EventClass, name: &'static str, db: u16, key: &[u8]) {
        if store.wants(class) {
            self.queue_event(store, name, db, key);
        }
    }

    #[cold]
    fn queue_event(&mut self, store: &Store, name: &'static str, db: u16, key: &[u8]) {
        // Keys of a database that is being swept are gone already.
        if let Some(db) = store.database_map().logical(db) {
            self.events.push(name, db, key);
        }
    }

    /// As [`Local::note`], of the key that an entry of a shard stands for.
    #[inline]
    pub(crate) fn note_object(
        &mut self,
        store: &Store,
        class: EventClass,
        name: &'static str,
        shard: &Shard,
        slot: IndexEntry,
    ) {
        if store.wants(class) {
            let object = shard.access.open(store.log(), shard.index.get(slot));
            self.queue_event(store, name, database_of(&object), object.key());
        }
    }

    /// True if events wait to be taken.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.heads.is_empty()
    }

    /// Takes the events that wait, oldest first.
    pub fn take_events(&mut self, each: impl FnMut(Event<'_>)) {
        self.events.take(each);
    }
}

impl Worker {
    /// As [`Local::take_events`].
    pub fn take_events(&mut self, each: impl FnMut(Event<'_>)) {
        self.local.take_events(each);
    }
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
    pub(crate) fn report_gone(&self, store: &Store, shard: &Shard, slot: IndexEntry) {
        if let Some(observer) = store.observer() {
            let object = shard.access.open(store.log(), shard.index.get(slot));
            observer.changed(Author { worker: self.id, client: 0 }, object.key());
        }
    }
}
