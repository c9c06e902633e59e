//! `verify()`: the log against the index, the counts and the wheels; O(N), for tests, fuzzers and soaks.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use varve_collection::{CollectionId, ReadCtx};

use super::shard::{NEVER, Shard};
use super::store::Store;
use crate::state::collections::RootLocation;
use crate::state::key::{database_of, hash_of, wheel_bits};
use crate::state::small::{Small, due_of};
use crate::state::types::Type;

impl Store {
    /// Checks that every entry leads to a live object of this shard, that counts, live bytes and live objects agree,
    /// and that every volatile key is on its wheel. The keyspace must be at rest.
    ///
    /// # Panics
    /// With what is wrong.
    pub fn verify(&self) {
        let mut live = HashSet::new();
        for (id, cell) in self.cells().iter().enumerate() {
            let mut shard = cell.lock.lock();
            self.verify_shard(id, &shard, &mut live);
            self.verify_wheel(&mut shard);
        }
        self.verify_collections();
        self.log().verify_with(|head, _| live.contains(&head.r));
    }

    fn verify_shard(&self, id: usize, shard: &Shard, live: &mut HashSet<varve_base::Ref>) {
        shard.index.verify(&shard.hashes(self.log(), self.seed()));
        let mut counts = HashMap::new();
        let mut linked = HashMap::new();
        let mut small_dated = 0;
        shard.index.for_each(|r| {
            let object = shard.access.open(self.log(), r);
            let db = database_of(&object);
            let hash = hash_of(self.seed(), db, object.key());
            assert_eq!(self.shard_of(hash), id, "an entry lies in the shard of its hash");
            assert!(live.insert(r), "a Ref is in one index entry only");
            if let Some(link) = shard.link_of(self.log(), r) {
                assert!(linked.insert(link.id, link.place).is_none(), "two keys of {:?}", link.id);
            }
            small_dated += usize::from(due_of(&object).is_some());
            if let Some(small) = Small::of(&object) {
                small.verify(Type::of_kind(object.kind()).row().small, self.seed());
            }
            let count: &mut (u64, u64) = counts.entry(db).or_default();
            count.0 += 1;
            count.1 += u64::from(object.expiry_ms().is_some());
            let is_ahead = shard.walking.as_ref().is_some_and(|walking| walking.is_ahead(hash));
            assert!(!object.saved() || is_ahead, "a mark behind the walk, or without one");
        });
        assert_eq!(small_dated, shard.small_dated, "small hashes with fields that expire");
        self.verify_roots(shard, &linked, live);
        for c in shard.counts.iter() {
            let found = counts.remove(&c.db).unwrap_or_default();
            assert_eq!((c.keys, c.volatile), found, "counts of database {} in shard {id}", c.db);
        }
        assert!(counts.is_empty(), "databases without counts in shard {id}: {counts:?}");
    }

    /// Every collection id in use is that of a root where the table says, and the store's sums have the roots' tables.
    fn verify_collections(&self) {
        let (mut roots, mut bytes) = (0, 0);
        for (id, cell) in self.cells().iter().enumerate() {
            let shard = cell.lock.lock();
            bytes += shard.reported_bytes as u64;
            for (place, root) in shard.roots.iter() {
                assert_eq!(root.reported, root.held_bytes(), "bytes of the tables of {:?}", root.id);
                bytes += root.reported as u64;
                let at = RootLocation { shard: id, place };
                assert_eq!(self.collections().get(root.id), Some(at), "{:?} leads to its root", root.id);
                roots += 1;
            }
        }
        assert_eq!(self.collections().used(), roots, "collection ids in use");
        assert_eq!(self.table_bytes().load(Relaxed), bytes, "the sum of all tables");
    }

    /// Checks the roots of a shard: `linked` has the collections that its keys lead to.
    fn verify_roots(&self, shard: &Shard, linked: &HashMap<CollectionId, u32>, live: &mut HashSet<varve_base::Ref>) {
        let mut found = 0;
        for (place, root) in shard.roots.iter() {
            match linked.get(&root.id) {
                Some(&at) => {
                    assert!(!root.dying && !root.unpublished, "{:?} has a key, and dies or is not published", root.id);
                    assert_eq!(at, place, "the link of {:?}", root.id);
                    assert_eq!(root.dated, root.body.next_due_ms().is_some(), "fields of {:?} that expire", root.id);
                    found += 1;
                }
                None => assert!(root.dying || root.unpublished, "{:?} has no key", root.id),
            }
            root.body.verify(ReadCtx { log: self.log(), access: &shard.access, seed: self.seed() }, root.id, live);
        }
        assert_eq!(found, linked.len(), "keys that lead to no root");
        let dated = shard.roots.iter().filter(|(_, root)| root.dated).count();
        assert_eq!(dated, shard.dated, "hashes with fields that expire");
    }

    /// Empties the wheel, looks for every volatile key among its entries, and files the keys again.
    fn verify_wheel(&self, shard: &mut Shard) {
        shard.wheel.verify();
        let mut entries = Vec::new();
        while shard.wheel.drain_all(usize::MAX / 2, &mut entries).more {}
        let entries: HashSet<u64> = entries.into_iter().collect();
        let (mut again, mut idle) = (Vec::new(), Vec::new());
        shard.index.for_each(|r| {
            let object = shard.access.open(self.log(), r);
            let hash = shard.fields_of(&object);
            let times = [object.expiry_ms(), hash.and_then(|(_, due)| due)];
            let Some(at) = times.into_iter().flatten().min() else {
                // The entry that it may still have had is gone now.
                idle.extend(hash.and_then(|(place, _)| place));
                return;
            };
            let bits = wheel_bits(hash_of(self.seed(), database_of(&object), object.key()));
            let is_filed = entries.contains(&bits) || shard.overdue.contains(&bits);
            assert!(is_filed, "a volatile key, and a hash with fields that expire, is on the wheel");
            again.push((bits, at, hash));
        });
        idle.into_iter().for_each(|place| shard.note_filed(place, NEVER));
        for (bits, at, hash) in again {
            shard.refile(bits, at);
            hash.and_then(|(place, _)| place).into_iter().for_each(|place| shard.note_filed(place, at));
        }
    }
}
