//! Loading an append-only file at the start: its base, then its increments, command by command.
//!
//! ```text
//!   main thread: manifest, files --whole commands--> router --> workers: each runs those of its shards (varve_exec::apply)
//!                base of an RDB file: load.rs of the matter         clients: LOADING
//! ```
//! A torn end of the last file is cut off where `aof-load-truncated` allows it; all else that is damaged ends the start, and
//! nothing of it is served. The texts of the log are redis-server's.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use varve_aof::{CommandReader, Entry, FileFault, Manifest, Note, Piece, StreamPlace, StreamTrack};
use varve_exec::apply::{Forgiven, Router};
use varve_rdb::is_rdb;
use varve_rdb::read::MAGIC_BYTES;

use super::super::load::insert_all;
use super::super::progress::Progress;
use super::place::{Place, shown};
use crate::config::{Config, path_of};
use crate::features::replication::state::past::PastMark;
use crate::state::ServerState;
use crate::system::error_text;

/// Bytes of a file's beginning in which its first notes stand.
const HEAD_BYTES: u64 = 1024;
/// When one part in this number of the files' bytes was read, the number of keys in all of them is guessed.
const GUESS_PART: u64 = 4;

/// A folder that was read.
pub(super) struct Loaded {
    pub(super) manifest: Manifest,
    /// Bytes of its base.
    pub(super) base_bytes: u64,
    /// Where the replication stream was when it ended, if there was one.
    pub(super) stream: Option<StreamPlace>,
    /// Where the files have its bytes, as far back as they have all of them.
    pub(super) marks: Vec<PastMark>,
}

/// The replication stream of the files that are read.
#[derive(Debug, Default)]
struct Found {
    track: StreamTrack,
    marks: Vec<PastMark>,
}

impl Found {
    /// A note was read, before which the increment of this number has this number of bytes.
    fn read_note(&mut self, line: &[u8], seq: u64, at: u64) {
        if let Some(Note::Stream(StreamPlace { offset, .. })) = Note::parse(line) {
            self.marks.push(PastMark { offset, seq, at });
        }
        self.track.read_note(line);
    }

    /// The place of its end, and the marks of all bytes before it that have no gap.
    fn ended(self) -> (Option<StreamPlace>, Vec<PastMark>) {
        let (place, mut marks) = (self.track.place(), self.marks);
        let since = place.as_ref().map_or(u64::MAX, |place| place.since);
        marks.retain(|mark| mark.offset >= since);
        (place, marks)
    }
}

/// The marks with which the increments begin that a rewrite has replaced and that stay.
fn marks_of_history(place: &Place, manifest: &Manifest) -> Vec<PastMark> {
    let mark = |entry: &Entry| {
        let mut head = Vec::new();
        let file = place.disk.read(&place.path(&entry.name)).ok()?;
        file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
        first_place(&head).map(|StreamPlace { offset, .. }| PastMark { offset, seq: entry.seq, at: 0 })
    };
    manifest.history_increments(place.names()).filter_map(mark).collect()
}

/// The place of the stream that is noted before the first command that stands in it.
fn first_place(mut head: &[u8]) -> Option<StreamPlace> {
    while head.starts_with(b"#") {
        let (note, rest) = head.split_at(head.iter().position(|byte| *byte == b'\n')? + 1);
        head = match Note::parse(note) {
            Some(Note::Stream(place)) => return Some(place),
            Some(Note::Own(bytes)) => rest.get(usize::try_from(bytes).ok()?..)?,
            _ => rest,
        };
    }
    None
}

/// Loads the folder of an append-only file, if there is one. `accept` is called before something is loaded.
///
/// # Errors
/// It is not loaded: the log says why.
pub(super) fn load(state: &ServerState, config: &Config, place: &Place, accept: &dyn Fn()) -> Result<Loaded, String> {
    let mut manifest = read_manifest(place)?;
    adopt_old_file(config, place, &mut manifest)?;
    let sizes = sizes(place, &manifest)?;
    let total: u64 = sizes.iter().sum();
    let mut found = Found { marks: marks_of_history(place, &manifest), ..Found::default() };
    if total > 0 {
        accept();
        state.persist().loading.begin(super::super::save::now_s(), total);
        let count = sizes.len();
        for (at, entry) in manifest.files().enumerate() {
            let is_base = at == 0 && manifest.base().is_some();
            let start = Instant::now();
            load_file((state, config, place), entry, at + 1 == count, &mut found)?;
            tracing::info!(
                "DB loaded from {} file {}: {:.3} seconds",
                if is_base { "base" } else { "incr" },
                shown(&entry.name),
                start.elapsed().as_secs_f64()
            );
        }
    }
    let base_bytes = if manifest.base().is_some() { sizes[0] } else { 0 };
    let (stream, marks) = found.ended();
    Ok(Loaded { manifest, base_bytes, stream, marks })
}

/// The manifest of a folder; one of nothing if there is none. Files that lie there all the same are not loaded, since nobody
/// knows which of them count, and new ones get numbers behind theirs: whoever finds the manifest again has lost nothing.
///
/// # Errors
/// It cannot be read: why.
pub(super) fn read_manifest(place: &Place) -> Result<Manifest, String> {
    let path = place.path(&place.names().manifest());
    let mut text = Vec::new();
    match place.disk.read(&path).and_then(|mut file| file.read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(behind_unlisted(place)),
        Err(error) => return Err(format!("Fatal error: can't open the AOF manifest: {}", error_text(&error))),
    }
    Manifest::parse(&text).map_err(|error| format!("\n*** FATAL AOF MANIFEST FILE ERROR ***\n{error}"))
}

fn behind_unlisted(place: &Place) -> Manifest {
    let names = place.disk.names(&place.folder).unwrap_or_default();
    let has_bytes = |name: &OsString| place.disk.size(&place.folder.join(name)).is_ok_and(|bytes| bytes > 0);
    let numbers = names.iter().filter(|name| has_bytes(name));
    let Some(last) = numbers.filter_map(|name| place.names().number(name.as_bytes())).max() else {
        return Manifest::default();
    };
    tracing::warn!(
        "The folder of the append-only file has files up to number {last} but no manifest {}: they are not loaded, and are kept",
        shown(&place.names().manifest())
    );
    Manifest::behind(last)
}

/// The one file of a Redis before 7 moves into the folder and becomes its base, where nothing else is there.
fn adopt_old_file(config: &Config, place: &Place, manifest: &mut Manifest) -> Result<(), String> {
    let old = place.parent().join(path_of(&config.append.file));
    let only_base = manifest.increments().is_empty() && manifest.base().is_some_and(|base| base.name == place.name);
    let inside = place.path(&place.name);
    let half_done = only_base && place.disk.size(&inside).is_err();
    if place.disk.size(&old).is_err() || !manifest.is_empty() && !half_done {
        return Ok(());
    }
    let adopted = Manifest::adopt(&place.name);
    let moved = place
        .disk
        .make_dir(&place.folder)
        .and_then(|()| place.save(&adopted))
        .and_then(|()| place.disk.rename(&old, &inside))
        .and_then(|()| place.disk.sync_dir(&place.folder))
        .and_then(|()| place.disk.sync_dir(place.parent()));
    moved.map_err(|error| format!("Error trying to move the old AOF file {} into dir: {error}", shown(&place.name)))?;
    tracing::info!(
        "Successfully migrated an old-style AOF configuration ({}) into the AOF directory",
        shown(&place.name)
    );
    *manifest = adopted;
    Ok(())
}

fn sizes(place: &Place, manifest: &Manifest) -> Result<Vec<u64>, String> {
    let size = |entry: &Entry| {
        let name = shown(&entry.name);
        let size = place.disk.size(&place.path(&entry.name));
        let size =
            size.map_err(|error| format!("Unable to obtain the AOF file {name} length. stat: {}", error_text(&error)))?;
        match entry.length {
            Some(length) if size < length => {
                Err(format!("Fatal error: the AOF file {name} has {size} bytes, and its manifest lists {length}"))
            }
            length => Ok(length.unwrap_or(size)),
        }
    };
    manifest.files().map(size).collect()
}

/// The server, its settings, and the folder that is loaded.
type Into<'l> = (&'l ServerState, &'l Config, &'l Place);

fn load_file(into: Into<'_>, entry: &Entry, is_last: bool, found: &mut Found) -> Result<(), String> {
    let (state, _, place) = into;
    let (name, path) = (shown(&entry.name), place.path(&entry.name));
    let cannot =
        |error: &io::Error| format!("Fatal error: can't open the append log file {name}: {}", error_text(error));
    let mut magic = Vec::new();
    // The bytes behind them are in the next increment as well.
    let counts = entry.length.unwrap_or(u64::MAX);
    let open = || place.disk.read(&path).map(|file| Box::new(file.take(counts)) as Box<dyn Read + Send>);
    open().and_then(|file| file.take(MAGIC_BYTES as u64).read_to_end(&mut magic)).map_err(|e| cannot(&e))?;
    let file = open().map_err(|error| cannot(&error))?;
    if !is_rdb(&magic) {
        return commands(into, entry, is_last, CommandReader::new(file, 0), found);
    }
    tracing::info!("Reading RDB base file on AOF loading...");
    let ended = insert_all(state, file).map_err(|reason| {
        format!("Error reading the RDB preamble of the AOF file {name}, AOF loading aborted: {reason}")
    })?;
    // Before Redis 7 commands stood behind it in the same file.
    let rest = open().and_then(|mut file| {
        io::copy(&mut file.by_ref().take(ended.offset), &mut io::sink())?;
        Ok(file)
    });
    let rest = rest.map_err(|error| cannot(&error))?;
    commands(into, entry, is_last, CommandReader::new(rest, ended.offset), found)
}

/// Gives the commands of a file to the workers that run them, and waits for the end.
fn commands(
    (state, config, place): Into<'_>,
    entry: &Entry,
    is_last: bool,
    mut reader: CommandReader<Box<dyn Read + Send>>,
    found: &mut Found,
) -> Result<(), String> {
    let (applier, loading, name) = (&state.persist().aof.applier, &state.persist().loading, shown(&entry.name));
    let (before, mut router) = (loading.done_bytes.load(Relaxed), Router::new());
    let (mut unread, mut progress, first) = (None, Progress::new(loading), reader.offset());
    applier.begin(first);
    let mut delay_us = config.save.key_load_delay_us;
    let fault = loop {
        let offset = reader.offset();
        match reader.next_piece() {
            Ok(Some(Piece::Commands(bytes))) => {
                found.track.read_commands(bytes.len() as u64);
                if delay_us > 0 {
                    delay_us = state.config().snapshot().save.key_load_delay_us;
                    std::thread::sleep(Duration::from_micros(delay_us));
                }
                if !applier.wait_for_room() {
                    break None;
                }
                if let Err(reason) = route(state, &mut router, offset, bytes) {
                    unread = Some(reason);
                    break None;
                }
                found.track.note_db(router.db());
            }
            Ok(Some(Piece::Note(line))) => found.read_note(line, entry.seq, offset),
            Ok(None) => break None,
            Err(fault) => break Some(fault),
        }
        let was = loading.done_bytes.load(Relaxed);
        let now = progress.come_to(loading, reader.offset() - first);
        let guess_at = loading.total_bytes.load(Relaxed) / GUESS_PART;
        if was < guess_at && now >= guess_at {
            guess_keys(state, before + applier.applied() - first);
        }
        if state.is_stopping() {
            return Err("the server ends".to_owned());
        }
    };
    let finished = applier.finish();
    if let Forgiven { commands, first: Some((_, first)) } = applier.take_forgiven() {
        tracing::warn!(
            "{commands} scripts and transactions of the append only file {name} were answered by errors, which are passed over: \
             they failed when the file was written too. The first is {first}"
        );
    }
    finished.map_err(|reason| format!("{reason} reading the append only file {name}"))?;
    match fault {
        None => unread.map_or(Ok(()), |reason| Err(format!("{reason} reading the append only file {name}"))),
        Some(FileFault::Io(error)) => {
            Err(format!("Unrecoverable error reading the append only file {name}: {}", error_text(&error)))
        }
        Some(FileFault::Damaged { offset, reason, .. }) => Err(format!(
            "Bad file format reading the append only file {name} at offset {offset} ({reason}): make a backup of your AOF \
             file, then use varve-check aof --fix <filename.manifest>"
        )),
        Some(FileFault::Truncated { valid }) => {
            // Commands of a transaction that was not whole were counted.
            if valid < reader.offset() {
                *found = Found::default();
            }
            truncated(config, place, entry, is_last, valid)
        }
    }
}

/// Gives commands that stand at `offset` of a file to the workers whose shards they are about.
///
/// # Errors
/// Something is no command for the parser of requests, although the file's reader takes it for one.
fn route(state: &ServerState, router: &mut Router, offset: u64, mut bytes: Vec<u8>) -> Result<(), String> {
    let to = (&state.persist().aof.applier, &**state.store(), &**state.table());
    let length = bytes.len();
    let pushed = router.push(to, offset, &mut bytes);
    state.wake_to_apply(pushed.workers.iter());
    match pushed.fault {
        Some(fault) => Err(fault),
        None if pushed.bytes < length => Err(format!("No command at offset {}", offset + pushed.bytes as u64)),
        None => Ok(()),
    }
}

/// Has the shards' indexes make room for the keys of the whole file, going by those that its first bytes have made.
fn guess_keys(state: &ServerState, bytes: u64) {
    let keys: u64 = state.store().counts_of_all().iter().map(|(keys, _)| keys).sum();
    let total = state.persist().loading.total_bytes.load(Relaxed);
    let whole = u128::from(keys) * u128::from(total) / u128::from(bytes.max(1));
    state.store().expect_keys(u64::try_from(whole).unwrap_or(u64::MAX).min(keys.saturating_mul(2 * GUESS_PART)));
}

/// The file ends torn: what is good of it ends at `valid`.
fn truncated(config: &Config, place: &Place, entry: &Entry, is_last: bool, valid: u64) -> Result<(), String> {
    let name = shown(&entry.name);
    if !config.append.loads_truncated {
        return Err(format!(
            "Unexpected end of file reading the append only file {name}. You can: 1) Make a backup of your AOF file, then \
             use varve-check aof --fix <filename.manifest>. 2) Alternatively you can set the 'aof-load-truncated' \
             configuration option to yes and restart the server."
        ));
    }
    tracing::warn!("!!! Warning: short read while loading the AOF file {name}!!!");
    if !is_last {
        return Err("Fatal error: the truncated file is not the last file".to_owned());
    }
    tracing::warn!("Truncating the AOF {name} at offset {valid}");
    let cut = place.disk.append(&place.path(&entry.name)).and_then(|(mut file, _)| {
        file.set_len(valid)?;
        file.sync()
    });
    cut.map_err(|error| format!("Error truncating the AOF file {name}: {}", error_text(&error)))?;
    tracing::warn!("AOF {name} loaded anyway because aof-load-truncated is enabled");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file may begin with the choice of its database, which is its own, in front of the stream's place.
    #[test]
    fn the_place_of_the_stream_stands_behind_what_is_the_files_own() {
        let place = StreamPlace { id: "a".repeat(40), offset: 9, since: 3, db: 2 };
        let note = Note::Stream(place.clone()).line();
        let own = varve_aof::own_selection(2);
        let time = Note::Time(1).line();
        for head in [&[&note[..]][..], &[&time, &own, &note, b"*1"], &[&own, &time, &note]] {
            assert_eq!(first_place(&head.concat()), Some(place.clone()));
        }
        for head in [&b""[..], b"*1\r\n", b"#OWN:99\r\n*1\r\n", b"#TS:1", b"#OWN:18446744073709551615\r\n"] {
            assert_eq!(first_place(head), None);
        }
    }
}
