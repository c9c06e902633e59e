//! The features of the server, by matter, and the commands that it runs itself (`Exec::Server`).
//!
//! ```text
//!   batch: TurnState::Server --> run(descriptor) --> handler of its id(&mut ServerCtx) --> Done | Close | Ask(question)
//! ```
//!
//! A matter is a file, or a folder with the handlers of its commands, each with its row below it, its steps for the
//! worker, and its data (`state`). A matter imports no other matter's steps but those of `pubsub`, which carries what
//! tracking and MONITOR send. A container whose subcommands are of several matters stands here.
//!
//! Not here: arity, authentication and existence of the command, which the batch has checked.

pub(crate) mod acl;
mod auth;
pub(crate) mod clients;
pub(crate) mod command_log;
mod config;
mod debug;
pub(crate) mod hot_keys;
pub(crate) mod info;
pub(crate) mod latency;
mod modules;
pub(crate) mod monitor;
pub(crate) mod pause;
pub(crate) mod persist;
pub(crate) mod pubsub;
pub(crate) mod replication;
pub(crate) mod tracking;

use std::sync::LazyLock;

use varve_catalog::{Flags, Group, Row};
use varve_exec::{CmdResult, Command, CommandSet, FileRows, last_command};

use crate::errors;
use crate::state::command::{ServerCommand, ServerFn, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of all matters.
const ROWS: &[&[ServerRows]] = &[persist::ROWS, replication::ROWS, OTHER_ROWS];

const OTHER_ROWS: &[ServerRows] = &[
    acl::ROWS,
    auth::ROWS,
    command_log::ROWS,
    debug::ROWS,
    hot_keys::ROWS,
    info::ROWS,
    latency::ROWS,
    modules::ROWS,
    monitor::ROWS,
    pubsub::ROWS,
    &[CLIENT, CONFIG],
];

const CLIENT: ServerCommand = ServerCommand::container(
    Row::new("client", Group::Connection, -2, "2.4.0").about("This connection and the others.", ""),
    &[clients::CLIENT, pause::CLIENT, tracking::CLIENT],
);

const CONFIG: ServerCommand = ServerCommand::container(
    Row::new("config", Group::Server, -2, "2.0.0").about("The configuration.", ""),
    &[config::CONFIG, info::CONFIG],
);

/// All commands of the server: those of `varve_commands`, and those that it runs itself.
pub(crate) fn commands() -> &'static CommandSet {
    &ALL.set
}

/// Runs the command.
pub(crate) fn run(descriptor: &'static Command, ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if descriptor.flags.has(Flags::PROTECTED) && !ctx.lets(ctx.config.debug_command) {
        return Err(errors::DEBUG_REFUSED);
    }
    last_command::note(descriptor);
    let handler =
        ALL.handlers[usize::from(descriptor.id)].expect("a Server row comes from a ServerCommand: see the test");
    handler(ctx)
}

static ALL: LazyLock<All> = LazyLock::new(All::new);

struct All {
    set: CommandSet,
    /// By the ids of the rows; None for commands that the executor runs.
    handlers: Box<[Option<ServerFn>]>,
}

impl All {
    fn new() -> All {
        let own: Vec<&ServerCommand> = ROWS.iter().copied().flatten().copied().flatten().collect();
        let rows: FileRows = Vec::leak(own.iter().map(|command| command.command()).collect());
        let set = CommandSet::new(&[varve_commands::FAMILIES, varve_scripts::FAMILIES, &[&[rows]]].concat());
        let mut handlers = vec![None; set.ids()];
        // The set keeps the order of the rows: its last commands are the server's own.
        let numbered = &set.commands()[set.commands().len() - own.len()..];
        for (command, own) in numbered.iter().zip(own) {
            handlers[usize::from(command.id)] = own.handler();
            for (command, own) in command.subcommands.iter().zip(own.subcommands()) {
                handlers[usize::from(command.id)] = own.handler();
            }
        }
        All { set, handlers: handlers.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_exec::Exec;

    #[test]
    fn the_rows_that_the_server_runs_have_a_handler_and_no_others() {
        let all = commands().commands().iter().flat_map(|command| std::iter::once(command).chain(command.subcommands));
        for command in all {
            let handler = ALL.handlers[usize::from(command.id)];
            assert_eq!(handler.is_some(), matches!(command.exec, Exec::Server), "{}", command.full_name);
        }
    }
}
