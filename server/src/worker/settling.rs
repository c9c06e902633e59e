//! Others who wait until this worker writes nothing more of what was begun before: the server is about to follow another one, or to
//! hand its place over.
//!
//! ```text
//!   asked, behind the end of a turn --> connections with a command that is brought to its end --none is left--> answered
//!                                         (LREM in parts, MIGRATE: refused half way they would leave something half done)
//! ```
//! Commands that are only about to change something are not waited for: their next part is refused or held back like a command
//! that begins. Nor are scripts that rest: they are inside the gate, which the asker takes alone behind the answers.

use std::sync::mpsc::SyncSender;

use super::core::Core;
use crate::features::pubsub::state::ConnRef;
use crate::net::conns::Conns;

/// The askers that this worker has not answered.
#[derive(Debug, Default)]
pub(super) struct Settling(Vec<Asker>);

#[derive(Debug)]
struct Asker {
    answer: SyncSender<()>,
    /// The connections whose commands are to end first.
    busy: Vec<ConnRef>,
}

impl Settling {
    /// Answers those for whom nothing is left to wait for.
    fn look(&mut self, conns: &mut Conns) {
        self.0.retain_mut(|asker| {
            let still = |who: &ConnRef| conns.get_mut(*who).is_some_and(|conn| conn.session().is_bound_to_end());
            asker.busy.retain(still);
            if asker.busy.is_empty() {
                // The asker may be gone.
                let _ = asker.answer.send(());
            }
            !asker.busy.is_empty()
        });
    }
}

impl Core {
    /// Answers once all commands have ended that were begun and are brought to their end. The worker is between two turns.
    pub(super) fn settle(&mut self, answer: SyncSender<()>) {
        let bound = self.conns.iter().filter(|conn| conn.session().is_bound_to_end());
        let busy = bound.map(|conn| conn.who()).collect();
        self.settling.0.push(Asker { answer, busy });
        self.go_on_settling();
    }

    /// Answers askers whose wait is over. Called once in each turn of the worker's loop.
    #[inline]
    pub(super) fn go_on_settling(&mut self) {
        if !self.settling.0.is_empty() {
            self.settling.look(&mut self.conns);
        }
    }
}
