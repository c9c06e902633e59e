//! `longlist`: Redis in Action's listing 9.5, RPOPLPUSH on one list, and LINDEX, LSET, LRANGE of ten at its middle, at
//! lengths of 1 to 1 000 000 and every fill.

use crate::load::Traffic;
use crate::report::{self, Row, Target};
use crate::turns::{both, cpu_us, median, must, push};
use std::io;
use varve_testkit::Server;

const LENGTHS: [u64; 8] = [1, 100, 1000, 5000, 10_000, 50_000, 100_000, 1_000_000];
const QUICK_LENGTHS: [u64; 3] = [1, 1000, 5000];
const FILLS: [i64; 9] = [-1, -2, -3, -4, -5, 16, 128, 1024, 16384];
const OPS: [&str; 4] = ["RPOPLPUSH", "LINDEX", "LSET", "LRANGE"];
/// CPU that a length may take of what 1000 elements take: a rate of no less than 0.8.
const SLOWEST: f64 = 1.25;
/// And LINDEX in the middle of a million.
const MIDDLE: f64 = 1.3;

/// Runs the experiment.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool) -> io::Result<()> {
    let lengths: &[u64] = if quick { &QUICK_LENGTHS } else { &LENGTHS };
    let fills: &[i64] = if quick { &FILLS[1..2] } else { &FILLS };
    let mut rows = Vec::new();
    let servers = both(&[])?;
    for &fill in fills {
        println!("\nfill {fill}: length, then varve and peer for {OPS:?}, us");
        let mut table = Vec::new();
        for &length in lengths {
            let both = [figures(&servers[0], fill, length, quick)?, figures(&servers[1], fill, length, quick)?];
            let cells: Vec<String> =
                (0..OPS.len()).map(|op| format!("{:>8.3} {:>8.3}", both[0][op], both[1][op])).collect();
            println!("{length:>8} {}", cells.join(" | "));
            table.push((length, both));
        }
        let base = table.iter().find(|(length, _)| *length == 1000).expect("1000 is one of the lengths");
        for (at, op) in OPS.iter().enumerate() {
            let (length, worst) = table
                .iter()
                .map(|(length, both)| (length, both))
                .max_by(|a, b| a.1[0][at].total_cmp(&b.1[0][at]))
                .expect("lengths");
            let most = if *op == "LINDEX" { MIDDLE } else { SLOWEST };
            rows.push(Row {
                name: format!("{op}, fill {fill}: length {length} over 1000"),
                unit: "times",
                varve: worst[0][at] / base.1[0][at],
                peer: worst[1][at] / base.1[1][at],
                floor: None,
                target: Some(Target::AtMost(most)),
            });
        }
    }
    report::finish("longlist", &rows)
}

/// CPU per operation of each of the four.
fn figures(server: &Server, fill: i64, length: u64, quick: bool) -> io::Result<Vec<f64>> {
    let mut client = server.client();
    must(&mut client, &format!("CONFIG SET list-max-ziplist-size {fill}"))?;
    must(&mut client, "FLUSHALL")?;
    let mut number = 0_u64;
    let plan = Traffic { connections: 1, pipeline: 1000, requests: length };
    cpu_us(server, plan, &mut |out| {
        push(out, &[b"RPUSH", b"list", number.to_string().as_bytes()]);
        number += 1;
    })?;
    let middle = (length / 2).to_string().into_bytes();
    let last = (length / 2 + 9).to_string().into_bytes();
    let requests = if quick { 500 } else { 20_000 };
    let mut all = Vec::new();
    for op in OPS {
        let mut turns = Vec::new();
        for _ in 0..if quick { 1 } else { 3 } {
            let plan = Traffic { connections: 1, pipeline: 100, requests };
            turns.push(cpu_us(server, plan, &mut |out| match op {
                "RPOPLPUSH" => push(out, &[b"RPOPLPUSH", b"list", b"list"]),
                "LINDEX" => push(out, &[b"LINDEX", b"list", &middle]),
                "LSET" => push(out, &[b"LSET", b"list", &middle, &middle]),
                _ => push(out, &[b"LRANGE", b"list", &middle, &last]),
            })?);
        }
        all.push(median(turns));
    }
    Ok(all)
}
