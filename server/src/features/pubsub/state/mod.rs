//! Publish/subscribe: who listens to what, and how a message reaches connections of other workers. What client-side
//! caching and MONITOR tell connections goes the same way.
//!
//! ```text
//!  publisher's worker                        registry (all workers)           subscriber's worker
//!  PUBLISH c m --lock c--> c: 3 on worker 0, 2 on worker 1
//!                          push {c, m} into inbox 0 ----------------------->  hub: c -> its 3 connections, in slices
//!                          push {c, m} into inbox 1                           deliver.rs: into their outputs
//!              <--unlock-- 5
//! ```
//!
//! - The registry counts a channel's subscriptions a worker; which connections they are, only their worker knows (its
//!   hub). So nothing that is locked grows with the number of subscribers, and a message crosses once a worker.
//! - Inboxes are filled under the channel's lock: all subscribers of a channel see its messages in one order.
//! - A message's place in an inbox is its number. A subscription notes the number at which it began, so that messages
//!   that were published before it, and are still on their way, pass it by.
//! - Messages in a row for the same listeners are one run: its bytes are made once, and each listener gets them at once.
//! - What a worker's inbox is owed counts each item once a listener. Publishers wait while that is too much.
//! - Under `appendfsync always` an item waits in its inbox until what it tells of is in the append-only file (visit.rs).
//! - Locks are leaves: a channel's, then the patterns', then an inbox's; nothing else is taken under them. They may be
//!   taken while shards are held.
//!
//! Not here: the commands (features/pubsub/mod.rs), sockets (worker/deliver.rs).

mod home;
mod hub;
mod inbox;
mod latch;
mod payload;
mod prefixes;
mod registry;
mod run;
mod stale;
mod visit;

pub(crate) use home::{ConnId, ConnRef, Home, WorkWaiter};
pub(crate) use hub::{Delivery, Hub, Receiver, Subscriptions, What};
pub(crate) use inbox::{Inbox, Item, Message};
pub(crate) use latch::Latch;
pub(crate) use payload::Payload;
pub(crate) use registry::{Registry, Sink};
pub(crate) use stale::Stale;

use std::sync::Arc;

/// The name of a channel, or a pattern.
pub(crate) type Name = Arc<[u8]>;

/// The kinds of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A channel by its name.
    Channel,
    /// All channels whose names match.
    Pattern,
    /// A shard channel, a name space of its own.
    Shard,
    /// The changes of all keys that begin so (CLIENT TRACKING BCAST).
    Prefix,
}

impl Kind {
    /// How many there are.
    pub(crate) const COUNT: usize = 4;
    /// Those that make a connection a subscriber.
    pub(crate) const SUBSCRIBED: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];
    /// All of them.
    pub(crate) const ALL: [Kind; Kind::COUNT] = [Kind::Channel, Kind::Pattern, Kind::Shard, Kind::Prefix];

    /// The words that a delivered message, a subscription's confirmation and its end begin with.
    const fn words(self) -> [&'static str; 3] {
        match self {
            Kind::Channel => ["message", "subscribe", "unsubscribe"],
            Kind::Pattern => ["pmessage", "psubscribe", "punsubscribe"],
            Kind::Shard => ["smessage", "ssubscribe", "sunsubscribe"],
            Kind::Prefix => panic!("prefixes are not subscribed to by name"),
        }
    }

    /// The word that a delivered message begins with.
    pub(crate) const fn message(self) -> &'static str {
        self.words()[0]
    }

    /// The word that confirms a subscription.
    pub(crate) const fn subscribed(self) -> &'static str {
        self.words()[1]
    }

    /// The word that confirms the end of a subscription.
    pub(crate) const fn unsubscribed(self) -> &'static str {
        self.words()[2]
    }
}
