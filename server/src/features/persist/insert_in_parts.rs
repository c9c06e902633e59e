//! Inserting entries of a data set over several turns of a worker, for a moment in each: beside the data that is served, into fresh
//! databases; and where a value is so long that a client would wait for its answer, even for the one that data is being loaded.
//!
//! ```text
//!   batch: taken --> entries, parts of a long value, up to a moment's work --> put back, with the place  --> ... --> done
//!                    a shard that is busy: put back at once
//! ```
//! Nobody sees the keys before all are there, so a key may have a part of its value between two turns. A script may rest with
//! shards held, on this very thread: no shard is waited for.

use std::sync::Arc;

use varve_commands::dump::Insertion;
use varve_rdb::{ReadStep, ValueReader};
use varve_store::{Key, Overdue, StoreWorker, StringForm, Ttl, Tx};

use super::insert::{Fate, Inserted, TWICE, complete, fill, refusal, report_gone};
use super::state::batch::{Batch, Begun, SharedBytes, Value};

/// Entries and parts that one turn inserts: a hundred microseconds, about.
const ENTRIES_MAX: usize = 64;
const PARTS_MAX: usize = 512;
/// Values of more bytes are inserted part by part.
const WHOLE_BYTES: usize = 512;
/// Bytes of a value that is inserted at once which take the time of one part.
const SHORT_PART_BYTES: usize = 8;
/// The work of reading a long value ([`ValueReader::work`]) that takes the time of one part.
const PART_WORK: u64 = 1024;

/// The end of a turn's work at a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Went {
    /// All entries are inserted.
    Whole,
    /// There is more: the batch is put back.
    More,
}

/// Inserts some more of a batch if the gate is open, into the fresh databases where there are any. Gives what was inserted and how far
/// that went.
///
/// # Errors
/// The first entry that cannot be inserted, and why.
pub(super) fn some(batch: &mut Batch, worker: &mut StoreWorker) -> Result<(Inserted, Went), String> {
    let mut inserted = Inserted::default();
    let mut begun = batch.begun.take().unwrap_or_else(|| {
        let bytes = Arc::new(std::mem::take(&mut batch.bytes));
        Box::new(Begun { bytes, ..Begun::default() })
    });
    let done = worker.try_inside(0, |tx| {
        // A key that is loaded is not new to anybody.
        tx.set_overdue(Overdue::Alive);
        tx.keep_events(false);
        let went = entries(batch, &mut begun, tx, &mut inserted);
        tx.keep_events(true);
        went
    });
    batch.begun = Some(begun);
    Ok((inserted, done.unwrap_or(Ok(Went::More))?))
}

fn entries(batch: &Batch, begun: &mut Begun, tx: &mut Tx<'_>, inserted: &mut Inserted) -> Result<Went, String> {
    let mut parts = 0;
    for _ in 0..ENTRIES_MAX {
        let Some(entry) = batch.entries.get(begun.next) else { return Ok(Went::Whole) };
        if parts >= PARTS_MAX {
            return Ok(Went::More);
        }
        let bytes = Arc::clone(&begun.bytes);
        let key = &bytes[entry.key.clone()];
        let fate = one(batch, begun, key, tx, &mut parts).map_err(|reason| refusal(entry, key, &reason))?;
        let Some(fate) = fate else { return Ok(Went::More) };
        inserted.add(fate);
        begun.next += 1;
    }
    Ok(if begun.next == batch.entries.len() { Went::Whole } else { Went::More })
}

/// Inserts the next entry, or a part of it; None if it is not whole, or its shard is busy.
fn one(
    batch: &Batch,
    begun: &mut Begun,
    key: &[u8],
    tx: &mut Tx<'_>,
    parts: &mut usize,
) -> Result<Option<Fate>, String> {
    let entry = &batch.entries[begun.next];
    let db = u32::try_from(entry.db).ok().filter(|db| *db < tx.databases());
    let db = db.ok_or_else(|| format!("database {} of a server that has {}", entry.db, tx.databases()))?;
    let is_beside = tx.store().has_fresh();
    tx.select(if is_beside { tx.store().fresh_database(db) } else { db });
    let k = tx.key(key);
    // A primary says when a key of its data set goes.
    if !is_beside && begun.open.is_none() && entry.expiry_ms.is_some_and(|at| at <= tx.now_ms()) {
        report_gone(tx, &k);
        return Ok(Some(Fate::Expired));
    }
    if !tx.hold_soon(&[tx.shard_of(k.hash)]) {
        return Ok(None);
    }
    if begun.open.is_none() && tx.exists(&k) {
        return Err(TWICE.to_owned());
    }
    let Begun { bytes, open, insertion, .. } = begun;
    let fate = match &entry.value {
        Value::Large(string) => {
            tx.adopt(&k, string, Ttl::Clear, StringForm::Auto);
            Some(Fate::Inserted)
        }
        Value::Raw(value) if value.len() <= WHOLE_BYTES => {
            let reader = ValueReader::new(batch.dialect, entry.type_number, &bytes[value.clone()]);
            let mut reader = reader.map_err(|error| error.to_string())?;
            *parts += 1 + value.len() / SHORT_PART_BYTES;
            Some(fill(tx, &k, &mut reader, insertion)?)
        }
        Value::Raw(value) => {
            if open.is_none() {
                let source = SharedBytes::new(bytes, value.clone());
                let reader = ValueReader::of(batch.dialect, entry.type_number, source, value.len());
                let reader = open.insert(reader.map_err(|error| error.to_string())?);
                insertion.begin(reader.kind()).map_err(|fault| fault.to_string())?;
            }
            let reader = open.as_mut().expect("it was opened");
            go_on(reader, (tx, &k), insertion, parts)?
        }
    };
    match fate {
        Some(fate) => {
            *open = None;
            complete(tx, entry, &k, fate).map(Some)
        }
        None => {
            tx.loaded(&k);
            Ok(None)
        }
    }
}

/// Adds more parts of a value to its key; None if there are more than the turn has time for.
fn go_on(
    reader: &mut ValueReader<SharedBytes>,
    (tx, k): (&mut Tx<'_>, &Key<'_>),
    insertion: &mut Insertion,
    parts: &mut usize,
) -> Result<Option<Fate>, String> {
    let (begin, before) = (reader.work(), *parts);
    let mut taken = 0;
    while *parts < PARTS_MAX {
        match reader.step().map_err(|error| error.to_string())? {
            ReadStep::Part(part) => {
                taken += 1;
                insertion.add(tx, k, part).map_err(|fault| fault.to_string())?;
            }
            ReadStep::More => {}
            ReadStep::End => {
                let parts = insertion.end(tx, k).map_err(|fault| fault.to_string())?;
                return Ok(Some(if parts > 0 { Fate::Inserted } else { Fate::Empty }));
            }
        }
        *parts = before + taken + ((reader.work() - begin) / PART_WORK) as usize;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use varve_rdb::Dialect;
    use varve_store::{Options, Store};
    use varve_testkit::payload::compressed;

    use super::*;
    use crate::features::persist::state::batch::Entry;

    /// A set of one member of 20 MB, which 240 KB of a file expand to: a turn expands a part of it.
    #[test]
    fn issue_11_what_expands_to_much_is_inserted_over_several_turns() {
        const SET: u8 = 2;
        const BYTES: usize = 20 << 20;
        let value = [&[1][..], &compressed(b"a", 1, BYTES - 1, b"")].concat();
        let bytes = [b"k", &value[..]].concat();
        let entry = Entry {
            db: 0,
            key: 0..1,
            value: Value::Raw(1..bytes.len()),
            message_names: Vec::new(),
            type_number: SET,
            expiry_ms: None,
            last_use: None,
            offset: bytes.len() as u64,
        };
        let mut batch = Batch { dialect: Dialect::OURS, bytes, entries: vec![entry], begun: None };
        let store = Store::new(&Options::default()).expect("an address range");
        let (mut worker, mut turns) = (store.worker(0), 1);
        while some(&mut batch, &mut worker).expect("it is sound").1 == Went::More {
            turns += 1;
        }
        assert!((BYTES / (1 << 20)..1000).contains(&turns), "{turns} turns");
        let members = worker.try_inside(0, |tx| {
            let key = tx.key(b"k");
            tx.hold_soon(&[tx.shard_of(key.hash)]).then(|| tx.set_peek(&key).expect("a set").map(|set| set.len()))
        });
        assert_eq!(members, Some(Some(Some(1))));
    }
}
