//! Room for clients where no setting bounds them: what all of them together may take, and how long a reply may become.
//!
//! ```text
//!   the machine's memory   | half of it: all clients together                    | everything else |
//!                          | what they take now | left: an equal part a worker   |
//! ```
//! A worker makes one reply at a time, so that all replies in the making fit into what is left. Where the clients take more than
//! their half nevertheless, the largest are closed, as `maxmemory-clients` has it. Not here: those limits themselves.

use std::sync::atomic::Ordering::Relaxed;

use varve_base::shared::SharedU64;

/// Memory that a machine has at the least: some do not say how much it is.
const MACHINE_BYTES_MIN: u64 = 4 << 30;
/// A reply may come to this number of bytes, however little is left.
const REPLY_BYTES_MIN: u64 = 64 << 20;
/// A reply may come to this part of the clients' room at most.
const REPLY_PART: u64 = 2;

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct ClientRoom {
    /// Bytes of all clients together.
    bytes: SharedU64,
}

impl ClientRoom {
    /// The room on a machine that has this number of bytes of memory.
    pub(crate) fn new(machine_bytes: u64) -> ClientRoom {
        ClientRoom { bytes: SharedU64::new(machine_bytes.max(MACHINE_BYTES_MIN) / 2) }
    }

    /// Bytes that all clients together may take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Bytes that a worker's next reply may have, while all clients take `taken` and this number of workers makes replies.
    pub(crate) fn reply_bytes(&self, taken: u64, workers: usize) -> usize {
        assert!(workers > 0, "a worker asks");
        let left = self.bytes().saturating_sub(taken) / workers as u64;
        left.min(self.bytes() / REPLY_PART).max(REPLY_BYTES_MIN) as usize
    }

    /// Makes the room smaller than any machine's.
    #[cfg(test)]
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_in_the_making_fit_into_what_is_left() {
        let room = ClientRoom::new(64 << 30);
        assert_eq!(room.bytes(), 32 << 30);
        assert_eq!(room.reply_bytes(0, 1), 16 << 30, "a quarter of the machine");
        for workers in [1, 2, 8, 64] {
            for taken in (0..40).map(|n| n << 30) {
                let replies = room.reply_bytes(taken, workers) as u64 * workers as u64;
                assert!(taken + replies <= (32 << 30).max(taken) + workers as u64 * REPLY_BYTES_MIN);
            }
        }
        assert_eq!(room.reply_bytes(u64::MAX, 64), REPLY_BYTES_MIN as usize);
        assert_eq!(ClientRoom::new(0).bytes(), 2 << 30, "a machine that does not say");
    }
}
