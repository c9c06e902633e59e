//! Questions to all workers: CLIENT LIST and CLIENT KILL concern every connection, and no thread may touch another's.
//!
//! ```text
//!   asking worker            every worker                       asking worker
//!   Ask(gather) ----------> answer for own connections,
//!   client: Waiting         a slice of them a turn
//!                           missing -= 1; at 0: Gathered -----> combine, a slice a turn; reply, client: Open
//! ```
//!
//! The client's later requests wait meanwhile. Where the asking worker is the only one, all of this happens in place.
//! Not here: what CLIENT's arguments mean (features/clients).

use std::sync::atomic::Ordering;

use varve_base::shared::{SharedMutex, SharedUsize};

use crate::features::clients::state::Question;
use crate::features::pubsub::state::ConnRef;

/// Where the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) worker: usize,
    pub(crate) conn: ConnRef,
    /// The connection was gone when the question was asked: nobody waits for the answer.
    pub(crate) has_gone: bool,
}

/// The answers so far.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The lines of each worker's connections.
    pub(crate) lines: Vec<Lines>,
    /// Connections closed, clients unblocked.
    pub(crate) killed: u64,
}

/// The lines of a worker's connections.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Connections' ids, ascending, and lines.
    pub(crate) all: Vec<(u64, String)>,
    /// Bytes of all lines, without their ends.
    pub(crate) bytes: usize,
}

/// One question under way.
#[derive(Debug)]
pub(crate) struct Gather {
    pub(crate) question: Question,
    pub(crate) asker: Asker,
    missing: SharedUsize,
    answers: SharedMutex<Answers>,
}

impl Gather {
    /// A question to `workers` workers.
    pub(crate) fn new(question: Question, asker: Asker, workers: usize) -> Gather {
        assert!(workers > 0, "the asking worker answers too");
        Gather { question, asker, missing: SharedUsize::new(workers), answers: SharedMutex::default() }
    }

    /// One worker's answer. True if it was the last one that was missing.
    pub(crate) fn answer(&self, add: impl FnOnce(&mut Answers)) -> bool {
        add(&mut self.answers.lock());
        let before = self.missing.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "each worker answers once");
        before == 1
    }

    /// All answers, once the last is in.
    pub(crate) fn take(&self) -> Answers {
        assert_eq!(self.missing.load(Ordering::Acquire), 0, "answers are combined when all are in");
        std::mem::take(&mut *self.answers.lock())
    }
}
