//! The floor of a fan-out: one thread that copies a message of some bytes to each other connection, whenever it has got the
//! bytes of one request.
//!
//! ```text
//!   connection that sends --request_bytes--> a message of message_bytes to every other connection, and +OK to this one
//! ```
//! It parses nothing and knows no channels: a connection that sends is the publisher, and all others are subscribers. The
//! messages of all requests that one read has brought go to a subscriber in one write. Nothing more is read before all
//! subscribers have their bytes, so that no more than one read's messages are owed to any of them.

use crate::load::poll_events;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

const LISTENER: Token = Token(usize::MAX);
/// Bytes that are read at a time, and written at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Messages of any length, one behind the other.
static MESSAGES: [u8; CHUNK_BYTES] = [b'm'; CHUNK_BYTES];

/// Serves until it is killed.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn serve(port: u16, request_bytes: usize, message_bytes: usize) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(1024);
    let mut hall = Hall { request_bytes, message_bytes, ..Hall::default() };
    let mut room = vec![0; CHUNK_BYTES];
    loop {
        poll_events(&mut poll, &mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let token = Token(hall.connections.len());
                    poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                    hall.connections.push(Some(Connection { stream, owed: 0 }));
                }
                continue;
            }
            let Token(id) = event.token();
            if event.is_writable() {
                hall.pay(id);
            }
            if event.is_readable() {
                hall.hear(id, &mut room);
            }
            if hall.is_paid()
                && let Some(id) = hall.unread.take()
            {
                hall.hear(id, &mut room);
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// Bytes of messages that it has not got yet.
    owed: usize,
}

/// All connections, by their tokens.
#[derive(Default)]
struct Hall {
    request_bytes: usize,
    message_bytes: usize,
    connections: Vec<Option<Connection>>,
    /// Connections to which bytes are owed.
    behind: usize,
    /// Bytes of a request that has not wholly arrived.
    partial: usize,
    /// The publisher, if it is read when all subscribers have their bytes.
    unread: Option<usize>,
}

impl Hall {
    fn is_paid(&self) -> bool {
        self.behind == 0
    }

    /// Reads what a connection sends, and has the messages written.
    fn hear(&mut self, id: usize, room: &mut [u8]) {
        loop {
            if !self.is_paid() {
                self.unread = Some(id);
                return;
            }
            let Some(connection) = self.connections[id].as_mut() else { return };
            let got = match connection.stream.read(room) {
                Ok(got) if got > 0 => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => {
                    self.connections[id] = None;
                    return;
                }
            };
            self.partial += got;
            let requests = self.partial / self.request_bytes;
            self.partial %= self.request_bytes;
            // A publisher that reads no answers is no publisher of ours.
            if connection.stream.write_all(&b"+OK\r\n".repeat(requests)).is_err() {
                self.connections[id] = None;
            }
            self.publish(id, requests);
            if got < room.len() {
                return;
            }
        }
    }

    /// Writes messages to all connections but the publisher's.
    fn publish(&mut self, from: usize, messages: usize) {
        for id in (0..self.connections.len()).filter(|id| *id != from) {
            if let Some(connection) = self.connections[id].as_mut()
                && messages > 0
            {
                connection.owed += messages * self.message_bytes;
                self.behind += 1;
                self.pay(id);
            }
        }
    }

    /// Writes what is owed to a connection, as far as its socket takes it.
    fn pay(&mut self, id: usize) {
        let Some(connection) = self.connections[id].as_mut().filter(|connection| connection.owed > 0) else { return };
        while connection.owed > 0 {
            match connection.stream.write(&MESSAGES[..connection.owed.min(CHUNK_BYTES)]) {
                Ok(count) => connection.owed -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.connections[id] = None;
                    break;
                }
            }
        }
        self.behind -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_other_connection_gets_a_message_for_each_request() {
        const MESSAGES: usize = 10_000;
        let port = varve_testkit::server::free_port().unwrap();
        std::thread::spawn(move || serve(port, 10, 50));
        let connect = || {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let stream = loop {
                match std::net::TcpStream::connect(address) {
                    Ok(stream) => break stream,
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream
        };
        // A connection that is gone is no subscriber.
        drop(connect());
        let subscribers = [connect(), connect()];
        let mut publisher = connect();
        let mut sent = publisher.try_clone().unwrap();
        let sending = std::thread::spawn(move || sent.write_all(&[b'r'; 10 * MESSAGES + 3]).unwrap());
        let reading = subscribers.map(|mut subscriber| {
            std::thread::spawn(move || {
                subscriber.read_exact(&mut vec![0; 50 * MESSAGES]).unwrap();
                subscriber
            })
        });
        let mut subscribers = reading.map(|reading| reading.join().unwrap());
        let mut answers = vec![0; 5 * MESSAGES];
        publisher.read_exact(&mut answers).unwrap();
        assert!(answers.ends_with(b"+OK\r\n"));
        sending.join().unwrap();
        subscribers[0].set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert!(subscribers[0].read(&mut [0; 1]).is_err(), "no message of the request that is not whole");
    }
}
