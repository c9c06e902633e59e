//! Commands that may block their client: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP, BZPOPMIN, BZPOPMAX, BZMPOP.
//!
//! ```text
//!   grammar --> Call --attempt--> a key has something: taken, replied
//!                        |------> inside EXEC: the null that the command without blocking replies
//!                        +------> Session::blocked = Blocked (a Waiter in the queues of all its keys)
//!
//!   another command makes a key ready --serve--> claimed, the Call's part runs on the waiter's behalf --> Served
//!   the waiter's worker: time is up, unblocked, gone --Blocked::cancel--> nobody serves it any more
//! ```
//! The same code takes for the client itself and on its behalf (`take`). Not here: the queues (the store's waiters), the
//! connection that stands still meanwhile (the server).

mod call;
mod serve;
mod take;
mod wait;

pub(crate) use call::ROWS;
pub(crate) use serve::{recheck, serve_ready, widen};
pub use wait::{Blocked, Served};
