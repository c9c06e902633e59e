//! Connections that stand still because a command of theirs waits for keys.
//!
//! ```text
//!   turn: Blocked --block--> Phase::Blocked        requests behind it stay in the connection's buffer
//!       served (own worker: at once, else by mail) --> its reply, Open
//!       time is up, CLIENT UNBLOCK: cancelled       --> null or an error, Open
//!       peer gone, killed: cancelled                --> closed
//! ```
//! Cancelling fails if somebody has claimed the client: then nothing else happens, because its reply is on its way. Not
//! here: who is served when (varve-exec's `blocking`).

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use varve_exec::{Blocked, Served};

use super::Worker;
use crate::net::conn::Phase;
use crate::state::mail::Message;

/// The blocked connections of a worker.
#[derive(Debug, Default)]
pub(super) struct BlockedClients {
    /// By number of the connection.
    waiting: HashMap<u64, Wait>,
    /// When waits end, with the connection's number: those with a timeout only.
    deadlines: BTreeSet<(Instant, u64)>,
}

#[derive(Debug)]
struct Wait {
    slot: usize,
    blocked: Blocked,
    deadline: Option<Instant>,
}

impl BlockedClients {
    /// Time until the first wait ends.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.deadlines.first().map(|(due, _)| due.saturating_duration_since(now))
    }

    fn add(&mut self, client: u64, wait: Wait) {
        if let Some(due) = wait.deadline {
            self.deadlines.insert((due, client));
        }
        let before = self.waiting.insert(client, wait);
        assert!(before.is_none(), "a connection runs one command at a time");
    }

    fn remove(&mut self, client: u64) -> Option<Wait> {
        let wait = self.waiting.remove(&client)?;
        if let Some(due) = wait.deadline {
            self.deadlines.remove(&(due, client));
        }
        Some(wait)
    }

    /// A client whose time is up, if nobody serves it. One that is being served waits for its reply without a deadline.
    fn pop_expired(&mut self, now: Instant) -> Option<u64> {
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
}

impl Worker {
    /// The connection's last command waits; nothing of it is executed until then.
    pub(super) fn block(&mut self, slot: usize, blocked: Blocked) {
        let conn = &mut self.conns[slot];
        assert_eq!(conn.phase, Phase::Open, "only what executes can block");
        conn.phase = Phase::Blocked;
        let deadline = blocked.timeout().and_then(|timeout| Instant::now().checked_add(timeout));
        self.blocked.add(conn.session.id, Wait { slot, blocked, deadline });
        self.note_blocked();
    }

    fn note_blocked(&self) {
        let stats = &self.state.workers[self.index].stats;
        stats.blocked.set(self.blocked.waiting.len() as u64);
        stats.blocked_with_timeout.set(self.blocked.deadlines.len() as u64);
    }

    /// Gives the replies to clients that waited, and were served by this worker's commands, to their workers.
    #[inline]
    pub(super) fn deliver(&mut self) {
        let Some(all) = self.batch.take_served() else { return };
        for served in all {
            if served.worker == self.index {
                self.served(&served);
            } else {
                self.state.workers[served.worker].mailbox.send(Message::Served(served));
            }
        }
    }

    /// A client of this worker was served: its reply, and on with what it sent behind. If it is gone, nobody hears it.
    pub(super) fn served(&mut self, served: &Served) {
        self.unblock(served.client, |_, out| out.raw(&served.reply));
    }

    /// Ends a wait that nobody serves any more, with this reply.
    fn unblock(&mut self, client: u64, reply: impl FnOnce(&Blocked, &mut varve_protocol::Reply)) {
        let Some(wait) = self.blocked.remove(client) else { return };
        self.note_blocked();
        wait.blocked.forget(&self.store);
        let conn = &mut self.conns[wait.slot];
        assert_eq!((conn.session.id, conn.phase), (client, Phase::Blocked), "who closes a connection ends its wait");
        conn.phase = Phase::Open;
        conn.output.set_resp(conn.session.resp);
        let mark = conn.output.mark();
        reply(&wait.blocked, &mut conn.output);
        if conn.session.drop_reply() {
            conn.output.truncate(mark);
        }
        self.queue(wait.slot);
    }

    /// Ends the waits whose time is up.
    pub(super) fn end_waits(&mut self) {
        if self.blocked.due_in(self.now.instant) != Some(Duration::ZERO) {
            return;
        }
        while let Some(client) = self.blocked.pop_expired(self.now.instant) {
            self.unblock(client, |blocked, out| blocked.reply_timeout(out));
        }
    }

    /// CLIENT UNBLOCK; false if no such client of this worker waits.
    pub(super) fn unblock_client(&mut self, client: u64, error: bool) -> bool {
        let waits = self.blocked.waiting.get(&client).is_some_and(|wait| wait.blocked.cancel());
        if waits {
            let stats = std::sync::Arc::clone(self.batch.stats());
            self.unblock(client, |blocked, out| blocked.reply_unblocked(error, &stats, out));
        }
        waits
    }

    /// A connection is about to close: nobody is to serve it any more. What was taken for it already is lost with it.
    pub(super) fn abandon_wait(&mut self, client: u64) {
        let Some(wait) = self.blocked.remove(client) else { return };
        self.note_blocked();
        let _ = wait.blocked.cancel();
        wait.blocked.forget(&self.store);
    }
}
