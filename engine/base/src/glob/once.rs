//! A pattern that many texts are matched with.
//!
//! ```text
//!   user:17    exactly these bytes          user:*    these bytes in front          user:[a-z]    these in front, then it is tried
//! ```
//! Matching may pass over all of a pattern for each text: half a gigabyte of stars, or of one set's bytes, took minutes for a
//! page of SCAN. So a long pattern is made short first, once: a run of stars becomes one, a long set the bytes that it
//! holds. A text that is shorter than the least that the pattern needs is not looked at. Then a text costs a time that its
//! own length bounds.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use super::set::{self, Mask};
use super::{matches, stars};

/// Bytes up to which a pattern is taken as it is.
const SHORT: usize = 64;
/// Bytes of a set that may hold all bytes but one.
const SET_MAX: usize = 2 * 255 + 2;

/// See the module. `T` holds the pattern; two are equal if their patterns have the same bytes.
#[derive(Clone, Debug)]
pub struct Glob<T> {
    pattern: T,
    nocase: bool,
    form: Form,
}

/// How a text is compared.
#[derive(Clone, Debug)]
enum Form {
    /// It is the pattern.
    Exact,
    /// The pattern without its last byte, a star, stands in front.
    Prefix,
    /// This number of the pattern's bytes stand in front: most texts that do not match end there.
    Front(usize),
    /// The pattern is long.
    Long(Box<Shortened>),
}

#[derive(Clone, Debug)]
struct Shortened {
    /// The texts that match it are those that match the pattern.
    pattern: Box<[u8]>,
    /// Bytes that a text has at least which matches.
    least: usize,
}

impl<T: AsRef<[u8]>> Glob<T> {
    /// The texts that match `pattern`; case counts.
    pub fn new(pattern: T) -> Glob<T> {
        Glob::prepared(pattern, false)
    }

    /// The texts that match `pattern`, whatever the case of ASCII letters.
    pub fn without_case(pattern: T) -> Glob<T> {
        Glob::prepared(pattern, true)
    }

    fn prepared(pattern: T, nocase: bool) -> Glob<T> {
        let bytes = pattern.as_ref();
        let is_special = |byte: &u8| b"*?[\\".contains(byte);
        let form = match bytes.iter().position(is_special) {
            None => Form::Exact,
            Some(at) if at + 1 == bytes.len() && bytes[at] == b'*' => Form::Prefix,
            Some(at) if bytes.len() <= SHORT => Form::Front(at),
            Some(_) => Form::Long(Box::new(Shortened::of(bytes, nocase))),
        };
        Glob { pattern, nocase, form }
    }

    /// The pattern, as it was given.
    #[inline]
    pub fn given(&self) -> &T {
        &self.pattern
    }

    /// The bytes of the pattern.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.pattern.as_ref()
    }

    /// Whether the whole of `text` matches.
    #[inline]
    pub fn matches(&self, text: &[u8]) -> bool {
        let pattern = self.pattern.as_ref();
        match &self.form {
            Form::Exact => self.are_same(text, pattern),
            // Redis has it so that a star alone does not match the empty text.
            Form::Prefix => !text.is_empty() && self.begins(text, &pattern[..pattern.len() - 1]),
            Form::Front(front) => self.begins(text, &pattern[..*front]) && matches(pattern, text, self.nocase),
            Form::Long(short) => text.len() >= short.least && matches(&short.pattern, text, self.nocase),
        }
    }

    #[inline]
    fn begins(&self, text: &[u8], front: &[u8]) -> bool {
        text.get(..front.len()).is_some_and(|begin| self.are_same(begin, front))
    }

    #[inline]
    fn are_same(&self, one: &[u8], other: &[u8]) -> bool {
        if self.nocase { one.eq_ignore_ascii_case(other) } else { one == other }
    }
}

impl<T: AsRef<[u8]>> PartialEq for Glob<T> {
    fn eq(&self, other: &Glob<T>) -> bool {
        self.pattern.as_ref() == other.pattern.as_ref()
    }
}

impl<T: AsRef<[u8]>> Eq for Glob<T> {}

/// Like that of its pattern, by which a map finds it.
impl<T: AsRef<[u8]>> Hash for Glob<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pattern.as_ref().hash(state);
    }
}

impl<T: AsRef<[u8]>> Borrow<[u8]> for Glob<T> {
    fn borrow(&self) -> &[u8] {
        self.pattern.as_ref()
    }
}

impl Shortened {
    fn of(pattern: &[u8], nocase: bool) -> Shortened {
        let (mut short, mut least, mut at) = (Vec::new(), 0, 0);
        while at < pattern.len() {
            let length = match pattern[at..] {
                [b'*', ..] => {
                    short.push(b'*');
                    at += stars(&pattern[at..]);
                    continue;
                }
                [b'[', ref set @ ..] => 1 + shorten_set(set, nocase, &mut short),
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
        Shortened { pattern: short.into(), least: least.max(1) }
    }
}

/// Writes the set that starts behind its `[`, as it is or shorter; the bytes of the pattern that it has.
fn shorten_set(set: &[u8], nocase: bool, short: &mut Vec<u8>) -> usize {
    let length = set::length(set);
    short.push(b'[');
    if length <= SET_MAX {
        short.extend_from_slice(&set[..length]);
    } else {
        let (mask, _) = Mask::of_set(set, nocase);
        mask.bytes().for_each(|byte| short.extend_from_slice(&[b'\\', byte]));
        short.push(b']');
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The form of a long pattern, whatever this one's length is.
    fn long(pattern: &[u8], nocase: bool) -> Glob<&[u8]> {
        Glob { pattern, nocase, form: Form::Long(Box::new(Shortened::of(pattern, nocase))) }
    }

    #[test]
    fn a_prepared_pattern_matches_what_it_matched() {
        let mut rng = Rng::seeded(23);
        let letters = b"abA*?[]^-\\\x80";
        for round in 0..40_000 {
            let mut random = |most: u64| -> Vec<u8> {
                (0..rng.below(most)).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect()
            };
            let (pattern, text, nocase) = (random(12), random(8), round % 2 == 1);
            let expected = matches(&pattern, &text, nocase);
            assert_eq!(Glob::prepared(&pattern, nocase).matches(&text), expected, "{pattern:?} {text:?} {nocase}");
            if !pattern.is_empty() {
                assert_eq!(long(&pattern, nocase).matches(&text), expected, "{pattern:?} {text:?} {nocase}");
            }
        }
    }

    #[test]
    fn every_form_matches_what_the_glob_matches() {
        let names = ["", "a", "ab", "aB", "abc", "b", "a*", "*", "a?", "\\"];
        for pattern in
            ["", "a", "ab", "*", "a*", "ab*", "a?", "a*c", "[ab]*", "a[b]c", "ab?", "b*c", "\\*", "a\\*", "**"]
        {
            let (glob, folded) = (Glob::new(pattern), Glob::without_case(pattern));
            for name in names {
                let expected = |nocase| matches(pattern.as_bytes(), name.as_bytes(), nocase);
                assert_eq!(glob.matches(name.as_bytes()), expected(false), "{pattern} {name}");
                assert_eq!(folded.matches(name.as_bytes()), expected(true), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn a_long_pattern_is_short() {
        let shortened = |pattern: &[u8], nocase| match Glob::prepared(pattern, nocase).form {
            Form::Long(short) => *short,
            form => panic!("{form:?}"),
        };
        let stars = [&b"a"[..], &[b'*'; 100_000], b"z"].concat();
        let short = shortened(&stars, false);
        assert_eq!((&*short.pattern, short.least), (&b"a*z"[..], 2));
        let glob = Glob::new(&stars);
        assert!(glob.matches(b"abcz") && !glob.matches(b"abc") && !glob.matches(b""));
        for (negation, nocase) in [("", false), ("^", false), ("", true), ("^", true)] {
            let set = format!("x[{negation}{}]*", "c-ea".repeat(30_000));
            let short = shortened(set.as_bytes(), nocase);
            assert!(short.pattern.len() <= SET_MAX + 5, "{} bytes", short.pattern.len());
            let glob = Glob::prepared(&set, nocase);
            for byte in 0..=u8::MAX {
                let is_held = b"acde".contains(&byte) || nocase && b"ACDE".contains(&byte);
                assert_eq!(glob.matches(&[b'x', byte, b'y']), is_held != (negation == "^"), "{negation} {byte}");
            }
        }
        // A pattern of 1000 question marks matches no text of fewer than 1000 bytes.
        assert_eq!(shortened(&[b'?'; 1000], false).least, 1000);
    }

    #[test]
    fn a_map_finds_it_by_its_pattern() {
        let known: std::collections::HashSet<Glob<Box<[u8]>>> =
            ["a*", "b?"].into_iter().map(|pattern| Glob::new(pattern.as_bytes().into())).collect();
        assert!(known.contains(&b"a*"[..]) && known.contains(&b"b?"[..]) && !known.contains(&b"a?"[..]));
    }
}
