//! Commands that the server itself runs (`Run::Host`): found by their full name, given the connection and what all
//! workers share.
//!
//! ```text
//!   batch: TurnState::Host --> run(descriptor) --> HANDLERS[full name](&mut HostCtx) --> Done | Close | Ask(question)
//! ```
//!
//! A test checks that each `Run::Host` row of the command table has exactly one handler here. Not here: arity,
//! authentication and existence of the command, which the batch has checked.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use varve_command::{Descriptor, Flags};
use varve_protocol::{Args, Reply};

use crate::config::{Config, Guard};
use crate::conn::Conn;
use crate::handlers::{auth, client, config, debug, info, latency, pause, pubsub, shutdown, slowlog, tracking};
use crate::pubsub::Hub;
use crate::shared::Shared;
use crate::worker::{Now, Question};

/// What a handler has at hand.
pub(crate) struct HostCtx<'c> {
    /// The request; argument 0 is the name.
    pub(crate) args: Args<'c>,
    pub(crate) shared: &'c Arc<Shared>,
    /// The configuration that this worker works by.
    pub(crate) config: &'c Arc<Config>,
    pub(crate) store: &'c mut varve_store::Worker,
    /// What the worker's connections listen to.
    pub(crate) hub: &'c mut Hub,
    /// Where the connection stands in its worker.
    pub(crate) slot: usize,
    pub(crate) conn: &'c mut Conn,
    pub(crate) out: &'c mut Reply,
    pub(crate) now: Now,
}

/// What becomes of the connection after a handler.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It has replied; on with the next request.
    Done,
    /// What has been replied is sent, then the connection ends.
    Close,
    /// All workers are asked; the reply comes when they have answered.
    Ask(Question),
}

/// A handler.
pub(crate) type HostFn = fn(&mut HostCtx<'_>) -> Outcome;

/// All handlers, by the full names of their descriptors.
const HANDLERS: &[(&str, HostFn)] = &[
    ("auth", auth::auth),
    ("client|getname", client::getname),
    ("client|caching", tracking::caching),
    ("client|getredir", tracking::getredir),
    ("client|help", client::help),
    ("client|id", client::id),
    ("client|info", client::info),
    ("client|kill", client::kill),
    ("client|list", client::list),
    ("client|no-evict", client::no_evict),
    ("client|no-touch", client::no_touch),
    ("client|pause", pause::pause),
    ("client|reply", client::reply),
    ("client|setinfo", client::setinfo),
    ("client|setname", client::setname),
    ("client|tracking", tracking::tracking),
    ("client|trackinginfo", tracking::trackinginfo),
    ("client|unblock", client::unblock),
    ("client|unpause", pause::unpause),
    ("config|get", config::get),
    ("config|help", config::help),
    ("config|resetstat", config::resetstat),
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
    ("monitor", pubsub::monitor),
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
pub(crate) fn run(descriptor: &'static Descriptor, ctx: &mut HostCtx<'_>) -> Outcome {
    if descriptor.flags.has(Flags::PROTECTED) && !may_debug(ctx) {
        ctx.out.error(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
             local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
        );
        return Outcome::Done;
    }
    let handler = table().get(descriptor.full_name).expect("each Host descriptor has a handler: see the test");
    handler(ctx)
}

fn may_debug(ctx: &HostCtx<'_>) -> bool {
    match ctx.config.debug_command {
        Guard::No => false,
        Guard::Yes => true,
        Guard::Local => ctx.conn.ends.is_local(),
    }
}

fn table() -> &'static HashMap<&'static str, HostFn> {
    static TABLE: OnceLock<HashMap<&'static str, HostFn>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let table: HashMap<_, _> = HANDLERS.iter().copied().collect();
        assert_eq!(table.len(), HANDLERS.len(), "a command has one handler");
        table
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use varve_command::Run;

    #[test]
    fn every_host_command_has_a_handler_and_every_handler_a_command() {
        fn collect(rows: &[Descriptor], into: &mut BTreeSet<&'static str>) {
            for row in rows {
                // The server publishes where the connection listens itself.
                if matches!(row.run, Run::Host) || row.publishes() {
                    into.insert(row.full_name);
                }
                collect(row.subcommands, into);
            }
        }
        let mut described = BTreeSet::new();
        collect(varve_command::table::all(), &mut described);
        let handled: BTreeSet<&str> = table().keys().copied().collect();
        assert_eq!(handled, described);
    }
}
