//! Applying a stream of commands (an append-only file, a primary's stream) with several workers.
//!
//! ```text
//!  bytes --Router--> whose keys? --> lane 0: c c c c c c M c c ..  --Lane 0-->  worker 0
//!                                    lane 1: c c c c ..... M c ..  --Lane 1-->  worker 1
//!                                                          ^ a command of both lanes: runs when all before it have, in both
//! ```
//! A shard belongs to one lane, so that each shard sees its commands in the order of the stream, and so does each pair of
//! commands that touch a common shard. A transaction is routed as a whole, by the keys of all its commands. What may touch
//! any key (FLUSHALL, SWAPDB, scripts) is of all lanes; what touches none goes to the first. SELECT runs nowhere: the router
//! follows it, and each command carries its database.
//!
//! The offsets are those of the caller's stream. A command that is refused ends the work: all before it still run, none
//! behind it is begun, and of several that are refused the first in the stream is named, however many lanes there are. An
//! applier of old files passes over errors of scripts and transactions ([`Applier::forgiving`]).
//!
//! Not here: where the bytes come from, and who wakes workers.

mod lane;
mod queue;
mod router;

pub use lane::Lane;
pub use queue::{Applier, Forgiven, LANES_MAX, LaneSet};
pub use router::Router;
