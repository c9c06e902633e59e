//! `varve-check`: checks the files that keep a data set, and says what is in them, without a server.
//!
//! ```text
//! varve-check rdb FILE [--json]     an RDB file of Varve, Redis or Valkey: every byte is read
//! varve-check aof FILE [--fix]      an append-only file: a manifest with all its files, or one file of commands
//! varve-check manifest FILE         the files that a manifest lists
//! ```
//! It ends with 0 if the file is sound, with 1 if it is damaged or cannot be read, with 2 if the command line is wrong.
//! The report goes to standard output, a progress bar to standard error if that is a terminal.

#![forbid(unsafe_code)]

mod aof;
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
    /// An append-only file: its manifest, or one file of commands
    Aof {
        /// The manifest, whose name ends with .manifest, or the file
        file: PathBuf,
        /// Cut the last file where it is torn
        #[arg(long)]
        fix: bool,
    },
    /// The manifest of an append-only file
    Manifest {
        /// The manifest
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let (file, checked) = match Options::parse().file {
        What::Rdb { file, json, largest } => {
            let checked = rdb::check(&file, largest).map_err(|error| error.to_string()).map(|summary| {
                let text = if json { report::json(&summary) } else { report::table(&summary) };
                (text, summary.fault.is_none())
            });
            (file, checked)
        }
        What::Aof { file, fix } => {
            let checked = aof::check(&file, fix).map(|parts| (aof::table(&parts), aof::are_sound(&parts)));
            (file, checked)
        }
        What::Manifest { file } => {
            let checked = aof::manifest(&file).map(|found| (String::from_utf8_lossy(&found.text()).into_owned(), true));
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
