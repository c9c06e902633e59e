//! A lock of the log, under which no other is taken: parking_lot's, each taking of which counts as a write to what threads
//! share (`varve_base::shared`).

use parking_lot::{Mutex, MutexGuard};
use varve_base::shared;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct LeafLock<T>(Mutex<T>);

impl<T> LeafLock<T> {
    pub(crate) fn new(value: T) -> LeafLock<T> {
        LeafLock(Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        shared::note_write();
        self.0.lock()
    }
}
