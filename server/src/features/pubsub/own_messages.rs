//! Replies that wait for messages: a client that listens finds what it has published itself before the reply to PUBLISH.
//!
//! ```text
//!   PUBLISH of a listening connection --> all delivered at once: the usual case
//!                                     --> more lies in the inbox: reply kept here, the connection waits
//!                                         (WaitReasons::MESSAGES), and the loop goes on
//!   the inbox is past that message    --> reply behind what was delivered, the connection goes on
//! ```
//! In RESP2 a client that listens cannot publish.

use std::collections::VecDeque;

use super::state::ConnRef;
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;

/// See the module's picture. Counts of one inbox only grow, so whoever came first goes on first.
#[derive(Debug, Default)]
pub(crate) struct OwnMessages(VecDeque<Waiting>);

#[derive(Debug)]
struct Waiting {
    who: ConnRef,
    /// Items of the inbox that are to be delivered before.
    until: u64,
    reply: Vec<u8>,
}

impl OwnMessages {
    /// The connection waits, with this reply, until `until` items of its worker's inbox are delivered.
    pub(crate) fn wait(&mut self, conn: &mut Conn, until: u64, reply: Vec<u8>) {
        assert!(conn.wait(WaitReasons::MESSAGES), "a connection runs one command at a time");
        self.0.push_back(Waiting { who: conn.who(), until, reply });
    }

    /// Lets those go on that waited for `done` items or fewer.
    #[inline]
    pub(crate) fn release(&mut self, conns: &mut Conns, done: u64) {
        while self.0.front().is_some_and(|waiting| waiting.until <= done) {
            let Some(Waiting { who, reply, .. }) = self.0.pop_front() else { return };
            let Some(conn) = conns.get_mut(who) else { continue };
            conn.write_output(|out| out.raw(&reply));
            conns.lift(who, WaitReasons::MESSAGES);
        }
    }
}
