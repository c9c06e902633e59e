//! RDB: the format in which Redis and Valkey keep a data set in a file, and one value in the reply of DUMP.
//!
//! ```text
//! file     | magic, version | aux .. | SELECTDB n | RESIZEDB | entry .. | SELECTDB .. | EOF | CRC-64 (8 bytes) |
//! entry    | expiry? | idle or frequency? | type | key | value |
//! value    by its type: one string; a number of elements and each of them; or a packed blob inside one string
//! DUMP     | type | value | version (2 bytes) | CRC-64 (8 bytes) |
//! ```
//!
//! - [`write`]: values go into a buffer part by part ([`RdbBuffer`]), and buffers into a file ([`Writer`]).
//! - [`read`]: a file comes as events ([`Reader`]), a value part by part. Every version and encoding is read; whatever
//!   the bytes are, the answer is events or an error that names the offset, the type and the key.
//! - [`distinct`]: whether a collection that is read has an element twice.
//! - [`dump`]: the frame of DUMP's payload.
//! - [`functions`]: libraries of functions in that frame.
//!
//! Not here: the store (this crate knows no key space), files (it knows `Read` and `Write` only), commands.

#![forbid(unsafe_code)]

pub mod crc;
pub mod distinct;
pub mod dump;
pub mod format;
pub mod functions;
pub mod read;
pub mod write;

mod lzf;

pub use distinct::Distinct;
pub use format::{Dialect, Kind, Magic, StreamTail};
pub use read::{Event, KeyHead, Part, ReadError, ReadFault, ReadStep, Reader, StringReader, ValueReader, is_rdb};
pub use write::{LargeText, LastUse, Listpack, Payload, RdbBuffer, Writer, put_large};
