//! The end of a journal: positions are reserved here, under a lock that is held for nothing else.
//!
//! All workers write these few words, so they lie on one pair of cache lines: an append moves that pair to its core once. A store
//! ahead of the lock, which brings the pair while the unit is rendered, made no difference.
//! Not here: the bytes, which each worker keeps in a lane of its own (`lane.rs`).

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Condvar;
use varve_aof::select_len;
use varve_base::lock::{SpinGuard, SpinMutex};
use varve_base::shared::{SharedMutex, SharedU64};

use super::super::stream::Databases;

/// See the module's text.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Place {
    reserved: SpinMutex<Reserved>,
    end: SharedU64,
    /// The thread that takes was woken, and has not gone on yet.
    woken: SharedMutex<bool>,
    came: Condvar,
}

/// The words under the lock.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    pub(super) end: u64,
    /// The database that a reader of all bytes so far has selected; None if that is not known.
    pub(super) db: Option<u32>,
    /// The second of the last line with the time.
    pub(super) stamped_s: i64,
    /// The thread that takes sleeps, and nobody has woken it.
    sleeps: bool,
    /// The thread that takes is to look: it was told to, or something came that has no bytes.
    poked: bool,
    /// Replicas are said nothing more.
    pub(super) is_quiet: bool,
    /// Something that has no bytes stands at the end.
    pub(super) is_marked: bool,
    /// The thread that takes ends at the end, and no other has begun: nothing is said to replicas.
    pub(super) is_ended: bool,
}

/// The place of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    /// The position of its first byte, or of the SELECT in front of it.
    pub(super) at: u64,
    /// The position behind it.
    pub(super) end: u64,
    /// The database of a SELECT that stands in front of it.
    pub(super) select: Option<u32>,
    /// Something that has no bytes may stand in front of it: it is not to be joined to what lies before it.
    pub(super) is_apart: bool,
    /// The second of a line with the time in front of it, in the file alone.
    pub(super) stamp_s: Option<i64>,
    /// The thread that takes is to be woken, once the unit is in its lane.
    pub(super) wakes: bool,
}

impl Place {
    /// The position behind all that was reserved.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// The words, for something that has no bytes or no database. The lane where it will stand is locked.
    pub(super) fn lock(&self) -> SpinGuard<'_, Reserved> {
        self.reserved.lock()
    }

    /// Reserves a place for a unit of this length, in bytes. The lane where it will stand is locked. With `stamped` the first
    /// unit of a second has a line with the time.
    pub(super) fn reserve(&self, len: usize, databases: Databases, stamped: bool) -> Reservation {
        let now_s = if stamped { seconds() } else { 0 };
        let mut reserved = self.reserved.lock();
        let is_new_second = now_s > reserved.stamped_s;
        if is_new_second {
            reserved.stamped_s = now_s;
        }
        let select = (reserved.db != Some(databases.first)).then_some(databases.first);
        reserved.db = Some(databases.last);
        let (at, bytes) = (reserved.end, len + select.map_or(0, select_len));
        let wakes = self.advance(&mut reserved, bytes);
        let is_apart = std::mem::take(&mut reserved.is_marked) || select.is_some();
        Reservation { at, end: reserved.end, select, is_apart, stamp_s: is_new_second.then_some(now_s), wakes }
    }

    /// Reserves this number of bytes. True if the thread that takes is to be woken, once they are in their lane.
    #[must_use]
    pub(super) fn advance(&self, reserved: &mut Reserved, bytes: usize) -> bool {
        reserved.end += bytes as u64;
        self.end.store(reserved.end, Ordering::Release);
        std::mem::take(&mut reserved.sleeps)
    }

    /// Wakes the thread that takes: with neither a lane nor the words locked, since the thread may be about to sleep.
    #[cold]
    pub(super) fn wake(&self) {
        *self.woken.lock() = true;
        self.came.notify_one();
    }

    /// Has the thread that takes look, though no byte has come.
    pub(super) fn poke(&self) {
        let mut reserved = self.reserved.lock();
        reserved.poked = true;
        let wakes = std::mem::take(&mut reserved.sleeps);
        drop(reserved);
        if wakes {
            self.wake();
        }
    }

    /// Waits up to `wait` for bytes behind `taken`, or for a poke. It may return early.
    pub(super) fn await_more(&self, taken: u64, wait: Duration) {
        let mut reserved = self.reserved.lock();
        reserved.sleeps = reserved.end == taken && !reserved.poked && !wait.is_zero();
        if reserved.sleeps {
            drop(reserved);
            let mut woken = self.woken.lock();
            if !*woken {
                self.came.wait_for(&mut woken, wait);
            }
            *woken = false;
            drop(woken);
            reserved = self.reserved.lock();
            reserved.sleeps = false;
        }
        reserved.poked = false;
    }
}

/// The time of the clock, in seconds since 1970.
#[cold]
fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
