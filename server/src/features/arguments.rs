//! What several families of commands read and reply.

use varve_base::number;
use varve_protocol::Reply;

/// A whole number as Redis reads one, None for anything else.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    number::parse_i64(text)
}

/// The reply of a family's HELP: a heading, the lines given, and the line about HELP itself.
pub(crate) fn help(out: &mut Reply, family: &str, lines: &[&str]) {
    out.array(lines.len() + 3);
    out.simple(&format!("{family} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| out.simple(line));
    out.simple("HELP");
    out.simple("    Print this help.");
}

/// True for what a client may be called: printable ASCII without spaces, or nothing.
pub(crate) fn is_name(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_graphic)
}
