//! Command loops for counting instructions: one loop of requests through the executor, without a socket.
//!
//! ```text
//!   varve-loops NAME
//!     fill -> background until nothing is owed -> one batch to warm up -> measured_loop: 200 batches of 100 requests
//!                                                                         parse, execute, reply, as a worker does
//! ```
//! `cargo xtask loops` runs this under callgrind, which counts inside [`measured_loop`] only, and compares with what is
//! recorded in `tools/loops/counts.txt`. So the same build must execute the same instructions at any time anywhere: the
//! seeds are fixed, the clock stands still, and no background runs between the batches. In two loops ten milliseconds pass
//! between batches, with background steps that no clock ends.
//!
//! It measures no time: the experiments of tools/bench do.

#![forbid(unsafe_code)]

mod connection;
mod scripts;

use connection::{Connections, Part};
use scripts::{SCRIPTS, Script};

use std::ops::Range;
use std::process::ExitCode;

/// Batches of a loop.
const BATCHES: u64 = 200;
/// Requests of a batch: what a client sends that pipelines 100.
const PIPELINE: u64 = 100;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(script) = SCRIPTS.iter().find(|script| script.name == name) else {
        let names: Vec<&str> = SCRIPTS.iter().map(|script| script.name).collect();
        eprintln!("which loop? {}", names.join(" "));
        return ExitCode::FAILURE;
    };
    let replies = run(script, BATCHES);
    println!("{} operations, {replies} bytes of replies", BATCHES * PIPELINE);
    ExitCode::SUCCESS
}

/// Fills a store and runs a loop over it; the bytes of its replies.
fn run(script: &Script, batches: u64) -> u64 {
    let mut connections = Connections::new(script.setting);
    let mut number = 0;
    while number < script.fill_requests {
        let end = script.fill_requests.min(number + PIPELINE);
        let mut part = Part::default();
        (number..end).for_each(|n| (script.fill)(n, &mut part.bytes));
        connections.serve_checked(&mut part);
        number = end;
    }
    connections.rest();
    let mut batches: Vec<Vec<Part>> =
        (0..=batches).map(|at| parts(script, at * PIPELINE..(at + 1) * PIPELINE)).collect();
    let (warm, measured) = batches.split_at_mut(1);
    warm[0].iter_mut().for_each(|part| connections.serve_checked(part));
    measured_loop(&mut connections, measured, script.ages)
}

/// The requests of a batch: those that follow one another and are of one connection are sent together.
fn parts(script: &Script, numbers: Range<u64>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for n in numbers {
        let client = (script.client)(n);
        if parts.last().is_none_or(|part| part.client != client) {
            parts.push(Part { client, bytes: Vec::new() });
        }
        let part = parts.last_mut().expect("one was pushed");
        (script.request)(n, &mut part.bytes);
    }
    parts
}

/// The function that callgrind counts. `cargo xtask loops` knows its name; a closure in it would match that name too, so it
/// has none.
#[inline(never)]
fn measured_loop(connections: &mut Connections, batches: &mut [Vec<Part>], ages: bool) -> u64 {
    let mut replies = 0;
    for batch in batches {
        if ages {
            connections.pass_time();
        }
        for part in batch {
            replies += connections.serve(part) as u64;
        }
    }
    replies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_runs_and_replies_the_same_each_time() {
        for script in SCRIPTS {
            let replies = run(script, 2);
            assert!(replies >= 2 * PIPELINE * 4, "{}: {replies} bytes", script.name);
            assert_eq!(replies, run(script, 2), "{}", script.name);
        }
    }
}
