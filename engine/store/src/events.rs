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

use std::sync::atomic::Ordering::Relaxed;

use varve_index::Slot;

use crate::key::Key;
use crate::shard::{Shard, database_of};
use crate::store::Store;
use crate::tx::Tx;
use crate::worker::{Local, Worker};

/// The class of an event: one bit of the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names say it")]
pub enum EventClass {
    Generic = 1 << 2,
    String = 1 << 3,
    List = 1 << 4,
    Set = 1 << 5,
    Hash = 1 << 6,
    Zset = 1 << 7,
    Expired = 1 << 8,
    Evicted = 1 << 9,
    Stream = 1 << 10,
    /// A read that found no key.
    Miss = 1 << 11,
    Module = 1 << 13,
    /// A key that was not there before.
    New = 1 << 14,
}

/// Something that happened to a key.
#[derive(Debug)]
pub struct Event<'e> {
    /// Its name: `set`, `expired`.
    pub name: &'static str,
    /// The logical database.
    pub db: u32,
    /// The key.
    pub key: &'e [u8],
}

/// Events that nobody has taken yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heads: Vec<Head>,
    /// The keys' bytes, one after the other.
    keys: Vec<u8>,
}

#[derive(Debug)]
struct Head {
    name: &'static str,
    db: u32,
    key_len: usize,
}

/// Bytes of keys that an emptied queue keeps room for.
const KEEP_BYTES: usize = 64 << 10;

impl Queue {
    fn push(&mut self, name: &'static str, db: u32, key: &[u8]) {
        self.heads.push(Head { name, db, key_len: key.len() });
        self.keys.extend_from_slice(key);
    }

    fn take(&mut self, mut each: impl FnMut(Event<'_>)) {
        let mut at = 0;
        for Head { name, db, key_len } in self.heads.drain(..) {
            each(Event { name, db, key: &self.keys[at..at + key_len] });
            at += key_len;
        }
        self.keys.clear();
        if self.keys.capacity() > KEEP_BYTES {
            self.keys = Vec::new();
        }
    }
}

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
        if let Some(db) = store.databases.logical(db) {
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
        slot: Slot,
    ) {
        if store.wants(class) {
            let object = shard.access.open(&store.log, shard.index.get(slot));
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

impl Tx<'_> {
    /// Tells that something happened to a key, if the class is wanted: a load and a branch if not.
    #[inline]
    pub fn notify(&mut self, class: EventClass, name: &'static str, k: &Key<'_>) {
        self.local.note(self.store, class, name, k.db, k.bytes);
    }

    /// As [`Local::has_events`].
    #[inline]
    pub fn has_events(&self) -> bool {
        self.local.has_events()
    }

    /// As [`Local::take_events`].
    pub fn take_events(&mut self, each: impl FnMut(Event<'_>)) {
        self.local.take_events(each);
    }
}
