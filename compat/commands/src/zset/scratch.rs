//! Members and scores on their way: what a command gathers from sets before it answers or stores it.
//!
//! ```text
//!  texts  | a | bcd | ef | ...        members one behind the other
//!  items  | place, score, round |     in the order of gathering
//!  index  hash -> item                of the members that were indexed; of many in tables that are small, so that none
//!                                     of them takes long to grow
//! ```

use std::cmp::Ordering;

use hashbrown::HashTable;
use varve_base::hash::hash64;
use varve_exec::{CmdResult, Ctx};

use crate::errors;
use crate::generic::texts::{Place, Texts};

/// About the bytes that a member takes in the store beside its own.
const MEMBER_OVERHEAD_BYTES: usize = 48;

/// Members that may be indexed: their numbers have 32 bits.
const INDEXED_MAX: usize = u32::MAX as usize;

/// Tables of the index of many members: of ten million, each has some 2500.
const TABLES: usize = 4096;

/// The round of a member that a difference has lost.
const STRUCK: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Item {
    place: Place,
    /// The number of the set in which the member was met last.
    round: u32,
    score: f64,
}

/// Members with their scores.
pub(crate) struct Scratch {
    texts: Texts,
    items: Vec<Item>,
    /// One table, or [`TABLES`] of them.
    index: Vec<HashTable<u32>>,
    /// The hash of a key, which follows from the process's seed: nobody outside can make members collide.
    seed: u64,
    /// How many members may be indexed.
    indexed_max: usize,
    /// There were more, which are not here.
    is_over: bool,
}

impl Scratch {
    pub(crate) fn new(seed: u64) -> Scratch {
        Scratch {
            texts: Texts::default(),
            items: Vec::new(),
            index: vec![HashTable::new()],
            seed,
            indexed_max: INDEXED_MAX,
            is_over: false,
        }
    }

    /// Scratch space for many members, none of whose additions takes long.
    pub(crate) fn of_many(seed: u64) -> Scratch {
        Scratch { index: vec![HashTable::new(); TABLES], ..Scratch::new(seed) }
    }

    /// Gathers what is to be stored, and has it admitted against the limit. If the shards had to be let go for that, what
    /// was read no longer holds, and it is gathered again.
    pub(crate) fn admitted<'c, 'a>(
        ctx: &mut Ctx<'c, 'a>,
        mut gather: impl FnMut(&mut Ctx<'c, 'a>, &mut Scratch) -> CmdResult,
    ) -> CmdResult<Scratch> {
        let mut room = 0;
        loop {
            let mut members = Scratch::new(ctx.key(1).hash);
            gather(ctx, &mut members)?;
            let bytes = (members.texts.bytes() + members.items.len() * MEMBER_OVERHEAD_BYTES) as u64;
            if bytes <= room || ctx.tx.store().has_room(bytes) {
                return Ok(members);
            }
            ctx.admit_more(bytes)?;
            room = bytes;
        }
    }

    /// Makes 0 of -0 up to the first member that a packed sorted set of these limits does not take: the peer adds what it
    /// stores to a packed one, which keeps whole scores as integers, until that has to become a big one.
    pub(crate) fn lose_zero_signs(&mut self, entries: usize, value: usize) {
        for item in self.items.iter_mut().take(entries).take_while(|item| item.place.len() <= value) {
            item.score += 0.0;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds a member that is not there, without indexing it.
    pub(crate) fn push(&mut self, member: &[u8], score: f64) {
        let place = self.texts.push(member);
        self.items.push(Item { place, round: 0, score });
    }

    /// Refuses a result of which members are missing, since there were more than can be indexed.
    pub(crate) fn check(&self) -> CmdResult {
        if self.is_over { Err(errors::TOO_MANY_MEMBERS) } else { Ok(()) }
    }

    /// Adds a member that is not there; one too many is left out ([`Scratch::check`]).
    pub(crate) fn insert(&mut self, member: &[u8], score: f64) {
        if self.items.len() >= self.indexed_max {
            self.is_over = true;
            return;
        }
        self.push(member, score);
        self.index_item(self.items.len() - 1);
    }

    /// Adds a member, or folds the score into that of the one that is there.
    pub(crate) fn merge(&mut self, member: &[u8], score: f64, fold: impl FnOnce(f64, f64) -> f64) {
        match self.find(member) {
            Some(at) => self.items[at].score = fold(self.items[at].score, score),
            None => self.insert(member, score),
        }
    }

    /// An indexed member is met in the set of number `round`: if it was in the set of number `before` as well, its score
    /// becomes what `fold` gives.
    pub(crate) fn meet(&mut self, member: &[u8], (before, round): (u32, u32), fold: impl FnOnce(f64) -> f64) {
        if let Some(at) = self.find(member)
            && self.items[at].round == before
        {
            let item = &mut self.items[at];
            (item.score, item.round) = (fold(item.score), round);
        }
    }

    /// The member at a place is met in the set of number `round`, which makes its score what `fold` gives.
    pub(crate) fn meet_at(&mut self, at: usize, round: u32, fold: impl FnOnce(f64) -> f64) {
        let item = &mut self.items[at];
        (item.score, item.round) = (fold(item.score), round);
    }

    /// The member at a place is to go.
    pub(crate) fn strike_at(&mut self, at: usize) {
        self.items[at].round = STRUCK;
    }

    /// An indexed member is to go ([`Scratch::drop_struck`]).
    pub(crate) fn strike(&mut self, member: &[u8]) {
        self.meet(member, (0, STRUCK), |score| score);
    }

    /// Drops the members that were struck. The index is no longer.
    pub(crate) fn drop_struck(&mut self) {
        self.drop_index();
        self.items.retain(|item| item.round != STRUCK);
    }

    /// The number of the set in which the member at a place was met last.
    pub(crate) fn round(&self, at: usize) -> u32 {
        self.items[at].round
    }

    /// The table for members of this hash.
    fn table(&self, hash: u64) -> usize {
        (hash >> 40) as usize % self.index.len()
    }

    /// Where an indexed member is.
    fn find(&self, member: &[u8]) -> Option<usize> {
        let hash = hash64(self.seed, member);
        let found = self.index[self.table(hash)].find(hash, |&at| self.text(at as usize) == member);
        found.map(|&at| at as usize)
    }

    fn index_item(&mut self, at: usize) {
        let number = u32::try_from(at).expect("no more members than may be indexed");
        let hash = hash64(self.seed, self.text(at));
        let table = self.table(hash);
        let (texts, items, seed) = (&self.texts, &self.items, self.seed);
        self.index[table].insert_unique(hash, number, |&at| hash64(seed, texts.get(items[at as usize].place)));
    }

    fn text(&self, at: usize) -> &[u8] {
        self.texts.get(self.items[at].place)
    }

    /// Keeps the members for which `keep` gives a score, with that score. The index is no longer.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&[u8], f64) -> Option<f64>) {
        self.drop_index();
        let texts = &self.texts;
        self.items.retain_mut(|item| {
            let kept = keep(texts.get(item.place), item.score);
            item.score = kept.unwrap_or(item.score);
            kept.is_some()
        });
    }

    fn drop_index(&mut self) {
        self.index.truncate(1);
        self.index[0].clear();
    }

    /// Sorts by score, then by member.
    pub(crate) fn sort(&mut self) {
        self.drop_index();
        let texts = &self.texts;
        self.items.sort_unstable_by(|a, b| in_order(texts, a, b));
    }

    /// The order of the members at two places: by score, then by member.
    pub(crate) fn compare(&self, a: usize, b: usize) -> Ordering {
        in_order(&self.texts, &self.items[a], &self.items[b])
    }

    /// The member at a place, and its score.
    pub(crate) fn at(&self, place: usize) -> (&[u8], f64) {
        (self.text(place), self.items[place].score)
    }

    /// Bytes that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        // Of its tables about: a number and a byte of control a member, and room that is free.
        let index = self.index.len() * size_of::<HashTable<u32>>() + self.items.len() * 8;
        self.texts.held_bytes() + self.items.capacity() * size_of::<Item>() + index
    }

    /// The members in their order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], f64)> {
        self.items.iter().map(|item| (self.texts.get(item.place), item.score))
    }
}

fn in_order(texts: &Texts, a: &Item, b: &Item) -> Ordering {
    let scores = a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal);
    scores.then_with(|| texts.get(a.place).cmp(texts.get(b.place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_beyond_the_bound_are_an_error() {
        let mut members = Scratch { indexed_max: 3, ..Scratch::of_many(7) };
        for name in [b"a", b"b", b"a", b"c", b"b"] {
            members.merge(name, 1.0, |old, new| old + new);
            assert!(members.check().is_ok());
        }
        members.merge(b"d", 1.0, |old, new| old + new);
        let refused = members.check().expect_err("a member is missing");
        assert_eq!(refused.text(), errors::TOO_MANY_MEMBERS.text());
        members.merge(b"a", 1.0, |old, new| old + new);
        let found: Vec<_> = members.iter().map(|(name, score)| (name.to_vec(), score)).collect();
        assert_eq!(found, [(b"a".to_vec(), 3.0), (b"b".to_vec(), 2.0), (b"c".to_vec(), 1.0)]);
    }
}
