//! Whether a start takes what a file has: the very pieces that load it say so.
//!
//! ```text
//!   part of a value --Insertion, as at a start--> a store of this process --> removed when the value is complete
//!   library of functions --compiled, as at a start, beside those before it
//!   key --> a hash of 64 bits, since a key may come once
//! ```
//! So the largest value, the libraries and some 20 bytes a key are in memory, and no second set of rules grows old beside
//! the server's. Two keys agree by chance in one file of some hundred million keys in a thousand, which is refused then.
//!
//! Not here: what the bytes of a file mean (`varve_rdb`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use varve_base::hash::hash64;
use varve_commands::dump::{Insertion, idempotence_of};
use varve_rdb::{KeyHead, Kind, Part, ReadFault};
use varve_scripts::{Functions, Running};
use varve_store::{Options, Overdue, Store, StoreWorker};

/// The key under which each value is inserted.
const KEY: &[u8] = b"value";
/// Bytes of values after which the store frees what it has removed.
const FREE_BYTES: u64 = 1 << 20;
/// How long the store frees at a time.
const FREE_FOR: Duration = Duration::from_millis(10);

/// Why a file is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// One that the reader of files knows too.
    Fault(ReadFault),
    /// In words.
    Said(String),
}

impl From<ReadFault> for Refusal {
    fn from(fault: ReadFault) -> Refusal {
        Refusal::Fault(fault)
    }
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Judge {
    store: Arc<Store>,
    worker: StoreWorker,
    insertion: Insertion,
    functions: Functions,
    running: Running,
    keys: HashSet<u64>,
    /// Databases of the server that is to start.
    databases: u64,
    now_ms: i64,
    /// The names of the messages of the stream that comes next.
    message_names: Vec<Vec<u8>>,
    kind: Kind,
    unfreed_bytes: u64,
}

impl Judge {
    /// One for a server with this number of databases, at this time of Unix.
    ///
    /// # Errors
    /// The system gives no memory: why.
    pub(crate) fn new(databases: u64, now_ms: i64) -> Result<Judge, String> {
        let store = Store::new(&Options::default()).map_err(|error| format!("no room for a store: {error}"))?;
        Ok(Judge {
            worker: store.worker(0),
            store,
            insertion: Insertion::default(),
            functions: Functions::default(),
            running: Running::default(),
            keys: HashSet::new(),
            databases,
            now_ms,
            message_names: Vec::new(),
            kind: Kind::String,
            unfreed_bytes: 0,
        })
    }

    /// A library of functions.
    ///
    /// # Errors
    /// A start does not load it: why; so with all that follow.
    pub(crate) fn function(&self, text: &[u8]) -> Result<(), Refusal> {
        self.functions.load_of_file(text, false, &self.running).map_err(Refusal::Said)
    }

    /// Data of a module beside keys.
    pub(crate) fn module_aux(&self) -> Result<(), Refusal> {
        Err(Refusal::Said("the file has data of a module".to_owned()))
    }

    /// Names of messages, which stand in front of their stream, in one field or several.
    pub(crate) fn message_names(&mut self, names: &[u8]) {
        self.message_names.push(names.to_vec());
    }

    /// A key, whose value follows.
    pub(crate) fn begin(&mut self, db: u64, head: &KeyHead<'_>) -> Result<(), Refusal> {
        self.kind = head.kind;
        if db >= self.databases {
            return Err(Refusal::Said(format!("database {db} of a server that has {}", self.databases)));
        }
        // Of a key whose time has come a start forgets that it was there.
        let is_overdue = head.expiry_ms.is_some_and(|at| at <= self.now_ms);
        if !is_overdue && !self.keys.insert(hash64(db, head.key)) {
            return Err(Refusal::Said("the key comes twice".to_owned()));
        }
        Ok(self.insertion.begin(head.kind)?)
    }

    /// The next part of the value.
    pub(crate) fn add(&mut self, part: Part<'_>) -> Result<(), Refusal> {
        let Judge { worker, insertion, .. } = self;
        let added = worker.inside(0, |tx| {
            tx.set_overdue(Overdue::Alive);
            let key = tx.key(KEY);
            tx.hold(&[tx.shard_of(key.hash)]);
            insertion.add(tx, &key, part)
        });
        Ok(added?)
    }

    /// The value of this number of bytes is complete. False if it has no elements: a start passes over it then.
    pub(crate) fn end(&mut self, bytes: u64) -> Result<bool, Refusal> {
        let names = std::mem::take(&mut self.message_names);
        if !names.is_empty() {
            if self.kind != Kind::Stream {
                return Err(Refusal::Said("names of messages stand before a value that is no stream".to_owned()));
            }
            idempotence_of(names.iter().map(Vec::as_slice))
                .ok_or_else(|| Refusal::Said("the names of its messages are damaged".to_owned()))?;
        }
        let Judge { worker, insertion, .. } = self;
        let parts = worker.inside(0, |tx| {
            tx.set_overdue(Overdue::Alive);
            let key = tx.key(KEY);
            tx.hold(&[tx.shard_of(key.hash)]);
            let parts = insertion.end(tx, &key);
            tx.remove(&key);
            parts
        });
        self.free(bytes);
        Ok(parts? > 0)
    }

    /// Bytes of memory that the store takes.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.store.used_memory()
    }

    /// Has the store free what was removed, now and then.
    fn free(&mut self, bytes: u64) {
        self.unfreed_bytes += bytes;
        if self.unfreed_bytes < FREE_BYTES {
            return;
        }
        self.unfreed_bytes = 0;
        while self.worker.background(self.now_ms, FREE_FOR).is_some_and(|next_ms| next_ms <= self.now_ms) {}
        debug_assert_eq!(self.store.len(0), 0, "a value is removed when it was judged");
    }
}
