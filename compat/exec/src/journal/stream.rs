//! Effects as bytes: the stream that redis-server sends to its replicas and appends to its file.
//!
//! ```text
//!  Unit of one effect            SELECT 3   SET k v
//!  Unit of several               SELECT 3   MULTI   SET k v   SELECT 4   DEL k   EXEC
//! ```
//! A SELECT stands where the database changes, before the MULTI of a unit. Not here: where the bytes go.

use varve_aof::{put_head, put_request, put_word, select};
use varve_store::Unit;

use super::chunk::Chunk;

/// Writes units one behind the other, and knows the database that the reader has selected.
#[derive(Debug, Default)]
pub struct EffectStream {
    /// None before the first effect: the reader's database is not known.
    db: Option<u32>,
}

impl EffectStream {
    /// Appends a unit to `out`, as requests in RESP.
    pub fn append(&mut self, unit: &Unit, out: &mut Vec<u8>) {
        let mut rendered = Chunk::default();
        let spans = render(unit, &mut rendered);
        if self.db != Some(spans.first) {
            select(spans.first, out);
        }
        self.db = Some(spans.last);
        rendered.parts().for_each(|part| out.extend_from_slice(part));
    }

    /// The database that a reader of all that was written has selected; None if that is not known.
    pub(super) fn db(&self) -> Option<u32> {
        self.db
    }

    /// The last request that was written has left the reader in this database.
    pub(super) fn follow(&mut self, db: u32) {
        self.db = Some(db);
    }
}

/// The databases of a unit's first and last effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Databases {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// Appends a unit to `out` for a reader that has the database of its first effect selected. The unit is not empty.
/// A word that lies in a large argument is not copied.
pub(super) fn render(unit: &Unit, out: &mut Chunk) -> Databases {
    let grouped = unit.len() > 1;
    let mut databases = None;
    for (db, words) in unit.effects() {
        match &mut databases {
            None => {
                databases = Some(Databases { first: db, last: db });
                if grouped {
                    put_request(&mut out.bytes, [b"MULTI".as_slice()].into_iter());
                }
            }
            Some(databases) if databases.last != db => {
                databases.last = db;
                select(db, &mut out.bytes);
            }
            Some(_) => {}
        }
        put_head(&mut out.bytes, b'*', words.len());
        for word in words {
            match unit.pin_of(word) {
                None => put_word(&mut out.bytes, word),
                Some(pin) => {
                    put_head(&mut out.bytes, b'$', word.len());
                    out.pin(pin);
                    out.bytes.extend_from_slice(b"\r\n");
                }
            }
        }
    }
    if grouped {
        put_request(&mut out.bytes, [b"EXEC".as_slice()].into_iter());
    }
    databases.expect("a unit has an effect")
}
