//! LREM and LINSERT in long lists, part by part, while the list is occupied.
//!
//! ```text
//!   LREM     some nodes compared, their matches removed --> reported as an LREM of as many --> the next nodes ..
//!   LINSERT  a reader compares .. until a match is found --> the element is put beside it
//! ```
//! Elements that were compared and stay cannot match later: the LREM of a part, done again on the list as it was before this
//! part, removes the same. The effects of all parts go to the journal together, at the end. Not here: short lists, and matches near the end from which the search goes (`middle`).

use varve_exec::notify::{self, Class, Effect, Words};
use varve_exec::{CmdResult, Ctx, Occupied, OccupiedWork, Progress, WhileOccupied};
use varve_protocol::Reply;
use varve_store::{Key, ListEnd, ListReader, ListSearch, ReadOn, RemovalPart, RemovedPart, Tx};

/// This number of elements is compared in the time in which one is shown. Where all of them match, their removal takes some
/// tenths of a millisecond.
const COMPARED_EACH: u64 = 4;

/// The wish of an LREM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal<'a> {
    pub(super) element: &'a [u8],
    /// Elements to remove at most.
    pub(super) count: u64,
    pub(super) from: ListEnd,
}

/// Runs LREM; in a long list its first part, behind which it goes on.
pub(super) fn remove(ctx: &mut Ctx<'_, '_>, removal: Removal<'_>) -> CmdResult {
    let key = ctx.key(1);
    let Removal { element, count, from } = removal;
    let compare = if ctx.session.takes_parts() { compared_at_once(&ctx.tx) } else { u64::MAX };
    if ctx.gives_way() && ctx.tx.list_len(&key)? > compare {
        return ctx.put_back();
    }
    let first = RemovalPart { passed: 0, compare };
    let RemovedPart { removed, passed } = ctx.tx.list_remove_some(&key, element, (count, from), first)?;
    let Some(passed) = passed else {
        if removed > 0 {
            ctx.did_taken(&key, Effect::sent(Class::List, "lrem", removed));
        }
        ctx.out.integer(removed as i64);
        return Ok(());
    };
    did_remove_some(&mut ctx.tx, &key, removal, removed, "lrem");
    let occupied = Occupied::begin(&mut ctx.tx, &key).expect("a command that writes finds no frozen key");
    let (name, element, left) = (key.bytes.into(), element.into(), count - removed);
    let work = RestOfRemoval { name, element, from, left, removed, passed };
    ctx.go_on_behind(Box::new(WhileOccupied { occupied, work }));
    Ok(())
}

fn compared_at_once(tx: &Tx<'_>) -> u64 {
    tx.hold_elements() * COMPARED_EACH
}

/// Reports the elements that a part has removed.
fn did_remove_some(tx: &mut Tx<'_>, key: &Key<'_>, removal: Removal<'_>, removed: u64, event: &'static str) {
    if removed > 0 {
        let sign = if removal.from == ListEnd::Front { 1 } else { -1 };
        let words = |words: &mut Words<'_>| {
            words.add(b"LREM").add(key.bytes).number(sign * removed as i64).add(removal.element);
        };
        notify::did_taken(tx, key, Effect::words(Class::List, event, removed, &words));
    }
}

/// The part of an LREM that is still to be done.
struct RestOfRemoval {
    name: Box<[u8]>,
    element: Box<[u8]>,
    from: ListEnd,
    /// Elements to remove at most.
    left: u64,
    removed: u64,
    /// Elements that were compared and are still there.
    passed: u64,
}

impl OccupiedWork for RestOfRemoval {
    fn part(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let RestOfRemoval { name, element, from, left, removed, passed } = self;
        let key = tx.key(name);
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        let part = RemovalPart { passed: *passed, compare: compared_at_once(tx) };
        // Another type is there if databases were exchanged meanwhile: nothing is left to do then.
        let done = tx.list_remove_some(&key, element, (*left, *from), part);
        let RemovedPart { removed: gone, passed: next } = done.unwrap_or(RemovedPart { removed: 0, passed: None });
        let event = if *removed == 0 { "lrem" } else { "" };
        did_remove_some(tx, &key, Removal { element, count: *left, from: *from }, gone, event);
        (*left, *removed) = (*left - gone, *removed + gone);
        if let Some(next) = next {
            *passed = next;
            return Progress::More;
        }
        occupied.end(tx, &key);
        out.integer(*removed as i64);
        Progress::Done
    }

    fn held_bytes(&self) -> usize {
        self.name.len() + self.element.len()
    }
}

/// Begins an LINSERT over several turns; false, and nothing is done, if the list is short or a match is near.
///
/// # Errors
/// It is put back ([`Ctx::gives_way`]).
pub(super) fn insert_in_parts(ctx: &mut Ctx<'_, '_>, before: bool) -> CmdResult<bool> {
    let (key, pivot, element) = (ctx.key(1), ctx.args.get(3), ctx.args.get(4));
    if !ctx.session.takes_parts() {
        return Ok(false);
    }
    let near = Some((0, ctx.tx.hold_elements()));
    let Some((reader, len)) = ctx.tx.begin_list_search(&key, (pivot, ListEnd::Front), near) else { return Ok(false) };
    if ctx.gives_way() {
        return ctx.put_back().map(|()| true);
    }
    let Some(occupied) = Occupied::begin(&mut ctx.tx, &key) else { return Ok(false) };
    let search = ListSearch { needle: pivot.to_vec(), skip: 0, count: 1, compare: u64::MAX, len, compared: 0 };
    let (name, element) = (key.bytes.into(), element.into());
    let work = RestOfInsertion { name, element, before, reader: Some(reader), search, found: None };
    ctx.go_on_behind(Box::new(WhileOccupied { occupied, work }));
    Ok(true)
}

/// An LINSERT that searches.
struct RestOfInsertion {
    name: Box<[u8]>,
    element: Box<[u8]>,
    before: bool,
    /// The reader until it has found a match, or come to the end.
    reader: Option<ListReader>,
    search: ListSearch,
    found: Option<u64>,
}

impl RestOfInsertion {
    /// The search has ended: inserts the element, and replies.
    fn insert(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        tx.release();
        if let Err(refusal) = tx.admit((self.element.len() + ELEMENT_BYTES) as u64) {
            return refusal.into();
        }
        let key = tx.key(&self.name);
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        occupied.end(tx, &key);
        let Some(at) = self.found else {
            out.integer(-1);
            return Progress::Done;
        };
        match tx.list_insert_beside(&key, (at, &self.search.needle), self.before, &self.element) {
            Ok(Some(length)) => {
                tx.did(&key, Effect::sent(Class::List, "linsert", 1));
                out.integer(length as i64);
                Progress::Done
            }
            // The key has expired or was evicted, or databases were emptied or exchanged.
            _ => Progress::Anew,
        }
    }
}

/// Bytes that an element takes at most beside its own, its node being written anew among them.
const ELEMENT_BYTES: usize = 16 << 10;

impl OccupiedWork for RestOfInsertion {
    fn part(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let RestOfInsertion { reader, search, found, .. } = self;
        let Some(reading) = reader else { return self.insert(occupied, tx, out) };
        match tx.search_on(reading, search, |at| *found = Some(at)) {
            ReadOn::Busy => return Progress::Busy,
            ReadOn::More(_) => {}
            ReadOn::All => *reader = None,
        }
        Progress::More
    }

    fn held_bytes(&self) -> usize {
        self.name.len() + self.element.len() + self.search.needle.capacity()
    }

    fn kept_bytes(&self) -> usize {
        self.reader.as_ref().map_or(0, ListReader::kept_bytes)
    }
}
