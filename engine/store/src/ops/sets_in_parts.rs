//! Intersections, unions and differences of long sets over several holds, each of one shard, as the sets were when it
//! began.
//!
//! ```text
//!   every set is read in order of the hashes of its members:
//!   set 1   ....|========|                 members that were read and wait
//!   set 2   ....|============|
//!                    ^   ^   the least hash that some set has reached: members below it are complete, and combined
//! ```
//! The set that has come least far is read next, so that little waits. All sets use one hash, and equal members have equal
//! hashes. Members of a small set are copied when it begins. A result comes in no order, so the copies of a changed leaf
//! need none either.
//!
//! Every set is walked from end to end, even for an intersection. So where the set that leads is short, the members of
//! which are asked of the others one by one, the operation is done in one hold (`sets_algebra`).

use smallvec::SmallVec;
use varve_base::hash::hash64;
use varve_packed::node::PackedEntry;

use super::opened::Opened;
use super::reading::ReadOn;
use super::sets::SetView;
use super::{SetOp, Tx};
use crate::state::key::Key;
use crate::state::readers::CollectionReader;
use crate::state::types::Type;

/// An operation on sets that goes on.
#[derive(Debug)]
pub struct SetsInParts {
    op: SetOp,
    sources: Vec<Source>,
}

/// A set that is read.
#[derive(Debug)]
struct Source {
    /// None once all members were read.
    reader: Option<CollectionReader>,
    /// Members below this hash were read; all of them once the reader is gone.
    reached: u64,
    /// Members that wait, in order of their hashes.
    waiting: Vec<WaitingMember>,
    /// Their bytes, one behind the other.
    bytes: Vec<u8>,
}

/// A member that was read: its hash and its place in the bytes of its source.
#[derive(Clone, Copy, Debug)]
struct WaitingMember {
    hash: u64,
    start: usize,
    len: usize,
}

impl Source {
    fn new(reader: Option<CollectionReader>) -> Source {
        Source { reader, reached: 0, waiting: Vec::new(), bytes: Vec::new() }
    }

    fn push(&mut self, seed: u64, member: &[u8]) {
        self.waiting.push(WaitingMember { hash: hash64(seed, member), start: self.bytes.len(), len: member.len() });
        self.bytes.extend_from_slice(member);
    }

    /// Whether members of this hash are still to be read.
    fn misses(&self, hash: u64) -> bool {
        self.reader.is_some() && hash >= self.reached
    }

    fn member(&self, at: &WaitingMember) -> &[u8] {
        &self.bytes[at.start..at.start + at.len]
    }

    /// Forgets the first `count` members that wait. A set is read again only when none of its members waits, so the bytes
    /// are those of one hold.
    fn drop_first(&mut self, count: usize) {
        self.waiting.drain(..count);
        if self.waiting.is_empty() {
            self.bytes.clear();
        }
    }
}

impl SetsInParts {
    /// Bytes that members take which were read and wait.
    pub fn held_bytes(&self) -> usize {
        let of = |source: &Source| source.bytes.capacity() + source.waiting.capacity() * size_of::<WaitingMember>();
        self.sources.iter().map(of).sum()
    }

    /// Combines the members that are complete, and shows those of the result until `show` says that it is enough.
    fn combine(&mut self, show: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let counts: SmallVec<[usize; 8]> = self
            .sources
            .iter()
            .map(|source| {
                source.waiting.partition_point(|member| self.sources.iter().all(|of| !of.misses(member.hash)))
            })
            .collect();
        let mut all: Vec<(u64, usize, &[u8])> = Vec::with_capacity(counts.iter().sum());
        for (number, (source, &count)) in self.sources.iter().zip(&counts).enumerate() {
            all.extend(source.waiting[..count].iter().map(|member| (member.hash, number, source.member(member))));
        }
        all.sort_unstable_by(|a, b| (a.0, a.2, a.1).cmp(&(b.0, b.2, b.1)));
        let is_enough = all.chunk_by(|a, b| (a.0, a.2) == (b.0, b.2)).any(|of_member| {
            let belongs = match self.op {
                SetOp::Union => true,
                SetOp::Intersection => of_member.len() == self.sources.len(),
                SetOp::Difference => of_member.len() == 1 && of_member[0].1 == 0,
            };
            belongs && show(of_member[0].2)
        });
        for (source, count) in self.sources.iter_mut().zip(counts) {
            source.drop_first(count);
        }
        is_enough
    }
}

impl Tx<'_> {
    /// Begins an operation on the sets at these keys, whose shards are held, over several holds; `None` if it is short
    /// enough for one, or one of the keys holds another type. No hit or miss is counted.
    pub fn begin_set_op(&mut self, op: SetOp, keys: &[Key<'_>]) -> Option<SetsInParts> {
        let sets: SmallVec<[Option<Opened>; 8]> =
            keys.iter().map(|k| self.open(k, Type::Set)).collect::<Result<_, _>>().ok()?;
        let store = self.store;
        let lens = |tx: &Tx<'_>| -> SmallVec<[u64; 8]> {
            let len = |set: &Option<Opened>| set.map_or(0, |set| SetView::open(&tx.held, store, set).len() as u64);
            sets.iter().map(len).collect()
        };
        let lens = lens(self);
        let leading = match op {
            SetOp::Intersection => lens.iter().copied().min(),
            SetOp::Union => Some(lens.iter().sum()),
            SetOp::Difference => lens.first().copied(),
        };
        if leading.unwrap_or(0) < store.ground().readers().bounds().long_elements {
            return None;
        }
        let sources =
            sets.iter().map(|set| set.map_or_else(|| Source::new(None), |set| self.begin_source(set))).collect();
        Some(SetsInParts { op, sources })
    }

    fn begin_source(&mut self, set: Opened) -> Source {
        if let Some(link) = set.link {
            return Source::new(Some(self.begin_elements_reading((set.at, link))));
        }
        let (seed, mut source) = (self.store.seed(), Source::new(None));
        SetView::open(&self.held, self.store, set).for_each(|member| source.push(seed, member.text(&mut [0; 20])));
        source.waiting.sort_unstable_by_key(|member| member.hash);
        source
    }

    /// Goes on with an operation on sets: shows members of the result, until `show` says that it is enough. The shards that
    /// were held are let go.
    pub fn set_op_on(&mut self, sets: &mut SetsInParts, mut show: impl FnMut(&[u8]) -> bool) -> ReadOn {
        let seed = self.store.seed();
        let last = sets.sources.iter_mut().filter(|source| source.reader.is_some()).min_by_key(|source| source.reached);
        if let Some(source) = last {
            let mut reader = source.reader.take().expect("a source that is read");
            debug_assert!(source.waiting.is_empty(), "the set that has come least far has none that wait");
            let read = self.read_elements_on(&mut reader, |member, _: PackedEntry<'_>| {
                source.push(seed, member.text(&mut [0; 20]));
            });
            self.release();
            source.waiting.sort_unstable_by_key(|member| member.hash);
            match read {
                ReadOn::All => {}
                ReadOn::More(below) => (source.reached, source.reader) = (below, Some(reader)),
                ReadOn::Busy => {
                    source.reader = Some(reader);
                    return ReadOn::Busy;
                }
            }
        }
        let is_enough = sets.combine(&mut show);
        let is_left = sets.sources.iter().any(|source| source.reader.is_some());
        debug_assert!(is_left || is_enough || sets.held_members() == 0, "all was combined");
        if is_left && !is_enough { ReadOn::More(0) } else { ReadOn::All }
    }
}

impl SetsInParts {
    fn held_members(&self) -> usize {
        self.sources.iter().map(|source| source.waiting.len()).sum()
    }
}
