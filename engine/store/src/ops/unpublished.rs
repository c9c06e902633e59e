//! Building a big collection over several holds of a shard, before any key leads to it.
//!
//! ```text
//!  a key's shard held:  begin_unpublished --> Unpublished         with no shard held before, again and again:
//!    unpublished_push, _add, _set, ..:  try the shard of the root --> some elements --> it stays held
//!  both shards held:    publish_built --> the key leads to the root, whatever it held before: one change
//!  dropped before that: the background lets the root die, as it forgets a reader whose owner is gone
//! ```
//! Nobody else is shown the root meanwhile: no key, no walk and no eviction leads to it. Reclaim moves its objects, and
//! while it is there FLUSHALL empties databases one by one, as it does while somebody reads.

use varve_collection::leaf_table::LeafTable;
use varve_collection::list::ListCtx;
use varve_collection::list::Quicklist;
use varve_collection::stream::Stream;
use varve_collection::zset::{SortedSet, ZAdd, ZAdded};
use varve_collection::{Collection, WriteCtx};
use varve_packed::node::Coded;

use super::Tx;
use super::streams::StreamWriter;
use crate::ListEnd;
use crate::state::key::Key;
use crate::state::link::Link;
use crate::state::readers::CollectionReader;
use crate::state::shard_set::ShardSet;
use crate::state::types::Type;

/// A big collection to which no key leads yet. Dropping it lets it die.
#[derive(Debug)]
pub struct Unpublished {
    hold: CollectionReader,
    ty: Type,
}

impl Tx<'_> {
    /// Begins an empty big collection for a key, whose shard is held.
    ///
    /// # Panics
    /// For a type that is no collection.
    pub fn begin_unpublished(&mut self, k: &Key<'_>, ty: Type) -> Unpublished {
        let at = self.held.position(self.store.shard_of(k.hash));
        let link = self.found(at, |ctx| match ty {
            Type::List => Collection::List(Quicklist::empty()),
            Type::Hash => Collection::Hash(LeafTable::fields()),
            Type::Set => Collection::Set(LeafTable::members()),
            Type::Zset => Collection::Zset(Box::new(SortedSet::new(ctx.id, 0))),
            Type::Stream => Collection::Stream(Box::new(Stream::empty())),
            Type::String => panic!("{ty:?} has no elements that are added one by one"),
        });
        Unpublished { hold: self.held.at_mut(at).withhold_root(self.store.ground(), link.place), ty }
    }

    /// Appends elements to a list; how many. `None`, and nothing is done, if its shard is busy.
    pub fn unpublished_push<'e>(
        &mut self,
        list: &mut Unpublished,
        elements: impl Iterator<Item = &'e [u8]>,
    ) -> Option<usize> {
        let shape = self.list_shape();
        self.with_compress(|tx, scratch| {
            tx.build_on(list, |collection, write| {
                let mut ctx = ListCtx { write, scratch, shape };
                let list = collection.list_mut();
                elements.map(|element| list.push(&mut ctx, ListEnd::Back, &Coded::of(element))).count()
            })
        })
    }

    /// Adds members to a set; the number of new ones. `None`, and nothing is done, if its shard is busy.
    pub fn unpublished_add<'m>(
        &mut self,
        set: &mut Unpublished,
        members: impl Iterator<Item = &'m [u8]> + Clone,
    ) -> Option<usize> {
        self.build_on(set, |collection, ctx| collection.set_mut().add_all(ctx, members))
    }

    /// Sets fields of a hash; the number of new ones. `None`, and nothing is done, if its shard is busy.
    pub fn unpublished_set<'p>(
        &mut self,
        hash: &mut Unpublished,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Option<usize> {
        self.build_on(hash, |collection, ctx| collection.hash_mut().set_all(ctx, pairs))
    }

    /// Sets fields of a hash, each with its value and when it expires, if it does; the number of new ones. `None`, and
    /// nothing is done, if its shard is busy.
    pub fn unpublished_set_dated<'p>(
        &mut self,
        hash: &mut Unpublished,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8], Option<i64>)>,
    ) -> Option<usize> {
        self.build_on(hash, |collection, ctx| collection.hash_mut().set_all_dated(ctx, pairs))
    }

    /// Adds members to a sorted set; the number of new ones. `None`, and nothing is done, if its shard is busy.
    pub fn unpublished_score<'m>(
        &mut self,
        zset: &mut Unpublished,
        items: impl Iterator<Item = (&'m [u8], f64)>,
    ) -> Option<usize> {
        self.build_on(zset, |collection, ctx| {
            let zset = collection.zset_mut();
            let add = |(member, score)| zset.add(ctx, member, score, ZAdd::default());
            items.map(add).filter(|added| matches!(added, ZAdded::Added(_))).count()
        })
    }

    /// Changes a stream. `None`, and nothing is done, if its shard is busy.
    pub fn unpublished_stream<R>(
        &mut self,
        stream: &mut Unpublished,
        change: impl FnOnce(&mut StreamWriter<'_, '_>) -> R,
    ) -> Option<R> {
        let limits = self.store.shapes().stream();
        self.build_on(stream, |collection, ctx| change(&mut StreamWriter::big(collection.stream_mut(), ctx, limits)))
    }

    /// Tries to hold the shards of a key and of the collection that it is going to lead to: two databases may have been
    /// exchanged since the collection was begun. False also if the key is frozen.
    pub fn try_hold_to_publish(&mut self, k: &Key<'_>, built: &Unpublished) -> bool {
        let shards = self.with_shard_of([self.shard_of(k.hash)].into_iter(), Some(built));
        self.try_hold(&shards) && !self.is_frozen(k)
    }

    /// These shards, and that of a collection which is going to be published.
    pub fn with_shard_of(&self, shards: impl Iterator<Item = u16>, built: Option<&Unpublished>) -> ShardSet {
        shards.chain(built.map(|built| self.shard_of_root(built) as u16)).collect()
    }

    /// Has a key lead to the collection, whatever the key held, without an expiry. The shards of both are held
    /// ([`Tx::try_hold_to_publish`]).
    ///
    /// # Panics
    /// If the collection is empty: no key leads to an empty one.
    pub fn publish_built(&mut self, k: &Key<'_>, built: Unpublished) {
        let Unpublished { mut hold, ty } = built;
        let (store, id) = (self.store, hold.id());
        let at = store.collections().get(id).expect("the root of what is built stays");
        let (from, shard) = (self.held.position(at.shard), store.shard_of(k.hash));
        self.held.at_mut(from).release_root(at.place);
        let place = if at.shard == shard {
            at.place
        } else {
            let root = self.held.at_mut(from).take_root(store.ground(), at.place);
            let to = self.held.position(shard);
            self.held.at_mut(to).adopt_root(store.ground(), shard, root).place
        };
        hold.end();
        // Due fields of a hash that is there go with it.
        let old = self.live_inlined(k);
        self.put_link(k, old, ty, Link { id, place });
        self.follow_fields(k, true);
        self.wrote(k);
    }

    fn shard_of_root(&self, built: &Unpublished) -> usize {
        self.store.collections().get(built.hold.id()).expect("the root of what is built stays").shard
    }

    /// Holds the shard of a collection and builds on; `None`, and nothing is done, if it is busy.
    fn build_on<R>(
        &mut self,
        built: &Unpublished,
        work: impl FnOnce(&mut Collection, &mut WriteCtx<'_>) -> R,
    ) -> Option<R> {
        // Nothing but `publish_built` moves the root to another shard.
        let shard = self.shard_of_root(built);
        if !self.try_hold_one(shard as u16) {
            return None;
        }
        let at = self.store.collections().get(built.hold.id()).expect("the root of what is built stays");
        debug_assert_eq!(at.shard, shard, "no key leads to the root, so no key takes it to another shard");
        let (ground, appender) = (self.store.ground(), self.local.appender());
        Some(self.held.at_mut(0).with_root(ground, appender, at.place, |root, ctx| {
            debug_assert!(root.unpublished, "nobody sees what is being built");
            work(&mut root.body, ctx)
        }))
    }
}
