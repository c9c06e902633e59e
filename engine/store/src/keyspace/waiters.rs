//! Entries of waiters that wait no longer are removed here, and keys are frozen.

use std::sync::Arc;

use varve_collection::ReadCtx;
use varve_collection::stream::{SmallStream, StreamReader};
use varve_segment::Log;

use super::shard::Shard;
use super::store::Store;
use crate::state::effects::EffectSink;
use crate::state::key::{Key, hash_of};
use crate::state::types::Type;
use crate::state::waiters::{Freeze, Frozen, NextWaiter, Offer, Waiter, Waiters};

impl Shard {
    /// Puts a waiter into the queue of its key of this number.
    pub(crate) fn add_waiter(&mut self, nth: usize, waiter: &Arc<Waiter>) {
        self.waiters.get_or_insert_default().add(nth, waiter);
    }

    /// True if this key has in a logical database what somebody waits for.
    pub(crate) fn is_waited_for(&mut self, ctx: (&Log, u64), k: &Key<'_>, db: u32) -> bool {
        self.ask_waiters(ctx, k, |waiters, offer| waiters.any(k.bytes, db, offer)).unwrap_or(false)
    }

    /// The waiter that is next for what a key has in a logical database; `holds` says whether its target's shard is held.
    pub(crate) fn next_waiter(
        &mut self,
        ctx: (&Log, u64),
        k: &Key<'_>,
        db: u32,
        holds: impl Fn(&[u8]) -> bool,
    ) -> NextWaiter {
        let next = self.ask_waiters(ctx, k, |waiters, offer| waiters.next(k.bytes, db, offer, holds));
        next.flatten().unwrap_or(NextWaiter::Nobody)
    }

    /// Shows those who wait for a key its value; `ctx` has the log and the seed of elements' hashes. None if nobody waits.
    fn ask_waiters<R>(
        &mut self,
        (log, seed): (&Log, u64),
        k: &Key<'_>,
        ask: impl FnOnce(&mut Waiters, &Offer<'_>) -> R,
    ) -> Option<R> {
        let mut waiters = self.waiters.take_if(|waiters| waiters.has(k.bytes))?;
        let answer = ask(&mut waiters, &self.offer(log, seed, k));
        self.waiters = Some(waiters);
        self.drop_waiters();
        Some(answer)
    }

    /// A key's value as those who wait look at it.
    fn offer<'a>(&'a self, log: &'a Log, seed: u64, k: &Key<'_>) -> Offer<'a> {
        let Some(entry) = self.find(log, k) else { return Offer::Nothing };
        let r = self.index.get(entry);
        match (Type::of_kind(self.open(log, r).kind()), self.link_of(log, r)) {
            (Type::Stream, Some(link)) => {
                let ctx = ReadCtx { log, access: self.access(), seed };
                Offer::Stream(StreamReader::Big(self.root(link.place).body.stream(), ctx))
            }
            (Type::Stream, None) => Offer::Stream(StreamReader::Small(SmallStream::open(self.open(log, r).value()))),
            (ty, _) => Offer::Value(ty),
        }
    }

    /// Removes a waiter's entry for its key of this number, if it is there.
    pub(crate) fn remove_waiter(&mut self, nth: usize, waiter: &Waiter) {
        if let Some(waiters) = &mut self.waiters {
            waiters.remove(nth, waiter);
        }
        self.drop_waiters();
    }

    /// Has commands that would change this key, or all that would use it, wait until [`Shard::thaw`].
    /// False if some wait already, for somebody else.
    #[must_use = "a key that is frozen for somebody else stays theirs"]
    pub(crate) fn freeze(&mut self, key: &[u8], how: Freeze) -> bool {
        self.waiters.get_or_insert_default().freeze(key, how)
    }

    /// Lets commands use this key again; gives how it was frozen, if it was.
    pub(crate) fn thaw(&mut self, key: &[u8]) -> Option<Frozen> {
        let was_frozen = self.waiters.as_mut().and_then(|waiters| waiters.thaw(key));
        self.drop_waiters();
        was_frozen
    }

    /// A frozen key.
    pub(crate) fn frozen_mut(&mut self, key: &[u8]) -> Option<&mut Frozen> {
        self.waiters.as_mut()?.frozen_mut(key)
    }

    /// Appends the effects that the parts of a command have left with this key: somebody is about to append a change of the key
    /// that is behind them. What the command does from here on is another unit.
    #[cold]
    pub(crate) fn append_parts(&mut self, journal: &dyn EffectSink, key: &[u8]) {
        if let Some(prepared) = self.frozen_mut(key).and_then(|frozen| frozen.prepared.take()) {
            self.journal_end = journal.append_prepared(prepared);
        }
    }

    /// True if a command works on this key over several holds of the shard.
    pub(crate) fn is_occupied(&self, key: &[u8]) -> bool {
        self.waiters().is_some_and(|waiters| waiters.frozen(key) == Some(Freeze::Occupied))
    }

    /// True if a key is frozen, in whatever way.
    pub(crate) fn is_frozen(&self, key: &[u8]) -> bool {
        self.waiters().is_some_and(|waiters| waiters.frozen(key).is_some())
    }

    /// The target of the waiter that is next, as [`Shard::next_waiter`] has it.
    pub(crate) fn next_target(&mut self, ctx: (&Log, u64), k: &Key<'_>, db: u32) -> Option<Box<[u8]>> {
        self.ask_waiters(ctx, k, |waiters, offer| waiters.next_target(k.bytes, db, offer)).flatten()
    }

    fn drop_waiters(&mut self) {
        if self.waiters.as_ref().is_some_and(|waiters| waiters.is_empty()) {
            self.waiters = None;
        }
    }
}

/// How often the shard of a key is looked at while it is busy, until the key counts as frozen: some 20 us, longer than most commands.
/// A script of a thousand keys would hardly find all of their shards free at its first look.
const LOOKS: u32 = 1000;

impl Store {
    /// True if one of these keys is frozen, or its shard is busy: it may be. The worker holds no shard.
    #[cold]
    pub fn any_frozen<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        keys.any(|key| self.may_be_frozen(key, |_| true))
    }

    /// True if one of these keys is occupied, or its shard is busy: it may be. The worker holds no shard.
    #[cold]
    pub fn any_occupied<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        keys.any(|key| self.may_be_frozen(key, |how| how == Freeze::Occupied))
    }

    fn may_be_frozen(&self, key: &[u8], is_it: impl FnOnce(Freeze) -> bool) -> bool {
        let shard = self.cells()[self.shard_of(hash_of(self.seed(), 0, key))].lock.try_lock_for(LOOKS);
        shard.is_none_or(|shard| shard.waiters().and_then(|waiters| waiters.frozen(key)).is_some_and(is_it))
    }
}
