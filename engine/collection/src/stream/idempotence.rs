//! Messages that producers name, so that one which is sent again is not added twice.
//!
//! ```text
//!   Idempotence   settings | counts     producer's name --> Producer   message's name --> ID of its entry
//!                                                                      names from the oldest to the newest, each with its time
//! ```
//! A producer's oldest names are forgotten when there are more than the settings allow, and each name some seconds after its
//! message came. A name stays when its entry is removed from the stream. Producers are shared with copies until they change.
//!
//! Not here: the clock, and what a name is made of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::StreamId;

/// About the bytes of a node of a map for each of its entries, beside these.
const MAP_BYTES: usize = 24;
/// Other producers that a new message looks at, in turn: those that send nothing any more are forgotten by this.
const OTHERS_LOOKED_AT: usize = 2;

/// For how long, and how many, names of messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotenceLimits {
    /// Seconds after which a name is forgotten; from 1 to 86 400.
    pub duration_s: u32,
    /// Most names of one producer; from 1 to 10 000.
    pub names_max: u32,
}

/// The numbers of [`Idempotence`] that clients are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotenceFigures {
    /// The settings.
    pub limits: IdempotenceLimits,
    /// Producers that have names which are not forgotten.
    pub producers: u64,
    /// Names of all producers that are not forgotten.
    pub names: u64,
    /// Messages with names that were ever added.
    pub added: u64,
    /// Messages that came again, and were not added.
    pub duplicates: u64,
}

/// See the module's picture.
#[derive(Clone, Debug)]
pub struct Idempotence {
    limits: IdempotenceLimits,
    added: u64,
    duplicates: u64,
    producers: BTreeMap<Arc<[u8]>, Arc<Producer>>,
    /// The producer that was looked at last for names that are due.
    looked_at: Option<Arc<[u8]>>,
    /// Bytes of the producers.
    bytes: usize,
}

/// The messages of one producer.
#[derive(Clone, Debug, Default)]
struct Producer {
    ids: BTreeMap<Arc<[u8]>, StreamId>,
    /// The names in the order in which they came, and when that was, in milliseconds of Unix time.
    order: VecDeque<(Arc<[u8]>, i64)>,
}

/// A message that a producer has named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedMessage<'a> {
    /// The producer.
    pub producer: &'a [u8],
    /// The name that it has given the message.
    pub name: &'a [u8],
    /// The ID of the message's entry.
    pub id: StreamId,
    /// When the message came, in milliseconds of Unix time.
    pub time_ms: i64,
}

impl Producer {
    /// Number of names, from the oldest on, that are due.
    fn due(&self, limits: IdempotenceLimits, now_ms: i64) -> usize {
        let until = now_ms.saturating_sub(i64::from(limits.duration_s) * 1000);
        self.order.iter().take_while(|(_, time_ms)| *time_ms <= until).count()
    }

    /// Forgets the oldest names; the bytes that this gives back.
    fn forget(&mut self, count: usize) -> usize {
        let mut bytes = 0;
        for (name, _) in self.order.drain(..count) {
            self.ids.remove(&name).expect("each name has its ID");
            bytes += name_bytes(&name);
        }
        bytes
    }
}

impl Idempotence {
    /// No names, under these settings.
    pub fn new(limits: IdempotenceLimits) -> Idempotence {
        Idempotence { limits, added: 0, duplicates: 0, producers: BTreeMap::new(), looked_at: None, bytes: 0 }
    }

    /// The settings.
    pub fn limits(&self) -> IdempotenceLimits {
        self.limits
    }

    /// Changes the settings. All names are forgotten if that makes a difference.
    pub fn set_limits(&mut self, limits: IdempotenceLimits) {
        if limits != self.limits {
            (self.limits, self.bytes) = (limits, 0);
            self.producers.clear();
            self.looked_at = None;
        }
    }

    /// Sets how many messages were ever added, and how many came again: what a file says.
    pub fn set_counts(&mut self, added: u64, duplicates: u64) {
        (self.added, self.duplicates) = (added, duplicates);
    }

    /// The ID that a message has got, unless its name is forgotten.
    pub fn find(&self, producer: &[u8], name: &[u8], now_ms: i64) -> Option<StreamId> {
        let producer = self.producers.get(producer)?;
        let id = *producer.ids.get(name)?;
        let due = producer.due(self.limits, now_ms);
        let is_due = producer.order.iter().take(due).any(|(due, _)| **due == *name);
        (!is_due).then_some(id)
    }

    /// A message came that was added before.
    pub fn count_duplicate(&mut self) {
        self.duplicates += 1;
    }

    /// Forgets the name of a message, if it is kept. O(N) in the names of its producer.
    pub fn forget(&mut self, producer: &[u8], name: &[u8]) {
        let Some(known) = self.producers.get_mut(producer).filter(|known| known.ids.contains_key(name)) else { return };
        let known = Arc::make_mut(known);
        known.ids.remove(name);
        known.order.retain(|(other, _)| **other != *name);
        debug_assert_eq!(known.order.len(), known.ids.len(), "each name has its ID");
        debug_assert!(self.bytes >= name_bytes(name), "the bytes of all producers");
        self.bytes -= name_bytes(name);
        if known.order.is_empty() {
            self.producers.remove(producer);
            self.bytes -= producer_bytes(producer);
        }
    }

    /// Notes the ID of a message, which is none of those that are kept, and forgets what is due.
    pub fn add(&mut self, message: NamedMessage<'_>, now_ms: i64) {
        let NamedMessage { producer, name, id, time_ms } = message;
        debug_assert!(self.find(producer, name, now_ms).is_none(), "a message is added once");
        self.forget_due(producer, now_ms);
        let limits = self.limits;
        let known = self.producers.get_mut(producer);
        let known = match known {
            Some(known) => known,
            None => {
                self.bytes += producer_bytes(producer);
                self.producers.entry(producer.into()).or_default()
            }
        };
        let known = Arc::make_mut(known);
        let many = (known.order.len() + 1).saturating_sub(limits.names_max as usize);
        let given_back = known.forget(many);
        let name: Arc<[u8]> = name.into();
        self.bytes = self.bytes + name_bytes(&name) - given_back;
        // A clock that was set back makes no name older than the one before it.
        let time_ms = known.order.back().map_or(time_ms, |(_, before)| time_ms.max(*before));
        known.ids.insert(Arc::clone(&name), id);
        known.order.push_back((name, time_ms));
        debug_assert!(known.order.len() <= limits.names_max as usize, "no more names than the settings allow");
        self.added += 1;
        self.look_at_others(now_ms);
    }

    /// Forgets the names of some other producers that are due.
    fn look_at_others(&mut self, now_ms: i64) {
        for _ in 0..OTHERS_LOOKED_AT {
            let next = match &self.looked_at {
                Some(last) => {
                    let behind = (std::ops::Bound::Excluded(Arc::clone(last)), std::ops::Bound::Unbounded);
                    self.producers.range(behind).next()
                }
                None => self.producers.iter().next(),
            };
            let next = next.map(|(name, _)| Arc::clone(name));
            if let Some(name) = &next {
                self.forget_due(name, now_ms);
            }
            self.looked_at = next;
        }
    }

    /// Forgets the names of a producer that are due, and the producer if these are all.
    fn forget_due(&mut self, name: &[u8], now_ms: i64) {
        let Some(producer) = self.producers.get_mut(name) else { return };
        let due = producer.due(self.limits, now_ms);
        if due == 0 {
            return;
        }
        let producer = Arc::make_mut(producer);
        let given_back = producer.forget(due);
        debug_assert!(self.bytes >= given_back, "the bytes of all producers");
        self.bytes -= given_back;
        if producer.order.is_empty() {
            self.producers.remove(name);
            self.bytes -= producer_bytes(name);
        }
    }

    /// The numbers that clients are shown. O(N) in the producers and in what is due.
    pub fn figures(&self, now_ms: i64) -> IdempotenceFigures {
        let (mut producers, mut names) = (0, 0);
        for producer in self.producers.values() {
            let kept = (producer.order.len() - producer.due(self.limits, now_ms)) as u64;
            (producers, names) = (producers + u64::from(kept > 0), names + kept);
        }
        let Idempotence { limits, added, duplicates, .. } = *self;
        IdempotenceFigures { limits, producers, names, added, duplicates }
    }

    /// Shows all names, of each producer from the oldest on.
    pub fn for_each(&self, mut show: impl FnMut(NamedMessage<'_>)) {
        for (producer, messages) in &self.producers {
            for (name, time_ms) in &messages.order {
                let id = messages.ids[name];
                show(NamedMessage { producer, name, id, time_ms: *time_ms });
            }
        }
    }

    /// Bytes of memory. O(1).
    pub fn bytes(&self) -> usize {
        size_of::<Idempotence>() + self.bytes
    }

    /// Panics if anything is inconsistent. O(N).
    pub(super) fn verify(&self) {
        let mut bytes = 0;
        for (name, producer) in &self.producers {
            assert!(!producer.order.is_empty(), "a producer without names is forgotten");
            assert_eq!(producer.order.len(), producer.ids.len(), "each name has its ID");
            assert!(
                producer.order.iter().is_sorted_by_key(|(_, time_ms)| *time_ms),
                "names in the order of their times"
            );
            bytes += producer_bytes(name) + producer.order.iter().map(|(name, _)| name_bytes(name)).sum::<usize>();
        }
        assert_eq!(bytes, self.bytes, "bytes of the producers");
    }
}

/// Bytes of a name of a message, in both tables.
fn name_bytes(name: &[u8]) -> usize {
    let shared = name.len() + 2 * size_of::<usize>();
    shared + 2 * size_of::<Arc<[u8]>>() + size_of::<StreamId>() + size_of::<i64>() + MAP_BYTES
}

/// Bytes of a producer without names.
fn producer_bytes(name: &[u8]) -> usize {
    name.len() + 2 * size_of::<usize>() + size_of::<Arc<[u8]>>() + size_of::<Producer>() + MAP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: IdempotenceLimits = IdempotenceLimits { duration_s: 2, names_max: 3 };

    fn add(kept: &mut Idempotence, producer: &str, name: &str, ms: u64) {
        let (producer, name, id) = (producer.as_bytes(), name.as_bytes(), StreamId::new(ms, 0));
        kept.add(NamedMessage { producer, name, id, time_ms: ms as i64 }, ms as i64);
        kept.verify();
    }

    fn names(kept: &Idempotence) -> String {
        let mut names = Vec::new();
        kept.for_each(|message| {
            let text = [message.producer, b".", message.name].concat();
            names.push(String::from_utf8(text).expect("names of the test"));
        });
        names.join(" ")
    }

    #[test]
    fn the_oldest_name_of_a_producer_gives_way() {
        let mut kept = Idempotence::new(LIMITS);
        ["a", "b", "c", "d"].iter().for_each(|name| add(&mut kept, "p", name, 1));
        add(&mut kept, "q", "a", 1);
        assert_eq!(names(&kept), "p.b p.c p.d q.a");
        assert_eq!((kept.find(b"p", b"a", 1), kept.find(b"q", b"a", 1)), (None, Some(StreamId::new(1, 0))));
        let figures = kept.figures(1);
        assert_eq!((figures.producers, figures.names, figures.added), (2, 4, 5));
    }

    #[test]
    fn a_name_is_forgotten_when_it_is_due() {
        let mut kept = Idempotence::new(LIMITS);
        add(&mut kept, "p", "a", 1000);
        add(&mut kept, "p", "b", 2000);
        assert_eq!(kept.find(b"p", b"a", 2999), Some(StreamId::new(1000, 0)));
        assert_eq!(kept.find(b"p", b"a", 3000), None);
        assert_eq!((kept.figures(3000).names, kept.figures(4000).producers), (1, 0));
        add(&mut kept, "p", "a", 3000);
        assert_eq!((names(&kept), kept.find(b"p", b"a", 3000)), ("p.b p.a".to_owned(), Some(StreamId::new(3000, 0))));
    }

    #[test]
    fn producers_that_send_no_more_are_forgotten_while_others_send() {
        let mut kept = Idempotence::new(LIMITS);
        (0..10).for_each(|n| add(&mut kept, &format!("p{n}"), "a", 1));
        let had = kept.bytes();
        (0..10).for_each(|n| add(&mut kept, "q", &format!("{n}"), 5000));
        assert_eq!(names(&kept), "q.7 q.8 q.9");
        assert!(kept.bytes() < had, "{} bytes of {had}", kept.bytes());
    }

    #[test]
    fn other_settings_forget_all_names_and_the_same_ones_none() {
        let mut kept = Idempotence::new(LIMITS);
        add(&mut kept, "p", "a", 1);
        kept.set_limits(LIMITS);
        assert_eq!(names(&kept), "p.a");
        kept.set_limits(IdempotenceLimits { duration_s: 3, ..LIMITS });
        kept.verify();
        assert_eq!((names(&kept), kept.figures(1).added), (String::new(), 1));
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_names_in_order() {
        let mut kept = Idempotence::new(LIMITS);
        add(&mut kept, "p", "a", 9000);
        add(&mut kept, "p", "b", 1000);
        assert_eq!(kept.find(b"p", b"b", 10_000), Some(StreamId::new(1000, 0)));
        let copy = kept.clone();
        add(&mut kept, "p", "c", 9000);
        assert_eq!((names(&copy), names(&kept)), ("p.a p.b".to_owned(), "p.a p.b p.c".to_owned()));
        kept.forget(b"p", b"b");
        kept.verify();
        assert_eq!(names(&kept), "p.a p.c");
        ["a", "c", "x"].iter().for_each(|name| kept.forget(b"p", name.as_bytes()));
        kept.verify();
        assert_eq!(kept.figures(9000).producers, 0);
    }
}
