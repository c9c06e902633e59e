//! `publish`: one publisher with a long pipeline, many subscribers that read, beside the peer.
//!
//! ```text
//! publisher --PUBLISH, as many as the socket takes--> server --a message each--> subscribers
//!                                                            <--PING----------- the first subscriber, one at a time
//! ```
//! All of them are one thread of this process. Figures: seconds from the first request to the last delivery; server CPU;
//! `write()` calls, which both servers count (INFO `total_writes_processed`); the longest PING of a subscriber, which
//! stands behind the messages that are on their way to it. The floor copies as many bytes to as many sockets, and answers no
//! PING ([`crate::fan_floor`]).

use crate::floor::Floor;
use crate::load::{connect, poll_events};
use crate::report::{Findings, Role, Row, Target, Value, figures};
use crate::turns::{must, push};
use crate::{contenders, kept, say, screen};
use mio::net::TcpStream;
use mio::{Events, Poll, Token};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use varve_testkit::{Server, client, process};

const CHANNEL: &[u8] = b"news";
const PAYLOAD_BYTES: usize = 16;
/// Time from one PING of the subscriber to the next, if the answer is there by then.
const PING_EVERY: Duration = Duration::from_millis(5);
/// Subscribers, and messages.
const SCENES: [(usize, u64); 4] = [(10, 50_000), (64, 10_000), (200, 5_000), (1000, 1_000)];
const IO_THREADS: [usize; 2] = [1, 2];
/// A subscriber's longest PING may take this, milliseconds.
const PING_MS_MAX: f64 = 100.0;
/// Bytes of requests that the publisher encodes at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The figures of one run.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Figures {
    last_s: f64,
    cpu_s: f64,
    writes: f64,
    ping_ms: f64,
}

/// Runs all scenes with one worker and with two.
///
/// # Errors
/// When a server cannot be started or is lost.
pub(crate) fn run(quick: bool, turns: usize) -> io::Result<Findings> {
    let mut rows = Vec::new();
    for threads in IO_THREADS {
        for (subscribers, messages) in SCENES {
            let messages = if quick { messages / 50 } else { messages };
            let name = format!("{subscribers} x {messages}, {threads} thread{}", if threads == 1 { "" } else { "s" });
            let turns = if quick { 1 } else { turns };
            let found = kept::case(&name, || {
                let entrants = contenders::entrants_with(threads);
                let mut all: Vec<Vec<Figures>> = entrants.iter().map(|_| Vec::new()).collect();
                for _ in 0..turns {
                    for (one, figures) in entrants.iter().zip(&mut all) {
                        let found = one.start().and_then(|started| scene(&started.server, subscribers, messages));
                        figures.extend(contenders::spared(&one.name, one.role, found)?);
                    }
                }
                Ok(all)
            })?;
            let floors = kept::case(&format!("{name}, floor"), || {
                (0..turns).map(|_| floor_cpu_s(subscribers, messages)).collect::<io::Result<Vec<f64>>>()
            })?;
            let deliveries = (subscribers as u64 * messages) as f64;
            let row = |what: &str, unit: &str, of: &dyn Fn(&Figures) -> f64, target| {
                let values = found.iter().map(|figures| Value::of(figures.iter().map(of).collect()));
                Row::new(format!("{name}: {what}"), unit, values).at_most(target)
            };
            let floor = Value::of(floors).scaled(1e6 / deliveries);
            rows.extend([
                row("last delivery", "s", &|f| f.last_s, Some(Target::Ratio(1.0))),
                row("deliveries", "/s", &|f| deliveries / f.last_s, None),
                row("server CPU", "s", &|f| f.cpu_s, Some(Target::Ratio(1.0))),
                row("a delivery", "us of CPU", &|f| f.cpu_s * 1e6 / deliveries, None).with("floor", Role::Floor, floor),
                row("writes", "calls", &|f| f.writes, None),
                row("longest PING", "ms", &|f| f.ping_ms, Some(Target::AtMost(PING_MS_MAX))),
            ]);
            let each = |figures: &Vec<Figures>| figures.first().map_or(f64::NAN, |f| f.cpu_s * 1e9 / deliveries);
            say!("{name}: {:.0?} ns of CPU a delivery", found.iter().map(each).collect::<Vec<f64>>());
        }
    }
    Ok(Findings::new("publish", "One publisher, many subscribers").with(figures("Fan-out", &rows)).note(
        "The floor is one thread that copies a message as long to each subscriber's socket for each request: one write a \
         subscriber for all requests that one read has brought.",
    ))
}

/// Publishes to subscribers until the last one has everything.
fn scene(server: &Server, subscribers: usize, messages: u64) -> io::Result<Figures> {
    let mut poll = Poll::new()?;
    let each = message_bytes() as u64 * messages;
    let mut all = Vec::new();
    for id in 0..subscribers {
        let mut stream = connect(server.address(), &poll, Token(id))?;
        let mut subscribe = Vec::new();
        push(&mut subscribe, &[b"SUBSCRIBE", CHANNEL]);
        stream.write_all(&subscribe)?;
        let confirmed = format!("*3\r\n$9\r\nsubscribe\r\n${}\r\nnews\r\n:1\r\n", CHANNEL.len()).len();
        all.push(Subscriber { stream, left: each + confirmed as u64 });
    }
    let mut control = server.connect()?;
    while subscribed(&mut control)? != subscribers as i64 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut pinging = Pinging::default();
    let got = pinging.take(&mut all[0])?;
    all[0].left -= got;
    let mut publisher = Publisher::new(connect(server.address(), &poll, Token(subscribers))?, messages);
    let writes_before = writes(&mut control)?;
    let cpu_before = process::cpu_ns(server.pid())?;
    let begun = Instant::now();
    let last_s = drive(&mut poll, &mut all, &mut publisher, Some(&mut pinging), begun)?;
    let cpu_s = (process::cpu_ns(server.pid())? - cpu_before) as f64 / 1e9;
    let writes = writes(&mut control)? - writes_before;
    Ok(Figures { last_s, cpu_s, writes, ping_ms: pinging.longest.as_secs_f64() * 1000.0 })
}

/// The floor's CPU, in seconds, for as many bytes to as many subscribers.
fn floor_cpu_s(subscribers: usize, messages: u64) -> io::Result<f64> {
    let mut request = Vec::new();
    push_request(&mut request);
    let floor = Floor::start_fan(request.len(), message_bytes())?;
    let mut poll = Poll::new()?;
    let left = message_bytes() as u64 * messages;
    let subscriber = |id| Ok(Subscriber { stream: connect(floor.address(), &poll, Token(id))?, left });
    let mut all = (0..subscribers).map(subscriber).collect::<io::Result<Vec<Subscriber>>>()?;
    let mut publisher = Publisher::new(connect(floor.address(), &poll, Token(subscribers))?, messages);
    let before = process::cpu_ns(floor.pid())?;
    drive(&mut poll, &mut all, &mut publisher, None, Instant::now())?;
    Ok((process::cpu_ns(floor.pid())? - before) as f64 / 1e9)
}

/// Until everybody has everything; the seconds that it took.
fn drive(
    poll: &mut Poll,
    all: &mut [Subscriber],
    publisher: &mut Publisher,
    mut pinging: Option<&mut Pinging>,
    begun: Instant,
) -> io::Result<f64> {
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 256 << 10];
    let mut waiting = all.len();
    publisher.go_on(&mut buffer)?;
    while waiting > 0 {
        screen::go_on()?;
        poll_events(poll, &mut events, Some(PING_EVERY))?;
        for event in &events {
            let Token(id) = event.token();
            if id == all.len() {
                publisher.go_on(&mut buffer)?;
            } else if all[id].left > 0 {
                let got = match pinging.as_mut().filter(|_| id == 0) {
                    Some(pinging) => pinging.take(&mut all[0])?,
                    None => all[id].take(&mut buffer)?,
                };
                all[id].left -= got;
                waiting -= usize::from(all[id].left == 0);
            }
        }
        if let Some(pinging) = pinging.as_mut().filter(|_| all[0].left > 0) {
            pinging.ping(&mut all[0].stream)?;
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Bytes of a message as a subscriber gets it.
fn message_bytes() -> usize {
    let mut message = Vec::new();
    client::encode(&mut message, &[b"message".as_slice(), CHANNEL, &[b'x'; PAYLOAD_BYTES]]);
    message.len()
}

/// The number of subscribers.
fn subscribed(client: &mut client::Client) -> io::Result<i64> {
    let reply = must(client, "PUBSUB NUMSUB news")?;
    let count = reply.elements().and_then(|elements| elements.get(1)?.integer());
    count.ok_or_else(|| io::Error::other("PUBSUB NUMSUB has no number"))
}

/// The server's count of `write()` calls for clients.
fn writes(client: &mut client::Client) -> io::Result<f64> {
    let info = must(client, "INFO stats")?.text();
    let field = info.lines().find_map(|line| line.trim_end().strip_prefix("total_writes_processed:")?.parse().ok());
    field.ok_or_else(|| io::Error::other("INFO has no total_writes_processed"))
}

struct Subscriber {
    stream: TcpStream,
    /// Bytes still to come.
    left: u64,
}

impl Subscriber {
    /// Reads what is there; the number of bytes.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<u64> {
        let mut all = 0;
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a subscriber was closed")),
                Ok(count) => all += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(all),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The PINGs of a subscriber: their answers stand between messages.
#[derive(Default)]
struct Pinging {
    held: Vec<u8>,
    sent: Option<Instant>,
    last: Option<Instant>,
    longest: Duration,
}

impl Pinging {
    const PONG: &[u8] = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n";

    /// Sends one if none is on its way and the last one was a while ago.
    fn ping(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let due = self.last.is_none_or(|last| last.elapsed() >= PING_EVERY);
        if self.sent.is_none() && due {
            stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
            self.sent = Some(Instant::now());
            self.last = self.sent;
        }
        Ok(())
    }

    /// Reads what is there; the number of bytes, answers not among them.
    fn take(&mut self, subscriber: &mut Subscriber) -> io::Result<u64> {
        let mut buffer = [0; 16 << 10];
        let mut all = 0;
        loop {
            match subscriber.stream.read(&mut buffer) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a subscriber was closed")),
                Ok(count) => {
                    self.held.extend_from_slice(&buffer[..count]);
                    all += self.sort();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(all),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes answers and messages out of what is held; the bytes of the messages. Nothing but an answer begins with `*2`;
    /// what may be the begin of one stays.
    fn sort(&mut self) -> u64 {
        let mut messages = 0;
        while let Some(at) = self.held.windows(2).position(|two| two == b"*2") {
            messages += at;
            self.held.drain(..at);
            if self.held.len() < Self::PONG.len() {
                return messages as u64;
            }
            self.held.drain(..Self::PONG.len());
            if let Some(sent) = self.sent.take() {
                self.longest = self.longest.max(sent.elapsed());
            }
        }
        let kept = usize::from(self.held.ends_with(b"*"));
        messages += self.held.len() - kept;
        self.held.drain(..self.held.len() - kept);
        messages as u64
    }
}

struct Publisher {
    stream: TcpStream,
    /// Messages that are not encoded yet.
    left: u64,
    out: Vec<u8>,
    sent: usize,
}

/// Writes the publisher's request.
fn push_request(out: &mut Vec<u8>) {
    push(out, &[b"PUBLISH", CHANNEL, &[b'x'; PAYLOAD_BYTES]]);
}

impl Publisher {
    fn new(stream: TcpStream, messages: u64) -> Publisher {
        Publisher { stream, left: messages, out: Vec::new(), sent: 0 }
    }

    /// Sends as much as the socket takes, and reads the replies that are there.
    fn go_on(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            if self.sent == self.out.len() {
                self.out.clear();
                self.sent = 0;
                while self.left > 0 && self.out.len() < CHUNK_BYTES {
                    push_request(&mut self.out);
                    self.left -= 1;
                }
            }
            if self.out.is_empty() {
                break;
            }
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the publisher was closed")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_wherever_the_stream_is_cut() {
        let mut message = Vec::new();
        client::encode(&mut message, &[b"message".as_slice(), CHANNEL, &[b'x'; PAYLOAD_BYTES]]);
        assert_eq!(message.len(), message_bytes());
        let stream = [&message[..], &message, Pinging::PONG, &message, Pinging::PONG, &message].concat();
        for cut in 0..stream.len() {
            let mut pinging = Pinging::default();
            let mut messages = 0;
            for part in [&stream[..cut], &stream[cut..]] {
                for bytes in part.chunks(7) {
                    pinging.sent = Some(Instant::now());
                    pinging.held.extend_from_slice(bytes);
                    messages += pinging.sort();
                }
            }
            assert_eq!(messages as usize, 4 * message.len(), "cut at {cut}");
        }
    }
}
