//! Admission of writes: the place where a command's view and the steps that make room meet.
//!
//! A command lets go of its shards before room is made, since that takes locks and may take long. Where all that may be freed
//! is held by others, a command that can be put back is, like one that meets a busy shard.

use crate::ops::Tx;
use crate::state::key::Key;
use crate::state::request::{NotAdmitted, OutOfMemory};
use crate::steps::room::{self, Way};
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
    /// Admits a write of at most `bytes`, making room under the limit, and waits for what others hold; holds no lock before
    /// and after. The worker is inside the gate, or alone in it.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the limit is reached and nothing may be freed, or no addresses are left.
    #[inline]
    pub fn admit(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        let (store, local) = self.parts();
        room::admit_waiting(store, local, bytes)
    }

    /// Admits a transaction or a script like [`StoreWorker::admit`], for a caller that tries again later: it waits for a
    /// millisecond at most, and makes room for as long where the limit is passed by far.
    ///
    /// # Errors
    /// The write is refused, or to be tried again.
    #[inline]
    pub fn admit_soon(&mut self, bytes: u64) -> Result<(), NotAdmitted> {
        let (store, local) = self.parts();
        room::admit(store, local, bytes, Way::AllRoom)
    }
}

impl Tx<'_> {
    /// Admits a write of at most `bytes`, for a command or a part of one that can be put back; if room must be made, the
    /// shards held are let go first.
    ///
    /// # Errors
    /// [`NotAdmitted::OutOfMemory`] if the limit is reached and nothing may be freed; [`NotAdmitted::Busy`] if all that may be
    /// freed is held by others: the caller is to be tried again.
    #[inline]
    pub fn admit(&mut self, bytes: u64) -> Result<(), NotAdmitted> {
        self.admit_by(bytes, Way::OwnRoom)
    }

    /// Admits a transaction like [`Tx::admit`], which may write more than `bytes`: where the limit is passed by far, it is put
    /// back until there is room for all.
    ///
    /// # Errors
    /// Those of [`Tx::admit`].
    pub fn admit_whole(&mut self, bytes: u64) -> Result<(), NotAdmitted> {
        self.admit_by(bytes, Way::AllRoom)
    }

    #[inline]
    fn admit_by(&mut self, bytes: u64, way: Way) -> Result<(), NotAdmitted> {
        if self.store().has_room(bytes) {
            return Ok(());
        }
        self.let_go(|store, local| room::admit(store, local, bytes, way))
    }

    /// Admits a write of at most `bytes`, for a command that finds only in the keyspace how much it needs: its shards are
    /// held again afterwards, but what it read before may no longer hold. In a transaction, which keeps its shards, the limit
    /// may be passed as far as [`Store::may_overdraw`] says. A patient view waits for nobody: where room or its shards are held
    /// by others, its command is put back ([`Tx::take_put_back`]), and this error is no reply.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the limit is reached and nothing may be freed, or no addresses are left: a write without any would
    /// end the process; or if the command is put back.
    pub fn admit_more(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        if self.store().has_room(bytes) {
            return Ok(());
        }
        let patient = self.is_patient();
        let admit = |store: &Store, local: &mut _| match patient {
            true => room::admit(store, local, bytes, Way::OwnRoom),
            false => room::admit_waiting(store, local, bytes).map_err(NotAdmitted::from),
        };
        match self.step_back(admit) {
            Some(_) if self.is_put_back() => Err(OutOfMemory),
            Some(Ok(())) => Ok(()),
            Some(Err(NotAdmitted::OutOfMemory)) => Err(OutOfMemory),
            Some(Err(NotAdmitted::Busy)) => {
                self.put_back();
                Err(OutOfMemory)
            }
            None if self.store().may_overdraw(bytes) => Ok(()),
            None => Err(OutOfMemory),
        }
    }

    /// True if a string may come to have `len` bytes, as a write of a part makes it: in the room that it has, or as a whole in
    /// another place, for which the system gives memory.
    #[inline]
    pub fn may_grow(&mut self, k: &Key<'_>, len: usize) -> bool {
        match self.growth_bytes(k, len) {
            0 => true,
            bytes => room::find_addresses(self.store(), bytes),
        }
    }
}
