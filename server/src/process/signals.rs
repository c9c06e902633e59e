//! Signals of the operator: a thread of their own turns them into calls.
//!
//! SIGTERM and SIGINT ask for a shutdown; a second SIGINT ends the process at once. SIGHUP is ignored. SIGPIPE is
//! ignored by Rust's runtime: a write to a closed socket is an error and no more. Not here: what a shutdown does.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::system::threads;

/// Which signal asked for a shutdown: each has its own `shutdown-on-…` directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Term,
    Interrupt,
}

/// Starts the thread. `shutdown` is called for each request to end; `leave` just before a second SIGINT ends the process.
pub(crate) fn watch(
    mut shutdown: impl FnMut(Asked) + Send + 'static,
    mut leave: impl FnMut() + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let work = move || {
        let mut asked = false;
        for signal in signals.forever() {
            match signal {
                SIGHUP => {}
                SIGINT if asked => {
                    tracing::warn!("You insist... exiting now.");
                    leave();
                    std::process::exit(1);
                }
                SIGINT => shutdown(Asked::Interrupt),
                _ => shutdown(Asked::Term),
            }
            asked |= signal != SIGHUP;
        }
    };
    threads::start("signals", work)?;
    Ok(())
}
