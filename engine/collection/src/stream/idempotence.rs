//! Messages that producers name, so that one which is sent again is not added twice.
//!
//! ```text
//!   Idempotence   settings | counts     producer's name --> Producer   message's name --> ID of its entry, number
//!                                                                      number, ascending from the oldest name --> name, its time
//! ```
//! A producer's oldest names are forgotten when there are more than the settings allow, and each name some seconds after its
//! message came. A name stays when its entry is removed from the stream. All of it is shared with copies ([`SharedMap`]); of what
//! changes the nodes that lead to it are copied before.
//!
//! Not here: the clock, and what a name is made of.

use std::sync::Arc;

use super::StreamId;
use crate::shared_map::SharedMap;

/// About the bytes of a node of a map for each of its entries, beside these.
const MAP_BYTES: usize = 24;
/// Other producers that a new message looks at, in turn: those that send nothing any more are forgotten by this.
const OTHERS_LOOKED_AT: usize = 2;
/// Names of a producer that are forgotten at once since they are due; the others are by later messages.
const FORGOTTEN_AT_ONCE: usize = 64;
/// Leaves of names that other settings have forgotten, which a message gives back.
const FREED_AT_ONCE: usize = 4;

/// For how long, and how many, names of messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotenceLimits {
    /// Seconds after which a name is forgotten; from 1 to 86 400.
    pub duration_s: u32,
    /// Most names of one producer; from 1 to 10 000.
    pub names_max: u32,
}

/// How often messages with names came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdempotenceCounts {
    /// Messages with names that were ever added.
    pub added: u64,
    /// Messages that came again, and were not added.
    pub duplicates: u64,
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
    producers: SharedMap<Arc<[u8]>, Producer>,
    /// Names of all producers.
    names: u64,
    /// Bytes of producers that were shared with copies until these changed, all that there ever were.
    left: u64,
    /// The names that were kept under other settings, and their bytes: their memory is given back in steps.
    old: Vec<SharedMap<Arc<[u8]>, Producer>>,
    old_bytes: usize,
    /// Producers of those, or of all when nobody uses the names any more.
    gone: Vec<Producer>,
    /// The producer that was looked at last for names that are due.
    looked_at: Option<Arc<[u8]>>,
    /// Bytes of the producers.
    bytes: usize,
}

/// The messages of one producer.
#[derive(Clone, Debug, Default)]
struct Producer {
    /// The ID of each name, and its number.
    ids: SharedMap<Arc<[u8]>, (StreamId, u64)>,
    /// The names by number, in the order in which they came, and when that was, in milliseconds of Unix time.
    order: SharedMap<u64, (Arc<[u8]>, i64)>,
    /// The number of the next name.
    next: u64,
}

/// The place of a name among all names.
#[derive(Clone, Debug)]
pub struct NamePlace {
    producer: Arc<[u8]>,
    /// The number of the name among those of its producer.
    number: u64,
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
    /// Number of names, from the oldest on, that are due. The count ends at `most`.
    fn due(&self, limits: IdempotenceLimits, now_ms: i64, most: usize) -> usize {
        self.order.values().take(most).take_while(|(_, time_ms)| is_due(*time_ms, limits, now_ms)).count()
    }

    /// Forgets the oldest names; the bytes that this gives back.
    fn forget(&mut self, count: usize) -> usize {
        let mut bytes = 0;
        for _ in 0..count {
            let number = *self.order.iter().next().expect("as many names as are forgotten").0;
            let (name, _) = self.order.remove(&number).expect("the name of this number");
            self.ids.remove(&name).expect("each name has its ID");
            bytes += name_bytes(&name);
        }
        bytes
    }

    /// Bytes that were shared with copies until these names changed.
    fn left(&self) -> u64 {
        self.ids.left() + self.order.left()
    }
}

/// Whether a name of this time is forgotten by now.
fn is_due(time_ms: i64, limits: IdempotenceLimits, now_ms: i64) -> bool {
    time_ms <= now_ms.saturating_sub(i64::from(limits.duration_s) * 1000)
}

impl Idempotence {
    /// No names, under these settings.
    pub fn new(limits: IdempotenceLimits) -> Idempotence {
        Idempotence {
            limits,
            added: 0,
            duplicates: 0,
            producers: SharedMap::default(),
            names: 0,
            left: 0,
            old: Vec::new(),
            old_bytes: 0,
            gone: Vec::new(),
            looked_at: None,
            bytes: 0,
        }
    }

    /// The settings.
    pub fn limits(&self) -> IdempotenceLimits {
        self.limits
    }

    /// Changes the settings. All names are forgotten if that makes a difference; later messages give their memory back. O(1).
    pub fn set_limits(&mut self, limits: IdempotenceLimits) {
        if limits != self.limits {
            self.left += self.producers.left();
            self.old_bytes += std::mem::take(&mut self.bytes);
            let old = std::mem::take(&mut self.producers);
            if !old.is_empty() {
                self.old.push(old);
            }
            (self.limits, self.names, self.looked_at) = (limits, 0, None);
        }
    }

    /// Sets how many messages were ever added, and how many came again: what a file says.
    pub fn set_counts(&mut self, counts: IdempotenceCounts) {
        (self.added, self.duplicates) = (counts.added, counts.duplicates);
    }

    /// How many messages were ever added, and how many came again. O(1).
    pub fn counts(&self) -> IdempotenceCounts {
        IdempotenceCounts { added: self.added, duplicates: self.duplicates }
    }

    /// The ID that a message has got, unless its name is forgotten.
    pub fn find(&self, producer: &[u8], name: &[u8], now_ms: i64) -> Option<StreamId> {
        let producer = self.producers.get(producer)?;
        let (id, number) = *producer.ids.get(name)?;
        let (_, time_ms) = producer.order.get(&number).expect("the name of this number");
        (!is_due(*time_ms, self.limits, now_ms)).then_some(id)
    }

    /// A message came that was added before.
    pub fn count_duplicate(&mut self) {
        self.duplicates = self.duplicates.wrapping_add(1);
    }

    /// Changes the names of a producer that has some; forgets the producer if none is left.
    fn change<R>(&mut self, producer: &[u8], change: impl FnOnce(&mut Producer) -> R) -> Option<R> {
        let known = self.producers.get_mut(producer)?;
        let (had, left) = (known.ids.len() as u64, known.left());
        let done = change(known);
        debug_assert_eq!(known.order.len(), known.ids.len(), "each name has its ID");
        debug_assert!(self.names >= had, "the names of all producers");
        self.names = self.names - had + known.ids.len() as u64;
        self.left += known.left() - left;
        if known.order.is_empty() {
            self.producers.remove(producer);
            debug_assert!(self.bytes >= producer_bytes(producer), "the bytes of all producers");
            self.bytes -= producer_bytes(producer);
        }
        Some(done)
    }

    /// Forgets the name of a message, if it is kept. O(log n) in the names of its producer.
    pub fn forget(&mut self, producer: &[u8], name: &[u8]) {
        if self.producers.get(producer).is_none_or(|known| !known.ids.contains_key(name)) {
            return;
        }
        debug_assert!(self.bytes >= name_bytes(name), "the bytes of all producers");
        self.bytes -= name_bytes(name);
        self.change(producer, |known| {
            let (_, number) = known.ids.remove(name).expect("the name is kept");
            known.order.remove(&number).expect("the name of this number");
        });
    }

    /// Notes the ID of a message, which is none of those that are kept, and forgets what is due.
    pub fn add(&mut self, message: NamedMessage<'_>, now_ms: i64) {
        let NamedMessage { producer, name, id, time_ms } = message;
        debug_assert!(self.find(producer, name, now_ms).is_none(), "a message is added once");
        self.forget_due(producer, now_ms);
        // One that is due and was not forgotten yet comes again.
        self.forget(producer, name);
        self.free_old(FREED_AT_ONCE);
        let limits = self.limits;
        if !self.producers.contains_key(producer) {
            self.bytes += producer_bytes(producer);
            self.producers.insert(producer.into(), Producer::default());
        }
        self.bytes += name_bytes(name);
        let given_back = self.change(producer, |known| {
            let many = (known.order.len() + 1).saturating_sub(limits.names_max as usize);
            let given_back = known.forget(many);
            let (name, number) = (Arc::<[u8]>::from(name), known.next);
            // A clock that was set back makes no name older than the one before it.
            let time_ms = known.order.last().map_or(time_ms, |(_, (_, newest_ms))| time_ms.max(*newest_ms));
            known.ids.insert(Arc::clone(&name), (id, number));
            known.order.insert(number, (name, time_ms));
            known.next += 1;
            debug_assert!(known.order.len() <= limits.names_max as usize, "no more names than the settings allow");
            given_back
        });
        self.bytes -= given_back.expect("the producer is there");
        self.added = self.added.wrapping_add(1);
        self.look_at_others(now_ms);
    }

    /// Forgets the names of some other producers that are due.
    fn look_at_others(&mut self, now_ms: i64) {
        for _ in 0..OTHERS_LOOKED_AT {
            let next = match &self.looked_at {
                Some(last) => self.producers.behind(&**last).next(),
                None => self.producers.iter().next(),
            };
            let next = next.map(|(name, _)| Arc::clone(name));
            if let Some(name) = &next {
                self.forget_due(name, now_ms);
            }
            self.looked_at = next;
        }
    }

    /// Forgets some names of a producer that are due, and the producer if these are all.
    fn forget_due(&mut self, name: &[u8], now_ms: i64) {
        let due = self.producers.get(name).map_or(0, |known| known.due(self.limits, now_ms, FORGOTTEN_AT_ONCE));
        if due > 0 {
            let given_back = self.change(name, |known| known.forget(due)).expect("the producer is there");
            debug_assert!(self.bytes >= given_back, "the bytes of all producers");
            self.bytes -= given_back;
        }
    }

    /// The numbers that clients are shown. O(N) in the producers and in what is due.
    pub fn figures(&self, now_ms: i64) -> IdempotenceFigures {
        let (mut producers, mut names) = (0, 0);
        for producer in self.producers.values() {
            let kept = (producer.order.len() - producer.due(self.limits, now_ms, usize::MAX)) as u64;
            (producers, names) = (producers + u64::from(kept > 0), names + kept);
        }
        let Idempotence { limits, added, duplicates, .. } = *self;
        IdempotenceFigures { limits, producers, names, added, duplicates }
    }

    /// Shows all names, of each producer from the oldest on.
    pub fn for_each(&self, mut show: impl FnMut(NamedMessage<'_>)) {
        self.for_some(None, &mut |message| {
            show(message);
            true
        });
    }

    /// Shows names from a place on, from the first one on without a place, until `show` says that it has enough; the place of the
    /// next one, None when all were shown. One is shown at least.
    pub fn for_some(
        &self,
        from: Option<&NamePlace>,
        show: &mut dyn FnMut(NamedMessage<'_>) -> bool,
    ) -> Option<NamePlace> {
        let mut goes_on = true;
        let mut show_of = |producer: &Arc<[u8]>, messages: &Producer, first: u64| {
            let order = &messages.order;
            let names = first.checked_sub(1).map_or_else(|| order.iter(), |before| order.behind(&before));
            for (number, (name, time_ms)) in names {
                if !goes_on {
                    return Some(NamePlace { producer: Arc::clone(producer), number: *number });
                }
                let (id, _) = *messages.ids.get(name).expect("each name has its ID");
                goes_on = show(NamedMessage { producer, name, id, time_ms: *time_ms });
            }
            None
        };
        let begun = from.and_then(|place| Some((place, self.producers.get(&place.producer)?)));
        if let Some((place, messages)) = begun
            && let Some(next) = show_of(&place.producer, messages, place.number)
        {
            return Some(next);
        }
        let mut others = from.map_or_else(|| self.producers.iter(), |place| self.producers.behind(&place.producer));
        others.find_map(|(producer, messages)| show_of(producer, messages, 0))
    }

    /// Names of all producers, those that are due included. O(1).
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Bytes that were shared with copies until these names changed, all that there ever were. O(1).
    pub(super) fn left(&self) -> u64 {
        self.producers.left() + self.left
    }

    /// Whether another copy has all of these names.
    pub fn is_shared(&self) -> bool {
        self.gone.is_empty() && self.old.is_empty() && self.producers.is_shared()
    }

    /// Gives back some `leaves` of names that nobody uses any more; true when nothing is left, or what is left is another
    /// copy's too.
    pub fn free_step(&mut self, leaves: usize) -> bool {
        assert!(leaves > 0, "a step that gives nothing back has no end");
        if !self.producers.is_empty() {
            self.old.push(std::mem::take(&mut self.producers));
        }
        self.free_old(leaves)
    }

    /// Gives back some leaves of names that were kept under other settings; true when nothing is left of them.
    fn free_old(&mut self, leaves: usize) -> bool {
        for _ in 0..leaves {
            if let Some(last) = self.gone.last_mut() {
                if last.ids.pop_leaf().is_none() && last.order.pop_leaf().is_none() {
                    self.gone.pop();
                }
            } else if let Some(old) = self.old.last_mut() {
                match old.pop_leaf() {
                    Some(producers) => self.gone.extend(producers.into_iter().map(|(_, producer)| producer)),
                    None => _ = self.old.pop(),
                }
            } else {
                self.old_bytes = 0;
                return true;
            }
        }
        false
    }

    /// Bytes of memory. O(1).
    pub fn bytes(&self) -> usize {
        size_of::<Idempotence>() + self.bytes + self.old_bytes
    }

    /// Panics if anything is inconsistent. O(N).
    pub(super) fn verify(&self) {
        let (mut bytes, mut names) = (0, 0);
        self.producers.verify();
        for (name, producer) in self.producers.iter() {
            producer.ids.verify();
            producer.order.verify();
            names += producer.ids.len() as u64;
            assert!(!producer.order.is_empty(), "a producer without names is forgotten");
            assert_eq!(producer.order.len(), producer.ids.len(), "each name has its ID");
            let times = producer.order.values().map(|(_, time_ms)| *time_ms);
            assert!(times.is_sorted(), "names in the order of their times");
            for (number, (name, _)) in producer.order.iter() {
                assert!(producer.ids.get(name).is_some_and(|(_, known)| known == number), "a name knows its number");
            }
            bytes += producer_bytes(name) + producer.order.values().map(|(name, _)| name_bytes(name)).sum::<usize>();
        }
        assert_eq!(names, self.names, "names of all producers");
        assert_eq!(bytes, self.bytes, "bytes of the producers");
    }
}

/// Bytes of a name of a message, in both tables.
fn name_bytes(name: &[u8]) -> usize {
    let shared = name.len() + 2 * size_of::<usize>();
    shared + 2 * size_of::<Arc<[u8]>>() + size_of::<StreamId>() + size_of::<i64>() + 2 * size_of::<u64>() + MAP_BYTES
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

    /// The bytes left to copies only grow, whatever is forgotten. Names that other settings forget are given back by later messages.
    #[test]
    fn issue_13_other_settings_leave_the_names_to_copies_and_to_later_messages() {
        let limits = |duration_s| IdempotenceLimits { duration_s, names_max: 10_000 };
        let mut kept = Idempotence::new(limits(2));
        let fill = |kept: &mut Idempotence, from: u64| {
            (from..from + 3000).for_each(|n| {
                let (name, id) = (n.to_string(), StreamId::new(n, 0));
                kept.add(NamedMessage { producer: b"p", name: name.as_bytes(), id, time_ms: 1 }, 1);
            });
        };
        fill(&mut kept, 0);
        let copy = kept.clone();
        add(&mut kept, "p", "new", 1);
        let (left, had) = (kept.left(), kept.bytes());
        assert!(left > 0, "the copy has nodes of its own");
        kept.set_limits(limits(3));
        kept.verify();
        assert!(kept.left() >= left && kept.bytes() >= had, "the memory is still there");
        drop(copy);
        fill(&mut kept, 3000);
        assert!(kept.old.is_empty() && kept.gone.is_empty() && kept.bytes() < had + 1000, "it is given back");
        assert!(kept.left() >= left);
        kept.verify();
        let mut steps = 0;
        while !kept.free_step(1) {
            steps += 1;
            assert!(steps < 1000, "a step gives a leaf back");
        }
        assert!(steps > 100 && kept.producers.is_empty(), "{steps} steps");
    }

    /// A message forgets a bounded number of names, and one that is due may come again before it is forgotten.
    #[test]
    fn issue_13_many_names_that_are_due_are_forgotten_in_parts() {
        let mut kept = Idempotence::new(IdempotenceLimits { duration_s: 2, names_max: 10_000 });
        (0..1000).for_each(|n| add(&mut kept, "p", &n.to_string(), 1));
        add(&mut kept, "p", "999", 9000);
        assert_eq!(kept.names(), 1000 - FORGOTTEN_AT_ONCE as u64 * 2, "by its own producer, and in its turn");
        assert_eq!(kept.find(b"p", b"999", 9000), Some(StreamId::new(9000, 0)));
        assert_eq!((kept.find(b"p", b"998", 9000), kept.figures(9000).names), (None, 1));
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
