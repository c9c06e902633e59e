//! The commands: argument grammar, operation, reply, and under each handler its row.
//!
//! ```text
//!  a file:   fn get(ctx) -> CmdResult   const GET: Command = ..   ROWS, the file's commands
//!  a family: mod.rs lists the ROWS of its files;   this file lists the families
//! ```
//!
//! A command is three parts: grammar, an operation on the store, a reply. What needs the server (CLIENT, CONFIG, INFO, ...)
//! is the server's. Not here: parsing, locking, checks, counting (`varve-exec`).

#![forbid(unsafe_code)]

pub mod debug;
pub mod grammar;
pub mod lolwut;
pub mod memory;
pub mod segments;

mod blocking;
mod connection;
mod db;
mod digest;
mod errors;
mod generic;
mod hash;
mod introspect;
mod list;
mod server_rows;
mod set;
mod sha1;
mod string;
mod transaction;
mod zset;

use std::sync::LazyLock;

use varve_exec::{CommandSet, FileRows};

/// The rows of all families.
pub const FAMILIES: &[&[FileRows]] = &[
    string::ROWS,
    list::ROWS,
    hash::ROWS,
    set::ROWS,
    zset::ROWS,
    generic::ROWS,
    blocking::ROWS,
    &[connection::ROWS, db::ROWS, introspect::ROWS, lolwut::ROWS, memory::ROWS, segments::ROWS, transaction::ROWS],
    server_rows::ROWS,
];

/// All commands: those of this crate, and those that the server runs.
pub fn commands() -> &'static CommandSet {
    static ALL: LazyLock<CommandSet> = LazyLock::new(|| CommandSet::new(FAMILIES));
    &ALL
}
