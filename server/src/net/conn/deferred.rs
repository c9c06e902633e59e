//! Questions to all workers that a transaction leaves behind: they are asked when the transaction is over, and its reply
//! waits for all of them, so that no message stands inside it.

use std::collections::VecDeque;

use varve_catalog::Row;
use varve_protocol::Reply;

use crate::features::clients::state::Question;

/// The rest of a transaction that has left questions behind.
pub(crate) struct Deferred {
    /// Its reply, up to the place of the next answer.
    pub(crate) reply: Reply,
    /// The first of them is asked, or about to be.
    pub(crate) questions: VecDeque<DeferredQuestion>,
}

/// A question that a transaction left behind, and the replies of the commands after it.
pub(crate) struct DeferredQuestion {
    pub(crate) question: Option<Question>,
    /// The row of the command that asks.
    pub(crate) asked: &'static Row,
    /// Replies were not turned off.
    pub(crate) wanted: bool,
    pub(crate) replies: Reply,
}
