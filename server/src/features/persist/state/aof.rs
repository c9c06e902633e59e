//! The append-only file as the workers and its thread share it: the journal, what is asked of the thread, what it reports.
//!
//! ```text
//!  workers --journal--> thread of the file: writes, syncs --reached--> synced position --wakes--> workers whose replies wait
//!  CONFIG, shutdown --Order--> poked
//! ```
//! Not here: files (`aof/writer.rs`), the thread's loop (`aof/thread.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::thread::JoinHandle;

use mio::Waker;
use parking_lot::Mutex;
use varve_exec::journal::{Journal, Reached};

use super::batch::Batches;
use crate::config::Fsync;

/// Something that the thread is to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Write and sync everything, then end.
    Stop,
}

/// The figures that INFO shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct AofFacts {
    pub(crate) enabled: bool,
    /// The last write succeeded.
    pub(crate) last_write_ok: bool,
    /// Bytes of all files that count.
    pub(crate) current_bytes: u64,
    /// Bytes of all files when the last rewrite ended, or at the start.
    pub(crate) base_bytes: u64,
    /// Bytes that are not written.
    pub(crate) buffer_bytes: u64,
    /// Times that writers had to wait for the file.
    pub(crate) delayed: u64,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Aof {
    journal: Arc<Journal>,
    /// A file is kept.
    on: AtomicBool,
    fsync: AtomicU8,
    /// The number of the system's error for which writes are refused; 0 for none.
    refuses: AtomicI32,
    facts: Mutex<AofFacts>,
    orders: Mutex<Vec<Order>>,
    sleepers: Box<[Sleeper]>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Commands of a file on their way to the worker that runs them.
    pub(crate) pieces: Batches<CommandPiece>,
}

/// Commands of a file, whole ones.
#[derive(Debug)]
pub(crate) struct CommandPiece {
    /// Place of the first one in the file, bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A worker whose replies may wait.
#[derive(Debug)]
struct Sleeper {
    /// It is to be woken when more is synced.
    waits: AtomicBool,
    waker: Arc<Waker>,
}

impl Aof {
    /// Nothing is kept yet. The workers are woken by these.
    pub(crate) fn new(wakers: Vec<Arc<Waker>>) -> Aof {
        let sleepers: Box<[Sleeper]> =
            wakers.into_iter().map(|waker| Sleeper { waits: AtomicBool::new(false), waker }).collect();
        Aof {
            journal: Journal::new(sleepers.len()),
            on: AtomicBool::new(false),
            fsync: AtomicU8::new(Fsync::EverySecond as u8),
            refuses: AtomicI32::new(0),
            facts: Mutex::new(AofFacts { last_write_ok: true, ..AofFacts::default() }),
            orders: Mutex::default(),
            sleepers,
            thread: Mutex::default(),
            pieces: Batches::default(),
        }
    }

    /// The journal.
    #[inline]
    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// True while a file is kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// True while writers are to wait, since the file is slower than they are.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_on() && self.journal.is_full()
    }

    /// A file is kept from now on, by this thread.
    pub(crate) fn begin(&self, thread: JoinHandle<()>) {
        *self.thread.lock() = Some(thread);
        self.on.store(true, Ordering::Relaxed);
    }

    /// Has the thread write and sync everything, and waits for its end. No worker appends any more.
    pub(crate) fn end(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        self.orders.lock().push(Order::Stop);
        self.journal.poke();
        thread.join().expect("the thread of the file ends by returning");
        self.on.store(false, Ordering::Relaxed);
    }

    /// The orders to the thread since the last call.
    pub(crate) fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut *self.orders.lock())
    }

    /// When the file is synced.
    pub(crate) fn fsync(&self) -> Fsync {
        Fsync::ALL[usize::from(self.fsync.load(Ordering::Relaxed))]
    }

    /// Sets when the file is synced.
    pub(crate) fn set_fsync(&self, fsync: Fsync) {
        self.fsync.store(fsync as u8, Ordering::Relaxed);
        self.journal.poke();
    }

    /// The number of the system's error for which writes are refused.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<i32> {
        match self.refuses.load(Ordering::Relaxed) {
            0 => None,
            errno => Some(errno),
        }
    }

    /// Writes are refused for this error of the system, or no longer.
    pub(crate) fn set_refusal(&self, errno: Option<i32>) {
        self.refuses.store(errno.unwrap_or(0), Ordering::Relaxed);
    }

    /// The figures as they are now.
    pub(crate) fn facts(&self) -> AofFacts {
        AofFacts { enabled: self.is_on(), ..self.facts.lock().clone() }
    }

    /// Changes the figures.
    pub(crate) fn report(&self, change: impl FnOnce(&mut AofFacts)) {
        change(&mut self.facts.lock());
    }

    /// The thread has come this far: workers whose replies may leave are woken.
    pub(crate) fn reached(&self, reached: Reached) {
        self.journal.reached(reached);
        for sleeper in &self.sleepers {
            if sleeper.waits.swap(false, Ordering::SeqCst) {
                sleeper.waker.wake().expect("an event descriptor takes a count of one after the worker has read it");
            }
        }
    }

    /// The worker is woken when more than `synced` is synced: false if that is so already.
    pub(crate) fn wait_beyond(&self, worker: usize, synced: u64) -> bool {
        self.sleepers[worker].waits.store(true, Ordering::SeqCst);
        self.journal.synced() == synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::time::Duration;

    #[test]
    fn a_worker_that_waits_is_woken_once() {
        let mut poll = Poll::new().unwrap();
        let aof = Aof::new(vec![Arc::new(Waker::new(poll.registry(), Token(7)).unwrap())]);
        let mut events = Events::with_capacity(8);
        let mut woken = |aof: &Aof| {
            aof.reached(Reached { synced: 0, released: 0 });
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            events.iter().count()
        };
        assert_eq!(woken(&aof), 0, "nobody waits");
        assert!(aof.wait_beyond(0, 0));
        assert_eq!((woken(&aof), woken(&aof)), (1, 0));
        assert!(!aof.wait_beyond(0, 5), "it has changed since");
    }
}
