//! FCALL and FCALL_RO: functions of libraries.

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, arg, key};
use varve_exec::{
    Beginning, CmdResult, Command, CommandError, Exec, FileRows, ScriptCtx, ScriptKeeper, ScriptKind, ScriptRules,
};
use varve_protocol::Args;

use crate::errors;
use crate::given::keys_and_arguments;
use crate::host::{Called, ScriptHost};
use crate::keeper::Keeper;
use crate::rows::{COST, READ, READ_NOTES, RUNNING, WRITTEN, WRITTEN_NOTES};

pub(crate) const ROWS: FileRows = &[FCALL, FCALL_RO];

/// FCALL function numkeys [key ...] [arg ...]
fn fcall(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    run(ctx, false)
}

const FCALL: Command = Command::new(
    Exec::Script(fcall, rules),
    Row::new("fcall", Group::Scripting, -3, "7.0.0")
        .about("Runs a function of a library.", COST)
        .flags(RUNNING)
        .acl(&[Acl::SCRIPTING])
        .keys(&[WRITTEN.notes(WRITTEN_NOTES)])
        .args(&[
            arg("function", ArgKind::String),
            arg("numkeys", ArgKind::Integer),
            key("key", 0).optional().multiple(),
            arg("arg", ArgKind::String).optional().multiple(),
        ])
        .behaviour(Behaviour::WRITES_TOO.and(Behaviour::TAKES_MEMORY)),
);

/// FCALL_RO function numkeys [key ...] [arg ...]
fn fcall_ro(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    run(ctx, true)
}

const FCALL_RO: Command = Command::new(
    Exec::Script(fcall_ro, rules),
    Row::new("fcall_ro", Group::Scripting, -3, "7.0.0")
        .about("Runs a function of a library that changes nothing.", COST)
        .flags(RUNNING)
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SCRIPTING])
        .keys(&[READ.notes(READ_NOTES)])
        .args(&[
            arg("function", ArgKind::String),
            arg("numkeys", ArgKind::Integer),
            key("key", 0).optional().multiple(),
            arg("arg", ArgKind::String).optional().multiple(),
        ])
        .behaviour(Behaviour::TAKES_MEMORY),
);

/// The flags of the function.
fn rules(keeper: &mut ScriptKeeper, args: Args<'_>) -> Option<ScriptRules> {
    Keeper::of(keeper).shared().functions().find(args.get(1)).map(|function| function.rules())
}

fn run(ctx: &mut ScriptCtx<'_>, read_only: bool) -> CmdResult {
    let shared = Keeper::of(ctx.keeper).shared();
    let functions = shared.functions();
    let function = functions.find(ctx.args.get(1)).ok_or(errors::NO_FUNCTION)?;
    let given = keys_and_arguments(ctx.args, errors::BAD_KEYS)?;
    let (flags, alone) = (Some(function.rules()), function.has_met_wide());
    ctx.calls.begin(Beginning { flags, read_only, alone, words: &function.words })?;
    if !function.is_current() {
        // It has been replaced since it was found; in the place of scripts that does not happen any more.
        ctx.calls.begin_again();
        return Err(CommandError::SCRIPT_PUT_OFF);
    }
    let called = Some(Called { name: &function.name, args: ctx.args });
    let running = shared.running();
    let (kind, memory) = (ScriptKind::Function, functions.state_memory());
    let mut host = ScriptHost { calls: &mut *ctx.calls, running, kind, called, until: None, memory };
    functions.run(&function, &given, &mut host, ctx.out)
}
