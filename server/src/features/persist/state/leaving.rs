//! The end of the server while it waits for replicas: who asked for it, and until when it waits.
//!
//! ```text
//!   none --begin--> waits: writes are held back --replicas have all, or the time is up--> the last save, the end
//!     ^               |  join: others ask for the end too                                   |
//!     +---------------+-- SHUTDOWN ABORT ------------------------------- the save failed ---+
//! ```
//! Each has a number, by which its thread finds out that it has ended. Not here: the thread (`persist/shutdown.rs`).

use std::time::{Duration, Instant};

use varve_base::shared::SharedMutex;

/// A client that has asked for the end, and its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaver {
    pub(crate) worker: usize,
    pub(crate) client: u64,
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Leaving(SharedMutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// None while the server does not end.
    until: Option<Instant>,
    leavers: Vec<Leaver>,
    /// How often it has begun.
    number: u64,
}

impl Leaving {
    /// Begins to wait, for this client if there is one, with what `hold` does; gives the number. None, and nothing is done, if it
    /// waits already.
    pub(crate) fn begin(&self, until: Instant, leaver: Option<Leaver>, hold: impl FnOnce()) -> Option<u64> {
        let mut now = self.0.lock();
        if now.until.is_some() {
            return None;
        }
        *now = Inner { until: Some(until), leavers: leaver.into_iter().collect(), number: now.number + 1 };
        hold();
        Some(now.number)
    }

    /// This client, if there is one, waits for the end that is to come; false if none is.
    pub(crate) fn join(&self, leaver: Option<Leaver>) -> bool {
        let mut now = self.0.lock();
        let waits = now.until.is_some();
        if waits {
            now.leavers.extend(leaver);
        }
        waits
    }

    /// True while the end of this number is waited for.
    pub(crate) fn is(&self, number: u64) -> bool {
        let now = self.0.lock();
        now.until.is_some() && now.number == number
    }

    /// How long it is going to wait at most; None while it does not.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.0.lock().until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// The server goes on, with what `release` does: gives the clients that waited for the end. None if it did not wait.
    pub(crate) fn cancel(&self, release: impl FnOnce()) -> Option<Vec<Leaver>> {
        let mut now = self.0.lock();
        now.until.take()?;
        release();
        Some(std::mem::take(&mut now.leavers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_all_who_asked_for_the_end_learn_that_there_is_none() {
        let leaving = Leaving::default();
        let leaver = |client| Leaver { worker: 0, client };
        assert!(!leaving.join(Some(leaver(1))) && leaving.left().is_none());
        let until = Instant::now() + Duration::from_secs(100);
        let first = leaving.begin(until, Some(leaver(3)), || {}).expect("it does not wait");
        assert_eq!(leaving.begin(until, None, || panic!("it waits")), None);
        assert!(leaving.join(Some(leaver(2))) && leaving.join(None) && leaving.left().is_some());
        assert_eq!(leaving.cancel(|| {}), Some(vec![leaver(3), leaver(2)]));
        assert_eq!(leaving.cancel(|| panic!("it does not wait")), None);
        let second = leaving.begin(until, None, || {}).expect("it does not wait");
        assert!(!leaving.is(first) && leaving.is(second));
        assert_eq!(leaving.cancel(|| {}), Some(Vec::new()));
    }
}
