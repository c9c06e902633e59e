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
    /// The connection is subscribed, in RESP2.
    Subscribed(&'static str),
    /// The connection monitors.
    Monitors,
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
    if session.only_listens() && !d.runs_while_subscribed() {
        return Err(Refusal::Subscribed(d.full_name));
    }
    if session.monitors && d.interacts() {
        return Err(Refusal::Monitors);
    }
    Ok(())
}

/// Replies why a command did not run.
#[cold]
pub fn refuse(refusal: Refusal, out: &mut Reply) {
    match refusal {
        Refusal::NoAuth => out.error("NOAUTH Authentication required."),
        Refusal::InTransaction => out.error("ERR Command not allowed inside a transaction"),
        Refusal::Subscribed(name) => out.error(&format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        )),
        Refusal::Monitors => out.error("ERR Replica can't interact with the keyspace"),
        Refusal::OutOfMemory => out.error("OOM command not allowed when used memory > 'maxmemory'."),
    }
}
