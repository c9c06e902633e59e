//! The bytes of a file: buffered, counted and summed.
//!
//! ```text
//! buffer   | summed ..... | read ....... | free |
//!          0            summed  at      end
//! ```
//! A length that lies costs no memory: a string grows with the bytes that come. The CRC is computed over what was read
//! when the buffer is filled again, in large pieces.

use std::io::{ErrorKind, Read};

use crate::crc::Crc64;
use crate::read::envelope::Frame;
use crate::read::fault::ReadFault;

/// Bytes of the buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// Where the bytes come from.
#[derive(Debug)]
enum Input<R> {
    File(R),
    Frame(Box<Frame<R>>),
    /// Between the two, and for good where the frame is damaged in front.
    Gone,
}

/// The bytes of a file, from front to back.
#[derive(Debug)]
pub(crate) struct Source<R> {
    input: Input<R>,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
    summed: usize,
    /// Offset in the file of the buffer's first byte.
    base: u64,
    crc: Option<Crc64>,
    /// Bytes that are read are also kept here.
    copy: Option<Vec<u8>>,
    /// Work beside that of reading, see [`Source::work`].
    worked: u64,
}

impl<R: Read> Source<R> {
    /// A file of which `size_hint` bytes are expected, summed or not.
    pub(crate) fn new(input: R, size_hint: usize, summed: bool) -> Source<R> {
        let bytes = size_hint.clamp(64, BUFFER_BYTES);
        Source {
            input: Input::File(input),
            buffer: vec![0; bytes].into_boxed_slice(),
            at: 0,
            end: 0,
            summed: 0,
            base: 0,
            crc: summed.then(Crc64::new),
            copy: None,
            worked: 0,
        }
    }

    /// The rest is another input from its first byte on. The buffer stays.
    pub(crate) fn again(&mut self, input: R) {
        let (buffer, summed) = (std::mem::take(&mut self.buffer), self.crc.is_some());
        *self = Source { buffer, ..Source::new(input, 0, summed) };
    }

    /// A measure of the work that was done, which grows only: bytes that were read or expanded, and [`Source::worked`].
    #[inline]
    pub(crate) fn work(&self) -> u64 {
        self.offset() + self.worked
    }

    /// Counts work that takes as long as expanding this number of bytes.
    #[inline]
    pub(crate) fn worked(&mut self, bytes: u64) {
        self.worked += bytes;
    }

    /// Bytes of the buffer.
    pub(crate) fn held_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Bytes of the file that were read: of a compressed file others than the bytes that it unpacks to.
    pub(crate) fn file_offset(&self) -> u64 {
        match &self.input {
            Input::Frame(frame) => frame.taken(),
            Input::File(_) | Input::Gone => self.offset(),
        }
    }

    /// Whether the bytes are those that a compressed file unpacks to.
    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self.input, Input::Frame(_))
    }

    /// The rest is a compressed file: its bytes are counted and summed from here on, and nothing before.
    pub(crate) fn begin_frame(&mut self) -> Result<(), ReadFault> {
        let Input::File(input) = std::mem::replace(&mut self.input, Input::Gone) else {
            return Err(ReadFault::Envelope("a compressed file"));
        };
        let (ahead, taken) = (self.buffer[self.at..self.end].to_vec(), self.offset());
        self.input = Input::Frame(Box::new(Frame::open(input, ahead, taken)?));
        (self.at, self.end, self.summed, self.base) = (0, 0, 0, 0);
        self.crc = self.crc.as_ref().map(|_| Crc64::new());
        Ok(())
    }

    /// The CRC of all bytes that were read; None if they are not summed.
    pub(crate) fn crc(&mut self) -> Option<u64> {
        self.sum();
        self.crc.as_ref().map(Crc64::get)
    }

    /// Sums no more: the file has no checksum, or nobody compares it.
    pub(crate) fn stop_summing(&mut self) {
        self.crc = None;
    }

    /// True if nothing follows.
    pub(crate) fn at_end(&mut self) -> Result<bool, ReadFault> {
        if self.at == self.end {
            self.fill()?;
        }
        Ok(self.at == self.end)
    }

    /// The next byte.
    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, ReadFault> {
        if self.at == self.end {
            self.fill_some()?;
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        if let Some(copy) = &mut self.copy {
            copy.push(byte);
        }
        Ok(byte)
    }

    /// The next bytes, a few.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadFault> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// Appends the next `len` bytes.
    #[inline]
    pub(crate) fn append(&mut self, len: u64, to: &mut Vec<u8>) -> Result<(), ReadFault> {
        self.pieces(len, |piece| {
            to.try_reserve(piece.len()).map_err(|_| ReadFault::Memory)?;
            to.extend_from_slice(piece);
            Ok(())
        })
    }

    /// Some of the next `len` bytes, of which there is one at least: those that the buffer has.
    pub(crate) fn some(&mut self, len: u64) -> Result<&[u8], ReadFault> {
        debug_assert!(len > 0 && self.copy.is_none(), "bytes that are asked for, and kept by nobody");
        if self.at == self.end {
            self.fill_some()?;
        }
        let count = usize::try_from(len).unwrap_or(usize::MAX).min(self.end - self.at);
        self.at += count;
        Ok(&self.buffer[self.at - count..self.at])
    }

    /// Passes over the next `len` bytes.
    pub(crate) fn skip(&mut self, len: u64) -> Result<(), ReadFault> {
        self.pieces(len, |_| Ok(()))
    }

    /// Keeps a copy of the bytes that are read from here on.
    pub(crate) fn begin_copy(&mut self, to: Vec<u8>) {
        self.copy = Some(to);
    }

    /// Ends the copy and gives it.
    pub(crate) fn end_copy(&mut self) -> Vec<u8> {
        self.copy.take().unwrap_or_default()
    }

    #[inline]
    fn pieces(&mut self, len: u64, mut show: impl FnMut(&[u8]) -> Result<(), ReadFault>) -> Result<(), ReadFault> {
        let mut left = len;
        while left > 0 {
            if self.at == self.end {
                self.fill_some()?;
            }
            let piece = usize::try_from(left).unwrap_or(usize::MAX).min(self.end - self.at);
            let bytes = &self.buffer[self.at..self.at + piece];
            show(bytes)?;
            if let Some(copy) = &mut self.copy {
                copy.extend_from_slice(bytes);
            }
            self.at += piece;
            left -= piece as u64;
        }
        Ok(())
    }

    #[cold]
    fn fill_some(&mut self) -> Result<(), ReadFault> {
        self.fill()?;
        if self.at == self.end { Err(ReadFault::Truncated) } else { Ok(()) }
    }

    /// Fills the buffer, of which everything has been read.
    fn fill(&mut self) -> Result<(), ReadFault> {
        debug_assert!(self.at == self.end, "nothing is thrown away unread");
        self.sum();
        self.base += self.end as u64;
        (self.at, self.end, self.summed) = (0, 0, 0);
        loop {
            let input = match &mut self.input {
                Input::File(input) => input,
                Input::Frame(frame) => {
                    self.end = frame.read(&mut self.buffer)?;
                    return Ok(());
                }
                Input::Gone => return Ok(()),
            };
            match input.read(&mut self.buffer) {
                Ok(bytes) => {
                    self.end = bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadFault::Io(error)),
            }
        }
    }

    fn sum(&mut self) {
        if let Some(crc) = &mut self.crc {
            crc.add(&self.buffer[self.summed..self.at]);
        }
        self.summed = self.at;
    }
}
