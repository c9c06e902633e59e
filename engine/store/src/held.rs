//! The shards that a command holds.
//!
//! A command takes all its shards before it changes a byte, ascending, and never adds one (DESIGN: lock order). A
//! [`Held`] lives for a batch: between commands it is emptied, or kept when the next command needs the same shards.

use smallvec::SmallVec;

use crate::rank::RankedGuard;
use crate::shard::{Shard, ShardCell};

/// How often a busy shard is tried before the command is put back: about 3 us.
const SPINS_MAX: u32 = 150;

/// Guards of the shards held, in ascending order of shard number.
#[derive(Default)]
pub(crate) struct Held<'s> {
    ids: SmallVec<[u16; 8]>,
    guards: SmallVec<[RankedGuard<'s, Shard>; 2]>,
}

impl<'s> Held<'s> {
    /// Nothing held yet.
    pub(crate) fn new() -> Held<'s> {
        Held::default()
    }

    /// True if exactly these shards (ascending, without repeats) are held.
    #[inline]
    pub(crate) fn is(&self, ids: &[u16]) -> bool {
        self.ids.as_slice() == ids
    }

    /// Takes these shards (ascending, without repeats), spinning briefly for each; on failure nothing is held.
    #[inline]
    pub(crate) fn try_take(&mut self, cells: &'s [ShardCell], ids: &[u16]) -> bool {
        debug_assert!(self.ids.is_empty(), "a command never adds a shard to those it holds");
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "shards are taken in ascending order");
        for &id in ids {
            match try_lock(&cells[usize::from(id)]) {
                Some(guard) => {
                    self.ids.push(id);
                    self.guards.push(guard);
                }
                None => {
                    self.release();
                    return false;
                }
            }
        }
        true
    }

    /// Takes these shards, waiting for each as long as it takes.
    pub(crate) fn take(&mut self, cells: &'s [ShardCell], ids: &[u16]) {
        debug_assert!(self.ids.is_empty(), "a command never adds a shard to those it holds");
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "shards are taken in ascending order");
        for &id in ids {
            self.ids.push(id);
            self.guards.push(cells[usize::from(id)].lock.lock());
        }
    }

    /// Lets go of everything.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.ids.clear();
        self.guards.clear();
    }

    /// Lets go of everything, runs `wait`, and takes the same shards again, waiting for each as long as it takes.
    pub(crate) fn step_back<R>(&mut self, cells: &'s [ShardCell], wait: impl FnOnce() -> R) -> R {
        let ids = std::mem::take(&mut self.ids);
        self.guards.clear();
        let waited = wait();
        self.take(cells, &ids);
        waited
    }

    /// True if this shard is held.
    pub(crate) fn holds(&self, id: u16) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// The shards held.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Shard> {
        self.guards.iter().map(|guard| &**guard)
    }

    /// Where in the list a shard stands; it must be held.
    #[inline]
    pub(crate) fn position(&self, id: usize) -> usize {
        if self.ids.len() == 1 {
            assert_eq!(usize::from(self.ids[0]), id, "a key's shard is held before it is touched");
            return 0;
        }
        self.ids.binary_search(&(id as u16)).expect("a key's shard is held before it is touched")
    }

    /// The number of the shard at a position.
    #[inline]
    pub(crate) fn id(&self, position: usize) -> usize {
        usize::from(self.ids[position])
    }

    /// The shard at a position.
    #[inline]
    pub(crate) fn at(&self, position: usize) -> &Shard {
        &self.guards[position]
    }

    /// The shard at a position, to change.
    #[inline]
    pub(crate) fn at_mut(&mut self, position: usize) -> &mut Shard {
        &mut self.guards[position]
    }
}

#[inline]
fn try_lock(cell: &ShardCell) -> Option<RankedGuard<'_, Shard>> {
    if let Some(guard) = cell.lock.try_lock() {
        return Some(guard);
    }
    for _ in 0..SPINS_MAX {
        std::hint::spin_loop();
        if let Some(guard) = cell.lock.try_lock() {
            return Some(guard);
        }
    }
    None
}
