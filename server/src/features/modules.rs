//! MODULE: there are no modules, and none can be loaded.

use varve_catalog::{Behaviour, Flags, Group, Row};
use varve_commands::grammar::help as reply_help;
use varve_exec::CmdResult;

use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[MODULE];

const MODULE: ServerCommand = ServerCommand::container(
    Row::new("module", Group::Server, -2, "4.0.0").about("The modules that are loaded.", ""),
    &[&[LIST, HELP]],
);

/// `MODULE LIST`
fn list(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.array(0);
    Ok(After::Done)
}

const LIST: ServerCommand = ServerCommand::new(
    list,
    Row::sub("module|list", "list", Group::Server, 2, "4.0.0")
        .about("Lists the modules.", "O(N) in the modules")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT])
        .tips(&["nondeterministic_output_order"]),
);

/// `MODULE HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(ctx.out, "MODULE", &["LIST", "    The modules that are loaded: none, since none can be."]);
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("module|help", "help", Group::Server, 2, "5.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);
