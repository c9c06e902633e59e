//! Writing: values part by part into a buffer, buffers into a file.
//!
//! ```text
//!  holds a shard:     RdbBuffer   begin, count, element ..        no checksum, no compression: a copy of the bytes
//!                        │      marks: where strings stand that are long enough to compress
//!                        ▼
//!  writes the file:   Writer    compresses, sums, writes        header .. end
//! ```
//! So whoever holds a shard does little, and a collection may be spread over any number of buffers. Nothing checks that a
//! count is that of the elements behind it: the caller knows both.

mod buffer;
mod large;
mod listpack;
mod payload;

pub use buffer::{LastUse, RdbBuffer};
pub use large::{LargeText, put_large};
pub use listpack::Listpack;
pub use payload::Payload;

use std::io::{self, Write};

use crate::crc::Crc64;
use crate::format::op;
use crate::lzf::Table;

/// Bytes that are collected before they are written.
const PIECE_BYTES: usize = 64 << 10;

/// A file that is being written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    pending: Vec<u8>,
    crc: Option<Crc64>,
    table: Table,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// A file that goes to `out`; without `checksum` its last eight bytes are zeros, and readers check nothing.
    pub fn new(out: W, checksum: bool) -> Writer<W> {
        let crc = checksum.then(Crc64::new);
        Writer { out, pending: Vec::new(), crc, table: Table::default(), written: 0 }
    }

    /// Begins the file: the magic word and the version, which is [`crate::format::VERSION`] unless something in the file
    /// needs a later one.
    ///
    /// # Errors
    /// Those of the output; so with all that write.
    pub fn header(&mut self, version: u16) -> io::Result<()> {
        self.pending.extend_from_slice(format!("REDIS{version:04}").as_bytes());
        self.write_if(PIECE_BYTES)
    }

    /// Writes a buffer and empties it. Strings that the buffer has marked are compressed if that makes them shorter.
    pub fn put(&mut self, encoded: &mut RdbBuffer) -> io::Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut table = std::mem::take(&mut self.table);
        let done = encoded.compress_into(&mut table, &mut pending, |pending| self.drain(pending, PIECE_BYTES));
        (self.pending, self.table) = (pending, table);
        let done = done?;
        if encoded.bytes().len() - done >= PIECE_BYTES {
            self.write_if(0)?;
            self.write_through(&encoded.bytes()[done..])?;
        } else {
            self.pending.extend_from_slice(&encoded.bytes()[done..]);
            self.write_if(PIECE_BYTES)?;
        }
        encoded.clear();
        Ok(())
    }

    /// Writes bytes of a file that were encoded before, as they are.
    pub fn put_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_if(0)?;
        self.write_through(bytes)
    }

    /// Bytes of the file so far.
    pub fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// True before the header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the file and gives the output back, flushed.
    pub fn end(mut self) -> io::Result<W> {
        self.pending.push(op::EOF);
        self.write_if(0)?;
        let sum = self.crc.take().map_or(0, |crc| crc.get());
        self.out.write_all(&sum.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes what is collected if it has at least this number of bytes.
    fn write_if(&mut self, bytes: usize) -> io::Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let result = self.drain(&mut pending, bytes);
        self.pending = pending;
        result
    }

    /// Writes bytes that were collected if there are at least this number, and forgets them.
    fn drain(&mut self, pending: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
        if pending.len() < bytes || pending.is_empty() {
            return Ok(());
        }
        let result = self.write_through(pending);
        pending.clear();
        // A string of hundreds of megabytes leaves no buffer of its size.
        pending.shrink_to(4 * PIECE_BYTES);
        result
    }

    fn write_through(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(crc) = &mut self.crc {
            crc.add(bytes);
        }
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}
