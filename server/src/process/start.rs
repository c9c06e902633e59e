//! From a configuration to a running server, and its end.
//!
//! The order matters: the fork of a daemon comes before any thread, the working directory before any relative path, the
//! sockets before the workers, and the line that says "Ready" after all that can fail. Not here: reading the
//! configuration (lib.rs), changing it later (features/config.rs).

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use varve_exec::last_command;
use varve_store::{LogGeometry, Store};

use super::daemon::{PidFile, Supervisor};
use super::machine;
use super::memory_ahead;
use super::signals::{self, Asked};
use crate::config::{Config, Live, Loaded};
use crate::features::info::{self, metrics};
use crate::features::persist;
use crate::features::replication;
use crate::net::listen::{self, Door, Listener};
use crate::net::tls;
use crate::state::mail::Message;
use crate::state::{identity, watchdog};
use crate::system::error_text;
use crate::system::open_files::allow_clients;
use crate::system::syslog::Syslog;
use crate::system::{cpus, logging, sys, version};
use crate::worker;

/// The server could not start; the log says why.
#[derive(Debug)]
pub(crate) struct Failed;

/// Addresses to reserve: an eighth of what a process may have.
const RESERVE_BYTES: usize = 16 << 40;
/// Addresses that the segments need at least.
const RESERVE_BYTES_MIN: usize = 8 << 30;
/// The least segment is a page.
const SEGMENT_BYTES_MIN: usize = 4096;

/// Runs the server until a client or a signal ends it. `file` is the configuration's, absolute.
pub(crate) fn serve(loaded: Loaded, file: Option<PathBuf>) -> Result<(), Failed> {
    let Loaded { values, mut config, commands, remarks } = loaded;
    if config.daemonize {
        sys::daemonize().map_err(|error| complain(&format!("Can't become a daemon: {}", error_text(&error))))?;
    }
    std::env::set_current_dir(&config.dir)
        .map_err(|error| complain(&format!("Can't chdir to '{}': {}", config.dir.display(), error_text(&error))))?;
    let syslog = config.process.syslog.as_ref().map(|syslog| Syslog::new(&syslog.ident, syslog.facility));
    logging::start(config.log_level, config.log_file.as_deref(), syslog)
        .map_err(|error| complain(&format!("Can't open the log file: {}", error_text(&error))))?;
    let log_file = config.log_file.as_deref().and_then(|path| std::path::absolute(path).ok());
    sys::last_resort::watch_panics(log_file.as_deref());
    sys::reserve::refill();
    sys::crash::name_commands(last_command::name);
    sys::crash::watch(config.process.reports_crashes, config.process.exits_on_panic);
    greet(file.as_deref());
    // Threads that are started from now on inherit these processors.
    cpus::keep_thread_on(&config.process.cpus.workers);
    identity::start(&config, file.as_deref());
    remarks.iter().for_each(|remark| tracing::info!("{remark}"));
    let supervisor = Supervisor::find(config.supervised);
    let mut values = values;
    fit_clients(&mut config, &mut values);
    let tls = tls::context(&config.tls).map_err(|error| {
        tracing::warn!("{error}");
        tracing::warn!("Failed to configure TLS. Check logs for more info.");
        Failed
    })?;
    let listeners = listen(&config)?;
    announce(&config);
    machine::warn(&config);
    let metrics = metrics::listen(&config).map_err(|error| {
        tracing::warn!("Failed listening on metrics-port {}: {}", config.metrics.port, error_text(&error));
        Failed
    })?;
    let store = store(&config)?;
    info::start(supervisor.name(), &store);
    let setup = worker::Setup {
        store,
        config: Live::new(values, file),
        table: Arc::new(commands),
        run_id: run_id(),
        listeners,
        tls,
        workers: config.workers,
        loads: true,
    };
    run(setup, metrics, &config, &supervisor)
}

fn run(
    setup: worker::Setup,
    metrics: Vec<TcpListener>,
    config: &Config,
    supervisor: &Supervisor,
) -> Result<(), Failed> {
    let pid_file = PidFile::write(config).map(Arc::new);
    let running = worker::start(setup).map_err(|error| {
        tracing::warn!("Can't start the workers: {}", error_text(&error));
        Failed
    })?;
    if let Err(error) = metrics::serve(metrics, &running.state) {
        tracing::warn!("Can't serve metrics: {}", error_text(&error));
    }
    if let Err(error) = info::inform_crashes(&running.state) {
        tracing::warn!("Reports of crashes will have no INFO: {}", error_text(&error));
    }
    memory_ahead::start(&running.state);
    watchdog::follow_config(&running.state);
    let state = Arc::clone(&running.state);
    // Each request goes to another worker: one of them may be in a command that does not return.
    let mut asked_workers = (0..state.workers().len()).cycle();
    let shutdown = move |asked| {
        let name = match asked {
            Asked::Term => "SIGTERM",
            Asked::Interrupt => "SIGINT",
        };
        tracing::warn!("Received {name} scheduling shutdown...");
        let config = state.config().snapshot();
        let options = if asked == Asked::Term { config.save.on_term } else { config.save.on_interrupt };
        let worker = asked_workers.next().expect("there are workers");
        state.workers()[worker].send(Message::Shutdown(options));
    };
    let (leaving, left) = (pid_file.clone(), Arc::clone(&running.state));
    let leave = move || {
        leaving.iter().for_each(|file| file.remove());
        persist::drop_unfinished(&left);
    };
    if let Err(error) = signals::watch(shutdown, leave) {
        tracing::warn!("Can't watch for signals: {}", error_text(&error));
    }
    tracing::warn!("Server initialized");
    replication::before_start(&running.state);
    if persist::load::at_start(&running.state, config, &|| running.accept()).is_err() {
        pid_file.iter().for_each(|file| file.remove());
        return Err(Failed);
    }
    if let Err(error) = replication::follow_at_start(&running.state) {
        tracing::warn!("Can't begin to replicate: {}", error_text(&error));
        return Err(Failed);
    }
    running.accept();
    tracing::info!("Ready to accept connections");
    supervisor.ready();
    let state = Arc::clone(&running.state);
    running.join();
    state.persist().aof.end();
    supervisor.stopping();
    if let Some(file) = &pid_file {
        tracing::info!("Removing the pid file.");
        file.remove();
    }
    tracing::warn!("Varve is now ready to exit, bye bye...");
    Ok(())
}

/// For what fails while there may be no log yet.
fn complain(text: &str) -> Failed {
    eprintln!("{text}");
    Failed
}

fn greet(file: Option<&Path>) {
    let (version, redis, bits, pid) = (version::VERSION, version::REDIS_VERSION, usize::BITS, std::process::id());
    tracing::warn!("Varve is starting: version={version}, redis={redis}, bits={bits}, pid={pid}, just started");
    match file {
        Some(path) => tracing::warn!("Configuration loaded from {}", path.display()),
        None => tracing::warn!("No config file: the default configuration and the command line's options apply"),
    }
}

/// Tools that start a server look for "PID: " in its log, as in the peer's banner, and connect then: so at every log level, and
/// when the sockets listen.
fn announce(config: &Config) {
    let (pid, workers) = (std::process::id(), config.workers);
    let port = if config.port > 0 { config.port } else { config.tls.port };
    tracing::warn!("Running mode=standalone, port={port}, workers={workers}, PID: {pid}");
}

/// Raises the limit on open files to what `maxclients` needs, or lowers `maxclients` to what the system allows.
fn fit_clients(config: &mut Config, values: &mut crate::config::Values) {
    let possible = allow_clients(config.max_clients, config.workers);
    if possible < config.max_clients {
        tracing::warn!(
            "maxclients has been reduced from {} to {possible} to fit the limit on open files ('ulimit -n')",
            config.max_clients
        );
        config.max_clients = possible;
        values.set("maxclients", possible.to_string().into_bytes());
    }
}

fn listen(config: &Config) -> Result<Vec<Listener>, Failed> {
    let refuse = |text: String| {
        tracing::warn!("{text}");
        Failed
    };
    let failed = |door: Door, error: String| {
        tracing::warn!("{error}");
        refuse(format!("Failed listening on port {} ({}), aborting.", door.port(config), door.protocol()))
    };
    let addresses = listen::addresses(config).map_err(|error| failed(Door::Plain, error))?;
    let mut listeners = Vec::new();
    for door in Door::ALL {
        listeners.extend(listen::tcp(config, door, &addresses).map_err(|error| failed(door, error))?);
    }
    if let Some(path) = &config.unix_socket {
        let unix = listen::unix(path, config.unix_socket_mode, config.tcp_backlog).map_err(|error| {
            tracing::warn!("{error}");
            refuse(format!("Failed opening Unix socket {}, aborting.", path.display()))
        })?;
        listeners.push(unix);
    }
    if listeners.is_empty() {
        return Err(refuse("Configured to not listen anywhere, exiting.".to_owned()));
    }
    Ok(listeners)
}

fn store(config: &Config) -> Result<Arc<Store>, Failed> {
    let options = varve_store::Options {
        databases: config.databases,
        workers: config.workers,
        shards: config.shards.unwrap_or(0),
        seed: random(),
        geometry: geometry(config),
        ..varve_store::Options::default()
    };
    // Large values take far more addresses than memory; where the system grants fewer, there are fewer of them.
    let usual = options.geometry;
    let store = reserved(RESERVE_BYTES.min(usual.segment_bytes << 30), |reserve_bytes| {
        let geometry = LogGeometry { reserve_bytes, ..usual };
        let store = Store::new(&varve_store::Options { geometry, ..options.clone() })?;
        if reserve_bytes < usual.reserve_bytes {
            tracing::warn!(
                "The system gives {} GB of addresses only: no more data than that fits",
                reserve_bytes >> 30
            );
        }
        Ok(store)
    });
    let store = store.map_err(|error| {
        tracing::warn!("Can't reserve the address range of the segments: {}", error_text(&error));
        Failed
    })?;
    if !config.core_dumps_with_data
        && let Err(error) = store.set_in_core_dumps(false)
    {
        tracing::warn!("Core dumps of this process would have keys and values in them: {}", error_text(&error));
    }
    config.apply_to(&store);
    Ok(store)
}

/// Makes something with `bytes` of addresses, or with half as many until the system gives them (a limit on the address
/// space, an instrumented run), but with no fewer than [`RESERVE_BYTES_MIN`].
fn reserved<T>(bytes: usize, make: impl Fn(usize) -> io::Result<T>) -> io::Result<T> {
    match make(bytes) {
        Err(_) if bytes / 2 >= RESERVE_BYTES_MIN => reserved(bytes / 2, make),
        result => result,
    }
}

/// How the log is cut: what the configuration leaves open shrinks with the segment, and what does not fit in a segment is
/// brought into its bounds, so that no combination fails.
fn geometry(config: &Config) -> LogGeometry {
    let usual = LogGeometry::default();
    let set = |bytes: Option<u64>, otherwise: usize| bytes.map_or(otherwise, |bytes| bytes as usize);
    let segment_bytes = set(config.segment_bytes, usual.segment_bytes).clamp(SEGMENT_BYTES_MIN, usual.segment_bytes);
    let part = segment_bytes / 16;
    let extent_min_bytes = set(config.run_min_bytes, usual.extent_min_bytes.min(part)).clamp(64, segment_bytes / 2);
    LogGeometry {
        segment_bytes,
        piece_bytes: set(config.piece_bytes, usual.piece_bytes.min(part)).clamp(64, extent_min_bytes),
        extent_min_bytes,
        release_bytes: usual.release_bytes.min(part).max(SEGMENT_BYTES_MIN),
        ..usual
    }
}

/// A number that nobody can foresee: the standard library seeds its hash tables from the system.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// 40 hexadecimal digits, new at each start.
fn run_id() -> String {
    format!("{:016x}{:016x}{:08x}", random(), random(), random() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_gives_less_is_asked_for_less() {
        let given = |most: usize| {
            reserved(
                1 << 40,
                move |bytes| if bytes <= most { Ok(bytes) } else { Err(io::ErrorKind::OutOfMemory.into()) },
            )
        };
        assert_eq!(given(1 << 40).unwrap(), 1 << 40);
        assert_eq!(given(100 << 30).unwrap(), 64 << 30);
        assert!(given(7 << 30).is_err());
    }

    #[test]
    fn any_sizes_of_segment_piece_and_run_make_a_store() {
        let sizes = [None, Some(1), Some(4096), Some(65536), Some(8 << 20)];
        for segment_bytes in sizes {
            for piece_bytes in sizes {
                for run_min_bytes in sizes {
                    let config = Config { segment_bytes, piece_bytes, run_min_bytes, ..Config::default() };
                    let geometry = LogGeometry { reserve_bytes: 8 << 20, ..geometry(&config) };
                    let options = varve_store::Options { geometry, shards: 1, ..varve_store::Options::default() };
                    assert!(Store::new(&options).is_ok(), "{geometry:?}");
                }
            }
        }
    }
}
