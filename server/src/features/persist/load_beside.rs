//! Loading a primary's data beside the data that is there: into fresh databases, whose instant is that of the swap.
//!
//! ```text
//!   load      begin_fresh --> link's thread reads, workers insert (`insert_in_parts.rs`) --> whole: `Beside`
//!                                                                                    --> not: what was loaded goes
//!   swap_in   the gate alone: databases, functions; the journal and its file are left, since they lead to the old data
//! ```
//! Until the swap nothing of the data that there is has changed, nor the place in a history at which it stands.

use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use varve_scripts::Functions;
use varve_store::StoreWorker;

use super::load::{Ended, insert_all_with};
use super::state::batch::SERVER_ENDS;
use super::{aof, save};
use crate::state::{Now, ServerState};

/// How often it is looked whether sweeps, or a save that was given up, have ended.
const STEP: Duration = Duration::from_millis(1);

/// A data set that is whole, and not served yet.
#[derive(Debug)]
pub(crate) struct Beside {
    functions: Functions,
    /// The database that the stream behind it has selected, if it says so.
    pub(crate) stream_db: Option<u32>,
}

/// Loads a primary's data of this number of bytes, 0 if that is not known, into fresh databases. Clients are served what there is
/// meanwhile, or refused. [`swap_in`] or [`drop_loaded`] follows.
///
/// # Errors
/// It cannot be loaded: why. Nothing is left of it.
pub(crate) fn load(
    state: &ServerState,
    source: Box<dyn Read + '_>,
    bytes: u64,
    serves: bool,
) -> Result<Beside, String> {
    let (store, loading) = (state.store(), &state.persist().loading);
    // The sweep of the last one may still go on.
    while !store.begin_fresh() {
        if state.is_stopping() {
            return Err(SERVER_ENDS.to_owned());
        }
        std::thread::sleep(STEP);
    }
    loading.begin(save::now_s(), bytes);
    // The primary says when a key goes.
    loading.overdue_stay.store(true, Relaxed);
    if serves {
        loading.begin_serving();
    } else {
        loading.set(true);
    }
    let functions = state.scripts().functions().beside();
    let loaded = insert_all_with(state, source, Some(&functions));
    loading.batches.clear();
    loading.overdue_stay.store(false, Relaxed);
    match loaded {
        Ok(Ended { stream_db, .. }) => Ok(Beside { functions, stream_db }),
        Err(reason) => {
            drop_loaded(state);
            Err(reason)
        }
    }
}

/// The loaded data goes, and the data that there was is served.
pub(crate) fn drop_loaded(state: &ServerState) {
    state.store().drop_fresh();
    state.persist().loading.set(false);
}

/// Gives a save or a rewrite of the old data up, if one is under way, and waits for its end: a rewrite would give its base a place
/// among files that do not belong to it. One behind which the server ends goes on. None begins while data is loaded.
/// False if the server ends meanwhile.
pub(crate) fn end_saves(state: &ServerState) -> bool {
    save::cancel_but_last(state);
    while state.persist().under_way().is_some() {
        if state.is_stopping() {
            return false;
        }
        std::thread::sleep(STEP);
    }
    true
}

/// The loaded data takes the place of what there is, with its functions. The append-only file is left as it is, and begins anew
/// behind [`super::load::serve_again`]. The gate is held alone.
pub(crate) fn swap_in(state: &ServerState, worker: &mut StoreWorker, beside: &Beside) {
    state.store().swap_in_fresh(worker, Now::read().unix_ms);
    state.scripts().functions().swap_in(&beside.functions);
    aof::leave(state);
    worker.park();
}
