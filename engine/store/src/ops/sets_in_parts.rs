//! Intersections, unions and differences of long sets over several holds, each of one shard, as the sets were when it
//! began.
//!
//! ```text
//!   walked sets are read in order of the hashes of their members:
//!   set 1   ....|========|                 members that were read and wait
//!   set 2   ....|============|
//!                    ^   ^   the least hash that some set has reached: members below it are complete, and combined
//!                    `---'---> candidates ---> asked of set 3 ---> asked of set 4 ---> the result
//! ```
//! Of the walked sets the one that has come least far is read next, so that little waits. All sets use one hash, and equal
//! members have equal hashes. Members of a small set are copied when it begins. A result comes in no order, so the copies
//! of a changed leaf need none either.
//!
//! A union walks all sets. An intersection walks the smallest, a difference the first. Each other set is walked as well if
//! it is not much longer; else it is asked, some thousand candidates a hold, as its reader sees it.

use smallvec::SmallVec;
use varve_base::hash::hash64;
use varve_collection::Collection;

use super::opened::Opened;
use super::reading::ReadOn;
use super::sets::SetView;
use super::sets_algebra::named_again;
use super::{SetOp, Tx};
use crate::keyspace::store::Store;
use crate::state::key::Key;
use crate::state::readers::CollectionReader;
use crate::state::types::Type;

/// To find one member takes as long as to walk about this number of them.
const WALKED_IN_ONE_QUESTION: u64 = 4;
/// Candidates whose places are fetched together.
const ASKED_TOGETHER: usize = 16;

/// An operation on sets that goes on.
#[derive(Debug)]
pub struct SetsInParts {
    op: SetOp,
    walked: Vec<Source>,
    /// The readers of sets that are asked.
    asked: Vec<CollectionReader>,
    candidates: Candidates,
}

/// A set that is walked.
#[derive(Debug)]
struct Source {
    /// None once all members were read.
    reader: Option<CollectionReader>,
    /// Members below this hash were read; all of them once the reader is gone.
    reached: u64,
    /// Members that wait, in order of their hashes.
    waiting: Members,
}

/// Members with their hashes.
#[derive(Debug, Default)]
struct Members {
    list: Vec<Member>,
    /// Their bytes, one behind the other.
    bytes: Vec<u8>,
}

/// A member: its hash, and its place in the bytes.
#[derive(Clone, Copy, Debug)]
struct Member {
    hash: u64,
    start: usize,
    len: usize,
}

/// Members of which the walked sets say yes, and which some sets are still to be asked for.
#[derive(Debug, Default)]
struct Candidates {
    members: Members,
    /// All hashes are at least this.
    from: u64,
    /// The set that is being asked, and the first candidate that it was not asked for.
    asking: usize,
    next: usize,
}

impl Members {
    fn push(&mut self, hash: u64, member: &[u8]) {
        self.list.push(Member { hash, start: self.bytes.len(), len: member.len() });
        self.bytes.extend_from_slice(member);
    }

    fn get(&self, at: &Member) -> &[u8] {
        &self.bytes[at.start..at.start + at.len]
    }

    fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
    }

    /// Forgets the first `count` members. The bytes go when none is left: few holds fill them.
    fn drop_first(&mut self, count: usize) {
        self.list.drain(..count);
        if self.list.is_empty() {
            self.bytes.clear();
        }
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.list.capacity() * size_of::<Member>()
    }
}

impl Source {
    fn new(reader: Option<CollectionReader>) -> Source {
        Source { reader, reached: 0, waiting: Members::default() }
    }

    /// The hash from which on members are still to be read, if some are.
    fn missing_from(&self) -> Option<u64> {
        self.reader.as_ref().map(|_| self.reached)
    }
}

impl SetsInParts {
    /// Bytes that members take which were read and wait.
    pub fn held_bytes(&self) -> usize {
        self.walked.iter().map(|source| source.waiting.held_bytes()).sum::<usize>()
            + self.candidates.members.held_bytes()
    }

    /// Bytes that the sets keep for it ([`CollectionReader::kept_bytes`]).
    pub fn kept_bytes(&self) -> usize {
        let walked = self.walked.iter().filter_map(|source| source.reader.as_ref());
        walked.chain(&self.asked).map(CollectionReader::kept_bytes).sum()
    }

    /// Combines the members that are complete: those of the result become candidates, or are shown, if no set is asked,
    /// until `show` says that it is enough.
    fn combine(&mut self, show: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let SetsInParts { op, walked, asked, candidates } = self;
        // Of all sets at once: asked of each set for each other one, thousands of sets took minutes.
        let missing_from = walked.iter().filter_map(Source::missing_from).min();
        let is_complete = |member: &Member| missing_from.is_none_or(|from| member.hash < from);
        let counts: SmallVec<[usize; 8]> =
            walked.iter().map(|source| source.waiting.list.partition_point(is_complete)).collect();
        let mut all: Vec<(u64, usize, &[u8])> = Vec::with_capacity(counts.iter().sum());
        for (number, (source, &count)) in walked.iter().zip(&counts).enumerate() {
            let waiting = &source.waiting;
            all.extend(waiting.list[..count].iter().map(|member| (member.hash, number, waiting.get(member))));
        }
        all.sort_unstable_by(|a, b| (a.0, a.2, a.1).cmp(&(b.0, b.2, b.1)));
        let is_enough = all.chunk_by(|a, b| (a.0, a.2) == (b.0, b.2)).any(|of_member| {
            let belongs = match op {
                SetOp::Union => true,
                SetOp::Intersection => of_member.len() == walked.len(),
                SetOp::Difference => of_member.len() == 1 && of_member[0].1 == 0,
            };
            let (hash, _, member) = of_member[0];
            if belongs && !asked.is_empty() {
                candidates.members.push(hash, member);
                return false;
            }
            belongs && show(member)
        });
        for (source, count) in walked.iter_mut().zip(counts) {
            source.waiting.drop_first(count);
        }
        is_enough
    }

    /// Whether all was read, combined and asked for.
    fn is_over(&self) -> bool {
        self.candidates.members.list.is_empty() && self.walked.iter().all(|source| source.reader.is_none())
    }
}

/// Whether an operation whose leading set has `leading` members, and which asks or walks `others` sets, takes too long for
/// one hold. A member of the leading set takes as long as showing `times` of them.
fn is_long(store: &Store, op: SetOp, leading: u64, others: u64, times: u64) -> bool {
    let questions = if op == SetOp::Union { 0 } else { leading * others };
    leading * times + questions * WALKED_IN_ONE_QUESTION >= store.ground().readers().bounds().long_elements
}

impl Tx<'_> {
    /// Begins an operation on the sets at these keys, whose shards are held, over several holds; `None` if it is short
    /// enough for one, one of the keys holds another type, or one of the sets has members that lie by another hash than
    /// theirs: then no order is common to all. A member of the leading set takes as long as showing `times` members. No
    /// hit or miss is counted.
    pub fn begin_set_op(&mut self, op: SetOp, keys: &[Key<'_>], times: u64) -> Option<SetsInParts> {
        let mut sets: SmallVec<[Option<Opened>; 8]> =
            keys.iter().map(|k| self.open(k, Type::Set)).collect::<Result<_, _>>().ok()?;
        let (mut at, repeated) = (0, named_again(&sets));
        sets.retain(|_| {
            at += 1;
            !repeated.contains(&(at - 1))
        });
        let store = self.store;
        let len =
            |tx: &Tx<'_>, set: &Option<Opened>| set.map_or(0, |set| SetView::open(&tx.held, store, set).len() as u64);
        if op == SetOp::Intersection {
            // The smallest leads.
            sets.sort_by_cached_key(|set| len(self, set));
        }
        let lens: SmallVec<[u64; 8]> = sets.iter().map(|set| len(self, set)).collect();
        let leading = if op == SetOp::Union { lens.iter().sum() } else { lens.first().copied().unwrap_or(0) };
        if leading == 0 || !is_long(store, op, leading, sets.len() as u64 - 1, times) {
            return None;
        }
        if sets.iter().flatten().any(|&set| !SetView::open(&self.held, store, set).is_by_name()) {
            return None;
        }
        let mut parts = SetsInParts { op, walked: Vec::new(), asked: Vec::new(), candidates: Candidates::default() };
        for (set, len) in sets.into_iter().zip(lens) {
            let is_asked = op != SetOp::Union && !parts.walked.is_empty() && len > WALKED_IN_ONE_QUESTION * leading;
            match set {
                Some(Opened { at, link: Some(link), .. }) if is_asked => {
                    parts.asked.push(self.begin_elements_reading((at, link)));
                }
                Some(set) => parts.walked.push(self.begin_source(set)),
                None => parts.walked.push(Source::new(None)),
            }
        }
        Some(parts)
    }

    fn begin_source(&mut self, set: Opened) -> Source {
        if let Some(link) = set.link {
            return Source::new(Some(self.begin_elements_reading((set.at, link))));
        }
        let (seed, mut source) = (self.store.seed(), Source::new(None));
        SetView::open(&self.held, self.store, set).for_each(|member| {
            let text = &mut [0; 20];
            let member = member.text(text);
            source.waiting.push(hash64(seed, member), member);
        });
        source.waiting.list.sort_unstable_by_key(|member| member.hash);
        source
    }

    /// Goes on with an operation on sets: shows members of the result, until `show` says that it is enough. The shards that
    /// were held are let go.
    pub fn set_op_on(&mut self, sets: &mut SetsInParts, mut show: impl FnMut(&[u8]) -> bool) -> ReadOn {
        if !sets.candidates.members.list.is_empty() {
            return self.ask_on(sets, &mut show);
        }
        let last = sets.walked.iter_mut().filter(|source| source.reader.is_some()).min_by_key(|source| source.reached);
        if let Some(source) = last {
            sets.candidates.from = source.reached;
            if !self.walk_on(source) {
                return ReadOn::Busy;
            }
        }
        let is_enough = sets.combine(&mut show);
        if is_enough || sets.is_over() { ReadOn::All } else { ReadOn::More(0) }
    }

    /// Reads more of a set; false, and nothing is done, if its shard is busy.
    fn walk_on(&mut self, source: &mut Source) -> bool {
        let seed = self.store.seed();
        let mut reader = source.reader.take().expect("a source that is read");
        let waiting = &mut source.waiting;
        let read = self.read_elements_on(&mut reader, |member, _, _| {
            let text = &mut [0; 20];
            let member = member.text(text);
            waiting.push(hash64(seed, member), member);
        });
        self.release();
        match read {
            ReadOn::All => {}
            ReadOn::More(below) => (source.reached, source.reader) = (below, Some(reader)),
            ReadOn::Busy => {
                source.reader = Some(reader);
                return false;
            }
        }
        waiting.list.sort_unstable_by_key(|member| member.hash);
        true
    }

    /// Asks a set for the next candidates; shows those that are left when all sets were asked.
    fn ask_on(&mut self, sets: &mut SetsInParts, show: &mut dyn FnMut(&[u8]) -> bool) -> ReadOn {
        let SetsInParts { op, asked, candidates, .. } = sets;
        let Candidates { members, from, asking, next } = candidates;
        if *asking < asked.len() {
            let wants = *op == SetOp::Intersection;
            let most = (self.store.ground().readers().bounds().hold_elements / 2).max(1);
            let Some(verdicts) = self.ask_reader(&mut asked[*asking], (members, *next), most, *from) else {
                return ReadOn::Busy;
            };
            self.release();
            let (begin, end) = (*next, *next + verdicts.len());
            let mut kept = begin;
            for (at, contained) in (begin..end).zip(verdicts) {
                if contained == wants {
                    members.list[kept] = members.list[at];
                    kept += 1;
                }
            }
            members.list.drain(kept..end);
            *next = kept;
            if *next == members.list.len() {
                (*asking, *next) = (*asking + 1, 0);
            }
        }
        let is_asked = members.list.is_empty() || *asking == asked.len();
        let mut is_enough = false;
        if is_asked {
            is_enough = members.list.iter().any(|member| show(members.get(member)));
            members.clear();
            (*asking, *next) = (0, 0);
        }
        if is_enough || sets.is_over() { ReadOn::All } else { ReadOn::More(0) }
    }

    /// Asks a set, as its reader sees it, for at most `most` members from the `next` one on; `None`, and nothing is done, if
    /// its shard is busy. It will not be asked for hashes below `from` any more.
    fn ask_reader(
        &mut self,
        reader: &mut CollectionReader,
        (members, next): (&Members, usize),
        most: usize,
        from: u64,
    ) -> Option<Vec<bool>> {
        let list = &members.list[next..members.list.len().min(next + most)];
        let mut verdicts = Vec::with_capacity(list.len());
        self.with_reader_root(reader, |collection, ctx, number| {
            let Collection::Set(set) = collection else { unreachable!("a set is asked") };
            set.pass(ctx, number, from);
            let ctx = ctx.read();
            for together in list.chunks(ASKED_TOGETHER) {
                together.iter().for_each(|member| set.cell_line(member.hash).fetch());
                together.iter().filter_map(|member| set.leaf_line(ctx.log, member.hash)).for_each(|line| line.fetch());
                let contained = |member: &Member| set.contained(ctx, number, (member.hash, members.get(member)));
                verdicts.extend(together.iter().map(contained));
            }
            Some(())
        })?;
        Some(verdicts)
    }
}
