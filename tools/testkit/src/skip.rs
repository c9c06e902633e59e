//! Tests that have nothing to look at on this machine, and say so.
//!
//! ```text
//!   skipped: there is no chromium        a line of standard output, past the harness's capture, which keeps what passed tests print
//! ```
//! `cargo xtask test` counts these lines, and names each of them in front of its summary.

use std::fmt::Display;
use std::io::{self, Write};

use crate::process::has_program;

/// Says that a test, or a part of one, is skipped, and why.
pub fn skipped(why: impl Display) {
    // In one piece: tests beside this one print as well.
    let _ = io::stdout().lock().write_all(format!("skipped: {why}\n").as_bytes());
}

/// True if a program is on the path; else the test that needs it is skipped, which is said.
#[must_use]
pub fn has_or_skipped(program: &str) -> bool {
    let found = has_program(program);
    if !found {
        skipped(format_args!("there is no {program}"));
    }
    found
}
