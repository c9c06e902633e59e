//! The append-only file on disk: increments are appended to, and a disk that fails costs nothing that was promised.
//!
//! ```text
//!   positions of the journal:   start .......... synced ......... written ........ end
//!                               |<- in the file ->|<-- kept in memory ----------->|
//!   healthy  --a write fails-----> healthy, the rest is written with the next call
//!   healthy  --a sync fails------> broken     nobody knows what of the file is on disk behind `synced`
//!   broken   --mend--> a new increment has the rest, synced --> the manifest lists it, and the bytes of the old one that
//!                      count --> the old one is cut there, for redis-server, which knows no such bound --> healthy
//! ```
//! So whenever the process ends, each effect that was written is in one file that counts, and in no other. A new increment
//! begins with the database that is selected where it begins.
//!
//! State decides what comes next, not the order of calls: after any failure the next call begins from what is known. The
//! manifest in memory is replaced when the new one is on disk; if that is in doubt, the writer is broken, and mending
//! writes it again.
//!
//! Not here: when to write and sync (`thread.rs`), reading (`load.rs`).

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use varve_aof::{Entry, Manifest, Names};
use varve_exec::journal::{Chunk, Taken, select};

use crate::config::{Config, path_of};
use crate::system::disk::{Disk, DiskFile, System};
use crate::system::error_text;

/// Bytes of one write at most.
const WRITE_BYTES_MAX: usize = 16 << 20;

/// Where an append-only file lies.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) disk: Arc<dyn Disk>,
    /// The folder of its files.
    pub(crate) folder: PathBuf,
    /// The beginning of its files' names.
    pub(crate) name: Vec<u8>,
}

impl Place {
    /// Where the settings have it: a folder in the working directory, which it stays in when that changes.
    ///
    /// # Errors
    /// The system does not say what the working directory is.
    pub(super) fn of(config: &Config) -> io::Result<Place> {
        let folder = std::path::absolute(path_of(&config.append.dir))?;
        Ok(Place { disk: Arc::new(System), folder, name: config.append.file.clone() })
    }

    /// The folder in which its folder is.
    pub(super) fn parent(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    pub(super) fn names(&self) -> Names<'_> {
        Names(&self.name)
    }

    /// The path of a file of this name.
    pub(super) fn path(&self, name: &[u8]) -> PathBuf {
        self.folder.join(path_of(name))
    }

    /// Writes a manifest into the place of the one that is there.
    pub(super) fn save(&self, manifest: &Manifest) -> io::Result<()> {
        let temp = self.path(&self.names().new_manifest());
        let mut file = self.disk.create(&temp)?;
        write_all(&mut *file, &manifest.text())?;
        file.sync()?;
        self.disk.rename(&temp, &self.path(&self.names().manifest()))?;
        self.disk.sync_dir(&self.folder)
    }

    /// Removes files; what cannot be removed is only logged.
    fn remove(&self, entries: &[Entry]) {
        for entry in entries {
            match self.disk.remove(&self.path(&entry.name)) {
                Ok(()) => tracing::info!("Removing the history file {} in the background", shown(&entry.name)),
                Err(error) => tracing::warn!("Removing {}: {error}", shown(&entry.name)),
            }
        }
    }
}

/// A name for the log.
pub(super) fn shown(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

/// Writes all of the bytes.
pub(super) fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(&bytes[..bytes.len().min(WRITE_BYTES_MAX)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// See the module's picture.
#[derive(Debug)]
pub(super) struct Writer {
    place: Place,
    manifest: Manifest,
    file: Box<dyn DiskFile>,
    /// The position and the length of the file when it was opened.
    opened_at: u64,
    opened_bytes: u64,
    /// Bytes from `kept_from` to `end`.
    kept: VecDeque<Chunk>,
    kept_from: u64,
    /// The chunk of `kept` that is written next, and the bytes of it that are written.
    next: (usize, usize),
    written: u64,
    synced: u64,
    end: u64,
    /// The database that is selected at `end`; None at the beginning of a file.
    db: Option<u32>,
    /// Bytes are kept until they are synced; else until they are written.
    keeps_unsynced: bool,
    broken: bool,
    emptied: Vec<Vec<u8>>,
}

impl Writer {
    /// Goes on with the last increment that the manifest lists, or begins one, at position `at`. What the increment has is
    /// synced, and so is the manifest.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn open(place: Place, mut manifest: Manifest, at: u64) -> io::Result<Writer> {
        let (file, opened_bytes) = match manifest.increments().last() {
            // An increment that has ended is followed by another one, whatever was done to the manifest.
            Some(entry) if entry.length.is_none() => {
                let (mut file, bytes) = place.disk.append(&place.path(&entry.name))?;
                file.sync()?;
                (file, bytes)
            }
            _ => {
                let entry = manifest.next_increment(place.names());
                let mut file = place.disk.create(&place.path(&entry.name))?;
                file.sync()?;
                manifest.add_increment(entry);
                place.save(&manifest)?;
                (file, 0)
            }
        };
        Ok(Writer {
            place,
            manifest,
            file,
            opened_at: at,
            opened_bytes,
            kept: VecDeque::new(),
            kept_from: at,
            next: (0, 0),
            written: at,
            synced: at,
            end: at,
            db: None,
            keeps_unsynced: true,
            broken: false,
            emptied: Vec::new(),
        })
    }

    /// The position up to which the bytes outlive a crash of the machine.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// The position up to which the bytes are in the file.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// The position behind all bytes that were put.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The position up to which the bytes are no longer in memory.
    pub(super) fn released(&self) -> u64 {
        self.kept_from
    }

    /// Length of the increment that is written.
    pub(super) fn file_bytes(&self) -> u64 {
        self.offset(self.written)
    }

    /// True if a sync has failed, or the manifest on disk is in doubt: [`Writer::mend`] is needed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Keeps bytes in memory until they are synced, or only until they are written, where nobody syncs.
    pub(super) fn keep_unsynced(&mut self, keep: bool) {
        self.keeps_unsynced = keep;
    }

    /// Chunks whose bytes are needed no more.
    pub(super) fn emptied(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.emptied
    }

    /// Takes bytes that are to be written.
    pub(super) fn put(&mut self, taken: Taken) {
        let bytes: usize = taken.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        assert_eq!(self.end + bytes as u64, taken.end, "the journal has no holes");
        self.kept.extend(taken.chunks);
        (self.end, self.db) = (taken.end, taken.db);
    }

    /// Writes all that was put.
    ///
    /// # Errors
    /// The disk's: what was written is written, and the rest is tried again by the next call.
    pub(super) fn write(&mut self) -> io::Result<()> {
        assert!(!self.broken, "a broken file is not written to");
        while let Some(chunk) = self.kept.get(self.next.0) {
            let rest = &chunk.bytes[self.next.1..];
            if rest.is_empty() {
                self.next = (self.next.0 + 1, 0);
                continue;
            }
            match self.file.write(&rest[..rest.len().min(WRITE_BYTES_MAX)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.next.1 += written;
                    self.written += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        assert_eq!(self.written, self.end, "all that is kept was written");
        self.release();
        Ok(())
    }

    /// Syncs what is written.
    ///
    /// # Errors
    /// The disk's: the writer is broken then.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        assert!(!self.broken, "a broken file is not synced again: the system has forgotten what it lost");
        assert_eq!(self.written, self.end, "what is synced ends with a chunk");
        self.file.sync().inspect_err(|_| self.broken = true)?;
        self.synced = self.written;
        self.release();
        Ok(())
    }

    /// Has a new increment take what is kept, and ends the old one at its synced end. All is synced then.
    ///
    /// # Errors
    /// The disk's: the writer is as broken as before, and mending begins anew with the next call.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        // Where nobody synced, what was written is released: it stays in the file. That is so just after `appendfsync no`
        // has ended, too.
        let from = self.synced.max(self.kept_from);
        let old_bytes = self.offset(from);
        let (entry, mut file) = self.new_increment()?;
        let (head, rest) = self.kept_behind(from);
        write_all(&mut *file, &head)?;
        for chunk in rest {
            write_all(&mut *file, &chunk.bytes)?;
        }
        file.sync()?;
        self.list(|manifest| {
            manifest.end_increment(old_bytes);
            manifest.add_increment(entry);
        })?;
        let mut old = std::mem::replace(&mut self.file, file);
        if let Err(error) = old.set_len(old_bytes).and_then(|()| old.sync()) {
            tracing::warn!(
                "The old increment of the append-only file could not be cut at {old_bytes} bytes, where the manifest ends \
                 it: {}. redis-server would run twice what stands behind.",
                error_text(&error)
            );
        }
        (self.opened_at, self.opened_bytes) = (from, head.len() as u64);
        (self.written, self.synced, self.next) = (self.end, self.end, (self.kept.len(), 0));
        self.broken = false;
        self.release();
        Ok(())
    }

    /// The beginning of a file that goes on at this position, and the chunks that it takes.
    fn kept_behind(&self, from: u64) -> (Vec<u8>, impl Iterator<Item = &Chunk>) {
        let (mut at, mut count) = (self.kept_from, 0);
        while at < from {
            at += self.kept[count].bytes.len() as u64;
            count += 1;
        }
        assert_eq!(at, from, "a file ends with a chunk");
        let mut head = Vec::new();
        if let Some(db) = self.kept.get(count).map_or(self.db, |chunk| chunk.db) {
            select(db, &mut head);
        }
        (head, self.kept.iter().skip(count))
    }

    /// Removes the files that a rewrite has replaced.
    ///
    /// # Errors
    /// The disk's: the files may still be listed as history.
    pub(super) fn remove_history(&mut self) -> io::Result<()> {
        if self.manifest.history().is_empty() {
            return Ok(());
        }
        self.place.remove(self.manifest.history());
        self.list(|manifest| _ = manifest.take_history())
    }

    fn new_increment(&self) -> io::Result<(Entry, Box<dyn DiskFile>)> {
        let entry = self.manifest.next_increment(self.place.names());
        let file = self.place.disk.create(&self.place.path(&entry.name))?;
        Ok((entry, file))
    }

    /// Changes the manifest on disk, then in memory.
    fn list(&mut self, change: impl FnOnce(&mut Manifest)) -> io::Result<()> {
        let mut manifest = self.manifest.clone();
        change(&mut manifest);
        // The new one may be on disk all the same.
        self.place.save(&manifest).inspect_err(|_| self.broken = true)?;
        self.manifest = manifest;
        Ok(())
    }

    /// The place in the file of a position.
    fn offset(&self, position: u64) -> u64 {
        assert!(position >= self.opened_at, "the file begins before what is in it");
        self.opened_bytes + (position - self.opened_at)
    }

    /// Gives up chunks that are needed no more.
    fn release(&mut self) {
        let safe = if self.keeps_unsynced { self.synced } else { self.written };
        while let Some(chunk) = self.kept.front()
            && self.kept_from + chunk.bytes.len() as u64 <= safe
            && self.next.0 > 0
        {
            let mut chunk = self.kept.pop_front().expect("it is at the front").bytes;
            self.kept_from += chunk.len() as u64;
            self.next.0 -= 1;
            chunk.clear();
            self.emptied.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::disk::failing::{Call, FailingDisk};
    use std::io::Read;
    use varve_aof::{CommandReader, FileFault, Piece};
    use varve_base::rng::Rng;

    fn place(disk: &FailingDisk) -> Place {
        Place { disk: Arc::new(disk.clone()), folder: PathBuf::new(), name: b"a.aof".to_vec() }
    }

    fn writer(disk: &FailingDisk) -> Writer {
        Writer::open(place(disk), Manifest::default(), 0).expect("a healthy disk")
    }

    /// The command that each file begins with: the effects of these tests are done in database 0.
    const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

    /// A command that is found again: its number.
    fn command(number: u64) -> Vec<u8> {
        let (number, padding) = (number.to_string(), "x".repeat(number as usize * 37 % 9000));
        let length = number.len() + 1 + padding.len();
        format!("*2\r\n$3\r\nADD\r\n${length}\r\n{number} {padding}\r\n").into_bytes()
    }

    /// Puts a command that is done in database 0.
    fn put(writer: &mut Writer, number: u64) {
        let mut bytes = Vec::new();
        if writer.db.is_none() {
            select(0, &mut bytes);
        }
        bytes.extend(command(number));
        let end = writer.end() + bytes.len() as u64;
        let chunks = vec![Chunk { bytes, db: writer.db }];
        writer.put(Taken { chunks, end, db: Some(0), cut: false });
    }

    /// The numbers of the commands that a start would find on this disk.
    fn load(disk: &FailingDisk) -> Vec<u64> {
        let place = place(disk);
        let mut text = Vec::new();
        let manifest = place.path(&place.names().manifest());
        disk.read(&manifest).expect("a manifest").read_to_end(&mut text).expect("it is read");
        let manifest = Manifest::parse(&text).expect("a whole manifest");
        let count = manifest.files().count();
        let mut numbers = Vec::new();
        for (nth, entry) in manifest.files().enumerate() {
            let file = disk.read(&place.path(&entry.name)).expect("a listed file");
            let file = file.take(entry.length.unwrap_or(u64::MAX));
            let mut reader = CommandReader::new(file, 0);
            let mut selected = false;
            loop {
                match reader.next_piece() {
                    Ok(Some(Piece::Commands(bytes))) => {
                        assert!(selected || bytes.starts_with(SELECT), "{}", shown(&entry.name));
                        selected = true;
                        numbers.extend(numbers_in(bytes));
                    }
                    Ok(Some(Piece::Note(_))) => {}
                    Ok(None) => break,
                    Err(FileFault::Truncated { .. }) => {
                        assert_eq!(nth + 1, count, "only the last file may be torn: {}", shown(&entry.name));
                        break;
                    }
                    Err(fault) => panic!("{}: {fault:?}", shown(&entry.name)),
                }
            }
        }
        numbers
    }

    fn numbers_in(bytes: &[u8]) -> Vec<u64> {
        let text = String::from_utf8_lossy(bytes).replace(std::str::from_utf8(SELECT).expect("text"), "");
        let lines: Vec<&str> = text.split("\r\n").collect();
        lines
            .chunks_exact(5)
            .map(|five| five[4].split(' ').next().expect("a number").parse().expect("a number"))
            .collect()
    }

    fn eio() -> io::Error {
        io::Error::from_raw_os_error(libc::EIO)
    }

    #[test]
    fn what_is_synced_is_found() {
        let disk = FailingDisk::default();
        let mut writer = writer(&disk);
        (0..50).for_each(|number| put(&mut writer, number));
        writer.write().expect("a healthy disk");
        assert_eq!(writer.released(), 0, "nothing is synced");
        writer.sync().expect("a healthy disk");
        assert_eq!((writer.released(), writer.synced()), (writer.end(), writer.end()));
        assert_eq!(load(&disk.crash(&mut Rng::seeded(1))), (0..50).collect::<Vec<_>>());
        let again = Writer::open(place(&disk), writer.manifest.clone(), 7).expect("a healthy disk");
        assert_eq!(again.file_bytes(), writer.file_bytes());
    }

    /// The kernel forgets that it lost pages: the next sync of the same file would succeed, over a hole.
    #[test]
    fn after_a_failed_sync_a_new_increment_takes_the_rest() {
        let disk = FailingDisk::default();
        let mut writer = writer(&disk);
        put(&mut writer, 0);
        writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
        put(&mut writer, 1);
        writer.write().expect("a healthy disk");
        disk.set_fault(|_, call| (call == Call::Sync).then(eio));
        assert!(writer.sync().is_err() && writer.is_broken());
        assert!(writer.mend().is_err(), "the disk fails still");
        put(&mut writer, 2);
        disk.heal();
        writer.mend().expect("a healthy disk");
        assert!(!writer.is_broken() && writer.synced() == writer.end());
        assert_eq!(writer.manifest.increments().len(), 2);
        assert_eq!(load(&disk.crash(&mut Rng::seeded(1))), [0, 1, 2]);
        let old = &writer.manifest.increments()[0];
        let cut = disk.size(&place(&disk).path(&old.name)).expect("it is there");
        assert_eq!(old.length, Some(cut), "redis-server finds no more in it than the manifest says");
        put(&mut writer, 3);
        writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
        assert_eq!(load(&disk), [0, 1, 2, 3]);
    }

    /// An increment that goes on in the middle of the journal begins with the database that is selected there.
    #[test]
    fn a_new_increment_selects_its_database() {
        let disk = FailingDisk::default();
        let mut writer = writer(&disk);
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".to_vec();
        let put = |writer: &mut Writer, before, behind| {
            let mut bytes = Vec::new();
            if before != Some(behind) {
                select(behind, &mut bytes);
            }
            bytes.extend_from_slice(&set);
            let end = writer.end() + bytes.len() as u64;
            writer.put(Taken { chunks: vec![Chunk { bytes, db: before }], end, db: Some(behind), cut: false });
        };
        let last = |writer: &Writer| {
            let name = &writer.manifest.increments().last().expect("an increment").name;
            let mut text = String::new();
            disk.read(&place(&disk).path(name)).expect("a file").read_to_string(&mut text).expect("text");
            text
        };
        let select = |db: u32| format!("*2\r\n$6\r\nSELECT\r\n$1\r\n{db}\r\n");
        let set_text = String::from_utf8(set.clone()).expect("text");
        let fail = |writer: &mut Writer| {
            disk.set_fault(|_, call| (call == Call::Sync).then(eio));
            assert!(writer.write().and_then(|()| writer.sync()).is_err());
            disk.heal();
            writer.mend().expect("a healthy disk");
        };
        put(&mut writer, None, 3);
        writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
        put(&mut writer, Some(3), 3);
        fail(&mut writer);
        assert_eq!(last(&writer), select(3) + &set_text);
        // Nothing is left to be taken: the next effect finds its database selected all the same.
        fail(&mut writer);
        put(&mut writer, Some(3), 3);
        writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
        assert_eq!(last(&writer), select(3) + &set_text);
        assert_eq!(writer.file_bytes(), last(&writer).len() as u64);
    }

    /// Under `appendfsync no` what is written is not kept. If the setting changes and the next sync fails, it stays in the
    /// file: nothing is left out, and nothing comes twice.
    #[test]
    fn what_is_no_longer_kept_stays_in_the_old_file() {
        let disk = FailingDisk::default();
        let mut writer = writer(&disk);
        writer.keep_unsynced(false);
        (0..3).for_each(|number| put(&mut writer, number));
        writer.write().expect("a healthy disk");
        assert_eq!((writer.released(), writer.synced()), (writer.end(), 0));
        writer.keep_unsynced(true);
        (3..5).for_each(|number| put(&mut writer, number));
        disk.set_fault(|_, call| (call == Call::Sync).then(eio));
        assert!(writer.write().and_then(|()| writer.sync()).is_err());
        disk.heal();
        writer.mend().expect("a healthy disk");
        assert_eq!(load(&disk), [0, 1, 2, 3, 4]);
    }

    /// Whatever call of mending fails, and whenever the process ends: each effect is found once.
    #[test]
    fn no_end_of_the_process_while_mending_loses_or_doubles_anything() {
        for failing in 0..12 {
            let disk = FailingDisk::default();
            let mut writer = writer(&disk);
            put(&mut writer, 0);
            writer.write().and_then(|()| writer.sync()).expect("a healthy disk");
            (1..4).for_each(|number| put(&mut writer, number));
            writer.write().expect("a healthy disk");
            disk.set_fault(|_, call| (call == Call::Sync).then(eio));
            assert!(writer.sync().is_err());
            disk.set_fault(move |number, _| (number == failing).then(eio));
            let mended = writer.mend();
            assert_eq!(load(&disk), [0, 1, 2, 3], "call {failing} failed: {mended:?}");
            disk.heal();
            if mended.is_err() {
                writer.mend().expect("a healthy disk");
            }
            assert_eq!(load(&disk), [0, 1, 2, 3], "call {failing} failed");
        }
    }

    #[test]
    fn a_full_disk_goes_on_when_there_is_room() {
        let disk = FailingDisk::default();
        let mut writer = writer(&disk);
        disk.set_room(Some(4_000));
        for number in 0..20 {
            put(&mut writer, number);
            drop(writer.write());
        }
        assert!(writer.write().is_err() && writer.written() < writer.end());
        assert!(load(&disk).len() < 20, "the last command is torn");
        disk.set_room(None);
        writer.write().and_then(|()| writer.sync()).expect("there is room");
        assert_eq!(load(&disk), (0..20).collect::<Vec<_>>());
    }

    /// Random work on a disk that fails at random and crashes at every call: what was synced is found, in its order and
    /// without a hole, and nothing of a file that counts is damaged.
    #[test]
    fn no_crash_loses_what_was_synced() {
        let seed = varve_testkit::seed::seed("crashes of a disk");
        for round in 0..60 {
            let mut rng = Rng::seeded(seed + round);
            let disk = FailingDisk::default();
            let mut writer = writer(&disk);
            let (mut number, mut synced) = (0, 0);
            let mut ends = vec![0];
            let mut faults = Rng::seeded(seed ^ round);
            let fail_one_in = 2 + rng.below(20);
            disk.set_fault(move |_, _| (faults.below(fail_one_in) == 0).then(eio));
            for _ in 0..60 {
                if rng.below(2) == 0 {
                    put(&mut writer, number);
                    number += 1;
                    ends.push(writer.end());
                }
                let _ = match rng.below(8) {
                    _ if writer.is_broken() => writer.mend(),
                    0..5 => writer.write(),
                    _ => writer.write().and_then(|()| writer.sync()),
                };
                synced = ends.iter().filter(|end| **end <= writer.synced()).count().max(synced + 1) - 1;
                let found = load(&disk.crash(&mut rng));
                assert!(found.len() >= synced, "round {round} of seed {seed}: {} of {synced} synced", found.len());
                assert!(found.len() as u64 <= number, "round {round} of seed {seed}");
                assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "round {round} of seed {seed}");
            }
        }
    }
}
