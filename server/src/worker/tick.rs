//! The clock: each 100 ms a slice of the connections and of the keys is looked at, the worker reports its load, and worker 0
//! samples the rates.
//!
//! Each connection is looked at once in [`SLICES`] ticks (a second), so that ten thousand idle ones cost a thousand looks
//! a tick. Looked for: idle longer than `timeout`, not authenticated for longer than `unauthenticated-timeout`, output over its soft limit for too long (nothing else happens on such a
//! connection that would show it), and bytes that a short read has left in a socket.

use std::time::{Duration, Instant};

use varve_base::refusable;

use super::Worker;
use super::core::Core;
use super::run::UNSENT_MAX;
use crate::features::clients::on_show::ShownClients;
use crate::features::clients::strangers;
use crate::features::hot_keys;
use crate::features::info;
use crate::features::persist;
use crate::features::pubsub::state::ConnId;
use crate::features::replication::primary;
use crate::net::conn::Conn;
use crate::state::Load;
use crate::system::sys;

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(100);
/// Ticks in which every connection is looked at once.
const SLICES: usize = 10;
/// Keys that are looked at in a tick, so that figures tell what the keyspace is made of: some 20 us.
const SURVEY_LOOKS: usize = 100;

/// Ticks for which the system must have given memory before a refusal is over: 5 s.
const MEMORY_TICKS: u32 = 50;

/// When the next tick is, and where the last one stopped.
#[derive(Debug, Default)]
pub(super) struct Tick {
    due: Option<Instant>,
    /// Number of the connection from which the next slice goes on.
    cursor: usize,
    /// Time that the worker worked since `measured`.
    busy: Duration,
    /// The connections of this round that a page is to show.
    shown: ShownClients,
    /// Such a list is made in this round.
    shows: bool,
    measured: Option<Instant>,
    /// The system has refused memory: ticks for which it has still to give it.
    short_ticks: Option<u32>,
}

impl Tick {
    /// True if the tick of now has been done.
    #[cfg(debug_assertions)]
    pub(super) fn is_of(&self, now: Instant) -> bool {
        self.due == Some(now + TICK)
    }

    /// The worker has worked for this time in a turn of its loop.
    #[inline]
    pub(super) fn add_busy(&mut self, busy: Duration) {
        self.busy += busy;
    }

    /// Reports the share of its time that the worker has worked since this was called last.
    fn report_load(&mut self, load: &Load, now: Instant) {
        if let Some(measured) = self.measured.replace(now) {
            load.report(std::mem::take(&mut self.busy), now.duration_since(measured));
        }
    }

    /// Holds as much in reserve as the system gives, says when it refuses memory, and when it has given it for
    /// [`MEMORY_TICKS`] again.
    fn follow_memory(&mut self) {
        let is_held = sys::reserve::refill();
        if !is_held {
            refusable::set_short(true);
        }
        if !refusable::is_short() {
            return;
        }
        let left =
            self.short_ticks.replace(if is_held { self.short_ticks.unwrap_or(MEMORY_TICKS) } else { MEMORY_TICKS });
        match left {
            None => tracing::warn!(
                "The system refuses memory. Writes, and commands that have the server keep memory beside the data, are refused \
                 until it gives some again."
            ),
            Some(0) if is_held => {
                refusable::set_short(false);
                self.short_ticks = None;
                tracing::warn!("The system gives memory again.");
            }
            Some(left) if is_held => self.short_ticks = Some(left - 1),
            Some(_) => {}
        }
    }

    /// Time until the next tick.
    pub(super) fn due_in(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }
}

impl Worker {
    /// Does what is due.
    pub(super) fn tick(&mut self) {
        let core = &mut self.core;
        if self.tick.due_in(core.now.instant) > Duration::ZERO {
            return;
        }
        self.tick.due = Some(core.now.instant + TICK);
        self.tick.report_load(core.state.workers()[core.index].load(), core.now.instant);
        if core.state.ticks_paused() {
            return;
        }
        if core.index == 0 {
            self.tick.follow_memory();
            core.state.sample_rates();
            hot_keys::follow(&core.state);
            core.state.hold_expiry(core.now);
            info::report_memory(core.state.store(), &core.state.scripts().memory());
            persist::tick(&core.state, &mut core.store, &core.config);
            primary::tick(&core.state, &mut core.store, &core.config, core.now.steady_ms);
        }
        core.store.survey(core.now.unix_ms, SURVEY_LOOKS);
        let numbers = core.conns.capacity();
        let to = numbers.min(self.tick.cursor + numbers.div_ceil(SLICES));
        if self.tick.cursor == 0 {
            // A list is of a whole round.
            self.tick.shows = core.state.workers()[core.index].on_show().is_wanted(core.now.steady_ms);
        }
        let on_show = self.tick.shows;
        for number in self.tick.cursor..to {
            core.check(ConnId(number));
            if let Some(conn) = core.conns.at(ConnId(number)).filter(|_| on_show) {
                self.tick.shown.look(conn, core.now.steady_ms);
            }
        }
        self.tick.cursor = if to == numbers { 0 } else { to };
        if self.tick.cursor == 0 && on_show {
            core.state.workers()[core.index].on_show().show(self.tick.shown.take());
        }
    }
}

impl Core {
    /// Looks at the connection of this number, if there is one.
    fn check(&mut self, id: ConnId) {
        let outputs_kept = self.state.outputs_kept();
        let Some(conn) = self.conns.at(id) else { return };
        if !outputs_kept && conn.output().is_empty() && conn.output().held_bytes() > 0 {
            conn.free_output();
            self.count(id);
        }
        if self.conns[id].is_ongoing() {
            // Others may have changed what it still has to reply with.
            self.count(id);
        }
        if self.conns[id].doubts_socket() {
            self.conns.enqueue(id);
        }
        let (timeout_s, stranger_timeout_s) = (self.config.timeout_s, self.config.unauthenticated_timeout_s);
        if is_idle(&self.conns[id], timeout_s, self.now.steady_ms) {
            tracing::debug!("Closing idle client");
            self.close(id);
        } else if strangers::is_late(&mut self.conns[id], stranger_timeout_s, self.now.steady_ms) {
            tracing::debug!("Closing a client that has not authenticated in {stranger_timeout_s} s");
            self.close(id);
        } else if self.over_output(id) || !self.check_replica(id) {
            self.close(id);
        }
    }
}

/// True if the connection has asked for nothing in `timeout_s` seconds (0: that does not matter). Nobody expects a request of
/// a client whose command waits for something that is not the client's to do, or goes on; of one that is sent messages; of a
/// replica.
fn is_idle(conn: &Conn, timeout_s: u32, now_ms: i64) -> bool {
    let has_replied = conn.output().len() > UNSENT_MAX;
    let waits = !conn.waits_for_client()
        || conn.is_ongoing() && !has_replied
        || conn.session().is_subscribed()
        || conn.session().is_monitor()
        || conn.following().is_some();
    timeout_s > 0 && !waits && now_ms - conn.session().active_ms() > i64::from(timeout_s) * 1000
}
