//! Scripts run on a stack of their own, in slices: a worker serves its other connections between two slices.
//!
//! ```text
//!   request --> the stage: a copy of it, a session, the worker's part for scripts --> a stack of its own
//!                 it ends in its first slice:   its reply stands behind those before it, like any command's
//!                 it does not: it rests         the connection waits, the turn ends and hands the script to the caller
//!                                  ^   |        (TurnState::Script), on whose thread it stays
//!                                  |   v
//!                                one slice in each turn of the worker's loop (RestingScript::go_on)
//!                                      |
//!                                      v ends: Batch::end_script --> its reply, or its request, to be tried again
//! ```
//! A script that rests keeps what it holds: its place at the gate, the token, its shards. So it shares nothing with the worker
//! that serves others meanwhile, and whatever it leaves behind (messages to waiters, lines for monitors, positions of the
//! journal) is taken over at its end. Nothing that the worker does meanwhile waits for what the script holds: only this
//! thread can go on with it (`varve_base::rank::set_aside`).
//!
//! One script of a worker is under way at a time. The scripts of a stream that is applied run on no stage: nobody else is to
//! be served before them. Not here: where a script runs, and its commands (script.rs).

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use varve_base::rank;
use varve_protocol::{Args, Reply};
use varve_store::{ShardSet, StoreWorker};

use super::account::whole_ms;
use super::request::Request;
use super::script::{Room, Scripting};
use super::slices::{Answer, Rest, Rested, Resumed, ServerCall, Slices};
use super::transaction::{run_alone, run_on_shards};
use super::{Batch, Running, Stop};
use crate::checks::{self, Denied};
use crate::command::{Command, CommandTable, ScriptFn};
use crate::errors::{CmdResult, CommandError};
use crate::invoke::{Caller, Observers, Ran};
use crate::monitor::Seen;
use crate::notify::{Events, Publisher};
use crate::pause::Pause;
use crate::script::ScriptKeeper;
use crate::session::Session;

/// Memory for the stack of a script, of which it has the pages that it touches: Lua nests 200 calls of functions that keep
/// buffers of 8 KB.
const STACK_BYTES: usize = 8 << 20;
/// Memory that the buffer of a script's reply keeps.
const REPLY_KEEP_BYTES: usize = 64 << 10;
/// Bytes of a script's reply that are copied behind those of other commands; chunks of a longer one change hands.
const COPIED_BYTES: usize = 16 << 10;

/// The parts with which a worker runs scripts.
pub struct ScriptParts {
    /// The worker's part of the store for scripts ([`varve_store::Store::script_worker`]).
    pub worker: StoreWorker,
    /// All commands.
    pub table: Arc<CommandTable>,
    /// The state that the handlers of scripts keep for this worker.
    pub keeper: Box<ScriptKeeper>,
    /// The keeper that commands about scripts use while a script rests that has the other one.
    pub aside: Box<ScriptKeeper>,
}

/// A worker's scripts.
pub(super) struct Scripts {
    /// None while a script has it that rests, and where scripts run on none.
    stage: Option<Box<Stage>>,
    /// The keeper where the stage has none to lend.
    aside: Box<ScriptKeeper>,
    /// The stack, while no script has it and once there is one.
    stack: Option<DefaultStack>,
    /// False where scripts run on none.
    has_stage: bool,
}

/// A script on its stack.
type Act = Coroutine<Resumed, Rested, Box<Stage>>;

/// A script that rests: its stack, and all that it holds. It stays on the thread on which it has begun, and is gone on with to
/// its end: a script that is dropped half way aborts the process.
pub struct RestingScript(Box<Resting>);

struct Resting {
    act: Act,
    /// The command that it has called, until the server has taken it.
    call: Option<ServerCall>,
    /// The answer to it.
    answer: Answer,
    /// Bytes of the request that runs it, or of the transaction.
    request_bytes: usize,
    /// Bytes that it has in buffers beside the request.
    bytes: usize,
    /// Its commands since it rested before, for monitors.
    seen: Vec<Seen>,
    /// Somebody monitors.
    is_monitored: bool,
}

/// A script that has rested and ended, to be settled by [`Batch::end_script`].
pub struct EndedScript {
    stage: Box<Stage>,
    stack: DefaultStack,
}

impl fmt::Debug for RestingScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestingScript").finish_non_exhaustive()
    }
}

impl fmt::Debug for EndedScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndedScript").finish_non_exhaustive()
    }
}

impl RestingScript {
    /// The command of the server that the script has called, if it waits for one: it is to be answered before it goes on.
    #[inline]
    pub fn take_call(&mut self) -> Option<ServerCall> {
        self.0.call.take()
    }

    /// Gives the script the reply to the command that was taken, or its error, and the time that the command took.
    pub fn answer(&mut self, answer: CmdResult<Reply>, took: Duration) {
        self.0.answer = Some((answer, took));
    }

    /// The commands that it has run since it rested before, while somebody monitored: monitors see a long script as it runs.
    #[inline]
    pub fn take_monitored(&mut self) -> Vec<Seen> {
        mem::take(&mut self.0.seen)
    }

    /// Says whether somebody monitors from now on.
    #[inline]
    pub fn set_monitoring(&mut self, on: bool) {
        self.0.is_monitored = on;
    }

    /// Goes on with the script for a slice, on a worker that holds nothing.
    ///
    /// # Errors
    /// It rests again.
    pub fn go_on(self) -> Result<EndedScript, RestingScript> {
        let Resting { act, call, answer, request_bytes, is_monitored, .. } = *self.0;
        debug_assert!(call.is_none(), "a command that was called is answered first");
        slice(act, Resumed { answer, is_monitored }, request_bytes)
    }

    /// Bytes of memory that the script has beside the state of its language: its client's.
    pub fn bytes(&self) -> usize {
        self.0.request_bytes + self.0.bytes
    }
}

/// Runs a slice of a script, on a worker that holds nothing.
///
/// # Errors
/// It rests.
fn slice(mut act: Act, resumed: Resumed, request_bytes: usize) -> Result<EndedScript, RestingScript> {
    rank::take_back();
    let is_monitored = resumed.is_monitored;
    match act.resume(resumed) {
        CoroutineResult::Yield(Rested { why, bytes, seen }) => {
            rank::set_aside();
            let call = if let Rest::Server(call) = why { Some(call) } else { None };
            let resting = Resting { act, call, answer: None, request_bytes, bytes, seen, is_monitored };
            Err(RestingScript(Box::new(resting)))
        }
        CoroutineResult::Return(stage) => Ok(EndedScript { stage, stack: act.into_stack() }),
    }
}

/// The parts that a script is given, and what it leaves behind.
pub(super) struct Stage {
    worker: StoreWorker,
    table: Arc<CommandTable>,
    observers: Observers,
    keeper: Box<ScriptKeeper>,
    /// The request that runs the script.
    request: Request,
    /// Room for the commands that the script has run.
    called: Request,
    /// Room for their replies.
    scratch: Reply,
    /// The reply of the script.
    out: Reply,
    part: Option<Part>,
}

/// The work that is done on the stage.
#[derive(Clone, Copy)]
pub(super) enum Job {
    /// A script.
    Script(ScriptFn),
    /// EXEC of a transaction that has scripts in it, the gate held alone.
    Exec,
    /// EXEC of a transaction that will be long, its shards held.
    ExecOnShards,
}

/// The script that is under way, or the transaction with scripts.
struct Part {
    row: &'static Command,
    job: Job,
    /// Of a script, its own; of a transaction, the client's.
    session: Session,
    denied: Denied,
    still: bool,
    slice: Duration,
    begun: Instant,
    /// Time for which it has run.
    ran: Duration,
    /// None if its place was not to be had.
    result: Option<CmdResult>,
}

impl Running<'_> {
    /// Runs one request that runs a script.
    #[cold]
    pub(super) fn script(&mut self, d: &'static Command, run: ScriptFn) -> Option<Stop> {
        let request = &self.batch.work.requests[self.next];
        let args = self.batch.work.args(request, self.input, self.outside);
        let (denied, denials) = (self.batch.denied, &mut self.batch.observers.denials);
        if let Err(refusal) = checks::admitted(d, args, self.session, denied, denials) {
            return self.reject(d, refusal);
        }
        let bytes = request.end - request.start;
        if self.session.replays() {
            self.session.begin_request(bytes);
            return self.script_off_stage(d, run);
        }
        match self.batch.prepare_stage() {
            Ok(true) => {}
            Ok(false) => return Some(Stop::Busy),
            Err(refusal) => return self.reject(d, refusal),
        }
        self.session.begin_request(bytes);
        let own = Session::of_script(self.session);
        self.on_stage(d, Job::Script(run), own).err()
    }

    /// Runs a script of a stream that is applied, to its end.
    fn script_off_stage(&mut self, d: &'static Command, run: ScriptFn) -> Option<Stop> {
        let Running { batch, worker, table, session, input, outside, out, next, .. } = self;
        let Batch { work, observers, scripts, denied, pause, .. } = &mut **batch;
        let args = work.args(&work.requests[*next], input, outside);
        let keeper = scripts.as_deref_mut().map(Scripts::keeper);
        let (denied, still, slices) = (*denied, *pause != Pause::None, Slices::endless());
        let parts = Scripting { table, observers, keeper, denied, still, slices: &slices, abandoned: false };
        let (mut own, mut called, mut scratch) = (Session::of_script(session), Request::default(), Reply::new());
        let room = Room { request: &mut called, scratch: &mut scratch };
        let (begun, mark) = (Instant::now(), out.mark());
        let Some(result) = parts.run_by_itself((d, run), (args, &mut own), worker, out, room) else {
            out.truncate(mark);
            return Some(Stop::Busy);
        };
        let (nanos, now_ms) = (begun.elapsed().as_nanos() as u64, worker.now_ms());
        *next += 1;
        self.spent_ns += nanos;
        let ran = Ran { row: d, args, result, mark, nanos: Some(nanos), now_ms, is_pending: false };
        observers.after(ran, Caller::Client(session), None, out);
        worker.set_now(worker.now_ms() + whole_ms(nanos));
        None
    }

    /// Runs a transaction that has scripts in it, the gate held alone, or one that will be long, its shards held (`on_shards`): on
    /// its own session, for which another one stands in meanwhile.
    pub(super) fn exec_on_stage(&mut self, d: &'static Command, on_shards: bool) -> Option<Stop> {
        match self.batch.prepare_stage() {
            Ok(true) => {}
            Ok(false) => return Some(Stop::Busy),
            Err(refusal) => {
                self.session.leave_transaction(self.worker);
                return self.reject(d, CommandError::exec_abort(&refusal));
            }
        }
        let stand_in = self.session.stand_in();
        let session = mem::replace(self.session, stand_in);
        let job = if on_shards { Job::ExecOnShards } else { Job::Exec };
        self.on_stage(d, job, session).err()
    }

    /// Runs the first slice of something on the stage, which is prepared.
    ///
    /// # Errors
    /// It rests; or its place is not to be had, and nothing is done.
    fn on_stage(&mut self, row: &'static Command, job: Job, session: Session) -> Result<(), Stop> {
        let Running { batch, worker, input, out, outside, next, spent_ns, .. } = self;
        let scripts = batch.scripts.as_deref_mut().expect("it is prepared");
        let mut stage = scripts.stage.take().expect("it is prepared");
        let stack = scripts.stack.take().expect("it is prepared");
        let args = batch.work.args(&batch.work.requests[*next], input, outside);
        let (worker_now, observers) = (&**worker, &batch.observers);
        let (denied, still) = (batch.denied, batch.pause != Pause::None);
        stage.set(Cue {
            row,
            job,
            args,
            session,
            denied,
            still,
            slice: batch.times.slice,
            worker: worker_now,
            observers,
            out,
        });
        let request_bytes = stage.request_bytes();
        let perform = move |yielder: &Yielder<Resumed, Rested>, _: Resumed| stage.perform(yielder);
        let begun = Resumed { answer: None, is_monitored: batch.observers.monitored.is_some() };
        let ended = slice(Coroutine::with_stack(stack, perform), begun, request_bytes).map_err(|mut script| {
            if let Some(seen) = &mut batch.observers.monitored {
                seen.append(&mut script.take_monitored());
            }
            *next += 1;
            self.session.note_command(row);
            self.session.note_script_bytes(script.bytes());
            Stop::Script(script)
        })?;
        let nanos = batch.settle(ended, worker, self.session, out).ok_or(Stop::Busy)?;
        *next += 1;
        *spent_ns += nanos;
        worker.set_now(worker.now_ms() + whole_ms(nanos));
        Ok(())
    }
}

impl Batch {
    /// Sets the parts with which scripts run; without them their commands may not run.
    pub fn set_scripts(&mut self, parts: ScriptParts) {
        let ScriptParts { worker, table, keeper, aside } = parts;
        let stage = Box::new(Stage {
            worker,
            table,
            observers: Observers::new(Arc::clone(&self.observers.stats)),
            keeper,
            request: Request::default(),
            called: Request::default(),
            scratch: Reply::new(),
            out: Reply::new(),
            part: None,
        });
        self.scripts = Some(Box::new(Scripts { stage: Some(stage), aside, stack: None, has_stage: true }));
    }

    /// Sets the keeper of scripts that a stream brings which is applied: they run on no stage. Without it, or
    /// [`Batch::set_scripts`], their commands may not run.
    pub(crate) fn set_keeper(&mut self, keeper: Box<ScriptKeeper>) {
        self.scripts = Some(Box::new(Scripts { stage: None, aside: keeper, stack: None, has_stage: false }));
    }

    /// Settles a script that has rested: its reply goes to the `client`, if that is still there. Or gives its request, as a client
    /// sends it: the script has met a command for which it has to begin again alone, and that place was taken. Nothing of it is
    /// done, and it is tried again like any request that is put back.
    pub fn end_script(
        &mut self,
        ended: EndedScript,
        worker: &mut StoreWorker,
        client: Option<&mut Session>,
        out: &mut Reply,
    ) -> Option<Vec<u8>> {
        let mut gone = None;
        let client = client.unwrap_or_else(|| gone.insert(Session::of_replay(0)));
        if self.settle(ended, worker, client, out).is_some() {
            return None;
        }
        client.note_busy();
        let stage = self.scripts.as_mut().and_then(|scripts| scripts.stage.as_mut())?;
        let request = stage.request.to_resp();
        stage.clear();
        Some(request)
    }

    /// Settles a script that has ended: the stage is free again. Gives the nanoseconds that its command took; None, and nothing
    /// is done, if its place was not to be had.
    fn settle(
        &mut self,
        ended: EndedScript,
        worker: &mut StoreWorker,
        client: &mut Session,
        out: &mut Reply,
    ) -> Option<u64> {
        let EndedScript { mut stage, stack } = ended;
        stage.settle(worker, &mut self.observers);
        let took = stage.finish(worker, &mut self.observers, client, out);
        client.note_script_bytes(0);
        if took.is_some() {
            stage.clear();
        }
        let scripts = self.scripts.as_deref_mut().expect("it was taken from there");
        debug_assert!(scripts.stage.is_none(), "a worker has one stage");
        (scripts.stage, scripts.stack) = (Some(stage), Some(stack));
        took
    }

    /// True if this worker has a stage, free or not.
    pub(super) fn has_stage(&self) -> bool {
        self.scripts.as_ref().is_some_and(|scripts| scripts.has_stage)
    }

    /// Sees to it that the stage has a stack. False while another script of this worker has both.
    ///
    /// # Errors
    /// The system refuses the memory.
    fn prepare_stage(&mut self) -> CmdResult<bool> {
        let scripts = self.scripts.as_deref_mut().expect("a server with commands of scripts has a stage");
        if scripts.stage.is_none() {
            return Ok(false);
        }
        if scripts.stack.is_none() {
            scripts.stack = Some(new_stack(STACK_BYTES)?);
        }
        Ok(true)
    }
}

/// Address space for a stack. The system gives its pages when they are touched.
fn new_stack(bytes: usize) -> CmdResult<DefaultStack> {
    DefaultStack::new(bytes).map_err(|_| CommandError::OUT_OF_MEMORY)
}

impl Scripts {
    /// Sets who publishes the events and messages of scripts.
    pub(super) fn set_events(&mut self, events: impl Events + Clone + Send + 'static) {
        let Some(stage) = &mut self.stage else { return };
        stage.worker.set_event_sink(Box::new(Publisher::new(events.clone())));
        stage.observers.events = Some(Box::new(events));
    }

    /// The keeper for a command about scripts, or for a script that runs on no stage.
    pub(super) fn keeper(&mut self) -> &mut ScriptKeeper {
        match &mut self.stage {
            Some(stage) => &mut *stage.keeper,
            None => &mut *self.aside,
        }
    }
}

/// The request of a script, with what it runs under.
pub(super) struct Cue<'c> {
    pub(super) row: &'static Command,
    pub(super) job: Job,
    pub(super) args: Args<'c>,
    /// The session on which it runs.
    pub(super) session: Session,
    pub(super) denied: Denied,
    pub(super) still: bool,
    /// The length of its slices.
    pub(super) slice: Duration,
    /// The worker's other part.
    pub(super) worker: &'c StoreWorker,
    /// Of the worker's other part.
    pub(super) observers: &'c Observers,
    pub(super) out: &'c Reply,
}

impl Stage {
    /// Sets a script up.
    pub(super) fn set(&mut self, cue: Cue<'_>) {
        let Cue { row, job, args, session, denied, still, slice, worker, observers, out } = cue;
        self.request.set(args.iter());
        self.worker.set_now(worker.now_ms());
        self.worker.set_client(session.id());
        self.worker.set_no_touch(session.is_no_touch());
        self.observers.follow(observers);
        self.out.set_resp(out.resp());
        self.out.set_ceiling(out.ceiling());
        let (begun, ran) = (Instant::now(), Duration::ZERO);
        self.part = Some(Part { row, job, session, denied, still, slice, begun, ran, result: None });
    }

    /// Bytes of the request, or of the transaction.
    fn request_bytes(&self) -> usize {
        self.request.held_bytes() + self.part.as_ref().map_or(0, |part| part.session.queued_bytes())
    }

    /// Runs the script, from its first slice to its last.
    fn perform(mut self: Box<Stage>, yielder: &Yielder<Resumed, Rested>) -> Box<Stage> {
        let Stage { worker, table, observers, keeper, request, called, scratch, out, part } = &mut *self;
        let Part { row, job, session, denied, still, slice, begun, ran, result } =
            part.as_mut().expect("a script was set up");
        let slices = Slices::begin(yielder, *begun, *slice);
        let keeper = Some(&mut **keeper);
        let (slices, denied, still) = (&slices, *denied, *still);
        let mut parts = Scripting { table, observers, keeper, denied, still, slices, abandoned: false };
        *result = match *job {
            Job::Script(run) => {
                let room = Room { request: called, scratch };
                parts.run_by_itself((row, run), (request.args(), session), worker, out, room)
            }
            Job::Exec => run_alone(row, &mut parts, worker, session, out).map(|_| Ok(())),
            Job::ExecOnShards => {
                let ran = run_on_shards(row, &mut parts, &mut ShardSet::default(), (worker, session), out);
                ran.ok().map(|_| Ok(()))
            }
        };
        *ran = slices.clock() - *begun;
        self
    }

    /// Hands on what the script has left behind.
    pub(super) fn settle(&mut self, worker: &mut StoreWorker, observers: &mut Observers) {
        worker.await_also(self.worker.take_awaited());
        let mut gone = self.worker.take_gone();
        if !gone.is_empty() {
            observers.put_off.append(&mut gone);
        }
        observers.absorb(&mut self.observers);
    }

    /// Ends the command that ran the script: its reply is written. Gives the nanoseconds for which it has run; None, and nothing
    /// is done, if its place was not to be had.
    pub(super) fn finish(
        &mut self,
        worker: &mut StoreWorker,
        observers: &mut Observers,
        client: &mut Session,
        out: &mut Reply,
    ) -> Option<u64> {
        let Part { row, job, ran, result, .. } = self.part.as_mut().expect("a script has ended");
        let (row, job, ran, result) = (*row, *job, *ran, result.take());
        if let Job::Exec | Job::ExecOnShards = job {
            client.come_back(self.part.take().expect("the transaction's").session);
        }
        // Dropped where it lies: to move it costs more than the script's own session does.
        self.part = None;
        let Some(result) = result else {
            debug_assert!(self.out.is_empty(), "nothing is done");
            return None;
        };
        let mark = out.mark();
        if self.out.len() > COPIED_BYTES || self.out.is_overflown() {
            out.append(mem::take(&mut self.out));
        } else {
            self.out.parts().for_each(|part| out.raw(&part));
            self.out.clear(REPLY_KEEP_BYTES);
        }
        let (nanos, now_ms) = (ran.as_nanos() as u64, worker.now_ms());
        if let Job::Exec | Job::ExecOnShards = job {
            // The transaction has counted itself.
            return Some(nanos);
        }
        let args = self.request.args();
        let ran = Ran { row, args, result, mark, nanos: Some(nanos), now_ms, is_pending: false };
        observers.after(ran, Caller::Client(client), None, out);
        Some(nanos)
    }

    /// Keeps of its buffers what most scripts need.
    fn clear(&mut self) {
        self.request.clear();
        self.called.clear();
        self.scratch.clear(REPLY_KEEP_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_room_for_a_stack_a_script_is_refused() {
        assert!(new_stack(STACK_BYTES).is_ok());
        let refused = new_stack(1 << 60).err().expect("more than any address space");
        assert_eq!(refused.text(), CommandError::OUT_OF_MEMORY.text());
    }
}
