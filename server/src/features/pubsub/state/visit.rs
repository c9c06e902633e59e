//! Items that wait for the append-only file, under `appendfsync always`: what a message, an event or an invalidation tells
//! of is on disk before it leaves.
//!
//! ```text
//!   author's worker:    commands push items, each with the visit's Visit --> the visit ends: Visit::end(position)
//!   receiver's worker:  the next item of its inbox   visit under way: rests, the end of the visit wakes it
//!                                                    position not synced: rests, the file's thread wakes it
//!                                                    position synced: delivers
//! ```
//! The position is the one behind the last effect of the shards that the visit has touched, as for the visit's own replies.
//! It is not known when the item is pushed: events are published before the unit of their transaction is appended. Items
//! keep their order, so those behind one that waits do so too.
//!
//! A worker's scripts are an author of their own: what a script has pushed that rests waits for the end of the script, whose
//! effects are appended then, and not for the visits that the worker makes meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_base::shared::{SharedBool, SharedMutex, SharedU64};
use varve_exec::journal::Journal;

/// The position of a visit that is under way.
const OPEN: u64 = u64::MAX;

/// A visit, or a turn of the background, that has pushed items.
#[derive(Debug)]
pub(crate) struct Visit {
    /// The position of the journal that its items wait for; [`OPEN`] while it is under way.
    until: SharedU64,
    /// The workers that are to be woken when it ends.
    sleepers: SharedMutex<Vec<usize>>,
}

impl Visit {
    fn new() -> Visit {
        Visit { until: SharedU64::new(OPEN), sleepers: SharedMutex::default() }
    }

    /// The position that its items wait for; None while it is under way.
    pub(crate) fn until(&self) -> Option<u64> {
        let until = self.until.load(Ordering::Acquire);
        (until != OPEN).then_some(until)
    }

    /// A worker is about to wait for the end; from then on that wakes it. False if the visit has ended.
    pub(super) fn sleep(&self, worker: usize) -> bool {
        let mut sleepers = self.sleepers.lock();
        let is_open = self.until().is_none();
        if is_open && !sleepers.contains(&worker) {
            sleepers.push(worker);
        }
        is_open
    }

    /// Ends it; gives the workers to be woken.
    fn end(&self, until: u64) -> Vec<usize> {
        let mut sleepers = self.sleepers.lock();
        self.until.store(until, Ordering::Release);
        std::mem::take(&mut *sleepers)
    }
}

/// The visit that an author is at, if its commands have pushed something.
#[derive(Debug, Default)]
struct Author {
    any: SharedBool,
    /// A leaf that nobody else takes.
    visit: SharedMutex<Option<Arc<Visit>>>,
}

/// The visits of all authors.
#[derive(Debug)]
pub(crate) struct Visits {
    /// Items wait for the file.
    on: SharedBool,
    authors: Box<[Author]>,
    journal: Arc<Journal>,
}

impl Visits {
    /// Of this number of authors. Nothing waits yet.
    pub(super) fn new(authors: usize, journal: Arc<Journal>) -> Visits {
        let authors = (0..authors).map(|_| Author::default()).collect();
        Visits { on: SharedBool::new(false), authors, journal }
    }

    /// Whether items that are pushed wait for the file.
    pub(crate) fn await_files(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Items that are pushed from now on wait for the file, or not.
    pub(crate) fn await_file(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// The visit that this author is at, for an item that it pushes; None if items do not wait.
    #[inline]
    pub(super) fn current(&self, author: usize) -> Option<Arc<Visit>> {
        if self.on.load(Ordering::Relaxed) { Some(self.begin(author)) } else { None }
    }

    #[cold]
    fn begin(&self, author: usize) -> Arc<Visit> {
        let author = &self.authors[author];
        author.any.store(true, Ordering::Relaxed);
        Arc::clone(author.visit.lock().get_or_insert_with(|| Arc::new(Visit::new())))
    }

    /// The visit that this author is at has ended: what it has pushed waits until the journal is synced up to `until`.
    /// Gives the workers to be woken.
    #[inline]
    pub(super) fn end(&self, author: usize, until: u64) -> Vec<usize> {
        let author = &self.authors[author];
        if !author.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        author.any.store(false, Ordering::Relaxed);
        author.visit.lock().take().map_or_else(Vec::new, |visit| visit.end(until))
    }

    /// True if an item of this visit may be delivered.
    #[inline]
    pub(super) fn lets_go(&self, visit: Option<&Arc<Visit>>) -> bool {
        visit.is_none_or(|visit| visit.until().is_some_and(|until| until <= self.journal.synced()))
    }
}

#[cfg(test)]
mod tests {
    use varve_exec::journal::Reached;

    use super::*;

    fn visits() -> (Arc<Journal>, Visits) {
        let journal = Journal::new(2);
        let visits = Visits::new(2, Arc::clone(&journal));
        (journal, visits)
    }

    #[test]
    fn an_item_waits_for_the_end_of_its_visit_and_for_the_file() {
        let (_journal, visits) = visits();
        assert!(visits.current(0).is_none() && visits.lets_go(None), "nothing waits");
        visits.await_file(true);
        let visit = visits.current(0).expect("items wait");
        assert!(Arc::ptr_eq(&visit, &visits.current(0).expect("items wait")), "one a visit");
        assert!(!Arc::ptr_eq(&visit, &visits.current(1).expect("items wait")), "one an author");
        assert!(visit.sleep(1) && visit.sleep(1) && !visits.lets_go(Some(&visit)));
        assert_eq!(visits.end(0, 7), [1], "once");
        assert!(!visit.sleep(1) && !visits.lets_go(Some(&visit)));
        assert_eq!(visits.end(0, 9), [0_usize; 0], "it has ended");
        assert_eq!(visit.until(), Some(7));
        let next = visits.current(0).expect("items wait");
        assert_eq!(visits.end(0, 0), [0_usize; 0]);
        assert!(visits.lets_go(Some(&next)), "it has touched nothing that is not synced");
    }

    #[test]
    fn an_item_goes_when_the_journal_is_synced_so_far() {
        use varve_store::{EffectSink, Options, Store};
        let (journal, visits) = visits();
        let store = Store::new(&Options::default()).expect("an address range");
        store.set_effect_sink(Arc::clone(&journal) as Arc<dyn EffectSink>);
        store.keep_effects(true);
        let mut worker = store.worker(0);
        worker.did_whole();
        worker.end_command(0, &|words| _ = words.add(b"FLUSHALL"));
        visits.await_file(true);
        let visit = visits.current(0).expect("items wait");
        visits.end(0, worker.take_awaited());
        assert!(!visits.lets_go(Some(&visit)));
        journal.reached(Reached { synced: journal.end(), released: 0 });
        assert!(visits.lets_go(Some(&visit)));
    }
}
