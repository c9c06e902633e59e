//! A worker's links to other servers: its connections wait for them, and go on.

use std::sync::Arc;

use mio::event::Event;
use varve_exec::link::Link;

use super::core::Core;
use crate::features::pubsub::state::ConnId;
use crate::net::links::Resolved;

impl Core {
    /// The connection's command waits for its link.
    #[cold]
    pub(super) fn stand_by_link(&mut self, id: ConnId) {
        let who = self.conns[id].who();
        self.links.stand_by(&mut self.conns, who, self.now.instant);
    }

    /// Something has happened at a link's socket.
    pub(super) fn note_link(&mut self, event: &Event) {
        self.links.note(event, &mut self.conns, self.now.instant);
        self.stats().kept_links.set(self.links.kept() as u64);
    }

    /// A name was resolved, or a thread has connected.
    pub(super) fn resolved(&mut self, link: &Arc<Link>, resolved: Resolved) {
        self.links.resolved(&mut self.conns, link, resolved, self.now.instant);
    }

    /// Ends links that are silent or of no more use.
    #[inline]
    pub(super) fn settle_links(&mut self) {
        if !self.links.is_empty() {
            self.links.settle(&mut self.conns, self.now.instant);
            self.stats().kept_links.set(self.links.kept() as u64);
        }
    }
}
