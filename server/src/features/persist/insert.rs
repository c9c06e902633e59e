//! Inserting entries of a file into the store.
//!
//! ```text
//!   batch: entry --expired? counted, dropped--> key held --value decoded part by part--> operations of its type
//! ```
//! A value is checked as it is decoded, and inserted part by part (`varve_commands::dump::Insertion`).
//!
//! Not here: reading the file (`load.rs`), inserting it over several turns of a worker (`insert_in_parts.rs`).

use varve_commands::dump::{Insertion, idempotence_of};
use varve_rdb::{LastUse, ValueReader};
use varve_store::{
    Again, Effect, EventClass, Key, Overdue, Removal, StoreWorker, StreamNeed, StreamWriter, StringForm, Ttl, Tx,
    Words, WrongType,
};

use super::state::batch::{Batch, Entry, Value};

/// Why a file is refused that names a key twice.
pub(super) const TWICE: &str = "the key comes twice";

/// Entries whose keys' buckets are fetched before the first of them is inserted.
const AHEAD: usize = 16;

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
    /// Collections without elements, which are no keys.
    pub(super) empty: u64,
}

/// The end of an entry's insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is a key now.
    Inserted,
    /// Its time had come.
    Expired,
    /// It has no elements: old servers have written such, by mistakes of theirs.
    Empty,
}

impl Inserted {
    /// Counts an entry.
    pub(super) fn add(&mut self, fate: Fate) {
        match fate {
            Fate::Inserted => self.keys += 1,
            Fate::Expired => self.expired += 1,
            Fate::Empty => self.empty += 1,
        }
    }
}

/// Why an entry cannot be inserted, and where it stands.
pub(super) fn refusal(entry: &Entry, key: &[u8], reason: &str) -> String {
    format!("before byte {}, at key \"{}\": {reason}", entry.offset, key.escape_ascii())
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
    let insert_all = |tx: &mut Tx<'_>| {
        let (mut inserted, mut insertion) = (Inserted::default(), Insertion::default());
        for entries in batch.entries.chunks(AHEAD) {
            entries.iter().for_each(|entry| fetch(tx, batch, entry));
            for entry in entries {
                let key = &batch.bytes[entry.key.clone()];
                let fate = insert_one(batch, entry, key, tx, duplicates, &mut insertion);
                inserted.add(fate.map_err(|reason| refusal(entry, key, &reason))?);
            }
        }
        Ok(inserted)
    };
    let work = |tx: &mut Tx<'_>| {
        // A key that is loaded is not new to anybody. Fields that are due in the file go as soon as it is loaded, like those
        // of any other hash: what goes is reported then.
        tx.set_overdue(Overdue::Alive);
        tx.keep_events(false);
        let inserted = insert_all(tx);
        tx.keep_events(true);
        inserted
    };
    match entering {
        Entering::Inside => worker.inside(0, work),
        Entering::Alone => worker.view(0, work),
    }
}

/// Fetches the bucket of an entry's key into the cache.
fn fetch(tx: &mut Tx<'_>, batch: &Batch, entry: &Entry) {
    if let Some(db) = u32::try_from(entry.db).ok().filter(|db| *db < tx.databases()) {
        let store = tx.store();
        store.prefetch(store.key(db, &batch.bytes[entry.key.clone()]).hash);
    }
}

/// Inserts one entry.
fn insert_one(
    batch: &Batch,
    entry: &Entry,
    key: &[u8],
    tx: &mut Tx<'_>,
    duplicates: Duplicates,
    insertion: &mut Insertion,
) -> Result<Fate, String> {
    let db = u32::try_from(entry.db).ok().filter(|db| *db < tx.databases());
    let db = db.ok_or_else(|| format!("database {} of a server that has {}", entry.db, tx.databases()))?;
    tx.select(db);
    let k = tx.key(key);
    if entry.expiry_ms.is_some_and(|at| at <= tx.now_ms()) {
        report_gone(tx, &k);
        return Ok(Fate::Expired);
    }
    tx.hold(&[tx.shard_of(k.hash)]);
    if tx.exists(&k) {
        if duplicates == Duplicates::Refused {
            return Err(TWICE.to_owned());
        }
        tx.remove(&k);
    }
    let filled = match &entry.value {
        Value::Raw(value) => ValueReader::new(batch.dialect, entry.type_number, &batch.bytes[value.clone()])
            .map_err(|error| error.to_string())
            .and_then(|mut reader| fill(tx, &k, &mut reader, insertion)),
        Value::Large(string) => {
            tx.adopt(&k, string, Ttl::Clear, StringForm::Auto);
            Ok(Fate::Inserted)
        }
    };
    complete(tx, entry, &k, filled?)
}

/// Gives a key whose value is there what else the file says of it.
///
/// # Errors
/// That does not fit the value.
pub(super) fn complete(tx: &mut Tx<'_>, entry: &Entry, k: &Key<'_>, fate: Fate) -> Result<Fate, String> {
    if fate == Fate::Empty {
        tracing::warn!("Loading: skipping empty key: {}", k.bytes.escape_ascii());
        return Ok(fate);
    }
    if !entry.message_names.is_empty() {
        let fields = entry.message_names.iter().map(Vec::as_slice);
        let kept = idempotence_of(fields).ok_or_else(|| "the names of its messages are damaged".to_owned())?;
        let change = |stream: &mut StreamWriter<'_, '_>| stream.change_idempotence(|| kept, |_| ());
        let done = tx.stream_mut_for(k, StreamNeed::Everything, change);
        done.map_err(|WrongType| "names of messages stand before a value that is no stream".to_owned())?;
    }
    if let Some(at) = entry.expiry_ms {
        tx.set_expiry(k, Some(at));
    }
    // The policy of now looks at one of the two; the other one is dropped, which redis-server does too.
    match entry.last_use {
        Some(LastUse::Idle(seconds)) => tx.set_idle(k, seconds),
        Some(LastUse::Freq(counter)) => tx.set_freq(k, counter),
        None => {}
    }
    tx.loaded(k);
    Ok(fate)
}

/// A key is left out, since its time had come: replicas that have it learn of that.
pub(super) fn report_gone(tx: &mut Tx<'_>, k: &Key<'_>) {
    if !tx.has_journal() {
        return;
    }
    tx.hold(&[tx.shard_of(k.hash)]);
    if !tx.exists(k) {
        let word = tx.store().lazyfree().word(Removal::Expired);
        let removes = |words: &mut Words<'_>| _ = words.add(word).add(k.bytes);
        tx.did(k, Effect::quiet(EventClass::Generic, 0, Again::Words(&removes)));
        tx.end_command(&|_| unreachable!("the effect has its words"));
    }
}

/// Makes a key's value of what the reader reads, if that has elements.
pub(super) fn fill(
    tx: &mut Tx<'_>,
    k: &Key<'_>,
    reader: &mut ValueReader<&[u8]>,
    insertion: &mut Insertion,
) -> Result<Fate, String> {
    insertion.begin(reader.kind()).map_err(|fault| fault.to_string())?;
    while let Some(part) = reader.next_part().map_err(|error| error.to_string())? {
        insertion.add(tx, k, part).map_err(|fault| fault.to_string())?;
    }
    let parts = insertion.end(tx, k).map_err(|fault| fault.to_string())?;
    Ok(if parts > 0 { Fate::Inserted } else { Fate::Empty })
}
