//! Finding what the commands of a batch are about to touch, for fetching it into the cache: objects of keys, elements of
//! big collections.
//!
//! ```text
//! pass 1   key's hash -> entry -> object
//! pass 2   object -> root -> bucket of the element     (for commands that name an element, or draw one)
//! pass 3   bucket -> the element's object
//! ```
//! The members that SPOP draws follow from the worker's next random numbers: the passes take the numbers that are going
//! to come.
//!
//! A pass reads what the one before fetched, and gives places to fetch; the caller fetches them together. All of it is a
//! guess: tags are compared, keys are not, and nothing is kept but hashes. Shards are held one by one.

use varve_base::hash::hash64;
use varve_base::mem::Line;
use varve_base::rng::Rng;
use varve_collection::{Collection, CollectionId};

use super::Tx;

/// A big collection, as a guess at what a key's hash means.
#[derive(Clone, Copy, Debug)]
pub struct GuessedCollection {
    shard: u16,
    id: CollectionId,
    place: u32,
}

/// An element that a command will look for.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    collection: GuessedCollection,
    sought: Sought,
}

#[derive(Clone, Copy, Debug)]
enum Sought {
    /// The element with this hash.
    Named(u64),
    /// The one that is drawn by this number.
    Drawn(u64),
}

impl Tx<'_> {
    /// Where the object begins that a hash may mean; its shard must be held.
    #[inline]
    pub fn object_line(&self, hash: u64) -> Option<Line> {
        let shard = self.held.at(self.held.position(self.store.shard_of(hash)));
        let mut line = None;
        shard.index().find(hash, |r| {
            line = Some(self.store.log().line(r));
            true
        });
        line
    }

    /// The big collection of the key with this hash, if it has one; the shard must be held.
    pub fn collection(&self, key_hash: u64) -> Option<GuessedCollection> {
        let id = self.store.shard_of(key_hash);
        let shard = self.held.at(self.held.position(id));
        let mut object = None;
        shard.index().find(key_hash, |r| {
            object = Some(r);
            true
        });
        let link = shard.link_of(self.store.log(), object?)?;
        Some(GuessedCollection { shard: id as u16, id: link.id, place: link.place })
    }

    /// Where the bucket of an element is. The shard must be held.
    #[inline]
    pub fn bucket_line(&self, collection: GuessedCollection, element: &[u8]) -> Option<(Ahead, Line)> {
        let hash = hash64(self.store.seed(), element);
        let line = self.collection_at(collection)?.table_line(hash)?;
        Some((Ahead { collection, sought: Sought::Named(hash) }, line))
    }

    /// The worker's random numbers from here on.
    pub fn coming_draws(&self) -> Rng {
        self.local.coming_draws()
    }

    /// The bucket line of the element that a number draws, like [`Tx::bucket_line`], with a second bucket that may be
    /// looked at.
    #[inline]
    pub fn drawn_lines(&self, collection: GuessedCollection, number: u64) -> Option<(Ahead, [Line; 2])> {
        let Collection::Set(members) = self.collection_at(collection)? else { return None };
        let lines = members.draw_lines(number);
        Some((Ahead { collection, sought: Sought::Drawn(number) }, lines))
    }

    /// Where the object of an element begins whose bucket was fetched before. Its shard must be held.
    #[inline]
    pub fn element_line(&self, ahead: &Ahead) -> Option<Line> {
        match (ahead.sought, self.collection_at(ahead.collection)?) {
            (Sought::Named(hash), collection) => collection.object_line(self.store.log(), hash),
            (Sought::Drawn(number), Collection::Set(members)) => members.drawn_line(self.store.log(), number),
            (Sought::Drawn(_), _) => None,
        }
    }

    #[inline]
    fn collection_at(&self, collection: GuessedCollection) -> Option<&Collection> {
        let shard = self.held.at(self.held.position(usize::from(collection.shard)));
        shard.peek_root(collection.place, collection.id).map(|root| &root.body)
    }
}

impl Ahead {
    /// The shard to hold.
    #[inline]
    pub fn shard(&self) -> u16 {
        self.collection.shard
    }
}
