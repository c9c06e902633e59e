//! The append-only file of a server, as tests see it: the folder that outlives its servers, and the ends of rewrites.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use varve_testkit::{Client, Launch, Server};

use crate::folder::Folder;

/// How long a test waits for a rewrite.
const LIMIT: Duration = Duration::from_secs(60);

impl Folder {
    /// A server that keeps its append-only file there.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start(&self, launch: Launch) -> Server {
        let launch = launch.config(self.line()).config("appendonly yes");
        launch.start().expect("the server starts")
    }

    /// The lines of the manifest.
    ///
    /// # Panics
    /// There is none.
    #[must_use]
    pub fn manifest(&self) -> String {
        fs::read_to_string(self.path().join("appendonlydir/appendonly.aof.manifest")).expect("a manifest")
    }

    /// The file that is appended to last.
    ///
    /// # Panics
    /// There is none.
    #[must_use]
    pub fn last_increment(&self) -> PathBuf {
        let manifest = self.manifest();
        let line = manifest.lines().rfind(|line| line.ends_with(" type i")).expect("an increment");
        self.path().join("appendonlydir").join(line.split(' ').nth(1).expect("a name"))
    }
}

/// The digest of all data.
///
/// # Panics
/// The server is gone.
#[must_use]
pub fn digest(server: &Server) -> String {
    server.client().cmd("DEBUG DIGEST").text()
}

/// The value of a field of INFO persistence.
///
/// # Panics
/// There is none of this name.
pub fn field(client: &mut Client, name: &str) -> String {
    let info = client.cmd("INFO persistence").text();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {info}")).to_owned()
}

/// Waits until a field of INFO persistence has this value.
///
/// # Panics
/// It does not come to that.
pub fn wait_field(client: &mut Client, name: &str, value: &str) {
    let end = Instant::now() + LIMIT;
    while field(client, name) != value {
        assert!(Instant::now() < end, "{name} is {} and not {value}", field(client, name));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until no rewrite is under way or scheduled.
///
/// # Panics
/// It does not come to that.
pub fn wait_rewrite(client: &mut Client) {
    let end = Instant::now() + LIMIT;
    let goes_on = |info: &str| info.contains("aof_rewrite_in_progress:1") || info.contains("aof_rewrite_scheduled:1");
    while goes_on(&client.cmd("INFO persistence").text()) {
        assert!(Instant::now() < end, "{}", client.cmd("INFO persistence").text());
        std::thread::sleep(Duration::from_millis(5));
    }
}
