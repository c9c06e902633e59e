//! The prefixes of keys that somebody tracks, and the way from a key to those that it begins with.
//!
//! ```text
//!   lengths    4 -> { hash of "foo:" ..}    5 -> { hash of "user:" .. }         a key is hashed once, from one length to the next
//!                                                  |
//!   names      "user:" -> [counts]  <--------------'  looked up where a prefix of this hash is known
//! ```
//! A client may have half a million prefixes, and every write asks for those of its key: to compare them one by one took
//! milliseconds.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use super::Name;

/// The multiplier of the 64-bit FNV hash, which takes in a byte at a time.
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// See the module's picture. `V` is what is known of a prefix.
#[derive(Debug)]
pub(super) struct KnownPrefixes<V> {
    names: HashMap<Name, V>,
    /// How many prefixes have a hash, by their length.
    lengths: BTreeMap<usize, HashMap<u64, usize>>,
    seed: u64,
}

impl<V> Default for KnownPrefixes<V> {
    fn default() -> KnownPrefixes<V> {
        let seed = RandomState::new().hash_one(0);
        KnownPrefixes { names: HashMap::new(), lengths: BTreeMap::new(), seed }
    }
}

impl<V> KnownPrefixes<V> {
    /// The prefixes.
    pub(super) fn names(&self) -> &HashMap<Name, V> {
        &self.names
    }

    /// Changes what is known of the prefix of this name; it may come, or go.
    pub(super) fn change<R>(&mut self, name: &[u8], change: impl FnOnce(&mut HashMap<Name, V>) -> R) -> R {
        let was_there = self.names.contains_key(name);
        let done = change(&mut self.names);
        let is_there = self.names.contains_key(name);
        if was_there != is_there {
            let hash = hashed(self.seed, name);
            let hashes = self.lengths.entry(name.len()).or_default();
            if is_there {
                *hashes.entry(hash).or_default() += 1;
            } else {
                let count = hashes.get_mut(&hash).expect("a known prefix has its hash");
                *count -= 1;
                if *count == 0 {
                    hashes.remove(&hash);
                }
            }
            if hashes.is_empty() {
                self.lengths.remove(&name.len());
            }
        }
        done
    }

    /// Calls `each` with every prefix that the key begins with, the shortest one first.
    pub(super) fn each_of(&self, key: &[u8], mut each: impl FnMut(&Name)) {
        let (mut hash, mut done) = (self.seed, 0);
        for (&length, hashes) in self.lengths.range(..=key.len()) {
            hash = hashed(hash, &key[done..length]);
            done = length;
            if hashes.contains_key(&hash)
                && let Some((name, _)) = self.names.get_key_value(&key[..length])
            {
                each(name);
            }
        }
    }
}

/// The hash of what was hashed before, and of these bytes behind it.
fn hashed(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use varve_base::rng::Rng;

    use super::*;

    #[test]
    fn a_key_finds_the_prefixes_that_it_begins_with() {
        let mut rng = Rng::seeded(7);
        let mut text = |most: u64| -> Vec<u8> { (0..rng.below(most)).map(|_| b"ab"[rng.below(2) as usize]).collect() };
        let (mut known, mut model) = (KnownPrefixes::default(), BTreeSet::new());
        for round in 0..3000 {
            let name = text(7);
            if model.remove(&name) {
                known.change(&name, |names| names.remove(&name[..]));
            } else {
                known.change(&name, |names| names.insert(Name::from(&name[..]), round));
                model.insert(name);
            }
            let (key, mut found) = (text(10), Vec::new());
            known.each_of(&key, |name| found.push(name.to_vec()));
            let expected: Vec<Vec<u8>> = model.iter().filter(|name| key.starts_with(name)).cloned().collect();
            assert_eq!(found, expected, "{key:?}");
        }
        assert!(model.len() > 20 && known.names().len() == model.len());
        for name in model {
            known.change(&name, |names| names.remove(&name[..]));
        }
        assert!(known.names.is_empty() && known.lengths.is_empty());
    }
}
