//! `DEBUG LOADAOF`: everything is thrown away and loaded from the append-only file again, as at a start.
//!
//! ```text
//!   the gate alone: nothing is kept, clients: LOADING, all keys go --> thread "loader": a save that was under way has
//!   ended, the file's thread has written all, load.rs --> effects are kept again, the client that asked gets its reply
//! ```
//! Not here: what loading is (`load.rs`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use varve_store::StoreWorker;

use super::super::state::aof::Order;
use super::load;
use super::place::Place;
use crate::features::pubsub::state::WorkWaiter;
use crate::state::mail::Message;
use crate::state::{ServerState, work};

/// How often the loader looks whether a save that was given up has ended.
const STEP: Duration = Duration::from_millis(1);

/// Begins; the waiter gets its reply when everything is loaded. If it cannot be, the server ends, as redis-server does. The
/// worker is outside the gate, and has tried for it `tries` times before; false, and nothing is done, if it is not to be had.
///
/// # Errors
/// There is no thread to be had, or no working directory.
pub(crate) fn begin(
    state: &Arc<ServerState>,
    worker: &mut StoreWorker,
    waiter: WorkWaiter,
    tries: u32,
) -> io::Result<bool> {
    let mut place = Place::of(&state.config().snapshot())?;
    if let Some(folder) = state.persist().aof.folder() {
        place.folder = folder;
    }
    let store = Arc::clone(state.store());
    let Some(alone) = store.gate().try_exclusive(worker.id(), tries) else { return Ok(false) };
    // A primary's commands that are half done, or that one worker has done ahead of another, would be lost, and the rest of them done.
    if !state.replication().replica().hold_instant(state.persist().aof.journal()) {
        return Ok(false);
    }
    let loader = Arc::clone(state);
    let (emptied, begins) = sync_channel(1);
    let run = move || {
        if begins.recv().is_ok() {
            run(&loader, &place, waiter);
        }
    };
    std::thread::Builder::new().name("loader".to_owned()).spawn(run).inspect_err(|_| state.release_instant())?;
    super::super::load::empty(state, worker);
    let _ = emptied.send(());
    state.release_instant();
    drop(alone);
    Ok(true)
}

fn run(state: &Arc<ServerState>, place: &Place, waiter: WorkWaiter) {
    let (persist, aof) = (state.persist(), &state.persist().aof);
    while persist.under_way().is_some() {
        if state.is_stopping() {
            return;
        }
        std::thread::sleep(STEP);
    }
    if aof.is_on() {
        let (done, written) = sync_channel(1);
        aof.send(Order::Write(done));
        // A file that is no longer kept is whole.
        let _ = written.recv();
    }
    persist.loading.overdue_stay.store(true, Relaxed);
    let loaded = load::load(state, &state.config().snapshot(), place, &|| {});
    persist.loading.overdue_stay.store(false, Relaxed);
    match loaded {
        Ok(_) => {}
        Err(_) if state.is_stopping() => return,
        Err(reason) => {
            tracing::warn!("{reason}");
            tracing::warn!("Fatal error loading the DB, check server logs. Exiting.");
            std::process::exit(1);
        }
    }
    let store = state.store();
    persist.set_saved(store.totals().changes);
    store.set_loading(false);
    super::stream::follow_keeping(state);
    persist.loading.set(false);
    // A primary's stream goes on.
    state.workers().iter().for_each(|worker| worker.send(Message::Load));
    work::done(state, waiter, true);
}
