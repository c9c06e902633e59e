//! Writing replies to a socket.
//!
//! A turn's replies are written straight from the worker's [`Reply`]. Only what the socket does not take becomes the
//! connection's: the two buffers are swapped, so that not even a 100 MB reply is copied, and an idle connection holds
//! none. Values sent from where they lie are among the slices.

use std::io::{self, IoSlice};

use smallvec::SmallVec;
use varve_protocol::{Reply, ReplyPart};

use crate::net::stream::Stream;
use crate::net::tls::Tls;

/// Pieces handed to one writev.
const SLICES_MAX: usize = 64;
/// Bytes of large values that are lent for one writev, about: whoever writes to these values waits meanwhile. With half as many, a
/// GET of 64 MB costs a tenth more CPU.
const LENT_BYTES: usize = 1 << 20;
/// Bytes after which one flush ends, so that one reader of large replies does not keep the worker.
const FLUSH_BYTES: usize = 1024 * 1024;

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything is written.
    Empty,
    /// The socket is full: it will report when it is writable.
    Blocked,
    /// The flush had its share; the socket takes more.
    More,
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flush {
    pub(crate) bytes: usize,
    pub(crate) writes: u64,
    pub(crate) end: Flushed,
}

/// Writes what the socket takes, `most` bytes at most, and [`FLUSH_BYTES`] or one write more.
pub(crate) fn flush(stream: &Stream, replies: &mut Reply, most: usize) -> io::Result<Flush> {
    let mut done = Flush { bytes: 0, writes: 0, end: Flushed::Empty };
    while !replies.is_empty() {
        if done.bytes >= FLUSH_BYTES.min(most) {
            done.end = Flushed::More;
            break;
        }
        done.writes += 1;
        match write_once(stream, replies, most - done.bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                done.bytes += count;
                replies.consume(count);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                done.end = Flushed::Blocked;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Like [`flush`], by TLS. Replies are done with when the socket has taken their records.
#[cold]
pub(crate) fn flush_sealed(stream: &Stream, tls: &mut Tls, replies: &mut Reply, most: usize) -> io::Result<Flush> {
    let mut done = Flush { bytes: 0, writes: 0, end: Flushed::Empty };
    let mut all_sent = tls.send_sealed(stream)?;
    loop {
        if !all_sent {
            done.end = Flushed::Blocked;
            break;
        }
        let sent = tls.take_ahead();
        replies.consume(sent);
        done.bytes += sent;
        if replies.is_empty() {
            break;
        }
        if done.bytes >= FLUSH_BYTES.min(most) {
            done.end = Flushed::More;
            break;
        }
        done.writes += 1;
        all_sent = tls.seal(stream, replies.parts(), most - done.bytes)?;
    }
    Ok(done)
}

/// Writes the first bytes, `most` at most.
fn write_once(stream: &Stream, replies: &Reply, most: usize) -> io::Result<usize> {
    match replies.as_one() {
        Some(bytes) => stream.write(&bytes[..bytes.len().min(most)]),
        None => write_parts(stream, replies, most),
    }
}

fn write_parts(stream: &Stream, replies: &Reply, most: usize) -> io::Result<usize> {
    let (mut parts, mut bytes, mut lent) = (SmallVec::<[ReplyPart<'_>; SLICES_MAX]>::new(), 0, 0);
    for part in replies.parts().take(SLICES_MAX) {
        bytes += part.len();
        lent += if matches!(part, ReplyPart::Lent(_)) { part.len() } else { 0 };
        parts.push(part);
        if bytes >= most || lent >= LENT_BYTES {
            break;
        }
    }
    let (mut slices, mut left) = ([IoSlice::new(&[]); SLICES_MAX], most);
    for (slice, part) in slices.iter_mut().zip(&parts) {
        *slice = IoSlice::new(&part[..part.len().min(left)]);
        left -= slice.len();
    }
    stream.write_vectored(&slices[..parts.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_large_reply_goes_out_in_shares() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(mio::net::UnixStream::from_std(ours));
        let mut replies = Reply::new();
        let value: Vec<u8> = (0..8_000_000u32).map(|i| (i % 251) as u8).collect();
        replies.bulk(&value);
        let total = replies.len();
        let read = std::thread::spawn(move || {
            let mut got = vec![0; total];
            theirs.read_exact(&mut got).unwrap();
            got
        });
        let mut written = 0;
        loop {
            let done = flush(&stream, &mut replies, usize::MAX).unwrap();
            assert!(done.bytes <= FLUSH_BYTES + total.min(8 << 20));
            written += done.bytes;
            if done.end == Flushed::Empty {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(written, total);
        let got = read.join().unwrap();
        assert!(got[total - 2 - value.len()..total - 2] == value);
    }
}
