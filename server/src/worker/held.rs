//! Connections that CLIENT PAUSE holds back: they stand aside until the pause ends or changes.
//!
//! What they sent stays in their buffers, and what they send on is read, up to the query limit. Not here: which commands
//! are held back (`varve_command::pause`).

use std::time::Duration;

use varve_command::pause::Pause;

use super::{Ready, Worker};

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Held {
    conns: Vec<Ready>,
    /// The pause that holds them.
    under: Pause,
}

impl Worker {
    /// The connection's next request is held back.
    #[cold]
    pub(super) fn hold_back(&mut self, slot: usize) {
        let conn = &mut self.conns[slot];
        conn.held = true;
        if self.held.conns.is_empty() {
            self.held.under = self.shared.pauses.now(self.now.unix_ms);
        }
        self.held.conns.push(Ready { slot, id: conn.session.id });
        self.note_held();
    }

    /// Lets those go that were held back, if the pause is another one by now or over.
    pub(super) fn release_held(&mut self) {
        if self.held.conns.is_empty() || self.shared.pauses.now(self.now.unix_ms) == self.held.under {
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

    /// Time until those that are held back can go on by themselves.
    pub(super) fn held_for(&self) -> Option<Duration> {
        let left_ms = self.shared.pauses.until_ms().saturating_sub(self.now.unix_ms).max(0);
        (!self.held.conns.is_empty()).then(|| Duration::from_millis(left_ms as u64))
    }

    /// A connection is about to close.
    pub(super) fn forget_held(&mut self, id: u64) {
        self.held.conns.retain(|ready| ready.id != id);
        self.note_held();
    }

    fn note_held(&self) {
        self.shared.workers[self.index].stats.held.set(self.held.conns.len() as u64);
    }
}
