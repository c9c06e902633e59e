//! The table of LCS: the lengths of the longest common subsequences of all pairs of prefixes, 64 pairs at a time.
//!
//! ```text
//!              columns: the shorter text          the steps of each row, a bit a column:
//!              b    a    n    d                   0 where the length is one more than in the column before
//!   rows:  a   0    1    1    1                          a: 1 0 1 1
//!   the    n   0    1    2    2                          n: 1 0 0 1
//!   longer d   0    1    2    3                          d: 1 0 0 0
//! ```
//! Two neighbours in the table differ by one at most, so a row is a bit a column, and the next row is made of it by an
//! addition, whose carry runs to the next common byte (Crochemore, Iliopoulos, Pinzon and Reid 2001: "A fast and practical
//! bit-vector algorithm for the longest common subsequence problem"; Hyyrö 2004). A cell by cell takes 30 times as long.
//!
//! On the way back from the ends of both texts, where two bytes differ, the way goes along the first text if the table is longer
//! there than along the second, as redis-server's does. That is one bit a pair, and all that is kept of the table.

use varve_exec::CommandError;
use varve_store::Pin;

use crate::errors;

/// Steps of the work between two looks at the clock, of one to five nanoseconds each.
const STEPS_OF_A_PART: usize = 100_000;
/// Steps that a row takes beside its words.
const ROW_STEPS: usize = 4;
/// Steps that one on the way back takes: its bit of the table is seldom in the cache.
const BACK_STEPS: usize = 20;

/// The bytes of the longer text, which may be far more than are copied with a shard held.
pub(super) enum Text {
    Copied(Vec<u8>),
    Pinned(Pin),
}

impl Text {
    fn len(&self) -> usize {
        match self {
            Text::Copied(bytes) => bytes.len(),
            Text::Pinned(pin) => pin.len(),
        }
    }
}

/// One text, of which some bytes are at hand.
struct Window {
    text: Text,
    /// The bytes at hand of a pinned text, and where they begin.
    near: Vec<u8>,
    from: usize,
}

impl Window {
    /// The bytes at hand around a place, and where they begin.
    fn around(&mut self, at: usize) -> (&[u8], usize) {
        match &self.text {
            Text::Copied(bytes) => (bytes, 0),
            Text::Pinned(pin) => {
                if at < self.from || at - self.from >= self.near.len() {
                    self.from = at / Pin::READ_BYTES * Pin::READ_BYTES;
                    self.near.clear();
                    let end = pin.len().min(self.from + Pin::READ_BYTES);
                    pin.each_part(self.from..end, |part| self.near.extend_from_slice(part));
                }
                (&self.near, self.from)
            }
        }
    }
}

/// A stretch that both texts have, as positions of its first byte, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) length: usize,
}

/// The work on two texts, some of it at a time.
pub(super) struct Table {
    rows: Window,
    columns: Vec<u8>,
    /// The rows are the command's first text.
    first_is_rows: bool,
    /// Where each byte stands among the columns, by its place in `place_of`; nowhere, at place 0.
    places: Vec<u64>,
    place_of: [u16; 256],
    /// Of the last row that was made, and of the one that is being made.
    steps: Vec<u64>,
    /// The rows' bits for the way back, each row in whole bytes; none if the length alone is asked for.
    ways: Option<Vec<u8>>,
    made: usize,
    /// Where the way back stands: rows and columns before it.
    back: Option<(usize, usize)>,
    matches: Vec<Match>,
}

impl Table {
    /// The table of two texts, of which the second argument is the shorter one; nothing of it is made yet.
    ///
    /// # Errors
    /// The memory for it is not to be had.
    pub(super) fn new(
        rows: Text,
        columns: Vec<u8>,
        first_is_rows: bool,
        length_only: bool,
    ) -> Result<Table, CommandError> {
        assert!(columns.len() <= rows.len(), "{} columns of {} rows", columns.len(), rows.len());
        let words = columns.len().div_ceil(64);
        let (mut places, mut place_of) = (vec![0; words], [0; 256]);
        for (at, &byte) in columns.iter().enumerate() {
            let place = &mut place_of[usize::from(byte)];
            if *place == 0 {
                *place = (places.len() / words) as u16;
                places.resize(places.len() + words, 0);
            }
            places[usize::from(*place) * words + at / 64] |= 1 << (at % 64);
        }
        let ways = match length_only {
            true => None,
            false => {
                let (mut ways, bytes) = (Vec::new(), rows.len().checked_mul(columns.len().div_ceil(8)));
                // Room is promised for all of it, and has memory behind it once it is written.
                let reserved = bytes.is_some_and(|bytes| ways.try_reserve_exact(bytes).is_ok());
                Some(reserved.then_some(ways).ok_or(errors::LCS_MEMORY)?)
            }
        };
        let rows = Window { text: rows, near: Vec::new(), from: 0 };
        let steps = vec![u64::MAX; words];
        let matches = Vec::new();
        Ok(Table { rows, columns, first_is_rows, places, place_of, steps, ways, made: 0, back: None, matches })
    }

    /// Bytes of memory, what is promised and not written yet too.
    pub(super) fn bytes(&self) -> usize {
        let text = if let Text::Copied(bytes) = &self.rows.text { bytes.capacity() } else { self.rows.near.capacity() };
        let words = self.places.capacity() + self.steps.capacity();
        let ways = self.ways.as_ref().map_or(0, Vec::capacity);
        text + self.columns.capacity() + words * size_of::<u64>() + ways + self.matches.capacity() * size_of::<Match>()
    }

    /// Does some of the work; true once it is done.
    pub(super) fn work(&mut self) -> bool {
        let mut left = STEPS_OF_A_PART;
        while self.made < self.rows.text.len() {
            if left == 0 {
                return false;
            }
            let each = self.steps.len() + ROW_STEPS;
            left = left.saturating_sub(self.make_rows(left.div_ceil(each)) * each);
        }
        if self.ways.is_none() {
            return true;
        }
        let (mut row, mut column) = self.back.unwrap_or((self.made, self.columns.len()));
        while row > 0 && column > 0 && left > 0 {
            let most = left.div_ceil(BACK_STEPS);
            let behind = (row, column);
            (row, column) = self.walk_back(behind, most);
            left = left.saturating_sub((behind.0 - row + behind.1 - column) * BACK_STEPS);
        }
        self.back = Some((row, column));
        row == 0 || column == 0
    }

    /// The length of the longest common subsequence, once the work is done.
    pub(super) fn length(&self) -> usize {
        let columns = self.columns.len();
        let bits = |at: usize| (columns - 64 * at).min(64);
        let of_word = |(at, word): (usize, &u64)| (!word & u64::MAX >> (64 - bits(at))).count_ones() as usize;
        self.steps.iter().enumerate().map(of_word).sum()
    }

    /// The stretches that both texts have, last first, once the work is done.
    pub(super) fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// The longest common subsequence, once the work is done.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.length());
        for found in self.matches.iter().rev() {
            let at = if self.first_is_rows { found.second } else { found.first };
            text.extend_from_slice(&self.columns[at..at + found.length]);
        }
        text
    }

    /// Makes some rows, `most` at most; how many.
    fn make_rows(&mut self, most: usize) -> usize {
        let (near, from) = self.rows.around(self.made);
        let bytes = &near[self.made - from..];
        let bytes = &bytes[..bytes.len().min(most)];
        let words = self.steps.len();
        let row_bytes = self.columns.len().div_ceil(8);
        let place_of = |byte: &u8| usize::from(self.place_of[usize::from(*byte)]);
        if let [steps] = &mut self.steps[..] {
            // A narrow table has many rows: what is read and written for one stays in registers.
            for byte in bytes {
                let before = *steps;
                let places = self.places[place_of(byte)];
                *steps = before.wrapping_add(before & places) | (before & !places);
                let Some(ways) = &mut self.ways else { continue };
                let way = if self.first_is_rows { !*steps } else { prefix_parity(before ^ *steps) };
                match row_bytes {
                    1 => ways.push(way as u8),
                    _ => ways.extend_from_slice(&way.to_le_bytes()[..row_bytes]),
                }
            }
        } else {
            for byte in bytes {
                let place = place_of(byte) * words;
                let places = &self.places[place..place + words];
                make_row(&mut self.steps, places, self.first_is_rows, self.ways.as_mut(), row_bytes);
            }
        }
        self.made += bytes.len();
        bytes.len()
    }

    /// Up to `most` steps on the way back from the end of some rows and columns, within the bytes at hand; the rows and columns
    /// that are left.
    fn walk_back(&mut self, (mut row, mut column): (usize, usize), most: usize) -> (usize, usize) {
        let ways = self.ways.as_ref().expect("the way back is asked for");
        let (near, from) = self.rows.around(row - 1);
        let row_bytes = self.columns.len().div_ceil(8);
        for _ in 0..most {
            if row <= from || column == 0 {
                break;
            }
            if near[row - 1 - from] == self.columns[column - 1] {
                (row, column) = (row - 1, column - 1);
                let (first, second) = if self.first_is_rows { (row, column) } else { (column, row) };
                match self.matches.last_mut() {
                    Some(last) if last.first == first + 1 && last.second == second + 1 => {
                        *last = Match { first, second, length: last.length + 1 };
                    }
                    _ => self.matches.push(Match { first, second, length: 1 }),
                }
                continue;
            }
            let way = ways[(row - 1) * row_bytes + (column - 1) / 8] >> ((column - 1) % 8) & 1;
            if (way == 1) == self.first_is_rows {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        (row, column)
    }
}

/// Makes the steps of a row of those of the row before it, and its bits for the way back.
fn make_row(steps: &mut [u64], places: &[u64], first_is_rows: bool, mut ways: Option<&mut Vec<u8>>, row_bytes: usize) {
    let (mut carry, mut differs) = (false, false);
    for (at, (steps, places)) in steps.iter_mut().zip(places).enumerate() {
        let before = *steps;
        let (sum, over) = before.overflowing_add(before & places);
        let (sum, again) = sum.overflowing_add(u64::from(carry));
        carry = over | again;
        *steps = sum | (before & !places);
        let Some(ways) = &mut ways else { continue };
        let way = if first_is_rows {
            // Up in the table is along the first text: the length there is more if it steps up at this column.
            !*steps
        } else {
            // Back in the row is along the first text: the length there is more if this row's is one more than the last
            // row's. Where one of both rows steps up alone, they begin or end to differ.
            let changed = prefix_parity(before ^ *steps);
            let grown = if differs { !changed } else { changed };
            differs = grown >> 63 == 1;
            grown
        };
        match row_bytes - 8 * at {
            8.. => ways.extend_from_slice(&way.to_le_bytes()),
            some => ways.extend_from_slice(&way.to_le_bytes()[..some]),
        }
    }
}

/// Of each bit, whether an odd number of bits is set up to it.
fn prefix_parity(word: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].iter().fold(word, |word, by| word ^ word << by)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The length and the stretches in the naive way, which is redis-server's.
    fn naive(a: &[u8], b: &[u8]) -> (usize, Vec<Match>) {
        let mut lengths = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                lengths[i][j] = match a[i - 1] == b[j - 1] {
                    true => lengths[i - 1][j - 1] + 1,
                    false => lengths[i - 1][j].max(lengths[i][j - 1]),
                };
            }
        }
        let (mut i, mut j, mut matches) = (a.len(), b.len(), Vec::<Match>::new());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                match matches.last_mut() {
                    Some(last) if last.first == i + 1 && last.second == j + 1 => {
                        *last = Match { first: i, second: j, length: last.length + 1 };
                    }
                    _ => matches.push(Match { first: i, second: j, length: 1 }),
                }
            } else if lengths[i - 1][j] > lengths[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        (lengths[a.len()][b.len()], matches)
    }

    /// The table of two texts, made to its end, and the number of parts.
    fn table(a: &[u8], b: &[u8], length_only: bool) -> (Table, usize) {
        let first_is_rows = a.len() >= b.len();
        let (rows, columns) = if first_is_rows { (a, b) } else { (b, a) };
        let text = Text::Copied(rows.to_vec());
        let mut table = Table::new(text, columns.to_vec(), first_is_rows, length_only).expect("memory");
        let mut parts = 1;
        while !table.work() {
            parts += 1;
        }
        (table, parts)
    }

    proptest! {
        #[test]
        fn tables_are_as_cell_by_cell(
            a in prop::collection::vec(0u8..4, 0..200),
            b in prop::collection::vec(0u8..6, 0..200),
        ) {
            for (a, b) in [(&a, &b), (&b, &a), (&a, &a)] {
                let (length, matches) = naive(a, b);
                let (made, _) = table(a, b, false);
                prop_assert_eq!((made.length(), made.matches()), (length, &matches[..]));
                let text: Vec<u8> = matches.iter().rev().flat_map(|m| a[m.first..m.first + m.length].to_vec()).collect();
                prop_assert_eq!(made.text(), text);
                prop_assert_eq!(table(a, b, true).0.length(), length);
            }
        }
    }

    #[test]
    fn long_texts_take_many_parts_of_bounded_work() {
        let a: Vec<u8> = (0..50_000u32).map(|n| ((n * n) >> 3) as u8).collect();
        let b: Vec<u8> = (0..700u32).map(|n| ((n * 7) >> 2) as u8).collect();
        let (made, parts) = table(&a, &b, false);
        let steps = a.len() * (b.len().div_ceil(64) + ROW_STEPS);
        assert!(parts > steps / STEPS_OF_A_PART, "{parts} parts for {steps} steps");
        let (length, matches) = naive(&a, &b);
        assert_eq!((made.length(), made.matches()), (length, &matches[..]));
        assert!(made.bytes() < 50_000 * (88 + 1) + 200_000, "{} bytes", made.bytes());
        // A text that is as long as the limit lets it be beside a single byte: a byte a row, and many parts.
        let (made, parts) = table(&vec![b'x'; 3_000_000], b"x", false);
        assert_eq!((made.length(), made.matches()), (1, &[Match { first: 2_999_999, second: 0, length: 1 }][..]));
        assert!(parts > 100, "{parts} parts");
        assert!(made.bytes() < 7_000_000, "{} bytes", made.bytes());
    }
}
