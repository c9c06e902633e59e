//! Lock ranks: debug builds check that every lock is taken in the one order that cannot deadlock.
//!
//! ```text
//!   Gate  <  Token  <  Drain  <  Victims  <  Shard(0) < Shard(1) < ...  <  Leaf
//! ```
//!
//! A thread may take a lock only if its rank is above every rank that it holds; two locks of equal rank are never held
//! together, so a thread that holds a leaf takes no further lock. The check runs before the lock is waited for: a violation is a panic
//! with both ranks in it and not a hang. `try_lock` is checked as well: it cannot deadlock by itself, but the code path that
//! tries today blocks tomorrow.
//!
//! One thread at a time may take shards in any order: the one that holds the token ([`enter_beside`]). Nobody else waits for
//! a shard while it holds one, so nobody waits for that thread in a circle.
//!
//! A script may rest with the locks that it holds, while its thread does other things ([`set_aside`]): the thread then waits
//! for none of these, since nobody but itself can let them go.
//!
//! The ranks that a thread holds are a stack in thread-local storage. Guards may be dropped in any order. In release builds
//! (and under loom, whose threads share one real thread) a token has no bytes and no code, and [`RankedMutex`] is as big as
//! the mutex inside.
//!
//! This file does not find which lock is contended and knows nothing of what the locks protect.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::lock::{SpinGuard, SpinMutex};

/// The place of a lock in the order. Derived comparison is the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The gate, shared or alone.
    Gate,
    /// The token, whose holder may take shards in any order and wait for them.
    Token,
    /// The state of a drain under way: one step of reclaim holds it while it locks shards one by one.
    Drain,
    /// The knowledge of segments that may be drained: whoever holds it chooses the next one, and looks into some.
    Victims,
    /// A shard, by its number: several are taken in ascending order.
    Shard(u32),
    /// Any lock under which no other is taken: tables of collections and segments, pieces, journal, channels, mailboxes.
    Leaf,
}

/// Proof that a rank is on this thread's stack; takes it off when dropped. Bound to its thread.
#[must_use = "the rank is held only as long as the token lives"]
#[derive(Debug)]
pub struct RankToken {
    #[cfg(all(debug_assertions, not(loom)))]
    rank: Rank,
    /// A raw pointer is not `Send`: the stack is the thread's own.
    bound: PhantomData<*const ()>,
}

/// Notes that this thread is about to take a lock of `rank`.
///
/// # Panics
/// In debug builds, if the thread holds a lock of this rank or a higher one.
#[inline]
#[track_caller]
pub fn enter(rank: Rank) -> RankToken {
    #[cfg(all(debug_assertions, not(loom)))]
    {
        checked::push(rank);
        if matches!(rank, Rank::Drain | Rank::Victims | Rank::Leaf) {
            crate::shared::note_write();
        }
        RankToken { rank, bound: PhantomData }
    }
    #[cfg(not(all(debug_assertions, not(loom))))]
    {
        let _ = rank;
        RankToken { bound: PhantomData }
    }
}

/// Notes that this thread, which holds the token, is about to take a lock of `rank`, a shard's, beside the shards that it
/// holds, of lower and of higher numbers.
///
/// # Panics
/// In debug builds, if the thread does not hold the token, or holds this shard or a leaf.
#[inline]
#[track_caller]
pub fn enter_beside(rank: Rank) -> RankToken {
    #[cfg(all(debug_assertions, not(loom)))]
    {
        checked::insert(rank);
        RankToken { rank, bound: PhantomData }
    }
    #[cfg(not(all(debug_assertions, not(loom))))]
    {
        let _ = rank;
        RankToken { bound: PhantomData }
    }
}

/// Sets the ranks of this thread aside, which then counts as one that holds nothing: a script that holds locks rests, and the
/// thread does other things. It may try for any lock meanwhile, and wait for none of these.
///
/// # Panics
/// In debug builds, if ranks are set aside already.
#[inline]
pub fn set_aside() {
    #[cfg(all(debug_assertions, not(loom)))]
    checked::set_aside();
}

/// Ends [`set_aside`]: the thread goes on with what held the locks.
///
/// # Panics
/// In debug builds, if the thread holds others.
#[inline]
#[track_caller]
pub fn take_back() {
    #[cfg(all(debug_assertions, not(loom)))]
    checked::take_back();
}

/// Notes that this thread is about to wait for a lock of `rank`.
///
/// # Panics
/// In debug builds, if the rank is set aside: the wait would have no end.
#[inline]
#[track_caller]
pub fn assert_may_wait(rank: Rank) {
    #[cfg(all(debug_assertions, not(loom)))]
    checked::assert_not_aside(rank);
    #[cfg(not(all(debug_assertions, not(loom))))]
    let _ = rank;
}

/// Asserts that this thread holds no lock at all: before it parks, or waits for memory or disk. Free in release builds.
///
/// # Panics
/// In debug builds, if a rank is held.
#[inline]
#[track_caller]
pub fn assert_none_held() {
    #[cfg(all(debug_assertions, not(loom)))]
    checked::assert_empty();
}

#[cfg(all(debug_assertions, not(loom)))]
impl Drop for RankToken {
    fn drop(&mut self) {
        checked::pop(self.rank);
    }
}

#[cfg(not(all(debug_assertions, not(loom))))]
const _: () = assert!(size_of::<RankToken>() == 0);

/// A mutex that has a rank, one byte beside its data; never poisoned.
pub struct RankedMutex<T> {
    #[cfg(all(debug_assertions, not(loom)))]
    rank: Rank,
    inner: SpinMutex<T>,
}

/// Holds a [`RankedMutex`] and its rank.
#[must_use = "the lock is held only as long as the guard lives"]
pub struct RankedGuard<'a, T> {
    // Fields drop in this order: the lock is free before its rank is.
    guard: SpinGuard<'a, T>,
    _token: RankToken,
}

impl<T> RankedMutex<T> {
    /// A free mutex of `rank` around `value`.
    pub fn new(rank: Rank, value: T) -> RankedMutex<T> {
        #[cfg(all(debug_assertions, not(loom)))]
        {
            RankedMutex { rank, inner: SpinMutex::new(value) }
        }
        #[cfg(not(all(debug_assertions, not(loom))))]
        {
            let _ = rank;
            RankedMutex { inner: SpinMutex::new(value) }
        }
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// In debug builds, if the thread holds this rank or a higher one.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> RankedGuard<'_, T> {
        let token = self.enter();
        self.assert_may_wait();
        RankedGuard { guard: self.inner.lock(), _token: token }
    }

    /// Waits for the lock of a shard, whatever other shards the thread holds: it holds the token.
    ///
    /// # Panics
    /// In debug builds, if it does not, or if it holds this lock.
    #[track_caller]
    pub fn lock_beside(&self) -> RankedGuard<'_, T> {
        #[cfg(all(debug_assertions, not(loom)))]
        let rank = self.rank;
        #[cfg(not(all(debug_assertions, not(loom))))]
        let rank = Rank::Leaf;
        let token = enter_beside(rank);
        RankedGuard { guard: self.inner.lock_awake(), _token: token }
    }

    /// Takes the lock of a shard if it is free now, like [`RankedMutex::lock_beside`].
    ///
    /// # Panics
    /// In debug builds, if the thread does not hold the token, or holds this lock.
    #[track_caller]
    pub fn try_lock_beside(&self) -> Option<RankedGuard<'_, T>> {
        #[cfg(all(debug_assertions, not(loom)))]
        let rank = self.rank;
        #[cfg(not(all(debug_assertions, not(loom))))]
        let rank = Rank::Leaf;
        let token = enter_beside(rank);
        Some(RankedGuard { guard: self.inner.try_lock()?, _token: token })
    }

    /// Takes the lock if it is free now.
    ///
    /// # Panics
    /// In debug builds, if the thread holds this rank or a higher one, whether or not the lock is free.
    #[inline(always)]
    #[track_caller]
    pub fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let token = self.enter();
        Some(RankedGuard { guard: self.inner.try_lock()?, _token: token })
    }

    /// Takes the lock if it is free now or within `looks` looks at it.
    ///
    /// # Panics
    /// In debug builds, if the thread holds this rank or a higher one, whether or not the lock is free.
    #[inline(always)]
    #[track_caller]
    pub fn try_lock_for(&self, looks: u32) -> Option<RankedGuard<'_, T>> {
        let token = self.enter();
        Some(RankedGuard { guard: self.inner.try_lock_for(looks)?, _token: token })
    }

    /// The data without locking: nobody else can hold the lock.
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    #[inline(always)]
    #[track_caller]
    fn assert_may_wait(&self) {
        #[cfg(all(debug_assertions, not(loom)))]
        assert_may_wait(self.rank);
    }

    #[inline(always)]
    #[track_caller]
    fn enter(&self) -> RankToken {
        #[cfg(all(debug_assertions, not(loom)))]
        let rank = self.rank;
        #[cfg(not(all(debug_assertions, not(loom))))]
        let rank = Rank::Leaf;
        enter(rank)
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> fmt::Debug for RankedMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The data is left out: printing must not take a lock.
        f.debug_struct("RankedMutex").finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for RankedGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RankedGuard").field(&**self).finish()
    }
}

#[cfg(all(debug_assertions, not(loom)))]
mod checked {
    use super::Rank;
    use std::cell::RefCell;

    thread_local! {
        /// Ascending, because only a rank above the last is let in and taking one out keeps the order.
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
        /// The ranks of a script that rests.
        static ASIDE: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn set_aside() {
        ASIDE.with_borrow_mut(|aside| {
            assert!(aside.is_empty(), "lock order: {aside:?} are set aside already");
            *aside = HELD.take();
        });
    }

    #[track_caller]
    pub(super) fn take_back() {
        assert_empty();
        HELD.set(ASIDE.take());
    }

    #[track_caller]
    pub(super) fn assert_not_aside(rank: Rank) {
        ASIDE.with_borrow(|aside| {
            assert!(!aside.contains(&rank), "lock order: a wait for {rank:?}, held by a script that rests")
        });
    }

    #[track_caller]
    pub(super) fn push(rank: Rank) {
        let last = HELD.with_borrow(|held| held.last().copied());
        if let Some(last) = last {
            assert!(last < rank, "lock order: {rank:?} asked for while {last:?} is held");
        }
        HELD.with_borrow_mut(|held| held.push(rank));
    }

    #[track_caller]
    pub(super) fn insert(rank: Rank) {
        HELD.with_borrow_mut(|held| {
            assert!(matches!(rank, Rank::Shard(_)), "lock order: only shards are taken beside each other");
            assert!(held.contains(&Rank::Token), "lock order: {rank:?} asked for beside others without the token");
            assert!(held.last() < Some(&Rank::Leaf), "lock order: {rank:?} asked for while a leaf is held");
            let place = held.partition_point(|&held| held < rank);
            assert!(held.get(place) != Some(&rank), "lock order: {rank:?} asked for while it is held");
            held.insert(place, rank);
        });
    }

    pub(super) fn pop(rank: Rank) {
        HELD.with_borrow_mut(|held| {
            let place = held.iter().rposition(|&r| r == rank).expect("a token's rank is on its thread's stack");
            held.remove(place);
        });
    }

    #[track_caller]
    pub(super) fn assert_empty() {
        HELD.with_borrow(|held| assert!(held.is_empty(), "lock order: about to wait while {held:?} are held"));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_accepted_and_tokens_may_go_in_any_order() {
        let gate = enter(Rank::Gate);
        let drain = enter(Rank::Drain);
        let (a, b) = (enter(Rank::Shard(3)), enter(Rank::Shard(9)));
        let leaf = enter(Rank::Leaf);
        drop(a);
        drop(gate);
        drop(leaf);
        drop(b);
        let again = enter(Rank::Shard(0));
        drop(drain);
        drop(again);
        assert_none_held();
    }

    #[test]
    fn the_token_lets_shards_be_taken_in_any_order() {
        let token = enter(Rank::Token);
        let locks = [4, 2, 9, 3].map(|id| RankedMutex::new(Rank::Shard(id), ()));
        let held: Vec<_> = locks.iter().map(RankedMutex::lock_beside).collect();
        let leaf = enter(Rank::Leaf);
        drop(leaf);
        drop(held);
        drop(token);
        assert_none_held();
    }

    #[test]
    fn ranks_are_set_aside_and_taken_back() {
        let held = enter(Rank::Shard(7));
        set_aside();
        assert_none_held();
        let lock = RankedMutex::new(Rank::Shard(5), ());
        drop(lock.lock());
        let same = RankedMutex::new(Rank::Shard(7), ());
        drop(same.try_lock().expect("free, and a try is no wait"));
        take_back();
        drop(held);
        assert_none_held();
    }

    #[test]
    fn a_ranked_mutex_locks_and_gives_its_rank_back() {
        let mut low = RankedMutex::new(Rank::Shard(1), 10);
        let high = RankedMutex::new(Rank::Shard(2), 20);
        {
            let mut a = low.lock();
            let b = high.try_lock().expect("free");
            *a += *b;
        }
        assert_none_held();
        assert_eq!(*low.get_mut(), 30);
    }

    #[test]
    fn a_failed_try_gives_its_rank_back() {
        let lock = RankedMutex::new(Rank::Shard(1), ());
        let held = lock.lock();
        std::thread::scope(|s| {
            s.spawn(|| {
                assert!(lock.try_lock().is_none());
                assert_none_held();
            });
        });
        drop(held);
    }

    #[cfg(not(debug_assertions))]
    #[test]
    fn release_builds_pay_nothing() {
        assert_eq!(size_of::<RankedMutex<u64>>(), size_of::<SpinMutex<u64>>());
        let leaf = enter(Rank::Leaf);
        drop(enter(Rank::Gate));
        drop(leaf);
    }

    #[cfg(debug_assertions)]
    mod violations {
        use super::*;

        #[test]
        #[should_panic(expected = "Shard(2) asked for beside others without the token")]
        fn shards_beside_each_other_without_the_token() {
            let _high = enter(Rank::Shard(4));
            let _low = enter_beside(Rank::Shard(2));
        }

        #[test]
        #[should_panic(expected = "Shard(4) asked for while it is held")]
        fn one_shard_twice_with_the_token() {
            let _token = enter(Rank::Token);
            let _a = enter_beside(Rank::Shard(4));
            let _b = enter_beside(Rank::Shard(4));
        }

        #[test]
        #[should_panic(expected = "a wait for Shard(7), held by a script that rests")]
        fn a_wait_for_the_shard_of_a_script_that_rests() {
            // It is not let go of: whoever holds it rests.
            std::mem::forget(enter(Rank::Shard(7)));
            set_aside();
            let lock = RankedMutex::new(Rank::Shard(7), ());
            let _waits = lock.lock();
        }

        #[test]
        #[should_panic(expected = "Gate asked for while Shard(4) is held")]
        fn gate_under_a_shard() {
            let _shard = enter(Rank::Shard(4));
            let _gate = enter(Rank::Gate);
        }

        #[test]
        #[should_panic(expected = "Shard(4) asked for while Shard(5) is held")]
        fn shards_descending() {
            let (low, high) = (RankedMutex::new(Rank::Shard(4), ()), RankedMutex::new(Rank::Shard(5), ()));
            let _high = high.lock();
            let _low = low.try_lock();
        }

        #[test]
        #[should_panic(expected = "Shard(4) asked for while Shard(4) is held")]
        fn one_shard_twice() {
            let _a = enter(Rank::Shard(4));
            let _b = enter(Rank::Shard(4));
        }

        #[test]
        #[should_panic(expected = "Leaf asked for while Leaf is held")]
        fn a_leaf_under_a_leaf() {
            let (a, b) = (RankedMutex::new(Rank::Leaf, ()), RankedMutex::new(Rank::Leaf, ()));
            let _a = a.lock();
            let _b = b.lock();
        }

        #[test]
        #[should_panic(expected = "Drain asked for while Leaf is held")]
        fn drain_under_a_leaf() {
            let _leaf = enter(Rank::Leaf);
            let _drain = enter(Rank::Drain);
        }

        #[test]
        #[should_panic(expected = "about to wait while [Gate] are held")]
        fn waiting_with_a_lock() {
            let _gate = enter(Rank::Gate);
            assert_none_held();
        }
    }
}
