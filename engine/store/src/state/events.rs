//! Keyspace events: their classes, and the queue in which they wait for their worker.
//!
//! Not here: channels, messages, subscribers.

/// The class of an event: one bit of the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names say it")]
pub enum EventClass {
    /// No event: nobody can ask for it.
    Silent = 0,
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

/// Events that were not handed on yet, oldest first.
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
    pub(crate) fn push(&mut self, name: &'static str, db: u32, key: &[u8]) {
        self.heads.push(Head { name, db, key_len: key.len() });
        self.keys.extend_from_slice(key);
    }

    /// Gives every event, oldest first, and forgets them.
    pub(crate) fn take(&mut self, mut each: impl FnMut(Event<'_>)) {
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
