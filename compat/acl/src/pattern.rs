//! Patterns of keys and channels, prepared so that the usual forms cost one comparison of bytes.
//!
//! ```text
//!   user:17    exactly these bytes          user:*    these bytes in front          user:[a-z]    these in front, and a glob
//! ```

use varve_base::glob;

/// The ways in which a key may be used: read, write, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyUse {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl KeyUse {
    pub(crate) const ALL: KeyUse = KeyUse { reads: true, writes: true };
    pub(crate) const READ: KeyUse = KeyUse { reads: true, writes: false };

    /// True if this allows all of `wanted`. A use that neither reads nor writes is allowed by any.
    #[inline]
    pub(crate) fn covers(self, wanted: KeyUse) -> bool {
        (self.reads || !wanted.reads) && (self.writes || !wanted.writes)
    }
}

/// A pattern of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: Box<[u8]>,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Exact,
    /// The text without its last byte, a star, stands in front.
    Prefix,
    /// This number of bytes stand in front: most names that do not match end there.
    Glob(usize),
}

impl Pattern {
    pub(crate) fn new(text: &[u8]) -> Pattern {
        let is_special = |byte: &u8| b"*?[\\".contains(byte);
        let form = match text.iter().position(is_special) {
            None => Form::Exact,
            Some(at) if at + 1 == text.len() && text[at] == b'*' => Form::Prefix,
            Some(at) => Form::Glob(at),
        };
        Pattern { text: text.into(), form }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// True if the whole name matches. As in redis-server, a star does not match the empty name.
    #[inline]
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        match self.form {
            Form::Exact => *self.text == *name,
            Form::Prefix => !name.is_empty() && name.starts_with(&self.text[..self.text.len() - 1]),
            Form::Glob(front) => name.starts_with(&self.text[..front]) && glob::matches(&self.text, name, false),
        }
    }
}

/// A pattern of keys, and what they may be used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    pub(crate) pattern: Pattern,
    pub(crate) allowed: KeyUse,
}

impl KeyPattern {
    /// The rule that makes it.
    pub(crate) fn rule(&self) -> Vec<u8> {
        let sign = match self.allowed {
            KeyUse { reads: true, writes: false } => &b"%R~"[..],
            KeyUse { reads: false, writes: true } => b"%W~",
            _ => b"~",
        };
        [sign, self.pattern.text()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_matches_what_the_glob_matches() {
        let names = ["", "a", "ab", "abc", "b", "a*", "*", "a?", "\\"];
        for pattern in
            ["", "a", "ab", "*", "a*", "ab*", "a?", "a*c", "[ab]*", "a[b]c", "ab?", "b*c", "\\*", "a\\*", "**"]
        {
            for name in names {
                let expected = glob::matches(pattern.as_bytes(), name.as_bytes(), false);
                assert_eq!(Pattern::new(pattern.as_bytes()).matches(name.as_bytes()), expected, "{pattern} {name}");
            }
        }
    }

    #[test]
    fn a_use_covers_what_it_has() {
        let write = KeyUse { reads: false, writes: true };
        assert!(
            KeyUse::ALL.covers(KeyUse::READ) && KeyUse::ALL.covers(write) && KeyUse::READ.covers(KeyUse::default())
        );
        assert!(!KeyUse::READ.covers(write) && !write.covers(KeyUse::ALL));
    }
}
