//! A hierarchical timing wheel: which volatile keys of a shard are to be looked at, and when.
//!
//! An **entry** is 48 bits of a key's hash and nothing else; its time is where it stands. So an entry that comes out is a
//! question, never an order: the owner looks the key up, deletes it if it is due, adds it again with its time if it is not,
//! and drops it if the key is gone or lives for ever.
//!
//! ```text
//!   a tick is 16 ms                  cell of a due tick on level L:  due >> 7L, kept at index % 256
//!
//!            one cell    256 cells    tick  59     28 27    21 20    14 13     7 6      0
//!   level 0  16 ms       4.1 s              ├─ ─ ─ ───────────────────────┼────────────┤ >> 0
//!   level 1  2.0 s       8.7 min            ├─ ─ ─ ──────────────┼─────────────────────┤ >> 7
//!   level 2  4.4 min     18.6 h             ├─ ─ ─ ────┼───────────────────────────────┤ >> 14
//!   level 3  9.3 h       99 days            ├─ ─ ─ ────────────────────────────────────┤ >> 21
//!
//!   each level       before cursor: empty │ cursor ── 256 cells in use ── │ from here on: the level above
//!   cursor           level 0: tick of now, all before has fully passed    others: cell of now + 2, all before begins soon
//!
//!                         advance                          budget
//!   cells of level 0  ────────────────▶  due    ┐
//!                                               ├────────────────▶  owner  ──▶  deletes, drops, or adds again
//!   cells of others   ────────────────▶  ahead  ┘
//! ```
//!
//! Entries of the levels above 0 come out **ahead** of their time, to be added again: they then go one level down. A level
//! has twice as many cells as one cell of the level above is long, so there is a whole cell's time to do this in (2 s at
//! level 1), and no instant at which it must be done at once. A key with a TTL of an hour is looked up three times in its
//! life. Beyond the top level an entry waits in its last cell, and is added again every three months.
//!
//! **The tick.** 16 ms, a power of two, so that cells are shifts. The aim is that a key is gone 100 ms after its time; one
//! tick of delay leaves the rest to the scheduler, and 256 of them make a first level that short TTLs never leave.
//! A tick of 1 ms would want a level more, for which every key would be looked up once more.
//!
//! **Never late.** An entry stands in the cell of its time, or beyond the top level in one before it. `advance` first brings
//! all cursors to now, whatever its budget: what they pass is queued as whole chains, and only the queues wait. So new entries are
//! always filed by the true time, and no entry comes out twice at one time. An entry is late by less than a tick and
//! what its queue waits for the owner. (Cursors that lag behind were tried: what is filed into a lagging level comes out and
//! is filed again for every 256 cells of the gap.)
//!
//! **Clock.** Empty cells are skipped by bitmaps of 256 bits, so an idle year costs what an idle second does. If the clock
//! goes back the cursors follow: a cell that stood for a later round now stands for an earlier one, so entries come too early,
//! which costs a look-up each, and are added again. Late, once and by at most 4.1 s, are only entries added after the clock was
//! set back and before `advance` was told.
//!
//! **Memory.** About 10 bytes an entry from a few thousand entries on: 6.4 in full chunks (`pool.rs`), one partly filled chunk
//! a used cell, 1 KB a used level. Nothing is allocated before the first entry.
//!
//! **Stale entries.** A key that is deleted, or gets a shorter TTL, leaves its old entry behind. The owner adds no entry when
//! a TTL becomes longer (the old one asks in time) and reports now and then how many volatile keys live; `should_rebuild` says
//! when entries outnumber them. Then `drain_all` hands each out once, duplicates left out.
//!
//! The wheel reads no clock, finds no key and does not know what is due.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use pool::{NONE, Pool};
use varve_base::hash::GOLDEN_RATIO;
mod pool;
#[cfg(test)]
mod tests;

const TICK_BITS: u32 = 4;
/// Milliseconds in a tick.
pub const TICK_MS: i64 = 1 << TICK_BITS;
/// The clock may go back this far (1 s) without the wheel following: workers' readings differ, and clocks are adjusted. Due
/// entries are late by as much.
pub const BACK_TICKS_MAX: u64 = 64;
const CELLS: usize = 256;
const LEVELS: usize = 4;
/// A cell of a level is 2^7 cells of the level below: half of its window, see the module.
const LEVEL_BITS: u32 = 7;
const _: () = assert!(CELLS == 2 << LEVEL_BITS);
/// Entries that may be stale before a rebuild pays, whatever the number of live ones.
const STALE_MIN: usize = 256;

/// See the module.
#[derive(Default)]
pub struct Wheel {
    levels: [Level; LEVELS],
    pool: Pool,
    len: usize,
    /// Entries that the cursors passed and the owner has not had yet. Boxed to keep unused wheels small.
    pending: Option<Box<Pending>>,
    compaction: Option<Compaction>,
    /// The entries from before `drain_all` began.
    aside: Option<Box<Aside>>,
}

// A shard without volatile keys pays this and no more.
const _: () = assert!(size_of::<Wheel>() < 200);

/// The work that a step left.
#[must_use = "work may be left"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Another call at the same time would do more.
    pub more: bool,
}

#[derive(Default)]
struct Level {
    /// The first cell (not yet reduced to an index) that is not emptied.
    cursor: u64,
    cells: Option<Box<Cells>>,
}

struct Cells {
    heads: [u32; CELLS],
    /// Bit i is set if cell i has entries.
    occupied: [u64; CELLS / 64],
}

/// Chains on their way to the owner, first come first.
#[derive(Default)]
struct Pending {
    /// From level 0: their time has passed.
    due: VecDeque<Chain>,
    /// From the levels above: to be added again.
    ahead: VecDeque<Chain>,
}

#[derive(Clone, Copy)]
struct Chain {
    head: u32,
    /// The first tick of the cell in which it was: none of its entries is due before.
    start: u64,
}

/// Moving chunks down, cell by cell over all levels.
#[derive(Clone, Copy)]
struct Compaction {
    cell: u32,
    limit: u32,
}

struct Aside {
    pool: Pool,
    chains: VecDeque<Chain>,
    len: usize,
    /// The entries that were handed out already.
    seen: HashSet<u64, BuildHasherDefault<Spread>>,
}

impl Wheel {
    /// An empty wheel; allocates nothing.
    pub fn new() -> Wheel {
        Wheel::default()
    }

    /// Files the 48 hash bits of a key that expires at `due_ms` (Unix time in ms; what is past comes out within a tick).
    /// A wheel that was long empty should be given the time first (`advance` with budget 0), else the entry may have to be
    /// looked at once more than needed.
    ///
    /// # Panics
    /// If `bits48` has more than 48 bits.
    #[inline]
    pub fn add(&mut self, bits48: u64, due_ms: i64) {
        assert!(bits48 >> 48 == 0, "an entry has 48 bits");
        let (level, cell) = self.place(tick(due_ms));
        let cells = self.levels[level].cells.get_or_insert_with(Cells::new);
        let index = cell as usize % CELLS;
        let head = cells.heads[index];
        // One key added again and again (a burst of EXPIRE) makes one entry.
        if head != NONE && self.pool.last(head) == bits48 {
            return;
        }
        cells.heads[index] = self.pool.push(head, bits48);
        cells.mark(index);
        self.len += 1;
    }

    /// Appends up to `budget_entries` entries to `out`: those whose time has fully passed at `now_ms` (never one whose own
    /// time has not, but for a clock set back), those that have to be added again ahead of their time, and those of a
    /// rebuild. Call it again while `more`. The owner adds back what it finds not due before the next call.
    ///
    /// A quarter of the budget serves the second kind first, so that neither can starve the other.
    pub fn advance(&mut self, now_ms: i64, budget_entries: usize, out: &mut Vec<u64>) -> Progress {
        self.turn(tick(now_ms));
        let end = out.len().saturating_add(budget_entries);
        let quarter = out.len().saturating_add(budget_entries.div_ceil(4));
        let mut done = true;
        if let Some(pending) = &mut self.pending {
            let before = out.len();
            hand_out(&mut pending.ahead, &mut self.pool, quarter, out);
            done &= hand_out(&mut pending.due, &mut self.pool, end, out);
            done &= hand_out(&mut pending.ahead, &mut self.pool, end, out);
            self.len -= out.len() - before;
        }
        done &= self.drain_aside(end, out);
        done &= self.compact(budget_entries);
        Progress { more: !done }
    }

    /// A time in ms before which `advance` will have nothing to do, not before `now_ms`; None if the wheel is empty.
    pub fn next_due(&self, now_ms: i64) -> Option<i64> {
        if self.aside.is_some() || self.pending.as_ref().is_some_and(|pending| !pending.is_empty()) {
            return Some(now_ms);
        }
        let ticks = (0..LEVELS).filter_map(|level| {
            let cell = self.levels[level].first()?;
            let emptied_at = if level == 0 { cell + 1 } else { cell.saturating_sub(1) };
            Some(first_tick(level, emptied_at))
        });
        ticks.min().map(|tick| time_ms(tick).max(now_ms))
    }

    /// No entry's own time is before this (ms), unless it was past already when added; None if the wheel is empty. Where
    /// this is before now, the difference is the lag.
    pub fn oldest_due(&self) -> Option<i64> {
        let first = |(number, level): (usize, &Level)| level.first().map(|cell| first_tick(number, cell));
        let cells = self.levels.iter().enumerate().filter_map(first);
        let pending = self.pending.iter().flat_map(|pending| pending.due.iter().chain(&pending.ahead));
        let aside = self.aside.iter().flat_map(|aside| &aside.chains);
        cells.chain(pending.chain(aside).map(|chain| chain.start)).min().map(time_ms)
    }

    /// Number of entries, stale ones included.
    pub fn len(&self) -> usize {
        self.len + self.aside.as_ref().map_or(0, |aside| aside.len)
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes taken from the allocator; not `self`.
    pub fn bytes(&self) -> usize {
        let levels = self.levels.iter().filter(|level| level.cells.is_some()).count() * size_of::<Cells>();
        let pending = self.pending.as_ref().map_or(0, |pending| pending.bytes());
        let aside = self.aside.as_ref().map_or(0, |aside| aside.bytes());
        levels + self.pool.bytes() + pending + aside
    }

    /// An entry at random, each with about the same chance; None if the wheel is empty. `random` gives 64 random bits a call.
    pub fn sample(&self, mut random: impl FnMut() -> u64) -> Option<u64> {
        let Some(aside) = &self.aside else { return self.pool.sample(random) };
        let place = (u128::from(random()) * self.len() as u128) >> 64;
        if place < self.len as u128 { self.pool.sample(random) } else { aside.pool.sample(random) }
    }

    /// True if `drain_all` should be begun, because many entries are stale while the shard has `live` volatile keys.
    pub fn should_rebuild(&self, live: usize) -> bool {
        self.aside.is_none() && self.len > live * 2 + STALE_MIN
    }

    /// One step of a rebuild, begun by the first call: appends up to `budget_entries` of the entries that were there when it
    /// began, each once, soonest first. The owner adds those back whose key lives. `advance` may be called between the steps
    /// and takes steps too. Done when not `more`.
    pub fn drain_all(&mut self, budget_entries: usize, out: &mut Vec<u64>) -> Progress {
        if self.aside.is_none() {
            self.aside = Some(Box::new(Aside::new(self.take())));
        }
        let done = self.drain_aside(out.len().saturating_add(budget_entries), out);
        Progress { more: !done }
    }

    /// Takes everything out and leaves an empty wheel that knows the time.
    pub fn take(&mut self) -> Wheel {
        let mut fresh = Wheel::new();
        for (new, old) in fresh.levels.iter_mut().zip(&self.levels) {
            new.cursor = old.cursor;
        }
        std::mem::replace(self, fresh)
    }

    /// Checks cells, chains and counts against each other. O(len).
    ///
    /// # Panics
    /// With what is wrong.
    pub fn verify(&self) {
        let (mut entries, mut chunks) = (0, 0);
        for (number, level) in self.levels.iter().enumerate() {
            let Some(cells) = &level.cells else { continue };
            for (i, &head) in cells.heads.iter().enumerate() {
                let marked = cells.occupied[i / 64] >> (i % 64) & 1 == 1;
                assert_eq!(marked, head != NONE, "mark of cell {i} of level {number}");
                chunks += self.pool.for_each(head, |_| entries += 1);
            }
        }
        for chain in self.pending.iter().flat_map(|pending| pending.due.iter().chain(&pending.ahead)) {
            chunks += self.pool.for_each(chain.head, |_| entries += 1);
        }
        assert_eq!(entries, self.len, "entries in chains");
        self.pool.verify(chunks);
        if let Some(aside) = &self.aside {
            aside.verify();
        }
    }

    /// Level and cell for a due tick: its own cell, or the last of all for what is beyond.
    #[inline]
    fn place(&self, due: u64) -> (usize, u64) {
        let first = self.levels[0].cursor;
        if due < first + CELLS as u64 {
            return (0, due.max(first));
        }
        let mut cell = due;
        for (number, level) in self.levels.iter().enumerate().skip(1) {
            cell >>= LEVEL_BITS;
            // An entry that the level below cannot take is in no cell that this level has emptied: see the picture of
            // the cursors.
            debug_assert!(cell >= level.cursor, "cell {cell} of level {number} is empty already");
            if cell < level.cursor + CELLS as u64 {
                return (number, cell);
            }
        }
        (LEVELS - 1, self.levels[LEVELS - 1].cursor + (CELLS as u64 - 1))
    }

    /// Brings the cursors to `now` and queues what they pass. If the clock went back by much they go back: that can only
    /// bring the turn of an occupied cell forward, since the first round of its index at or after the new cursor is not
    /// later than the one at or after the old.
    fn turn(&mut self, now: u64) {
        let back = now + BACK_TICKS_MAX < self.levels[0].cursor;
        for (number, level) in self.levels.iter_mut().enumerate() {
            let until = first_kept(number, now);
            while let Some((head, cell)) = level.take_before(until) {
                let pending = self.pending.get_or_insert_default();
                let queue = if number == 0 { &mut pending.due } else { &mut pending.ahead };
                queue.push_back(Chain { head, start: first_tick(number, cell) });
            }
            level.cursor = if back { until } else { level.cursor.max(until) };
        }
    }

    /// Hands out what a rebuild left aside; true if nothing is left there.
    fn drain_aside(&mut self, end: usize, out: &mut Vec<u64>) -> bool {
        let Some(aside) = &mut self.aside else { return true };
        if !aside.drain(end, out) {
            return false;
        }
        self.aside = None;
        true
    }

    /// Gives memory back in steps of about `budget` chunks (a single cell is not divided); true if nothing is left to do.
    fn compact(&mut self, budget: usize) -> bool {
        let Some(mut state) = self
            .compaction
            .or_else(|| self.pool.is_sparse().then(|| Compaction { cell: 0, limit: self.pool.compact_limit() }))
        else {
            return true;
        };
        let mut moved = 0;
        while moved < budget && (state.cell as usize) < LEVELS * CELLS {
            let (level, index) = (state.cell as usize / CELLS, state.cell as usize % CELLS);
            if let Some(cells) = &mut self.levels[level].cells {
                let (head, chunks) = self.pool.lower(cells.heads[index], state.limit);
                cells.heads[index] = head;
                moved += chunks;
            }
            state.cell += 1;
        }
        let done = state.cell as usize == LEVELS * CELLS;
        self.compaction = (!done).then_some(state);
        done
    }
}

impl Level {
    /// The first occupied cell.
    fn first(&self) -> Option<u64> {
        self.cells.as_ref()?.next_occupied(self.cursor, self.cursor + CELLS as u64)
    }

    /// Takes the first chain that stands before cell `until`, and its cell.
    fn take_before(&mut self, until: u64) -> Option<(u32, u64)> {
        let cells = self.cells.as_mut()?;
        let cell = cells.next_occupied(self.cursor, until)?;
        let index = cell as usize % CELLS;
        cells.occupied[index / 64] &= !(1 << (index % 64));
        Some((std::mem::replace(&mut cells.heads[index], NONE), cell))
    }
}

impl Cells {
    fn new() -> Box<Cells> {
        Box::new(Cells { heads: [NONE; CELLS], occupied: [0; CELLS / 64] })
    }

    #[inline]
    fn mark(&mut self, index: usize) {
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    /// The first occupied cell of `from..to`, of one round at most: five words looked at.
    #[inline]
    fn next_occupied(&self, from: u64, to: u64) -> Option<u64> {
        let to = to.min(from + CELLS as u64);
        let mut at = from;
        while at < to {
            let word = self.occupied[(at / 64) as usize % (CELLS / 64)] >> (at % 64);
            if word != 0 {
                let found = at + u64::from(word.trailing_zeros());
                return (found < to).then_some(found);
            }
            at = (at | 63) + 1;
        }
        None
    }
}

impl Aside {
    fn new(mut wheel: Wheel) -> Aside {
        let pending = *wheel.pending.take().unwrap_or_default();
        let mut chains = pending.due;
        chains.extend(pending.ahead);
        for (number, level) in wheel.levels.iter_mut().enumerate() {
            let end = level.cursor + CELLS as u64;
            while let Some((head, cell)) = level.take_before(end) {
                chains.push_back(Chain { head, start: first_tick(number, cell) });
            }
        }
        // Rebuilds are for wheels of which half is stale, so half is about what will be seen.
        let seen = HashSet::with_capacity_and_hasher(wheel.len / 2, BuildHasherDefault::default());
        Aside { pool: wheel.pool, chains, len: wheel.len, seen }
    }

    /// Appends entries not seen yet until `out` has `end`; true if nothing is left. Looks at no more than four times as many
    /// as it may append, so that duplicates cannot make a step long.
    fn drain(&mut self, end: usize, out: &mut Vec<u64>) -> bool {
        for _ in 0..4 {
            let start = out.len();
            let done = hand_out(&mut self.chains, &mut self.pool, end, out);
            self.len -= out.len() - start;
            let mut kept = start;
            for i in start..out.len() {
                if self.seen.insert(out[i]) {
                    out[kept] = out[i];
                    kept += 1;
                }
            }
            out.truncate(kept);
            if done || out.len() >= end {
                return done;
            }
        }
        false
    }

    fn bytes(&self) -> usize {
        // An entry and a control byte a place; an eighth of the places is never used.
        let seen = self.seen.capacity() * 8 / 7 * (size_of::<u64>() + 1);
        size_of::<Aside>() + self.pool.bytes() + self.chains.capacity() * size_of::<Chain>() + seen
    }

    fn verify(&self) {
        let (mut entries, mut chunks) = (0, 0);
        for chain in &self.chains {
            chunks += self.pool.for_each(chain.head, |_| entries += 1);
        }
        assert_eq!(entries, self.len, "entries aside");
        self.pool.verify(chunks);
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.due.is_empty() && self.ahead.is_empty()
    }

    fn bytes(&self) -> usize {
        size_of::<Pending>() + (self.due.capacity() + self.ahead.capacity()) * size_of::<Chain>()
    }
}

/// Moves entries from the front of a queue to `out` until `out` has `end`; true if the queue is empty.
fn hand_out(queue: &mut VecDeque<Chain>, pool: &mut Pool, end: usize, out: &mut Vec<u64>) -> bool {
    while let Some(chain) = queue.front_mut() {
        if out.len() >= end {
            return false;
        }
        chain.head = pool.pop(chain.head, end - out.len(), out);
        if chain.head == NONE {
            queue.pop_front();
        }
    }
    true
}

/// Entries are hash bits already, but of the wrong places for the standard table, which takes 7 bits from the top.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 << 8 | u64::from(byte)));
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = bits.wrapping_mul(GOLDEN_RATIO);
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .field("oldest_due", &self.oldest_due())
            .finish()
    }
}

#[inline]
fn tick(ms: i64) -> u64 {
    ms.max(0) as u64 >> TICK_BITS
}

fn time_ms(tick: u64) -> i64 {
    i64::try_from(tick << TICK_BITS).unwrap_or(i64::MAX)
}

/// The first cell of a level that is not emptied at tick `now`.
fn first_kept(level: usize, now: u64) -> u64 {
    let cell = now >> (LEVEL_BITS * level as u32);
    if level == 0 { cell } else { cell + 2 }
}

fn first_tick(level: usize, cell: u64) -> u64 {
    cell << (LEVEL_BITS * level as u32)
}
