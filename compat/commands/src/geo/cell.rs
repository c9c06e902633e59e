//! Positions as scores: the world's map cut into cells, numbered so that cells which are near have numbers that are near.
//!
//! ```text
//!  step s:  the map is 2^s columns of longitude and 2^s rows of latitude        -180..180, -85.05112878..85.05112878
//!  number:  lon lat lon lat .. lon lat      one bit of each in turn, the column's in front: 2s bits
//!  score:   the number at step 26, 52 bits, which a double holds exactly
//! ```
//! A cell of a smaller step is a range of scores: all positions in it begin with its bits. What a score stands for is the
//! middle of its cell, 0.6 m at most from what was told. The borders are those of web maps (EPSG:3857); the arithmetic
//! is in doubles, in the order that gives the digits which redis-server prints.
//!
//! At the last longitude or latitude the column or row is 2^s, one more than there is room for: its bit runs over, as it
//! does on redis-server, so that scores are the same.

/// Bits of each coordinate in a score.
pub(super) const STEP_MAX: u32 = 26;

/// The longitude farthest east, in degrees; the farthest west is its opposite.
pub(super) const LONGITUDE_MAX: f64 = 180.0;

/// The latitude farthest north, in degrees; the farthest south is its opposite.
pub(super) const LATITUDE_MAX: f64 = 85.05112878;

/// The latitude up to which the cells of text geohashes reach.
const POLE: f64 = 90.0;

/// A position in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// A cell of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    column: u32,
    row: u32,
    step: u32,
}

/// The borders of a cell, in degrees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Borders {
    pub(super) south: f64,
    pub(super) north: f64,
    pub(super) west: f64,
    pub(super) east: f64,
}

impl Point {
    /// Whether it lies on the map.
    pub(super) fn is_on_map(self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// The score of a position on the map.
    pub(super) fn score(self) -> f64 {
        Cell::around(self, STEP_MAX).number() as f64
    }

    /// The position that a score stands for. Any number stands for one, also those that no position gives.
    pub(super) fn of_score(score: f64) -> Point {
        let (row, column) = parted(whole(score));
        let borders = Cell { column, row, step: STEP_MAX }.borders();
        let middle = |low: f64, high: f64, max: f64| ((low + high) / 2.0).clamp(-max, max);
        Point {
            longitude: middle(borders.west, borders.east, LONGITUDE_MAX),
            latitude: middle(borders.south, borders.north, LATITUDE_MAX),
        }
    }

    /// The position as the geohash of 11 letters that other programs know (their rows reach from pole to pole). A score
    /// holds 52 bits, 10 letters of 5 bits and a rest: the last letter is always 0.
    pub(super) fn text(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let number = Cell::within(self, STEP_MAX, POLE).number();
        let letter = |at: usize| if at == 10 { LETTERS[0] } else { LETTERS[(number >> (47 - 5 * at)) as usize & 31] };
        std::array::from_fn(letter)
    }
}

impl Cell {
    /// The cell of a step that a position on the map lies in.
    pub(super) fn around(point: Point, step: u32) -> Cell {
        Cell::within(point, step, LATITUDE_MAX)
    }

    /// The cell on a map whose rows reach up to this latitude.
    fn within(point: Point, step: u32, north: f64) -> Cell {
        assert!((1..=STEP_MAX).contains(&step), "a step has 1 to 26 bits");
        let place = |at: f64, max: f64| ((at + max) / (max + max) * f64::from(1 << step)) as u32;
        Cell { column: place(point.longitude, LONGITUDE_MAX), row: place(point.latitude, north), step }
    }

    /// The cell that lies this number of columns to the east and of rows to the north. Behind the last one the first follows.
    pub(super) fn beside(self, east: i32, north: i32) -> Cell {
        let mask = (1 << self.step) - 1;
        let moved = |at: u32, by: i32| if by == 0 { at } else { at.wrapping_add_signed(by) & mask };
        Cell { column: moved(self.column, east), row: moved(self.row, north), ..self }
    }

    /// The four cells of the next step that it consists of, in the order of their scores; None at the last step, and for
    /// one behind the map's end, which has no parts.
    pub(super) fn quarters(self) -> Option<[Cell; 4]> {
        let is_on_map = self.column >> self.step == 0 && self.row >> self.step == 0;
        let quarter =
            |n: u32| Cell { column: 2 * self.column + (n >> 1), row: 2 * self.row + (n & 1), step: self.step + 1 };
        (is_on_map && self.step < STEP_MAX).then(|| std::array::from_fn(|n| quarter(n as u32)))
    }

    /// Its number.
    fn number(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    /// The scores of the positions in it: from the first, up to but without the second.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.number() << shift) as f64, ((self.number() + 1) << shift) as f64)
    }

    /// Its borders.
    pub(super) fn borders(self) -> Borders {
        let cells = f64::from(1 << self.step);
        let line = |at: u32, max: f64| -max + f64::from(at) / cells * (max + max);
        Borders {
            south: line(self.row, LATITUDE_MAX),
            north: line(self.row.wrapping_add(1), LATITUDE_MAX),
            west: line(self.column, LONGITUDE_MAX),
            east: line(self.column.wrapping_add(1), LONGITUDE_MAX),
        }
    }
}

/// A score's bits. Fractions are cut off; negative numbers count from above, as the peer's machine makes them.
fn whole(score: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    if score < HALF { score as i64 as u64 } else { (score - HALF) as i64 as u64 ^ 1 << 63 }
}

/// The bits of a number with a gap in front of each.
fn spread(bits: u32) -> u64 {
    let mut bits = u64::from(bits);
    for (shift, mask) in SPREADS {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The even bits of a number, and the odd ones.
fn parted(number: u64) -> (u32, u32) {
    (gathered(number), gathered(number >> 1))
}

/// The even bits of a number, without gaps.
fn gathered(number: u64) -> u32 {
    let mut bits = number & 0x5555_5555_5555_5555;
    for at in (0..SPREADS.len()).rev() {
        let mask = if at == 0 { 0xffff_ffff } else { SPREADS[at - 1].1 };
        bits = (bits | bits >> SPREADS[at].0) & mask;
    }
    bits as u32
}

/// The steps in which bits are spread: by how much groups of them are moved apart, and which bits are then taken.
const SPREADS: [(u32, u64); 5] = [
    (16, 0x0000_ffff_0000_ffff),
    (8, 0x00ff_00ff_00ff_00ff),
    (4, 0x0f0f_0f0f_0f0f_0f0f),
    (2, 0x3333_3333_3333_3333),
    (1, 0x5555_5555_5555_5555),
];

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Point = Point { longitude: 13.361389, latitude: 38.115556 };

    #[test]
    fn bits_are_spread_and_gathered() {
        for bits in [0, 1, 2, 0x1234_5678, 0x8000_0001, u32::MAX] {
            let slow = (0..32).map(|at| u64::from(bits >> at & 1) << (2 * at)).sum::<u64>();
            assert_eq!(spread(bits), slow, "{bits:x}");
            assert_eq!(parted(slow | spread(!bits) << 1), (bits, !bits));
        }
    }

    #[test]
    fn positions_have_the_scores_and_texts_of_the_documentation() {
        assert_eq!(PALERMO.score(), 3479099956230698.0);
        assert_eq!(&PALERMO.text(), b"sqc8b49rny0");
        assert_eq!(&Point::of_score(PALERMO.score()).text(), b"sqc8b49rny0");
        let catania = Point { longitude: 15.087269, latitude: 37.502669 };
        assert_eq!(catania.score(), 3479447370796909.0);
        assert_eq!(&catania.text(), b"sqdtr74hyu0");
    }

    #[test]
    fn a_score_is_the_middle_of_its_cell() {
        let Point { longitude, latitude } = Point::of_score(PALERMO.score());
        assert_eq!(format!("{longitude:.17} {latitude:.17}"), "13.36138933897018433 38.11555639549629859");
        // Any number stands for a place on the map.
        for score in [-1.0, -0.5, 0.0, 1e15, 1e18, 1e30, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Point::of_score(score).is_on_map(), "{score}");
        }
    }

    #[test]
    fn a_cell_is_the_scores_of_its_quarters_in_order() {
        for step in 1..STEP_MAX {
            let cell = Cell::around(PALERMO, step);
            let (low, high) = cell.scores();
            assert!((low..high).contains(&PALERMO.score()));
            let mut next = low;
            for quarter in cell.quarters().expect("there is a step behind it") {
                let (from, to) = quarter.scores();
                assert_eq!(from, next);
                next = to;
                let (inner, outer) = (quarter.borders(), cell.borders());
                assert!(outer.south <= inner.south && inner.north <= outer.north);
                assert!(outer.west <= inner.west && inner.east <= outer.east);
            }
            assert_eq!(next, high);
        }
        assert_eq!(Cell::around(PALERMO, STEP_MAX).quarters(), None);
    }

    #[test]
    fn behind_the_last_column_the_first_follows() {
        let east = Point { longitude: 179.9, latitude: 0.1 };
        let west = Point { longitude: -179.9, latitude: 0.1 };
        assert_eq!(Cell::around(east, 5).beside(1, 0), Cell::around(west, 5));
        assert_eq!(Cell::around(west, 5).beside(-1, 0), Cell::around(east, 5));
        assert_eq!(Cell::around(east, 5).beside(1, 1).beside(-1, -1), Cell::around(east, 5));
        // The last longitude of all is in a column of its own, which has no quarters.
        let last = Cell::around(Point { longitude: 180.0, latitude: 0.0 }, 5);
        assert_eq!((last.quarters(), last.beside(1, 0).column), (None, 1));
    }
}
