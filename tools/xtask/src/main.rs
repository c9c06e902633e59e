//! `cargo xtask`: the project's commands.
//!
//! ```text
//! check     the quick loop: form, tidy, tests, benches once; no network, under five minutes
//! licences  licences, sources and advisories of the dependencies; no network
//! tidy      the house rules that a program can check
//! test      everything, on a fresh machine: installs what is missing, builds, runs all tests, prints one summary line
//! docs      writes the documents that are made of the tables: docs/configuration.md, docs/commands.md
//! diff      the differential test with a number of commands and a seed
//! package   Debian's packages, a tarball and the folder of an image, in target/package
//! release   the version, the changelog's heading, a commit and a tag; --dry-run says what it would do
//! peer      the peer's own Tcl suite
//! sentinel  the peer's suite about Sentinel
//! redis-py  redis-py's own test suite
//! smoke     redis-cli, redis-benchmark and redis-py against Varve
//! loops     instructions of some command loops, beside those recorded
//! bench     an experiment of tools/bench
//! long      a run that takes too long for `test`: soak, differential, trips, kills, fuzz, peer, package, tls, book
//! soak      for long: the stress test, the differential test and the soak at the memory limit in turns, or --limit alone
//! ```
//!
//! It runs programs and reads files; it never links the engine.

#![forbid(unsafe_code)]

mod all;
mod before;
mod book;
mod certificates;
mod harness;
mod lanes;
mod licences;
mod long;
mod loops;
mod package;
mod peer;
mod redispy;
mod release;
mod setup;
mod shell;
mod source;
mod tidy;

use clap::{Parser, Subcommand};
use shell::{Tally, workspace};
use std::process::ExitCode;

/// The project's commands
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Options {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The quick loop: form of all code and of the fuzz targets, tidy, tests of the crates, benches once; no network
    Check,
    /// Licences and sources of the dependencies, and advisories about them with VARVE_ADVISORIES=FOLDER; no network
    Licences,
    /// The house rules that a program can check
    Tidy,
    /// Installs what the tests need and runs everything
    Test {
        /// Commands of the differential test in each protocol
        #[arg(long, default_value_t = 50_000)]
        diff_commands: u64,
        /// Seconds of the stress test
        #[arg(long, default_value_t = 10)]
        stress_seconds: u64,
    },
    /// Writes docs/configuration.md and docs/commands.md of the server's tables
    Docs,
    /// The differential test: --commands N --seed S --resp 2|3
    #[command(trailing_var_arg = true)]
    Diff {
        /// Passed on
        #[arg(allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The version, the changelog's heading, a commit and a tag; nothing is sent anywhere
    Release {
        /// Three numbers with dots between them, for example 1.2.3
        version: String,
        /// Look whether all is ready, make the packages, and write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// The packages that people install: Debian's packages, a tarball, the folder of an image, in target/package
    Package,
    /// The peer's own Tcl suite with varve-server (or VARVE_SERVER) as its server
    Peer {
        /// Only these units, as in unit/type/string
        units: Vec<String>,
        /// Use no skip list
        #[arg(long)]
        no_skips: bool,
        /// By TLS
        #[arg(long)]
        tls: bool,
    },
    /// The peer's suite about Sentinel: its Sentinels watch varve-server (or VARVE_SERVER)
    Sentinel,
    /// redis-py's own test suite in both protocols; words go to pytest, as in tests/test_pubsub.py -k shard
    #[command(trailing_var_arg = true)]
    RedisPy {
        /// Passed on
        #[arg(allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// redis-cli, redis-benchmark and redis-py against Varve
    Smoke,
    /// An experiment: bench point [--quick]
    #[command(trailing_var_arg = true)]
    Bench {
        /// Passed on
        #[arg(allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Instructions of some command loops, counted by callgrind, beside those recorded in tools/loops/counts.txt
    Loops {
        /// Write the counts anew
        #[arg(long)]
        record: bool,
    },
    /// A run that takes too long for `test`; without a name, lists them
    Long {
        /// Which one
        name: Option<String>,
    },
    /// The stress test, the differential test and the soak at the memory limit in turns for some minutes
    Soak {
        /// How long
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// Only the soak at the memory limit, its slices and lock holds judged
        #[arg(long)]
        limit: bool,
    },
}

fn main() -> ExitCode {
    let tally = match Options::parse().command {
        Task::Check => all::check(),
        Task::Licences => licences::check(),
        Task::Tidy => tidy::run(&workspace()),
        Task::Test { diff_commands, stress_seconds } => all::test(diff_commands, stress_seconds),
        Task::Docs => all::docs(),
        Task::Diff { args } => all::tool("varve-diff", &args),
        Task::Release { version, dry_run } => release::run_all(&version, dry_run),
        Task::Package => package::all(),
        Task::Peer { units, no_skips, tls } => {
            let over = if tls { peer::Over::Tls } else { peer::Over::Tcp };
            setup::packages().and(|| peer::run(&peer::Choice { units, over, no_skips, at_length: false }))
        }
        Task::Sentinel => setup::packages().and(setup::peer_source).and(peer::sentinels::run),
        Task::RedisPy { words } => redispy::run_all(&words),
        Task::Smoke => setup::packages().and(setup::python).and(all::smoke),
        Task::Bench { args } => setup::packages().and(|| {
            if peer::defragmenting::is_wanted(&args) {
                peer::defragmenting::build();
            }
            all::bench(&args)
        }),
        Task::Long { name } => long::run(name.as_deref()),
        Task::Soak { minutes, limit: true } => all::soak_at_limit(minutes * 60, true),
        Task::Soak { minutes, limit: false } => all::soak(minutes),
        Task::Loops { record } => setup::packages().and(|| loops::all(record)),
    };
    finish(&tally)
}

/// The summary line stands alone on its line, in this form, whatever was run.
fn finish(tally: &Tally) -> ExitCode {
    for name in &tally.skips {
        println!("skipped: {name}");
    }
    for name in &tally.unsteady {
        println!("failed once, passed when it ran again: {name}");
    }
    for name in &tally.failures {
        println!("failed: {name}");
    }
    println!("{}", tally.summary());
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
