//! Bytes of what lies behind a lock, for the sum that is made in every round of a worker: it waits for nobody.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// Bytes as they were when the lock was free at a look. Relaxed: a figure that no other data depends on.
#[derive(Debug, Default)]
pub(crate) struct SeenBytes(AtomicUsize);

impl SeenBytes {
    /// The bytes now, or those of the last look if somebody has the lock.
    pub(crate) fn look<T>(&self, lock: &Mutex<T>, bytes: impl FnOnce(&T) -> usize) -> usize {
        if let Some(there) = lock.try_lock() {
            self.0.store(bytes(&there), Relaxed);
        }
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_lock_keeps_nobody_waiting() {
        let (seen, lock) = (SeenBytes::default(), Mutex::new(7));
        assert_eq!(seen.look(&lock, |bytes| *bytes), 7);
        let mut held = lock.lock();
        *held = 9;
        assert_eq!(seen.look(&lock, |bytes| *bytes), 7);
        drop(held);
        assert_eq!(seen.look(&lock, |bytes| *bytes), 9);
    }
}
