//! The members in an area.
//!
//! A cell of the map is a range of scores. The nine cells that cover an area are 10 to 50 times as large as it is, so a
//! cell with many members is looked at by its quarters, again and again, and quarters outside of the area's window are
//! left out: two searches by score (about 0.2 us each) save a look at each of their members (about 20 ns). The order of
//! the members stays that of their scores.

use std::cmp::Ordering;

use varve_store::ZRanges;

use super::cell::{Cell, Point};
use super::query::{Order, Query};
use super::shape::{Shape, Window};

/// Members from which a cell that is partly outside of the window is quartered.
const QUARTERED_MIN: u64 = 128;

/// Members that are looked at before a search which wants some looks whether it has them.
const PART: usize = 64;

/// A member that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    start: usize,
    end: usize,
    pub(super) score: f64,
    pub(super) point: Point,
    /// From the centre.
    pub(super) metres: f64,
}

/// The members that a search found.
#[derive(Debug, Default)]
pub(super) struct Harvest {
    bytes: Vec<u8>,
    found: Vec<Found>,
}

impl Harvest {
    /// Searches a set; the members are in the order that is asked for, not more than are asked for.
    pub(super) fn of(set: ZRanges<'_>, query: &Query) -> Harvest {
        let limit = query.count.filter(|_| query.any);
        let window = query.shape.window();
        let mut search = Search { set, shape: query.shape, window, limit, harvest: Harvest::default() };
        query.shape.cells().for_each(|cell| search.look(cell));
        let mut harvest = search.harvest;
        harvest.arrange(query.order, query.count.unwrap_or(usize::MAX));
        harvest
    }

    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// The members.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Found)> {
        self.found.iter().map(|found| (&self.bytes[found.start..found.end], *found))
    }

    /// Sorts, and keeps the first `count`. Members at the same distance stay in the order in which they were found.
    fn arrange(&mut self, order: Order, count: usize) {
        let compare = |a: &Found, b: &Found| {
            let near = a.metres.partial_cmp(&b.metres).unwrap_or(Ordering::Equal);
            let near = if order == Order::Farthest { near.reverse() } else { near };
            near.then(a.start.cmp(&b.start))
        };
        if order != Order::Found {
            if count < self.found.len() {
                self.found.select_nth_unstable_by(count, compare);
                self.found.truncate(count);
            }
            self.found.sort_unstable_by(compare);
        }
        self.found.truncate(count);
    }

    fn push(&mut self, member: &[u8], score: f64, point: Point, metres: f64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(member);
        self.found.push(Found { start, end: self.bytes.len(), score, point, metres });
    }
}

/// A search under way.
struct Search<'a> {
    set: ZRanges<'a>,
    shape: Shape,
    window: Window,
    /// This number of members will do.
    limit: Option<usize>,
    harvest: Harvest,
}

impl Search<'_> {
    fn has_enough(&self) -> bool {
        self.limit.is_some_and(|limit| self.harvest.len() >= limit)
    }

    /// Looks at the members of a cell. The recursion ends at the last step, after 26.
    fn look(&mut self, cell: Cell) {
        let borders = cell.borders();
        if self.has_enough() || self.window.misses(&borders) {
            return;
        }
        let (low, high) = cell.scores();
        let ranks = self.set.ranks(low, high);
        let members = ranks.1 - ranks.0;
        if members >= QUARTERED_MIN
            && !self.window.covers(&borders)
            && let Some(quarters) = cell.quarters()
        {
            return quarters.into_iter().for_each(|quarter| self.look(quarter));
        }
        let part = if self.limit.is_some() { PART } else { usize::MAX };
        for skip in (0..members as usize).step_by(part) {
            let Search { set, shape, window, limit, harvest } = self;
            let most = limit.unwrap_or(usize::MAX);
            set.walk(ranks, skip, part, |member, score| {
                let point = Point::of_score(score);
                if harvest.len() < most
                    && window.has(point)
                    && let Some(metres) = shape.distance_inside(point)
                {
                    harvest.push(member, score, point, metres);
                }
            });
            if self.has_enough() {
                break;
            }
        }
    }
}
