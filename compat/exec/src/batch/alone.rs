//! The place of a command that names no keys: outside of the gate, inside like others, or alone behind it. And whether a
//! command runs now at all.

use std::collections::VecDeque;
use std::sync::Arc;

use varve_store::Store;
use varve_store::gate::{ExclusiveGate, InsideGate};

use super::{Running, Stop};
use crate::blocking;
use crate::checks::{self, Denied};
use crate::command::{Command, CommandTable, Exec, SessionCtx, Unresolved};
use crate::errors::CmdResult;
use crate::invoke::{Observers, WideCall, invoke_on_shards, invoke_wide};
use crate::last_command;
use crate::pause::Pause;
use crate::script::{KeeperCtx, ScriptKeeper};
use crate::script_rules::ScriptRules;
use crate::session::Session;

/// Where a command that names no keys runs.
pub(super) enum Place<'g> {
    Outside,
    Inside { _gate: InsideGate<'g> },
    Alone { _gate: ExclusiveGate<'g> },
}

impl<'g> Place<'g> {
    /// The place of a command, if it may be taken now, which was refused `tries` times before. The worker waits for no other one,
    /// but for the ends of batches.
    pub(super) fn take(d: &Command, store: &'g Store, worker: usize, tries: u32) -> Result<Place<'g>, Stop> {
        let gate = store.gate();
        match d.exec {
            Exec::Exclusive(_) if !gate.is_open(worker) => Err(Stop::Shut),
            Exec::Exclusive(_) => match gate.try_exclusive(worker, tries) {
                Some(alone) => Ok(Place::Alone { _gate: alone }),
                None => Err(Stop::Busy),
            },
            Exec::Keyspace(_) | Exec::Figures(_) => {
                let Some(_gate) = gate.try_enter(worker) else { return Err(Stop::Shut) };
                Ok(Place::Inside { _gate })
            }
            // Its message goes to replicas as well, whose stream stands still while somebody is alone behind the gate.
            Exec::Session(_) if d.publishes() && store.keeps_messages() => {
                let Some(_gate) = gate.try_enter(worker) else { return Err(Stop::Shut) };
                Ok(Place::Inside { _gate })
            }
            _ => Ok(Place::Outside),
        }
    }
}

/// Runs a command that names no keys to be held; None, and nothing is done, if it has met a busy shard and is put back.
pub(super) fn run_unkeyed(
    d: &'static Command,
    call: WideCall<'_>,
    (commands, observers, keeper, denied): (&CommandTable, &mut Observers, Option<&mut ScriptKeeper>, Denied),
    place: Place<'_>,
) -> Option<CmdResult> {
    last_command::note(d);
    let WideCall { args, worker, session, out } = call;
    if let Exec::Keeper(run) = d.exec {
        let keeper = keeper.expect("a server with commands of scripts has a stage");
        return Some(run(&mut KeeperCtx { args, out, keeper, busy: denied.busy }));
    }
    let store = Arc::clone(worker.store());
    if let Exec::Session(run) = d.exec {
        let (databases, events) = (store.databases(), observers.events.as_mut());
        let result = run(&mut SessionCtx { row: d, args, out, session, commands, databases, events });
        // One that has run outside stood before the first that is kept.
        if matches!(place, Place::Inside { .. }) && result.is_ok() {
            worker.did_publish(session.db(), &|words| args.iter().for_each(|arg| _ = words.add(arg)));
        }
        return Some(result);
    }
    if let Exec::Keyspace(run) = d.exec {
        return invoke_on_shards((d, run), &store, WideCall { args, worker, session, out }, false);
    }
    let changes = store.database_changes();
    let result = invoke_wide(d, &store, WideCall { args, worker: &mut *worker, session, out });
    if changes != store.database_changes() {
        blocking::serve_alone(worker, VecDeque::new(), true, observers);
        worker.park();
    }
    Some(result)
}

/// Why a request does not run now, if it does not: enough was replied, it is held back, or writes wait.
#[inline(always)]
pub(super) fn stands_back(
    full: bool,
    pause: Pause,
    denied: Denied,
    command: Result<&'static Command, Unresolved>,
    session: &Session,
) -> Option<Stop> {
    if full {
        return Some(Stop::Full);
    }
    match command {
        Ok(d) if pause.holds(d, session) => Some(Stop::Paused),
        Ok(d) if denied.writes_wait && Pause::Writes.holds(d, session) => Some(Stop::Busy),
        _ => None,
    }
}

impl Running<'_> {
    /// The pause that holds for the next request: a pause of writes does not hold a script back that declares that it changes
    /// nothing.
    #[inline]
    pub(super) fn pause_of(&mut self, command: Result<&'static Command, Unresolved>) -> Pause {
        match (self.batch.pause, command) {
            (Pause::Writes, Ok(d)) if self.declares_no_writes(d) => Pause::None,
            (pause, _) => pause,
        }
    }

    /// True if the next request, of this command, runs a script that declares that it changes nothing.
    fn declares_no_writes(&mut self, d: &'static Command) -> bool {
        self.rules_of(d).is_some_and(|rules| rules.no_writes)
    }

    /// The flags of the script that the next request, of this command, runs; None if it runs none, or one that declares none.
    pub(super) fn rules_of(&mut self, d: &'static Command) -> Option<ScriptRules> {
        let (Exec::Script(_, rules), Some(scripts)) = (d.exec, &mut self.batch.scripts) else { return None };
        let work = &self.batch.work;
        let args = work.args(&work.requests[self.next], self.input, self.outside);
        rules(scripts.keeper(), args)
    }

    /// The gate is shut: the request waits, unless a script has held it for too long.
    #[cold]
    pub(super) fn shut_out(&mut self, d: &'static Command) -> Option<Stop> {
        let denied = self.batch.denied;
        match checks::allowed(d, self.session, denied) {
            Err(refusal) if denied.busy.is_some() => self.reject(d, refusal),
            _ => Some(Stop::Shut),
        }
    }

    /// True while another worker is alone behind the gate, or waits to be.
    pub(super) fn is_shut_out(&self) -> bool {
        !self.worker.store().gate().is_open(self.worker.id())
    }
}
