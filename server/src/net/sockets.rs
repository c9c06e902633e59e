//! The sockets that a running server listens on, and their change by CONFIG SET.
//!
//! ```text
//!   CONFIG SET port, tls-port
//!                          open the new sockets, then close the old ones: a port that is taken changes nothing
//!   CONFIG SET bind        close the old ones first (`*` and one address cannot both be listened on), then open the
//!                          new; if that fails, open the old again
//!   the acceptor           accepts, with the lock held; a change registers new sockets with its poll
//! ```
//! The Unix socket stays as it is: its path cannot be changed. Not here: making sockets (listen.rs), accepting
//! (worker/accept.rs).

use std::io;
use std::path::Path;

use mio::{Registry, Token, Waker};
use parking_lot::MutexGuard;
use varve_base::shared::SharedMutex;

use crate::config::Config;
use crate::net::listen::{self, Door, Listener, Wanted};
use crate::system::error_text;

/// See the module's picture. The lock is a leaf: who holds it takes nothing more.
#[derive(Debug)]
pub(crate) struct Sockets {
    open: SharedMutex<Vec<Listener>>,
    registry: Registry,
    token: Token,
    waker: Waker,
}

impl Sockets {
    /// Listens on `listeners`: events come to the poll of `registry` under `token`. `waker` wakes that poll.
    ///
    /// # Errors
    /// When the poll does not take them.
    pub(crate) fn new(registry: Registry, token: Token, waker: Waker, listeners: Vec<Listener>) -> io::Result<Sockets> {
        let sockets = Sockets { open: SharedMutex::default(), registry, token, waker };
        sockets.add(&mut sockets.open.lock(), listeners)?;
        Ok(sockets)
    }

    /// The sockets, which do not change as long as this is held.
    pub(crate) fn open(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.open.lock()
    }

    /// Goes from the TCP sockets of one configuration to those of another, or leaves them; the error says why, and of which
    /// door.
    pub(crate) fn change(&self, old: &Config, new: &Config) -> Result<(), (Door, String)> {
        let close_first = old.bind != new.bind;
        // Before the lock, for which the acceptor would wait, and before any socket is closed: names may take seconds.
        let addresses = listen::addresses(new).map_err(|error| (Door::Plain, error))?;
        let back = if close_first { listen::addresses(old) } else { Ok(Vec::new()) };
        let mut open = self.open.lock();
        let changes = |door: &Door| close_first || door.port(old) != door.port(new);
        let doors: Vec<Door> = Door::ALL.into_iter().filter(changes).collect();
        let close = |open: &mut Vec<Listener>| open.retain(|listener| !is_of(listener, &doors));
        if close_first {
            close(&mut open);
        }
        match of_doors(&doors, new, &addresses) {
            Ok(listeners) => {
                // Closing a socket takes it out of the poll.
                close(&mut open);
                self.add(&mut open, listeners).map_err(|error| (Door::Plain, error_text(&error)))
            }
            Err(error) => {
                if close_first {
                    let back = back
                        .and_then(|addresses| of_doors(&doors, old, &addresses).map_err(|(_, error)| error))
                        .and_then(|sockets| self.add(&mut open, sockets).map_err(|error| error_text(&error)));
                    back.unwrap_or_else(|error| tracing::warn!("Listening again as before: {error}"));
                }
                Err(error)
            }
        }
    }

    /// Wakes whoever accepts.
    pub(crate) fn wake(&self) {
        self.waker.wake().expect("an event descriptor takes a count of one after it was read");
    }

    /// The end: closes all, and removes the Unix socket's file.
    pub(crate) fn close(&self) {
        for listener in self.open.lock().drain(..) {
            if let Listener::Unix(_, path) = &listener {
                remove_file(path);
            }
        }
    }

    fn add(&self, open: &mut Vec<Listener>, listeners: Vec<Listener>) -> io::Result<()> {
        for mut listener in listeners {
            listener.register(&self.registry, self.token)?;
            open.push(listener);
        }
        Ok(())
    }
}

/// The sockets of these doors.
fn of_doors(doors: &[Door], config: &Config, addresses: &[(&str, Wanted)]) -> Result<Vec<Listener>, (Door, String)> {
    let mut all = Vec::new();
    for &door in doors {
        all.extend(listen::tcp(config, door, addresses).map_err(|error| (door, error))?);
    }
    Ok(all)
}

fn is_of(listener: &Listener, doors: &[Door]) -> bool {
    matches!(listener, Listener::Tcp(_, door) if doors.contains(door))
}

/// Removes a Unix socket's file, if it is still there.
fn remove_file(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("Removing the unix socket file {}: {}", path.display(), error_text(&error));
        }
        _ => {}
    }
}
