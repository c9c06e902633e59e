//! The watchdog: a worker that does not come back to its loop has its stack written to the log (`watchdog-period`).
//!
//! ```text
//!   each quarter of the period: a worker is awake since a time that is a period ago ──▶ SIGALRM to its thread
//!                               awake since the same time as when it was last alarmed ──▶ once is enough
//! ```
//! A thread of its own, while the period is not 0. Not here: the stack (system/sys/crash.rs).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use varve_base::shared::SharedBool;

use super::{Now, ServerState};
use crate::system::sys::crash;
use crate::system::{error_text, threads};

/// The thread is there.
static RUNS: SharedBool = SharedBool::new(false);

/// Starts the thread if the settings ask for it; it ends by itself when they no longer do.
pub(crate) fn follow_config(state: &Arc<ServerState>) {
    if state.config().snapshot().process.watchdog_ms == 0 || RUNS.swap(true, SeqCst) {
        return;
    }
    crash::watch_alarms(true);
    let watched = Arc::clone(state);
    if let Err(error) = threads::start("watchdog", move || watch(&watched)) {
        tracing::warn!("The watchdog has no thread: {}", error_text(&error));
        RUNS.store(false, SeqCst);
    }
}

fn watch(state: &ServerState) {
    let mut alarmed_ms = vec![0; state.workers().len()];
    loop {
        let period_ms = state.config().snapshot().process.watchdog_ms;
        if period_ms == 0 || state.is_stopping() {
            break;
        }
        std::thread::sleep(Duration::from_millis(u64::from(period_ms) / 4));
        let now_ms = Now::read().steady_ms;
        for (worker, alarmed_ms) in state.workers().iter().zip(&mut alarmed_ms) {
            let since_ms = worker.load().awake_since_ms();
            if since_ms != 0 && now_ms - since_ms >= i64::from(period_ms) && *alarmed_ms != since_ms {
                *alarmed_ms = since_ms;
                crash::alarm(worker.thread_id());
            }
        }
    }
    crash::watch_alarms(false);
    RUNS.store(false, SeqCst);
}
