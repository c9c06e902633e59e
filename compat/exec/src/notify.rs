//! Keyspace notifications: the letters of `notify-keyspace-events`, and what an event is published as.
//!
//! ```text
//!  handler: ctx.did(&key, Effect::sent(Class::List, "lpush", 1)) --wanted?--> the worker's queue
//!  after the command, its shards still held:  queue --> K: __keyspace@<db>__:<key>   message <event>   --> Events
//!                                                       E: __keyevent@<db>__:<event> message <key>
//! ```
//! Off, an event costs one relaxed load and a branch. Not here: who listens (the server gives the [`Events`]).

use varve_store::events::Event;
use varve_store::{EventSink, Key, Removal, Tx};

pub use varve_store::{Again, Effect, EventClass as Class, Words};

/// Reports that a command removed a key, which a DEL does again, or an UNLINK where the settings want one.
pub fn did_remove(tx: &mut Tx<'_>, key: &Key<'_>, removal: Removal) {
    let word = tx.store().lazyfree().word(removal);
    let words = |words: &mut Words<'_>| _ = words.add(word).add(key.bytes);
    tx.did(key, Effect::words(Class::Generic, "del", 1, &words));
}

/// Reports what a command has taken out of a key, and, as an event, the key's end if nothing is left in it.
#[inline(always)]
pub fn did_taken(tx: &mut Tx<'_>, key: &Key<'_>, effect: Effect<'_>) {
    tx.did(key, effect);
    if tx.store().wants(Class::Generic) && !tx.exists(key) {
        tx.did(key, Effect::event(Class::Generic, "del"));
    }
}

/// Reports that a command stored its result in a key ([`crate::Ctx::did_store`]).
pub fn did_store(tx: &mut Tx<'_>, (class, event): (Class, &'static str), key: &Key<'_>, changes: u64, taken: bool) {
    if changes > 0 {
        tx.did(key, Effect::sent(class, event, changes));
    } else if taken {
        tx.did(key, Effect::sent(Class::Generic, "del", 1));
    }
}

/// Where events go: whoever publishes to subscribers. Called with shards held: it may take locks that are leaves, and
/// waits for nobody.
pub trait Events {
    /// Publishes a message to a channel, or to a shard channel; gives the number of subscriptions that it goes to.
    fn publish(&mut self, shard: bool, channel: &[u8], message: &[u8]) -> u64;
}

/// The mask's bit for events on the key's channel.
const KEYSPACE: u32 = 1 << 0;
/// The mask's bit for events on the event's channel.
const KEYEVENT: u32 = 1 << 1;

/// The letters of the classes.
const LETTERS: [(u8, u32); 14] = [
    (b'K', KEYSPACE),
    (b'E', KEYEVENT),
    (b'g', Class::Generic as u32),
    (b'$', Class::String as u32),
    (b'l', Class::List as u32),
    (b's', Class::Set as u32),
    (b'h', Class::Hash as u32),
    (b'z', Class::Zset as u32),
    (b'x', Class::Expired as u32),
    (b'e', Class::Evicted as u32),
    (b't', Class::Stream as u32),
    (b'd', Class::Module as u32),
    (b'm', Class::Miss as u32),
    (b'n', Class::New as u32),
];

/// All classes that `A` stands for: all but misses and new keys.
const ALL: &[u8] = b"g$lshzxetd";

/// The mask of a setting's letters; unknown ones count for nothing. Without K or E nothing is published, whatever else
/// is there, and the mask is 0.
pub fn mask(letters: &[u8]) -> u32 {
    let bits = |letters: &[u8]| -> u32 {
        let bit = |l: &u8| LETTERS.iter().find(|(letter, _)| letter == l).map_or(0, |(_, bit)| *bit);
        letters.iter().map(bit).fold(0, |a, b| a | b)
    };
    let all = if letters.contains(&b'A') { bits(ALL) } else { 0 };
    let mask = bits(letters) | all;
    if mask & (KEYSPACE | KEYEVENT) == 0 { 0 } else { mask }
}

/// Publishes the events of a worker, one after the other.
pub(crate) struct Publisher<E> {
    events: E,
    channel: Vec<u8>,
}

impl<E: Events> Publisher<E> {
    pub(crate) fn new(events: E) -> Publisher<E> {
        Publisher { events, channel: Vec::new() }
    }
}

impl<E: Events + Send> EventSink for Publisher<E> {
    /// Publishes an event on the channels that the mask asks for.
    fn publish(&mut self, mask: u32, event: &Event<'_>) {
        let mut send = |prefix: &str, about: &[u8], message: &[u8]| {
            self.channel.clear();
            self.channel.extend_from_slice(prefix.as_bytes());
            varve_base::number::push_i64(&mut self.channel, i64::from(event.db));
            self.channel.extend_from_slice(b"__:");
            self.channel.extend_from_slice(about);
            self.events.publish(false, &self.channel, message);
        };
        if mask & KEYSPACE != 0 {
            send("__keyspace@", event.key, event.name.as_bytes());
        }
        if mask & KEYEVENT != 0 {
            send("__keyevent@", event.name.as_bytes(), event.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, KEYEVENT, KEYSPACE, mask};

    #[test]
    fn letters_become_a_mask() {
        assert_eq!(mask(b""), 0);
        assert_eq!(mask(b"A"), 0, "nobody is told without K or E");
        assert_eq!(mask(b"Kx"), KEYSPACE | Class::Expired as u32);
        assert_eq!(mask(b"AKE"), mask(b"g$lshzxetdKE"));
        assert_eq!(mask(b"AKE") & (Class::Miss as u32 | Class::New as u32), 0);
        assert_eq!(mask(b"Emn"), KEYEVENT | Class::Miss as u32 | Class::New as u32);
    }
}
