//! The frame of DUMP's payload: type and value, then the version and a CRC of all before it.
//!
//! ```text
//! | type (1) | value | version (2, low byte first) | CRC-64 (8, low byte first) |
//! ```

use crate::crc::{agrees, crc64};
use crate::format::{Dialect, VERSION};

/// Bytes behind the value.
pub const FOOTER_BYTES: usize = 10;

/// Ends a payload that is a type and a value.
pub fn seal(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let crc = crc64(payload);
    payload.extend_from_slice(&crc.to_le_bytes());
}

/// The type and value of a payload, and whose numbers they are. None if the version is not one that is read, or if the
/// checksum is wrong.
pub fn open(payload: &[u8]) -> Option<(Dialect, &[u8])> {
    let Frame { dialect, typed, summed, sum } = Frame::of(payload)?;
    agrees(sum, crc64(summed)).then_some((dialect, typed))
}

/// A payload whose checksum nobody has looked at.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The dialect whose numbers types and versions are.
    pub dialect: Dialect,
    /// The type and the value.
    pub typed: &'a [u8],
    /// The bytes that are summed.
    pub summed: &'a [u8],
    /// The sum that stands behind them, which has to [agree](crate::crc::agrees) with theirs.
    pub sum: u64,
}

impl Frame<'_> {
    /// The frame of a payload; None if the version is not one that is read.
    pub fn of(payload: &[u8]) -> Option<Frame<'_>> {
        let (summed, crc) = payload.split_last_chunk::<8>()?;
        let (typed, version) = summed.split_last_chunk::<2>()?;
        let dialect = Dialect::of_dump(u16::from_le_bytes(*version))?;
        Some(Frame { dialect, typed, summed, sum: u64::from_le_bytes(*crc) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_opened_if_nothing_of_it_has_changed() {
        let mut payload = b"\x00\x03abc".to_vec();
        seal(&mut payload);
        assert_eq!(open(&payload), Some((Dialect::OURS, b"\x00\x03abc".as_slice())));
        for at in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[at] ^= 0x10;
            assert_eq!(open(&damaged), None, "byte {at}");
            assert_eq!(open(&payload[..at]), None);
        }
    }
}
