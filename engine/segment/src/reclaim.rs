//! Reclaim: a victim is chosen, its objects are moved out front to back, and the memory behind the cursor goes back.
//!
//! ```text
//! victim
//! +--------------------------+-----------+---------------------------------+
//! | given back to the system | drained   | not looked at yet               |
//! +--------------------------+-----------+---------------------------------+
//!                            released    cursor -> slice: up to 32 heads prepared, then relocated one by one
//! ```
//!
//! Used bytes fall with the cursor, memory follows by `release_bytes`, so reclaim needs no more room than a slice. Up to
//! 1.25 segments' worth in all is kept for the segments that are opened next, since taking a page from the system costs
//! several times what filling it does. The
//! log knows no object's meaning: `Relocate` finds its owner, locks the shard, and has it moved, evicted, or finds it
//! dead already. A victim without live objects is not walked at all.

use std::sync::atomic::Ordering;

use varve_base::Ref;

use crate::kind::{ObjectKind, Owner};
use crate::layout::{First, Item, ObjectPtr};
use crate::log::{Log, SegmentInfo, info};
use crate::space::{Space, filler_used};
use crate::table::{SegmentEntry, SegmentState, SegmentTable};

/// An open segment is chosen before a sealed one if its score is this many times as high.
const OPEN_BETTER: f64 = 4.0;

/// Heads that are prepared together.
pub const SLICE: usize = 32;
/// Passing this many dead objects costs as much as relocating one.
const DEAD_PER_OBJECT: usize = 8;
/// Copying this many bytes costs as much as passing one dead object.
const BYTES_PER_DEAD: usize = 256;

/// The first part of an object that reclaim has come to. It may be read without a lock.
#[derive(Clone, Copy, Debug)]
pub struct ObjectHead<'a> {
    /// Where it is.
    pub r: Ref,
    /// Its kind.
    pub kind: ObjectKind,
    /// Its owner.
    pub owner: Owner,
    /// Its key.
    pub key: &'a [u8],
    /// Bytes of the whole object.
    pub bytes: usize,
}

/// The fate of an object that reclaim has come to. In all cases but `Busy` it is dead by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocated {
    /// It was dead before.
    Dead,
    /// It was relocated, and everything that led to it leads to its new place.
    Moved,
    /// It was dropped to make room.
    Evicted,
    /// Its shard is locked: the slice ends here and goes on with this object next time.
    Busy,
}

/// The owner of the objects. Called without any lock of the log.
pub trait Relocate {
    /// These come next: hash and prefetch. Some may have died.
    fn prepare(&mut self, heads: &[ObjectHead<'_>]);
    /// Locks the object's shard, and kills, relocates or lets be. Nothing may refer to the object afterwards. Heads come in
    /// the order in which they were prepared; after a busy one they are prepared anew.
    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated;
}

/// How victims are judged.
pub trait VictimPolicy {
    /// The benefit of draining a segment; the greatest wins.
    fn score(&self, segment: &SegmentInfo) -> f64;
}

/// The paper's Greedy: the lifetime of the objects does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl VictimPolicy for Greedy {
    fn score(&self, segment: &SegmentInfo) -> f64 {
        let u = segment.live_bytes as f64 / segment.used.max(1) as f64;
        (1.0 - u) / u.max(1e-9)
    }
}

/// A victim on its way. Drive it to `Done`, or hand it to `abandon`: dropped, its segment is never free again.
#[derive(Debug)]
#[must_use = "a segment that is draining must be drained or abandoned"]
pub struct Drain {
    segment: u32,
    /// Offsets in the segment.
    cursor: usize,
    fill: usize,
    /// Release units behind the cursor that have been dealt with.
    released: usize,
    /// The memory of all units is kept.
    keep: bool,
    /// Nothing in it lives any more.
    dead: bool,
    /// As it was when it was chosen.
    chosen: SegmentInfo,
}

impl Drain {
    /// The victim as it was when it was chosen.
    pub fn chosen(&self) -> &SegmentInfo {
        &self.chosen
    }
}

/// How far a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainState {
    /// Call again.
    More,
    /// An object's shard was busy, or its killer has not finished: call again, a little later.
    Busy,
    /// The segment is free; drop the drain.
    Done,
}

impl Log {
    /// The segment whose drain frees most for each byte that it copies. None if no segment has any dead bytes.
    pub fn choose_victim(&self) -> Option<Drain> {
        self.choose_victim_by(&Greedy, |segment| segment.live_bytes < segment.used)
    }

    /// The segment with the greatest score of the `candidates` that are `worth` draining (a sealed one of no used bytes always
    /// is). An open one whose pieces are all parked is sealed early and taken if it is better by far or alone: what is
    /// in it is young, and much of it may soon die by itself.
    pub fn choose_victim_by(&self, policy: &impl VictimPolicy, worth: impl Fn(&SegmentInfo) -> bool) -> Option<Drain> {
        let mut space = self.shared.space.lock();
        let table = &self.shared.memory.table;
        let found = candidates(&space, table);
        let best = |state: SegmentState| {
            let infos = found.iter().copied().filter(|info| info.state == state);
            let empty = |info: &SegmentInfo| state == SegmentState::Sealed && info.used == 0;
            let good = infos.filter(|info| empty(info) || worth(info));
            good.map(|info| (policy.score(&info), info)).max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let chosen = match (best(SegmentState::Sealed), best(SegmentState::Open)) {
            (None, None) => return None,
            (Some((score, sealed)), open) if open.is_none_or(|open| open.0 <= OPEN_BETTER * score) => sealed,
            (_, Some((_, open))) => {
                assert!(space.seal_early(&self.shared.memory, open.segment), "no piece of it was out");
                open
            }
            (Some((_, sealed)), None) => sealed,
        };
        let entry = table.entry(chosen.segment);
        space.choose(chosen.segment, entry);
        let unit = self.shared.memory.geometry.release_bytes;
        let start = entry.start.load(Ordering::Relaxed) as usize;
        let fill = entry.fill.load(Ordering::Relaxed) as usize;
        assert!(start <= fill && fill <= self.shared.memory.geometry.segment_bytes, "a victim of {start}..{fill}");
        Some(Drain {
            segment: chosen.segment,
            cursor: start,
            fill,
            released: start / unit,
            keep: self.shared.memory.plan_to_cache(entry, start / unit..fill.div_ceil(unit)),
            dead: false,
            chosen,
        })
    }

    /// The segments that a choice of a victim looks at: some hundred at most, however many there are. Sealed ones of every
    /// share of live bytes, and the open ones that nobody appends to.
    pub fn candidates(&self) -> Vec<SegmentInfo> {
        candidates(&self.shared.space.lock(), &self.shared.memory.table)
    }

    /// Shows the first parts of up to `count` objects at the front of a sealed segment, some of which may be dying; none if
    /// it is not sealed. Only the thread that may choose victims may call this, so that none is drained meanwhile.
    pub fn peek(&self, segment: u32, count: usize, mut show: impl FnMut(&ObjectHead<'_>)) {
        let entry = self.shared.memory.table.entry(segment);
        let (mut walk, fill) = {
            let _space = self.shared.space.lock();
            if entry.state() != SegmentState::Sealed {
                return;
            }
            let at = entry.start.load(Ordering::Relaxed) as usize;
            (Walk { at, used: 0 }, entry.fill.load(Ordering::Relaxed) as usize)
        };
        let mut budget = count * DEAD_PER_OBJECT;
        while walk.at < fill && budget >= DEAD_PER_OBJECT {
            let at = walk.at;
            let place = self.segment_place(segment, at);
            // SAFETY: the walk is at an object's begin or at a filler's, in a segment that was sealed under the mutex and
            // that nobody drains; first parts are immutable, DEAD is atomic.
            match unsafe { walk.pass(place).filter(|first| !place.is_dead(first)) } {
                Some(first) => {
                    // SAFETY: as above.
                    show(&unsafe { self.head(segment, at, place, &first) });
                    budget -= DEAD_PER_OBJECT;
                }
                None => budget -= 1,
            }
        }
    }

    /// Seals the open segments whose pieces are all parked, so that all that was appended can be chosen.
    pub fn seal_all(&self) {
        let mut space = self.shared.space.lock();
        for segment in space.open_segments().to_vec() {
            space.seal_early(&self.shared.memory, segment);
        }
    }

    /// Gives some of the memory back that is kept for segments to come; true while there is more.
    pub fn release_cached_step(&self) -> bool {
        self.shared.space.lock().release_cached_unit(&self.shared.memory)
    }

    /// Gives back some of the pages that a drain which does not go on has left behind its cursor; true if there were any.
    pub fn release_drained_step(&self, drain: &mut Drain) -> bool {
        let entry = self.shared.memory.table.entry(drain.segment);
        let behind = if drain.released < 64 { (1 << drain.released) - 1 } else { u64::MAX };
        let kept = entry.cached.load(Ordering::Relaxed) & behind;
        if kept != 0 {
            // SAFETY: every object there is dead, and was marked by its last user; heads of this drain are gone.
            unsafe { self.shared.memory.release_unit(drain.segment, entry, kept.trailing_zeros() as usize) };
        }
        kept != 0
    }

    /// Gives a drain up; the segment can be chosen again, and goes on where this left off.
    pub fn abandon(&self, drain: Drain) {
        let mut space = self.shared.space.lock();
        let entry = self.shared.memory.table.entry(drain.segment);
        if drain.keep {
            let end = drain.fill.div_ceil(self.shared.memory.geometry.release_bytes);
            self.shared.memory.cancel_plan(entry, drain.released..end);
        }
        entry.abandon(drain.cursor as u64);
        space.file(drain.segment, entry);
    }

    /// Relocates about `objects` more objects of the victim, and gives back the memory behind the cursor.
    pub fn drain_step(&self, drain: &mut Drain, rel: &mut impl Relocate, objects: usize) -> DrainState {
        let entry = self.shared.memory.table.entry(drain.segment);
        assert!(entry.state() == SegmentState::Draining, "segment {} is {:?}", drain.segment, entry.state());
        let mut budget = objects.max(1) * DEAD_PER_OBJECT;
        let mut busy = false;
        while budget > 0 && !busy && drain.cursor < drain.fill {
            drain.dead = drain.dead || entry.live().objects() == 0;
            if drain.dead {
                self.skip_dead(drain, entry);
                budget = 0;
            } else {
                busy = self.slice(drain, entry, rel, &mut budget);
            }
        }
        entry.start.store(drain.cursor as u64, Ordering::Relaxed);
        self.release_behind(drain);
        if drain.cursor < drain.fill {
            return if busy { DrainState::Busy } else { DrainState::More };
        }
        if entry.live().objects() != 0 {
            // The killer of the last object has marked it and has not yet counted it: it still needs the segment.
            return DrainState::Busy;
        }
        let mut space = self.shared.space.lock();
        entry.finish();
        space.give(&self.shared.memory, drain.segment);
        DrainState::Done
    }

    /// Moves the cursor over one release unit of a segment in which nothing lives.
    fn skip_dead(&self, drain: &mut Drain, entry: &SegmentEntry) {
        let unit = self.shared.memory.geometry.release_bytes;
        drain.cursor = (drain.cursor / unit * unit + unit).min(drain.fill);
        let used = entry.used.load(Ordering::Relaxed);
        let off = if drain.cursor == drain.fill { used } else { used.min(unit as u64) };
        self.shared.memory.uncount_used(entry, off);
    }

    /// Collects heads, prepares and relocates them; true if one was busy.
    fn slice(&self, drain: &mut Drain, entry: &SegmentEntry, rel: &mut impl Relocate, budget: &mut usize) -> bool {
        // SAFETY: any number in range may become a Ref that is not followed; this one fills the array.
        let nothing = unsafe { Ref::from_bits(1) };
        let unused = ObjectHead { r: nothing, kind: ObjectKind::BARE, owner: Owner::Collection(0), key: &[], bytes: 0 };
        let mut heads = [unused; SLICE];
        let mut count = 0;
        let mut walk = Walk { at: drain.cursor, used: 0 };
        // The walk before each head: a busy one ends the slice there.
        let mut before = [Walk::default(); SLICE];
        while walk.at < drain.fill && count < SLICE && *budget > 0 {
            let from = walk;
            let place = self.segment_place(drain.segment, walk.at);
            // SAFETY: the walk is at an object's begin or at a filler's, in a segment that was sealed under the mutex
            // that this drain was chosen under; first parts are immutable, DEAD is atomic. What has been released lies
            // behind the cursor.
            let found = unsafe { walk.pass(place).filter(|first| !place.is_dead(first)) };
            if let Some(first) = found {
                // SAFETY: as above.
                heads[count] = unsafe { self.head(drain.segment, from.at, place, &first) };
                before[count] = from;
                count += 1;
                // A slice has no more large objects than it has time to copy.
                *budget = budget.saturating_sub(DEAD_PER_OBJECT + first.size() / BYTES_PER_DEAD);
            } else {
                *budget -= 1;
            }
        }
        assert!(walk.at <= drain.fill, "objects reach to {} of {} bytes", walk.at, drain.fill);
        if count > 0 {
            rel.prepare(&heads[..count]);
        }
        let mut busy = false;
        for i in 0..count {
            if rel.relocate(&heads[i]) == Relocated::Busy {
                walk = before[i];
                busy = true;
                break;
            }
            let place = self.place(heads[i].r);
            // SAFETY: as above.
            assert!(unsafe { place.is_dead(&place.first()) }, "{:?} was settled and lives", heads[i].r);
        }
        self.shared.memory.uncount_used(entry, walk.used);
        drain.cursor = walk.at;
        busy
    }

    /// # Safety
    /// An object begins at `place`, which is `at` in `segment`, and its memory is not released during `'a`.
    pub(crate) unsafe fn head<'a>(&self, segment: u32, at: usize, place: ObjectPtr, first: &First) -> ObjectHead<'a> {
        // SAFETY: passed on to the caller; the offset of an object is a Ref.
        unsafe {
            ObjectHead {
                r: Ref::from_bits((segment as usize * self.shared.memory.geometry.segment_bytes + at) as u64),
                kind: first.kind(),
                owner: place.owner(first),
                key: place.key(first),
                bytes: first.size(),
            }
        }
    }

    pub(crate) fn segment_place(&self, segment: u32, at: usize) -> ObjectPtr {
        let offset = segment as usize * self.shared.memory.geometry.segment_bytes + at;
        ObjectPtr(self.shared.memory.mapping.base().wrapping_add(offset))
    }

    /// Gives back what lies behind the cursor, or keeps it for the next segment: whole release units, and at the end
    /// the last one too.
    fn release_behind(&self, drain: &mut Drain) {
        let unit = self.shared.memory.geometry.release_bytes;
        let entry = self.shared.memory.table.entry(drain.segment);
        assert!(drain.cursor <= drain.fill && drain.released <= drain.fill.div_ceil(unit), "{drain:?}");
        let done = drain.cursor == drain.fill;
        let end = if done { drain.fill.div_ceil(unit) } else { drain.cursor / unit };
        while drain.released < end {
            if drain.keep {
                entry.cached.fetch_or(1 << drain.released, Ordering::Relaxed);
            } else {
                // SAFETY: every object there is dead, and was marked by its last user; heads of this drain are gone.
                unsafe { self.shared.memory.release_unit(drain.segment, entry, drain.released) };
            }
            drain.released += 1;
        }
    }
}

fn candidates(space: &Space, table: &SegmentTable) -> Vec<SegmentInfo> {
    let all = space.leaders().chain(space.open_segments().iter().copied());
    let idle = all.map(|id| (id, table.entry(id))).filter(|(_, entry)| entry.out.load(Ordering::Relaxed) == 0);
    idle.map(|(id, entry)| info(id, entry, space.seals)).collect()
}

/// A walk over objects and fillers: where it is, and the used bytes that it has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    pub(crate) at: usize,
    pub(crate) used: u64,
}

impl Walk {
    /// Passes what stands at `place`; answers the first part if it is an object.
    ///
    /// # Safety
    /// An object or a filler begins there.
    #[inline]
    pub(crate) unsafe fn pass(&mut self, place: ObjectPtr) -> Option<First> {
        // SAFETY: passed on to the caller.
        match unsafe { place.item() } {
            Item::Filler(len) => {
                self.at += len;
                self.used += filler_used(len as u64);
                None
            }
            Item::Object(first) => {
                self.at += first.size();
                self.used += first.size() as u64;
                Some(first)
            }
        }
    }
}
