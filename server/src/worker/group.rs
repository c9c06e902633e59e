//! Connections are read in groups before the first of a group is executed, so that what their requests touch is on its way
//! from memory while others are still being read.
//!
//! ```text
//!   scratch  | A's bytes | B's bytes | C's ... |      read, parse, ask for buckets; then for objects
//!   visits     A: execute, write    B: execute, write    C: ...
//! ```
//! A group is small: its first reply waits for all its reads. A connection joins one only if it has no unsent replies, no
//! half request, no command that goes on and no reason to wait. All others have a visit of their own, in their turn.

use std::ops::Range;

use varve_exec::batch::PreparsedTurn;

use super::Worker;
use super::core::Core;
use super::serve::Broken;
use crate::features::pubsub::state::{ConnId, ConnRef};

/// Connections of a group at most.
const GROUP_MAX: usize = 8;
/// Bytes of the scratch buffer that a connection must find free to join: longer pipelines gain nothing by it.
const ROOM_MIN: usize = 16 << 10;

/// A connection that was read.
pub(super) struct Arrived {
    who: ConnRef,
    /// Its part of the scratch buffer.
    data: Range<usize>,
    early: Option<PreparsedTurn>,
    broken: Option<Broken>,
}

impl Worker {
    /// Gives each connection that stood in the ready queue one visit.
    pub(super) fn serve_ready(&mut self) {
        assert!(self.visits.is_empty(), "events are served before the queue");
        self.core.conns.take_ready(&mut self.visits);
        self.serve_arrived();
    }

    /// Visits the connections that are due.
    pub(super) fn serve_arrived(&mut self) {
        let mut visits = std::mem::take(&mut self.visits);
        self.serve_all(&visits);
        visits.clear();
        self.visits = visits;
    }

    /// Gives each connection one visit, in this order, those that may in groups.
    fn serve_all(&mut self, mut visits: &[ConnRef]) {
        while let [first, rest @ ..] = visits {
            let grouped = if rest.is_empty() { 0 } else { self.read_group(visits) };
            if grouped == 0 {
                if self.core.conns.is_there(*first) {
                    self.visit(first.conn);
                }
                self.share_turn_with_script();
                visits = rest;
                continue;
            }
            self.core.batch.prefetch_preparsed(&mut self.core.store);
            self.serve_group();
            visits = &visits[grouped..];
        }
    }

    /// Reads the first of these connections, as many as make a group; returns their number.
    fn read_group(&mut self, visits: &[ConnRef]) -> usize {
        let core = &mut self.core;
        core.batch.begin_preparse();
        core.batch.set_pause(core.state.pauses().now(core.now.steady_ms));
        debug_assert!(self.group.is_empty(), "a group is served before the next is read");
        let mut at = 0;
        for &who in visits {
            let full = self.group.len() == GROUP_MAX || self.core.batch.is_preparse_full();
            if full || self.buffers.scratch.len() - at < ROOM_MIN || !self.core.joins(who) {
                break;
            }
            let (data, broken) = match self.read(who.conn, at) {
                Ok(data) => (data, None),
                Err(broken) => (at..at, Some(broken)),
            };
            at = data.end;
            let early = self.core.parse_early(who.conn, &self.buffers.scratch[data.clone()]);
            self.group.push(Arrived { who, data, early, broken });
        }
        self.group.len()
    }

    /// Executes what the connections of the group have sent. One of them may close another.
    fn serve_group(&mut self) {
        let mut group = std::mem::take(&mut self.group);
        for Arrived { who, data, early, broken } in group.drain(..) {
            if !self.core.conns.is_there(who) {
                continue;
            }
            let served = match broken {
                Some(broken) => Err(broken),
                None => self.serve(who.conn, data, early),
            };
            self.finish_visit(who.conn, served);
            // The requests of the group's others stay in the scratch buffer meanwhile.
            self.share_turn_with_script();
        }
        self.group = group;
    }
}

impl Core {
    /// True if nothing of a connection waits but bytes in its socket, and those may be executed.
    fn joins(&mut self, who: ConnRef) -> bool {
        self.conns.get_mut(who).is_some_and(|conn| {
            let empty = conn.output().is_empty() && conn.requests().is_empty();
            empty && conn.may_read() && conn.may_run() && !conn.listens() && !conn.is_ongoing()
        })
    }

    /// Parses short requests ahead of their turn, and asks for the memory that they touch.
    fn parse_early(&mut self, id: ConnId, input: &[u8]) -> Option<PreparsedTurn> {
        let conn = &mut self.conns[id];
        let (parser, _, session) = conn.turn_parts();
        self.batch.preparse(&self.store, &self.table, parser, session, input)
    }
}
