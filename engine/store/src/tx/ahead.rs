//! Finding what the commands of a batch are about to touch, for fetching it into the cache: objects of keys, elements of
//! big collections.
//!
//! ```text
//! pass 1   key's hash -> entry -> object
//! pass 2   object -> root -> bucket of the element     (for commands that name an element)
//! pass 3   bucket -> the element's object
//! ```
//! A pass reads what the one before fetched, and gives places to fetch; the caller fetches them together. All of it is a
//! guess: tags are compared, keys are not, and nothing is kept but hashes. Shards are held one by one.

use varve_base::hash::hash64;
use varve_base::mem::Line;

use super::Tx;

/// An element that a command will look for.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    shard: u16,
    slot: u32,
    place: u32,
    hash: u64,
}

impl Tx<'_> {
    /// Where the object begins that a hash may mean; its shard must be held.
    #[inline]
    pub fn object_line(&self, hash: u64) -> Option<Line> {
        let shard = self.held.at(self.held.position(self.store.shard_of(hash)));
        let mut line = None;
        shard.index.find(hash, |r| {
            line = Some(self.store.log.line(r));
            true
        });
        line
    }

    /// Where the bucket of an element of the key with this hash is, if that is a big collection; the shard must be held.
    #[inline]
    pub fn bucket_line(&self, key_hash: u64, element: &[u8]) -> Option<(Ahead, Line)> {
        let id = self.store.shard_of(key_hash);
        let shard = self.held.at(self.held.position(id));
        let key = shard.index.find(key_hash, |_| true)?;
        let link = shard.link_of(&self.store.log, shard.index.get(key))?;
        let elements = shard.roots.peek(link.place, link.slot)?.body.elements()?;
        let hash = hash64(self.store.seed, element);
        let ahead = Ahead { shard: id as u16, slot: link.slot, place: link.place, hash };
        Some((ahead, elements.bucket_line(hash)))
    }

    /// Where the object of an element begins whose bucket was fetched before. Its shard must be held.
    #[inline]
    pub fn element_line(&self, ahead: &Ahead) -> Option<Line> {
        let shard = self.held.at(self.held.position(usize::from(ahead.shard)));
        let elements = shard.roots.peek(ahead.place, ahead.slot)?.body.elements()?;
        elements.object_line(&self.store.log, ahead.hash)
    }
}

impl Ahead {
    /// The shard to hold.
    #[inline]
    pub fn shard(&self) -> u16 {
        self.shard
    }
}
