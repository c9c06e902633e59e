//! Running the commands of a file: a worker's own session, batch and parser. Of the replies only errors are read: a command
//! that is refused ends the loading, since what it changed when it was written is missing.
//!
//! Keys whose time is over stay: the file says when they went. Not here: reading the file (`load.rs`).

use std::fmt;
use std::sync::Arc;

use varve_aof::nth_command;
use varve_base::number::parse_i64;
use varve_exec::batch::{Batch, TurnState};
use varve_exec::stats::CommandStats;
use varve_exec::{CommandTable, LargeArguments, Session};
use varve_protocol::{Parser, Reply, RequestLimits};
use varve_scripts::Keeper;
use varve_store::StoreWorker;

use super::super::state::aof::CommandPiece;
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
        let mut batch = Batch::new(CommandStats::new(state.commands().ids()));
        batch.set_keeper(Box::new(Keeper::new(Arc::clone(state.scripts()))));
        Replay { batch, parser: Parser::new(limits), session: Session::of_replay(now_ms), out: Reply::new() }
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
    /// One is none that can be replayed, or was refused.
    fn run(
        &mut self,
        worker: &mut StoreWorker,
        table: &CommandTable,
        now_ms: i64,
        piece: &mut CommandPiece,
    ) -> Result<(), String> {
        let Replay { batch, parser, session, out } = self;
        let mut none = LargeArguments::default();
        let (mut offset, mut input) = (piece.offset, &mut piece.bytes[..]);
        while !input.is_empty() {
            let errors = batch.stats().error_replies.get();
            let turn = batch.turn(worker, table, parser, session, now_ms, input, &mut none, out);
            match turn.state {
                TurnState::NeedInput { .. } | TurnState::Yield | TurnState::Published(_) => {}
                TurnState::Busy | TurnState::Paused => std::thread::yield_now(),
                TurnState::Foreign => {
                    let name = nth_command(&input[turn.consumed..], 0).map_or(&b""[..], |command| command.name);
                    return Err(format!("Unknown command '{}'", String::from_utf8_lossy(name)));
                }
                TurnState::Blocked(blocked) => {
                    let _ = blocked.cancel();
                    blocked.forget(worker);
                }
                TurnState::Server { command, .. } | TurnState::Exec { command, .. } => {
                    return Err(format!("Command '{}', which changes no data,", command.full_name));
                }
                TurnState::Linked => unreachable!("a session that replays takes no late replies"),
                TurnState::Close(_) => return Err("A command that ends the connection".to_owned()),
            }
            drop(batch.take_served());
            if batch.stats().error_replies.get() != errors {
                return Err(refusal(&out.parts().collect::<Vec<_>>().concat(), &input[..turn.consumed], offset));
            }
            out.clear(REPLY_KEEP_BYTES);
            let (_, rest) = input.split_at_mut(turn.consumed);
            input = rest;
            offset += turn.consumed as u64;
        }
        Ok(())
    }
}

/// Names the first command that was refused, of those that begin at `offset` of the file.
#[cold]
fn refusal(replies: &[u8], commands: &[u8], offset: u64) -> String {
    let Some((nth, error)) = first_error(replies) else {
        return format!("A command behind offset {offset} was refused");
    };
    let (start, name) = nth_command(commands, nth).map_or((0, &b""[..]), |found| (found.start as u64, found.name));
    let [name, error] = [name, error].map(String::from_utf8_lossy);
    format!("The command '{name}' at offset {} was refused ({error})", offset + start)
}

/// The number of the first reply that is an error or has one in it, from 0, and the error. The replies are RESP2.
fn first_error(replies: &[u8]) -> Option<(usize, &[u8])> {
    // `open`: parts of the reply that are still to come.
    let (mut nth, mut open, mut at) = (0, 1_i64, 0);
    loop {
        let line = replies.get(at..)?.split(|byte| *byte == b'\r').next().filter(|line| !line.is_empty())?;
        let number = || parse_i64(&line[1..]).map_or(0, |number| number.max(0));
        at += line.len() + 2;
        match line[0] {
            b'-' => return Some((nth, &line[1..])),
            b'$' if line != b"$-1" => at += number() as usize + 2,
            b'*' => open += number(),
            _ => {}
        }
        open -= 1;
        if open == 0 {
            (nth, open) = (nth + 1, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_command_is_named() {
        let replies = b"+OK\r\n$3\r\n-ab\r\n$-1\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n*-1\r\n*2\r\n+OK\r\n-ERR no\r\n";
        assert_eq!(first_error(replies), Some((5, &b"ERR no"[..])));
        assert_eq!(first_error(&replies[..replies.len() - 9]), None);
        let commands = b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nLPOP\r\n$1\r\nk\r\n";
        assert_eq!(
            refusal(b"+PONG\r\n-WRONGTYPE x\r\n", commands, 100),
            "The command 'LPOP' at offset 114 was refused (WRONGTYPE x)"
        );
    }
}
