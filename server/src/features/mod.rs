//! The features of the server, by matter, and the table of the commands that it runs itself (`Exec::Server`).
//!
//! ```text
//!   batch: TurnState::Server --> run(descriptor) --> handler of its id(&mut ServerCtx) --> Done | Close | Ask(question)
//! ```
//!
//! A matter is a file, or a folder with the handlers of its commands, its steps for the worker, and its data (`state`). A
//! matter imports no other matter's steps but those of `pubsub`, which carries what tracking and MONITOR send.
//!
//! A test checks that each `Exec::Server` row of the command table has exactly one handler here. Not here: arity,
//! authentication and existence of the command, which the batch has checked.

mod auth;
pub(crate) mod clients;
mod config;
mod debug;
pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod monitor;
pub(crate) mod pause;
pub(crate) mod pubsub;
mod shutdown;
pub(crate) mod slowlog;
pub(crate) mod tracking;

use std::sync::OnceLock;

use varve_catalog::Flags;
use varve_exec::CmdResult;
use varve_exec::Command;

use crate::config::Guard;
use crate::errors;
use crate::state::ctx::{After, Handlers, ServerCtx, ServerFn};

/// The handlers of all matters.
const HANDLERS: &[Handlers] = &[
    auth::HANDLERS,
    clients::HANDLERS,
    config::HANDLERS,
    debug::HANDLERS,
    info::HANDLERS,
    latency::HANDLERS,
    monitor::HANDLERS,
    pause::HANDLERS,
    pubsub::HANDLERS,
    shutdown::HANDLERS,
    slowlog::HANDLERS,
    tracking::HANDLERS,
];

fn all() -> impl Iterator<Item = &'static (&'static str, ServerFn)> {
    HANDLERS.iter().copied().flatten()
}

/// Runs the command.
pub(crate) fn run(descriptor: &'static Command, ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if descriptor.flags.has(Flags::PROTECTED) && !may_debug(ctx) {
        return Err(errors::DEBUG_REFUSED);
    }
    let handler = table()[usize::from(descriptor.id)].expect("each Server row has a handler: see the test");
    handler(ctx)
}

fn may_debug(ctx: &ServerCtx<'_>) -> bool {
    match ctx.config.debug_command {
        Guard::No => false,
        Guard::Yes => true,
        Guard::Local => ctx.conn.socket.ends().is_local(),
    }
}

/// Handlers by the ids of their descriptors.
fn table() -> &'static [Option<ServerFn>] {
    static TABLE: OnceLock<Box<[Option<ServerFn>]>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = vec![None; varve_commands::commands().ids()];
        let rows =
            varve_commands::commands().commands().iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
        for row in rows {
            let handler = all().find(|(name, _)| *name == row.full_name);
            table[usize::from(row.id)] = handler.map(|(_, handler)| *handler);
        }
        table.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use varve_exec::Exec;

    #[test]
    fn every_host_command_has_a_handler_and_every_handler_a_command() {
        fn collect(rows: &[Command], into: &mut BTreeSet<&'static str>) {
            for row in rows {
                if matches!(row.exec, Exec::Server) {
                    into.insert(row.full_name);
                }
                collect(row.subcommands, into);
            }
        }
        let mut described = BTreeSet::new();
        collect(varve_commands::commands().commands(), &mut described);
        let handled: BTreeSet<&str> = all().map(|(name, _)| *name).collect();
        assert_eq!(handled.len(), all().count(), "a command has one handler");
        assert_eq!(handled, described);
    }
}
