//! What stands between a command that was found and its run: authentication, memory.
//!
//! The order is Redis's: unknown name and arity first (`table`), then authentication, then the limit.

use varve_protocol::Reply;

use crate::descriptor::{Descriptor, Flags};
use crate::session::Session;

/// Why a command that exists may not run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The connection has not authenticated.
    NoAuth,
    /// It is refused between MULTI and EXEC.
    InTransaction,
    /// The memory limit is reached and the command may need more.
    OutOfMemory,
}

/// Whether a session may run a command.
///
/// # Errors
/// The reason why not.
#[inline]
pub fn allowed(d: &Descriptor, session: &Session) -> Result<(), Refusal> {
    if !session.authenticated && !d.flags.has(Flags::NO_AUTH) {
        return Err(Refusal::NoAuth);
    }
    Ok(())
}

/// Replies why a command did not run.
#[cold]
pub fn refuse(refusal: Refusal, out: &mut Reply) {
    out.error(match refusal {
        Refusal::NoAuth => "NOAUTH Authentication required.",
        Refusal::InTransaction => "ERR Command not allowed inside a transaction",
        Refusal::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
    });
}
