//! Accepting: worker 0 takes connections from the listening sockets and gives each to the worker with the fewest.
//!
//! Refused here, with Redis's texts: connections over `maxclients`, and connections from elsewhere in protected mode. At
//! most [`ACCEPTS_MAX`] are taken at a time, so that a storm of newcomers does not stop the others.

use std::io;

use mio::Token;
use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;

use super::Worker;
use crate::config::Config;
use crate::errors;
use crate::features::pubsub::state::Home;
use crate::net::conn::{Conn, Ends, Newcomer, Stream};
use crate::net::listen::Listener;
use crate::state::mail::Message;

/// Connections accepted in one turn of the loop.
const ACCEPTS_MAX: usize = 256;

impl Worker {
    /// Accepts what waits, at most [`ACCEPTS_MAX`]; then `accept_due` stays set.
    pub(super) fn accept(&mut self) {
        self.accept_due = false;
        let mut accepted = Vec::new();
        let mut tries = 0;
        for listener in self.core.state.sockets().open().iter() {
            while tries < ACCEPTS_MAX {
                match accept_one(listener) {
                    Ok(newcomer) => accepted.push(newcomer),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if is_passing(&error) => {}
                    Err(error) => {
                        tracing::warn!("Accepting client connection: {error}");
                        self.tick.accept_again = true;
                        break;
                    }
                }
                tries += 1;
            }
        }
        self.accept_due = tries >= ACCEPTS_MAX;
        // A newcomer is served at once, and its first command may change the sockets: they are let go first.
        for (stream, ends) in accepted {
            self.admit(stream, ends);
        }
    }

    /// Refuses a new connection, or gives it to the worker with the fewest.
    fn admit(&mut self, stream: Stream, ends: Ends) {
        let core = &self.core;
        let (stats, config) = (core.stats(), &core.config);
        if core.state.connections() >= u64::from(config.max_clients) {
            refuse(&stream, errors::TOO_MANY_CLIENTS);
            stats.rejected.add(1);
            return;
        }
        stats.accepted.add(1);
        if config.protected_mode && config.passwords.none_is_needed() && !ends.is_local() {
            refuse(&stream, errors::PROTECTED_MODE);
            stats.rejected.add(1);
            return;
        }
        prepare(&stream, config);
        let newcomer = Newcomer { client: core.state.next_client(), stream, ends };
        let workers = core.state.workers().iter().enumerate();
        let fewest = workers.min_by_key(|(_, worker)| worker.assigned());
        let (index, handle) = fewest.expect("there is at least this worker");
        handle.assign();
        if index == core.index {
            self.adopt(newcomer);
        } else {
            handle.send(Message::Adopt(newcomer));
        }
    }

    /// Makes a newcomer one of this worker's connections.
    pub(super) fn adopt(&mut self, newcomer: Newcomer) {
        let core = &mut self.core;
        let id = core.conns.next_id();
        let mut conn = Conn::new(id, newcomer, &core.config, core.now.unix_ms);
        let registered = conn.register(self.poll.registry(), Token(id.0));
        core.state.pubsub().arrive(conn.session().id(), Home { worker: core.index, conn: id });
        core.conns.add(conn);
        core.stats().connected.set(core.conns.len() as u64);
        match registered {
            Ok(()) => self.visit(id),
            Err(error) => {
                tracing::warn!("registering a connection: {error}");
                core.close(id);
            }
        }
    }
}

fn accept_one(listener: &Listener) -> io::Result<(Stream, Ends)> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, peer) = listener.accept()?;
            let local = stream.local_addr()?;
            Ok((Stream::Tcp(stream), Ends::Tcp { peer, local }))
        }
        Listener::Unix(listener, path) => {
            let (stream, _) = listener.accept()?;
            Ok((Stream::Unix(stream), Ends::Unix(path.as_path().into())))
        }
    }
}

/// Errors of a connection that was gone before it was accepted, or of an interrupted call: the next may do better.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// One write without waiting, then the socket closes when it is dropped; a peer that does not read misses the reason.
fn refuse(stream: &Stream, text: &[u8]) {
    if let Err(error) = stream.write(text) {
        tracing::debug!("refusing a connection: {error}");
    }
}

fn prepare(stream: &Stream, config: &Config) {
    let Stream::Tcp(stream) = stream else { return };
    let socket = SockRef::from(stream);
    let mut result = socket.set_tcp_nodelay(true);
    if result.is_ok() && config.tcp_keepalive_s > 0 {
        let idle = u64::from(config.tcp_keepalive_s);
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(idle))
            .with_interval(Duration::from_secs((idle / 3).max(1)))
            .with_retries(3);
        result = socket.set_tcp_keepalive(&keepalive);
    }
    if let Err(error) = result {
        tracing::debug!("setting options of a connection: {error}");
    }
}
