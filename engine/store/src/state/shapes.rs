//! The limits at which collections change their encoding, as the settings of the same names have them.
//!
//! The settings may be of any size; what they allow is bounded here. A small collection is searched from its front and made
//! a big one by a single command, which takes a fifth of a microsecond an entry, and several times that on a loaded machine:
//! neither must hold others up for 500 us. So a hash, set or sorted set over `SMALL_ENTRIES_MAX` or `SMALL_BYTES_MAX` is a
//! big one although Redis's OBJECT ENCODING would still say listpack or intset.
//!
//! A hash with a field and value of over 32 KB together is a big one too: an element of a leaf may have no more.
//!
//! One that is over the limits of the settings stays in its key's object up to a number of bytes, which is the type's.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use varve_collection::stream::{IdempotenceLimits, NodeLimits};

use super::types::{PerType, SmallLimits, Type};

/// Most fields, integers or members of a small hash, set or sorted set, whatever the settings say.
pub const SMALL_ENTRIES_MAX: u64 = 1024;
/// Most bytes of its entries, and of one of them: with its free room it still is no large value.
pub const SMALL_BYTES_MAX: usize = 192 << 10;

/// Changed by CONFIG SET while workers run; what exists already keeps its encoding until it is written to.
#[derive(Debug)]
pub struct Shapes {
    list_fill: AtomicI64,
    list_depth: AtomicU64,
    list_alone: AtomicU64,
    sketch_bytes: AtomicUsize,
    stream_bytes: AtomicU64,
    stream_entries: AtomicU64,
    message_seconds: AtomicU32,
    message_names: AtomicU32,
    small: PerType<SmallShape>,
}

/// The limits of one type's small values, changed while workers run.
#[derive(Debug)]
pub struct SmallShape {
    entries: AtomicU64,
    value_bytes: AtomicU64,
    outgrown_bytes: AtomicUsize,
}

/// Values for all limits at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `list-max-listpack-size`: -1 to -5 for nodes of 4, 8, 16, 32, 64 KB, or a number of entries.
    pub list_fill: i64,
    /// `list-compress-depth`: nodes at either end that are never compressed; 0 compresses none at all.
    pub list_depth: u64,
    /// `hll-sparse-max-bytes`: most bytes of a HyperLogLog that has runs of registers.
    pub sketch_bytes: usize,
    /// `stream-node-max-bytes` and `stream-node-max-entries`.
    pub stream: NodeLimits,
    /// `stream-idmp-duration` and `stream-idmp-maxsize`, for streams that have no settings of their own.
    pub idempotence: IdempotenceLimits,
    /// For hashes `hash-max-listpack-entries` and `hash-max-listpack-value`, for sets `set-max-intset-entries`, for sorted
    /// sets `zset-max-listpack-entries` and `zset-max-listpack-value`.
    pub small: PerType<SmallLimits>,
}

impl Default for Limits {
    /// As Redis 7.0.15.
    fn default() -> Limits {
        Limits {
            list_fill: -2,
            list_depth: 0,
            sketch_bytes: 3000,
            stream: NodeLimits { bytes: 4096, entries: 100 },
            idempotence: IdempotenceLimits { duration_s: 100, names_max: 100 },
            small: PerType::new(|ty| ty.row().limits),
        }
    }
}

impl Limits {
    /// These limits, with others for the small values of one type.
    #[must_use]
    pub fn with(mut self, ty: Type, entries: u64, value_bytes: u64) -> Limits {
        self.small[ty] = SmallLimits { entries, value_bytes };
        self
    }
}

impl Default for Shapes {
    fn default() -> Shapes {
        let l = Limits::default();
        Shapes {
            list_fill: AtomicI64::new(l.list_fill),
            list_depth: AtomicU64::new(l.list_depth),
            list_alone: AtomicU64::new(u64::MAX),
            sketch_bytes: AtomicUsize::new(l.sketch_bytes),
            stream_bytes: AtomicU64::new(l.stream.bytes),
            stream_entries: AtomicU64::new(l.stream.entries),
            message_seconds: AtomicU32::new(l.idempotence.duration_s),
            message_names: AtomicU32::new(l.idempotence.names_max),
            small: PerType::new(|ty| SmallShape {
                entries: AtomicU64::new(l.small[ty].entries),
                value_bytes: AtomicU64::new(l.small[ty].value_bytes),
                outgrown_bytes: AtomicUsize::new(ty.row().outgrown_bytes_max),
            }),
        }
    }
}

impl Shapes {
    /// Sets all limits, those of what is small to no more than [`SMALL_ENTRIES_MAX`] and [`SMALL_BYTES_MAX`].
    pub fn set(&self, l: &Limits) {
        self.list_fill.store(l.list_fill, Relaxed);
        self.list_depth.store(l.list_depth, Relaxed);
        self.sketch_bytes.store(l.sketch_bytes, Relaxed);
        self.stream_bytes.store(l.stream.bytes, Relaxed);
        self.stream_entries.store(l.stream.entries, Relaxed);
        self.message_seconds.store(l.idempotence.duration_s, Relaxed);
        self.message_names.store(l.idempotence.names_max, Relaxed);
        for ty in Type::ALL {
            let (shape, limits) = (&self.small[ty], l.small[ty]);
            shape.entries.store(limits.entries.min(SMALL_ENTRIES_MAX), Relaxed);
            shape.value_bytes.store(limits.value_bytes.min(SMALL_BYTES_MAX as u64), Relaxed);
        }
    }

    /// See [`Limits::list_fill`].
    #[inline]
    pub fn list_fill(&self) -> i64 {
        self.list_fill.load(Relaxed)
    }

    /// See [`Limits::list_depth`].
    #[inline]
    pub fn list_depth(&self) -> u64 {
        self.list_depth.load(Relaxed)
    }

    /// See [`Limits::sketch_bytes`].
    #[inline]
    pub fn sketch_bytes(&self) -> usize {
        self.sketch_bytes.load(Relaxed)
    }

    /// See [`Limits::stream`].
    #[inline]
    pub fn stream(&self) -> NodeLimits {
        NodeLimits { bytes: self.stream_bytes.load(Relaxed), entries: self.stream_entries.load(Relaxed) }
    }

    /// See [`Limits::idempotence`].
    pub fn idempotence(&self) -> IdempotenceLimits {
        let (seconds, names) = (self.message_seconds.load(Relaxed), self.message_names.load(Relaxed));
        IdempotenceLimits { duration_s: seconds, names_max: names }
    }

    /// Bytes from which a list's element has a node to itself however large nodes may be: a means of tests, no setting.
    #[inline]
    pub fn list_alone(&self) -> u64 {
        self.list_alone.load(Relaxed)
    }

    /// Sets [`Shapes::list_alone`]; `u64::MAX`, the default, is that of no element.
    pub fn set_list_alone(&self, bytes: u64) {
        self.list_alone.store(bytes, Relaxed);
    }

    /// The limits of a type's small values.
    #[inline(always)]
    pub fn small(&self, ty: Type) -> &SmallShape {
        &self.small[ty]
    }
}

impl SmallShape {
    /// See [`SmallLimits::entries`].
    #[inline]
    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// See [`SmallLimits::value_bytes`].
    #[inline]
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes.load(Relaxed)
    }

    /// Most bytes of a value beyond the limits, its free room not counted, that lies in the key's own object.
    #[inline]
    pub(crate) fn outgrown_bytes(&self) -> usize {
        self.outgrown_bytes.load(Relaxed)
    }

    /// Sets [`SmallShape::outgrown_bytes`], to no more than [`SMALL_BYTES_MAX`]: a means of tests, no setting.
    pub fn set_outgrown_bytes(&self, bytes: usize) {
        self.outgrown_bytes.store(bytes.min(SMALL_BYTES_MAX), Relaxed);
    }
}
