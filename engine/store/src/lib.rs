//! The keyspace: joins the segment log and the index into shards; strings, expiry, eviction.
//!
//! ```text
//!   Worker ----- Tx (one command's view) ---- held shards ---> index: hash -> Ref
//!     |                                                          |
//!     +-- Appender (pieces of open segments) ---> Log <----------+   objects: key, expiry, value
//! ```
//! - [`store`] what all workers share, [`worker`] what each brings along, [`shard`] the unit of locking;
//! - [`tx`] operations on keys whose shards are held: they know nothing of locks;
//! - [`collections`] the big collections of a store: numbers, roots, what the background owes to them;
//! - [`watch`] keys that sessions watch, [`events`] what happened to keys;
//! - [`walk`], [`flush`] the keyspace as a whole; [`reclaim`] room; [`background`] the scheduler of steps;
//! - [`waiters`] clients that wait for keys; [`gate`], [`rank`] the lock rules; [`wheel`] the timing wheel; [`verify`] what must hold.
//!
//! No sockets, no files, no clock: time is handed in with each batch.

#![forbid(unsafe_code)]

mod background;
mod collections;
mod databases;
pub mod events;
mod evict;
mod flush;
pub mod gate;
mod held;
pub mod hist;
mod key;
mod meter;
mod observe;
mod policy;
pub mod rank;
mod reclaim;
mod shapes;
mod shard;
mod stats;
mod store;
mod tx;
mod types;
mod verify;
mod victim;
mod waiters;
mod walk;
pub mod watch;
pub mod wheel;
mod worker;

pub use events::EventClass;
pub use key::{Key, SHARDS_MAX};
pub use meter::{Defragged, ProcessMemory};
pub use observe::{Author, Observer};
pub use policy::{Eviction, Policy};
pub use shapes::{Limits, SMALL_BYTES_MAX, SMALL_ENTRIES_MAX, Shapes};
pub use stats::{Counter, StoreCounters, StoreTotals};
pub use store::{Options, Store};
pub use tx::{AddError, Ahead, GuessedCollection, ListPart, Pick, SetOp, SetView, SetViews, Tx};
pub use types::{EMBSTR_MAX, ObjectInfo, OutOfMemory, Ttl, Type, WrongType};
pub use varve_collection::list::End as ListEnd;
pub use varve_collection::zset::{LexBound, ScoreBound, ZAdd, ZAdded, ZRange, ZShown};
pub use varve_index::TableStats;
pub use varve_packed::node::Entry;
pub use varve_segment::{Class, FilledRun, Form, Geometry, OpenRun, Pin, SegmentInfo, State as SegmentState};
pub use victim::{Defrag, Formula, ReclaimCost};
pub use waiters::{NextWaiter, ReadyKey, Waiter, Waiting};
pub use walk::EmitKey;
pub use watch::Watcher;
pub use worker::{Local, Worker};
