//! Readers of big collections over several holds of their shards: the hold on each, and those that ended early.
//!
//! ```text
//!   begun, under way ---all was shown, its shard held---------------------> forgotten by its root
//!          `-----------its owner dropped the hold--> gone, listed ---step--'
//! ```
//! A root that dies while somebody reads it is freed behind its last reader (`steps/free.rs`). Not here: what a reader is
//! shown, which is the collection's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use varve_base::rank::{Rank, RankedMutex};
use varve_collection::{CollectionId, ReaderBytes, ReaderNumber};

/// The readers of a store.
pub(crate) struct ReaderList {
    /// Readers that have ever begun: the next one's number.
    begun: AtomicU64,
    /// Readers that their roots know.
    under_way: AtomicUsize,
    /// Readers that their owners have dropped and that their roots still know.
    gone: RankedMutex<Vec<(CollectionId, ReaderNumber)>>,
    /// The number of those, to be asked without the lock.
    gone_count: AtomicUsize,
    long_elements: AtomicU64,
    hold_elements: AtomicUsize,
}

/// Sizes of reading over several holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBounds {
    /// Elements from which on a whole collection is read over several holds.
    pub long_elements: u64,
    /// Elements that one hold shows, at the end of whose leaf or node it ends.
    pub hold_elements: usize,
}

impl Default for ReadBounds {
    /// 16 384 elements are shown in about half a millisecond, and no hold is to be over one; 4096 in 100 to 200 us.
    fn default() -> ReadBounds {
        ReadBounds { long_elements: 16_384, hold_elements: 4096 }
    }
}

/// A reader of a big collection: it is shown the elements that were there when it began. Dropping it ends it.
pub struct CollectionReader {
    id: CollectionId,
    number: ReaderNumber,
    bytes: ReaderBytes,
    /// Its root knows it.
    is_under_way: bool,
    list: Arc<ReaderList>,
}

impl std::fmt::Debug for CollectionReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectionReader").field("of", &self.id).finish_non_exhaustive()
    }
}

impl ReaderList {
    pub(crate) fn new() -> Arc<ReaderList> {
        Arc::new(ReaderList {
            begun: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            gone: RankedMutex::new(Rank::Leaf, Vec::new()),
            gone_count: AtomicUsize::new(0),
            long_elements: AtomicU64::new(ReadBounds::default().long_elements),
            hold_elements: AtomicUsize::new(ReadBounds::default().hold_elements),
        })
    }

    /// The sizes in use.
    pub(crate) fn bounds(&self) -> ReadBounds {
        let (long, hold) = (&self.long_elements, &self.hold_elements);
        ReadBounds { long_elements: long.load(Relaxed), hold_elements: hold.load(Relaxed) }
    }

    /// Uses other sizes from now on.
    pub(crate) fn set_bounds(&self, bounds: ReadBounds) {
        self.long_elements.store(bounds.long_elements, Relaxed);
        self.hold_elements.store(bounds.hold_elements, Relaxed);
    }

    /// The hold on a reader that its root gets to know now, under its shard's lock; what is kept for it is counted in
    /// `bytes`.
    pub(crate) fn begin(self: &Arc<Self>, id: CollectionId, bytes: ReaderBytes) -> CollectionReader {
        let number = ReaderNumber::new(self.begun.fetch_add(1, Relaxed));
        self.under_way.fetch_add(1, Relaxed);
        CollectionReader { id, number, bytes, is_under_way: true, list: Arc::clone(self) }
    }

    /// Whether any root has a reader.
    pub(crate) fn any(&self) -> bool {
        self.under_way.load(Relaxed) > 0
    }

    /// Number of readers that their owners still hold.
    pub(crate) fn live(&self) -> usize {
        self.under_way.load(Relaxed).saturating_sub(self.gone_count.load(Relaxed))
    }

    /// Forgets the readers whose owners are gone: all roots go at once. Under the gate alone.
    pub(crate) fn forget_gone(&self) {
        let gone = std::mem::take(&mut *self.gone.lock()).len();
        self.gone_count.fetch_sub(gone, Relaxed);
        let before = self.under_way.fetch_sub(gone, Relaxed);
        assert!(before >= gone, "{gone} readers of {before} are gone");
    }

    /// A root has forgotten a reader.
    pub(crate) fn forget(&self) {
        let before = self.under_way.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a reader that is forgotten has begun");
    }

    /// Whether a root has to forget a reader whose owner is gone.
    #[inline]
    pub(crate) fn any_gone(&self) -> bool {
        self.gone_count.load(Relaxed) > 0
    }

    /// Takes one of the readers whose owners are gone.
    pub(crate) fn take_gone(&self) -> Option<(CollectionId, ReaderNumber)> {
        if !self.any_gone() {
            return None;
        }
        let gone = self.gone.lock().pop()?;
        self.gone_count.fetch_sub(1, Relaxed);
        Some(gone)
    }

    /// Lists a reader whose owner is gone.
    pub(crate) fn add_gone(&self, id: CollectionId, number: ReaderNumber) {
        self.gone.lock().push((id, number));
        self.gone_count.fetch_add(1, Relaxed);
    }
}

impl CollectionReader {
    /// The collection that it reads.
    pub(crate) fn id(&self) -> CollectionId {
        self.id
    }

    /// Its number.
    pub(crate) fn number(&self) -> ReaderNumber {
        self.number
    }

    /// Its number, and where its collection counts what it keeps for it.
    pub(crate) fn of_collection(&self) -> (ReaderNumber, ReaderBytes) {
        (self.number, self.bytes.clone())
    }

    /// Bytes that its collection keeps for it: elements as they were, which have changed since. They are in the account of
    /// the store; where several readers share some, each has them here.
    pub fn kept_bytes(&self) -> usize {
        self.bytes.get()
    }

    /// All was shown, and its root has forgotten it.
    pub(crate) fn end(&mut self) {
        debug_assert!(self.is_under_way, "a reader ends once");
        self.is_under_way = false;
        self.list.forget();
    }

    /// Whether all was shown.
    pub fn has_ended(&self) -> bool {
        !self.is_under_way
    }
}

impl Drop for CollectionReader {
    fn drop(&mut self) {
        if self.is_under_way {
            self.list.add_gone(self.id, self.number);
        }
    }
}
