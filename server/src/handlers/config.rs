//! CONFIG: its subcommands, and what a change does to the running server.
//!
//! ```text
//!   maxclients  descriptors are asked for       port, bind  other sockets (sockets.rs)
//!   maxmemory, maxmemory-policy  the store      loglevel    the log
//!   everything else that workers use            a message: take the new snapshot
//! ```
//! Not here: values and their grammar (`config`).

use std::path::Path;

use varve_store::Store;

use crate::config::{self, Config, Effects, Ineffective};
use crate::host::{HostCtx, Outcome};
use crate::logging;
use crate::shared::Shared;
use crate::sockets::Sockets;
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

/// Brings the store's settings about: at start, and after each change.
pub(crate) fn set_store(store: &Store, config: &Config) {
    store.set_limit(config.memory_bytes_max, config.policy);
    store.set_eviction(&config.eviction);
    store.set_reclaim(config.reclaim, config.defrag);
    store.set_event_mask(config.event_mask);
    store.shapes().set(&config.shapes);
}

struct Running<'s>(&'s Shared);

impl Effects for Running<'_> {
    fn apply(&self, old: &Config, new: &Config) -> Result<(), Ineffective> {
        enter(&old.dir, &new.dir)?;
        let rest = if new.max_clients > old.max_clients { allow(new.max_clients) } else { Ok(()) };
        rest.and_then(|()| listen(&self.0.sockets, old, new)).inspect_err(|_| {
            if let Err(error) = enter(&new.dir, &old.dir) {
                tracing::warn!("Going back to the working directory: {}", error.reason);
            }
        })
    }

    fn publish(&self) {
        let config = self.0.config.snapshot();
        logging::set_level(config.log_level);
        set_store(&self.0.store, &config);
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

/// Goes from one working directory to another.
fn enter(old: &Path, new: &Path) -> Result<(), Ineffective> {
    if new == old {
        return Ok(());
    }
    std::env::set_current_dir(new).map_err(|error| Ineffective { directive: "dir", reason: error.to_string() })
}

fn listen(sockets: &Sockets, old: &Config, new: &Config) -> Result<(), Ineffective> {
    if (new.port, &new.bind) == (old.port, &old.bind) {
        return Ok(());
    }
    sockets.change(old, new).map_err(|error| {
        tracing::warn!("{error}");
        let (directive, reason) = if new.port == old.port {
            ("bind", "Failed to bind to specified addresses.")
        } else {
            ("port", "Unable to listen on this port. Check server logs.")
        };
        Ineffective { directive, reason: reason.to_owned() }
    })
}
