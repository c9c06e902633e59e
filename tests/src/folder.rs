//! A folder of a test.

use std::fs;
use std::path::{Path, PathBuf};

/// A folder that outlives its servers, and is removed with the test.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A folder for the test of this name.
    ///
    /// # Panics
    /// The system makes none.
    #[must_use]
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-test-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The setting of a server that has its files there.
    #[must_use]
    pub fn line(&self) -> String {
        format!("dir {}", self.0.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
