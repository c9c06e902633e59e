//! A worker's inbox: what concerns some of its connections and was not asked for by them, in the order in which it came.
//!
//! ```text
//!  number:   done                 taken                 pushed
//!            |  item | item | item | item | item | item |     pushed counts all that ever came: an item's number never
//!            |  in the worker's hub | in the queue      |     changes, and it is done when the hub's count passes it
//! ```
//! Apart from the mailbox, since it is worked off in slices. Its worker takes all that is there at once. The poll is woken
//! when something comes for a worker that rests: one that found nothing when it looked here last, before it waits.
//!
//! An inbox is owed what all its items still have to bring: each item's bytes, once a listener. Publishers wait while it is
//! owed too much. The lock is a leaf.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::Waker;
use varve_base::shared::{SharedMutex, SharedU64, SharedUsize};

use super::latch::{Latch, Opened};
use super::visit::Visit;
use super::{ConnRef, Kind, Name, Payload, Stale};

/// An item that is delivered to connections out of turn.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A message of a channel, for its subscribers.
    Message(Arc<Message>),
    /// Keys that these tracking connections have read, for them.
    Stale(Arc<Stale>, Box<[u64]>),
    /// Keys under a prefix, for those who track it.
    Prefix(Name, Arc<Stale>),
    /// Nothing that was read holds any more, for all tracking connections.
    AllStale,
    /// Stale keys of another connection, for the one that gets its messages.
    Redirected(ConnRef, Arc<Stale>),
    /// A line for all monitors.
    Monitor(Arc<[u8]>),
}

impl Item {
    /// Bytes of the item itself and of what leads to it, about.
    const OWN_BYTES: usize = 128;
    /// Bytes that a delivery takes beside its contents, about: the work of small ones counts too.
    const DELIVERY_BYTES: usize = 64;

    /// About the bytes that it is, and brings to `listeners` connections; what several inboxes share counts in each.
    fn cost(&self, listeners: usize) -> usize {
        let contents = match self {
            Item::Message(message) => message.bytes(),
            Item::Stale(stale, _) | Item::Prefix(_, stale) | Item::Redirected(_, stale) => stale.bytes(),
            Item::AllStale => 0,
            Item::Monitor(line) => line.len(),
        };
        Item::OWN_BYTES.saturating_add(contents.saturating_add(Item::DELIVERY_BYTES).saturating_mul(listeners))
    }

    /// True for what must be with the connections that it is for before its author gets a reply: stale keys, unless
    /// nobody but the author hears of them.
    pub(super) fn is_owed(&self) -> bool {
        match self {
            Item::Message(_) | Item::Monitor(_) => false,
            Item::Stale(stale, clients) => match (&**stale, &**clients) {
                (Stale::Keys(keys), [only]) => keys.iter().any(|(_, by)| by != only),
                _ => true,
            },
            Item::Prefix(..) | Item::AllStale | Item::Redirected(..) => true,
        }
    }
}

/// A published message, shared by all workers that it goes to.
#[derive(Debug)]
pub(crate) struct Message {
    /// [`Kind::Channel`] or [`Kind::Shard`].
    pub(crate) kind: Kind,
    pub(crate) channel: Name,
    pub(crate) payload: Payload,
    /// The patterns that match the channel and have subscribers anywhere.
    pub(crate) patterns: Vec<Name>,
}

impl Message {
    /// Bytes of channel and payload.
    pub(super) fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len()
    }
}

/// An item in an inbox.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) item: Item,
    /// The inbox is owed this many bytes for it.
    pub(super) cost: usize,
    /// The share of whoever waits until it is delivered.
    pub(super) latch: Option<Arc<Latch>>,
    /// The visit that has pushed it, if it waits for the append-only file.
    pub(super) visit: Option<Arc<Visit>>,
}

impl Entry {
    /// An item for this number of connections, which waits for no file.
    pub(super) fn new(item: Item, listeners: usize, latch: Option<Arc<Latch>>) -> Entry {
        Entry { cost: item.cost(listeners), item, latch, visit: None }
    }

    /// The item waits until what this visit has changed is in the append-only file.
    pub(super) fn behind(self, visit: Option<Arc<Visit>>) -> Entry {
        Entry { visit, ..self }
    }
}

#[derive(Debug)]
struct Queue {
    entries: VecDeque<Entry>,
    /// The worker has looked and found nothing: it is to be woken.
    rests: bool,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: SharedMutex<Queue>,
    pushed: SharedU64,
    /// The count of pushed items behind the last one that came from its own worker.
    own_pushed: SharedU64,
    owed_bytes: SharedUsize,
    opened: Arc<Opened>,
    waker: Arc<Waker>,
}

impl Inbox {
    /// An empty inbox of the worker whose poll this wakes.
    pub(crate) fn new(waker: Arc<Waker>) -> Inbox {
        Inbox {
            queue: SharedMutex::new(Queue { entries: VecDeque::new(), rests: true }),
            pushed: SharedU64::new(0),
            own_pushed: SharedU64::new(0),
            owed_bytes: SharedUsize::new(0),
            opened: Arc::new(Opened::new(Arc::clone(&waker))),
            waker,
        }
    }

    /// Puts an item; `is_own` if its own worker does. True if the worker rests and has to be woken, which the caller does with [`Inbox::wake`] after it has
    /// let its own locks go.
    #[must_use]
    pub(super) fn push(&self, entry: Entry, is_own: bool) -> bool {
        self.owed_bytes.fetch_add(entry.cost, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.entries.push_back(entry);
        let pushed = self.pushed.load(Ordering::Relaxed) + 1;
        self.pushed.store(pushed, Ordering::Release);
        if is_own {
            self.own_pushed.store(pushed, Ordering::Relaxed);
        }
        std::mem::take(&mut queue.rests)
    }

    /// Wakes the worker's poll.
    pub(crate) fn wake(&self) {
        self.waker.wake().expect("an event descriptor takes a count of one after the worker has read it");
    }

    /// Moves all items to the empty `into`, whose room becomes the queue's.
    pub(super) fn take(&self, into: &mut VecDeque<Entry>) {
        assert!(into.is_empty(), "items are worked off in their order");
        std::mem::swap(&mut self.queue.lock().entries, into);
    }

    /// Moves all items behind those in `into`.
    pub(super) fn take_behind(&self, into: &mut VecDeque<Entry>) {
        into.append(&mut self.queue.lock().entries);
    }

    /// The worker is about to wait: true if nothing is here. From then on the next item wakes it.
    pub(super) fn rest(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.rests = queue.entries.is_empty();
        queue.rests
    }

    /// An item of this cost is with all its listeners.
    pub(super) fn settle(&self, cost: usize) {
        let before = self.owed_bytes.fetch_sub(cost, Ordering::Relaxed);
        assert!(before >= cost, "what is settled was owed");
    }

    /// Bytes that its items still have to bring, once a listener, about.
    pub(crate) fn owed_bytes(&self) -> usize {
        self.owed_bytes.load(Ordering::Relaxed)
    }

    /// How many items ever came: the number of the next.
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Acquire)
    }

    /// How many items had come when its own worker had put its last one.
    pub(crate) fn own_pushed(&self) -> u64 {
        self.own_pushed.load(Ordering::Relaxed)
    }

    /// The worker's connections whose latch has opened.
    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: usize, listeners: usize) -> Entry {
        Entry::new(Item::Monitor(vec![b'x'; bytes].into()), listeners, None)
    }

    #[test]
    fn a_worker_that_rests_is_woken_once_and_one_that_works_is_not() {
        let poll = mio::Poll::new().unwrap();
        let inbox = Inbox::new(Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap()));
        let mut taken = VecDeque::new();
        assert!(inbox.push(line(1, 1), false), "a new worker rests");
        assert!(!inbox.push(line(1, 1), false), "it is on its way");
        assert!(!inbox.rest(), "something is here");
        inbox.take(&mut taken);
        assert_eq!(taken.len(), 2);
        assert!(!inbox.push(line(1, 1), false), "it works, and looks again before it rests");
        taken.clear();
        inbox.take(&mut taken);
        assert!(inbox.rest() && inbox.push(line(1, 1), false));
        assert_eq!((inbox.pushed(), inbox.own_pushed()), (4, 0));
    }

    #[test]
    fn what_is_owed_grows_with_the_listeners_until_it_is_settled() {
        let poll = mio::Poll::new().unwrap();
        let inbox = Inbox::new(Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap()));
        let [one, many] = [line(1000, 1), line(1000, 5000)];
        let costs = [one.cost, many.cost];
        assert!(costs[0] >= 1000 && costs[1] >= 5_000_000 && costs[1] < 6_000_000, "{costs:?}");
        for entry in [one, many, line(usize::MAX >> 50, usize::MAX)] {
            let cost = entry.cost;
            let _ = inbox.push(entry, true);
            assert!(inbox.owed_bytes() >= cost);
            inbox.settle(cost);
            assert_eq!(inbox.owed_bytes(), 0);
        }
    }
}
