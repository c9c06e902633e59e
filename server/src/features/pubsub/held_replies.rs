//! Replies that wait for messages: a client that listens finds before a reply what belongs there.
//!
//! ```text
//!   PUBLISH of a listening connection     --> its message is delivered at once: the usual case
//!                                         --> more lies in the inbox: own, until its message is given ahead of the others'
//!   the service of one that waited        --> all is delivered at once
//!     for keys                            --> more lies in the inbox: served, until the inbox is past what lay in it
//!
//!   meanwhile the reply is kept here, the connection waits (WaitReasons::MESSAGES), the loop goes on
//! ```
//! In RESP2 a client that listens to channels neither publishes nor waits for keys. One that tracks keys may wait for keys.

use std::collections::VecDeque;

use varve_protocol::Reply;

use super::state::ConnRef;
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;

/// See the module's picture. Counts of one inbox only grow, so whoever was served first goes on first.
#[derive(Default)]
pub(crate) struct HeldReplies {
    served: VecDeque<Held>,
    own: VecDeque<Held>,
}

/// A reply, and the connection that waits with it.
pub(crate) struct Held {
    pub(crate) who: ConnRef,
    /// Items of the inbox up to the last one that is to stand before.
    pub(crate) until: u64,
    reply: Reply,
}

impl Held {
    /// The connection goes on: its reply stands behind what it has got.
    pub(crate) fn release(self, conns: &mut Conns) {
        let Held { who, reply, .. } = self;
        let Some(conn) = conns.get_mut(who) else { return };
        conn.write_output(|out| out.append(reply));
        conns.lift(who, WaitReasons::MESSAGES);
    }
}

impl HeldReplies {
    /// The connection waits, with this reply, until `until` items of its worker's inbox are delivered.
    pub(crate) fn hold_served(&mut self, conn: &mut Conn, until: u64, reply: Reply) {
        self.served.push_back(held(conn, until, reply));
    }

    /// The connection waits, with this reply, for a message of its own, the last of `until` items.
    pub(crate) fn hold_own(&mut self, conn: &mut Conn, until: u64, reply: Reply) {
        self.own.push_back(held(conn, until, reply));
    }

    /// Number of connections that wait for messages of their own.
    #[inline]
    pub(crate) fn own_count(&self) -> usize {
        self.own.len()
    }

    /// The next connection that waits for a message of its own. It comes back if it waits on.
    pub(crate) fn next_own(&mut self) -> Option<Held> {
        self.own.pop_front()
    }

    /// The connection waits on, behind the others.
    pub(crate) fn wait_on(&mut self, held: Held) {
        self.own.push_back(held);
    }

    /// Lets those go on that were served and waited for `done` items or fewer.
    #[inline]
    pub(crate) fn release_served(&mut self, conns: &mut Conns, done: u64) {
        while self.served.front().is_some_and(|held| held.until <= done) {
            let Some(held) = self.served.pop_front() else { return };
            held.release(conns);
        }
    }
}

fn held(conn: &mut Conn, until: u64, reply: Reply) -> Held {
    assert!(conn.wait(WaitReasons::MESSAGES), "a connection runs one command at a time");
    Held { who: conn.who(), until, reply }
}
