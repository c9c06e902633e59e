//! The sizes that a log is cut by. A parameter, so that tests and fuzzers fill whole segments with a few objects.

use varve_base::mem::PAGE_BYTES;

/// How a log cuts its range of addresses. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGeometry {
    /// A segment: a power of two, from a page (4096) to 8 MiB.
    pub segment_bytes: usize,
    /// The bytes that an appender checks out at once. At most `extent_min_bytes`.
    pub piece_bytes: usize,
    /// Objects of more bytes than this get segments of their own, an extent. At most half a segment.
    pub extent_min_bytes: usize,
    /// The bytes that are given back to the system at once: a multiple of the page that divides the segment, at least 1/64 of it.
    pub release_bytes: usize,
    /// Addresses to reserve: a multiple of the segment, under 2^48. More than the machine has memory costs nothing.
    pub reserve_bytes: usize,
}

impl Default for LogGeometry {
    fn default() -> Self {
        LogGeometry {
            segment_bytes: 8 << 20,
            piece_bytes: 64 << 10,
            extent_min_bytes: 256 << 10,
            release_bytes: 256 << 10,
            reserve_bytes: 1 << 40,
        }
    }
}

impl LogGeometry {
    /// An object of up to this part of a piece closes the piece that it does not fit in: so much of a piece is lost at most.
    pub const LOST_PART: usize = 32;

    /// Panics with what is wrong.
    pub(crate) fn check(&self) {
        let LogGeometry { segment_bytes, piece_bytes, extent_min_bytes, release_bytes, reserve_bytes } = *self;
        assert!(segment_bytes.is_power_of_two(), "segment_bytes {segment_bytes} is no power of two");
        assert!((PAGE_BYTES..=8 << 20).contains(&segment_bytes), "segment_bytes {segment_bytes}");
        assert!((64..=segment_bytes).contains(&piece_bytes), "piece_bytes {piece_bytes}");
        assert!((64..=segment_bytes / 2).contains(&extent_min_bytes), "extent_min_bytes {extent_min_bytes}");
        // An object that fits in a piece is written there without another look at its size; when it dies its size decides
        // whether it was an extent.
        assert!(piece_bytes <= extent_min_bytes, "piece_bytes {piece_bytes} over extent_min_bytes {extent_min_bytes}");
        assert!(release_bytes > 0 && release_bytes.is_multiple_of(PAGE_BYTES), "release_bytes {release_bytes}");
        assert!(segment_bytes.is_multiple_of(release_bytes), "release_bytes {release_bytes}");
        assert!(segment_bytes / release_bytes <= 64, "release_bytes {release_bytes}");
        assert!(reserve_bytes >= segment_bytes && reserve_bytes < 1 << 48, "reserve_bytes {reserve_bytes}");
        assert!(reserve_bytes.is_multiple_of(segment_bytes), "reserve_bytes {reserve_bytes}");
    }

    /// Release units whose memory may be kept when a drain begins that would keep a whole segment's more. Some of the
    /// last one's may not be in use yet when the next victim is chosen.
    pub(crate) fn cached_before_max(&self) -> u64 {
        (self.segment_bytes / self.release_bytes / 4) as u64
    }

    /// Bytes of the range that are opened at once: the first of these steps that the system does not refuse. The last one
    /// is not small: where it is refused, a little memory is left for everything that is not the log's.
    pub(crate) fn open_steps(&self) -> [usize; 3] {
        [64, 16, 8].map(|segments| segments * self.segment_bytes)
    }

    /// Segments that are kept open for what was admitted and for drains: the next part of the range is opened before they are
    /// used, so that a refusal is known before a write that needs the segment is under way.
    pub(crate) fn open_ahead(&self) -> u32 {
        16.min(self.reserve_bytes / self.segment_bytes / 16) as u32
    }

    /// Segments that are left for what is written without having asked: a large value that moves.
    pub(crate) fn spare_segments(&self) -> u32 {
        ((1 << 32) / self.segment_bytes).min(self.reserve_bytes / self.segment_bytes / 16) as u32
    }

    /// Addresses that a value which grows is given while there are many, in bytes: those of the largest that clients
    /// write, so that it never moves. No more than 64 segments, whose entries cost as well.
    pub(crate) fn growing_bytes(&self) -> usize {
        (512 << 20).min(64 * self.segment_bytes)
    }

    /// Objects up to this size may close the piece that they do not fit in, so a piece loses at most this much.
    pub(crate) fn small_max(&self) -> usize {
        (self.piece_bytes / LogGeometry::LOST_PART).max(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "over extent_min_bytes")]
    fn a_piece_that_takes_what_should_have_a_run() {
        LogGeometry { piece_bytes: 512 << 10, ..LogGeometry::default() }.check();
    }
}
