//! EXEC of a transaction that has commands of the server itself in it: CONFIG, CLIENT, INFO.
//!
//! ```text
//!   gate busy:   the request is put back, and tried again like one that has found a shard busy
//!   gate alone:  begin -> run ... the executor's commands ... -> one of ours: run_own() -> run ... -> end
//!   gate open:   questions to all workers, one after the other:  reply | answer | the replies behind it | answer | ...
//! ```
//! A question to all workers (CLIENT LIST, KILL) cannot be answered while they stand before the gate. Its place in the
//! reply is kept, and it is asked when the transaction is over: it sees the connections as they are then, and no data. All parts of
//! the reply have one ceiling together.

use std::collections::VecDeque;
use std::sync::Arc;

use varve_exec::Command;
use varve_exec::batch::Transaction;
use varve_protocol::{Mark, Reply, Resp};

use super::core::Core;
use super::run::OwnRequest;
use crate::features::clients::state::Question;
use crate::features::pubsub::state::ConnId;
use crate::net::conn::{Deferred, DeferredQuestion};
use crate::state::ctx::After;

impl Core {
    /// Runs the transaction of a connection; the first question that is left, if there is one. `None`, and nothing is done, if
    /// the gate is not to be had: the worker does not wait for commands that take long.
    pub(super) fn transaction(
        &mut self,
        id: ConnId,
        exec: &'static Command,
        out: &mut Reply,
    ) -> Option<Option<Question>> {
        let state = Arc::clone(&self.state);
        let session = self.conns[id].session_mut();
        let Some(alone) = state.store().gate().try_exclusive(self.store.id(), session.busy_tries()) else {
            session.note_busy();
            return None;
        };
        session.note_progress();
        let mut mark = out.mark();
        let session = self.conns[id].session_mut();
        let mut transaction = Transaction::begin(exec, &mut self.store, session, out);
        let mut deferred: VecDeque<DeferredQuestion> = VecDeque::new();
        // Messages to the client itself: they cannot stand inside the reply. Stale keys stand behind it.
        let (mut messages, mut stale) = (out.like(), out.like());
        let (mut made_bytes, own_before) = (0, out.own_unsent_bytes());
        loop {
            let current = deferred.back_mut().map_or(&mut *out, |last| &mut last.replies);
            let session = self.conns[id].session_mut();
            let own = transaction.run(&mut self.batch, &mut self.store, &self.table, session, current);
            let Some((command, queued)) = own else { break };
            let queued = queued.clone();
            let (args, exec_muted) = (queued.args(), Some(transaction.is_muted()));
            let request = OwnRequest { command, args, bytes: args.bytes(), exec_muted };
            messages.set_resp(current.resp());
            drop_of_other_version(&mut stale, current.resp());
            self.deliver_in_exec(id, &mut messages, &mut stale);
            let after = self.run_own(id, request, current);
            // A connection whose user is gone runs the rest as one that may do nothing, and ends behind its reply.
            let _ = self.follow_users(id);
            match after {
                After::Done => {}
                After::Close => self.conns[id].session_mut().end_after_reply(),
                After::Busy | After::Wait | After::Block(_) | After::More(_) => {
                    unreachable!("a command whose reply comes later is refused inside MULTI")
                }
                After::Ask(question) => {
                    let (mut replies, made_here) = (current.like(), current.own_unsent_bytes());
                    made_bytes += if deferred.is_empty() { made_here - own_before } else { made_here };
                    let question_bytes = question.held_bytes();
                    made_bytes += size_of::<DeferredQuestion>() + question_bytes;
                    replies.set_ceiling(out.ceiling().saturating_sub(made_bytes));
                    // Of questions alone there may be too many, too.
                    replies.admits(1);
                    let wanted = transaction.wants(self.conns[id].session());
                    let question = Some(question);
                    deferred.push_back(DeferredQuestion { question, question_bytes, asked: command, wanted, replies });
                }
            }
        }
        let session = self.conns[id].session_mut();
        transaction.end(&mut self.batch, &mut self.store, session, out);
        drop(alone);
        self.account(id);
        if !messages.is_empty() {
            let reply = out.split_off(mark);
            out.append(messages);
            mark = out.mark();
            out.append(reply);
        }
        drop_of_other_version(&mut stale, self.conns[id].session().resp());
        self.leave_questions(id, (out, mark), deferred, stale);
        Some(self.conns[id].next_question())
    }

    /// The reply of a transaction, which `out` holds since `mark`, waits for answers to its questions, if it has left some. Stale keys
    /// stand behind it. If its client gets nothing of it, and there is nothing to be asked, it is lost now.
    fn leave_questions(
        &mut self,
        id: ConnId,
        (out, mark): (&mut Reply, Mark),
        questions: VecDeque<DeferredQuestion>,
        mut stale: Reply,
    ) {
        if questions.is_empty() {
            return out.append(stale);
        }
        let mut reply = out.split_off(mark);
        if stale.is_overflown() {
            // Where a part of them is lost, so is the reply: a client that keeps copies would keep them.
            reply.append(std::mem::take(&mut stale));
        }
        let mut deferred = Deferred::new(reply, questions);
        match deferred.lost() {
            None => {
                self.conns[id].defer(Box::new(deferred));
                self.conns[id].hold_messages(stale);
            }
            Some(reply) => {
                self.abandon(self.conns[id].who(), deferred.left());
                out.append(reply);
            }
        }
    }
}

/// Drops stale keys that were told in another version than the client speaks now, in which they are told otherwise, or not at all.
fn drop_of_other_version(stale: &mut Reply, resp: Resp) {
    if stale.is_resp3() != (resp == Resp::V3) {
        *stale = stale.like();
        stale.set_resp(resp);
    }
}
