//! INFO in the report of a crash: a thread that waits for one (system/sys/crash.rs).

use std::io;
use std::sync::{Arc, Weak};

use super::{Costly, facts, render};
use crate::state::ServerState;
use crate::system::sys::crash;
use crate::system::threads;

/// Starts the thread. It keeps no server alive.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn inform_crashes(state: &Arc<ServerState>) -> io::Result<()> {
    let state = Arc::downgrade(state);
    threads::start("informer", move || wait(&state))?;
    Ok(())
}

fn wait(state: &Weak<ServerState>) {
    crash::await_crash();
    if let Some(state) = state.upgrade() {
        crash::inform(&render([&b"everything"[..]].into_iter(), &facts(&state, Costly::ALL)));
    }
}
