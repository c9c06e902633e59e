//! A latch: a connection's replies wait behind it until all that its commands made stale is with those who keep copies.
//!
//! ```text
//!   visit --first stale keys--> Latch, one a visit          the visit ends: bind(connection), its own share is dropped
//!                                 | a share in each item of an inbox
//!   worker of the copies:         deliver, write, drop the share      a redirect to another worker takes the share along
//!                                 | the last share is dropped
//!   Opened of the visit's worker <+    woken, it lets the connection go on
//! ```
//! Shares are counted by [`Arc`]: whatever happens to an item, its share ends with it. Not here: what a connection does
//! while it waits (features/tracking/invalidation_barrier.rs).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use mio::Waker;
use varve_base::shared::{SharedBool, SharedMutex};

use super::ConnRef;

/// See the module's picture. A share is an `Arc` of it.
#[derive(Debug)]
pub(crate) struct Latch {
    /// The connection that waits, once it does.
    who: OnceLock<ConnRef>,
    opened: Arc<Opened>,
}

/// The connections of one worker whose latch has opened.
#[derive(Debug)]
pub(crate) struct Opened {
    any: SharedBool,
    /// A leaf.
    list: SharedMutex<Vec<ConnRef>>,
    waker: Arc<Waker>,
}

impl Latch {
    /// Of a visit of the worker that has this list.
    pub(super) fn new(opened: &Arc<Opened>) -> Latch {
        Latch { who: OnceLock::new(), opened: Arc::clone(opened) }
    }

    /// This connection waits for the other shares, if there are any: true then. Takes the visit's own share.
    pub(crate) fn bind(self: Arc<Latch>, who: ConnRef) -> bool {
        if Arc::strong_count(&self) == 1 {
            return false;
        }
        self.who.set(who).expect("a latch is bound once, by its visit");
        true
    }

    /// Drops a share on the thread of the worker that has this list. Returns the connection that may go on, if this was the
    /// last share and the connection is that worker's own: its poll need not be woken.
    pub(crate) fn end(self: Arc<Latch>, own: &Arc<Opened>) -> Option<ConnRef> {
        let mut latch = Arc::into_inner(self)?;
        if Arc::ptr_eq(&latch.opened, own) { latch.who.take() } else { None }
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        if let Some(who) = self.who.take() {
            self.opened.add(who);
        }
    }
}

impl Opened {
    /// Of the worker whose poll this wakes.
    pub(super) fn new(waker: Arc<Waker>) -> Opened {
        Opened { any: SharedBool::new(false), list: SharedMutex::default(), waker }
    }

    fn add(&self, who: ConnRef) {
        self.list.lock().push(who);
        if !self.any.swap(true, Ordering::AcqRel) {
            self.waker.wake().expect("an event descriptor takes a count of one after the worker has read it");
        }
    }

    /// Takes those that may go on, each once for every latch that opened.
    #[inline]
    pub(crate) fn take(&self) -> Vec<ConnRef> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        // First the flag: what is added behind it wakes again.
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *self.list.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConnId;
    use super::*;

    fn opened() -> (mio::Poll, Arc<Opened>) {
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        (poll, Arc::new(Opened::new(waker)))
    }

    const WHO: ConnRef = ConnRef { conn: ConnId(3), client: 7 };

    #[test]
    fn the_last_share_opens_it_once() {
        let (_poll, opened) = opened();
        let latch = Arc::new(Latch::new(&opened));
        let shares = [Arc::clone(&latch), Arc::clone(&latch)];
        assert!(latch.bind(WHO));
        for share in shares {
            assert_eq!(opened.take(), []);
            drop(share);
        }
        assert_eq!(opened.take(), [WHO]);
        assert_eq!(opened.take(), []);
    }

    #[test]
    fn nobody_waits_when_all_is_delivered() {
        let (_poll, opened) = opened();
        let latch = Arc::new(Latch::new(&opened));
        drop(Arc::clone(&latch));
        assert!(!latch.bind(WHO));
        assert_eq!(opened.take(), []);
        // A visit that never ends in waiting, as the background's, opens nothing.
        let latch = Arc::new(Latch::new(&opened));
        let share = Arc::clone(&latch);
        drop(latch);
        drop(share);
        assert_eq!(opened.take(), []);
    }

    #[test]
    fn a_worker_ends_its_own_latch_without_a_call() {
        let [(_poll, own), (_other_poll, other)] = [opened(), opened()];
        let latch = Arc::new(Latch::new(&own));
        let shares = [Arc::clone(&latch), Arc::clone(&latch)];
        assert!(latch.bind(WHO));
        assert_eq!(shares.map(|share| share.end(&own)), [None, Some(WHO)]);
        let latch = Arc::new(Latch::new(&own));
        let share = Arc::clone(&latch);
        assert!(latch.bind(WHO));
        assert_eq!(share.end(&other), None, "it is another worker's connection");
        assert_eq!((own.take(), other.take()), (vec![WHO], vec![]));
    }

    /// Shares that other threads drop while the connection is bound: it is let go once, whoever is last.
    #[test]
    fn binding_and_dropping_may_meet() {
        let (_poll, opened) = opened();
        for _ in 0..2000 {
            let latch = Arc::new(Latch::new(&opened));
            let share = Arc::clone(&latch);
            let other = std::thread::spawn(move || drop(share));
            let waits = latch.bind(WHO);
            other.join().unwrap();
            assert_eq!(opened.take().len(), usize::from(waits));
        }
    }
}
