//! The observer of reads and changes: it learns which keys clients have read, and of every change of a key.
//! Client-side caching is one.
//!
//! ```text
//!  Tx::changed, expiry, eviction --on? one relaxed load--> Observer::changed(key)     shards held: it takes leaf locks only
//! ```
//! A key that is read and remembered under its shard's lock is reported when it changes, since the change needs that
//! lock too. Not here: the clients that are informed, and the messages (the server).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// On whose behalf something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    /// The part of the store that does it: a worker's, or, behind all of these, that of a worker's scripts.
    pub part: usize,
    /// The connection that asked for it; 0 for what the store does by itself.
    pub client: u64,
}

/// An observer of reads and changes. Called with shards held: it may take locks that are leaves, and waits for nobody.
pub trait Observer: Send + Sync {
    /// A client has read a key and keeps what it read.
    fn read(&self, client: u64, key: &[u8]);
    /// A key has changed, or is gone. Its database is not reported.
    fn changed(&self, by: Author, key: &[u8]);
    /// A database was emptied.
    fn emptied(&self, by: Author);
}

/// The store's place for an observer.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) on: AtomicBool,
    pub(crate) observer: OnceLock<Arc<dyn Observer>>,
}
