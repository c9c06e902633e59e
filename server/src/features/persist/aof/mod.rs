//! The append-only file: `appendonly`, its start and its end.
//!
//! ```text
//!   start --load.rs--> keyspace      workers --journal--> thread.rs --> writer.rs --> files
//!   rewrite.rs: the base of an instant in the place of all files before it
//! ```
//! Not here: the bytes of effects (varve_exec's journal), manifests and framing (varve_aof).

mod commands_base;
mod load;
pub(super) mod place;
pub(crate) mod reload;
pub(super) mod rewrite;
pub(crate) mod stream;
mod thread;
pub(crate) mod waiting;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;

use varve_aof::{Entry, Form};
use varve_exec::journal::Journal;
use varve_rdb::{Writer as RdbWriter, format};
use varve_store::{EffectSink, StoreWorker};

use crate::config::{Config, Fsync};
use crate::state::ServerState;
use crate::state::command::ServerRows;
use crate::system::error_text;
use place::{Place, shown, write_all};
use thread::Begins;
use writer::{PastBounds, Writer};

/// The commands of this part.
pub(super) const ROWS: ServerRows = rewrite::ROWS;

/// Gives the store its journal, which keeps nothing yet.
pub(crate) fn set_journal(state: &ServerState) {
    let journal: Arc<Journal> = Arc::clone(state.persist().aof.journal());
    state.store().set_effect_sink(journal as Arc<dyn EffectSink>);
}

/// Loads the append-only file of the settings at the start, and keeps it from then on. Clients are refused until it returns;
/// `accept` lets them in, if there is something to load.
///
/// # Errors
/// It is not loaded, or cannot be kept: why.
pub(crate) fn at_start(state: &Arc<ServerState>, config: &Config, accept: &dyn Fn()) -> Result<(), String> {
    let place =
        Place::of(config).map_err(|error| format!("Can't find the working directory: {}", error_text(&error)))?;
    // Keys whose time is over stay while commands run for a second time: the file says when they went.
    let overdue_stay = &state.persist().loading.overdue_stay;
    overdue_stay.store(true, Relaxed);
    let loaded = load::load(state, config, &place, accept)?;
    overdue_stay.store(false, Relaxed);
    keep(state, config, place, loaded)
        .map_err(|error| format!("Can't keep the append-only file: {}", error_text(&error)))
}

/// Opens the file for appending, and starts its thread.
fn keep(state: &Arc<ServerState>, config: &Config, place: Place, loaded: load::Loaded) -> std::io::Result<()> {
    let load::Loaded { mut manifest, base_bytes, stream, marks } = loaded;
    place.make_folder()?;
    if manifest.is_empty() {
        let base = empty_base(&place, config, &manifest)?;
        tracing::info!("Creating AOF base file {} on server start", shown(&base.name));
        manifest.replace_base(base, 1);
    }
    if manifest.increments().is_empty() {
        let name = manifest.next_increment(place.names()).name;
        tracing::info!("Creating AOF incr file {} on server start", shown(&name));
    }
    let aof = &state.persist().aof;
    let folder = place.folder.clone();
    let mut writer = Writer::open(place, manifest, aof.journal().end())?;
    if stream.is_some() {
        writer.restore_past(marks);
    } else if !config.append.keeps_history {
        writer.remove_history(PastBounds::NONE)?;
    }
    state.replication().set_past(Arc::clone(writer.past()));
    aof.report(|facts| (facts.base_bytes, facts.current_bytes) = (base_bytes, writer.bytes()));
    let (begins, waits) = sync_channel(0);
    thread::spawn(state, folder, Begins::Loaded(Box::new(writer), waits))?;
    // CONFIG SET may have changed the settings while the file was loaded.
    follow_config(state, &state.config().snapshot());
    if let Some(place) = stream {
        stream::carry_on(state, &place)?;
    }
    stream::follow_keeping(state);
    drop(begins);
    Ok(())
}

/// The base of an empty store.
fn empty_base(place: &Place, config: &Config, manifest: &varve_aof::Manifest) -> std::io::Result<Entry> {
    let is_rdb = config.append.rdb_base;
    let form = if is_rdb { Form::Rdb } else { Form::Commands };
    let entry = manifest.next_base(place.names(), form);
    let mut bytes = Vec::new();
    if is_rdb {
        let mut rdb = RdbWriter::new(&mut bytes, true);
        rdb.header(config.save.version.unwrap_or(format::VERSION))?;
        rdb.end()?;
    }
    let mut file = place.disk.create(&place.path(&entry.name))?;
    write_all(&mut *file, &bytes)?;
    file.sync()?;
    Ok(entry)
}

/// Looks whether a file can begin to be kept where these settings have it: its folder is made, its manifest is read, and a
/// file is made and removed.
///
/// # Errors
/// It cannot: the log says why.
pub(crate) fn try_folder(config: &Config) -> Result<(), ()> {
    let tried = Place::of(config).and_then(|place| {
        place.make_folder()?;
        load::read_manifest(&place).map_err(std::io::Error::other)?;
        let probe = place.folder.join(format!("temp-probe-{}.aof", std::process::id()));
        place.disk.create(&probe)?;
        place.disk.remove(&probe)
    });
    tried.map_err(|error| tracing::warn!("Can't begin the append-only file: {}", error_text(&error)))
}

/// The data is thrown away for a primary's: the file stays as it is, and is not kept any more. The gate is held alone.
pub(super) fn leave(state: &ServerState) {
    let aof = &state.persist().aof;
    aof.stop();
    aof.rewrites.schedule(false);
}

/// Other data is there: the file begins anew behind it, if one is to be kept.
pub(super) fn begin_anew(state: &ServerState) {
    if state.config().snapshot().append.on && !state.persist().aof.is_on() {
        state.persist().aof.set_switching();
    }
}

/// The settings may have changed.
pub(crate) fn follow_config(state: &ServerState, config: &Config) {
    let aof = &state.persist().aof;
    aof.journal().set_timestamps(config.append.timestamps);
    aof.journal().poke();
    await_synced(state, config);
    aof.set_switching();
}

/// Replies, messages, events and invalidations wait for the file, or not, as the settings say.
fn await_synced(state: &ServerState, config: &Config) {
    let waits = config.append.on && config.append.fsync == Fsync::Always;
    state.store().await_journal(waits);
    state.pubsub().visits().await_file(waits);
}

/// Called behind each turn, outside the gate: follows CONFIG SET appendonly. While a file is loaded that waits.
#[inline]
pub(super) fn follow(state: &Arc<ServerState>, worker: &mut StoreWorker) {
    if state.persist().aof.is_switching() && !state.persist().loading.is_on() {
        rewrite::switch(state, worker);
    }
}

/// Called at each tick, outside the gate: begins a rewrite if one is due.
pub(super) fn tick(state: &Arc<ServerState>, worker: &mut StoreWorker, config: &Config) {
    follow(state, worker);
    rewrite::tick(state, worker, config);
}
