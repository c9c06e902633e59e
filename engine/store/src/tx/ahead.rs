//! Fetching into the cache what the commands of a batch are about to touch: objects of keys, elements of big collections.
//!
//! ```text
//! pass 1   key's hash -> entry -> object          prefetched
//! pass 2   object -> root -> bucket of the element  prefetched     (for commands that name an element)
//! pass 3   bucket -> the element's object         prefetched
//! ```
//! All of it is a guess: tags are compared, keys are not, and nothing is kept but hashes. Shards are held one by one.

use varve_base::hash::hash64;

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
    /// Fetches the objects that a hash may mean into the cache; its shard must be held.
    #[inline]
    pub fn prefetch_object(&self, hash: u64) {
        let shard = self.held.at(self.held.position(self.store.shard_of(hash)));
        shard.index.find(hash, |r| {
            self.store.log.prefetch(r);
            true
        });
    }

    /// Fetches the bucket of an element of the key with this hash, if that is a big collection; the shard must be held.
    #[inline]
    pub fn prefetch_bucket(&self, key_hash: u64, element: &[u8]) -> Option<Ahead> {
        let id = self.store.shard_of(key_hash);
        let shard = self.held.at(self.held.position(id));
        let key = shard.index.find(key_hash, |_| true)?;
        let link = shard.link_of(&self.store.log, shard.index.get(key))?;
        let elements = shard.roots.peek(link.place, link.slot)?.body.elements()?;
        let hash = hash64(self.store.seed, element);
        elements.prefetch_bucket(hash);
        Some(Ahead { shard: id as u16, slot: link.slot, place: link.place, hash })
    }

    /// Fetches the object of an element whose bucket was fetched before. Its shard must be held.
    #[inline]
    pub fn prefetch_element(&self, ahead: &Ahead) {
        let shard = self.held.at(self.held.position(usize::from(ahead.shard)));
        if let Some(elements) = shard.roots.peek(ahead.place, ahead.slot).and_then(|root| root.body.elements()) {
            elements.prefetch_object(&self.store.log, ahead.hash);
        }
    }
}

impl Ahead {
    /// The shard to hold.
    #[inline]
    pub fn shard(&self) -> u16 {
        self.shard
    }
}
