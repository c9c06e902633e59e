//! The limits at which collections change their encoding, as the settings of the same names have them.
//!
//! The settings may be of any size; what they allow is bounded here. A small collection is searched from its front and made
//! a big one by a single command, which takes a fifth of a microsecond an entry, and several times that on a loaded machine:
//! neither must hold others up for 500 us. So a hash, set or sorted set over `SMALL_ENTRIES_MAX` or `SMALL_BYTES_MAX` is a
//! big one although Redis's OBJECT ENCODING would still say listpack or intset.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

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
    hash_entries: AtomicU64,
    hash_value: AtomicU64,
    set_entries: AtomicU64,
    zset_entries: AtomicU64,
    zset_value: AtomicU64,
}

/// Values for all limits at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `list-max-listpack-size`: -1 to -5 for nodes of 4, 8, 16, 32, 64 KB, or a number of entries.
    pub list_fill: i64,
    /// `list-compress-depth`: nodes at either end that are never compressed; 0 compresses none at all.
    pub list_depth: u64,
    /// `hash-max-listpack-entries`: fields of a packed hash at most.
    pub hash_entries: u64,
    /// `hash-max-listpack-value`: bytes of a field or value in a packed hash at most.
    pub hash_value: u64,
    /// `set-max-intset-entries`: integers in a set of nothing else at most.
    pub set_entries: u64,
    /// `zset-max-listpack-entries`: members of a packed sorted set at most.
    pub zset_entries: u64,
    /// `zset-max-listpack-value`: bytes of a member of a packed sorted set at most.
    pub zset_value: u64,
}

impl Default for Limits {
    /// As Redis 7.0.15.
    fn default() -> Limits {
        Limits {
            list_fill: -2,
            list_depth: 0,
            hash_entries: 512,
            hash_value: 64,
            set_entries: 512,
            zset_entries: 128,
            zset_value: 64,
        }
    }
}

impl Default for Shapes {
    fn default() -> Shapes {
        let l = Limits::default();
        Shapes {
            list_fill: AtomicI64::new(l.list_fill),
            list_depth: AtomicU64::new(l.list_depth),
            list_alone: AtomicU64::new(u64::MAX),
            hash_entries: AtomicU64::new(l.hash_entries),
            hash_value: AtomicU64::new(l.hash_value),
            set_entries: AtomicU64::new(l.set_entries),
            zset_entries: AtomicU64::new(l.zset_entries),
            zset_value: AtomicU64::new(l.zset_value),
        }
    }
}

impl Shapes {
    /// Sets all limits, those of what is small to no more than [`SMALL_ENTRIES_MAX`] and [`SMALL_BYTES_MAX`].
    pub fn set(&self, l: &Limits) {
        self.list_fill.store(l.list_fill, Relaxed);
        self.list_depth.store(l.list_depth, Relaxed);
        self.hash_entries.store(l.hash_entries.min(SMALL_ENTRIES_MAX), Relaxed);
        self.hash_value.store(l.hash_value.min(SMALL_BYTES_MAX as u64), Relaxed);
        self.set_entries.store(l.set_entries.min(SMALL_ENTRIES_MAX), Relaxed);
        self.zset_entries.store(l.zset_entries.min(SMALL_ENTRIES_MAX), Relaxed);
        self.zset_value.store(l.zset_value.min(SMALL_BYTES_MAX as u64), Relaxed);
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

    /// Bytes from which a list's element has a node to itself however large nodes may be: a means of tests, no setting.
    #[inline]
    pub fn list_alone(&self) -> u64 {
        self.list_alone.load(Relaxed)
    }

    /// Sets [`Shapes::list_alone`]; `u64::MAX`, the default, is that of no element.
    pub fn set_list_alone(&self, bytes: u64) {
        self.list_alone.store(bytes, Relaxed);
    }

    /// See [`Limits::hash_entries`].
    #[inline]
    pub fn hash_entries(&self) -> u64 {
        self.hash_entries.load(Relaxed)
    }

    /// See [`Limits::hash_value`].
    #[inline]
    pub fn hash_value(&self) -> u64 {
        self.hash_value.load(Relaxed)
    }

    /// See [`Limits::set_entries`].
    #[inline]
    pub fn set_entries(&self) -> u64 {
        self.set_entries.load(Relaxed)
    }

    /// See [`Limits::zset_entries`].
    #[inline]
    pub fn zset_entries(&self) -> u64 {
        self.zset_entries.load(Relaxed)
    }

    /// See [`Limits::zset_value`].
    #[inline]
    pub fn zset_value(&self) -> u64 {
        self.zset_value.load(Relaxed)
    }
}
