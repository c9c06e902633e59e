//! Lengths and strings, as every part of a file has them.

use std::io::Read;

use varve_base::number::{INT_TEXT_MAX, write_i64};

use crate::format::len;
use crate::lzf;
use crate::read::fault::ReadFault;
use crate::read::source::Source;

/// Bytes of a compressed string when it is whole, at most: no value is longer.
const EXPANDED_BYTES_MAX: usize = 1 << 30;

/// A length prefix.
pub(crate) enum Prefix {
    Length(u64),
    Int(i64),
    /// Bytes when compressed and when not.
    Compressed(u64, u64),
}

impl<R: Read> Source<R> {
    #[inline]
    pub(crate) fn prefix(&mut self) -> Result<Prefix, ReadFault> {
        let first = self.byte()?;
        Ok(Prefix::Length(match first {
            0..len::BITS_14 => u64::from(first),
            len::BITS_14..len::BITS_32 => u64::from(first & 0x3f) << 8 | u64::from(self.byte()?),
            len::BITS_32 => u64::from(u32::from_be_bytes(self.array()?)),
            len::BITS_64 => u64::from_be_bytes(self.array()?),
            len::INT_8 => return Ok(Prefix::Int(i8::from_le_bytes(self.array()?).into())),
            len::INT_16 => return Ok(Prefix::Int(i16::from_le_bytes(self.array()?).into())),
            len::INT_32 => return Ok(Prefix::Int(i32::from_le_bytes(self.array()?).into())),
            len::LZF => return Ok(Prefix::Compressed(self.length()?, self.length()?)),
            0xc4.. => return Err(ReadFault::StringEncoding(first & 0x3f)),
            _ => return Err(ReadFault::NoLength),
        }))
    }

    /// A length or a number of things.
    #[inline]
    pub(crate) fn length(&mut self) -> Result<u64, ReadFault> {
        match self.prefix()? {
            Prefix::Length(length) => Ok(length),
            Prefix::Int(_) | Prefix::Compressed(..) => Err(ReadFault::NoLength),
        }
    }

    /// Reads a string in the place of what `to` has; `small` is for compressed bytes.
    #[inline]
    pub(crate) fn string(&mut self, to: &mut Vec<u8>, small: &mut Vec<u8>) -> Result<(), ReadFault> {
        self.string_within(to, small, EXPANDED_BYTES_MAX)
    }

    /// Like [`Source::string`]; a compressed one that says to be longer than this is not expanded.
    pub(crate) fn string_within(
        &mut self,
        to: &mut Vec<u8>,
        small: &mut Vec<u8>,
        expanded_max: usize,
    ) -> Result<(), ReadFault> {
        to.clear();
        match self.prefix()? {
            Prefix::Length(length) => self.append(length, to),
            Prefix::Int(n) => {
                to.extend_from_slice(write_i64(&mut [0; INT_TEXT_MAX], n));
                Ok(())
            }
            Prefix::Compressed(bytes, length) => {
                small.clear();
                self.append(bytes, small)?;
                let whole = usize::try_from(length).ok().filter(|whole| *whole <= expanded_max.min(EXPANDED_BYTES_MAX));
                let length = whole.ok_or(ReadFault::TooLong(length))?;
                if lzf::expand(small, length, to) { Ok(()) } else { Err(ReadFault::Compressed) }
            }
        }
    }

    /// Passes over a string.
    pub(crate) fn skip_string(&mut self) -> Result<(), ReadFault> {
        match self.prefix()? {
            Prefix::Length(bytes) | Prefix::Compressed(bytes, _) => self.skip(bytes),
            Prefix::Int(_) => Ok(()),
        }
    }
}
