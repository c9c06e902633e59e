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
//! again: whatever an earlier star could still take, the last one can take too. So the cost is at most the product
//! of both lengths.

/// Whether the whole of `text` matches `pattern`; `nocase` folds ASCII letters.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // After the last star: where the pattern goes on, and where in the text that was tried last.
    let mut retry: Option<(usize, usize)> = None;
    if text.is_empty() {
        return pattern.is_empty();
    }
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += stars(&pattern[p..]);
            if p == pattern.len() {
                return true;
            }
            retry = Some((p, t));
        } else if let Some(length) = one(&pattern[p..], text[t], nocase) {
            p += length;
            t += 1;
        } else if let Some((after, tried)) = retry {
            (p, t) = (after, tried + 1);
            retry = Some((after, tried + 1));
        } else {
            return false;
        }
    }
    p + stars(&pattern[p..]) == pattern.len()
}

/// How many stars `pattern` begins with.
fn stars(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|&&b| b == b'*').count()
}

/// Matches one byte with the first item of `pattern`; returns the item's length.
fn one(pattern: &[u8], byte: u8, nocase: bool) -> Option<usize> {
    let (item, length) = match *pattern {
        [] => return None,
        [b'?', ..] => return Some(1),
        [b'[', ref set @ ..] => {
            let (holds, length) = in_set(set, byte, nocase);
            return holds.then_some(1 + length);
        }
        [b'\\', escaped, ..] => (escaped, 2),
        [plain, ..] => (plain, 1),
    };
    (fold(item, nocase) == fold(byte, nocase)).then_some(length)
}

/// Whether `byte` is in the set that starts behind its `[`, and the bytes of the set with its `]` if it has one.
fn in_set(set: &[u8], byte: u8, nocase: bool) -> (bool, usize) {
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match set[at..] {
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [b']', ..] => return (found != negated, at + 1),
            [] => return (found != negated, at),
            [from, b'-', to, ..] => {
                let (low, high) = if (from as i8) > to as i8 { (to, from) } else { (from, to) };
                let (low, high, byte) = (fold(low, nocase), fold(high, nocase), fold(byte, nocase));
                found |= (low as i8..=high as i8).contains(&(byte as i8));
                at += 3;
            }
            [plain, ..] => {
                found |= fold(plain, nocase) == fold(byte, nocase);
                at += 1;
            }
        }
    }
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
            (p, [byte, rest @ ..]) => one(p, *byte, false).is_some_and(|n| naive(&p[n..], rest)),
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
            assert_eq!(matches(&pattern, &text, false), naive(&pattern, &text), "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn many_stars_end() {
        let pattern = b"*a".repeat(2_000);
        let text = vec![b'a'; 1_999];
        assert!(!matches(&pattern, &text, false));
        assert!(!matches(&[&b"a*".repeat(50)[..], b"b"].concat(), &vec![b'a'; 100_000], false));
    }
}
