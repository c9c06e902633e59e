//! `lists`: the quicklist's result sheets again: pushes and pops at either end, 40 B and 1 KB, pipelined and not, at every
//! fill, beside the peer.
//!
//! A cell is the server's CPU per operation; used memory is read when the list is full. The sheets' rows are fills of 1 to
//! 16384 entries and -1 to -5.

use crate::load::Traffic;
use crate::report::{self, Row, Target};
use crate::turns::{both, cpu_us, median, must, push, text, used_memory};
use std::io;
use varve_testkit::Server;

const FILLS: [i64; 20] = [-5, -4, -3, -2, -1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const QUICK_FILLS: [i64; 3] = [-2, 2, 16384];
const OPS: [&str; 4] = ["LPUSH", "LPOP", "RPUSH", "RPOP"];
/// How far above the best fill of two or more entries the others may be.
const FLAT: f64 = 1.1;

/// One column of the sheet: CPU of each fill, Varve's and the peer's.
struct Column {
    name: String,
    cells: Vec<(i64, [f64; 2])>,
}

/// Runs the experiment.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool) -> io::Result<()> {
    let fills: &[i64] = if quick { &QUICK_FILLS } else { &FILLS };
    let turns = if quick { 1 } else { 3 };
    let servers = both(&[])?;
    let mut rows = Vec::new();
    for bytes in [40, 1024] {
        let mut memory = Column { name: format!("used memory, {bytes} B"), cells: Vec::new() };
        for pipeline in [1000, 1] {
            let requests = match (quick, pipeline) {
                (true, _) => 2_000,
                (false, 1) => 10_000,
                (false, _) => 200_000,
            };
            let plan = Traffic { connections: 1, pipeline, requests };
            let mut columns: Vec<Column> = OPS
                .iter()
                .map(|op| Column { name: format!("{op} {bytes} B, pipeline {pipeline}"), cells: Vec::new() })
                .collect();
            for &fill in fills {
                let both =
                    [cells(&servers[0], fill, bytes, plan, turns)?, cells(&servers[1], fill, bytes, plan, turns)?];
                for (op, column) in columns.iter_mut().enumerate() {
                    column.cells.push((fill, [both[0].cpu[op], both[1].cpu[op]]));
                }
                if pipeline > 1 {
                    memory.cells.push((fill, [both[0].memory, both[1].memory]));
                }
            }
            for column in &columns {
                show(column, "us");
                summarise(column, &mut rows);
            }
        }
        show(&memory, "MB");
        let worst = memory.cells.iter().max_by(|a, b| (a.1[0] / a.1[1]).total_cmp(&(b.1[0] / b.1[1]))).expect("fills");
        rows.push(Row {
            name: format!("{}, worst fill ({})", memory.name, worst.0),
            unit: "MB",
            varve: worst.1[0],
            peer: worst.1[1],
            floor: None,
            target: Some(Target::Ratio(1.0)),
        });
    }
    report::finish("lists", &rows)
}

struct Cells {
    cpu: Vec<f64>,
    memory: f64,
}

/// The four operations at one fill: medians of some turns.
fn cells(server: &Server, fill: i64, bytes: usize, plan: Traffic, turns: usize) -> io::Result<Cells> {
    let mut client = server.client();
    must(&mut client, &format!("CONFIG SET list-max-ziplist-size {fill}"))?;
    let value = text(bytes as u64, bytes);
    let mut figures = vec![Vec::new(); OPS.len()];
    let mut memory = 0.0;
    for _ in 0..turns {
        must(&mut client, "FLUSHALL")?;
        let empty = used_memory(&mut client)?;
        for (op, figures) in OPS.iter().zip(&mut figures) {
            let is_push = op.ends_with("PUSH");
            figures.push(cpu_us(server, plan, &mut |out| {
                if is_push {
                    push(out, &[op.as_bytes(), b"list", &value])
                } else {
                    push(out, &[op.as_bytes(), b"list"])
                }
            })?);
            if is_push {
                memory = (used_memory(&mut client)? - empty) / f64::from(1 << 20);
            }
        }
    }
    Ok(Cells { cpu: figures.into_iter().map(median).collect(), memory })
}

fn show(column: &Column, unit: &str) {
    println!("\n{} ({unit}): fill, varve, peer", column.name);
    for (fill, [varve, peer]) in &column.cells {
        println!("{fill:>7} {varve:>9.3} {peer:>9.3}");
    }
}

/// The flatness of Varve's curve, and the fill at which it is worst beside the peer.
fn summarise(column: &Column, rows: &mut Vec<Row>) {
    let of_several = column.cells.iter().filter(|(fill, _)| *fill != 1).map(|(_, cell)| cell[0]);
    let best = of_several.clone().fold(f64::INFINITY, f64::min);
    let worst = of_several.fold(0.0, f64::max);
    let name = format!("{}: worst fill over best", column.name);
    let target = Some(Target::AtMost(FLAT));
    rows.push(Row { name, unit: "times", varve: worst / best, peer: 1.0, floor: None, target });
    let beside = column.cells.iter().max_by(|a, b| (a.1[0] / a.1[1]).total_cmp(&(b.1[0] / b.1[1]))).expect("fills");
    rows.push(Row {
        name: format!("{}, worst ({})", column.name, beside.0),
        unit: "us",
        varve: beside.1[0],
        peer: beside.1[1],
        floor: None,
        target: Some(Target::Ratio(1.0)),
    });
}
