//! Clients that ask Sentinel for the primary, write what is unique and have WAIT say how many replicas have it; and clients that read.
//!
//! ```text
//!   a step of a writer   INFO replication | RPUSH list W.N, or SET register N | INFO replication  | WAIT 1 or 2 | INFO replication
//!                        one primary's history in both INFOs ------------------- the stream's end                what replicas have
//! ```
//! A replica that has acknowledged the end of the stream of behind the write has the write. Nothing is ever sent twice.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use varve_testkit::{Client, Random};

use super::cluster::{Addresses, LIMIT, connect, field_of};
use super::history::{Key, Outcome, Read, Write, element};
use super::{BOXES, LISTS, WRITERS};

/// Time between two steps of a client.
const PACE: Duration = Duration::from_millis(5);
/// Milliseconds that WAIT waits.
const WAIT_MS: &str = "100";

/// The things that all clients of a round share.
pub(crate) struct Stage<'r> {
    pub(crate) addresses: &'r Addresses,
    /// The beginning of the clock that all moments of a history are read from.
    pub(crate) clock: Instant,
    pub(crate) round: u64,
    pub(crate) is_over: &'r AtomicBool,
    /// Writes that were answered.
    pub(crate) answered: &'r AtomicUsize,
}

impl Stage<'_> {
    fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Waits until this number of writes has been answered since now.
    ///
    /// # Panics
    /// Nearly nothing is answered.
    pub(crate) fn go_on(&self, writes: usize) {
        let (here, end) = (self.answered.load(Relaxed), Instant::now() + LIMIT);
        while self.answered.load(Relaxed) < here + writes {
            assert!(Instant::now() < end, "clients write nothing");
            thread::sleep(PACE);
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Relaxed)
    }

    /// The primary's box and a connection to it, as the first Sentinel that answers names it.
    fn primary(&self, random: &mut Random) -> io::Result<(usize, Client)> {
        let first = random.below(BOXES);
        let named = (0..BOXES).find_map(|nth| self.addresses.primary_by((first + nth) % BOXES).ok());
        let place = named.ok_or_else(|| io::Error::other("no Sentinel answers"))?;
        let mut client = connect(self.addresses.servers[place])?;
        let role = client.call(&["ROLE"])?;
        let is_primary = role.elements().and_then(|role| role.first()?.bytes()) == Some(b"master");
        if is_primary { Ok((place, client)) } else { Err(io::Error::other("not a primary")) }
    }
}

/// The key of a list or a register.
pub(crate) fn name(round: u64, key: Key) -> String {
    match key {
        Key::List(nth) => format!("list:{round}:{nth}"),
        Key::Register(writer) => format!("register:{round}:{writer}"),
    }
}

/// Writes until the round is over.
pub(crate) fn write(stage: &Stage<'_>, writer: usize, seed: u64) -> Vec<Write> {
    let (mut random, mut writes) = (Random::new(seed), Vec::new());
    while stage.goes_on() {
        let Ok((place, mut client)) = stage.primary(&mut random) else {
            thread::sleep(PACE);
            continue;
        };
        let mut is_well = true;
        while is_well && stage.goes_on() {
            let lists = LISTS + 1;
            let key = Some(random.below(lists)).filter(|nth| *nth < LISTS).map_or(Key::Register(writer), Key::List);
            let wanted = 1 + random.below(2) as i64;
            let write = step(stage, &mut client, new(stage, (writer, writes.len() as u64 + 1), key, place), wanted);
            is_well = matches!(write.outcome, Outcome::Answered { copies, .. } if copies >= wanted);
            writes.push(write);
            thread::sleep(PACE);
        }
    }
    writes
}

/// A write that is about to be sent to the server of a box.
fn new(stage: &Stage<'_>, (writer, number): (usize, u64), key: Key, place: usize) -> Write {
    let (begin, end) = (stage.now_ns(), u64::MAX);
    Write { writer, number, key, place, begin, end, history: String::new(), outcome: Outcome::Unknown }
}

/// Sends a write, and has WAIT ask for this number of replicas.
fn step(stage: &Stage<'_>, client: &mut Client, mut write: Write, wanted: i64) -> Write {
    let name = name(stage.round, write.key);
    client.queue(&["INFO", "replication"]);
    match write.key {
        Key::List(_) => client.queue(&["RPUSH", &name, &element(&write)]),
        Key::Register(_) => client.queue(&["SET", &name, &write.number.to_string()]),
    }
    client.queue(&["INFO", "replication"]);
    client.queue(&["WAIT", &wanted.to_string(), WAIT_MS]);
    client.queue(&["INFO", "replication"]);
    let Ok(before) = client.flush().and_then(|()| client.read()) else { return write };
    let Ok(reply) = client.read() else { return write };
    write.end = stage.now_ns();
    if reply.is_error() {
        write.outcome = Outcome::Refused;
        return write;
    }
    let (mut copies, mut held_by) = (0, [false; BOXES]);
    // The connection may be lost at any of the replies that follow: what is known until then counts.
    if let Ok(behind) = client.read() {
        write.history = one_history(&before.text(), &behind.text()).unwrap_or_default();
        if let Ok(reply) = client.read() {
            copies = reply.integer().unwrap_or(0);
        }
        if let Ok(after) = client.read() {
            held_by = holders(stage, &behind.text(), &after.text());
        }
    }
    write.outcome = Outcome::Answered { copies, held_by };
    stage.answered.fetch_add(1, Relaxed);
    write
}

/// The history under which a server was a primary from one INFO to another one; none if it was not all the while.
fn one_history(before: &str, behind: &str) -> Option<String> {
    let [history, later] = [before, behind].map(|info| field_of(info, "master_replid"));
    let is_primary = [before, behind].iter().all(|info| field_of(info, "role") == "master");
    (is_primary && history == later).then(|| history.to_owned())
}

/// The boxes whose replicas have acknowledged what was the end of the stream behind a write.
fn holders(stage: &Stage<'_>, behind: &str, after: &str) -> [bool; BOXES] {
    let mut holders = [false; BOXES];
    let end = field_of(behind, "master_repl_offset").parse::<u64>();
    if let (Ok(end), Some(_)) = (end, one_history(behind, after)) {
        for line in after.lines().filter(|line| line.starts_with("slave")) {
            let value = |name: &str| line.split([',', ':']).find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            let offset: u64 = value("offset").and_then(|offset| offset.parse().ok()).unwrap_or(0);
            if let Some(place) = value("ip").and_then(|ip| stage.addresses.place(ip)) {
                holders[place] |= offset >= end;
            }
        }
    }
    holders
}

/// Reads all registers again and again until the round is over.
pub(crate) fn read(stage: &Stage<'_>, seed: u64) -> Vec<Read> {
    let (mut random, mut reads) = (Random::new(seed), Vec::new());
    while stage.goes_on() {
        let Ok((_, mut client)) = stage.primary(&mut random) else {
            thread::sleep(PACE);
            continue;
        };
        while stage.goes_on() {
            match look(stage, &mut client) {
                Ok(Some(read)) => reads.push(read),
                Ok(None) | Err(_) => break,
            }
            thread::sleep(PACE);
        }
    }
    reads
}

/// One look at the registers of a server; none if it was not one primary all the while.
fn look(stage: &Stage<'_>, client: &mut Client) -> io::Result<Option<Read>> {
    client.queue(&["INFO", "replication"]);
    let names: Vec<String> = (0..WRITERS).map(|writer| name(stage.round, Key::Register(writer))).collect();
    names.iter().for_each(|name| client.queue(&["GET", name]));
    client.queue(&["INFO", "replication"]);
    let begin = stage.now_ns();
    client.flush()?;
    let before = client.read()?.text();
    let mut registers = [0; WRITERS];
    for register in &mut registers {
        let reply = client.read()?;
        if reply.is_error() {
            return Ok(None);
        }
        *register = reply.bytes().map_or(Ok(0), |_| reply.text().parse()).map_err(io::Error::other)?;
    }
    let (after, end) = (client.read()?.text(), stage.now_ns());
    Ok(one_history(&before, &after).map(|history| Read { begin, end, history, registers }))
}
