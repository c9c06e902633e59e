//! A lock around something whose bytes are asked for far more often than it changes: they lie beside the lock, and reading them
//! writes nothing. A sum that every worker makes would otherwise take the lock away from all others.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::MutexGuard;

use crate::shared::{SharedMutex, SharedUsize};

/// The heap that something takes.
pub trait HeapBytes {
    /// Bytes, in O(1): they are asked for whenever the lock is let go.
    fn heap_bytes(&self) -> usize;
}

/// See the module's text.
#[derive(Debug)]
pub struct CountedMutex<T> {
    value: SharedMutex<T>,
    bytes: SharedUsize,
}

impl<T: HeapBytes> CountedMutex<T> {
    /// Around this value.
    pub fn new(value: T) -> CountedMutex<T> {
        let bytes = SharedUsize::new(value.heap_bytes());
        CountedMutex { value: SharedMutex::new(value), bytes }
    }

    /// Takes the lock; waits for it.
    #[inline]
    pub fn lock(&self) -> CountedGuard<'_, T> {
        CountedGuard { value: self.value.lock(), bytes: &self.bytes }
    }

    /// Bytes of the value as it was when the lock was let go last. Relaxed: no other data depends on it.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

impl<T: HeapBytes + Default> Default for CountedMutex<T> {
    fn default() -> CountedMutex<T> {
        CountedMutex::new(T::default())
    }
}

/// The lock, held.
pub struct CountedGuard<'a, T: HeapBytes> {
    value: MutexGuard<'a, T>,
    bytes: &'a SharedUsize,
}

impl<T: HeapBytes> Drop for CountedGuard<'_, T> {
    fn drop(&mut self) {
        let bytes = self.value.heap_bytes();
        // A write takes the line away from all who read it.
        if bytes != self.bytes.load(Relaxed) {
            self.bytes.store(bytes, Relaxed);
        }
    }
}

impl<T: HeapBytes> Deref for CountedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: HeapBytes> DerefMut for CountedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: HeapBytes + fmt::Debug> fmt::Debug for CountedGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HeapBytes for Vec<u8> {
        fn heap_bytes(&self) -> usize {
            self.len()
        }
    }

    #[test]
    fn bytes_are_those_of_the_last_time_that_it_was_let_go() {
        let counted = CountedMutex::new(vec![0; 7]);
        assert_eq!(counted.bytes(), 7);
        let mut held = counted.lock();
        held.push(1);
        assert_eq!(counted.bytes(), 7, "nobody waits to read them");
        drop(held);
        assert_eq!(counted.bytes(), 8);
        assert_eq!(CountedMutex::<Vec<u8>>::default().bytes(), 0);
    }

    #[cfg(all(debug_assertions, not(loom)))]
    #[test]
    fn reading_the_bytes_writes_nothing() {
        let counted = CountedMutex::new(vec![0; 7]);
        let before = crate::shared::writes();
        assert_eq!(counted.bytes(), 7);
        assert_eq!(crate::shared::writes(), before);
        assert_eq!(counted.lock().len(), 7);
        assert_eq!(crate::shared::writes(), before + 1, "the lock alone");
    }
}
