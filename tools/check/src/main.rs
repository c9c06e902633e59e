//! `varve-check`: checks the files that keep a data set, and says what is in them, without a server.
//!
//! ```text
//! varve-check rdb FILE [--json]     an RDB file of Varve, Redis or Valkey: every byte is read
//! varve-check aof FILE [--fix]      an append-only file: a manifest with all its files, or one file of commands
//! varve-check manifest FILE [--fix] the files that a manifest lists
//! ```
//! Nothing in an RDB file can be mended, as with redis-check-rdb: behind a fault nobody can tell where the next key begins.
//! It ends with 0 if the file is sound, with 1 if it is damaged or cannot be read, with 2 if the command line is wrong.
//! The report goes to standard output, a progress bar to standard error if that is a terminal. What --fix would take away
//! from whole data is asked first, and a line of standard input that begins with `y` is a yes; with `--yes` nothing is asked.

#![forbid(unsafe_code)]

mod aof;
mod judge;
mod manifest;
mod rdb;
mod report;
mod summary;

use crate::aof::Confirm;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Checks the files that keep a data set, and says what is in them
#[derive(Parser)]
#[command(name = "varve-check", version)]
struct Options {
    #[command(subcommand)]
    file: What,
}

#[derive(Subcommand)]
enum What {
    /// An RDB file of Varve, Redis or Valkey
    ///
    /// A start takes all of a file or nothing, and nothing in it can be mended: there is no telling where the next key of a
    /// damaged file begins. The report says where it is damaged, and what stands before that.
    Rdb {
        /// The file
        file: PathBuf,
        /// The report as JSON
        #[arg(long)]
        json: bool,
        /// How many of the largest keys are named
        #[arg(long, default_value_t = 10)]
        largest: usize,
        /// Databases of the server that is to load it
        #[arg(long, default_value_t = DATABASES)]
        databases: u64,
    },
    /// An append-only file: its manifest, or one file of commands
    Aof {
        /// The manifest, whose name ends with .manifest, or the file
        file: PathBuf,
        /// Cut the last file where it is torn, or where it is damaged
        #[arg(long)]
        fix: bool,
        /// Take everything that --fix asks for a yes
        #[arg(long, requires = "fix")]
        yes: bool,
        /// Databases of the server that is to load it
        #[arg(long, default_value_t = DATABASES)]
        databases: u64,
    },
    /// The manifest of an append-only file
    Manifest {
        /// The manifest
        file: PathBuf,
        /// Take files out of it that are not there, as far as a server can start without them
        #[arg(long)]
        fix: bool,
        /// Take everything that --fix asks for a yes
        #[arg(long, requires = "fix")]
        yes: bool,
    },
}

/// Databases that a server has by default.
const DATABASES: u64 = 16;

/// Asks on standard error; true if the line of standard input that follows begins with `y`.
fn ask(question: &str) -> bool {
    eprint!("{question}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).is_ok() && line.starts_with(['y', 'Y'])
}

/// The question before something is taken away; None if nothing is to be mended.
fn confirm(fix: bool, yes: bool) -> Option<Box<Confirm<'static>>> {
    fix.then(|| Box::new(move |question: &str| yes || ask(question)) as Box<Confirm<'static>>)
}

fn main() -> ExitCode {
    let (file, checked) = match Options::parse().file {
        What::Rdb { file, json, largest, databases } => {
            let checked = rdb::check(&file, largest, databases).map_err(|error| error.to_string()).map(|summary| {
                let text = if json { report::json(&summary) } else { report::table(&summary) };
                (text, summary.fault.is_none())
            });
            (file, checked)
        }
        What::Aof { file, fix, yes, databases } => {
            let checked = aof::check(&file, databases, confirm(fix, yes).as_deref_mut());
            (file, checked.map(|parts| (aof::table(&parts), aof::are_sound(&parts))))
        }
        What::Manifest { file, fix, yes } => {
            let checked = manifest::check(&file, confirm(fix, yes).as_deref_mut());
            (file, checked)
        }
    };
    match checked {
        Ok((text, is_sound)) => {
            print!("{text}");
            if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("varve-check: {}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}
