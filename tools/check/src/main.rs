//! `varve-check`: checks the files that keep a data set, and says what is in them, without a server.
//!
//! ```text
//! varve-check rdb FILE [--json]     an RDB file of Varve, Redis or Valkey: every byte is read
//! ```
//! It ends with 0 if the file is sound, with 1 if it is damaged or cannot be read, with 2 if the command line is wrong.
//! The report goes to standard output, a progress bar to standard error if that is a terminal.

#![forbid(unsafe_code)]

mod rdb;
mod report;
mod summary;

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
    Rdb {
        /// The file
        file: PathBuf,
        /// The report as JSON
        #[arg(long)]
        json: bool,
        /// How many of the largest keys are named
        #[arg(long, default_value_t = 10)]
        largest: usize,
    },
}

fn main() -> ExitCode {
    let What::Rdb { file, json, largest } = Options::parse().file;
    match rdb::check(&file, largest) {
        Ok(summary) => {
            let text = if json { report::json(&summary) } else { report::table(&summary) };
            print!("{text}");
            if summary.fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("varve-check: {}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}
