//! A session that stands in for another one, on which a transaction runs elsewhere.
//!
//! ```text
//!   connection: session --> stand-in, which others see and may end --> session, with what they have done to the stand-in
//!                  +------> the stage: EXEC runs ------------------------^
//! ```

use std::sync::Arc;

use super::Session;

impl Session {
    /// A session that others see in the place of this one, while its transaction runs on it elsewhere.
    pub(crate) fn stand_in(&self) -> Session {
        let Session { id, db, resp, access, is_known, is_open, users_epoch, no_touch, no_evict, .. } = *self;
        let Session {
            string_bytes_max,
            rdb_version,
            subscriptions,
            monitors,
            tracking,
            last,
            created_ms,
            active_ms,
            ..
        } = *self;
        Session {
            db,
            resp,
            name: self.name.clone(),
            library_name: self.library_name.clone(),
            library_version: self.library_version.clone(),
            access,
            is_known,
            is_open,
            user: Arc::clone(&self.user),
            users_epoch,
            no_touch,
            no_evict,
            string_bytes_max,
            rdb_version,
            subscriptions,
            monitors,
            tracking,
            last,
            in_exec: self.queued().map(|count| count as u32),
            active_ms,
            ..Session::new(id, created_ms, true)
        }
    }

    /// Its script rests, and has these bytes; 0: none rests.
    pub fn note_script_bytes(&mut self, bytes: usize) {
        self.script_bytes = bytes;
    }

    /// The session `own` takes its place again, for which this one has stood in: what others have done to it meanwhile holds.
    pub(crate) fn come_back(&mut self, own: Session) {
        let stood_in = std::mem::replace(self, own);
        let Session { access, is_known, is_open, users_epoch, string_bytes_max, rdb_version, active_ms, ends, .. } =
            stood_in;
        (self.access, self.is_known, self.is_open) = (access, is_known, is_open);
        (self.user, self.users_epoch) = (stood_in.user, users_epoch);
        (self.string_bytes_max, self.rdb_version, self.active_ms) = (string_bytes_max, rdb_version, active_ms);
        self.ends |= ends;
        self.tracking.broken |= stood_in.tracking.broken;
    }
}
