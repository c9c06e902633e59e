//! Commands that may block their client: waiting, and being served.
//!
//! ```text
//!   handler: no key has anything --block--> the session's Blocked (a Waiter in the queues of all its keys)
//!
//!   another command makes a key ready --serve--> claimed, Resume::resume runs on the waiter's behalf --> Served
//!   the waiter's worker: time is up, unblocked, gone --Blocked::cancel--> nobody serves it any more
//! ```
//! Not here: the commands' grammar and what they take (their handlers), the queues (the store's waiters), the connection
//! that stands still meanwhile (the server).

mod block;
mod serve;

pub use crate::waiting::{Resume, Wish};
pub use block::block;
pub(crate) use serve::{serve_alone, serve_ready, serve_rest, widen};
