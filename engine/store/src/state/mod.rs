//! Plain data: the types of the fields of store, shard and worker. Nothing here knows a shard, a lock's order or the store.
//!
//! | file | what |
//! |---|---|
//! | `types`, `form`, `key` | the table of types, how a string was made, keys and the bits of their hash |
//! | `request` | small types that commands and the store share |
//! | `shard_set` | the shards that a command holds, listed |
//! | `policy`, `clock`, `shapes` | the limit and its policies, what a clock says, the limits of encodings |
//! | `stats`, `meter`, `process` | counters, figures of defragmentation, memory of the process |
//! | `wheel` | the timing wheel |
//! | `watch`, `waiters`, `events`, `effects` | watched keys, clients that wait, queued events, effects of commands |
//! | `lazyfree` | which removals effects write as UNLINK |
//! | `observe`, `walker` | the observer of reads and changes, the walker that sees objects before they change |
//! | `outline` | a stream without its entries, for those who go on without its shard |
//! | `candidates`, `victims`, `reclaim`, `background` | what eviction, reclaim and a worker's background remember |
//! | `buffers` | buffers that a worker keeps from one use to the next |
//! | `link`, `roots`, `collections` | a collection's encoding and link, the roots of a shard, where each root is |
//! | `readers` | those who read a big collection over several holds of its shard |
//! | `pending`, `detached`, `owed` | what the background owes |
//! | `survey`, `prefix` | what workers have seen of their keys, and by which part of their names |

pub(crate) mod background;
pub(crate) mod buffers;
pub(crate) mod candidates;
pub(crate) mod clock;
pub(crate) mod collections;
pub(crate) mod counts;
pub(crate) mod detached;
pub(crate) mod effects;
pub mod events;
pub(crate) mod form;
pub(crate) mod key;
pub(crate) mod lazyfree;
pub(crate) mod link;
pub(crate) mod listing;
pub(crate) mod meter;
pub(crate) mod observe;
pub(crate) mod outline;
pub(crate) mod owed;
pub(crate) mod own_dates;
pub(crate) mod pending;
pub(crate) mod policy;
pub(crate) mod prefix;
pub(crate) mod process;
pub(crate) mod readers;
pub(crate) mod ready;
pub(crate) mod reclaim;
pub(crate) mod request;
pub(crate) mod roots;
pub(crate) mod shapes;
pub(crate) mod shard_set;
pub(crate) mod small;
pub(crate) mod stats;
pub(crate) mod survey;
pub(crate) mod types;
pub(crate) mod victims;
pub(crate) mod waiters;
pub(crate) mod walker;
pub mod watch;
pub mod wheel;
