//! A key on which one command works over several holds of its shard, while all others on it wait.
//!
//! ```text
//!   begin, its shard held --> part .. part .. part --> end, its shard held
//!                               |  between two parts: another command on the key finds it occupied and is put back,
//!                               |  one on any other key of the shard runs
//!                               `--> the client is gone: the parts go on without it
//!   effects    kept with the key .. ---------------------> one unit of the journal
//! ```
//! Nothing sees the command half done: who wants to be alone behind the gate (a save's instant, FLUSHALL, a replica that comes)
//! waits for its end, and a file or a replica has all of it or nothing. A script that changes the key without having declared it
//! is the exception: the parts so far are handed on before it.
//!
//! Commands wait as they do for a busy shard: their connections are tried again. EXEC waits if one of its commands names the key,
//! a script if it declares it. Not kept from the key are what names no key (FLUSHALL, SWAPDB, a script that does not
//! declare it) and the store itself (expiry, eviction): each part looks at the key anew.

use varve_store::{Freeze, Key, StoreWorker, Tx};

/// See the module's picture.
#[derive(Debug)]
pub struct Occupied(Option<Box<[u8]>>);

impl Occupied {
    /// Occupies a key, whose shard is held; `None` if it is frozen for another command.
    pub fn begin(tx: &mut Tx<'_>, key: &Key<'_>) -> Option<Occupied> {
        tx.freeze(key, Freeze::Occupied).then(|| Occupied(Some(key.bytes.into())))
    }

    /// The key, while it is occupied.
    pub fn key(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    /// Lets other commands use the key again; its shard is held.
    pub fn end(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) {
        if let Some(name) = self.0.take() {
            debug_assert_eq!(*name, *key.bytes, "the key that was occupied");
            tx.thaw(key);
        }
    }

    /// Lets other commands use the key again, if it is still occupied. The worker holds nothing and is outside the gate.
    pub fn abandon(&mut self, worker: &mut StoreWorker) {
        if let Some(name) = self.0.take() {
            worker.thaw(std::iter::once(&*name));
        }
    }
}
