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
use crate::state::ctx::{After, ServerCtx, ServerFn};

/// All handlers, by the full names of their descriptors.
const HANDLERS: &[(&str, ServerFn)] = &[
    ("auth", auth::auth),
    ("client|getname", clients::getname),
    ("client|caching", tracking::caching),
    ("client|getredir", tracking::getredir),
    ("client|help", clients::help),
    ("client|id", clients::id),
    ("client|info", clients::info),
    ("client|kill", clients::kill),
    ("client|list", clients::list),
    ("client|no-evict", clients::no_evict),
    ("client|no-touch", clients::no_touch),
    ("client|pause", pause::pause),
    ("client|reply", clients::reply),
    ("client|setinfo", clients::setinfo),
    ("client|setname", clients::setname),
    ("client|tracking", tracking::tracking),
    ("client|trackinginfo", tracking::trackinginfo),
    ("client|unblock", clients::unblock),
    ("client|unpause", pause::unpause),
    ("config|get", config::get),
    ("config|help", config::help),
    ("config|resetstat", info::resetstat),
    ("config|rewrite", config::rewrite),
    ("config|set", config::set),
    ("debug", debug::debug),
    ("hello", auth::hello),
    ("info", info::info),
    ("latency|doctor", latency::doctor),
    ("latency|graph", latency::graph),
    ("latency|help", latency::help),
    ("latency|histogram", latency::histogram),
    ("latency|history", latency::history),
    ("latency|latest", latency::latest),
    ("latency|reset", latency::reset),
    ("monitor", monitor::monitor),
    ("psubscribe", pubsub::psubscribe),
    ("publish", pubsub::publish),
    ("pubsub|channels", pubsub::channels),
    ("pubsub|help", pubsub::help),
    ("pubsub|numpat", pubsub::numpat),
    ("pubsub|numsub", pubsub::numsub),
    ("pubsub|shardchannels", pubsub::shardchannels),
    ("pubsub|shardnumsub", pubsub::shardnumsub),
    ("punsubscribe", pubsub::punsubscribe),
    ("reset", auth::reset),
    ("shutdown", shutdown::shutdown),
    ("slowlog|get", slowlog::get),
    ("slowlog|help", slowlog::help),
    ("slowlog|len", slowlog::len),
    ("slowlog|reset", slowlog::reset),
    ("spublish", pubsub::spublish),
    ("ssubscribe", pubsub::ssubscribe),
    ("subscribe", pubsub::subscribe),
    ("sunsubscribe", pubsub::sunsubscribe),
    ("unsubscribe", pubsub::unsubscribe),
];

/// Runs the command.
pub(crate) fn run(descriptor: &'static Command, ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if descriptor.flags.has(Flags::PROTECTED) && !may_debug(ctx) {
        return Err(errors::DEBUG_REFUSED);
    }
    let handler = table()[usize::from(descriptor.id)].expect("each Host descriptor has a handler: see the test");
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
            let handler = HANDLERS.iter().find(|(name, _)| *name == row.full_name);
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
                // The server publishes where the connection listens itself.
                if matches!(row.exec, Exec::Server) || row.publishes() {
                    into.insert(row.full_name);
                }
                collect(row.subcommands, into);
            }
        }
        let mut described = BTreeSet::new();
        collect(varve_commands::commands().commands(), &mut described);
        let handled: BTreeSet<&str> = HANDLERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(handled.len(), HANDLERS.len(), "a command has one handler");
        assert_eq!(handled, described);
    }
}
