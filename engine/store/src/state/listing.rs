//! Listings of names of keys: what a shard knows of them, and the names.
//!
//! ```text
//!  KeyListing --> ListingState { cursor, names listed, names that came }  <-- weakly -- Listings of each shard ahead
//! ```
//! Not here: how keys are met, come and go (`keyspace/listing.rs`).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use varve_base::rank::RankedMutex;

use super::key::Place;

/// Bytes of names in a block; a longer name has one of its own.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of a name's length in front of it.
const LEN_BYTES: usize = size_of::<u32>();
/// Bytes that a key which has come takes beside its name.
pub(crate) const CAME_BYTES: usize = 64;

/// Whether a listing wants a key of this name.
pub type WantsName = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// A listing that is under way.
pub struct KeyListing {
    pub(crate) shared: Arc<ListingState>,
    pub(crate) live: Arc<AtomicUsize>,
}

impl std::fmt::Debug for KeyListing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyListing").field("cursor", &self.cursor()).finish_non_exhaustive()
    }
}

/// The state of a listing.
pub(crate) struct ListingState {
    /// The physical number of the database.
    pub(crate) db: u16,
    /// The time at which it began: keys whose time had come are not listed.
    pub(crate) now_ms: i64,
    pub(crate) seed: u64,
    pub(crate) wants: WantsName,
    /// Places before this one have been passed. It changes with the shard of the place locked.
    pub(crate) cursor: AtomicU64,
    pub(crate) names: RankedMutex<Names>,
}

#[derive(Default)]
pub(crate) struct Names {
    pub(crate) listed: KeyNames,
    /// Keys ahead that were not there when it began. A tree: a table that grows would be moved as a whole.
    pub(crate) came: BTreeSet<Box<[u8]>>,
    pub(crate) came_bytes: usize,
}

/// Names of keys, one behind the other.
#[derive(Debug, Default)]
pub struct KeyNames {
    blocks: Vec<Vec<u8>>,
    count: usize,
}

impl KeyNames {
    /// Number of names.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True without names.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that they take.
    pub fn held_bytes(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum()
    }

    pub(crate) fn push(&mut self, name: &[u8]) {
        let bytes = LEN_BYTES + name.len();
        if self.blocks.last().is_none_or(|block| block.capacity() - block.len() < bytes) {
            self.blocks.push(Vec::with_capacity(BLOCK_BYTES.max(bytes)));
        }
        let block = self.blocks.last_mut().expect("a block with room");
        let len = u32::try_from(name.len()).expect("a name is shorter than 4 GB");
        block.extend_from_slice(&len.to_le_bytes());
        block.extend_from_slice(name);
        self.count += 1;
    }

    /// Takes the names of some block out, and shows them; how many.
    pub fn take_some(&mut self, mut show: impl FnMut(&[u8])) -> usize {
        let Some(block) = self.blocks.pop() else { return 0 };
        let (mut rest, mut shown) = (&block[..], 0);
        while let Some((len, behind)) = rest.split_first_chunk::<LEN_BYTES>() {
            let (name, behind) = behind.split_at(u32::from_le_bytes(*len) as usize);
            show(name);
            (rest, shown) = (behind, shown + 1);
        }
        self.count -= shown;
        shown
    }
}

impl KeyListing {
    /// The place from which on nothing has been passed.
    pub(crate) fn cursor(&self) -> Place {
        Place(self.shared.cursor.load(Relaxed))
    }
}

impl Drop for KeyListing {
    fn drop(&mut self) {
        let before = self.live.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a listing that was counted");
    }
}

impl Names {
    /// Lists a key, if it is wanted and was there when the listing began.
    pub(crate) fn list(&mut self, shared: &ListingState, name: &[u8]) {
        if (shared.wants)(name) && !self.came.contains(name) {
            self.listed.push(name);
        }
    }
}

impl ListingState {
    /// True if the key is one of the database, and the listing has yet to come to its place.
    pub(crate) fn concerns(&self, shard: usize, db: u16, hash: u64) -> bool {
        db == self.db && Place::of(shard, hash) >= Place(self.cursor.load(Relaxed))
    }
}

/// The listings that a shard knows of.
pub(crate) struct Listings {
    pub(crate) shard: usize,
    pub(crate) listings: Vec<Weak<ListingState>>,
}

impl Listings {
    /// Shows each listing that is under way, and forgets the others; whether there is any.
    pub(crate) fn each(&mut self, mut act: impl FnMut(&ListingState)) -> bool {
        self.listings.retain(|listing| listing.upgrade().is_some_and(|shared| (act(&shared), true).1));
        !self.listings.is_empty()
    }
}
