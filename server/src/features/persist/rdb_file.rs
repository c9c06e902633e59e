//! A file that is whole or not there: written under another name, synced, renamed, its directory synced.
//!
//! ```text
//!   temp-PID.rdb       header, pieces ........... side file, end --sync--> --rename--> dump.rdb --sync of the directory-->
//!   temp-PID.side.rdb       pieces while many wait ---^
//!        any failure: both removed, and dump.rdb is the old one
//! ```
//! Compressing a piece takes several times as long as writing it. While many wait, they go to the side file as they are.
//! Not here: what is written (`state/snapshot.rs`), who waits for it (`save.rs`).

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use varve_rdb::{RdbBuffer, Writer, format};

use crate::config::{Config, SaveSettings, path_of};

/// Bytes after which what was written is synced, where that is done on the way: a sync at the end of gigabytes keeps
/// everybody waiting who writes to the same disk.
const SYNC_BYTES: u64 = 4 << 20;

/// Bytes of the side file that are copied at once.
const COPY_BYTES: usize = 256 << 10;

/// A file under its temporary name. Dropped, it is removed.
#[derive(Debug)]
struct TempFile {
    path: PathBuf,
    file: File,
    /// Bytes since the last sync; None if syncs wait for the end.
    unsynced: Option<u64>,
    kept: bool,
}

impl TempFile {
    /// Makes the file in the working directory; with `syncs`, it is synced as it grows.
    fn create(kind: &str, syncs: bool) -> io::Result<TempFile> {
        let path = PathBuf::from(format!("temp-{}{kind}.rdb", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        Ok(TempFile { path, file, unsynced: syncs.then_some(0), kept: false })
    }

    /// Syncs the file, gives it its name in the place of the file that has it, and syncs the directory.
    fn keep_as(mut self, name: &Path) -> io::Result<()> {
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

/// The file of a save, and its side file once there is one.
pub(super) struct SaveFile {
    writer: Writer<TempFile>,
    side: Option<TempFile>,
    /// The entry that the next piece continues stands in the side file.
    in_side: bool,
    /// The next piece continues the last one.
    goes_on: bool,
}

impl SaveFile {
    /// Makes the file, empty.
    ///
    /// # Errors
    /// Those of the file system; so with all that write.
    pub(super) fn create(settings: &SaveSettings, syncs_as_it_grows: bool) -> io::Result<SaveFile> {
        let temp = TempFile::create("", syncs_as_it_grows)?;
        Ok(SaveFile { writer: Writer::new(temp, settings.sums), side: None, in_side: false, goes_on: false })
    }

    /// Writes the header and the fields about the file.
    pub(super) fn begin(&mut self, about: &mut RdbBuffer) -> io::Result<()> {
        self.writer.header(format::VERSION)?;
        self.writer.put(about)
    }

    /// Writes a piece and empties it: compressed, or if many wait as it is to the side file. A piece that continues
    /// another one goes where that went.
    pub(super) fn put(&mut self, piece: &mut RdbBuffer, many_wait: bool, goes_on: bool) -> io::Result<()> {
        self.in_side = if self.goes_on { self.in_side } else { many_wait };
        self.goes_on = goes_on;
        if !self.in_side {
            return self.writer.put(piece);
        }
        let side = match &mut self.side {
            Some(side) => side,
            None => self.side.insert(TempFile::create(".side", false)?),
        };
        side.write_all(piece.bytes())?;
        piece.clear();
        Ok(())
    }

    /// Writes the bytes of a large string behind the piece that ends with its head.
    pub(super) fn put_large(&mut self, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(self.goes_on, "its head has been written");
        self.goes_on = false;
        match &mut self.side {
            Some(side) if self.in_side => side.write_all(bytes),
            _ => self.writer.put_raw(bytes),
        }
    }

    /// Appends the side file, ends the file, and gives it its name.
    pub(super) fn keep_as(self, name: &Path) -> io::Result<()> {
        let SaveFile { mut writer, side, .. } = self;
        if let Some(mut side) = side {
            side.file.rewind()?;
            let mut bytes = vec![0; COPY_BYTES];
            loop {
                match side.file.read(&mut bytes)? {
                    0 => break,
                    count => writer.put_raw(&bytes[..count])?,
                }
            }
        }
        writer.end()?.keep_as(name)
    }
}

/// The name of the file that saves write and a start loads, in the working directory.
pub(super) fn file_name(config: &Config) -> PathBuf {
    path_of(&config.save.file)
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
        let temp = TempFile::create(".test", true).expect("the working directory of tests is writable");
        let path = temp.path.clone();
        assert!(path.exists());
        drop(temp);
        assert!(!path.exists());
    }
}
