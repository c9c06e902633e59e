//! CONFIG: its subcommands, and what a change does to the running server.
//!
//! ```text
//!   maxclients  descriptors are asked for       port, bind  other sockets (net/sockets.rs)
//!   maxmemory, maxmemory-policy  the store      loglevel    the log
//!   tls-*       what new connections get (net/tls): files are read again when they are named
//!   everything else that workers use            a message: take the new snapshot
//! ```
//! Not here: values and their grammar (`config`), CONFIG RESETSTAT (info).

use std::path::Path;
use std::sync::Arc;

use varve_catalog::{ArgKind, Behaviour, Flags, Group, Row, Secret, arg, block};
use varve_commands::grammar::asked_names;
use varve_exec::{CmdResult, CommandError};

use crate::config::{Config, Effects, Ineffective, SECRET_DIRECTIVES, is_pattern};
use crate::errors;
use crate::features::persist::aof;
use crate::net::sockets::Sockets;
use crate::net::tls::{self, Contexts};
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::state::mail::Message;
use crate::state::{Now, ServerState, identity, watchdog};
use crate::system::error_text;
use crate::system::logging;
use crate::system::open_files::allow_clients;
use crate::system::sys::crash;

/// The subcommands of CONFIG in this matter.
pub(super) const CONFIG: ServerRows = &[GET, HELP, REWRITE, SET];

/// Patterns that one CONFIG GET may have, beside names: each is held against all names of settings, which takes some 17 us.
const PATTERNS_MAX: usize = 64;

/// `CONFIG GET pattern [pattern ...]`
fn get(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let names = asked_names(ctx.args, 2)?;
    if names.iter().filter(|name| is_pattern(name)).count() > PATTERNS_MAX {
        return Err(errors::too_many_patterns(PATTERNS_MAX));
    }
    let found = ctx.state.config().get(names.iter());
    ctx.out.map(found.len());
    for (name, value) in &found {
        ctx.out.bulk(name);
        ctx.out.bulk(value);
    }
    Ok(After::Done)
}

const GET: ServerCommand = ServerCommand::new(
    get,
    Row::sub("config|get", "get", Group::Server, -3, "2.0.0")
        .about("Answers parameters.", "O(N) in the parameters")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .history(&[("7.0.0", "Several patterns.")])
        .args(&[block("parameter", &[arg("parameter", ArgKind::String)]).multiple()]),
);

/// `CONFIG SET name value [name value ...]`
fn set(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let words: Vec<&[u8]> = ctx.args.skip(2).iter().collect();
    if !words.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    ctx.state.config().set(&pairs, ctx.conn.socket().ends().is_local(), &Running(ctx.state))?;
    ctx.out.ok();
    Ok(After::Done)
}

const SET: ServerCommand = ServerCommand::new(
    set,
    Row::sub("config|set", "set", Group::Server, -4, "2.0.0")
        .about("Changes parameters.", "O(N) in the parameters")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .history(&[("7.0.0", "Several parameters.")])
        .args(&[
            block("parameter_value", &[arg("parameter", ArgKind::String), arg("value", ArgKind::String)]).multiple()
        ])
        .secret(Secret::ValuesOf { first: 2, names: SECRET_DIRECTIVES }),
);

/// `CONFIG REWRITE`
fn rewrite(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.state.config().rewrite(false, &ctx.state.acl().lines(ctx.config))?;
    ctx.out.ok();
    Ok(After::Done)
}

const REWRITE: ServerCommand = ServerCommand::new(
    rewrite,
    Row::sub("config|rewrite", "rewrite", Group::Server, 2, "2.8.0")
        .about("Writes the configuration to its file.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `CONFIG HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    const LINES: [&str; 11] = [
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern>",
        "    Return parameters matching the glob-like <pattern> and their values.",
        "SET <directive> <value>",
        "    Set the configuration <directive> to <value>.",
        "RESETSTAT",
        "    Reset statistics reported by the INFO command.",
        "REWRITE",
        "    Rewrite the configuration file.",
        "HELP",
        "    Prints this help.",
    ];
    ctx.out.array(LINES.len());
    LINES.iter().for_each(|line| ctx.out.simple(line));
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("config|help", "help", Group::Server, 2, "5.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);

struct Running<'s>(&'s Arc<ServerState>);

impl Effects for Running<'_> {
    fn is_loading(&self) -> bool {
        self.0.persist().loading.is_on()
    }

    fn apply(&self, old: &Config, new: &Config) -> Result<(), Ineffective> {
        enter(&old.dir, &new.dir)?;
        let rest = if new.max_clients > old.max_clients { allow(new.max_clients, new.workers) } else { Ok(()) };
        let rest = rest.and_then(|()| begin_file(old, new));
        let rest = rest.and_then(|()| weigh(old, new));
        let rest = rest.and_then(|()| speak(self.0.tls(), self.0.sockets(), old, new));
        rest.inspect_err(|_| {
            if let Err(error) = enter(&new.dir, &old.dir).and(weigh(new, old)) {
                tracing::warn!("Going back to the settings before: {}", error.reason);
            }
        })?;
        // The last step, which cannot fail.
        if new.password != old.password {
            let acl = self.0.acl();
            acl.change(|users| users.set_default_password(&new.password.0, &acl.context(new)));
        }
        Ok(())
    }

    fn publish(&self) {
        let config = self.0.config().snapshot();
        logging::set_level(config.log_level);
        identity::show(&config);
        crash::watch(config.process.reports_crashes, config.process.exits_on_panic);
        watchdog::follow_config(self.0);
        config.apply_to(self.0.store());
        if self.0.replication().replica().follows() {
            self.0.store().set_following(true, config.replica.ignores_limit);
        }
        self.0.tracking().set_keys_max(config.tracked_keys_max);
        aof::follow_config(self.0, &config);
        self.0.replication().set_sizes(config.replication.backlog_bytes, config.replication.spool_bytes);
        // Writes may depend on it from now on.
        self.0.replication().replicas().count_good(Now::read().steady_ms, config.replication.lag_ms());
        self.0.send_all(|| Message::Refresh);
    }
}

fn allow(clients: u32, workers: usize) -> Result<(), Ineffective> {
    let possible = allow_clients(clients, workers);
    if possible == clients {
        return Ok(());
    }
    let what = "The operating system is not able to handle the specified number of clients, try with";
    Err(Ineffective { directive: "maxclients", reason: format!("{what} {possible}") })
}

/// Goes from one weight for the system's killer to another.
fn weigh(old: &Config, new: &Config) -> Result<(), Ineffective> {
    if new.process.oom_score == old.process.oom_score {
        return Ok(());
    }
    let reason = "Failed to apply new oom_score_adj configuration, check server logs.";
    identity::weigh(new).map_err(|_| Ineffective { directive: "oom-score-adj*", reason: reason.to_owned() })
}

/// A file that is to be kept from now on has a folder.
fn begin_file(old: &Config, new: &Config) -> Result<(), Ineffective> {
    if old.append.on || !new.append.on {
        return Ok(());
    }
    let reason = "Unable to turn on AOF. Check server logs.";
    aof::try_folder(new).map_err(|()| Ineffective { directive: "appendonly", reason: reason.to_owned() })
}

/// Goes from one working directory to another.
fn enter(old: &Path, new: &Path) -> Result<(), Ineffective> {
    if new == old {
        return Ok(());
    }
    std::env::set_current_dir(new).map_err(|error| Ineffective { directive: "dir", reason: error_text(&error) })
}

fn listen(sockets: &Sockets, old: &Config, new: &Config) -> Result<(), Ineffective> {
    if (new.port, new.tls.port, &new.bind) == (old.port, old.tls.port, &old.bind) {
        return Ok(());
    }
    sockets.change(old, new).map_err(|(door, error)| {
        tracing::warn!("{error}");
        let (directive, reason) = if door.port(new) == door.port(old) {
            ("bind", "Failed to bind to specified addresses.")
        } else {
            (door.directive(), "Unable to listen on this port. Check server logs.")
        };
        Ineffective { directive, reason: reason.to_owned() }
    })
}

/// Speaks TLS as the settings say, and listens where they say.
fn speak(contexts: &Contexts, sockets: &Sockets, old: &Config, new: &Config) -> Result<(), Ineffective> {
    if new.tls == old.tls {
        return listen(sockets, old, new);
    }
    let context = tls::context(&new.tls).map_err(|error| {
        tracing::warn!("{error}");
        let reason = "Unable to update TLS configuration. Check server logs.".to_owned();
        Ineffective { directive: "tls-*", reason }
    })?;
    // In place before a socket of its port is open.
    let before = contexts.exchange(context);
    listen(sockets, old, new).inspect_err(|_| drop(contexts.exchange(before)))
}
