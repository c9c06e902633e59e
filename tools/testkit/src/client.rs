//! A blocking connection that speaks RESP2 or RESP3.
//!
//! It keeps one buffer in each direction and allows any number of commands on the way, up to what the kernel's socket
//! buffers hold of replies: a pipeline of many megabytes of replies must be read in between. No reconnecting, no retries.

use crate::value::RespValue;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a reply may take before a test gives up.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a server, over a socket or over another stream of bytes.
pub struct Client<S = TcpStream> {
    stream: S,
    input: Vec<u8>,
    consumed: usize,
    output: Vec<u8>,
    chunk: Vec<u8>,
}

/// Appends one request in RESP's form for requests.
pub fn encode<A: AsRef<[u8]>>(out: &mut Vec<u8>, args: &[A]) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

impl Client {
    /// Connects; replies are then waited for at most [`REPLY_TIMEOUT`].
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Client::over(stream))
    }

    /// Sets how long a reply may take.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_timeout(&mut self, limit: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(limit))
    }
}

impl<S: Read + Write> Client<S> {
    /// A connection over a stream that is there already, whose own limits of time hold.
    pub fn over(stream: S) -> Client<S> {
        Client { stream, input: Vec::new(), consumed: 0, output: Vec::new(), chunk: vec![0; 64 * 1024] }
    }

    /// Queues a command without sending it.
    pub fn queue<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        encode(&mut self.output, args);
    }

    /// Queues bytes as they are.
    pub fn queue_raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(&self.output);
        self.output.clear();
        sent
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// The connection's end, a timeout, or bytes that are no reply.
    pub fn read(&mut self) -> io::Result<RespValue> {
        loop {
            let pending = &self.input[self.consumed..];
            if !pending.is_empty()
                && let Some((value, used)) = RespValue::decode(pending).map_err(io::Error::other)?
            {
                self.consumed += used;
                return Ok(value);
            }
            if self.consumed > 0 {
                self.input.drain(..self.consumed);
                self.consumed = 0;
            }
            let got = match self.stream.read(&mut self.chunk) {
                // A fuzzer measures its time by an alarm, a terminal says that its size has changed: neither is an end.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                got => got?,
            };
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&self.chunk[..got]);
        }
    }

    /// Sends one command and waits for its reply.
    ///
    /// # Errors
    /// If the connection breaks or the reply is no reply, like [`Client::read`].
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<RespValue> {
        self.queue(args);
        self.flush()?;
        self.read()
    }

    /// Sends a command that is written with spaces between its arguments, and returns the reply.
    ///
    /// # Errors
    /// Those of [`Client::call`].
    pub fn try_cmd(&mut self, line: &str) -> io::Result<RespValue> {
        self.call(&line.split(' ').collect::<Vec<_>>())
    }

    /// [`Client::try_cmd`] for tests.
    ///
    /// # Panics
    /// When the connection is lost.
    pub fn cmd(&mut self, line: &str) -> RespValue {
        self.try_cmd(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// The socket itself, for tests that half-close it or stop reading.
    #[must_use]
    pub fn stream(&self) -> &S {
        &self.stream
    }
}
