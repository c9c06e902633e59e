//! One worker's part of applying a stream: its own session, batch and parser. Of the replies only errors are read: a command
//! that is refused ends the work, since what it changed when it was written is missing; but for those that may have failed then
//! as well ([`Applier::forgiving`]).
//!
//! Keys whose time is over stay: the stream says when they went. Clients that wait for keys are served as by any other command;
//! their replies are the caller's to send.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_base::number::parse_i64;
use varve_protocol::{Args, Parsed, Parser, Reply, RequestLimits};
use varve_store::StoreWorker;

use super::queue::{Applier, Chunk, Forgiven, LaneSet, Refused, WorkerSet};
use crate::batch::{Batch, TurnState};
use crate::command::{CommandTable, Exec};
use crate::large_arguments::LargeArguments;
use crate::notify::Events;
use crate::script::ScriptKeeper;
use crate::session::Session;
use crate::stats::CommandStats;
use crate::waiting::Served;

/// Time after which a step ends: the worker has clients too.
const STEP_TIME: Duration = Duration::from_millis(1);
/// Bytes of replies that keep their buffer.
const REPLY_KEEP_BYTES: usize = 64 << 10;

/// See the module's text.
pub struct ApplyWorker {
    number: usize,
    batch: Batch,
    parser: Parser,
    session: Session,
    out: Reply,
    /// Commands that are not all done.
    taken: Option<Taken>,
}

/// Commands of some lanes, and how far they are.
#[derive(Debug)]
struct Taken {
    lanes: LaneSet,
    chunk: Chunk,
    done_bytes: usize,
    done_commands: usize,
    /// The stretch that is next, and whether its database is selected: a transaction of it may select another one.
    stretch: usize,
    is_selected: bool,
}

impl Taken {
    fn new((lanes, chunk): (LaneSet, Chunk)) -> Taken {
        Taken { lanes, chunk, done_bytes: 0, done_commands: 0, stretch: 0, is_selected: false }
    }
}

impl fmt::Debug for ApplyWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyWorker").field("number", &self.number).finish_non_exhaustive()
    }
}

impl ApplyWorker {
    /// The part of the worker of this number, from 0, that counts its commands here.
    pub fn new(number: usize, stats: Arc<CommandStats>, keeper: Option<Box<ScriptKeeper>>, now_ms: i64) -> ApplyWorker {
        let mut batch = Batch::new(stats);
        if let Some(keeper) = keeper {
            batch.set_keeper(keeper);
        }
        ApplyWorker {
            number,
            batch,
            parser: parser(),
            session: Session::of_replay(now_ms),
            out: Reply::new(),
            taken: None,
        }
    }

    /// Messages that the stream publishes, and the events of its commands, go to clients of this server.
    pub fn set_events(&mut self, worker: &mut StoreWorker, events: impl Events + Clone + Send + 'static) {
        self.batch.set_events(worker, events.clone(), events);
    }

    /// The replies to clients that waited for keys, since the last call.
    pub fn take_served(&mut self) -> Option<Vec<Served>> {
        self.batch.take_served()
    }

    /// Runs commands that come next in some lane, for some [`STEP_TIME`] or until a shard is busy, and gives the workers that
    /// may go on then; None if none may run now. The worker is outside the gate.
    pub fn step(
        &mut self,
        applier: &Applier,
        worker: &mut StoreWorker,
        table: &CommandTable,
        now_ms: i64,
    ) -> Option<WorkerSet> {
        let mut taken = match self.taken.take() {
            Some(taken) => taken,
            None => Taken::new(applier.take(self.number)?),
        };
        match self.run(applier, worker, table, now_ms, &mut taken) {
            Ok(false) => {
                self.taken = Some(taken);
                Some(WorkerSet::default())
            }
            result => Some(applier.done(taken.lanes, taken.chunk, result.map(drop))),
        }
    }

    /// Runs commands that were taken; true if all have run.
    fn run(
        &mut self,
        applier: &Applier,
        worker: &mut StoreWorker,
        table: &CommandTable,
        now_ms: i64,
        taken: &mut Taken,
    ) -> Result<bool, Refused> {
        let begin = Instant::now();
        let Taken { chunk, done_bytes, done_commands, stretch, is_selected, .. } = taken;
        while let Some(&(end, db)) = chunk.stretches.get(*stretch) {
            if !std::mem::replace(is_selected, true) {
                self.session.select(db);
            }
            while *done_bytes < end {
                let (input, offsets) = (&mut chunk.bytes[*done_bytes..end], &chunk.offsets[*done_commands..]);
                let (consumed, commands) = self.turn((applier, table), worker, now_ms, input, offsets)?;
                *done_bytes += consumed;
                *done_commands += commands;
                if consumed == 0 || begin.elapsed() >= STEP_TIME {
                    return Ok(false);
                }
            }
            (*stretch, *is_selected) = (*stretch + 1, false);
        }
        assert_eq!(*done_commands, chunk.offsets.len(), "each command has an offset");
        Ok(true)
    }

    /// One turn; the bytes and commands that are done with.
    fn turn(
        &mut self,
        (applier, table): (&Applier, &CommandTable),
        worker: &mut StoreWorker,
        now_ms: i64,
        input: &mut [u8],
        offsets: &[u64],
    ) -> Result<(usize, usize), Refused> {
        let ApplyWorker { batch, parser, session, out, .. } = self;
        let errors = batch.stats().error_replies.get();
        let turn = batch.turn(worker, table, parser, session, now_ms, input, &mut LargeArguments::default(), out);
        let refused = |reason: String| Refused { offset: offsets[turn.commands.min(offsets.len() - 1)], reason };
        let errors_now = batch.stats().error_replies.get();
        if errors_now != errors {
            let replies = out.to_vec();
            out.clear(REPLY_KEEP_BYTES);
            let has_failed = judge(applier, table, &replies, &input[..turn.consumed], offsets)?;
            // A count that is lower was set back meanwhile by CONFIG RESETSTAT, without an error.
            if !has_failed && errors_now > errors {
                let offset = offsets[0];
                return Err(Refused { offset, reason: format!("A command behind offset {offset} was refused") });
            }
        }
        out.clear(REPLY_KEEP_BYTES);
        match turn.state {
            TurnState::NeedInput { .. } | TurnState::Yield | TurnState::Published(_) => {}
            TurnState::Busy | TurnState::Paused => {}
            TurnState::Foreign => {
                let name = name_of(&input[turn.consumed..], 0);
                return Err(refused(format!("Unknown command '{}'", String::from_utf8_lossy(&name))));
            }
            TurnState::Blocked(blocked) => {
                let _ = blocked.cancel();
                blocked.forget(worker);
            }
            TurnState::Server { command, .. } | TurnState::Exec { command, .. } => {
                return Err(refused(format!("Command '{}', which changes no data,", command.full_name)));
            }
            TurnState::Linked | TurnState::Script(_) => unreachable!("a session that replays takes no late replies"),
            TurnState::Close(_) => return Err(refused("A command that ends the connection".to_owned())),
        }
        Ok((turn.consumed, turn.commands))
    }
}

fn parser() -> Parser {
    Parser::new(RequestLimits { bulk_max: usize::MAX, ..RequestLimits::default() })
}

/// Looks at replies; the commands stand at `offsets` of the stream. True if some are errors, all of them forgiven.
///
/// # Errors
/// The first command whose error is not forgiven.
#[cold]
fn judge(
    applier: &Applier,
    table: &CommandTable,
    replies: &[u8],
    commands: &[u8],
    offsets: &[u64],
) -> Result<bool, Refused> {
    let (mut forgiven, mut last) = (Forgiven::default(), None);
    for Failed { nth, error, is_part } in errors(replies) {
        let (offset, name) = (offsets[nth], name_of(commands, nth));
        let is_script = || table.get(&name).is_some_and(|command| matches!(command.exec, Exec::Script(..)));
        let text = [&name, error].map(String::from_utf8_lossy);
        if !applier.forgives() || !is_part && !is_script() {
            let [name, error] = text;
            return Err(Refused {
                offset,
                reason: format!("The command '{name}' at offset {offset} was refused ({error})"),
            });
        }
        // A transaction counts once.
        if last.replace(nth) != Some(nth) {
            let [name, error] = text;
            forgiven.add(offset, format!("the command '{name}' at offset {offset} ({error})"));
        }
    }
    if last.is_some() {
        applier.forgive(forgiven);
    }
    Ok(last.is_some())
}

/// The name of the command that has this number, from 0, among whole ones.
#[cold]
fn name_of(commands: &[u8], nth: usize) -> Vec<u8> {
    let (mut commands, mut parser) = (commands.to_vec(), parser());
    let mut rest = &mut commands[..];
    for left in (0..=nth).rev() {
        let mut spans = Vec::new();
        let Parsed::Request { consumed } = parser.parse(rest, &mut spans) else { break };
        if left == 0 {
            return Args::new(rest, &spans).opt(0).unwrap_or_default().to_vec();
        }
        rest = &mut rest[consumed..];
    }
    Vec::new()
}

/// An error among replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed<'r> {
    /// The number of the reply, from 0.
    nth: usize,
    /// Its text, without the mark in front.
    error: &'r [u8],
    /// It is a part of the reply, which has others: that of a command in a transaction.
    is_part: bool,
}

/// The errors among replies, which are RESP2, and in them.
fn errors(replies: &[u8]) -> impl Iterator<Item = Failed<'_>> {
    // `open`: parts of the reply that are still to come.
    let (mut nth, mut open, mut at, mut is_part) = (0, 1_i64, 0, false);
    std::iter::from_fn(move || {
        loop {
            let line = replies.get(at..)?.split(|byte| *byte == b'\r').next().filter(|line| !line.is_empty())?;
            let number = || parse_i64(&line[1..]).map_or(0, |number| number.max(0));
            at += line.len() + 2;
            let failed = (line[0] == b'-').then_some(Failed { nth, error: &line[1..], is_part });
            match line[0] {
                b'$' if line != b"$-1" => at += number() as usize + 2,
                b'*' => (open, is_part) = (open + number(), true),
                _ => {}
            }
            open -= 1;
            if open == 0 {
                (nth, open, is_part) = (nth + 1, 1, false);
            }
            if failed.is_some() {
                return failed;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandSet;

    #[test]
    fn the_refused_command_is_named() {
        let replies = b"+OK\r\n$3\r\n-ab\r\n$-1\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n*-1\r\n*2\r\n+OK\r\n-ERR no\r\n";
        let no = |nth, is_part| Failed { nth, error: b"ERR no", is_part };
        assert_eq!(errors(replies).collect::<Vec<_>>(), [no(5, true)]);
        assert_eq!(errors(&replies[..replies.len() - 9]).count(), 0);
        let more = [&replies[..], b"-ERR no\r\n*1\r\n-ERR no\r\n"].concat();
        assert_eq!(errors(&more).collect::<Vec<_>>(), [no(5, true), no(6, false), no(7, true)]);
        let commands = b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nLPOP\r\n$1\r\nk\r\n";
        let table = CommandTable::new(&CommandSet::new(&[]));
        let refusal = judge(&Applier::forgiving(1), &table, b"+PONG\r\n-WRONGTYPE x\r\n", commands, &[100, 114]);
        let Refused { offset, reason } = refusal.expect_err("it is no script");
        assert_eq!(reason, "The command 'LPOP' at offset 114 was refused (WRONGTYPE x)");
        assert_eq!(offset, 114);
    }

    /// A command of a transaction that fails has failed when the file was written; a replica's stream has none such.
    #[test]
    fn a_transaction_is_forgiven_where_the_applier_forgives() {
        let table = CommandTable::new(&CommandSet::new(&[]));
        let commands = b"*1\r\n$4\r\nEXEC\r\n*1\r\n$4\r\nEXEC\r\n";
        let replies = b"*3\r\n+OK\r\n-ERR a\r\n-ERR b\r\n*1\r\n-ERR c\r\n";
        let judge = |applier: &Applier| judge(applier, &table, replies, commands, &[7, 30]);
        assert_eq!(judge(&Applier::new(1)).expect_err("it is refused").offset, 7);
        let applier = Applier::forgiving(1);
        assert_eq!(judge(&applier), Ok(true));
        let Forgiven { commands, first } = applier.take_forgiven();
        assert_eq!((commands, first), (2, Some((7, "the command 'EXEC' at offset 7 (ERR a)".to_owned()))));
        assert_eq!(applier.take_forgiven(), Forgiven::default());
    }
}
