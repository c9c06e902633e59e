//! Replication as plain data, shared by all threads.
//!
//! ```text
//!   journal --its thread: put--> backlog --each replica's worker--> sockets
//!                                   |  needed, and too much for memory: spool, unless the append-only file has it
//!   ids: which history, at what offset      past: where it is in files      replicas: where each one is
//!   peer: what a connection has said        replica: the primary that this server follows, if it does
//! ```
//! Not here: commands, connections, files.

pub(crate) mod backlog;
pub(crate) mod failover;
pub(crate) mod ids;
pub(crate) mod past;
pub(crate) mod peer;
pub(crate) mod replica;
pub(crate) mod replicas;
pub(crate) mod spool;
pub(crate) mod waiters;
pub(crate) mod watchers;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_aof::StreamPlace;
use varve_base::shared::{SharedBool, SharedI64, SharedMutex, SharedU64};
use varve_exec::journal::Chunk;

use backlog::Backlog;
use failover::{Failover, Handing};
use ids::{History, Ids};
use past::Past;
use replica::{Address, LinkFacts};
use replicas::{Replica, ReplicaNow, Replicas, Stage, SyncFile};
use spool::Spool;
use waiters::Waiters;
use watchers::Watchers;

use crate::system::error_text;

/// Bytes beyond `repl-backlog-size` that a slow replica may hold in memory: what lies further back is in files or goes there.
const BEHIND_BYTES_MAX: u64 = 8 << 20;

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Replication {
    ids: Ids,
    replica: replica::Replica,
    backlog: Backlog,
    spool: Spool,
    /// The part of the stream that the append-only file has.
    past: SharedMutex<Arc<Past>>,
    replicas: Replicas,
    waiters: Waiters,
    watchers: Watchers,
    failover: Failover,
    /// The walks so far whose data sets are for replicas: the number of the last one.
    walks: SharedU64,
    /// The end of the journal when replicas were last asked how far they are.
    asked_at: SharedU64,
    /// The stream is kept: effects are appended to the journal for replicas.
    is_kept: SharedBool,
    /// `repl-backlog-size`.
    backlog_size: SharedU64,
    /// `repl-spool-size`.
    spool_size: SharedU64,
    /// Since when there is no replica, milliseconds of the steady clock; 0 while there is one, or no stream is kept.
    alone_since_ms: SharedU64,
    /// When what is due each second was last done, and when PING was last said; milliseconds of the steady clock.
    pub(crate) looked_ms: SharedI64,
    pub(crate) pinged_ms: SharedI64,
    pub(crate) counts: SyncCounts,
}

/// How replicas were served when they came, since the start or CONFIG RESETSTAT.
#[derive(Debug, Default)]
pub(crate) struct SyncCounts {
    /// With a data set.
    pub(crate) full: SharedU64,
    /// With the stream from where they were.
    pub(crate) partial: SharedU64,
    /// They asked for that, and it was not there any more.
    pub(crate) refused: SharedU64,
}

impl SyncCounts {
    /// They begin at 0 again.
    pub(crate) fn reset(&self) {
        [&self.full, &self.partial, &self.refused].iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// The figures of INFO.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicationFacts {
    pub(crate) history: History,
    /// Bytes of the stream since its history began.
    pub(crate) offset: u64,
    pub(crate) is_kept: bool,
    /// The primary that is followed, and the link to it.
    pub(crate) primary: Option<(Address, LinkFacts)>,
    /// The offset of the first byte that is still in memory or in the spool, from 1 on, and their number.
    pub(crate) backlog_first: u64,
    pub(crate) backlog_bytes: u64,
    /// Memory of the backlog.
    pub(crate) backlog_held_bytes: u64,
    /// Bytes of the stream that lie in the spool.
    pub(crate) spool_bytes: u64,
    /// When the figures were taken, milliseconds of the steady clock.
    pub(crate) now_ms: i64,
    /// In the order in which they came.
    pub(crate) replicas: Vec<ReplicaNow>,
    /// How far this server is with giving its place to one of them.
    pub(crate) handing: Handing,
    /// Those that have acknowledged lately.
    pub(crate) good_replicas: usize,
    pub(crate) full: u64,
    pub(crate) partial: u64,
    pub(crate) refused: u64,
}

impl Replication {
    /// Nobody replicates anything. The stream's id is this one, 40 hexadecimal digits.
    pub(crate) fn new(id: String, workers: usize) -> Replication {
        Replication {
            ids: Ids::new(id),
            replica: replica::Replica::new(workers),
            backlog: Backlog::default(),
            spool: Spool::default(),
            past: SharedMutex::default(),
            replicas: Replicas::new(workers),
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            failover: Failover::default(),
            walks: SharedU64::new(0),
            asked_at: SharedU64::new(0),
            is_kept: SharedBool::new(false),
            backlog_size: SharedU64::new(0),
            spool_size: SharedU64::new(0),
            alone_since_ms: SharedU64::new(0),
            looked_ms: SharedI64::new(0),
            pinged_ms: SharedI64::new(0),
            counts: SyncCounts::default(),
        }
    }

    /// The identity of the stream.
    pub(crate) fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The replica's end.
    #[inline]
    pub(crate) fn replica(&self) -> &replica::Replica {
        &self.replica
    }

    /// The end of the stream that is in memory.
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// The part of the stream that lies in files since memory is not to hold it.
    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// The part of the stream that the append-only file has; nothing while none is kept.
    pub(crate) fn past(&self) -> Arc<Past> {
        Arc::clone(&self.past.lock())
    }

    /// The append-only file has this part of the stream.
    pub(crate) fn set_past(&self, past: Arc<Past>) {
        *self.past.lock() = past;
    }

    /// The replicas of this server.
    pub(crate) fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// Clients that wait for copies.
    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Threads that wait for what replicas acknowledge.
    pub(crate) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Whether this server is giving its place to a replica.
    pub(crate) fn failover(&self) -> &Failover {
        &self.failover
    }

    /// True if replicas are to be asked how far they are, for a client that waits for this position: they have not been since.
    pub(crate) fn is_to_ask(&self, position: u64) -> bool {
        self.asked_at.fetch_max(position, Ordering::Relaxed) < position && !self.replicas.all().is_empty()
    }

    /// True while effects are appended to the journal for replicas, whether there is one or not.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// The settings of the backlog and of the spool have these values, in bytes.
    pub(crate) fn set_sizes(&self, backlog: u64, spool: u64) {
        self.backlog_size.store(backlog, Ordering::Relaxed);
        self.spool_size.store(spool, Ordering::Relaxed);
    }

    /// Bytes of the backlog that count against `maxmemory`: what slow replicas need beyond its size is bounded by their own
    /// limits, and must not cost a key its place.
    pub(crate) fn counted_bytes(&self) -> u64 {
        match self.is_kept() {
            true => (self.backlog.held_bytes() as u64).min(self.backlog_size.load(Ordering::Relaxed)),
            false => 0,
        }
    }

    /// The stream is kept from this position of the journal on, as another history. The gate is held alone.
    pub(crate) fn begin(&self, id: String, at: u64) {
        self.ids.begin(id, at);
        self.begin_at(at);
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// The history of before the start goes on from this position of the journal on, under this id.
    pub(crate) fn carry_on(&self, id: String, carried: &StreamPlace, at: u64) {
        self.ids.carry_on(id, carried, at);
        self.begin_at(at);
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// The history of before the start, which is a primary's, goes on from this position of the journal on.
    pub(crate) fn carry_on_following(&self, carried: &StreamPlace, at: u64) {
        self.ids.carry_on_following(carried, at);
        self.begin_at(at);
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// The stream is kept from this position of the journal on, as the primary's that is followed. The gate is held alone.
    pub(crate) fn begin_following(&self, at: u64) {
        self.ids.count(at);
        self.begin_at(at);
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// The stream is not kept any more, from this position on. The gate is held alone.
    pub(crate) fn end(&self, id: String, at: u64) {
        self.is_kept.store(false, Ordering::Relaxed);
        self.ids.rest(id, at);
        self.begin_at(at);
        self.alone_since_ms.store(0, Ordering::Relaxed);
    }

    /// Ends the stream like [`Replication::end`], unless there is a replica: false then. One that comes later finds no
    /// stream.
    pub(crate) fn end_if_alone(&self, id: String, at: u64) -> bool {
        {
            let all = self.replicas.all();
            if !self.is_kept() || !all.is_empty() {
                return false;
            }
            // Whoever is added behind this sees it.
            self.is_kept.store(false, Ordering::Relaxed);
        }
        self.end(id, at);
        true
    }

    /// This one is a replica from now on; false, and it is none, if there is no stream any more.
    pub(crate) fn add(&self, replica: &Arc<Replica>) -> bool {
        self.replicas.add(Arc::clone(replica));
        let is_kept = self.is_kept();
        if !is_kept {
            self.replicas.remove(replica);
        }
        is_kept
    }

    fn begin_at(&self, at: u64) {
        self.backlog.begin(at);
        self.spool.let_go(|| u64::MAX);
    }

    /// Takes what the journal's thread has taken.
    pub(crate) fn put(&self, chunks: &[Arc<Chunk>], end: u64) {
        let size = self.backlog_size.load(Ordering::Relaxed);
        self.backlog.put(chunks, end, size, || self.replicas.needed());
        if self.spool.bytes() > 0 {
            self.spool.let_go(|| self.replicas.needed());
        }
        self.spill(size + BEHIND_BYTES_MAX);
    }

    /// Lets go of what no replica needs of the spool any more, but for the file that is written.
    pub(crate) fn trim_spool(&self) {
        self.spool.let_older_go(|| self.replicas.needed());
    }

    /// A replica has gone: lets go of what it alone needed, without waiting for more of the stream.
    pub(crate) fn trim(&self) {
        self.backlog.let_go(self.backlog_size.load(Ordering::Relaxed), || self.replicas.needed());
        self.trim_spool();
    }

    /// Has all but the last `most` bytes of the backlog lie in the spool, if its size is not 0. Called by the thread that puts.
    fn spill(&self, most: u64) {
        let spool_size = self.spool_size.load(Ordering::Relaxed);
        while let Some((at, chunk)) = self.backlog.oldest_beyond(most).filter(|_| spool_size > 0) {
            let spooled = self.spool.bytes();
            if spooled == 0 && self.past().before(self.ids.offset(at)).is_some() {
                // Its replicas will be sent it out of the append-only file.
                return;
            }
            let end = at + chunk.len() as u64;
            let fits = spooled + chunk.len() as u64 <= spool_size;
            let put = || self.spool.append(&std::env::current_dir()?, at, &chunk);
            match fits.then(put) {
                Some(Ok(())) => self.backlog.let_oldest_go(at),
                None => return self.end_spool(end, "it is behind by more than repl-spool-size"),
                Some(Err(error)) => {
                    tracing::warn!("Writing the stream for slow replicas: {}", error_text(&error));
                    return self.end_spool(end, "the part of the stream that it needs cannot be kept on disk");
                }
            }
        }
    }

    /// The connections of replicas end that need something in front of this position, and what only they needed goes.
    #[cold]
    fn end_spool(&self, position: u64, why: &'static str) {
        tracing::warn!("Disconnecting a replica: {why}");
        self.replicas.end_before(position, why);
        self.spool.let_go(|| self.replicas.needed());
    }

    /// For how long the stream has been kept for nobody, in milliseconds.
    pub(crate) fn alone_ms(&self, now_ms: i64) -> u64 {
        if !self.is_kept() || !self.replicas.all().is_empty() {
            self.alone_since_ms.store(0, Ordering::Relaxed);
            return 0;
        }
        let _ = self.alone_since_ms.compare_exchange(0, now_ms as u64, Ordering::Relaxed, Ordering::Relaxed);
        (now_ms as u64).saturating_sub(self.alone_since_ms.load(Ordering::Relaxed))
    }

    /// Gives a replica, one of [`Replication::replicas`], the stream from behind this offset on, if it is the history of this
    /// id up to there and the bytes are there: in memory, in the spool, or in files. False if not. The journal ends at `end`.
    pub(crate) fn go_on(&self, replica: &Replica, (id, offset): (&[u8], i64), end: u64) -> bool {
        let Ok(from) = u64::try_from(offset) else { return false };
        if !self.is_kept() || !self.ids.admits(id, offset) || from > self.ids.offset(end) {
            return false;
        }
        self.keep_from(replica, from) || self.spool_from(replica, from) || replica.begin_filed(from, || self.past())
    }

    /// Has the spool keep the bytes behind this offset for a replica, if it and the backlog have all of them; false if not. What
    /// one slow replica needs is there for others as well.
    fn spool_from(&self, replica: &Replica, offset: u64) -> bool {
        let Some(position) = self.ids.position(offset as i64) else { return false };
        if !self.spool.claim(position, || replica.set_spooled(position)) {
            return false;
        }
        // The last file stays for a while when nobody needs it, and the backlog may begin behind its end. From the claim on it
        // lets go of nothing that the replica needs: what is there now stays.
        let has_all = self.spool.first_before(self.backlog.bounds().0) <= position;
        if !has_all {
            replica.set_spooled(u64::MAX);
        }
        has_all
    }

    /// Has the backlog keep the bytes behind this offset for a replica, if it has them; false if not.
    pub(crate) fn keep_from(&self, replica: &Replica, offset: u64) -> bool {
        self.ids.position(offset as i64).is_some_and(|position| self.keep_from_position(replica, position))
    }

    /// Has the backlog keep the bytes from this position on for a replica, if it has them; false if not.
    pub(crate) fn keep_from_position(&self, replica: &Replica, position: u64) -> bool {
        // Whoever looks at what replicas need meanwhile sees no place that is not kept.
        self.backlog.claim(position, || replica.set_cursor(position))
    }

    /// No file has the stream behind this position any more: memory or the spool keep it for replicas that are sent files. The
    /// gate is held alone.
    pub(crate) fn end_files(&self, position: u64) {
        self.set_past(Arc::default());
        self.replicas
            .all()
            .iter()
            .filter(|replica| replica.filed() != u64::MAX)
            .for_each(|replica| replica.need(position));
    }

    /// A replica that holds more of the backlog in memory than it may gets its bytes out of files from now on, if they have
    /// them. The journal ends at `end`.
    #[inline]
    pub(crate) fn leave_to_files(&self, replica: &Replica, end: u64) {
        let cursor = replica.cursor();
        let most = self.backlog_size.load(Ordering::Relaxed) + BEHIND_BYTES_MAX;
        if cursor == u64::MAX || end.saturating_sub(cursor) <= most {
            return;
        }
        if replica.begin_filed(self.ids.offset(cursor), || self.past()) {
            replica.set_cursor(u64::MAX);
        }
    }

    /// A replica whose next byte is not in memory any more gets its bytes out of the spool from now on, if that has them;
    /// false if not.
    pub(crate) fn leave_to_spool(&self, replica: &Replica) -> bool {
        let cursor = replica.cursor();
        let has = self.spool.file_at(cursor).is_some();
        if has {
            replica.set_spooled(cursor);
            replica.set_cursor(u64::MAX);
        }
        has
    }

    /// Bytes of the stream up to `end` that lie in memory for a replica.
    pub(crate) fn held_for(&self, replica: &Replica, end: u64) -> u64 {
        end.saturating_sub(replica.cursor().max(self.backlog.bounds().0))
    }

    /// The instant of a data set, at this position: replicas that wait get it. Gives the number of its walk.
    pub(crate) fn begin_walk(&self, position: u64) -> u64 {
        let offset = self.ids.offset(position);
        let walk = self.walks.fetch_add(1, Ordering::Relaxed) + 1;
        for replica in self.replicas.all().iter() {
            let mut now = replica.now();
            if matches!(now.stage, Stage::WaitsForWalk) {
                (now.stage, now.instant, now.walk) = (Stage::InWalk, offset, walk);
                replica.set_cursor(position);
            }
        }
        walk
    }

    /// The number of replicas that are there for the data set of the last instant: they wait for it, are sent it, or have it.
    pub(crate) fn in_walk(&self) -> usize {
        let walk = self.walks.load(Ordering::Relaxed);
        let is_there = |replica: &&Arc<Replica>| {
            let now = replica.now();
            now.walk == walk && !matches!(now.stage, Stage::Ends(_))
        };
        self.replicas.all().iter().filter(is_there).count()
    }

    /// The data set of this walk is being written to this file: the walk's replicas get it meanwhile.
    pub(crate) fn send_walk(&self, walk: u64, file: &Arc<SyncFile>) {
        for replica in self.replicas.all().iter() {
            let mut now = replica.now();
            if now.is_in(walk) {
                now.stage = Stage::Gets(Arc::clone(file));
            }
        }
    }

    /// The data set of this walk is in this file; None if it could not be written.
    pub(crate) fn end_walk(&self, walk: u64, file: Option<SyncFile>) {
        let file = file.map(Arc::new);
        for replica in self.replicas.all().iter() {
            let mut now = replica.now();
            if now.is_in(walk) {
                now.stage = match &file {
                    Some(file) => Stage::Gets(Arc::clone(file)),
                    None => Stage::Ends("its data set could not be written"),
                };
            }
        }
    }

    /// The figures at this time of the steady clock, where the journal ends at this position.
    pub(crate) fn facts(&self, end: u64, now_ms: i64) -> ReplicationFacts {
        let (in_memory, last) = self.backlog.bounds();
        let first = self.spool.first_before(in_memory);
        let is_kept = self.is_kept();
        let count = |count: &SharedU64| count.load(Ordering::Relaxed);
        ReplicationFacts {
            history: self.ids.history(),
            offset: self.ids.offset(end),
            is_kept,
            primary: self.replica.primary().map(|primary| (primary, self.replica.facts())),
            backlog_first: if is_kept { self.ids.offset(first) + 1 } else { 0 },
            backlog_bytes: if is_kept { last - first } else { 0 },
            backlog_held_bytes: self.backlog.held_bytes() as u64,
            spool_bytes: self.spool.bytes(),
            now_ms,
            replicas: self.replicas.all().iter().map(|replica| replica.now().clone()).collect(),
            handing: self.failover.stage(),
            good_replicas: self.replicas.good(),
            full: count(&self.counts.full),
            partial: count(&self.counts.partial),
            refused: count(&self.counts.refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use varve_exec::journal::StreamMark;

    use super::peer::Peer;
    use super::*;

    /// A replica of nobody yet.
    fn replica() -> Replica {
        Replica::new(0, &Peer::default(), ReplicaNow::online(String::new(), 0, 0))
    }

    /// Bytes of each chunk that is put into the stream.
    const LEN: u64 = 1 << 20;

    fn chunk() -> Arc<Chunk> {
        Arc::new(Chunk::new(vec![b'x'; LEN as usize], None))
    }

    /// A stream of forty chunks, of which a replica has none, beside a backlog of 100 bytes.
    fn behind_by_forty() -> (Replication, Arc<Replica>) {
        let replication = Replication::new("a".repeat(40), 1);
        replication.begin("b".repeat(40), 0);
        replication.set_sizes(100, 1 << 30);
        let slow = Arc::new(replica());
        slow.set_cursor(0);
        replication.replicas.add(Arc::clone(&slow));
        let chunk = chunk();
        (1..=40).for_each(|n| replication.put(&[Arc::clone(&chunk)], n * LEN));
        (replication, slow)
    }

    /// A replica that came behind the instant of a data set gets none of that instant, whose stream it would miss a
    /// part of.
    #[test]
    fn a_data_set_is_for_the_replicas_of_its_walk_alone() {
        let replication = Replication::new("a".repeat(40), 1);
        replication.begin("b".repeat(40), 0);
        let comes = || {
            let replica = Arc::new(replica());
            replica.now().stage = Stage::WaitsForWalk;
            replication.replicas.add(Arc::clone(&replica));
            replica
        };
        let file = || SyncFile::whole(std::fs::File::open("/dev/null").expect("it is there")).expect("it has a length");
        let is_in_walk = |replica: &Replica| matches!(replica.now().stage, Stage::InWalk);
        let first = comes();
        let walk = replication.begin_walk(0);
        let second = comes();
        let next = replication.begin_walk(10);
        replication.send_walk(walk, &Arc::new(file()));
        assert!(matches!(first.now().stage, Stage::Gets(_)) && is_in_walk(&second));
        replication.end_walk(walk, None);
        assert!(is_in_walk(&second), "another walk has failed");
        replication.end_walk(next, Some(file()));
        assert!(matches!(second.now().stage, Stage::Gets(_)));
    }

    /// A replica that comes beside the end of the stream keeps it, or is told that there is none: it never waits for an
    /// instant of a stream that has ended.
    #[test]
    fn a_stream_ends_without_replicas_alone() {
        let replication = Replication::new("a".repeat(40), 1);
        replication.begin("b".repeat(40), 0);
        let [first, second] = [(); 2].map(|()| Arc::new(replica()));
        assert!(replication.add(&first));
        assert!(!replication.end_if_alone("c".repeat(40), 0) && replication.is_kept());
        replication.replicas.remove(&first);
        assert!(replication.end_if_alone("c".repeat(40), 0) && !replication.is_kept());
        assert!(!replication.add(&second) && replication.replicas.all().is_empty());
        replication.begin("d".repeat(40), 0);
        assert!(replication.add(&second));
        // The data is given up before it has learned what it gets.
        replication.replicas.end_all("gone");
        second.await_walk();
        assert!(matches!(second.now().stage, Stage::Ends("gone")));
        assert!(replication.add(&first));
        first.await_walk();
        assert!(matches!(first.now().stage, Stage::WaitsForWalk));
    }

    /// The bytes that a slow replica needs are there for another one that comes back.
    #[test]
    fn issue_17_a_replica_goes_on_out_of_the_spool() {
        let (replication, slow) = behind_by_forty();
        let facts = replication.facts(40 * LEN, 0);
        assert!(facts.spool_bytes > 20 * LEN, "memory does not hold all: {facts:?}");
        assert_eq!((facts.backlog_first, facts.backlog_bytes), (1, 40 * LEN), "all of it is there");
        let (id, back) = (replication.ids.history().id, Arc::new(replica()));
        replication.replicas.add(Arc::clone(&back));
        assert!(replication.go_on(&back, (id.as_bytes(), 5 * LEN as i64), 40 * LEN));
        assert_eq!((back.spooled(), back.cursor()), (5 * LEN, u64::MAX));
        // Once the slow one has gone, the place of the other one stays.
        replication.replicas.remove(&slow);
        replication.trim();
        assert!(replication.spool.file_at(5 * LEN).is_some());
        replication.replicas.remove(&back);
        replication.put(&[chunk()], 41 * LEN);
        assert_eq!(replication.spool.bytes(), 0);
        assert!(!replication.go_on(&back, (id.as_bytes(), 5 * LEN as i64), 41 * LEN), "it is gone");
    }

    /// The last file of the spool stays until more of the stream comes; the backlog has shrunk by then.
    #[test]
    fn issue_17_a_spool_that_ends_before_the_backlog_begins_serves_nobody() {
        let (replication, slow) = behind_by_forty();
        replication.replicas.remove(&slow);
        replication.trim();
        assert!(replication.spool.file_at(5 * LEN).is_some() && replication.backlog.bounds().0 >= 39 * LEN);
        let (id, back) = (replication.ids.history().id, Arc::new(replica()));
        replication.replicas.add(Arc::clone(&back));
        assert!(!replication.go_on(&back, (id.as_bytes(), 5 * LEN as i64), 40 * LEN), "the bytes in between are gone");
        assert_eq!((back.spooled(), replication.replicas.needed()), (u64::MAX, u64::MAX));
        assert_eq!(replication.facts(40 * LEN, 0).backlog_first, replication.backlog.bounds().0 + 1);
    }

    #[test]
    fn issue_17_the_end_of_the_file_takes_it_from_no_replica_that_it_was_promised() {
        let replication = Replication::new("a".repeat(40), 1);
        replication.begin("b".repeat(40), 1000);
        let chunk = Arc::new(Chunk::new(vec![b'x'; 100_000], None));
        replication.backlog.put(&[Arc::clone(&chunk), chunk], 201_000, 100, || u64::MAX);
        let past = Arc::new(Past::default());
        past.begin_file(1, PathBuf::from("1"));
        past.mark(StreamMark::At(0), 0);
        replication.set_past(past);
        let (id, early) = (replication.ids.history().id, replica());
        assert!(replication.go_on(&early, (id.as_bytes(), 10), 201_000), "the file has it, memory has not");
        let early = Arc::new(early);
        replication.replicas.add(Arc::clone(&early));
        replication.end_files(201_000);
        assert!(early.past().before(10).is_some(), "its courier begins only now");
        assert_eq!((early.filed(), replication.replicas.needed()), (10, 201_000));
        let late = replica();
        assert!(!replication.go_on(&late, (id.as_bytes(), 10), 201_000), "no file is kept any more");
        assert_eq!((late.filed(), late.past().before(10)), (u64::MAX, None));
    }
}
