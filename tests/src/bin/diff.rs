//! The differential test as a tool: `cargo xtask diff --commands 1000000 --seed 7 --resp 3`.

#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use std::time::Instant;
use varve_testkit::server::valkey_binary;
use varve_testkit::{Launch, seed};
use varve_tests::collections::Types;
use varve_tests::run::{Plan, run, shrink};

/// Random commands to Varve and to redis-server; replies must be equal.
#[derive(Parser)]
struct Options {
    /// How many commands
    #[arg(long, default_value_t = 1_000_000)]
    commands: u64,
    /// Seed of the sequence; printed when not given
    #[arg(long)]
    seed: Option<u64>,
    /// Protocol version; both when not given
    #[arg(long)]
    resp: Option<u8>,
    /// Of the commands on collections only those on these: lists, hashes, sets, sorted; nothing but them with `alone`
    #[arg(long, value_delimiter = ',')]
    types: Vec<String>,
    /// Commands that are newer than redis-server 7.0.15, to a valkey-server (VARVE_VALKEY, or what `cargo xtask setup` installs)
    #[arg(long)]
    newer: bool,
    /// Nine of ten commands run scripts that are made at random
    #[arg(long)]
    scripts: bool,
    /// Compare the statistics after every command
    #[arg(long)]
    figures: bool,
    /// On a mismatch, look for the shortest sequence that shows one
    #[arg(long)]
    shrink: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| seed::seed("diff"));
    let versions = options.resp.map_or_else(|| vec![2, 3], |resp| vec![resp]);
    for resp in versions {
        let start = Instant::now();
        let plan = Plan {
            commands: options.commands,
            seed,
            resp,
            types: match (options.newer, options.scripts) {
                (true, _) => Types::NEWER,
                (_, true) => Types::SCRIPTS,
                _ => Types::named(&options.types),
            },
            figures: options.figures,
        };
        let start_both = || both(options.newer);
        let result = start_both().and_then(|(ours, theirs)| run(&ours, &theirs, plan));
        if let Err(log) = result {
            let log = if options.shrink { shrink(&start_both, plan, log.clone()).unwrap_or(log) } else { log };
            println!("{log}");
            return ExitCode::FAILURE;
        }
        println!(
            "resp {resp}: {} commands equal, seed {seed}, {:.1} s",
            options.commands,
            start.elapsed().as_secs_f64()
        );
    }
    ExitCode::SUCCESS
}

/// Of the peer, whose blocked clients wait for its clock.
const TICKS: &str = "hz 500";

fn both(newer: bool) -> Result<(varve_testkit::Server, varve_testkit::Server), String> {
    let start = |launch: Launch| launch.start().map_err(|error| error.to_string());
    let peer = match newer {
        false => Launch::peer(),
        true => Launch::binary(valkey_binary().ok_or("there is no valkey-server: cargo xtask setup installs one")?),
    };
    Ok((start(Launch::varve().config(TICKS))?, start(peer.config(TICKS))?))
}
