//! Parts that the experiments share: two servers with one worker each, requests from words, rate and CPU of a turn.

use crate::load::{self, Traffic};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use varve_testkit::{Launch, Random, Server, client, process};

/// Varve and the peer, one worker each, with these settings.
///
/// # Errors
/// When one cannot be started.
pub(crate) fn both(settings: &[&str]) -> io::Result<[Server; 2]> {
    let start = |launch: Launch| settings.iter().fold(launch, |launch, line| launch.config(*line)).start();
    Ok([start(Launch::varve().config("io-threads 1"))?, start(Launch::peer().config("io-threads 1"))?])
}

/// How fast a server answered, and what it spent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Replies a second, as the client saw them.
    pub(crate) per_s: f64,
    /// The server's CPU time per reply, in microseconds.
    pub(crate) cpu_us: f64,
}

/// Runs a load on a server; its pace.
///
/// # Errors
/// When the server is lost, or answers an error.
pub(crate) fn pace(server: &Server, plan: Traffic, write: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<Pace> {
    pace_of(server.address(), server.pid(), plan, write)
}

/// Runs a load on the process that listens at an address; its pace.
///
/// # Errors
/// When the server is lost, or answers an error.
pub(crate) fn pace_of(
    address: SocketAddr,
    pid: u32,
    plan: Traffic,
    write: &mut dyn FnMut(&mut Vec<u8>),
) -> io::Result<Pace> {
    let (before, begun) = (process::cpu_ns(pid)?, Instant::now());
    let outcome = load::drive(address, plan, write)?;
    let (spent, took) = (process::cpu_ns(pid)? - before, begun.elapsed());
    if outcome.errors > 0 {
        return Err(io::Error::other(format!("{} of {} replies were errors", outcome.errors, outcome.replies)));
    }
    let replies = outcome.replies as f64;
    Ok(Pace { per_s: replies / took.as_secs_f64(), cpu_us: spent as f64 / 1000.0 / replies })
}

/// Runs a load; the server's CPU per request in microseconds.
///
/// # Errors
/// When the server is lost, or answers an error.
pub(crate) fn cpu_us(server: &Server, plan: Traffic, write: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<f64> {
    Ok(pace(server, plan, write)?.cpu_us)
}

/// One command, which must not fail.
///
/// # Errors
/// An error reply.
pub(crate) fn must(client: &mut client::Client, command: &str) -> io::Result<varve_testkit::RespValue> {
    let reply = client.cmd(command);
    if reply.is_error() {
        return Err(io::Error::other(format!("{command}: {reply:?}")));
    }
    Ok(reply)
}

/// Resident bytes once background work has had a moment.
///
/// # Errors
/// When the server is gone.
pub(crate) fn resident(server: &Server) -> io::Result<f64> {
    std::thread::sleep(Duration::from_millis(300));
    Ok(server.memory()?.resident as f64)
}

/// A field of INFO memory.
///
/// # Errors
/// When it is not there.
pub(crate) fn used_memory(client: &mut client::Client) -> io::Result<f64> {
    let info = must(client, "INFO memory")?.text();
    let field = info.lines().find_map(|line| line.trim_end().strip_prefix("used_memory:")?.parse().ok());
    field.ok_or_else(|| io::Error::other("INFO has no used_memory"))
}

/// Writes one request.
pub(crate) fn push(out: &mut Vec<u8>, args: &[&[u8]]) {
    client::encode(out, args);
}

/// Bytes that do not repeat and do not read as a number, the same for the same number.
pub(crate) fn text(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(number.wrapping_mul(varve_base::hash::GOLDEN_RATIO) ^ 0x5bd1);
    (0..bytes).map(|i| if i == 0 { b'v' } else { b'a' + random.below(26) as u8 }).collect()
}
