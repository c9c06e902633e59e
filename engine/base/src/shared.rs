//! Numbers and locks that any thread may write: each write, and each taking of a lock, is counted in debug builds.
//!
//! A write takes the line away from every other core that reads it, so with 64 workers nothing that all of them share may
//! be written in each turn of a worker's loop. A test asks [`writes`] before and after a turn. A number with one writer is
//! a [`crate::counter::Counter`]; leaf locks count here too (`rank.rs`). In release builds these are plain atomics and locks.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(all(debug_assertions, not(loom)))]
thread_local! {
    static WRITES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Writes of this thread to what threads share; 0 in release builds.
pub fn writes() -> u64 {
    #[cfg(all(debug_assertions, not(loom)))]
    return WRITES.get();
    #[cfg(not(all(debug_assertions, not(loom))))]
    0
}

/// Counts a write to what threads share. Free in release builds.
#[inline(always)]
pub fn note_write() {
    #[cfg(all(debug_assertions, not(loom)))]
    WRITES.set(WRITES.get() + 1);
}

macro_rules! shared {
    ($name:ident, $atomic:ident, $value:ty, $($change:ident)*) => {
        #[doc = concat!("An [`", stringify!($atomic), "`] whose writes are counted; see the module.")]
        #[derive(Debug, Default)]
        pub struct $name($atomic);

        impl $name {
            /// With this value.
            pub const fn new(value: $value) -> $name {
                $name($atomic::new(value))
            }

            /// The value.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Sets the value.
            #[inline(always)]
            pub fn store(&self, value: $value, order: Ordering) {
                note_write();
                self.0.store(value, order);
            }

            /// Sets the value if it is `current`; gives what it was.
            ///
            /// # Errors
            /// When it is another one, which this gives.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note_write();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Changes the value to what `change` makes of it, tried again where another thread was faster; gives what it was.
            ///
            /// # Errors
            /// When `change` makes nothing of the value, which this gives.
            #[inline(always)]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                note_write();
                self.0.fetch_update(set, fetch, change)
            }

            $(
                #[doc = concat!("`", stringify!($change), "` of the atomic; gives the value before.")]
                #[inline(always)]
                pub fn $change(&self, value: $value, order: Ordering) -> $value {
                    note_write();
                    self.0.$change(value, order)
                }
            )*
        }
    };
}

shared!(SharedBool, AtomicBool, bool, swap fetch_or fetch_and);
shared!(SharedU8, AtomicU8, u8, swap);
shared!(SharedU32, AtomicU32, u32, swap fetch_add fetch_sub);
shared!(SharedU64, AtomicU64, u64, swap fetch_add fetch_sub fetch_or fetch_and fetch_max);
shared!(SharedI32, AtomicI32, i32, swap);
shared!(SharedI64, AtomicI64, i64, swap fetch_max);
shared!(SharedUsize, AtomicUsize, usize, swap fetch_add fetch_sub fetch_max);

/// A lock that may be waited for, each of whose takings is counted; see the module.
#[derive(Debug, Default)]
pub struct SharedMutex<T: ?Sized>(Mutex<T>);

impl<T> SharedMutex<T> {
    /// Around this value.
    pub const fn new(value: T) -> SharedMutex<T> {
        SharedMutex(Mutex::new(value))
    }

    /// The value, of a lock that nobody else has any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> SharedMutex<T> {
    /// Takes the lock; waits for it.
    #[inline(always)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        note_write();
        self.0.lock()
    }

    /// Takes the lock if nobody has it.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        note_write();
        self.0.try_lock()
    }
}

/// A lock for many readers or one writer, each of whose takings is counted: a reader writes that it reads.
#[derive(Debug, Default)]
pub struct SharedRwLock<T: ?Sized>(RwLock<T>);

impl<T> SharedRwLock<T> {
    /// Around this value.
    pub const fn new(value: T) -> SharedRwLock<T> {
        SharedRwLock(RwLock::new(value))
    }
}

impl<T: ?Sized> SharedRwLock<T> {
    /// Takes the lock to read; waits for a writer.
    #[inline(always)]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        note_write();
        self.0.read()
    }

    /// Takes the lock to write; waits for all others.
    #[inline(always)]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        note_write();
        self.0.write()
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests {
    use super::*;
    use Ordering::Relaxed;

    #[test]
    fn writes_count_and_reads_do_not() {
        let before = writes();
        let number = SharedU64::new(5);
        assert_eq!((number.load(Relaxed), writes() - before), (5, 0));
        assert_eq!((number.fetch_add(1, Relaxed), writes() - before), (5, 1));
        number.store(9, Relaxed);
        assert_eq!(number.compare_exchange(8, 1, Relaxed, Relaxed), Err(9), "a try takes the line too");
        assert_eq!(writes() - before, 3);
        let lock = crate::rank::RankedMutex::new(crate::rank::Rank::Leaf, 0);
        *lock.lock() += 1;
        assert_eq!(writes() - before, 4, "so does a leaf lock");
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(writes(), 0, "each thread counts its own"));
        });
    }
}
