//! The calls that make files outlive a crash, behind a trait: the system's, and in tests a disk that fails.
//!
//! ```text
//!   create, append --> DiskFile: write, sync, set_len        sync_dir: names outlive a crash of the machine
//! ```
//! A crash of the machine leaves of each file what was synced, and any part of what was written since; of each
//! folder the names as they were when it was synced, and any of the changes since. Not here: mapping memory, sockets.

#[cfg(test)]
pub(crate) mod failing;

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::SystemTime;

/// A file that is being written. It grows at its end.
pub(crate) trait DiskFile: Send + Debug {
    /// Appends bytes, or a part of them; gives their number.
    ///
    /// # Errors
    /// The system's.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// All that was written outlives a crash of the machine. After an error nobody knows what does.
    ///
    /// # Errors
    /// The system's.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file; what is appended next stands there.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&mut self, bytes: u64) -> io::Result<()>;
}

/// A file system.
pub(crate) trait Disk: Send + Sync + Debug {
    /// A new file, or one that is emptied.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// A file that is there, to be appended to; and its length.
    ///
    /// # Errors
    /// The system's.
    fn append(&self, path: &Path) -> io::Result<(Box<dyn DiskFile>, u64)>;
    /// A file that is there, to be read from its front.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;
    /// Length of a file.
    ///
    /// # Errors
    /// The system's.
    fn size(&self, path: &Path) -> io::Result<u64>;
    /// The names of what is in a folder, in no order.
    ///
    /// # Errors
    /// The system's.
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>>;
    /// When a file was last written to.
    ///
    /// # Errors
    /// The system's.
    fn modified(&self, path: &Path) -> io::Result<SystemTime>;
    /// Gives a file another name, in the place of the file that has it.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder, unless it is there.
    ///
    /// # Errors
    /// The system's.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder outlive a crash of the machine.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// The system's.
#[derive(Debug)]
pub(crate) struct System;

impl DiskFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }
}

impl Disk for System {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // Appending: what is written stands at the end, also when the file was cut.
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        file.set_len(0)?;
        Ok(Box::new(file))
    }

    fn append(&self, path: &Path) -> io::Result<(Box<dyn DiskFile>, u64)> {
        let file = OpenOptions::new().append(true).open(path)?;
        let length = file.metadata()?.len();
        Ok((Box::new(file), length))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(path)?))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        fs::metadata(path)?.modified()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result,
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
