//! How large the nodes of a list get, and which of them are compressed.
//!
//! The settings say a number of bytes or of entries, which is a node's fill. Not here: what is done about a node that is over
//! its fill, or far below.

use varve_packed::node::buffer_bytes;

/// No node has more entries, whatever its fill.
const ENTRIES_MAX: usize = 512;
/// Bytes of a node whose fill is a number of entries.
const COUNTED_BYTES: usize = 8 << 10;

/// How large nodes get, and which are compressed: the settings of the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a node at most.
    pub(super) bytes: usize,
    /// Entries of a node at most.
    pub(super) entries: usize,
    /// Nodes at either end that are not compressed; 0: none is.
    pub(super) depth: usize,
    /// Bytes of an entry from which it has a node to itself, whatever the fill.
    pub(super) own_node_bytes: usize,
}

impl Shape {
    /// From `list-max-listpack-size`, `list-compress-depth` and DEBUG QUICKLIST-PACKED-THRESHOLD.
    pub fn of(fill: i64, depth: u64, own_node_bytes: u64) -> Shape {
        let (bytes, entries) = match fill {
            ..=-5 => (64 << 10, ENTRIES_MAX),
            -4..0 => (2048 << -fill, ENTRIES_MAX),
            _ => (COUNTED_BYTES, (fill as usize).clamp(1, ENTRIES_MAX)),
        };
        Shape {
            bytes,
            entries,
            depth: depth as usize,
            own_node_bytes: usize::try_from(own_node_bytes).unwrap_or(usize::MAX),
        }
    }

    /// Whether a node that has `entries` entries, of `bytes` bytes together, may have one of `size` more.
    #[inline]
    pub fn takes(&self, entries: usize, bytes: usize, size: usize) -> bool {
        entries < self.entries
            && buffer_bytes(bytes + size) <= self.bytes
            && (entries == 0 || size < self.own_node_bytes && !self.has_own_node(entries, bytes))
    }

    /// Whether this is the node of an entry that has it to itself.
    #[inline]
    pub(super) fn has_own_node(&self, entries: usize, bytes: usize) -> bool {
        entries == 1 && bytes >= self.own_node_bytes
    }

    /// Bytes that a new node at an end may grow to, whose first entry takes `size`: exactly for as many like it as it may
    /// have.
    pub(super) fn fresh(&self, size: usize) -> usize {
        if size >= self.own_node_bytes {
            return buffer_bytes(size);
        }
        let mut many = self.entries.min(self.bytes / size).max(1);
        while many > 1 && buffer_bytes(many * size) > self.bytes {
            many -= 1;
        }
        buffer_bytes(many * size)
    }

    /// Bytes for a node that is written anew with `bytes` bytes of entries.
    pub(super) fn roomy(&self, bytes: usize) -> usize {
        debug_assert!(self.bytes > 0 && self.entries > 0, "a node holds something");
        let needed = buffer_bytes(bytes);
        (needed + needed / 4).min(self.bytes).max(needed)
    }

    /// Whether a node has become so small that it should join a neighbour.
    pub(super) fn is_small(&self, entries: usize, bytes: usize) -> bool {
        entries <= self.entries / 4 && bytes <= self.bytes / 4
    }

    /// Whether this is half a fill or less.
    #[inline]
    pub(super) fn is_half(&self, entries: usize, bytes: usize) -> bool {
        bytes <= self.bytes / 2 && entries <= self.entries / 2
    }

    /// Entries of two neighbours together, so that they may become one.
    pub(super) fn joined_entries(&self) -> usize {
        self.entries * 3 / 4
    }

    /// Whether two neighbours with these numbers of entries and bytes should be one.
    pub(super) fn joins(&self, a: (usize, usize), b: (usize, usize)) -> bool {
        let fit = a.0 + b.0 <= self.joined_entries() && a.1 + b.1 <= self.bytes * 3 / 4;
        fit && !self.has_own_node(a.0, a.1) && !self.has_own_node(b.0, b.1)
    }
}
