//! Connections and their users: rights that have changed, and what was denied.
//!
//! ```text
//!   each turn        the session's epoch is the users' --> nothing    else: the rights that its user has now, or the end
//!   a change         every connection of every worker: user gone, or listens without right --> closed
//!                                                      waits for keys without right --> NOPERM
//!   a certificate    `tls-auth-clients-user`: a new connection by TLS is the user that its certificate names
//! ```

use std::sync::Arc;

use varve_exec::denials::{DeniedRequest, Origin, shown};
use varve_protocol::Args;

use super::core::Core;
use crate::features::acl::state::log::{Event, Reason};
use crate::features::clients;
use crate::features::pubsub::state::{ConnId, ConnRef, Kind};
use crate::net::conn::{Conn, WaitReasons};

impl Core {
    /// Gives a connection the rights that its user has now; false if that user is gone.
    #[inline]
    pub(super) fn follow_users(&mut self, id: ConnId) -> bool {
        let epoch = self.state.acl().epoch();
        self.conns[id].session().users_epoch() == epoch || self.take_rights(id, epoch)
    }

    #[cold]
    fn take_rights(&mut self, id: ConnId, epoch: u64) -> bool {
        let conn = &mut self.conns[id];
        let is_there = conn.session_mut().follow_users(&self.state.acl().users(), epoch);
        conn.set_limits(&self.config);
        is_there
    }

    /// Users have changed: ends a connection that has no right to be there, and a wait for keys to which the right is
    /// lost. The asking connection gets its reply before it ends.
    pub(super) fn take_rights_or_end(&mut self, who: ConnRef, asker: u64) {
        let stays = self.follow_users(who.conn) && may_listen(&self.conns[who.conn]);
        if !stays && who.client == asker {
            self.conns[who.conn].session_mut().end_after_reply();
        } else if !stays {
            self.close(who.conn);
        } else if self.conns[who.conn].waits(WaitReasons::KEYS) {
            self.end_denied_wait(who);
        }
    }

    fn end_denied_wait(&mut self, who: ConnRef) {
        let user = Arc::clone(self.conns[who.conn].session().user());
        if let Some(denial) = self.blocked.cancel_denied(who.client, &user) {
            let stats = Arc::clone(self.batch.stats());
            self.unblock(who.client, |blocked, out| blocked.reply_denied(denial, &stats, out));
        }
    }

    /// A connection is the user whom its certificate names: the first of these names that is a user who may log in. If none
    /// is, it stays the default user, and the log says so.
    #[cold]
    pub(super) fn log_in_by_certificate(&mut self, id: ConnId, names: &[Vec<u8>]) {
        let found = self.state.acl().users().of_certificate(names).cloned();
        let conn = &mut self.conns[id];
        if let Some(user) = found {
            conn.session_mut().authenticate(user);
            conn.set_limits(&self.config);
            return;
        }
        let user = shown(names.first().map_or(&[], Vec::as_slice));
        let event = Event { reason: Reason::Certificate, origin: Origin::Client, object: Vec::new(), user };
        self.log_event(id, event);
    }

    /// Puts requests of a connection that were denied into the log.
    #[cold]
    pub(super) fn log_denials(&self, id: ConnId, denials: Vec<DeniedRequest>) {
        for DeniedRequest { user, denial, origin, object } in denials {
            self.log_event(id, Event { reason: Reason::from(denial), origin, object, user: user.name().to_vec() });
        }
    }

    /// Puts a login that has failed into the log, with the command as it was written.
    #[cold]
    pub(super) fn log_login(&self, id: ConnId, user: Vec<u8>, args: Args<'_>) {
        let is_queued = self.conns[id].session().queued().is_some();
        let origin = if is_queued { Origin::Transaction } else { Origin::Client };
        let (object, user) = (args.get(0).to_vec(), shown(&user));
        self.log_event(id, Event { reason: Reason::Login, origin, object, user });
    }

    fn log_event(&self, id: ConnId, event: Event) {
        let client = clients::line(&self.conns[id], self.now.steady_ms);
        self.state.acl().log().add(event, self.now.unix_ms, client, self.config.acl_log_len_max as usize);
    }
}

/// True if the user of a connection has the right to all that it listens to.
fn may_listen(conn: &Conn) -> bool {
    let Some(subscriptions) = conn.subscriptions() else { return true };
    let user = conn.session().user();
    if user.may_listen_to_all() {
        return true;
    }
    let kinds = [(Kind::Channel, false), (Kind::Pattern, true), (Kind::Shard, false)];
    kinds.iter().all(|(kind, is_pattern)| subscriptions.of(*kind).iter().all(|name| user.may_listen(name, *is_pattern)))
}
