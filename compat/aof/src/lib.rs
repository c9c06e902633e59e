//! The append-only file of Redis 7 as data: its manifest, the names of its files, the commands in them and the notes between
//! them.
//!
//! ```text
//!  appendonlydir/
//!    appendonly.aof.manifest          file appendonly.aof.2.base.rdb seq 2 type b
//!                                     file appendonly.aof.5.incr.aof seq 5 type i
//!    appendonly.aof.2.base.rdb        all data at an instant: an RDB file, or commands
//!    appendonly.aof.5.incr.aof        commands since then
//! ```
//! Not here: files, and how commands run. Whoever has the files reads and writes them; the server and the checker share
//! what they mean.

#![forbid(unsafe_code)]

mod manifest;
mod note;
mod reader;
mod request;
mod sieve;

pub use manifest::{Entry, Form, Manifest, ManifestError, Names};
pub use note::{Note, StreamPlace, StreamTrack, own_selection, put_sent};
pub use reader::{CommandReader, FileFault, Found, Piece, nth_command};
pub use request::{put_head, put_request, put_word, select, select_len};
pub use sieve::{Sieve, SieveFault};
