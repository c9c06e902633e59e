//! Loading: a thread reads the file and cuts it into entries, the workers decode and insert them.
//!
//! ```text
//!  start      main thread: read, cut --> batches (state/batch.rs) --> workers: a batch a turn of their loops
//!             clients: LOADING, but for commands that do without data
//!  replica    the link's thread does the main thread's part, for a primary's data; beside data that stays: `load_beside.rs`
//!  RELOAD     one worker, alone behind the gate, does both
//! ```
//! A damaged file is refused: the log says at which offset and why, and nothing of it is served. At the start the process ends.
//!
//! Not here: what an entry becomes (`insert.rs`).

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use varve_rdb::format::MESSAGE_NAMES;
use varve_rdb::{Event, Kind, ReadFault, Reader};
use varve_scripts::Functions;
use varve_store::{FilledExtent, Store, StoreWorker, VALUE_BYTES_MAX};

use super::aof::{self, stream};
use super::insert::{Duplicates, Entering, insert};
use super::insert_in_parts::{self, Went};
use super::progress::Progress;
use super::state::Loading;
use super::state::batch::{BATCH_BYTES, Batch, Entry, SERVER_ENDS, Value};
use super::{leftovers, rdb_file, save};
use crate::config::Config;
use crate::state::ServerState;
use crate::state::mail::Message;
use crate::system::error_text;

/// Bytes of a file that a key with a value takes at least: a number of keys that lies costs no more than the file.
const KEY_BYTES_MIN: u64 = 4;
/// How often it is looked whether a save that was given up has ended.
const STEP: Duration = Duration::from_millis(1);
/// Moments that a worker inserts at a time while no client is served.
const MOMENTS: usize = 16;
/// Entries of a batch while loading is slowed down.
const SLOW_ENTRIES: usize = 16;

/// Loads the file, if there is one, at the start of the server, whose workers run; clients are refused until it returns.
/// The file is the one of the settings that the server started with: a CONFIG SET may come before the loading begins, and
/// would otherwise have it start without its data.
///
/// `accept` lets clients in, and is called before something is loaded. Where there is nothing to load they come in behind
/// this: redis-server refuses none then.
///
/// # Errors
/// Why the file is not loaded; the log says it too.
pub(crate) fn at_start(state: &Arc<ServerState>, config: &Config, accept: &dyn Fn()) -> Result<(), String> {
    state.store().set_loading(true);
    leftovers::remove(config);
    let loaded =
        if config.append.on { aof::at_start(state, config, accept) } else { file_at_start(state, config, accept) };
    match loaded {
        Ok(()) => {
            state.store().set_loading(false);
            state.persist().set_saved(state.store().totals().changes);
            state.persist().loading.set(false);
            Ok(())
        }
        Err(_) if state.is_stopping() => Ok(()),
        Err(reason) => {
            tracing::warn!("{reason}");
            // The reason is the last line where an append-only file is not loaded, which is what redis-server logs.
            if !config.append.on {
                tracing::warn!("Fatal error loading the DB, check server logs. Exiting.");
            }
            Err(reason)
        }
    }
}

fn file_at_start(state: &Arc<ServerState>, config: &Config, accept: &dyn Fn()) -> Result<(), String> {
    let start = Instant::now();
    let refused = |reason: String| format!("Loading {}: {reason}", rdb_file::file_name(config).display());
    let Some(file) = open(config).map_err(|error| refused(error_text(&error)))? else { return Ok(()) };
    begin(state, &file);
    accept();
    if let Some(place) = rdb_file::stream_of(&rdb_file::file_name(config)) {
        // Keys that are due are left out of what is loaded: the stream says that they go.
        stream::carry_on(state, &place).map_err(|error| refused(error_text(&error)))?;
    }
    // A replica keeps what is due until its primary says that it goes.
    let overdue_stay = &state.persist().loading.overdue_stay;
    overdue_stay.store(state.store().is_following(), Relaxed);
    insert_all(state, Box::new(file)).map_err(refused)?;
    overdue_stay.store(false, Relaxed);
    tracing::info!("DB loaded from disk: {:.3} seconds", start.elapsed().as_secs_f64());
    Ok(())
}

/// A file of its length is being loaded from now on.
fn begin(state: &ServerState, file: &File) {
    let bytes = file.metadata().map_or(0, |about| about.len());
    state.persist().loading.begin(save::now_s(), bytes);
}

/// The end of an RDB file that was loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Its offset.
    pub(super) offset: u64,
    /// The database that the stream behind it has selected, if the file says it.
    pub(crate) stream_db: Option<u32>,
}

/// Throws all data away, to load other data: clients are refused from now on, and no effects are kept. A save that is under
/// way is given up. The gate is held alone.
pub(super) fn empty(state: &ServerState, worker: &mut StoreWorker) {
    let store = state.store();
    store.keep_effects(false);
    store.set_loading(true);
    state.persist().loading.set(true);
    store.flush_all(worker);
    state.scripts().functions().flush();
    // This is no FLUSHALL: the files are to stay as they are.
    let _ = state.persist().follow_flushes(store.flushes());
    // A rewrite would give its base its place, and remove files, while others are read.
    save::cancel(state, u64::MAX);
    worker.park();
}

/// Throws all data away, since a primary's is about to be loaded. The append-only file is left as it is, and begins anew behind
/// that. The gate is held alone.
pub(crate) fn empty_for_primary(state: &ServerState, worker: &mut StoreWorker) {
    empty(state, worker);
    aof::leave(state);
}

/// Loads a primary's data of this number of bytes, 0 if that is not known, behind [`empty_for_primary`]. [`serve_again`]
/// follows.
///
/// # Errors
/// It cannot be loaded: why. Some of it is.
pub(crate) fn of_primary(state: &ServerState, source: Box<dyn Read>, bytes: u64) -> Result<Ended, String> {
    let loading = &state.persist().loading;
    while state.persist().under_way().is_some() {
        if state.is_stopping() {
            return Err(SERVER_ENDS.to_owned());
        }
        std::thread::sleep(STEP);
    }
    loading.begin(save::now_s(), bytes);
    // The primary says when a key goes.
    loading.overdue_stay.store(true, Relaxed);
    let ended = insert_all(state, source);
    // Entries that still wait after a failure would be inserted behind the emptying that follows.
    loading.batches.clear();
    loading.overdue_stay.store(false, Relaxed);
    ended
}

/// The data is whole: clients are served, and files kept as the settings say.
pub(crate) fn serve_again(state: &ServerState) {
    state.persist().set_saved(state.store().totals().changes);
    state.store().set_loading(false);
    state.persist().loading.set(false);
    aof::begin_anew(state);
}

/// Has the workers insert all entries of an RDB file.
///
/// # Errors
/// The file cannot be loaded: why.
pub(super) fn insert_all(state: &ServerState, source: Box<dyn Read>) -> Result<Ended, String> {
    insert_all_with(state, source, None)
}

/// Has the workers insert all entries of an RDB file, like [`insert_all`]; its libraries go to these functions, or to those that
/// are served.
pub(super) fn insert_all_with(
    state: &ServerState,
    source: Box<dyn Read + '_>,
    functions: Option<&Functions>,
) -> Result<Ended, String> {
    let batches = &state.persist().loading.batches;
    let mut reading = Reading { functions, ..Reading::new(state, source, false) };
    reading.read(|batch| {
        batches.push(batch)?;
        state.send_all(|| Message::Load);
        Ok(())
    })?;
    batches.finish()?;
    state.persist().loading.log_counts();
    Ok(Ended { offset: reading.reader.offset(), stream_db: reading.stream_db })
}

/// Inserts a batch of the file that is being loaded; false if none waits. The worker is outside the gate.
pub(crate) fn step(state: &ServerState, worker: &mut StoreWorker, now_ms: i64) -> bool {
    let (loading, is_beside) = (&state.persist().loading, state.store().has_fresh());
    let Some(batch) = loading.batches.take() else { return false };
    let overdue_stay = !is_beside && loading.overdue_stay.load(Relaxed);
    worker.set_now(if overdue_stay { 0 } else { now_ms });
    if is_beside || batch.is_long() {
        step_in_parts(loading, batch, worker);
        return true;
    }
    let result = insert(&batch, worker, Entering::Inside, Duplicates::Refused);
    let result = result.map(|inserted| loading.count(inserted.keys, inserted.expired, inserted.empty));
    loading.batches.done(result);
    true
}

/// Inserts some of a batch: for a moment only where clients are served meanwhile, and for some milliseconds where they are refused.
fn step_in_parts(loading: &Loading, mut batch: Batch, worker: &mut StoreWorker) {
    for _ in 0..if loading.serves() { 1 } else { MOMENTS } {
        match insert_in_parts::some(&mut batch, worker) {
            Ok((inserted, went)) => {
                loading.count(inserted.keys, inserted.expired, inserted.empty);
                if went == Went::Whole {
                    return loading.batches.done(Ok(()));
                }
            }
            Err(reason) => return loading.batches.done(Err(reason)),
        }
    }
    loading.batches.put_back(batch);
}

/// Loads the file, if there is one, with this worker, which is alone behind the gate. With `merge`, what a key holds
/// gives way to what the file has.
///
/// # Errors
/// Why the file is not loaded; some of it is.
pub(crate) fn alone(state: &ServerState, worker: &mut StoreWorker, merge: bool) -> Result<(), String> {
    let Some(file) = open(&state.config().snapshot()).map_err(|error| error_text(&error))? else {
        return Err("there is no file".to_owned());
    };
    // The emptying before this load is no FLUSHALL.
    let _ = state.persist().follow_flushes(state.store().flushes());
    let duplicates = if merge { Duplicates::Replaced } else { Duplicates::Refused };
    begin(state, &file);
    let result = Reading::new(state, Box::new(file), merge).read(|batch| {
        let inserted = insert(&batch, worker, Entering::Alone, duplicates)?;
        state.persist().loading.count(inserted.keys, inserted.expired, inserted.empty);
        Ok(())
    });
    state.store().expect_keys(0);
    state.persist().set_saved(state.store().totals().changes);
    match &result {
        Ok(()) => state.persist().loading.log_counts(),
        Err(reason) => tracing::warn!("Error trying to load the RDB dump: {reason}"),
    }
    result
}

/// The file, and its length; None if there is none.
fn open(config: &Config) -> io::Result<Option<File>> {
    let name = rdb_file::file_name(config);
    if name.as_os_str().is_empty() {
        return Ok(None);
    }
    match File::open(name) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a string of `length` bytes to where it stays.
///
/// # Errors
/// It is damaged or longer than any string, or there is no room for it.
fn large_string<R: Read>(store: &Store, reader: &mut Reader<R>, length: u64) -> Result<FilledExtent, String> {
    let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX);
    let bytes = bytes.ok_or_else(|| ReadFault::TooLong(length).to_string())?;
    let mut extent =
        store.log().begin_extent(bytes).ok_or_else(|| format!("no room for a string of {length} bytes"))?;
    while let Some(piece) = reader.next_piece().map_err(|error| error.to_string())? {
        extent.push(piece);
    }
    Ok(extent.finish())
}

/// A file that is being cut into batches.
struct Reading<'s> {
    state: &'s ServerState,
    reader: Reader<Box<dyn Read + 's>>,
    /// A library of functions that is there gives way to the one of the file.
    merge: bool,
    /// Where libraries go; None: to those that are served.
    functions: Option<&'s Functions>,
    batch: Option<Batch>,
    db: u64,
    /// The database that the stream behind the file has selected.
    stream_db: Option<u32>,
    /// The names of the messages of the stream that comes next.
    message_names: Vec<Vec<u8>>,
    /// Keys of all databases, as far as the file has said their number.
    expected: u64,
    progress: Progress,
}

impl<'s> Reading<'s> {
    fn new(state: &'s ServerState, source: Box<dyn Read + 's>, merge: bool) -> Reading<'s> {
        let reader = Reader::new(source);
        let compares = state.config().snapshot().save.sums;
        Reading {
            state,
            reader: if compares { reader } else { reader.without_checksum() },
            merge,
            functions: None,
            batch: None,
            db: 0,
            stream_db: None,
            message_names: Vec::new(),
            expected: 0,
            progress: Progress::new(&state.persist().loading),
        }
    }

    /// Reads the file to its end and gives each batch to `push`.
    fn read(&mut self, mut push: impl FnMut(Batch) -> Result<(), String>) -> Result<(), String> {
        let mut delay_us = self.state.config().snapshot().save.key_load_delay_us;
        while let Some(entries) = self.entry()? {
            let slow = delay_us > 0;
            if slow {
                delay_us = self.state.config().snapshot().save.key_load_delay_us;
                std::thread::sleep(Duration::from_micros(delay_us));
            }
            if self.batch.as_ref().is_some_and(|batch| batch.bytes.len() >= BATCH_BYTES)
                || slow && entries >= SLOW_ENTRIES
            {
                self.flush(&mut push)?;
            }
            if self.state.is_stopping() {
                return Err(SERVER_ENDS.to_owned());
            }
        }
        self.flush(&mut push)
    }

    fn flush(&mut self, push: &mut impl FnMut(Batch) -> Result<(), String>) -> Result<(), String> {
        self.progress.come_to(&self.state.persist().loading, self.reader.offset());
        self.batch.take().map_or(Ok(()), push)
    }

    /// Reads up to the end of the next entry, and gives the number of entries in the batch; None at the end of the file.
    fn entry(&mut self) -> Result<Option<usize>, String> {
        let Reading { state, reader, merge, functions, batch, db, stream_db, message_names, expected, .. } = self;
        loop {
            let dialect = reader.dialect();
            match reader.next_event().map_err(|error| error.to_string())? {
                Event::SelectDb(number) => *db = number,
                Event::ResizeDb { keys, .. } => {
                    *expected = expected.saturating_add(keys);
                    let bytes = state.persist().loading.total_bytes.load(Relaxed);
                    // Beside other data the indexes grow as the keys come.
                    if !state.store().has_fresh() {
                        state.store().expect_keys((*expected).min(bytes / KEY_BYTES_MIN));
                    }
                }
                Event::Aux { name: rdb_file::STREAM_DB, value } => *stream_db = rdb_file::stream_db(value),
                Event::Aux { name: b"used-mem", value } => {
                    let bytes = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    state.persist().loading.used_bytes.store(bytes.unwrap_or(0), Relaxed);
                }
                Event::Aux { name: MESSAGE_NAMES, value } => message_names.push(value.to_vec()),
                Event::Aux { .. } | Event::Slot => {}
                Event::Function(text) => {
                    let scripts = state.scripts();
                    let to = functions.unwrap_or(scripts.functions());
                    let loaded = to.load_of_file(text, *merge, scripts.running());
                    let offset = reader.offset();
                    loaded.map_err(|reason| format!("the library that ends at byte {offset}: {reason}"))?;
                }
                Event::ModuleAux(_) => return Err("the file has data of a module".to_owned()),
                Event::Key(head) => {
                    if head.kind == Kind::Module {
                        let (key, kind) = (head.key.escape_ascii().to_string(), head.kind.name());
                        let offset = reader.offset();
                        return Err(format!("at byte {offset}, at key \"{key}\": a {kind}, which there is not yet"));
                    }
                    let batch = batch.get_or_insert_with(|| Batch::new(dialect));
                    let (start, middle) = (batch.bytes.len(), batch.bytes.len() + head.key.len());
                    batch.bytes.extend_from_slice(head.key);
                    let (type_number, expiry_ms, last_use) = (head.type_number, head.expiry_ms, head.access);
                    // A string of this size has an extent.
                    let large = state.store().log().extent_min_bytes() as u64 + 1;
                    let length = reader.raw_unless_large(&mut batch.bytes, large).map_err(|error| error.to_string())?;
                    let value = match length {
                        None => Value::Raw(middle..batch.bytes.len()),
                        Some(length) => Value::Large(large_string(state.store(), reader, length)?),
                    };
                    let (key, offset) = (start..middle, reader.offset());
                    let (db, message_names) = (*db, std::mem::take(message_names));
                    let entry = Entry { db, key, value, message_names, type_number, expiry_ms, last_use, offset };
                    batch.entries.push(entry);
                    return Ok(Some(batch.entries.len()));
                }
                Event::End => return Ok(None),
                Event::Part(_) | Event::ValueEnd => unreachable!("the value was taken whole"),
            }
        }
    }
}
