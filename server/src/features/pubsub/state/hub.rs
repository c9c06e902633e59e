//! A worker's side: which of its connections listen to what, and how far the fan-out of the current item is.
//!
//! ```text
//!  hub:         name -> { client id -> connection, first number }    ordered by id, so that a slice can go on where the
//!                                                                   last one ended, whatever came and went between
//!               inbox --take all--> taken --a run of messages, or one item--> current --> receiver, until it is spent
//!  connection:  Subscriptions: its names, each kind apart
//! ```
//!
//! Used by its worker alone. Not here: counts over all workers (registry.rs), how long a slice is and outputs
//! (features/pubsub/delivery.rs).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use varve_base::share::Share;

use super::inbox::{Entry, Item, Message};
use super::latch::Latch;
use super::run::{List, Run};
use super::visit::Visit;
use super::{ConnId, ConnRef, Kind, Name, Registry, Stale};

/// Items, and patterns that they match, that are looked at for one connection's messages before its worker goes on with other
/// things: some 0.2 ms.
const LOOK_MAX: usize = 4096;

/// Subscriptions of connections that have gone which one turn ends, where those are not very many: some 0.3 ms.
const LEAVE_MAX: usize = 512;

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

    /// All of them, prefixes too.
    fn len(&self) -> usize {
        self.names.iter().map(BTreeSet::len).sum()
    }

    /// True if there is nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// About the bytes that they take, here and in the worker's hub.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Subscriptions>() + self.name_bytes + self.len() * ENTRY_BYTES
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
    listening: Listening,
    /// Items that were taken out of the inbox and are not begun.
    taken: VecDeque<Entry>,
    current: Option<FanOut>,
    /// Items that are delivered to everybody: the number of the current one.
    done: u64,
    /// The inbox knows that this worker waits.
    rests: bool,
    /// Subscriptions of connections that have gone, with these numbers of their clients: they end bit by bit.
    leaving: Vec<(u64, Subscriptions)>,
    /// Their number.
    left: usize,
}

/// The connections that listen, by what they listen to.
#[derive(Debug, Default)]
struct Listening {
    named: [HashMap<Name, Listeners>; Kind::COUNT],
    trackers: Listeners,
    monitors: Listeners,
}

/// An item on its way, or several.
#[derive(Debug)]
struct FanOut {
    what: Work,
    /// Connections of the list with a lower id have it; of tracking connections that are named: those before this place.
    from: u64,
    /// The inbox is owed this.
    cost: usize,
    latch: Option<Arc<Latch>>,
}

#[derive(Debug)]
enum Work {
    Messages(Run),
    /// Anything but a message.
    Other(Item),
}

/// One delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery<'h> {
    pub(crate) to: ConnRef,
    pub(crate) what: What<'h>,
    /// The share of whoever waits for it.
    pub(crate) latch: Option<&'h Arc<Latch>>,
}

/// A delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What<'h> {
    /// The messages of a run, from this one on.
    Messages(&'h Run, usize),
    /// Keys that a tracking connection has read.
    Read(&'h Arc<Stale>),
    /// Keys under a prefix of a tracking connection; None: all keys.
    Stale(Option<&'h Arc<Stale>>),
    /// Stale keys of another connection that sends its messages here.
    Redirected(&'h Stale),
    /// A line for a monitor.
    Line(&'h [u8]),
}

impl What<'_> {
    /// True of keys that are stale to the connection that gets them, and not to another one alone, which has its messages sent here:
    /// a connection may redirect to itself.
    pub(crate) fn is_stale_to(&self, tracks_by_itself: bool) -> bool {
        matches!(self, What::Read(_) | What::Stale(_)) || tracks_by_itself && matches!(self, What::Redirected(_))
    }
}

/// The taker of a slice's deliveries.
pub(crate) trait Receiver {
    /// Takes one.
    fn give(&mut self, delivery: Delivery<'_>);

    /// True if the slice ends here. Asked behind each delivery and each item.
    fn is_spent(&mut self) -> bool;

    /// An item that somebody waits for has been given to all that it is for: their outputs are to be written before the
    /// share is dropped.
    fn close(&mut self, latch: Arc<Latch>);
}

impl Hub {
    /// Of worker `worker`.
    pub(crate) fn new(worker: usize) -> Hub {
        Hub {
            worker,
            listening: Listening::default(),
            taken: VecDeque::new(),
            current: None,
            done: 0,
            rests: false,
            leaving: Vec::new(),
            left: 0,
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
        let before = self.listening.named[kind as usize]
            .entry(name)
            .or_default()
            .insert(who.client, Listener { conn: who.conn, since });
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
        self.end(registry, kind, name, id);
    }

    /// Ends a subscription that the connection no longer has among its own.
    fn end(&mut self, registry: &Registry, kind: Kind, name: &[u8], id: u64) {
        let space = &mut self.listening.named[kind as usize];
        let listeners = space.get_mut(name).expect("hub and connection know the same subscriptions");
        listeners.remove(&id);
        if listeners.is_empty() {
            space.remove(name);
        }
        registry.unsubscribe(kind, name, self.worker);
    }

    /// A connection has gone: its subscriptions end, of many some now and the others in later turns. Until then messages to it find
    /// nobody.
    pub(crate) fn leave(&mut self, registry: &Registry, id: u64, subscriptions: Subscriptions) {
        self.left += subscriptions.len();
        self.leaving.push((id, subscriptions));
        self.end_leaving(registry, Share::of(0, LEAVE_MAX));
    }

    /// True while subscriptions of connections that have gone are to end.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Ends some subscriptions of connections that have gone.
    #[cold]
    pub(crate) fn go_on_leaving(&mut self, registry: &Registry) {
        self.end_leaving(registry, Share::of(self.left, LEAVE_MAX));
    }

    fn end_leaving(&mut self, registry: &Registry, share: Share) {
        for _ in share {
            let Some((id, subscriptions)) = self.leaving.last_mut() else { return };
            let id = *id;
            match Kind::ALL.iter().find_map(|&kind| Some((kind, subscriptions.names[kind as usize].pop_first()?))) {
                Some((kind, name)) => {
                    self.left -= 1;
                    self.end(registry, kind, &name, id);
                }
                None => drop(self.leaving.pop()),
            }
        }
        self.leaving.pop_if(|(_, subscriptions)| subscriptions.is_empty());
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
            while self.unsubscribe_first(registry, kind, id, subscriptions).is_some() {}
        }
    }

    /// Ends the connection's first subscription of a kind; its name.
    pub(crate) fn unsubscribe_first(
        &mut self,
        registry: &Registry,
        kind: Kind,
        id: u64,
        subscriptions: &mut Subscriptions,
    ) -> Option<Name> {
        let name = subscriptions.names[kind as usize].pop_first()?;
        subscriptions.name_bytes -= name.len();
        self.end(registry, kind, &name, id);
        Some(name)
    }

    /// The connection tracks from now on, or no longer.
    pub(crate) fn track(&mut self, registry: &Registry, who: ConnRef, on: bool) {
        let since = registry.inbox(self.worker).pushed();
        set(&mut self.listening.trackers, who.client, on.then_some(Listener { conn: who.conn, since }));
    }

    /// The connection monitors from now on, or no longer.
    pub(crate) fn monitor(&mut self, registry: &Registry, who: ConnRef, on: bool) {
        let since = registry.inbox(self.worker).pushed();
        set(&mut self.listening.monitors, who.client, on.then_some(Listener { conn: who.conn, since }));
    }

    /// True if the inbox holds something, or not everybody has got what was taken out of it, and the next item does not wait
    /// for the append-only file.
    #[inline]
    pub(crate) fn owes(&self, registry: &Registry) -> bool {
        registry.inbox(self.worker).pushed() != self.done && (self.current.is_some() || self.lets_go(registry))
    }

    /// The visit that the next item waits for, if it is known to wait.
    #[inline]
    fn next_visit(&self) -> Option<&Arc<Visit>> {
        if self.current.is_some() { None } else { self.taken.front()?.visit.as_ref() }
    }

    /// True if the first item that was taken may be delivered, or none was taken.
    #[inline]
    fn lets_go(&self, registry: &Registry) -> bool {
        self.taken.front().is_none_or(|next| registry.visits().lets_go(next.visit.as_ref()))
    }

    /// The position up to which the journal is to be synced before the next item is delivered, if that is known.
    #[inline]
    pub(crate) fn waits_until(&self) -> Option<u64> {
        self.next_visit()?.until()
    }

    /// The worker is about to wait: true if nothing has come meanwhile that may be delivered. Whatever comes from then on
    /// wakes it. While the next item waits, what comes behind it is of no interest.
    #[inline]
    pub(crate) fn rest(&mut self, registry: &Registry) -> bool {
        if let Some(visit) = self.next_visit() {
            return visit.until().is_some() || visit.sleep(self.worker);
        }
        self.rests = self.rests || registry.inbox(self.worker).rest();
        self.rests
    }

    /// Gives deliveries to `receiver` in order until it is spent; takes items from the inbox as it goes. False if nothing
    /// is left to deliver.
    pub(crate) fn deliver(&mut self, registry: &Registry, receiver: &mut impl Receiver) -> bool {
        self.rests = false;
        loop {
            if self.current.is_none() && !self.begin(registry) {
                return false;
            }
            if receiver.is_spent() {
                return true;
            }
            let fan_out = self.current.as_mut().expect("it has begun");
            if !fan_out.go_on(&self.listening, self.done, receiver) {
                return true;
            }
            let FanOut { what, cost, latch, .. } = self.current.take().expect("it has begun");
            self.done += what.len() as u64;
            registry.inbox(self.worker).settle(cost);
            if let Some(latch) = latch {
                receiver.close(latch);
            }
        }
    }

    /// Gives a connection, before anybody else and before what else it is owed, the message that is the last of the first
    /// `until` items, and those that come before it by the same names: each name keeps its order. False if the receiver was
    /// spent, or [`LOOK_MAX`] items were looked at, or one waits for the append-only file, before that: then it goes on where
    /// it ended.
    pub(crate) fn give_ahead(
        &mut self,
        registry: &Registry,
        who: ConnRef,
        until: u64,
        receiver: &mut impl Receiver,
    ) -> bool {
        if until <= self.done {
            return true;
        }
        registry.inbox(self.worker).take_behind(&mut self.taken);
        let Some(message) = self.message(until - 1) else { return true };
        let lists = self.listening.lists(message);
        let nexts = self.nexts_for(who.client, lists);
        let from = nexts.values().copied().min().unwrap_or(until);
        let (mut at, mut looked) = (from, 0);
        while at < until && looked < LOOK_MAX && self.lets_go_of(registry, at) && !receiver.is_spent() {
            if let Some(message) = self.message(at) {
                looked += message.patterns.len();
                for list in self.listening.lists(message) {
                    if nexts.get(&list).is_some_and(|next| *next <= at) {
                        let run = Run::new(Arc::clone(message), vec![list]);
                        receiver.give(Delivery { to: who, what: What::Messages(&run, 0), latch: None });
                    }
                }
            }
            (at, looked) = (at + 1, looked + 1);
        }
        for (List { kind, name }, next) in nexts {
            let listeners = self.listening.named[kind as usize].get_mut(&name);
            let listener = listeners.and_then(|listeners| listeners.get_mut(&who.client)).expect("it was there");
            listener.since = next.max(at);
        }
        at >= until
    }

    /// Of lists those that a connection is in, each with the number of the first item that it does not have.
    fn nexts_for(&self, client: u64, lists: Vec<List>) -> HashMap<List, u64> {
        let current = self.current.as_ref();
        let places = current.map_or_else(HashMap::new, FanOut::places);
        let next_of = |list: &List| {
            let since = self.listening.named[list.kind as usize].get(&list.name)?.get(&client)?.since;
            let is_given = current.is_some_and(|current| current.has_given(client, places.get(list).copied()));
            let passed = if is_given { self.first_taken() } else { self.done };
            Some(since.max(passed))
        };
        lists.into_iter().filter_map(|list| next_of(&list).map(|next| (list, next))).collect()
    }

    /// Number of the first item that was taken out of the inbox and is not begun.
    fn first_taken(&self) -> u64 {
        self.done + self.current.as_ref().map_or(0, |current| current.what.len() as u64)
    }

    /// The message of this number, which is not done; None for other items.
    fn message(&self, number: u64) -> Option<&Arc<Message>> {
        let first = self.first_taken();
        if number >= first {
            return match &self.taken.get((number - first) as usize)?.item {
                Item::Message(message) => Some(message),
                _ => None,
            };
        }
        match &self.current.as_ref()?.what {
            Work::Messages(run) => run.message((number - self.done) as usize),
            Work::Other(_) => None,
        }
    }

    /// True if the item of this number may be delivered.
    fn lets_go_of(&self, registry: &Registry, number: u64) -> bool {
        let Some(at) = number.checked_sub(self.first_taken()) else { return true };
        self.taken.get(at as usize).is_none_or(|entry| registry.visits().lets_go(entry.visit.as_ref()))
    }

    /// Takes the next item, and messages behind it that go to the same connections. False if there is none, or it waits for
    /// the append-only file.
    fn begin(&mut self, registry: &Registry) -> bool {
        if self.taken.is_empty() {
            registry.inbox(self.worker).take(&mut self.taken);
        }
        if !self.lets_go(registry) {
            return false;
        }
        let Some(Entry { item, mut cost, latch, visit: _ }) = self.taken.pop_front() else { return false };
        let what = match item {
            Item::Message(message) => {
                let lists = self.listening.lists(&message);
                let mut run = Run::new(message, lists);
                while let Some(message) = self.next_of(&run).filter(|_| self.lets_go(registry)) {
                    cost += self.taken.pop_front().expect("it was seen").cost;
                    run.add(message);
                }
                Work::Messages(run)
            }
            item => Work::Other(item),
        };
        self.current = Some(FanOut { what, from: 0, cost, latch });
        true
    }

    /// The next item, if it is a message that the run takes.
    fn next_of(&self, run: &Run) -> Option<Arc<Message>> {
        let Entry { item: Item::Message(message), .. } = self.taken.front()? else { return None };
        let takes = run.is_for_the_same(message) || self.listening.is_for(message, run);
        takes.then(|| Arc::clone(message))
    }
}

impl Listening {
    /// The lists of this worker that a message goes to: the channel's, then those of patterns.
    fn lists(&self, message: &Message) -> Vec<List> {
        let direct = self.list(message.kind, &message.channel);
        let patterns = message.patterns.iter().filter_map(|pattern| self.list(Kind::Pattern, pattern));
        direct.into_iter().chain(patterns).collect()
    }

    fn list(&self, kind: Kind, name: &Name) -> Option<List> {
        self.named[kind as usize].contains_key(name).then(|| List { kind, name: Arc::clone(name) })
    }

    /// True if the message goes to the run's list of listeners alone.
    fn is_for(&self, message: &Message, run: &Run) -> bool {
        matches!(self.lists(message).as_slice(), [list] if run.takes(message, list))
    }
}

impl Work {
    /// Number of items.
    fn len(&self) -> usize {
        match self {
            Work::Messages(run) => run.len(),
            Work::Other(_) => 1,
        }
    }
}

impl FanOut {
    /// Its lists, each with its place among them.
    fn places(&self) -> HashMap<&List, usize> {
        match &self.what {
            Work::Messages(run) => run.lists().iter().zip(0..).collect(),
            Work::Other(_) => HashMap::new(),
        }
    }

    /// True if this connection has got what the list at a place among its lists brings it, or if it is no message.
    fn has_given(&self, client: u64, place: Option<usize>) -> bool {
        match &self.what {
            Work::Messages(run) => {
                place.is_some_and(|place| place < run.turn() || place == run.turn() && client < self.from)
            }
            Work::Other(_) => true,
        }
    }

    /// Goes on, the first item's number being `number`. False if the receiver was spent before everybody had it.
    fn go_on(&mut self, listening: &Listening, number: u64, receiver: &mut impl Receiver) -> bool {
        let FanOut { what, from, latch, .. } = self;
        let mut fan = Fan { from, latch: latch.as_ref(), receiver };
        match what {
            Work::Messages(run) => {
                while let Some(List { kind, name }) = run.list() {
                    let (last, listeners) = (number + run.len() as u64 - 1, listening.named[*kind as usize].get(name));
                    let what = |since: u64| What::Messages(run, since.saturating_sub(number) as usize);
                    if !fan.out(listeners, last, what) {
                        return false;
                    }
                    run.next_list();
                    *fan.from = 0;
                }
                true
            }
            Work::Other(item) => match item {
                Item::Message(_) => unreachable!("messages are delivered in runs"),
                Item::Prefix(prefix, stale) => {
                    let listeners = listening.named[Kind::Prefix as usize].get(prefix);
                    fan.out(listeners, number, |_| What::Stale(Some(stale)))
                }
                Item::AllStale => fan.out(Some(&listening.trackers), number, |_| What::Stale(None)),
                Item::Monitor(line) => fan.out(Some(&listening.monitors), number, |_| What::Line(line)),
                Item::Stale(stale, ids) => fan.each_of(ids, &listening.trackers, stale),
                Item::Redirected(to, stale) => {
                    fan.give(*to, What::Redirected(stale));
                    true
                }
            },
        }
    }
}

/// The giving of one item, or run.
struct Fan<'f, R> {
    from: &'f mut u64,
    latch: Option<&'f Arc<Latch>>,
    receiver: &'f mut R,
}

impl<R: Receiver> Fan<'_, R> {
    /// Gives to those of a list, from where the last slice ended, who listened before item `last` came; `what` they get
    /// depends on since when. False if the receiver was spent before that.
    fn out<'h>(&mut self, listeners: Option<&Listeners>, last: u64, what: impl Fn(u64) -> What<'h>) -> bool {
        let Some(listeners) = listeners else { return true };
        for (&id, listener) in listeners.range(*self.from..) {
            if listener.since > last {
                continue;
            }
            self.give(ConnRef { conn: listener.conn, client: id }, what(listener.since));
            if self.receiver.is_spent() {
                *self.from = id + 1;
                return false;
            }
        }
        true
    }

    /// Gives stale keys to these tracking connections, those that still track. False if the receiver was spent before that.
    fn each_of(&mut self, ids: &[u64], trackers: &Listeners, stale: &Arc<Stale>) -> bool {
        for &id in &ids[*self.from as usize..] {
            *self.from += 1;
            let Some(listener) = trackers.get(&id) else { continue };
            self.give(ConnRef { conn: listener.conn, client: id }, What::Read(stale));
            if self.receiver.is_spent() {
                return false;
            }
        }
        true
    }

    fn give(&mut self, to: ConnRef, what: What<'_>) {
        self.receiver.give(Delivery { to, what, latch: self.latch });
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
    use varve_protocol::{Reply, Resp};

    fn at(number: usize, client: u64) -> ConnRef {
        ConnRef { conn: ConnId(number), client }
    }

    fn registry() -> (mio::Poll, Registry) {
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap());
        (poll, Registry::new([Inbox::new(waker)], varve_exec::journal::Journal::new(1)))
    }

    /// Takes a number of deliveries a slice, and keeps what each connection gets.
    struct Taker {
        left: usize,
        given: usize,
        got: HashMap<u64, Reply>,
        latches: usize,
    }

    impl Taker {
        fn new() -> Taker {
            Taker { left: 0, given: 0, got: HashMap::new(), latches: 0 }
        }

        /// One slice; false if nothing is left to deliver.
        fn slice(&mut self, hub: &mut Hub, registry: &Registry, most: usize) -> bool {
            (self.left, self.given) = (most, 0);
            hub.deliver(registry, self)
        }

        fn text(&self, client: u64) -> String {
            self.got
                .get(&client)
                .map_or(String::new(), |got| String::from_utf8(got.to_vec()).unwrap().replace("\r\n", " "))
        }
    }

    impl Receiver for Taker {
        fn give(&mut self, delivery: Delivery<'_>) {
            self.left -= 1;
            self.given += 1;
            let out = self.got.entry(delivery.to.client).or_default();
            match delivery.what {
                What::Messages(run, from) => run.write(from, out),
                What::Read(_) | What::Stale(_) | What::Redirected(_) => out.simple("stale"),
                What::Line(line) => out.raw(line),
            }
        }

        fn is_spent(&mut self) -> bool {
            self.left == 0
        }

        fn close(&mut self, _latch: Arc<Latch>) {
            self.latches += 1;
        }
    }

    /// A slice gives no more than it is asked to, whoever comes and goes between two slices.
    #[test]
    fn a_message_for_thousands_is_delivered_in_slices() {
        const SLICE: usize = 128;
        let (_poll, registry) = registry();
        let mut hub = Hub::new(0);
        let mut all: Vec<Subscriptions> = (0..3000).map(|_| Subscriptions::default()).collect();
        for (id, subscriptions) in all.iter_mut().enumerate() {
            hub.subscribe(&registry, Kind::Channel, b"c", at(id, id as u64), subscriptions);
        }
        let mut taker = Taker::new();
        for round in 1..=3 {
            // Two less and one more a round.
            assert_eq!(registry.publish(Kind::Channel, b"c", b"m", 0), 3000 - (round - 1));
            let mut slices = 0;
            loop {
                let more = taker.slice(&mut hub, &registry, SLICE);
                assert!(taker.given <= SLICE, "{} deliveries in one slice", taker.given);
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
            assert!(slices >= 3000 / SLICE, "{slices} slices");
            assert!(!hub.owes(&registry) && registry.inbox(0).owed_bytes() == 0);
            // All who are there to the end have it once; of the late ones those of the rounds before.
            let message = "*3 $7 message $1 c $1 m ";
            assert!((10..2990).all(|id| taker.text(id) == message.repeat(round as usize)));
            for late in 1..=3 {
                assert_eq!(taker.text(9000 + late), message.repeat(round.saturating_sub(late) as usize));
            }
        }
    }

    /// A connection with many subscriptions has gone: no turn ends all of them, and those of others stay.
    #[test]
    fn many_subscriptions_of_one_that_has_gone_end_in_turns() {
        let (_poll, registry) = registry();
        let mut hub = Hub::new(0);
        let (mut gone, mut stays) = (Subscriptions::default(), Subscriptions::default());
        for n in 0..2 * LEAVE_MAX {
            let name = n.to_string().into_bytes();
            hub.subscribe(&registry, Kind::Channel, &name, at(1, 1), &mut gone);
            hub.subscribe(&registry, Kind::Pattern, &name, at(1, 1), &mut gone);
        }
        hub.subscribe(&registry, Kind::Channel, b"7", at(2, 2), &mut stays);
        let left = |hub: &Hub| hub.leaving.iter().map(|(_, names)| names.total()).sum::<usize>();
        hub.leave(&registry, 1, gone);
        for turn in 1..4 {
            assert_eq!((left(&hub), hub.is_leaving()), ((4 - turn) * LEAVE_MAX, true));
            hub.go_on_leaving(&registry);
        }
        assert_eq!((left(&hub), hub.is_leaving()), (0, false));
        assert_eq!((registry.len(Kind::Channel), registry.len(Kind::Pattern)), (1, 0));
        assert_eq!(registry.publish(Kind::Channel, b"7", b"m", 0), 1);
        let mut taker = Taker::new();
        assert!(!taker.slice(&mut hub, &registry, 10));
        assert_eq!((taker.text(1), taker.text(2)), (String::new(), "*3 $7 message $1 7 $1 m ".to_owned()));
    }

    /// One connection gets a message ahead of all else, in slices, with what comes before it by the same names; everything
    /// comes to everybody once.
    #[test]
    fn a_message_is_given_ahead_behind_those_of_its_names() {
        let (_poll, registry) = registry();
        let mut hub = Hub::new(0);
        let mut subscriptions: Vec<Subscriptions> = (0..2).map(|_| Subscriptions::default()).collect();
        for (id, own) in subscriptions.iter_mut().enumerate() {
            for channel in ["a", "own"] {
                hub.subscribe(&registry, Kind::Channel, channel.as_bytes(), at(id, id as u64), own);
            }
        }
        let publish = |channel: &str, payload: &str| {
            registry.publish(Kind::Channel, channel.as_bytes(), payload.as_bytes(), 0);
        };
        publish("own", "0");
        for _ in 0..2 * LOOK_MAX {
            publish("a", "x");
        }
        for text in ["1", "2"] {
            publish("own", text);
        }
        let until = registry.inbox(0).own_pushed();
        publish("own", "3");
        let mut taker = Taker::new();
        // The first client has got the first message, the second one not yet.
        assert!(taker.slice(&mut hub, &registry, 1));
        let mut looks = 1;
        taker.left = usize::MAX;
        while !hub.give_ahead(&registry, at(1, 1), until, &mut taker) {
            looks += 1;
        }
        assert!((2..=4).contains(&looks), "{looks} looks");
        assert!(!hub.give_ahead(&registry, at(0, 0), until, &mut taker), "a slice of its own");
        taker.left = 0;
        assert!(!hub.give_ahead(&registry, at(0, 0), until, &mut taker), "nothing may be given");
        let message = |channel: &str, text: &str| format!("*3 $7 message ${} {channel} $1 {text} ", channel.len());
        let own = |texts: &[&str]| -> String { texts.iter().map(|text| message("own", text)).collect() };
        assert_eq!((taker.text(0), taker.text(1)), (own(&["0"]), own(&["0", "1", "2"])));
        taker.slice(&mut hub, &registry, usize::MAX);
        let all = message("a", "x").repeat(2 * LOOK_MAX);
        assert_eq!(taker.text(0), own(&["0"]) + &all + &own(&["1", "2", "3"]));
        assert_eq!(taker.text(1), own(&["0", "1", "2"]) + &all + &own(&["3"]));
        assert!(hub.give_ahead(&registry, at(1, 1), until, &mut taker), "long done");
        assert!(!hub.owes(&registry) && registry.inbox(0).owed_bytes() == 0);
    }

    /// Messages in a row for the same listeners are one delivery to each; one who began in the middle gets the rest of it.
    #[test]
    fn a_run_is_one_delivery_a_listener() {
        let (_poll, registry) = registry();
        let mut hub = Hub::new(0);
        let mut subscriptions: Vec<Subscriptions> = (0..3).map(|_| Subscriptions::default()).collect();
        let mut subscribe = |hub: &mut Hub, id: usize, kind: Kind, name: &str| {
            hub.subscribe(&registry, kind, name.as_bytes(), at(id, id as u64), &mut subscriptions[id]);
        };
        let publish = |channel: &str, payload: &str| {
            registry.publish(Kind::Channel, channel.as_bytes(), payload.as_bytes(), 0);
        };
        subscribe(&mut hub, 0, Kind::Channel, "c");
        publish("c", "1");
        publish("c", "2");
        subscribe(&mut hub, 1, Kind::Channel, "c");
        publish("c", "3");
        let mut taker = Taker::new();
        taker.got.entry(1).or_default().set_resp(Resp::V3);
        assert!(!taker.slice(&mut hub, &registry, 100));
        assert_eq!(taker.given, 2);
        let message = |version: char, text: &str| format!("{version}3 $7 message $1 c $1 {text} ");
        assert_eq!(taker.text(0), ["1", "2", "3"].map(|text| message('*', text)).concat());
        assert_eq!(taker.text(1), message('>', "3"));

        // By a pattern alone: other channels of it join. With both forms at one client: a message at a time.
        taker.got.clear();
        subscribe(&mut hub, 2, Kind::Pattern, "[xc]");
        publish("x", "1");
        publish("x", "2");
        publish("c", "3");
        publish("c", "4");
        assert!(!taker.slice(&mut hub, &registry, 100));
        assert_eq!(taker.given, 1 + 2 * 3);
        let by_pattern = |channel: &str, text: &str| format!("*4 $8 pmessage $4 [xc] $1 {channel} $1 {text} ");
        let all = [("x", "1"), ("x", "2"), ("c", "3"), ("c", "4")].map(|(channel, text)| by_pattern(channel, text));
        assert_eq!(taker.text(2), all.concat());
        taker.got.clear();
        subscribe(&mut hub, 2, Kind::Channel, "c");
        publish("c", "5");
        publish("c", "6");
        assert!(!taker.slice(&mut hub, &registry, 100));
        let both = ["5", "6"].map(|text| message('*', text) + &by_pattern("c", text));
        assert_eq!(taker.text(2), both.concat());
    }

    /// A run ends where its bytes are enough, and at a large payload.
    #[test]
    fn a_run_is_bounded() {
        let (_poll, registry) = registry();
        let (mut hub, mut subscriptions) = (Hub::new(0), Subscriptions::default());
        hub.subscribe(&registry, Kind::Channel, b"c", at(0, 0), &mut subscriptions);
        let large = vec![b'l'; 100 << 10];
        for _ in 0..100 {
            registry.publish(Kind::Channel, b"c", &large[..1 << 10], 0);
        }
        let mut taker = Taker::new();
        while taker.slice(&mut hub, &registry, 1) {}
        let each = taker.text(0).len() / 100;
        assert!(each > 1 << 10, "{each}");
        taker.got.clear();
        let _ = taker.slice(&mut hub, &registry, 1);
        for _ in 0..100 {
            registry.publish(Kind::Channel, b"c", &large[..1 << 10], 0);
        }
        taker.slice(&mut hub, &registry, 1);
        assert!((1..=32 << 10).contains(&taker.got[&0].len()), "{}", taker.got[&0].len());
        while taker.slice(&mut hub, &registry, 1) {}
        taker.got.clear();
        for payload in [&b"a"[..], b"b", &large, &large, b"c", b"d"] {
            registry.publish(Kind::Channel, b"c", payload, 0);
        }
        assert!(!taker.slice(&mut hub, &registry, 100));
        assert_eq!(taker.given, 4);
        assert_eq!(taker.got[&0].pinned_bytes(), 2 * large.len());
    }
}
