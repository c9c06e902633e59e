//! Questions to all workers that a transaction leaves behind: they are asked when the transaction is over, and its reply
//! waits for all of them, so that no message stands inside it.

use std::collections::VecDeque;

use varve_catalog::Row;
use varve_protocol::Reply;

use crate::features::clients::state::Question;

/// The rest of a transaction that has left questions behind.
pub(crate) struct Deferred {
    /// Its reply, up to the place of the next answer.
    reply: Reply,
    /// The first of them is asked, or about to be.
    questions: VecDeque<DeferredQuestion>,
    /// Bytes of memory that the questions take, and the replies behind them.
    behind_held_bytes: usize,
    /// Bytes of the replies behind questions.
    behind_bytes: usize,
}

impl Deferred {
    /// A transaction's reply up to its first question, and the questions.
    pub(crate) fn new(reply: Reply, questions: VecDeque<DeferredQuestion>) -> Deferred {
        debug_assert!(!questions.is_empty(), "a transaction without questions has its reply");
        let behind_held_bytes = questions.iter().map(DeferredQuestion::held_bytes).sum();
        let behind_bytes = questions.iter().map(|one| one.replies.len()).sum();
        Deferred { reply, questions, behind_held_bytes, behind_bytes }
    }

    /// The next question, to be asked now.
    pub(super) fn next_question(&mut self) -> Option<Question> {
        self.questions.front_mut()?.question.take()
    }

    /// The question that was asked is answered: `write` writes the answer into the reply. The whole reply, if no question is left,
    /// or if the reply has passed its ceiling, so that its client gets nothing.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&DeferredQuestion, &mut Reply)) -> Option<Reply> {
        let answered = self.questions.pop_front().expect("a question was asked");
        write(&answered, &mut self.reply);
        self.behind_held_bytes -= answered.held_bytes();
        self.behind_bytes -= answered.replies.len();
        self.reply.append(answered.replies);
        let is_whole = self.questions.is_empty() || self.reply.is_overflown();
        is_whole.then(|| std::mem::take(&mut self.reply))
    }

    /// Bytes of memory that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        self.reply.held_bytes() + self.behind_held_bytes
    }

    /// Bytes of replies that are there.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.reply.len() + self.behind_bytes
    }
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

impl DeferredQuestion {
    fn held_bytes(&self) -> usize {
        size_of::<DeferredQuestion>() + self.replies.held_bytes()
    }
}
