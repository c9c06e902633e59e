//! Connections that publish faster than other workers deliver: they wait until there is room in the inboxes again.

use std::time::Duration;

use super::state::ConnRef;
use super::state::Registry;
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;

/// Time between two looks at the inboxes.
pub(crate) const ROOM_CHECK: Duration = Duration::from_millis(1);

/// The publishers of one worker that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingPublishers(Vec<ConnRef>);

impl WaitingPublishers {
    /// The connection that was just served waits if what `author`, its worker or a script of its own, has published fills some
    /// inbox too far.
    #[inline]
    pub(crate) fn wait_for_room(&mut self, conn: &mut Conn, registry: &Registry, author: usize) {
        if registry.take_crowded(author) && conn.wait(WaitReasons::INBOX) {
            self.0.push(conn.who());
        }
    }

    /// Lets all go on if there is room.
    pub(crate) fn release(&mut self, conns: &mut Conns, registry: &Registry) {
        if !self.0.is_empty() && registry.has_room() {
            self.0.drain(..).for_each(|who| conns.lift(who, WaitReasons::INBOX));
        }
    }

    /// Time until the inboxes are to be looked at again, if somebody waits.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        (!self.0.is_empty()).then_some(ROOM_CHECK)
    }
}
