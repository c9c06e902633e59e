//! The process as others on the machine see it: its title, and its weight for the system's killer.
//!
//! Both follow the settings: at the start, and at CONFIG SET. Not here: pid file and supervisor (process/daemon.rs).

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use crate::config::{Config, OomScore, TitleFacts, title};
use crate::system::{oom_score, sys};

/// The part of a title that does not change.
#[derive(Debug)]
struct Started {
    /// The name under which the program was started.
    name: String,
    /// The configuration's file, empty for none.
    config_file: String,
}

static STARTED: OnceLock<Started> = OnceLock::new();

/// Takes on the identity that the settings ask for. `file` is the configuration's. The process has one thread, and has not
/// shown a title yet.
pub(crate) fn start(config: &Config, file: Option<&Path>) {
    let name = std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
    let config_file = file.map(|path| path.display().to_string()).unwrap_or_default();
    // A second start in one process keeps the first name.
    let _ = STARTED.set(Started { name, config_file });
    sys::title::prepare();
    show(config);
    // The log has said why it fails, and the server does without, as redis-server.
    let _ = weigh(config);
}

/// Shows the title that the settings ask for.
pub(crate) fn show(config: &Config) {
    let (Some(template), Some(started)) = (&config.process.title, STARTED.get()) else { return };
    let socket = config.unix_socket.as_ref().map(|path| path.display().to_string());
    let facts = TitleFacts {
        title: &started.name,
        address: config.bind.first().map_or("", String::as_str),
        port: config.port,
        tls_port: config.tls.port,
        unix_socket: &socket.unwrap_or_default(),
        config_file: &started.config_file,
    };
    // A template that says nothing today leaves the title as it is.
    if let Some(text) = title(template, &facts) {
        sys::title::set(&text);
    }
}

/// Gives the process the weight that the settings ask for: that of a primary.
///
/// # Errors
/// The system's, which the log says.
pub(crate) fn weigh(config: &Config) -> io::Result<()> {
    let weight = |score: OomScore| oom_score::Weight { value: score.values[0], relative: score.relative };
    oom_score::set(config.process.oom_score.map(weight))
}
