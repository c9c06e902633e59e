//! The connection to the server: plain, by TLS, or over a Unix socket, and the user's name and password on it.
//!
//! Questions are sent at once, and their replies are read in their order. A reply that does not come within five seconds ends
//! the connection; nothing here connects again.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use varve_testkit::{Client, RespValue};

use crate::options::Options;
use crate::tls;

/// Seconds for connecting, and for each read and write.
const PATIENCE: Duration = Duration::from_secs(5);

/// A stream of bytes in both directions.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// See the module.
pub(crate) struct Connection {
    client: Client<Box<dyn Stream>>,
}

impl Connection {
    /// Connects, and gives the user's name and password if there are any.
    ///
    /// # Errors
    /// A line that says what failed, with the server's address.
    pub(crate) fn open(options: &Options) -> Result<Connection, String> {
        let stream = stream(options).map_err(|error| format!("{options}: {error}"))?;
        let mut connection = Connection { client: Client::over(stream) };
        if let Some(password) = options.password() {
            let words: Vec<&str> = ["AUTH"].into_iter().chain(options.user.as_deref()).chain([&*password]).collect();
            let reply = connection.ask(&[&words]).map_err(|error| format!("{options}: {error}"))?.remove(0);
            if reply.is_error() {
                return Err(format!("{options}: {}", reply.text()));
            }
        }
        // The name stands in CLIENT LIST. A user without the right to set it works as well.
        connection.ask(&[&["CLIENT", "SETNAME", "varve-top"]]).map_err(|error| format!("{options}: {error}"))?;
        Ok(connection)
    }

    /// Sends commands and reads their replies.
    ///
    /// # Errors
    /// The connection's end, no reply in time, or bytes that are no reply.
    pub(crate) fn ask(&mut self, commands: &[&[&str]]) -> io::Result<Vec<RespValue>> {
        commands.iter().for_each(|command| self.client.queue(command));
        self.client.flush().map_err(explained)?;
        commands.iter().map(|_| self.client.read().map_err(explained)).collect()
    }
}

/// The system's words for some ends of a connection help nobody.
fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::other("no reply within five seconds"),
        io::ErrorKind::UnexpectedEof => io::Error::other("the server has closed the connection"),
        _ => error,
    }
}

fn stream(options: &Options) -> io::Result<Box<dyn Stream>> {
    if let Some(path) = &options.socket {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        return Ok(Box::new(stream));
    }
    let stream = connect(&options.host, options.port)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if options.tls { Ok(Box::new(tls::over(stream, options)?)) } else { Ok(Box::new(stream)) }
}

/// Connects to the first address of this name that takes it; else the last one's error.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
