//! A large string as it stands in a file: whole, or with its runs of zeros compressed.
//!
//! ```text
//! as it is    | length | bytes ...
//! sparse      | 0xc3 | compressed length | length |  32 bytes as they are ..  a zero, copies of 264 zeros ..
//! ```
//! SETBIT and SETRANGE make strings of hundreds of megabytes of which a few pages were written. Only runs of zeros are
//! looked for, by two passes over the bytes: the compressed length stands in front, and no more than a piece is kept in memory. The
//! owner of the bytes lends them for a copy of a piece, and knows some zeros without a look at them, which are not looked at.
//! Compressing them like short strings would take seconds, and a buffer of their size.

use std::io;
use std::ops::Range;

use super::buffer::push_length;
use crate::format::len;
use crate::lzf;

/// Bytes of a block, which is a part of a run if all of it is zeros.
const BLOCK_BYTES: usize = 64;
/// Bytes that are given out at once, about; of a string that is not compressed.
const PIECE_BYTES: usize = 64 << 10;
const SLICE_BYTES: usize = 256 << 10;
/// Bytes that are looked at before something is given out, if only nothing.
const RUN_BYTES: usize = 4 << 20;

/// A large string, whose owner lends some bytes at a time.
#[allow(clippy::len_without_is_empty, reason = "a large string is not empty")]
pub trait LargeText {
    /// Bytes of the string.
    fn len(&self) -> usize;

    /// The part that comes first from an offset on and before which all is zero; empty and at the string's end if nothing else
    /// follows.
    fn next_written(&self, from: usize) -> Range<usize>;

    /// Appends the bytes of a range to `to`.
    fn copy(&self, range: Range<usize>, to: &mut Vec<u8>);
}

/// Writes a string to `put`, some 64 KB at a time; with `compress`, runs of zeros are compressed where that saves a
/// quarter of the string. Where some megabytes at most were looked at and there is nothing to write, `put` is given nothing: so
/// whatever the string is, `put` is soon called again. No byte of the string is borrowed while it is.
///
/// # Errors
/// Those of `put`.
pub fn put_large(text: &dyn LargeText, compress: bool, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut head = Vec::new();
    let mut bytes = 0;
    if compress {
        each_piece(text, &mut |piece| {
            bytes += piece.len();
            put(&[])
        })?;
    }
    if !compress || bytes > text.len() / 4 * 3 {
        push_length(&mut head, text.len() as u64);
        put(&head)?;
        return each_slice(text, put);
    }
    head.push(len::LZF);
    push_length(&mut head, bytes as u64);
    push_length(&mut head, text.len() as u64);
    put(&head)?;
    each_piece(text, put)
}

/// Gives the bytes of a string out as they are.
fn each_slice(text: &dyn LargeText, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut slice, mut at) = (Vec::with_capacity(SLICE_BYTES), 0);
    while at < text.len() {
        let end = text.len().min(at + SLICE_BYTES);
        slice.clear();
        text.copy(at..end, &mut slice);
        debug_assert!(slice.len() == end - at, "{} bytes of {at}..{end}", slice.len());
        put(&slice)?;
        at = end;
    }
    Ok(())
}

/// Gives the compressed bytes of a string out. They follow from its bytes alone, whatever of it is known to be zero: that may
/// change between two passes, when others write to what this string was copied from.
fn each_piece(text: &dyn LargeText, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let is_zeros = |block: &[u8]| block.iter().fold(0, |all, byte| all | byte) == 0;
    let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
    let mut window = Window { text, bytes: Vec::with_capacity(PIECE_BYTES), at: 0 };
    let (mut at, mut zeros, mut looked) = (0, 0, 0);
    while at < text.len() {
        debug_assert!(at % BLOCK_BYTES == 0, "a block begins at {at}");
        let written = text.next_written(at);
        // The block in which it begins, and the one in which it ends, are zero beside it.
        let begin = written.start / BLOCK_BYTES * BLOCK_BYTES;
        let end = text.len().min(written.end.next_multiple_of(BLOCK_BYTES));
        if written.is_empty() {
            zeros += text.len() - at;
            break;
        }
        zeros += begin - at;
        at = begin;
        let bytes = window.at(at, end);
        let blocks = bytes.chunks(BLOCK_BYTES).take_while(|block| is_zeros(block));
        let (run, rest) = bytes.split_at(blocks.map(<[u8]>::len).sum());
        zeros += run.len();
        if !rest.is_empty() {
            push_zeros(std::mem::take(&mut zeros), &mut piece, put)?;
        }
        let blocks = rest.chunks(BLOCK_BYTES).take_while(|block| !is_zeros(block));
        let others = &rest[..blocks.map(<[u8]>::len).sum()];
        lzf::push_literals(others, &mut piece);
        let done = run.len() + others.len();
        (at, looked) = (at + done, looked + done);
        if looked >= RUN_BYTES {
            put(&[])?;
            looked = 0;
        }
        give(&mut piece, put)?;
    }
    push_zeros(zeros, &mut piece, put)?;
    put(&piece)
}

/// A copy of the bytes that are looked at.
struct Window<'t> {
    text: &'t dyn LargeText,
    bytes: Vec<u8>,
    /// Where they are in the string.
    at: usize,
}

impl Window<'_> {
    /// The bytes from offset `from` on, before `end`: some at least, a whole number of blocks unless they reach the end.
    fn at(&mut self, from: usize, end: usize) -> &[u8] {
        debug_assert!(from < end, "no bytes are looked at from {from} on");
        let there =
            from.checked_sub(self.at).filter(|skip| self.bytes.len() >= (skip + BLOCK_BYTES).min(skip + end - from));
        let skip = there.unwrap_or_else(|| {
            (self.at, _) = (from, self.bytes.clear());
            self.text.copy(from..end.min(from + PIECE_BYTES), &mut self.bytes);
            0
        });
        let bytes = &self.bytes[skip..];
        let most = bytes.len().min(end - from);
        let whole = if most == end - from { most } else { most / BLOCK_BYTES * BLOCK_BYTES };
        &bytes[..whole]
    }
}

/// Appends a run of zeros.
fn push_zeros(zeros: usize, piece: &mut Vec<u8>, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    if zeros == 0 {
        return Ok(());
    }
    lzf::push_literals(&[0], piece);
    let mut left = zeros - 1;
    while left >= lzf::COPY_MIN {
        let count = left.min(lzf::COPY_MAX);
        lzf::push_copy(count, 0, piece);
        left -= count;
        give(piece, put)?;
    }
    lzf::push_literals(&[0; lzf::COPY_MIN][..left], piece);
    Ok(())
}

/// Gives out what was collected, if that is enough.
fn give(piece: &mut Vec<u8>, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    if piece.len() >= PIECE_BYTES {
        put(piece)?;
        piece.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StringReader;
    use varve_base::rng::Rng;

    /// A string that was written everywhere.
    struct Plain<'t>(&'t [u8]);

    impl LargeText for Plain<'_> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn next_written(&self, from: usize) -> Range<usize> {
            from..self.0.len()
        }

        fn copy(&self, range: Range<usize>, to: &mut Vec<u8>) {
            to.extend_from_slice(&self.0[range]);
        }
    }

    /// A string of which some parts alone were written.
    struct Sparse<'t>(Plain<'t>, [Range<usize>; 3]);

    impl LargeText for Sparse<'_> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn next_written(&self, from: usize) -> Range<usize> {
            let part = self.1.iter().find(|part| part.end > from).unwrap_or(&self.1[2]);
            part.start.max(from)..part.end
        }

        fn copy(&self, range: Range<usize>, to: &mut Vec<u8>) {
            self.0.copy(range, to);
        }
    }

    /// A string as it is written, and the longest piece.
    fn written(text: &[u8], compress: bool) -> (Vec<u8>, usize) {
        let (mut file, mut most) = (Vec::new(), 0);
        let put = &mut |piece: &[u8]| {
            file.extend_from_slice(piece);
            most = most.max(piece.len());
            Ok(())
        };
        put_large(&Plain(text), compress, put).expect("memory");
        (file, most)
    }

    #[test]
    fn what_was_never_written_is_not_looked_at() {
        // The bytes that are said to be zero are not: whoever looks at them would see it. Those of a block that was written in part
        // are looked at.
        let text = [&[1; 1024][..], &[7; 99_968], &[2; 960], &[7; 1]].concat();
        let zeros = [&[1; 1024][..], &[0; 99_968], &[2; 960], &[0; 1]].concat();
        let parts = [0..1024, 100_992..101_952, 101_953..101_953];
        let mut file = Vec::new();
        let mut put = |piece: &[u8]| {
            file.extend_from_slice(piece);
            Ok(())
        };
        put_large(&Sparse(Plain(&text), parts), true, &mut put).expect("memory");
        assert!(read(&file) == zeros);
    }

    #[test]
    fn issue_14_a_string_is_the_same_whatever_is_known_of_it() {
        let mut text = vec![0; 30 << 20];
        [77, 5_000_000, 5_000_100, 29_999_999].iter().for_each(|&at| text[at] = 9);
        text[20_000_000..20_300_000].fill(3);
        let mut files: Vec<Vec<u8>> = Vec::new();
        let all = text.len()..text.len();
        let known = [
            [0..all.end, all.clone(), all.clone()],
            [70..5_000_200, 19_999_999..20_300_001, 29_999_998..all.end],
            [77..5_000_101, 20_000_000..20_300_000, 29_999_999..all.end],
        ];
        for parts in known {
            let mut file = Vec::new();
            let put = &mut |piece: &[u8]| {
                file.extend_from_slice(piece);
                Ok(())
            };
            put_large(&Sparse(Plain(&text), parts), true, put).expect("memory");
            files.push(file);
        }
        assert!(files.iter().all(|file| *file == files[0]) && read(&files[0]) == text);
    }

    fn read(file: &[u8]) -> Vec<u8> {
        let (mut reader, mut text) = (StringReader::new(file).expect("a length"), Vec::new());
        while let Some(piece) = reader.next_piece().expect("a sound string") {
            text.extend_from_slice(piece);
        }
        text
    }

    #[test]
    fn runs_of_zeros_become_short_and_whatever_else_stays() {
        let mut rng = Rng::seeded(3);
        for zeros in [1, 2, 3, 4, 63, 64, 263, 264, 265, 266, 267, 268, 5000, 1_000_000] {
            for (before, behind) in [(0, 0), (1, 0), (0, 1), (64, 64), (100, 37)] {
                let some =
                    |count: usize, rng: &mut Rng| (0..count).map(|_| rng.next_u64() as u8 | 1).collect::<Vec<u8>>();
                let text = [some(before, &mut rng), vec![0; zeros], some(behind, &mut rng)].concat();
                let (file, most) = written(&text, true);
                assert!(read(&file) == text, "{before}, {zeros}, {behind}");
                assert!(most < 2 * PIECE_BYTES);
                assert!(zeros < 5000 || file.len() < zeros / 30 + before + behind, "{} bytes", file.len());
                assert!(read(&written(&text, false).0) == text);
            }
        }
    }

    #[test]
    fn a_string_without_many_zeros_is_written_as_it_is() {
        let text: Vec<u8> = (0..500_000_u32).map(|i| if i / 1000 % 8 == 0 { 0 } else { i as u8 | 1 }).collect();
        let (file, _) = written(&text, true);
        assert!(file[5..] == text, "an eighth of it is zeros");
        let mut sparse = vec![0; 100 << 20];
        sparse[70 << 20] = 1;
        let (file, most) = written(&sparse, true);
        assert!(file.len() < 2 << 20 && most < 2 * PIECE_BYTES, "{} bytes", file.len());
        assert!(read(&file) == sparse);
    }
}
