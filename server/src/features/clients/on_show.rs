//! Which clients of a worker a page shows: a list of bounded length, filled as the worker's ticks pass its connections.

use super::line::weight;
use super::state::on_show::ShownClient;
use crate::net::conn::{Conn, WaitReasons};

/// Clients of a worker that are shown at most.
const SHOWN_MAX: usize = 32;

/// Reasons for which requests wait, in the order in which they are looked at, and their words on the page.
const WAITS: [(WaitReasons, &str); 11] = [
    (WaitReasons::CLOSING, "its end: output is unsent"),
    (WaitReasons::KEYS, "keys"),
    (WaitReasons::SCRIPT, "its script"),
    (WaitReasons::LINK, "another server"),
    (WaitReasons::WORK, "a save, a load, or the change to a primary"),
    (WaitReasons::PAUSE, "the end of CLIENT PAUSE"),
    (WaitReasons::OUTPUT, "itself: it does not read its replies"),
    (WaitReasons::INBOX, "receivers of its messages"),
    (WaitReasons::MESSAGES, "messages before its reply"),
    (WaitReasons::BARRIER, "invalidations on their way"),
    (WaitReasons::QUESTION, "all workers"),
];

/// The clients of one round.
#[derive(Debug, Default)]
pub(crate) struct ShownClients {
    /// Those that wait first, then by bytes.
    clients: Vec<ShownClient>,
}

impl ShownClients {
    /// Looks at a connection: it is shown if it is among those that count most.
    pub(crate) fn look(&mut self, conn: &Conn, now_ms: i64) {
        let (waits_for, bytes) = (waits_for(conn), weight(conn));
        let counts = |waits: bool, bytes: usize| (std::cmp::Reverse(waits), std::cmp::Reverse(bytes));
        let own = counts(waits_for.is_some(), bytes);
        let at = self.clients.partition_point(|known| counts(known.waits_for.is_some(), known.bytes) <= own);
        if at == SHOWN_MAX {
            return;
        }
        let session = conn.session();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seconds = |since_ms: i64| ((now_ms - since_ms).max(0) / 1000) as u64;
        self.clients.truncate(SHOWN_MAX - 1);
        self.clients.insert(
            at,
            ShownClient {
                id: session.id(),
                peer: conn.socket().ends().peer().to_string(),
                name: text(session.name()),
                user: text(session.user().name()),
                db: session.db(),
                command: session.last_command().map_or("", |row| row.full_name),
                waits_for,
                age_s: seconds(session.created_ms()),
                idle_s: seconds(session.active_ms()),
                bytes,
            },
        );
    }

    /// The clients of the round, which is over.
    pub(crate) fn take(&mut self) -> Vec<ShownClient> {
        std::mem::take(&mut self.clients)
    }
}

/// The words for the reason for which a connection's requests wait.
fn waits_for(conn: &Conn) -> Option<&'static str> {
    let reason = WAITS.iter().find(|(reason, _)| conn.waits(*reason)).map(|(_, words)| *words);
    reason.or(conn.waits_for_file().then_some("the append-only file"))
}
