//! The envelope of Valkey's newer files: the whole file compressed, as a frame of LZ4.
//!
//! ```text
//! file   | "VCS" | version, 1 | codec, 1 for LZ4 | flags, 1: blocks have sums | kind, 1 for an RDB file | frame |
//! frame  | magic (4) | FLG | BD | length? (8) | dictionary? (4) | sum of these (1) | block .. | 0 (4) | sum? (4) |
//! FLG    | 01 | alone | block sums | length | whole's sum | 0 | dictionary |      bits 7 to 0
//! BD     | 0 | 4..7: blocks of 64 KB, 256 KB, 1 MB, 4 MB | 0000 |
//! block  | length, highest bit: not compressed (4) | bytes | sum? (4) |           numbers: low byte first
//! ```
//! Sums are of XXH32. Memory: one block, packed and unpacked, and 64 KB before it that its copies may come from. The sum of the
//! whole is passed over, since an RDB file ends with a sum of its own. Files are never written so.

use std::io::{ErrorKind, Read};

use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use xxhash_rust::xxh32::xxh32;

use crate::read::fault::ReadFault;

/// The first bytes of an envelope.
pub(crate) const MAGIC: [u8; 3] = *b"VCS";

/// Bytes that a block's copies may come from.
const WINDOW_BYTES: usize = 64 << 10;
const FRAME_MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();
/// The bit of a block's length that says that it is not compressed.
const PLAIN: u32 = 1 << 31;
/// The envelope's flag that says that blocks have sums, which the frame says too.
const FLAG_SUMS: u8 = 1;

const DAMAGED: ReadFault = ReadFault::Odd("a block of the compressed file is damaged");

/// Looks at what stands behind the envelope's magic word.
///
/// # Errors
/// It is compressed in another way, or is no RDB file.
pub(crate) fn check([version, codec, flags, kind]: [u8; 4]) -> Result<(), ReadFault> {
    match (version, codec, kind) {
        (1, 1, 1) if flags & !FLAG_SUMS == 0 => Ok(()),
        (1, 1, 1) => Err(ReadFault::Envelope("a flag that is not known")),
        (1, 1, _) => Err(ReadFault::Envelope("something that is no RDB file")),
        (1, 2, _) => Err(ReadFault::Envelope("Zstandard, which is not read: write it with LZ4, or uncompressed")),
        (1, ..) => Err(ReadFault::Envelope("a codec that is not known")),
        _ => Err(ReadFault::Envelope("a version that is not known")),
    }
}

/// A frame that is being unpacked.
#[derive(Debug)]
pub(crate) struct Frame<R> {
    input: R,
    /// Bytes that were read ahead, behind the envelope.
    ahead: Vec<u8>,
    at: usize,
    /// Bytes of the file that were taken.
    taken: u64,
    has_block_sums: bool,
    has_whole_sum: bool,
    block_bytes: usize,
    packed: Vec<u8>,
    /// The window, then the block that is being shown.
    plain: Vec<u8>,
    shown: usize,
    has_ended: bool,
}

impl<R: Read> Frame<R> {
    /// The frame that stands behind an envelope: `ahead` was read of it, `taken` bytes of the file before it.
    ///
    /// # Errors
    /// It is no frame of LZ4, or one with a dictionary.
    pub(crate) fn open(input: R, ahead: Vec<u8>, taken: u64) -> Result<Frame<R>, ReadFault> {
        let mut frame = Frame {
            input,
            ahead,
            at: 0,
            taken,
            has_block_sums: false,
            has_whole_sum: false,
            block_bytes: 0,
            packed: Vec::new(),
            plain: Vec::new(),
            shown: 0,
            has_ended: false,
        };
        frame.head()?;
        Ok(frame)
    }

    /// Bytes of the file that were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Puts the next bytes into `to`; 0 at the frame's end.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> Result<usize, ReadFault> {
        while self.shown == self.plain.len() {
            if self.has_ended {
                return Ok(0);
            }
            self.next_block()?;
        }
        let count = to.len().min(self.plain.len() - self.shown);
        to[..count].copy_from_slice(&self.plain[self.shown..self.shown + count]);
        self.shown += count;
        Ok(count)
    }

    fn head(&mut self) -> Result<(), ReadFault> {
        const STRANGE: ReadFault = ReadFault::Odd("behind the envelope stands no frame of LZ4");
        let magic: [u8; 4] = self.array()?;
        let [flags, size] = self.array()?;
        if magic != FRAME_MAGIC || flags >> 6 != 1 || flags & 0b11 != 0 {
            return Err(STRANGE);
        }
        self.has_block_sums = flags & 1 << 4 != 0;
        self.has_whole_sum = flags & 1 << 2 != 0;
        self.block_bytes = match size >> 4 {
            size @ 4..=7 => 1 << (8 + 2 * size),
            _ => return Err(STRANGE),
        };
        let mut descriptor = vec![flags, size];
        if flags & 1 << 3 != 0 {
            descriptor.extend_from_slice(&self.array::<8>()?);
        }
        let [sum] = self.array()?;
        if sum == (xxh32(&descriptor, 0) >> 8) as u8 { Ok(()) } else { Err(STRANGE) }
    }

    /// Unpacks the next block behind the window, or finds the end.
    fn next_block(&mut self) -> Result<(), ReadFault> {
        let length = u32::from_le_bytes(self.array()?);
        if length == 0 {
            if self.has_whole_sum {
                self.array::<4>()?;
            }
            self.has_ended = true;
            return Ok(());
        }
        let bytes = (length & !PLAIN) as usize;
        if bytes > self.block_bytes {
            return Err(DAMAGED);
        }
        let mut packed = std::mem::take(&mut self.packed);
        packed.resize(bytes, 0);
        self.take(&mut packed)?;
        if self.has_block_sums && u32::from_le_bytes(self.array()?) != xxh32(&packed, 0) {
            return Err(DAMAGED);
        }
        self.plain.drain(..self.plain.len().saturating_sub(WINDOW_BYTES));
        let before = self.plain.len();
        if length & PLAIN != 0 {
            self.plain.extend_from_slice(&packed);
        } else {
            let mut window = std::mem::take(&mut self.plain);
            window.resize(before + self.block_bytes, 0);
            let (dictionary, block) = window.split_at_mut(before);
            // In a frame whose blocks stand alone no copy comes from before: the window does no harm there.
            let unpacked = match dictionary {
                [] => decompress_into(&packed, block),
                _ => decompress_into_with_dict(&packed, block, dictionary),
            };
            window.truncate(before + unpacked.map_err(|_| DAMAGED)?);
            self.plain = window;
        }
        (self.shown, self.packed) = (before, packed);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadFault> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    /// Fills `to` from the file.
    fn take(&mut self, to: &mut [u8]) -> Result<(), ReadFault> {
        let ready = to.len().min(self.ahead.len() - self.at);
        to[..ready].copy_from_slice(&self.ahead[self.at..self.at + ready]);
        self.at += ready;
        self.input.read_exact(&mut to[ready..]).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => ReadFault::Truncated,
            _ => ReadFault::Io(error),
        })?;
        self.taken += to.len() as u64;
        Ok(())
    }
}
