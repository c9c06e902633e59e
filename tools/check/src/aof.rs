//! An append-only file: its manifest and all files that it lists, or one file of commands by itself.
//!
//! ```text
//!   manifest --> base (RDB file, perhaps with commands behind it, or commands) --> increment --> increment
//!   each: whole, torn at byte N (--fix cuts the last one there), or damaged at byte N
//! ```
//! Not here: what is in the keys (`rdb.rs` says it of a base).

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use varve_aof::{CommandReader, Entry, FileFault, Manifest, Piece, nth_command};

use crate::rdb;

/// The first bytes of an RDB file.
const RDB_MAGIC: &[u8] = b"REDIS";

/// The state of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// All of it is good.
    Whole,
    /// The bytes before this one are whole commands; its writer died behind them.
    Torn(u64),
    /// It was torn, and is cut there.
    Cut(u64),
    /// Something that is no command, at this byte.
    Damaged(u64, String),
    /// It cannot be read.
    Unreadable(String),
}

/// One file.
#[derive(Debug)]
pub(crate) struct Part {
    path: PathBuf,
    /// Bytes of it that count.
    bytes: u64,
    /// Keys of its RDB part, where it has one.
    keys: Option<u64>,
    commands: u64,
    pub(crate) state: State,
}

/// Checks a manifest and its files, or one file; with `fix`, a torn last file is cut.
///
/// # Errors
/// The manifest cannot be read, or is none: why.
pub(crate) fn check(path: &Path, fix: bool) -> Result<Vec<Part>, String> {
    let mut parts = match path.as_os_str().as_bytes().ends_with(b".manifest") {
        true => of_manifest(path)?,
        false => vec![part(path.to_owned(), None)],
    };
    if fix && let Some(last) = parts.last_mut() {
        cut(last);
    }
    Ok(parts)
}

/// Checks a manifest alone, and lists what is in it.
///
/// # Errors
/// It cannot be read, or is none: why.
pub(crate) fn manifest(path: &Path) -> Result<Manifest, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    Manifest::parse(&text).map_err(|error| error.to_string())
}

fn of_manifest(path: &Path) -> Result<Vec<Part>, String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let of = |entry: &Entry| part(folder.join(std::ffi::OsStr::from_bytes(&entry.name)), entry.length);
    Ok(manifest(path)?.files().map(of).collect())
}

fn part(path: PathBuf, length: Option<u64>) -> Part {
    let mut part = Part { path, bytes: 0, keys: None, commands: 0, state: State::Whole };
    part.state = match read(&mut part, length) {
        Ok(state) => state,
        Err(error) => State::Unreadable(error.to_string()),
    };
    part
}

fn read(part: &mut Part, length: Option<u64>) -> io::Result<State> {
    let mut file = File::open(&part.path)?;
    let size = file.metadata()?.len();
    part.bytes = length.unwrap_or(size);
    if size < part.bytes {
        return Ok(State::Damaged(size, format!("the manifest lists {} bytes", part.bytes)));
    }
    let mut magic = Vec::new();
    file.by_ref().take(RDB_MAGIC.len() as u64).read_to_end(&mut magic)?;
    let mut start = 0;
    if magic == RDB_MAGIC {
        let summary = rdb::check(&part.path, 0)?;
        part.keys = Some(summary.keys());
        if let Some(fault) = summary.fault {
            return Ok(State::Damaged(fault.offset, fault.reason));
        }
        start = summary.read_bytes;
    }
    file.seek(SeekFrom::Start(start))?;
    commands(part, CommandReader::new(file.take(part.bytes - start), start))
}

/// Counts the commands of a file up to its end or its first fault.
fn commands(part: &mut Part, mut reader: CommandReader<impl Read>) -> io::Result<State> {
    loop {
        match reader.next_piece() {
            Ok(Some(Piece::Commands(bytes))) => part.commands += count(&bytes),
            Ok(Some(Piece::Note(_))) => {}
            Ok(None) => return Ok(State::Whole),
            Err(FileFault::Io(error)) => return Err(error),
            Err(FileFault::Truncated { valid }) => return Ok(State::Torn(valid)),
            Err(FileFault::Damaged { offset, reason }) => return Ok(State::Damaged(offset, reason.to_owned())),
        }
    }
}

fn count(commands: &[u8]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while let Some(found) = nth_command(&commands[at..], 0) {
        (at, count) = (at + found.end, count + 1);
    }
    count
}

/// Cuts a torn file where it is torn.
fn cut(part: &mut Part) {
    let State::Torn(valid) = part.state else { return };
    let cut = OpenOptions::new().write(true).open(&part.path).and_then(|file| {
        file.set_len(valid)?;
        file.sync_all()
    });
    part.state = match cut {
        Ok(()) => State::Cut(valid),
        Err(error) => State::Unreadable(error.to_string()),
    };
}

/// True if a server starts with these files and has all that they have.
pub(crate) fn are_sound(parts: &[Part]) -> bool {
    parts.iter().all(|part| matches!(part.state, State::Whole | State::Cut(_)))
}

/// The files as lines of text.
pub(crate) fn table(parts: &[Part]) -> String {
    let mut text = String::new();
    for (at, Part { path, bytes, keys, commands, state }) in parts.iter().enumerate() {
        let keys = keys.map_or(String::new(), |keys| format!("{keys} keys, "));
        let is_last = at + 1 == parts.len();
        let state = match state {
            State::Whole => "whole".to_owned(),
            State::Torn(valid) if is_last => format!("torn: {valid} bytes are good, and --fix cuts it there"),
            State::Torn(valid) => {
                format!(
                    "torn: {valid} bytes are good, and it is not the last file, so that no server goes on behind it"
                )
            }
            State::Cut(valid) => format!("was torn, and is cut at byte {valid}"),
            State::Damaged(offset, reason) => format!("damaged at byte {offset}: {reason}"),
            State::Unreadable(reason) => format!("cannot be read: {reason}"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {bytes} bytes, {keys}{commands} commands, {state}", path.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("varve-check-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        path
    }

    #[test]
    fn the_last_file_is_cut_where_it_is_torn() {
        let folder = folder("torn");
        let manifest = folder.join("a.manifest");
        let text = "file a.1.base.aof seq 1 type b\nfile a.1.incr.aof seq 1 type i length 27\nfile a.2.incr.aof seq 2 type i\n";
        fs::write(&manifest, text).expect("room");
        fs::write(folder.join("a.1.base.aof"), SET.repeat(5)).expect("room");
        fs::write(folder.join("a.1.incr.aof"), SET.repeat(2)).expect("room");
        fs::write(folder.join("a.2.incr.aof"), [SET, &SET[..9]].concat()).expect("room");
        let parts = check(&manifest, false).expect("a manifest");
        let counts: Vec<u64> = parts.iter().map(|part| part.commands).collect();
        assert_eq!(counts, [5, 1, 1], "of the second file one command counts");
        assert_eq!(parts[2].state, State::Torn(SET.len() as u64));
        assert!(!are_sound(&parts) && table(&parts).contains("--fix cuts it there"));
        assert!(are_sound(&check(&manifest, true).expect("a manifest")));
        assert_eq!(fs::read(folder.join("a.2.incr.aof")).expect("it is there"), SET);
        fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn a_torn_file_in_the_middle_and_damage_are_left_alone() {
        let folder = folder("damaged");
        let manifest = folder.join("a.manifest");
        fs::write(&manifest, "file a.1.incr.aof seq 1 type i\nfile a.2.incr.aof seq 2 type i\n").expect("room");
        fs::write(folder.join("a.1.incr.aof"), &SET[..20]).expect("room");
        fs::write(folder.join("a.2.incr.aof"), [SET, b"!!!"].concat()).expect("room");
        let parts = check(&manifest, true).expect("a manifest");
        assert_eq!(parts[0].state, State::Torn(0));
        assert!(matches!(parts[1].state, State::Damaged(27, _)), "{:?}", parts[1].state);
        assert!(table(&parts).contains("not the last file"));
        fs::write(&manifest, "file a.1.incr.aof\n").expect("room");
        assert_eq!(
            check(&manifest, true).expect_err("no manifest").lines().last(),
            Some("Invalid AOF manifest file format")
        );
        fs::remove_dir_all(folder).expect("it is there");
    }
}
