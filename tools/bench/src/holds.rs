//! `holds`: how long a long command keeps others from what they want, command by command.
//!
//! ```text
//!   GET a key, then rest for 200 us  ──────────────────────────────────────────   the wait at any moment, and the longest one
//!   one long command, its reply read        ├── SORT of ten million ──┤
//!   Varve's own lock holds           reset ─────────────────────────── read       p99.9 and longest hold
//! ```
//! Each server has one worker: what the long command does not leave free, the GETs do not get. One GET in a thousand of those that
//! are sent says little: while a server stops for a minute, one GET is sent. What counts is the wait of a GET that comes at any
//! moment of the time that is measured ([`at_any_moment`]). The holds are told by the
//! server's own clock, which runs on while the thread is off its core, so a busy machine makes the longest ones longer; the
//! GETs' times are the machine's as well. Where the memory is at its limit, SETs of new keys take the GETs' place. A core of its own for the server was tried: the longest holds were then of 20 to 90 ms in
//! place of 2 to 16, for the kernel's work on that core cannot be evaded. Not here: the commands and their data (`long_commands`).

use crate::load::{self, Traffic};
use crate::long_commands::{self, Case, GROUPS, Group, STEP};
use crate::report::{Better, Figure, Findings, Role, Table};
use crate::size::Size;
use crate::turns::{must, used_memory};
use crate::{contenders, kept, own, point};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use varve_testkit::{Server, client};

/// Time between the end of a GET and the next one. A fixed rate would show whether a server keeps up with it beside the command,
/// not how long a client waits: a GET that had to wait for those before it would count as one that is kept waiting.
const REST: Duration = Duration::from_micros(200);
/// How long a reply may take: redis-server sorts for a minute, and answers nothing meanwhile.
const PATIENCE: Duration = Duration::from_secs(900);
/// Bytes that the limit leaves besides as much as is used, and the value of a new key.
const ROOM_BYTES: u64 = 64 << 20;
const VALUE: [u8; 200] = [b'v'; 200];
/// A hold that is longer is told of.
const HOLD_US_MAX: f64 = 1000.0;
const COLUMNS: [&str; 5] = ["longest hold", "hold p99.9", "wait p99 at any moment", "longest wait", "the command"];
/// Of all moments, in this part of them a GET or SET that comes waits longer than the third of [`COLUMNS`] says.
const LONGER: f64 = 0.01;

/// How much is measured.
struct Scale {
    /// Elements of a collection.
    size: u64,
    /// How long GETs are sent before the command and behind it.
    beside: Duration,
}

/// Runs every case on every server.
///
/// # Errors
/// When a server cannot be started, is lost, or answers an error.
pub(crate) fn run(size: Size) -> io::Result<Findings> {
    let ms = Duration::from_millis;
    let scale = Scale { size: size.pick(4000, 40_000, 10_000_000), beside: size.pick(ms(10), ms(40), ms(300)) };
    let mut table = Table::new(&COLUMNS);
    let drawn = |table: &Table| {
        let figures = table.apart(&format!("Collections of {} elements", scale.size), |_| Better::Less);
        figures.into_iter().map(|figure| Figure { unit: "microseconds".into(), ..figure }).collect::<Vec<_>>()
    };
    let measured = every_case(&scale, &mut table);
    let long = kept::or_unfinished(measured, || drawn(&table))?;
    let told = if long.is_empty() { "none".into() } else { long.join("; ") };
    Ok(Findings::new("holds", "What a long command keeps others from")
        .with(drawn(&table))
        .note("A wait is that of a GET, or of a SET of a new key where a case says so.")
        .note(format!("Commands with a hold of more than a millisecond in Varve: {told}.")))
}

/// Adds the line of every case on every server to the table; the commands whose hold was over the limit.
fn every_case(scale: &Scale, table: &mut Table) -> io::Result<Vec<String>> {
    let mut long = Vec::new();
    for group in &GROUPS {
        for entrant in contenders::entrants(&[]) {
            // A run that goes on starts a server and fills it for what is missing alone.
            let mut there = None;
            for case in group.cases {
                let name = format!("{}, {}", case.name, entrant.name);
                let figures = kept::case(&name, || {
                    let measured = match &mut there {
                        Some(server) => Ok(server),
                        empty => filled(&entrant, group, scale).map(|server| empty.insert(server)),
                    }
                    .and_then(|server: &mut Server| measure(server, entrant.role, (group, case), scale));
                    contenders::spared(&entrant.name, entrant.role, measured)
                })?;
                let Some(figures) = figures else { continue };
                if figures[0] > HOLD_US_MAX {
                    long.push(format!("{} {:.1} ms", case.name, figures[0] / 1000.0));
                }
                table.add(name, figures);
            }
        }
    }
    Ok(long)
}

/// A server with the sources of a group.
fn filled(entrant: &contenders::Entrant, group: &Group, scale: &Scale) -> io::Result<Server> {
    let server = entrant.start()?.server;
    for source in group.sources {
        let (len, mut next) = ((source.len)(scale.size), 0);
        let mut write = |out: &mut Vec<u8>| {
            let end = len.min(next + STEP);
            (source.write)(out, next..end, scale.size);
            next = end;
        };
        let plan = Traffic { connections: 1, pipeline: 20, requests: len.div_ceil(STEP) };
        point::refuse_errors(&load::drive(server.address(), plan, &mut write)?)?;
    }
    if group.at_limit {
        fill_up(&server)?;
    }
    Ok(server)
}

/// Sets a limit that leaves as much room as is used, for the scratch memory of a command, and some; keys that expire fill it.
fn fill_up(server: &Server) -> io::Result<()> {
    let mut admin = server.connect()?;
    let used = used_memory(&mut admin)? as u64;
    let room = used + ROOM_BYTES;
    must(&mut admin, "CONFIG SET maxmemory-policy volatile-random")?;
    must(&mut admin, &format!("CONFIG SET maxmemory {}", used + room))?;
    let mut number = 0;
    let mut write = |out: &mut Vec<u8>| {
        client::encode(out, &new_key(number));
        number += 1;
    };
    let plan = Traffic { connections: 1, pipeline: 100, requests: room / VALUE.len() as u64 };
    point::refuse_errors(&load::drive(server.address(), plan, &mut write)?)
}

/// The request for a new key that expires, if none has had this number.
fn new_key(number: u64) -> [Vec<u8>; 5] {
    [b"SET".to_vec(), format!("new:{number}").into_bytes(), VALUE.to_vec(), b"EX".to_vec(), b"100000".to_vec()]
}

/// The figures of a case, in microseconds, in the order of [`COLUMNS`].
fn measure(server: &Server, role: Role, (group, case): (&Group, &Case), scale: &Scale) -> io::Result<Vec<f64>> {
    let mut admin = server.connect()?;
    must(&mut admin, "SET asked value")?;
    for command in case.before {
        send(server.address(), &[command], scale.size)?;
    }
    until_freed(&mut admin)?;
    must(&mut admin, "CONFIG RESETSTAT")?;
    let stop = AtomicBool::new(false);
    let (took, waits) = thread::scope(|scope| {
        let beside = scope.spawn(|| send_beside(server.address(), group.at_limit, &stop));
        thread::sleep(scale.beside);
        let begin = Instant::now();
        let sent = send(server.address(), case.measured, scale.size);
        let took = begin.elapsed();
        thread::sleep(scale.beside);
        stop.store(true, Relaxed);
        let waits = beside.join().expect("the requests beside do not panic")?;
        sent.map(|()| (took, waits))
    })?;
    let holds = match role {
        Role::Varve => {
            let info = must(&mut admin, "INFO background")?.text();
            own::figures(&info, "lock_holds", &["max_us", "p99.9_us"])?
        }
        _ => vec![f64::NAN; 2],
    };
    must(&mut admin, "UNLINK to")?;
    until_freed(&mut admin)?;
    let longest = waits.iter().copied().fold(0.0, f64::max);
    let figures = [at_any_moment(&waits, LONGER), longest, took.as_secs_f64()];
    Ok([&holds[..], &figures.map(|seconds| seconds * 1e6)].concat())
}

/// The wait that a GET exceeds which comes in this part of all moments. `waits` are those of GETs that follow each other, with
/// [`REST`] between them; all in seconds. A GET that comes while one waits has the rest of its time to wait.
fn at_any_moment(waits: &[f64], part: f64) -> f64 {
    let all: f64 = waits.iter().map(|wait| wait + REST.as_secs_f64()).sum();
    // The moments at which more than `wait` is left to wait.
    let beyond = |wait: f64| waits.iter().map(|one| (one - wait).max(0.0)).sum::<f64>();
    let (mut low, mut high) = (0.0, waits.iter().copied().fold(0.0, f64::max));
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) > part * all { low = middle } else { high = middle }
    }
    high
}

/// Waits until what was deleted is freed: that is work of the case before.
fn until_freed(admin: &mut client::Client) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let info = must(admin, "INFO memory")?.text();
        let pending = info.lines().find_map(|line| line.trim_end().strip_prefix("lazyfree_pending_objects:"));
        if pending.is_none_or(|count| count == "0") {
            return Ok(());
        }
        crate::screen::go_on()?;
        if Instant::now() > end {
            return Err(io::Error::other("what was deleted is not freed"));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// GETs one key over and over, or sets new ones, until it is told to stop; how long each took, in seconds.
fn send_beside(address: SocketAddr, sets: bool, stop: &AtomicBool) -> io::Result<Vec<f64>> {
    let (mut stream, mut waits, mut request) = (connect(address)?, Vec::new(), Vec::new());
    let (mut chunk, mut counter) = ([0; 4096], load::Counter::default());
    // One at least, also where the command ends before this thread has begun.
    loop {
        request.clear();
        if sets {
            // Behind all numbers of those that have filled the memory.
            client::encode(&mut request, &new_key(u64::MAX / 2 + waits.len() as u64));
        } else {
            client::encode(&mut request, &["GET", "asked"]);
        }
        thread::sleep(REST);
        let sent = Instant::now();
        stream.write_all(&request)?;
        loop {
            let count = stream.read(&mut chunk)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match counter.feed(&chunk[..count]) {
                (_, 1..) => return Err(io::Error::other(String::from_utf8_lossy(&chunk[..count]).into_owned())),
                (1.., 0) => break,
                (0, 0) => {}
            }
        }
        waits.push(sent.elapsed().as_secs_f64());
        if stop.load(Relaxed) {
            return Ok(waits);
        }
    }
}

/// Sends commands together and reads their replies, of which nothing is kept.
fn send(address: SocketAddr, commands: &[&str], size: u64) -> io::Result<()> {
    let mut stream = connect(address)?;
    let mut requests = Vec::new();
    commands.iter().for_each(|command| client::encode(&mut requests, &long_commands::words(command, size)));
    let mut sending = stream.try_clone()?;
    let (mut left, mut chunk, mut counter) = (commands.len() as u64, vec![0; 256 << 10], load::Counter::default());
    sending.write_all(&requests)?;
    while left > 0 {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (replies, errors) = counter.feed(&chunk[..count]);
        if errors > 0 {
            let text = String::from_utf8_lossy(&chunk[..count.min(200)]).into_owned();
            return Err(io::Error::other(format!("{}: {text}", commands.join("; "))));
        }
        left -= replies;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_counts_for_as_long_as_it_lasts() {
        let rest = REST.as_secs_f64();
        // A thousand GETs without a wait, and one that waits for as long as all of them take: half of all moments.
        let mut waits = vec![0.0; 999];
        waits.push(1000.0 * rest);
        let wait = at_any_moment(&waits, 0.25);
        assert!((wait / (500.0 * rest) - 1.0).abs() < 0.01, "{wait}");
        assert!(at_any_moment(&waits, 0.6) < rest && at_any_moment(&[], 0.01) < rest);
    }
}
