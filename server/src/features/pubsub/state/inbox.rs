//! A worker's inbox: what concerns some of its connections and was not asked for by them, in the order in which it came.
//!
//! ```text
//!  number:   settled   delivered   taken                 pushed
//!            |         |           | item | item | item |     pushed counts all that ever came: an item's number never
//!                                                             changes, and it is done when the other counts pass it
//! ```
//! Delivered is what has been written to connections as far as their sockets take it; settled is that, and what had to be
//! passed on to connections of other workers has got there too.
//!
//!
//! Apart from the mailbox, since it is worked off in slices. The poll is woken when something comes into an empty inbox;
//! the worker looks here before it waits. The lock is a leaf.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use mio::Waker;
use parking_lot::Mutex;

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
    /// About the memory that it holds; what several inboxes share counts in each.
    fn bytes(&self) -> usize {
        const OWN: usize = 128;
        OWN + match self {
            Item::Message(message) => message.channel.len() + message.payload.len(),
            Item::Stale(stale, clients) => stale.bytes() + clients.len() * size_of::<u64>(),
            Item::Prefix(_, stale) | Item::Redirected(_, stale) => stale.bytes(),
            Item::AllStale => 0,
            Item::Monitor(line) => line.len(),
        }
    }

    /// True for what must be with the connections that it is for before its author gets a reply: stale keys, unless
    /// nobody but the author hears of them.
    fn is_owed(&self) -> bool {
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

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: Mutex<VecDeque<Item>>,
    pushed: AtomicU64,
    delivered: AtomicU64,
    settled: AtomicU64,
    /// Somebody waits for one of these two to rise.
    awaited: AtomicBool,
    waiting_bytes: AtomicUsize,
    waker: Arc<Waker>,
}

/// The result of [`Inbox::push`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pushed {
    /// The item is done when [`Inbox::delivered`] or [`Inbox::settled`] has come to this.
    pub(crate) count: u64,
    /// The inbox was empty: the worker has to be woken, which the caller does with [`Inbox::wake`] after it has let its own
    /// locks go.
    pub(crate) was_empty: bool,
    /// See [`Item::is_owed`].
    pub(crate) owed: bool,
}

impl Inbox {
    /// An empty inbox of the worker whose poll this wakes.
    pub(crate) fn new(waker: Arc<Waker>) -> Inbox {
        Inbox {
            queue: Mutex::new(VecDeque::new()),
            pushed: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            awaited: AtomicBool::new(false),
            waiting_bytes: AtomicUsize::new(0),
            waker,
        }
    }

    /// Puts an item.
    #[must_use]
    pub(crate) fn push(&self, item: Item) -> Pushed {
        let owed = item.is_owed();
        self.waiting_bytes.fetch_add(item.bytes(), Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.push_back(item);
        let count = self.pushed.load(Ordering::Relaxed) + 1;
        self.pushed.store(count, Ordering::Release);
        Pushed { count, was_empty: queue.len() == 1, owed }
    }

    /// Wakes the worker's poll.
    pub(crate) fn wake(&self) {
        self.waker.wake().expect("an event descriptor takes a count of one after the worker has read it");
    }

    /// Takes the oldest item.
    pub(crate) fn pop(&self) -> Option<Item> {
        let item = self.queue.lock().pop_front()?;
        self.waiting_bytes.fetch_sub(item.bytes(), Ordering::Relaxed);
        Some(item)
    }

    /// About the bytes of the items that nobody has taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// How many items ever came: the number of the next.
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Acquire)
    }

    /// How many items have been written to the connections that they are for.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::SeqCst)
    }

    /// The number of items that were delivered or passed on.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::SeqCst)
    }

    /// The worker says how far it is; true if somebody waits for that, who is to be woken.
    #[must_use]
    pub(crate) fn report(&self, delivered: u64, settled: u64) -> bool {
        assert!(settled <= delivered, "what is not written is not settled");
        self.delivered.store(delivered, Ordering::SeqCst);
        self.settled.store(settled, Ordering::SeqCst);
        self.awaited.swap(false, Ordering::SeqCst)
    }

    /// Asks to be woken at the next [`Inbox::report`]; who calls this looks at the counts afterwards.
    pub(crate) fn await_report(&self) {
        self.awaited.store(true, Ordering::SeqCst);
    }
}
