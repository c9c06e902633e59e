//! Reports of the store: keyspace events and effects, and changes for the observer.
//!
//! ```text
//!  mask (bits of the classes wanted, 0: none)  --one load and a branch-->  the worker's queue  --hand_on, end_command-->
//! ```
//! Operations and handlers queue events and effects in the worker's own list; they are handed on behind each command with
//! its shards still held, so that events of one key stand in the order of its changes. Keys that a background step removes
//! (their time has come, or they are evicted) are handed on one by one, with the shard of the key held.
//!
//! Not here: channels, messages, subscribers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_index::IndexEntry;
use varve_segment::WholePin;

use super::shard::Shard;
use super::store::Store;
use super::worker::{StoreWorker, WorkerState};
use crate::state::effects::{
    Again, Audience, Effect, EffectSink, EventSink, JOURNAL, JOURNAL_AWAITED, JOURNAL_BITS, JOURNAL_STREAMED,
    JOURNAL_UNFILED, Prepared, Readers, Words,
};
use crate::state::events::EventClass;
use crate::state::key::{Key, database_of};
use crate::state::lazyfree::Removal;
use crate::state::observe::{Author, Observer};
use crate::state::ready::ReadyKey;

impl Store {
    /// Sets which classes of events are wanted: bits of [`EventClass`]; 0 for none.
    pub fn set_event_mask(&self, mask: u32) {
        // The bits of the journal stay as they are.
        let _ = self.event_mask.fetch_update(Relaxed, Relaxed, |old| Some(old & JOURNAL_BITS | mask & !JOURNAL_BITS));
    }

    /// The classes that are wanted.
    pub fn event_mask(&self) -> u32 {
        self.event_mask.load(Relaxed) & !JOURNAL_BITS
    }

    /// True if events of this class are wanted.
    #[inline]
    pub fn wants(&self, class: EventClass) -> bool {
        self.event_mask.load(Relaxed) & class as u32 != 0
    }
}

impl Store {
    /// Sets the journal: at most once, before [`Store::keep_effects`].
    pub fn set_effect_sink(&self, sink: Arc<dyn EffectSink>) {
        assert!(self.journal.set(sink).is_ok(), "a store has one journal");
    }

    /// Keeps the effects of all changes from now on, or not. The gate is held alone, or nobody uses the store yet: no
    /// command is half kept.
    pub fn keep_effects(&self, on: bool) {
        assert!(!on || self.journal.get().is_some(), "a journal to keep them");
        self.set_mask_bit(JOURNAL, on);
    }

    /// Replies wait for the journal from now on, or not: commands note which position they wait for
    /// ([`StoreWorker::take_awaited`]).
    pub fn await_journal(&self, on: bool) {
        self.set_mask_bit(JOURNAL_AWAITED, on);
    }

    /// The journal has replicas among its readers from now on, or not: messages are kept for them. The gate is held alone, or
    /// nobody uses the store yet.
    pub fn stream_journal(&self, on: bool) {
        self.set_mask_bit(JOURNAL_STREAMED, on);
    }

    /// The journal is written to a file from now on, as it is at first, or not: what is for a file alone is kept for nobody then. The
    /// gate is held alone, or nobody uses the store yet.
    pub fn file_journal(&self, on: bool) {
        self.set_mask_bit(JOURNAL_UNFILED, !on);
    }

    /// True if messages are kept for the journal.
    #[inline]
    pub fn keeps_messages(&self) -> bool {
        const KEPT: u32 = JOURNAL | JOURNAL_STREAMED;
        self.event_mask.load(Relaxed) & KEPT == KEPT
    }

    fn set_mask_bit(&self, bit: u32, on: bool) {
        if on {
            self.event_mask.fetch_or(bit, Relaxed);
        } else {
            self.event_mask.fetch_and(!bit, Relaxed);
        }
    }

    /// True if replies wait for the journal.
    #[inline(always)]
    pub(crate) fn awaits_journal(&self) -> bool {
        self.event_mask.load(Relaxed) & JOURNAL_AWAITED != 0
    }

    /// True if somebody wants events of this class, or there is a journal.
    #[inline(always)]
    pub(crate) fn keeps(&self, class: EventClass) -> bool {
        self.event_mask.load(Relaxed) & (class as u32 | JOURNAL) != 0
    }

    /// True if there is a journal that is full: keys that the store would remove by itself stay for now, since nobody would
    /// hold them back. Their time is over all the same for whoever asks.
    pub(crate) fn journal_is_full(&self) -> bool {
        self.has_journal() && self.journal.get().is_some_and(|journal| journal.is_full())
    }

    /// True if there is a journal.
    pub(crate) fn has_journal(&self) -> bool {
        self.event_mask.load(Relaxed) & JOURNAL != 0
    }
}

impl StoreWorker {
    /// True if the store has removed keys by itself for which somebody waits.
    #[inline]
    pub fn has_gone(&self) -> bool {
        !self.local.gone.is_empty()
    }

    /// The keys that the store has removed by itself and for which somebody waits.
    pub fn take_gone(&mut self) -> VecDeque<ReadyKey> {
        std::mem::take(&mut self.local.gone)
    }

    /// Every key for which somebody waits counts as removed by the store: another one may stand in its place. Under the gate alone.
    pub(crate) fn note_all_waited(&mut self) {
        let mut all: BTreeSet<(u32, Box<[u8]>)> = self.local.gone.drain(..).map(|gone| (gone.db, gone.bytes)).collect();
        for cell in self.store.cells() {
            let shard = cell.lock.lock();
            let waited = shard.waiters().into_iter().flat_map(|waiters| waiters.waited());
            all.extend(waited.map(|(db, key)| (db, key.into())));
        }
        self.local.gone.extend(all.into_iter().map(|(db, bytes)| ReadyKey { db, bytes }));
    }

    /// Sets the publisher of this worker's events.
    pub fn set_event_sink(&mut self, sink: Box<dyn EventSink>) {
        self.local.reported.set_sink(sink);
    }

    /// The command that runs next has these large arguments: its effects refer to them, and copy none. Without any, what
    /// the last one had is let go.
    pub fn set_large_arguments(&mut self, large: Vec<WholePin>) {
        self.local.reported.set_large(large);
    }

    /// Reports a change of whole databases, which the command as it was sent makes again: FLUSHALL and its kin, under the
    /// gate alone.
    pub fn did_whole(&mut self) {
        self.local.report_whole(&self.store);
    }

    /// A command that publishes a message has run by itself, in logical database `db`, inside the gate: keeps it for the journal,
    /// if messages are kept. Its reply waits for no file, which has no messages.
    pub fn did_publish(&mut self, db: u32, sent: &dyn Fn(&mut Words<'_>)) {
        if self.store.keeps_messages() {
            self.local.reported.add_message();
            self.local.end_command(&self.store, db, sent);
            let _ = self.local.take_appended();
        }
    }

    /// Reports a change of something that is no key, which the command as it was sent makes again: a library of functions.
    pub fn did_apart(&mut self) {
        self.local.report_apart(&self.store);
    }

    /// Ends a command on whole databases, under the gate alone: hands on what it has reported. `sent` writes the command
    /// as it was sent, to logical database `db`.
    #[inline]
    pub fn end_command(&mut self, db: u32, sent: &dyn Fn(&mut Words<'_>)) {
        if self.local.reported.any() {
            self.local.end_command(&self.store, db, sent);
            self.note_appended_for_all();
        }
    }

    /// A command has looked at keys of any shards: its reply waits for all that was appended before, if replies do.
    #[inline]
    pub fn follow_all(&mut self) {
        if self.store.awaits_journal() && self.store.has_journal() {
            let end = self.store.journal.get().map_or(0, |journal| journal.end());
            self.local.follow_journal(end);
        }
    }

    /// Whoever reads anything from now on waits for what was appended: it may have changed any key. The gate is held alone.
    fn note_appended_for_all(&mut self) {
        if let Some(end) = self.local.take_appended() {
            self.local.follow_journal(end);
            for cell in self.store.cells() {
                cell.lock.lock().journal_end = end;
            }
        }
    }

    /// The position of the journal that must be safe before the replies of the commands since the last call may leave; 0
    /// for none.
    #[inline]
    pub fn awaited(&self) -> u64 {
        self.local.awaited
    }

    /// The position of [`StoreWorker::awaited`], which the next commands do not wait for.
    #[inline]
    pub fn take_awaited(&mut self) -> u64 {
        std::mem::take(&mut self.local.awaited)
    }

    /// The replies of the commands that run now wait for this position of the journal as well.
    #[inline]
    pub fn await_also(&mut self, end: u64) {
        self.local.follow_journal(end);
    }

    /// Begins a unit of several commands: a transaction.
    pub fn begin_unit(&mut self) {
        self.local.reported.open();
    }

    /// Keeps the effects of the commands that follow for these readers of the journal: a script has a word in that.
    pub fn keep_effects_for(&mut self, audience: Audience) {
        let _ = self.local.reported.keep_effects_for(audience);
    }

    /// Forgets the effects of the unit that is open.
    pub fn forget_effects(&mut self) {
        self.local.reported.forget_effects();
    }

    /// Ends a unit of several commands. The shards of its keys are held, or the gate is held alone.
    pub fn end_unit(&mut self) {
        self.local.end_unit(&self.store);
        self.note_appended_for_all();
    }
}

impl WorkerState {
    /// Counts a change of something that is no key, and keeps its effect: the command as it was sent.
    pub(crate) fn report_apart(&mut self, store: &Store) {
        self.counters().changes.add(1);
        self.report_whole(store);
    }

    /// Keeps the command as it was sent.
    fn report_whole(&mut self, store: &Store) {
        let mask = store.event_mask.load(Relaxed);
        if mask & JOURNAL != 0 {
            self.reported.add(0, Again::Sent, Readers::of(mask));
        }
    }

    /// Keeps an event of a key of a physical database, if its class is wanted.
    #[inline]
    pub(crate) fn emit(&mut self, store: &Store, class: EventClass, name: &'static str, db: u16, key: &[u8]) {
        if store.wants(class) {
            self.queue_event(store, name, db, key);
        }
    }

    #[cold]
    fn queue_event(&mut self, store: &Store, name: &'static str, db: u16, key: &[u8]) {
        self.add_event(store, name, db, key);
    }

    #[inline]
    fn add_event(&mut self, store: &Store, name: &'static str, db: u16, key: &[u8]) {
        // Keys of a database that is being swept are gone already.
        if let Some(db) = store.database_map().logical(db) {
            self.reported.add_event(name, db, key);
        }
    }

    /// Keeps what an effect is to events and to the journal; `db` is the logical database that is selected.
    #[cold]
    pub(crate) fn keep(&mut self, store: &Store, key: &Key<'_>, db: u32, effect: &Effect<'_>) {
        let mask = store.event_mask.load(Relaxed);
        if mask & effect.class as u32 != 0 && !effect.name.is_empty() {
            self.add_event(store, effect.name, key.db, key.bytes);
        }
        if mask & JOURNAL != 0 {
            self.reported.add(db, effect.again, Readers::of(mask));
        }
    }

    /// Reports that the store is about to remove the key of an entry by itself: an event of this class, and a DEL or an UNLINK.
    pub(crate) fn report_removed(&mut self, store: &Store, class: EventClass, shard: &Shard, entry: IndexEntry) {
        if store.keeps(class) {
            let object = shard.open(store.log(), shard.index().get(entry));
            self.keep_removed(store, class, database_of(&object), object.key());
            if store.has_occupied() && shard.is_occupied(object.key()) {
                self.reported.overtake(object.key());
            }
        }
        self.report_gone(store, shard, entry);
    }

    #[cold]
    fn keep_removed(&mut self, store: &Store, class: EventClass, db: u16, key: &[u8]) {
        let (name, removal) =
            if class == EventClass::Evicted { ("evicted", Removal::Evicted) } else { ("expired", Removal::Expired) };
        self.emit(store, class, name, db, key);
        if store.has_journal()
            && let Some(db) = store.database_map().logical(db)
        {
            let word = store.lazyfree().word(removal);
            self.keep_own(store, db, Again::Words(&|words| _ = words.add(word).add(key)));
        }
    }

    /// Keeps an effect of the store's own doing: whatever the script says that has met it, it is for all.
    pub(crate) fn keep_own(&mut self, store: &Store, db: u32, again: Again<'_>) {
        let asked = self.reported.keep_effects_for(Audience::All);
        self.reported.add(db, again, Readers::of(store.event_mask.load(Relaxed)));
        let _ = self.reported.keep_effects_for(asked);
    }

    /// Hands on what the store reported by itself about a key of this shard.
    #[inline]
    pub(crate) fn hand_on_of(&mut self, store: &Store, shard: &mut Shard) {
        if let Some(journal) = store.journal() {
            self.reported.take_overtaken().iter().for_each(|key| shard.append_parts(journal, key));
        }
        self.hand_on(store);
        if let Some(end) = self.take_appended() {
            shard.journal_end = end;
            self.follow_journal(end);
        }
    }

    /// Hands on what was reported, the shards of the keys still held; the caller notes in them what was appended.
    #[inline]
    pub(crate) fn hand_on(&mut self, store: &Store) {
        if self.reported.any() {
            self.reported.hand_on(store.event_mask());
            self.end_unit_if_closed(store);
        }
    }

    #[cold]
    pub(crate) fn end_command(&mut self, store: &Store, db: u32, sent: &dyn Fn(&mut Words<'_>)) {
        self.reported.end_command(store.event_mask(), db, sent);
        self.end_unit_if_closed(store);
    }

    fn end_unit_if_closed(&mut self, store: &Store) {
        if !self.reported.is_open() {
            self.end_unit(store);
        }
    }

    pub(crate) fn end_unit(&mut self, store: &Store) {
        let id = self.home();
        let journal = || store.journal.get().expect("effects are kept for a journal");
        if let Some(prepared) = self.reported.take_prepared() {
            let mut all = Some(prepared);
            self.reported.end_unit(|unit| journal().prepare(unit, &mut all));
            // Nobody keeps effects any more where the last reader of the journal has gone.
            if let Some(all) = all.filter(|_| store.has_journal()) {
                self.appended = journal().append_prepared(all);
            }
        } else if let Some(end) = self.reported.end_unit(|unit| journal().append(id, unit)) {
            self.appended = end;
        }
    }

    /// Ends a part of a command that goes on: its effects are kept behind those of the parts before.
    pub(crate) fn end_part(
        &mut self,
        store: &Store,
        db: u32,
        sent: &dyn Fn(&mut Words<'_>),
        prepared: &mut Option<Prepared>,
    ) {
        debug_assert!(!self.reported.is_open(), "commands of a transaction run whole");
        self.reported.end_command(store.event_mask(), db, sent);
        let journal = || store.journal().expect("effects are kept for a journal");
        self.reported.end_unit(|unit| journal().prepare(unit, prepared));
        // The removal of the key, if there was one, is among these effects.
        let _ = self.reported.take_overtaken();
    }

    /// The position behind the last unit that was appended, once: the shards of its keys are to note it.
    #[inline]
    pub(crate) fn take_appended(&mut self) -> Option<u64> {
        let end = std::mem::take(&mut self.appended);
        (end > 0).then_some(end)
    }

    /// The command touches a shard whose last unit ends at this position of the journal.
    #[inline]
    pub(crate) fn follow_journal(&mut self, end: u64) {
        self.awaited = self.awaited.max(end);
    }
}

impl Store {
    /// Sets the observer: at most once, before [`Store::observe`].
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        assert!(self.observed.observer.set(observer).is_ok(), "a store has one observer");
    }

    /// Reports to the observer from now on, or not. Without it a change costs one relaxed load.
    pub fn observe(&self, on: bool) {
        assert!(!on || self.observed.observer.get().is_some(), "somebody to report to");
        self.observed.on.store(on, Relaxed);
    }

    /// The observer, while it wants to know.
    #[inline]
    pub fn observer(&self) -> Option<&dyn Observer> {
        if self.observed.on.load(Relaxed) { self.observed.observer.get().map(|observer| &**observer) } else { None }
    }

    /// Reports that a database was emptied.
    pub(crate) fn report_emptied(&self, local: &WorkerState) {
        if let Some(observer) = self.observer() {
            observer.emptied(Author { part: local.id(), client: local.client });
        }
    }
}

impl WorkerState {
    /// Reports a change on behalf of the client that is served.
    #[inline]
    pub(crate) fn report_changed(&self, store: &Store, key: &[u8]) {
        if let Some(observer) = store.observer() {
            observer.changed(Author { part: self.id(), client: self.client }, key);
        }
    }

    /// Reports that the store is about to remove the key of an entry by itself.
    #[inline]
    pub(crate) fn report_gone(&mut self, store: &Store, shard: &Shard, entry: IndexEntry) {
        let object = || shard.open(store.log(), shard.index().get(entry));
        if let Some(observer) = store.observer() {
            observer.changed(Author { part: self.id(), client: 0 }, object().key());
        }
        if let Some(waiters) = shard.waiters()
            && waiters.has(object().key())
            && let Some(db) = store.database_map().logical(database_of(&object()))
        {
            self.gone.push_back(ReadyKey { db, bytes: object().key().into() });
        }
    }
}
