//! MEMORY PURGE: gives back what died.

use super::debt::purge_floor;
use super::drain::SLICE_OBJECTS;
use super::{Slice, debt, drain};
use crate::keyspace::store::Store;
use crate::keyspace::worker::StoreWorker;

/// Slices that MEMORY PURGE does itself: some ten milliseconds.
const PURGE_SLICES_MAX: usize = 2000;

impl Store {
    /// Gives back what died: large values, and by draining all else that is worth it. Called inside the gate; what a busy
    /// lock or too much of it leaves is the background's, which goes on until it is done.
    pub fn purge(&self, w: &mut StoreWorker) {
        while self.log().release_step(1 << 20) {}
        self.log().release_cached();
        self.reclaimer().purge.ask();
        for _ in 0..PURGE_SLICES_MAX {
            let used = self.log().used_bytes();
            if used.saturating_sub(debt::live_bytes(self)) <= purge_floor(used) {
                break;
            }
            match drain::slice(self, w.parts().1, SLICE_OBJECTS, false) {
                Slice::Progress | Slice::Drained => {}
                Slice::Busy => return,
                Slice::Nothing => {
                    self.reclaimer().purge.end();
                    return;
                }
            }
        }
    }
}
