//! Patterns of keys and channels, and the ways in which keys may be used.

use varve_base::glob::Glob;

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

    /// The rule that allows keys of this pattern.
    pub(crate) fn rule(self, pattern: &[u8]) -> Vec<u8> {
        let sign = match self {
            KeyUse { reads: true, writes: false } => &b"%R~"[..],
            KeyUse { reads: false, writes: true } => b"%W~",
            _ => b"~",
        };
        [sign, pattern].concat()
    }
}

/// A pattern of names.
pub(crate) type Pattern = Glob<Box<[u8]>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_covers_what_it_has() {
        let write = KeyUse { reads: false, writes: true };
        assert!(
            KeyUse::ALL.covers(KeyUse::READ) && KeyUse::ALL.covers(write) && KeyUse::READ.covers(KeyUse::default())
        );
        assert!(!KeyUse::READ.covers(write) && !write.covers(KeyUse::ALL));
    }
}
