//! A file that is whole or not there: written under another name, synced, renamed, its directory synced.
//!
//! ```text
//!   temp-PID.rdb       header, pieces ........... side file, end --sync--> --rename--> dump.rdb --sync of the directory-->
//!   temp-PID.side.rdb       pieces while many wait ---^
//!   temp-PID.side2.rdb      pieces while a large string is written to the side file
//!        any failure: both removed, and dump.rdb is the old one
//! ```
//! Compressing a piece takes several times as long as writing it. While many wait, they go to the side file as they are;
//! and so do entries that come between two parts of a long collection's entry, which stand in a row.
//! Not here: what is written (`state/snapshot.rs`), who waits for it (`save.rs`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_aof::StreamPlace;
use varve_base::number::parse_i64;
use varve_rdb::{Event, LargeText, RdbBuffer, Reader, Writer, put_large};

use crate::config::{Config, SaveSettings, path_of};
use crate::features::replication::state::replicas::{SyncFile, Writing};
use crate::system::disk::{self, Disk, DiskFile};

/// Bytes after which what was written is synced, where that is done on the way: a sync at the end of gigabytes keeps
/// everybody waiting who writes to the same disk.
const SYNC_BYTES: u64 = 4 << 20;

/// Digits of the id of a replication stream.
const ID_DIGITS: usize = 40;

/// Bytes of the side file that are copied at once.
const COPY_BYTES: usize = 256 << 10;

/// Where a save puts its file: absolute, since the working directory may change while it is written.
#[derive(Clone, Debug)]
pub(super) struct SavePlace {
    disk: Arc<dyn Disk>,
    /// The folder of the temporary files.
    folder: PathBuf,
    /// The path of the file.
    file: PathBuf,
}

impl SavePlace {
    /// This file, and temporary ones in this folder.
    pub(super) fn new(disk: Arc<dyn Disk>, folder: PathBuf, file: PathBuf) -> SavePlace {
        SavePlace { disk, folder, file }
    }

    /// The path of the file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// True while there is a file that is not whole yet.
    pub(super) fn has_unfinished(&self) -> bool {
        self.temp("").exists()
    }

    fn temp(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("temp-{}{kind}.rdb", std::process::id()))
    }

    /// The place that the configuration names, as the working directory is now.
    ///
    /// # Errors
    /// The working directory is gone.
    pub(super) fn of(config: &Config) -> io::Result<SavePlace> {
        let folder = std::env::current_dir()?;
        let file = folder.join(file_name(config));
        Ok(SavePlace::new(Arc::new(disk::System), folder, file))
    }
}

/// A file under its temporary name. Dropped, it is removed.
#[derive(Debug)]
struct TempFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// Bytes since the last sync; None if syncs wait for the end.
    unsynced: Option<u64>,
    kept: bool,
    /// Replicas are sent it while it is written: it has no name any more.
    sent: Option<Arc<SyncFile>>,
}

impl TempFile {
    /// Makes the file; with `syncs`, it is synced as it grows.
    fn create(place: &SavePlace, kind: &str, syncs: bool) -> io::Result<TempFile> {
        let path = place.temp(kind);
        let file = place.disk.create(&path)?;
        Ok(TempFile {
            disk: Arc::clone(&place.disk),
            path,
            file,
            unsynced: syncs.then_some(0),
            kept: false,
            sent: None,
        })
    }

    /// Takes the name of the file away: it is there as long as somebody has it, and sent to replicas with this mark behind it.
    fn send(&mut self, mark: String) -> io::Result<Arc<SyncFile>> {
        let file = Arc::new(SyncFile::growing(File::open(&self.path)?, mark));
        self.disk.remove(&self.path)?;
        (self.kept, self.sent) = (true, Some(Arc::clone(&file)));
        Ok(file)
    }

    /// Syncs the file, gives it its name in the place of the file that has it, and syncs the directory.
    fn keep_as(mut self, name: &Path) -> io::Result<()> {
        self.file.sync()?;
        self.disk.rename(&self.path, name)?;
        self.kept = true;
        // The name of a file outlives a crash of the machine once its directory is synced.
        self.disk.sync_dir(name.parent().unwrap_or(Path::new("/")))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.kept {
            // A file that cannot be removed could not be written either, and the log has said so.
            let _ = self.disk.remove(&self.path);
        }
        self.sent.iter().for_each(|sent| sent.end(Writing::Lost));
    }
}

impl Write for TempFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sent.iter().for_each(|sent| sent.grow(written as u64));
        if let Some(unsynced) = &mut self.unsynced {
            *unsynced += written as u64;
            if *unsynced >= SYNC_BYTES {
                *unsynced = 0;
                self.file.sync()?;
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The names of side files.
const SIDES: [&str; 2] = [".side", ".side2"];

/// A place for entries while a large string is written.
pub(super) struct Beside<'f> {
    place: &'f SavePlace,
    name: &'static str,
    file: &'f mut Option<TempFile>,
}

impl Beside<'_> {
    /// Writes some entries as they are and empties the buffer.
    pub(super) fn put(&mut self, entries: &mut RdbBuffer) -> io::Result<()> {
        self.open()?.write_all(entries.bytes())?;
        entries.clear();
        Ok(())
    }

    fn open(&mut self) -> io::Result<&mut TempFile> {
        if self.file.is_none() {
            *self.file = Some(TempFile::create(self.place, self.name, false)?);
        }
        Ok(self.file.as_mut().expect("it was made"))
    }
}

/// The file of a save, and its side files once there are any.
#[derive(Debug)]
pub(super) struct SaveFile {
    place: SavePlace,
    writer: Writer<TempFile>,
    /// The side file, and the one for what comes while a large string is written to the side file.
    sides: [Option<TempFile>; 2],
    compresses: bool,
    /// The entry of a long collection has begun, and its next part stands behind the last one.
    is_in_entry: bool,
}

impl SaveFile {
    /// Makes the file, empty.
    ///
    /// # Errors
    /// Those of the file system; so with all that write.
    pub(super) fn create(place: SavePlace, settings: &SaveSettings, syncs_as_it_grows: bool) -> io::Result<SaveFile> {
        let temp = TempFile::create(&place, "", syncs_as_it_grows)?;
        let writer = Writer::new(temp, settings.sums);
        Ok(SaveFile::of(place, writer, settings))
    }

    /// Makes a file without a name, empty, which replicas are sent while it is written, with this mark behind it.
    pub(super) fn sent(
        place: SavePlace,
        settings: &SaveSettings,
        mark: String,
    ) -> io::Result<(SaveFile, Arc<SyncFile>)> {
        let mut temp = TempFile::create(&place, ".sync", false)?;
        let sent = temp.send(mark)?;
        let writer = Writer::new(temp, settings.sums);
        Ok((SaveFile::of(place, writer, settings), sent))
    }

    fn of(place: SavePlace, writer: Writer<TempFile>, settings: &SaveSettings) -> SaveFile {
        SaveFile { place, writer, sides: [None, None], compresses: settings.compresses, is_in_entry: false }
    }

    /// Writes the header, with the version of the format, and the fields about the file.
    pub(super) fn begin(&mut self, version: u16, about: &mut RdbBuffer) -> io::Result<()> {
        self.writer.header(version)?;
        self.writer.put(about)
    }

    /// Writes some entries and empties the buffer: compressed, or if many wait as they are to the side file. That has
    /// whatever comes while an entry is written in parts as well.
    pub(super) fn put(&mut self, entries: &mut RdbBuffer, many_wait: bool) -> io::Result<()> {
        if !many_wait && !self.is_in_entry {
            return self.writer.put(entries);
        }
        let SaveFile { place, sides: [side, _], .. } = self;
        Beside { place, name: SIDES[0], file: side }.put(entries)
    }

    /// Writes the next part of the entry of a long collection and empties the buffer; with `goes_on`, another part follows.
    pub(super) fn put_part(&mut self, part: &mut RdbBuffer, many_wait: bool, goes_on: bool) -> io::Result<()> {
        self.is_in_entry = goes_on;
        if !many_wait {
            return self.writer.put(part);
        }
        self.writer.put_raw(part.bytes())?;
        part.clear();
        Ok(())
    }

    /// Writes the entry of a large string: what stands in front of its length, and its bytes, whose runs of zeros are
    /// compressed unless many wait. After some of them, at most some megabytes, `between` may write entries that have come meanwhile, or end the
    /// work by an error.
    pub(super) fn put_large(
        &mut self,
        head: &mut RdbBuffer,
        bytes: &dyn LargeText,
        many_wait: bool,
        between: &mut dyn FnMut(&mut Beside<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let compress = self.compresses && !many_wait;
        let SaveFile { place, writer, sides: [side, second], is_in_entry, .. } = self;
        let (mut side, mut second) =
            (Beside { place, name: SIDES[0], file: side }, Beside { place, name: SIDES[1], file: second });
        if *is_in_entry {
            let side = side.open()?;
            side.write_all(head.bytes())?;
            return put_large(bytes, compress, &mut |piece| {
                side.write_all(piece)?;
                between(&mut second)
            });
        }
        writer.put(head)?;
        put_large(bytes, compress, &mut |piece| {
            writer.put_raw(piece)?;
            between(&mut side)
        })
    }

    /// Removes what was written; how long that took. A file system that frees gigabytes takes its time.
    pub(super) fn give_up(self) -> Duration {
        let began = Instant::now();
        drop(self);
        began.elapsed()
    }

    /// Appends the side files, ends the file, and gives it its name, if it is to have one.
    pub(super) fn keep(self) -> io::Result<()> {
        let SaveFile { place, mut writer, sides, is_in_entry, .. } = self;
        debug_assert!(!is_in_entry, "an entry has all of its parts");
        for side in sides.iter().flatten() {
            let (mut from, mut bytes) = (place.disk.read(&side.path)?, vec![0; COPY_BYTES]);
            loop {
                match from.read(&mut bytes)? {
                    0 => break,
                    count => writer.put_raw(&bytes[..count])?,
                }
            }
        }
        drop(sides);
        let temp = writer.end()?;
        match &temp.sent {
            None => temp.keep_as(&place.file),
            Some(sent) => {
                sent.end(Writing::Whole);
                Ok(())
            }
        }
    }
}

/// The field about the file that names the database which the stream behind it has selected.
pub(super) const STREAM_DB: &[u8] = b"repl-stream-db";

/// The database that the field names.
pub(super) fn stream_db(value: &[u8]) -> Option<u32> {
    parse_i64(value).and_then(|db| u32::try_from(db).ok())
}

/// The place of the replication stream that a file has noted, if it has.
pub(super) fn stream_of(path: &Path) -> Option<StreamPlace> {
    let (mut reader, mut id, mut offset, mut db) = (Reader::new(File::open(path).ok()?), None, None, 0);
    loop {
        match reader.next_event().ok()? {
            Event::Aux { name: b"repl-id", value } => id = str::from_utf8(value).ok().map(str::to_owned),
            Event::Aux { name: b"repl-offset", value } => {
                offset = parse_i64(value).and_then(|at| u64::try_from(at).ok())
            }
            Event::Aux { name: STREAM_DB, value } => db = stream_db(value).unwrap_or(0),
            Event::Aux { .. } => {}
            // They stand in front of all else.
            _ => break,
        }
    }
    let (id, offset) = (id.filter(|id| id.len() == ID_DIGITS)?, offset?);
    Some(StreamPlace { id, offset, since: offset, db })
}

/// The name of the file that saves write and a start loads, in the working directory.
pub(super) fn file_name(config: &Config) -> PathBuf {
    path_of(&config.save.file)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use parking_lot::Mutex;
    use varve_base::rng::Rng;
    use varve_rdb::{Kind, format};

    use super::*;
    use crate::system::disk::failing::{Call, FailingDisk};

    #[test]
    fn a_file_that_is_not_kept_is_removed() {
        let folder = std::env::temp_dir();
        let place = SavePlace { disk: Arc::new(disk::System), file: folder.join("x.rdb"), folder };
        let temp = TempFile::create(&place, ".test", true).expect("a folder for temporary files");
        let path = temp.path.clone();
        assert!(path.exists());
        drop(temp);
        assert!(!path.exists());
    }

    const OLD: &[u8] = b"the file of before";

    /// A disk with a file of before, on which nothing is under way.
    fn disk() -> (FailingDisk, SavePlace) {
        let disk = FailingDisk::default();
        let place = SavePlace { disk: Arc::new(disk.clone()), folder: "/d".into(), file: "/d/dump.rdb".into() };
        let mut old = disk.create(&place.file).expect("no fault yet");
        assert_eq!(old.write(OLD).expect("no fault yet"), OLD.len());
        old.sync().expect("no fault yet");
        disk.sync_dir(&place.folder).expect("no fault yet");
        (disk, place)
    }

    fn entries(from: usize, count: usize) -> RdbBuffer {
        entries_in(RdbBuffer::new(true), from, count)
    }

    fn entries_in(mut buffer: RdbBuffer, from: usize, count: usize) -> RdbBuffer {
        for n in from..from + count {
            buffer.begin(Kind::String, format!("key {n}").as_bytes(), None, None);
            buffer.string(&[b'v'; 300]);
        }
        buffer
    }

    /// A string of this length, all of it one letter.
    struct Large(usize);

    impl LargeText for Large {
        fn len(&self) -> usize {
            self.0
        }

        fn next_written(&self, from: usize) -> Range<usize> {
            from..self.0
        }

        fn copy(&self, range: Range<usize>, to: &mut Vec<u8>) {
            to.extend(range.map(|_| b'l'));
        }
    }

    /// A save with all that there may be: entries, parts of one with others in between, a large string, a crowd.
    fn save(place: &SavePlace) -> io::Result<()> {
        let mut file = SaveFile::create(place.clone(), &Config::default().save, true)?;
        file.begin(format::VERSION, &mut RdbBuffer::new(false))?;
        file.put(&mut entries(0, 500), false)?;
        let mut part = RdbBuffer::new(false);
        part.begin(Kind::List, b"list", None, None);
        part.count(2);
        part.string(b"first");
        file.put_part(&mut part, false, true)?;
        file.put(&mut entries(500, 500), false)?;
        let mut head = RdbBuffer::new(false);
        head.begin(Kind::String, b"large", None, None);
        let string = Large(100_000);
        let mut beside = entries(2000, 20);
        file.put_large(&mut head, &string, false, &mut |side| side.put(&mut beside))?;
        part.string(b"second");
        file.put_part(&mut part, true, false)?;
        file.put(&mut entries(1000, 300), true)?;
        file.put(&mut entries(1300, 300), false)?;
        head.clear();
        head.begin(Kind::String, b"larger", None, None);
        let mut beside = entries(2020, 20);
        file.put_large(&mut head, &string, false, &mut |side| side.put(&mut beside))?;
        file.keep()
    }

    fn contents(disk: &FailingDisk, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        disk.read(Path::new(path)).ok()?.read_to_end(&mut bytes).expect("a disk in memory");
        Some(bytes)
    }

    /// The file of a save on a disk that does not fail, and the number of its calls.
    fn whole() -> (Vec<u8>, u64) {
        let (disk, place) = disk();
        let calls = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&calls);
        disk.set_fault(move |number, _| {
            count.store(number + 1, Relaxed);
            None
        });
        save(&place).expect("no fault");
        (contents(&disk, "/d/dump.rdb").expect("it is there"), calls.load(Relaxed))
    }

    #[test]
    fn entries_between_two_parts_of_another_one_or_of_a_large_string_stand_behind_it() {
        let (bytes, _) = whole();
        let mut reader = Reader::new(&bytes[..]);
        let (mut keys, mut parts) = (Vec::new(), Vec::new());
        loop {
            match reader.next_event().expect("a file that can be read") {
                Event::Key(head) => keys.push(head.key.to_vec()),
                Event::Part(varve_rdb::Part::Element(element)) => parts.push(element.to_vec()),
                Event::End => break,
                _ => {}
            }
        }
        assert_eq!((keys.len(), parts), (1643, vec![b"first".to_vec(), b"second".to_vec()]));
        assert_eq!(keys[500], b"list");
    }

    #[test]
    fn a_save_that_fails_at_any_call_leaves_the_old_file_and_no_other() {
        let (new, calls) = whole();
        for fails in 0..calls {
            let (disk, place) = disk();
            let failed = Arc::new(Mutex::new(None));
            let kind = Arc::clone(&failed);
            disk.set_fault(move |number, call| {
                (number == fails).then(|| {
                    *kind.lock() = Some(call);
                    io::Error::from_raw_os_error(libc::EIO)
                })
            });
            let saved = save(&place).is_ok();
            disk.heal();
            let failed = failed.lock().expect("the call was made");
            let now = contents(&disk, "/d/dump.rdb").expect("there always is one");
            // The side file may stay. Behind the sync of the directory the new file has its name already.
            assert_eq!(saved, failed == Call::Remove, "call {fails}");
            assert!(now == if saved || failed == Call::SyncDir { &new[..] } else { OLD }, "call {fails}");
            for side in SIDES {
                assert!(saved || contents(&disk, &temp(side)).is_none(), "call {fails}");
            }
            assert_eq!(contents(&disk, &temp("")), None, "call {fails}");
        }
    }

    fn temp(kind: &str) -> String {
        format!("/d/temp-{}{kind}.rdb", std::process::id())
    }

    #[test]
    fn a_crash_at_any_call_of_a_save_leaves_the_old_file_or_the_new_one_whole() {
        let (new, calls) = whole();
        let mut rng = Rng::seeded(7);
        let (mut old_ones, mut new_ones) = (0, 0);
        for ends in 0..=calls {
            for _ in 0..20 {
                let (disk, place) = disk();
                disk.set_fault(move |number, _| (number >= ends).then(|| io::Error::from_raw_os_error(libc::EIO)));
                let saved = save(&place).is_ok();
                let crashed = disk.crash(&mut rng);
                let now = contents(&crashed, "/d/dump.rdb").expect("there always is one");
                assert!(now == OLD || now == new, "a crash at call {ends} leaves {} bytes", now.len());
                assert!(!saved || now == new, "what was reported as saved is there");
                if now == new { new_ones += 1 } else { old_ones += 1 }
            }
        }
        assert!(old_ones > 20 && new_ones > 20, "{old_ones} and {new_ones}");
    }

    #[test]
    fn giving_up_a_save_takes_as_long_as_its_files_take_to_go() {
        let (disk, place) = disk();
        disk.set_fault(|_, call| {
            if call == Call::Remove {
                std::thread::sleep(Duration::from_millis(30));
            }
            None
        });
        let mut file = SaveFile::create(place, &Config::default().save, false).expect("no fault");
        file.begin(format::VERSION, &mut RdbBuffer::new(false)).expect("no fault");
        file.put(&mut entries(0, 100), true).expect("no fault");
        // The file and its side file.
        assert!(file.give_up() >= Duration::from_millis(60));
        assert_eq!((contents(&disk, &temp("")), contents(&disk, &temp(SIDES[0]))), (None, None));
    }

    #[test]
    fn a_disk_that_is_full_has_its_room_again() {
        let (new, _) = whole();
        for room in (OLD.len()..new.len()).step_by(new.len() / 23) {
            let (disk, place) = disk();
            disk.set_room(Some(room));
            let error = save(&place).expect_err("there is no room");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert!(contents(&disk, "/d/dump.rdb").expect("it is there") == OLD);
            assert_eq!(contents(&disk, &temp("")), None);
        }
    }

    /// `rdb-save-incremental-fsync`, and `aof-rewrite-incremental-fsync` of a base: the disk is not given all of a file at its
    /// end, where a sync of gigabytes would hold up those of the append-only file.
    #[test]
    fn issue_13_a_file_is_synced_as_it_grows_if_that_is_wanted() {
        let syncs = |syncs_as_it_grows: bool| {
            let (disk, place) = disk();
            let calls = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&calls);
            disk.set_fault(move |_, call| {
                count.fetch_add(u64::from(call == Call::Sync), Relaxed);
                None
            });
            let save = Config::default().save;
            let mut file = SaveFile::create(place, &save, syncs_as_it_grows).expect("no fault");
            file.begin(format::VERSION, &mut RdbBuffer::new(false)).expect("no fault");
            for part in 0..40 {
                file.put(&mut entries_in(RdbBuffer::new(false), part * 1000, 1000), false).expect("no fault");
            }
            let bytes = 40 * 1000 * 300;
            let early = calls.load(Relaxed);
            file.keep().expect("no fault");
            (early, calls.load(Relaxed) - early, bytes / SYNC_BYTES)
        };
        let (early, at_end, spans) = syncs(true);
        assert!((spans..=spans + 1).contains(&early) && at_end == 1, "{early} syncs of {spans}, {at_end}");
        assert_eq!(syncs(false), (0, 1, spans));
    }
}
