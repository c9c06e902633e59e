//! Glob patterns over bytes, as KEYS, SCAN and PSUBSCRIBE understand them.
//!
//! ```text
//! *       any bytes, none included       [abc] [a-z]   one byte of a set; a range may be written backwards
//! ?       one byte                       [^abc]        one byte not of the set
//! \x      the byte x                     other         itself
//! ```
//!
//! The odd corners of Redis's patterns that clients can see are kept: a set without its bracket ends with the pattern, `[a-]` is a
//! range up to the bracket, bounds of a range compare as signed bytes, `\x` in a set keeps its case, and an empty text
//! matches only an empty pattern. Where Redis tries each `*` in turn by recursion, here only the last one is tried
//! again: whatever an earlier star could still take, the last one can take too.
//!
//! That alone would cost the product of both lengths, which a client chooses. So it ends after [`TRIES`] steps a byte of the text,
//! and the rest is matched stretch by stretch, each of which is what stands between two stars (`stretch`). Then the
//! cost is at most one pass over the pattern, 16 steps a byte of the text, and 256 steps an item of a stretch that has
//! wildcards. What this does not reach is a stretch of over 1024 items that has wildcards, or that is matched without
//! regard to case: once the steps are spent it is found nowhere. Redis has such a bound too: there a pattern matches nothing behind
//! a thousand stars.

mod once;
mod set;
mod stretch;

pub use once::Glob;

/// Steps a byte of the text, and beside them, within which most patterns are matched by trying.
const TRIES: usize = 8;
const TRIES_ANYWAY: usize = 256;

/// Whether the whole of `text` matches `pattern`; `nocase` folds ASCII letters.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    matches_within(pattern, text, nocase, text.len().saturating_mul(TRIES).saturating_add(TRIES_ANYWAY)).0
}

/// Like [`matches`], trying places for this number of steps before stretches are searched for; the number of all steps beside.
fn matches_within(pattern: &[u8], text: &[u8], nocase: bool, tries: usize) -> (bool, u64) {
    let (mut p, mut t) = (0, 0);
    // After the last star: where the pattern goes on, and where in the text that was tried last.
    let mut retry: Option<(usize, usize)> = None;
    let mut left = tries;
    if text.is_empty() {
        return (pattern.is_empty(), 0);
    }
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += stars(&pattern[p..]);
            if p == pattern.len() {
                return (true, (tries - left) as u64);
            }
            retry = Some((p, t));
            continue;
        }
        let (holds, length) = item(&pattern[p..], text[t], nocase);
        left = left.saturating_sub(length.max(1));
        if holds {
            p += length;
            t += 1;
        } else if let Some((after, tried)) = retry {
            if left == 0 {
                let mut steps = (tries + pattern.len()) as u64;
                let matched = stretch::matches_behind_star(&pattern[after..], &text[tried + 1..], nocase, &mut steps);
                return (matched, steps);
            }
            (p, t) = (after, tried + 1);
            retry = Some((after, tried + 1));
        } else {
            return (false, (tries - left) as u64);
        }
    }
    (p + stars(&pattern[p..]) == pattern.len(), (tries - left) as u64)
}

/// How many stars `pattern` begins with.
fn stars(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|&&b| b == b'*').count()
}

/// Whether the first item of `pattern`, which is no star, holds for a byte, and the item's length; no item holds for none.
#[inline]
fn item(pattern: &[u8], byte: u8, nocase: bool) -> (bool, usize) {
    let (item, length) = match *pattern {
        [] => return (false, 0),
        [b'?', ..] => return (true, 1),
        [b'[', ref set @ ..] => {
            let (holds, length) = set::holds(set, byte, nocase);
            return (holds, 1 + length);
        }
        [b'\\', escaped, ..] => (escaped, 2),
        [plain, ..] => (plain, 1),
    };
    (fold(item, nocase) == fold(byte, nocase), length)
}

#[inline]
fn fold(byte: u8, nocase: bool) -> u8 {
    if nocase { byte.to_ascii_lowercase() } else { byte }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yes(pattern: &str, text: &str) {
        assert!(matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} should match {text}");
    }

    fn no(pattern: &str, text: &str) {
        assert!(!matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} should not match {text}");
    }

    #[test]
    fn plain_forms() {
        yes("h?llo", "hello");
        no("h?llo", "hllo");
        yes("h*llo", "hllo");
        yes("h*llo", "heeeello");
        yes("h[ae]llo", "hallo");
        no("h[ae]llo", "hillo");
        yes("h[^e]llo", "hbllo");
        no("h[^e]llo", "hello");
        yes("h[a-b]llo", "hallo");
        yes("h[b-a]llo", "hallo");
        yes("**a***b**", "xxaxxbxx");
        yes("a**", "a");
        yes("*a*b*c", "abcabxc");
        no("*a*b*c", "abcabxd");
    }

    #[test]
    fn odd_corners() {
        yes("", "");
        no("", "a");
        no("*", "");
        no("**", "");
        yes(r"a\*", "a*");
        no(r"a\*", "ab");
        yes("a\\", "a\\");
        yes("[abc", "b");
        no("[abc", "d");
        no("[", "[");
        yes("[^", "x");
        yes("[a-]", "a");
        yes("[a-]", "^");
        yes(r"[\]]", "]");
        yes(r"[\-x]", "-");
        no("a[]b", "ab");
    }

    #[test]
    fn case() {
        assert!(matches(b"H[A-C]Llo\\W", b"hbllow", true));
        assert!(!matches(b"[\\A]", b"a", true));
        assert!(!matches(b"HELLO", b"hello", false));
    }

    /// The plain meaning of the star: every way is tried.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|n| naive(rest, &text[n..])),
            ([], []) => true,
            ([_, ..], []) | ([], [_, ..]) => false,
            (p, [byte, rest @ ..]) => {
                let (holds, length) = item(p, *byte, false);
                holds && naive(&p[length..], rest)
            }
        }
    }

    #[test]
    fn agrees_with_trying_every_way() {
        let mut rng = crate::rng::Rng::seeded(3);
        let mut draw = |letters: &[u8], most: u64| -> Vec<u8> {
            let n = 1 + rng.below(most);
            (0..n).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect()
        };
        for _ in 0..200_000 {
            let (pattern, text) = (draw(br"*?ab[]^-\", 8), draw(b"ab-]", 8));
            let expected = naive(&pattern, &text);
            assert_eq!(matches(&pattern, &text, false), expected, "{pattern:?} {text:?}");
            // With no step left to try places, stretches are searched for.
            assert_eq!(matches_within(&pattern, &text, false, 0).0, expected, "{pattern:?} {text:?}");
        }
    }

    /// Stretches of every length that is searched for in a way of its own, with and without wildcards and case.
    #[test]
    fn stretches_are_found_where_trying_finds_them() {
        let mut rng = crate::rng::Rng::seeded(5);
        let (items, letters) =
            ([&b"a"[..], b"b", b"A", b"?", b"[ab]", b"[^b]", b"[b-a]", b"\\a", b"[\\a]"], b"aaaaaaaabA");
        let mut found = [0; 2];
        for round in 0..6_000 {
            let (most, wild) = (1 + rng.below([4, 20, 200][round % 3]), rng.below(2) == 0);
            let text: Vec<u8> = (0..most * 4).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect();
            let mut pattern = Vec::new();
            for _ in 0..1 + rng.below(3) {
                pattern.extend(b"*");
                if wild {
                    let picked = if round % 2 == 0 { &items[..] } else { &items[3..6] };
                    (0..most).for_each(|_| pattern.extend(picked[rng.below(picked.len() as u64) as usize]));
                } else {
                    let from = rng.below(most * 3) as usize;
                    text[from..from + most as usize].iter().for_each(|byte| pattern.extend([b'\\', *byte]));
                }
            }
            if rng.below(2) == 0 {
                pattern.push(b'*');
            }
            for nocase in [false, true] {
                let (expected, _) = matches_within(&pattern, &text, nocase, usize::MAX);
                let (quick, _) = matches_within(&pattern, &text, nocase, 0);
                assert_eq!(quick, expected, "{:?} {:?}", pattern.escape_ascii(), text.escape_ascii());
                found[usize::from(expected)] += 1;
            }
        }
        assert!(found.iter().all(|count| *count > 1000), "{found:?}");
    }

    /// A client chooses both lengths: neither multiplies the other.
    #[test]
    fn steps_are_bounded_by_the_sum_of_the_lengths() {
        let (text, most) = (vec![b'a'; 100_000], 50_000);
        let end = |item: &[u8], times: usize| [b"*", &item.repeat(times)[..], b"b*"].concat();
        let patterns = [
            end(b"a", most),
            end(b"\\a", most / 2),
            end(b"?", most),
            end(b"[^b]", 1023),
            end(b"[^b]", 15),
            end(b"[ab]?", 511),
            [b"*[", &b"b".repeat(most)[..], b"]*"].concat(),
            [b"*?[", &b"b".repeat(most)[..], b"]?"].concat(),
            [b"*", &b"a".repeat(most)[..], b"b"].concat(),
            b"*a?b".repeat(most / 4),
            [&b"*[^b]a?".repeat(most / 8)[..], b"*b*"].concat(),
            [&b"*".to_vec()[..], &b"[^b]?a".repeat(10), b"*"].concat().repeat(500),
        ];
        for pattern in &patterns {
            for nocase in [false, true] {
                let tries = text.len() * TRIES + TRIES_ANYWAY;
                let (_, steps) = matches_within(pattern, &text, nocase, tries);
                // Nothing but the tries, a pass or two, a table's bits and 16 words a byte.
                let bound = tries + 4 * pattern.len() + 256 * pattern.len() / 4 + 18 * text.len();
                assert!(steps <= bound as u64, "{steps} of {bound} steps: {:?}", pattern[..20].escape_ascii());
                assert!(steps < (pattern.len() * text.len() / 100) as u64 || pattern.len() < 5_000, "{steps}");
            }
        }
    }

    /// Such a stretch is found while its places are tried, and nowhere later.
    #[test]
    fn a_stretch_that_is_too_long_is_found_by_trying_alone() {
        let pattern = [b"*", &b"?".repeat(stretch::ITEMS_MAX)[..], b"b*"].concat();
        let text = |before: usize| [&b"a".repeat(before)[..], b"b", b"a"].concat();
        assert!(matches(&pattern, &text(stretch::ITEMS_MAX), false));
        assert!(matches(&pattern[1..], &text(stretch::ITEMS_MAX), false));
        assert!(!matches(&pattern, &text(100_000), false));
        assert!(matches(&pattern[..pattern.len() - 1], &text(100_000)[..100_001], false), "its end is the text's");
        let pattern = [b"*", &b"?".repeat(stretch::ITEMS_MAX - 1)[..], b"b*"].concat();
        assert!(matches(&pattern, &text(100_000), false));
    }

    #[test]
    fn many_stars_end() {
        let pattern = b"*a".repeat(2_000);
        let text = vec![b'a'; 1_999];
        assert!(!matches(&pattern, &text, false));
        assert!(!matches(&[&b"a*".repeat(50)[..], b"b"].concat(), &vec![b'a'; 100_000], false));
    }
}
