//! A large string as it stands in a file: whole, or with its runs of zeros compressed.
//!
//! ```text
//! as it is    | length | bytes ...
//! sparse      | 0xc3 | compressed length | length |  32 bytes as they are ..  a zero, copies of 264 zeros ..
//! ```
//! SETBIT and SETRANGE make strings of hundreds of megabytes of which a few pages were written. Only runs of zeros are
//! looked for, by two passes over the bytes: the compressed length stands in front, and nothing is kept in memory. The owner of
//! the bytes knows some zeros without a look at them, which are not looked at.
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
const SLICE_BYTES: usize = 1 << 20;
/// Bytes of a run of zeros that are looked at before something is given out.
const RUN_BYTES: usize = 4 << 20;

/// A string and its part, from an offset on, before which all is zero; the part is empty and at the string's end if nothing else follows.
pub struct Sparse<'t> {
    /// All its bytes.
    pub text: &'t [u8],
    /// The part that comes first from an offset on.
    pub next_written: &'t dyn Fn(usize) -> Range<usize>,
}

/// Writes a string to `put`, a megabyte at most at a time; with `compress`, runs of zeros are compressed where that saves a
/// quarter of the string. Where some megabytes at most were looked at and there is nothing to write, `put` is given nothing: so
/// whatever the string is, `put` is soon called again.
///
/// # Errors
/// Those of `put`.
pub fn put_large(string: &Sparse<'_>, compress: bool, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let text = string.text;
    let mut head = Vec::new();
    let mut bytes = 0;
    if compress {
        each_piece(string, &mut |piece| {
            bytes += piece.len();
            put(&[])
        })?;
    }
    if !compress || bytes > text.len() / 4 * 3 {
        push_length(&mut head, text.len() as u64);
        put(&head)?;
        return text.chunks(SLICE_BYTES).try_for_each(put);
    }
    head.push(len::LZF);
    push_length(&mut head, bytes as u64);
    push_length(&mut head, text.len() as u64);
    put(&head)?;
    each_piece(string, put)
}

/// Gives the compressed bytes of a string out.
fn each_piece(string: &Sparse<'_>, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut piece, mut at) = (Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8), 0);
    let text = string.text;
    while at < text.len() {
        let is_zeros = |block: &[u8]| block.iter().fold(0, |all, byte| all | byte) == 0;
        let begin = at;
        let written_end = loop {
            let written = (string.next_written)(at);
            let looked = written.start..written.end.min(written.start + RUN_BYTES);
            let blocks = text[looked].chunks(BLOCK_BYTES);
            at = written.start + blocks.take_while(|block| is_zeros(block)).map(<[u8]>::len).sum::<usize>();
            if at < written.end || at == text.len() || at - begin >= RUN_BYTES {
                break written.end;
            }
        };
        push_zeros(at - begin, &mut piece, put)?;
        let rest = &text[at..written_end.min(at + PIECE_BYTES)];
        let others: usize = rest.chunks(BLOCK_BYTES).take_while(|block| !is_zeros(block)).map(<[u8]>::len).sum();
        lzf::push_literals(&rest[..others], &mut piece);
        at += others;
        give(&mut piece, put)?;
    }
    put(&piece)
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

    /// A string as it is written, and the longest piece.
    fn written(text: &[u8], compress: bool) -> (Vec<u8>, usize) {
        let (mut file, mut most) = (Vec::new(), 0);
        let put = &mut |piece: &[u8]| {
            file.extend_from_slice(piece);
            most = most.max(piece.len());
            Ok(())
        };
        put_large(&Sparse { text, next_written: &|from| from..text.len() }, compress, put).expect("memory");
        (file, most)
    }

    #[test]
    fn what_was_never_written_is_not_looked_at() {
        // The bytes that are said to be zero are not: whoever looks at them would see it.
        let text = [&[1; 1000][..], &[7; 100_000], &[2; 999], &[7; 1]].concat();
        let zeros = [&[1; 1000][..], &[0; 100_000], &[2; 999], &[0; 1]].concat();
        let parts = [0..1000, 101_000..101_999, 102_000..102_000];
        let next_written = |from: usize| {
            let part = parts.iter().find(|part| part.end > from).unwrap_or(&parts[2]);
            part.start.max(from)..part.end
        };
        let mut file = Vec::new();
        let mut put = |piece: &[u8]| {
            file.extend_from_slice(piece);
            Ok(())
        };
        put_large(&Sparse { text: &text, next_written: &next_written }, true, &mut put).expect("memory");
        assert!(read(&file) == zeros);
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
