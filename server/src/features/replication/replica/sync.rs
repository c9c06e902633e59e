//! Receiving a primary's data, and putting it in the place of this server's.
//!
//! ```text
//!   (empty lines) $length      length bytes                 |
//!   (empty lines) $EOF:mark    bytes, mark (40 bytes)       +--> file --> all data goes, the gate alone --> workers load it
//! ```
//! Behind the mark the primary sends nothing before this server's first word: so it stands at the end of what has come. Until
//! the file is whole, clients see the data that there was. A save of that data is given up then, and none begins: it
//! would take the name of the received file. A file that is torn or damaged leaves the server empty, and the link is
//! made anew. While this server empties and loads, an empty line each second tells the primary that it is there.
//!
//! With `repl-diskless-load` there is no file, and what there was goes last: `beside.rs`. Not here: loading (`persist::load`).

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use varve_base::number::parse_i64;

use super::link::{End, Line};
use super::{ID_DIGITS, Thread, beside};
use crate::config::{DisklessLoad, path_of};
use crate::features::persist::aof::stream as kept;
use crate::features::persist::state::SavesBarred;
use crate::features::persist::{load, load_beside};
use crate::features::replication::state::replica::LinkStage;
use crate::system::{error_text, random};

/// Time between two signs of life while the primary's data is loaded.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// Bytes of the mark.
pub(super) const MARK_BYTES: usize = 40;

/// How much comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Bytes(u64),
    /// All before this mark.
    Mark([u8; MARK_BYTES]),
}

/// Receives the data of the history `id` at `offset`, and loads it: the stream goes on from there.
///
/// # Errors
/// The link ends: why.
pub(super) fn receive(thread: &mut Thread, line: &mut Line, id: &str, offset: u64) -> Result<(), End> {
    let extent = extent(thread, line)?;
    let bytes = if let Extent::Bytes(bytes) = extent { bytes } else { 0 };
    thread.state.replication().replica().report(|facts| {
        (facts.stage, facts.sync_bytes, facts.sync_began) = (LinkStage::Sync, (bytes, 0), Some(Instant::now()));
    });
    let way = way(thread, id);
    let to = if way == Way::File { "disk" } else { "parser" };
    match extent {
        Extent::Bytes(bytes) => {
            tracing::info!("MASTER <-> REPLICA sync: receiving {bytes} bytes from master to {to}");
        }
        Extent::Mark(_) => {
            tracing::info!("MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to {to}");
        }
    }
    if let Way::Beside { serves } = way {
        let loaded = beside::receive(thread, line, extent, (id, offset), serves);
        line.begin_listening();
        return loaded;
    }
    let temp = Temp::new();
    let (file, written) = to_file(thread, line, &extent, &temp)?;
    let path = path_of(&thread.state.config().snapshot().save.file);
    let loaded = keep_alive(line, || put_in_place(thread, temp, &path, (file, written), (id, offset)));
    line.begin_listening();
    loaded
}

/// How a data set comes into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is received into a file. Then all data goes, and the file is loaded.
    File,
    /// It is loaded from the link beside what there is, which is served meanwhile or only kept.
    Beside { serves: bool },
}

/// How the data of the history `id` comes into memory, as the settings say. Old data of another history is not shown as if it were
/// this one's: its clients are refused, as at redis-server.
fn way(thread: &Thread, id: &str) -> Way {
    let state = &thread.state;
    let is_empty = || state.store().counts_of_all().iter().all(|(keys, _)| *keys == 0);
    match state.config().snapshot().replica.diskless_load {
        DisklessLoad::Swap => Way::Beside { serves: state.replication().ids().history().id == id },
        DisklessLoad::OnEmpty if is_empty() => Way::Beside { serves: false },
        DisklessLoad::OnEmpty | DisklessLoad::Disabled => Way::File,
    }
}

/// How much comes.
fn extent(thread: &mut Thread, line: &mut Line) -> Result<Extent, End> {
    let head = loop {
        let head = line.line(thread)?;
        if !head.is_empty() {
            break head;
        }
    };
    parse(&head)
}

fn parse(head: &[u8]) -> Result<Extent, End> {
    let shown = String::from_utf8_lossy(head);
    if head.first() == Some(&b'-') {
        return Err(End::Broken(format!("MASTER aborted replication with an error: {shown}")));
    }
    let wrong = || {
        End::Broken(format!(
            "Bad protocol from MASTER, the first byte is not '$' (we received '{shown}'), are you sure the host and port \
             are right?"
        ))
    };
    let rest = head.strip_prefix(b"$").ok_or_else(wrong)?;
    if let Some(mark) = rest.strip_prefix(b"EOF:") {
        return Ok(Extent::Mark(mark.try_into().map_err(|_| wrong())?));
    }
    let bytes = parse_i64(rest).and_then(|bytes| u64::try_from(bytes).ok());
    Ok(Extent::Bytes(bytes.ok_or_else(wrong)?))
}

/// Writes what comes to a file; gives it, to be read from its begin, and its length.
fn to_file(thread: &mut Thread, line: &mut Line, extent: &Extent, temp: &Temp) -> Result<(File, u64), End> {
    let failed = |error: io::Error| {
        End::Broken(format!(
            "Write error or short write writing to the DB dump file needed for MASTER <-> REPLICA synchronization: {}",
            error_text(&error)
        ))
    };
    let mut file = temp.create().map_err(failed)?;
    let mut written = 0;
    loop {
        let (take, ends) = part(&line.input, extent, written);
        file.write_all(&line.input[..take]).map_err(failed)?;
        written += take as u64;
        thread.state.replication().replica().report(|facts| facts.sync_bytes.1 = written);
        if ends {
            let mark = if let Extent::Mark(_) = extent { MARK_BYTES } else { 0 };
            line.input.drain(..take + mark);
            break;
        }
        line.input.drain(..take);
        line.fill(thread)?;
    }
    file.sync_all().and_then(|()| file.rewind()).map_err(failed)?;
    Ok((file, written))
}

/// The bytes at the front of `input` that are data for sure, and whether that is the last of it.
pub(super) fn part(input: &[u8], extent: &Extent, written: u64) -> (usize, bool) {
    match extent {
        Extent::Bytes(bytes) => {
            let left = bytes - written;
            let take = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            (take, take as u64 == left)
        }
        // Bytes that may be the begin of the mark stay until the rest is there.
        Extent::Mark(mark) => (input.len().saturating_sub(MARK_BYTES), input.ends_with(mark)),
    }
}

/// Does something that may take longer than a primary waits for a silent replica: a thread keeps the link alive meanwhile.
pub(super) fn keep_alive<T>(line: &mut Line, work: impl FnOnce() -> T) -> T {
    let (working, ended) = channel::<()>();
    let signs = move || {
        line.say_alive();
        while ended.recv_timeout(ALIVE_EVERY) == Err(RecvTimeoutError::Timeout) {
            line.say_alive();
        }
    };
    thread::scope(|scope| {
        let spawned = thread::Builder::new().name("replica-alive".to_owned()).spawn_scoped(scope, signs);
        if let Err(error) = spawned {
            tracing::warn!("Keeping the link to MASTER alive: {}", error_text(&error));
        }
        let done = work();
        drop(working);
        done
    })
}

/// Gives a received file of this length its name, and puts its data in the place of this server's.
fn put_in_place(
    thread: &mut Thread,
    temp: Temp,
    path: &PathBuf,
    (file, bytes): (File, u64),
    (id, offset): (&str, u64),
) -> Result<(), End> {
    let state = Arc::clone(&thread.state);
    // A save of the old data would put its file in the place of this one.
    let barred = state.persist().bar_saves();
    if !load_beside::end_saves(&state) {
        return Err(End::Unwanted);
    }
    temp.keep(path).map_err(|error| {
        End::Broken(format!(
            "Failed trying to rename the temp DB into the data file in MASTER <-> REPLICA synchronization: {}",
            error_text(&error)
        ))
    })?;
    let loaded = take_over(thread, file, bytes, (id, offset), barred);
    remove_if_unwanted(thread, path);
    loaded
}

/// Puts the data of a file in the place of this server's. Saves are barred until it is being loaded.
fn take_over(
    thread: &mut Thread,
    file: File,
    bytes: u64,
    (id, offset): (&str, u64),
    barred: SavesBarred<'_>,
) -> Result<(), End> {
    tracing::info!("MASTER <-> REPLICA sync: Flushing old data");
    throw_away(thread)?;
    drop(barred);
    tracing::info!("MASTER <-> REPLICA sync: Loading DB in memory");
    let state = Arc::clone(&thread.state);
    let replication = state.replication();
    let loaded = load::of_primary(&state, Box::new(file), bytes);
    if state.is_stopping() {
        return Err(End::Unwanted);
    }
    match loaded {
        Ok(ended) => {
            replication.ids().adopt(id, offset);
            replication.replica().set_stream_db(ended.stream_db.unwrap_or(0));
            load::serve_again(&state);
            tracing::info!("MASTER <-> REPLICA sync: Finished with success");
            Ok(())
        }
        Err(reason) => {
            throw_away(thread)?;
            load::serve_again(&state);
            Err(End::Broken(format!(
                "Failed trying to load the MASTER synchronization DB from disk, check server logs: {reason}"
            )))
        }
    }
}

/// All data goes, and with it the place in a history where this server was.
fn throw_away(thread: &Thread) -> Result<(), End> {
    let id = random::hex(ID_DIGITS).map_err(|error| End::Broken(error_text(&error)))?;
    let state = Arc::clone(&thread.state);
    let emptied = thread.alone(move |worker| {
        load::empty_for_primary(&state, worker);
        kept::lose(&state, id);
    });
    emptied.ok_or(End::Unwanted)
}

/// The file of a server that keeps nothing on disk goes, if that is wanted.
fn remove_if_unwanted(thread: &Thread, path: &PathBuf) {
    let config = thread.state.config().snapshot();
    if config.replica.removes_files && config.save.points.is_empty() && !config.append.on {
        tracing::info!("Removing the RDB file obtained from the master. This replica has persistence disabled");
        let _ = fs::remove_file(path);
    }
}

/// A file that is removed unless it is kept.
struct Temp {
    path: PathBuf,
}

impl Temp {
    fn new() -> Temp {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Temp { path: PathBuf::from(format!("temp-{now_s}.{}.rdb", std::process::id())) }
    }

    /// Makes it, empty, to be written and read.
    fn create(&self) -> io::Result<File> {
        File::options().read(true).write(true).create(true).truncate(true).open(&self.path)
    }

    /// Gives it this name.
    fn keep(self, path: &PathBuf) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        File::open(".").and_then(|dir| dir.sync_all())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // It is gone where it was kept.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_says_how_much_comes() {
        assert_eq!(parse(b"$12").ok(), Some(Extent::Bytes(12)));
        let mark = [b'm'; MARK_BYTES];
        assert_eq!(parse(&[&b"$EOF:"[..], &mark].concat()).ok(), Some(Extent::Mark(mark)));
        for wrong in [&b"-ERR x"[..], b"+OK", b"$", b"$-1", b"$EOF:short", b"12"] {
            assert!(parse(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    /// Whatever the pieces in which it comes, the data ends before the mark.
    #[test]
    fn data_ends_before_the_mark_however_it_is_cut() {
        let mark: [u8; MARK_BYTES] = std::array::from_fn(|at| b'a' + (at % 26) as u8);
        let data = [&b"data that has a begin of it: "[..], &mark[..20], b" and more"].concat();
        let sent = [&data[..], &mark].concat();
        for size in [1, 7, 39, 40, 41, 1000] {
            let (mut input, mut got, mut ended) = (Vec::new(), Vec::new(), false);
            for piece in sent.chunks(size) {
                assert!(!ended);
                input.extend_from_slice(piece);
                let (take, ends) = part(&input, &Extent::Mark(mark), got.len() as u64);
                got.extend(input.drain(..take));
                ended = ends;
            }
            assert!(ended && got == data, "pieces of {size}");
        }
        assert_eq!(part(b"12345", &Extent::Bytes(7), 4), (3, true));
        assert_eq!(part(b"12", &Extent::Bytes(7), 4), (2, false));
        assert_eq!(part(b"", &Extent::Bytes(7), 7), (0, true));
    }
}
