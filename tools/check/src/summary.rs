//! The contents of a file in figures.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use varve_rdb::{Dialect, Kind};

/// Figures of the values of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerKind {
    /// Keys.
    pub(crate) keys: u64,
    /// Elements, fields, members; one for a string.
    pub(crate) elements: u64,
    /// Bytes of keys and elements, expanded.
    pub(crate) bytes: u64,
    /// Elements of the value that has most.
    pub(crate) elements_max: u64,
}

/// Figures of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerDatabase {
    /// Keys.
    pub(crate) keys: u64,
    /// Keys that expire.
    pub(crate) volatile: u64,
}

/// A key that is one of the largest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LargeKey {
    /// Bytes of the key and its elements, expanded.
    pub(crate) bytes: u64,
    /// Elements.
    pub(crate) elements: u64,
    /// Its type.
    pub(crate) kind: Kind,
    /// Its database.
    pub(crate) db: u64,
    /// The key.
    pub(crate) key: Vec<u8>,
}

/// When keys expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expiries {
    /// Keys that expire.
    pub(crate) keys: u64,
    /// Keys whose time has come.
    pub(crate) over: u64,
    /// The first and the last time, in milliseconds of Unix time.
    pub(crate) range_ms: Option<(i64, i64)>,
}

/// Where and why a file is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Bytes that were read before it was found.
    pub(crate) offset: u64,
    /// The type of the value, if it is in one.
    pub(crate) type_name: Option<&'static str>,
    /// The key, if it is in the value of one.
    pub(crate) key: Option<Vec<u8>>,
    /// The fault, in words.
    pub(crate) reason: String,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Bytes of the file.
    pub(crate) file_bytes: u64,
    /// Bytes of its RDB part.
    pub(crate) read_bytes: u64,
    /// The server that it is of and the version.
    pub(crate) dialect: Option<Dialect>,
    /// Fields about the file, in order.
    pub(crate) aux: Vec<(Vec<u8>, Vec<u8>)>,
    /// Libraries of functions.
    pub(crate) functions: u64,
    /// Data of modules beside keys.
    pub(crate) module_aux: u64,
    /// Collections without elements, which are no keys.
    pub(crate) empty: u64,
    /// By type.
    pub(crate) kinds: BTreeMap<Kind, PerKind>,
    /// By number.
    pub(crate) databases: BTreeMap<u64, PerDatabase>,
    /// Expiries.
    pub(crate) expiries: Expiries,
    largest: BinaryHeap<Reverse<LargeKey>>,
    largest_max: usize,
    /// Why the file is damaged; the figures are of what stands before.
    pub(crate) fault: Option<Damage>,
}

impl Summary {
    /// A summary that names this number of the largest keys.
    pub(crate) fn new(largest_max: usize) -> Summary {
        Summary { largest_max, ..Summary::default() }
    }

    /// Counts a key, its value read to its end.
    pub(crate) fn add(&mut self, key: LargeKey, expiry_ms: Option<i64>, now_ms: i64) {
        let kind = self.kinds.entry(key.kind).or_default();
        kind.keys += 1;
        kind.elements += key.elements;
        kind.bytes += key.bytes;
        kind.elements_max = kind.elements_max.max(key.elements);
        let database = self.databases.entry(key.db).or_default();
        database.keys += 1;
        if let Some(time) = expiry_ms {
            database.volatile += 1;
            self.expiries.keys += 1;
            self.expiries.over += u64::from(time <= now_ms);
            let (first, last) = self.expiries.range_ms.unwrap_or((time, time));
            self.expiries.range_ms = Some((first.min(time), last.max(time)));
        }
        self.largest.push(Reverse(key));
        if self.largest.len() > self.largest_max {
            self.largest.pop();
        }
    }

    /// The largest keys, the largest first.
    pub(crate) fn largest(&self) -> Vec<&LargeKey> {
        let mut keys: Vec<&LargeKey> = self.largest.iter().map(|Reverse(key)| key).collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        keys
    }

    /// Keys of all types.
    pub(crate) fn keys(&self) -> u64 {
        self.kinds.values().map(|kind| kind.keys).sum()
    }
}
