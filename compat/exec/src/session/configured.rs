//! The settings that sessions have: the server gives them to each of its clients.

use super::Session;

impl Session {
    /// Longest string and longest argument, in bytes (`proto-max-bulk-len`).
    #[inline]
    pub fn string_bytes_max(&self) -> usize {
        self.string_bytes_max
    }

    /// The configuration has this for the longest string, in bytes.
    pub fn limit_strings(&mut self, bytes_max: usize) {
        self.string_bytes_max = bytes_max;
    }

    /// The version of RDB that payloads have (`rdb-version`); None if none is pinned.
    pub fn rdb_version(&self) -> Option<u16> {
        self.rdb_version
    }

    /// The configuration pins this version of RDB, or none.
    pub fn pin_rdb_version(&mut self, version: Option<u16>) {
        self.rdb_version = version;
    }
}
