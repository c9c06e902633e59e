//! One connection's TLS: bytes of the socket in, bytes of requests out, and the other way round.
//!
//! ```text
//!   socket --> incoming | record | record | par..      opened one after the other into the caller's room
//!                  ^                        |  a record that is not whole: kept here, put in front of the next read
//!                  +---- partial <----------+  bytes that the room does not take: kept as plain, given out first
//!                  +---- unopened <---------+  records over 128: a peer may change its keys in each, which takes microseconds
//!
//!   replies --> gathered, 64 KB at most --> outgoing | record | record |  --> socket
//!                                              |  records that the socket does not take: kept as sealed
//!                                              +--> sent before anything else
//! ```
//! `incoming`, `gathered` and `outgoing` belong to the thread: an idle connection keeps its keys, and no buffer. Replies are
//! done with when the socket has taken their records, not when they are encrypted (`ahead`), so that a connection whose output
//! is empty owes its client nothing.
//!
//! rustls opens a record into memory of its own, from where it is copied into the room. Not here: what the bytes mean, and
//! whether a socket may be read (net/conn).

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};

use super::names::{has_ended, names};
use crate::config::CertificateUser;
use crate::net::stream::Stream;

/// Bytes of a record at most: its header, its contents, and what TLS 1.2 allows beside them.
const RECORD_BYTES_MAX: usize = HEADER_BYTES + (16 << 10) + 2048;
/// Bytes read from the socket at once, at most.
const READ_BYTES_MAX: usize = 64 << 10;
/// Bytes of replies that are encrypted at once: four records.
const SEAL_BYTES_MAX: usize = 64 << 10;
/// Bytes by which a record is longer than its contents, at most, and a record of control beside.
const RECORD_EXTRA_BYTES: usize = 64;
/// Records that one read opens.
const RECORDS_MAX: usize = 128;
/// Bytes of a record in front of its contents.
const HEADER_BYTES: usize = 5;
/// Bytes of a handshake that wait for their rest: chains of certificates are shorter.
const HANDSHAKE_BYTES_MAX: usize = 32 << 10;
/// Bytes of control records that a peer may leave unread: answers to its requests for new keys.
const CONTROL_BYTES_MAX: usize = 16 << 10;
/// Bytes that an open connection takes beyond one without TLS while it is idle: measured (`xtask bench tls --part memory`), since
/// rustls does not say what its keys and its state take.
const IDLE_BYTES: usize = 3842;

/// The buffers of a thread.
struct Buffers {
    incoming: Vec<u8>,
    gathered: Vec<u8>,
    outgoing: Vec<u8>,
}

thread_local! {
    /// Made when the thread meets its first TLS connection.
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers {
        incoming: vec![0; HANDSHAKE_BYTES_MAX + RECORD_BYTES_MAX + READ_BYTES_MAX],
        gathered: Vec::new(),
        outgoing: vec![0; SEAL_BYTES_MAX + (SEAL_BYTES_MAX / (16 << 10) + 2) * RECORD_EXTRA_BYTES],
    });
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// The socket holds nothing now.
    Nothing,
    /// The peer sends nothing more.
    End,
    /// This number of bytes came, which may be 0; `more` says that another read brings more without an event, `short` that
    /// the socket gave less than it was asked for.
    Bytes { count: usize, more: bool, short: bool },
}

/// See the module's picture.
pub(crate) struct Tls {
    session: UnbufferedServerConnection,
    stage: Stage,
    /// The peer has said that it sends nothing more.
    ended: bool,
    partial: Vec<u8>,
    /// Records that came with others, and are opened by the next reads.
    unopened: Vec<u8>,
    plain: Plain,
    /// Records that the socket has not taken.
    sealed: Vec<u8>,
    /// Bytes at the front of the connection's output whose records the socket has not taken.
    ahead: usize,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The handshake is under way.
    Handshake,
    Open,
    /// The peer has broken the protocol: rustls is not asked again, which takes it for granted.
    Failed,
}

/// Bytes that were opened and not read.
#[derive(Default)]
struct Plain {
    bytes: Vec<u8>,
    /// Bytes of them that are read.
    done: usize,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("stage", &self.stage).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Tls {
    /// A connection whose handshake is still to come.
    ///
    /// # Errors
    /// The context allows no version of TLS.
    pub(crate) fn new(context: Arc<ServerConfig>) -> Result<Tls, rustls::Error> {
        Ok(Tls {
            session: UnbufferedServerConnection::new(context)?,
            stage: Stage::Handshake,
            ended: false,
            partial: Vec::new(),
            unopened: Vec::new(),
            plain: Plain::default(),
            sealed: Vec::new(),
            ahead: 0,
        })
    }

    /// True once the handshake is done, but for its last records, which may still have to be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// The names of this kind in the client's certificate; None if it has shown none.
    pub(crate) fn peer_names(&self, kind: CertificateUser) -> Option<Vec<Vec<u8>>> {
        Some(names(self.session.peer_certificates()?.first()?, kind))
    }

    /// True if the client has shown a certificate that has ended at this Unix time, in seconds.
    pub(crate) fn peer_has_ended(&self, now_s: i64) -> bool {
        let certificate = self.session.peer_certificates().and_then(<[_]>::first);
        certificate.is_some_and(|certificate| has_ended(certificate, now_s))
    }

    /// Bytes of memory beside the connection's own.
    pub(crate) fn held_bytes(&self) -> usize {
        let read = self.partial.capacity() + self.unopened.capacity() + self.plain.bytes.capacity();
        IDLE_BYTES + read + self.sealed.capacity()
    }

    /// Bytes that were opened and not read.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.plain.bytes.len() - self.plain.done
    }

    /// Reads the socket once, unless bytes are here that were opened before, and opens what came into `room`.
    ///
    /// # Errors
    /// The socket's; or the peer breaks the protocol, of which it was sent an alert.
    pub(crate) fn read(&mut self, stream: &Stream, room: &mut [u8]) -> io::Result<Got> {
        if self.unread_bytes() > 0 {
            let count = self.plain.take(room);
            return Ok(Got::Bytes { count, more: true, short: false });
        }
        if self.ended {
            return Ok(Got::End);
        }
        if self.stage == Stage::Failed {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let got = BUFFERS.with_borrow_mut(|buffers| self.read_socket(stream, &mut buffers.incoming, room));
        if got.is_err() {
            self.stage = Stage::Failed;
        }
        // An answer to what was read, or the alert that says what is wrong with it.
        let sent = self.send_sealed(stream);
        let got = got?;
        sent?;
        if self.sealed.len() > CONTROL_BYTES_MAX && self.ahead == 0 {
            return Err(io::Error::other("the peer asks for answers that it does not read"));
        }
        Ok(got)
    }

    fn read_socket(&mut self, stream: &Stream, incoming: &mut [u8], room: &mut [u8]) -> io::Result<Got> {
        let held = self.partial.len();
        incoming[..held].copy_from_slice(&self.partial);
        let mut short = false;
        let came = if self.unopened.is_empty() {
            // Records that hold more than the room takes have to be kept: a record's worth is read even so, since less may
            // be no whole record.
            let asked = room.len().saturating_sub(held).clamp(RECORD_BYTES_MAX, READ_BYTES_MAX);
            let came = match stream.read(&mut incoming[held..held + asked]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(Got::End);
                }
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Got::Nothing),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Ok(Got::Bytes { count: 0, more: true, short: false });
                }
                Err(error) => return Err(error),
            };
            short = came < asked;
            came
        } else {
            let unopened = std::mem::take(&mut self.unopened);
            incoming[held..held + unopened.len()].copy_from_slice(&unopened);
            unopened.len()
        };
        let all = &mut incoming[..held + came];
        let end = end_of_records(all, held, RECORDS_MAX);
        self.unopened.extend_from_slice(&all[end..]);
        let count = self.open_records(&mut all[..end], room)?;
        if self.ended && count == 0 && self.unread_bytes() == 0 {
            return Ok(Got::End);
        }
        let more = self.ended || self.unread_bytes() > 0 || !self.unopened.is_empty();
        Ok(Got::Bytes { count, more, short })
    }

    /// Opens the records that are whole, and keeps the rest. Returns the bytes in the room.
    fn open_records(&mut self, bytes: &mut [u8], room: &mut [u8]) -> io::Result<usize> {
        let (count, done) = self.take_records(bytes, room)?;
        let rest = &bytes[done..];
        if rest.len() > HANDSHAKE_BYTES_MAX {
            return Err(io::Error::other("a message that is too long"));
        }
        // Most reads end with a record: nothing is kept then, not even room.
        if rest.is_empty() {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.extend_from_slice(rest);
        }
        Ok(count)
    }

    /// Opens the records that are whole: into `room`, and what that does not take into `plain`. Returns the bytes in the room,
    /// and the bytes of records that are done with.
    fn take_records(&mut self, bytes: &mut [u8], room: &mut [u8]) -> io::Result<(usize, usize)> {
        let (mut count, mut done) = (0, 0);
        loop {
            let UnbufferedStatus { mut discard, state } = self.session.process_tls_records(&mut bytes[done..]);
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(io::Error::other)?;
                        discard += record.discard;
                        count += self.plain.give(record.payload, &mut room[count..]);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => seal(&mut self.sealed, |room| data.encode(room))?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.ended = true,
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.stage = Stage::Open;
                    return Ok((count, done + discard));
                }
                Ok(_) => return Ok((count, done + discard)),
                Err(error) => {
                    if self.stage == Stage::Open || !is_other_protocol(&error) {
                        self.seal_alert(&mut bytes[done + discard..]);
                    }
                    return Err(io::Error::other(error));
                }
            }
            done += discard;
        }
    }

    /// After an error in front of `rest`: the alert that names it, which is the one record that waits. rustls must not be asked
    /// for another: it would open the record once more that was wrong.
    #[cold]
    fn seal_alert(&mut self, rest: &mut [u8]) {
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = self.session.process_tls_records(rest).state
            && let Err(error) = seal(&mut self.sealed, |room| data.encode(room))
        {
            tracing::debug!("an alert: {error}");
        }
    }

    /// Sends the records that the socket has not taken; false if it does not take all.
    pub(crate) fn send_sealed(&mut self, stream: &Stream) -> io::Result<bool> {
        let mut sent = 0;
        while sent < self.sealed.len() {
            match stream.write(&self.sealed[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.sealed.drain(..sent);
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if sent > 0 {
            self.sealed = Vec::new();
        }
        Ok(true)
    }

    /// The bytes at the front of the output whose records the socket has taken by now: they are done with. To be called when
    /// [`Tls::send_sealed`] has sent everything.
    pub(crate) fn take_ahead(&mut self) -> usize {
        debug_assert!(self.sealed.is_empty(), "nothing is done with before its records are sent");
        std::mem::take(&mut self.ahead)
    }

    /// Encrypts the first bytes of `parts`, `most` at most, in as few records as they need, and sends what the socket takes.
    /// [`Tls::take_ahead`] has the number of bytes.
    ///
    /// # Errors
    /// The socket's; or the keys of a connection by TLS 1.2 have been used as often as is safe.
    pub(crate) fn seal(
        &mut self,
        stream: &Stream,
        mut parts: impl Iterator<Item: Deref<Target = [u8]>>,
        most: usize,
    ) -> io::Result<bool> {
        assert!(self.ahead == 0 && self.sealed.is_empty(), "records are sent before the next are made");
        BUFFERS.with_borrow_mut(|Buffers { gathered, outgoing, .. }| {
            let Some(first) = parts.next() else { return Ok(true) };
            let plain = gather(&first, parts, most.min(SEAL_BYTES_MAX), gathered);
            let mut sealed = self.encrypt(plain, outgoing)?;
            self.ahead = plain.len();
            // It may be lent.
            drop(first);
            while !sealed.is_empty() {
                match stream.write(sealed) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => sealed = &sealed[count..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.sealed.extend_from_slice(sealed);
                        return Ok(false);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(true)
        })
    }

    /// rustls asks for the bytes of the record that is not whole each time: it may have seen a part of them.
    fn encrypt<'o>(&mut self, plain: &[u8], outgoing: &'o mut [u8]) -> io::Result<&'o [u8]> {
        if self.stage != Stage::Open {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut control = Vec::new();
        loop {
            let UnbufferedStatus { discard, state } = self.session.process_tls_records(&mut self.partial);
            match state.map_err(io::Error::other)? {
                // New keys are announced before the first record that needs them.
                ConnectionState::EncodeTlsData(mut data) => seal(&mut control, |room| data.encode(room))?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::WriteTraffic(mut traffic) => {
                    outgoing[..control.len()].copy_from_slice(&control);
                    let sealed = traffic.encrypt(plain, &mut outgoing[control.len()..]).map_err(io::Error::other)?;
                    self.partial.drain(..discard);
                    return Ok(&outgoing[..control.len() + sealed]);
                }
                _ => return Err(io::Error::other("the connection takes no data any more")),
            }
            self.partial.drain(..discard);
        }
    }

    /// The connection ends: tells the peer so, if the socket takes it.
    pub(crate) fn end(&mut self, stream: &Stream) {
        if self.stage != Stage::Open || !self.sealed.is_empty() {
            return;
        }
        let mut room = [0; 2 * RECORD_EXTRA_BYTES];
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) =
            self.session.process_tls_records(&mut self.partial).state
            && let Ok(count) = traffic.queue_close_notify(&mut room)
            && let Err(error) = stream.write(&room[..count])
        {
            tracing::debug!("ending a TLS connection: {error}");
        }
    }
}

impl Plain {
    /// Puts `bytes` into `room`, and what that does not take behind what is here. Returns the number of bytes in the room.
    fn give(&mut self, bytes: &[u8], room: &mut [u8]) -> usize {
        let count = if self.bytes.is_empty() { bytes.len().min(room.len()) } else { 0 };
        room[..count].copy_from_slice(&bytes[..count]);
        self.bytes.extend_from_slice(&bytes[count..]);
        count
    }

    /// Gives the next bytes out.
    fn take(&mut self, room: &mut [u8]) -> usize {
        let rest = &self.bytes[self.done..];
        let count = rest.len().min(room.len());
        room[..count].copy_from_slice(&rest[..count]);
        self.done += count;
        if self.done == self.bytes.len() {
            *self = Plain::default();
        }
        count
    }
}

/// The end of the first `most` records that begin behind the first `held` bytes, or of all bytes if there are fewer.
fn end_of_records(bytes: &[u8], held: usize, most: usize) -> usize {
    let (mut at, mut count) = (0, 0);
    while count < most {
        let Some(header) = bytes.get(at..at + HEADER_BYTES) else { return bytes.len() };
        count += usize::from(at >= held);
        at += HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
    }
    at.min(bytes.len())
}

/// True for bytes that are no record of TLS: whoever sends them would not understand an alert, which OpenSSL does not send
/// either.
fn is_other_protocol(error: &rustls::Error) -> bool {
    use rustls::InvalidMessage::{InvalidContentType, UnknownProtocolVersion};
    matches!(error, rustls::Error::InvalidMessage(InvalidContentType | UnknownProtocolVersion))
}

/// Puts a record of control behind `sealed`.
fn seal(sealed: &mut Vec<u8>, mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) -> io::Result<()> {
    let at = sealed.len();
    match encode(&mut []) {
        Err(EncodeError::InsufficientSize(needed)) => {
            sealed.resize(at + needed.required_size, 0);
            let count = encode(&mut sealed[at..]).map_err(io::Error::other)?;
            sealed.truncate(at + count);
            Ok(())
        }
        Err(error) => Err(io::Error::other(error)),
        Ok(_) => Ok(()),
    }
}

/// The first bytes of all parts, `most` at most, in a row: where they lie if the first part has them all.
fn gather<'g>(
    first: &'g [u8],
    mut others: impl Iterator<Item: Deref<Target = [u8]>>,
    most: usize,
    gathered: &'g mut Vec<u8>,
) -> &'g [u8] {
    if first.len() >= most {
        return &first[..most];
    }
    let Some(second) = others.next() else { return first };
    gathered.clear();
    gathered.extend_from_slice(first);
    for part in std::iter::once(second).chain(others) {
        let left = most - gathered.len();
        gathered.extend_from_slice(&part[..part.len().min(left)]);
        if gathered.len() == most {
            break;
        }
    }
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_behind_those_that_are_held() {
        let record = [23, 3, 3, 0, 2, 1, 1];
        let bytes = record.repeat(10);
        assert_eq!(end_of_records(&bytes, 0, 4), 28);
        assert_eq!(end_of_records(&bytes, 0, 10), 70);
        assert_eq!(end_of_records(&bytes, 0, 11), 70);
        assert_eq!(end_of_records(&bytes[..66], 0, 10), 66, "the last one is not whole");
        assert_eq!(end_of_records(&bytes, 14, 4), 42, "two of a message that waits for its rest");
        assert_eq!(end_of_records(&bytes, 10, 4), 42, "half a record was here");
        assert_eq!(end_of_records(&[], 0, 4), 0);
    }
}
