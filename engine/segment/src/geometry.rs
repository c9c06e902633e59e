//! The sizes that a log is cut by. A parameter, so that tests and fuzzers fill whole segments with a few objects.

use varve_base::mem::PAGE_BYTES;

/// How a log cuts its range of addresses. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// A segment: a power of two, from a page (4096) to 8 MiB.
    pub segment_bytes: usize,
    /// What an appender checks out at once.
    pub piece_bytes: usize,
    /// Objects of more bytes than this get segments of their own. At most half a segment.
    pub run_min_bytes: usize,
    /// What is given back to the system at once: a multiple of the page.
    pub release_bytes: usize,
    /// Addresses to reserve: a multiple of the segment, under 2^48. More than the machine has memory costs nothing.
    pub reserve_bytes: usize,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry {
            segment_bytes: 8 << 20,
            piece_bytes: 64 << 10,
            run_min_bytes: 256 << 10,
            release_bytes: 256 << 10,
            reserve_bytes: 1 << 40,
        }
    }
}

impl Geometry {
    /// Panics with what is wrong.
    pub(crate) fn check(&self) {
        let Geometry { segment_bytes, piece_bytes, run_min_bytes, release_bytes, reserve_bytes } = *self;
        assert!(segment_bytes.is_power_of_two(), "segment_bytes {segment_bytes} is no power of two");
        assert!((PAGE_BYTES..=8 << 20).contains(&segment_bytes), "segment_bytes {segment_bytes}");
        assert!((64..=segment_bytes).contains(&piece_bytes), "piece_bytes {piece_bytes}");
        assert!((64..=segment_bytes / 2).contains(&run_min_bytes), "run_min_bytes {run_min_bytes}");
        assert!(release_bytes > 0 && release_bytes.is_multiple_of(PAGE_BYTES), "release_bytes {release_bytes}");
        assert!(reserve_bytes >= segment_bytes && reserve_bytes < 1 << 48, "reserve_bytes {reserve_bytes}");
        assert!(reserve_bytes.is_multiple_of(segment_bytes), "reserve_bytes {reserve_bytes}");
    }

    /// The range is opened in steps of so many bytes.
    pub(crate) fn open_step(&self) -> usize {
        64 * self.segment_bytes
    }

    /// Objects up to this size may close the piece that they do not fit in, so a piece loses at most this much.
    pub(crate) fn small_max(&self) -> usize {
        (self.piece_bytes / 32).max(64)
    }
}
