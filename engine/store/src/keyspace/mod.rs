//! The keyspace: finds, holds, reports. Store, shards, workers and what joins them.
//!
//! | file | what |
//! |---|---|
//! | `gate`, `databases` | the lock over everything, the map of databases |
//! | `ground` | the part of the store that a shard knows |
//! | `shard`, `door`, `roots` | the unit of locking, the door of all changes, the roots of big collections |
//! | `store`, `worker` | what all workers share, what each brings along |
//! | `guards`, `token` | the shards that a command holds, who may wait for more of them |
//! | `wish` | a try that was refused, to which others give way |
//! | `owed` | entries of watchers and waiters that go once their shard is free |
//! | `clocks`, `report`, `watch`, `waiters` | clocks of keys, events and observers, watched keys, clients that wait |
//! | `expiry` | the end of a key whose time has come |
//! | `walk`, `walking`, `long_values` | the keyspace as a whole, the steps of a walk, those over long collections |
//! | `own_dates` | times that clients of a replica give keys |
//! | `verify` | what must hold |

mod clocks;
pub(crate) mod databases;
pub(crate) mod door;
pub(crate) mod expiry;
pub mod gate;
pub(crate) mod ground;
pub(crate) mod guards;
mod listing;
mod long_values;
mod owed;
pub(crate) mod own_dates;
mod report;
mod roots;
pub(crate) mod shard;
pub(crate) mod store;
pub(crate) mod token;
mod verify;
mod waiters;
pub(crate) mod walk;
mod walking;
mod watch;
mod wish;
pub(crate) mod worker;
