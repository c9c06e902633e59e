//! A question to all workers that a transaction leaves behind: it is asked when the transaction is over.

use varve_catalog::Row;
use varve_protocol::Reply;

use crate::features::clients::state::Question;

/// A question that a transaction left behind, and the replies of the commands after it.
pub(crate) struct DeferredQuestion {
    pub(crate) question: Option<Question>,
    /// The row of the command that asks.
    pub(crate) asked: &'static Row,
    /// Replies were not turned off.
    pub(crate) wanted: bool,
    pub(crate) replies: Reply,
}
