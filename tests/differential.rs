//! Varve and the peer answer the same to random commands: VARVE_DIFF_COMMANDS of them (100 000) in each protocol.

#![forbid(unsafe_code)]

use varve_testkit::server::valkey_binary;
use varve_testkit::skip::skipped;
use varve_testkit::{Launch, seed};
use varve_tests::collections::Types;
use varve_tests::run::{Plan, run};

/// Commands of the comparison with a valkey-server, in each protocol.
const COMMANDS_OF_VALKEY: u64 = 20_000;

fn differential(resp: u8) {
    let commands = std::env::var("VARVE_DIFF_COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let seed = seed::seed("differential");
    let ours = Launch::varve().start().expect("varve-server starts");
    let theirs = Launch::peer().start().expect("redis-server starts");
    if let Err(log) = run(&ours, &theirs, Plan { commands, seed, resp, types: Types::ALL, figures: false }) {
        panic!("{log}");
    }
}

/// A valkey-server comes with the Python packages of `cargo xtask setup`; without one there is nothing to compare with.
#[test]
fn newer_commands_beside_valkey() {
    let Some(valkey) = valkey_binary() else {
        skipped("there is no valkey-server; cargo xtask setup installs one, or VARVE_VALKEY names it");
        return;
    };
    for resp in [2, 3] {
        let ours = Launch::varve().start().expect("varve-server starts");
        let theirs = Launch::binary(&valkey).start().expect("valkey-server starts");
        let (commands, seed) = (COMMANDS_OF_VALKEY, seed::seed("newer"));
        if let Err(log) = run(&ours, &theirs, Plan { commands, seed, resp, types: Types::NEWER, figures: false }) {
            panic!("{log}");
        }
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
