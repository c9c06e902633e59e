//! Command loops for counting instructions: one loop of requests through the executor, without a socket.
//!
//! ```text
//!   varve-loops NAME
//!     fill -> background until nothing is owed -> one batch to warm up -> measured_loop: 200 batches of 100 requests
//!                                                                         parse, execute, reply, as a worker does
//! ```
//! `cargo xtask loops` runs this under callgrind, which counts inside [`measured_loop`] only, and compares with what is
//! recorded in `tools/loops/counts.txt`. So the same build must execute the same instructions at any time anywhere: the
//! seeds are fixed, the clock stands still, and no background runs between the batches.
//!
//! It measures no time: the experiments of tools/bench do.

#![forbid(unsafe_code)]

mod connection;
mod scripts;

use connection::Connection;
use scripts::SCRIPTS;
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
fn run(script: &scripts::Script, batches: u64) -> u64 {
    let mut connection = Connection::new();
    let mut number = 0;
    while number < script.fill_requests {
        let end = script.fill_requests.min(number + PIPELINE);
        let mut batch = Vec::new();
        (number..end).for_each(|n| (script.fill)(n, &mut batch));
        connection.serve_checked(&mut batch);
        number = end;
    }
    connection.settle();
    let mut batches: Vec<Vec<u8>> = (0..=batches)
        .map(|at| {
            let mut batch = Vec::new();
            (0..PIPELINE).for_each(|n| (script.request)(at * PIPELINE + n, &mut batch));
            batch
        })
        .collect();
    let (warm, measured) = batches.split_at_mut(1);
    connection.serve_checked(&mut warm[0]);
    measured_loop(&mut connection, measured)
}

/// What callgrind counts. Its name is known to `cargo xtask loops`; nothing in it may be a closure, whose name would
/// match too.
#[inline(never)]
fn measured_loop(connection: &mut Connection, batches: &mut [Vec<u8>]) -> u64 {
    let mut replies = 0;
    for batch in batches {
        replies += connection.serve(batch) as u64;
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
