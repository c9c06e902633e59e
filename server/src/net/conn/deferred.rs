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
    ///
    /// If something of it has passed its ceiling, the client gets nothing ([`Deferred::lost`]).
    pub(crate) fn new(mut reply: Reply, mut questions: VecDeque<DeferredQuestion>) -> Deferred {
        debug_assert!(!questions.is_empty(), "a transaction without questions has its reply");
        if let Some(lost) = questions.iter().position(|one| one.replies.is_overflown()) {
            reply.append(std::mem::take(&mut questions[lost].replies));
        }
        let mut deferred = Deferred { reply, questions, behind_held_bytes: 0, behind_bytes: 0 };
        deferred.recount();
        deferred
    }

    /// The reply, if its client gets nothing of it. What [`Deferred::left`] has is to be asked nevertheless: users that are gone, and
    /// clients that are to be closed, are so for everybody.
    pub(crate) fn lost(&mut self) -> Option<Reply> {
        self.reply.is_overflown().then(|| std::mem::take(&mut self.reply))
    }

    /// Adds up what lies behind the questions.
    fn recount(&mut self) {
        self.behind_held_bytes = self.questions.iter().map(DeferredQuestion::held_bytes).sum();
        self.behind_bytes = self.questions.iter().map(|one| one.replies.len()).sum();
    }

    /// The next question, to be asked now.
    pub(super) fn next_question(&mut self) -> Option<Question> {
        self.questions.front_mut()?.question.take()
    }

    /// The questions that were not asked.
    pub(crate) fn left(self) -> impl Iterator<Item = Question> {
        self.questions.into_iter().filter_map(|one| one.question)
    }

    /// The question that was asked is answered: `write` writes the answer into the reply. The whole reply, if no question is left, or
    /// if its client gets nothing of it.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&DeferredQuestion, &mut Reply)) -> Option<Reply> {
        let answered = self.questions.pop_front().expect("a question was asked");
        write(&answered, &mut self.reply);
        self.behind_held_bytes -= answered.held_bytes();
        self.behind_bytes -= answered.replies.len();
        self.reply.append(answered.replies);
        if self.questions.is_empty() { Some(std::mem::take(&mut self.reply)) } else { self.lost() }
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
    /// Bytes that it takes.
    pub(crate) question_bytes: usize,
    /// The row of the command that asks.
    pub(crate) asked: &'static Row,
    /// Replies were not turned off.
    pub(crate) wanted: bool,
    pub(crate) replies: Reply,
}

impl DeferredQuestion {
    /// Bytes of memory; of the question as it was before it was asked, so that what is subtracted then was added.
    fn held_bytes(&self) -> usize {
        size_of::<DeferredQuestion>() + self.question_bytes + self.replies.held_bytes()
    }
}
