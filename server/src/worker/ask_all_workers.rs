//! A worker's answers to questions about all connections, and the reply that they come to where they were asked.
//!
//! ```text
//!   questions:  walk: connections in order of their clients' ids ----> answered      a slice of 250 us a turn for all of
//!               merge: the lines of all workers, in the same order --> reply         them, the next one first
//!               behind the script that rests: a pause, and a change of users
//! ```
//! A hundred thousand connections are a quarter of a second of CLIENT LIST: in slices it delays nobody. So the answer is no
//! picture of one instant. Who leaves meanwhile may be in it, and who comes may not.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use varve_catalog::Row;
use varve_exec::CmdResult;
use varve_exec::stats::CommandStats;
use varve_protocol::Reply;

use super::core::Core;
use crate::errors;
use crate::features::clients;
use crate::features::clients::state::{Filter, Kill, Question, UsersChanged};
use crate::features::pubsub::state::{ConnId, ConnRef};
use crate::net::conn::{DeferredQuestion, WaitReasons};
use crate::state::ask_all_workers::{Answers, Asker, Gather, Lines};
use crate::state::mail::Message;

/// Time that answers to questions take of a turn of the loop.
const SLICE: Duration = Duration::from_micros(250);
/// Connections or lines between two readings of the clock.
const CLOCK_EVERY: usize = 8;

/// The questions that a worker has to go on with.
#[derive(Debug, Default)]
pub(super) struct Questions(VecDeque<Step>);

impl Questions {
    /// True if there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Has the next of the questions asked whose clients have gone.
    pub(super) fn ask_abandoned(&mut self) {
        self.0.push_back(Step::Abandoned);
    }
}

#[derive(Debug)]
enum Step {
    /// Answered once the script that rests has ended: it runs as it began, and whoever hears that writes pause, or that a user is
    /// gone, is to find nothing changed behind that.
    BehindScript(Arc<Gather>),
    Walk(Walk),
    /// All have answered. Never replied to in place: the asking connection may be in the middle of a visit, or about to close, and a
    /// transaction may ask thousands of questions one after the other.
    Gathered(Arc<Gather>),
    Merge(Merge),
    /// The next question is to be asked of those whose clients have gone.
    Abandoned,
}

/// A walk over this worker's connections.
#[derive(Debug)]
struct Walk {
    gather: Arc<Gather>,
    /// The least id of a client that was not looked at.
    next: u64,
    lines: Lines,
    killed: u64,
}

/// The lines of all workers on their way into one text.
#[derive(Debug)]
struct Merge {
    gather: Arc<Gather>,
    parts: Vec<Peekable<IntoIter<(u64, String)>>>,
    /// Bytes of the whole text.
    bytes: usize,
    text: Reply,
}

impl Core {
    /// Puts a connection's question to all workers; the connection waits.
    pub(super) fn ask(&mut self, id: ConnId, question: Question) {
        let conn = &mut self.conns[id];
        assert!(!conn.waits(WaitReasons::KEYS) && !conn.waits(WaitReasons::CLOSING), "a connection that runs asks");
        assert!(conn.wait(WaitReasons::QUESTION), "one question at a time");
        self.put(id, question);
    }

    fn put(&mut self, id: ConnId, question: Question) {
        self.put_for(Asker { worker: self.index, conn: self.conns[id].who(), has_gone: false }, question);
    }

    /// Puts a question to all workers, whether or not its connection is there for the answer.
    pub(super) fn put_for(&mut self, asker: Asker, question: Question) {
        let gather = Arc::new(Gather::new(question, asker, self.state.workers().len()));
        for (index, worker) in self.state.workers().iter().enumerate() {
            if index != self.index {
                worker.send(Message::Ask(Arc::clone(&gather)));
            }
        }
        self.answer(&gather);
    }

    /// Answers for this worker's connections: at once, or, where all of them are looked at, in the slices of this turn and
    /// the next ones.
    pub(super) fn answer(&mut self, gather: &Arc<Gather>) {
        match &gather.question {
            Question::Paused | Question::Users(_) if self.script.is_some() => {
                self.questions.0.push_back(Step::BehindScript(Arc::clone(gather)));
            }
            Question::Unblock { client, error } => {
                let killed = u64::from(self.unblock_client(*client, *error));
                self.answered(gather, Lines::default(), killed);
            }
            Question::Paused => self.answered(gather, Lines::default(), 0),
            Question::List(_) | Question::Kill(_) | Question::Users(_) => {
                let gather = Arc::clone(gather);
                self.questions.0.push_back(Step::Walk(Walk { gather, next: 0, lines: Lines::default(), killed: 0 }));
            }
        }
    }

    /// This worker's part is complete. The last worker to answer tells the asking one.
    fn answered(&mut self, gather: &Arc<Gather>, lines: Lines, killed: u64) {
        let last = gather.answer(|answers| {
            answers.lines.push(lines);
            answers.killed += killed;
        });
        if !last {
            return;
        }
        if gather.asker.worker == self.index {
            self.questions.0.push_back(Step::Gathered(Arc::clone(gather)));
        } else {
            self.state.workers()[gather.asker.worker].send(Message::Gathered(Arc::clone(gather)));
        }
    }

    /// Goes on with the questions for one slice.
    #[inline]
    pub(super) fn go_on_answering(&mut self) {
        if self.questions.any() {
            self.answer_slice(Instant::now() + SLICE);
        }
    }

    #[cold]
    fn answer_slice(&mut self, until: Instant) {
        while let Some(step) = self.questions.0.pop_front() {
            let rest = match step {
                Step::BehindScript(gather) if self.script.is_some() => Some(Step::BehindScript(gather)),
                Step::BehindScript(gather) => {
                    self.answer(&gather);
                    None
                }
                Step::Walk(walk) => self.walk(walk, until).map(Step::Walk),
                Step::Gathered(gather) => {
                    self.gathered(&gather);
                    None
                }
                Step::Merge(merge) => self.merge(merge, until).map(Step::Merge),
                Step::Abandoned => {
                    self.ask_abandoned();
                    None
                }
            };
            if let Some(rest) = rest {
                // Those behind it have their turn first: a short question does not wait for the end of a long one.
                self.questions.0.push_back(rest);
                return;
            }
            if Instant::now() >= until {
                return;
            }
        }
    }

    /// Looks at connections until the time is up; what is left to do then.
    fn walk(&mut self, mut walk: Walk, until: Instant) -> Option<Walk> {
        let gather = Arc::clone(&walk.gather);
        let mut looked = 0;
        while let Some(who) = self.conns.first_from(walk.next) {
            walk.next = who.client + 1;
            match &gather.question {
                Question::List(filter) => self.list(who, filter, &mut walk.lines),
                Question::Kill(kill) => walk.killed += u64::from(self.kill(who, kill, gather.asker.conn.client)),
                Question::Users(_) => self.take_rights_or_end(who, gather.asker.conn.client),
                Question::Paused | Question::Unblock { .. } => unreachable!("answered at once"),
            }
            looked += 1;
            if looked % CLOCK_EVERY == 0 && Instant::now() >= until {
                return Some(walk);
            }
        }
        // The link to a primary is no worker's: the first one answers for it.
        if let Question::Kill(kill) = &gather.question
            && self.index == 0
        {
            let replica = self.state.replication().replica();
            let is_meant = kill.filter.is_of_primary(replica.facts().peer.as_deref());
            walk.killed += u64::from(is_meant && replica.cut());
        }
        self.answered(&gather, walk.lines, walk.killed);
        None
    }

    /// Adds the line of a connection that is asked for.
    fn list(&self, who: ConnRef, filter: &Filter, lines: &mut Lines) {
        let conn = &self.conns[who.conn];
        if filter.admits(conn) {
            let line = clients::line(conn, self.now.steady_ms);
            lines.bytes += line.len();
            lines.all.push((who.client, line));
        }
    }

    /// Closes a connection if it matches; the asking one gets its reply first. True if it ends.
    fn kill(&mut self, who: ConnRef, kill: &Kill, asker: u64) -> bool {
        if !kill.filter.admits(&self.conns[who.conn]) {
            return false;
        }
        if who.client != asker {
            self.close(who.conn);
            return true;
        }
        if !kill.skip_me {
            self.conns[who.conn].session_mut().end_after_reply();
        }
        !kill.skip_me
    }

    /// All answers are in: replies to the connection that asked, lines in slices.
    pub(super) fn gathered(&mut self, gather: &Arc<Gather>) {
        let answers = gather.take();
        if !matches!(gather.question, Question::List(_)) {
            return self.reply_gathered(gather, &answers, None);
        }
        let bytes = answers.lines.iter().map(|lines| lines.bytes + lines.all.len()).sum();
        let parts = answers.lines.into_iter().map(|lines| lines.all.into_iter().peekable()).collect();
        let merge = Merge { gather: Arc::clone(gather), parts, bytes, text: Reply::new() };
        self.questions.0.push_back(Step::Merge(merge));
    }

    /// Puts lines behind one another until the time is up; what is left to do then. Replies when all are there.
    fn merge(&mut self, mut merge: Merge, until: Instant) -> Option<Merge> {
        let mut written = 0;
        loop {
            let heads =
                merge.parts.iter_mut().filter_map(|part| part.peek().map(|(client, _)| *client).zip(Some(part)));
            let Some((_, first)) = heads.min_by_key(|(client, _)| *client) else { break };
            let (_, line) = first.next().expect("it was peeked at");
            merge.text.raw(line.as_bytes());
            merge.text.raw(b"\n");
            written += 1;
            if written % CLOCK_EVERY == 0 && Instant::now() >= until {
                return Some(merge);
            }
        }
        let Merge { gather, bytes, text, .. } = merge;
        debug_assert_eq!(text.len(), bytes, "the lines are as long as they were said to be");
        self.reply_gathered(&gather, &Answers::default(), Some(text));
        None
    }

    /// Replies to the connection that asked, if it is still there, and lets it go on.
    fn reply_gathered(&mut self, gather: &Gather, answers: &Answers, text: Option<Reply>) {
        let who = gather.asker.conn;
        if gather.asker.has_gone {
            return self.questions.ask_abandoned();
        }
        let Some(conn) = self.conns.get_mut(who) else { return };
        assert!(conn.waits(WaitReasons::QUESTION), "nothing else ends a question");
        conn.requests_mut().set_running(0);
        let answer = Answer { question: &gather.question, killed: answers.killed, text };
        let stats = self.batch.stats();
        match conn.take_deferred() {
            Some(mut deferred) => {
                let write = |one: &DeferredQuestion, out: &mut Reply| answer.write(stats, one.asked, one.wanted, out);
                match deferred.answer(write) {
                    Some(reply) if reply.is_overflown() => {
                        // No part of it is sent.
                        self.abandon(who, deferred.left());
                        self.over_output_limit(who.conn, 0, true);
                        return self.close(who.conn);
                    }
                    Some(reply) => conn.complete_reply(reply),
                    None => conn.defer(deferred),
                }
            }
            None => {
                let asked = conn.session().last_command().expect("a command asked");
                let wanted = !conn.session_mut().drop_reply();
                conn.write_output(|out| answer.write(stats, asked, wanted, out));
            }
        }
        if let Some(question) = conn.next_question() {
            return self.put(who.conn, question);
        }
        self.conns.lift(who, WaitReasons::QUESTION);
        let conn = &mut self.conns[who.conn];
        if conn.session().ends_after_reply() {
            conn.wait(WaitReasons::CLOSING);
        }
    }
}

/// The result of all answers.
struct Answer<'g> {
    question: &'g Question,
    /// Connections closed, clients unblocked.
    killed: u64,
    /// The lines of CLIENT LIST.
    text: Option<Reply>,
}

impl Answer<'_> {
    /// Writes the reply, if the client wants it; an error counts with the command that asked.
    fn write(self, stats: &CommandStats, asked: &Row, wanted: bool, out: &mut Reply) {
        let mark = out.mark();
        if matches!(self.question, Question::Unblock { error: true, .. }) && self.killed > 0 {
            // The client that waited has got an error while this command ran: redis-server counts the command as failed.
            stats.of(asked).failed.add(1);
        }
        if let Err(error) = self.reply(out) {
            stats.fail(asked, &error, mark, out);
        }
        if !wanted {
            out.truncate(mark);
        }
    }

    fn reply(self, out: &mut Reply) -> CmdResult {
        match self.question {
            Question::List(_) => {
                let text = self.text.expect("the lines were put together");
                out.begin_verbatim(*b"txt", text.len());
                out.append(text);
                out.raw(b"\r\n");
            }
            Question::Unblock { .. } => out.integer(self.killed as i64),
            Question::Paused | Question::Users(UsersChanged::Ok) => out.ok(),
            Question::Users(UsersChanged::Deleted(count)) => out.integer(*count),
            Question::Kill(kill) if !kill.old_form => out.integer(self.killed as i64),
            Question::Kill(_) if self.killed > 0 => out.simple("OK"),
            Question::Kill(_) => return Err(errors::NO_CLIENT),
        }
        Ok(())
    }
}
