//! Connections that stand aside: CLIENT PAUSE holds them back until it ends or changes, or they have filled an inbox
//! with what they published, until there is room again.
//!
//! What they sent stays in their buffers, and what they send on is read, up to the query limit. Not here: which commands
//! are held back (`varve_exec::pause`).

use std::time::Duration;

use varve_exec::pause::Pause;

use super::{Ready, Worker};

/// How often it is looked whether there is room in the inboxes again.
const ROOM_CHECK: Duration = Duration::from_millis(1);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct PausedClients {
    conns: Vec<Ready>,
    /// The pause that holds them.
    under: Pause,
    /// Connections that publish faster than others can deliver.
    crowded: Vec<Ready>,
}

impl Worker {
    /// The connection's next request is held back.
    #[cold]
    pub(super) fn hold_back(&mut self, slot: usize) {
        let conn = &mut self.conns[slot];
        conn.held = true;
        if self.held.conns.is_empty() {
            self.held.under = self.state.pauses.now(self.now.unix_ms);
        }
        self.held.conns.push(Ready { slot, id: conn.session.id });
        self.note_held();
    }

    /// Lets those go that were held back, if the pause is another one by now or over.
    pub(super) fn release_held(&mut self) {
        if !self.held.crowded.is_empty() && self.state.pubsub.has_room() {
            for Ready { slot, id } in std::mem::take(&mut self.held.crowded) {
                if let Some(conn) = self.conns.get_mut(slot).filter(|conn| conn.session.id == id) {
                    conn.crowded = false;
                    self.queue(slot);
                }
            }
        }
        if self.held.conns.is_empty() || self.state.pauses.now(self.now.unix_ms) == self.held.under {
            return;
        }
        for Ready { slot, id } in std::mem::take(&mut self.held.conns) {
            if let Some(conn) = self.conns.get_mut(slot).filter(|conn| conn.session.id == id) {
                conn.held = false;
                self.queue(slot);
            }
        }
        self.note_held();
    }

    /// The connection that was just served stands aside if some inbox is too full.
    #[inline]
    pub(super) fn wait_for_room(&mut self, slot: usize) {
        if self.state.pubsub.take_crowded(self.index) {
            let conn = &mut self.conns[slot];
            conn.crowded = true;
            self.held.crowded.push(Ready { slot, id: conn.session.id });
        }
    }

    /// Time until those that are held back can go on by themselves.
    pub(super) fn held_for(&self) -> Option<Duration> {
        if !self.held.crowded.is_empty() {
            return Some(ROOM_CHECK);
        }
        let left_ms = self.state.pauses.until_ms().saturating_sub(self.now.unix_ms).max(0);
        (!self.held.conns.is_empty()).then(|| Duration::from_millis(left_ms as u64))
    }

    /// A connection is about to close.
    pub(super) fn forget_held(&mut self, id: u64) {
        self.held.conns.retain(|ready| ready.id != id);
        self.note_held();
    }

    fn note_held(&self) {
        self.state.workers[self.index].stats.held.set(self.held.conns.len() as u64);
    }
}
