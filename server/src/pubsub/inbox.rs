//! A worker's inbox: what concerns some of its connections and was not asked for by them, in the order in which it came.
//!
//! ```text
//!  number:   taken                 pushed
//!            | item | item | item |          pushed counts all that ever came, so an item's number never changes
//! ```
//!
//! Apart from the mailbox, since it is worked off in slices. The poll is woken when something comes into an empty inbox;
//! the worker looks here before it waits. The lock is a leaf.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use mio::Waker;
use parking_lot::Mutex;

use super::{Kind, Name};
use crate::tracking::Stale;

/// What is delivered to connections out of turn.
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
    /// Stale keys of another connection, for the one that gets its messages: slot and id.
    Redirected(usize, u64, Arc<Stale>),
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
            Item::Prefix(_, stale) | Item::Redirected(_, _, stale) => stale.bytes(),
            Item::AllStale => 0,
            Item::Monitor(line) => line.len(),
        }
    }
}

/// A published message, shared by all workers that it goes to.
#[derive(Debug)]
pub(crate) struct Message {
    /// [`Kind::Channel`] or [`Kind::Shard`].
    pub(crate) kind: Kind,
    pub(crate) channel: Name,
    pub(crate) payload: Arc<[u8]>,
    /// The patterns that match the channel and have subscribers anywhere.
    pub(crate) patterns: Vec<Name>,
}

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: Mutex<VecDeque<Item>>,
    pushed: AtomicU64,
    waiting_bytes: AtomicUsize,
    waker: Arc<Waker>,
}

impl Inbox {
    /// An empty inbox of the worker whose poll this wakes.
    pub(crate) fn new(waker: Arc<Waker>) -> Inbox {
        Inbox {
            queue: Mutex::new(VecDeque::new()),
            pushed: AtomicU64::new(0),
            waiting_bytes: AtomicUsize::new(0),
            waker,
        }
    }

    /// Puts an item. True if the worker has to be woken, which the caller does with [`Inbox::wake`] after it has let its
    /// own locks go.
    #[must_use]
    pub(crate) fn push(&self, item: Item) -> bool {
        self.waiting_bytes.fetch_add(item.bytes(), Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.push_back(item);
        self.pushed.store(self.pushed.load(Ordering::Relaxed) + 1, Ordering::Release);
        queue.len() == 1
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
}
