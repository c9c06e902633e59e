//! Inserting entries of a file into the store.
//!
//! ```text
//!   batch: entry --expired? counted, dropped--> key held --value decoded part by part--> operations of its type
//! ```
//! Parts of a collection go in by some hundreds, so that a collection of millions needs no memory beside its own. A value
//! is checked as it is decoded; an element that comes twice is refused here.
//!
//! Not here: reading the file (`load.rs`).

use varve_rdb::{Kind, Part, ValueReader};
use varve_store::{Key, ListEnd, StoreWorker, StringForm, Ttl, Tx, ZAdd, ZAdded};

use super::state::batch::{Batch, Entry};

/// Parts of a collection that go in at once, and their bytes.
const PARTS_MAX: usize = 512;
const PARTS_BYTES: usize = 64 << 10;

/// The fate of a key that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duplicates {
    /// The file is refused: it names a key twice.
    Refused,
    /// The file's value takes its place.
    Replaced,
}

/// How an insertion enters the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entering {
    /// The worker is outside.
    Inside,
    /// The worker is alone behind the gate.
    Alone,
}

/// Numbers of keys of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inserted {
    pub(super) keys: u64,
    /// Keys whose time had come, and that are not there.
    pub(super) expired: u64,
}

/// Inserts the entries of a batch.
///
/// # Errors
/// The first entry that cannot be inserted, and why.
pub(super) fn insert(
    batch: &Batch,
    worker: &mut StoreWorker,
    entering: Entering,
    duplicates: Duplicates,
) -> Result<Inserted, String> {
    let work = |tx: &mut Tx<'_>| {
        let (mut inserted, mut parts) = (Inserted::default(), Parts::default());
        for entry in &batch.entries {
            let key = &batch.bytes[entry.key.clone()];
            let new = insert_one(batch, entry, key, tx, duplicates, &mut parts).map_err(|reason| {
                format!("before byte {}, at key \"{}\": {reason}", entry.offset, key.escape_ascii())
            })?;
            inserted.keys += u64::from(new);
            inserted.expired += u64::from(!new);
        }
        Ok(inserted)
    };
    match entering {
        Entering::Inside => worker.inside(0, work),
        Entering::Alone => worker.view(0, work),
    }
}

/// Inserts one entry; false if its time had come.
fn insert_one(
    batch: &Batch,
    entry: &Entry,
    key: &[u8],
    tx: &mut Tx<'_>,
    duplicates: Duplicates,
    parts: &mut Parts,
) -> Result<bool, String> {
    let db = u32::try_from(entry.db).ok().filter(|db| *db < tx.databases());
    let db = db.ok_or_else(|| format!("database {} of a server that has {}", entry.db, tx.databases()))?;
    if entry.expiry_ms.is_some_and(|at| at <= tx.now_ms()) {
        return Ok(false);
    }
    tx.select(db);
    let k = tx.key(key);
    tx.hold(&[tx.shard_of(k.hash)]);
    if tx.exists(&k) {
        if duplicates == Duplicates::Refused {
            return Err("the key comes twice".to_owned());
        }
        tx.remove(&k);
    }
    let value = &batch.bytes[entry.value.clone()];
    let filled = ValueReader::new(batch.dialect, entry.type_number, value)
        .map_err(|error| error.to_string())
        .and_then(|mut reader| fill(tx, &k, &mut reader, parts));
    if filled.is_ok()
        && let Some(at) = entry.expiry_ms
    {
        tx.set_expiry(&k, Some(at));
    }
    tx.loaded(&k);
    filled.map(|()| true)
}

/// Makes a key's value of what the reader reads.
fn fill(tx: &mut Tx<'_>, k: &Key<'_>, reader: &mut ValueReader<'_>, parts: &mut Parts) -> Result<(), String> {
    let kind = reader.kind();
    loop {
        let part = reader.next_part().map_err(|error| error.to_string())?;
        let ended = part.is_none();
        match part {
            None => {}
            Some(Part::Whole(text)) => tx.set(k, text, Ttl::Clear, StringForm::Auto),
            Some(Part::Element(element)) => parts.add(element, b"", 0.0),
            Some(Part::Pair(field, value)) => parts.add(field, value, 0.0),
            Some(Part::Scored(member, score)) => parts.add(member, b"", score),
            Some(Part::DatedPair(..)) => return Err("a hash field that expires, which there is not yet".to_owned()),
        }
        if ended || parts.is_full() {
            let flushed = parts.flush(tx, k, kind);
            parts.clear();
            flushed?;
        }
        if ended {
            return Ok(());
        }
    }
}

/// Parts of a collection on their way into it.
#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    /// Where each part ends: its first text, its second, and its score.
    ends: Vec<(usize, usize, f64)>,
}

impl Parts {
    fn add(&mut self, first: &[u8], second: &[u8], score: f64) {
        self.bytes.extend_from_slice(first);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(second);
        self.ends.push((end, self.bytes.len(), score));
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= PARTS_MAX || self.bytes.len() >= PARTS_BYTES
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * PARTS_BYTES);
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], f64)> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end, _)| *end));
        starts
            .zip(&self.ends)
            .map(|(start, &(middle, end, score))| (&self.bytes[start..middle], &self.bytes[middle..end], score))
    }

    /// Adds the parts to the key.
    fn flush(&self, tx: &mut Tx<'_>, k: &Key<'_>, kind: Kind) -> Result<(), String> {
        let firsts = || self.iter().map(|(first, ..)| first);
        let count = self.ends.len();
        if count == 0 {
            return Ok(());
        }
        let other = |_| "the key changed its type while it was loaded".to_owned();
        let new = match kind {
            Kind::List => tx.list_push(k, ListEnd::Back, firsts(), false).map(|_| count).map_err(other)?,
            Kind::Set => tx.set_add(k, firsts()).map_err(other)?,
            Kind::Hash => tx.hash_set(k, self.iter().map(|(field, value, _)| (field, value))).map_err(other)?,
            Kind::Zset => {
                let mut new = 0;
                for (member, _, score) in self.iter() {
                    let added = tx.zset_add(k, member, score, ZAdd::default()).map_err(other)?;
                    new += usize::from(matches!(added, ZAdded::Added(_)));
                }
                new
            }
            Kind::String | Kind::Stream | Kind::Module => unreachable!("no parts"),
        };
        if new == count { Ok(()) } else { Err("an element comes twice".to_owned()) }
    }
}
