//! Work on the root of a big collection, under its shard's lock.

use std::sync::atomic::Ordering::Relaxed;

use varve_collection::WriteCtx;

use super::ground::Ground;
use super::shard::Shard;
use super::worker::Local;
use crate::state::collections::RootLocation;
use crate::state::link::Root;

impl Ground {
    /// Follows the size of a collection's tables after it was changed, and sees that they are moved on.
    #[inline]
    pub(crate) fn follow_root(&self, root: &mut Root) {
        let bytes = root.held_bytes();
        if bytes != root.reported {
            self.table_bytes().fetch_add((bytes as u64).wrapping_sub(root.reported as u64), Relaxed);
            root.reported = bytes;
        }
        if !root.restless && !root.dying && root.body.wants_step() {
            root.restless = true;
            self.pending().unsettle(root.id);
        }
    }
}

impl Shard {
    /// Works on a root of this shard.
    #[inline]
    pub(crate) fn with_root<R>(
        &mut self,
        ground: &Ground,
        local: &mut Local,
        at: RootLocation,
        work: impl FnOnce(&mut Root, &mut WriteCtx<'_>) -> R,
    ) -> R {
        let root = self.roots.get_mut(at.place);
        let id = root.id;
        let (access, appender) = (&mut self.access, &mut local.appender);
        let done = work(root, &mut WriteCtx { log: ground.log(), access, appender, seed: ground.seed(), id });
        ground.follow_root(root);
        done
    }
}
