//! EVAL, EVALSHA, and those of their kin that change nothing.

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, arg, key};
use varve_exec::{CmdResult, Command, CommandError, Exec, FileRows, ScriptCtx, ScriptKeeper, ScriptRules};
use varve_protocol::Args;

use crate::cache::Name;
use crate::errors;
use crate::given::keys_and_arguments;
use crate::keeper::{Keeper, check_text};
use crate::rows::{COST, READ, READ_NOTES, RUNNING, WRITTEN, WRITTEN_NOTES};
use crate::shebang;

pub(crate) const ROWS: FileRows = &[EVAL, EVALSHA, EVAL_RO, EVALSHA_RO];

/// EVAL script numkeys [key ...] [arg ...]
fn eval(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    run(ctx, Named::ByText, false)
}

const EVAL: Command = Command::new(
    Exec::Script(eval, rules_by_text),
    Row::new("eval", Group::Scripting, -3, "2.6.0")
        .about("Runs a script that is sent with the command.", COST)
        .flags(RUNNING)
        .acl(&[Acl::SCRIPTING])
        .keys(&[WRITTEN.notes(WRITTEN_NOTES)])
        .args(&[
            arg("script", ArgKind::String),
            arg("numkeys", ArgKind::Integer),
            key("key", 0).optional().multiple(),
            arg("arg", ArgKind::String).optional().multiple(),
        ])
        .behaviour(Behaviour::WRITES_TOO.and(Behaviour::TAKES_MEMORY)),
);

/// EVALSHA sha1 numkeys [key ...] [arg ...]
fn evalsha(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    run(ctx, Named::BySha, false)
}

const EVALSHA: Command = Command::new(
    Exec::Script(evalsha, rules_by_sha),
    Row::new("evalsha", Group::Scripting, -3, "2.6.0")
        .about("Runs a script that the server knows, by the SHA-1 of its text.", COST)
        .flags(RUNNING)
        .acl(&[Acl::SCRIPTING])
        .keys(&[WRITTEN])
        .args(&[
            arg("sha1", ArgKind::String),
            arg("numkeys", ArgKind::Integer),
            key("key", 0).optional().multiple(),
            arg("arg", ArgKind::String).optional().multiple(),
        ])
        .behaviour(Behaviour::WRITES_TOO.and(Behaviour::TAKES_MEMORY)),
);

/// EVAL_RO script numkeys [key ...] [arg ...]
fn eval_ro(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    run(ctx, Named::ByText, true)
}

const EVAL_RO: Command = Command::new(
    Exec::Script(eval_ro, rules_by_text),
    Row::new("eval_ro", Group::Scripting, -3, "7.0.0")
        .about("Runs a script that is sent with the command and changes nothing.", COST)
        .flags(RUNNING)
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SCRIPTING])
        .keys(&[READ.notes(READ_NOTES)])
        .args(&[
            arg("script", ArgKind::String),
            arg("numkeys", ArgKind::Integer),
            key("key", 0).optional().multiple(),
            arg("arg", ArgKind::String).optional().multiple(),
        ])
        .behaviour(Behaviour::TAKES_MEMORY),
);

/// EVALSHA_RO sha1 numkeys [key ...] [arg ...]
fn evalsha_ro(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    run(ctx, Named::BySha, true)
}

const EVALSHA_RO: Command = Command::new(
    Exec::Script(evalsha_ro, rules_by_sha),
    Row::new("evalsha_ro", Group::Scripting, -3, "7.0.0")
        .about("Runs a script that the server knows and that changes nothing, by the SHA-1 of its text.", COST)
        .flags(RUNNING)
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SCRIPTING])
        .keys(&[READ])
        .args(&[
            arg("sha1", ArgKind::String),
            arg("numkeys", ArgKind::Integer),
            key("key", 0).optional().multiple(),
            arg("arg", ArgKind::String).optional().multiple(),
        ])
        .behaviour(Behaviour::TAKES_MEMORY),
);

/// The flags that a script declares which is sent.
fn rules_by_text(_: &mut ScriptKeeper, args: Args<'_>) -> Option<ScriptRules> {
    shebang::split(args.get(1)).ok()?.0
}

/// The flags that a script declares which the server knows.
fn rules_by_sha(keeper: &mut ScriptKeeper, args: Args<'_>) -> Option<ScriptRules> {
    let body = Keeper::of(keeper).cache().get(Name::parse(args.get(1))?)?;
    shebang::split(&body).ok()?.0
}

/// How a command names its script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    ByText,
    BySha,
}

fn run(ctx: &mut ScriptCtx<'_>, named: Named, read_only: bool) -> CmdResult {
    let word = ctx.args.get(1);
    if named == Named::BySha && word.len() != Name::DIGITS {
        // Said before the keys are looked at, as redis-server does.
        return Err(errors::NO_SCRIPT);
    }
    let keys = keys_and_arguments(ctx.args, CommandError::NOT_INTEGER)?;
    let keeper = Keeper::of(ctx.keeper);
    let name = match named {
        Named::ByText => {
            check_text(word, ctx.replays)?;
            Name::of(word)
        }
        Named::BySha => Name::parse(word).ok_or(errors::NO_SCRIPT)?,
    };
    let body = (named == Named::ByText).then_some(word);
    keeper.prepare(name, body)?;
    keeper.run(name, &keys, read_only, ctx.calls, ctx.out)
}
