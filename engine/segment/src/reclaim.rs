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
//! An object whose shard is locked is passed over and noted: it is settled once the cursor is at the end. If its shard is
//! locked even then, the segment can be left: sealed again, with fillers in place of what is gone, and whole pages between
//! what is left given back. So one shard that is held for long stops no drain, and keeps a few pages of each victim.
//!
//! Used bytes fall with the cursor, memory follows by `release_bytes`, so reclaim needs no more room than a slice. Up to
//! 1.25 segments' worth in all is kept for the segments that are opened next, since taking a page from the system costs
//! several times what filling it does. The
//! log knows no object's meaning: `Relocate` finds its owner, locks the shard, and has it moved, evicted, or finds it
//! dead already. A victim without live objects is not walked at all.

use std::sync::atomic::Ordering;

use varve_base::Ref;
use varve_base::mem::PAGE_BYTES;

use crate::kind::{ObjectKind, Owner};
use crate::layout::{First, Item, ObjectPtr};
use crate::log::{Log, SegmentInfo, info};
use crate::memory::LogMemory;
use crate::space::{Space, filler_used};
use crate::table::{SegmentEntry, SegmentState};

/// An open segment is chosen before a sealed one if its score is this many times as high.
const OPEN_BETTER: f64 = 4.0;

/// Heads that are prepared together.
pub const SLICE: usize = 32;
/// Objects of a victim that are passed over because their shards are locked; a drain stops at the next one.
const PASSED_MAX: usize = 1024;
/// Bytes of a filler that are written.
const FILLER_HEAD: usize = 5;
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
    /// Its shard is locked: it is passed over, and asked for again when the rest is done.
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
    /// Offsets of objects before the cursor that are not settled: their shards were busy. Ascending.
    passed: Vec<u32>,
    /// Of these, the place of the one that is tried next.
    retry: usize,
    /// As it was when it was chosen.
    chosen: SegmentInfo,
}

impl Drain {
    /// The victim as it was when it was chosen.
    pub fn chosen(&self) -> &SegmentInfo {
        &self.chosen
    }

    /// How many objects were passed over and are not settled.
    pub fn passed(&self) -> usize {
        self.passed.len()
    }

    /// Where the first object may be that is left.
    fn first_left(&self) -> usize {
        self.passed.first().map_or(self.cursor, |&at| at as usize)
    }
}

/// How far a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainState {
    /// Call again.
    More,
    /// Nothing could be done: the shards of all objects that are left are busy, or a killer has not finished. Call again, a
    /// little later, or leave the segment.
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
        let found = candidates(&space, &self.shared.memory);
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
        Some(self.begin_drain(&mut space, chosen))
    }

    /// A drain of this segment, if it is sealed.
    pub fn choose_this(&self, segment: u32) -> Option<Drain> {
        let mut space = self.shared.space.lock();
        let chosen = info(&self.shared.memory, segment, space.seals);
        (chosen.state == SegmentState::Sealed).then(|| self.begin_drain(&mut space, chosen))
    }

    fn begin_drain(&self, space: &mut Space, chosen: SegmentInfo) -> Drain {
        let entry = self.shared.memory.table.entry(chosen.segment);
        space.choose(chosen.segment, entry);
        if entry.age() != self.shared.memory.age() {
            // Cleared, and not settled yet.
            entry.forget_live();
        }
        let unit = self.shared.memory.geometry.release_bytes;
        let start = entry.start.load(Ordering::Relaxed) as usize;
        let fill = entry.fill.load(Ordering::Relaxed) as usize;
        assert!(start <= fill && fill <= self.shared.memory.geometry.segment_bytes, "a victim of {start}..{fill}");
        let ahead = space.units_ahead(&self.shared.memory);
        Drain {
            segment: chosen.segment,
            cursor: start,
            fill,
            released: start / unit,
            keep: self.shared.memory.plan_to_cache(entry, start / unit..fill.div_ceil(unit), ahead),
            dead: false,
            passed: Vec::new(),
            retry: 0,
            chosen,
        }
    }

    /// The segments that a choice of a victim looks at: some hundred at most, however many there are. Sealed ones of every
    /// share of live bytes, and the open ones that nobody appends to.
    pub fn candidates(&self) -> Vec<SegmentInfo> {
        candidates(&self.shared.space.lock(), &self.shared.memory)
    }

    /// Shows the first parts of up to `count` objects at the front of a sealed segment, some of which may be dying; none if
    /// it is not sealed. Only one that may choose victims may call this, with a lock held that is held for every choice, so that it is not
    /// drained meanwhile.
    pub fn peek(&self, segment: u32, count: usize, mut show: impl FnMut(&ObjectHead<'_>)) {
        let entry = self.shared.memory.table.entry(segment);
        let (mut walk, fill) = {
            let _space = self.shared.space.lock();
            if entry.state() != SegmentState::Sealed || entry.age() != self.shared.memory.age() {
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

    /// Gives some of the memory back that is kept for what is appended later; true while there is more. What each class of
    /// segments comes to next stays, up to four megabytes, unless `all` goes.
    pub fn release_cached_step(&self, all: bool) -> bool {
        self.shared.space.lock().release_cached_unit(&self.shared.memory, all)
    }

    /// Gives back all of it that is there now, whatever is kept meanwhile.
    pub fn release_cached(&self) {
        let memory = &self.shared.memory;
        let most = memory.cached_units() as usize + self.shared.space.lock().cached_segments().len();
        for _ in 0..most {
            if !self.release_cached_step(true) {
                break;
            }
        }
    }

    /// Gives back some of the pages that a drain which does not go on has left behind its cursor, or before it behind the end of
    /// its segment; true if there were any.
    pub fn release_drained_step(&self, drain: &mut Drain) -> bool {
        let entry = self.shared.memory.table.entry(drain.segment);
        let below = |unit: usize| if unit < 64 { (1 << unit) - 1 } else { u64::MAX };
        let end = drain.fill.div_ceil(self.shared.memory.geometry.release_bytes);
        let kept = entry.cached.load(Ordering::Relaxed) & (below(drain.released) | !below(end));
        if kept != 0 {
            // SAFETY: every object there is dead, and was marked by its last user; heads of this drain are gone. Nothing was
            // written behind its end.
            unsafe { self.shared.memory.release_unit(drain.segment, entry, kept.trailing_zeros() as usize) };
        }
        kept != 0
    }

    /// Gives a drain up; the segment can be chosen again, and goes on where this left off.
    pub fn abandon(&self, mut drain: Drain) {
        let entry = self.shared.memory.table.entry(drain.segment);
        if !drain.passed.is_empty() {
            self.fill_gaps(&mut drain, entry);
        }
        let mut space = self.shared.space.lock();
        if drain.keep {
            let end = drain.fill.div_ceil(self.shared.memory.geometry.release_bytes);
            self.shared.memory.cancel_plan(entry, drain.released..end);
        }
        entry.abandon(drain.first_left() as u64);
        space.file(&self.shared.memory, drain.segment, entry);
    }

    /// Relocates about `objects` more objects of the victim, and gives back the memory behind the cursor.
    pub fn drain_step(&self, drain: &mut Drain, rel: &mut impl Relocate, objects: usize) -> DrainState {
        let entry = self.shared.memory.table.entry(drain.segment);
        assert!(entry.state() == SegmentState::Draining, "segment {} is {:?}", drain.segment, entry.state());
        let mut budget = objects.max(1) * DEAD_PER_OBJECT;
        let mut settled = false;
        while budget > 0 && (drain.cursor < drain.fill || !drain.passed.is_empty()) {
            drain.dead = drain.dead || entry.live().objects() == 0;
            let before = (drain.cursor, drain.passed.len());
            if drain.dead {
                self.skip_dead(drain, entry);
                budget = 0;
            } else if drain.cursor < drain.fill && drain.passed.len() < PASSED_MAX {
                self.slice(drain, entry, rel, &mut budget);
            } else {
                self.settle(drain, entry, rel, &mut budget);
            }
            if before == (drain.cursor, drain.passed.len()) {
                break;
            }
            settled = true;
        }
        entry.start.store(drain.first_left() as u64, Ordering::Relaxed);
        self.release_behind(drain);
        if drain.cursor < drain.fill || !drain.passed.is_empty() {
            return if settled { DrainState::More } else { DrainState::Busy };
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

    /// Tries some of the objects again that were passed over, in turns.
    fn settle(&self, drain: &mut Drain, entry: &SegmentEntry, rel: &mut impl Relocate, budget: &mut usize) {
        let from = if drain.retry < drain.passed.len() { drain.retry } else { 0 };
        let tried: Vec<u32> = drain.passed[from..].iter().copied().take(SLICE).collect();
        let mut alive = Vec::new();
        let mut heads: Vec<ObjectHead<'_>> = Vec::with_capacity(SLICE);
        let mut used = 0;
        let mut done = Vec::new();
        for &at in &tried {
            let place = self.segment_place(drain.segment, at as usize);
            // SAFETY: an object that the walk has passed; nothing from the first of these on has been released, first parts
            // are immutable and DEAD is atomic.
            let (first, is_dead) = unsafe {
                let first = place.first();
                (first, place.is_dead(&first))
            };
            if is_dead {
                used += first.size() as u64;
                done.push(at);
            } else {
                // SAFETY: as above.
                heads.push(unsafe { self.head(drain.segment, at as usize, place, &first) });
                alive.push(at);
            }
        }
        rel.prepare(&heads);
        for (head, &at) in heads.iter().zip(&alive) {
            *budget = budget.saturating_sub(DEAD_PER_OBJECT + head.bytes / BYTES_PER_DEAD);
            if rel.relocate(head) != Relocated::Busy {
                used += head.bytes as u64;
                done.push(at);
            }
        }
        drain.passed.retain(|at| !done.contains(at));
        drain.retry = from + tried.len() - done.len();
        assert!(drain.retry <= drain.passed.len(), "{} of {} objects are tried next", drain.retry, drain.passed.len());
        assert!(drain.passed.is_sorted_by(|a, b| a < b), "objects are passed over in order");
        self.shared.memory.uncount_used(entry, used);
    }

    /// Leaves a victim whose last objects are busy: it is sealed again, holds them alone, and can be chosen again. Whole
    /// pages between them go back to the system. The number of the segment.
    ///
    /// # Panics
    /// If nothing was passed over.
    pub fn leave(&self, drain: Drain) -> u32 {
        assert!(!drain.passed.is_empty(), "{drain:?} is busy with nothing");
        let segment = drain.segment;
        self.abandon(drain);
        segment
    }

    /// Writes fillers over what is gone between the objects that are left before the cursor, and gives back whole pages of
    /// it. The fillers count as used as far as any do.
    fn fill_gaps(&self, drain: &mut Drain, entry: &SegmentEntry) {
        let base = drain.segment as usize * self.shared.memory.geometry.segment_bytes;
        let mut at = drain.first_left();
        let mut fillers = 0;
        let ends = drain.passed.iter().map(|&begin| begin as usize).chain([drain.cursor]);
        for end in ends {
            assert!(at <= end && end <= drain.fill, "a gap of {at}..{end} in {drain:?}");
            if at < end {
                let pages =
                    (base + at + FILLER_HEAD).next_multiple_of(PAGE_BYTES)..(base + end) / PAGE_BYTES * PAGE_BYTES;
                // SAFETY: every object of the gap is dead and was marked by its last user; the segment belongs to this drain.
                unsafe {
                    if pages.start < pages.end {
                        self.shared.memory.mapping.release(pages);
                    }
                    self.segment_place(drain.segment, at).write_filler(end - at);
                }
                fillers += filler_used((end - at) as u64);
            }
            at = end;
            if end < drain.cursor {
                // SAFETY: an object that was passed over is whole.
                at += unsafe { self.segment_place(drain.segment, end).first().size() };
            }
        }
        self.shared.memory.count_used(entry, fillers);
    }

    /// Moves the cursor over one release unit of a segment in which nothing lives.
    fn skip_dead(&self, drain: &mut Drain, entry: &SegmentEntry) {
        let unit = self.shared.memory.geometry.release_bytes;
        drain.cursor = (drain.cursor / unit * unit + unit).min(drain.fill);
        let used = entry.used.load(Ordering::Relaxed);
        let off = if drain.cursor == drain.fill { used } else { used.min(unit as u64) };
        drain.passed.clear();
        self.shared.memory.uncount_used(entry, off);
    }

    /// Collects heads, prepares and relocates them; passes over those that are busy.
    fn slice(&self, drain: &mut Drain, entry: &SegmentEntry, rel: &mut impl Relocate, budget: &mut usize) {
        // SAFETY: any number in range may become a Ref that is not followed; this one fills the array.
        let nothing = unsafe { Ref::from_bits(1) };
        let unused = ObjectHead { r: nothing, kind: ObjectKind::BARE, owner: Owner::Collection(0), key: &[], bytes: 0 };
        let mut heads = [unused; SLICE];
        let mut count = 0;
        let mut walk = Walk { at: drain.cursor, used: 0 };
        // The walk before each head: one too many that is busy ends the slice there.
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
        let mut left = 0;
        for i in 0..count {
            if rel.relocate(&heads[i]) == Relocated::Busy {
                if drain.passed.len() == PASSED_MAX {
                    walk = before[i];
                    break;
                }
                drain.passed.push(before[i].at as u32);
                left += heads[i].bytes as u64;
                continue;
            }
            let place = self.place(heads[i].r);
            // SAFETY: as above.
            assert!(unsafe { place.is_dead(&place.first()) }, "{:?} was settled and lives", heads[i].r);
        }
        assert!(left <= walk.used, "{left} bytes passed over of {}", walk.used);
        self.shared.memory.uncount_used(entry, walk.used - left);
        drain.cursor = walk.at;
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
        let left = drain.first_left();
        let end = if left == drain.fill { drain.fill.div_ceil(unit) } else { left / unit };
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

fn candidates(space: &Space, memory: &LogMemory) -> Vec<SegmentInfo> {
    let all = space.leaders().chain(space.open_segments().iter().copied());
    let idle = all.filter(|&id| memory.table.entry(id).out.load(Ordering::Relaxed) == 0);
    idle.map(|id| info(memory, id, space.seals)).collect()
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
