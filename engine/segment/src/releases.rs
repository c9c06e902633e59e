//! Dead extents whose memory goes back to the system step by step, oldest first.

use std::collections::VecDeque;

/// A dead extent on its way back. Offsets are relative to the extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub(crate) segment: u32,
    /// Released below this.
    pub(crate) done: usize,
    /// Touched below this, but for the slack's count at the end.
    pub(crate) end: usize,
}

/// Dead extents, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Releases(VecDeque<Release>);

impl Releases {
    /// Adds an extent of which nothing is released yet, and which was touched below `end`.
    pub(crate) fn push(&mut self, segment: u32, end: usize) {
        debug_assert!(self.0.iter().take(8).all(|release| release.segment != segment), "extent {segment} died twice");
        self.0.push_back(Release { segment, done: 0, end });
    }

    /// Puts back one that was taken and is not released whole: it stays the oldest.
    pub(crate) fn put_back(&mut self, release: Release) {
        assert!(release.done < release.end, "segment {} is released whole", release.segment);
        self.0.push_front(release);
    }

    /// The place in the queue of the oldest extent that `ready` accepts.
    pub(crate) fn find(&self, ready: impl FnMut(&Release) -> bool) -> Option<usize> {
        self.0.iter().position(ready)
    }

    /// Takes the extent at a place that `find` has just returned.
    pub(crate) fn take(&mut self, place: usize) -> Release {
        self.0.remove(place).expect("the place was just found")
    }
}
