//! Clearing: every object is dead at once, and the segments learn of it in steps.
//!
//! ```text
//!   clear (at rest): age 7 -> 8, what lives is 0     settle: some segments a step, by number
//!   +--------+--------+--------+--------+            +--------+--------+--------+--------+
//!   | age 7  | age 7  | age 7  | free   |   ------>  | dead   | age 8  | age 7  | age 8  |
//!   +--------+--------+--------+--------+            +--------+--------+--------+--------+
//!     sealed, all of them                              filed   opened    not yet  opened
//! ```
//!
//! A segment has the age in which its first object came. Whatever lies in one of another age is dead, whatever its own figures
//! say: who looks at them asks for the age as well (`LogMemory::live`). So clearing costs the same however large the log is.
//! The steps file sealed segments as ones in which nothing lives, so that a drain finds them and skips over them by
//! release units, and retire extents. A victim that is chosen before its turn came is settled then.
//!
//! An extent that is begun and not adopted belongs to whoever fills it: it takes the present age when it becomes an object.

use crate::log::Log;
use crate::space::Clearing;
use crate::table::SegmentState;

/// Segments that one step looks at: some ten microseconds.
const SETTLED_AT_ONCE: usize = 256;
/// Clearings in a row of which none is settled: an age has 16 bits, and must not come back while a segment has it.
const UNSETTLED_MAX: u32 = 1 << 15;

impl Log {
    /// Marks everything dead. Whoever calls it has forgotten every Ref, has given up his drain, and knows that all
    /// appenders are parked and nobody is in an operation. Memory goes back by drains and `release_step`.
    ///
    /// # Panics
    /// If pieces are out or a drain is under way.
    pub fn clear(&self) {
        let mut space = self.shared.space.lock();
        for segment in space.open_segments().to_vec() {
            assert!(space.seal_early(&self.shared.memory, segment), "cleared with pieces of segment {segment} out");
        }
        let count = space.clearing.map_or(0, |unsettled| unsettled.count) + 1;
        assert!(count <= UNSETTLED_MAX + 1, "{count} clearings in a row are not settled");
        if count == 1 {
            self.shared.memory.add_releasing(1);
        }
        self.shared.memory.begin_age();
        space.clearing = Some(Clearing { next: 0, count });
        drop(space);
        while count > UNSETTLED_MAX && self.settle_clearing() {}
    }

    /// Settles some segments of a clearing; false if there is none to settle.
    #[cold]
    pub(crate) fn settle_clearing(&self) -> bool {
        let (memory, mut retired) = (&self.shared.memory, Vec::new());
        let mut space = self.shared.space.lock();
        let Some(clearing) = space.clearing else { return false };
        let some: Vec<u32> = {
            let all = space.segments(&memory.table, clearing.next).map(|(id, _)| id);
            all.take(SETTLED_AT_ONCE).collect()
        };
        for &id in &some {
            let entry = memory.table.entry(id);
            // In this order: an extent is of the present age before it lives.
            let lives = entry.live().objects() != 0;
            if entry.age() == memory.age() {
                continue;
            }
            match entry.state() {
                SegmentState::Sealed => {
                    entry.forget_live();
                    space.file(memory, id, entry);
                }
                SegmentState::Extent if lives => {
                    entry.forget_live();
                    retired.push(id);
                }
                SegmentState::Open => panic!("segment {id} is open and was cleared"),
                // A victim was settled when it was chosen.
                SegmentState::Draining => assert!(!lives, "cleared while segment {id} was drained"),
                // It belongs to whoever fills it.
                SegmentState::Extent => {}
                SegmentState::Free | SegmentState::Tail | SegmentState::Retired => {}
            }
        }
        space.clearing = some.last().map(|&id| Clearing { next: id + 1, ..clearing });
        let is_settled = space.clearing.is_none();
        drop(space);
        retired.into_iter().for_each(|id| self.shared.retire(id));
        if is_settled {
            memory.end_releasing();
        }
        true
    }
}
