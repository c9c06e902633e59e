//! Requests of several connections parsed before the first of them runs, so that what they touch is fetched while others
//! are still being read: without pipelines a turn has one key, and nothing to wait beside.
//!
//! ```text
//!   A: read, parse, buckets --> B: read, parse, buckets --> C: ...      preparse, behind each read
//!   objects of A, B, C ...                                              prefetch_preparsed, once
//!   A: resume, turn, write --> B: ... --> C: ...                        in the order in which they were read
//! ```
//! Only requests of the common form are parsed ahead of their turn, since they can be parsed again or forgotten at any time: what runs
//! for A may close B, or hold everything back.

use varve_protocol::Parser;
use varve_store::StoreWorker;

use super::Batch;
use super::parse::Work;
use crate::command::CommandTable;
use crate::pause::Pause;
use crate::session::Session;

/// Keys from which on no more are fetched ahead of their turn: their lines have to stay in the cache until they are used.
const PREPARSED_KEYS_MAX: usize = 64;

/// The early requests of one connection.
#[derive(Clone, Copy, Debug)]
pub struct PreparsedTurn(usize);

/// See the module.
#[derive(Default)]
pub(super) struct Preparsed {
    works: Vec<Work>,
    /// How many of them hold something.
    used: usize,
    keys: usize,
    /// The requests of the next turn have been preparsed.
    resumed: bool,
}

impl Preparsed {
    /// True if what the turn begins with is parsed.
    #[inline]
    pub(super) fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }
}

impl Batch {
    /// Forgets the requests that were parsed ahead of their turn.
    pub fn begin_preparse(&mut self) {
        self.preparsed.used = 0;
        self.preparsed.keys = 0;
    }

    /// True if no more is to be parsed ahead of its turn.
    #[inline]
    pub fn is_preparse_full(&self) -> bool {
        self.preparsed.keys >= PREPARSED_KEYS_MAX
    }

    /// Parses what a connection has sent and asks for its keys' buckets. None if it does not begin with a request of the
    /// common form, or must wait.
    pub fn preparse(
        &mut self,
        worker: &StoreWorker,
        table: &CommandTable,
        parser: &mut Parser,
        session: &Session,
        input: &[u8],
    ) -> Option<PreparsedTurn> {
        if self.pause != Pause::None || parser.is_partial() {
            return None;
        }
        self.recent.follow(table);
        let Preparsed { works, used, keys, .. } = &mut self.preparsed;
        if *used == works.len() {
            works.push(Work::default());
        }
        let work = &mut works[*used];
        work.clear(worker);
        work.short_requests(worker, (table, &mut self.recent), parser, session.db(), input);
        if work.requests.is_empty() {
            return None;
        }
        *used += 1;
        *keys += work.keys.len();
        Some(PreparsedTurn(*used - 1))
    }

    /// Asks for the objects of all keys of the requests that were parsed ahead of their turn.
    pub fn prefetch_preparsed(&mut self, worker: &mut StoreWorker) {
        let Batch { preparsed: Preparsed { works, used, keys, .. }, prefetcher, .. } = self;
        if *keys == 0 {
            return;
        }
        // Nothing is fetched ahead while another worker is alone.
        worker.try_inside(0, |tx| {
            for work in &mut works[..*used] {
                prefetcher.find_objects(tx, &work.keys);
                work.fetched = true;
            }
        });
        prefetcher.fetch_objects();
    }

    /// The next turn begins with what was parsed early of its input, if anything was; the input is what it was then.
    #[inline]
    pub fn resume(&mut self, turn: Option<PreparsedTurn>) {
        let Some(turn) = turn else { return };
        assert!(turn.0 < self.preparsed.used, "what is resumed was parsed");
        std::mem::swap(&mut self.work, &mut self.preparsed.works[turn.0]);
        self.preparsed.resumed = true;
    }
}
