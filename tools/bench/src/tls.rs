//! `tls`: the cost of TLS, beside the peer's and beside the same server without it.
//!
//! | part | what |
//! |---|---|
//! | cpu | server CPU per GET at pipeline 16, 50 connections, values of 64 B, 1 KB and 16 KB; one worker |
//! | memory | resident bytes of an idle connection that has shown a certificate, beyond one without TLS |
//! | handshakes | what GETs at a fixed rate wait while others do 200 handshakes a second, and what a handshake costs |
//!
//! Both servers ask clients for a certificate, and have the same ones (ECDSA over P-256). The servers take turns within each
//! figure, and a figure is the median of its turns. What GETs wait is the machine's as well: it is judged by the difference
//! between two runs, one of them without handshakes.

use crate::floor::{Floor, Under};
use crate::load::{self, Outcome, Traffic};
use crate::pace::{self, Stream};
use crate::point::refuse_errors;
use crate::report::{Findings, Role, Row, Target, Value, figures};
use crate::turns::{push, text};
use crate::{kept, say};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use varve_base::hist::Hist;
use varve_testkit::tls::{Certificates, ClientConfig, connect_whole};
use varve_testkit::{Launch, Random, Server, process};

const KEYS: u64 = 10_000;
const CONNECTIONS: usize = 50;
const PIPELINE: usize = 16;
/// Bytes of the values, and how much more CPU a GET of them may take by TLS than without.
const SIZES: [(usize, Option<f64>); 3] = [(64, None), (1024, Some(1.4)), (16_384, None)];
/// Bytes of an idle connection beyond one without TLS, at most.
const IDLE_BYTES_MAX: f64 = 4096.0;
const HANDSHAKES_PER_S: f64 = 200.0;
/// Microseconds that handshakes may add to what one GET in a thousand waits.
const ADDED_US_MAX: f64 = 1000.0;
/// GETs a second while others do handshakes.
const RATE: f64 = 5_000.0;

/// How big and how often.
struct Scale {
    requests: u64,
    turns: usize,
    idle: usize,
    time: Duration,
}

/// A server with a port for TLS.
struct Both {
    server: Server,
    tls: SocketAddr,
}

/// Runs the experiment, or one part of it.
///
/// # Errors
/// When a server cannot be started, is lost, or answers an error.
pub(crate) fn run(quick: bool, part: Option<&str>) -> io::Result<Findings> {
    let scale = match quick {
        true => Scale { requests: 20_000, turns: 1, idle: 100, time: Duration::from_millis(500) },
        false => Scale { requests: 500_000, turns: 5, idle: 1000, time: Duration::from_secs(10) },
    };
    let certificates = Certificates::make("bench");
    let config = Arc::new(certificates.client(true));
    let start = |launch: Launch| -> io::Result<Both> {
        let (server, port) = launch.config("io-threads 1").start_tls(&certificates)?;
        Ok(Both { server, tls: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) })
    };
    let servers = || -> io::Result<[Both; 2]> { Ok([start(Launch::varve())?, start(Launch::peer())?]) };
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    let mut rows = Vec::new();
    if wanted("cpu") {
        for (bytes, most) in SIZES {
            let name = format!("GET of {bytes} B");
            rows.extend(kept::case(&name, || cpu(&servers()?, &config, &scale, &name, (bytes, most)))?);
        }
    }
    if wanted("memory") {
        rows.push(kept::case("memory", || memory(&servers()?, &config, &scale))?);
    }
    if wanted("handshakes") {
        rows.extend(kept::case("handshakes", || handshakes(&servers()?, &config, &scale))?);
    }
    if rows.is_empty() {
        return Err(io::Error::other("no such part: cpu, memory, handshakes"));
    }
    Ok(Findings::new("tls", "TLS").with(figures("TLS", &rows)))
}

fn key(number: u64) -> Vec<u8> {
    let mut key = vec![0; 16];
    load::write_key(&mut key, number);
    key
}

fn get(out: &mut Vec<u8>, random: &mut Random) {
    push(out, &[b"GET", &key(random.below(KEYS as usize) as u64)]);
}

fn fill(server: &Server, bytes: usize) -> io::Result<()> {
    let mut next = 0;
    let value = text(1, bytes);
    let plan = Traffic { connections: 1, pipeline: 16, requests: KEYS };
    let outcome = load::drive(server.address(), plan, &mut |out| {
        push(out, &[b"SET", &key(next), &value]);
        next += 1;
    });
    refuse_errors(&outcome?)
}

/// CPU of a GET in microseconds and GETs a second, by TLS where there is a configuration.
fn get_pace(both: &Both, config: Option<&Arc<ClientConfig>>, requests: u64, seed: u64) -> io::Result<[f64; 2]> {
    let plan = Traffic { connections: CONNECTIONS, pipeline: PIPELINE, requests };
    let mut random = Random::new(seed);
    let mut write = |out: &mut Vec<u8>| get(out, &mut random);
    let (before, begun) = (process::cpu_ns(both.server.pid())?, Instant::now());
    let outcome: Outcome = match config {
        None => load::drive(both.server.address(), plan, &mut write)?,
        Some(config) => load::drive_tls(both.tls, config, plan, &mut write)?,
    };
    let (spent, took) = (process::cpu_ns(both.server.pid())? - before, begun.elapsed());
    refuse_errors(&outcome)?;
    let replies = outcome.replies as f64;
    Ok([spent as f64 / 1000.0 / replies, replies / took.as_secs_f64()])
}

/// Rows of GETs of values of one size.
fn cpu(
    servers: &[Both; 2],
    config: &Arc<ClientConfig>,
    scale: &Scale,
    name: &str,
    (bytes, most): (usize, Option<f64>),
) -> io::Result<Vec<Row>> {
    // By way of transport and server, the paces of the turns.
    let mut paces: [[Vec<[f64; 2]>; 2]; 2] = Default::default();
    let requests = scale.requests * 1024 / bytes.max(1024) as u64;
    for both in servers {
        fill(&both.server, bytes)?;
    }
    let mut random = Random::new(0);
    let under = Under::load(&mut |out| get(out, &mut random))?;
    let plan = Traffic { connections: CONNECTIONS, pipeline: PIPELINE, requests };
    let mut floors = Vec::new();
    for turn in 0..scale.turns {
        for (at, both) in servers.iter().enumerate() {
            for (way, config) in [None, Some(config)].into_iter().enumerate() {
                paces[way][at].push(get_pace(both, config, requests, turn as u64)?);
            }
        }
        floors.push(under.pace(plan)?.cpu_us);
    }
    let middle = |way: usize, number: usize| {
        [0, 1].map(|at: usize| Value::of(paces[way][at].iter().map(|pace| pace[number]).collect()))
    };
    let (plain, sealed) = (middle(0, 0), middle(1, 0));
    let floor = Value::of(floors);
    let row =
        |way: &str, values| Row::new(format!("{name}, {way}"), "us of CPU", values).with("floor", Role::Floor, floor);
    let parts = [0, 1].map(|at| sealed[at].median / plain[at].median);
    let parts = Row::new(format!("{name}, TLS over plain"), "times", parts);
    Ok(vec![
        row("plain", plain),
        row("by TLS", sealed).at_most(Target::Ratio(1.0)),
        parts.at_most(most.map(Target::AtMost)),
        Row::new(format!("{name}, plain"), "/s", middle(0, 1)),
        Row::new(format!("{name}, by TLS"), "/s", middle(1, 1)),
    ])
}

/// Resident bytes of a connection, when this number of them are open and say nothing; and the connections. As long as they are
/// open, nobody takes memory that they have left for the memory of the next ones.
fn idle_bytes<C>(server: &Server, count: usize, connect: impl Fn() -> io::Result<C>) -> io::Result<(f64, Vec<C>)> {
    // The first ones bring buffers that stay.
    let mut open: Vec<C> = (0..count / 10).map(|_| connect()).collect::<io::Result<_>>()?;
    std::thread::sleep(Duration::from_millis(500));
    let before = server.memory()?.resident;
    for _ in 0..count {
        open.push(connect()?);
    }
    std::thread::sleep(Duration::from_millis(500));
    let after = server.memory()?.resident;
    Ok(((after as f64 - before as f64) / count as f64, open))
}

fn memory(servers: &[Both; 2], config: &Arc<ClientConfig>, scale: &Scale) -> io::Result<Row> {
    let mut beyond = Vec::new();
    for both in servers {
        let (plain, _plain) = idle_bytes(&both.server, scale.idle, || TcpStream::connect(both.server.address()))?;
        let (sealed, _sealed) = idle_bytes(&both.server, scale.idle, || connect_whole(both.tls, config))?;
        say!("an idle connection: {plain:.0} bytes plain, {sealed:.0} by TLS");
        beyond.push(sealed - plain);
    }
    Ok(Row::new("an idle connection beyond a plain one", "B", beyond).at_most(Target::AtMost(IDLE_BYTES_MAX)))
}

/// The time within which 999 of 1000 GETs are answered, in microseconds.
fn waited_us(both: &Both, time: Duration) -> io::Result<f64> {
    let (times, mut random) = (Hist::new(), Random::new(7));
    let mut write = |out: &mut Vec<u8>| get(out, &mut random);
    let requests = (RATE * time.as_secs_f64()) as u64;
    let stream = Stream {
        connections: CONNECTIONS,
        rate: RATE,
        first: Duration::ZERO,
        requests,
        write: &mut write,
        times: &times,
    };
    match pace::run(both.server.address(), &mut [stream])? {
        0 => Ok(times.read().percentile_ns(99.9) as f64 / 1000.0),
        errors => Err(io::Error::other(format!("{errors} replies were errors"))),
    }
}

/// A whole handshake, and the connection's end.
fn handshake(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<()> {
    // Without what a session before has left, each of them is whole.
    let mut config = ClientConfig::clone(config);
    config.resumption = varve_testkit::tls::no_resumption();
    connect_whole(address, &Arc::new(config)).map(drop)
}

/// Does something at the rate of handshakes until it is told to end; how often.
fn greet(ends: &AtomicBool, greeting: impl Fn() -> io::Result<()>) -> io::Result<u64> {
    let (start, mut done) = (Instant::now(), 0);
    while !ends.load(Ordering::Relaxed) {
        greeting()?;
        done += 1;
        let due = Duration::from_secs_f64(done as f64 / HANDSHAKES_PER_S);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    Ok(done)
}

/// Microseconds of CPU of a server that accepts connections and sees them end, for each of them.
fn floor_of_handshakes(scale: &Scale) -> io::Result<Value> {
    let floor = Floor::start(1)?;
    let turn = |_| {
        let (ends, before) = (AtomicBool::new(false), process::cpu_ns(floor.pid())?);
        let done = std::thread::scope(|scope| {
            let greeting = scope.spawn(|| greet(&ends, || TcpStream::connect(floor.address()).map(drop)));
            std::thread::sleep(scale.time);
            ends.store(true, Ordering::Relaxed);
            greeting.join().expect("it does not panic")
        })?;
        Ok((process::cpu_ns(floor.pid())? - before) as f64 / 1000.0 / done as f64)
    };
    Ok(Value::of((0..scale.turns).map(turn).collect::<io::Result<Vec<f64>>>()?))
}

fn handshakes(servers: &[Both; 2], config: &Arc<ClientConfig>, scale: &Scale) -> io::Result<Vec<Row>> {
    let (mut added, mut cost) = (Vec::new(), Vec::new());
    for both in servers {
        fill(&both.server, 64)?;
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let (mut spent, mut done) = (0.0, 0);
        for _ in 0..scale.turns {
            let before = process::cpu_ns(both.server.pid())?;
            alone.push(waited_us(both, scale.time)?);
            let between = process::cpu_ns(both.server.pid())?;
            let ends = AtomicBool::new(false);
            let (waited, greeted) = std::thread::scope(|scope| {
                let greeting = scope.spawn(|| greet(&ends, || handshake(both.tls, config)));
                let waited = waited_us(both, scale.time);
                ends.store(true, Ordering::Relaxed);
                (waited, greeting.join().expect("it does not panic"))
            });
            beside.push(waited?);
            done += greeted?;
            spent += (process::cpu_ns(both.server.pid())? - between) as f64 - (between - before) as f64;
        }
        say!(
            "p99.9 of GETs: {:.0} us, {:.0} beside {done} handshakes",
            Value::of(alone.clone()),
            Value::of(beside.clone())
        );
        added.push(Value::of(beside).median - Value::of(alone).median);
        cost.push(spent / 1000.0 / done as f64);
    }
    let added = Row::new("200 handshakes/s add to p99.9 of GETs", "us", added);
    let cost = Row::new("a handshake, both certificates", "us of CPU, a handshake", cost);
    let floor = floor_of_handshakes(scale)?;
    Ok(vec![added.at_most(Target::AtMost(ADDED_US_MAX)), cost.with("floor", Role::Floor, floor)])
}
