//! A pattern that many texts are matched with.
//!
//! Matching may pass over all of a pattern for each text: half a gigabyte of stars, or of one set's bytes, took minutes for a
//! page of SCAN. So a long pattern is made short first, once: a run of stars becomes one, a long set the bytes that it
//! holds. A text that is shorter than the least that the pattern needs is not looked at. Then a text costs a time that its
//! own length bounds.

use std::borrow::Cow;

use super::set::{self, Mask};
use super::{matches, stars};

/// Bytes up to which a pattern is taken as it is.
const SHORT: usize = 64;
/// Bytes of a set that may hold all bytes but one.
const SET_MAX: usize = 2 * 255 + 2;

/// See the module.
#[derive(Clone, Debug)]
pub struct Glob<'p> {
    pattern: Cow<'p, [u8]>,
    /// Bytes that a text has at least which matches.
    least: usize,
}

impl<'p> Glob<'p> {
    /// The texts that match `pattern`; case counts.
    pub fn new(pattern: &'p [u8]) -> Glob<'p> {
        if pattern.len() <= SHORT {
            Glob { pattern: Cow::Borrowed(pattern), least: 0 }
        } else {
            Glob::shortened(pattern)
        }
    }

    /// Whether the whole of `text` matches.
    #[inline]
    pub fn matches(&self, text: &[u8]) -> bool {
        text.len() >= self.least && matches(&self.pattern, text, false)
    }

    /// This pattern, with bytes of its own.
    pub fn into_owned(self) -> Glob<'static> {
        Glob { pattern: Cow::Owned(self.pattern.into_owned()), least: self.least }
    }

    fn shortened(pattern: &[u8]) -> Glob<'static> {
        let (mut short, mut least, mut at) = (Vec::new(), 0, 0);
        while at < pattern.len() {
            let length = match pattern[at..] {
                [b'*', ..] => {
                    short.push(b'*');
                    at += stars(&pattern[at..]);
                    continue;
                }
                [b'[', ref set @ ..] => 1 + shorten_set(set, &mut short),
                [b'\\', _, ..] => {
                    short.extend_from_slice(&pattern[at..at + 2]);
                    2
                }
                [plain, ..] => {
                    short.push(plain);
                    1
                }
                [] => unreachable!("it is not at its end"),
            };
            (at, least) = (at + length, least + 1);
        }
        // Nothing but an empty pattern matches an empty text.
        Glob { pattern: Cow::Owned(short), least: least.max(1) }
    }
}

/// Writes the set that starts behind its `[`, as it is or shorter; the bytes of the pattern that it has.
fn shorten_set(set: &[u8], short: &mut Vec<u8>) -> usize {
    let length = set::length(set);
    short.push(b'[');
    if length <= SET_MAX {
        short.extend_from_slice(&set[..length]);
    } else {
        let (mask, _) = Mask::of_set(set, false);
        mask.bytes().for_each(|byte| short.extend_from_slice(&[b'\\', byte]));
        short.push(b']');
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_shortened_pattern_matches_what_it_matched() {
        let mut rng = Rng::seeded(23);
        let letters = b"ab*?[]^-\\\x80";
        for _ in 0..20_000 {
            let mut random = |most: u64| -> Vec<u8> {
                (0..rng.below(most)).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect()
            };
            let (pattern, text) = (random(12), random(8));
            if pattern.is_empty() {
                continue;
            }
            let expected = matches(&pattern, &text, false);
            assert_eq!(Glob::shortened(&pattern).matches(&text), expected, "{pattern:?} {text:?}");
            assert_eq!(Glob::new(&pattern).into_owned().matches(&text), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn a_long_pattern_is_short() {
        let stars = [&b"a"[..], &[b'*'; 100_000], b"z"].concat();
        let glob = Glob::new(&stars);
        assert_eq!((&*glob.pattern, glob.least), (&b"a*z"[..], 2));
        assert!(glob.matches(b"abcz") && !glob.matches(b"abc") && !glob.matches(b""));
        for negation in ["", "^"] {
            let set = format!("x[{negation}{}]*", "c-ea".repeat(30_000));
            let glob = Glob::new(set.as_bytes());
            assert!(glob.pattern.len() <= SET_MAX + 5, "{} bytes", glob.pattern.len());
            for byte in 0..=u8::MAX {
                let expected = b"acde".contains(&byte) != (negation == "^");
                assert_eq!(glob.matches(&[b'x', byte, b'y']), expected, "{negation} {byte}");
            }
        }
        // A pattern of 1000 question marks matches no text of fewer than 1000 bytes.
        assert_eq!(Glob::new(&[b'?'; 1000]).least, 1000);
    }
}
