//! The geographic commands: positions as the scores of a sorted set.
//!
//! ```text
//!  cell      positions and map cells as scores, and back        sphere   distances on the earth
//!  shape     the area of a search and the cells that cover it
//!  members   GEOADD GEOPOS GEOHASH GEODIST
//!  query     the words of a search       find   the members in an area       search   its commands: reply and store
//!  search_parts   a search of many members, over several turns
//! ```
//! Every such set is an ordinary sorted set, and every sorted set can be read as one.

mod cell;
mod find;
mod members;
mod peer_order;
mod query;
mod search;
mod search_parts;
mod shape;
mod sphere;

use cell::Point;
use find::Found;
use query::Query;
use varve_base::number::{parse_f64, push_u64};
use varve_exec::{CmdResult, CommandError, FileRows};
use varve_protocol::{Args, Reply};

use crate::errors;
use crate::grammar::is;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[members::ROWS, search::ROWS];

/// The metres of a unit of length.
fn unit(word: &[u8]) -> CmdResult<f64> {
    const UNITS: [(&str, f64); 4] = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let known = UNITS.iter().find(|(name, _)| is(word, name));
    known.map(|(_, metres)| *metres).ok_or(errors::GEO_UNIT)
}

/// The position that arguments `at` and `at + 1` tell: longitude, latitude.
fn position(args: &Args<'_>, at: usize) -> CmdResult<Point> {
    let degrees = |at| parse_f64(args.get(at)).ok_or(CommandError::NOT_FLOAT);
    let point = Point { longitude: degrees(at)?, latitude: degrees(at + 1)? };
    if !point.is_on_map() {
        return Err(errors::no_position(point.longitude, point.latitude));
    }
    Ok(point)
}

/// Answers a position: longitude and latitude with 17 digits behind the point, as far as they are not 0.
fn reply_position(out: &mut Reply, point: Point) {
    out.array(2);
    for degrees in [point.longitude, point.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        if out.is_resp3() {
            out.raw(format!(",{text}\r\n").as_bytes());
        } else {
            out.bulk(text.as_bytes());
        }
    }
}

/// Replies with a member and with what is asked for of it.
fn reply_found(out: &mut Reply, query: &Query, (member, found): (&[u8], Found)) {
    let parts = [query.with_distance, query.with_score, query.with_position].iter().filter(|with| **with).count();
    if parts > 0 {
        out.array(parts + 1);
    }
    out.bulk(member);
    if query.with_distance {
        reply_distance(out, found.metres / query.shape.unit);
    }
    if query.with_score {
        out.integer(found.score as i64);
    }
    if query.with_position {
        reply_position(out, found.point);
    }
}

/// Answers a distance in the unit of the request, with 4 digits behind the point.
fn reply_distance(out: &mut Reply, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as u64;
    let mut text = Vec::with_capacity(24);
    push_u64(&mut text, scaled / 10_000);
    text.push(b'.');
    text.extend_from_slice(format!("{:04}", scaled % 10_000).as_bytes());
    out.bulk(&text);
}
