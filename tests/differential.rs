//! Varve and the peer answer the same to random commands: VARVE_DIFF_COMMANDS of them (100 000) in each protocol.

#![forbid(unsafe_code)]

use varve_testkit::{Launch, seed};
use varve_tests::collections::Types;
use varve_tests::run::{Plan, run};

fn differential(resp: u8) {
    let commands = std::env::var("VARVE_DIFF_COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let seed = seed::seed("differential");
    let ours = Launch::varve().start().expect("varve-server starts");
    let theirs = Launch::peer().start().expect("redis-server starts");
    if let Err(log) = run(&ours, &theirs, Plan { commands, seed, resp, types: Types::ALL, figures: false }) {
        panic!("{log}");
    }
}

#[test]
fn random_commands_in_resp2() {
    differential(2);
}

#[test]
fn random_commands_in_resp3() {
    differential(3);
}
