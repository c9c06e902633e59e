//! Replicas of this server among a worker's connections: they are sent what their stage says, as far as their sockets take it.
//!
//! ```text
//!   woken: there is more --+
//!   socket takes more -----+--> feed: what waits, then the next part (send.rs), until the socket is full or a share is sent
//!   its visit -------------+
//! ```
//! A replica's requests say how far it is, and get no replies: one that brings about a reply ends.

use std::io;
use std::sync::Arc;

use varve_protocol::Reply;
use varve_store::EffectSink;

use super::core::Core;
use super::serve::Broken;
use crate::features::clients;
use crate::features::pubsub::state::{ConnId, ConnRef};
use crate::features::replication::primary::{self, send};
use crate::features::replication::state::replicas::Stage;
use crate::features::replication::state::waiters::Waiter;
use crate::state::awaited;

/// Bytes of an error that the log shows.
const ERROR_BYTES_SHOWN: usize = 256;
/// Milliseconds behind its request for which a replica hears nothing before its answer.
const QUIET_MS: i64 = 1000;
/// Bytes that one replica is sent at a time.
const SHARE_BYTES: usize = 1 << 20;

/// The replicas among the connections of a worker.
#[derive(Debug, Default)]
pub(super) struct Following(Vec<ConnRef>);

impl Core {
    /// The connection has been visited: it may be a replica's from now on.
    #[inline]
    pub(super) fn note_replica(&mut self, id: ConnId) {
        if self.conns[id].following().is_some() {
            self.add_replica(id);
        }
    }

    #[cold]
    fn add_replica(&mut self, id: ConnId) {
        let who = self.conns[id].who();
        if !self.following.0.contains(&who) {
            self.following.0.push(who);
            self.conns.enqueue(id);
        }
    }

    /// Bytes of the stream in memory that a replica has not been sent; 0 for other connections.
    pub(super) fn stream_behind(&self, id: ConnId) -> usize {
        let Some(following) = self.conns[id].following() else { return 0 };
        self.state.replication().held_for(&following.shared, self.state.persist().aof.journal().end()) as usize
    }

    /// There may be the copies that a connection waits for: replies if so. Else it waits for them.
    #[cold]
    pub(super) fn look_for_copies(&mut self, client: u64) {
        let Some(awaited) = self.blocked.awaited(client) else { return };
        if !awaited::is_reached(&self.state, awaited) {
            self.state.replication().waiters().add(Waiter { worker: self.index, client, awaited });
            // They may have come about before anybody knew of it.
            if !awaited::is_reached(&self.state, awaited) {
                return;
            }
        }
        let state = Arc::clone(&self.state);
        self.unblock(client, |_, out| primary::wait::reply(&state, awaited, out));
    }

    /// Looks at a replica, once a second: one that waits for its data set is kept in touch with. False if it has been silent
    /// for too long, or its connection is to end.
    pub(super) fn check_replica(&mut self, id: ConnId) -> bool {
        let conn = &mut self.conns[id];
        let Some(following) = conn.following() else { return true };
        let (stage, acked_ms) = {
            let now = following.shared.now();
            (now.stage.clone(), now.acked_ms)
        };
        let is_online = matches!(stage, Stage::Online);
        let (now_ms, timeout_ms) = (self.now.steady_ms, self.config.replication.timeout_s as i64 * 1000);
        let is_in_time = |last_ms: i64| now_ms - last_ms <= timeout_ms;
        match stage {
            // One whose answer is about to come needs no sign.
            Stage::WaitsForWalk | Stage::InWalk if now_ms - acked_ms >= QUIET_MS && conn.output().is_empty() => {
                conn.write_output(|out| out.raw(b"\n"));
                self.conns.enqueue(id);
                true
            }
            Stage::Online | Stage::Gets(_) if !following.is_old && (is_online || following.is_marked) => {
                let is_there = is_in_time(acked_ms);
                if !is_there {
                    let now = following.shared.now();
                    tracing::warn!("Disconnecting timedout replica (streaming sync): {}:{}", now.address, now.port);
                }
                is_there
            }
            // One that takes nothing of a data set which is sent while it is written, and says nothing: its file is kept for it, and
            // all of the stream behind.
            Stage::Gets(file) if file.mark.is_some() && !conn.output().is_empty() => {
                let is_there = is_in_time(conn.session().active_ms().max(acked_ms));
                if !is_there {
                    let now = following.shared.now();
                    tracing::warn!("Disconnecting timedout replica (full sync): {}:{}", now.address, now.port);
                }
                is_there
            }
            Stage::Ends(_) => false,
            _ => true,
        }
    }

    /// Something has come from a replica: one that loads its data set sends empty lines, and is there.
    pub(super) fn hear_replica(&self, id: ConnId) {
        let Some(following) = self.conns[id].following() else { return };
        let mut now = following.shared.now();
        // How long one has waited for its data set is counted from its request on.
        if matches!(now.stage, Stage::Gets(_) | Stage::Online) {
            now.acked_ms = self.now.steady_ms;
        }
    }

    /// A replica has asked for something that is replied to, which would stand in its stream: its connection ends.
    #[cold]
    pub(super) fn log_reply_to_replica(&self, id: ConnId, reply: &Reply) {
        let conn = &self.conns[id];
        let (line, command) = (clients::line(conn, self.now.steady_ms), conn.session().last_command());
        let name = command.map_or("<unknown>", |row| row.full_name);
        let begin = reply.parts().next().map_or(Vec::new(), |part| part[..part.len().min(ERROR_BYTES_SHOWN)].to_vec());
        if let Some(error) = begin.strip_prefix(b"-") {
            let text = String::from_utf8_lossy(error.split(|byte| *byte == b'\r').next().unwrap_or_default());
            tracing::warn!(
                "== CRITICAL == This master is sending an error to its replica: '{text}' after processing the command \
                 '{name}'"
            );
        }
        tracing::warn!("Replica generated a reply to command '{name}', disconnecting it: {line}");
    }

    /// The connection ends: it is nobody's replica any more.
    pub(super) fn forget_replica(&mut self, id: ConnId) {
        let conn = &self.conns[id];
        let Some(following) = conn.following() else { return };
        self.state.replication().replicas().remove(&following.shared);
        self.state.replication().trim();
        let who = conn.who();
        self.following.0.retain(|other| *other != who);
        let now = following.shared.now();
        tracing::warn!("Connection with replica {}:{} lost.", now.address, now.port);
    }

    /// There is more for the replicas of this worker.
    pub(super) fn feed_replicas(&mut self) {
        self.state.replication().replicas().looks(self.index);
        for nth in (0..self.following.0.len()).rev() {
            let ConnRef { conn, .. } = self.following.0[nth];
            self.leave_to_files(conn);
            match self.feed(conn) {
                Ok(true) => self.conns.enqueue(conn),
                Ok(false) => {}
                Err(Broken(error)) => {
                    tracing::warn!("Closing a replica's connection: {error}");
                    self.close(conn);
                }
            }
        }
    }

    /// Has a replica that is far behind sent the stream out of files.
    fn leave_to_files(&self, id: ConnId) {
        let (state, Some(following)) = (&self.state, self.conns[id].following()) else { return };
        // While it gets its data set, what is read ahead for it is that.
        let gets = matches!(following.shared.now().stage, Stage::Gets(_));
        if following.parts.is_none() || gets {
            state.replication().leave_to_files(&following.shared, state.persist().aof.journal().end());
        }
    }

    /// Sends a replica what is there for it; true if there is more, and its socket takes more.
    pub(super) fn feed(&mut self, id: ConnId) -> Result<bool, Broken> {
        let mut left = SHARE_BYTES;
        loop {
            let conn = &mut self.conns[id];
            if !conn.may_write() {
                return Ok(false);
            }
            if conn.output().is_empty() {
                let mut out = Reply::new();
                let Some(following) = conn.following_mut() else { return Ok(false) };
                let was_online = matches!(following.shared.now().stage, Stage::Online);
                let next = send::next(&self.state, following, &mut out, self.now.steady_ms);
                next.map_err(|send::Ends(why)| Broken(io::Error::other(why)))?;
                let turns = !was_online && matches!(following.shared.now().stage, Stage::Online);
                if out.is_empty() && !turns {
                    return Ok(false);
                }
                conn.keep_output(out);
            }
            let unsent = self.conns[id].output().len();
            if left == 0 {
                return Ok(true);
            }
            self.flush_waiting(id)?;
            left = left.saturating_sub(unsent);
        }
    }
}
