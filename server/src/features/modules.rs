//! MODULE: there are no modules, and none can be loaded. Whoever asks for one is told so, if `enable-module-command` lets it ask.

use varve_catalog::{ArgKind, Behaviour, Flags, Group, Row, arg};
use varve_commands::grammar::help as reply_help;
use varve_exec::{CmdResult, CommandError};

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[MODULE];

const MODULE: ServerCommand = ServerCommand::container(
    Row::new("module", Group::Server, -2, "4.0.0").about("The modules that are loaded.", ""),
    &[&[LIST, LOAD, UNLOAD, HELP]],
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

/// The refusal of whoever may ask, or of whoever may not.
fn refused(ctx: &ServerCtx<'_>, refusal: CommandError) -> CmdResult<After> {
    Err(if ctx.lets(ctx.config.module_command) { refusal } else { errors::MODULE_REFUSED })
}

/// `MODULE LOAD path [arg ...]`
fn load(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    refused(ctx, errors::NO_MODULES)
}

const LOAD: ServerCommand = ServerCommand::new(
    load,
    Row::sub("module|load", "load", Group::Server, -3, "4.0.0")
        .about("Would load a module: none can be loaded.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING])
        .args(&[arg("path", ArgKind::String), arg("arg", ArgKind::String).multiple().optional()]),
);

/// `MODULE UNLOAD name`
fn unload(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    refused(ctx, errors::NO_SUCH_MODULE)
}

const UNLOAD: ServerCommand = ServerCommand::new(
    unload,
    Row::sub("module|unload", "unload", Group::Server, 3, "4.0.0")
        .about("Would unload a module: there is none.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING])
        .args(&[arg("name", ArgKind::String)]),
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
