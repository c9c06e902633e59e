//! Applying a stream of commands (an append-only file, a primary's stream) with several workers.
//!
//! ```text
//!  bytes --Router--> whose keys? --> lane 0: c c c c c c M c c ..   --ApplyWorker 0--> worker 0
//!                                    lane 1: c c c c ..... M c ..   --ApplyWorker 1--> worker 1
//!                                    lane 2: c c c c c c c ..
//!                                                          M: a command of lanes 0 and 1. It runs when all before it have, in both
//! ```
//! A shard belongs to one lane, and one worker at a time runs commands of a lane. So each shard sees its commands in the order of
//! the stream, and so does each pair of commands that touch a common shard. A worker has lanes of its own, and takes of others' where
//! nothing in its own may run. A transaction is routed as a whole, by the keys of all its commands. What may touch
//! any key (FLUSHALL, SWAPDB, scripts) is of all lanes; what touches none goes to the first. SELECT runs nowhere: the router
//! follows it, and each command carries its database.
//!
//! The offsets are those of the caller's stream. A command that is refused ends the work: all before it still run, none
//! behind it is begun, and of several that are refused the first in the stream is named, however many lanes there are. An
//! applier of old files passes over errors of scripts and transactions ([`Applier::forgiving`]).
//!
//! Not here: where the bytes come from, and who wakes workers.

mod queue;
mod router;
mod worker;

pub use queue::{Applier, Forgiven, LANES_MAX, NumberSet, WorkerSet};
pub use router::{RoutedBytes, Router};
pub use worker::ApplyWorker;
