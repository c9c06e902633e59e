//! ACL: users, what they may do, and what was denied to them.
//!
//! ```text
//!   SETUSER, DELUSER, LOAD --> state: other users, a new epoch --> Ask: every worker looks at its connections
//!                                                                 gone: closed     listens without right: closed
//!                                                                 waits without right: NOPERM
//! ```
//! Here: the users (files.rs: LOAD and SAVE; audit.rs: LOG). Not here: rules and rights (`varve_acl`), asking for them (the
//! executor's checks), AUTH (auth.rs).

mod audit;
mod files;
pub(crate) mod state;

use varve_acl::{Denial, SelectorRules, User, has_spaces};
use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, Secret, arg};
use varve_commands::grammar::{help as reply_help, integer};
use varve_exec::{CmdResult, CommandError, CommandTable};
use varve_protocol::Reply;

use crate::errors;
use crate::features::clients::state::{Question, UsersChanged};
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::system::random;

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[ACL];

const ACL: ServerCommand = ServerCommand::container(
    Row::new("acl", Group::Server, -2, "6.0.0").about("Users and what they may do.", ""),
    &[SUBCOMMANDS],
);

const SUBCOMMANDS: ServerRows =
    &[CAT, DELUSER, DRYRUN, GENPASS, GETUSER, HELP, LIST, files::LOAD, audit::LOG, files::SAVE, SETUSER, USERS, WHOAMI];

/// The flags of subcommands for everybody.
const OPEN: &[Flags] = &[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
/// The flags of subcommands for administrators.
const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];

/// `ACL WHOAMI`
fn whoami(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.bulk(ctx.conn.session().user().name());
    Ok(After::Done)
}

const WHOAMI: ServerCommand = ServerCommand::new(
    whoami,
    Row::sub("acl|whoami", "whoami", Group::Server, 2, "6.0.0")
        .about("Answers the name of this connection's user.", "O(1)")
        .flags(OPEN)
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `ACL USERS`
fn users(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    each(ctx, User::name)
}

const USERS: ServerCommand = ServerCommand::new(
    users,
    Row::sub("acl|users", "users", Group::Server, 2, "6.0.0")
        .about("Lists the names of the users.", "O(N) in the users")
        .flags(ADMIN),
);

/// `ACL LIST`
fn list(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    each(ctx, User::line)
}

const LIST: ServerCommand = ServerCommand::new(
    list,
    Row::sub("acl|list", "list", Group::Server, 2, "6.0.0")
        .about("Lists the users as lines of a configuration file.", "O(N) in the users")
        .flags(ADMIN),
);

/// Answers a text of each user.
fn each(ctx: &mut ServerCtx<'_>, text: fn(&User) -> &[u8]) -> CmdResult<After> {
    let users = ctx.state.acl().users();
    ctx.out.array(users.iter().len());
    users.iter().for_each(|user| ctx.out.bulk(text(user)));
    Ok(After::Done)
}

/// `ACL GETUSER username`
fn getuser(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let Some(user) = ctx.state.acl().users().get(ctx.args.get(2)).cloned() else {
        ctx.out.null();
        return Ok(After::Done);
    };
    let context = ctx.state.acl().context(ctx.config);
    let out = &mut *ctx.out;
    out.map(6);
    out.bulk(b"flags");
    out.set(user.flags().count());
    user.flags().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(user.digests().len());
    user.digests().for_each(|digest| out.bulk(digest.as_bytes()));
    let mut selectors = user.selectors(&context);
    reply_rules(out, &selectors.next().expect("a user has its own selector"));
    out.bulk(b"selectors");
    out.array(selectors.len());
    for rules in selectors {
        out.map(3);
        reply_rules(out, &rules);
    }
    Ok(After::Done)
}

fn reply_rules(out: &mut Reply, rules: &SelectorRules) {
    for (field, rules) in [("commands", &rules.commands), ("keys", &rules.keys), ("channels", &rules.channels)] {
        out.bulk(field.as_bytes());
        out.bulk(rules);
    }
}

const GETUSER: ServerCommand = ServerCommand::new(
    getuser,
    Row::sub("acl|getuser", "getuser", Group::Server, 3, "6.0.0")
        .about("Answers the rules of a user.", "O(N) in the rules")
        .flags(ADMIN)
        .history(&[("6.2.0", "Patterns of channels."), ("7.0.0", "Selectors; keys and channels as rules.")])
        .args(&[arg("username", ArgKind::String)]),
);

/// `ACL SETUSER username [rule ...]`
fn setuser(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let name = ctx.args.get(2);
    if has_spaces(name) {
        return Err(errors::USER_NAME);
    }
    let rules: Vec<Vec<u8>> = ctx.args.skip(3).iter().map(<[u8]>::to_vec).collect();
    let (acl, context) = (ctx.state.acl(), ctx.state.acl().context(ctx.config));
    let is_new = acl.change(|users| {
        let is_new = users.get(name).is_none();
        users.changed(name, &rules, &context).map(|user| {
            users.put(user, &context);
            is_new
        })
    });
    let is_new = is_new.map_err(|reason| errors::acl_rules(&reason))?;
    if is_new {
        ctx.out.ok();
        return Ok(After::Done);
    }
    Ok(After::Ask(Question::Users(UsersChanged::Ok)))
}

const SETUSER: ServerCommand = ServerCommand::new(
    setuser,
    Row::sub("acl|setuser", "setuser", Group::Server, -3, "6.0.0")
        .about("Makes a user, or changes one.", "O(N) in the rules")
        .flags(ADMIN)
        .history(&[("6.2.0", "Patterns of channels."), ("7.0.0", "Selectors; keys to read and to write.")])
        .args(&[arg("username", ArgKind::String), arg("rule", ArgKind::String).optional().multiple()])
        .secret(Secret::From(2)),
);

/// `ACL DELUSER username [username ...]`
fn deluser(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let names = ctx.args.skip(2);
    if names.iter().any(|name| name == b"default") {
        return Err(errors::DEFAULT_USER_STAYS);
    }
    let deleted = ctx.state.acl().change(|users| names.iter().filter(|name| users.remove(name)).count());
    Ok(After::Ask(Question::Users(UsersChanged::Deleted(deleted as i64))))
}

const DELUSER: ServerCommand = ServerCommand::new(
    deluser,
    Row::sub("acl|deluser", "deluser", Group::Server, -3, "6.0.0")
        .about("Deletes users, and closes their connections.", "O(1), and O(N) in the connections")
        .flags(ADMIN)
        .args(&[arg("username", ArgKind::String).multiple()]),
);

/// `ACL DRYRUN username command [arg ...]`
fn dryrun(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let (name, request) = (ctx.args.get(2), ctx.args.skip(3));
    let user = ctx.state.acl().users().get(name).cloned().ok_or_else(|| errors::user_not_found(name))?;
    let table = CommandTable::new(ctx.state.commands());
    let command = table.lookup(request).map_err(|_| errors::command_not_found(request.get(0)))?;
    if !command.takes(request.len()) {
        return Err(CommandError::arity(command.full_name));
    }
    let denied = match user.check(command, request) {
        Ok(()) => {
            ctx.out.ok();
            return Ok(After::Done);
        }
        Err(Denial::Command) => format!("run the '{}' command", command.full_name).into_bytes(),
        Err(Denial::Key(at)) => [b"access the '", request.get(at), b"' key"].concat(),
        Err(Denial::Channel(at)) => [b"access the '", request.get(at), b"' channel"].concat(),
    };
    ctx.out.bulk(&[b"This user has no permissions to ", &denied[..]].concat());
    Ok(After::Done)
}

const DRYRUN: ServerCommand = ServerCommand::new(
    dryrun,
    Row::sub("acl|dryrun", "dryrun", Group::Server, -4, "7.0.0")
        .about("Tells whether a user may run a command, which is not run.", "O(1)")
        .flags(ADMIN)
        .args(&[
            arg("username", ArgKind::String),
            arg("command", ArgKind::String),
            arg("arg", ArgKind::String).optional().multiple(),
        ])
        .secret(Secret::From(4))
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// Bits that a made password has at most.
const PASSWORD_BITS_MAX: i64 = 4096;

/// `ACL GENPASS [bits]`
fn genpass(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.args.len() > 3 {
        return Err(errors::subcommand("ACL", ctx.args.get(1)));
    }
    let bits = ctx.args.opt(2).map_or(Ok(256), integer)?;
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(errors::PASSWORD_BITS);
    }
    let digits = (bits as usize).div_ceil(4);
    let text = random::hex(digits).map_err(|_| errors::NO_RANDOM_NUMBERS)?;
    ctx.out.bulk(text.as_bytes());
    Ok(After::Done)
}

const GENPASS: ServerCommand = ServerCommand::new(
    genpass,
    Row::sub("acl|genpass", "genpass", Group::Server, -2, "6.0.0")
        .about("Makes a password that nobody can guess.", "O(1)")
        .flags(OPEN)
        .args(&[arg("bits", ArgKind::Integer).optional()])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `ACL CAT [category]`
fn cat(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let args = ctx.args;
    if args.len() > 3 {
        return Err(errors::subcommand("ACL", args.get(1)));
    }
    let Some(name) = args.opt(2) else {
        let names = Acl::ALL.names();
        ctx.out.array(names.clone().count());
        names.for_each(|name| ctx.out.bulk(name.as_bytes()));
        return Ok(After::Done);
    };
    let category = Acl::from_name(name).ok_or_else(|| errors::no_category(name))?;
    let members: Vec<&str> =
        ctx.state.commands().each().filter(|row| row.acl.has(category)).map(|row| row.full_name).collect();
    ctx.out.array(members.len());
    members.iter().for_each(|name| ctx.out.bulk(name.as_bytes()));
    Ok(After::Done)
}

const CAT: ServerCommand = ServerCommand::new(
    cat,
    Row::sub("acl|cat", "cat", Group::Server, -2, "6.0.0")
        .about("Lists the categories, or the commands of one.", "O(N) in the commands")
        .flags(OPEN)
        .args(&[arg("categoryname", ArgKind::String).optional()]),
);

/// `ACL HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(
        ctx.out,
        "ACL",
        &[
            "CAT [<category>]",
            "    The categories of commands, or the commands of one.",
            "DELUSER <username> [<username> ...]",
            "    Delete users and close their connections.",
            "DRYRUN <username> <command> [<arg> ...]",
            "    Whether a user may run a command, which is not run.",
            "GENPASS [<bits>]",
            "    A password of 256 bits that nobody can guess, or of this number of bits.",
            "GETUSER <username>",
            "    The rules of a user.",
            "LIST",
            "    The users, as lines of a configuration file.",
            "LOAD",
            "    Take the users of the ACL file in the place of all others.",
            "LOG [<count> | RESET]",
            "    What was denied, newest first, or forget it.",
            "SAVE",
            "    Write the users to the ACL file.",
            "SETUSER <username> [<rule> ...]",
            "    Make a user, or change one by these rules.",
            "USERS",
            "    The names of the users.",
            "WHOAMI",
            "    The name of this connection's user.",
        ],
    );
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("acl|help", "help", Group::Server, 2, "6.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);
