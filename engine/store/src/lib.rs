//! The keyspace: joins the segment log and the index into shards; strings, expiry, eviction.
//!
//! ```text
//!   StoreWorker ----- Tx (one command's view) ---- held shards ---> index: hash -> Ref
//!     |                                                          |
//!     +-- Appender (pieces of open segments) ---> Log <----------+   objects: key, expiry, value
//! ```
//! Four folders, whose arrows only go down:
//! - `ops` operations on keys whose shards are held, one type a file group: they know nothing of locks; beside it
//!   `steps`, the background's work: expiry, growth, eviction, reclaim, sweeps. The two do not see each other;
//! - `keyspace` store, shards, workers: finds keys, holds shards, reports changes;
//! - `state` plain data: the types of the fields of store, shard and worker.
//!
//! The big collections' elements are the crate `varve-collection`.
//!
//! No sockets, no files, no clock: time is handed in with each batch.

#![forbid(unsafe_code)]

mod admission;
mod keyspace;
mod ops;
mod state;
mod steps;

pub use keyspace::gate;
pub use keyspace::store::{Options, Store};
pub use keyspace::token::{ScriptToken, Token};
pub use keyspace::walk::{EmitKey, IndexLoad};
pub use keyspace::worker::{StoreWorker, WorkerState};
pub use ops::{
    AddError, Ahead, Drawn, ElementLine, EntryReader, GuessedCollection, ListPart, ListReader, ListSearch, Overdue,
    Pick, Picker, REWRITTEN_AT_ONCE, ReadOn, SetOp, SetView, SetViews, SetsInParts, StreamWriter, Tx, Unpublished,
    WholeReader, ZRanges, ZsetReader,
};
pub use state::clock::{KeyUse, UseMeter};
pub use state::effects::{Again, Audience, Effect, EffectSink, EventSink, Prepared, Unit, Words};
pub use state::events::{self, EventClass};
pub use state::form::StringForm;
pub use state::key::{Key, SHARDS_MAX};
pub use state::lazyfree::{Lazyfree, Removal};
pub use state::listing::{KeyListing, KeyNames, WantsName};
pub use state::meter::Defragged;
pub use state::observe::{Author, Observer};
pub use state::outline::StreamOutline;
pub use state::pending::Freeing;
pub use state::policy::{Eviction, Policy};
pub use state::process::ProcessMemory;
pub use state::readers::{CollectionReader, ReadBounds};
pub use state::ready::ReadyKey;
pub use state::request::{NotAdmitted, ObjectInfo, OutOfMemory, Ttl, VALUE_BYTES_MAX};
pub use state::shapes::{Limits, SMALL_BYTES_MAX, SMALL_ENTRIES_MAX, Shapes, SmallShape};
pub use state::shard_set::ShardSet;
pub use state::stats::{StoreCounters, StoreTotals};
pub use state::survey::{KeyShare, LargeKey, Surveyed};
pub use state::types::{PerType, SmallLimits, Type, WrongType};
pub use state::victims::{Defrag, Formula, ReclaimCost};
pub use state::waiters::{Freeze, NextWaiter, Waiter, Waiting, Wants};
pub use state::walker::{Before, PartSink, ValuePart, Walker};
pub use state::watch::{self, NamePattern, NameWatch, Watcher};
pub use state::wheel;
pub use varve_collection::KeptBytes;
pub use varve_collection::leaf_table::FIELD_EXPIRY_MS_MAX;
pub use varve_collection::list::{End as ListEnd, RemovalPart, RemovedPart};
pub use varve_collection::stream::{
    Consumer, Groups, Idempotence, IdempotenceCounts, IdempotenceFigures, IdempotenceLimits, NamePlace, NamedMessage,
    NodeLimits, PendingEntry, PendingFilter, StreamEntry, StreamFacts, StreamFields, StreamGroup, StreamGroups,
    StreamId, StreamNeed, StreamNode, StreamPart, StreamReader, StreamState, Trim,
};
pub use varve_collection::zset::{LexBound, ScoreBound, ZAdd, ZAdded, ZRange, ZShown};
pub use varve_index::TableStats;
pub use varve_packed::node::PackedEntry;
pub use varve_segment::{
    FilledExtent, KeptForPins, LogGeometry, LogStats, OpenExtent, Pin, PinRead, SegmentClass, SegmentInfo,
    SegmentState, Way, WholePin,
};
