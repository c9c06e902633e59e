//! Where an append-only file lies: its folder, the paths of its files, its manifest on disk.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use varve_aof::{Entry, Form, Manifest, Names};

use crate::config::{Config, path_of};
use crate::system::disk::{Disk, DiskFile, System};
use crate::system::error_text;

/// Bytes of one write at most.
pub(super) const WRITE_BYTES_MAX: usize = 16 << 20;

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
    pub(in super::super) fn of(config: &Config) -> io::Result<Place> {
        let folder = std::path::absolute(path_of(&config.append.dir))?;
        Ok(Place { disk: Arc::new(System), folder, name: config.append.file.clone() })
    }

    /// The folder in which its folder is.
    pub(super) fn parent(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// Makes the folder, unless it is there; its name outlives a crash of the machine.
    pub(super) fn make_folder(&self) -> io::Result<()> {
        self.disk.make_dir(&self.folder)?;
        self.disk.sync_dir(self.parent())
    }

    pub(super) fn names(&self) -> Names<'_> {
        Names(&self.name)
    }

    /// The path of a file of this name.
    pub(super) fn path(&self, name: &[u8]) -> PathBuf {
        self.folder.join(path_of(name))
    }

    /// Has the manifest that was read outlive a crash. Whoever gave it its name may not have synced that, and the manifest that
    /// a crash would bring back may list files whose names are given to new ones next.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.disk.sync_dir(&self.folder)
    }

    /// Writes a manifest into the place of the one that is there.
    pub(super) fn save(&self, manifest: &Manifest) -> io::Result<()> {
        self.stage(manifest)?;
        self.publish(manifest)
    }

    /// Writes a manifest beside the one that is there, and syncs it and the names of the files that it lists: a crash may
    /// keep a later change of the folder and lose an earlier one that was not synced.
    ///
    /// # Errors
    /// The disk's: the manifest on disk is the old one.
    pub(super) fn stage(&self, manifest: &Manifest) -> io::Result<()> {
        // A manifest that lists nothing is none that can be read.
        if !manifest.is_empty() {
            let mut file = self.disk.create(&self.path(&self.names().new_manifest()))?;
            write_all(&mut *file, &manifest.text())?;
            file.sync()?;
        }
        self.disk.sync_dir(&self.folder)
    }

    /// Has a manifest that was staged take the place of the one that is there.
    ///
    /// # Errors
    /// The disk's: the manifest on disk is the old one or the new one.
    pub(super) fn publish(&self, manifest: &Manifest) -> io::Result<()> {
        let (names, path) = (self.names(), self.path(&self.names().manifest()));
        if !manifest.is_empty() {
            self.disk.rename(&self.path(&names.new_manifest()), &path)?;
        } else if let Err(error) = self.disk.remove(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        self.disk.sync_dir(&self.folder)
    }

    /// Has a base take its name and the place of all files of the manifest that is on disk, which nobody appends to.
    ///
    /// # Errors
    /// The disk's: the base may count all the same.
    pub(super) fn replace_all(
        &self,
        mut manifest: Manifest,
        temp: &Path,
        form: Form,
        keeps_history: bool,
    ) -> io::Result<()> {
        self.settle()?;
        let entry = manifest.next_base(self.names(), form);
        self.disk.rename(temp, &self.path(&entry.name))?;
        manifest.replace_base(entry, u64::MAX);
        self.save(&manifest)?;
        if !keeps_history {
            self.remove(&manifest.take_history(|_| false));
            self.save(&manifest)?;
        }
        Ok(())
    }

    /// Removes files; what cannot be removed is only logged. The system gives their room back when the handles that are
    /// given go, which may take it long.
    pub(super) fn remove(&self, entries: &[Entry]) -> Vec<Box<dyn Read + Send>> {
        let mut handles = Vec::new();
        for entry in entries {
            let path = self.path(&entry.name);
            handles.extend(self.disk.read(&path));
            match self.disk.remove(&path) {
                Ok(()) => tracing::info!("Removing the history file {} in the background", shown(&entry.name)),
                Err(error) => tracing::warn!("Removing {}: {}", shown(&entry.name), error_text(&error)),
            }
        }
        handles
    }

    /// Bytes of these files that count; 0 for one that is not there.
    pub(super) fn bytes(&self, entries: &[&Entry]) -> u64 {
        let bytes = |entry: &&Entry| entry.length.or_else(|| self.disk.size(&self.path(&entry.name)).ok());
        entries.iter().filter_map(bytes).sum()
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
