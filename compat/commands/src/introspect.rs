//! COMMAND and its subcommands: what the table knows, told to clients.
//!
//! Flags, categories, tips and key specifications are sets in RESP3 and arrays in RESP2; subcommands are an array in both,
//! but an empty set where there are none. The order in which commands are listed means nothing.

use crate::errors;
use crate::grammar::asked_names;
use varve_base::glob::Glob;
use varve_catalog::{
    Acl, ArgKind, Argument, Begin, Behaviour, Find, Flags, Group, KeyFlags, KeySpec, Row, Secret, arg, one_of,
};
use varve_exec::{CmdResult, Command, CommandError, CommandTable, Exec, FileRows, SessionCtx};
use varve_protocol::{Args, Reply};

pub(crate) const ROWS: FileRows = &[COMMAND];

const COMMAND_ROWS: FileRows =
    &[COMMAND_COUNT, COMMAND_INFO, COMMAND_DOCS, COMMAND_LIST, COMMAND_GETKEYS, COMMAND_GETKEYSANDFLAGS, COMMAND_HELP];

/// `COMMAND`
fn command(ctx: &mut SessionCtx<'_>) -> CmdResult {
    ctx.out.array(ctx.commands.len());
    ctx.commands.iter().for_each(|command| tell(command, ctx.out));
    Ok(())
}

const COMMAND: Command = Command::new(
    Exec::Session(command),
    Row::new("command", Group::Server, -1, "2.8.13")
        .about("Describes all commands.", "O(N) in the commands")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output_order"]),
)
.with(COMMAND_ROWS);

/// `COMMAND COUNT`
fn count(ctx: &mut SessionCtx<'_>) -> CmdResult {
    ctx.out.integer(ctx.commands.len() as i64);
    Ok(())
}

const COMMAND_COUNT: Command = Command::new(
    Exec::Session(count),
    Row::sub("command|count", "count", Group::Server, 2, "2.8.13")
        .about("Counts the commands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `COMMAND INFO [name ...]`
fn info(ctx: &mut SessionCtx<'_>) -> CmdResult {
    let names = asked_names(ctx.args, 2)?;
    if names.is_empty() {
        return command(ctx);
    }
    ctx.out.array(names.len());
    for name in names.iter() {
        match ctx.commands.by_full_name(name) {
            Some(command) => tell(command, ctx.out),
            None => ctx.out.null(),
        }
    }
    Ok(())
}

const COMMAND_INFO: Command = Command::new(
    Exec::Session(info),
    Row::sub("command|info", "info", Group::Server, -2, "2.8.13")
        .about("Describes commands, all of them if none is named.", "O(N) in the commands asked for")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output_order"])
        .history(&[("7.0.0", "Without a name it describes all.")])
        .args(&[arg("command-name", ArgKind::String).optional().multiple()]),
);

/// `COMMAND DOCS [name ...]`: names that are not known are left out.
fn docs(ctx: &mut SessionCtx<'_>) -> CmdResult {
    let names = asked_names(ctx.args, 2)?;
    let found: Vec<&Command> = if names.is_empty() {
        ctx.commands.iter().collect()
    } else {
        names.iter().filter_map(|name| ctx.commands.by_full_name(name)).collect()
    };
    ctx.out.map(found.len());
    for command in found {
        document(command, ctx.out);
    }
    Ok(())
}

const COMMAND_DOCS: Command = Command::new(
    Exec::Session(docs),
    Row::sub("command|docs", "docs", Group::Server, -2, "7.0.0")
        .about("Documents commands.", "O(N) in the commands asked for")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output_order"])
        .args(&[arg("command-name", ArgKind::String).optional().multiple()]),
);

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`
fn list(ctx: &mut SessionCtx<'_>) -> CmdResult {
    let Some(filter) = Filter::of(ctx.args.skip(2)) else { return Err(CommandError::SYNTAX) };
    let head = ctx.out.defer();
    let mut names = 0;
    for command in ctx.commands.iter() {
        for command in std::iter::once(command).chain(command.subcommands) {
            if filter.takes(command) {
                ctx.out.bulk(command.full_name.as_bytes());
                names += 1;
            }
        }
    }
    ctx.out.end_array(head, names);
    Ok(())
}

const COMMAND_LIST: Command = Command::new(
    Exec::Session(list),
    Row::sub("command|list", "list", Group::Server, -2, "7.0.0")
        .about("Lists the names of commands.", "O(N) in the commands")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .tips(&["nondeterministic_output_order"])
        .args(&[one_of(
            "filterby",
            &[
                arg("module-name", ArgKind::String).token("MODULE"),
                arg("category", ArgKind::String).token("ACLCAT"),
                arg("pattern", ArgKind::Pattern).token("PATTERN"),
            ],
        )
        .token("FILTERBY")
        .optional()]),
);

/// `COMMAND GETKEYS name [argument ...]`
fn getkeys(ctx: &mut SessionCtx<'_>) -> CmdResult {
    find_keys(ctx, false)
}

const COMMAND_GETKEYS: Command = Command::new(
    Exec::Session(getkeys),
    Row::sub("command|getkeys", "getkeys", Group::Server, -4, "2.8.13")
        .about("Finds the keys in a request.", "O(N) in the request's arguments")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .secret(Secret::From(3)),
);

/// `COMMAND GETKEYSANDFLAGS name [argument ...]`
fn getkeysandflags(ctx: &mut SessionCtx<'_>) -> CmdResult {
    find_keys(ctx, true)
}

const COMMAND_GETKEYSANDFLAGS: Command = Command::new(
    Exec::Session(getkeysandflags),
    Row::sub("command|getkeysandflags", "getkeysandflags", Group::Server, -4, "7.0.0")
        .about("Finds the keys in a request and what it does to them.", "O(N) in the request's arguments")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .secret(Secret::From(3)),
);

/// `COMMAND HELP`
fn help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    const LINES: &[&str] = &[
        "(no subcommand)",
        "    Describe all commands.",
        "COUNT",
        "    Count the commands.",
        "DOCS [<command-name> ...]",
        "    Document the commands named, or all.",
        "GETKEYS <full-command>",
        "    Find the keys in a request.",
        "GETKEYSANDFLAGS <full-command>",
        "    Find the keys in a request and what it does to them.",
        "INFO [<command-name> ...]",
        "    Describe the commands named, or all.",
        "LIST [FILTERBY (MODULE <module-name>|ACLCAT <category>|PATTERN <pattern>)]",
        "    List the names of commands.",
        "HELP",
        "    Print this help.",
    ];
    ctx.out.array(LINES.len() + 1);
    ctx.out.simple("COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    LINES.iter().for_each(|line| ctx.out.simple(line));
    Ok(())
}

const COMMAND_HELP: Command = Command::new(
    Exec::Session(help),
    Row::sub("command|help", "help", Group::Server, 2, "5.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::CONNECTION])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// The filter of COMMAND LIST, for commands and subcommands alike.
enum Filter<'a> {
    Everything,
    Nothing,
    Category(Acl),
    Pattern(Glob<&'a [u8]>),
}

impl<'a> Filter<'a> {
    fn of(args: Args<'a>) -> Option<Filter<'a>> {
        if args.is_empty() {
            return Some(Filter::Everything);
        }
        if args.len() != 3 || !args.is(0, "FILTERBY") {
            return None;
        }
        let what = args.get(2);
        if args.is(1, "MODULE") {
            Some(Filter::Nothing) // there are no modules
        } else if args.is(1, "ACLCAT") {
            Some(Acl::from_name(what).map_or(Filter::Nothing, Filter::Category))
        } else if args.is(1, "PATTERN") {
            Some(Filter::Pattern(Glob::without_case(what)))
        } else {
            None
        }
    }

    fn takes(&self, command: &Command) -> bool {
        match self {
            Filter::Everything => true,
            Filter::Nothing => false,
            Filter::Category(category) => command.acl.has(*category),
            Filter::Pattern(pattern) => pattern.matches(command.full_name.as_bytes()),
        }
    }
}

fn find_keys(ctx: &mut SessionCtx<'_>, with_flags: bool) -> CmdResult {
    let request = ctx.args.skip(2);
    let keys = keys_of(ctx.commands, request)?;
    ctx.out.array(keys.len());
    for (at, flags) in keys {
        if with_flags {
            ctx.out.array(2);
        }
        ctx.out.bulk(request.get(at));
        if with_flags {
            set_of_names(flags.names(), "", ctx.out);
        }
    }
    Ok(())
}

/// The keys of a request, or the error that tells why there are none.
fn keys_of(commands: &CommandTable, request: Args<'_>) -> CmdResult<Vec<(usize, KeyFlags)>> {
    let command = commands.lookup(request).map_err(|_| errors::INVALID_COMMAND)?;
    if command.keys.is_empty() {
        return Err(errors::NO_KEY_ARGUMENTS);
    }
    if !command.takes(request.len()) {
        return Err(errors::INVALID_ARITY);
    }
    let mut keys = Vec::new();
    if command.for_each_told_key(request, |at, flags| keys.push((at, flags))).is_err()
        || keys.is_empty()
        || command.says_no_keys(request)
    {
        let may_have_none = command.flags.has(Flags::NO_MANDATORY_KEYS);
        return if may_have_none { Ok(Vec::new()) } else { Err(errors::INVALID_ARGUMENTS) };
    }
    Ok(keys)
}

/// One command as COMMAND INFO tells it.
fn tell(command: &Command, out: &mut Reply) {
    out.array(10);
    out.bulk(command.full_name.as_bytes());
    out.integer(command.arity.into());
    set_of_names(command.flags.names(), "", out);
    out.integer(command.range.first.into());
    out.integer(command.range.last.into());
    out.integer(command.range.step.into());
    set_of_names(command.acl.names(), "@", out);
    out.set(command.tips.len());
    command.tips.iter().for_each(|tip| out.bulk(tip.as_bytes()));
    out.set(command.keys.len());
    command.keys.iter().for_each(|spec| key_spec(spec, out));
    match command.subcommands.len() {
        0 => out.set(0),
        n => out.array(n),
    }
    command.subcommands.iter().for_each(|sub| tell(sub, out));
}

fn set_of_names(names: impl Iterator<Item = &'static str> + Clone, prefix: &str, out: &mut Reply) {
    out.set(names.clone().count());
    for name in names {
        out.simple(&[prefix, name].concat());
    }
}

fn key_spec(spec: &KeySpec, out: &mut Reply) {
    out.map(3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        pair("notes", spec.notes, out);
    }
    out.bulk(b"flags");
    set_of_names(spec.flags.names(), "", out);
    out.bulk(b"begin_search");
    match spec.begin.told() {
        Begin::Index(at) => {
            typed("index", 1, out);
            number("index", at.into(), out);
        }
        Begin::Keyword(word, from) => {
            typed("keyword", 2, out);
            pair("keyword", word, out);
            number("startfrom", from.into(), out);
        }
        Begin::SortStore | Begin::LastStore(..) | Begin::IndexWithout(..) | Begin::Option(_) | Begin::Unknown => {
            typed("unknown", 0, out)
        }
    }
    out.bulk(b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            typed("range", 3, out);
            number("lastkey", last.into(), out);
            number("keystep", step.into(), out);
            number("limit", limit.into(), out);
        }
        Find::Keynum { num, first, step } => {
            typed("keynum", 3, out);
            number("keynumidx", num.into(), out);
            number("firstkey", first.into(), out);
            number("keystep", step.into(), out);
        }
        Find::Unknown => typed("unknown", 0, out),
    }
}

/// Writes the head of a part of a key specification: its type, and the head of a map of `pairs` pairs.
fn typed(kind: &str, pairs: usize, out: &mut Reply) {
    out.map(2);
    pair("type", kind, out);
    out.bulk(b"spec");
    out.map(pairs);
}

fn pair(name: &str, value: &str, out: &mut Reply) {
    out.bulk(name.as_bytes());
    out.bulk(value.as_bytes());
}

fn number(name: &str, value: i64, out: &mut Reply) {
    out.bulk(name.as_bytes());
    out.integer(value);
}

/// One command's name and documentation as COMMAND DOCS tells it.
fn document(command: &Command, out: &mut Reply) {
    out.bulk(command.full_name.as_bytes());
    let head = out.defer();
    let mut pairs = 3;
    pair("summary", command.summary, out);
    pair("since", command.since, out);
    pair("group", command.group.name(), out);
    if !command.complexity.is_empty() {
        pairs += 1;
        pair("complexity", command.complexity, out);
    }
    if command.system || command.deprecated.is_some() {
        pairs += 1;
        out.bulk(b"doc_flags");
        out.set(1);
        out.simple(if command.system { "syscmd" } else { "deprecated" });
    }
    if let Some(deprecated) = command.deprecated {
        pairs += 2;
        pair("deprecated_since", deprecated.since, out);
        pair("replaced_by", deprecated.replaced_by, out);
    }
    if !command.history.is_empty() {
        pairs += 1;
        out.bulk(b"history");
        out.set(command.history.len());
        for (version, change) in command.history {
            out.array(2);
            out.bulk(version.as_bytes());
            out.bulk(change.as_bytes());
        }
    }
    if !command.arguments.is_empty() {
        pairs += 1;
        out.bulk(b"arguments");
        arguments(command.arguments, out);
    }
    if !command.subcommands.is_empty() {
        pairs += 1;
        out.bulk(b"subcommands");
        out.map(command.subcommands.len());
        command.subcommands.iter().for_each(|sub| document(sub, out));
    }
    out.end_map(head, pairs);
}

fn arguments(arguments: &[Argument], out: &mut Reply) {
    out.array(arguments.len());
    arguments.iter().for_each(|argument| tell_argument(argument, out));
}

fn tell_argument(argument: &Argument, out: &mut Reply) {
    let head = out.defer();
    let mut pairs = 2;
    pair("name", argument.name, out);
    pair("type", argument.kind.name(), out);
    if let Some(spec) = argument.key_spec {
        pairs += 1;
        number("key_spec_index", spec.into(), out);
    }
    let optional = [
        ("token", argument.token, argument.kind == ArgKind::PureToken || !argument.token.is_empty()),
        ("since", argument.since, !argument.since.is_empty()),
        ("deprecated_since", argument.deprecated_since, !argument.deprecated_since.is_empty()),
    ];
    for (name, text, _) in optional.into_iter().filter(|(_, _, there)| *there) {
        pairs += 1;
        pair(name, text, out);
    }
    if !argument.flags.is_empty() {
        pairs += 1;
        out.bulk(b"flags");
        set_of_names(argument.flags.names(), "", out);
    }
    if !argument.arguments.is_empty() {
        pairs += 1;
        out.bulk(b"arguments");
        arguments(argument.arguments, out);
    }
    out.end_map(head, pairs);
}
