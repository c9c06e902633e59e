//! Whether a collection has an element twice: fields of a hash, members of a set or a sorted set.
//!
//! A reader has one part in memory at a time, so this keeps a hash of 64 bits for each name. Equal names are always found;
//! different ones agree by chance once in some hundred thousand collections of ten million elements, which are refused then.

use std::collections::HashSet;

use varve_base::hash::hash64;

use crate::format::Kind;
use crate::read::{Part, ReadFault};

/// The names of a collection that is being read.
#[derive(Debug, Default)]
pub struct Distinct {
    seen: HashSet<u64>,
    looks: bool,
}

/// The seed of the hashes.
const SEED: u64 = 0x5bd1_e995_97f4_a7c5;
/// Names for which memory is kept from one value to the next.
const KEEP_NAMES: usize = 1 << 12;

impl Distinct {
    /// Begins a value. A list may have an element twice.
    pub fn begin(&mut self, kind: Kind) {
        self.looks = matches!(kind, Kind::Set | Kind::Zset | Kind::Hash);
        self.seen.clear();
        self.seen.shrink_to(KEEP_NAMES);
    }

    /// Looks at the next part.
    ///
    /// # Errors
    /// Its name has come before.
    #[inline]
    pub fn add(&mut self, part: &Part<'_>) -> Result<(), ReadFault> {
        if !self.looks {
            return Ok(());
        }
        let (Part::Whole(name)
        | Part::Element(name)
        | Part::Pair(name, _)
        | Part::DatedPair(name, ..)
        | Part::Scored(name, _)) = part
        else {
            return Ok(());
        };
        if self.seen.insert(hash64(SEED, name)) { Ok(()) } else { Err(ReadFault::Duplicate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_come_once_in_a_set_and_twice_in_a_list() {
        let mut distinct = Distinct::default();
        distinct.begin(Kind::Hash);
        assert!(distinct.add(&Part::Pair(b"a", b"v")).is_ok());
        assert!(distinct.add(&Part::Pair(b"b", b"v")).is_ok());
        assert!(distinct.add(&Part::Pair(b"a", b"w")).is_err());
        distinct.begin(Kind::Set);
        assert!(distinct.add(&Part::Element(b"a")).is_ok());
        distinct.begin(Kind::List);
        assert!(distinct.add(&Part::Element(b"a")).is_ok());
        assert!(distinct.add(&Part::Element(b"a")).is_ok());
    }
}
