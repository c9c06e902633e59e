//! A worker's answers to questions about all connections, and the reply that they come to where they were asked.

use std::sync::Arc;

use varve_catalog::Row;
use varve_exec::CmdResult;
use varve_exec::stats::CommandStats;
use varve_protocol::Reply;

use super::core::Core;
use crate::errors;
use crate::features::clients;
use crate::features::clients::state::{Kill, Question};
use crate::features::pubsub::state::ConnId;
use crate::net::conn::WaitReasons;
use crate::state::ask_all_workers::{Answers, Asker, Gather};
use crate::state::mail::Message;

impl Core {
    /// Puts a connection's question to all workers; the connection waits.
    pub(super) fn ask(&mut self, id: ConnId, question: Question) {
        let conn = &mut self.conns[id];
        assert!(!conn.waits(WaitReasons::KEYS) && !conn.waits(WaitReasons::CLOSING), "a connection that runs asks");
        assert!(conn.wait(WaitReasons::QUESTION), "one question at a time");
        self.put(id, question);
    }

    fn put(&mut self, id: ConnId, question: Question) {
        let asker = Asker { worker: self.index, conn: self.conns[id].who() };
        let gather = Arc::new(Gather::new(question, asker, self.state.workers().len()));
        for (index, worker) in self.state.workers().iter().enumerate() {
            if index != self.index {
                worker.send(Message::Ask(Arc::clone(&gather)));
            }
        }
        self.answer(&gather);
    }

    /// Answers for this worker's connections. The last worker to answer tells the asking one.
    pub(super) fn answer(&mut self, gather: &Arc<Gather>) {
        let mine = match &gather.question {
            Question::List(filter) => {
                let conns = self.conns.iter().filter(|conn| filter.admits(conn));
                let lines = conns.map(|conn| (conn.session().id(), clients::line(conn, self.now.unix_ms))).collect();
                Answers { lines, killed: 0 }
            }
            Question::Unblock { client, error } => {
                Answers { lines: Vec::new(), killed: u64::from(self.unblock_client(*client, *error)) }
            }
            Question::Paused => Answers::default(),
            Question::Kill(kill) => Answers { lines: Vec::new(), killed: self.kill(kill, gather.asker.conn.client) },
        };
        let last = gather.answer(|answers| {
            answers.lines.extend(mine.lines);
            answers.killed += mine.killed;
        });
        if !last {
            return;
        }
        if gather.asker.worker == self.index {
            self.gathered(gather);
        } else {
            self.state.workers()[gather.asker.worker].send(Message::Gathered(Arc::clone(gather)));
        }
    }

    /// Closes the connections that match; the asking one gets its reply first. Returns their number.
    fn kill(&mut self, kill: &Kill, asker: u64) -> u64 {
        let matching = self.conns.iter().filter(|conn| kill.filter.admits(conn));
        let matching: Vec<ConnId> = matching.map(|conn| conn.who().conn).collect();
        let mut killed = 0;
        for id in matching {
            let session = self.conns[id].session_mut();
            if session.id() != asker {
                self.close(id);
                killed += 1;
            } else if !kill.skip_me {
                session.end_after_reply();
                killed += 1;
            }
        }
        killed
    }

    /// All answers are in: replies to the connection that asked, if it is still there, and lets it go on.
    pub(super) fn gathered(&mut self, gather: &Gather) {
        let who = gather.asker.conn;
        let Some(conn) = self.conns.get_mut(who) else { return };
        assert!(conn.waits(WaitReasons::QUESTION), "nothing else ends a question");
        conn.requests_mut().set_running(0);
        let stats = self.batch.stats();
        match conn.take_deferred() {
            Some(mut deferred) => {
                let answered = deferred.questions.pop_front().expect("a question was asked");
                write_answer(gather, stats, answered.asked, answered.wanted, &mut deferred.reply);
                deferred.reply.append(answered.replies);
                if deferred.questions.is_empty() {
                    conn.write_output(|out| out.append(deferred.reply));
                } else {
                    conn.defer(deferred);
                }
            }
            None => {
                let asked = conn.session().last_command().expect("a command asked");
                let wanted = !conn.session_mut().drop_reply();
                conn.write_output(|out| write_answer(gather, stats, asked, wanted, out));
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

/// Writes the reply that the answers come to, if the client wants it; an error counts with the command that asked.
fn write_answer(gather: &Gather, stats: &CommandStats, asked: &Row, wanted: bool, out: &mut Reply) {
    let mark = out.mark();
    if let Err(error) = combine(gather, out) {
        stats.fail(asked, &error, mark, out);
    }
    if !wanted {
        out.truncate(mark);
    }
}

/// Writes the reply that the answers come to.
fn combine(gather: &Gather, out: &mut Reply) -> CmdResult {
    let mut answers = gather.take();
    match &gather.question {
        Question::List(_) => {
            answers.lines.sort_unstable_by_key(|(id, _)| *id);
            let mut text = String::new();
            for (_, line) in &answers.lines {
                text.push_str(line);
                text.push('\n');
            }
            out.verbatim("txt", text.as_bytes());
        }
        Question::Unblock { .. } => out.integer(answers.killed as i64),
        Question::Paused => out.ok(),
        Question::Kill(kill) if !kill.old_form => out.integer(answers.killed as i64),
        Question::Kill(_) if answers.killed > 0 => out.simple("OK"),
        Question::Kill(_) => return Err(errors::NO_CLIENT),
    }
    Ok(())
}
