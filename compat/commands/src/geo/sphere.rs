//! Distances on the earth, taken as a sphere.
//!
//! The great circle's length by the haversine formula: `a = sin²(Δlat/2) + cos lat₁ · cos lat₂ · sin²(Δlon/2)`, then
//! `2R · asin √a`. It is within 0.5% of the true one. The operations stand in the order that gives the peer's digits.

use std::f64::consts::PI;

use super::cell::Point;

/// The radius of the sphere, in metres: the one that redis-server uses.
pub(super) const RADIUS: f64 = 6_372_797.560856;

/// Degrees as the angle on which sines work.
pub(super) fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

/// The degrees of an angle.
pub(super) fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

/// The distance of two latitudes, in metres.
pub(super) fn latitude_distance(a: f64, b: f64) -> f64 {
    RADIUS * (radians(b) - radians(a)).abs()
}

/// The distance of two positions, in metres.
pub(super) fn distance(a: Point, b: Point) -> f64 {
    let v = ((radians(b.longitude) - radians(a.longitude)) / 2.0).sin();
    if v == 0.0 {
        return latitude_distance(a.latitude, b.latitude);
    }
    let (from, to) = (radians(a.latitude), radians(b.latitude));
    let u = ((to - from) / 2.0).sin();
    let share = u * u + from.cos() * to.cos() * v * v;
    2.0 * RADIUS * share.sqrt().asin()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_documentation() {
        let palermo = Point::of_score(3479099956230698.0);
        let catania = Point::of_score(3479447370796909.0);
        assert_eq!(format!("{:.4}", distance(palermo, catania)), "166274.1516");
        assert_eq!(distance(palermo, palermo), 0.0);
        let north = Point { latitude: 0.0, ..palermo };
        assert!((distance(palermo, north) - latitude_distance(palermo.latitude, 0.0)).abs() < 1e-6);
    }
}
