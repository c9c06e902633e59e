//! Effects as bytes: the stream that redis-server sends to its replicas and appends to its file.
//!
//! ```text
//!  Unit of one effect            SELECT 3   SET k v
//!  Unit of several               SELECT 3   MULTI   SET k v   SELECT 4   DEL k   EXEC
//! ```
//! An effect that is for replicas alone, or for the file alone, stands among the others, in its transaction: the chunk has it apart.
//! A SELECT stands where the database changes, before the MULTI of a unit. The name of a message, which a Redis 7.0 does not know,
//! stands behind the unit. Not here: where the bytes go.

use varve_aof::{put_head, put_request, put_word, select};
use varve_store::{Audience, Unit};

use super::chunk::Chunk;

/// The command that notes a message's name.
const NAME_NOTED: &[u8] = b"XIDMPRECORD";

/// Commands that may stand between a message's addition and the note of its name.
const BETWEEN: &[&[u8]] = &[b"XADD", b"PUBLISH", b"SPUBLISH"];

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
        rendered.parts().for_each(|part| out.extend_from_slice(&part));
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
    let (apart, mut databases) = (apart(unit), None);
    let together = unit.len() - apart.len();
    put_effects(unit, out, &mut databases, together > 1, |nth| apart.binary_search(&nth).is_err());
    if together > 1 {
        put_request(&mut out.bytes, [b"EXEC".as_slice()].into_iter());
    }
    if !apart.is_empty() {
        put_effects(unit, out, &mut databases, false, |nth| apart.binary_search(&nth).is_ok());
    }
    databases.expect("a unit has an effect")
}

/// Appends a unit to `out` that is a part of a transaction: its reader has selected the last one of `databases`, or, without them,
/// the database of its first effect.
pub(super) fn render_part(unit: &Unit, out: &mut Chunk, databases: &mut Option<Databases>) {
    debug_assert!(apart(unit).is_empty(), "what stands apart is no part of a transaction");
    put_effects(unit, out, databases, false, |_| true);
}

/// The numbers of the effects that stand behind the others, each by itself: those that note a message's name. A Redis 7.0 does not
/// know them, and would refuse the whole transaction. Additions of entries may stand between, and messages; other effects may not.
fn apart(unit: &Unit) -> Vec<usize> {
    let names = || unit.effects().filter_map(|(_, mut words)| words.next());
    if unit.len() == 1 || !names().any(|name| name == NAME_NOTED) {
        return Vec::new();
    }
    let mut apart = Vec::new();
    for (nth, name) in names().enumerate() {
        if name == NAME_NOTED {
            apart.push(nth);
        } else if !BETWEEN.iter().any(|between| name.eq_ignore_ascii_case(between)) {
            apart.clear();
        }
    }
    apart
}

/// Appends the effects whose numbers are wanted, behind a MULTI if they are `grouped`.
fn put_effects(
    unit: &Unit,
    out: &mut Chunk,
    databases: &mut Option<Databases>,
    grouped: bool,
    is_wanted: impl Fn(usize) -> bool,
) {
    for (nth, (db, words)) in unit.effects().enumerate().filter(|(nth, _)| is_wanted(*nth)) {
        match databases {
            None => {
                *databases = Some(Databases { first: db, last: db });
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
        match unit.audience(nth) {
            Audience::All => put_effect(unit, words, out),
            Audience::Stream => {
                let from = out.len();
                put_effect(unit, words, out);
                out.set_apart(from);
            }
            Audience::File => {
                let mut own = Vec::new();
                put_request(&mut own, words);
                out.put_own(own);
            }
            Audience::Nobody => unreachable!("what is for nobody is in no unit"),
        }
    }
}

/// Appends an effect. A word that lies in a large argument is not copied.
fn put_effect<'u>(unit: &'u Unit, words: impl ExactSizeIterator<Item = &'u [u8]>, out: &mut Chunk) {
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
