//! The append-only file: `appendonly`, its start and its end.
//!
//! ```text
//!   start --load.rs, replay.rs--> keyspace      workers --journal--> thread.rs --> writer.rs --> files
//! ```
//! Not here: the bytes of effects (varve_exec's journal), manifests and framing (varve_aof).

mod load;
pub(crate) mod replay;
mod thread;
pub(crate) mod waiting;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_aof::{Entry, Form};
use varve_exec::journal::Journal;
use varve_rdb::{Writer as RdbWriter, format};
use varve_store::EffectSink;

use crate::config::{Config, Fsync};
use crate::state::ServerState;
use crate::system::error_text;
use writer::{Place, Writer, shown, write_all};

/// Gives the store its journal, which keeps nothing yet.
pub(crate) fn set_journal(state: &ServerState) {
    let journal: Arc<Journal> = Arc::clone(state.persist().aof.journal());
    state.store().set_effect_sink(journal as Arc<dyn EffectSink>);
}

/// Loads the append-only file at the start, and keeps it from then on. Clients are refused until it returns.
///
/// # Errors
/// It is not loaded, or cannot be kept: why.
pub(crate) fn at_start(state: &Arc<ServerState>) -> Result<(), String> {
    let config = state.config().snapshot();
    let place =
        Place::of(&config).map_err(|error| format!("Can't find the working directory: {}", error_text(&error)))?;
    // Keys whose time is over stay while commands run for a second time: the file says when they went.
    let overdue_stay = &state.persist().loading.overdue_stay;
    overdue_stay.store(true, Relaxed);
    let loaded = load::load(state, &config, &place)?;
    overdue_stay.store(false, Relaxed);
    keep(state, &config, place, loaded)
        .map_err(|error| format!("Can't keep the append-only file: {}", error_text(&error)))
}

/// Opens the file for appending, and starts its thread.
fn keep(state: &Arc<ServerState>, config: &Config, place: Place, loaded: load::Loaded) -> std::io::Result<()> {
    let load::Loaded { mut manifest, older_bytes, base_bytes } = loaded;
    place.disk.make_dir(&place.folder)?;
    place.disk.sync_dir(place.parent())?;
    if manifest.is_empty() {
        let base = empty_base(&place, config.append.rdb_base, &manifest)?;
        tracing::info!("Creating AOF base file {} on server start", shown(&base.name));
        manifest.replace_base(base, 1);
    }
    if manifest.increments().is_empty() {
        let name = manifest.next_increment(place.names()).name;
        tracing::info!("Creating AOF incr file {} on server start", shown(&name));
    }
    let aof = &state.persist().aof;
    let mut writer = Writer::open(place, manifest, aof.journal().end())?;
    if !config.append.keeps_history {
        writer.remove_history()?;
    }
    aof.report(|facts| (facts.base_bytes, facts.current_bytes) = (base_bytes, older_bytes + writer.file_bytes()));
    follow_config(state, config);
    state.store().keep_effects(true);
    let keeper = Arc::clone(state);
    let thread =
        std::thread::Builder::new().name("aof".to_owned()).spawn(move || thread::run(&keeper, writer, older_bytes))?;
    aof.begin(thread);
    Ok(())
}

/// The base of an empty store.
fn empty_base(place: &Place, is_rdb: bool, manifest: &varve_aof::Manifest) -> std::io::Result<Entry> {
    let form = if is_rdb { Form::Rdb } else { Form::Commands };
    let entry = manifest.next_base(place.names(), form);
    let mut bytes = Vec::new();
    if is_rdb {
        let mut rdb = RdbWriter::new(&mut bytes, true);
        rdb.header(format::VERSION)?;
        rdb.end()?;
    }
    let mut file = place.disk.create(&place.path(&entry.name))?;
    write_all(&mut *file, &bytes)?;
    file.sync()?;
    Ok(entry)
}

/// The settings may have changed.
pub(crate) fn follow_config(state: &ServerState, config: &Config) {
    let aof = &state.persist().aof;
    aof.set_fsync(config.append.fsync);
    aof.journal().set_timestamps(config.append.timestamps);
    state.store().await_journal(config.append.on && config.append.fsync == Fsync::Always);
}
