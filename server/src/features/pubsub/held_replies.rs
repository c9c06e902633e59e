//! Replies that wait for messages: a client that listens finds before a reply what was published before it.
//!
//! ```text
//!   PUBLISH of a listening connection, the service of one that waited for keys
//!       --> all is delivered at once: the usual case
//!       --> more lies in the inbox: the reply is kept here, the connection waits (WaitReasons::MESSAGES), the loop goes on
//!   the inbox is past what lay in it --> the reply behind what was delivered, the connection goes on
//! ```
//! In RESP2 a client that listens to channels neither publishes nor waits for keys. One that tracks keys may wait for keys.

use std::collections::VecDeque;

use varve_protocol::Reply;

use super::state::ConnRef;
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;

/// See the module's picture. Counts of one inbox only grow, so whoever came first goes on first.
#[derive(Default)]
pub(crate) struct HeldReplies(VecDeque<Held>);

struct Held {
    who: ConnRef,
    /// Items of the inbox that are to be delivered before.
    until: u64,
    reply: Reply,
}

impl HeldReplies {
    /// The connection waits, with this reply, until `until` items of its worker's inbox are delivered.
    pub(crate) fn hold(&mut self, conn: &mut Conn, until: u64, reply: Reply) {
        assert!(conn.wait(WaitReasons::MESSAGES), "a connection runs one command at a time");
        self.0.push_back(Held { who: conn.who(), until, reply });
    }

    /// Lets those go on that waited for `done` items or fewer.
    #[inline]
    pub(crate) fn release(&mut self, conns: &mut Conns, done: u64) {
        while self.0.front().is_some_and(|held| held.until <= done) {
            let Some(Held { who, reply, .. }) = self.0.pop_front() else { return };
            let Some(conn) = conns.get_mut(who) else { continue };
            conn.write_output(|out| out.append(reply));
            conns.lift(who, WaitReasons::MESSAGES);
        }
    }
}
