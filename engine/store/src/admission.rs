//! Admission of writes: the place where a command's view and the steps that make room meet.
//!
//! A command lets go of its shards before room is made, since that takes locks and may take long.

use crate::ops::Tx;
use crate::state::request::OutOfMemory;
use crate::steps::room;
use crate::{Store, StoreWorker};

impl Store {
    /// True if keys may be removed at present to make room for what comes of a client over several turns: the journal has
    /// room for their removal.
    pub fn may_make_room(&self) -> bool {
        !self.journal_is_full()
    }

    /// True if a write of at most `bytes` fits under the limit as things are, and there are addresses for it.
    #[inline]
    pub fn has_room(&self, bytes: u64) -> bool {
        room::has_room(self, bytes)
    }

    /// True if a transaction or a script, which holds its shards to the end, may write `bytes` at most: what lives passes the
    /// limit by no more than an eighth of it, and all that is in use stays below twice the limit.
    #[inline]
    pub fn may_overdraw(&self, bytes: u64) -> bool {
        room::may_overdraw(self, bytes)
    }
}

impl StoreWorker {
    /// Admits a write of at most `bytes`, making room under the limit; holds no lock before and after. The worker is
    /// inside the gate, or alone in it.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the limit is reached and nothing may be freed, or no addresses are left.
    #[inline]
    pub fn admit(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        let (store, local) = self.parts();
        room::admit(store, local, bytes)
    }
}

impl Tx<'_> {
    /// Admits a write of at most `bytes`; if room must be made, the shards held are let go first.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the limit is reached and nothing may be freed.
    #[inline]
    pub fn admit(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        if self.store().has_room(bytes) {
            return Ok(());
        }
        self.let_go(|store, local| room::admit(store, local, bytes))
    }

    /// Admits a write of at most `bytes`, for a command that finds only in the keyspace how much it needs: its shards are
    /// held again afterwards, but what it read before may no longer hold. In a transaction, which keeps its shards, the limit
    /// may be passed as far as [`Store::may_overdraw`] says.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the limit is reached and nothing may be freed, or no addresses are left: a write without any would
    /// end the process.
    pub fn admit_more(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        if self.store().has_room(bytes) {
            return Ok(());
        }
        match self.step_back(|store, local| room::admit(store, local, bytes)) {
            Some(admitted) => admitted,
            None if self.store().may_overdraw(bytes) => Ok(()),
            None => Err(OutOfMemory),
        }
    }
}
