//! Members and scores on their way: what a command gathers from sets before it answers or stores it.
//!
//! ```text
//!  bytes  | a | bcd | ef | ...        members one behind the other
//!  items  | start, length, score |    in the order of gathering
//!  index  hash -> item                of the members that were merged or indexed
//! ```

use std::cmp::Ordering;

use hashbrown::HashTable;
use varve_base::hash::hash64;
use varve_exec::{CmdResult, CommandError, Ctx};

/// About the bytes that a member takes in the store beside its own.
const MEMBER_OVERHEAD_BYTES: usize = 48;

#[derive(Clone, Copy)]
struct Item {
    start: usize,
    len: usize,
    score: f64,
}

/// Members with their scores.
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    items: Vec<Item>,
    index: HashTable<usize>,
    /// The hash of a key, which follows from the process's seed: nobody outside can make members collide.
    seed: u64,
}

impl Scratch {
    pub(crate) fn new(seed: u64) -> Scratch {
        Scratch { bytes: Vec::new(), items: Vec::new(), index: HashTable::new(), seed }
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
            let bytes = (members.bytes.len() + members.items.len() * MEMBER_OVERHEAD_BYTES) as u64;
            if bytes <= room || ctx.tx.store().has_room(bytes) {
                return Ok(members);
            }
            ctx.tx.admit_more(bytes).map_err(|_| CommandError::OUT_OF_MEMORY)?;
            room = bytes;
        }
    }

    /// Makes 0 of -0 up to the first member that a packed sorted set of these limits does not take: the peer adds what it
    /// stores to a packed one, which keeps whole scores as integers, until that has to become a big one.
    pub(crate) fn lose_zero_signs(&mut self, entries: usize, value: usize) {
        for item in self.items.iter_mut().take(entries).take_while(|item| item.len <= value) {
            item.score += 0.0;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds a member that is not there, without indexing it.
    pub(crate) fn push(&mut self, member: &[u8], score: f64) {
        self.items.push(Item { start: self.bytes.len(), len: member.len(), score });
        self.bytes.extend_from_slice(member);
    }

    /// Adds a member, or folds the score into that of the one that is there.
    pub(crate) fn merge(&mut self, member: &[u8], score: f64, fold: impl FnOnce(f64, f64) -> f64) {
        match self.place(member) {
            Some(at) => self.items[at].score = fold(self.items[at].score, score),
            None => {
                self.push(member, score);
                self.index_item(self.items.len() - 1);
            }
        }
    }

    /// Where an indexed member is.
    fn place(&self, member: &[u8]) -> Option<usize> {
        let found = self.index.find(hash64(self.seed, member), |&at| text(&self.bytes, &self.items[at]) == member);
        found.copied()
    }

    fn index_item(&mut self, at: usize) {
        let (bytes, items, seed) = (&self.bytes, &self.items, self.seed);
        let hash = |at: &usize| hash64(seed, text(bytes, &items[*at]));
        self.index.insert_unique(hash(&at), at, hash);
    }

    /// Keeps the members for which `keep` gives a score, with that score. The index is no longer.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&[u8], f64) -> Option<f64>) {
        self.index.clear();
        let bytes = &self.bytes;
        self.items.retain_mut(|item| {
            let kept = keep(text(bytes, item), item.score);
            item.score = kept.unwrap_or(item.score);
            kept.is_some()
        });
    }

    /// Sorts by score, then by member.
    pub(crate) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.index.clear();
        self.items.sort_unstable_by(|a, b| {
            let scores = a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal);
            scores.then_with(|| text(bytes, a).cmp(text(bytes, b)))
        });
    }

    /// The members in their order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], f64)> {
        self.items.iter().map(|item| (text(&self.bytes, item), item.score))
    }
}

fn text<'b>(bytes: &'b [u8], item: &Item) -> &'b [u8] {
    &bytes[item.start..item.start + item.len]
}
