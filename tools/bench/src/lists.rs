//! `lists`: the quicklist's result sheets again: pushes and pops at either end, 40 B and 1 KB, with a pipeline of 1000 and
//! without, at every fill, with a fresh server for each case.
//!
//! ```text
//!   case = fill, bytes, pipeline, end:   start -> pushes in turns -> memory -> pops in turns -> memory -> end
//! ```
//! The contenders and the floor take their turns one by one; a figure is the median of its turns, each a fifth of the requests, so
//! that the list grows from turn to turn. Where the lists of all of them would not fit into a third of the memory, one contender
//! runs after the other, with turns of the floor between its own. CPU is that from the first request of an operation until memory
//! is at rest: what a server frees behind its replies counts.

use crate::contenders::{self, Contender, Entrant};
use crate::floor::Under;
use crate::load::Traffic;
use crate::published::{self, Sheet};
use crate::report::{Better, Figure, Findings, Form, Role, Series, Target, Value};
use crate::size::Size;
use crate::turns::{Pace, must, pace, push, text, used_memory};
use crate::{kept, machine, say};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

const FILLS: &[i64] = &[-5, -4, -3, -2, -1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const QUICK_FILLS: &[i64] = &[-5, -2, 1, 16, 128, 16384];
const TINY_FILLS: &[i64] = &[-2, 16384];
/// Name of the row that has Redis's linked list before the quicklist; no server of today has it.
const ORIGINAL: &str = "original";
const ENDS: [[&str; 2]; 2] = [["LPUSH", "LPOP"], ["RPUSH", "RPOP"]];
/// redis-benchmark's connections, which the sheets were made with.
const CONNECTIONS: usize = 50;
/// Time between two looks at memory that falls.
const LOOK: Duration = Duration::from_millis(50);
/// Turns that the requests of a case are measured in.
const TURNS: u64 = 5;

/// How big a case is.
struct Scale {
    fills: &'static [i64],
    /// Requests of a case with the pipeline and without.
    requests: [u64; 2],
}

/// Pipelines of the sheets, the order of [`Scale::requests`].
const PIPELINES: [usize; 2] = [1000, 1];

/// A part of the sheets: one element size, one pipeline, one end.
#[derive(Clone, Copy)]
struct Column {
    bytes: usize,
    pipeline: usize,
    ops: [&'static str; 2],
    requests: u64,
}

/// The measured values of one contender at one fill: push, then pop.
#[derive(Serialize, Deserialize)]
struct Cell {
    parts: [Vec<Pace>; 2],
    /// used_memory and resident bytes: after the pushes without those of the empty server, after the pops all of them.
    memory: [[f64; 2]; 2],
}

/// The measured values at one fill.
#[derive(Default, Serialize, Deserialize)]
struct Cells {
    /// Of each contender; none where a rival has none.
    of: Vec<Option<Cell>>,
    /// CPU of a request at the floor: push, then pop.
    floor_us: [Vec<f64>; 2],
}

/// Parts of the sheets that can be run alone, with the bytes of an element and the pipeline: each of them ends within 90 minutes.
pub(crate) const PARTS: [(&str, usize, usize); 4] = [
    ("40b-piped", 40, PIPELINES[0]),
    ("40b-single", 40, PIPELINES[1]),
    ("1kb-piped", 1024, PIPELINES[0]),
    ("1kb-single", 1024, PIPELINES[1]),
];

/// Runs the experiment, or one of its [`PARTS`].
///
/// # Errors
/// When a server cannot be started or is lost, or there is no such part.
pub(crate) fn run(size: Size, part: Option<&str>) -> io::Result<Findings> {
    let scale = Scale {
        fills: size.pick(TINY_FILLS, QUICK_FILLS, FILLS),
        requests: size.pick([5_000, 1_000], [100_000, 10_000], [10_000_000, 1_000_000]),
    };
    let name = part.map_or("lists".to_string(), |part| format!("lists-{part}"));
    let mut findings = Findings::new(&name, "The quicklist's sheets");
    for (_, bytes, pipeline) in PARTS.into_iter().filter(|(name, ..)| part.is_none_or(|part| part == *name)) {
        let requests = scale.requests[usize::from(pipeline == PIPELINES[1])];
        for ops in ENDS {
            findings.add(kept::figures(figures(&scale, Column { bytes, pipeline, ops, requests })?)?);
        }
    }
    if findings.figures.is_empty() {
        return Err(io::Error::other(format!("no such part: {}", PARTS.map(|(name, ..)| name).join(", "))));
    }
    Ok(findings
        .note(format!(
            "{} pushes and pops a case with a pipeline of 1000 and {} without, {CONNECTIONS} connections; the sheets have \
             10 million and a million. Every case has a server of its own. The clients share the machine with the server, \
             so CPU per operation compares better than the rate.",
            scale.requests[0], scale.requests[1]
        ))
        .lost("The row \"original\" is drawn as published: Redis's linked list before the quicklist is in no server of today.")
        .lost(
            "The rule \"length only\", in which a fill of thousands of entries has nodes of megabytes, is drawn as \
             published: redis-server has had the 8 KB limit of the adaptive rule from its first quicklist on.",
        ))
}

/// All fills of a column: rates, CPU, memory.
fn figures(scale: &Scale, column: Column) -> io::Result<Vec<Figure>> {
    let entrants = contenders::entrants(&[]);
    let mut cells = Vec::new();
    for &fill in scale.fills {
        let name = format!("{} {} B, pipeline {}, fill {fill}", column.ops[0], column.bytes, column.pipeline);
        let found = kept::case(&name, || cells_of(&entrants, fill, column));
        cells.push(kept::or_unfinished(found, || drawn(scale, column, &entrants, &cells))?);
        say!("{name}: done");
    }
    Ok(drawn(scale, column, &entrants, &cells))
}

/// The figures of a column from the cells of its first fills; none without cells.
fn drawn(scale: &Scale, column: Column, entrants: &[Entrant], cells: &[Cells]) -> Vec<Figure> {
    let mut figures = Vec::new();
    if cells.is_empty() {
        return figures;
    }
    let fills: Vec<String> = scale.fills.iter().map(ToString::to_string).collect();
    let places: Vec<String> = [ORIGINAL.to_string()].into_iter().chain(fills).collect();
    for op in 0..2 {
        let name = format!("{} {} B, pipeline {}", column.ops[op], column.bytes, column.pipeline);
        let of = |from: fn(&Pace) -> f64| {
            series(entrants, cells, |cell| Value::of(cell.parts[op].iter().map(from).collect()))
        };
        let axis = "list-max-listpack-size (fill)";
        let mut rate = Figure::new(name.as_str(), "requests a second", Better::More, Form::Lines).over(axis, &places);
        rate.series = of(|pace| pace.per_s);
        rate.series.extend(published::sheet(Sheet::Rate, column.ops[op], column.bytes, column.pipeline, &places));
        let title = format!("{name}: server CPU");
        let mut cpu = Figure::new(title, "microseconds of CPU per operation", Better::Less, Form::Lines);
        cpu = cpu.over(axis, &places);
        cpu.series = of(|pace| pace.cpu_us);
        let mut line = Series::new("floor", Role::Floor);
        cells.iter().enumerate().for_each(|(fill, cells)| line.push(fill + 1, Value::of(cells.floor_us[op].clone())));
        cpu.series.push(line);
        figures.extend([rate, cpu]);
        figures.push(memory(entrants, cells, column, op, &places));
    }
    figures
}

/// used_memory per element after the pushes, or all of it after the pops.
fn memory(entrants: &[Entrant], cells: &[Cells], column: Column, op: usize, places: &[String]) -> Figure {
    let (unit, divisor) = match op {
        0 => ("bytes of used_memory per element", column.requests as f64),
        _ => ("bytes of used_memory", 1.0),
    };
    let name = format!("Memory after {}, {} B, pipeline {}", column.ops[op], column.bytes, column.pipeline);
    let mut figure = Figure::new(name, unit, Better::Less, Form::Lines).over("list-max-listpack-size (fill)", places);
    figure.series = series(entrants, cells, |cell| (cell.memory[op][0] / divisor).into());
    if op == 0 {
        let resident = series(entrants, cells, |cell| (cell.memory[op][1] / divisor).into());
        let named = resident.into_iter().map(|one| Series {
            name: format!("{}, resident", one.name),
            role: Role::Other,
            points: one.points,
        });
        figure.series.extend(named);
    }
    let published = published::sheet(Sheet::Memory, column.ops[op], column.bytes, column.pipeline, places);
    figure.series.extend(published.into_iter().map(|mut one| {
        for point in &mut one.points {
            let elements = published::elements(column.bytes, column.pipeline, &places[point.place]);
            point.value = if op == 0 { point.value.scaled(1.0 / elements) } else { point.value };
        }
        one
    }));
    figure.targets = vec![(op == 0).then_some(Target::Ratio(1.0)); places.len()];
    let about = match op {
        0 => {
            "The published values are of all memory; the measured ones are without that of the empty server. Resident \
              bytes are what the system gave."
        }
        _ => {
            "As soon as it falls no more. The list is empty, so these are the bytes of an empty server that has had a list. The \
             published server had 506 824 of them when it was new."
        }
    };
    figure.about(about)
}

/// A series for each contender, over the places behind "original".
fn series(entrants: &[Entrant], cells: &[Cells], value: impl Fn(&Cell) -> Value) -> Vec<Series> {
    let of = |(number, entrant): (usize, &Entrant)| {
        let mut series = Series::new(entrant.name.as_str(), entrant.role);
        let found = cells.iter().enumerate().filter_map(|(fill, cells)| Some((fill + 1, cells.of[number].as_ref()?)));
        found.for_each(|(place, cell)| series.push(place, value(cell)));
        series
    };
    entrants.iter().enumerate().map(of).collect()
}

/// Every contender's cell at a fill.
fn cells_of(entrants: &[Entrant], fill: i64, column: Column) -> io::Result<Cells> {
    let bytes = column.requests * (column.bytes as u64 + 64) * entrants.len() as u64;
    if bytes < machine::memory_bytes() / 3 {
        let mut sides =
            entrants.iter().map(|entrant| Side::of(entrant, fill, column)).collect::<io::Result<Vec<_>>>()?;
        return cells_together(&mut sides, column);
    }
    let mut all = Cells::default();
    for entrant in entrants {
        let alone = cells_together(&mut [Side::of(entrant, fill, column)?], column)?;
        all.of.extend(alone.of);
        for (all, floor_us) in all.floor_us.iter_mut().zip(alone.floor_us) {
            all.extend(floor_us);
        }
    }
    Ok(all)
}

/// A contender at a fill, while it is measured; a rival that has failed is gone from it.
struct Side<'e> {
    entrant: &'e Entrant,
    there: Option<There>,
}

/// A server that is there.
struct There {
    one: Contender,
    cell: Cell,
    /// The footprint of the empty server.
    empty: [f64; 2],
    /// Its CPU when the operation began.
    begun_ns: u64,
}

impl<'e> Side<'e> {
    /// Starts the server, and sets the fill.
    fn of(entrant: &'e Entrant, fill: i64, column: Column) -> io::Result<Side<'e>> {
        let started = entrant.start().and_then(|one| {
            one.set(&format!("list-max-ziplist-size {fill}"))?;
            // Pages of the program that a first command touches are not the list's.
            pace(&one.server, traffic(column, 100), &mut |out| push(out, &[b"RPUSH", b"warm", b"x"]))?;
            must(&mut one.server.connect()?, "DEL warm")?;
            let empty = footprint(&one)?;
            let cell = Cell { parts: [Vec::new(), Vec::new()], memory: [[0.0; 2]; 2] };
            Ok(There { one, cell, empty, begun_ns: 0 })
        });
        Ok(Side { entrant, there: contenders::spared(&entrant.name, entrant.role, started)? })
    }

    /// Does something with the server, if it is there; a rival that fails is there no more.
    fn with(&mut self, act: impl FnOnce(&mut There) -> io::Result<()>) -> io::Result<()> {
        let Some(there) = self.there.as_mut() else { return Ok(()) };
        if contenders::spared(&self.entrant.name, self.entrant.role, act(there))?.is_none() {
            self.there = None;
        }
        Ok(())
    }
}

/// The cells of servers that take turns.
fn cells_together(sides: &mut [Side<'_>], column: Column) -> io::Result<Cells> {
    let value = text(column.bytes as u64, column.bytes);
    let mut floor_us = [Vec::new(), Vec::new()];
    for (op, floor_us) in floor_us.iter_mut().enumerate() {
        let under = Under::load(&mut |out| write(out, column, op, &value))?;
        let plan = traffic(column, column.requests / TURNS);
        for side in sides.iter_mut() {
            side.with(|there| {
                there.begun_ns = there.one.server.cpu_ns()?;
                Ok(())
            })?;
        }
        for _ in 0..TURNS {
            for side in sides.iter_mut() {
                side.with(|There { one, cell, .. }| {
                    cell.parts[op].push(pace(&one.server, plan, &mut |out| write(out, column, op, &value))?);
                    Ok(())
                })?;
            }
            floor_us.push(under.pace(plan)?.cpu_us);
        }
        for side in sides.iter_mut() {
            side.with(|There { one, cell, empty, begun_ns }| {
                let full = rested(one)?;
                cell.memory[op] = if op == 0 { [full[0] - empty[0], full[1] - empty[1]] } else { full };
                let all_us = (one.server.cpu_ns()? - *begun_ns) as f64 / 1000.0 / (plan.requests * TURNS) as f64;
                charge(&mut cell.parts[op], all_us);
                Ok(())
            })?;
        }
    }
    Ok(Cells { of: sides.iter_mut().map(|side| side.there.take().map(|there| there.cell)).collect(), floor_us })
}

/// Charges the parts of an operation with what the server has spent between and behind them: their mean becomes `all_us`, the CPU of
/// an operation from the first part to the memory's rest, in microseconds.
fn charge(parts: &mut [Pace], all_us: f64) {
    let mean = parts.iter().map(|part| part.cpu_us).sum::<f64>() / parts.len() as f64;
    let more = (all_us - mean).max(0.0);
    parts.iter_mut().for_each(|part| part.cpu_us += more);
}

fn traffic(column: Column, requests: u64) -> Traffic {
    // Each connection has a batch on the way: a short run has fewer connections, so that its batches are whole.
    let connections = (requests / column.pipeline as u64).clamp(1, CONNECTIONS as u64) as usize;
    Traffic { connections, pipeline: column.pipeline, requests }
}

fn write(out: &mut Vec<u8>, column: Column, op: usize, value: &[u8]) {
    match op {
        0 => push(out, &[column.ops[0].as_bytes(), b"list", value]),
        _ => push(out, &[column.ops[1].as_bytes(), b"list"]),
    }
}

/// The footprint once it falls no more: elements that were popped last are freed behind their replies.
fn rested(one: &Contender) -> io::Result<[f64; 2]> {
    let mut last = footprint(one)?;
    loop {
        std::thread::sleep(LOOK);
        let now = footprint(one)?;
        if now[0] >= last[0] {
            return Ok(now);
        }
        last = now;
    }
}

/// used_memory and resident bytes.
fn footprint(one: &Contender) -> io::Result<[f64; 2]> {
    Ok([used_memory(&mut one.server.connect()?)?, one.server.memory()?.resident as f64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_behind_the_replies_counts() {
        let part = |cpu_us: f64| Pace { per_s: 1.0, cpu_us };
        let mut parts = [part(1.0), part(3.0)];
        charge(&mut parts, 2.5);
        assert_eq!(parts.map(|part| part.cpu_us), [1.5, 3.5]);
        charge(&mut parts, 1.0);
        assert_eq!(parts.map(|part| part.cpu_us), [1.5, 3.5], "a clock of ticks does not make it less");
    }
}
