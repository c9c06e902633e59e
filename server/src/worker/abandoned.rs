//! Questions to all workers that a transaction has left behind, and whose client has gone before they were asked: who is to be
//! closed is closed, and who has lost rights loses them, though nobody hears of it.
//!
//! ```text
//!   close --> abandoned --> asked: the next one when all workers have answered the one before
//! ```
//! All at once was tried: the million questions of one client stopped every worker, and stood before those of others for minutes.

use std::collections::VecDeque;

use super::core::Core;
use crate::features::clients::state::{Kill, Question, UsersChanged};
use crate::features::pubsub::state::{ConnRef, Registry};
use crate::state::ask_all_workers::Asker;

/// Questions that wait at most, but for the one about users, which is never dropped.
const QUESTIONS_MAX: usize = 4096;
/// Bytes of their filters at most.
const BYTES_MAX: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Abandoned {
    questions: VecDeque<(ConnRef, Question)>,
    bytes: usize,
    /// Users were changed, last by this client: one question does for all changes.
    users: Option<ConnRef>,
    /// One of them is under way.
    is_asking: bool,
}

impl Abandoned {
    /// Adds a question of this client. False if there are too many: it is dropped.
    fn add(&mut self, who: ConnRef, mut question: Question, registry: &Registry) -> bool {
        let is_there = |client: &u64| registry.home(*client).is_some();
        match &mut question {
            Question::Users(_) => {
                self.users = Some(who);
                return true;
            }
            Question::List(_) | Question::Paused => return true,
            Question::Unblock { client, .. } if !is_there(client) => return true,
            Question::Unblock { .. } => {}
            Question::Kill(Kill { filter, .. }) => {
                if let Some(ids) = &mut filter.ids {
                    ids.retain(is_there);
                    if ids.is_empty() {
                        return true;
                    }
                }
            }
        }
        if self.questions.back().is_some_and(|(_, last)| *last == question) {
            return true;
        }
        let bytes = question.held_bytes();
        if self.questions.len() >= QUESTIONS_MAX || self.bytes + bytes > BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        self.questions.push_back((who, question));
        true
    }

    /// The next one to be asked; a change of users first.
    fn next(&mut self) -> Option<(ConnRef, Question)> {
        if let Some(who) = self.users.take() {
            return Some((who, Question::Users(UsersChanged::Ok)));
        }
        let next = self.questions.pop_front()?;
        self.bytes -= next.1.held_bytes();
        Some(next)
    }
}

impl Core {
    /// A connection that goes leaves these questions: they are asked in the turns that follow.
    #[cold]
    pub(super) fn abandon(&mut self, who: ConnRef, questions: impl IntoIterator<Item = Question>) {
        let Core { abandoned, state, .. } = self;
        let dropped =
            questions.into_iter().filter_map(|one| (!abandoned.add(who, one, state.pubsub())).then_some(())).count();
        if dropped > 0 {
            tracing::warn!(
                "{dropped} commands of a transaction, whose client has gone, closed or unblocked nobody: too many wait"
            );
        }
        let has_any = abandoned.users.is_some() || !abandoned.questions.is_empty();
        if has_any && !std::mem::replace(&mut abandoned.is_asking, true) {
            self.questions.ask_abandoned();
        }
    }

    /// Asks the next of them, if there is one.
    pub(super) fn ask_abandoned(&mut self) {
        match self.abandoned.next() {
            None => self.abandoned.is_asking = false,
            Some((conn, question)) => self.put_for(Asker { worker: self.index, conn, has_gone: true }, question),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mio::{Poll, Token, Waker};
    use varve_exec::journal::Journal;

    use super::*;
    use crate::features::clients::state::Filter;
    use crate::features::pubsub::state::{ConnId, Home, Inbox};

    /// A registry of one worker, and what its waker is for.
    fn registry() -> (Poll, Registry) {
        let poll = Poll::new().expect("a poll");
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        (poll, Registry::new([Inbox::new(waker)], Journal::new(1)))
    }

    fn kill(ids: Option<Vec<u64>>, user: Option<Vec<u8>>) -> Question {
        Question::Kill(Kill { filter: Filter { ids, user, ..Filter::default() }, skip_me: true, old_form: false })
    }

    #[test]
    fn what_would_find_nobody_is_not_kept() {
        let (_poll, registry) = registry();
        let who = ConnRef { conn: ConnId(0), client: 1 };
        registry.arrive(5, Home { worker: 0, conn: ConnId(0) });
        let mut abandoned = Abandoned::default();
        for client in [4, 5, 6] {
            assert!(abandoned.add(who, Question::Unblock { client, error: false }, &registry));
            assert!(abandoned.add(who, kill(Some(vec![client, 7]), None), &registry));
            assert!(abandoned.add(who, Question::Users(UsersChanged::Deleted(1)), &registry));
            assert!(abandoned.add(who, Question::Paused, &registry));
        }
        let kept: Vec<String> = std::iter::from_fn(|| abandoned.next()).map(|(_, one)| format!("{one:?}")).collect();
        assert_eq!(kept.len(), 3, "{kept:?}");
        assert!(kept[0].starts_with("Users") && kept[1].starts_with("Unblock"), "{kept:?}");
        assert!(kept[2].contains("[5]"), "{kept:?}");
        assert_eq!(abandoned.bytes, 0);
    }

    #[test]
    fn there_are_never_too_many() {
        let (_poll, registry) = registry();
        let who = ConnRef { conn: ConnId(0), client: 1 };
        let mut abandoned = Abandoned::default();
        let long = |n: u8| kill(None, Some(vec![n; BYTES_MAX / 4]));
        let kept = (0..10).filter(|&n| abandoned.add(who, long(n), &registry)).count();
        assert_eq!(kept, 3, "three names of a quarter of the bytes, and what is beside them");
        // One after the other that are the same are one.
        assert!((0..10).all(|_| abandoned.add(who, kill(None, None), &registry)) && abandoned.questions.len() == 4);
        let numbered = |n: usize| kill(None, Some(n.to_le_bytes().to_vec()));
        let kept = (0..2 * QUESTIONS_MAX).filter(|&n| abandoned.add(who, numbered(n), &registry)).count();
        assert!(kept < QUESTIONS_MAX && abandoned.bytes <= BYTES_MAX, "{kept} kept, {} bytes", abandoned.bytes);
        assert!(abandoned.add(who, Question::Users(UsersChanged::Ok), &registry), "users are always kept");
    }
}
