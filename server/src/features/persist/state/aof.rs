//! The append-only file as the workers and its thread share it: the journal, what is asked of the thread, what it reports.
//!
//! ```text
//!  workers --journal--> thread of the file: writes, syncs --reached--> synced position --wakes--> workers whose replies wait
//!  rewrites --Order--> poked      switching off, shutdown --a cut of the journal--> the thread ends
//! ```
//! Not here: files (`aof/writer.rs`), the thread's loop (`aof/thread.rs`).

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Waker;
use varve_aof::Form;
use varve_base::shared::{SharedBool, SharedI32, SharedMutex, SharedU64};
use varve_exec::apply::Applier;
use varve_exec::journal::{Cut, Journal, Reached};

use super::rewrites::{RewriteFacts, Rewrites};

/// Something that the thread is to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// A base is whole.
    Rebase(Rebase),
    /// Answer once everything that was appended is in the files.
    Write(SyncSender<()>),
}

/// A base that is to take its place.
#[derive(Debug)]
pub(crate) struct Rebase {
    /// Its path at present; it is synced.
    pub(crate) temp: PathBuf,
    pub(crate) form: Form,
    /// The position of the cut behind the effects that it has.
    pub(crate) at: u64,
    /// Files that it replaces stay.
    pub(crate) keeps_history: bool,
    /// Set by the first of two: the thread that begins to give it its place, or whoever does not want that any more.
    pub(crate) claimed: Arc<SharedBool>,
    /// Takes how it went, and the last handles of files that were removed.
    pub(crate) done: SyncSender<io::Result<Vec<Box<dyn Read + Send>>>>,
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
    /// Syncs that are under way: the file's thread makes one at a time.
    pub(crate) syncs_under_way: u64,
    /// The most bytes that the last rewrite had on their way to its base, and kept as they were.
    pub(crate) last_kept_bytes: usize,
    pub(crate) is_rewriting: bool,
    pub(crate) rewrite: RewriteFacts,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Aof {
    journal: Arc<Journal>,
    /// A file is kept.
    on: SharedBool,
    /// No file is kept, and the journal has a thread: it takes for replicas.
    streams: SharedBool,
    /// That thread has begun: the one before it has ended.
    feeds: SharedBool,
    /// The number of the system's error for which writes are refused; 0 for none.
    refuses: SharedI32,
    facts: SharedMutex<AofFacts>,
    /// CONFIG SET has begun or ended the file, and that is still to be followed.
    switching: SharedBool,
    /// The file has no base yet: what is in its folder does not count.
    waits_for_base: SharedBool,
    pub(crate) rewrites: Rewrites,
    /// Microseconds that the thread waits before it writes (DEBUG AOF-FLUSH-SLEEP).
    write_delay_us: SharedU64,
    sleepers: Box<[Sleeper]>,
    thread: SharedMutex<Thread>,
    /// Commands of a file on their way to the workers that run them.
    pub(crate) applier: Applier,
}

/// The thread of the file, and how it is reached.
#[derive(Debug, Default)]
struct Thread {
    handle: Option<JoinHandle<()>>,
    orders: Option<Sender<Order>>,
    folder: PathBuf,
}

/// A worker whose replies may wait.
#[derive(Debug)]
struct Sleeper {
    /// It is to be woken when more is synced.
    waits: SharedBool,
    waker: Arc<Waker>,
}

impl Aof {
    /// Nothing is kept yet. The workers are woken by these.
    pub(crate) fn new(wakers: Vec<Arc<Waker>>) -> Aof {
        let sleepers: Box<[Sleeper]> =
            wakers.into_iter().map(|waker| Sleeper { waits: SharedBool::new(false), waker }).collect();
        let applier = Applier::forgiving(sleepers.len());
        Aof {
            journal: Journal::new(sleepers.len()),
            on: SharedBool::new(false),
            streams: SharedBool::new(false),
            feeds: SharedBool::new(false),
            refuses: SharedI32::new(0),
            facts: SharedMutex::new(AofFacts { last_write_ok: true, ..AofFacts::default() }),
            switching: SharedBool::new(false),
            waits_for_base: SharedBool::new(false),
            rewrites: Rewrites::default(),
            write_delay_us: SharedU64::new(0),
            sleepers,
            thread: SharedMutex::default(),
            applier,
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

    /// A file in this folder is kept from now on, by this thread. With `waits`, it counts once a base is there.
    pub(crate) fn begin(&self, handle: JoinHandle<()>, orders: Sender<Order>, folder: PathBuf, waits: bool) {
        *self.thread.lock() = Thread { handle: Some(handle), orders: Some(orders), folder };
        self.journal.begin();
        self.waits_for_base.store(waits, Ordering::Relaxed);
        self.on.store(true, Ordering::Relaxed);
    }

    /// No file is kept, and this thread takes what is appended.
    pub(crate) fn begin_stream(&self, handle: JoinHandle<()>) {
        *self.thread.lock() = Thread { handle: Some(handle), ..Thread::default() };
        self.journal.begin();
        self.streams.store(true, Ordering::Relaxed);
    }

    /// The thread that takes where no file is kept has begun.
    pub(crate) fn note_feeding(&self) {
        self.feeds.store(true, Ordering::Release);
    }

    /// Waits until the thread of a file that is no longer kept has ended.
    pub(crate) fn await_end_of_file(&self) {
        if self.streams.load(Ordering::Relaxed) {
            // Its successor waits for it, and takes for replicas from then on.
            while !self.feeds.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        } else if let Some(thread) = self.take_thread() {
            thread.join().expect("the thread of the file ends by returning");
        }
    }

    /// The journal's thread takes everything up to here, writes and syncs it if it keeps a file, and ends. The gate is held
    /// alone, or no worker appends any more. Nothing happens if there is none: the end would stay in the journal, for the next
    /// thread to find.
    pub(crate) fn stop(&self) {
        if !self.is_on() && !self.streams.load(Ordering::Relaxed) {
            return;
        }
        // The next thread may be there, and begin as soon as this one has found the cut.
        self.feeds.store(false, Ordering::Relaxed);
        self.journal.cut(Cut::End);
        self.thread.lock().orders = None;
        self.waits_for_base.store(false, Ordering::Relaxed);
        self.on.store(false, Ordering::Relaxed);
        self.streams.store(false, Ordering::Relaxed);
    }

    /// Stops, if there is a thread, and waits for the end of the thread. No worker appends any more.
    pub(crate) fn end(&self) {
        self.stop();
        if let Some(thread) = self.take_thread() {
            thread.join().expect("the thread of the file ends by returning");
        }
    }

    /// The thread that was begun last, to be waited for.
    pub(crate) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().handle.take()
    }

    /// The folder of the file that is kept.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.is_on().then(|| self.thread.lock().folder.clone())
    }

    /// Gives the thread an order. If no file is kept, the order is dropped.
    pub(crate) fn send(&self, order: Order) {
        if let Some(orders) = &self.thread.lock().orders {
            // The thread may be ending.
            let _ = orders.send(order);
        }
        self.journal.poke();
    }

    /// Takes what was appended for a thread that ends without having written anything.
    pub(crate) fn drop_untaken(&self) {
        loop {
            let taken = self.journal.take(Duration::from_millis(100), &mut Vec::new());
            if taken.cut == Some(Cut::End) {
                return self.reached(Reached { synced: taken.end, released: taken.end });
            }
        }
    }

    /// Slows writing down, for tests.
    pub(crate) fn set_write_delay(&self, delay: Duration) {
        self.write_delay_us.store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// How long the thread waits before it writes.
    pub(crate) fn write_delay(&self) -> Duration {
        Duration::from_micros(self.write_delay_us.load(Ordering::Relaxed))
    }

    /// CONFIG SET may have begun or ended the file.
    pub(crate) fn set_switching(&self) {
        self.switching.store(true, Ordering::Release);
    }

    /// True once for each time that CONFIG SET is to be followed. The settings are read behind it.
    pub(crate) fn take_switching(&self) -> bool {
        self.switching.swap(false, Ordering::AcqRel)
    }

    /// True if CONFIG SET is still to be followed.
    #[inline]
    pub(crate) fn is_switching(&self) -> bool {
        self.switching.load(Ordering::Relaxed)
    }

    /// True while the file has no base, so that its folder does not count.
    pub(crate) fn waits_for_base(&self) -> bool {
        self.waits_for_base.load(Ordering::Relaxed)
    }

    /// The folder counts from now on.
    pub(crate) fn base_is_there(&self) {
        self.waits_for_base.store(false, Ordering::Relaxed);
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

    /// The figures as they are now; whether the file is on is the configuration's.
    pub(crate) fn facts(&self) -> AofFacts {
        AofFacts { rewrite: self.rewrites.facts(), ..self.facts.lock().clone() }
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
