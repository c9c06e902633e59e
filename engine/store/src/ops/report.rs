//! The one report of a change: [`Tx::did`], once a change, in order, with the shard of the key held.
//!
//! ```text
//!  handler: an operation on a key, then tx.did(key, Effect)
//!     watched keys   the flags of the sessions that watch the key       at once
//!     caches         the observer: clients that have read the key       at once
//!     waiters        the key is noted as ready                          served behind the command
//!     events         queued for subscribers   --+
//!     journal        kept in a unit           --+--> end_command, the shards still held: EventSink, EffectSink
//! ```
//! Nobody asks for events or effects: one relaxed load and a branch. What the store removes by itself (expiry, eviction)
//! is reported by `keyspace::report`, and handed on with the shard held too: no other worker's change of the key overtakes
//! it.
//!
//! Not here: the bytes of a journal, its SELECT, MULTI and EXEC (the command crates).

use super::Tx;
use crate::state::effects::{Audience, Effect, Words};
use crate::state::events::EventClass;
use crate::state::key::Key;

impl Tx<'_> {
    /// Reports what a command did to a key, once the change is made: the one place from which everybody learns of it.
    #[inline(always)]
    pub fn did(&mut self, k: &Key<'_>, effect: Effect<'_>) {
        if effect.modified || effect.changes > 0 {
            self.local.reported_mut().unmark_written(k);
            self.local.counters().changes.add(effect.changes);
        }
        if effect.modified {
            let at = self.held.position(self.store.shard_of(k.hash));
            let shard = self.held.at(at);
            if !shard.is_unobserved() || self.store.observer().is_some() {
                self.report_at(k, at);
            }
        }
        if self.store.keeps(effect.class) {
            // A copy, so that the effect needs no place in memory where nobody wants it.
            let Effect { class, name, changes, modified, again } = effect;
            self.local.keep(self.store, k, self.db, &Effect { class, name, changes, modified, again });
        }
    }

    /// A key was loaded from a file: there is nobody to report it to.
    pub fn loaded(&mut self, k: &Key<'_>) {
        self.local.reported_mut().unmark_written(k);
    }

    /// A key was written with the value that it had: nobody learns of it.
    pub fn did_nothing(&mut self, k: &Key<'_>) {
        self.local.reported_mut().unmark_written(k);
    }

    /// Reports a change of something that is no key, which the command as it was sent makes again: a library of functions.
    pub fn did_apart(&mut self) {
        self.local.report_apart(self.store);
    }

    /// The command that runs has published a message: replicas are sent it, if there are any.
    pub fn did_publish(&mut self) {
        if self.store.keeps_messages() {
            self.local.reported_mut().add_message();
        }
    }

    /// Reports a change to those that do not wait for the end of the command: the sessions that watch the key, the clients
    /// that have cached it, the clients that wait for it.
    #[cold]
    fn report_at(&mut self, k: &Key<'_>, at: usize) {
        self.held.at_mut(at).touch(self.store.log(), k.hash, k.db, k.bytes);
        self.local.report_changed(self.store, k.bytes);
        self.wake(k);
    }

    /// Checks, in debug builds, that every key which was written has been reported.
    #[inline(always)]
    pub fn assert_reported(&mut self) {
        self.local.reported_mut().assert_reported();
    }

    /// Keeps an event that is no change of a key: a read that found nothing, a key that is new.
    #[inline]
    pub(crate) fn emit(&mut self, class: EventClass, name: &'static str, k: &Key<'_>) {
        self.local.emit(self.store, class, name, k.db, k.bytes);
    }

    /// True if effects are kept: what an effect needs beyond the arguments is to be remembered then.
    #[inline]
    pub fn has_journal(&self) -> bool {
        self.store.has_journal()
    }

    /// True if the command has reported something that [`Tx::end_command`] must hand on.
    #[inline(always)]
    pub fn has_effects(&self) -> bool {
        self.local.reported().any()
    }

    /// Ends a command: hands its events on and, outside of a transaction, its unit of effects, with the shards of all its
    /// keys still held. `sent` writes the command as it was sent.
    #[inline]
    pub fn end_command(&mut self, sent: &dyn Fn(&mut Words<'_>)) {
        if self.has_effects() {
            self.settle_overtaken();
            self.local.end_command(self.store, self.db, sent);
            self.note_appended();
        }
    }

    /// Has the effects of commands that work on keys which the store has changed by itself come before that change.
    fn settle_overtaken(&mut self) {
        if !self.store.has_occupied() {
            return;
        }
        let overtaken = self.local.reported_mut().take_overtaken();
        if let Some(journal) = self.store.journal() {
            for key in &overtaken {
                self.held.iter_mut().for_each(|shard| shard.append_parts(journal, key));
            }
        }
    }

    /// Hands on what was reported outside of a command: behind a client that was served.
    #[inline]
    pub fn hand_on(&mut self) {
        if self.has_effects() {
            self.settle_overtaken();
        }
        self.local.hand_on(self.store);
        self.note_appended();
    }

    /// Has the shards that are held note the unit that was appended, if one was.
    #[inline]
    fn note_appended(&mut self) {
        if let Some(end) = self.local.take_appended() {
            self.local.follow_journal(end);
            self.held.iter_mut().for_each(|shard| shard.journal_end = end);
        }
    }

    /// Keeps the effects of the commands that follow for these readers of the journal: a script has a word in that.
    pub fn keep_effects_for(&mut self, audience: Audience) {
        let _ = self.local.reported_mut().keep_effects_for(audience);
    }

    /// Keeps the events of what follows, or not: a file is loaded, and nobody is to learn of its keys one by one.
    pub fn keep_events(&mut self, keep: bool) {
        self.local.reported_mut().keep_events(keep);
    }

    /// Forgets the effects of the unit that is open.
    pub fn forget_effects(&mut self) {
        self.local.reported_mut().forget_effects();
    }

    /// Begins a unit of several commands: a transaction.
    pub fn begin_unit(&mut self) {
        self.local.reported_mut().open();
    }

    /// Ends a unit of several commands, the shards of all its keys still held.
    pub fn end_unit(&mut self) {
        self.settle_overtaken();
        self.local.end_unit(self.store);
        self.note_appended();
    }
}
