//! Connections that stand still because a command of theirs waits for keys.
//!
//! ```text
//!   turn: Blocked --block--> WaitReasons::KEYS     requests behind it stay in the connection's buffer
//!       served (own worker: at once, else by mail) --> its reply, goes on
//!       time is up, CLIENT UNBLOCK: cancelled       --> null or an error, goes on
//!       client gone, killed: cancelled              --> closed
//! ```
//! Cancelling fails if somebody has claimed the client: then nothing else happens, because its reply is on its way. Not
//! here: the order of service (`varve_exec::blocking`).

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use varve_acl::{Denial, User};
use varve_exec::{Awaited, Blocked};
use varve_protocol::{Mark, Reply};
use varve_store::StoreWorker;

use crate::features::pubsub::state::{ConnId, ConnRef};
use crate::net::conn::{Conn, WaitReasons};
use crate::net::conns::Conns;
use crate::state::WorkerStats;

/// The blocked connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct BlockedClients {
    /// By the client's id.
    waiting: HashMap<u64, Wait>,
    /// When waits end, with the client's id: those with a timeout only.
    deadlines: BTreeSet<(Instant, u64)>,
}

#[derive(Debug)]
struct Wait {
    conn: ConnId,
    blocked: Blocked,
    deadline: Option<Instant>,
}

impl BlockedClients {
    /// Time until the first wait ends.
    pub(crate) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.deadlines.first().map(|(due, _)| due.saturating_duration_since(now))
    }

    /// The connection's last command waits; nothing of it is executed until then.
    pub(crate) fn block(&mut self, conn: &mut Conn, blocked: Blocked, stats: &WorkerStats) {
        assert!(conn.may_run(), "only a connection that executes can block");
        conn.wait(WaitReasons::KEYS);
        let deadline = blocked.timeout().and_then(|timeout| Instant::now().checked_add(timeout));
        let who = conn.who();
        if let Some(due) = deadline {
            self.deadlines.insert((due, who.client));
        }
        let before = self.waiting.insert(who.client, Wait { conn: who.conn, blocked, deadline });
        assert!(before.is_none(), "a connection runs one command at a time");
        self.publish(stats);
    }

    /// Ends a wait that nobody serves any more, with this reply: returns where the reply begins in the connection's output.
    /// Nothing happens if the client does not wait.
    pub(crate) fn end(
        &mut self,
        client: u64,
        conns: &mut Conns,
        store: &mut StoreWorker,
        stats: &WorkerStats,
        reply: impl FnOnce(&Blocked, &mut Reply),
    ) -> Option<(ConnRef, Mark)> {
        let wait = self.remove(client, stats)?;
        wait.blocked.forget(store);
        let conn = &mut conns[wait.conn];
        assert!(conn.session().id() == client && conn.waits(WaitReasons::KEYS), "closing a connection ends its wait");
        let wanted = !conn.session_mut().end_wait();
        let mark = conn.output().mark();
        conn.write_output(|out| {
            reply(&wait.blocked, out);
            if !wanted {
                out.truncate(mark);
            }
        });
        let who = conn.who();
        conns.lift(who, WaitReasons::KEYS);
        Some((who, mark))
    }

    /// A client whose time is up, if nobody serves it. One that is being served waits for its reply without a deadline.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<u64> {
        while let Some(&(due, client)) = self.deadlines.first()
            && due <= now
        {
            self.deadlines.pop_first();
            let wait = self.waiting.get_mut(&client).expect("deadlines are those of waiting clients");
            wait.deadline = None;
            if wait.blocked.cancel() {
                return Some(client);
            }
        }
        None
    }

    /// The connection of a client that waits.
    pub(crate) fn conn(&self, client: u64) -> Option<ConnId> {
        self.waiting.get(&client).map(|wait| wait.conn)
    }

    /// The clients that wait.
    pub(crate) fn clients(&self) -> Vec<u64> {
        self.waiting.keys().copied().collect()
    }

    /// True if this client waits, and nobody serves it any more.
    pub(crate) fn cancel(&self, client: u64) -> bool {
        self.waiting.get(&client).is_some_and(|wait| wait.blocked.cancel())
    }

    /// The copies that this client waits for, if it does.
    pub(crate) fn awaited(&self, client: u64) -> Option<Awaited> {
        self.waiting.get(&client)?.blocked.awaited()
    }

    /// The part of its request to which this client has lost the right, if it waits for that and nobody serves it any more.
    pub(crate) fn cancel_denied(&self, client: u64, user: &User) -> Option<Denial> {
        let blocked = &self.waiting.get(&client)?.blocked;
        blocked.denial(user).filter(|_| blocked.cancel())
    }

    /// A connection is about to close: nobody is to serve it any more. What was taken for it already is lost with it.
    pub(crate) fn abandon(&mut self, client: u64, store: &mut StoreWorker, stats: &WorkerStats) {
        let Some(wait) = self.remove(client, stats) else { return };
        let _ = wait.blocked.cancel();
        wait.blocked.forget(store);
    }

    fn remove(&mut self, client: u64, stats: &WorkerStats) -> Option<Wait> {
        let wait = self.waiting.remove(&client)?;
        if let Some(due) = wait.deadline {
            self.deadlines.remove(&(due, client));
        }
        self.publish(stats);
        Some(wait)
    }

    fn publish(&self, stats: &WorkerStats) {
        stats.blocked.set(self.waiting.len() as u64);
        stats.blocked_with_timeout.set(self.deadlines.len() as u64);
    }
}
