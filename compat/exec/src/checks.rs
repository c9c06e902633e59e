//! Checks between finding a command and running it: authentication, memory.
//!
//! The order is Redis's: unknown name and arity first (`table`), then authentication, then the limit.

use varve_catalog::{Flags, Row};

use crate::errors::{CmdResult, CommandError};
use crate::session::Session;

/// Whether a session may run a command.
///
/// # Errors
/// The reason why not.
#[inline]
pub fn allowed(d: &Row, session: &Session) -> CmdResult {
    if !session.is_authenticated() && !d.flags.has(Flags::NO_AUTH) {
        return Err(CommandError::NO_AUTH);
    }
    if session.only_listens() && !d.runs_while_subscribed() {
        return Err(CommandError::subscribed(d.full_name));
    }
    if session.is_monitor() && d.interacts() {
        return Err(CommandError::MONITORS);
    }
    Ok(())
}
