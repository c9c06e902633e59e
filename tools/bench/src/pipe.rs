//! `pipe`: a mass insertion by `redis-cli --pipe`, beside the peer.
//!
//! ```text
//!   file of SETs --stdin--> redis-cli --pipe --as much as the socket takes--> server    seconds, server CPU a command
//!   bystander: PING, then rest for 1 ms  ─────────────────────────────────────────────   p99.9 and longest
//!   watcher:   CLIENT LIST, then rest for 5 ms  ──────────────────────────────────────   most bytes of `qbuf` of the pipe
//! ```
//! redis-cli reads replies between its writes, so a server that executes what it has read owes it little and keeps little of
//! its requests. Each server has one worker. A turn starts a server of its own: the keys are new in every turn.

use crate::report::{Findings, Row, Target, Value, figures};
use crate::turns::{must, push, text};
use crate::{contenders, kept, say};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use varve_base::hist::{Counts, Hist};
use varve_testkit::{Server, process};

const VALUE_BYTES: usize = 64;
/// Time between the end of a PING and the next one.
const REST: Duration = Duration::from_millis(1);
/// Time between two looks at the query buffer. Each look costs the server a CLIENT LIST of three clients.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A bystander's longest PING may take this, milliseconds.
const PING_MS_MAX: f64 = 10.0;
/// The query buffer of a client that reads its replies may have this number of MB.
const QUERY_MB_MAX: f64 = 1.0;

/// The figures of one turn.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Figures {
    took_s: f64,
    cpu_us: f64,
    ping_p999_ms: f64,
    ping_max_ms: f64,
    /// Most bytes of `qbuf` in CLIENT LIST, in MB.
    query_mb: f64,
    /// `client_recent_max_input_buffer` of INFO, in MB.
    recent_mb: f64,
}

/// Pipes a file into every server, turn by turn.
///
/// # Errors
/// When a server cannot be started or is lost, or redis-cli is not there or counts errors.
pub(crate) fn run(quick: bool) -> io::Result<Findings> {
    let (megabytes, turns) = if quick { (4, 1) } else { (200, 5) };
    let name = format!("{megabytes} MB of SETs");
    let found = kept::case(&name, || {
        let requests = Requests::write(megabytes << 20)?;
        let entrants = contenders::entrants(&[]);
        let mut all: Vec<Vec<Figures>> = entrants.iter().map(|_| Vec::new()).collect();
        for _ in 0..turns {
            for (one, figures) in entrants.iter().zip(&mut all) {
                let found = one.start().and_then(|started| pipe(&started.server, &requests));
                figures.extend(contenders::spared(&one.name, one.role, found)?);
            }
        }
        Ok(all)
    })?;
    let mut rows = Vec::new();
    let mut row = |what: &str, unit: &str, of: fn(&Figures) -> f64, target| {
        let values: Vec<Value> = found.iter().map(|figures| Value::of(figures.iter().map(of).collect())).collect();
        say!("{name}, {what}: {:.3?} {unit}", values.iter().map(|value| value.median).collect::<Vec<f64>>());
        rows.push(Row::new(format!("{name}: {what}"), unit, values).at_most(target));
    };
    row("redis-cli --pipe", "s", |f| f.took_s, Some(Target::Ratio(1.0)));
    row("a SET", "us of CPU", |f| f.cpu_us, None);
    row("p99.9 of a bystander's PING", "ms", |f| f.ping_p999_ms, None);
    row("a bystander's longest PING", "ms", |f| f.ping_max_ms, Some(Target::AtMost(PING_MS_MAX)));
    row("most of qbuf in CLIENT LIST", "MB", |f| f.query_mb, Some(Target::AtMost(QUERY_MB_MAX)));
    row("client_recent_max_input_buffer of INFO", "MB", |f| f.recent_mb, Some(Target::AtMost(QUERY_MB_MAX)));
    Ok(Findings::new("pipe", "A mass insertion by redis-cli").with(figures("redis-cli --pipe", &rows)))
}

/// A file of SETs, each of another key, removed when this is dropped.
struct Requests {
    path: PathBuf,
    count: u64,
}

impl Requests {
    /// Writes a file of at least this number of bytes.
    fn write(bytes: u64) -> io::Result<Requests> {
        let path = std::env::temp_dir().join(format!("varve-pipe-{}", std::process::id()));
        let mut requests = Requests { path, count: 0 };
        let mut file = BufWriter::new(File::create(&requests.path)?);
        let (value, mut one, mut written) = (text(1, VALUE_BYTES), Vec::new(), 0);
        while written < bytes {
            one.clear();
            push(&mut one, &[b"SET", format!("key:{:012}", requests.count).as_bytes(), &value]);
            file.write_all(&one)?;
            written += one.len() as u64;
            requests.count += 1;
        }
        file.flush()?;
        Ok(requests)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the folder of temporary files.
        let _ = fs::remove_file(&self.path);
    }
}

/// One turn on a server that holds nothing yet.
fn pipe(server: &Server, requests: &Requests) -> io::Result<Figures> {
    let (ended, times) = (AtomicBool::new(false), Hist::new());
    thread::scope(|scope| {
        let bystander = scope.spawn(|| pings(server, &ended, &times));
        let watcher = scope.spawn(|| query_peak(server, &ended));
        let (cpu_before, begun) = (process::cpu_ns(server.pid())?, Instant::now());
        let piped = redis_cli(server, &requests.path);
        let took_s = begun.elapsed().as_secs_f64();
        let cpu_ns = process::cpu_ns(server.pid())? - cpu_before;
        ended.store(true, Relaxed);
        bystander.join().expect("the bystander does not panic")?;
        let query = watcher.join().expect("the watcher does not panic")?;
        let said = piped?;
        if !said.contains(&format!("errors: 0, replies: {}", requests.count)) {
            return Err(io::Error::other(format!("{} requests by redis-cli --pipe: {said}", requests.count)));
        }
        let waited: Counts = times.read();
        let (ms, mb) = (|ns: u64| ns as f64 / 1e6, |bytes: u64| bytes as f64 / f64::from(1 << 20));
        Ok(Figures {
            took_s,
            cpu_us: cpu_ns as f64 / 1000.0 / requests.count as f64,
            ping_p999_ms: ms(waited.percentile_ns(99.9)),
            ping_max_ms: ms(waited.max_ns()),
            query_mb: mb(query),
            recent_mb: mb(recent_input(server)?),
        })
    })
}

/// The lines that redis-cli prints about the requests of a file.
fn redis_cli(server: &Server, file: &Path) -> io::Result<String> {
    let port = server.port().to_string();
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &port, "--pipe"]).stdin(Stdio::from(File::open(file)?));
    let output = command.output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// PINGs until the pipe has ended, and records how long each took.
fn pings(server: &Server, ended: &AtomicBool, times: &Hist) -> io::Result<()> {
    let mut client = server.connect()?;
    loop {
        let sent = Instant::now();
        must(&mut client, "PING")?;
        times.record(sent.elapsed());
        if ended.load(Relaxed) {
            return Ok(());
        }
        thread::sleep(REST);
    }
}

/// The most bytes that waited in a query buffer at any look until the pipe has ended.
fn query_peak(server: &Server, ended: &AtomicBool) -> io::Result<u64> {
    let mut client = server.connect()?;
    let mut peak = 0;
    loop {
        peak = peak.max(longest_query(&must(&mut client, "CLIENT LIST")?.text()));
        if ended.load(Relaxed) {
            return Ok(peak);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The longest query buffer of a list of clients, in bytes, but for that of the client which asks.
fn longest_query(list: &str) -> u64 {
    let others = list.lines().filter(|line| !line.contains(" cmd=client"));
    others
        .filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("qbuf=")?.parse().ok()))
        .max()
        .unwrap_or(0)
}

/// The longest query buffer of late, as INFO has it.
fn recent_input(server: &Server) -> io::Result<u64> {
    let info = must(&mut server.connect()?, "INFO clients")?.text();
    let field = |line: &str| line.trim_end().strip_prefix("client_recent_max_input_buffer:")?.parse().ok();
    info.lines().find_map(field).ok_or_else(|| io::Error::other("INFO has no client_recent_max_input_buffer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_query_buffer_is_another_clients() {
        let list = "id=1 qbuf=26 qbuf-free=20448 cmd=client|list user=default\nid=2 qbuf=0 qbuf-free=0 cmd=ping\n\
                    id=3 qbuf=1500 qbuf-free=14884 cmd=set user=default\n";
        assert_eq!(longest_query(list), 1500);
        assert_eq!(longest_query(""), 0);
    }

    #[test]
    fn the_file_has_as_many_requests_as_are_counted() {
        let requests = Requests::write(10_000).unwrap();
        let bytes = fs::read(&requests.path).unwrap();
        assert!(bytes.len() >= 10_000);
        assert_eq!(bytes.windows(4).filter(|four| four == b"*3\r\n").count() as u64, requests.count);
        let path = requests.path.clone();
        drop(requests);
        assert!(!path.exists());
    }
}
