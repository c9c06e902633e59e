//! `varve-top`: shows in a terminal what a server does, as the page of the metrics port does in a browser.
//!
//! ```text
//!   options ──▶ connection ──▶ questions: INFO, HOTKEYS TOP, MEMORY PREFIXES, CLIENT LIST ...
//!                                  │ replies, each second
//!                                  ▼
//!               model: figures of the last look, and rates of the last minutes
//!                                  │
//!                                  ▼
//!               view: one of seven, drawn in the terminal (live) or printed as text (once)
//! ```
//! It ends with 0 after its work, with 1 if the server does not answer, with 2 if the command line is wrong. Only what the view
//! needs that is shown is asked for. It changes nothing on the server.

#![forbid(unsafe_code)]

mod connection;
mod live;
mod model;
mod once;
mod options;
mod questions;
mod tls;
mod view;

use clap::Parser;
use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::parse();
    let shown = if options.once { once::print(&options) } else { live::run(&options) };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("varve-top: {error}");
            ExitCode::FAILURE
        }
    }
}
