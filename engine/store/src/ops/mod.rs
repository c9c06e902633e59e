//! One command's view of the keyspace: its shards are held, nothing here takes a lock.
//!
//! ```text
//! batch:   Tx::new ........................................ drop
//! command:      try_hold(shards)  ops on keys  [keep | release]
//! ```
//! Every operation starts with [`Tx::live`]: find the entry, and remove it if its time has come. All changes go
//! through the few functions of this folder, so what must see each change (watched keys, a running save, the journal)
//! has few places to stand.

use std::time::Duration;

use varve_base::Ref;
use varve_collection::list::CompressScratch;
use varve_index::IndexEntry;
use varve_segment::Object;

use crate::keyspace::door::{RootTransfer, Shown};
use crate::keyspace::guards::ShardGuards;
use crate::keyspace::store::Store;
use crate::keyspace::token::ScriptToken;
use crate::keyspace::worker::WorkerState;
use crate::state::buffers::Buffers;
use crate::state::clock::is_over;
use crate::state::events::EventClass;
use crate::state::key::Key;
use crate::state::ready::ReadyKeys;

mod ahead;
mod draw;
mod fields;
mod generic;
mod hashes;
mod hashes_mut;
mod inside;
mod lists;
mod lists_middle;
mod lists_mut;
mod opened;
mod picking;
mod reading;
mod report;
mod scan;
mod set_leaf;
mod sets;
mod sets_algebra;
mod sets_in_parts;
mod sets_mut;
mod streams;
mod strings;
mod unpublished;
mod waiters;
mod watch;
mod whole;
mod writable;
mod zsets;
mod zsets_mut;
mod zsets_ranges;

pub use ahead::{Ahead, ElementLine, GuessedCollection};
pub use draw::{Pick, Picker};
pub use hashes_mut::AddError;
pub use lists::ListPart;
pub use reading::{EntryReader, ListReader, ListSearch, ReadOn, ZsetReader};
pub use scan::Drawn;
pub use sets::SetView;
pub use sets_algebra::{SetOp, SetViews};
pub use sets_in_parts::SetsInParts;
pub use streams::StreamWriter;
pub use unpublished::Unpublished;
pub use whole::WholeReader;
pub use writable::REWRITTEN_AT_ONCE;
pub use zsets_ranges::ZRanges;

/// A view for the commands of one batch.
pub struct Tx<'s> {
    store: &'s Store,
    local: &'s mut WorkerState,
    held: ShardGuards<'s>,
    /// Keys that got something while somebody waits for them, in that order.
    ready: ReadyKeys,
    db: u32,
    physical: u16,
    /// A transaction runs: its shards are not let go before its end.
    atomic: bool,
    /// The token is held: shards are added to those held, in any order, and all are kept to the end.
    gathers: bool,
    /// Where keys stand whose time has come.
    overdue: Overdue,
    /// Replies wait for the journal.
    awaits_journal: bool,
    /// Commands that are put back are tried again ([`Tx::set_patient`]).
    patient: bool,
    /// The command that runs is to be put back.
    put_back: bool,
}

impl std::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("db", &self.db).finish_non_exhaustive()
    }
}

/// The fate of a key that a command meets and whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// It is removed, and gone.
    Removed,
    /// It is left where it is, and counts as gone: while the store stands still only commands that change nothing run.
    Hidden,
    /// It is as any other: a file is replayed, whose writer has written when a key went.
    Alive,
}

/// Where a live key stands.
#[derive(Clone, Copy)]
struct Found {
    /// Position of its shard among the held ones.
    shard: usize,
    entry: IndexEntry,
    r: Ref,
}

/// The parts that a new object keeps of the one that it replaces.
struct Kept {
    /// The expiry, in milliseconds of Unix time.
    expiry_ms: Option<i64>,
    /// The mark SAVED.
    saved: bool,
}

/// A key that was found, and whose object the walker of a walk under way has seen: it may change.
#[derive(Clone, Copy)]
struct Changing {
    found: Found,
    shown: Shown,
}

/// How long a command on its way waits for shards that are busy.
const SOON: Duration = Duration::from_micros(100);

impl<'s> Tx<'s> {
    /// A view on logical database `db`, with no shard held.
    pub fn new(store: &'s Store, local: &'s mut WorkerState, db: u32) -> Tx<'s> {
        let physical = store.database_map().physical(db);
        Tx {
            physical,
            store,
            local,
            held: ShardGuards::new(),
            ready: ReadyKeys::default(),
            db,
            atomic: false,
            gathers: false,
            overdue: Overdue::Removed,
            awaits_journal: store.awaits_journal(),
            patient: false,
            put_back: false,
        }
    }

    /// Takes the shards of these hashes for the next command, keeping them if they are the ones held already.
    /// False if one is busy: then nothing is held and nothing has been done.
    #[inline]
    pub fn try_hold(&mut self, shards: &[u16]) -> bool {
        if self.held.is(shards) {
            return true;
        }
        self.held.release();
        let taken = self.held.try_take(self.store.cells(), shards);
        self.follow_journal();
        taken
    }

    /// Tries to hold one shard, like [`Tx::try_hold`].
    #[inline(always)]
    pub fn try_hold_one(&mut self, shard: u16) -> bool {
        if self.held.is(&[shard]) {
            return true;
        }
        self.held.release();
        let taken = self.held.try_take_one(self.store.cells(), shard);
        self.follow_journal();
        taken
    }

    /// Tries to hold these shards for the time `within`, keeping those that are free meanwhile: of many shards, one is
    /// always busy. On failure nothing is held.
    #[cold]
    pub fn hold_within(&mut self, shards: &[u16], within: Duration) -> bool {
        if self.held.is(shards) {
            return true;
        }
        self.held.release();
        let taken = self.held.take_within(self.store.cells(), shards, within);
        self.follow_journal();
        taken
    }

    /// Notes the units of the shards that were taken: what a command reads there may be theirs.
    #[inline(always)]
    fn follow_journal(&mut self) {
        if self.awaits_journal {
            self.follow_held();
        }
    }

    #[cold]
    fn follow_held(&mut self) {
        let ends = self.held.iter().map(|shard| shard.journal_end);
        self.local.follow_journal(ends.max().unwrap_or(0));
    }

    /// Takes these shards, waiting as long as it takes. What is held and not among them is let go: whoever has looked at
    /// something before looks again.
    pub fn hold(&mut self, shards: &[u16]) {
        if self.gathers {
            self.held.gather(self.store.cells(), shards);
            self.follow_journal();
        } else if !self.held.is(shards) && !self.keeps(shards) {
            self.held.release();
            self.held.take(self.store.cells(), shards);
            self.follow_journal();
        }
    }

    /// True for the view of a script that runs beside others ([`Tx::gather`]).
    pub fn gathers(&self) -> bool {
        self.gathers
    }

    /// Takes these shards for a script beside those that it holds, and waits for some 100 us at most, since another worker may hold
    /// one for long; false if one is busy then. The script rests and calls this again: nobody else takes that shard before.
    pub fn gather_soon(&mut self, shards: &[u16]) -> bool {
        debug_assert!(self.gathers, "a script's view");
        let taken = self.held.gather_within(self.store.cells(), shards, SOON);
        self.follow_journal();
        taken
    }

    /// True if these shards are among those that are kept to the end of a transaction.
    #[cold]
    fn keeps(&self, shards: &[u16]) -> bool {
        let keeps = self.atomic && shards.iter().all(|&id| self.held.has(id));
        debug_assert!(keeps || !self.atomic, "a transaction takes its shards before it begins");
        keeps
    }

    /// Takes these shards for a command on its way, like [`Tx::hold`] for one that has all others kept out. Where others are
    /// beside it, it waits for some 100 us at most, since a script may hold a shard for long: false, and nothing is held, if
    /// that does not do.
    pub fn hold_soon(&mut self, shards: &[u16]) -> bool {
        if self.gathers {
            self.hold(shards);
            return true;
        }
        self.hold_within(shards, SOON)
    }

    /// Takes these shards like [`Tx::hold_soon`]. If one is busy and the command may be put back, it is, and false is
    /// returned: it fails at once then, whatever its error. Where it may not be put back, it waits as long as it takes.
    pub fn hold_or_put_back(&mut self, shards: &[u16]) -> bool {
        if !self.patient {
            self.hold(shards);
            return true;
        }
        let held = self.hold_soon(shards);
        self.put_back |= !held;
        held
    }

    /// Lets go of all shards, and lends store and worker to `work`, which may wait.
    #[inline]
    pub(crate) fn let_go<R>(&mut self, work: impl FnOnce(&Store, &mut WorkerState) -> R) -> R {
        self.held.release();
        work(self.store, self.local)
    }

    /// Lets go of all shards while `work` runs, and takes them again. `None`, and nothing is done, in a transaction. A patient
    /// view waits for its shards like [`Tx::hold_or_put_back`].
    pub(crate) fn step_back<R>(&mut self, work: impl FnOnce(&Store, &mut WorkerState) -> R) -> Option<R> {
        if self.atomic {
            return None;
        }
        let (store, local) = (self.store, &mut *self.local);
        // Keys that the store removed on the way are reported before anything that others do once the shards are
        // released.
        local.hand_on(store);
        if let Some(end) = local.take_appended() {
            local.follow_journal(end);
            self.held.iter_mut().for_each(|shard| shard.journal_end = end);
        }
        let within = self.patient.then_some(SOON);
        let (done, held) = self.held.step_back(store.cells(), within, || work(store, local));
        self.put_back |= !held;
        self.follow_journal();
        Some(done)
    }

    /// Lets go of all shards.
    #[inline]
    pub fn release(&mut self) {
        debug_assert!(!self.has_effects(), "what was done is handed on with the shards held");
        self.held.release();
    }

    /// Nanoseconds that admissions have spent on making room, with no shard held, since this was last asked.
    #[inline]
    pub fn take_room_ns(&mut self) -> u64 {
        self.local.take_room_ns()
    }

    /// Keeps the shards that are held to the end, come what may: what [`Tx::admit_more`] asks for is overdrawn then, and
    /// the next command pays.
    pub fn keep_held(&mut self) {
        self.atomic = true;
    }

    /// Adds shards to those held from now on, where they are asked for by [`Tx::hold`], and keeps all to the end: for a
    /// script, which finds out on its way what it needs. Only one thread at a time does, by its token.
    pub fn gather(&mut self, _token: &ScriptToken<'_>) {
        (self.atomic, self.gathers) = (true, true);
    }

    /// A script is about to rest with all its shards held: the pieces of open segments are not kept from others meanwhile.
    pub fn rest(&mut self) {
        self.local.park(self.store);
    }

    /// Ends the batch: lets go of all shards and gives the appender's pieces back.
    pub fn finish(mut self) {
        debug_assert!(self.ready.is_empty(), "who waits for a key is served before the batch ends");
        debug_assert!(!self.has_effects(), "effects are handed on with their shards held");
        self.held.release();
        self.local.park(self.store);
    }

    /// The shard number of a hash, for [`Tx::try_hold`].
    #[inline]
    pub fn shard_of(&self, hash: u64) -> u16 {
        self.store.shard_of(hash) as u16
    }

    /// Selects a logical database for the commands that follow.
    pub fn select(&mut self, db: u32) {
        self.db = db;
        self.physical = self.store.database_map().physical(db);
    }

    /// Sets what becomes of keys and fields whose time has come; gives what was set before.
    pub fn set_overdue(&mut self, overdue: Overdue) -> Overdue {
        std::mem::replace(&mut self.overdue, overdue)
    }

    /// True if a command with a time that is over removes the key at once. Where a file is replayed it does not: the key's
    /// end follows in the file.
    #[inline]
    pub fn ends_overdue(&self) -> bool {
        self.overdue != Overdue::Alive
    }

    /// The batch's time, milliseconds of Unix time.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.local.now_ms()
    }

    /// Moves the time on, behind a command that took milliseconds, for those after it.
    #[inline]
    pub fn pass_ms(&mut self, ms: i64) {
        self.local.pass_ms(ms);
    }

    /// The selected (logical) database.
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Number of logical databases.
    pub fn databases(&self) -> u32 {
        self.store.databases()
    }

    /// The store, for figures about it.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The key of these bytes in the selected database.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::new(self.store.seed(), self.physical, bytes)
    }

    /// The key of these bytes in a logical database.
    pub fn key_in<'k>(&self, db: u32, bytes: &'k [u8]) -> Key<'k> {
        self.store.key(db, bytes)
    }

    /// The key with a hash computed before, in the selected database.
    #[inline]
    pub fn key_hashed<'k>(&self, bytes: &'k [u8], hash: u64) -> Key<'k> {
        debug_assert_eq!(Key::new(self.store.seed(), self.physical, bytes).hash, hash, "the hash is of another key");
        Key { bytes, hash, db: self.physical }
    }

    /// The place of a key that is there and not expired; an expired one is removed on the way.
    fn live(&mut self, k: &Key<'_>) -> Option<Found> {
        let found = self.live_inlined(k)?;
        if self.has_due_fields(&found) { self.without_due_fields(found, false) } else { Some(found) }
    }

    /// Whether it is a hash, of which the time of a field has come.
    #[inline]
    fn has_due_fields(&self, found: &Found) -> bool {
        let shard = self.held.at(found.shard);
        let fields = shard.fields_of(&shard.open(self.store.log(), found.r));
        fields.and_then(|(_, due_ms)| due_ms).is_some_and(|due_ms| due_ms <= self.local.now_ms())
    }

    /// Finds a key like [`Tx::live`]; fields of a hash stay, whether they are due or not: for commands on other types.
    fn live_whole(&mut self, k: &Key<'_>) -> Option<Found> {
        self.live_inlined(k)
    }

    /// Finds a key like [`Tx::live_whole`], inlined for the most frequent commands.
    #[inline(always)]
    fn live_inlined(&mut self, k: &Key<'_>) -> Option<Found> {
        let (found, due) = self.find(k)?;
        if is_over(due, self.local.now_ms()) && self.overdue != Overdue::Alive {
            self.meet_overdue(found.shard, found.entry);
            return None;
        }
        Some(found)
    }

    /// The place of a key that is there, and when its time comes, in milliseconds of Unix time.
    #[inline(always)]
    fn find(&self, k: &Key<'_>) -> Option<(Found, Option<i64>)> {
        let at = self.held.position(self.store.shard_of(k.hash));
        let shard = self.held.at(at);
        for (entry, r) in shard.index().candidates(k.hash) {
            let object = shard.open(self.store.log(), r);
            if k.is_of(&object) {
                return Some((Found { shard: at, entry, r }, object.expiry_ms()));
            }
        }
        None
    }

    /// A command has met a key whose time has come, and which is gone for it.
    #[cold]
    fn meet_overdue(&mut self, at: usize, entry: IndexEntry) {
        if self.overdue == Overdue::Removed {
            self.expire(at, entry);
        }
    }

    fn expire(&mut self, at: usize, entry: IndexEntry) {
        let id = self.held.id(at);
        let shard = self.held.at_mut(at);
        self.local.expire_entry(self.store, shard, id, entry);
    }

    #[inline(always)]
    fn object_at(&self, p: Found) -> Object<'_> {
        self.held.at(p.shard).open(self.store.log(), p.r)
    }

    /// Moves a key's access clock, unless the client's uses do not count.
    #[inline]
    fn touch_at(&mut self, p: Found) {
        if !self.local.no_touch() {
            self.use_at(p);
        }
    }

    /// Moves a key's access clock.
    #[inline]
    fn use_at(&mut self, p: Found) {
        let shard = self.held.at_mut(p.shard);
        let before = shard.open(self.store.log(), p.r).clock();
        let clock = self.local.used_clock(self.store, before);
        if before != clock {
            shard.set_clock(self.store.log(), p.r, clock);
        }
    }

    /// Moves a key's access clock, unless the client's uses do not count, and opens the object to read.
    #[inline(always)]
    fn used_at(&mut self, p: Found) -> Object<'_> {
        let (store, local) = (self.store, &mut *self.local);
        let shard = self.held.at_mut(p.shard);
        if local.no_touch() {
            return shard.open(store.log(), p.r);
        }
        shard.use_object(store.log(), p.r, |clock| local.used_clock(store, clock))
    }

    /// Shows the walker a key that is about to change.
    #[inline(always)]
    fn before(&mut self, p: Found) -> Changing {
        Changing { found: p, shown: self.held.at_mut(p.shard).before(self.store.ground(), p.r) }
    }

    /// The parts that a new object of this key keeps of the one that it is about to replace, with this expiry.
    #[inline]
    fn kept(&self, k: &Key<'_>, old: Option<&Changing>, expiry_ms: Option<i64>) -> Kept {
        Kept { expiry_ms, saved: self.saved_of(k, old) }
    }

    /// The mark SAVED of a new object of this key: that of the object which it is about to replace, else the one with which
    /// a key is born.
    #[inline]
    fn saved_of(&self, k: &Key<'_>, old: Option<&Changing>) -> bool {
        match old {
            Some(changing) => self.object_at(changing.found).saved(),
            None => self.held.at(self.held.position(self.store.shard_of(k.hash))).marks_new(k.hash),
        }
    }

    /// Runs `work` with one of the worker's buffers, which it puts back behind it.
    #[inline(always)]
    fn lend<T: Default, R>(
        &mut self,
        buffer: impl Fn(&mut Buffers) -> &mut T,
        work: impl FnOnce(&mut Tx<'s>, &mut T) -> R,
    ) -> R {
        let mut lent = std::mem::take(buffer(self.local.buffers()));
        let done = work(self, &mut lent);
        *buffer(self.local.buffers()) = lent;
        done
    }

    /// Runs `work` with the buffer of a value that is written anew, of `bytes` zeros.
    #[inline]
    fn with_scratch<R>(&mut self, bytes: usize, work: impl FnOnce(&mut Tx<'s>, &mut Vec<u8>) -> R) -> R {
        self.lend(
            |buffers| &mut buffers.value,
            |tx, scratch| {
                scratch.clear();
                scratch.resize(bytes, 0);
                work(tx, scratch)
            },
        )
    }

    /// Runs `work` with what lists compress and join nodes with.
    #[inline(always)]
    fn with_compress<R>(&mut self, work: impl FnOnce(&mut Tx<'s>, &mut CompressScratch) -> R) -> R {
        self.lend(
            |buffers| &mut buffers.compress,
            |tx, scratch| {
                let scratch = scratch.get_or_insert_default();
                let done = work(tx, scratch);
                scratch.relax();
                done
            },
        )
    }

    /// Puts a new object in the place of a key's old one, or as a new entry; files its expiry.
    fn publish(&mut self, k: &Key<'_>, old: Option<Changing>, new: Ref, new_expiry: Option<i64>) {
        self.install(k, old, new, new_expiry, RootTransfer::None);
        self.wrote(k);
    }

    /// Marks a key as written: the caller of the operation reports it ([`Tx::did`]), which debug builds check.
    #[inline(always)]
    pub(crate) fn wrote(&mut self, k: &Key<'_>) {
        self.local.reported_mut().mark_written(k);
    }

    /// Puts a new object in the place of a key's old one, or as a new entry; files its expiry. Counts no change. `root`
    /// says what becomes of the old object's big collection.
    fn install(&mut self, k: &Key<'_>, old: Option<Changing>, new: Ref, new_expiry: Option<i64>, root: RootTransfer) {
        let id = self.store.shard_of(k.hash);
        let at = self.held.position(id);
        let (store, shard) = (self.store, self.held.at_mut(at));
        let mut old_expiry = None;
        match old {
            Some(Changing { found: p, shown }) => {
                let replaced = shard.open(store.log(), p.r);
                old_expiry = replaced.expiry_ms();
                if store.limit().lfu().is_some() {
                    // The replaced object passes its counter on.
                    let clock = replaced.clock();
                    shard.set_clock(store.log(), new, clock);
                }
                shard.replace(store.ground(), p.entry, new, root, shown);
                shard.recount_volatile(k.db, old_expiry, new_expiry);
            }
            None => {
                shard.insert(store.ground(), id, k, new, new_expiry.is_some());
                self.local.emit(store, EventClass::New, "new", k.db, k.bytes);
            }
        }
        if let Some(t) = new_expiry {
            shard.file_expiry(&store.cells()[id], k.hash, old_expiry, t, self.local.now_ms());
            self.note_own_date(k, t);
        }
    }

    /// Notes a key's time, in milliseconds of Unix time, if it is a client of a replica that has given it: a primary's stream, and a
    /// file, meet keys as they are. Commands that set a time have it noted, unless they meet keys so meanwhile.
    pub fn note_own_date(&mut self, k: &Key<'_>, at: i64) {
        if self.overdue == Overdue::Removed && self.store.is_following() {
            let (id, now_ms) = (self.store.shard_of(k.hash), self.local.now_ms());
            let place = self.held.position(id);
            self.held.at_mut(place).file_own_date(&self.store.cells()[id], k.hash, at, now_ms);
        }
    }

    /// Removes a key that was found and that the walker has seen.
    fn remove_at(&mut self, k: &Key<'_>, Changing { found: p, shown }: Changing) {
        let id = self.held.id(p.shard);
        let shard = self.held.at_mut(p.shard);
        shard.remove_shown(self.store.ground(), p.entry, shown);
        shard.follow_index(self.store.ground(), id);
        self.wrote(k);
    }
}
