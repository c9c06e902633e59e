//! The door to the keyspace: a worker enters the gate, gets a view for a batch of commands, and ends the batch.
//!
//! ```text
//! inside      enter the gate -- view -- commands -- end of the batch -- leave
//! exclusive   close the gate, wait until every worker has left -- work -- open it
//! view        for a worker that is inside already, or alone
//! ```

use std::sync::Arc;

use super::Tx;
use crate::keyspace::worker::StoreWorker;

impl StoreWorker {
    /// Enters the gate and runs `work` with a view on logical database `db`; ends the batch.
    #[inline]
    pub fn inside<R>(&mut self, db: u32, work: impl FnOnce(&mut Tx<'_>) -> R) -> R {
        let (store, local) = self.parts();
        let _inside = store.gate().enter(local.id());
        let mut tx = Tx::new(store, local, db);
        let done = work(&mut tx);
        tx.finish();
        done
    }

    /// Runs `work` like [`StoreWorker::inside`], if the gate is open; `None`, and nothing is done, while another worker is
    /// alone or waits to be.
    #[inline]
    pub fn try_inside<R>(&mut self, db: u32, work: impl FnOnce(&mut Tx<'_>) -> R) -> Option<R> {
        let (store, local) = self.parts();
        let _inside = store.gate().try_enter(local.id())?;
        let mut tx = Tx::new(store, local, db);
        let done = work(&mut tx);
        tx.finish();
        Some(done)
    }

    /// Runs `work` with a view on logical database `db`, for a worker that is inside the gate already or alone in it;
    /// ends the batch.
    #[inline]
    pub fn view<R>(&mut self, db: u32, work: impl FnOnce(&mut Tx<'_>) -> R) -> R {
        let (store, local) = self.parts();
        let mut tx = Tx::new(store, local, db);
        let done = work(&mut tx);
        tx.finish();
        done
    }

    /// Runs `work` while no other worker is inside the gate. This worker is not inside either.
    pub fn exclusive<R>(&mut self, work: impl FnOnce(&mut StoreWorker) -> R) -> R {
        let store = Arc::clone(self.store());
        let _alone = store.gate().exclusive(self.id());
        work(self)
    }
}
