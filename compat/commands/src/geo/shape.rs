//! The area of a search: a circle or a rectangle around a position, the cells that cover it, and whether a position is
//! in it.
//!
//! ```text
//!   NW  N  NE      the cell of the centre, about as large as the area, and the eight around it;
//!    W  C  E       those that the area does not reach are left out; looked through in the order
//!   SW  S  SE      C N S E W NE NW SE SW, in which results without a sort are answered
//! ```
//! The cells are those of redis-server, so that the order is its too. Within a cell Varve leaves out what lies outside of
//! the area's [`Window`]: that cannot be in the area, and the window is wide enough for the rounding of the exact test.

use super::cell::{Borders, Cell, LONGITUDE_MAX, Point, STEP_MAX};
use super::sphere::{RADIUS, degrees, distance, latitude_distance, radians};

/// The form of an area, lengths in the unit of the request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Circle { radius: f64 },
    Rectangle { width: f64, height: f64 },
}

/// An area of search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) centre: Point,
    pub(super) form: Form,
    /// Metres of the unit of the request.
    pub(super) unit: f64,
}

/// Degrees outside of which no position of an area lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    borders: Borders,
}

/// Half the world's circumference on the map, in metres: a radius of it needs the largest cells.
const MAP_METRES: f64 = 20_037_726.37;

/// How much wider than computed a window is, for the rounding of computed distances: of its size, and in degrees
/// (a tenth of a millimetre).
const WIDER: (f64, f64) = (1.0 + 1e-9, 1e-9);

impl Shape {
    /// The distance in metres of a position from the centre, if the position is in the area.
    pub(super) fn distance_inside(&self, point: Point) -> Option<f64> {
        match self.form {
            Form::Circle { radius } => {
                let far = distance(self.centre, point);
                (far <= radius * self.unit).then_some(far)
            }
            Form::Rectangle { width, height } => {
                let (centre, beside) = (self.centre, Point { latitude: point.latitude, ..self.centre });
                let outside = latitude_distance(point.latitude, centre.latitude) > height * self.unit / 2.0
                    || distance(point, beside) > width * self.unit / 2.0;
                (!outside).then(|| distance(centre, point))
            }
        }
    }

    /// The cells that cover the area, in the order in which they are looked through.
    pub(super) fn cells(&self) -> impl Iterator<Item = Cell> {
        let reach = self.reach();
        let mut step = self.estimated_step();
        let mut centre = Cell::around(self.centre, step);
        if step > 1 && falls_short(centre, &reach) {
            step -= 1;
            centre = Cell::around(self.centre, step);
        }
        let inner = centre.borders();
        let used = move |east: i32, north: i32| {
            step < 2
                || !(north < 0 && inner.south < reach.south
                    || north > 0 && inner.north > reach.north
                    || east < 0 && inner.west < reach.west
                    || east > 0 && inner.east > reach.east)
        };
        const AROUND: [(i32, i32); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let cells = AROUND.into_iter().filter(move |&(east, north)| used(east, north));
        // With the largest cells the neighbours on both sides are the same cell.
        let mut before = None;
        cells
            .map(move |(east, north)| centre.beside(east, north))
            .filter(move |cell| before.replace(*cell) != Some(*cell))
    }

    /// A window around the area.
    pub(super) fn window(&self) -> Window {
        let half = |length: f64| length * self.unit / RADIUS / 2.0;
        let Point { longitude, latitude } = self.centre;
        let (up, aside) = match self.form {
            Form::Circle { radius } => {
                let angle = radius * self.unit / RADIUS;
                (angle, circle_longitudes(angle, latitude))
            }
            Form::Rectangle { width, height } => {
                let up = half(height);
                (up, chord_longitudes(half(width), latitude.abs() + degrees(up)))
            }
        };
        let up = degrees(up) * WIDER.0 + WIDER.1;
        let (mut west, mut east) = (f64::NEG_INFINITY, f64::INFINITY);
        if let Some(aside) = aside {
            let aside = degrees(aside) * WIDER.0 + WIDER.1;
            // Beyond the map's edge longitudes begin anew on its other side.
            if longitude - aside > -LONGITUDE_MAX && longitude + aside < LONGITUDE_MAX {
                (west, east) = (longitude - aside, longitude + aside);
            }
        }
        Window { borders: Borders { south: latitude - up, north: latitude + up, west, east } }
    }

    /// Half the area's height and width, in metres.
    fn halves(&self) -> (f64, f64) {
        match self.form {
            Form::Circle { radius } => (self.unit * radius, self.unit * radius),
            Form::Rectangle { width, height } => (self.unit * (height / 2.0), self.unit * (width / 2.0)),
        }
    }

    /// How far the area reaches, as the peer reckons it when it chooses cells: longitudes may lie beyond the map, and
    /// near the poles mean nothing.
    fn reach(&self) -> Borders {
        let Point { longitude, latitude } = self.centre;
        let (high, wide) = self.halves();
        let up = degrees(high / RADIUS);
        // The parallel that is shorter, and so spans more degrees, is the one farther from the equator.
        let far = if latitude < 0.0 { latitude - up } else { latitude + up };
        let aside = degrees(wide / RADIUS / radians(far).cos());
        Borders { south: latitude - up, north: latitude + up, west: longitude - aside, east: longitude + aside }
    }

    /// The step whose cells are about as large as the area: from the centre to a corner is at most a cell.
    fn estimated_step(&self) -> u32 {
        let corner = match self.form {
            Form::Circle { radius } => radius,
            Form::Rectangle { width, height } => {
                let (width, height) = (width / 2.0, height / 2.0);
                (width * width + height * height).sqrt()
            }
        };
        let mut metres = corner * self.unit;
        if metres == 0.0 {
            return STEP_MAX;
        }
        let mut step = -1;
        while metres < MAP_METRES && step < i32::from(u8::MAX) {
            metres *= 2.0;
            step += 1;
        }
        // Cells are narrower near the poles.
        let latitude = self.centre.latitude.abs();
        step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, STEP_MAX as i32) as u32
    }
}

/// Whether the cells around this one do not reach as far as the area does.
fn falls_short(centre: Cell, reach: &Borders) -> bool {
    centre.beside(0, 1).borders().north < reach.north
        || centre.beside(0, -1).borders().south > reach.south
        || centre.beside(1, 0).borders().east < reach.east
        || centre.beside(-1, 0).borders().west > reach.west
}

/// By how much the longitudes of a circle differ from its centre's, at most; angles in radians, the latitude in degrees.
/// None if it goes around a pole: then every longitude may be in it.
fn circle_longitudes(angle: f64, latitude: f64) -> Option<f64> {
    let is_polar = latitude.abs() + degrees(angle) >= 89.9;
    (!is_polar).then(|| (angle.sin() / radians(latitude).cos()).asin())
}

/// By how much the longitudes of two positions of one latitude differ at most, if a great circle of this angle joins them
/// and the latitude is `farthest` degrees at most. None if every longitude may be one.
fn chord_longitudes(angle: f64, farthest: f64) -> Option<f64> {
    if farthest >= 89.9 || angle > 3.0 {
        return None;
    }
    let share = (angle / 2.0).sin() / radians(farthest).cos();
    (share < 1.0).then(|| 2.0 * share.asin())
}

impl Window {
    /// Whether a position may be in the area.
    pub(super) fn has(&self, point: Point) -> bool {
        let Borders { south, north, west, east } = self.borders;
        (south..=north).contains(&point.latitude) && (west..=east).contains(&point.longitude)
    }

    /// Whether no position of a cell is in it.
    pub(super) fn misses(&self, cell: &Borders) -> bool {
        let Borders { south, north, west, east } = self.borders;
        cell.north < south || cell.south > north || cell.east < west || cell.west > east
    }

    /// Whether every position of a cell is in it.
    pub(super) fn covers(&self, cell: &Borders) -> bool {
        let Borders { south, north, west, east } = self.borders;
        south <= cell.south && cell.north <= north && west <= cell.west && cell.east <= east
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_testkit::Random;

    /// Areas of every size, everywhere.
    fn random_shape(random: &mut Random) -> Shape {
        let mut share = || random.below(1 << 30) as f64 / f64::from(1 << 30);
        let centre = Point { longitude: share() * 360.0 - 180.0, latitude: (share() * 2.0 - 1.0) * 85.05 };
        let mut metres = || 10_f64.powf(share() * 8.0);
        let form = if metres() < 1e4 {
            Form::Circle { radius: metres() }
        } else {
            Form::Rectangle { width: metres(), height: metres() }
        };
        Shape { centre, form, unit: 1.0 }
    }

    #[test]
    fn no_position_of_an_area_is_outside_of_its_window() {
        let mut random = Random::new(7);
        let (mut inside, mut outside) = (0, 0);
        for _ in 0..4000 {
            let shape = random_shape(&mut random);
            let window = shape.window();
            let spread = match shape.form {
                Form::Circle { radius } => radius,
                Form::Rectangle { width, height } => width.max(height) / 2.0,
            };
            for _ in 0..50 {
                let mut share = || random.below(1 << 30) as f64 / f64::from(1 << 29) - 1.0;
                let reach = degrees(spread / RADIUS).min(180.0) * 1.2;
                let latitude = (shape.centre.latitude + share() * reach).clamp(-85.05, 85.05);
                let aside = share() * reach / radians(latitude).cos();
                let longitude = (shape.centre.longitude + aside + 540.0).rem_euclid(360.0) - 180.0;
                let point = Point { longitude, latitude };
                let is_inside = shape.distance_inside(point).is_some();
                assert!(!is_inside || window.has(point), "{shape:?} {point:?} {window:?}");
                inside += u32::from(is_inside);
                outside += u32::from(!window.has(point));
            }
        }
        assert!(inside > 20_000 && outside > 20_000, "both are met: {inside} {outside}");
    }

    #[test]
    fn cells_are_the_centre_and_those_around_it_once_each() {
        let mut random = Random::new(8);
        for _ in 0..4000 {
            let shape = random_shape(&mut random);
            let cells: Vec<Cell> = shape.cells().collect();
            assert!(cells.len() <= 9);
            let (low, high) = cells[0].scores();
            assert!((low..high).contains(&shape.centre.score()), "{shape:?}");
            let mut numbers: Vec<_> = cells.iter().map(|cell| cell.scores().0.to_bits()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), cells.len(), "{shape:?}");
        }
        let everything = Shape { form: Form::Circle { radius: f64::INFINITY }, ..random_shape(&mut random) };
        assert_eq!(everything.cells().count(), 4);
    }
}
