//! Memory ahead of the frontiers: a thread of the owner has it put in place before an appender comes to it.
//!
//! ```text
//! open segment                          |<------- area ------->|
//! +----------------------+--------------+----------------------+----------------------+
//! | cut                  | not cut yet, | asked for when the   | not there            |
//! |                      | there        | frontier came here   |                      |
//! +----------------------+--------------+----------------------+----------------------+
//!                  frontier
//! ```
//! An area is one huge page of the system. The first touch of a huge page makes all of it: 0.1 ms on a machine with memory
//! at hand, 5 ms on a virtual machine whose host has to find that memory first. An appender would wait for it while it holds
//! a shard. The area behind the last one of a segment is the first one of the segment that is opened next.
//!
//! Memory that is there ahead counts as kept, like what a drain leaves for the next segment, and goes back to the system in
//! the same way. The first segments have small pages, of which a piece costs little, and have nothing ahead.
//!
//! This file knows which areas were asked for. It touches no memory, and moves no frontier (`space`).

use std::ops::Range;

use crate::geometry::LogGeometry;
use crate::kind::SegmentClass;
use crate::memory::{HUGE_PAGE_BYTES, SMALL_PAGES_BELOW};

/// Bytes of an area.
pub(crate) const AREA_BYTES: u64 = HUGE_PAGE_BYTES as u64;

/// The areas whose memory is wanted, by their offsets into the range.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The area that each class of segments comes to next.
    wanted: [Option<u64>; SegmentClass::ALL.len()],
    /// The one that memory is being put behind.
    making: Option<u64>,
    /// The class whose wish is looked at first: the others had their turn.
    first: usize,
    /// The helper is to be woken.
    wakes: bool,
}

impl Ahead {
    /// The area's memory is wanted, if it is not wanted or made already. True if the class has come to the area before this
    /// one, and the helper has not.
    pub(crate) fn ask(&mut self, class: SegmentClass, area: u64) -> bool {
        assert!(area.is_multiple_of(AREA_BYTES), "an area at {area}");
        if self.making == Some(area) || self.wanted.contains(&Some(area)) {
            return false;
        }
        self.wakes = true;
        self.wanted[class as usize].replace(area).is_some()
    }

    /// Takes the wish that the helper is woken for.
    pub(crate) fn take_wake(&mut self) -> bool {
        std::mem::take(&mut self.wakes)
    }

    /// Takes an area that is wanted. It is being made until `made`.
    pub(crate) fn take(&mut self) -> Option<u64> {
        assert!(self.making.is_none(), "one thread puts memory in place");
        let mut classes = (self.first..self.wanted.len()).chain(0..self.first);
        let class = classes.find(|&class| self.wanted[class].is_some())?;
        self.first = (class + 1) % self.wanted.len();
        self.making = self.wanted[class].take();
        self.making
    }

    /// The area that was taken has its memory, or is not wanted any more.
    pub(crate) fn made(&mut self) {
        self.making = None;
    }
}

/// The first area that begins at a frontier or behind it; it may lie in the next segment.
pub(crate) fn next_area(frontier: u64) -> u64 {
    frontier.next_multiple_of(AREA_BYTES)
}

/// The bytes of an area, if such areas are made ahead under this geometry.
pub(crate) fn bytes_of(geometry: &LogGeometry, area: u64) -> Option<Range<u64>> {
    let whole = geometry.segment_bytes as u64 >= AREA_BYTES && area >= SMALL_PAGES_BELOW as u64;
    let end = area + AREA_BYTES;
    (whole && end <= geometry.reserve_bytes as u64).then_some(area..end)
}

/// The end of what an appender comes to next: what is left of the area that it is in, and the next one. The frontier itself
/// where nothing is made ahead.
pub(crate) fn end_of_next(geometry: &LogGeometry, frontier: u64) -> u64 {
    bytes_of(geometry, next_area(frontier)).map_or(frontier, |area| area.end)
}

/// From where on kept memory can go at rest: a huge page in the middle of which a frontier stands stays whole, since its used
/// part would be small pages from then on.
pub(crate) fn spare_from(geometry: &LogGeometry, frontier: u64) -> u64 {
    let next = next_area(frontier);
    if next > frontier && bytes_of(geometry, next - AREA_BYTES).is_some() { next } else { frontier }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_asked_for_once_until_it_is_made() {
        let (mut ahead, area) = (Ahead::default(), |nth: u64| nth * AREA_BYTES);
        assert!(!ahead.ask(SegmentClass::Ordinary, area(4)));
        assert!(ahead.take_wake() && !ahead.take_wake());
        assert!(!ahead.ask(SegmentClass::Ordinary, area(4)));
        assert!(!ahead.ask(SegmentClass::Survivor, area(4)));
        assert!(!ahead.take_wake(), "it is asked for already, whichever class comes there");
        assert_eq!(ahead.take(), Some(area(4)));
        ahead.ask(SegmentClass::Ordinary, area(4));
        ahead.made();
        assert_eq!(ahead.take(), None, "it was being put in place");
        ahead.made();
        ahead.ask(SegmentClass::Ordinary, area(4));
        assert!(ahead.take_wake(), "its memory has gone back meanwhile");
        assert!(ahead.ask(SegmentClass::Ordinary, area(6)), "the appender was faster than to area 4");
        ahead.ask(SegmentClass::Survivor, area(9));
        let mut next = || {
            let area = ahead.take();
            ahead.made();
            area
        };
        assert_eq!(next(), Some(area(9)), "the other class had its turn");
        assert_eq!((next(), next()), (Some(area(6)), None));
    }

    #[test]
    fn areas_are_whole_huge_pages_behind_the_first_segments() {
        let usual = LogGeometry::default();
        assert_eq!(next_area(0), 0);
        assert_eq!(next_area(AREA_BYTES + 1), 2 * AREA_BYTES);
        let first = SMALL_PAGES_BELOW as u64;
        assert_eq!(bytes_of(&usual, first - AREA_BYTES), None);
        assert_eq!(bytes_of(&usual, first), Some(first..first + AREA_BYTES));
        assert_eq!(bytes_of(&usual, usual.reserve_bytes as u64), None);
        assert_eq!(end_of_next(&usual, first + 1), first + 2 * AREA_BYTES);
        assert_eq!(spare_from(&usual, first + 1), first + AREA_BYTES);
        assert_eq!(spare_from(&usual, first + AREA_BYTES), first + AREA_BYTES);
        assert_eq!(spare_from(&usual, first - 1), first - 1, "small pages");
        assert_eq!(end_of_next(&usual, first - 2 * AREA_BYTES + 1), first - 2 * AREA_BYTES + 1, "small pages");
        let small = LogGeometry { segment_bytes: 1 << 20, ..usual };
        assert_eq!(bytes_of(&small, first), None, "a segment is less than an area");
    }
}
