//! `longlist`: Redis in Action's listing 9.5, RPOPLPUSH on one list, and LINDEX, LSET, LRANGE of ten at its middle, at
//! lengths of 1 to 1 000 000; then hashes, sets and sorted sets of growing lengths that the settings allow to stay packed.
//!
//! ```text
//!   lists    the book's setting (a packed list as long as it likes) has become the fill; -2 is the default, 16384 the longest
//!   others   hash-max-listpack-entries and its kin at 110 000, the book's number: redis-server searches from end to end
//! ```

use crate::contenders::{self, Contender};
use crate::load::Traffic;
use crate::report::{Better, Figure, Findings, Form, Role, Series};
use crate::size::Size;
use crate::turns::{Beside, beside, must, pace, push};
use crate::{kept, published};
use std::cell::RefCell;
use std::io;
use varve_testkit::Random;

const LENGTHS: &[u64] = &[1, 100, 1000, 5000, 10_000, 50_000, 100_000, 1_000_000];
const QUICK_LENGTHS: &[u64] = &[1, 1000, 5000, 50_000, 1_000_000];
const TINY_LENGTHS: &[u64] = &[1, 1000, 5000];
const FILLS: &[i64] = &[-2, -1, -3, -4, -5, 16, 128, 1024, 16384];
/// Lengths of packed hashes, sets and sorted sets: beyond them redis-server takes longer than an experiment may.
const PACKED: &[u64] = &[10, 100, 512, 2000, 10_000, 50_000];
/// Entries up to which the settings allow a packed form: the book's own number.
const PACKED_MAX: u64 = 110_000;
/// Requests of a turn on packed collections, at least: a turn has a connection of its own, and what that costs is not theirs.
const PACKED_REQUESTS_MIN: u64 = 2_000;
/// The book's pipeline.
const PIPELINE: usize = 100;

type Write = fn(&mut Vec<u8>, u64);

/// A command, as a request on a collection of this length.
struct Op {
    name: &'static str,
    write: Write,
}

const LIST_OPS: [Op; 4] = [
    Op { name: "RPOPLPUSH", write: |out, _| push(out, &[b"RPOPLPUSH", b"list", b"list"]) },
    Op { name: "LINDEX of the middle", write: |out, length| push(out, &[b"LINDEX", b"list", &number(length / 2)]) },
    Op { name: "LSET of the middle", write: |out, length| push(out, &[b"LSET", b"list", &number(length / 2), b"7"]) },
    Op {
        name: "LRANGE of ten in the middle",
        write: |out, length| push(out, &[b"LRANGE", b"list", &number(length / 2), &number(length / 2 + 9)]),
    },
];

/// Commands on packed collections, each with an element that is drawn.
const PACKED_OPS: [Op; 6] = [
    Op { name: "HGET", write: |out, n| push(out, &[b"HGET", b"hash", &number(n)]) },
    Op { name: "HSET", write: |out, n| push(out, &[b"HSET", b"hash", &number(n), b"other"]) },
    Op { name: "SISMEMBER", write: |out, n| push(out, &[b"SISMEMBER", b"set", &number(n)]) },
    Op { name: "ZSCORE", write: |out, n| push(out, &[b"ZSCORE", b"zset", &number(n)]) },
    Op { name: "ZADD", write: |out, n| push(out, &[b"ZADD", b"zset", &number(n * 7 % 1000), &number(n)]) },
    Op { name: "ZRANK", write: |out, n| push(out, &[b"ZRANK", b"zset", &number(n)]) },
];

/// Commands that fill the packed collections.
const PACKED_FILLS: [Write; 3] = [
    |out, n| push(out, &[b"HSET", b"hash", &number(n), b"value"]),
    |out, n| push(out, &[b"SADD", b"set", &number(n)]),
    |out, n| push(out, &[b"ZADD", b"zset", &number(n), &number(n)]),
];

/// A number as the argument of a command.
fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Runs the experiment.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(size: Size) -> io::Result<Findings> {
    let lengths = size.pick(TINY_LENGTHS, QUICK_LENGTHS, LENGTHS);
    let fills = size.pick(&FILLS[..1], &FILLS[..1], FILLS);
    let contenders = contenders::start(&[])?;
    let mut findings = Findings::new("longlist", "Redis in Action, listing 9.5: long packed lists");
    for &fill in fills {
        findings.add(kept::figures(lists(&contenders, fill, lengths, size)?)?);
    }
    drop(contenders);
    findings.add(packed(size)?);
    let stated = published::LISTING_RATE;
    Ok(findings
        .note(format!("One connection, pipelines of {PIPELINE}, as the book's listing has them."))
        .note(
            "The book also states that LINDEX of the middle has roughly half the rate of RPOPLPUSH from 5000 entries on; \
             a figure of each fill shows what it is here.",
        )
        .lost(format!(
            "The rates that the book's listing 9.6 prints are not in the text that was at hand, only that up to 1000 \
             entries have {stated} a second or more: that line is drawn."
        ))
        .lost("A list of 100 000 entries in one packed node: redis-server's lists are chains of nodes of at most 8 KB since 3.2."))
}

/// The four operations on lists of growing length, at one fill.
fn lists(contenders: &[Contender], fill: i64, lengths: &[u64], size: Size) -> io::Result<Vec<Figure>> {
    let requests = size.pick(500, 3_000, 50_000);
    let mut grid = Grid::new(&LIST_OPS, contenders);
    for one in contenders {
        one.set(&format!("list-max-ziplist-size {fill}"))?;
        let emptied = one.server.connect().and_then(|mut client| must(&mut client, "FLUSHALL"));
        contenders::spared(&one.name, one.role, emptied)?;
    }
    let mut there = 0;
    for (place, &length) in lengths.iter().enumerate() {
        let found = kept::case(&format!("lists, fill {fill}, {length} long"), || {
            for one in contenders {
                let mut next = there;
                let plan = Traffic { connections: 1, pipeline: 1000, requests: length - there };
                let filled = pace(&one.server, plan, &mut |out| {
                    push(out, &[b"RPUSH", b"list", &number(next)]);
                    next += 1;
                });
                contenders::spared(&one.name, one.role, filled)?;
            }
            there = length;
            measure(&LIST_OPS, contenders, size, requests, &mut |write, out| write(out, length))
        })?;
        grid.add(place, &found);
    }
    let mut figures = grid.figures(&format!(", fill {fill}"), "length of the list", lengths);
    let mut line = Series::new("published: the book, at least", Role::Published);
    let short = lengths.iter().enumerate().filter(|(_, length)| **length <= published::LISTING_LENGTH);
    short.for_each(|(place, _)| line.push(place, published::LISTING_RATE));
    figures[0].series.push(line);
    figures.push(part_of_rpoplpush(&figures[1], &figures[3], fill, lengths));
    Ok(figures)
}

/// The CPU of RPOPLPUSH over that of LINDEX, by length: the part of RPOPLPUSH's rate that LINDEX has where a server does nothing
/// else.
fn part_of_rpoplpush(rpoplpush: &Figure, lindex: &Figure, fill: i64, lengths: &[u64]) -> Figure {
    let title = format!("LINDEX of the middle beside RPOPLPUSH, fill {fill}");
    let mut figure = Figure::new(title, "RPOPLPUSH over LINDEX", Better::Neither, Form::Lines);
    figure = figure.over("length of the list", lengths).about(
        "The book states that LINDEX of the middle runs at roughly half of RPOPLPUSH's rate from 5000 entries on. A rate of one \
         client depends on the client too; the CPU of a server's RPOPLPUSH over that of its LINDEX depends on the server alone.",
    );
    for above in rpoplpush.series.iter().filter(|series| series.role != Role::Floor) {
        let Some(below) = lindex.series.iter().find(|series| series.name == above.name) else { continue };
        let mut part = Series::new(above.name.as_str(), above.role);
        for place in 0..lengths.len() {
            if let Some((above, below)) = above.at(place).zip(below.at(place)) {
                part.push(place, above.over(below));
            }
        }
        figure.series.push(part);
    }
    let mut line = Series::new("published: the book, roughly", Role::Published);
    let long = lengths.iter().enumerate().filter(|(_, length)| **length >= published::LINDEX_LENGTH);
    long.for_each(|(place, _)| line.push(place, published::LINDEX_PART));
    figure.series.push(line);
    figure
}

/// Hashes, sets and sorted sets that the settings allow to be packed, at growing lengths.
fn packed(size: Size) -> io::Result<Vec<Figure>> {
    let settings = ["hash-max-listpack-entries", "set-max-intset-entries", "zset-max-listpack-entries"];
    let settings: Vec<String> = settings.iter().map(|name| format!("{name} {PACKED_MAX}")).collect();
    let contenders = contenders::start(&settings)?;
    let lengths = size.pick(&PACKED[..2], &PACKED[..5], PACKED);
    let mut grid = Grid::new(&PACKED_OPS, &contenders);
    let mut there = 0;
    for (place, &length) in lengths.iter().enumerate() {
        let found = kept::case(&format!("packed, {length} long"), || {
            for one in &contenders {
                for fill in PACKED_FILLS {
                    let mut next = there;
                    let plan = Traffic { connections: 1, pipeline: PIPELINE, requests: length - there };
                    let filled = pace(&one.server, plan, &mut |out| {
                        fill(out, next);
                        next += 1;
                    });
                    contenders::spared(&one.name, one.role, filled)?;
                }
            }
            there = length;
            let mut random = Random::new(7);
            // Fewer of them tell of the connection's beginning: redis-server searches a long packed collection for a millisecond.
            let requests = size.pick(200, 2_000, 20_000).min((50_000_000 / length).max(PACKED_REQUESTS_MIN));
            measure(&PACKED_OPS, &contenders, size, requests, &mut |write, out| {
                write(out, random.below(length as usize) as u64)
            })
        })?;
        grid.add(place, &found);
    }
    Ok(grid.figures(", packed", "elements of the collection, all allowed to be packed", lengths))
}

/// Measures every operation on collections as they are, the contenders and the floor in turns.
fn measure(
    ops: &[Op],
    contenders: &[Contender],
    size: Size,
    requests: u64,
    write: &mut dyn FnMut(Write, &mut Vec<u8>),
) -> io::Result<Vec<Beside>> {
    let plan = Traffic { connections: 1, pipeline: PIPELINE, requests };
    let write = RefCell::new(write);
    let of = |op: &Op| {
        beside(contenders, plan, size.pick(1, 3, 5), &|_| Ok(()), &|_| {
            let (write, request) = (&write, op.write);
            Box::new(move |out| (*write.borrow_mut())(request, out))
        })
    };
    ops.iter().map(of).collect()
}

/// Paces of operations by contender and place.
struct Grid<'o> {
    ops: &'o [Op],
    /// For each operation, a series of rates and one of CPU for each contender.
    series: Vec<Vec<[Series; 2]>>,
    floors: Vec<Series>,
}

impl<'o> Grid<'o> {
    fn new(ops: &'o [Op], contenders: &[Contender]) -> Grid<'o> {
        let pair = |one: &Contender| [0, 1].map(|_| Series::new(one.name.as_str(), one.role));
        let series = ops.iter().map(|_| contenders.iter().map(pair).collect()).collect();
        Grid { ops, series, floors: ops.iter().map(|_| Series::new("floor", Role::Floor)).collect() }
    }

    /// Adds what was measured at a place.
    fn add(&mut self, place: usize, found: &[Beside]) {
        for ((series, floor), found) in self.series.iter_mut().zip(&mut self.floors).zip(found) {
            for (number, pair) in series.iter_mut().enumerate() {
                let [per_s, cpu_us] = found.of(number);
                pair[0].push(place, per_s);
                pair[1].push(place, cpu_us);
            }
            floor.push(place, found.floor_us);
        }
    }

    /// A figure of rates and one of CPU for each operation.
    fn figures(self, of: &str, axis: &str, places: &[u64]) -> Vec<Figure> {
        let mut figures = Vec::new();
        for ((op, pairs), floor) in self.ops.iter().zip(self.series).zip(self.floors) {
            let name = format!("{}{of}", op.name);
            let (rates, cpus): (Vec<Series>, Vec<Series>) = pairs.into_iter().map(|[rate, cpu]| (rate, cpu)).unzip();
            let mut rate =
                Figure::new(name.as_str(), "requests a second", Better::More, Form::Lines).over(axis, places);
            rate.series = rates;
            let title = format!("{name}: server CPU");
            let unit = "microseconds of CPU per operation";
            let mut cpu = Figure::new(title, unit, Better::Less, Form::Lines).over(axis, places);
            cpu.series = cpus;
            cpu.series.push(floor);
            figures.extend([rate, cpu]);
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Value;

    #[test]
    fn lindex_is_drawn_beside_rpoplpush_at_each_length() {
        let cpu = |values: [f64; 2], roles: &[Role]| {
            let mut figure = Figure::new("t", "us of CPU", Better::Less, Form::Lines);
            for role in roles {
                let mut series = Series::new(format!("{role:?}"), *role);
                values.iter().enumerate().for_each(|(place, &us)| series.push(place, Value::of(vec![us, us * 1.5])));
                figure.series.push(series);
            }
            figure
        };
        let roles = [Role::Varve, Role::Peer, Role::Floor];
        let (rpoplpush, lindex) = (cpu([2.0, 2.0], &roles), cpu([2.0, 4.0], &roles));
        let figure = part_of_rpoplpush(&rpoplpush, &lindex, -2, &[1, 5000]);
        let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["Varve", "Peer", "published: the book, roughly"], "no floor");
        let value = figure.series[0].at(1).unwrap();
        assert_eq!((value.median, value.runs), (0.5, 2));
        assert!(value.low < 0.34 && value.high > 0.74, "both ranges: {value:?}");
        assert_eq!(figure.series[2].points.len(), 1, "the book says it of 5000 entries and more");
    }
}
