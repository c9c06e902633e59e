//! The O(N) check: everything that the counters say must be what walking the bytes finds.
//!
//! Walks open segments around the parked pieces, sealed and draining ones from where a drain has come to, and runs.
//! It changes nothing. It reads what belongs to the shards' locks, so nothing else may run.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use crate::kind::ObjectKind;
use crate::layout::{First, ObjectPtr};
use crate::log::Log;
use crate::reclaim::{ObjectHead, Walk};
use crate::table::{Live, SegmentEntry, SegmentState};

impl Log {
    /// Panics with what is wrong. Call it at rest: every appender parked, nobody in an operation. Drains may be in
    /// progress.
    pub fn verify(&self) {
        self.verify_with(|_, dead| !dead);
    }

    /// Checks everything that `verify` checks, and asks of each object whether it should be alive; the second argument of the
    /// question is true if it is marked dead.
    pub fn verify_with(&self, mut alive: impl FnMut(&ObjectHead<'_>, bool) -> bool) {
        let space = self.shared.space.lock();
        let parked: HashMap<u64, u64> = space.parked().collect();
        let (mut used, mut cached) = (0, 0);
        let table = &self.shared.memory.table;
        let (mut sealed, mut extents, mut granules) = (0, 0, 0);
        let in_use = space.segments(table, 0).map(|(id, _)| id);
        for id in in_use.chain(space.cached_segments().iter().copied()) {
            cached += table.entry(id).cached.load(Ordering::Relaxed).count_ones() as usize;
        }
        // The pages that a drain plans to keep count already.
        assert!(
            cached * self.shared.memory.geometry.release_bytes <= self.cached_bytes(),
            "kept memory of all segments"
        );
        for (id, entry) in space.segments(&self.shared.memory.table, 0) {
            assert_eq!(entry.out.load(Ordering::Relaxed), 0, "segment {id} has pieces out");
            used += entry.used.load(Ordering::Relaxed);
            match entry.state() {
                SegmentState::Extent | SegmentState::Retired => extents += entry.used.load(Ordering::Relaxed),
                _ => granules += self.shared.memory.granules.count(self.shared.memory.live(entry)),
            }
            sealed += usize::from(entry.state() == SegmentState::Sealed);
            let filed = space.fullness().rung(id).is_some();
            assert_eq!(
                filed,
                entry.state() == SegmentState::Sealed,
                "segment {id} is {:?}, filed: {filed}",
                entry.state()
            );
            match entry.state() {
                SegmentState::Open | SegmentState::Sealed | SegmentState::Draining => {
                    self.verify_segment(id, entry, &parked, &mut alive)
                }
                SegmentState::Extent => self.verify_run(id, entry, &mut alive),
                SegmentState::Retired => assert_eq!(entry.live(), Live::new(0, 0), "retired run {id} lives"),
                SegmentState::Tail | SegmentState::Free => {}
            }
        }
        let kept = self.shared.find_kept_bytes();
        assert_eq!(kept, self.kept_bytes(), "blocks that are kept for pins");
        assert_eq!(used + kept, self.used_bytes(), "used bytes of all segments, and kept blocks");
        assert_eq!(sealed, space.fullness().count(), "sealed segments among those by fullness");
        let sums = (self.shared.memory.live_granules(), self.shared.memory.extent_bytes());
        let found = (granules, extents + kept);
        assert_eq!(sums, found, "granules of live bytes and bytes of extents of all segments, and kept blocks");
    }

    fn verify_segment(
        &self,
        id: u32,
        entry: &SegmentEntry,
        parked: &HashMap<u64, u64>,
        alive: &mut impl FnMut(&ObjectHead<'_>, bool) -> bool,
    ) {
        let base = id as u64 * self.shared.memory.geometry.segment_bytes as u64;
        let fill = entry.fill.load(Ordering::Relaxed) as usize;
        let start = entry.start.load(Ordering::Relaxed) as usize;
        let used = entry.used.load(Ordering::Relaxed);
        let mut live = (0, 0);
        let mut walk = Walk { at: start, used: 0 };
        if self.shared.memory.live(entry) == Live::new(0, 0) {
            // Cleared, its objects not marked one by one; or a drain has found the rest dead and does not stop at
            // objects any more.
            return;
        }
        while walk.at < fill {
            if let Some(&end) = parked.get(&(base + walk.at as u64)) {
                assert!(end <= base + self.shared.memory.geometry.segment_bytes as u64, "a parked piece ends at {end}");
                walk.at = (end - base) as usize;
                continue;
            }
            let place = self.segment_place(id, walk.at);
            let at = walk.at;
            // SAFETY: at rest nobody writes, and this is where the last object ended.
            if unsafe { walk.pass(place) }.is_some() {
                assert!(walk.at <= fill, "segment {id}: an object at {at} ends at {} of {fill}", walk.at);
                // SAFETY: as above.
                if let Some(bytes) = unsafe { self.verify_object(id, at, place, alive) } {
                    live = (live.0 + 1, live.1 + bytes as u64);
                }
            }
        }
        assert_eq!(walk.at, fill.max(start), "segment {id}: objects end elsewhere than the segment");
        // A drain that has passed over objects has taken off what lies between them.
        let drained = entry.state() == SegmentState::Draining && walk.used > used;
        assert!(walk.used == used || drained, "segment {id}: {used} used bytes, {} found", walk.used);
        assert_eq!(entry.live(), Live::new(live.0, live.1), "segment {id}: live objects and bytes ({live:?})");
    }

    fn verify_run(&self, id: u32, entry: &SegmentEntry, alive: &mut impl FnMut(&ObjectHead<'_>, bool) -> bool) {
        let bytes = entry.extent_len.load(Ordering::Relaxed) as usize * self.shared.memory.geometry.segment_bytes;
        let start = entry.start.load(Ordering::Relaxed) as usize;
        let fill = entry.fill.load(Ordering::Relaxed) as usize;
        assert_eq!((fill - start) as u64, entry.used.load(Ordering::Relaxed), "run {id}: used bytes");
        if self.shared.memory.live(entry) == Live::new(0, 0) {
            // Begun and not adopted yet, or cleared.
            return;
        }
        let place = self.segment_place(id, start);
        // SAFETY: at rest nobody writes, and an extent that lives has an object at its start.
        let (first, live) = unsafe { (place.first(), self.verify_object(id, start, place, alive)) };
        let live = live.unwrap_or_else(|| panic!("run {id} holds a dead object")) as u64;
        let end = if first.kind() == ObjectKind::BARE { fill } else { bytes };
        self.verify_unwritten(id, place, &first);
        assert_eq!(start + first.size(), end, "run {id}: its object ends elsewhere than its last segment");
        assert_eq!(entry.live(), Live::new(1, live), "run {id}: live bytes");
        assert!(live <= (fill - start) as u64, "run {id}: {live} bytes live, {} used", fill - start);
    }

    /// Blocks of the value of an extent's object that were never written are zero.
    fn verify_unwritten(&self, id: u32, place: ObjectPtr, first: &First) {
        // SAFETY: at rest nobody writes, and the extent's object lives at `place`.
        let value = unsafe {
            let at = place.value_at(first);
            std::slice::from_raw_parts(place.0.add(at), first.size() - place.slack(first) - at)
        };
        let mut done = 0;
        while done < value.len() {
            let written = self.next_written(value, done);
            let zeros = &value[done..written.start];
            assert!(
                varve_base::bits::first_other(zeros, 0).is_none(),
                "run {id}: bytes of a block not marked as written"
            );
            done = written.end;
        }
    }

    /// The live bytes of the object, if it lives.
    ///
    /// # Safety
    /// An object begins at `place`, which is `at` in segment `id`, and nobody writes to it.
    unsafe fn verify_object(
        &self,
        id: u32,
        at: usize,
        place: ObjectPtr,
        alive: &mut impl FnMut(&ObjectHead<'_>, bool) -> bool,
    ) -> Option<usize> {
        // SAFETY: passed on to the caller.
        let (head, dead, live) = unsafe {
            let first = place.first();
            let head = self.head(id, at, place, &first);
            (head, place.is_dead(&first), first.size() - place.slack(&first))
        };
        assert_eq!(alive(&head, dead), !dead, "{head:?} is marked {}", if dead { "dead" } else { "alive" });
        (!dead).then_some(live)
    }
}
