//! DUMP's payload in the making: a value is encoded in parts, each of which is compressed and summed before the next one.
//!
//! ```text
//! part ──▶ encoded ──settle: compressed, summed──▶ bytes ──seal──▶ | type | value | version | CRC-64 |
//! ```
//! The frame is described in [`crate::dump`].

use std::convert::Infallible;

use super::RdbBuffer;
use crate::crc::Crc64;
use crate::format::{FIELD_EXPIRY_VERSION, Kind, TooOld, VERSION, version_for};
use crate::lzf::Table;

/// Bytes of a string that is compressed, at most: longer ones are written as they are, since a string is compressed in one step of some
/// three milliseconds a megabyte.
const COMPRESSED_BYTES_MAX: usize = 256 << 10;

/// A payload in the making.
#[derive(Debug)]
pub struct Payload {
    encoded: RdbBuffer,
    bytes: Vec<u8>,
    crc: Crc64,
    /// Bytes that are summed.
    summed: usize,
    table: Table,
    version: u16,
    /// It is of a hash with fields that expire.
    is_dated: bool,
}

impl Payload {
    /// A payload of a value of this type, of which nothing is encoded yet.
    ///
    /// # Panics
    /// For values of modules, which are not written.
    pub fn new(kind: Kind) -> Payload {
        let mut encoded = RdbBuffer::compressing_up_to(COMPRESSED_BYTES_MAX);
        encoded.kind(kind);
        Payload::of(encoded, VERSION)
    }

    /// A payload of a hash with fields that expire, of which nothing is encoded yet.
    pub fn dated_hash() -> Payload {
        let mut encoded = RdbBuffer::compressing_up_to(COMPRESSED_BYTES_MAX);
        encoded.dated_hash();
        Payload { is_dated: true, ..Payload::of(encoded, FIELD_EXPIRY_VERSION) }
    }

    /// Gives the payload the version that is pinned, if one is.
    ///
    /// # Errors
    /// The pinned version has no place for the value.
    pub fn pin(self, pinned: Option<u16>) -> Result<Payload, TooOld> {
        let version = version_for(pinned, self.is_dated)?;
        Ok(Payload { version, ..self })
    }

    /// A payload of libraries of functions, of which there is none yet.
    pub(crate) fn of_libraries() -> Payload {
        Payload::of(RdbBuffer::compressing_up_to(COMPRESSED_BYTES_MAX), VERSION)
    }

    fn of(encoded: RdbBuffer, version: u16) -> Payload {
        Payload {
            encoded,
            bytes: Vec::new(),
            crc: Crc64::new(),
            summed: 0,
            table: Table::default(),
            version,
            is_dated: false,
        }
    }

    /// Where the next part of the value goes.
    pub fn encoded(&mut self) -> &mut RdbBuffer {
        &mut self.encoded
    }

    /// Takes over the part that was encoded: it costs time by its length, and by nothing before it.
    pub fn settle(&mut self) {
        if self.bytes.is_empty() && !self.encoded.has_marks() {
            std::mem::swap(&mut self.bytes, self.encoded.bytes_mut());
        } else {
            let done = self.encoded.compress_into(&mut self.table, &mut self.bytes, |_| Ok::<(), Infallible>(()));
            let done = done.unwrap_or_else(|never| match never {});
            self.bytes.extend_from_slice(&self.encoded.bytes()[done..]);
        }
        self.encoded.clear();
        self.crc.add(&self.bytes[self.summed..]);
        self.summed = self.bytes.len();
    }

    /// Takes over bytes of the value as they are, behind the part that was encoded before.
    pub fn settle_raw(&mut self, bytes: &[u8]) {
        debug_assert!(self.encoded.is_empty(), "what was encoded before stands before it");
        self.bytes.extend_from_slice(bytes);
        self.crc.add(bytes);
        self.summed = self.bytes.len();
    }

    /// Bytes in memory.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.encoded.len()
    }

    /// The whole payload, when all of the value is encoded.
    pub fn seal(mut self) -> Vec<u8> {
        self.settle();
        let version = self.version.to_le_bytes();
        self.crc.add(&version);
        self.bytes.extend_from_slice(&version);
        self.bytes.extend_from_slice(&self.crc.get().to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc::crc64;

    #[test]
    fn a_payload_in_parts_is_that_in_one_part() {
        let texts = [&b"short"[..], b"12", &[b'x'; 5000], &[b'y'; 21]];
        let encode = |parts: bool, kind: Kind| {
            let mut payload = Payload::new(kind);
            payload.encoded().count(texts.len() as u64);
            for text in texts {
                if parts {
                    payload.settle();
                }
                payload.encoded().string(text);
            }
            payload.seal()
        };
        for kind in [Kind::List, Kind::Set] {
            let (whole, parts) = (encode(false, kind), encode(true, kind));
            assert_eq!(whole, parts);
            assert!(whole.len() < 200, "{} bytes", whole.len());
        }
        let long = vec![b'x'; COMPRESSED_BYTES_MAX + 1];
        let bytes_of = |text: &[u8]| {
            let mut payload = Payload::new(Kind::List);
            payload.encoded().count(1);
            payload.encoded().string(text);
            payload.seal().len()
        };
        assert!(bytes_of(&long) > COMPRESSED_BYTES_MAX, "a long one takes too long to compress");
        assert!(bytes_of(&long[1..]) < COMPRESSED_BYTES_MAX / 20);
        let mut raw = Payload::new(Kind::String);
        raw.encoded().count(3);
        raw.settle();
        raw.settle_raw(b"abc");
        let mut sealed = b"\x00\x03abc\x0a\x00".to_vec();
        let sum = crc64(&sealed);
        sealed.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(raw.seal(), sealed);
    }

    #[test]
    fn a_pinned_version_has_a_place_for_the_value_or_refuses_it() {
        let version = |payload: Payload| {
            let sealed = payload.seal();
            u16::from_le_bytes(sealed[sealed.len() - 10..][..2].try_into().expect("two bytes"))
        };
        let dated = |pinned| Payload::dated_hash().pin(pinned).map(version);
        let plain = |pinned| Payload::new(Kind::Hash).pin(pinned).map(version);
        assert_eq!([plain(None), plain(Some(10)), plain(Some(12))], [Ok(10), Ok(10), Ok(12)]);
        assert_eq!([dated(None), dated(Some(12))], [Ok(12), Ok(12)]);
        assert_eq!(dated(Some(10)), Err(TooOld { pinned: 10, needed: 12 }));
    }
}
