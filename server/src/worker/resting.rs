//! Connections whose next request has found its shard busy again and again: each is tried anew a millisecond later, so that
//! a long command of another worker does not keep this one's core busy with looking.
//!
//! ```text
//!   Busy --the first tries--> ready queue, at once          (a shard is mostly held for microseconds)
//!        --from BUSY_TRIES--> resting --1 ms--> ready queue
//! ```
//! Events of the socket may have a connection tried before. Not here: a shut gate, before which the worker itself sleeps
//! (`Core::sleep_when_shut_out`): it opens for moments only when one exclusive command follows another.

use std::time::{Duration, Instant};

use crate::features::pubsub::state::ConnRef;
use crate::net::conns::Conns;

/// Tries that follow each other at once.
pub(super) const BUSY_TRIES: u32 = 16;
/// Time between two of the further ones.
const REST: Duration = Duration::from_millis(1);

/// See the module's picture.
#[derive(Debug, Default)]
pub(super) struct Resting {
    conns: Vec<ConnRef>,
    /// When all of them are tried again.
    due: Option<Instant>,
}

impl Resting {
    /// Lets a connection rest.
    pub(super) fn add(&mut self, who: ConnRef, now: Instant) {
        self.due.get_or_insert(now + REST);
        self.conns.push(who);
    }

    /// Time until the connections that rest are tried again; None without any.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }

    /// Puts those that have rested behind the connections that are ready.
    #[inline]
    pub(super) fn release(&mut self, conns: &mut Conns, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            for who in self.conns.drain(..) {
                if conns.is_there(who) {
                    conns.enqueue(who.conn);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::pubsub::state::ConnId;

    #[test]
    fn all_rest_until_the_first_is_due() {
        let (mut resting, mut conns, start) = (Resting::default(), Conns::default(), Instant::now());
        assert_eq!(resting.due_in(start), None, "nobody rests: the poll waits for other things");
        for nth in 0..3 {
            resting.add(ConnRef { conn: ConnId(nth), client: 1 }, start + REST / 2 * nth as u32);
        }
        assert_eq!(resting.due_in(start), Some(REST));
        resting.release(&mut conns, start + REST / 2);
        assert_eq!(resting.due_in(start + REST), Some(Duration::ZERO), "it is not time");
        resting.release(&mut conns, start + REST);
        assert_eq!(resting.due_in(start + REST), None);
        assert!(resting.conns.is_empty() && !conns.any_ready(), "connections that are gone stay away");
    }
}
