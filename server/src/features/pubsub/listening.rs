//! The end of all that sends a connection something out of turn.

use super::state::{Hub, Kind};
use crate::net::conn::Conn;
use crate::state::ServerState;
use crate::state::ctx::ServerCtx;

/// Ends as many subscriptions of the connection as belong to this part of its request. True if there are more.
pub(crate) fn stop_some(ctx: &mut ServerCtx<'_>) -> bool {
    let (id, most) = (ctx.conn.session().id(), ctx.part_max());
    let Some(subscriptions) = ctx.conn.some_subscriptions() else { return false };
    let registry = ctx.state.pubsub();
    let mut first = || Kind::ALL.iter().find_map(|&kind| ctx.hub.unsubscribe_first(registry, kind, id, subscriptions));
    (0..most).all(|_| first().is_some()) && !subscriptions.is_empty()
}

/// Ends the connection's subscriptions, its tracking and its monitoring.
pub(crate) fn stop_all(conn: &mut Conn, hub: &mut Hub, state: &ServerState) {
    let who = conn.who();
    if let Some(subscriptions) = conn.some_subscriptions() {
        hub.unsubscribe_all(state.pubsub(), &Kind::ALL, who.client, subscriptions);
    }
    conn.count_subscriptions();
    if conn.session_mut().end_tracking() {
        hub.track(state.pubsub(), who, false);
        state.tracking().count_client(state.store(), who.client, false);
    }
    if conn.session_mut().end_monitoring() {
        hub.monitor(state.pubsub(), who, false);
        state.monitors().count(hub.worker(), false);
    }
}
