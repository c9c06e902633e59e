//! Rewrites of the append-only file as plain data: which are asked for, how the last ones ended, when the next may begin.
//!
//! ```text
//!   idle --schedule--> scheduled --begin--> under way --end: Saved------> idle, failures 0
//!        --promise---> promised  --begin-->     |
//!                          ^                    |------ end: Cancelled --> scheduled
//!                          |                    +------ end: Failed -----> idle, failures + 1
//!                          +-- from the third failure in a row on, rewrites that nobody asks for wait 1, 2, 4 .. 60 minutes
//! ```
//! One that is promised waits for a save that redis-server would have ended before: to clients it is under way.
//!
//! Not here: the walk (`save.rs`), the files (`aof/rewrite.rs`).

use std::time::Instant;

use varve_base::shared::SharedMutex;

use super::Outcome;

/// Failures in a row from which on a rewrite by itself waits.
const FAILURES_MAX: u64 = 3;
/// The longest wait, in minutes.
const WAIT_MINUTES_MAX: u64 = 60;

/// The figures that INFO shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RewriteFacts {
    pub(crate) scheduled: bool,
    /// Seconds that the one under way takes so far.
    pub(crate) running_s: Option<u64>,
    /// Seconds that the last one took.
    pub(crate) last_took_s: Option<u64>,
    pub(crate) last_failed: bool,
    /// Rewrites begun since the start.
    pub(crate) count: u64,
    /// Failures in a row.
    pub(crate) failures: u64,
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Rewrites(SharedMutex<State>);

#[derive(Debug, Default)]
struct State {
    scheduled: bool,
    /// Clients were told that the scheduled one has begun.
    promised: bool,
    began: Option<Instant>,
    last_took_s: Option<u64>,
    last_failed: bool,
    count: u64,
    failures: u64,
    wait_minutes: u64,
    /// Unix time before which none begins by itself; 0 for none.
    not_before_s: u64,
}

/// Whether a rewrite may begin by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Given,
    /// Too many have failed in a row.
    Refused,
    /// Too many have failed in a row: from now on none begins for this number of minutes.
    RefusedFor(u64),
}

impl Rewrites {
    /// Has one begin as soon as it can, or not.
    pub(crate) fn schedule(&self, wanted: bool) {
        let mut state = self.0.lock();
        (state.scheduled, state.promised) = (wanted, wanted && state.promised);
    }

    /// Has one begin as soon as it can, which to clients has begun.
    pub(crate) fn promise(&self) {
        let mut state = self.0.lock();
        (state.scheduled, state.promised) = (true, true);
    }

    /// True if one is promised.
    pub(crate) fn is_promised(&self) -> bool {
        self.0.lock().promised
    }

    /// A client asks for one: the failures before do not count.
    pub(crate) fn asked(&self) {
        self.0.lock().failures = 0;
    }

    /// True if one is scheduled.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.0.lock().scheduled
    }

    /// One begins.
    pub(crate) fn begin(&self) {
        let mut state = self.0.lock();
        (state.scheduled, state.promised) = (false, false);
        (state.began, state.count) = (Some(Instant::now()), state.count + 1);
    }

    /// The one under way has ended. With `again`, another one is to begin as soon as it can.
    pub(crate) fn end(&self, outcome: Outcome, again: bool) {
        let mut state = self.0.lock();
        let began = state.began.take().expect("a rewrite ends once");
        state.last_took_s = Some(began.elapsed().as_secs());
        state.scheduled |= again;
        match outcome {
            Outcome::Saved => (state.failures, state.last_failed) = (0, false),
            Outcome::Failed => (state.failures, state.last_failed) = (state.failures + 1, true),
            Outcome::Cancelled => {}
        }
    }

    /// Whether one may begin by itself at this Unix time.
    pub(crate) fn leave(&self, now_s: u64) -> Leave {
        let mut state = self.0.lock();
        if state.failures < FAILURES_MAX {
            (state.wait_minutes, state.not_before_s) = (0, 0);
            return Leave::Given;
        }
        if state.not_before_s != 0 {
            if now_s < state.not_before_s {
                return Leave::Refused;
            }
            state.not_before_s = 0;
            return Leave::Given;
        }
        state.wait_minutes = (state.wait_minutes * 2).clamp(1, WAIT_MINUTES_MAX);
        state.not_before_s = now_s + state.wait_minutes * 60;
        Leave::RefusedFor(state.wait_minutes)
    }

    /// The figures as they are now.
    pub(crate) fn facts(&self) -> RewriteFacts {
        let state = self.0.lock();
        RewriteFacts {
            scheduled: state.scheduled && !state.promised,
            running_s: state.began.map(|began| began.elapsed().as_secs()),
            last_took_s: state.last_took_s,
            last_failed: state.last_failed,
            count: state.count,
            failures: state.failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_13_a_promised_rewrite_is_not_shown_as_scheduled() {
        let rewrites = Rewrites::default();
        rewrites.promise();
        assert!(rewrites.is_promised() && rewrites.is_scheduled() && !rewrites.facts().scheduled);
        rewrites.schedule(false);
        assert!(!rewrites.is_promised() && !rewrites.is_scheduled());
        rewrites.promise();
        rewrites.begin();
        assert!(!rewrites.is_promised() && !rewrites.is_scheduled());
    }

    #[test]
    fn three_failures_in_a_row_have_the_next_one_wait() {
        let rewrites = Rewrites::default();
        let fail = || {
            rewrites.begin();
            rewrites.end(Outcome::Failed, false);
        };
        fail();
        fail();
        assert_eq!(rewrites.leave(100), Leave::Given);
        fail();
        assert_eq!((rewrites.leave(100), rewrites.leave(159)), (Leave::RefusedFor(1), Leave::Refused));
        assert_eq!(rewrites.leave(160), Leave::Given);
        fail();
        assert_eq!((rewrites.leave(160), rewrites.leave(279)), (Leave::RefusedFor(2), Leave::Refused));
        assert_eq!(rewrites.facts().failures, 4);
        rewrites.asked();
        assert_eq!(rewrites.leave(200), Leave::Given);
        rewrites.begin();
        rewrites.end(Outcome::Cancelled, true);
        let facts = rewrites.facts();
        assert!(facts.scheduled && facts.last_failed && facts.running_s.is_none());
        rewrites.begin();
        rewrites.end(Outcome::Saved, false);
        let facts = rewrites.facts();
        assert!(!facts.scheduled && !facts.last_failed);
        assert_eq!((facts.count, facts.failures), (6, 0));
    }
}
