//! The passwords of a user, in the order in which they were added.

use std::collections::HashMap;

use crate::password::Digest;

/// Digests of passwords: each is added, found and taken away in constant time, however many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct PasswordSet {
    /// Each with its number: later ones have greater numbers.
    numbers: HashMap<Digest, u64>,
    next: u64,
}

impl PasswordSet {
    /// Adds a digest; one that is there keeps its place.
    pub(crate) fn insert(&mut self, digest: Digest) {
        self.numbers.entry(digest).or_insert(self.next);
        self.next += 1;
    }

    /// Takes a digest away; false if it was not there.
    pub(crate) fn remove(&mut self, digest: &Digest) -> bool {
        self.numbers.remove(digest).is_some()
    }

    /// Takes all away.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Digest> {
        self.numbers.keys()
    }

    /// All of them, in the order in which they were added.
    pub(crate) fn in_order(&self) -> Vec<&Digest> {
        let mut all: Vec<(&Digest, &u64)> = self.numbers.iter().collect();
        all.sort_unstable_by_key(|(_, number)| **number);
        all.into_iter().map(|(digest, _)| digest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_keep_the_order_in_which_they_came() {
        let digests: Vec<Digest> = (0..5_u8).map(|n| Digest::of(&[n])).collect();
        let mut set = PasswordSet::default();
        digests.iter().chain(&digests[..2]).for_each(|digest| set.insert(*digest));
        assert!(set.remove(&digests[0]) && !set.remove(&digests[0]));
        set.insert(digests[0]);
        let expected: Vec<&Digest> = digests[1..].iter().chain(&digests[..1]).collect();
        assert_eq!((set.in_order(), set.len(), set.iter().count()), (expected, 5, 5));
        set.clear();
        assert_eq!((set.in_order(), set.len()), (Vec::new(), 0));
    }
}
