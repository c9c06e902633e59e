//! The prefetcher: under `try_lock`, what a turn's commands are about to touch comes into the cache, in passes over all of
//! them, so that the waits for memory overlap.
//!
//! ```text
//! pass:   find, find, find, ...      places, noted: each reads what the pass before fetched
//!         fetch fetch fetch ...      one right behind the other
//! ```
//! The two are apart because a prefetch is not done before its address is translated: among other work, and atomics above
//! all, the next one would begin only then.

use varve_base::mem::Line;
use varve_catalog::DRAWN;
use varve_protocol::Args;
use varve_store::{Ahead, ElementLine, Tx};

use super::parse::{Request, Work};
use crate::ctx::KeyArg;

/// Keys from which on fetching their objects is worth a pass.
const KEYS_MIN: usize = 2;

/// The scratch of the passes.
#[derive(Default)]
pub(super) struct Prefetcher {
    /// Places that were noted and not asked for yet: none between two passes.
    lines: Vec<Line>,
    /// Places of elements' objects, which are asked for behind the buckets, each with the line behind it.
    objects: Vec<Line>,
    elements: Vec<Ahead>,
}

impl Prefetcher {
    /// Fetches what the requests from number `from` on are about to touch, as far as that was not done.
    #[inline]
    pub(super) fn requests<'i>(
        &mut self,
        tx: &mut Tx<'_>,
        work: &Work,
        from: usize,
        args_of: impl Fn(&Request) -> Args<'i>,
    ) {
        let requests = &work.requests[from..];
        if !work.fetched {
            self.objects(tx, &work.keys[requests[0].keys.start..]);
        }
        if work.names_elements {
            self.elements(tx, requests, &work.keys, args_of);
        }
    }

    /// Matches the tags of the turn's keys and fetches their objects.
    fn objects(&mut self, tx: &mut Tx<'_>, keys: &[KeyArg]) {
        if keys.len() < KEYS_MIN {
            return;
        }
        self.find_objects(tx, keys);
        self.fetch_objects();
    }

    /// Matches the tags of keys and notes where their objects are. Of commands in a row on one key, as a queue's or a
    /// leaderboard's are, the first one is enough.
    #[inline(always)]
    pub(super) fn find_objects(&mut self, tx: &mut Tx<'_>, keys: &[KeyArg]) {
        let mut last = None;
        for key in keys {
            if last.replace(key.hash) != Some(key.hash) && tx.try_hold_one(tx.shard_of(key.hash)) {
                self.lines.extend(tx.object_line(key.hash));
            }
        }
    }

    /// Asks for a short name, and a value of some tens of bytes, at each place that was noted.
    #[inline(always)]
    pub(super) fn fetch_objects(&mut self) {
        self.lines.drain(..).for_each(|line| line.fetch_pair());
    }

    /// For commands that name an element of a collection, or draw one: its bucket in one pass, its object in the next.
    fn elements<'i>(
        &mut self,
        tx: &mut Tx<'_>,
        requests: &[Request],
        keys: &[KeyArg],
        args_of: impl Fn(&Request) -> Args<'i>,
    ) {
        self.elements.clear();
        if requests.len() < KEYS_MIN {
            return;
        }
        let mut draws = tx.coming_draws();
        // The collection that was asked for last, under its key's hash: the next command is likely to want the same.
        let mut last = None;
        for request in requests {
            let Ok(d) = request.command else { continue };
            let [key] = &keys[request.keys.clone()] else { continue };
            let at = usize::from(d.element);
            if at == 0 || at >= request.spans.len() {
                continue;
            }
            let collection = match last {
                Some((hash, collection)) if hash == key.hash => collection,
                _ if tx.try_hold_one(tx.shard_of(key.hash)) => last.insert((key.hash, tx.collection(key.hash))).1,
                _ => {
                    // Its shard is no longer held.
                    last = None;
                    continue;
                }
            };
            let Some(collection) = collection else { continue };
            if d.element == DRAWN {
                if let Some((element, lines)) = tx.drawn_lines(collection, draws.next_u64()) {
                    self.elements.push(element);
                    self.lines.extend(lines);
                }
            } else {
                match tx.element_named(collection, args_of(request).get(at)) {
                    Some(ElementLine::Bucket(element, line)) => {
                        self.elements.push(element);
                        self.lines.push(line);
                    }
                    Some(ElementLine::Object(line)) => self.objects.push(line),
                    None => {}
                }
            }
        }
        self.lines.drain(..).for_each(|line| line.fetch());
        self.lines.append(&mut self.objects);
        let mut held = None;
        for element in &self.elements {
            if held == Some(element.shard()) || tx.try_hold_one(element.shard()) {
                held = Some(element.shard());
                self.lines.extend(tx.element_line(element));
            } else {
                held = None;
            }
        }
        // A name of some tens of bytes and its value end in the second line nearly half the time.
        self.fetch_objects();
    }
}
