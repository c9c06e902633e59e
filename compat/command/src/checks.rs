//! What stands between a command that was found and its run: authentication, memory.
//!
//! The order is Redis's: unknown name and arity first (`table`), then authentication, then the limit.

use std::borrow::Cow;

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
    out.error(&text(refusal));
}

/// Replies why EXEC did not run, which is the end of its transaction.
#[cold]
pub fn refuse_exec(refusal: Refusal, out: &mut Reply) {
    let text = text(refusal);
    let reason = text.strip_prefix("ERR ").unwrap_or(&text);
    out.error(&format!("EXECABORT Transaction discarded because of: {reason}"));
}

fn text(refusal: Refusal) -> Cow<'static, str> {
    match refusal {
        Refusal::NoAuth => "NOAUTH Authentication required.".into(),
        Refusal::InTransaction => "ERR Command not allowed inside a transaction".into(),
        Refusal::Subscribed(name) => format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        )
        .into(),
        Refusal::Monitors => "ERR Replica can't interact with the keyspace".into(),
        Refusal::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.".into(),
    }
}
