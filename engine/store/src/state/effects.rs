//! Effects: what a command did to a key, and how it is done again.
//!
//! An effect says how the change is made again with the same result: times are absolute, what was drawn at random is
//! named. It is rendered only if the store has an [`EffectSink`].
//!
//! Not here: the observers of an effect, and the order in which they learn of it (`keyspace::report`, `ops::report`).

use std::any::Any;
use std::collections::HashMap;

use varve_base::number::{INT_TEXT_MAX, write_i64};
use varve_segment::{Pin, WholePin};

use super::events::{Event, EventClass, Queue};
use super::key::Key;

/// The effect of a command on a key.
pub struct Effect<'e> {
    /// The class of its event.
    pub class: EventClass,
    /// The name of its event; none if it is empty.
    pub name: &'static str,
    /// The number of changes that it counts as.
    pub changes: u64,
    /// The key is reported as changed to those who watch it, cache it or wait for it.
    pub modified: bool,
    /// How it is done again.
    pub again: Again<'e>,
}

/// How an effect is done again with the same result.
#[derive(Clone, Copy)]
pub enum Again<'e> {
    /// By the command as it was sent. Several effects of one command may say so: it is written once, behind the others.
    Sent,
    /// By these words, which are rendered only if somebody keeps them.
    Words(&'e dyn Fn(&mut Words<'_>)),
    /// Another effect of the same command does it.
    Covered,
}

impl<'e> Effect<'e> {
    /// An effect that is done again as `again` says.
    #[inline(always)]
    pub fn new(class: EventClass, name: &'static str, changes: u64, again: Again<'e>) -> Effect<'e> {
        Effect { class, name, changes, modified: true, again }
    }

    /// An effect that the command as it was sent makes again.
    #[inline(always)]
    pub fn sent(class: EventClass, name: &'static str, changes: u64) -> Effect<'e> {
        Effect::new(class, name, changes, Again::Sent)
    }

    /// An effect that these words make again.
    #[inline(always)]
    pub fn words(class: EventClass, name: &'static str, changes: u64, words: &'e dyn Fn(&mut Words<'_>)) -> Effect<'e> {
        Effect::new(class, name, changes, Again::Words(words))
    }

    /// An effect that another one of the same command makes again.
    #[inline(always)]
    pub fn covered(class: EventClass, name: &'static str, changes: u64) -> Effect<'e> {
        Effect::new(class, name, changes, Again::Covered)
    }

    /// An effect that is no change of the value for those who watch the key, and has no event: what a group was given.
    #[inline(always)]
    pub fn quiet(class: EventClass, changes: u64, again: Again<'e>) -> Effect<'e> {
        Effect { class, name: "", changes, modified: false, again }
    }

    /// A second event of a change that another effect reports.
    #[inline(always)]
    pub fn event(class: EventClass, name: &'static str) -> Effect<'e> {
        Effect { class, name, changes: 0, modified: false, again: Again::Covered }
    }
}

/// The readers of the journal that an effect is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Whoever loads the file, and replicas.
    #[default]
    All,
    /// Whoever loads the file.
    File,
    /// Replicas.
    Stream,
    /// None.
    Nobody,
}

impl Audience {
    /// Those of them that are there: without replicas the file alone is left, and it has all that it would have had beside them.
    /// Without a file replicas get nothing that is for it alone.
    fn there(self, readers: Readers) -> Audience {
        match self {
            Audience::File if !readers.file => Audience::Nobody,
            _ if readers.replicas => self,
            Audience::All | Audience::File => Audience::All,
            Audience::Stream | Audience::Nobody => Audience::Nobody,
        }
    }
}

/// The readers of the journal that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readers {
    pub(crate) replicas: bool,
    pub(crate) file: bool,
}

impl Readers {
    /// Those of the store's mask.
    #[inline]
    pub(crate) fn of(mask: u32) -> Readers {
        Readers { replicas: mask & JOURNAL_STREAMED != 0, file: mask & JOURNAL_UNFILED == 0 }
    }
}

/// Effects that belong together: those of one command, or of one transaction. They are done again all together or not
/// at all.
///
/// ```text
///   heads    database, audience, number of words | ..        lengths   of each word
///   bytes    the words, one behind the other, but for those that lie in a large argument of the command
///   pins     (number of the word, where it lies): it is not copied
/// ```
#[derive(Debug, Default)]
pub struct Unit {
    heads: Vec<Head>,
    lengths: Vec<usize>,
    bytes: Vec<u8>,
    pins: Vec<(usize, WholePin)>,
    /// Where in `pins` the pin of the word at an address is: a command may have thousands of large arguments.
    pins_at: HashMap<usize, usize>,
    /// The large arguments of the command that runs, by their addresses.
    large: HashMap<usize, WholePin>,
}

/// The address of a word.
fn address(word: &[u8]) -> usize {
    word.as_ptr().addr()
}

/// Database, audience and number of words of an effect.
#[derive(Debug)]
struct Head {
    db: u32,
    audience: Audience,
    words: usize,
}

/// Bytes that an emptied unit keeps room for.
const KEEP_BYTES: usize = 64 << 10;

impl Unit {
    /// Number of effects.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// True without effects.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The effects in order: the logical database that each one is done in, and its words.
    pub fn effects(&self) -> impl Iterator<Item = (u32, impl ExactSizeIterator<Item = &[u8]>)> {
        let (mut word, mut byte, mut pin) = (0, 0, 0);
        self.heads.iter().map(move |head| {
            let (first, lengths) = (word, &self.lengths[word..word + head.words]);
            let count = self.pins[pin..].iter().take_while(|(at, _)| *at < first + head.words).count();
            let pins = &self.pins[pin..pin + count];
            let pinned: usize = pins.iter().map(|(_, pin)| pin.len()).sum();
            let bytes = &self.bytes[byte..byte + lengths.iter().sum::<usize>() - pinned];
            (word, byte, pin) = (word + head.words, byte + bytes.len(), pin + count);
            let (mut at, mut pins) = (0, pins.iter().peekable());
            let words = lengths.iter().enumerate().map(move |(nth, length)| {
                if let Some((_, pin)) = pins.next_if(|(at, _)| *at == first + nth) {
                    return &pin[..];
                }
                at += length;
                &bytes[at - length..at]
            });
            (head.db, words)
        })
    }

    /// The audience of the effect of this number, from 0.
    pub fn audience(&self, nth: usize) -> Audience {
        self.heads[nth].audience
    }

    /// A pin on a word of an effect, if it lies in a large argument: whoever keeps the effect need not copy it.
    pub fn pin_of(&self, word: &[u8]) -> Option<Pin> {
        let (_, pin) = &self.pins[*self.pins_at.get(&address(word))?];
        std::ptr::eq(&pin[..], word).then(|| pin.by_ranges())
    }

    fn put(&mut self, word: &[u8]) {
        match self.large_at(word) {
            Some(large) => {
                let pin = (self.lengths.len(), large.clone());
                self.pins_at.insert(address(word), self.pins.len());
                self.pins.push(pin);
            }
            None => self.bytes.extend_from_slice(word),
        }
        self.lengths.push(word.len());
    }

    /// The large argument that a word is.
    fn large_at(&self, word: &[u8]) -> Option<&WholePin> {
        if self.large.is_empty() {
            return None;
        }
        self.large.get(&address(word)).filter(|large| std::ptr::eq(&large[..], word))
    }

    fn add(&mut self, db: u32, audience: Audience, render: &dyn Fn(&mut Words<'_>)) {
        self.heads.push(Head { db, audience, words: 0 });
        render(&mut Words(self));
        debug_assert!(self.heads.last().is_some_and(|head| head.words > 0), "an effect has a name");
    }

    fn clear(&mut self) {
        self.heads.clear();
        self.lengths.clear();
        self.bytes.clear();
        self.pins.clear();
        self.pins_at.clear();
        if self.bytes.capacity() > KEEP_BYTES {
            self.bytes = Vec::new();
        }
    }
}

/// Where an effect writes its words: the name of a command, then the arguments.
pub struct Words<'u>(&'u mut Unit);

impl Words<'_> {
    /// Adds a word.
    pub fn add(&mut self, word: &[u8]) -> &mut Self {
        self.0.put(word);
        if let Some(head) = self.0.heads.last_mut() {
            head.words += 1;
        }
        self
    }

    /// Ends the effect; the words that follow are another one's, behind it.
    pub fn next_effect(&mut self) {
        let (db, audience) = self.0.heads.last().map_or_else(Default::default, |head| (head.db, head.audience));
        self.0.heads.push(Head { db, audience, words: 0 });
    }

    /// Adds an integer as a word.
    pub fn number(&mut self, number: i64) -> &mut Self {
        self.add(write_i64(&mut [0; INT_TEXT_MAX], number))
    }
}

/// Effects of a command that changes a key part by part, in the form of their [`EffectSink`]: it takes them all together
/// when the command has ended.
pub struct Prepared {
    /// Bytes that they take.
    pub bytes: usize,
    /// The effects, as the sink has rendered them.
    pub effects: Box<dyn Any + Send>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// A keeper of effects: a journal. Called with the shards of the keys held, so that units which have a key in common
/// come in the order of its changes. It may take locks that are leaves, and waits for nobody.
pub trait EffectSink: Send + Sync {
    /// Takes a unit of one worker, which has at least one effect. Returns the position behind it; positions only grow.
    fn append(&self, worker: usize, unit: &Unit) -> u64;
    /// Keeps the effects of a unit behind what `prepared` has already: they are a part of a command that goes on.
    fn prepare(&self, unit: &Unit, prepared: &mut Option<Prepared>);
    /// Takes all that was prepared as one unit, in a time that does not depend on its length. Returns the position behind it.
    fn append_prepared(&self, prepared: Prepared) -> u64;
    /// The position behind all units so far.
    fn end(&self) -> u64;
    /// True if it takes more than it can get rid of: what the store removes by itself is to wait.
    fn is_full(&self) -> bool;
}

/// A publisher of the events of one worker. Called with the shards of the keys held: it may take locks that are leaves,
/// and waits for nobody.
pub trait EventSink: Send {
    /// Publishes an event; `mask` has the classes that are wanted, and on which channels.
    fn publish(&mut self, mask: u32, event: &Event<'_>);
}

/// The bit of the event mask that says that effects are kept for an [`EffectSink`].
pub(crate) const JOURNAL: u32 = 1 << 31;
/// The bit of the event mask that says that replies wait for the journal: shards keep the position behind their last unit.
pub(crate) const JOURNAL_AWAITED: u32 = 1 << 30;
/// The bit of the event mask that says that the journal has replicas among its readers.
pub(crate) const JOURNAL_STREAMED: u32 = 1 << 29;
/// Nobody writes the journal to a file: nothing is kept that is for a file alone.
pub(crate) const JOURNAL_UNFILED: u32 = 1 << 28;
/// The bits of the event mask that are no classes of events.
pub(crate) const JOURNAL_BITS: u32 = JOURNAL | JOURNAL_AWAITED | JOURNAL_STREAMED | JOURNAL_UNFILED;
/// Keys that were written and not reported yet that are remembered.
const WRITTEN_MAX: usize = 4;

/// The effects that a worker has reported and not handed on yet.
#[derive(Default)]
pub(crate) struct Reported {
    /// Something is here: what every command asks.
    any: bool,
    events: Queue,
    unit: Unit,
    /// The command that runs is itself among its effects: for whom.
    sent: Option<Audience>,
    /// A transaction runs: the unit ends with it.
    open: bool,
    /// The audience of effects at present: a script has a word in that.
    audience: Audience,
    /// Events are not kept at present: a file is loaded.
    unheard: bool,
    sink: Option<Box<dyn EventSink>>,
    /// The effects of the parts before the last one, of a command that has come to its last part.
    prepared: Option<Prepared>,
    /// Keys on which commands work, and which the store has changed by itself: the effects of those commands come before.
    overtaken: Vec<Box<[u8]>>,
    /// Keys that were written and not reported yet, the first few of them; in debug builds only.
    written: Vec<(u16, Box<[u8]>)>,
}

impl Reported {
    /// True if something waits to be handed on.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Sets the publisher of the worker's events.
    pub(crate) fn set_sink(&mut self, sink: Box<dyn EventSink>) {
        self.sink = Some(sink);
    }

    /// The command that runs has these large arguments, or none any more. Its effects refer to them.
    pub(crate) fn set_large(&mut self, large: Vec<WholePin>) {
        self.unit.large = large.into_iter().map(|large| (address(&large), large)).collect();
    }

    /// Keeps an event of a key of a logical database.
    pub(crate) fn add_event(&mut self, name: &'static str, db: u32, key: &[u8]) {
        if self.unheard {
            return;
        }
        self.events.push(name, db, key);
        self.any = true;
    }

    /// Keeps an effect on logical database `db` for the journal, which has these readers.
    pub(crate) fn add(&mut self, db: u32, again: Again<'_>, readers: Readers) {
        let audience = self.audience.there(readers);
        match again {
            Again::Covered => return,
            _ if audience == Audience::Nobody => return,
            Again::Sent => self.sent = Some(audience),
            Again::Words(render) => self.unit.add(db, audience, render),
        }
        self.any = true;
    }

    /// Keeps the command that runs, as it was sent, for replicas: it publishes a message.
    pub(crate) fn add_message(&mut self) {
        if matches!(self.audience, Audience::All | Audience::Stream) {
            self.sent = Some(Audience::Stream);
            self.any = true;
        }
    }

    /// Ends a command that ran in logical database `db` and that `sent` writes: publishes its events. The unit of effects
    /// ends too, unless it is open.
    #[inline]
    pub(crate) fn end_command(&mut self, mask: u32, db: u32, sent: &dyn Fn(&mut Words<'_>)) {
        if let Some(audience) = self.sent.take() {
            self.unit.add(db, audience, sent);
        }
        self.publish(mask);
    }

    /// Publishes events outside of a command, or in the middle of one that lets go of its shards. A command that has
    /// reported itself must not let go; if it does, its words still come with its end, and nobody dies of it.
    #[inline]
    pub(crate) fn hand_on(&mut self, mask: u32) {
        debug_assert!(self.sent.is_none(), "a command lets go of its shards before it reports itself");
        self.publish(mask);
        self.any = self.sent.is_some();
    }

    #[inline]
    fn publish(&mut self, mask: u32) {
        let Reported { events, sink, .. } = self;
        events.take(|event| {
            if let Some(sink) = sink {
                sink.publish(mask, &event);
            }
        });
        self.any = false;
    }

    /// True while a transaction runs: the unit ends with it.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Begins a unit of several commands.
    pub(crate) fn open(&mut self) {
        self.open = true;
    }

    /// Keeps the effects that are added from now on for this audience. Returns the one of before.
    pub(crate) fn keep_effects_for(&mut self, audience: Audience) -> Audience {
        std::mem::replace(&mut self.audience, audience)
    }

    /// Keeps the events that are added from now on, or not.
    pub(crate) fn keep_events(&mut self, keep: bool) {
        self.unheard = !keep;
    }

    /// Forgets the effects of the unit that is open.
    pub(crate) fn forget_effects(&mut self) {
        debug_assert!(self.open, "effects are forgotten before their unit is given away");
        self.unit.clear();
    }

    /// Ends a unit and gives it to `keep`, unless it is empty; returns what `keep` returns.
    #[inline]
    pub(crate) fn end_unit<R>(&mut self, keep: impl FnOnce(&Unit) -> R) -> Option<R> {
        self.open = false;
        if self.unit.is_empty() {
            return None;
        }
        let kept = keep(&self.unit);
        self.unit.clear();
        Some(kept)
    }

    /// The command that runs has come to its last part: these are the effects of the others.
    pub(crate) fn take_over(&mut self, prepared: Prepared) {
        debug_assert!(self.prepared.is_none(), "one command at a time");
        self.prepared = Some(prepared);
        self.any = true;
    }

    /// Effects that were taken over, once: those of the unit that ends now belong behind them.
    #[inline]
    pub(crate) fn take_prepared(&mut self) -> Option<Prepared> {
        self.prepared.take()
    }

    /// The store changes a key by itself on which a command works.
    pub(crate) fn overtake(&mut self, key: &[u8]) {
        self.overtaken.push(key.into());
    }

    /// Such keys, once.
    #[inline]
    pub(crate) fn take_overtaken(&mut self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut self.overtaken)
    }

    /// Remembers, in debug builds, that a key was written and is to be reported.
    #[inline(always)]
    pub(crate) fn mark_written(&mut self, k: &Key<'_>) {
        if cfg!(debug_assertions) {
            let known = self.written.iter().any(|(db, key)| *db == k.db && **key == *k.bytes);
            if self.written.len() < WRITTEN_MAX && !known {
                self.written.push((k.db, k.bytes.into()));
            }
        }
    }

    /// Forgets, in debug builds, that a key was written: it has been reported.
    #[inline(always)]
    pub(crate) fn unmark_written(&mut self, k: &Key<'_>) {
        if cfg!(debug_assertions) {
            self.written.retain(|(db, key)| *db != k.db || **key != *k.bytes);
        }
    }

    /// Checks, in debug builds, that every key which was written has been reported.
    #[inline(always)]
    pub(crate) fn assert_reported(&mut self) {
        if cfg!(debug_assertions) {
            let written = std::mem::take(&mut self.written);
            assert!(written.is_empty(), "a write that was not reported: {written:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "before it reports itself"))]
    fn a_command_that_lets_go_too_late_kills_nobody() {
        let mut reported = Reported::default();
        reported.add(0, Again::Sent, Readers { replicas: false, file: true });
        reported.hand_on(0);
        assert!(reported.any(), "its words are still to come");
        reported.end_command(0, 0, &|words| _ = words.add(b"PING"));
        assert_eq!(reported.unit.len(), 1);
    }
}
