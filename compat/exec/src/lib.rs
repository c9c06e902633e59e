//! The executor: it runs commands, and knows them as rows and pointers.
//!
//! ```text
//!  bytes -> batch: parse, look up, hash keys, hold shards -> handler(&mut Ctx) -> CmdResult -> what follows a command
//!             |  checks, pause          |  transaction: EXEC            count, slow log, latency, tracking, MONITOR,
//!             |                         |  blocking: waiters served     events, waiters, CLIENT REPLY
//!             +-- what the server runs itself is handed to it (`TurnState::Server`)
//! ```
//!
//! No command is recognised by its name here: what is special about one is in its row (`varve_catalog::Behaviour`).
//! Nothing here knows of sockets.
//!
//! The modules are floors, lowest first: plain data (errors, counts, what is queued, watched, tracked or waited for), the
//! session, the contexts of handlers (those of scripts too), the table of commands, what follows a command (invoke), clients that wait (blocking),
//! turns and transactions (batch), streams of commands that several workers apply (apply). `cargo xtask tidy` keeps the order.

#![forbid(unsafe_code)]

pub mod apply;
pub mod batch;
pub mod blocking;
pub mod checks;
pub mod command;
pub mod denials;
pub mod hot_keys;
pub mod journal;
pub mod large_arguments;
pub mod last_command;
pub mod link;
pub mod monitor;
pub mod notify;
pub mod ongoing;
pub mod pause;
pub mod script;
mod script_rules;
pub mod session;
pub mod stats;
pub mod tracking;

mod ctx;
mod errors;
mod invoke;
mod multi;
mod occupied;
mod sampled;
mod sources;
mod waiting;

pub use command::{Command, CommandSet, CommandTable, Exec, FileRows, SessionCtx, Step, Unresolved};
pub use ctx::{Ctx, KeyArg, WideCtx};
pub use errors::{CmdResult, CommandError};
pub use invoke::{Caller, Ran};
pub use large_arguments::LargeArguments;
pub use multi::{Queued, Watching};
pub use occupied::Occupied;
pub use ongoing::{LeftCommand, LeftTurn, OccupiedWork, Ongoing, Progress, WhileOccupied};
pub use script::{Audience, Beginning, KeeperCtx, ScriptCalls, ScriptCtx, ScriptKeeper, ScriptKind};
pub use script_rules::ScriptRules;
pub use session::Session;
pub use sources::Sources;
pub use waiting::{Awaited, Blocked, Served};
