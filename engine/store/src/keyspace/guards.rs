//! The shards that a command holds.
//!
//! A command takes all its shards before it changes a byte, ascending, and never adds one. A script does: it finds out on its
//! way which shards it needs, takes them in any order and waits for them ([`ShardGuards::gather`]). That cannot deadlock,
//! since one thread at a time may (it holds the token), and no other waits for a shard without an end while it holds one. A
//! [`ShardGuards`] lives for a batch: between commands it is emptied, or kept when the next command needs the same shards.
//! Most commands need one shard, so the first one stands apart.

use std::time::{Duration, Instant};

use smallvec::SmallVec;
use varve_base::rank::RankedGuard;

use super::shard::{Shard, ShardCell};

/// How often a busy shard is tried before the command is put back: about 3 us.
const SPINS_MAX: u32 = 150;

/// How long shards are kept while others are waited for, where one gives up in between.
const TAKE: Duration = Duration::from_micros(200);
/// And how long it then lets others have them.
const PAUSE: Duration = Duration::from_micros(50);

/// A shard that is held, and its number.
struct One<'s> {
    id: u16,
    guard: RankedGuard<'s, Shard>,
}

/// Guards of the shards held, in ascending order of shard number.
#[derive(Default)]
pub(crate) struct ShardGuards<'s> {
    first: Option<One<'s>>,
    rest: SmallVec<[One<'s>; 3]>,
}

impl<'s> ShardGuards<'s> {
    /// Nothing held yet.
    #[inline]
    pub(crate) fn new() -> ShardGuards<'s> {
        ShardGuards::default()
    }

    /// True if exactly these shards (ascending, without repeats) are held.
    #[inline(always)]
    pub(crate) fn is(&self, ids: &[u16]) -> bool {
        match (ids, &self.first) {
            ([], first) => first.is_none(),
            (_, None) => false,
            ([id], Some(first)) => first.id == *id && self.rest.is_empty(),
            ([id, more @ ..], Some(first)) => {
                first.id == *id
                    && self.rest.len() == more.len()
                    && self.rest.iter().map(|one| one.id).eq(more.iter().copied())
            }
        }
    }

    /// Takes these shards (ascending, without repeats), spinning briefly for each; on failure nothing is held.
    #[inline(always)]
    pub(crate) fn try_take(&mut self, cells: &'s [ShardCell], ids: &[u16]) -> bool {
        debug_assert!(self.first.is_none(), "a command never adds a shard to those it holds");
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "shards are taken in ascending order");
        let [id, more @ ..] = ids else { return true };
        self.try_take_one(cells, *id) && (more.is_empty() || self.try_take_more(cells, more))
    }

    /// Takes one shard, spinning briefly; nothing may be held.
    #[inline(always)]
    pub(crate) fn try_take_one(&mut self, cells: &'s [ShardCell], id: u16) -> bool {
        debug_assert!(self.first.is_none(), "a command never adds a shard to those it holds");
        let Some(guard) = cells[usize::from(id)].try_lock_for(SPINS_MAX) else { return false };
        self.first = Some(One { id, guard });
        true
    }

    fn try_take_more(&mut self, cells: &'s [ShardCell], ids: &[u16]) -> bool {
        for &id in ids {
            let Some(guard) = cells[usize::from(id)].try_lock_for(SPINS_MAX) else {
                self.release();
                return false;
            };
            self.rest.push(One { id, guard });
        }
        true
    }

    /// Takes these shards and keeps those that it has got while it waits for the next, until `within` has passed since the
    /// call. On failure nothing is held.
    pub(crate) fn take_within(&mut self, cells: &'s [ShardCell], ids: &[u16], within: Duration) -> bool {
        debug_assert!(self.first.is_none(), "a command never adds a shard to those it holds");
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "shards are taken in ascending order");
        let start = Instant::now();
        for &id in ids {
            let guard = loop {
                if let Some(guard) = cells[usize::from(id)].try_lock_for(SPINS_MAX) {
                    break guard;
                }
                if start.elapsed() >= within {
                    self.release();
                    return false;
                }
                std::thread::yield_now();
            };
            match self.first {
                None => self.first = Some(One { id, guard }),
                Some(_) => self.rest.push(One { id, guard }),
            }
        }
        true
    }

    /// Takes these shards, waiting as long as it takes. While it waits for one it keeps others for some microseconds only:
    /// the token's holder may wait for them, and hold the one.
    pub(crate) fn take(&mut self, cells: &'s [ShardCell], ids: &[u16]) {
        if let [only] = ids {
            debug_assert!(self.first.is_none(), "a command never adds a shard to those it holds");
            self.first = Some(One { id: *only, guard: cells[usize::from(*only)].lock.lock() });
            return;
        }
        while !self.take_within(cells, ids, TAKE) {
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes these shards beside those that are held, waiting for each as long as it takes. The thread holds the token.
    pub(crate) fn gather(&mut self, cells: &'s [ShardCell], ids: &[u16]) {
        for &id in ids {
            if !self.has(id) {
                self.add(One { id, guard: cells[usize::from(id)].lock_for_script() });
            }
        }
    }

    /// Takes these shards like [`ShardGuards::gather`], but waits for no longer than `within`; false if one is busy then. It is
    /// kept from others until a further call has got it, and those that were taken are kept.
    pub(crate) fn gather_within(&mut self, cells: &'s [ShardCell], ids: &[u16], within: Duration) -> bool {
        let mut until = None;
        for &id in ids {
            if self.has(id) {
                continue;
            }
            let until = *until.get_or_insert_with(|| Instant::now() + within);
            let Some(guard) = cells[usize::from(id)].lock_for_script_by(until) else { return false };
            self.add(One { id, guard });
        }
        true
    }

    /// Adds a shard to those that are held.
    fn add(&mut self, one: One<'s>) {
        match &mut self.first {
            None => self.first = Some(one),
            Some(first) if one.id < first.id => {
                let first = std::mem::replace(first, one);
                self.rest.insert(0, first);
            }
            Some(_) => {
                let place = self.rest.partition_point(|other| other.id < one.id);
                self.rest.insert(place, one);
            }
        }
        debug_assert!(self.ids().is_sorted_by(|a, b| a < b), "shards are found by their numbers");
    }

    /// True if a shard is held.
    pub(crate) fn has(&self, id: u16) -> bool {
        self.first.as_ref().is_some_and(|first| first.id == id)
            || self.rest.binary_search_by_key(&id, |one| one.id).is_ok()
    }

    /// Lets go of everything.
    #[inline(always)]
    pub(crate) fn release(&mut self) {
        self.first = None;
        if !self.rest.is_empty() {
            self.rest.clear();
        }
    }

    /// Lets go of everything, runs `wait`, and takes the same shards again: for no longer than `within`, or for as long as it
    /// takes without such a bound. True beside it if they are held again; else nothing is.
    pub(crate) fn step_back<R>(
        &mut self,
        cells: &'s [ShardCell],
        within: Option<Duration>,
        wait: impl FnOnce() -> R,
    ) -> (R, bool) {
        let ids: SmallVec<[u16; 8]> = self.ids().collect();
        self.release();
        let waited = wait();
        let Some(within) = within else {
            self.take(cells, &ids);
            return (waited, true);
        };
        let taken = self.take_within(cells, &ids, within);
        (waited, taken)
    }

    /// The numbers of the shards held.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u16> {
        self.all().map(|one| one.id)
    }

    /// The shards held.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Shard> {
        self.all().map(|one| &*one.guard)
    }

    /// The shards held, to change.
    #[inline]
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.first.iter_mut().chain(&mut self.rest).map(|one| &mut *one.guard)
    }

    #[inline]
    fn all(&self) -> impl Iterator<Item = &One<'s>> {
        self.first.iter().chain(&self.rest)
    }

    /// Where in the list a shard stands; it must be held.
    #[inline(always)]
    pub(crate) fn position(&self, id: usize) -> usize {
        if let Some(first) = &self.first
            && usize::from(first.id) == id
        {
            return 0;
        }
        self.position_behind(id)
    }

    fn position_behind(&self, id: usize) -> usize {
        let at = self.rest.binary_search_by_key(&id, |one| usize::from(one.id));
        1 + at.expect("a key's shard is held before it is touched")
    }

    #[inline(always)]
    fn one(&self, position: usize) -> &One<'s> {
        match position {
            0 => self.first.as_ref().expect("a position is that of a shard which is held"),
            more => &self.rest[more - 1],
        }
    }

    /// The number of the shard at a position.
    #[inline]
    pub(crate) fn id(&self, position: usize) -> usize {
        usize::from(self.one(position).id)
    }

    /// The shard at a position.
    #[inline(always)]
    pub(crate) fn at(&self, position: usize) -> &Shard {
        &self.one(position).guard
    }

    /// The shard at a position, to change.
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, position: usize) -> &mut Shard {
        match position {
            0 => &mut self.first.as_mut().expect("a position is that of a shard which is held").guard,
            more => &mut self.rest[more - 1].guard,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use crate::{LogGeometry, Options, Store, Tx};

    /// Without that, the commands of one worker on one key would keep a script out for as long as they come.
    #[test]
    fn a_shard_that_a_script_waits_for_is_taken_by_nobody_else() {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let options = Options { workers: 2, shards: 1, geometry, ..Options::default() };
        let store = Store::new(&options).expect("an address range");
        let mut worker = store.worker(0);
        let (store_ref, local) = worker.parts();
        let mut tx = Tx::new(store_ref, local, 0);
        assert!(tx.try_hold(&[0]));
        let has_it = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut script = store.script_worker(1);
                let token = store.try_token().expect("nobody has it");
                let (store, local) = script.parts();
                let mut tx = Tx::new(store, local, 0);
                tx.gather(&token);
                tx.hold(&[0]);
                has_it.store(true, Relaxed);
                tx.finish();
            });
            while !store.cells()[0].is_wanted() {
                std::thread::yield_now();
            }
            // From here on the script is next, however often the shard is free.
            loop {
                tx.release();
                if tx.try_hold(&[0]) {
                    assert!(has_it.load(Relaxed), "the script was overtaken");
                    break;
                }
            }
        });
        tx.finish();
    }
}
