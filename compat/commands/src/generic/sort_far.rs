//! The keys to which the patterns of a long SORT lead: each is read with no other shard held.
//!
//! ```text
//!  the source's shard held: a reader, and a watch of the source     then each shard once, the source's last:
//!     it gets to know of a watch of the names that the patterns make     weights ..    order ..    values of GET ..
//! ```
//! The instant of the command is that at which the last shard got to know: what is read later is as it was then, as long as no
//! key of such a name has changed. If one has, the command begins anew. Not here: the order of the elements (`sort_parts`).

use varve_exec::Progress;
use varve_protocol::Reply;
use varve_store::{Key, NamePattern, NameWatch, Tx};

use super::building::Building;
use super::sort_pattern::Pattern;
use super::sort_rows::{Items, Weights, score};

/// Shards that get to know of a watch in one part.
const SHARDS: usize = 64;
/// Keys that one part reads, each with its shard held alone.
const KEYS: usize = 128;

/// Bytes of a pattern beside its own: its places here and in the watch.
const PATTERN_BYTES: usize = 96;

/// The keys that a SORT reads beside its source.
pub(super) struct Far {
    /// The patterns of BY, if it leads to keys, and of GET, if one of them does.
    by: Option<Box<[u8]>>,
    get: Vec<Box<[u8]>>,
    names: NameWatch,
    source: NameWatch,
    source_shard: u16,
    /// Shards that know of the names.
    told: usize,
    /// A weight was no number.
    has_fault: bool,
    /// The values of GET of the elements in order; `there` says which were there.
    values: Items,
    there: Vec<bool>,
    scratch: Vec<u8>,
}

impl Far {
    /// The patterns that lead to keys from the elements of the source, whose shard is held.
    pub(super) fn begin(tx: &mut Tx<'_>, source: &Key<'_>, by: Option<&[u8]>, get: Vec<&[u8]>) -> Far {
        let leads = |pattern: &&[u8]| Pattern::parse(pattern).ends().is_some();
        let by = by.filter(leads);
        let get = if get.iter().any(leads) { get } else { Vec::new() };
        let ends = |pattern: &&[u8]| Pattern::parse(pattern).ends().map(|(head, tail)| (head.into(), tail.into()));
        let names = NameWatch::new(by.iter().chain(&get).filter_map(ends).collect::<Vec<NamePattern>>());
        let source_shard = tx.shard_of(source.hash);
        let source = NameWatch::new([(source.bytes.into(), Box::default())]);
        tx.watch_names(source_shard, &source);
        Far {
            by: by.map(Box::from),
            get: get.into_iter().map(Box::from).collect(),
            names,
            source,
            source_shard,
            told: 0,
            has_fault: false,
            values: Items::default(),
            there: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The names that are watched.
    pub(super) fn names(&self) -> &NameWatch {
        &self.names
    }

    /// Has some more shards know of the names; `None` once all do, and the source is as it was.
    pub(super) fn watch(&mut self, tx: &mut Tx<'_>) -> Option<Progress> {
        let shards = tx.store().shard_count();
        for _ in 0..SHARDS {
            // The last one is the source's: with it held, a change of the source is certain to be seen.
            let shard = (usize::from(self.source_shard) + 1 + self.told) % shards;
            if !tx.try_hold_one(shard as u16) {
                return Some(Progress::Busy);
            }
            tx.watch_names(shard as u16, &self.names);
            self.told += 1;
            if self.told == shards {
                let changed = self.source.is_touched();
                tx.release();
                return changed.then_some(Progress::Anew);
            }
        }
        tx.release();
        Some(Progress::More)
    }

    /// True if the weights are those of other keys.
    pub(super) fn weighs(&self) -> bool {
        self.by.is_some()
    }

    /// True if values of other keys are shown.
    pub(super) fn shows(&self) -> bool {
        !self.get.is_empty()
    }

    /// True if a weight was no number.
    pub(super) fn has_fault(&self) -> bool {
        self.has_fault
    }

    /// Finds the weights of some more of the elements, `from` of which have theirs; how many. `None` if the next one's shard is
    /// busy.
    pub(super) fn weigh(
        &mut self,
        tx: &mut Tx<'_>,
        items: &Items,
        from: usize,
        weights: &mut Weights,
    ) -> Option<usize> {
        let by = Pattern::parse(self.by.as_deref().expect("BY leads to keys"));
        let (fault, scratch) = (&mut self.has_fault, &mut self.scratch);
        let end = items.len().min(from + KEYS);
        for at in from..end {
            let item = items.get(at);
            let found = follow(tx, by, item, scratch, |value| match weights {
                Weights::Scores(scores) => {
                    let score = value.map_or(Some(0.0), score);
                    // All patterns are followed before a fault is told: lookups count as redis-server's do.
                    *fault |= score.is_none();
                    scores.push(score.unwrap_or(0.0));
                }
                Weights::Texts { texts, there } => {
                    there.push(value.is_some());
                    texts.push(value.unwrap_or_default());
                }
                Weights::Themselves => unreachable!("BY leads to keys"),
            });
            if !found {
                tx.release();
                return (at > from).then_some(at - from);
            }
        }
        tx.release();
        Some(end - from)
    }

    /// Finds some more of the values that GET leads to from `count` elements, which `element` gives by their places. `None`
    /// once all are there.
    pub(super) fn fetch<'i>(
        &mut self,
        tx: &mut Tx<'_>,
        count: usize,
        element: impl Fn(usize) -> &'i [u8],
    ) -> Option<Progress> {
        let (get, values, there, scratch) = (&self.get, &mut self.values, &mut self.there, &mut self.scratch);
        for n in 0..KEYS {
            let (place, pattern) = (values.len() / get.len(), values.len() % get.len());
            if place == count {
                tx.release();
                return None;
            }
            let found = follow(tx, Pattern::parse(&get[pattern]), element(place), scratch, |value| {
                there.push(value.is_some());
                values.push(value.unwrap_or_default());
            });
            if !found {
                tx.release();
                return Some(if n > 0 { Progress::More } else { Progress::Busy });
            }
        }
        tx.release();
        Some(Progress::More)
    }

    /// Replies with the values of the element at a place.
    pub(super) fn reply(&self, place: usize, out: &mut Reply) {
        for at in place * self.get.len()..(place + 1) * self.get.len() {
            if self.there[at] {
                out.bulk(self.values.get(at));
            } else {
                out.null();
            }
        }
    }

    /// Adds the values of the element at a place to a list, what is not there as an empty element.
    pub(super) fn store(&self, place: usize, building: &mut Building) {
        for at in place * self.get.len()..(place + 1) * self.get.len() {
            building.push(self.values.get(at));
        }
    }

    /// Values that each element is shown with.
    pub(super) fn values_each(&self) -> usize {
        self.get.len()
    }

    /// Bytes that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        // The watch has the patterns too.
        let patterns: usize = self.by.iter().chain(&self.get).map(|pattern| pattern.len()).sum();
        2 * patterns + self.get.len() * PATTERN_BYTES + self.values.held_bytes() + self.there.capacity()
    }
}

/// Shows the value to which a pattern leads from an element; false, and nothing is done, if its shard is busy.
fn follow(
    tx: &mut Tx<'_>,
    pattern: Pattern<'_>,
    item: &[u8],
    scratch: &mut Vec<u8>,
    show: impl FnOnce(Option<&[u8]>),
) -> bool {
    if let Some(shard) = pattern.shard(tx, item, scratch)
        && !tx.try_hold_one(shard)
    {
        return false;
    }
    pattern.lead(tx, item, scratch, show);
    // A key whose time has come was removed: that is handed on before its shard is let go.
    if tx.has_effects() {
        tx.hand_on();
    }
    true
}
