//! Lines for the system's log, by its socket.
//!
//! ```text
//!   <134>Nov 21 02:29:54 varve[4711]: Ready to accept connections
//!   facility * 8 + severity, local time, ident, pid
//! ```
//! The C library's own function would need `unsafe` and keeps state of the process. A line that the socket does not take at
//! once is lost: a log that stands still stops no worker.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use varve_base::shared::SharedMutex;

/// Where the system's log listens.
const SOCKET: &str = "/dev/log";

/// How much a line matters, as the protocol counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Warning = 4,
    Notice = 5,
    Info = 6,
    Debug = 7,
}

/// A way to the system's log.
#[derive(Debug)]
pub(crate) struct Syslog {
    path: PathBuf,
    ident: String,
    /// The facility's number.
    facility: u8,
    /// None: it is opened for the next line.
    socket: SharedMutex<Option<UnixDatagram>>,
}

impl Syslog {
    /// The system's log.
    pub(crate) fn new(ident: &str, facility: u8) -> Syslog {
        Syslog::at(Path::new(SOCKET), ident, facility)
    }

    fn at(path: &Path, ident: &str, facility: u8) -> Syslog {
        Syslog { path: path.to_owned(), ident: ident.to_owned(), facility, socket: SharedMutex::new(None) }
    }

    /// Sends a line. `date` has the form `Nov 21 02:29:54`.
    pub(crate) fn send(&self, severity: Severity, date: &str, message: &str) {
        let priority = u32::from(self.facility) * 8 + severity as u32;
        let line = format!("<{priority}>{date} {}[{}]: {message}", self.ident, std::process::id());
        let mut socket = self.socket.lock();
        // The log's daemon may have been started anew: one more try.
        for _ in 0..2 {
            if socket.is_none() {
                *socket = self.open();
            }
            match socket.as_ref().map(|open| open.send(line.as_bytes())) {
                Some(Err(error)) if error.kind() != std::io::ErrorKind::WouldBlock => *socket = None,
                _ => return,
            }
        }
    }

    fn open(&self) -> Option<UnixDatagram> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        socket.connect(&self.path).ok()?;
        Some(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::{Severity, Syslog};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn lines_reach_a_log_that_was_started_anew() {
        let path = std::env::temp_dir().join(format!("varve-syslog-{}", std::process::id()));
        let log = Syslog::at(&path, "varve", 16);
        log.send(Severity::Notice, "Nov 21 02:29:54", "nobody is there");
        for _ in 0..2 {
            let daemon = UnixDatagram::bind(&path).unwrap();
            log.send(Severity::Warning, "Nov 21 02:29:54", "a line");
            let mut room = [0; 100];
            let count = daemon.recv(&mut room).unwrap();
            let expected = format!("<132>Nov 21 02:29:54 varve[{}]: a line", std::process::id());
            assert_eq!(String::from_utf8_lossy(&room[..count]), expected);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
