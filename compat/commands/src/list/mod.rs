//! The commands on lists.
//!
//! `ends` pushes and pops, `moving` takes an element from one list to another, `read` answers elements and positions,
//! `middle` changes what lies between. The blocking commands are elsewhere.

pub(crate) mod ends;
mod middle;
mod moving;
mod read;
mod steps;

use varve_catalog::{Argument, word};
use varve_exec::{CmdResult, CommandError, FileRows};
use varve_protocol::Reply;
use varve_store::{ListEnd, ListPart};

use crate::grammar::is;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[ends::ROWS, middle::ROWS, moving::ROWS, read::ROWS];

const SIDES: &[Argument] = &[word("left", "LEFT"), word("right", "RIGHT")];

/// Reads LEFT or RIGHT.
pub(crate) fn end_of(argument: &[u8]) -> CmdResult<ListEnd> {
    if is(argument, "LEFT") {
        Ok(ListEnd::Front)
    } else if is(argument, "RIGHT") {
        Ok(ListEnd::Back)
    } else {
        Err(CommandError::SYNTAX)
    }
}

/// Writes an array of elements as an operation shows them.
#[inline]
pub(crate) fn write_part(out: &mut Reply, part: ListPart<'_>) {
    match part {
        ListPart::Len(count) => out.array(count as usize),
        ListPart::Element(text) => out.bulk(text),
    }
}

/// The event of elements that were added at an end.
pub(crate) fn pushed(end: ListEnd) -> &'static str {
    if end == ListEnd::Front { "lpush" } else { "rpush" }
}

/// The event of elements that were taken away at an end.
pub(crate) fn popped(end: ListEnd) -> &'static str {
    if end == ListEnd::Front { "lpop" } else { "rpop" }
}
