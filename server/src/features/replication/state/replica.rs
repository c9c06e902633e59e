//! The replica's end as all threads see it: whom this server follows, how the link stands, and the received stream on its way
//! through the workers.
//!
//! ```text
//!   role       primary --REPLICAOF--> follows --REPLICAOF NO ONE--> leaves --all is applied--> primary
//!              clients may write      refused                       their writes wait
//!
//!   stream     link's thread: piece --> lanes, which workers run --all before its end is applied--> journal, whose end is the offset
//! ```
//! A piece is whole commands, whole transactions among them. Pieces go to the journal as they were received and in their order,
//! so that a replica of this replica, and the append-only file, have the primary's bytes.
//!
//! Not here: the link's conversation (`replica/`).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use mio::Waker;
use varve_base::counter::Counter;
use varve_base::shared::{SharedBool, SharedMutex, SharedU8, SharedU32, SharedU64};
use varve_exec::apply::{Applier, WorkerSet};
use varve_exec::checks::ReplicaRules;
use varve_exec::journal::Journal;

use crate::features::pubsub::state::WorkWaiter;
use crate::system::logging;

/// How long a hold of the applied stream stays for somebody who does not ask for it again.
const HOLD_PATIENCE: Duration = Duration::from_secs(1);

/// Where a primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// A name or an address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// How the link to the primary stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LinkStage {
    /// It is to be made.
    #[default]
    Down,
    /// The other's address is asked.
    Connecting,
    /// Both agree on how to go on.
    Handshake,
    /// The primary's data is received, or loaded.
    Sync,
    /// The stream is received and applied.
    Up,
}

impl LinkStage {
    /// The word that ROLE has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkStage::Down => "connect",
            LinkStage::Connecting => "connecting",
            LinkStage::Handshake => "handshake",
            LinkStage::Sync => "sync",
            LinkStage::Up => "connected",
        }
    }
}

/// The figures that INFO and ROLE show.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkFacts {
    pub(crate) stage: LinkStage,
    /// The address of the primary's end of the last link.
    pub(crate) peer: Option<String>,
    /// When something came from the primary.
    pub(crate) heard: Option<Instant>,
    /// Since when the link has been down; None if it has never been up.
    pub(crate) down_since: Option<Instant>,
    /// Bytes of the primary's data: of all of it (0 if that is not known), and those that have come.
    pub(crate) sync_bytes: (u64, u64),
    /// The offset behind what was read of the stream, applied or not; while it is up.
    pub(crate) read_offset: u64,
    /// When the first of them were waited for.
    pub(crate) sync_began: Option<Instant>,
}

/// Whole commands of the stream on their way through the workers.
#[derive(Debug)]
pub(crate) struct ReceivedPiece {
    pub(crate) bytes: Vec<u8>,
    /// Where messages stand among them.
    pub(crate) messages: Vec<Range<usize>>,
    /// The offset behind them.
    pub(crate) end: u64,
    /// The database that is selected behind them.
    pub(crate) db: u32,
}

/// The part of a server in replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Role {
    Primary = 0,
    /// It follows another one.
    Follows = 1,
    /// It does so no longer, but what it has received is not all applied.
    Leaves = 2,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Replica {
    role: SharedU8,
    is_up: SharedBool,
    /// Lanes apply commands of a stream.
    applies: SharedBool,
    wanted: SharedMutex<Wanted>,
    facts: SharedMutex<LinkFacts>,
    /// Bytes of the stream and of data sets that have come from primaries since the start: the link's thread counts.
    received_bytes: Counter,
    /// Commands on their way to the workers that run them.
    pub(crate) applier: Applier,
    /// Somebody was to hand on what is applied, and another thread had the pieces.
    owes: SharedBool,
    pieces: SharedMutex<VecDeque<ReceivedPiece>>,
    /// The database that is selected where the stream was applied to, while no link is up.
    stream_db: SharedU32,
    /// The offset of which the link's thread is to be told once all before it is applied; `u64::MAX` for none.
    awaited: SharedU64,
    /// The link's thread is to be told when the append-only file is synced further.
    awaits_file: SharedBool,
    hold: SharedMutex<Hold>,
}

/// The hold of the applied stream, for an instant of a save or of a load.
#[derive(Debug, Default)]
struct Hold {
    /// How often it was asked for: a look that finds the same number finds one that nobody has asked for since.
    asked: u64,
    stage: HoldStage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HoldStage {
    /// The stream goes on.
    #[default]
    None,
    /// It is about to stand still, and whoever wants that asks again; or has gone.
    Awaited,
    /// It stands still for somebody, who releases it.
    Stands,
}

/// A hold of the applied stream that was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenHold {
    asked: u64,
    /// Since when it has been the same one.
    since: Instant,
}

#[derive(Debug, Default)]
struct Wanted {
    primary: Option<Address>,
    /// How often that has changed.
    changes: u64,
    /// Cuts of the link that clients have asked for.
    cuts: u64,
    /// No link to it is made any more, since a command of its stream was refused here.
    is_given_up: bool,
    /// Wakes the link's thread; None while there is none.
    waker: Option<Arc<Waker>>,
    /// Clients that wait until the server leads.
    waiting: Vec<WorkWaiter>,
}

/// Whom this server is to follow, as the link's thread sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) primary: Option<Address>,
    /// Another number is another goal, although the primary may be the same.
    pub(crate) number: u64,
}

impl Replica {
    /// Of a primary with this number of workers.
    pub(super) fn new(workers: usize) -> Replica {
        Replica {
            role: SharedU8::new(Role::Primary as u8),
            is_up: SharedBool::new(false),
            applies: SharedBool::new(false),
            wanted: SharedMutex::default(),
            facts: SharedMutex::default(),
            received_bytes: Counter::default(),
            applier: Applier::new(workers),
            owes: SharedBool::new(false),
            pieces: SharedMutex::default(),
            stream_db: SharedU32::new(0),
            awaited: SharedU64::new(u64::MAX),
            awaits_file: SharedBool::new(false),
            hold: SharedMutex::default(),
        }
    }

    /// True while another server decides what changes: effects of this server's own are not kept.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        self.role.load(Ordering::Acquire) != Role::Primary as u8
    }

    /// True while what was received from a primary that was left is not all applied: clients' writes wait.
    #[inline]
    pub(crate) fn leaves(&self) -> bool {
        self.role.load(Ordering::Acquire) == Role::Leaves as u8
    }

    /// The rules for clients, with these settings; None for a primary's.
    #[inline]
    pub(crate) fn rules(&self, read_only: bool, serves_stale: bool) -> Option<ReplicaRules> {
        if self.role.load(Ordering::Acquire) != Role::Follows as u8 {
            return None;
        }
        Some(ReplicaRules { read_only, hides_stale: !serves_stale && !self.is_up.load(Ordering::Relaxed) })
    }

    /// The primary that is followed; None for a primary.
    pub(crate) fn primary(&self) -> Option<Address> {
        self.wanted.lock().primary.clone()
    }

    /// Follows this primary from now on, or nobody: the link's thread does what follows from it. The current figures of the link
    /// are the new one's.
    pub(crate) fn want(&self, primary: Option<Address>) {
        let mut wanted = self.wanted.lock();
        let role = match (&primary, self.follows()) {
            (Some(_), _) => Role::Follows,
            (None, true) => Role::Leaves,
            (None, false) => Role::Primary,
        };
        (wanted.primary, wanted.changes) = (primary, wanted.changes + 1);
        wanted.is_given_up = false;
        // Whoever asks for the link behind this means the new one.
        self.report(|facts| facts.stage = LinkStage::Down);
        self.role.store(role as u8, Ordering::Release);
        logging::set_replica(wanted.primary.is_some());
        wanted.wake();
    }

    /// No link is made for this goal any more, unless it is another one by now.
    pub(crate) fn give_up(&self, goal: &Goal) {
        let mut wanted = self.wanted.lock();
        wanted.is_given_up = wanted.changes == goal.number;
    }

    /// True if this primary is followed already, so that there is nothing to do. One that was given up is not.
    pub(crate) fn is_followed(&self, host: &str, port: u16) -> bool {
        let wanted = self.wanted.lock();
        let is_it = |now: &Address| now.port == port && now.host.eq_ignore_ascii_case(host);
        !wanted.is_given_up && wanted.primary.as_ref().is_some_and(is_it)
    }

    /// Cuts the link, if it is up: it is made anew. True if it was up.
    pub(crate) fn cut(&self) -> bool {
        let mut wanted = self.wanted.lock();
        let is_up = self.is_up.load(Ordering::Relaxed);
        if is_up {
            wanted.cuts += 1;
            wanted.wake();
        }
        is_up
    }

    /// How often the link was to be cut.
    pub(crate) fn cuts(&self) -> u64 {
        self.wanted.lock().cuts
    }

    /// How often it has changed what is wanted.
    pub(crate) fn goal_number(&self) -> u64 {
        self.wanted.lock().changes
    }

    /// The goal of the moment.
    pub(crate) fn goal(&self) -> Goal {
        let wanted = self.wanted.lock();
        Goal { primary: wanted.primary.clone(), number: wanted.changes }
    }

    /// The link's thread begins, woken by this. False if there is one.
    pub(crate) fn begin_thread(&self, waker: &Arc<Waker>) -> bool {
        let mut wanted = self.wanted.lock();
        let begins = wanted.waker.is_none();
        if begins {
            wanted.waker = Some(Arc::clone(waker));
        }
        begins
    }

    /// Nothing is left to be done for the link's thread, which ends; false if there is. The server is a primary from now on.
    pub(crate) fn end_thread(&self, done: &Goal) -> bool {
        let mut wanted = self.wanted.lock();
        let ends = wanted.changes == done.number;
        if ends {
            wanted.waker = None;
        }
        ends
    }

    /// The server has left the one that it followed, and is a primary behind what `settle` does; unless it follows another one by
    /// now: then nothing is done.
    pub(crate) fn lead(&self, done: &Goal, settle: impl FnOnce()) -> bool {
        let wanted = self.wanted.lock();
        let leads = wanted.changes == done.number;
        if leads {
            settle();
            self.role.store(Role::Primary as u8, Ordering::Release);
        }
        leads
    }

    /// A client waits until the server leads, or until something else is wanted; false, and nothing is done, if nothing is to be
    /// waited for.
    pub(crate) fn await_lead(&self, waiter: WorkWaiter) -> bool {
        let mut wanted = self.wanted.lock();
        let leaves = self.leaves();
        if leaves {
            wanted.waiting.push(waiter);
        }
        leaves
    }

    /// The clients that have waited until the server leads, once it does, or something else is wanted.
    pub(crate) fn take_waiting(&self) -> Vec<WorkWaiter> {
        let mut wanted = self.wanted.lock();
        if self.leaves() { Vec::new() } else { std::mem::take(&mut wanted.waiting) }
    }

    /// There is no thread for the link, which was to begin: the server is the primary that it was.
    pub(crate) fn has_no_thread(&self) {
        let mut wanted = self.wanted.lock();
        (wanted.waker, wanted.primary, wanted.changes) = (None, None, wanted.changes + 1);
        self.role.store(Role::Primary as u8, Ordering::Release);
        logging::set_replica(false);
    }

    /// Wakes the link's thread, if there is one.
    pub(crate) fn wake(&self) {
        self.wanted.lock().wake();
    }

    /// Bytes of the stream and of data sets that have come from primaries since the start.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes.get()
    }

    /// Bytes have come from the primary.
    pub(crate) fn note_received(&self, bytes: usize) {
        self.received_bytes.add(bytes as u64);
        self.report(|facts| {
            facts.heard = Some(Instant::now());
            facts.read_offset += bytes as u64;
        });
    }

    /// The figures of the link as they are now.
    pub(crate) fn facts(&self) -> LinkFacts {
        self.facts.lock().clone()
    }

    /// Changes the figures of the link.
    pub(crate) fn report(&self, change: impl FnOnce(&mut LinkFacts)) {
        let mut facts = self.facts.lock();
        let was_up = facts.stage == LinkStage::Up;
        change(&mut facts);
        let is_up = facts.stage == LinkStage::Up;
        if was_up && !is_up {
            facts.down_since = Some(Instant::now());
        }
        self.is_up.store(is_up, Ordering::Relaxed);
    }
}

/// The received stream.
impl Replica {
    /// True while lanes may have commands of a primary to run.
    #[inline]
    pub(crate) fn applies(&self) -> bool {
        self.applies.load(Ordering::Relaxed)
    }

    /// A stream is applied from now on, or no longer.
    pub(crate) fn set_applies(&self, on: bool) {
        self.applies.store(on, Ordering::Relaxed);
    }

    /// Whole commands were received: `route` gives them to the lanes. Whoever asks for an instant meanwhile waits: the commands
    /// may run before their piece is here.
    pub(crate) fn receive<E>(&self, route: impl FnOnce() -> Result<Option<ReceivedPiece>, E>) -> Result<(), E> {
        let mut pieces = self.pieces.lock();
        pieces.extend(route()?);
        Ok(())
    }

    /// Hands on what is applied to the journal, whose end is the offset. The link's thread is woken if that is far enough for it.
    pub(crate) fn hand_on(&self, journal: &Journal) {
        self.hand_on_of(&mut self.pieces.lock(), journal);
        self.hand_on_owed(journal);
    }

    /// Hands on what is applied like [`Replica::hand_on`]. Where another thread has the pieces, that one does it when it has let go of
    /// them: it may have looked before the last command was applied.
    pub(crate) fn try_hand_on(&self, journal: &Journal) {
        self.owes.store(true, Ordering::Relaxed);
        self.hand_on_owed(journal);
    }

    fn hand_on_owed(&self, journal: &Journal) {
        loop {
            // Either this thread sees that another one owes it, or that one sees the pieces free.
            fence(Ordering::SeqCst);
            if !self.owes.load(Ordering::Relaxed) {
                return;
            }
            let Some(mut pieces) = self.pieces.try_lock() else { return };
            self.owes.store(false, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.hand_on_of(&mut pieces, journal);
        }
    }

    fn hand_on_of(&self, pieces: &mut VecDeque<ReceivedPiece>, journal: &Journal) {
        let applied = self.applier.applied();
        while pieces.front().is_some_and(|piece| piece.end <= applied) {
            let Some(ReceivedPiece { bytes, messages, db, .. }) = pieces.pop_front() else { break };
            journal.append_received(bytes, &messages, db);
        }
        if applied >= self.awaited.load(Ordering::Relaxed) && self.awaited.swap(u64::MAX, Ordering::Relaxed) != u64::MAX
        {
            self.wake();
        }
    }

    /// Has the link's thread woken once all before this offset is applied.
    pub(crate) fn wake_at(&self, offset: u64) {
        self.awaited.store(offset, Ordering::Relaxed);
    }

    /// Has the link's thread woken when the append-only file is synced further, or not.
    pub(crate) fn await_file(&self, on: bool) {
        self.awaits_file.store(on, Ordering::SeqCst);
    }

    /// The append-only file is synced further: wakes the link's thread if it waits for that.
    #[inline]
    pub(crate) fn note_synced(&self) {
        if self.awaits_file.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Forgets pieces that were received and cannot be applied.
    pub(crate) fn forget_pieces(&self) {
        self.pieces.lock().clear();
    }

    /// The database that is selected at the offset.
    pub(crate) fn stream_db(&self) -> u32 {
        self.stream_db.load(Ordering::Relaxed)
    }

    /// Sets the database that is selected at the offset.
    pub(crate) fn set_stream_db(&self, db: u32) {
        self.stream_db.store(db, Ordering::Relaxed);
    }

    /// Has the applied stream stand still for an instant: true if what is applied is exactly a beginning of it. If not, no
    /// further commands begin, and it is tried again. [`Replica::release_instant`] follows.
    pub(crate) fn hold_instant(&self, journal: &Journal) -> bool {
        if !self.applies() {
            return true;
        }
        let holds = {
            let mut hold = self.hold.lock();
            let holds = self.applier.hold();
            hold.asked += 1;
            hold.stage = if holds { HoldStage::Stands } else { HoldStage::Awaited };
            holds
        };
        if holds {
            self.hand_on(journal);
        }
        holds
    }

    /// The stream goes on behind an instant. Returns the workers that have something to do.
    pub(crate) fn release_instant(&self) -> WorkerSet {
        let mut hold = self.hold.lock();
        hold.stage = HoldStage::None;
        self.applier.release()
    }

    /// The stream goes on if it is held for somebody who has not asked again since what was `seen`, for
    /// [`HOLD_PATIENCE`]: who may be gone. One that stands still for somebody stays. Returns the workers that have
    /// something to do.
    pub(crate) fn release_abandoned(&self, seen: &mut Option<SeenHold>, now: Instant) -> WorkerSet {
        let mut hold = self.hold.lock();
        if hold.stage != HoldStage::Awaited {
            *seen = None;
            return WorkerSet::default();
        }
        let known = seen.filter(|seen| seen.asked == hold.asked);
        let since = known.map_or(now, |seen| seen.since);
        *seen = Some(SeenHold { asked: hold.asked, since });
        if now.duration_since(since) < HOLD_PATIENCE {
            return WorkerSet::default();
        }
        hold.stage = HoldStage::None;
        self.applier.release()
    }
}

impl Wanted {
    fn wake(&mut self) {
        if let Some(waker) = &self.waker {
            waker.wake().expect("an event descriptor takes a count of one after its thread has read it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Option<Address> {
        Some(Address { host: "127.0.0.1".to_owned(), port: 1 })
    }

    #[test]
    fn writes_wait_until_all_is_applied() {
        let replica = Replica::new(2);
        assert_eq!((replica.follows(), replica.rules(true, true)), (false, None));
        replica.want(address());
        assert_eq!(replica.rules(true, true), Some(ReplicaRules { read_only: true, hides_stale: false }));
        assert_eq!(replica.rules(false, false), Some(ReplicaRules { read_only: false, hides_stale: true }));
        replica.report(|facts| facts.stage = LinkStage::Up);
        assert_eq!(replica.rules(false, false).map(|rules| rules.hides_stale), Some(false));
        let first = replica.goal();
        assert!(replica.is_followed("127.0.0.1", 1) && !replica.is_followed("127.0.0.1", 2));
        replica.give_up(&first);
        assert!(!replica.is_followed("127.0.0.1", 1), "who asks for it again gets a new link");
        replica.want(address());
        replica.give_up(&first);
        assert!(replica.is_followed("127.0.0.1", 1), "that was the link before");
        assert_eq!(replica.facts().stage, LinkStage::Down, "the new link is not up because the old one was");
        replica.want(None);
        assert!(replica.follows() && replica.leaves() && replica.rules(true, true).is_none());
        assert!(!replica.lead(&first, || panic!("that was another goal")));
        let mut is_settled = false;
        assert!(replica.lead(&replica.goal(), || is_settled = replica.leaves()));
        assert!(is_settled && !replica.follows(), "all is settled before it leads");
    }

    /// A hold that is asked for again and again stays, and so does one whose instant has come: only one that nobody
    /// asks for any more is released.
    #[test]
    fn a_hold_is_released_by_whoever_has_it_or_when_nobody_asks_for_it() {
        let (replica, journal, now) = (Replica::new(1), Journal::new(1), Instant::now());
        replica.set_applies(true);
        let stage = || replica.hold.lock().stage;
        let (mut seen, mut look) = (None, 0);
        let mut look_again = |replica: &Replica| {
            look += 1;
            replica.release_abandoned(&mut seen, now + HOLD_PATIENCE * look);
        };
        assert!(replica.hold_instant(&journal), "nothing is being applied");
        (0..3).for_each(|_| look_again(&replica));
        assert_eq!(stage(), HoldStage::Stands, "somebody's instant goes on");
        replica.release_instant();
        let ask = || {
            // Something is being applied.
            replica.hold_instant(&journal);
            replica.hold.lock().stage = HoldStage::Awaited;
        };
        for _ in 0..3 {
            ask();
            look_again(&replica);
            assert_eq!(stage(), HoldStage::Awaited, "it was asked for since the last look");
        }
        look_again(&replica);
        assert_eq!(stage(), HoldStage::None, "nobody has asked again");
    }

    #[test]
    fn pieces_go_on_when_they_are_applied() {
        let (replica, journal) = (Replica::new(1), Journal::new(1));
        journal.follow_from(0);
        replica.applier.begin(100);
        for (bytes, end) in [("one", 103), ("three", 108)] {
            let piece = ReceivedPiece { bytes: bytes.into(), messages: Vec::new(), end, db: 0 };
            replica.receive(|| Ok::<_, ()>(Some(piece))).expect("it was received");
        }
        for (applied, handed_on) in [(100, 0), (104, 3), (108, 8)] {
            replica.applier.begin(applied);
            replica.hand_on(&journal);
            assert_eq!(varve_store::EffectSink::end(&*journal), handed_on, "applied up to {applied}");
        }
    }

    /// A worker that has done the last command finds the pieces taken by one that has looked before: that one looks again.
    #[test]
    fn what_is_applied_while_another_has_the_pieces_goes_on_behind_that() {
        let (replica, journal) = (Replica::new(2), Journal::new(2));
        journal.follow_from(0);
        replica.applier.begin(100);
        let piece = ReceivedPiece { bytes: b"one".to_vec(), messages: Vec::new(), end: 103, db: 0 };
        replica.receive(|| Ok::<_, ()>(Some(piece))).expect("it was received");
        let mut pieces = replica.pieces.lock();
        replica.hand_on_of(&mut pieces, &journal);
        replica.applier.begin(103);
        replica.try_hand_on(&journal);
        assert_eq!(varve_store::EffectSink::end(&*journal), 0, "the pieces are taken");
        drop(pieces);
        replica.hand_on_owed(&journal);
        assert_eq!(varve_store::EffectSink::end(&*journal), 3);
        assert!(!replica.owes.load(Ordering::Relaxed));
    }
}
