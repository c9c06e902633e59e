//! A hash of texts that clients choose, for a table of the server's.

use std::hash::{BuildHasher, Hasher, RandomState};

use varve_base::hash::hash64;

/// Hashes texts by XXH3. The seed is drawn: clients cannot find out which texts meet in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextHashes {
    seed: u64,
}

impl Default for TextHashes {
    fn default() -> TextHashes {
        TextHashes { seed: RandomState::new().hash_one(0) }
    }
}

impl BuildHasher for TextHashes {
    type Hasher = TextHasher;

    fn build_hasher(&self) -> TextHasher {
        TextHasher { hash: self.seed }
    }
}

/// See [`TextHashes`].
pub(crate) struct TextHasher {
    hash: u64,
}

impl Hasher for TextHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.hash = hash64(self.hash, bytes);
    }

    /// A text's length, which is part of its hash anyway.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.hash
    }
}
