//! Clearing: every object is dead at once, in O(segments).
//!
//! Sealed segments are left without live objects, so that a drain skips over them by release units; extents retire.

use crate::log::Log;
use crate::space::Space;
use crate::table::{Live, SegmentState};

impl Log {
    /// Marks everything dead. Whoever calls it has forgotten every Ref, has given up his drain, and knows that all
    /// appenders are parked and nobody is in an operation. Memory goes back by drains and `release_step`.
    ///
    /// # Panics
    /// If pieces are out or a drain is under way.
    pub fn clear(&self) {
        let mut runs = Vec::new();
        let mut space = self.shared.space.lock();
        let table = &self.shared.memory.table;
        for id in space.segments(table, 0).map(|(id, _)| id).collect::<Vec<u32>>() {
            let entry = table.entry(id);
            match entry.state() {
                SegmentState::Open => {
                    assert!(space.seal_early(&self.shared.memory, id), "cleared with pieces of segment {id} out");
                    self.forget(&mut space, id);
                }
                SegmentState::Sealed => self.forget(&mut space, id),
                // One that is begun and not adopted belongs to whoever fills it.
                SegmentState::Extent if entry.live().objects() == 0 => {}
                SegmentState::Extent => {
                    entry.forget_live();
                    runs.push(id);
                }
                SegmentState::Draining => panic!("cleared while segment {id} is drained"),
                SegmentState::Free | SegmentState::Tail | SegmentState::Retired => {}
            }
        }
        drop(space);
        runs.into_iter().for_each(|id| self.shared.retire(id));
    }

    fn forget(&self, space: &mut Space, segment: u32) {
        let entry = self.shared.memory.table.entry(segment);
        let before = entry.forget_live();
        self.shared.memory.count_granules(before, Live::new(0, 0));
        space.file(segment, entry);
    }
}
