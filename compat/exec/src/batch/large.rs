//! Requests whose large arguments came into memory of the log, and whose effects refer to them there.
//!
//! ```text
//!   SET k <512 MB>      bodies: a run of the log ──▶ the effect names a pin of the run; no byte is copied
//! ```

use crate::command::Command;

use super::{Running, Stop};

impl Running<'_> {
    /// Runs a request on keys that has such arguments. Apart from the loop of those that have none.
    #[cold]
    pub(super) fn on_shards_with_large(&mut self, first: &'static Command) -> Option<Stop> {
        self.worker.set_large_arguments(self.bodies.pins());
        let stop = self.on_shards(first);
        self.worker.set_large_arguments(Vec::new());
        stop
    }
}
