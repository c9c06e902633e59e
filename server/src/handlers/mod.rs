//! The handlers of commands that the server runs, one file a family. host.rs has the table.

pub(crate) mod auth;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod debug;
pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod pause;
pub(crate) mod pubsub;
pub(crate) mod shutdown;
pub(crate) mod slowlog;
pub(crate) mod tracking;

use varve_base::number;
use varve_protocol::Reply;

/// A whole number as Redis reads one, None for anything else.
fn integer(text: &[u8]) -> Option<i64> {
    number::parse_i64(text)
}

/// The reply of a family's HELP: a heading, the lines given, and the line about HELP itself.
fn help(out: &mut Reply, family: &str, lines: &[&str]) {
    out.array(lines.len() + 3);
    out.simple(&format!("{family} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| out.simple(line));
    out.simple("HELP");
    out.simple("    Print this help.");
}
