//! A worker's answers to questions about all connections, and what becomes of them where they were asked.

use std::sync::Arc;

use varve_exec::CmdResult;
use varve_protocol::Reply;

use super::Worker;
use crate::errors;
use crate::features::clients;
use crate::features::clients::state::{Kill, Question};
use crate::net::conn::Phase;
use crate::state::ask_all_workers::{Answers, Asker, Gather};
use crate::state::mail::Message;

impl Worker {
    /// Puts the question of the connection in `slot` to all workers; the connection waits.
    pub(super) fn ask(&mut self, slot: usize, question: Question) {
        let conn = &mut self.conns[slot];
        assert_eq!(conn.phase, Phase::Open, "a waiting connection asks nothing");
        conn.phase = Phase::Waiting;
        let asker = Asker { worker: self.index, slot, id: conn.session.id };
        let gather = Arc::new(Gather::new(question, asker, self.state.workers.len()));
        for (index, worker) in self.state.workers.iter().enumerate() {
            if index != self.index {
                worker.mailbox.send(Message::Ask(Arc::clone(&gather)));
            }
        }
        self.answer(&gather);
    }

    /// Answers for this worker's connections. The last worker to answer tells the asking one.
    pub(super) fn answer(&mut self, gather: &Arc<Gather>) {
        let mine = match &gather.question {
            Question::List(filter) => {
                let conns = self.conns.iter().map(|(_, conn)| conn).filter(|conn| filter.admits(conn));
                let lines = conns.map(|conn| (conn.session.id, clients::line(conn, self.now.unix_ms))).collect();
                Answers { lines, killed: 0 }
            }
            Question::Unblock { client, error } => {
                Answers { lines: Vec::new(), killed: u64::from(self.unblock_client(*client, *error)) }
            }
            Question::Paused => Answers::default(),
            Question::Kill(kill) => Answers { lines: Vec::new(), killed: self.kill(kill, gather.asker.id) },
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
            self.state.workers[gather.asker.worker].mailbox.send(Message::Gathered(Arc::clone(gather)));
        }
    }

    /// Closes what matches; the asking connection gets its reply first.
    fn kill(&mut self, kill: &Kill, asker: u64) -> u64 {
        let matching = self.conns.iter().filter(|(_, conn)| kill.filter.admits(conn));
        let slots: Vec<usize> = matching.map(|(slot, _)| slot).collect();
        let mut killed = 0;
        for slot in slots {
            let session = &mut self.conns[slot].session;
            if session.id != asker {
                self.close(slot);
                killed += 1;
            } else if !kill.skip_me {
                session.close_after_reply = true;
                killed += 1;
            }
        }
        killed
    }

    /// All answers are in: replies to the connection that asked, if it is still there, and lets it go on.
    pub(super) fn gathered(&mut self, gather: &Gather) {
        let Asker { slot, id, .. } = gather.asker;
        let Some(conn) = self.conns.get_mut(slot).filter(|conn| conn.session.id == id) else { return };
        assert_eq!(conn.phase, Phase::Waiting, "nothing else ends a question");
        conn.phase = Phase::Open;
        conn.request_bytes = 0;
        conn.output.set_resp(conn.session.resp);
        let mark = conn.output.mark();
        let later = conn.later.pop_front();
        let asked = later.as_ref().map(|later| later.asked).or(conn.session.last).expect("the command that asked");
        if let Err(error) = combine(gather, &mut conn.output) {
            self.batch.stats().fail(asked, &error, mark, &mut conn.output);
        }
        if later.as_ref().map_or_else(|| conn.session.drop_reply(), |later| !later.wanted) {
            conn.output.truncate(mark);
        }
        if let Some(later) = later {
            conn.output.append(later.replies);
        }
        if let Some(question) = self.next_question(slot) {
            return self.ask(slot, question);
        }
        let conn = &mut self.conns[slot];
        if conn.session.close_after_reply {
            conn.phase = Phase::Closing;
        }
        self.queue(slot);
    }
}

/// The reply that the answers come to.
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
