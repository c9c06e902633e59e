//! Fetching ahead: under `try_lock`, what a turn's commands are about to touch comes into the cache, in passes over all of
//! them, so that the waits for memory overlap.

use varve_protocol::Args;
use varve_store::{Ahead, Tx};

use super::parse::{KeyArg, Request};

/// Keys from which on fetching their objects is worth a pass.
const KEYS_MIN: usize = 2;

/// The scratch of the passes.
#[derive(Default)]
pub(super) struct FetchAhead {
    elements: Vec<Ahead>,
}

impl FetchAhead {
    /// Matches the tags of the turn's keys and fetches their objects.
    pub(super) fn objects(&self, tx: &mut Tx<'_>, keys: &[KeyArg]) {
        if keys.len() < KEYS_MIN {
            return;
        }
        for key in keys {
            if tx.try_hold(&[tx.shard_of(key.hash)]) {
                tx.prefetch_object(key.hash);
            }
        }
    }

    /// For commands that name an element of a collection: its bucket in one pass, its object in the next.
    pub(super) fn elements<'i>(
        &mut self,
        tx: &mut Tx<'_>,
        requests: &[Request],
        keys: &[KeyArg],
        args_of: impl Fn(&Request) -> Args<'i>,
    ) {
        self.elements.clear();
        if requests.len() < KEYS_MIN {
            return;
        }
        for request in requests {
            let Ok(d) = request.command else { continue };
            let [key] = &keys[request.keys.clone()] else { continue };
            let at = usize::from(d.element);
            if at == 0 || at >= request.spans.len() || !tx.try_hold(&[tx.shard_of(key.hash)]) {
                continue;
            }
            self.elements.extend(tx.prefetch_bucket(key.hash, args_of(request).get(at)));
        }
        for element in &self.elements {
            if tx.try_hold(&[element.shard()]) {
                tx.prefetch_element(element);
            }
        }
    }
}
