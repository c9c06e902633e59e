//! A string by pieces: one of hundreds of megabytes is never in memory whole.
//!
//! ```text
//! as it is     length | bytes ..             a piece is what the buffer of the source has
//! compressed   lengths | control bytes ..    window: | 8 KB, where copies may come from | piece |
//! an integer   its text is one piece
//! ```

use std::io::Read;

use varve_base::number::{INT_TEXT_MAX, write_i64};

use crate::lzf;
use crate::read::fault::ReadFault;
use crate::read::source::Source;
use crate::read::strings::Prefix;

/// Bytes of a piece of a compressed string, about.
const PIECE_BYTES: usize = 64 << 10;

/// A string that is being read.
#[derive(Debug)]
pub(crate) struct Pieces {
    form: Form,
    /// Bytes of the string that were not shown.
    left: u64,
}

#[derive(Debug)]
enum Form {
    Plain,
    Int([u8; INT_TEXT_MAX]),
    Compressed(Expansion),
}

impl Pieces {
    /// The string at which a source is.
    pub(crate) fn begin<R: Read>(source: &mut Source<R>) -> Result<Pieces, ReadFault> {
        Ok(match source.prefix()? {
            Prefix::Length(left) => Pieces { form: Form::Plain, left },
            Prefix::Int(n) => {
                let (mut text, mut digits) = ([0; INT_TEXT_MAX], [0; INT_TEXT_MAX]);
                let digits = write_i64(&mut digits, n);
                text[..digits.len()].copy_from_slice(digits);
                Pieces { form: Form::Int(text), left: digits.len() as u64 }
            }
            Prefix::Compressed(bytes, left) => {
                Pieces { form: Form::Compressed(Expansion { bytes, window: Vec::new() }), left }
            }
        })
    }

    /// Bytes that were not shown.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Bytes of the file that were not read, of a string of which nothing was shown.
    pub(crate) fn left_in_file(&self) -> u64 {
        match &self.form {
            Form::Plain => self.left,
            Form::Int(_) => 0,
            Form::Compressed(expansion) => expansion.bytes,
        }
    }

    /// True if all was shown.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 && !matches!(&self.form, Form::Compressed(expansion) if expansion.bytes > 0)
    }

    /// The next bytes, some tens of kilobytes; None behind the last one.
    pub(crate) fn next<'a, R: Read>(&'a mut self, source: &'a mut Source<R>) -> Result<Option<&'a [u8]>, ReadFault> {
        if self.is_over() {
            return Ok(None);
        }
        let piece = match &mut self.form {
            Form::Plain => source.some(self.left)?,
            Form::Int(text) => &text[..self.left as usize],
            Form::Compressed(expansion) => expansion.next(source, self.left)?,
        };
        self.left -= piece.len() as u64;
        Ok(Some(piece))
    }
}

/// A compressed string that is being expanded.
#[derive(Debug)]
struct Expansion {
    /// Compressed bytes that are left.
    bytes: u64,
    /// The piece that was made last, behind the bytes that copies may come from.
    window: Vec<u8>,
}

impl Expansion {
    /// Makes the next bytes, of which `left` are to come at most.
    fn next<R: Read>(&mut self, source: &mut Source<R>, left: u64) -> Result<&[u8], ReadFault> {
        let start = self.window.len().min(lzf::DISTANCE_MAX);
        self.window.drain(..self.window.len() - start);
        let end = start.saturating_add(usize::try_from(left).unwrap_or(usize::MAX));
        let mut behind = [0; lzf::LITERAL_MAX];
        while self.window.len() - start < PIECE_BYTES && self.bytes > 0 {
            let control = source.byte()?;
            let behind = &mut behind[..lzf::bytes_of(control)];
            let bytes = 1 + behind.len() as u64;
            self.bytes = self.bytes.checked_sub(bytes).ok_or(ReadFault::Compressed)?;
            for byte in behind.iter_mut() {
                *byte = source.byte()?;
            }
            // Copies come from what was made, of which the window has all that they reach.
            let rest = lzf::obey(control, behind, (0, end), &mut self.window);
            debug_assert!(rest.is_none_or(<[u8]>::is_empty), "all bytes of a control byte are used");
            rest.ok_or(ReadFault::Compressed)?;
        }
        if self.bytes == 0 && self.window.len() < end {
            return Err(ReadFault::Compressed);
        }
        Ok(&self.window[start..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lzf::Table;

    /// The pieces of a string, put together.
    fn read(bytes: &[u8]) -> Result<Vec<u8>, ReadFault> {
        let mut source = Source::new(bytes, 1000, false);
        let mut pieces = Pieces::begin(&mut source)?;
        let (mut all, wanted) = (Vec::new(), pieces.left());
        while let Some(piece) = pieces.next(&mut source)? {
            assert!(piece.len() <= PIECE_BYTES + 264, "{} bytes in one piece", piece.len());
            all.extend_from_slice(piece);
        }
        assert!(all.len() as u64 == wanted && source.at_end().expect("memory"));
        Ok(all)
    }

    /// A string as it stands in a file, compressed.
    fn compressed(text: &[u8], claimed: usize) -> Vec<u8> {
        let mut small = Vec::new();
        assert!(lzf::compress(&mut Table::default(), text, text.len() * 2 + 8, &mut small));
        let length = |n: usize| [&[0x80][..], &(n as u32).to_be_bytes()].concat();
        [&[0xc3][..], &length(small.len()), &length(claimed), &small].concat()
    }

    #[test]
    fn a_string_is_read_by_pieces_in_each_form() {
        let mixed: Vec<u8> =
            (0..400_000_u32).map(|i| if i / 9000 % 2 == 0 { 0 } else { (i.wrapping_mul(i) >> 7) as u8 }).collect();
        for text in [&mixed[..], &mixed[..1], &vec![b'x'; 1_000_000], b"abcdefgh"] {
            assert!(read(&compressed(text, text.len())).expect("it is sound") == text);
        }
        assert_eq!(read(b"\x05abcde").expect("it is sound"), b"abcde");
        assert_eq!(read(b"\x00").expect("it is sound"), b"");
        assert_eq!(read(b"\xc1\x39\x30").expect("it is sound"), b"12345");
        let plain = [&[0x80, 0, 3, 0, 0][..], &mixed[..3 << 16]].concat();
        assert!(read(&plain).expect("it is sound") == mixed[..3 << 16]);
    }

    #[test]
    fn damage_is_refused_wherever_it_is() {
        let text = b"some words, some words, some words again".repeat(3000);
        for claimed in [text.len() - 1, text.len() + 1] {
            assert!(matches!(read(&compressed(&text, claimed)), Err(ReadFault::Compressed)));
        }
        let whole = compressed(&text, text.len());
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end} bytes of {}", whole.len());
        }
        // A copy from before the first byte.
        assert!(matches!(read(&[0xc3, 4, 4, 0, b'a', 0x20, 9]), Err(ReadFault::Compressed)));
    }
}
