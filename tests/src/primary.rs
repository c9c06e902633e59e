//! A primary that is the test itself: it has one replica at a time, and sends what it likes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use varve_testkit::RespValue;
use varve_testkit::client::encode;

use crate::replicas::LIMIT;

/// The connection of a replica to a primary of the test.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Link {
    /// Waits for the connection of a replica.
    ///
    /// # Panics
    /// The system's errors.
    #[must_use]
    pub fn accept(listener: &TcpListener) -> Link {
        let (stream, _) = listener.accept().expect("the replica connects");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        Link { stream, input: Vec::new() }
    }

    /// The next request of the replica, behind the empty lines that say that it is there while it loads.
    ///
    /// # Panics
    /// The replica sends none, or something else.
    pub fn request(&mut self) -> Vec<String> {
        loop {
            let lines = self.input.iter().take_while(|byte| **byte == b'\n').count();
            self.input.drain(..lines);
            if let Some((value, used)) = RespValue::decode(&self.input).expect("requests") {
                self.input.drain(..used);
                let words = value.elements().expect("words").iter();
                return words
                    .map(|word| String::from_utf8_lossy(word.bytes().unwrap_or_default()).into_owned())
                    .collect();
            }
            let mut room = [0; 4096];
            let count = self.stream.read(&mut room).expect("more of a request");
            assert!(count > 0, "the replica has closed the link");
            self.input.extend_from_slice(&room[..count]);
        }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// The replica has closed the link.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// All that the replica still sends, up to the end of the link.
    ///
    /// # Panics
    /// The system's errors.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.input);
        self.stream.read_to_end(&mut rest).expect("the end of the link");
        rest
    }

    /// Sends a command of the stream, and gives its number of bytes.
    pub fn command(&mut self, words: &[&str]) -> usize {
        let mut bytes = Vec::new();
        encode(&mut bytes, words);
        self.send(&bytes);
        bytes.len()
    }

    /// Answers up to PSYNC, whose words it gives.
    pub fn greet(&mut self) -> Vec<String> {
        loop {
            let request = self.request();
            match request[0].as_str() {
                "PING" => self.send(b"+PONG\r\n"),
                "PSYNC" => return request,
                _ => self.send(b"+OK\r\n"),
            }
        }
    }

    /// Sends data of the history [`ID`] with a head that says its length, behind empty lines.
    pub fn full_sync(&mut self, offset: u64, data: &[u8]) {
        self.send(format!("\n\n+FULLRESYNC {ID} {offset}\r\n\n${}\r\n", data.len()).as_bytes());
        self.send(data);
    }

    /// The next offset that the replica has acknowledged.
    ///
    /// # Panics
    /// It says something else.
    pub fn acknowledged(&mut self) -> u64 {
        let request = self.request();
        assert_eq!((request[0].as_str(), request[1].as_str()), ("REPLCONF", "ACK"));
        request[2].parse().expect("an offset")
    }
}

/// The history of the test's primary.
pub const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// An RDB file without keys.
///
/// # Panics
/// Never: it is written to memory.
#[must_use]
pub fn empty_file() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = varve_rdb::Writer::new(&mut bytes, true);
    writer.header(varve_rdb::format::VERSION).expect("written");
    writer.end().expect("written");
    bytes
}
