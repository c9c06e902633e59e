//! A stream without its entries, as it was at one instant, for those who go on without its shard: saves, DUMP, COPY.
//!
//! ```text
//!   stream   -> groups, names of messages <- outline     shared; of what the stream changes, nodes are copied before
//!   outline dropped, the stream has changed or gone      what the outline alone has is left to the background, which frees some a step
//! ```
//! Not here: how groups and names are shared (`varve_collection`), and how an outline is written.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_base::rank::{Rank, RankedMutex};
use varve_base::shared::SharedUsize;
use varve_collection::ReaderBytes;
use varve_collection::stream::{Idempotence, StreamFacts, StreamGroup, StreamGroups, StreamReader};

/// Leaves of groups and names that a step of the background gives back.
const STEP_LEAVES: usize = 64;

/// A stream as it was at one instant, but for its entries.
#[derive(Debug)]
pub struct StreamOutline {
    /// Number of nodes of entries.
    pub nodes: usize,
    /// The facts, which go behind the entries.
    pub facts: StreamFacts,
    shared: Shared,
    /// Counts what the stream has changed since of its groups and names, while this lives; None if nobody asks.
    bytes: Option<ReaderBytes>,
    left: Arc<LeftOutlines>,
}

/// The groups and names that an outline shares with its stream.
#[derive(Debug, Default)]
struct Shared {
    groups: Option<StreamGroups>,
    idempotence: Option<Box<Idempotence>>,
    /// Groups that nobody has any more, whose memory is given back in steps.
    gone: Vec<StreamGroup>,
}

/// Groups and names that dropped outlines had alone: the background gives them back.
#[derive(Debug)]
pub(crate) struct LeftOutlines {
    all: RankedMutex<Vec<Shared>>,
    /// Their number, to be asked without a lock.
    count: SharedUsize,
}

impl StreamOutline {
    /// The outline of a stream; what is changed of it is counted in `bytes`, and what is left of it goes to `left`.
    pub(crate) fn new(stream: StreamReader<'_>, bytes: Option<ReaderBytes>, left: &Arc<LeftOutlines>) -> StreamOutline {
        let (groups, idempotence) = (stream.shared_groups(), stream.idempotence().cloned().map(Box::new));
        let shared = Shared { groups, idempotence, gone: Vec::new() };
        StreamOutline { nodes: stream.nodes(), facts: stream.facts(), shared, bytes, left: Arc::clone(left) }
    }

    /// The names of messages that are added once, if the stream was ever asked to keep such.
    pub fn idempotence(&self) -> Option<&Idempotence> {
        self.shared.idempotence.as_deref()
    }

    /// Bytes that are kept for the reader of the stream, its entries, its groups and names, as they were before changes; 0 if
    /// nobody counts them.
    pub fn kept_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, ReaderBytes::get)
    }

    /// The groups, if there are any: a copy of what they are now.
    pub fn groups(&self) -> Option<StreamGroups> {
        self.shared.groups.clone()
    }

    /// The first group behind a name, of all groups without one.
    pub fn group_behind(&self, name: Option<&[u8]>) -> Option<(&[u8], &StreamGroup)> {
        let groups = self.shared.groups.as_ref()?.all();
        let (name, group) = name.map_or_else(|| groups.iter(), |name| groups.behind(name)).next()?;
        Some((name, group))
    }

    /// Lets some of the groups and names go, which are not asked for any more: `leaves` leaves that nobody else has, at most.
    /// False when nothing is left.
    pub fn let_go_some(&mut self, leaves: usize) -> bool {
        !self.shared.free_step(leaves)
    }
}

impl Drop for StreamOutline {
    fn drop(&mut self) {
        if !self.shared.costs_nothing() {
            self.left.add(std::mem::take(&mut self.shared));
        }
    }
}

impl Shared {
    /// Whether the stream, or another outline, has all of it too.
    fn costs_nothing(&self) -> bool {
        self.gone.is_empty()
            && self.groups.as_ref().is_none_or(StreamGroups::is_shared)
            && self.idempotence.as_ref().is_none_or(|kept| kept.is_shared())
    }

    /// Gives back some `leaves`; true when nothing is left.
    fn free_step(&mut self, leaves: usize) -> bool {
        for _ in 0..leaves {
            if let Some(group) = self.gone.last_mut() {
                if group.free_step(1) {
                    self.gone.pop();
                }
            } else if let Some(groups) = self.groups.as_mut().and_then(StreamGroups::pop_leaf) {
                self.gone.extend(groups.into_iter().map(|(_, group)| group));
            } else if self.idempotence.as_mut().is_none_or(|kept| kept.free_step(1)) {
                (self.groups, self.idempotence) = (None, None);
                return true;
            }
        }
        false
    }
}

impl LeftOutlines {
    pub(crate) fn new() -> Arc<LeftOutlines> {
        Arc::new(LeftOutlines { all: RankedMutex::new(Rank::Leaf, Vec::new()), count: SharedUsize::new(0) })
    }

    fn add(&self, shared: Shared) {
        let mut all = self.all.lock();
        all.push(shared);
        self.count.store(all.len(), Relaxed);
    }

    /// Number of outlines of which something is left.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Gives back some of what is left; true if there was anything.
    pub(crate) fn free_step(&self) -> bool {
        let taken = {
            let mut all = self.all.lock();
            let taken = all.pop();
            self.count.store(all.len(), Relaxed);
            taken
        };
        let Some(mut shared) = taken else { return false };
        if !shared.free_step(STEP_LEAVES) {
            self.add(shared);
        }
        true
    }
}
