//! The members in an area.
//!
//! A cell of the map is a range of scores. The nine cells that cover an area are 10 to 50 times as large as it is, so a
//! cell with many members is looked at by its quarters, again and again, and quarters outside of the area's window are
//! left out: two searches by score (about 0.2 us each) save a look at each of their members (about 20 ns). The order of
//! the members stays that of their scores.

use std::cmp::Ordering;

use varve_store::ZRanges;

use super::cell::{Cell, Point};
use super::peer_order;
use super::query::{Order, Query};
use super::shape::{Shape, Window};

/// Members from which a cell that is partly outside of the window is quartered.
const QUARTERED_MIN: u64 = 128;

/// Of many members that were found, those that are wanted are picked as long as they are no more than this number, whenever
/// there are this number more than twice as many: it takes some 200 us.
const THINNED_MAX: usize = 2048;

/// Members that are looked at before a search which wants some looks whether it has them.
const PART: usize = 64;

/// A large set is looked through over several holds by no more than about this number of spans of ranks.
const SPANS: u64 = 256;

/// The spans of ranks, from one up to below the other, in which a search looks for members, in its order. A cell that is partly
/// outside of the window is quartered as long as it has a certain part of the set.
pub(super) fn spans(set: ZRanges<'_>, query: &Query) -> Vec<(u64, u64)> {
    let (window, least) = (query.shape.window(), (set.len() / SPANS).max(QUARTERED_MIN));
    let mut spans = Vec::new();
    query.shape.cells().for_each(|cell| add_spans(set, window, least, cell, &mut spans));
    spans
}

/// Adds the spans of a cell. The recursion ends at the last step, after 26.
fn add_spans(set: ZRanges<'_>, window: Window, least: u64, cell: Cell, spans: &mut Vec<(u64, u64)>) {
    let borders = cell.borders();
    if window.misses(&borders) {
        return;
    }
    let (low, high) = cell.scores();
    let (from, to) = set.ranks(low, high);
    if to - from >= least
        && !window.covers(&borders)
        && let Some(quarters) = cell.quarters()
    {
        return quarters.into_iter().for_each(|quarter| add_spans(set, window, least, quarter, spans));
    }
    match spans.last_mut() {
        Some(last) if last.1 == from => last.1 = to,
        _ if from < to => spans.push((from, to)),
        _ => {}
    }
}

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
    /// Some were left out that are not wanted.
    is_thinned: bool,
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

    /// The member at a place.
    pub(super) fn at(&self, place: usize) -> (&[u8], Found) {
        let found = self.found[place];
        (&self.bytes[found.start..found.end], found)
    }

    /// The order of the members at two places.
    pub(super) fn compare(&self, (a, b): (usize, usize), order: Order) -> Ordering {
        order.of(&self.found[a], &self.found[b])
    }

    /// Keeps the first `count`, in the order in which they were found, if there are many more.
    pub(super) fn thin(&mut self, order: Order, count: usize) {
        if order == Order::Found || count > THINNED_MAX || self.found.len() < 2 * count + THINNED_MAX {
            return;
        }
        self.is_thinned = true;
        self.found.select_nth_unstable_by(count, |a, b| order.of(a, b));
        self.found.truncate(count);
        self.found.sort_unstable_by_key(|found| found.start);
        let bytes = std::mem::take(&mut self.bytes);
        for found in &mut self.found {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&bytes[found.start..found.end]);
            (found.start, found.end) = (start, self.bytes.len());
        }
    }

    /// Bytes that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.found.capacity() * size_of::<Found>()
    }

    /// Sorts, and keeps the first `count`. Members at the same distance stay in the order in which they were found; if only
    /// some of them are kept, and not very many were found, redis-server keeps the same ones.
    pub(super) fn arrange(&mut self, order: Order, count: usize) {
        let compare = |a: &Found, b: &Found| order.of(a, b);
        if self.has_peer_order(order, count) {
            peer_order::sort_first(&mut self.found, count, &|a, b| order.near(a, b));
        } else if order != Order::Found {
            if count < self.found.len() {
                self.found.select_nth_unstable_by(count, compare);
                self.found.truncate(count);
            }
            self.found.sort_unstable_by(compare);
        }
        self.found.truncate(count);
    }

    /// True if the first `count` are not all, and those that redis-server keeps.
    pub(super) fn has_peer_order(&self, order: Order, count: usize) -> bool {
        let len = self.found.len();
        order != Order::Found && count < len && len <= peer_order::LONGEST && !self.is_thinned
    }

    /// Adds a member behind those that were found before.
    pub(super) fn push(&mut self, member: &[u8], score: f64, point: Point, metres: f64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(member);
        self.found.push(Found { start, end: self.bytes.len(), score, point, metres });
    }
}

impl Order {
    /// The order of two members; of those at the same distance the one that was found first is first.
    fn of(self, a: &Found, b: &Found) -> Ordering {
        self.near(a, b).then(a.start.cmp(&b.start))
    }

    /// The order of two members by their distance alone.
    fn near(self, a: &Found, b: &Found) -> Ordering {
        let near = a.metres.partial_cmp(&b.metres).unwrap_or(Ordering::Equal);
        if self == Order::Farthest { near.reverse() } else { near }
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
