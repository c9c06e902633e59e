//! Commands that may block their client: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BLMPOP, BZPOPMIN, BZPOPMAX, BZMPOP.
//!
//! ```text
//!   grammar --> Call --attempt--> a key has something: taken, replied
//!                        |------> inside EXEC: the null that the command without blocking replies
//!                        +------> varve_exec::blocking::block: the client waits, the Call is resumed when it is served
//! ```
//! One piece of code takes elements both for a client that does not wait and for a waiter that is served (`take`).

mod call;
mod take;

use varve_exec::FileRows;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[call::ROWS];
