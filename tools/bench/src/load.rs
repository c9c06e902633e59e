//! The load: one thread, some connections, each with a batch of requests on the way at any time.
//!
//! ```text
//! connection: write a batch of P requests -> count P replies -> write the next
//! ```
//!
//! Requests are written into the connection's buffer when its batch begins; replies are counted, not kept. An error reply is
//! counted as one, so that a figure from a server that refuses is not taken for a figure.

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_base::hist::Hist;
use varve_testkit::Random;
use varve_testkit::tls::{self, ClientConfig, TlsOver};

/// Time between two looks at whether the run is to end.
const LOOK: Duration = Duration::from_millis(200);

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Get,
    Set,
}

/// Which keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// 0, 1, 2, …, from a first one: a fill
    Sequence(u64),
    /// any of the load's keys
    Random,
}

/// Sizes of values: most in one range, the rest in another, in percent.
#[derive(Debug, Clone)]
pub(crate) struct Sizes {
    pub(crate) most: RangeInclusive<usize>,
    pub(crate) rest: RangeInclusive<usize>,
    pub(crate) rest_percent: usize,
}

impl Sizes {
    pub(crate) fn fixed(size: usize) -> Sizes {
        Sizes::range(size..=size)
    }

    pub(crate) fn range(most: RangeInclusive<usize>) -> Sizes {
        Sizes { rest: most.clone(), most, rest_percent: 0 }
    }

    /// A size.
    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let range = if random.below(100) < self.rest_percent { &self.rest } else { &self.most };
        range.start() + random.below(range.end() - range.start() + 1)
    }
}

/// The requests to send.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) op: Op,
    pub(crate) keys: u64,
    pub(crate) key_bytes: usize,
    pub(crate) sizes: Sizes,
    pub(crate) order: Order,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    pub(crate) requests: u64,
    pub(crate) seed: u64,
}

/// The result of a load.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    pub(crate) replies: u64,
    pub(crate) errors: u64,
    /// bytes of the values that were sent
    pub(crate) value_bytes: u64,
}

/// Runs a load against a server.
///
/// # Errors
/// A connection that is lost or cannot be made.
pub(crate) fn run(address: SocketAddr, load: &Load) -> io::Result<Outcome> {
    let mut source = Source::new(load.clone());
    let plan = Traffic { connections: load.connections, pipeline: load.pipeline, requests: load.requests };
    let mut outcome = drive(address, plan, &mut |out| source.push(out))?;
    outcome.value_bytes = source.value_bytes;
    Ok(outcome)
}

/// A writer of requests, one at each call.
pub(crate) type Writer<'w> = Box<dyn FnMut(&mut Vec<u8>) + 'w>;

/// The writer of a load's requests.
pub(crate) fn writer(load: Load) -> Writer<'static> {
    let mut source = Source::new(load);
    Box::new(move |out| source.push(out))
}

/// How many requests go over how many connections, and how many of them at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    pub(crate) requests: u64,
}

/// Sends requests, each written by `write`, to a server and counts the replies.
///
/// # Errors
/// A connection that is lost or cannot be made.
pub(crate) fn drive(address: SocketAddr, plan: Traffic, write: &mut dyn FnMut(&mut Vec<u8>)) -> io::Result<Outcome> {
    drive_timed(address, plan, write, &Hist::new())
}

/// Drives a load, and pushes to `times` how long each batch took, from its writing to its last reply.
///
/// # Errors
/// A connection that is lost or cannot be made.
pub(crate) fn drive_timed(
    address: SocketAddr,
    plan: Traffic,
    write: &mut dyn FnMut(&mut Vec<u8>),
    times: &Hist,
) -> io::Result<Outcome> {
    drive_over(&|poll, id| Ok(Wire::Plain(connect(address, poll, Token(id))?)), plan, write, times)
}

/// Sends requests by TLS, each written by `write`, and counts the replies.
///
/// # Errors
/// A connection that is lost or cannot be made.
pub(crate) fn drive_tls(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    plan: Traffic,
    write: &mut dyn FnMut(&mut Vec<u8>),
) -> io::Result<Outcome> {
    let make = |poll: &Poll, id| {
        let stream = tls::connect_whole(address, config)?;
        stream.sock.set_nonblocking(true)?;
        let mut stream = tls::over(stream, TcpStream::from_std);
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream.sock, Token(id), interest)?;
        Ok(Wire::Tls(Box::new(stream)))
    };
    drive_over(&make, plan, write, &Hist::new())
}

/// Drives a load over connections that `make` makes, by their numbers.
fn drive_over(
    make: &dyn Fn(&Poll, usize) -> io::Result<Wire>,
    plan: Traffic,
    write: &mut dyn FnMut(&mut Vec<u8>),
    times: &Hist,
) -> io::Result<Outcome> {
    let mut source = Requests { left: plan.requests, pipeline: plan.pipeline, write };
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(256);
    let mut connections = Vec::new();
    for id in 0..plan.connections {
        let stream = make(&poll, id)?;
        let begun = Instant::now();
        connections.push(Connection {
            stream,
            out: Vec::new(),
            sent: 0,
            waiting: 0,
            begun,
            counter: Counter::default(),
        });
    }
    let mut outcome = Outcome::default();
    let mut buffer = vec![0; 256 * 1024];
    let mut busy = 0;
    for connection in &mut connections {
        busy += usize::from(connection.begin(&mut source)?);
    }
    while busy > 0 {
        crate::screen::go_on()?;
        poll_events(&mut poll, &mut events, Some(LOOK))?;
        for event in &events {
            let connection = &mut connections[event.token().0];
            if connection.waiting == 0 {
                continue;
            }
            connection.send()?;
            connection.receive(&mut buffer, &mut outcome)?;
            if connection.waiting == 0 {
                times.record(connection.begun.elapsed());
                busy -= usize::from(!connection.begin(&mut source)?);
            }
        }
    }
    Ok(outcome)
}

/// Waits for events, at most `timeout`; there are none where the system woke the call for another reason.
///
/// Such a call ends with `EINTR`, and mio passes it on. No signal has to be handled for that: it came in 1 of 20 runs of the
/// experiment `replication`, whose threads come and go beside servers that end.
///
/// # Errors
/// All other errors of the operating system.
pub(crate) fn poll_events(poll: &mut Poll, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, timeout) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result,
    }
}

/// A connection that reports when it can be read or written.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn connect(address: SocketAddr, poll: &Poll, token: Token) -> io::Result<TcpStream> {
    let std_stream = std::net::TcpStream::connect(address)?;
    std_stream.set_nodelay(true)?;
    std_stream.set_nonblocking(true)?;
    let mut stream = TcpStream::from_std(std_stream);
    poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(stream)
}

/// Bytes of one request of this kind with these sizes.
#[cfg(test)]
pub(crate) fn request_bytes(op: Op, key_bytes: usize, value_bytes: usize) -> usize {
    let mut out = Vec::new();
    push_request(&mut out, op, &vec![b'k'; key_bytes], &vec![b'v'; value_bytes]);
    out.len()
}

fn push_request(out: &mut Vec<u8>, op: Op, key: &[u8], value: &[u8]) {
    match op {
        Op::Get => varve_testkit::client::encode(out, &[b"GET", key]),
        Op::Set => varve_testkit::client::encode(out, &[b"SET", key, value]),
    }
}

/// Writes a key's number in decimal with leading zeros into all of its bytes: equal lengths, different keys.
pub(crate) fn write_key(key: &mut [u8], mut number: u64) {
    for byte in key.iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Where the requests come from, and how many are left.
struct Requests<'w> {
    left: u64,
    pipeline: usize,
    write: &'w mut dyn FnMut(&mut Vec<u8>),
}

impl Requests<'_> {
    /// A batch of at most the pipeline's length; how many requests it holds.
    fn batch(&mut self, out: &mut Vec<u8>) -> usize {
        let count = self.left.min(self.pipeline as u64);
        for _ in 0..count {
            (self.write)(out);
        }
        self.left -= count;
        count as usize
    }
}

/// The requests of a load, one after the other.
struct Source {
    load: Load,
    next: u64,
    random: Random,
    key: Vec<u8>,
    value: Vec<u8>,
    value_bytes: u64,
}

impl Source {
    fn new(load: Load) -> Source {
        let mut random = Random::new(load.seed);
        let longest = (*load.sizes.most.end()).max(*load.sizes.rest.end());
        let value = (0..longest).map(|_| b'a' + (random.next_u64() % 26) as u8).collect();
        let next = if let Order::Sequence(first) = load.order { first } else { 0 };
        Source { next, random, key: vec![0; load.key_bytes], value, value_bytes: 0, load }
    }

    /// Writes the next request.
    fn push(&mut self, out: &mut Vec<u8>) {
        let number = match self.load.order {
            Order::Sequence(_) => self.next,
            Order::Random => self.random.below(self.load.keys as usize) as u64,
        };
        self.next += 1;
        write_key(&mut self.key, number);
        let length = if self.load.op == Op::Set { self.load.sizes.draw(&mut self.random) } else { 0 };
        self.value_bytes += length as u64;
        push_request(out, self.load.op, &self.key, &self.value[..length]);
    }
}

/// The socket of a connection, by TLS or not.
enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsOver<TcpStream>>),
}

impl Wire {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(room),
            Wire::Tls(stream) => stream.read(room),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Tls(stream) => stream.write(bytes),
        }
    }
}

struct Connection {
    stream: Wire,
    out: Vec<u8>,
    sent: usize,
    waiting: usize,
    /// When the batch was written.
    begun: Instant,
    counter: Counter,
}

impl Connection {
    /// Begins the next batch; false when there is none.
    fn begin(&mut self, source: &mut Requests<'_>) -> io::Result<bool> {
        self.out.clear();
        self.sent = 0;
        self.waiting = source.batch(&mut self.out);
        self.begun = Instant::now();
        self.send()?;
        Ok(self.waiting > 0)
    }

    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], outcome: &mut Outcome) -> io::Result<()> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed a connection")),
                Ok(count) => {
                    let (replies, errors) = self.counter.feed(&buffer[..count]);
                    self.waiting = self.waiting.saturating_sub(replies as usize);
                    outcome.replies += replies;
                    outcome.errors += errors;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Counts replies of RESP2 in a stream that is cut anywhere.
///
/// ```text
/// Line(bytes so far) --"\r\n", no bulk--> a reply, Line
///                    --"$n\r\n"---------> Skip(n + 2) --that many bytes--> a reply, Line
///                    --"*n\r\n"---------> Line, with n more parts that are no reply of their own
/// ```
#[derive(Default)]
pub(crate) struct Counter {
    line: Vec<u8>,
    skip: usize,
    /// Parts that are still to come of an array.
    parts: u64,
}

impl Counter {
    /// Replies and errors that end in these bytes.
    pub(crate) fn feed(&mut self, mut input: &[u8]) -> (u64, u64) {
        let (mut replies, mut errors) = (0, 0);
        while !input.is_empty() {
            if self.skip > 0 {
                let step = self.skip.min(input.len());
                self.skip -= step;
                input = &input[step..];
                if self.skip == 0 {
                    replies += self.part();
                }
                continue;
            }
            let end = input.iter().position(|&byte| byte == b'\n');
            self.line.extend_from_slice(&input[..end.unwrap_or(input.len())]);
            input = end.map_or(&[], |end| &input[end + 1..]);
            if end.is_none() {
                break;
            }
            let text = std::str::from_utf8(&self.line).unwrap_or_default().trim_end();
            match text.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()) {
                Some(length) => self.skip = length + 2,
                None => {
                    let within = text.strip_prefix('*').and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
                    errors += u64::from(text.starts_with('-'));
                    self.parts += within;
                    replies += if within == 0 { self.part() } else { 0 };
                    // An array in an array is a part itself.
                    self.parts -= u64::from(within > 0 && self.parts > within);
                }
            }
            self.line.clear();
        }
        (replies, errors)
    }

    /// A line or a bulk has ended: 1 if a reply has with it.
    fn part(&mut self) -> u64 {
        self.parts = self.parts.saturating_sub(1);
        u64::from(self.parts == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_wherever_the_stream_is_cut() {
        let stream =
            b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n*0\r\n+OK\r\n$3\r\na\nb\r\n$-1\r\n-ERR no\r\n$0\r\n\r\n:5\r\n";
        for cut in 0..stream.len() {
            let mut counter = Counter::default();
            let (a, b) = (counter.feed(&stream[..cut]), counter.feed(&stream[cut..]));
            assert_eq!((a.0 + b.0, a.1 + b.1), (8, 1), "cut at {cut}");
        }
    }

    #[test]
    fn keys_have_one_length() {
        let mut key = vec![0; 16];
        write_key(&mut key, 1_999_999);
        assert_eq!(key, b"0000000001999999");
        assert_eq!(request_bytes(Op::Get, 16, 0), b"*2\r\n$3\r\nGET\r\n$16\r\n0000000001999999\r\n".len());
    }

    #[test]
    fn a_load_is_answered_by_the_floor_of_this_process() {
        let port = varve_testkit::server::free_port().unwrap();
        let length = request_bytes(Op::Set, 16, 64);
        std::thread::spawn(move || crate::floor::serve(port, length));
        let address = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
        while std::net::TcpStream::connect(address).is_err() {}
        let load = Load {
            op: Op::Set,
            keys: 100,
            key_bytes: 16,
            sizes: Sizes::fixed(64),
            order: Order::Random,
            connections: 5,
            pipeline: 7,
            requests: 1003,
            seed: 1,
        };
        let outcome = run(address, &load).unwrap();
        assert_eq!((outcome.replies, outcome.errors, outcome.value_bytes), (1003, 0, 64 * 1003));
    }
}
