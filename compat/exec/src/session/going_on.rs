//! The command of a session that goes on over several turns.

use std::sync::Arc;

use varve_store::StoreWorker;

use super::Session;
use crate::link::Link;
use crate::ongoing::{LeftCommand, OngoingCommand};

impl Session {
    /// The link for which the command that goes on waits.
    pub fn link(&self) -> Option<Arc<Link>> {
        self.ongoing.as_ref().and_then(|ongoing| ongoing.rest.link())
    }

    /// True while a command goes on that changes keys and is brought to its end, although such commands are held back or refused
    /// by now: it has changed its key in part, keeps others from it, or has a link.
    pub fn is_bound_to_end(&self) -> bool {
        self.ongoing.as_ref().is_some_and(|ongoing| ongoing.is_bound_to_end())
    }

    /// True while a command goes on that keeps others from a key: it does not wait until its client takes what was replied before.
    #[inline]
    pub fn keeps_key(&self) -> bool {
        self.ongoing.as_ref().is_some_and(|ongoing| ongoing.rest.keeps_key())
    }

    /// The connection ends: so does the command that goes on, but for one that outlives its client, which is given. The worker holds
    /// nothing and is outside the gate.
    pub fn leave_ongoing(&mut self, worker: &mut StoreWorker) -> Option<LeftCommand> {
        let mut ongoing = self.ongoing.take()?;
        if ongoing.rest.outlives_client() {
            return Some(LeftCommand::new(ongoing, self.db()));
        }
        ongoing.rest.abandon(worker);
        None
    }

    /// A command goes on in the next turns.
    pub(crate) fn go_on(&mut self, ongoing: Box<OngoingCommand>) {
        debug_assert!(self.ongoing.is_none() && self.blocked.is_none(), "one command at a time");
        self.ongoing = Some(ongoing);
    }

    /// A part of the command that goes on took this long, nanoseconds.
    pub(crate) fn note_part(&mut self, nanos: u64) {
        self.ongoing.as_mut().expect("a command that goes on").nanos += nanos;
    }

    /// True while a command goes on: its reply is not complete.
    #[inline]
    pub fn is_ongoing(&self) -> bool {
        self.ongoing.is_some()
    }

    /// True while a command goes on behind whose reply messages stand: a part of it may be replied by now, or it is about values
    /// of an instant before theirs. One that is going to change a key has replied nothing, and nobody keeps its reply.
    #[inline]
    pub fn holds_messages(&self) -> bool {
        self.ongoing.as_ref().is_some_and(|ongoing| !ongoing.writes())
    }

    /// Bytes that the command which goes on keeps for its reply, or its script that rests.
    pub fn ongoing_bytes(&self) -> usize {
        self.script_bytes + self.ongoing.as_ref().map_or(0, |ongoing| ongoing.bytes())
    }

    /// Bytes that the store keeps for the readers of the command which goes on.
    pub fn kept_bytes(&self) -> usize {
        self.ongoing.as_ref().map_or(0, |ongoing| ongoing.rest.kept_bytes())
    }

    /// The command that goes on, to run its next part.
    pub(crate) fn take_ongoing(&mut self) -> Option<Box<OngoingCommand>> {
        self.ongoing.take()
    }
}
