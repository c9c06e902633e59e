//! Files that are written anew: a reader finds the old text or the new one, whole.
//!
//! ```text
//!   NAME.PID.tmp  written, synced, with the old file's permissions --rename--> NAME
//! ```
//! Such files have passwords in them: one that was not there before is its owner's alone.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Puts `text` in the place of the file at `path`, whole or not at all, with the old file's permissions.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let written = write_new(&temporary, path, text).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The error that matters is the first one; a leftover file is harmless.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn write_new(temporary: &Path, model: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
    if let Ok(metadata) = std::fs::metadata(model) {
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}
