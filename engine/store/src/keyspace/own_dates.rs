//! Keys that clients of a writable replica give a time: the replica removes them itself.
//!
//! ```text
//!   the shard's wheel    all volatile keys; stands still on a replica, whose primary says when a key goes
//!   the own wheel        here: entries of keys to which a client gave a time while the server was a replica
//! ```
//! An entry finds its key again by 48 bits of its hash. What stands there by then counts: a key that the primary has written since
//! under the same name goes too when its time has come, as at redis-server. A server that follows nobody has no entries.

use super::shard::{NEVER, Shard, ShardCell};
use super::store::Store;
use crate::state::key::wheel_bits;

impl Shard {
    /// Files the time of a key that a client of a replica has given it.
    pub(crate) fn file_own_date(&mut self, cell: &ShardCell, hash: u64, at: i64, now_ms: i64) {
        let wheel = self.own_wheel.get_or_insert_default();
        if wheel.is_empty() {
            // Gives the time to a wheel that may have stood still for long.
            let _ = wheel.advance(now_ms, 0, &mut Vec::new());
        }
        wheel.add(wheel_bits(hash), at);
        // Where most entries are stale the background is called at once, to rebuild.
        let due = if self.rebuilds_own() { 0 } else { at };
        self.follow_own_dates(cell, due.min(cell.own_dates().due()));
    }

    /// True if most entries are of keys that have gone, or have another time.
    fn rebuilds_own(&self) -> bool {
        self.own_wheel.as_ref().is_some_and(|wheel| wheel.should_rebuild(self.counts.volatile() as usize))
    }

    /// Files an entry that has come out again, since its key has a later time.
    pub(crate) fn refile_own_date(&mut self, bits: u64, at: i64) {
        self.own_wheel.get_or_insert_default().add(bits, at);
    }

    /// Takes entries that are due by `now_ms` out, about `budget`.
    pub(crate) fn fire_own_dates(&mut self, now_ms: i64, budget: usize, due: &mut Vec<u64>) {
        let rebuilds = self.rebuilds_own();
        let Some(wheel) = &mut self.own_wheel else { return };
        if rebuilds {
            // Begins it; the entries come out through `advance`.
            let _ = wheel.drain_all(0, due);
        }
        let _ = wheel.advance(now_ms, budget, due);
    }

    /// Sets what is read without the lock, behind the firing of entries.
    pub(crate) fn settle_own_dates(&mut self, cell: &ShardCell, now_ms: i64) {
        let due = self.own_wheel.as_ref().and_then(|wheel| wheel.next_due(now_ms));
        self.follow_own_dates(cell, due.unwrap_or(NEVER));
    }

    /// Forgets all of them.
    pub(crate) fn forget_own_dates(&mut self, cell: &ShardCell) {
        self.own_wheel = None;
        self.follow_own_dates(cell, NEVER);
    }

    /// Bytes of the own wheel.
    pub(crate) fn own_date_bytes(&self) -> usize {
        self.own_wheel.as_ref().map_or(0, |wheel| wheel.bytes())
    }

    fn follow_own_dates(&mut self, cell: &ShardCell, due: i64) {
        let count = self.own_wheel.as_ref().map_or(0, |wheel| wheel.len());
        debug_assert!(count == 0 || due != NEVER, "what is filed has a time");
        if count == 0 {
            self.own_wheel = None;
        }
        cell.own_dates().set(count as u64, if count == 0 { NEVER } else { due });
    }
}

impl Store {
    /// Times that clients of this replica have given keys, and that have not come: one that was given several has several.
    pub fn own_dates(&self) -> u64 {
        self.cells().iter().map(|cell| cell.own_dates().count()).sum()
    }

    /// The server follows nobody any more: its wheels have all keys.
    pub(crate) fn forget_own_dates(&self) {
        for (id, cell) in self.cells().iter().enumerate().filter(|(_, cell)| cell.own_dates().due() != NEVER) {
            let mut shard = cell.lock.lock();
            shard.forget_own_dates(cell);
            shard.follow_index(self.ground(), id);
        }
    }

    /// True while keys go whose time clients of this replica have given: it removes no others by itself.
    pub(crate) fn expires_own(&self) -> bool {
        self.is_following() && self.may_expire()
    }
}
