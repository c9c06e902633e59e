//! Leaves as they were, and the objects that they name: a collection keeps them for its readers beyond what it has itself.
//!
//! ```text
//!   a leaf about to change --> HandedLeaf { its bytes, number -> slot }     one copy for all readers that miss it
//!                                                                  |
//!   slot --> { Ref, the readers that need it, its bytes once the collection has let it go }
//! ```
//! A long element has an object of its own, which a leaf names by number. Such an object is not copied when its leaf is
//! handed over: it stays as it is until the last reader that needs it was shown it. Reclaim may move it, so a copy names
//! it by slot. If the collection removes the element meanwhile, the object is the readers' alone, and dies with the last
//! of them.
//!
//! Each reader counts the bytes that are kept on its account ([`ReaderBytes`]): whole copies, shared or not, and objects
//! that the collection has let go. The collection counts a copy once. Readers of one owner may have a common sum
//! ([`KeptBytes`]). What a reader shares with the collection beside that, and the collection copies before it changes, is
//! the reader's alone from then on ([`LentBytes`]). Not here: which leaf a reader is shown next.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use smallvec::SmallVec;
use varve_base::Ref;
use varve_segment::Log;

use crate::WriteCtx;

/// Bytes that a handed leaf takes beside its own: its places in the maps of its collection and of one reader.
const HANDED_BYTES: usize = 112;
/// Bytes of a slot, and of the place of its object in a leaf and in the map.
const SLOT_BYTES: usize = 136;

/// Bytes that are kept for all readers that were made with it.
#[derive(Clone, Debug, Default)]
pub struct KeptBytes(Arc<AtomicUsize>);

impl KeptBytes {
    /// Bytes that are kept for these readers now.
    #[inline]
    pub fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// The account of one more reader.
    pub fn reader(&self) -> ReaderBytes {
        ReaderBytes(Arc::new(Account { bytes: AtomicUsize::new(0), sum: Some(self.clone()) }))
    }
}

/// Bytes that are kept for one reader: its collection counts them, its owner asks.
#[derive(Clone, Debug, Default)]
pub struct ReaderBytes(Arc<Account>);

#[derive(Debug, Default)]
struct Account {
    bytes: AtomicUsize,
    sum: Option<KeptBytes>,
}

impl Drop for Account {
    /// FLUSHALL frees collections with all that they keep: nobody takes it back from their readers.
    fn drop(&mut self) {
        let rest = *self.bytes.get_mut();
        if let Some(KeptBytes(sum)) = &self.sum {
            let before = sum.fetch_sub(rest, Relaxed);
            debug_assert!(before >= rest, "{rest} bytes of a reader in a sum of {before}");
        }
    }
}

impl ReaderBytes {
    /// Bytes that are kept for the reader now.
    #[inline]
    pub fn get(&self) -> usize {
        self.0.bytes.load(Relaxed)
    }

    pub(crate) fn add(&self, bytes: usize) {
        if let Some(KeptBytes(sum)) = &self.0.sum {
            sum.fetch_add(bytes, Relaxed);
        }
        self.0.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn sub(&self, bytes: usize) {
        let before = self.0.bytes.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "a reader gives back what it has: {bytes} of {before}");
        if let Some(KeptBytes(sum)) = &self.0.sum {
            let before = sum.fetch_sub(bytes, Relaxed);
            debug_assert!(before >= bytes, "the sum has what each reader has: {bytes} of {before}");
        }
    }
}

/// Bytes that a collection shares with a reader: those that the collection changes or drops are the reader's alone from then
/// on, until the reader is gone.
#[derive(Debug)]
pub(crate) struct LentBytes {
    reader: Weak<Account>,
    /// Bytes that are shared still.
    left: usize,
}

impl LentBytes {
    /// All bytes that are shared with a reader as it begins.
    pub(crate) fn new(reader: &ReaderBytes, bytes: usize) -> LentBytes {
        LentBytes { reader: Arc::downgrade(&reader.0), left: bytes }
    }

    /// The collection does not have this number of the bytes any more. False if the reader is gone.
    pub(crate) fn leave(&mut self, bytes: usize) -> bool {
        let Some(account) = self.reader.upgrade() else { return false };
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        let account = ReaderBytes(account);
        account.add(bytes);
        debug_assert!(account.get() >= bytes, "an account has what was added");
        true
    }
}

impl Drop for LentBytes {
    fn drop(&mut self) {
        self.leave(self.left);
    }
}

/// A leaf as it was before a change.
pub(crate) struct HandedLeaf {
    bytes: Box<[u8]>,
    /// The numbers of objects in it, ascending, with their slots.
    named: Box<[(u64, u64)]>,
}

impl HandedLeaf {
    /// The bytes of the leaf.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Objects that it names.
    pub(crate) fn objects(&self) -> usize {
        self.named.len()
    }

    fn memory(&self) -> usize {
        self.bytes.len() + HANDED_BYTES + self.named.len() * SLOT_BYTES
    }
}

/// The handed leaves of a collection. The maps are trees: a table would be moved as a whole, in one hold of the shard, when it
/// is full of the objects of a collection of gigabytes.
#[derive(Default)]
pub(crate) struct HandedLeaves {
    /// Bytes of all that were handed over and not given back.
    bytes: usize,
    /// By slot.
    slots: BTreeMap<u64, Kept>,
    /// The slot of the next object.
    next_slot: u64,
    by_ref: BTreeMap<Ref, u64>,
    /// Objects that nobody needs any more, to be killed.
    dead: Vec<Ref>,
}

/// An object that a handed leaf names.
struct Kept {
    r: Ref,
    /// One for each handed leaf of each reader that names it.
    needed_by: SmallVec<[ReaderBytes; 1]>,
    /// Its bytes, once the collection has let it go.
    let_go: Option<usize>,
}

impl HandedLeaves {
    /// Bytes of all handed leaves.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes a copy of a leaf, which names the objects of these numbers. Some reader takes it.
    pub(crate) fn make(&mut self, log: &Log, bytes: Box<[u8]>, numbers: impl Iterator<Item = u64>) -> Arc<HandedLeaf> {
        let mut named: Vec<(u64, u64)> = numbers.map(|number| (number, self.slot_of(log.recall(number)))).collect();
        named.sort_unstable();
        debug_assert!(named.windows(2).all(|pair| pair[0].0 != pair[1].0), "a leaf names an object once");
        let leaf = HandedLeaf { bytes, named: named.into_boxed_slice() };
        self.bytes += leaf.memory();
        Arc::new(leaf)
    }

    /// The slot of an object, a new one if no leaf names it yet.
    fn slot_of(&mut self, r: Ref) -> u64 {
        let slot = *self.by_ref.entry(r).or_insert(self.next_slot);
        if slot == self.next_slot {
            self.next_slot += 1;
            let before = self.slots.insert(slot, Kept { r, needed_by: SmallVec::new(), let_go: None });
            debug_assert!(before.is_none(), "a slot is given once");
        }
        slot
    }

    fn kept(&mut self, slot: u64) -> &mut Kept {
        self.slots.get_mut(&slot).expect("a slot stays as long as a leaf names it")
    }

    /// Gives a leaf to a reader.
    pub(crate) fn give(&mut self, leaf: &HandedLeaf, to: &ReaderBytes) {
        to.add(leaf.memory());
        for &(_, slot) in &leaf.named {
            let kept = self.kept(slot);
            to.add(kept.let_go.unwrap_or(0));
            kept.needed_by.push(to.clone());
        }
    }

    /// Takes a leaf back from a reader. What it named and nobody needs any more is killed by [`HandedLeaves::bury`].
    pub(crate) fn take_back(&mut self, leaf: Arc<HandedLeaf>, from: &ReaderBytes) {
        debug_assert!(self.bytes >= leaf.memory(), "a leaf of this collection");
        from.sub(leaf.memory());
        for &(_, slot) in &leaf.named {
            let kept = self.kept(slot);
            from.sub(kept.let_go.unwrap_or(0));
            let at = kept.needed_by.iter().position(|reader| Arc::ptr_eq(&reader.0, &from.0));
            kept.needed_by.swap_remove(at.expect("a reader that needs it"));
            if kept.needed_by.is_empty() {
                let (r, was_let_go) = (kept.r, kept.let_go.is_some());
                self.dead.extend(was_let_go.then_some(r));
                self.by_ref.remove(&r);
                self.slots.remove(&slot);
            }
        }
        if let Ok(leaf) = Arc::try_unwrap(leaf) {
            self.bytes -= leaf.memory();
        }
    }

    /// Where the object of a number in a handed leaf is now.
    pub(crate) fn object(&self, leaf: &HandedLeaf, number: u64) -> Ref {
        let at = leaf.named.binary_search_by_key(&number, |&(number, _)| number);
        let (_, slot) = leaf.named[at.expect("a number that the leaf names")];
        self.slots[&slot].r
    }

    /// Whether a reader needs this object as it is.
    #[inline]
    pub(crate) fn needs(&self, r: Ref) -> bool {
        self.by_ref.contains_key(&r)
    }

    /// The collection lets an object of `bytes` bytes go; false if no reader needs it, and the collection kills it.
    pub(crate) fn let_go(&mut self, r: Ref, bytes: usize) -> bool {
        let Some(&slot) = self.by_ref.get(&r) else { return false };
        let kept = self.kept(slot);
        debug_assert!(kept.let_go.is_none(), "a collection lets an object go once");
        kept.let_go = Some(bytes);
        kept.needed_by.iter().for_each(|reader| reader.add(bytes));
        true
    }

    /// Moves an object that the collection has let go out of reclaim's way; false if no reader has it.
    pub(crate) fn relocate(&mut self, ctx: &mut WriteCtx<'_>, r: Ref) -> bool {
        let is_ours = self.by_ref.get(&r).is_some_and(|slot| self.slots[slot].let_go.is_some());
        if is_ours {
            let new = ctx.relocate(r);
            self.moved(r, new);
        }
        is_ours
    }

    /// An object that a handed leaf may name was moved.
    pub(crate) fn moved(&mut self, old: Ref, new: Ref) {
        debug_assert!(old != new, "it was moved");
        if let Some(slot) = self.by_ref.remove(&old) {
            self.kept(slot).r = new;
            self.by_ref.insert(new, slot);
        }
    }

    /// Kills the objects that nobody needs any more.
    pub(crate) fn bury(&mut self, ctx: &mut WriteCtx<'_>) {
        for r in self.dead.drain(..) {
            ctx.access.kill(ctx.log, r);
        }
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0 && self.by_ref.is_empty() && self.dead.is_empty()
    }

    /// Checks the slots, and the sum of these leaves, those of all readers; adds the objects that only readers have.
    pub(crate) fn verify<'l>(&self, leaves: impl Iterator<Item = &'l Arc<HandedLeaf>>, live: &mut HashSet<Ref>) {
        assert!(self.dead.is_empty(), "what nobody needs is killed at once");
        let (mut seen, mut bytes, mut needed) = (HashSet::new(), 0, HashMap::<u64, usize>::new());
        for leaf in leaves {
            leaf.named.iter().for_each(|(_, slot)| *needed.entry(*slot).or_default() += 1);
            if seen.insert(Arc::as_ptr(leaf)) {
                bytes += leaf.memory();
            }
        }
        assert_eq!(bytes, self.bytes, "bytes of all that was handed over");
        assert_eq!(needed.len(), self.by_ref.len(), "objects that handed leaves name");
        assert_eq!(self.slots.len(), self.by_ref.len(), "an object has one slot");
        for (&r, slot) in &self.by_ref {
            let kept = &self.slots[slot];
            assert!(kept.r == r && needed.get(slot) == Some(&kept.needed_by.len()), "readers that need an object");
            assert!(kept.let_go.is_none() || live.insert(r), "an object that was let go has one place only");
        }
    }
}
