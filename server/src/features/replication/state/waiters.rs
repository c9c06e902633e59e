//! Clients that wait for copies of what was written (WAIT, WAITAOF): whom to look at when a replica or the file has more.
//!
//! ```text
//!   what is awaited         the queue of those that await it, by position
//!   1 replica, in memory    120 · client 7    180 · client 3    180 · client 9
//!   2 replicas, in files    150 · client 4
//! ```
//! Copies are there up to some position: so the first of a queue that has too few ends the look at it, and a look costs what
//! it finds. A client is in one queue at most, and leaves it at the cost of a search.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use varve_base::shared::{SharedMutex, SharedUsize};
use varve_exec::Awaited;

/// A client that waits, and its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) worker: usize,
    pub(crate) client: u64,
    pub(crate) awaited: Awaited,
}

/// The awaited copies without their position: the number of replicas, and which files.
type What = (u64, Option<bool>);

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    all: SharedMutex<Queues>,
    count: SharedUsize,
}

#[derive(Debug, Default)]
struct Queues {
    /// Workers of the clients, by position and client.
    by_what: BTreeMap<What, BTreeMap<(u64, u64), usize>>,
    /// Each client's queue and position.
    places: HashMap<u64, (What, u64)>,
}

impl Queues {
    fn remove(&mut self, client: u64) {
        let Some((what, position)) = self.places.remove(&client) else { return };
        let queue = self.by_what.get_mut(&what).expect("a client's place is in a queue");
        let removed = queue.remove(&(position, client));
        assert!(removed.is_some(), "a client that waits is in its queue");
        if queue.is_empty() {
            self.by_what.remove(&what);
        }
    }
}

impl Waiters {
    /// A client waits from now on. What it awaited before counts no more.
    pub(crate) fn add(&self, Waiter { worker, client, awaited }: Waiter) {
        let what = (awaited.replicas, awaited.files);
        let mut all = self.all.lock();
        all.remove(client);
        all.by_what.entry(what).or_default().insert((awaited.position, client), worker);
        all.places.insert(client, (what, awaited.position));
        self.count.store(all.places.len(), Ordering::SeqCst);
    }

    /// A client waits no longer, if it did.
    #[inline]
    pub(crate) fn forget(&self, client: u64) {
        if self.count.load(Ordering::SeqCst) > 0 {
            let mut all = self.all.lock();
            all.remove(client);
            self.count.store(all.places.len(), Ordering::SeqCst);
        }
    }

    /// Takes those out for whom there are enough copies now: each is looked at by its worker, which adds it again if that is
    /// true no more. `is_reached` is asked once for each of them, and once more for each number of copies that is awaited.
    #[inline]
    pub(crate) fn take_reached(&self, is_reached: impl Fn(Awaited) -> bool) -> Vec<Waiter> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut all = self.all.lock();
        let mut found = Vec::new();
        for (&(replicas, files), queue) in &all.by_what {
            let awaited = queue.iter().map(|(&(position, client), &worker)| Waiter {
                worker,
                client,
                awaited: Awaited { replicas, files, position },
            });
            found.extend(awaited.take_while(|waiter| is_reached(waiter.awaited)));
        }
        found.iter().for_each(|waiter| all.remove(waiter.client));
        self.count.store(all.places.len(), Ordering::SeqCst);
        found
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn waiter(client: u64, replicas: u64, position: u64) -> Waiter {
        Waiter { worker: 0, client, awaited: Awaited { replicas, files: None, position } }
    }

    /// A thousand clients wait; each acknowledgement looks at those it serves, and not at the others.
    #[test]
    fn issue_11_a_look_costs_what_it_finds() {
        let waiters = Waiters::default();
        for client in 0..1000 {
            waiters.add(waiter(client, 1 + client % 2, client));
        }
        let looks = Cell::new(0);
        let mut served = 0;
        for acknowledged in 0..1000 {
            let found = waiters.take_reached(|awaited| {
                looks.set(looks.get() + 1);
                awaited.replicas == 1 && awaited.position <= acknowledged
            });
            assert!(found.iter().all(|waiter| waiter.awaited.position <= acknowledged));
            served += found.len();
        }
        assert_eq!(served, 500);
        assert!(looks.get() <= 500 + 2 * 1000, "{} looks", looks.get());
    }

    #[test]
    fn a_client_waits_for_what_it_asked_for_last_until_it_is_forgotten() {
        let waiters = Waiters::default();
        waiters.add(waiter(1, 1, 10));
        waiters.add(waiter(1, 2, 20));
        assert_eq!(waiters.take_reached(|awaited| awaited.replicas == 1), []);
        assert_eq!(waiters.take_reached(|_| true), [waiter(1, 2, 20)]);
        assert_eq!(waiters.take_reached(|_| true), []);
        waiters.add(waiter(2, 1, 30));
        waiters.forget(2);
        waiters.forget(3);
        assert_eq!(waiters.take_reached(|_| true), []);
        assert!(waiters.all.lock().by_what.is_empty());
    }
}
