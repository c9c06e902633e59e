//! The right to write: open segments, and the pieces that they are cut into. One leaf mutex, taken once a piece.
//!
//! ```text
//! open segment of a class
//! +----------------+------+--------+----------------+------------------------------+
//! | piece, spent   | cut  | parked | piece, out     |  not cut yet                 |
//! | .......... fil | to   | ... |  | .. |           |                              |
//! |            ler | size |     |  |    |           |                              |
//! +----------------+------+--------+----------------+------------------------------+
//!                               begin: parked again  frontier
//! ```
//!
//! A piece is out (an appender writes into it alone), parked, or spent. A segment is sealed when nothing of it is left
//! to cut, out or parked. A piece whose tail cannot serve any more is spent by a filler, which counts as used unless
//! it is a page or more, which nobody has touched. Parked pieces are taken first.
//!
//! This file moves no objects and frees no memory.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::thread::Thread;

use varve_base::mem::{Mapping, PAGE_BYTES};

use crate::ahead::{self, Ahead};
use crate::fullness::{Fullness, rung_of};
use crate::geometry::LogGeometry;
use crate::ids::Ids;
use crate::kind::SegmentClass;
use crate::layout::ObjectPtr;
use crate::memory::LogMemory;
use crate::table::{Live, SegmentEntry, SegmentState, SegmentTable};

/// Fresh pieces of at least this many bytes are populated at once.
const POPULATE_MIN: u64 = 4 * PAGE_BYTES as u64;
/// Pieces with less left than this are spent at once.
const PIECE_MIN: u64 = 64;
/// More parked pieces of a class than this, or than there are appenders: the shortest is spent.
const PARKED_MIN: usize = 16;

/// The bytes of a filler that count as used.
#[inline]
pub(crate) fn filler_used(len: u64) -> u64 {
    if len < PAGE_BYTES as u64 { len } else { 0 }
}

/// A part of an open segment that one appender writes into. Offsets are into the range.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    pub(crate) segment: u32,
    /// Objects written since it was checked out, which the segment does not count yet.
    pub(crate) objects: u32,
    /// Where it began when it was checked out.
    pub(crate) begin: u64,
    /// Where the next object goes.
    pub(crate) at: u64,
    pub(crate) end: u64,
    /// There may be no memory behind it yet.
    pub(crate) fresh: bool,
    /// Of the bytes written: room that no value fills, and fillers.
    pub(crate) slack: u64,
    pub(crate) filler: u64,
}

impl Piece {
    fn new(segment: u32, begin: u64, end: u64) -> Piece {
        assert!(begin <= end, "a piece of {begin}..{end}");
        Piece { segment, begin, at: begin, end, ..Piece::default() }
    }

    #[inline(always)]
    pub(crate) fn left(&self) -> u64 {
        self.end - self.at
    }

    /// Has the memory of a fresh, large piece put in place by one system call, which costs a fraction of a fault a page.
    pub(crate) fn populate(&self, mapping: &Mapping) {
        if self.fresh && self.left() >= POPULATE_MIN {
            let page = PAGE_BYTES as u64;
            mapping.populate((self.at / page * page) as usize..(self.end / page * page) as usize);
        }
    }

    /// Fills what is left, so that nothing more can be appended.
    pub(crate) fn spend(&mut self, mapping: &Mapping) {
        if self.left() > 0 {
            let place = ObjectPtr(mapping.base().wrapping_add(self.at as usize));
            // SAFETY: the piece belongs to the caller alone, and lies in the opened range.
            unsafe { place.write_filler(self.left() as usize) };
            self.filler = self.left();
            self.at = self.end;
        }
    }
}

#[derive(Debug, Default)]
struct ClassSpace {
    /// The segment that is being cut: number, frontier, end.
    cutting: Option<(u32, u64, u64)>,
    parked: Vec<Piece>,
}

/// A clearing that is to be settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clearing {
    /// Segments below this number are settled.
    pub(crate) next: u32,
    /// Clearings since the last one that was settled whole.
    pub(crate) count: u32,
}

/// The data that the mutex guards.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) ids: Ids,
    /// The range is readable and writable outside of this.
    closed: Range<usize>,
    /// The system has refused a part of the range, or memory for something else of the log's owner.
    refused: bool,
    refused_elsewhere: bool,
    pub(crate) seals: u64,
    /// Segments that are open.
    open: Vec<u32>,
    /// Segments that are sealed.
    fullness: Fullness,
    /// Free segments with memory that is kept.
    cached: Vec<u32>,
    /// The clearing that is to be settled, if there is one.
    pub(crate) clearing: Option<Clearing>,
    classes: [ClassSpace; 3],
    /// Memory that is wanted ahead of what is cut.
    ahead: Ahead,
    /// Most parked pieces of a class.
    parked_max: usize,
}

impl Space {
    pub(crate) fn new(geometry: &LogGeometry) -> Space {
        let segments = geometry.reserve_bytes / geometry.segment_bytes;
        assert!(segments <= 1 << 31, "reserve_bytes {} has too many segments", geometry.reserve_bytes);
        Space {
            ids: Ids::new(segments as u32),
            closed: 0..geometry.reserve_bytes,
            refused: false,
            refused_elsewhere: false,
            seals: 0,
            open: vec![],
            fullness: Fullness::new(),
            cached: vec![],
            clearing: None,
            classes: Default::default(),
            ahead: Ahead::default(),
            parked_max: PARKED_MIN,
        }
    }

    /// This number of appenders may park a piece of each class at once.
    pub(crate) fn expect_appenders(&mut self, count: usize) {
        self.parked_max = count.max(PARKED_MIN);
    }

    /// Bytes of the range that are readable and writable.
    pub(crate) fn opened(&self, memory: &LogMemory) -> usize {
        memory.geometry.reserve_bytes - self.closed.len()
    }

    /// Takes a segment and opens its range. None if there is none, or if the system promises no memory for it.
    fn take(&mut self, memory: &LogMemory) -> Option<u32> {
        let segment = self.ids.take()?;
        if self.open_range(memory, segment, 1) {
            self.publish(memory);
            return Some(segment);
        }
        self.ids.give(segment, 1);
        // A segment that was opened for extents serves as well.
        let segment = self.ids.take_row_above(1);
        self.publish(memory);
        segment
    }

    /// Takes `count` segments in a row, none of which has any memory; None as in `take`.
    pub(crate) fn take_empty(&mut self, memory: &LogMemory, count: u32) -> Option<u32> {
        let first = self.ids.take_row(count)?;
        let opened = self.open_range(memory, first, count);
        if !opened {
            self.ids.give(first, count);
        }
        self.publish(memory);
        if !opened {
            return None;
        }
        let taken = first..first + count;
        self.cached.retain(|id| !taken.contains(id));
        for id in taken {
            let entry = memory.table.entry(id);
            while entry.cached.load(Ordering::Relaxed) != 0 {
                let unit = entry.cached.load(Ordering::Relaxed).trailing_zeros() as usize;
                // SAFETY: the segment was free, so nothing is in it.
                unsafe { memory.release_unit(id, entry, unit) };
            }
        }
        Some(first)
    }

    /// Opens the range of segments that were just taken, and some more; false if the system refuses. Both sides of the
    /// range are opened from its ends to the middle, next to what has the same advice: the kernel then keeps few
    /// mappings, however much is opened.
    fn open_range(&mut self, memory: &LogMemory, first: u32, count: u32) -> bool {
        let bytes = memory.geometry.segment_bytes;
        let range = first as usize * bytes..(first + count) as usize * bytes;
        if range.end <= self.closed.start || range.start >= self.closed.end {
            return true;
        }
        let opened = self.open_to(memory, range, first < self.ids.middle().start);
        self.refused |= !opened;
        assert!(
            !opened || self.closed.is_empty() || !self.closed.contains(&(first as usize * bytes)),
            "{first} is closed"
        );
        opened
    }

    /// Opens the range up to these bytes, from below or from above.
    fn open_to(&mut self, memory: &LogMemory, range: Range<usize>, below: bool) -> bool {
        assert!(range.start <= range.end && range.end <= memory.geometry.reserve_bytes, "{range:?} is opened");
        let steps = memory.geometry.open_steps();
        if below {
            let ends = steps.map(|step| (self.closed.start + step).max(range.end).min(self.closed.end));
            let Some(&end) = ends.iter().find(|&&end| memory.open(self.closed.start..end, true)) else { return false };
            self.closed.start = end;
        } else {
            let begins = steps.map(|step| self.closed.end.saturating_sub(step).min(range.start).max(self.closed.start));
            let found = begins.iter().find(|&&begin| memory.open(begin..self.closed.end, false));
            let Some(&begin) = found else { return false };
            self.closed.end = begin;
        }
        true
    }

    fn publish(&self, memory: &LogMemory) {
        memory.publish_left(self.ids.in_middle(), self.refused || self.refused_elsewhere);
    }

    /// Segments that can be taken without opening more of the range.
    fn ready(&self, memory: &LogMemory) -> u32 {
        assert!(self.closed.end <= memory.geometry.reserve_bytes, "{:?} is closed", self.closed);
        let opened = (self.closed.start / memory.geometry.segment_bytes) as u32;
        self.ids.free_below() + opened.saturating_sub(self.ids.middle().start)
    }

    /// Numbers in a row that an extent can be given without opening more of the range.
    fn ready_row(&self, memory: &LogMemory) -> u32 {
        let closed_end = self.closed.end.div_ceil(memory.geometry.segment_bytes) as u32;
        let middle = self.ids.middle();
        self.ids.longest_above().max(middle.end - closed_end.clamp(middle.start, middle.end))
    }

    /// Opens more of the range while there are segments left, so that a refusal is known early.
    pub(crate) fn open_ahead(&mut self, memory: &LogMemory) {
        if self.ready(memory) < memory.geometry.open_ahead() && !self.closed.is_empty() {
            let next = self.closed.start..self.closed.start + memory.geometry.segment_bytes;
            self.refused = !self.open_to(memory, next, true);
            self.publish(memory);
        }
    }

    /// True if objects of `bytes` in all, of which each of more than `extent_min` bytes is an extent, find opened segments.
    /// Tries to open more for a large one.
    pub(crate) fn is_ready_for(&mut self, memory: &LogMemory, bytes: u64, extent_min: u64) -> bool {
        let geometry = &memory.geometry;
        let whole = u32::try_from(bytes / geometry.segment_bytes as u64 + 2).unwrap_or(u32::MAX);
        // Four times: other threads' large values may be on their way as well.
        let row = if bytes > extent_min { whole.saturating_mul(4).min(self.ids.in_middle()) } else { 0 };
        if row > self.ready_row(memory) && !self.closed.is_empty() {
            let begin = (self.ids.middle().end - row) as usize * geometry.segment_bytes;
            self.refused = begin < self.closed.end && !self.open_to(memory, begin..self.closed.end, false);
            self.publish(memory);
        }
        if self.closed.is_empty() || !(self.refused || self.refused_elsewhere) {
            return true;
        }
        let small = whole.saturating_add(geometry.open_ahead() / 2);
        !self.refused_elsewhere
            && self.ready(memory) >= small
            && self.ready_row(memory) >= if row > 0 { whole } else { 0 }
    }

    /// The system has refused memory for something else of the log's owner.
    pub(crate) fn refuse(&mut self, memory: &LogMemory) {
        self.refused_elsewhere = true;
        self.publish(memory);
    }

    /// Asks the system again after a refusal.
    pub(crate) fn ask_again(&mut self, memory: &LogMemory) {
        self.refused_elsewhere &= !memory.has_headroom();
        if self.refused && !self.closed.is_empty() {
            let next = self.closed.start..self.closed.start + memory.geometry.segment_bytes;
            self.refused = !self.open_to(memory, next, true);
        }
        self.publish(memory);
    }

    /// Free segments with memory that is kept.
    pub(crate) fn cached_segments(&self) -> &[u32] {
        &self.cached
    }

    /// Gives one kept unit back, of a free segment or of what is not cut yet of an open one; true if there may be more. What
    /// appenders come to next stays, unless `all` goes.
    pub(crate) fn release_cached_unit(&mut self, memory: &LogMemory, all: bool) -> bool {
        let Some(&segment) = self.cached.first() else { return self.release_uncut_unit(memory, all) };
        let entry = memory.table.entry(segment);
        assert!(entry.state() == SegmentState::Free, "segment {segment} is in use and its pages are spare");
        // The last one is opened next.
        let spares = self.cached.len() == 1 && !all;
        let begin = u64::from(segment) * memory.geometry.segment_bytes as u64;
        match memory.kept_unit(segment, if spares { ahead::end_of_next(&memory.geometry, begin) } else { begin }) {
            // SAFETY: the segment is free, so nothing is in it.
            Some(unit) => unsafe { memory.release_unit(segment, entry, unit) },
            None if memory.kept_unit(segment, begin).is_some() => return self.release_uncut_unit(memory, all),
            None => drop(self.cached.remove(0)),
        }
        true
    }

    /// Gives one kept unit back that lies behind the frontier of an open segment and its huge page, and behind the next area
    /// unless `all` goes; true if there was one.
    fn release_uncut_unit(&self, memory: &LogMemory, all: bool) -> bool {
        self.classes.iter().filter_map(|class| class.cutting).any(|(segment, frontier, end)| {
            assert!(frontier < end, "segment {segment} is cut to its end");
            let from = if all {
                ahead::spare_from(&memory.geometry, frontier)
            } else {
                ahead::end_of_next(&memory.geometry, frontier)
            };
            let unit = memory.kept_unit(segment, from);
            if let Some(unit) = unit {
                // SAFETY: nothing was written behind the frontier since the segment was free.
                unsafe { memory.release_unit(segment, memory.table.entry(segment), unit) };
            }
            unit.is_some()
        })
    }

    /// Asks for the memory that a class comes to next, once what was just cut lies in front of it.
    fn look_ahead(&mut self, memory: &LogMemory, class: SegmentClass) {
        if memory.helper().is_none() {
            return;
        }
        let Some((segment, frontier, end)) = self.classes[class as usize].cutting else { return };
        let bytes = memory.geometry.segment_bytes as u64;
        let (segment, area) = match ahead::next_area(frontier) {
            area if area < end => (segment, area),
            _ => {
                let Some(next) = self.cached.last().copied().or_else(|| self.ids.next()) else { return };
                (next, u64::from(next) * bytes)
            }
        };
        let Some(area) = ahead::bytes_of(&memory.geometry, area) else { return };
        let opened = area.end as usize <= self.closed.start;
        if opened && !memory.keeps(segment, &area) && self.ahead.ask(class, area.start) {
            memory.count_ahead(false);
        }
    }

    /// The thread that is to be woken since memory is wanted, behind the lock.
    pub(crate) fn take_wake<'a>(&mut self, memory: &'a LogMemory) -> Option<&'a Thread> {
        if self.ahead.take_wake() { memory.helper() } else { None }
    }

    /// Takes an area of which the memory is wanted; `populated` follows.
    pub(crate) fn take_wanted(&mut self, memory: &LogMemory) -> Option<Range<u64>> {
        while let Some(area) = self.ahead.take() {
            let area = ahead::bytes_of(&memory.geometry, area).expect("an area was asked for");
            if self.uncut_from(memory, &area).is_some_and(|from| from < area.end) {
                return Some(area);
            }
            // The appender was faster.
            memory.count_ahead(false);
            self.ahead.made();
        }
        None
    }

    /// Memory was put behind an area: what nobody has cut of it counts as kept. The segment may have been sealed meanwhile, or
    /// be free again, or an extent's.
    pub(crate) fn populated(&mut self, memory: &LogMemory, area: &Range<u64>) {
        self.ahead.made();
        assert!(area.end as usize <= self.closed.start, "{area:?} was closed");
        let from = self.uncut_from(memory, area).filter(|&from| from < area.end);
        memory.count_ahead(from.is_some());
        let Some(from) = from else { return };
        let segment = (area.start / memory.geometry.segment_bytes as u64) as u32;
        memory.keep(segment, &(from..area.end));
        if self.ids.is_free(segment) && !self.cached.contains(&segment) {
            self.cached.push(segment);
        }
    }

    /// From where on nothing of an area is cut; None if it belongs to an extent.
    fn uncut_from(&self, memory: &LogMemory, area: &Range<u64>) -> Option<u64> {
        let bytes = memory.geometry.segment_bytes as u64;
        assert!(area.start.is_multiple_of(ahead::AREA_BYTES), "an area at {}", area.start);
        let segment = (area.start / bytes) as u32;
        let entry = memory.table.entry(segment);
        match entry.state() {
            SegmentState::Free => self.ids.is_free(segment).then_some(area.start),
            SegmentState::Open | SegmentState::Sealed | SegmentState::Draining => {
                Some(area.start.max(u64::from(segment) * bytes + entry.fill.load(Ordering::Relaxed)))
            }
            SegmentState::Extent | SegmentState::Tail | SegmentState::Retired => None,
        }
    }

    /// Release units that are kept ahead of the appenders: not for a drain to count.
    pub(crate) fn units_ahead(&self, memory: &LogMemory) -> u64 {
        let of =
            |segment: u32, from: u64| memory.kept_units(segment, &(from..ahead::end_of_next(&memory.geometry, from)));
        let open =
            self.classes.iter().filter_map(|class| class.cutting).map(|(segment, frontier, _)| of(segment, frontier));
        let next = self.cached.last().map(|&id| of(id, u64::from(id) * memory.geometry.segment_bytes as u64));
        open.chain(next).sum()
    }

    /// Takes `count` segments in a row back, which have no memory.
    pub(crate) fn give_empty(&mut self, memory: &LogMemory, first: u32, count: u32) {
        for id in first..first + count {
            assert!(memory.table.entry(id).state() == SegmentState::Free, "segment {id} is given back and in use");
        }
        self.ids.give(first, count);
        self.publish(memory);
    }

    /// Takes a segment back.
    pub(crate) fn give(&mut self, memory: &LogMemory, segment: u32) {
        self.give_empty(memory, segment, 1);
        if memory.table.entry(segment).cached.load(Ordering::Relaxed) != 0 {
            self.cached.push(segment);
        }
    }

    fn open_segment(&mut self, memory: &LogMemory, class: SegmentClass) {
        let segment = match self.cached.pop() {
            Some(cached) => {
                self.ids.take_this(cached);
                self.publish(memory);
                cached
            }
            None => self.take(memory).unwrap_or_else(|| exhausted(memory)),
        };
        assert!(self.classes[class as usize].cutting.is_none(), "two segments of {class:?} are cut at once");
        let bytes = memory.geometry.segment_bytes as u64;
        let base = segment as u64 * bytes;
        // No Ref may be 0, so the first segment begins at 1.
        let start = u64::from(segment == 0);
        memory.table.entry(segment).open(class, start, memory.age());
        self.open.push(segment);
        self.open_ahead(memory);
        memory.count_open();
        memory.advise_pages(segment, false);
        self.classes[class as usize].cutting = Some((segment, base + start, base + bytes));
    }

    /// A piece with `need` bytes or more, at most half a piece's size.
    pub(crate) fn checkout(&mut self, memory: &LogMemory, class: SegmentClass, need: u64) -> Piece {
        let parked = &mut self.classes[class as usize].parked;
        let piece = match parked.iter().rposition(|piece| piece.left() >= need) {
            Some(found) => parked.remove(found),
            None => self.cut(memory, class, need, memory.geometry.piece_bytes as u64),
        };
        assert!(piece.left() >= need, "a piece of {} bytes for an object of {need}", piece.left());
        self.hand_out(memory, piece)
    }

    /// A piece of exactly `need` bytes.
    pub(crate) fn checkout_exact(&mut self, memory: &LogMemory, class: SegmentClass, need: u64) -> Piece {
        let piece = self.cut(memory, class, need, need);
        assert!(piece.left() == need, "a piece of {} bytes for an object of {need}", piece.left());
        self.hand_out(memory, piece)
    }

    fn hand_out(&mut self, memory: &LogMemory, piece: Piece) -> Piece {
        let entry = memory.table.entry(piece.segment);
        entry.out.fetch_add(1, Ordering::Relaxed);
        let (before, after) = entry.add_live(Live::new(0, piece.left()));
        memory.count_granules(before, after);
        Piece { fresh: piece.fresh, ..Piece::new(piece.segment, piece.at, piece.end) }
    }

    /// Cuts a piece of `wish` bytes, or at the end of a segment of what is left if that is `need` or more.
    fn cut(&mut self, memory: &LogMemory, class: SegmentClass, need: u64, wish: u64) -> Piece {
        loop {
            let Some((segment, frontier, end)) = self.classes[class as usize].cutting else {
                self.open_segment(memory, class);
                continue;
            };
            let left = end - frontier;
            let fits = left >= need;
            assert!(
                frontier <= end && need <= memory.geometry.segment_bytes as u64,
                "{need} bytes of {frontier}..{end}"
            );
            let take = if !fits || (need < wish && left < wish + PIECE_MIN) { left } else { wish };
            let entry = memory.table.entry(segment);
            let mut piece = Piece::new(segment, frontier, frontier + take);
            piece.fresh = !memory.use_cached(entry, frontier, frontier + take);
            entry.fill.fetch_add(take, Ordering::Relaxed);
            self.classes[class as usize].cutting = (take < left).then_some((segment, frontier + take, end));
            self.look_ahead(memory, class);
            if fits {
                return piece;
            }
            self.shelve(memory, class, piece);
            self.seal_if_full(memory, segment);
        }
    }

    /// Parks a piece that nobody holds, or spends it if it is too short to be of use.
    fn shelve(&mut self, memory: &LogMemory, class: SegmentClass, piece: Piece) {
        if piece.left() < PIECE_MIN {
            return self.spend(memory, piece);
        }
        self.classes[class as usize].parked.push(Piece::new(piece.segment, piece.at, piece.end));
        let (parked, most) = (&mut self.classes[class as usize].parked, self.parked_max);
        if parked.len() > most {
            let shortest = (0..parked.len()).min_by_key(|&i| parked[i].left()).expect("not empty");
            let piece = parked.swap_remove(shortest);
            self.spend(memory, piece);
            self.seal_if_full(memory, piece.segment);
        }
    }

    /// Fills up a piece that nobody holds, and counts the filler.
    fn spend(&mut self, memory: &LogMemory, mut piece: Piece) {
        piece.spend(&memory.mapping);
        memory.count_used(memory.table.entry(piece.segment), filler_used(piece.filler));
    }

    /// Takes a piece back from its appender and counts what was written into it.
    pub(crate) fn take_back(&mut self, memory: &LogMemory, class: SegmentClass, piece: &Piece) {
        let entry = memory.table.entry(piece.segment);
        assert!(entry.out.load(Ordering::Relaxed) > 0, "segment {} has no piece out", piece.segment);
        assert!(
            entry.state() == SegmentState::Open,
            "a piece of segment {} comes back after it was sealed",
            piece.segment
        );
        assert!(piece.begin <= piece.at && piece.at <= piece.end, "{piece:?}");
        let objects = piece.at - piece.begin - piece.filler;
        memory.count_used(entry, objects + filler_used(piece.filler));
        if class != SegmentClass::Survivor {
            memory.count_written(objects);
        }
        // The whole piece counted as live bytes while it was out.
        let not_live = piece.end - piece.begin - objects + piece.slack;
        entry.add_live(Live::new(piece.objects.into(), 0));
        let (before, after) = entry.sub_live(Live::new(0, not_live));
        memory.count_granules(before, after);
        entry.out.fetch_sub(1, Ordering::Relaxed);
        if piece.left() > 0 {
            self.shelve(memory, class, *piece);
        }
        self.seal_if_full(memory, piece.segment);
    }

    fn seal_if_full(&mut self, memory: &LogMemory, segment: u32) {
        let entry = memory.table.entry(segment);
        let class = &self.classes[entry.class() as usize];
        let busy = entry.out.load(Ordering::Relaxed) > 0
            || class.cutting.is_some_and(|(cutting, ..)| cutting == segment)
            || class.parked.iter().any(|piece| piece.segment == segment);
        if !busy && entry.state() == SegmentState::Open {
            self.seal(memory, segment, entry);
            memory.advise_pages(segment, true);
        }
    }

    fn seal(&mut self, memory: &LogMemory, segment: u32, entry: &SegmentEntry) {
        self.seals += 1;
        entry.seal(self.seals);
        let at = self.open.iter().position(|&open| open == segment).expect("it was open");
        self.open.swap_remove(at);
        self.file(memory, segment, entry);
    }

    /// Files a sealed segment by what lives in it, where it belongs now; one that is not sealed is filed nowhere.
    pub(crate) fn file(&mut self, memory: &LogMemory, segment: u32, entry: &SegmentEntry) {
        if entry.state() == SegmentState::Sealed {
            self.fullness.file(segment, rung_of(memory.live(entry).bytes(), entry.used.load(Ordering::Relaxed)));
        }
    }

    /// The sealed segment is drained from now on.
    pub(crate) fn choose(&mut self, segment: u32, entry: &SegmentEntry) {
        entry.choose();
        self.fullness.remove(segment);
    }

    /// Sealed segments of which one is worth draining if any is; see `Fullness::leaders`.
    pub(crate) fn leaders(&self) -> impl Iterator<Item = u32> + '_ {
        self.fullness.leaders()
    }

    /// Sealed segments by how much of them lives.
    pub(crate) fn fullness(&self) -> &Fullness {
        &self.fullness
    }

    /// Segments that are open.
    pub(crate) fn open_segments(&self) -> &[u32] {
        &self.open
    }

    /// Seals an open segment early. False if pieces of it are out.
    pub(crate) fn seal_early(&mut self, memory: &LogMemory, segment: u32) -> bool {
        let entry = memory.table.entry(segment);
        if entry.out.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let class = &mut self.classes[entry.class() as usize];
        if class.cutting.is_some_and(|(cutting, ..)| cutting == segment) {
            class.cutting = None;
        }
        let closed: Vec<Piece> = class.parked.extract_if(.., |piece| piece.segment == segment).collect();
        for piece in closed {
            self.spend(memory, piece);
        }
        self.seal(memory, segment, entry);
        true
    }

    /// Parked pieces as (begin, end), for a walk over open segments.
    pub(crate) fn parked(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.classes.iter().flat_map(|class| class.parked.iter().map(|piece| (piece.at, piece.end)))
    }

    /// Segments in use from number `from` on, by number; of an extent the first one. Free stretches cost nothing, but this
    /// looks at every segment that is not free: for reports and checks, never for what runs often.
    pub(crate) fn segments<'a>(
        &'a self,
        table: &'a SegmentTable,
        from: u32,
    ) -> impl Iterator<Item = (u32, &'a SegmentEntry)> {
        self.ids.taken(from).flat_map(move |stretch| {
            let mut next = stretch.start;
            std::iter::from_fn(move || {
                let id = next;
                let entry = (id < stretch.end).then(|| table.entry(id))?;
                // An extent may have hundreds of tails, which have no figures of their own.
                next += match entry.state() {
                    SegmentState::Extent | SegmentState::Retired => entry.extent_len.load(Ordering::Relaxed),
                    _ => 1,
                };
                Some((id, entry))
            })
        })
    }
}

/// Panics: the addresses are used up. A caller that asks first (`Log::has_addresses`) never comes here.
pub(crate) fn exhausted(memory: &LogMemory) -> ! {
    let bytes = memory.geometry.reserve_bytes;
    panic!("the {bytes} bytes reserved for segments are exhausted, or the system refuses memory for more")
}
