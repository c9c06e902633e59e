//! The part of HTTP/1.1 that a server needs which answers GET alone.
//!
//! ```text
//!   GET /metrics HTTP/1.1\r\n Host: localhost:9121\r\n ... \r\n\r\n       up to 8 KB, within five seconds
//!   HTTP/1.1 200 OK\r\n Content-Type, Content-Length, Connection: close \r\n\r\n text
//! ```
//! Every connection is closed after its answer: a client that asks once in some seconds loses nothing by that. A body that a
//! request announces is not read. Parsing is httparse's.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes of a request's head at most.
const HEAD_MAX: usize = 8 << 10;
/// Headers of a request at most.
const HEADERS_MAX: usize = 64;
/// How long a request may take to come, and its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client's question.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Without the query.
    pub(super) path: String,
    /// Behind the question mark; empty without one.
    pub(super) query: String,
    /// Of the header of this name, with its port; empty without one.
    pub(super) host: String,
    /// User and password as the header Authorization has them behind `Basic`; empty without one.
    pub(super) basic: String,
}

/// The answer to one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reason: &'static str,
    pub(super) kind: &'static str,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn text(status: u16, reason: &'static str, body: impl Into<String>) -> Answer {
        Answer { status, reason, kind: "text/plain; charset=utf-8", body: body.into() }
    }
}

impl Request {
    /// The number that the query gives under this name; None if it gives none.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok())
    }

    /// The name or address that the request was sent to, without its port; empty without one.
    pub(super) fn host_name(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            // A colon with nothing before it names nobody.
            None if self.host.starts_with(':') => &self.host,
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }
}

/// Reads the head of a request.
///
/// # Errors
/// The answer that refuses it: it is no HTTP, too long, too late, or no GET.
pub(super) fn read(mut stream: &TcpStream) -> Result<Request, Answer> {
    let late = || Answer::text(408, "Request Timeout", "The request did not come.\n");
    let (deadline, mut head) = (Instant::now() + PATIENCE, Vec::new());
    loop {
        if let Some(request) = parse(&head)? {
            return Ok(request);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(late());
        }
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes) {
            Ok(0) => return Err(late()),
            Ok(got) => head.extend_from_slice(&bytes[..got]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(late()),
        }
    }
}

/// The request that these bytes begin with; None while its head is not whole.
pub(super) fn parse(head: &[u8]) -> Result<Option<Request>, Answer> {
    let refused = |text: &str| Answer::text(400, "Bad Request", text);
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Err(_) => return Err(refused("This is no request of HTTP.\n")),
        Ok(httparse::Status::Partial) if head.len() >= HEAD_MAX => return Err(refused("The request is too long.\n")),
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
    }
    if request.method != Some("GET") {
        return Err(Answer::text(405, "Method Not Allowed", "Figures are read by GET.\n"));
    }
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).trim().to_owned()).unwrap_or_default()
    };
    let authorization = header("authorization");
    let basic = authorization.split_once(' ').filter(|(kind, _)| kind.eq_ignore_ascii_case("basic"));
    let basic = basic.map(|(_, words)| words.trim().to_owned()).unwrap_or_default();
    Ok(Some(Request { path, query, host: header("host"), basic }))
}

/// Writes an answer; the caller ends the connection. All of it has one time in which it is to be taken: a client that takes it
/// byte by byte does not keep its place.
///
/// # Errors
/// When the client does not take it in time, or is gone.
pub(super) fn write(mut stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    let Answer { status, reason, kind, body } = answer;
    let login = if *status == 401 { "WWW-Authenticate: Basic realm=\"varve\"\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\n{login}Content-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let deadline = Instant::now() + PATIENCE;
    for mut bytes in [head.as_bytes(), body.as_bytes()] {
        while !bytes.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_write_timeout(Some(left))?;
            match stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
