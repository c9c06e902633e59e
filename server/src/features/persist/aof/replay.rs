//! Running the commands of a file: a worker's own session, batch and parser, whose replies nobody reads.
//!
//! Keys whose time is over stay: the file says when they went. Not here: reading the file (`load.rs`).

use std::fmt;

use varve_exec::batch::{Batch, TurnState};
use varve_exec::stats::CommandStats;
use varve_exec::{CommandTable, LargeArguments, Session};
use varve_protocol::{Parser, Reply, RequestLimits};
use varve_store::StoreWorker;

use crate::state::ServerState;

/// Bytes of replies that keep their buffer.
const REPLY_KEEP_BYTES: usize = 64 << 10;

/// See the module's text.
pub(crate) struct Replay {
    batch: Batch,
    parser: Parser,
    session: Session,
    out: Reply,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").finish_non_exhaustive()
    }
}

impl Replay {
    /// The session of a file's reader; its commands are not counted as clients'.
    pub(crate) fn new(state: &ServerState, now_ms: i64) -> Replay {
        let limits = RequestLimits { bulk_max: usize::MAX, ..RequestLimits::default() };
        Replay {
            batch: Batch::new(CommandStats::new(state.commands().ids())),
            parser: Parser::new(limits),
            session: Session::of_replay(now_ms),
            out: Reply::new(),
        }
    }

    /// Runs the next piece of the file that is being loaded; false if none waits. The worker is outside the gate.
    pub(crate) fn step(
        &mut self,
        state: &ServerState,
        worker: &mut StoreWorker,
        table: &CommandTable,
        now_ms: i64,
    ) -> bool {
        let pieces = &state.persist().aof.pieces;
        let Some(mut piece) = pieces.take() else { return false };
        pieces.done(self.run(worker, table, now_ms, &mut piece));
        true
    }

    /// Runs whole commands.
    ///
    /// # Errors
    /// One is none that can be replayed.
    fn run(
        &mut self,
        worker: &mut StoreWorker,
        table: &CommandTable,
        now_ms: i64,
        mut input: &mut [u8],
    ) -> Result<(), String> {
        let Replay { batch, parser, session, out } = self;
        let mut none = LargeArguments::default();
        while !input.is_empty() {
            let turn = batch.turn(worker, table, parser, session, now_ms, input, &mut none, out);
            match turn.state {
                TurnState::NeedInput { .. } | TurnState::Yield | TurnState::Published(_) => {}
                TurnState::Busy | TurnState::Paused => std::thread::yield_now(),
                TurnState::Foreign => {
                    let start = &input[turn.consumed..];
                    let line = start.split(|byte| *byte == b'\n').nth(2).unwrap_or_default().trim_ascii();
                    return Err(format!("Unknown command '{}'", String::from_utf8_lossy(line)));
                }
                TurnState::Blocked(blocked) => {
                    let _ = blocked.cancel();
                    blocked.forget(worker);
                }
                TurnState::Server { command, .. } | TurnState::Exec(command) => {
                    return Err(format!("Command '{}', which changes no data,", command.full_name));
                }
                TurnState::Close(_) => return Err("A command that ends the connection".to_owned()),
            }
            drop(batch.take_served());
            out.clear(REPLY_KEEP_BYTES);
            let (_, rest) = input.split_at_mut(turn.consumed);
            input = rest;
        }
        Ok(())
    }
}
