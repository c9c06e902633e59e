//! The ID of an entry of a stream: milliseconds, and a number among the entries of one millisecond.

/// The ID of an entry. IDs are ordered by milliseconds, then by the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds, of Unix time where the server makes the ID.
    pub ms: u64,
    /// The number among the entries of this millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least ID, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest ID.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// An ID.
    #[inline]
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The ID that these bytes are.
    #[inline]
    pub(super) fn of_bytes(bytes: &[u8; 16]) -> StreamId {
        let (ms, seq) = bytes.split_at(8);
        let part = |part: &[u8]| u64::from_le_bytes(part.try_into().expect("eight bytes"));
        StreamId { ms: part(ms), seq: part(seq) }
    }

    /// The ID as bytes: milliseconds and number, the low bytes first.
    #[inline]
    pub(super) fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.ms.to_le_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_le_bytes());
        bytes
    }

    /// The ID behind this one; `None` behind the greatest.
    #[inline]
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The ID before this one; `None` before the least.
    #[inline]
    pub fn prev(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StreamId;

    #[test]
    fn the_neighbours_of_an_id() {
        let id = StreamId::new;
        assert_eq!((id(3, 4).next(), id(3, 4).prev()), (Some(id(3, 5)), Some(id(3, 3))));
        assert_eq!((id(3, u64::MAX).next(), id(3, 0).prev()), (Some(id(4, 0)), Some(id(2, u64::MAX))));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.prev()), (None, None));
        assert!(id(2, u64::MAX) < id(3, 0) && id(3, 0) < id(3, 1));
    }
}
