//! A mutex for work of microseconds: one atomic read-modify-write to take it, a plain store to let it go.
//!
//! ```text
//!            compare and swap (acquire)
//!   false ────────────────────────────────▶ true
//!   free  ◀──────────────────────────────── held
//!              store (release)
//!
//!   lock, busy:   look (some us) ─▶ yield the processor (some times) ─▶ sleep 50 us ─▶ look ...
//! ```
//!
//! A mutex that parks its waiters must find out, when it is let go, whether somebody sleeps: a second read-modify-write,
//! 20 cycles in which no later load begins. This one has nobody to wake, so letting go is a store. The price is that who
//! waits long finds out late, by 50 us at most: it is for locks that are held for microseconds and mostly tried.
//!
//! Never poisoned: a panic lets go. Not fair: a waiting thread gets in at the first of its looks that finds the lock free, which may
//! be behind others that only try; with holds of microseconds that is soon, but nothing bounds it. It knows nothing of what may be locked under what: that is its users'.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(loom)]
use loom::{
    cell::{MutPtr, UnsafeCell},
    hint::spin_loop,
    sync::atomic::{AtomicBool, Ordering},
    thread::yield_now,
};
#[cfg(not(loom))]
use std::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{AtomicBool, Ordering},
    thread::yield_now,
};

/// Looks at a held lock between two yields. A pause is 10 to 40 ns. Few under loom, which hands over at each.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };
/// Yields before it sleeps.
const YIELDS: u32 = 16;
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(50);

/// See the module.
#[derive(Default)]
pub struct SpinMutex<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: a mutex owns its value, and moves with it.
unsafe impl<T: Send> Send for SpinMutex<T> {}
// SAFETY: the value is reached through a guard only, of which there is one at a time: `held` goes from false to true by
// a compare and swap, and back by the guard's end alone. Acquire and release order what the guards did.
unsafe impl<T: Send> Sync for SpinMutex<T> {}

/// Holds a [`SpinMutex`]; its thread's own.
#[must_use = "the lock is held only as long as the guard lives"]
pub struct SpinGuard<'a, T> {
    mutex: &'a SpinMutex<T>,
    /// Tells loom that the value is in use.
    #[cfg(loom)]
    value: Option<MutPtr<T>>,
    /// A raw pointer is not `Send`.
    bound: PhantomData<*mut T>,
}

// SAFETY: what a shared guard gives is a shared reference to the value.
unsafe impl<T: Sync> Sync for SpinGuard<'_, T> {}

impl<T> SpinMutex<T> {
    /// A free mutex.
    pub fn new(value: T) -> SpinMutex<T> {
        SpinMutex { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the lock if it is free now.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.acquire().then(|| self.guard())
    }

    /// Takes the lock if it is free now or within `looks` looks at it.
    #[inline(always)]
    pub fn try_lock_for(&self, looks: u32) -> Option<SpinGuard<'_, T>> {
        (self.acquire() || self.spin(looks)).then(|| self.guard())
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        if !self.acquire() {
            self.wait();
        }
        self.guard()
    }

    /// Waits for the lock without sleeping: for one waiter, which others must not overtake again and again.
    pub fn lock_awake(&self) -> SpinGuard<'_, T> {
        if !self.acquire() {
            while !self.spin(SPINS) {
                yield_now();
            }
        }
        self.guard()
    }

    /// The value without locking: nobody else can hold the lock.
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[inline(always)]
    fn acquire(&self) -> bool {
        self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// To be called once the lock is acquired.
    #[inline(always)]
    fn guard(&self) -> SpinGuard<'_, T> {
        SpinGuard {
            mutex: self,
            #[cfg(loom)]
            value: Some(self.value.get_mut()),
            bound: PhantomData,
        }
    }

    /// Only looks until the lock is free: a failed swap would take the line from its holder.
    #[cold]
    fn spin(&self, looks: u32) -> bool {
        for _ in 0..looks {
            spin_loop();
            if !self.held.load(Ordering::Relaxed) && self.acquire() {
                return true;
            }
        }
        false
    }

    #[cold]
    fn wait(&self) {
        let mut rounds = 0;
        while !self.spin(SPINS) {
            rounds += 1;
            if rounds < YIELDS || cfg!(loom) {
                yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }
}

#[cfg(not(loom))]
impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, so nobody else reaches the value.
        unsafe { &*self.mutex.value.get() }
    }
}

#[cfg(not(loom))]
impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed uniquely.
        unsafe { &mut *self.mutex.value.get() }
    }
}

#[cfg(loom)]
impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, so nobody else reaches the value.
        unsafe { &*self.value.as_ref().expect("until it is dropped").deref() }
    }
}

#[cfg(loom)]
impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed uniquely.
        unsafe { self.value.as_ref().expect("until it is dropped").deref() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(loom)]
        drop(self.value.take());
        self.mutex.held.store(false, Ordering::Release);
    }
}

impl<T> fmt::Debug for SpinMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value is left out: printing must not take a lock.
        f.debug_struct("SpinMutex").field("held", &self.held.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_guard_at_a_time() {
        let mut mutex = SpinMutex::new(1);
        let guard = mutex.lock();
        assert!(mutex.try_lock().is_none() && mutex.try_lock_for(3).is_none());
        drop(guard);
        *mutex.try_lock().expect("free") += 1;
        *mutex.try_lock_for(0).expect("free") += 1;
        assert_eq!(*mutex.get_mut(), 3);
    }

    #[test]
    fn a_panic_lets_go() {
        let mutex = SpinMutex::new(());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = mutex.lock();
            panic!("under the lock");
        }));
        assert!(panicked.is_err() && mutex.try_lock().is_some());
    }

    #[test]
    fn every_increment_counts() {
        const THREADS: u64 = 4;
        const TIMES: u64 = 20_000;
        let mutex = SpinMutex::new(0u64);
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let mutex = &mutex;
                s.spawn(move || {
                    for n in 0..TIMES {
                        let mut value = match (n + thread) % 3 {
                            0 => mutex.lock(),
                            1 => mutex.try_lock().unwrap_or_else(|| mutex.lock()),
                            _ => mutex.try_lock_for(10).unwrap_or_else(|| mutex.lock()),
                        };
                        *value += 1;
                    }
                });
            }
        });
        assert_eq!(*mutex.lock(), THREADS * TIMES);
    }

    #[test]
    fn who_waits_long_sleeps_and_is_let_in() {
        let mutex = SpinMutex::new(0);
        let mut held = mutex.lock();
        std::thread::scope(|s| {
            let waiter = s.spawn(|| *mutex.lock());
            // Long enough for spins and yields to be over on any machine that runs the other thread at all.
            std::thread::sleep(Duration::from_millis(20));
            *held = 7;
            drop(held);
            assert_eq!(waiter.join().expect("it got in"), 7);
        });
    }
}
