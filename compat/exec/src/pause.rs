//! CLIENT PAUSE in the executor: which commands are held back.
//!
//! ```text
//!   ALL    every command that would run
//!   WRITE  commands that change keys or publish, scripts but for those that declare `no-writes`, and EXEC of a transaction
//!          with one of those
//! ```
//!
//! A request that is held back has not begun: it stays in the connection's input, and those behind it with it. What is
//! refused without running (unknown names, wrong arity, no authentication) is refused at once, as in Redis. Not here: how
//! long, and who is let go when it ends (the server).

use crate::checks::{self, Denied};
use crate::command::Command;
use crate::session::Session;

/// The commands that are held back at present. A greater one holds back more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pause {
    /// Nothing.
    #[default]
    None,
    /// Commands that change something.
    Writes,
    /// Everything.
    All,
}

impl Pause {
    /// True if the command is to be held back. Without a pause this costs one comparison.
    #[inline]
    pub(crate) fn holds(self, d: &Command, session: &Session) -> bool {
        self != Pause::None && self.holds_now(d, session)
    }

    #[cold]
    fn holds_now(self, d: &Command, session: &Session) -> bool {
        let exempt = session.is_monitor() || checks::allowed(d, session, Denied::NONE).is_err();
        let queued_changes = || session.multi().is_some_and(|multi| multi.changes);
        !exempt && (self == Pause::All || d.changes() || d.is_exec() && queued_changes())
    }
}
