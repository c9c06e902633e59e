//! Waiters: clients that wait until a key has something for them.
//!
//! ```text
//!   Shard.waiters (none while nobody waits: one branch)
//!     key bytes --> database, type --> FIFO of Arc<Waiter>    a waiter of several keys stands in several queues,
//!                                                             of several shards
//!   Waiter.state      Waiting --claim--> Claimed      by the worker that makes a key ready, with its shard held
//!                        \-----cancel--> Cancelled    its own worker: time is up, unblocked, gone
//! ```
//! One compare-and-swap decides which worker ends the wait. An entry whose waiter no longer waits is dead: it is skipped, dropped
//! when met, and removed by the waiter's own worker ([`Store::forget`]).
//!
//! Queues belong to logical databases: a client that waits in database 3 goes on waiting there after SWAPDB and FLUSHDB.
//!
//! A waiter may have a **target**, another key that serving it will write. A command holds all its shards before it
//! changes a byte, so before a command that may make a key ready the shards of the targets of those who wait for it are
//! taken too, and of those who wait for the targets, and so on ([`Tx::widen`]).
//!
//! The meaning of serving is the caller's: a waiter carries a task that this crate does not look into.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

use super::Tx;
use crate::keyspace::gate::Newcomer;
use crate::state::effects::Words;
use crate::state::key::{Key, hash_of};
use crate::state::ready::ReadyKey;
use crate::state::shard_set::ShardSet;
use crate::state::waiters::{Freeze, Frozen, NextWaiter, Waiter};

impl Tx<'_> {
    /// The number of the worker that runs this.
    pub fn worker(&self) -> usize {
        self.local.id()
    }

    /// Lets a client wait for its keys, whose shards are held.
    pub fn wait(&mut self, waiter: &Arc<Waiter>) {
        debug_assert_eq!(waiter.who.db, self.db(), "a client waits in the database that it has selected");
        waiter.draw_ticket(self.store.next_ticket());
        for (nth, key) in waiter.keys.iter().enumerate() {
            let at = self.held.position(self.store.shard_of(self.key(key).hash));
            self.held.at_mut(at).add_waiter(nth, waiter);
        }
    }

    /// True if somebody waits for a key of a shard that is held, or if one of its keys is frozen.
    #[inline]
    pub fn any_waiters(&self) -> bool {
        self.held.iter().any(|shard| shard.waiters().is_some())
    }

    /// Adds to `shards`, which are those held, the ones that serving the waiters of `keys` may need: true
    /// if there are any, which are then to be held before this is asked again. It ends, for the list only grows.
    pub fn widen<'k>(&self, shards: &mut ShardSet, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        debug_assert!(self.gathers || self.held.is(shards), "the shards are those held");
        let mut far = Vec::new();
        let mut seen = HashSet::new();
        let mut next: Vec<&[u8]> = keys.into_iter().collect();
        while let Some(key) = next.pop() {
            let id = self.shard_of_bytes(key);
            if !shards.has(id) {
                far.push(id);
                continue;
            }
            let shard = self.held.at(self.held.position(usize::from(id)));
            let Some(waiters) = shard.waiters() else { continue };
            if waiters.has(key) && seen.insert(key) {
                next.extend(waiters.targets(key));
            }
        }
        let is_wider = !far.is_empty();
        shards.add(far);
        is_wider
    }

    /// Freezes a key, whose shard is held: other commands wait until [`Tx::thaw`]. False, and nothing is done, if it is frozen
    /// already: it is another command's.
    #[must_use = "a key that is frozen for another command stays that command's"]
    pub fn freeze(&mut self, k: &Key<'_>, how: Freeze) -> bool {
        let at = self.held.position(self.store.shard_of(k.hash));
        let is_new = self.held.at_mut(at).freeze(k.bytes, how);
        if is_new {
            self.store.count_frozen(how);
        }
        is_new
    }

    /// Ends that a key is frozen; its shard is held. Those who wait for the key look at it.
    pub fn thaw(&mut self, k: &Key<'_>) {
        let at = self.held.position(self.store.shard_of(k.hash));
        if let Some(Frozen { how, prepared }) = self.held.at_mut(at).thaw(k.bytes) {
            self.store.count_thawed(how);
            // They are handed on with what this part does.
            prepared.into_iter().for_each(|prepared| self.local.reported_mut().take_over(prepared));
            self.wake(k);
            // A key is frozen in all databases.
            let waiters = self.held.at(at).waiters().into_iter();
            let others = waiters.flat_map(|waiters| waiters.databases(k.bytes)).filter(|db| *db != self.db);
            let others: Vec<u32> = others.collect();
            others.into_iter().for_each(|db| self.ready.note(db, k.bytes));
        }
    }

    /// Ends a part of a command that occupies a key, whose shard is held: its events are handed on, and its effects stay with
    /// the key until the last part ([`Tx::thaw`]). `sent` writes the command as it was sent. Gives the bytes that the effects
    /// take.
    pub fn end_part(&mut self, key: &[u8], sent: &dyn Fn(&mut Words<'_>)) -> usize {
        let at = self.held.position(usize::from(self.shard_of_bytes(key)));
        let Some(frozen) = self.held.at_mut(at).frozen_mut(key) else { unreachable!("the command occupies the key") };
        debug_assert_eq!(frozen.how, Freeze::Occupied, "a part changes a key that is occupied");
        self.local.end_part(self.store, self.db, sent, &mut frozen.prepared);
        frozen.prepared.as_ref().map_or(0, |prepared| prepared.bytes)
    }

    /// A script changes these keys, whose shards are held, although a command works on one of them: the effects of that
    /// command so far come before the script's.
    #[cold]
    pub fn pass_occupied<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let Some(journal) = self.store.journal() else { return };
        for key in keys {
            let at = self.held.position(usize::from(self.shard_of_bytes(key)));
            self.held.at_mut(at).append_parts(journal, key);
        }
    }

    /// True while somebody wants to be alone behind the gate: a command that is about to occupy a key is put back, so that they
    /// have their turn.
    pub fn gives_way(&self) -> bool {
        self.store.gate().gives_way(Newcomer::InParts)
    }

    /// True if one of these keys, whose shards are held, is occupied: whoever would use it waits.
    #[cold]
    pub fn any_occupied<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        keys.any(|key| {
            let shard = self.held.at(self.held.position(usize::from(self.shard_of_bytes(key))));
            shard.is_occupied(key)
        })
    }

    /// Tries to hold a key's shard for the last part of a command that changes the key; false also if the key is frozen.
    pub fn try_hold_to_write(&mut self, k: &Key<'_>) -> bool {
        self.try_hold_one(self.shard_of(k.hash)) && !self.is_frozen(k)
    }

    /// True if a key, whose shard is held, is frozen, or one that serving its waiters would write.
    pub fn is_frozen(&self, k: &Key<'_>) -> bool {
        self.store.has_frozen() && self.any_frozen([k.bytes])
    }

    /// True if one of these keys, whose shards are held, is frozen, or one that serving their waiters would write, as far as
    /// its shard is held too.
    #[cold]
    pub fn any_frozen<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        let mut seen = HashSet::new();
        let mut next: Vec<&[u8]> = keys.into_iter().collect();
        while let Some(key) = next.pop() {
            let id = self.shard_of_bytes(key);
            let Some(at) = self.held.ids().position(|held| held == id) else { continue };
            let Some(waiters) = self.held.at(at).waiters() else { continue };
            if waiters.frozen(key).is_some() {
                return true;
            }
            if waiters.has(key) && seen.insert(key) {
                next.extend(waiters.targets(key));
            }
        }
        false
    }

    /// The shard of a key, whatever its database.
    pub fn shard_of_bytes(&self, key: &[u8]) -> u16 {
        self.store.shard_of_bytes(key)
    }

    /// Notes that a key has changed, for the clients that wait for it.
    #[inline]
    pub(crate) fn wake(&mut self, k: &Key<'_>) {
        let at = self.held.position(self.store.shard_of(k.hash));
        if self.held.at(at).waiters().is_some() {
            self.note_ready(k, at);
        }
    }

    /// Has those who wait for a key look at it, although a change of it is not reported to others.
    pub fn wake_waiters(&mut self, k: &Key<'_>) {
        self.wake(k);
    }

    /// Whether a command works on the key over several holds of its shard: what the key has now is not what it will have, so
    /// those who wait for it are served behind the command (BRPOP beside an RPUSH of many elements).
    fn is_occupied(&self, k: &Key<'_>, at: usize) -> bool {
        self.held.at(at).is_occupied(k.bytes)
    }

    /// A key is ready if it has what somebody waits for.
    #[cold]
    fn note_ready(&mut self, k: &Key<'_>, at: usize) {
        // While a file is loaded a stream is there before its groups are. Nobody is served by what was done before.
        if self.store.is_loading() {
            return;
        }
        let store = self.store;
        let is_selected = k.db == self.physical;
        let db = if is_selected { Some(self.db) } else { store.database_map().logical(k.db) };
        let Some(db) = db else { return };
        if self.is_occupied(k, at) {
            return;
        }
        let wanted = self.held.at_mut(at).is_waited_for((store.log(), store.seed()), k, db);
        if wanted {
            self.ready.note(db, k.bytes);
        }
    }

    /// True if keys have become ready that were not taken with [`Tx::next_ready`] yet.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The key that became ready first.
    pub fn next_ready(&mut self) -> Option<ReadyKey> {
        self.ready.pop()
    }

    /// Puts a ready key back, before all others, and holds all shards that serving the ready keys may need. What the keys held
    /// before may be gone. False if a shard is busy: nothing is held then, and the keys are still the ones that are ready.
    #[cold]
    #[must_use = "nothing may be held"]
    pub fn regather(&mut self, ready: ReadyKey) -> bool {
        self.ready.put_back(ready);
        self.hold_for_ready()
    }

    /// Goes on with keys that were ready before ([`Tx::take_ready`]); holds all shards that serving them may need. False if
    /// one is busy, like [`Tx::regather`].
    #[cold]
    #[must_use = "nothing may be held"]
    pub fn gather_ready(&mut self, ready: VecDeque<ReadyKey>) -> bool {
        debug_assert!(self.ready.is_empty(), "those that are ready are served before others");
        self.ready = ready.into();
        self.hold_for_ready()
    }

    /// Holds all shards that serving the ready keys may need, if they are free soon: a script that holds one may rest on this
    /// thread.
    fn hold_for_ready(&mut self) -> bool {
        self.hand_on();
        let mut shards: ShardSet = self.ready.keys().map(|key| self.shard_of_bytes(key)).collect();
        loop {
            if !self.hold_soon(&shards) {
                return false;
            }
            if !self.widen(&mut shards, self.ready.keys()) {
                return true;
            }
        }
    }

    /// The first waiter for what a key in the selected database has. The key's shard is held.
    pub fn next_waiter(&mut self, k: &Key<'_>) -> NextWaiter {
        let (store, db) = (self.store, self.db());
        let shard = store.shard_of(k.hash);
        if !self.held.ids().any(|id| usize::from(id) == shard) {
            // A part that works on several keys, one shard at a time, has made it ready and gone on (MIGRATE).
            return NextWaiter::Far;
        }
        let at = self.held.position(shard);
        if self.is_occupied(k, at) {
            return NextWaiter::Nobody;
        }
        if store.has_frozen() && self.held.at(at).is_frozen(k.bytes) {
            return NextWaiter::Later;
        }
        // A key whose time has come is removed on the way.
        self.exists(k);
        let held: SmallVec<[u16; 8]> = self.held.ids().collect();
        let shard_of = |target: &[u8]| store.shard_of(hash_of(store.seed(), 0, target)) as u16;
        let holds = |target: &[u8]| held.contains(&shard_of(target));
        if store.has_frozen()
            && let Some(target) = self.held.at_mut(at).next_target((store.log(), store.seed()), k, db)
            && holds(&target)
            && self.held.at(self.held.position(usize::from(shard_of(&target)))).is_frozen(&target)
        {
            return NextWaiter::Later;
        }
        self.held.at_mut(at).next_waiter((store.log(), store.seed()), k, db, holds)
    }

    /// The keys that are ready, in order; serving them is put off, and up to the caller.
    pub fn take_ready(&mut self) -> VecDeque<ReadyKey> {
        self.ready.take()
    }

    /// Marks every key ready that somebody waits for and that is there, in any database, behind those of `ready`, and
    /// holds the shards of all with all that serving them may need: after databases were exchanged, and for what was put
    /// off. Under the gate alone.
    pub fn recheck(&mut self, mut ready: VecDeque<ReadyKey>) {
        let store = self.store;
        let mut waited = Vec::new();
        let mut shards = ShardSet::default();
        self.release();
        for (id, cell) in store.cells().iter().enumerate() {
            let shard = cell.lock.lock();
            let Some(waiters) = shard.waiters() else { continue };
            shards.add([id as u16]);
            waited.extend(waiters.waited().map(|(db, key)| (db, Box::<[u8]>::from(key))));
        }
        if waited.is_empty() {
            return;
        }
        waited.sort_unstable();
        waited.dedup();
        let is_waited_for = |ready: &ReadyKey| {
            waited.binary_search_by(|(db, key)| (*db, &**key).cmp(&(ready.db, &*ready.bytes))).is_ok()
        };
        ready.retain(is_waited_for);
        self.ready = ready.into();
        self.hold(&shards);
        for (db, key) in &waited {
            let k = store.key(*db, key);
            self.exists(&k);
            self.wake(&k);
        }
        while self.widen(&mut shards, waited.iter().map(|(_, key)| &**key)) {
            self.hold(&shards);
        }
    }
}
