//! A node compressed with LZ4, for the inner nodes of lists: its entries without their free room.
//!
//! ```text
//!   | 2 | count 32 | bytes of the entries 32 | one LZ4 block |
//! ```
//!
//! The first byte distinguishes it from a node. A node that would not become an eighth smaller, and at least 8 bytes, is not
//! compressed: reading it costs more than that is worth.

use super::header::COMPRESSED;
use super::{Grow, Node, lay_out};
use crate::{Fault, Full};
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

const HEADER_BYTES: usize = 9;
const SAVED_BYTES_MIN: usize = 8;
const SAVED_PART_MIN: usize = 8;

/// Bytes that [`Compressor::compress`] needs to work in for a node whose entries take `bytes`.
pub fn compress_bound(bytes: usize) -> usize {
    HEADER_BYTES + get_maximum_output_size(bytes)
}

/// The compressor's table, kept from one node to the next: 8 KB, or 16 KB after an input of 64 KB or more.
pub struct Compressor {
    table: CompressTable,
}

impl Default for Compressor {
    fn default() -> Compressor {
        Compressor { table: CompressTable::small() }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    /// Compresses a node into `out`, of at least [`compress_bound`] bytes; returns how many were written. None if it is
    /// not worth it.
    ///
    /// # Panics
    /// If `out` is too small.
    pub fn compress(&mut self, node: Node<'_>, out: &mut [u8]) -> Option<usize> {
        assert!(out.len() >= compress_bound(node.bytes()), "compress_bound says how much to hand in");
        let whole = node.needed_bytes(0);
        let block = compress_into_with_table(node.entries(), &mut out[HEADER_BYTES..], &mut self.table).ok()?;
        let size = HEADER_BYTES + block;
        assert!(size <= out.len() && block > 0, "{} bytes were compressed to {block}", node.bytes());
        if size + SAVED_BYTES_MIN.max(whole / SAVED_PART_MIN) > whole {
            return None;
        }
        out[0] = COMPRESSED;
        out[1..5].copy_from_slice(&(node.len() as u32).to_le_bytes());
        out[5..9].copy_from_slice(&(node.bytes() as u32).to_le_bytes());
        Some(size)
    }
}

/// Whether the bytes are a compressed node.
#[inline]
pub fn is_compressed(buf: &[u8]) -> bool {
    buf.first() == Some(&COMPRESSED)
}

/// A compressed node, of which the numbers can be read.
#[derive(Clone, Copy, Debug)]
pub struct CompressedNode<'a> {
    buf: &'a [u8],
}

impl<'a> CompressedNode<'a> {
    /// Opens a compressed node.
    ///
    /// # Errors
    /// If it is not one, or is cut off.
    pub fn open(buf: &'a [u8]) -> Result<CompressedNode<'a>, Fault> {
        if !is_compressed(buf) {
            return Err(Fault { at: 0, what: "not a compressed node" });
        }
        if buf.len() <= HEADER_BYTES {
            return Err(Fault { at: buf.len(), what: "the header is cut off" });
        }
        Ok(CompressedNode { buf })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.number(1)
    }

    /// Whether there is no entry: never so, an empty node is not worth compressing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the entries.
    pub fn bytes(&self) -> usize {
        self.number(5)
    }

    fn number(&self, at: usize) -> usize {
        u32::from_le_bytes(self.buf[at..at + 4].try_into().expect("four bytes")) as usize
    }
}

/// Why a compressed node was not expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpandError {
    /// The buffer is too small.
    Full(Full),
    /// The bytes are no compressed node.
    Fault(Fault),
}

/// Expands a compressed node into `into`, of at least `buffer_bytes` of its [`CompressedNode::bytes`], its free room where
/// it will `grow`. What comes out is not checked further than its length: see [`Node::check`].
///
/// # Errors
/// If `into` is too small, or the bytes are damaged; then `into` holds no node.
pub fn expand(compressed: CompressedNode<'_>, into: &mut [u8], grow: Grow) -> Result<(), ExpandError> {
    let wrong = ExpandError::Fault(Fault { at: HEADER_BYTES, what: "the block does not hold the entries" });
    // Each entry takes a byte at least: a damaged header may claim more entries.
    if compressed.len() > compressed.bytes() {
        return Err(wrong);
    }
    let head = lay_out(into.len(), compressed.bytes(), compressed.len(), grow).map_err(ExpandError::Full)?;
    assert!(head.end - head.start == compressed.bytes(), "the room for the entries is what the header says");
    let entries = &mut into[head.start..head.end];
    match decompress_into(&compressed.buf[HEADER_BYTES..], entries) {
        Ok(bytes) if bytes == head.end - head.start => {
            head.write(into);
            Ok(())
        }
        _ => Err(wrong),
    }
}
