//! A file that is whole or not there: written under another name, synced, renamed, its directory synced.
//!
//! ```text
//!   temp-PID.rdb  --header, pieces--> --sync--> --rename--> dump.rdb --sync of the directory-->
//!        any failure: removed, and dump.rdb is the old one
//! ```
//! Not here: what is written (`state/snapshot.rs`), who waits for it (`save.rs`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes after which what was written is synced, where that is done on the way: a sync at the end of gigabytes keeps
/// everybody waiting who writes to the same disk.
const SYNC_BYTES: u64 = 4 << 20;

/// A file under its temporary name. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct TempFile {
    path: PathBuf,
    file: File,
    /// Bytes since the last sync; None if syncs wait for the end.
    unsynced: Option<u64>,
    kept: bool,
}

impl TempFile {
    /// Makes the file in the working directory; with `syncs`, it is synced as it grows.
    pub(super) fn create(syncs: bool) -> io::Result<TempFile> {
        let path = PathBuf::from(format!("temp-{}.rdb", std::process::id()));
        let file = File::create(&path)?;
        Ok(TempFile { path, file, unsynced: syncs.then_some(0), kept: false })
    }

    /// Syncs the file, gives it its name in the place of the file that has it, and syncs the directory.
    pub(super) fn keep_as(mut self, name: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, name)?;
        self.kept = true;
        sync_directory(name)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.kept {
            // A file that cannot be removed could not be written either, and the log has said so.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Write for TempFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        if let Some(unsynced) = &mut self.unsynced {
            *unsynced += written as u64;
            if *unsynced >= SYNC_BYTES {
                *unsynced = 0;
                self.file.sync_data()?;
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The name of a file outlives a crash of the machine once its directory is synced.
fn sync_directory(name: &Path) -> io::Result<()> {
    let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_kept_is_removed() {
        let temp = TempFile::create(true).expect("the working directory of tests is writable");
        let path = temp.path.clone();
        assert!(path.exists());
        drop(temp);
        assert!(!path.exists());
    }
}
