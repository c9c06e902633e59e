//! Checks between finding a command and running it: authentication, what the server refuses at present, memory.
//!
//! The order is Redis's: unknown name and arity first (`table`), then authentication, then what is denied, then the limit.

use varve_catalog::{Behaviour, Flags, Row};

use crate::errors::{CmdResult, CommandError};
use crate::session::Session;

/// Why the server refuses commands that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritesDenied {
    /// The last save in the background has failed.
    Unsaved,
    /// The journal cannot be written: the number of the system's error.
    Unwritten(i32),
}

/// The commands that the server refuses to everybody at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Denied {
    /// Data is being loaded: all but those that do without.
    pub loading: bool,
    /// Those that change something.
    pub writes: Option<WritesDenied>,
    /// Those that change something wait: what a save still has to write of the old values is too much. They are not
    /// refused, but tried again.
    pub writes_wait: bool,
}

impl Denied {
    /// Nothing.
    pub const NONE: Denied = Denied { loading: false, writes: None, writes_wait: false };

    /// Whether a command is refused.
    #[cold]
    fn check(self, d: &Row) -> CmdResult {
        let asks = d.flags.has(Flags::WRITE) || d.behaviour.has(Behaviour::TELLS_HEALTH);
        match self.writes {
            Some(WritesDenied::Unsaved) if asks => return Err(CommandError::UNSAVED),
            Some(WritesDenied::Unwritten(errno)) if asks => return Err(CommandError::unwritten(errno)),
            _ => {}
        }
        if self.loading && !d.flags.has(Flags::LOADING) { Err(CommandError::LOADING) } else { Ok(()) }
    }
}

/// Whether the commands that a session has queued may run, while the server denies some.
///
/// # Errors
/// The reason why not.
pub fn queued_allowed(session: &Session, denied: Denied) -> CmdResult {
    let mut queued = session.multi().into_iter().flat_map(|multi| multi.commands());
    if denied == Denied::NONE { Ok(()) } else { queued.try_for_each(|d| denied.check(d)) }
}

/// Whether a session may run a command, while the server denies some.
///
/// # Errors
/// The reason why not.
#[inline]
pub fn allowed(d: &Row, session: &Session, denied: Denied) -> CmdResult {
    if !session.is_authenticated() && !d.flags.has(Flags::NO_AUTH) {
        return Err(CommandError::NO_AUTH);
    }
    if denied != Denied::NONE {
        denied.check(d)?;
    }
    if session.only_listens() && !d.runs_while_subscribed() {
        return Err(CommandError::subscribed(d.full_name));
    }
    if session.is_monitor() && d.interacts() {
        return Err(CommandError::MONITORS);
    }
    Ok(())
}
