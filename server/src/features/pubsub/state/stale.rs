//! Keys whose copies at clients no longer hold (client-side caching).

use super::Name;

/// A change of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// These keys, each with the connection that changed it (0: none).
    Keys(Vec<(Name, u64)>),
    /// Every key.
    All,
}

impl Stale {
    /// The changes without those of `client`, which does not want to be notified of its own; None if none are its own.
    pub(crate) fn without(&self, client: u64) -> Option<Stale> {
        match self {
            Stale::Keys(keys) if keys.iter().any(|(_, by)| *by == client) => {
                Some(Stale::Keys(keys.iter().filter(|(_, by)| *by != client).cloned().collect()))
            }
            _ => None,
        }
    }

    /// The changes of those keys for which `is_told` is true.
    pub(crate) fn of_keys(&self, is_told: impl Fn(&[u8]) -> bool) -> Stale {
        match self {
            Stale::Keys(keys) => Stale::Keys(keys.iter().filter(|(key, _)| is_told(key)).cloned().collect()),
            Stale::All => Stale::All,
        }
    }

    /// About the memory that the keys take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Stale::Keys(keys) => keys.iter().map(|(key, _)| key.len() + 40).sum(),
            Stale::All => 0,
        }
    }

    /// True if there is nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Stale::Keys(keys) if keys.is_empty())
    }
}
