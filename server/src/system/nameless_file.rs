//! Files without a name: they are there as long as somebody has them open, and go with the process at the latest.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use varve_base::shared::SharedMutex;

/// Held while a file has a name: another thread would take that file for its own, or away.
static NAMED: SharedMutex<()> = SharedMutex::new(());

/// Makes a file in `folder`, empty, to be written and read. It has a name of this `kind` for a moment.
///
/// # Errors
/// Those of the file system.
pub(crate) fn create(folder: &Path, kind: &str) -> io::Result<File> {
    let path = folder.join(format!("temp-{}.{kind}", std::process::id()));
    let _named = NAMED.lock();
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::thread;

    use super::*;

    #[test]
    fn threads_get_files_of_their_own() {
        let make = || {
            let folder = std::env::temp_dir();
            (0..200).map(|_| create(&folder, "test").expect("a file")).collect::<Vec<_>>()
        };
        let files: Vec<File> = thread::scope(|scope| {
            let threads = [0; 4].map(|_| scope.spawn(make));
            threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
        });
        for file in &files {
            assert_eq!(file.metadata().expect("its data").nlink(), 0, "it has no name");
            assert_eq!(file.write_at(b"x", file.metadata().expect("its data").len()).expect("room"), 1);
        }
        assert!(files.iter().all(|file| file.metadata().expect("its data").len() == 1), "each is written by one");
    }
}
