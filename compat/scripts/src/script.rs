//! SCRIPT: the scripts that the server knows.

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, arg, one_of, word};
use varve_exec::{CmdResult, Command, Exec, FileRows, KeeperCtx, ScriptKind, SessionCtx};

use crate::cache::Name;
use crate::errors;
use crate::keeper::{Keeper, check_text};
use crate::rows::reply_help;

pub(crate) const ROWS: FileRows = &[SCRIPT];

const SCRIPT: Command = Command::container(
    Row::new("script", Group::Scripting, -2, "2.6.0").about("The scripts that the server knows.", ""),
    &[LOAD, EXISTS, HELP, DEBUG, FLUSH, KILL],
);

/// SCRIPT LOAD script
fn load(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    let body = ctx.args.get(2);
    check_text(body, false)?;
    let name = Name::of(body);
    Keeper::of(ctx.keeper).load(name, body)?;
    ctx.out.bulk(&name.hex());
    Ok(())
}

const LOAD: Command = Command::new(
    Exec::Keeper(load),
    Row::sub("script|load", "load", Group::Scripting, 3, "2.6.0")
        .about("Has the server know a script.", "O(N) in the bytes of the script")
        .flags(&[Flags::NOSCRIPT, Flags::STALE])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .args(&[arg("script", ArgKind::String)])
        .behaviour(Behaviour::TAKES_MEMORY),
);

/// SCRIPT EXISTS sha1 [sha1 ...]
fn exists(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    let cache = Keeper::of(ctx.keeper).cache();
    ctx.out.array(ctx.args.len() - 2);
    for text in ctx.args.skip(2).iter() {
        let known = Name::parse(text).is_some_and(|name| cache.has(name));
        ctx.out.integer(i64::from(known));
    }
    Ok(())
}

const EXISTS: Command = Command::new(
    Exec::Keeper(exists),
    Row::sub("script|exists", "exists", Group::Scripting, -3, "2.6.0")
        .about("Tells which scripts the server knows.", "O(N) in the names")
        .flags(&[Flags::NOSCRIPT])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"])
        .args(&[arg("sha1", ArgKind::String).multiple()]),
);

/// SCRIPT HELP
fn help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    reply_help(HELP_LINES, ctx.out)
}

const HELP: Command = Command::new(
    Exec::Session(help),
    Row::sub("script|help", "help", Group::Scripting, 2, "5.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::SCRIPTING]),
);

const HELP_LINES: &[&str] = &[
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DEBUG (YES|SYNC|NO)",
    "    Only NO: this server has no debugger of scripts.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Tell which scripts the server knows.",
    "FLUSH [ASYNC|SYNC]",
    "    Forget all scripts. Both modes do the same.",
    "KILL",
    "    End the script that runs, unless it has changed something.",
    "LOAD <script>",
    "    Have the server know a script without running it.",
    "HELP",
    "    Print this help.",
];

/// SCRIPT DEBUG YES | SYNC | NO: there is no debugger.
fn debug(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    match ctx.args.get(2) {
        mode if mode.eq_ignore_ascii_case(b"no") => ctx.out.ok(),
        mode if mode.eq_ignore_ascii_case(b"yes") || mode.eq_ignore_ascii_case(b"sync") => {
            return Err(errors::NO_DEBUGGER);
        }
        _ => return Err(errors::DEBUG_MODE),
    }
    Ok(())
}

const DEBUG: Command = Command::new(
    Exec::Keeper(debug),
    Row::sub("script|debug", "debug", Group::Scripting, 3, "3.2.0")
        .about("Sets how scripts are debugged; this server has no debugger.", "O(1)")
        .flags(&[Flags::NOSCRIPT])
        .acl(&[Acl::SCRIPTING])
        .args(&[one_of("mode", &[word("yes", "YES"), word("sync", "SYNC"), word("no", "NO")])]),
);

/// SCRIPT FLUSH [ASYNC | SYNC]: both do the same.
fn flush(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    let known = |mode: &[u8]| mode.eq_ignore_ascii_case(b"async") || mode.eq_ignore_ascii_case(b"sync");
    match ctx.args.len() {
        2 => {}
        3 if known(ctx.args.get(2)) => {}
        _ => return Err(errors::FLUSH_MODE),
    }
    Keeper::of(ctx.keeper).flush();
    ctx.out.ok();
    Ok(())
}

const FLUSH: Command = Command::new(
    Exec::Keeper(flush),
    Row::sub("script|flush", "flush", Group::Scripting, -2, "2.6.0")
        .about("Forgets all scripts.", "O(N) in the scripts")
        .flags(&[Flags::NOSCRIPT])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .history(&[("6.2.0", "`ASYNC` and `SYNC`.")])
        .args(&[one_of("async", &[word("async", "ASYNC"), word("sync", "SYNC")]).since("6.2.0").optional()]),
);

/// SCRIPT KILL
fn kill(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    Keeper::of(ctx.keeper).running().kill(ScriptKind::Script)?;
    ctx.out.ok();
    Ok(())
}

const KILL: Command = Command::new(
    Exec::Keeper(kill),
    Row::sub("script|kill", "kill", Group::Scripting, 2, "2.6.0")
        .about("Ends the script that runs.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::ALLOW_BUSY])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
);
