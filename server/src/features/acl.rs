//! ACL, as far as it can be said of the one user that there is: `default`, who may do everything.
//!
//! ```text
//!   user default on nopass ~* &* +@all            as in a configuration file (config/default_user.rs)
//! ```
//! Not here: making users and rules, and the log of refusals, which are not there yet; AUTH (auth.rs).

use varve_catalog::{Acl, ArgKind, Behaviour, Flags, Group, Row, arg};
use varve_commands::grammar::help as reply_help;
use varve_exec::CmdResult;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[ACL];

const ACL: ServerCommand = ServerCommand::container(
    Row::new("acl", Group::Server, -2, "6.0.0").about("Users and what they may do.", ""),
    &[&[CAT, GETUSER, HELP, LIST, USERS, WHOAMI]],
);

/// The flags of subcommands for everybody.
const OPEN: &[Flags] = &[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
/// The flags of subcommands for administrators.
const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];

/// `ACL WHOAMI`
fn whoami(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.bulk(b"default");
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
    ctx.out.array(1);
    ctx.out.bulk(b"default");
    Ok(After::Done)
}

const USERS: ServerCommand = ServerCommand::new(
    users,
    Row::sub("acl|users", "users", Group::Server, 2, "6.0.0")
        .about("Lists the names of the users.", "O(N) in the users")
        .flags(ADMIN),
);

/// `ACL LIST`
fn list(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.array(1);
    ctx.out.bulk(ctx.config.passwords.line().as_bytes());
    Ok(After::Done)
}

const LIST: ServerCommand = ServerCommand::new(
    list,
    Row::sub("acl|list", "list", Group::Server, 2, "6.0.0")
        .about("Lists the users as lines of a configuration file.", "O(N) in the users")
        .flags(ADMIN),
);

/// `ACL GETUSER username`
fn getuser(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.args.get(2) != b"default" {
        ctx.out.null();
        return Ok(After::Done);
    }
    let passwords = &ctx.config.passwords;
    let out = &mut *ctx.out;
    out.map(6);
    out.bulk(b"flags");
    let flags: &[&str] = if passwords.none_is_needed() { &["on", "nopass"] } else { &["on"] };
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    let digests: Vec<String> = passwords.digests().collect();
    out.array(digests.len());
    digests.iter().for_each(|digest| out.bulk(digest.as_bytes()));
    for (field, rule) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        out.bulk(field.as_bytes());
        out.bulk(rule.as_bytes());
    }
    out.bulk(b"selectors");
    out.array(0);
    Ok(After::Done)
}

const GETUSER: ServerCommand = ServerCommand::new(
    getuser,
    Row::sub("acl|getuser", "getuser", Group::Server, 3, "6.0.0")
        .about("Answers the rules of a user.", "O(N) in the rules")
        .flags(ADMIN)
        .history(&[("6.2.0", "Patterns of channels."), ("7.0.0", "Selectors; keys and channels as rules.")])
        .args(&[arg("username", ArgKind::String)]),
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
    let rows = ctx.state.commands().commands();
    let all = rows.iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    let members: Vec<&str> = all.filter(|row| row.acl.has(category)).map(|row| row.full_name).collect();
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
            "GETUSER <username>",
            "    The rules of a user.",
            "LIST",
            "    The users, as lines of a configuration file.",
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
