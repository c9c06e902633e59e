//! Connections are read in groups before the first of a group is executed, so that what their requests touch is on its way
//! from memory while others are still being read.
//!
//! ```text
//!   scratch  | A's bytes | B's bytes | C's ... |      read, parse, ask for buckets; then for objects
//!   visits     A: execute, write    B: execute, write    C: ...
//! ```
//! A group is small: its first reply waits for all its reads. Only who has nothing waiting joins one: no unsent replies, no
//! half request, nothing that holds it back. All others have a visit of their own, in their turn.

use std::ops::Range;

use varve_exec::batch::PreparsedTurn;

use super::serve::Broken;
use super::{Ready, Worker};

/// Connections of a group at most.
const GROUP_MAX: usize = 8;
/// Bytes of the scratch buffer that a connection must find free to join: longer pipelines gain nothing by it.
const ROOM_MIN: usize = 16 << 10;

/// A connection that was read.
pub(super) struct Arrived {
    ready: Ready,
    /// Its part of the scratch buffer.
    data: Range<usize>,
    early: Option<PreparsedTurn>,
    broken: Option<Broken>,
}

impl Worker {
    /// Gives each connection that stood in the ready queue one visit.
    pub(super) fn serve_ready(&mut self) {
        debug_assert!(self.turns.is_empty(), "events are served before the queue");
        let mut ready = std::mem::take(&mut self.turns);
        ready.extend(self.ready.drain(..));
        for Ready { slot, id } in &ready {
            if let Some(conn) = self.conns.get_mut(*slot).filter(|conn| conn.session.id == *id) {
                conn.queued = false;
            }
        }
        self.serve_all(&ready);
        ready.clear();
        self.turns = ready;
    }

    /// Gives each connection one visit, in this order, those that may in groups.
    pub(super) fn serve_all(&mut self, mut turns: &[Ready]) {
        while let [first, rest @ ..] = turns {
            let grouped = if rest.is_empty() { 0 } else { self.read_group(turns) };
            if grouped == 0 {
                if self.is_there(*first) {
                    self.visit(first.slot);
                }
                turns = rest;
                continue;
            }
            self.batch.prefetch_preparsed(&mut self.store);
            self.serve_group();
            turns = &turns[grouped..];
        }
    }

    fn is_there(&self, ready: Ready) -> bool {
        self.conns.get(ready.slot).is_some_and(|conn| conn.session.id == ready.id)
    }

    /// Reads the first of these connections, as many as make a group; their number.
    fn read_group(&mut self, turns: &[Ready]) -> usize {
        self.batch.begin_preparse();
        self.batch.set_pause(self.state.pauses.now(self.now.unix_ms));
        debug_assert!(self.group.is_empty(), "a group is served before the next is read");
        let mut at = 0;
        for ready in turns {
            let full = self.group.len() == GROUP_MAX || self.batch.is_preparse_full();
            if full || self.scratch.len() - at < ROOM_MIN || !self.joins(*ready) {
                break;
            }
            let (data, broken) = match self.read(ready.slot, at) {
                Ok(data) => (data, None),
                Err(broken) => (at..at, Some(broken)),
            };
            at = data.end;
            let conn = &mut *self.conns[ready.slot];
            let input = &self.scratch[data.clone()];
            let early = self.batch.preparse(&self.store, &self.table, &mut conn.parser, &conn.session, input);
            self.group.push(Arrived { ready: *ready, data, early, broken });
        }
        self.group.len()
    }

    /// True if nothing of a connection waits but what it has sent, and that may be executed.
    fn joins(&self, ready: Ready) -> bool {
        self.conns.get(ready.slot).is_some_and(|conn| {
            let empty = conn.output.is_empty() && conn.input.is_empty() && !conn.large.is_filling();
            conn.session.id == ready.id && empty && conn.may_read() && conn.may_run() && !conn.listens()
        })
    }

    /// Executes what the connections of the group have sent. One of them may close another.
    fn serve_group(&mut self) {
        let mut group = std::mem::take(&mut self.group);
        for Arrived { ready, data, early, broken } in group.drain(..) {
            if !self.is_there(ready) {
                continue;
            }
            let served = match broken {
                Some(broken) => Err(broken),
                None => self.serve(ready.slot, data, early),
            };
            self.follow(ready.slot, served);
        }
        self.group = group;
    }
}
