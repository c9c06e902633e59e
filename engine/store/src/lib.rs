//! The keyspace: shards, gate, strings, expiry, eviction.
//!
//! This first cut fixes the face that commands see ([`Tx`], [`Store`], [`Worker`]) over a plain ordered map; the
//! segments and the index take the map's place behind the same face.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A key with what was computed of it: its hash and its physical database.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// The key's bytes.
    pub bytes: &'k [u8],
    /// The 64-bit hash, database mixed in.
    pub hash: u64,
    /// The physical database number.
    pub db: u16,
}

/// What a write does to a key's time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// The key has no expiry afterwards.
    Clear,
    /// The key keeps the expiry that it has.
    Keep,
    /// The key expires at this time, in milliseconds of Unix time.
    At(i64),
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Type {
    String,
    List,
    Hash,
    Set,
    Zset,
    Stream,
}

impl Type {
    /// The name that TYPE answers.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Hash => "hash",
            Type::Set => "set",
            Type::Zset => "zset",
            Type::Stream => "stream",
        }
    }
}

/// How OBJECT ENCODING sees a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `int` if it parses as one, else `embstr` up to 44 bytes, else `raw`.
    Auto,
    /// Never `int`.
    Plain,
    /// Always `raw`.
    Raw,
}

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// What OBJECT, MEMORY USAGE and DEBUG OBJECT tell of a key.
#[derive(Clone, Debug)]
pub struct ObjectInfo {
    /// Type of the value.
    pub ty: Type,
    /// Name of the encoding, as Redis 7.0.15 names it.
    pub encoding: &'static str,
    /// Seconds since the last access (policies other than LFU).
    pub idle_s: u64,
    /// Logarithmic access counter (LFU policies).
    pub freq: u8,
    /// Bytes in segments and index.
    pub bytes: usize,
    /// Length of the serialised value, as DEBUG OBJECT tells it.
    pub serialized_bytes: usize,
}

type Map = BTreeMap<(u16, Vec<u8>), (Vec<u8>, Option<i64>, Form)>;

/// The whole store, shared by all workers.
#[derive(Debug)]
pub struct Store {
    map: Mutex<Map>,
    databases: u32,
}

/// What one worker brings along: its appender, its statistics, its random numbers.
#[derive(Debug)]
pub struct Worker {
    /// The store that it works on.
    pub store: Arc<Store>,
    /// Milliseconds of Unix time, read once a batch.
    pub now_ms: i64,
}

/// One command's view of the keyspace: the shards of its keys are held.
#[derive(Debug)]
pub struct Tx<'a> {
    map: MutexGuard<'a, Map>,
    store: &'a Store,
    now_ms: i64,
    db: u32,
}

impl Store {
    /// A store with so many databases.
    pub fn new(databases: u32) -> Store {
        Store { map: Mutex::default(), databases }
    }

    /// Number of keys in a database, expired ones included until they are removed.
    pub fn len(&self, db: u32) -> u64 {
        self.map.lock().unwrap().keys().filter(|k| u32::from(k.0) == db).count() as u64
    }

    /// True if a database holds no key.
    pub fn is_empty(&self, db: u32) -> bool {
        self.len(db) == 0
    }

    /// SCAN's step: emits some keys from `cursor` on and gives the next cursor, 0 at the end.
    pub fn scan(&self, w: &mut Worker, db: u32, cursor: u64, count: usize, emit: &mut dyn FnMut(&[u8], Type)) -> u64 {
        let map = self.map.lock().unwrap();
        let live = map.iter().filter(|(k, v)| u32::from(k.0) == db && v.1.is_none_or(|t| t > w.now_ms));
        let mut n = 0;
        for (k, _) in live.skip(cursor as usize).take(count) {
            emit(&k.1, Type::String);
            n += 1;
        }
        if n < count { 0 } else { cursor + n as u64 }
    }

    /// Visits every key of a database: key, type, expiry.
    pub fn for_each_key(&self, w: &mut Worker, db: u32, emit: &mut dyn FnMut(&[u8], Type, Option<i64>)) {
        let map = self.map.lock().unwrap();
        for (k, v) in map.iter().filter(|(k, v)| u32::from(k.0) == db && v.1.is_none_or(|t| t > w.now_ms)) {
            emit(&k.1, Type::String, v.1);
        }
    }

    /// A key at random, None in an empty database.
    pub fn random_key(&self, w: &mut Worker, db: u32) -> Option<Vec<u8>> {
        let mut key = None;
        self.for_each_key(w, db, &mut |k, _, _| key = Some(k.to_vec()));
        key
    }

    /// Empties a database.
    pub fn flush_db(&self, _w: &mut Worker, db: u32) {
        self.map.lock().unwrap().retain(|k, _| u32::from(k.0) != db);
    }

    /// Empties every database.
    pub fn flush_all(&self, _w: &mut Worker) {
        self.map.lock().unwrap().clear();
    }

    /// Swaps two databases.
    pub fn swap_db(&self, a: u32, b: u32) {
        let mut map = self.map.lock().unwrap();
        let swap = |d: u16| match u32::from(d) {
            d if d == a => b as u16,
            d if d == b => a as u16,
            d => d as u16,
        };
        *map = std::mem::take(&mut *map).into_iter().map(|((d, k), v)| ((swap(d), k), v)).collect();
    }

    /// Number of databases.
    pub fn databases(&self) -> u32 {
        self.databases
    }
}

impl<'a> Tx<'a> {
    /// A view for one command on the selected database.
    pub fn new(store: &'a Store, now_ms: i64, db: u32) -> Tx<'a> {
        Tx { map: store.map.lock().unwrap(), store, now_ms, db }
    }

    /// The batch's time, milliseconds of Unix time.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The selected (logical) database.
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Number of databases.
    pub fn databases(&self) -> u32 {
        self.store.databases
    }

    /// The key of these bytes in the selected database.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key_in(self.db, bytes)
    }

    /// The key of these bytes in a (logical) database.
    pub fn key_in<'k>(&self, db: u32, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: 0, db: db as u16 }
    }

    fn live(&mut self, k: &Key<'_>) -> Option<&mut (Vec<u8>, Option<i64>, Form)> {
        let id = (k.db, k.bytes.to_vec());
        if self.map.get(&id).is_some_and(|v| v.1.is_some_and(|t| t <= self.now_ms)) {
            self.map.remove(&id);
        }
        self.map.get_mut(&id)
    }

    /// The type of a key's value; no hit or miss is counted, the access clock stays.
    pub fn type_of(&mut self, k: &Key<'_>) -> Option<Type> {
        self.live(k).map(|_| Type::String)
    }

    /// True if the key exists; no hit or miss is counted, the access clock stays.
    pub fn exists(&mut self, k: &Key<'_>) -> bool {
        self.live(k).is_some()
    }

    /// True if the key exists; counts a hit or miss and moves the access clock.
    pub fn touch(&mut self, k: &Key<'_>) -> bool {
        self.live(k).is_some()
    }

    /// A string for a reader: counts a hit or miss and moves the access clock.
    pub fn get(&mut self, k: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        Ok(self.live(k).map(|v| v.0.as_slice()))
    }

    /// A string for a writer: no hit or miss is counted.
    pub fn peek(&mut self, k: &Key<'_>) -> Result<Option<&[u8]>, WrongType> {
        Ok(self.live(k).map(|v| v.0.as_slice()))
    }

    /// Sets a string, whatever the key held.
    pub fn set(&mut self, k: &Key<'_>, value: &[u8], ttl: Ttl, form: Form) {
        let old = self.live(k).and_then(|v| v.1);
        let at = match ttl {
            Ttl::Clear => None,
            Ttl::Keep => old,
            Ttl::At(t) => Some(t),
        };
        self.map.insert((k.db, k.bytes.to_vec()), (value.to_vec(), at, form));
    }

    /// Appends to a string, made empty first if absent; gives the new length in bytes.
    pub fn append(&mut self, k: &Key<'_>, tail: &[u8]) -> Result<usize, WrongType> {
        let old = self.live(k).map(|v| v.0.len());
        let Some(n) = old else {
            self.set(k, tail, Ttl::Clear, Form::Auto);
            return Ok(tail.len());
        };
        let v = self.live(k).expect("just seen");
        v.0.extend_from_slice(tail);
        v.2 = Form::Raw;
        Ok(n + tail.len())
    }

    /// Overwrites part of a string from `offset` on, zero-filled up to there; gives the new length in bytes.
    pub fn set_range(&mut self, k: &Key<'_>, offset: usize, part: &[u8]) -> Result<usize, WrongType> {
        if self.live(k).is_none() {
            self.set(k, b"", Ttl::Clear, Form::Raw);
        }
        let v = self.live(k).expect("just made");
        v.2 = Form::Raw;
        let end = offset + part.len();
        if v.0.len() < end {
            v.0.resize(end, 0);
        }
        v.0[offset..end].copy_from_slice(part);
        Ok(v.0.len())
    }

    /// Removes a key; true if it was there.
    pub fn remove(&mut self, k: &Key<'_>) -> bool {
        self.live(k).is_some() && self.map.remove(&(k.db, k.bytes.to_vec())).is_some()
    }

    /// The key's expiry in milliseconds of Unix time: `None` without the key, `Some(None)` without expiry.
    pub fn expiry(&mut self, k: &Key<'_>) -> Option<Option<i64>> {
        self.live(k).map(|v| v.1)
    }

    /// Sets or clears the key's expiry; false without the key.
    pub fn set_expiry(&mut self, k: &Key<'_>, at: Option<i64>) -> bool {
        self.live(k).map(|v| v.1 = at).is_some()
    }

    /// Moves a key's value and expiry to another key, which is replaced; false without the source.
    pub fn rename(&mut self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let copied = self.copy(from, to);
        if copied && (from.db, from.bytes) != (to.db, to.bytes) {
            self.remove(from);
        }
        copied
    }

    /// Copies a key's value and expiry to another key, which is replaced; false without the source.
    pub fn copy(&mut self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let Some(v) = self.live(from).map(|v| v.clone()) else { return false };
        self.map.insert((to.db, to.bytes.to_vec()), v);
        true
    }

    /// What OBJECT and MEMORY USAGE tell of a key; the access clock stays.
    pub fn object(&mut self, k: &Key<'_>) -> Option<ObjectInfo> {
        let v = self.live(k)?;
        let n = v.0.len();
        let int = std::str::from_utf8(&v.0).ok().and_then(|s| s.parse::<i64>().ok().filter(|i| i.to_string() == s));
        let encoding = match v.2 {
            Form::Auto if int.is_some() => "int",
            Form::Auto | Form::Plain if n <= 44 => "embstr",
            _ => "raw",
        };
        Some(ObjectInfo { ty: Type::String, encoding, idle_s: 0, freq: 0, bytes: n + 24, serialized_bytes: n + 1 })
    }
}

/// What the segment log tells of itself.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "as in the segment log, which takes this place")]
pub struct LogStats {
    pub used_bytes: u64,
    pub live_bytes: u64,
    pub live_objects: u64,
    pub segments: u32,
    pub open_segments: u32,
    pub free_segments: u32,
    pub runs: u32,
    pub run_segments: u32,
    pub opened_bytes: u64,
    pub table_bytes: u64,
}

/// The log's face while there is a map in its place.
#[derive(Clone, Copy, Debug)]
pub struct Log;

impl Log {
    /// All zero.
    pub fn stats(self) -> LogStats {
        LogStats::default()
    }

    /// Nothing is ever left to release.
    pub fn release_step(self, _bytes: usize) -> bool {
        false
    }
}

impl Store {
    /// Bytes that `maxmemory` bounds: the map does not know them.
    pub fn used_memory(&self) -> u64 {
        0
    }

    /// The log.
    pub fn log(&self) -> Log {
        Log
    }
}
