//! Files without a name: they are there as long as somebody has them open, and go with the process at the latest.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Makes a file in `folder`, empty, to be written and read. It has a name of this `kind` for a moment, which no other thread
/// makes at that time.
///
/// # Errors
/// Those of the file system.
pub(crate) fn create(folder: &Path, kind: &str) -> io::Result<File> {
    let path = folder.join(format!("temp-{}.{kind}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
