//! Being a service: the pid file, and telling the supervisor how far the start is.
//!
//! systemd listens on the datagram socket that `NOTIFY_SOCKET` names (a leading `@` stands for Linux's abstract
//! namespace); upstart waits for the process to stop itself. Not here: leaving the terminal (`sys::daemonize`).

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

use crate::config::{Config, Supervised};
use crate::system::error_text;

/// Where the pid goes when nobody says and the process is a daemon.
const DEFAULT_PID_FILE: &str = "/var/run/varve.pid";

/// The file that holds this process's id.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes the pid file that the configuration asks for, if any. Failing to is logged and no more, as in Redis.
    pub(crate) fn write(config: &Config) -> Option<PidFile> {
        let asked = config.pid_file.as_deref();
        let path = asked.or(config.daemonize.then_some(Path::new(DEFAULT_PID_FILE)))?;
        // The working directory may change later.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Some(PidFile(path)),
            Err(error) => {
                tracing::warn!("Failed to write the pid file {}: {}", path.display(), error_text(&error));
                None
            }
        }
    }

    /// Removes the file; the process is about to end.
    pub(crate) fn remove(&self) {
        // Whoever removed it before us did what we want.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The supervisor that waits to be notified of the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Supervisor {
    None,
    /// The address of its socket.
    Systemd(String),
    Upstart,
}

impl Supervisor {
    /// Finds the supervisor that the configuration allows and the environment shows.
    pub(crate) fn find(mode: Supervised) -> Supervisor {
        Supervisor::among(mode, std::env::var("NOTIFY_SOCKET").ok(), std::env::var_os("UPSTART_JOB").is_some())
    }

    fn among(mode: Supervised, socket: Option<String>, upstart: bool) -> Supervisor {
        match (mode, socket) {
            (Supervised::Upstart | Supervised::Auto, _) if upstart => Supervisor::Upstart,
            (Supervised::Systemd | Supervised::Auto, Some(socket)) => Supervisor::Systemd(socket),
            (Supervised::Systemd, None) => {
                tracing::warn!("systemd supervision requested or auto-detected, but NOTIFY_SOCKET not set");
                Supervisor::None
            }
            (Supervised::Upstart, _) => {
                tracing::warn!("upstart supervision requested, but UPSTART_JOB not set");
                Supervisor::None
            }
            _ => Supervisor::None,
        }
    }

    /// Its name in INFO.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Supervisor::None => "no",
            Supervisor::Systemd(_) => "systemd",
            Supervisor::Upstart => "upstart",
        }
    }

    /// Says that the server accepts connections.
    pub(crate) fn ready(&self) {
        match self {
            Supervisor::None => {}
            Supervisor::Systemd(_) => self.tell("STATUS=Ready to accept connections\nREADY=1\n"),
            Supervisor::Upstart => {
                tracing::info!("supervised by upstart, will stop to signal readiness");
                if let Err(error) = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP) {
                    tracing::warn!("Cannot stop for upstart: {}", error_text(&error));
                }
            }
        }
    }

    /// Says that the server is on its way out.
    pub(crate) fn stopping(&self) {
        if matches!(self, Supervisor::Systemd(_)) {
            self.tell("STOPPING=1\n");
        }
    }

    fn tell(&self, message: &str) {
        let Supervisor::Systemd(address) = self else { return };
        if let Err(error) = send(address, message) {
            tracing::warn!("Can't send notification to systemd: {}", error_text(&error));
        }
    }
}

fn send(address: &str, message: &str) -> io::Result<()> {
    let address = match address.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Supervisor;
    use crate::config::Supervised;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    #[test]
    fn auto_takes_what_the_environment_shows() {
        let socket = || Some("/run/notify".to_owned());
        assert_eq!(Supervisor::among(Supervised::Auto, None, false), Supervisor::None);
        assert_eq!(Supervisor::among(Supervised::Auto, socket(), true), Supervisor::Upstart);
        assert_eq!(Supervisor::among(Supervised::Systemd, socket(), true).name(), "systemd");
        assert_eq!(Supervisor::among(Supervised::No, socket(), true), Supervisor::None);
        assert_eq!(Supervisor::among(Supervised::Upstart, socket(), false), Supervisor::None);
    }

    #[test]
    fn systemd_hears_that_the_server_is_ready() {
        let name = format!("varve-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let socket = UnixDatagram::bind_addr(&address).expect("a free name");
        Supervisor::Systemd(format!("@{name}")).ready();
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).expect("the message that was just sent");
        assert_eq!(&buffer[..length], b"STATUS=Ready to accept connections\nREADY=1\n");
    }
}
