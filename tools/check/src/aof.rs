//! An append-only file: its manifest and all files that it lists, or one file of commands by itself.
//!
//! ```text
//!   manifest --> base (RDB file, perhaps with commands behind it, or commands) --> increment --> increment
//!   each: whole, torn at byte N, or damaged at byte N
//!   --fix cuts the last one: where it is torn at once, where it is damaged when that was confirmed
//! ```
//! Not here: what is in the keys (`rdb.rs` says it of a base).

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use varve_aof::{CommandReader, Entry, FileFault, Piece, nth_command};

use varve_rdb::is_rdb;
use varve_rdb::read::MAGIC_BYTES;

use crate::{manifest, rdb};

/// The state of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// All of it is good.
    Whole,
    /// The bytes before this one are whole commands; its writer died behind them.
    Torn(u64),
    /// It was torn, and is cut there.
    Cut(u64),
    /// Something that no start takes.
    Damaged {
        /// At this byte.
        offset: u64,
        /// The fault, in words.
        reason: String,
        /// The bytes before this one are whole commands, if what is damaged is among the commands.
        valid: Option<u64>,
    },
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

/// Whether a question is answered by yes.
pub(crate) type Confirm<'c> = dyn FnMut(&str) -> bool + 'c;

/// Checks a manifest and its files, or one file, for a server with this number of databases; with `fix`, the last file is cut
/// where it is torn, and where it is damaged if `fix` says yes to that.
///
/// # Errors
/// The manifest cannot be read, or is none: why.
pub(crate) fn check(path: &Path, databases: u64, fix: Option<&mut Confirm<'_>>) -> Result<Vec<Part>, String> {
    let mut parts = match path.as_os_str().as_bytes().ends_with(b".manifest") {
        true => of_manifest(path, databases)?,
        false => vec![part(path.to_owned(), None, databases)],
    };
    if let (Some(confirm), Some(last)) = (fix, parts.last_mut()) {
        mend(last, confirm);
    }
    Ok(parts)
}

fn of_manifest(path: &Path, databases: u64) -> Result<Vec<Part>, String> {
    let of = |entry: &Entry| part(manifest::path_of(path, entry), entry.length, databases);
    Ok(manifest::read(path)?.files().map(of).collect())
}

fn part(path: PathBuf, length: Option<u64>, databases: u64) -> Part {
    let mut part = Part { path, bytes: 0, keys: None, commands: 0, state: State::Whole };
    part.state = match read(&mut part, length, databases) {
        Ok(state) => state,
        Err(error) => State::Unreadable(error.to_string()),
    };
    part
}

fn read(part: &mut Part, length: Option<u64>, databases: u64) -> io::Result<State> {
    let mut file = File::open(&part.path)?;
    let size = file.metadata()?.len();
    part.bytes = length.unwrap_or(size);
    if size < part.bytes {
        let reason = format!("the manifest lists {} bytes", part.bytes);
        return Ok(State::Damaged { offset: size, reason, valid: None });
    }
    let mut magic = Vec::new();
    file.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
    let mut start = 0;
    if is_rdb(&magic) {
        let summary = rdb::check(&part.path, 0, databases)?;
        part.keys = Some(summary.keys());
        if let Some(fault) = summary.fault {
            return Ok(State::Damaged { offset: fault.offset, reason: fault.reason, valid: None });
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
            Err(FileFault::Damaged { offset, reason, valid }) => {
                return Ok(State::Damaged { offset, reason: reason.to_owned(), valid: Some(valid) });
            }
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

/// Cuts a file where it is torn, or where it is damaged if that is confirmed.
fn mend(part: &mut Part, confirm: &mut Confirm<'_>) {
    let valid = match part.state {
        State::Torn(valid) => valid,
        State::Damaged { offset, valid: Some(valid), .. } => {
            let (path, bytes) = (part.path.display(), part.bytes);
            let question = format!(
                "{path} is damaged at byte {offset}. Cutting it there shrinks it from {bytes} bytes, by {} bytes, to \
                 {valid}: all that was written behind is lost. Continue? [y/N]: ",
                bytes - valid
            );
            if !confirm(&question) {
                return;
            }
            valid
        }
        _ => return,
    };
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
            State::Cut(valid) => format!("is cut at byte {valid}, behind its last whole command"),
            State::Damaged { offset, reason, valid: Some(valid) } if is_last => {
                format!(
                    "damaged at byte {offset}: {reason}; {valid} bytes are good, and --fix cuts it there once that is confirmed"
                )
            }
            State::Damaged { offset, reason, .. } => format!("damaged at byte {offset}: {reason}"),
            State::Unreadable(reason) => format!("cannot be read: {reason}"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {bytes} bytes, {keys}{commands} commands, {state}", path.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("varve-check-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        path
    }

    /// Checks without a change.
    fn look(path: &Path) -> Vec<Part> {
        check(path, 16, None).expect("a file")
    }

    /// Checks and mends; whether something was asked.
    fn mended(path: &Path, answer: bool) -> (Vec<Part>, bool) {
        let mut asked = false;
        let parts = check(
            path,
            16,
            Some(&mut |question: &str| {
                assert!(question.ends_with("Continue? [y/N]: "), "{question}");
                asked = true;
                answer
            }),
        );
        (parts.expect("a file"), asked)
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
        let parts = look(&manifest);
        let counts: Vec<u64> = parts.iter().map(|part| part.commands).collect();
        assert_eq!(counts, [5, 1, 1], "of the second file one command counts");
        assert_eq!(parts[2].state, State::Torn(SET.len() as u64));
        assert!(!are_sound(&parts) && table(&parts).contains("--fix cuts it there"));
        let (parts, asked) = mended(&manifest, false);
        assert!(are_sound(&parts) && !asked, "what is torn was never acknowledged as whole");
        assert_eq!(fs::read(folder.join("a.2.incr.aof")).expect("it is there"), SET);
        fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn a_tail_of_zeros_is_cut_like_a_torn_one() {
        let folder = folder("zeros");
        let file = folder.join("a.aof");
        for zeros in [1, 4096, 70_000] {
            fs::write(&file, [SET, &vec![0; zeros]].concat()).expect("room");
            assert_eq!(look(&file)[0].state, State::Torn(SET.len() as u64), "{zeros}");
            let (parts, asked) = mended(&file, false);
            assert!(are_sound(&parts) && !asked, "{zeros}");
            assert_eq!(fs::read(&file).expect("it is there"), SET, "{zeros}");
        }
        fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn damage_in_the_middle_is_cut_off_when_that_is_confirmed() {
        let folder = folder("middle");
        let file = folder.join("a.aof");
        let multi = b"*1\r\n$5\r\nMULTI\r\n";
        let bytes = [SET, multi, SET, b"*1\r\n?", SET, SET].concat();
        fs::write(&file, &bytes).expect("room");
        let (parts, asked) = mended(&file, false);
        let valid = Some(SET.len() as u64);
        assert!(matches!(&parts[0].state, State::Damaged { valid: found, .. } if *found == valid) && asked);
        assert!(table(&parts).contains("once that is confirmed"));
        assert_eq!(fs::read(&file).expect("it is there"), bytes, "nothing was done without a yes");
        let (parts, _) = mended(&file, true);
        assert_eq!(parts[0].state, State::Cut(SET.len() as u64));
        assert_eq!(fs::read(&file).expect("it is there"), SET, "half a transaction goes with what is damaged");
        fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn a_torn_or_damaged_file_before_others_is_left_alone() {
        let folder = folder("damaged");
        let manifest = folder.join("a.manifest");
        fs::write(&manifest, "file a.1.incr.aof seq 1 type i\nfile a.2.incr.aof seq 2 type i\n").expect("room");
        fs::write(folder.join("a.2.incr.aof"), SET).expect("room");
        for first in [&SET[..20], b"!!!"] {
            fs::write(folder.join("a.1.incr.aof"), first).expect("room");
            let (parts, asked) = mended(&manifest, true);
            assert!(!are_sound(&parts) && !asked);
            assert_eq!(fs::read(folder.join("a.1.incr.aof")).expect("it is there"), first);
        }
        fs::write(folder.join("a.1.incr.aof"), &SET[..20]).expect("room");
        assert!(table(&look(&manifest)).contains("not the last file"));
        fs::write(&manifest, "file a.1.incr.aof\n").expect("room");
        let error = check(&manifest, 16, None).expect_err("no manifest");
        assert_eq!(error.lines().last(), Some("Invalid AOF manifest file format"));
        fs::remove_dir_all(folder).expect("it is there");
    }
}
