//! A worker's side: which of its connections listen to what, and how far the fan-out of the current item is.
//!
//! ```text
//!  hub:         name -> { client id -> connection, first number }    ordered by id, so that a slice can go on where the
//!                                                                   last one ended, whatever came and went between
//!  connection:  Subscriptions: its names, each kind apart
//! ```
//!
//! Used by its worker alone. Not here: counts over all workers (registry.rs), outputs (worker/deliver.rs).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::inbox::{Item, Message};
use super::{ConnId, ConnRef, Kind, Name, Registry, Stale};

/// Bytes of a subscription beside its name: entries in the connection's set, the hub's table and the listeners' map.
const ENTRY_BYTES: usize = 2 * size_of::<Name>() + size_of::<Listeners>() + size_of::<(u64, Listener)>();

/// The subscriptions of one connection; empty sets take no memory.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    names: [BTreeSet<Name>; Kind::COUNT],
    /// Bytes of the names.
    name_bytes: usize,
}

impl Subscriptions {
    /// Its names of a kind.
    pub(crate) fn of(&self, kind: Kind) -> &BTreeSet<Name> {
        &self.names[kind as usize]
    }

    /// The number that a confirmation tells: shard channels count by themselves.
    pub(crate) fn told(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.of(Kind::Shard).len(),
            _ => self.of(Kind::Channel).len() + self.of(Kind::Pattern).len(),
        }
    }

    /// All that make it a subscriber: prefixes do not.
    pub(crate) fn total(&self) -> usize {
        Kind::SUBSCRIBED.iter().map(|&kind| self.of(kind).len()).sum()
    }

    /// True if there is nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// About the bytes that they take, here and in the worker's hub.
    pub(crate) fn memory(&self) -> usize {
        let entries: usize = self.names.iter().map(BTreeSet::len).sum();
        size_of::<Subscriptions>() + self.name_bytes + entries * ENTRY_BYTES
    }
}

/// One connection among those that listen to something.
#[derive(Clone, Copy, Debug)]
struct Listener {
    conn: ConnId,
    /// Number of the first item that it is for.
    since: u64,
}

/// Connections by id.
type Listeners = BTreeMap<u64, Listener>;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Hub {
    worker: usize,
    named: [HashMap<Name, Listeners>; Kind::COUNT],
    trackers: Listeners,
    monitors: Listeners,
    /// Items that are delivered to everybody: the number of the current one.
    done: u64,
    current: Option<Progress>,
}

/// How far the current item is.
#[derive(Debug)]
struct Progress {
    item: Item,
    /// Of a message: 0 for the channel's listeners, n for those of the n-th pattern.
    list: usize,
    /// Connections of the list with a lower id have it.
    from: u64,
}

/// One delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery<'h> {
    pub(crate) to: ConnRef,
    pub(crate) what: What<'h>,
}

/// A delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What<'h> {
    /// A message, and the pattern that it matched if it was subscribed by one.
    Message(&'h Message, Option<&'h Name>),
    /// Keys that a tracking connection has read.
    Read(&'h Arc<Stale>),
    /// Keys under a prefix of a tracking connection; None: all keys.
    Stale(Option<&'h Arc<Stale>>),
    /// Stale keys of another connection that sends its messages here.
    Redirected(&'h Stale),
    /// A line for a monitor.
    Line(&'h [u8]),
}

impl Hub {
    /// Of worker `worker`.
    pub(crate) fn new(worker: usize) -> Hub {
        Hub {
            worker,
            named: Default::default(),
            trackers: Listeners::new(),
            monitors: Listeners::new(),
            done: 0,
            current: None,
        }
    }

    /// The worker that it belongs to.
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// Items delivered to everybody.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Subscribes the connection, if it is not yet.
    pub(crate) fn subscribe(
        &mut self,
        registry: &Registry,
        kind: Kind,
        name: &[u8],
        who: ConnRef,
        subscriptions: &mut Subscriptions,
    ) {
        if subscriptions.of(kind).contains(name) {
            return;
        }
        let (name, since) = registry.subscribe(kind, name, self.worker);
        subscriptions.names[kind as usize].insert(Arc::clone(&name));
        subscriptions.name_bytes += name.len();
        let before =
            self.named[kind as usize].entry(name).or_default().insert(who.client, Listener { conn: who.conn, since });
        assert!(before.is_none(), "hub and connection know the same subscriptions");
    }

    /// Ends the connection's subscription, if there is one.
    pub(crate) fn unsubscribe(
        &mut self,
        registry: &Registry,
        kind: Kind,
        name: &[u8],
        id: u64,
        subscriptions: &mut Subscriptions,
    ) {
        if !subscriptions.names[kind as usize].remove(name) {
            return;
        }
        subscriptions.name_bytes -= name.len();
        let space = &mut self.named[kind as usize];
        let listeners = space.get_mut(name).expect("hub and connection know the same subscriptions");
        listeners.remove(&id);
        if listeners.is_empty() {
            space.remove(name);
        }
        registry.unsubscribe(kind, name, self.worker);
    }

    /// Ends the connection's subscriptions of these kinds.
    pub(crate) fn unsubscribe_all(
        &mut self,
        registry: &Registry,
        kinds: &[Kind],
        id: u64,
        subscriptions: &mut Subscriptions,
    ) {
        for &kind in kinds {
            let names: Vec<Name> = subscriptions.of(kind).iter().cloned().collect();
            for name in names {
                self.unsubscribe(registry, kind, &name, id, subscriptions);
            }
        }
    }

    /// The connection tracks from now on, or no longer.
    pub(crate) fn track(&mut self, registry: &Registry, who: ConnRef, on: bool) {
        let since = registry.inbox(self.worker).pushed();
        set(&mut self.trackers, who.client, on.then_some(Listener { conn: who.conn, since }));
    }

    /// The connection monitors from now on, or no longer.
    pub(crate) fn monitor(&mut self, registry: &Registry, who: ConnRef, on: bool) {
        let since = registry.inbox(self.worker).pushed();
        set(&mut self.monitors, who.client, on.then_some(Listener { conn: who.conn, since }));
    }

    /// Gives at most about `most` deliveries to `give`, in order; takes items from the inbox as it goes. False if nothing
    /// is left to deliver.
    pub(crate) fn deliver(&mut self, registry: &Registry, most: usize, mut give: impl FnMut(Delivery<'_>)) -> bool {
        let inbox = registry.inbox(self.worker);
        let mut left = most;
        loop {
            if self.current.is_none() {
                let Some(item) = inbox.pop() else { return false };
                self.current = Some(Progress { item, list: 0, from: 0 });
            }
            if left == 0 {
                return true;
            }
            left = left.saturating_sub(self.go_on(left, &mut give));
        }
    }

    /// Goes on with the current item; gives the number of deliveries, and takes the item off when it is everywhere.
    fn go_on(&mut self, most: usize, give: &mut impl FnMut(Delivery<'_>)) -> usize {
        let progress = self.current.as_mut().expect("the caller has set it");
        let mut slice = Slice { most, given: 0, number: self.done };
        let (list, from) = (&mut progress.list, &mut progress.from);
        let whole = match &progress.item {
            Item::Message(message) => loop {
                if *list > message.patterns.len() {
                    break true;
                }
                let pattern = list.checked_sub(1).map(|nth| &message.patterns[nth]);
                let (kind, name) = pattern.map_or((message.kind, &message.channel), |name| (Kind::Pattern, name));
                let listeners = self.named[kind as usize].get(name);
                if !slice.fan_out(listeners, from, What::Message(message, pattern), give) {
                    break false;
                }
                *list += 1;
                *from = 0;
            },
            Item::Prefix(prefix, stale) => {
                let listeners = self.named[Kind::Prefix as usize].get(prefix);
                slice.fan_out(listeners, from, What::Stale(Some(stale)), give)
            }
            Item::AllStale => slice.fan_out(Some(&self.trackers), from, What::Stale(None), give),
            Item::Monitor(line) => slice.fan_out(Some(&self.monitors), from, What::Line(line), give),
            Item::Stale(stale, ids) => {
                let rest = ids.iter().skip(*from as usize).take(slice.most);
                for &id in rest {
                    *from += 1;
                    slice.given += 1;
                    if let Some(Listener { conn, .. }) = self.trackers.get(&id) {
                        give(Delivery { to: ConnRef { conn: *conn, client: id }, what: What::Read(stale) });
                    }
                }
                *from as usize == ids.len()
            }
            Item::Redirected(to, stale) => {
                give(Delivery { to: *to, what: What::Redirected(stale) });
                slice.given += 1;
                true
            }
        };
        if whole {
            self.current = None;
            self.done += 1;
        }
        slice.given
    }
}

/// The deliveries that this turn may still make.
struct Slice {
    most: usize,
    given: usize,
    /// The item's number.
    number: u64,
}

impl Slice {
    /// Delivers to those of a list from `from` on whom the item is for; false if not all have it, then `from` says who is
    /// next.
    fn fan_out<'h>(
        &mut self,
        listeners: Option<&Listeners>,
        from: &mut u64,
        what: What<'h>,
        give: &mut impl FnMut(Delivery<'h>),
    ) -> bool {
        for (&id, listener) in listeners.into_iter().flat_map(|listeners| listeners.range(*from..)) {
            if self.given == self.most {
                *from = id;
                return false;
            }
            if listener.since <= self.number {
                give(Delivery { to: ConnRef { conn: listener.conn, client: id }, what });
                self.given += 1;
            }
        }
        true
    }
}

/// Enters a connection that is not there yet, or takes it out.
fn set(listeners: &mut Listeners, id: u64, listener: Option<Listener>) {
    match listener {
        Some(listener) => {
            listeners.entry(id).or_insert(listener);
        }
        None => {
            listeners.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Inbox;
    use super::*;

    fn at(number: usize, client: u64) -> ConnRef {
        ConnRef { conn: ConnId(number), client }
    }

    /// A turn gives no more than it is asked to, whoever comes and goes between two turns.
    #[test]
    fn a_message_for_thousands_is_delivered_in_slices() {
        const SLICE: usize = 128;
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let registry = Registry::new([Inbox::new(waker)]);
        let mut hub = Hub::new(0);
        let mut all: Vec<Subscriptions> = (0..3000).map(|_| Subscriptions::default()).collect();
        for (id, subscriptions) in all.iter_mut().enumerate() {
            hub.subscribe(&registry, Kind::Channel, b"c", at(id, id as u64), subscriptions);
        }
        for round in 1..=3 {
            // Two less and one more a round.
            assert_eq!(registry.publish(Kind::Channel, b"c", b"m", 0), 3000 - (round - 1));
            let (mut got, mut slices) = (vec![0_u64; 3002], 0);
            loop {
                let mut given = 0;
                let more = hub.deliver(&registry, SLICE, |delivery| {
                    given += 1;
                    got[delivery.to.conn.0] += 1;
                });
                assert!(given <= SLICE, "{given} deliveries in one turn");
                slices += 1;
                if !more {
                    break;
                }
                if slices == 2 {
                    // One that had it and one that would have had it leave; who comes now is not meant.
                    for gone in [round as usize, 3000 - round as usize] {
                        hub.unsubscribe(&registry, Kind::Channel, b"c", gone as u64, &mut all[gone]);
                    }
                    let (who, mut late) = (at(3001, 9000 + round), Subscriptions::default());
                    hub.subscribe(&registry, Kind::Channel, b"c", who, &mut late);
                    all.push(late);
                }
            }
            assert!(slices >= 3000 / SLICE, "{slices} turns");
            // All who are there to the end have it once; of the late ones those of the rounds before.
            assert!(got[10..2990].iter().all(|&count| count == 1), "{got:?}");
            assert_eq!(got[3001], round - 1);
        }
    }
}
