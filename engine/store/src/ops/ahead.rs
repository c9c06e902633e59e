//! Finding what the commands of a batch are about to touch, for fetching it into the cache: objects of keys, elements of
//! big collections.
//!
//! ```text
//! pass 1   key's hash -> entry -> object
//! pass 2   object -> root -> bucket of the element     (for commands that name an element, or draw one)
//! pass 3   bucket -> the element's object
//! ```
//! A collection's table of some kilobytes is in the cache as long as anybody asks for its elements: then pass 2 goes on to
//! the element's object, and there is no pass 3.
//!
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
    /// Its table is so small that it is read without being fetched.
    has_small_table: bool,
}

/// The bytes up to which a collection's table is small: a part of the first-level cache.
const SMALL_TABLE_BYTES: usize = 16 << 10;

/// An element that a command will look for.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    collection: GuessedCollection,
    sought: Sought,
}

/// A line to fetch for an element that a command names.
#[derive(Clone, Copy, Debug)]
pub enum ElementLine {
    /// Its bucket's, which a later pass reads.
    Bucket(Ahead, Line),
    /// Its object's.
    Object(Line),
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
        let (_, r) = shard.index().candidates(hash).next()?;
        Some(self.store.log().line(r))
    }

    /// The big collection of the key with this hash, if it has one; the shard must be held.
    pub fn collection(&self, key_hash: u64) -> Option<GuessedCollection> {
        let id = self.store.shard_of(key_hash);
        let shard = self.held.at(self.held.position(id));
        let (_, r) = shard.index().candidates(key_hash).next()?;
        let link = shard.link_of(self.store.log(), r)?;
        let body = &shard.peek_root(link.place, link.id)?.body;
        let has_small_table = body.table_bytes() <= SMALL_TABLE_BYTES;
        Some(GuessedCollection { shard: id as u16, id: link.id, place: link.place, has_small_table })
    }

    /// The first line to fetch for an element. The shard must be held.
    #[inline]
    pub fn element_named(&self, collection: GuessedCollection, element: &[u8]) -> Option<ElementLine> {
        let hash = hash64(self.store.seed(), element);
        let body = self.collection_at(collection)?;
        if collection.has_small_table {
            return body.object_line(self.store.log(), hash).map(ElementLine::Object);
        }
        let line = body.table_line(hash)?;
        Some(ElementLine::Bucket(Ahead { collection, sought: Sought::Named(hash) }, line))
    }

    /// The worker's random numbers from here on.
    pub fn coming_draws(&self) -> Rng {
        self.local.coming_draws()
    }

    /// The bucket line of the element that a number draws, like [`Tx::element_named`], with a second bucket that may be
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
