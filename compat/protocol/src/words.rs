//! Words of a line, and the quoting that makes one word of any bytes: configurations and manifests are written so.
//!
//! ```text
//!   maxmemory 1gb            words are parted by blanks
//!   requirepass "a\x20\"b"   in double quotes \n \r \t \b \a, \xHH, and a backslash before anything else is that thing
//!   logfile 'it\'s.log'      in single quotes only \' is special
//! ```
//! A closing quote must be followed by a blank or the end. Not here: comments, which are a matter of whole lines.

use varve_base::number::HEX_DIGITS;

use crate::parser::escape;

/// Cuts `line` into words; None if its quotes do not close or a closing quote touches the next word.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = line;
    let mut words = Vec::new();
    loop {
        rest = &rest[rest.iter().take_while(|&&byte| blank(byte)).count()..];
        // Redis keeps its lines as C strings: a NUL ends one.
        if rest.first().is_none_or(|&byte| byte == 0) {
            return Some(words);
        }
        let (word, left) = word(rest)?;
        words.push(word);
        rest = left;
    }
}

/// `text` in double quotes, so that `words` gives it back.
pub fn quote(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    append_quoted(text, &mut quoted);
    quoted
}

/// Appends what [`quote`] gives.
pub fn append_quoted(text: &[u8], to: &mut Vec<u8>) {
    to.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => to.extend_from_slice(&[b'\\', byte]),
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\r' => to.extend_from_slice(b"\\r"),
            b'\t' => to.extend_from_slice(b"\\t"),
            0x07 => to.extend_from_slice(b"\\a"),
            0x08 => to.extend_from_slice(b"\\b"),
            b' '..=b'~' => to.push(byte),
            _ => to.extend_from_slice(&[
                b'\\',
                b'x',
                HEX_DIGITS[usize::from(byte >> 4)],
                HEX_DIGITS[usize::from(byte & 0xf)],
            ]),
        }
    }
    to.push(b'"');
}

fn blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The first word of `text`, which does not begin with a blank, and what follows it.
fn word(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = double_quoted(text, at + 1, &mut word)?,
            b'\'' => at = single_quoted(text, at + 1, &mut word)?,
            0 => break,
            _ if blank(byte) => break,
            _ => {
                word.push(byte);
                at += 1;
                continue;
            }
        }
        // A closing quote ends the word.
        if text.get(at).is_some_and(|&next| !blank(next)) {
            return None;
        }
        break;
    }
    Some((word, &text[at..]))
}

/// Reads from behind the opening quote; gives the place behind the closing one.
fn double_quoted(text: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {
                let (byte, length) = escape(&text[at + 1..])?;
                word.push(byte);
                at += 1 + length;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(text: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *text.get(at)? {
            b'\'' => return Some(at + 1),
            b'\\' if text.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}
