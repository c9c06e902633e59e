//! Sorting in steps: of ten million elements it takes seconds, for which nobody else would be served.
//!
//! ```text
//!  numbers   7 2 | 9 4 | 1 8 | 3      runs, each sorted by itself, some a step
//!            2 7   4 9 | 1 8   3      pairs of runs are merged, some numbers a step, again and again
//!            2 4 7 9     1 3 8
//! ```
//! The order of equal elements stays.

use std::cmp::Ordering;

use varve_exec::CmdResult;

use crate::errors;

/// Elements of the first runs.
const RUN: usize = 256;
/// Elements that one step sorts or merges: some 200 us where each comparison reads two texts anew.
const STEP: usize = 2048;

/// The number of an element in the form in which many are kept.
///
/// # Errors
/// It has more than 32 bits.
pub(crate) fn numbered(number: usize) -> CmdResult<u32> {
    u32::try_from(number).map_err(|_| errors::TOO_MANY_ELEMENTS)
}

/// The numbers of elements, which are being sorted.
#[derive(Debug, Default)]
pub(crate) struct OrderInSteps {
    order: Vec<u32>,
    /// The numbers of the pass under way that were merged; as many numbers as `order` has behind the last step of a pass.
    merged: Vec<u32>,
    /// Elements of a sorted run; 0 until the first runs are sorted.
    run: usize,
    /// In the first pass: elements before this place lie in sorted runs. Later: the first element of the pair of runs that
    /// is being merged.
    pair: usize,
    /// The next elements of the two runs of the pair.
    low: usize,
    high: usize,
}

impl OrderInSteps {
    /// Adds an element's number behind all others. Sorting has not begun.
    ///
    /// # Errors
    /// The number has more than 32 bits: a list may have more elements than that.
    pub(crate) fn push(&mut self, number: usize) -> CmdResult {
        debug_assert!(self.run == 0 && self.pair == 0, "all elements are there before they are sorted");
        self.order.push(numbered(number)?);
        Ok(())
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The number of the element at a place.
    pub(crate) fn at(&self, place: usize) -> usize {
        self.order[place] as usize
    }

    /// Sorts on; true when all is sorted.
    pub(crate) fn step(&mut self, compare: impl Fn(usize, usize) -> Ordering) -> bool {
        let compare = |a: u32, b: u32| compare(a as usize, b as usize);
        if self.run == 0 { self.sort_runs(compare) } else { self.merge(compare) }
    }

    fn sort_runs(&mut self, compare: impl Fn(u32, u32) -> Ordering) -> bool {
        let end = self.order.len().min(self.pair + STEP);
        self.order[self.pair..end].chunks_mut(RUN).for_each(|run| run.sort_by(|a, b| compare(*a, *b)));
        self.pair = end;
        end == self.order.len() && self.begin_pass(RUN)
    }

    /// Begins to merge runs of this length; true if there is but one.
    fn begin_pass(&mut self, run: usize) -> bool {
        let len = self.order.len();
        (self.run, self.pair, self.low, self.high) = (run, 0, 0, run.min(len));
        run >= len
    }

    fn merge(&mut self, compare: impl Fn(u32, u32) -> Ordering) -> bool {
        let len = self.order.len();
        let until = len.min(self.merged.len() + STEP);
        while self.merged.len() < until {
            let (middle, end) = (len.min(self.pair + self.run), len.min(self.pair + 2 * self.run));
            if self.low == middle && self.high == end {
                (self.pair, self.low, self.high) = (end, end, len.min(end + self.run));
                continue;
            }
            let (low, high) = (self.order.get(self.low), self.order.get(self.high));
            let takes_low = self.high == end
                || self.low < middle && low.zip(high).is_some_and(|(&low, &high)| compare(low, high).is_le());
            let from = if takes_low { &mut self.low } else { &mut self.high };
            self.merged.push(self.order[*from]);
            *from += 1;
        }
        if until < len {
            return false;
        }
        std::mem::swap(&mut self.order, &mut self.merged);
        self.merged.clear();
        self.begin_pass(2 * self.run)
    }

    /// Bytes that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        (self.order.capacity() + self.merged.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// These ended the process.
    #[test]
    fn issue_11_more_elements_than_numbers_are_an_error() {
        let mut order = OrderInSteps::default();
        assert!(order.push(u32::MAX as usize).is_ok());
        assert_eq!(order.push(u32::MAX as usize + 1).unwrap_err().text(), errors::TOO_MANY_ELEMENTS.text());
        assert_eq!(order.len(), 1);
    }

    #[test]
    fn each_length_is_sorted_in_short_steps_and_equal_elements_stay_in_order() {
        for len in [0, 1, 2, RUN - 1, RUN, RUN + 1, 2 * RUN, 3 * RUN + 7, STEP, STEP + 1, 5 * STEP + 300] {
            let keys: Vec<u32> = (0..len as u32).map(|n| n.wrapping_mul(2_654_435_761) % 97).collect();
            let mut order = OrderInSteps::default();
            (0..len).for_each(|n| order.push(n).expect("a short number"));
            let compared = Cell::new(0);
            let compare = |a: usize, b: usize| {
                compared.set(compared.get() + 1);
                keys[a].cmp(&keys[b])
            };
            while !order.step(compare) {
                assert!(compared.take() < 16 * STEP, "{len}: a step is short");
            }
            let mut expected: Vec<usize> = (0..len).collect();
            expected.sort_by_key(|&n| keys[n]);
            assert_eq!((0..order.len()).map(|at| order.at(at)).collect::<Vec<_>>(), expected, "{len}");
        }
    }
}
