//! A disk in memory for tests: it fails when it is asked to, and crashes as file systems may.
//!
//! ```text
//!   file    bytes now | bytes when it was synced last             after a failed sync the pages count as clean: what was
//!   folder  names now | names when it was synced last, changes    written and not synced may be there or not, for ever
//!   crash   file: a synced prefix, and of each 4 KB page behind it the bytes or zeros; its length as of any write since
//!           folder: the synced names, and any of the changes since: a later one may outlive an earlier one
//! ```
//! Not here: several folders in a tree; a path is a name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use varve_base::rng::Rng;
use varve_base::shared::SharedMutex;

use super::{Disk, DiskFile};

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// A call that a disk may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Create,
    Write,
    Sync,
    SetLen,
    Rename,
    Remove,
    SyncDir,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Bytes whose sync has failed: those that the file has may be lost whatever is synced later.
    doubtful: Vec<Range<usize>>,
    /// Lengths that the file has had since it was synced.
    lengths: Vec<usize>,
}

type FileId = usize;

#[derive(Clone, Debug)]
enum Change {
    Link(PathBuf, FileId),
    /// From one name to another; the file is known even if its first name was never on disk.
    Rename(PathBuf, PathBuf, FileId),
    Remove(PathBuf),
}

/// Decides which calls fail: the number of the call, from 0, and its kind.
type Fault = Box<dyn FnMut(u64, Call) -> Option<io::Error> + Send>;

#[derive(Default)]
struct State {
    files: Vec<Contents>,
    names: BTreeMap<PathBuf, FileId>,
    synced_names: BTreeMap<PathBuf, FileId>,
    changes: Vec<Change>,
    calls: u64,
    fault: Option<Fault>,
    /// Bytes that all files may come to.
    room_bytes: Option<usize>,
    /// The disk behind each call that has changed it, if somebody records that.
    recorded: Option<Vec<FailingDisk>>,
}

/// See the module's picture.
#[derive(Clone, Default)]
pub(crate) struct FailingDisk(Arc<SharedMutex<State>>);

impl std::fmt::Debug for FailingDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FailingDisk").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Open {
    disk: FailingDisk,
    file: FileId,
}

impl FailingDisk {
    /// Has calls fail from now on as `fault` says; their numbers begin anew.
    pub(crate) fn set_fault(&self, fault: impl FnMut(u64, Call) -> Option<io::Error> + Send + 'static) {
        let mut state = self.0.lock();
        state.calls = 0;
        state.fault = Some(Box::new(fault));
    }

    /// All calls succeed from now on.
    pub(crate) fn heal(&self) {
        let mut state = self.0.lock();
        (state.calls, state.fault) = (0, None);
    }

    /// All files together may come to this number of bytes.
    pub(crate) fn set_room(&self, bytes: Option<usize>) {
        self.0.lock().room_bytes = bytes;
    }

    /// Keeps what the disk is behind each call that changes it, from now on.
    pub(crate) fn record(&self) {
        self.0.lock().recorded = Some(Vec::new());
    }

    /// The disks that were kept since the last time.
    pub(crate) fn recorded(&self) -> Vec<FailingDisk> {
        self.0.lock().recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A disk as a crash of the machine may leave this one.
    pub(crate) fn crash(&self, rng: &mut Rng) -> FailingDisk {
        let state = self.0.lock();
        let mut names = state.synced_names.clone();
        let lasting = state.changes.iter().filter(|_| rng.below(2) == 0);
        lasting.for_each(|change| apply(&mut names, change));
        let files: Vec<Contents> = state.files.iter().map(|file| file.after_crash(rng)).collect();
        FailingDisk(Arc::new(SharedMutex::new(State {
            files,
            names: names.clone(),
            synced_names: names,
            ..State::default()
        })))
    }

    /// True if a file has bytes whose sync has failed: a process that starts now cannot know that.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.0.lock().files.iter().any(|file| !file.doubtful.is_empty())
    }

    fn call(&self, call: Call) -> io::Result<parking_lot::MutexGuard<'_, State>> {
        let mut state = self.0.lock();
        let number = state.calls;
        state.calls += 1;
        match state.fault.as_mut().and_then(|fault| fault(number, call)) {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }

    /// A call has changed the disk.
    fn changed(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        let State { files, names, synced_names, changes, recorded, .. } = &mut *state;
        let Some(recorded) = recorded else { return };
        recorded.push(FailingDisk(Arc::new(SharedMutex::new(State {
            files: files.clone(),
            names: names.clone(),
            synced_names: synced_names.clone(),
            changes: changes.clone(),
            ..State::default()
        }))));
    }
}

impl Contents {
    fn after_crash(&self, rng: &mut Rng) -> Contents {
        if self.now == self.synced && self.doubtful.is_empty() {
            return Contents { lengths: Vec::new(), ..self.clone() };
        }
        let lengths: Vec<usize> = [self.synced.len(), self.now.len()].into_iter().chain(self.lengths.clone()).collect();
        let length = lengths[rng.below(lengths.len() as u64) as usize];
        let mut bytes = self.now[..length.min(self.now.len())].to_vec();
        bytes.extend_from_slice(self.synced.get(bytes.len()..length).unwrap_or_default());
        let same = bytes.iter().zip(&self.synced).take_while(|(a, b)| a == b).count();
        let mut at = same / PAGE_BYTES * PAGE_BYTES;
        while at < bytes.len() {
            let end = (at + PAGE_BYTES).min(bytes.len());
            if rng.below(3) == 0 {
                // The page as it was synced, and zeros behind that.
                for (place, byte) in bytes.iter_mut().enumerate().take(end).skip(at) {
                    *byte = self.synced.get(place).copied().unwrap_or(0);
                }
            }
            at = end;
        }
        for range in &self.doubtful {
            for at in range.clone().step_by(PAGE_BYTES) {
                let page = at.min(bytes.len())..range.end.min(at + PAGE_BYTES).min(bytes.len());
                if rng.below(3) == 0 {
                    bytes[page].fill(0);
                }
            }
        }
        Contents { now: bytes.clone(), synced: bytes, ..Contents::default() }
    }

    /// The file is cut.
    fn truncate(&mut self, bytes: usize) {
        self.now.truncate(bytes);
        self.lengths.push(self.now.len());
        self.doubtful.retain_mut(|range| {
            range.end = range.end.min(bytes);
            range.start < range.end
        });
    }
}

fn apply(names: &mut BTreeMap<PathBuf, FileId>, change: &Change) {
    match change {
        Change::Link(path, file) => _ = names.insert(path.clone(), *file),
        Change::Remove(path) => _ = names.remove(path),
        Change::Rename(from, to, file) => {
            names.remove(from);
            names.insert(to.clone(), *file);
        }
    }
}

impl State {
    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.changes.push(change);
    }

    fn find(&self, path: &Path) -> io::Result<FileId> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl DiskFile for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.call(Call::Write)?;
        let used: usize = state.files.iter().map(|file| file.now.len()).sum();
        let free = state.room_bytes.map_or(usize::MAX, |room| room.saturating_sub(used));
        if free == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let length = bytes.len().min(free);
        let file = &mut state.files[self.file];
        file.now.extend_from_slice(&bytes[..length]);
        file.lengths.push(file.now.len());
        self.disk.changed(state);
        Ok(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        let number = self.file;
        let mut state = self.disk.call(Call::Sync).inspect_err(|_| {
            let mut state = self.disk.0.lock();
            let file = &mut state.files[number];
            let unsynced = file.synced.len().min(file.now.len())..file.now.len();
            file.doubtful.extend((!unsynced.is_empty()).then_some(unsynced));
        })?;
        let file = &mut state.files[number];
        file.synced = file.now.clone();
        file.lengths.clear();
        self.disk.changed(state);
        Ok(())
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        let file = self.file;
        let mut state = self.disk.call(Call::SetLen)?;
        state.files[file].truncate(bytes as usize);
        self.disk.changed(state);
        Ok(())
    }
}

impl Disk for FailingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.call(Call::Create)?;
        let file = match state.names.get(path) {
            Some(&file) => {
                state.files[file].truncate(0);
                file
            }
            None => {
                state.files.push(Contents::default());
                let file = state.files.len() - 1;
                state.change(Change::Link(path.to_owned(), file));
                file
            }
        };
        self.changed(state);
        Ok(Box::new(Open { disk: self.clone(), file }))
    }

    fn append(&self, path: &Path) -> io::Result<(Box<dyn DiskFile>, u64)> {
        let state = self.call(Call::Create)?;
        let file = state.find(path)?;
        let length = state.files[file].now.len() as u64;
        Ok((Box::new(Open { disk: self.clone(), file }), length))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let state = self.0.lock();
        Ok(Box::new(Cursor::new(state.files[state.find(path)?].now.clone())))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let state = self.0.lock();
        Ok(state.files[state.find(path)?].now.len() as u64)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let state = self.0.lock();
        let inside = state.names.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| path.file_name()).map(ToOwned::to_owned).collect())
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        self.0.lock().find(path).map(|_| SystemTime::now())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call(Call::Rename)?;
        let file = state.find(from)?;
        state.change(Change::Rename(from.to_owned(), to.to_owned(), file));
        self.changed(state);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call(Call::Remove)?;
        state.find(path)?;
        state.change(Change::Remove(path.to_owned()));
        self.changed(state);
        Ok(())
    }

    fn make_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        let mut state = self.call(Call::SyncDir)?;
        state.synced_names = state.names.clone();
        state.changes.clear();
        self.changed(state);
        Ok(())
    }
}
