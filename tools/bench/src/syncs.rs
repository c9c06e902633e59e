//! How often a server syncs, counted from outside: a library of ours stands before the system's (`shim/syncs.c`). No server
//! says it of itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use varve_testkit::Launch;

/// A library that counts the syncs of the servers which are started with it.
#[derive(Debug)]
pub(crate) struct Syncs {
    folder: PathBuf,
}

impl Syncs {
    /// Compiles the library.
    ///
    /// # Errors
    /// There is no C compiler, or no room.
    pub(crate) fn new() -> io::Result<Syncs> {
        let syncs = Syncs { folder: std::env::temp_dir().join(format!("varve-syncs-{}", std::process::id())) };
        fs::create_dir_all(&syncs.folder)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/syncs.c");
        let status =
            Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).arg(syncs.library()).arg(source).status()?;
        if status.success() {
            Ok(syncs)
        } else {
            Err(io::Error::other("the library that counts syncs does not compile"))
        }
    }

    /// The server is started with the library before the system's.
    pub(crate) fn under(&self, launch: Launch) -> Launch {
        let [library, log] = [self.library(), self.log()].map(|path| path.display().to_string());
        launch.under(["env".to_owned(), format!("LD_PRELOAD={library}"), format!("VARVE_SYNCS={log}")])
    }

    /// Syncs of all servers that were started with it, until now.
    pub(crate) fn count(&self) -> u64 {
        fs::metadata(self.log()).map_or(0, |log| log.len())
    }

    fn library(&self) -> PathBuf {
        self.folder.join("syncs.so")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Syncs {
    fn drop(&mut self) {
        // A folder that is left lies among other temporary ones.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under `always` a client that waits for each reply has each of its writes synced by itself.
    #[test]
    fn each_sync_counts_once() {
        let syncs = Syncs::new().expect("a C compiler");
        let server = syncs.under(Launch::peer().config("appendonly yes").config("appendfsync always"));
        let server = server.start().expect("redis-server starts");
        let (mut client, before) = (server.client(), syncs.count());
        for _ in 0..10 {
            client.cmd("SET key value");
        }
        assert_eq!(syncs.count() - before, 10);
    }
}
