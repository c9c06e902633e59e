//! A load at a fixed rate, whatever the server does: what a slow moment delays counts, all of it.
//!
//! ```text
//!   request n of a stream is due at first + n / rate, and goes to connection n mod connections
//!   its time runs from when it was due, not from when it could be sent, to the end of its reply
//! ```
//! One thread sends for all streams and never sleeps, since a poll that sleeps wakes a millisecond late.

use crate::load::{self, Counter};
use mio::net::TcpStream;
use mio::{Events, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use varve_base::hist::Hist;

/// Requests that come evenly.
pub(crate) struct Stream<'w> {
    pub(crate) connections: usize,
    /// Requests a second.
    pub(crate) rate: f64,
    /// When the first one is due, from the start.
    pub(crate) first: Duration,
    pub(crate) requests: u64,
    pub(crate) write: &'w mut dyn FnMut(&mut Vec<u8>),
    /// How long each took.
    pub(crate) times: &'w Hist,
}

/// How long a server may leave everything unanswered.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends all streams and waits for the last reply; the number of errors among the replies.
///
/// # Errors
/// A connection that is lost or cannot be made, or a minute without any reply.
pub(crate) fn run(address: SocketAddr, streams: &mut [Stream<'_>]) -> io::Result<u64> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(256);
    let mut connections = Vec::new();
    let mut bases = Vec::new();
    for (number, stream) in streams.iter().enumerate() {
        bases.push(connections.len());
        for _ in 0..stream.connections {
            let token = Token(connections.len());
            connections.push(Connection::new(load::connect(address, &poll, token)?, number));
        }
    }
    let mut buffer = vec![0; 256 * 1024];
    let mut sent = vec![0_u64; streams.len()];
    let (mut open, mut errors) = (0, 0);
    let start = Instant::now();
    let mut answered = start;
    loop {
        crate::screen::go_on()?;
        for (number, stream) in streams.iter_mut().enumerate() {
            while sent[number] < stream.requests && stream.due(sent[number]) <= start.elapsed() {
                let at = bases[number] + (sent[number] % stream.connections as u64) as usize;
                let connection = &mut connections[at];
                (stream.write)(&mut connection.out);
                connection.due.push_back(start + stream.due(sent[number]));
                connection.send()?;
                sent[number] += 1;
                open += 1;
            }
        }
        let all_sent = streams.iter().zip(&sent).all(|(stream, sent)| *sent == stream.requests);
        if all_sent && open == 0 {
            return Ok(errors);
        }
        load::poll_events(&mut poll, &mut events, Some(Duration::ZERO))?;
        for event in &events {
            let connection = &mut connections[event.token().0];
            connection.send()?;
            let (replies, wrong) = connection.receive(&mut buffer, streams[connection.stream].times)?;
            (open, errors) = (open - replies, errors + wrong);
            answered = Instant::now();
        }
        if open > 0 && answered.elapsed() > PATIENCE {
            return Err(io::Error::other("the server answers nothing"));
        }
    }
}

impl Stream<'_> {
    /// When a request is due, from the start.
    fn due(&self, number: u64) -> Duration {
        self.first + Duration::from_secs_f64(number as f64 / self.rate)
    }
}

struct Connection {
    socket: TcpStream,
    /// The stream that its requests belong to.
    stream: usize,
    out: Vec<u8>,
    sent: usize,
    /// When the requests that are not answered were due.
    due: VecDeque<Instant>,
    counter: Counter,
}

impl Connection {
    fn new(socket: TcpStream, stream: usize) -> Connection {
        Connection { socket, stream, out: Vec::new(), sent: 0, due: VecDeque::new(), counter: Counter::default() }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads what is there; replies and errors.
    fn receive(&mut self, buffer: &mut [u8], times: &Hist) -> io::Result<(u64, u64)> {
        let mut sums = (0, 0);
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed a connection")),
                Ok(count) => {
                    let (replies, errors) = self.counter.feed(&buffer[..count]);
                    let now = Instant::now();
                    self.due.drain(..replies as usize).for_each(|due| times.record(now - due));
                    sums = (sums.0 + replies, sums.1 + errors);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(sums),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Op;

    #[test]
    fn every_request_of_each_stream_is_timed() {
        let port = varve_testkit::server::free_port().unwrap();
        let length = load::request_bytes(Op::Get, 16, 0);
        std::thread::spawn(move || crate::floor::serve(port, length));
        let address = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
        while std::net::TcpStream::connect(address).is_err() {}
        let (fast, late) = (Hist::new(), Hist::new());
        let mut get = |out: &mut Vec<u8>| varve_testkit::client::encode(out, &["GET", "0123456789abcdef"]);
        let mut one = get;
        let mut streams = [
            Stream {
                connections: 3,
                rate: 20_000.0,
                first: Duration::ZERO,
                requests: 200,
                write: &mut get,
                times: &fast,
            },
            Stream {
                connections: 1,
                rate: 1.0,
                first: Duration::from_millis(3),
                requests: 1,
                write: &mut one,
                times: &late,
            },
        ];
        assert_eq!(run(address, &mut streams).unwrap(), 0);
        assert_eq!((fast.read().count(), late.read().count()), (200, 1));
    }
}
