//! CRC-64 as Redis computes it: the polynomial of Jones, bits reflected, from 0 to 0.
//!
//! It is computed over large pieces where that is possible: a call costs more than the bytes of a short string.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

/// Whether sums in files and payloads are compared with those of their bytes. It is one switch of the process, as in
/// redis-server: a test of damaged payloads turns it off, so that it gets beyond the sum.
static COMPARED: AtomicBool = AtomicBool::new(true);

/// Has sums that are read compared with those of their bytes, or not.
pub fn compare_sums(compared: bool) {
    COMPARED.store(compared, Relaxed);
}

/// Whether the sum that was read is that of the bytes, or sums are not compared.
pub fn agrees(read: u64, sum: u64) -> bool {
    read == sum || !COMPARED.load(Relaxed)
}

/// A CRC-64 that grows with the bytes that are added.
#[derive(Clone, Debug)]
pub struct Crc64(Digest);

impl Crc64 {
    /// The CRC of no bytes.
    pub fn new() -> Crc64 {
        Crc64(Digest::new(CrcAlgorithm::Crc64Redis))
    }

    /// Adds bytes behind those that were added before.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC of all bytes that were added.
    pub fn get(&self) -> u64 {
        self.0.finalize()
    }
}

impl Default for Crc64 {
    fn default() -> Crc64 {
        Crc64::new()
    }
}

/// The CRC of these bytes.
pub fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Redis, bytes)
}

/// The CRC of two pieces, the second one behind the first, from the CRC of each and the second one's length in bytes.
pub fn joined(first: u64, second: u64, second_len: u64) -> u64 {
    checksum_combine(CrcAlgorithm::Crc64Redis, first, second, second_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_redis_own() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut pieces = Crc64::new();
        pieces.add(b"1234");
        pieces.add(b"");
        pieces.add(b"56789");
        assert_eq!(pieces.get(), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(b""), 0);
    }

    #[test]
    fn pieces_are_joined() {
        let (a, b) = (crc64(b"1234"), crc64(b"56789"));
        assert_eq!(joined(a, b, 5), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(joined(a, crc64(b""), 0), a);
    }
}
