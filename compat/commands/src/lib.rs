//! The commands: argument grammar, operation, reply, and under each handler its row.
//!
//! ```text
//!  a file:   fn get(ctx) -> CmdResult   const GET: Command = ..   ROWS, the file's commands
//!  a family: mod.rs lists the ROWS of its files;   this file lists the families
//! ```
//!
//! A command is three parts: grammar, an operation on the store, a reply. What needs the server (CLIENT, CONFIG, INFO, ...)
//! stands in the server, its rows included. Not here: parsing, locking, checks, counting (`varve-exec`).

#![forbid(unsafe_code)]

pub mod debug;
pub mod dump;
pub mod grammar;
pub mod lolwut;
pub mod memory;
pub mod segments;
pub mod survey;

mod bitmap;
mod blocking;
mod cluster;
mod connection;
mod db;
mod digest;
mod errors;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod introspect;
mod list;
mod migrate;
mod set;
mod stream;
mod string;
mod transaction;
mod zset;

use std::sync::LazyLock;

use varve_exec::{CommandSet, FileRows};

/// The rows of all families that run without a server.
pub const FAMILIES: &[&[FileRows]] = &[
    string::ROWS,
    list::ROWS,
    hash::ROWS,
    set::ROWS,
    zset::ROWS,
    stream::ROWS,
    geo::ROWS,
    bitmap::ROWS,
    hyperloglog::ROWS,
    generic::ROWS,
    blocking::ROWS,
    dump::ROWS,
    migrate::ROWS,
    &[
        cluster::ROWS,
        connection::ROWS,
        db::ROWS,
        introspect::ROWS,
        lolwut::ROWS,
        memory::ROWS,
        segments::ROWS,
        transaction::ROWS,
    ],
];

/// The commands that run without a server, for tests and tools. DEBUG is among them: it ends a turn as a command of the
/// server's (`Exec::Server`), and its caller runs [`debug::run`].
pub fn commands() -> &'static CommandSet {
    static ALL: LazyLock<CommandSet> = LazyLock::new(|| CommandSet::new(&[FAMILIES, &[&[debug::ROWS]]].concat()));
    &ALL
}
