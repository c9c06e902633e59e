//! Saving and loading as plain data: what is under way, what the last one came to, and what clients are refused meanwhile.
//!
//! ```text
//!   idle --begin--> under way --finish--> idle        one save at a time
//! ```
//! Not here: the threads (`save.rs`, `load.rs`).

pub(crate) mod aof;
pub(crate) mod batch;
pub(crate) mod leaving;
pub(crate) mod rewrites;
pub(crate) mod snapshot;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::features::pubsub::state::WorkWaiter;
use aof::Aof;
use batch::Batches;
use leaving::Leaving;
use snapshot::{QueuedBytes, Snapshot};
use varve_base::shared::{SharedBool, SharedMutex, SharedU64};

/// Seconds after a save that failed before a save point begins another one.
const RETRY_S: u64 = 5;

/// A save that is under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The base of a rewrite of the append-only file is written, and no file of a save.
    pub(crate) is_rewrite: bool,
    /// A file that a start loads is there when it has succeeded: it counts as a save.
    pub(crate) leaves_file: bool,
    /// Replicas get it: it has been begun for them.
    pub(crate) for_replicas: bool,
    /// The server ends behind it: where it fails, the one who asked for the end is told, and nobody else.
    pub(crate) is_last: bool,
    /// The clients that wait for its end; nobody waits for a background save.
    pub(crate) waiters: Vec<WorkWaiter>,
    /// FLUSHALL has asked for it, or it was given up: whoever asks for a save has one behind it.
    pub(crate) gives_way: bool,
    /// The store's count of FLUSHALLs at the instant.
    pub(crate) flushes: u64,
    pub(crate) began: Instant,
    /// The store's count of changes at the instant.
    pub(crate) changes: u64,
    /// Keys at the instant.
    pub(crate) keys: u64,
}

/// How a save ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file is on disk under its name.
    Saved,
    /// It could not be written.
    Failed,
    /// FLUSHALL or a shutdown came before its end: nothing has failed.
    Cancelled,
}

/// The figures that INFO shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct SaveFacts {
    /// Whether one is under way that nobody waits for.
    pub(crate) in_background: bool,
    /// Seconds that it takes so far.
    pub(crate) running_s: Option<u64>,
    /// Keys that the save, or the rewrite, under way has written.
    pub(crate) keys_done: u64,
    /// Keys that it has in all.
    pub(crate) keys_total: u64,
    /// Unix time of the last one that succeeded, or of the start.
    pub(crate) last_s: u64,
    /// Whether the last one in the background has succeeded.
    pub(crate) last_ok: bool,
    /// Seconds that the last one in the background took.
    pub(crate) last_took_s: Option<u64>,
    /// Saves begun since the start.
    pub(crate) count: u64,
    /// The store's count of changes that the last file has.
    pub(crate) saved_changes: u64,
    /// Bytes of the snapshot under way that are on their way to the file, and the most that they were.
    pub(crate) queued_bytes: (usize, usize),
    /// The most that the last one had on their way, and kept as they were.
    pub(crate) last_kept_bytes: usize,
}

/// The progress of loading.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    /// A file is being read, and its keys are not all there.
    on: SharedBool,
    /// The data that there was is served meanwhile.
    serves: SharedBool,
    /// Unix time at which it began.
    pub(crate) began_s: SharedU64,
    pub(crate) total_bytes: SharedU64,
    pub(crate) done_bytes: SharedU64,
    /// Bytes of memory that the writer of the file used, as the file says; 0 if it does not.
    pub(crate) used_bytes: SharedU64,
    /// Keys of the last file, and those of them whose time had come.
    pub(crate) keys: SharedU64,
    pub(crate) expired: SharedU64,
    /// Collections of the last file without elements, which are no keys.
    empty: SharedU64,
    /// Entries on their way to the workers.
    pub(crate) batches: Batches,
    /// Keys whose time is over are loaded too: commands that follow say when they went.
    pub(crate) overdue_stay: SharedBool,
}

impl Loading {
    /// True while data is being loaded.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// True while data is being loaded beside that which is served: clients are refused only what would meddle with it.
    #[inline]
    pub(crate) fn serves(&self) -> bool {
        self.serves.load(Relaxed)
    }

    /// Begins or ends it; clients are refused meanwhile.
    pub(crate) fn set(&self, on: bool) {
        self.serves.store(false, Relaxed);
        self.on.store(on, Relaxed);
    }

    /// Begins it; the data that there is is served meanwhile.
    pub(crate) fn begin_serving(&self) {
        self.serves.store(true, Relaxed);
        self.on.store(true, Relaxed);
    }

    /// A file of this length is being read from now on.
    pub(crate) fn begin(&self, now_s: u64, bytes: u64) {
        self.began_s.store(now_s, Relaxed);
        self.total_bytes.store(bytes, Relaxed);
        [&self.done_bytes, &self.used_bytes, &self.keys, &self.expired, &self.empty]
            .into_iter()
            .for_each(|count| count.store(0, Relaxed));
    }

    /// Counts keys that were inserted, keys whose time had come, and collections without elements.
    pub(crate) fn count(&self, keys: u64, expired: u64, empty: u64) {
        self.keys.fetch_add(keys, Relaxed);
        self.expired.fetch_add(expired, Relaxed);
        self.empty.fetch_add(empty, Relaxed);
    }

    /// Logs what the file that was read had.
    pub(crate) fn log_counts(&self) {
        let [keys, expired, empty] = [&self.keys, &self.expired, &self.empty].map(|count| count.load(Relaxed));
        tracing::info!("Done loading RDB, keys loaded: {keys}, keys expired: {expired}, empty keys skipped: {empty}.");
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Persist {
    saves: SharedMutex<Saves>,
    /// The last save in the background failed.
    failed: SharedBool,
    /// The store's count of FLUSHALLs that has been followed.
    flushes: SharedU64,
    /// Bytes of the snapshot that are on their way to the file.
    queued: Arc<QueuedBytes>,
    pub(crate) loading: Loading,
    /// The append-only file.
    /// The end of the server, while it waits for replicas.
    pub(crate) leaving: Leaving,
    pub(crate) aof: Aof,
}

/// Why a save is to begin as soon as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduled {
    /// FLUSHALL has run: the save gives way to those that clients ask for.
    AfterFlush,
    /// A client has asked for it.
    ByClient,
    /// A client was told that it has begun, and it stands behind a save of FLUSHALL. To clients it is under way.
    Promised,
}

#[derive(Debug)]
struct Saves {
    under_way: Option<UnderWay>,
    /// One is to begin as soon as it can.
    scheduled: Option<Scheduled>,
    /// Clients that wait for the end of the next one.
    waiting: Vec<WorkWaiter>,
    last_s: u64,
    last_try_s: u64,
    last_took_s: Option<u64>,
    /// See [`SaveFacts::last_kept_bytes`].
    last_kept_bytes: usize,
    count: u64,
    saved_changes: u64,
    /// No save begins while there are such: a file is about to be loaded.
    bars: u64,
}

/// While it is there no save begins, but for the one behind which the server ends.
#[derive(Debug)]
pub(crate) struct SavesBarred<'p>(&'p Persist);

impl Drop for SavesBarred<'_> {
    fn drop(&mut self) {
        self.0.saves.lock().bars -= 1;
    }
}

impl Saves {
    /// A client was told that a save has begun which has not.
    fn is_promised(&self) -> bool {
        self.scheduled == Some(Scheduled::Promised)
    }
}

impl Persist {
    /// Nothing is under way; the start, at this Unix time, counts as a save. If a file is to be loaded, clients are
    /// refused from the beginning.
    pub(crate) fn new(now_s: u64, loads: bool, aof: Aof) -> Persist {
        let loading = Loading::default();
        loading.set(loads);
        let saves = Saves {
            under_way: None,
            scheduled: None,
            waiting: Vec::new(),
            last_s: now_s,
            last_try_s: 0,
            last_took_s: None,
            last_kept_bytes: 0,
            count: 0,
            saved_changes: 0,
            bars: 0,
        };
        let (saves, flushes) = (SharedMutex::new(saves), SharedU64::new(0));
        Persist {
            saves,
            failed: SharedBool::new(false),
            flushes,
            queued: Arc::default(),
            loading,
            leaving: Leaving::default(),
            aof,
        }
    }

    /// No save begins from now on until what is given is dropped. One may be under way.
    pub(crate) fn bar_saves(&self) -> SavesBarred<'_> {
        self.saves.lock().bars += 1;
        SavesBarred(self)
    }

    /// True while no save is to begin, but for the one behind which the server ends: half of the data may be there, or
    /// the file of a save would take the place of one that is about to be loaded.
    pub(crate) fn bars_saves(&self) -> bool {
        self.loading.is_on() || self.saves.lock().bars > 0
    }

    /// Begins a save, unless one is under way, or none may begin: but for the one behind which the server ends.
    /// `instant` makes the snapshot and begins its walk; without one, the save fails as if it had not been asked for.
    pub(crate) fn begin(
        &self,
        now_s: u64,
        is_last: bool,
        instant: impl FnOnce() -> Option<UnderWay>,
    ) -> Option<Arc<Snapshot>> {
        let mut saves = self.saves.lock();
        let is_barred = saves.bars > 0 || self.loading.is_on();
        if saves.under_way.is_some() || is_barred && !is_last {
            return None;
        }
        let under_way = instant()?;
        let snapshot = Arc::clone(&under_way.snapshot);
        if under_way.leaves_file {
            (saves.scheduled, saves.last_try_s, saves.count) = (None, now_s, saves.count + 1);
        }
        saves.under_way = Some(under_way);
        Some(snapshot)
    }

    /// The save under way has ended; gives what was known of it.
    pub(crate) fn finish(&self, outcome: Outcome, now_s: u64) -> UnderWay {
        let mut saves = self.saves.lock();
        let ended = saves.under_way.take().expect("a save ends once");
        let (_, kept_bytes) = self.queued.read();
        if ended.is_rewrite {
            self.aof.report(|facts| facts.last_kept_bytes = kept_bytes);
        }
        if !ended.leaves_file {
            return ended;
        }
        saves.last_kept_bytes = kept_bytes;
        if outcome == Outcome::Saved {
            (saves.last_s, saves.saved_changes) = (now_s, ended.changes);
        }
        if ended.waiters.is_empty() {
            saves.last_took_s = Some(ended.began.elapsed().as_secs());
        }
        match outcome {
            Outcome::Saved => self.failed.store(false, Relaxed),
            Outcome::Failed if ended.waiters.is_empty() && !ended.is_last => self.failed.store(true, Relaxed),
            Outcome::Failed | Outcome::Cancelled => {}
        }
        ended
    }

    /// Gives the save that is under way up, and gives its snapshot: if its instant lies before this count of FLUSHALLs.
    pub(crate) fn give_up(&self, flushes: u64) -> Option<Arc<Snapshot>> {
        self.give_up_if(|save| save.flushes < flushes)
    }

    /// Gives the save that is under way up, and gives its snapshot: unless the server ends behind it.
    pub(crate) fn give_up_but_last(&self) -> Option<Arc<Snapshot>> {
        self.give_up_if(|save| !save.is_last)
    }

    fn give_up_if(&self, gives_way: impl FnOnce(&UnderWay) -> bool) -> Option<Arc<Snapshot>> {
        let mut saves = self.saves.lock();
        // redis-server's FLUSHALL ends a save in the background, and no other one.
        saves.scheduled = saves.scheduled.filter(|why| *why != Scheduled::Promised);
        let under_way = saves.under_way.as_mut().filter(|save| gives_way(save))?;
        under_way.gives_way = true;
        Some(Arc::clone(&under_way.snapshot))
    }

    /// Gives the save that is under way up, and gives its snapshot: if it was begun for replicas, and none of them is left that
    /// `is_awaited` finds. With `keeps_file` it goes on if it leaves a file; and so does one that is all but at its end.
    pub(crate) fn give_up_for_replicas(
        &self,
        keeps_file: bool,
        is_awaited: impl FnOnce() -> bool,
    ) -> Option<Arc<Snapshot>> {
        let mut saves = self.saves.lock();
        let under_way = saves.under_way.as_mut().filter(|save| save.for_replicas && !save.gives_way)?;
        let keeps = keeps_file && under_way.leaves_file;
        if keeps || under_way.snapshot.is_written() || is_awaited() {
            return None;
        }
        under_way.gives_way = true;
        Some(Arc::clone(&under_way.snapshot))
    }

    /// Has a save begin behind the one that is under way if that gives way, for this client or for nobody; false if it
    /// does not, or none is under way. A client also waits for the end of a rewrite. No save is promised.
    pub(crate) fn queue(&self, waiter: Option<WorkWaiter>) -> bool {
        let mut saves = self.saves.lock();
        let is_behind = |save: &UnderWay| save.gives_way || save.is_rewrite && waiter.is_some();
        let waits = saves.under_way.as_ref().is_some_and(is_behind);
        if waits {
            saves.waiting.extend(waiter);
            if waiter.is_none() {
                saves.scheduled = Some(Scheduled::Promised);
            }
        }
        waits
    }

    /// Has a rewrite of the append-only file begin behind the save that is under way, if that is FLUSHALL's: redis-server
    /// has written that file before it answered. False if none is under way, or a client's save stands behind it.
    pub(crate) fn queue_rewrite(&self) -> bool {
        let saves = self.saves.lock();
        let is_behind = |save: &UnderWay| save.gives_way && !save.is_rewrite;
        let waits = saves.under_way.as_ref().is_some_and(is_behind) && !saves.is_promised();
        if waits {
            self.aof.rewrites.promise();
        }
        waits
    }

    /// True if another save may be begun, or have its turn behind one that gives way.
    pub(crate) fn may_begin(&self) -> bool {
        let saves = self.saves.lock();
        let gives_way = saves.under_way.as_ref().is_none_or(|save| save.gives_way);
        gives_way && !saves.is_promised() && !self.aof.rewrites.is_promised()
    }

    /// True if a save is promised.
    pub(crate) fn is_promised(&self) -> bool {
        self.saves.lock().is_promised()
    }

    /// Takes the clients that wait for the next save; None where only FLUSHALL asks for one.
    pub(crate) fn take_waiting(&self) -> Option<Vec<WorkWaiter>> {
        let mut saves = self.saves.lock();
        let is_asked_for = !saves.waiting.is_empty() || saves.scheduled != Some(Scheduled::AfterFlush);
        is_asked_for.then(|| std::mem::take(&mut saves.waiting))
    }

    /// These clients wait for the next save.
    pub(crate) fn put_waiting(&self, waiters: Vec<WorkWaiter>) {
        self.saves.lock().waiting.extend(waiters);
    }

    /// The snapshot of the save that is under way.
    pub(crate) fn under_way(&self) -> Option<Arc<Snapshot>> {
        self.saves.lock().under_way.as_ref().map(|save| Arc::clone(&save.snapshot))
    }

    /// True while a rewrite of the append-only file is under way, as clients see it.
    pub(crate) fn is_rewriting(&self) -> bool {
        self.saves.lock().under_way.as_ref().is_some_and(|under_way| under_way.is_rewrite)
            || self.aof.rewrites.is_promised()
    }

    /// Has a save begin as soon as it can. One that a client has asked for stays that.
    pub(crate) fn schedule(&self, why: Scheduled) {
        let mut saves = self.saves.lock();
        if why == Scheduled::ByClient && !saves.is_promised() || saves.scheduled.is_none() {
            saves.scheduled = Some(why);
        }
    }

    /// True if one was scheduled, or is waited for, and none is under way.
    pub(crate) fn is_due(&self) -> bool {
        let saves = self.saves.lock();
        let is_asked_for = saves.scheduled.is_some() || !saves.waiting.is_empty();
        is_asked_for && saves.under_way.is_none() && saves.bars == 0 && !self.loading.is_on()
    }

    /// The changes since the last save and the seconds since then, if a save point may begin a save now.
    pub(crate) fn unsaved(&self, changes: u64, now_s: u64) -> Option<(u64, u64)> {
        let saves = self.saves.lock();
        let waits = self.failed.load(Relaxed) && now_s.saturating_sub(saves.last_try_s) <= RETRY_S;
        let free = saves.under_way.is_none() && !waits;
        free.then(|| (changes.saturating_sub(saves.saved_changes), now_s.saturating_sub(saves.last_s)))
    }

    /// The file has all that the store holds now: it was loaded, or the store is empty and that is being saved.
    pub(crate) fn set_saved(&self, changes: u64) {
        self.saves.lock().saved_changes = changes;
    }

    /// Follows the store's count of FLUSHALLs; true once for each new one.
    #[inline]
    pub(crate) fn follow_flushes(&self, flushes: u64) -> bool {
        self.flushes.load(Relaxed) != flushes && self.flushes.swap(flushes, Relaxed) != flushes
    }

    /// Bytes of the snapshot that are on their way to the file.
    #[inline]
    pub(crate) fn queued(&self) -> &Arc<QueuedBytes> {
        &self.queued
    }

    /// Unix time of the last save that succeeded, or of the start.
    pub(crate) fn last_s(&self) -> u64 {
        self.saves.lock().last_s
    }

    /// True if the last save in the background failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// The figures as they are now.
    pub(crate) fn facts(&self) -> SaveFacts {
        let saves = self.saves.lock();
        let under_way = saves.under_way.as_ref();
        let running = under_way.filter(|save| !save.is_rewrite);
        SaveFacts {
            in_background: running.is_some_and(|save| save.waiters.is_empty()) || saves.is_promised(),
            running_s: running.filter(|save| save.waiters.is_empty()).map(|save| save.began.elapsed().as_secs()),
            keys_done: under_way.map_or(0, |save| save.snapshot.keys()),
            keys_total: under_way.map_or(0, |save| save.keys),
            last_s: saves.last_s,
            last_ok: !self.has_failed(),
            last_took_s: saves.last_took_s,
            count: saves.count,
            saved_changes: saves.saved_changes,
            queued_bytes: self.queued.read(),
            last_kept_bytes: saves.last_kept_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use varve_store::{Options, Store};

    use super::*;

    /// A save that leaves a file, begun before the first FLUSHALL for nobody who waits.
    fn save_of(persist: &Persist, store: &Store) -> UnderWay {
        UnderWay {
            snapshot: Arc::new(Snapshot::new(store, false, false, persist.queued())),
            waiters: Vec::new(),
            gives_way: false,
            is_rewrite: false,
            leaves_file: true,
            for_replicas: false,
            is_last: false,
            flushes: 0,
            began: Instant::now(),
            changes: 0,
            keys: 0,
        }
    }

    /// A FLUSHALL that is followed late: another worker has begun a save behind it meanwhile.
    #[test]
    fn flushall_gives_up_the_saves_of_before_it_alone() {
        let persist = Persist::new(0, false, Aof::new(Vec::new()));
        let store = Store::new(&Options::default()).expect("an address range");
        let begin = |flushes| {
            let save = UnderWay { flushes, ..save_of(&persist, &store) };
            assert!(persist.begin(0, false, || Some(save)).is_some());
        };
        begin(1);
        assert!(persist.give_up(1).is_none(), "its instant lies behind that FLUSHALL");
        assert!(!persist.queue(None), "nobody waits for a turn behind it");
        assert!(persist.give_up(2).is_some());
        assert!(persist.queue(None) && !persist.is_due());
        persist.finish(Outcome::Cancelled, 1);
        assert!(persist.is_due() && !persist.may_begin(), "to clients that one is under way");
        assert!(persist.facts().in_background && !persist.queue_rewrite());
        assert!(persist.give_up(3).is_none());
        assert!(!persist.is_due() && persist.may_begin(), "FLUSHALL has ended it");
    }

    /// A save that is scheduled waits for the end of loading: its file would have half of the data. And none begins while
    /// a file is about to be loaded, whose name it would take.
    #[test]
    fn no_save_begins_while_data_is_loaded_or_about_to_be() {
        let persist = Persist::new(0, false, Aof::new(Vec::new()));
        let store = Store::new(&Options::default()).expect("an address range");
        let begins = |is_last| {
            let begun = persist.begin(0, is_last, || Some(save_of(&persist, &store))).is_some();
            if begun {
                persist.finish(Outcome::Cancelled, 0);
            }
            begun
        };
        let schedule = || persist.schedule(Scheduled::ByClient);
        schedule();
        persist.loading.set(true);
        assert!(!persist.is_due() && persist.bars_saves() && !begins(false), "half of the data is there");
        let bar = persist.bar_saves();
        persist.loading.set(false);
        assert!(!persist.is_due() && persist.bars_saves() && !begins(false), "a file is about to be loaded");
        assert!(begins(true), "the server ends");
        let last = UnderWay { is_last: true, ..save_of(&persist, &store) };
        assert!(persist.begin(0, true, || Some(last)).is_some() && persist.give_up_but_last().is_none());
        persist.finish(Outcome::Saved, 0);
        schedule();
        drop(bar);
        assert!(persist.is_due() && !persist.bars_saves() && begins(false));
    }

    /// A save that was begun for replicas, one that is sent or one that leaves a file, ends with the last of them: but for a file
    /// that is wanted, or one that is all but whole. Others stay whoever leaves.
    #[test]
    fn issue_17_a_save_for_replicas_is_given_up_without_them() {
        let persist = Persist::new(0, false, Aof::new(Vec::new()));
        let store = Store::new(&Options::default()).expect("an address range");
        let begin = |for_replicas, leaves_file| {
            let save = UnderWay { leaves_file, for_replicas, ..save_of(&persist, &store) };
            persist.begin(0, false, || Some(save)).expect("none is under way")
        };
        let gives_up = |keeps_file, is_awaited| persist.give_up_for_replicas(keeps_file, || is_awaited).is_some();
        begin(true, true);
        assert!(!gives_up(false, true) && !gives_up(true, false));
        assert!(gives_up(false, false) && !gives_up(false, false), "it is given up once");
        persist.finish(Outcome::Cancelled, 0);
        begin(true, false);
        assert!(gives_up(true, false), "it leaves no file");
        persist.finish(Outcome::Cancelled, 0);
        begin(true, false).set_written();
        assert!(!gives_up(false, false), "its replicas may have it, and have gone on");
        persist.finish(Outcome::Saved, 0);
        begin(false, true);
        assert!(!gives_up(false, false), "a client has asked for it");
        persist.finish(Outcome::Saved, 0);
        assert!(!gives_up(false, false), "none is under way");
    }

    #[test]
    fn issue_13_a_rewrite_has_its_turn_behind_the_save_of_flushall() {
        let persist = Persist::new(0, false, Aof::new(Vec::new()));
        let store = Store::new(&Options::default()).expect("an address range");
        assert!(!persist.queue_rewrite(), "nothing is under way: it begins at once");
        let save = UnderWay { gives_way: true, flushes: 1, ..save_of(&persist, &store) };
        assert!(persist.begin(0, false, || Some(save)).is_some() && persist.may_begin());
        assert!(persist.queue_rewrite() && persist.is_rewriting() && !persist.may_begin());
        persist.aof.rewrites.schedule(false);
        assert!(persist.queue(None), "a client asks for a save behind it");
        assert!(!persist.queue_rewrite(), "that one does not give way");
    }

    #[test]
    fn a_save_that_flushall_has_scheduled_stays_one_of_flushall_until_a_client_asks() {
        let persist = Persist::new(0, false, Aof::new(Vec::new()));
        persist.schedule(Scheduled::AfterFlush);
        assert!(persist.is_due());
        assert_eq!(persist.take_waiting(), None);
        persist.schedule(Scheduled::ByClient);
        persist.schedule(Scheduled::AfterFlush);
        assert_eq!(persist.take_waiting(), Some(Vec::new()), "a client asks as well");
    }
}
