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
    /// If something of it has passed its ceiling, the client gets nothing, and the questions that do something are asked nevertheless:
    /// users that are gone, and clients that are to be closed, are so for everybody.
    pub(crate) fn new(mut reply: Reply, mut questions: VecDeque<DeferredQuestion>) -> Deferred {
        debug_assert!(!questions.is_empty(), "a transaction without questions has its reply");
        if let Some(lost) = questions.iter().position(|one| one.replies.is_overflown()) {
            reply.append(std::mem::take(&mut questions[lost].replies));
        }
        let mut deferred = Deferred { reply, questions, behind_held_bytes: 0, behind_bytes: 0 };
        deferred.drop_lost();
        deferred.recount();
        deferred
    }

    /// The reply, whose client gets nothing, if there is nothing to be asked.
    pub(crate) fn lost(&mut self) -> Option<Reply> {
        self.questions.is_empty().then(|| std::mem::take(&mut self.reply))
    }

    /// Of a reply that nobody gets, drops the parts that are there, and the questions that are asked for their answer alone.
    fn drop_lost(&mut self) {
        if self.reply.is_overflown() {
            self.questions.retain(|one| one.question.as_ref().is_none_or(Question::does_something));
            self.questions.iter_mut().for_each(|one| one.replies = Reply::new());
            self.recount();
        }
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

    /// The questions that were not asked, of those that do something.
    pub(crate) fn left(self) -> impl Iterator<Item = Question> {
        self.questions.into_iter().filter_map(|one| one.question).filter(Question::does_something)
    }

    /// The question that was asked is answered: `write` writes the answer into the reply. The whole reply, if no question is left.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&DeferredQuestion, &mut Reply)) -> Option<Reply> {
        let answered = self.questions.pop_front().expect("a question was asked");
        write(&answered, &mut self.reply);
        self.behind_held_bytes -= answered.held_bytes();
        self.behind_bytes -= answered.replies.len();
        self.reply.append(answered.replies);
        self.drop_lost();
        self.questions.is_empty().then(|| std::mem::take(&mut self.reply))
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
