//! The state of one worker's background between its steps.

use super::candidates::{Candidates, Cutoff};
use super::key::Place;
use super::meter::Tally;

/// Plain data of the background's steps.
pub(crate) struct BackgroundState {
    /// The cutoff of a drain that evicts.
    pub(crate) cutoff: Option<Cutoff>,
    /// Keys drawn for eviction.
    pub(crate) candidates: Candidates,
    /// A draw has passed over a shard that was held.
    pub(crate) passed_held: bool,
    /// The store is over its limit and nothing helped: when to try again, ms of Unix time.
    pub(crate) limit_retry_ms: i64,
    /// All keys that are to be swept are in shards that were held: when to look again, ms of Unix time.
    pub(crate) sweep_again_ms: i64,
    /// Slices of reclaim done in this turn of the background.
    pub(crate) slices: u32,
    /// The objects that the last of them moved and found dead.
    pub(crate) tally: Tally,
    /// There were no more slices for this turn.
    pub(crate) slices_spent: bool,
    /// Scratch for hashes that the wheel fires.
    pub(crate) due: Vec<u64>,
    /// Turns the background round over the shards.
    pub(crate) turn: u64,
    /// Where the last search for a volatile key has ended.
    pub(crate) search: Place,
    /// The home shard after the last one in which something was due.
    pub(crate) expiry_at: usize,
    /// Lower bound of the next expiry in the home shards, as of the last look.
    pub(crate) next_due: Option<i64>,
    /// When that look was, ms of Unix time.
    pub(crate) due_checked_ms: i64,
}

impl BackgroundState {
    /// The background of a worker, which begins at its first home shard.
    pub(crate) fn new(worker: usize) -> BackgroundState {
        BackgroundState {
            cutoff: None,
            candidates: Candidates::default(),
            passed_held: false,
            limit_retry_ms: 0,
            sweep_again_ms: 0,
            slices: 0,
            tally: Tally::default(),
            slices_spent: false,
            due: Vec::new(),
            turn: 0,
            search: Place::new(0, 0),
            expiry_at: worker,
            next_due: None,
            due_checked_ms: 0,
        }
    }
}
