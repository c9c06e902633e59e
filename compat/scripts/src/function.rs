//! FUNCTION: the libraries of functions that the server knows.
//!
//! LOAD, DELETE, FLUSH and RESTORE run in the place of scripts: no function runs meanwhile, and what they change is one unit
//! of the journal, the command as it was sent.

use std::time::Duration;

use varve_base::glob::Glob;
use varve_catalog::{Acl, ArgKind, Flags, Group, Row, arg, one_of, word};
use varve_exec::{
    Beginning, CmdResult, Command, CommandError, Exec, FileRows, KeeperCtx, ScriptCtx, ScriptKeeper, ScriptKind,
    ScriptRules, SessionCtx,
};
use varve_protocol::{Args, Reply};
use varve_rdb::functions::{self, LibrariesFault};

use crate::errors;
use crate::functions::{Library, NotLoaded, Policy};
use crate::host::ScriptHost;
use crate::keeper::{Keeper, TEXT_MAX, check_text};
use crate::rows::reply_help;

pub(crate) const ROWS: FileRows = &[FUNCTION];

/// How long the code of a library that is loaded may run, as in redis-server. Libraries of a file have all the time.
const LOAD_TIME: Duration = Duration::from_millis(500);

const FUNCTION: Command = Command::container(
    Row::new("function", Group::Scripting, -2, "7.0.0").about("The libraries of functions that the server knows.", ""),
    &[KILL, DUMP, STATS, LIST, LOAD, HELP, FLUSH, RESTORE, DELETE],
);

/// These commands declare nothing.
fn no_rules(_: &mut ScriptKeeper, _: Args<'_>) -> Option<ScriptRules> {
    None
}

/// Takes the place of scripts for a command that changes libraries.
fn begin(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    ctx.calls.begin(Beginning { flags: None, read_only: false, alone: false, words: &[] })
}

/// FUNCTION LOAD [REPLACE] code
fn load(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    let (last, mut replace) = (ctx.args.len() - 1, false);
    for option in (2..last).map(|at| ctx.args.get(at)) {
        if !option.eq_ignore_ascii_case(b"replace") {
            return Err(errors::load_option(option));
        }
        replace = true;
    }
    check_text(ctx.args.get(last), ctx.replays)?;
    begin(ctx)?;
    let shared = Keeper::of(ctx.keeper).shared();
    let until = (!ctx.replays).then(|| ctx.calls.clock() + LOAD_TIME);
    let (running, kind, memory) = (shared.running(), ScriptKind::Function, shared.functions().state_memory());
    let mut host = ScriptHost { calls: &mut *ctx.calls, running, kind, called: None, until, memory };
    match shared.functions().load(ctx.args.get(last), replace, &mut host) {
        Ok(name) => {
            ctx.calls.report_sent();
            ctx.out.bulk(&name);
            Ok(())
        }
        Err(NotLoaded::Taken(error)) => pass_over(ctx, error),
        Err(NotLoaded::Wrong(error)) => Err(error),
    }
}

/// Passes a command of a primary's stream over that fails since clients of this replica, which may be written, have changed its
/// libraries: the replica keeps what they made, as in redis-server. No command behind it needs the library: the stream has what
/// functions did, and not their calls.
///
/// # Errors
/// A client has sent the command: this error.
fn pass_over(ctx: &mut ScriptCtx<'_>, error: CommandError) -> CmdResult {
    if !ctx.replays {
        return Err(error);
    }
    let (name, text) = (ctx.row.full_name, String::from_utf8_lossy(error.text()).into_owned());
    tracing::warn!(
        "The command '{name}' of the stream is passed over: clients of this server have changed libraries ({text})"
    );
    ctx.out.ok();
    Ok(())
}

const LOAD: Command = Command::new(
    Exec::Script(load, no_rules),
    Row::sub("function|load", "load", Group::Scripting, -3, "7.0.0")
        .about("Has the server know a library of functions.", "That of the library's code")
        .flags(&[Flags::NOSCRIPT, Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .args(&[word("replace", "REPLACE").optional(), arg("function-code", ArgKind::String)]),
);

/// FUNCTION DELETE library
fn delete(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    begin(ctx)?;
    let deleted = Keeper::of(ctx.keeper).shared().functions().delete(ctx.args.get(2));
    if let Err(error) = deleted {
        return pass_over(ctx, error);
    }
    ctx.calls.report_sent();
    ctx.out.ok();
    Ok(())
}

const DELETE: Command = Command::new(
    Exec::Script(delete, no_rules),
    Row::sub("function|delete", "delete", Group::Scripting, 3, "7.0.0")
        .about("Forgets a library of functions.", "O(N) in the functions of the library")
        .flags(&[Flags::NOSCRIPT, Flags::WRITE])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .args(&[arg("library-name", ArgKind::String)]),
);

/// FUNCTION FLUSH [ASYNC | SYNC]: both do the same.
fn flush(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    let known = |mode: &[u8]| mode.eq_ignore_ascii_case(b"async") || mode.eq_ignore_ascii_case(b"sync");
    match ctx.args.len() {
        2 => {}
        3 if known(ctx.args.get(2)) => {}
        3 => return Err(errors::FUNCTION_FLUSH_MODE),
        _ => return Err(errors::function_words(ctx.args.get(1))),
    }
    begin(ctx)?;
    Keeper::of(ctx.keeper).shared().functions().flush();
    ctx.calls.report_sent();
    ctx.out.ok();
    Ok(())
}

const FLUSH: Command = Command::new(
    Exec::Script(flush, no_rules),
    Row::sub("function|flush", "flush", Group::Scripting, -2, "7.0.0")
        .about("Forgets all libraries of functions.", "O(N) in the functions")
        .flags(&[Flags::NOSCRIPT, Flags::WRITE])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .args(&[one_of("async", &[word("async", "ASYNC"), word("sync", "SYNC")]).optional()]),
);

/// FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]
fn restore(ctx: &mut ScriptCtx<'_>) -> CmdResult {
    let policy = match ctx.args.len() {
        3 => Policy::Append,
        4 => policy(ctx.args.get(3))?,
        _ => return Err(errors::function_words(ctx.args.get(1))),
    };
    // A stream that is applied brings what its primary has, however long. Texts longer than the state could never be loaded.
    let state_bytes = Keeper::of(ctx.keeper).shared().state_bytes_max();
    let (text_max, all_max) = if ctx.replays { (usize::MAX, usize::MAX) } else { (TEXT_MAX, state_bytes) };
    let texts = functions::open(ctx.args.get(2), text_max, all_max).map_err(|fault| match fault {
        LibrariesFault::Frame => errors::PAYLOAD,
        LibrariesFault::Type => errors::PAYLOAD_TYPE,
        LibrariesFault::FirstForm => errors::PAYLOAD_FIRST_FORM,
        LibrariesFault::Text(_) => errors::PAYLOAD_TEXT,
        LibrariesFault::TooLong => errors::TEXT_LENGTH,
    })?;
    begin(ctx)?;
    let shared = Keeper::of(ctx.keeper).shared();
    let until = (!ctx.replays).then(|| ctx.calls.clock() + LOAD_TIME);
    let (running, kind, memory) = (shared.running(), ScriptKind::Function, shared.functions().state_memory());
    let mut host = ScriptHost { calls: &mut *ctx.calls, running, kind, called: None, until, memory };
    match shared.functions().restore(&texts, policy, &mut host) {
        Ok(()) => {
            ctx.calls.report_sent();
            ctx.out.ok();
            Ok(())
        }
        Err(NotLoaded::Taken(error)) => pass_over(ctx, error),
        Err(NotLoaded::Wrong(error)) => Err(error),
    }
}

fn policy(word: &[u8]) -> CmdResult<Policy> {
    let policies = [("flush", Policy::Flush), ("append", Policy::Append), ("replace", Policy::Replace)];
    let found = policies.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|(_, policy)| policy).ok_or(errors::RESTORE_POLICY)
}

const RESTORE: Command = Command::new(
    Exec::Script(restore, no_rules),
    Row::sub("function|restore", "restore", Group::Scripting, -3, "7.0.0")
        .about("Has the server know the libraries of a payload.", "That of the libraries' code")
        .flags(&[Flags::NOSCRIPT, Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .args(&[
            arg("serialized-value", ArgKind::String),
            one_of("policy", &[word("flush", "FLUSH"), word("append", "APPEND"), word("replace", "REPLACE")])
                .optional(),
        ]),
);

/// FUNCTION DUMP
fn dump(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    let texts = Keeper::of(ctx.keeper).shared().functions().texts();
    ctx.out.bulk(&functions::seal(texts.iter().map(|text| &**text)));
    Ok(())
}

const DUMP: Command = Command::new(
    Exec::Keeper(dump),
    Row::sub("function|dump", "dump", Group::Scripting, 2, "7.0.0")
        .about("Replies all libraries as one payload.", "O(N) in the bytes of the libraries")
        .flags(&[Flags::NOSCRIPT])
        .acl(&[Acl::SCRIPTING]),
);

/// FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]
fn list(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = ctx.args.skip(2).iter();
    while let Some(word) = words.next() {
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"libraryname") {
            pattern = Some(words.next().ok_or(errors::NO_PATTERN)?);
        } else {
            return Err(errors::list_argument(word));
        }
    }
    let mut libraries = Keeper::of(ctx.keeper).shared().functions().libraries();
    let pattern = pattern.map(Glob::without_case);
    libraries.retain(|library| pattern.as_ref().is_none_or(|pattern| pattern.matches(&library.name)));
    ctx.out.array(libraries.len());
    libraries.iter().for_each(|library| describe(library, with_code, ctx.out));
    Ok(())
}

fn describe(library: &Library, with_code: bool, out: &mut Reply) {
    out.map(3 + usize::from(with_code));
    out.bulk(b"library_name");
    out.bulk(&library.name);
    out.bulk(b"engine");
    out.bulk(b"LUA");
    out.bulk(b"functions");
    out.array(library.functions.len());
    for function in &library.functions {
        out.map(3);
        out.bulk(b"name");
        out.bulk(&function.name);
        out.bulk(b"description");
        match &function.description {
            Some(text) => out.bulk(text),
            None => out.null(),
        }
        out.bulk(b"flags");
        out.set(function.flags.names().count());
        function.flags.names().for_each(|name| out.simple(name));
    }
    if with_code {
        out.bulk(b"library_code");
        out.bulk(&library.text);
    }
}

const LIST: Command = Command::new(
    Exec::Keeper(list),
    Row::sub("function|list", "list", Group::Scripting, -2, "7.0.0")
        .about(
            "Lists libraries and their functions.",
            "O(N) in the functions, and in the bytes of their code if that is asked for",
        )
        .flags(&[Flags::NOSCRIPT])
        .acl(&[Acl::SCRIPTING])
        .tips(&["nondeterministic_output_order"])
        .args(&[
            arg("library-name-pattern", ArgKind::String).token("LIBRARYNAME").optional(),
            word("withcode", "WITHCODE").optional(),
        ]),
);

/// FUNCTION STATS
fn stats(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    if ctx.busy == Some(ScriptKind::Script) {
        return Err(CommandError::BUSY_SCRIPT);
    }
    let shared = Keeper::of(ctx.keeper).shared();
    ctx.out.map(2);
    ctx.out.bulk(b"running_script");
    match shared.running().function() {
        Some(running) => {
            ctx.out.map(3);
            ctx.out.bulk(b"name");
            ctx.out.bulk(&running.name);
            ctx.out.bulk(b"command");
            ctx.out.array(running.words.len());
            running.words.iter().for_each(|word| ctx.out.bulk(word));
            ctx.out.bulk(b"duration_ms");
            ctx.out.integer(running.for_ms as i64);
        }
        None => ctx.out.null(),
    }
    let sizes = shared.functions().sizes();
    ctx.out.bulk(b"engines");
    ctx.out.map(1);
    ctx.out.bulk(b"LUA");
    ctx.out.map(2);
    ctx.out.bulk(b"libraries_count");
    ctx.out.integer(sizes.libraries as i64);
    ctx.out.bulk(b"functions_count");
    ctx.out.integer(sizes.functions as i64);
    Ok(())
}

const STATS: Command = Command::new(
    Exec::Keeper(stats),
    Row::sub("function|stats", "stats", Group::Scripting, 2, "7.0.0")
        .about("Tells which function runs, and how many there are.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::ALLOW_BUSY])
        .acl(&[Acl::SCRIPTING])
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
);

/// FUNCTION KILL
fn kill(ctx: &mut KeeperCtx<'_>) -> CmdResult {
    Keeper::of(ctx.keeper).running().kill(ScriptKind::Function)?;
    ctx.out.ok();
    Ok(())
}

const KILL: Command = Command::new(
    Exec::Keeper(kill),
    Row::sub("function|kill", "kill", Group::Scripting, 2, "7.0.0")
        .about("Ends the function that runs.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::ALLOW_BUSY])
        .acl(&[Acl::SCRIPTING])
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
);

/// FUNCTION HELP
fn help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    reply_help(HELP_LINES, ctx.out)
}

const HELP: Command = Command::new(
    Exec::Session(help),
    Row::sub("function|help", "help", Group::Scripting, 2, "7.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::SCRIPTING]),
);

const HELP_LINES: &[&str] = &[
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LOAD [REPLACE] <code>",
    "    Have the server know the library of this code; with REPLACE it may be known already.",
    "DELETE <library>",
    "    Forget a library.",
    "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
    "    Show the libraries, or those whose names match: name, engine, functions, and the code if it is asked for.",
    "STATS",
    "    Show the function that runs, its command and for how long it has run, and the numbers of libraries and functions.",
    "KILL",
    "    End the function that runs, unless it has changed something.",
    "FLUSH [ASYNC|SYNC]",
    "    Forget all libraries. Both modes do the same.",
    "DUMP",
    "    Show all libraries as one payload, which FUNCTION RESTORE takes.",
    "RESTORE <payload> [FLUSH|APPEND|REPLACE]",
    "    Have the server know the libraries of a payload, all of them or none.",
    "    FLUSH: forget all others. APPEND (the default): none may be known. REPLACE: those of the same names go.",
    "HELP",
    "    Print this help.",
];
