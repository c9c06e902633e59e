//! A replica's end of redis-server's replication: the stream of commands that a server sends to its replicas.
//!
//! ```text
//!  PING, REPLCONF, PSYNC ? -1  -->
//!                              <--  +FULLRESYNC id offset, $length, the snapshot (skipped)
//!  REPLCONF ACK offset         -->
//!                              <--  SELECT, MULTI, SET .., EXEC, ..    as requests in RESP
//! ```
//! PING and REPLCONF in the stream are the server's own talk with the replica: they are left out. Not here: reading the
//! snapshot, partial resynchronisation.

use crate::client::{Client, encode};
use crate::value::RespValue;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection that reads a server's replication stream.
pub struct Replica {
    stream: TcpStream,
    input: Vec<u8>,
    consumed: usize,
    /// Bytes of the stream that were read, from the offset at which it began.
    offset: u64,
}

/// How long the server may take to send the snapshot.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

impl Replica {
    /// Connects and skips the snapshot: the stream begins behind it. The server must not wait before it forks
    /// (`repl-diskless-sync-delay 0`).
    ///
    /// # Errors
    /// Errors of the operating system, or an answer that is not redis-server's.
    pub fn connect(address: SocketAddr) -> io::Result<Replica> {
        Replica::connect_from(address, 1)
    }

    /// Connects like [`Replica::connect`], as a replica that is reached at this port.
    ///
    /// # Errors
    /// Those of [`Replica::connect`].
    pub fn connect_from(address: SocketAddr, port: u16) -> io::Result<Replica> {
        let (mut client, port) = (Client::connect(address)?, port.to_string());
        for words in [&["PING"][..], &["REPLCONF", "listening-port", &port], &["REPLCONF", "capa", "psync2"]] {
            let reply = client.call(words)?;
            if reply.is_error() {
                return Err(io::Error::other(format!("{}: {}", words[0], reply.text())));
            }
        }
        let stream = client.stream().try_clone()?;
        let mut replica = Replica { stream, input: Vec::new(), consumed: 0, offset: 0 };
        replica.send(&["PSYNC", "?", "-1"])?;
        let end = Instant::now() + SYNC_LIMIT;
        let greeting = replica.full_line(end)?;
        let offset = greeting.strip_prefix("+FULLRESYNC ").and_then(|rest| rest.split(' ').nth(1));
        let offset = offset.and_then(|text| text.parse().ok());
        let Some(offset) = offset else { return Err(io::Error::other(greeting)) };
        let head = replica.full_line(end)?;
        let bytes = head.strip_prefix('$').and_then(|text| text.parse::<usize>().ok());
        let Some(mut left) = bytes else { return Err(io::Error::other(format!("no snapshot: {head}"))) };
        while left > 0 {
            if replica.consumed == replica.input.len() {
                replica.fill(end)?;
            }
            let taken = left.min(replica.input.len() - replica.consumed);
            replica.consumed += taken;
            left -= taken;
        }
        replica.offset = offset;
        replica.acknowledge()?;
        Ok(replica)
    }

    /// The next line that is not empty: before an instant, and while the snapshot is made, the server sends empty lines to keep
    /// the connection alive.
    fn full_line(&mut self, end: Instant) -> io::Result<String> {
        loop {
            let line = self.line(end)?;
            if !line.is_empty() {
                return Ok(line);
            }
        }
    }

    /// The next command of the stream; None if none came within `limit`.
    ///
    /// # Errors
    /// The connection's end, or bytes that are no request.
    pub fn next(&mut self, limit: Duration) -> io::Result<Option<Vec<Vec<u8>>>> {
        let end = Instant::now() + limit;
        loop {
            let Some(words) = self.decode()? else {
                match self.fill(end) {
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                    filled => filled?,
                }
                continue;
            };
            let own = |name: &[u8]| words[0].eq_ignore_ascii_case(name);
            if own(b"replconf") {
                self.acknowledge()?;
            } else if !own(b"ping") {
                return Ok(Some(words));
            }
        }
    }

    fn decode(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        let pending = &self.input[self.consumed..];
        if pending.is_empty() {
            return Ok(None);
        }
        let Some((value, used)) = RespValue::decode(pending).map_err(io::Error::other)? else { return Ok(None) };
        self.consumed += used;
        self.offset += used as u64;
        let words =
            value.elements().map(|all| all.iter().filter_map(|word| word.bytes().map(<[u8]>::to_vec)).collect());
        let words: Vec<Vec<u8>> = words.unwrap_or_default();
        if words.is_empty() { Err(io::Error::other(format!("no request: {value:?}"))) } else { Ok(Some(words)) }
    }

    /// A line of the handshake, without its end.
    fn line(&mut self, end: Instant) -> io::Result<String> {
        loop {
            if let Some(length) = self.input[self.consumed..].iter().position(|byte| *byte == b'\n') {
                let line = &self.input[self.consumed..self.consumed + length];
                let text = String::from_utf8_lossy(line).trim_end().to_owned();
                self.consumed += length + 1;
                return Ok(text);
            }
            self.fill(end)?;
        }
    }

    /// Reads what has arrived, waiting for it until `end`.
    fn fill(&mut self, end: Instant) -> io::Result<()> {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; 16 << 10];
        let got = match self.stream.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            got => got?,
        };
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.extend_from_slice(&chunk[..got]);
        Ok(())
    }

    /// Reports how far the stream was read.
    fn acknowledge(&mut self) -> io::Result<()> {
        let offset = self.offset.to_string();
        self.send(&["REPLCONF", "ACK", &offset])
    }

    fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut request = Vec::new();
        encode(&mut request, words);
        self.stream.write_all(&request)
    }
}
