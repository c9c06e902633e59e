//! CONFIG: its subcommands, and what a change does to the running server.
//!
//! ```text
//!   maxclients  descriptors are asked for       port, bind  new sockets for worker 0
//!   maxmemory, maxmemory-policy  the store      loglevel    the log
//!   everything else that workers use            a message: take the new snapshot
//! ```
//! Not here: values and their grammar (`config`).

use varve_store::Policy as StorePolicy;

use crate::config::{self, Config, Effects, Ineffective, Policy};
use crate::host::{HostCtx, Outcome};
use crate::listen::{self, Listener};
use crate::logging;
use crate::shared::Shared;
use crate::start::allow_clients;
use crate::worker::Message;

pub(crate) fn get(ctx: &mut HostCtx<'_>) -> Outcome {
    config::commands::get(&ctx.shared.config, ctx.args, ctx.out);
    Outcome::Done
}

pub(crate) fn set(ctx: &mut HostCtx<'_>) -> Outcome {
    let effects = Running(ctx.shared);
    config::commands::set(&ctx.shared.config, ctx.args, ctx.conn.ends.is_local(), &effects, ctx.out);
    Outcome::Done
}

pub(crate) fn rewrite(ctx: &mut HostCtx<'_>) -> Outcome {
    config::commands::rewrite(&ctx.shared.config, ctx.out);
    Outcome::Done
}

pub(crate) fn resetstat(ctx: &mut HostCtx<'_>) -> Outcome {
    super::info::reset(ctx.shared);
    ctx.out.ok();
    Outcome::Done
}

pub(crate) fn help(ctx: &mut HostCtx<'_>) -> Outcome {
    config::commands::help(ctx.out);
    Outcome::Done
}

/// The store's name of a policy.
pub(crate) fn store_policy(policy: Policy) -> StorePolicy {
    match policy {
        Policy::NoEviction => StorePolicy::NoEviction,
        Policy::AllKeysRandom => StorePolicy::AllKeysRandom,
    }
}

struct Running<'s>(&'s Shared);

impl Effects for Running<'_> {
    fn apply(&self, old: &Config, new: &Config) -> Result<(), Ineffective> {
        if new.dir != old.dir {
            let refused = |error: std::io::Error| Ineffective { directive: "dir", reason: error.to_string() };
            std::env::set_current_dir(&new.dir).map_err(refused)?;
        }
        if new.max_clients > old.max_clients {
            allow(new.max_clients)?;
        }
        if (new.port, &new.bind) != (old.port, &old.bind) {
            self.0.workers[0].mailbox.send(Message::Listen(sockets(old, new)?));
        }
        Ok(())
    }

    fn publish(&self) {
        let config = self.0.config.snapshot();
        logging::set_level(config.log_level);
        self.0.store.set_limit(config.memory_bytes_max, store_policy(config.policy));
        self.0.tell_all(|| Message::Refresh);
    }
}

fn allow(clients: u32) -> Result<(), Ineffective> {
    let possible = allow_clients(clients);
    if possible == clients {
        return Ok(());
    }
    let what = "The operating system is not able to handle the specified number of clients, try with";
    Err(Ineffective { directive: "maxclients", reason: format!("{what} {possible}") })
}

/// The sockets of a changed port or bind list, and the Unix socket anew. Those so far still listen: an address that
/// stays, on a port that stays, is in use and so refused.
fn sockets(old: &Config, new: &Config) -> Result<Vec<Listener>, Ineffective> {
    let tcp = listen::tcp(&new.bind, new.port, new.tcp_backlog).map_err(|error| {
        tracing::warn!("{error}");
        let (directive, reason) = if new.port == old.port {
            ("bind", "Failed to bind to specified addresses.")
        } else {
            ("port", "Unable to listen on this port. Check server logs.")
        };
        Ineffective { directive, reason: reason.to_owned() }
    });
    let mut sockets = tcp?;
    if let Some(path) = &new.unix_socket {
        let unix = listen::unix(path, new.unix_socket_mode, new.tcp_backlog);
        sockets.push(unix.map_err(|reason| Ineffective { directive: "port", reason })?);
    }
    Ok(sockets)
}
