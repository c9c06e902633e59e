//! The thread that puts memory in place for what is written next, so that no worker waits for the system while it holds a
//! shard. It sleeps until a worker has come to the last two megabytes that have memory, and ends with the process.

use std::sync::Arc;

use crate::state::ServerState;
use crate::system::{cpus, error_text, threads};

/// Starts the thread. Without one the workers do its work themselves, and wait for the system meanwhile.
pub(super) fn start(state: &Arc<ServerState>) {
    let served = Arc::clone(state);
    let work = move || {
        cpus::keep_thread_on(&served.config().snapshot().process.cpus.helpers);
        let log = served.store().log();
        log.set_helper(std::thread::current());
        loop {
            while log.populate_ahead() {}
            std::thread::park();
        }
    };
    if let Err(error) = threads::start("memory-ahead", work) {
        tracing::warn!("No thread puts memory in place ahead of writes: {}", error_text(&error));
    }
}
