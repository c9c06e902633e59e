//! FAILOVER: this server gives its place to one of its replicas.
//!
//! ```text
//!   none --FAILOVER--> waits: writes are held back --a replica has all--> under way: this server follows it, and PSYNC asks it
//!     ^                  |                                                  |          to take its place
//!     |                  | ABORT, the time is up                            | it has, or does not want to; ABORT
//!     +------------------+--------------------------------------------------+
//! ```
//! Each failover has a number, by which the thread that drives it finds out that it has ended. Not here: the commands and the
//! thread (`primary/failover.rs`).

use parking_lot::Mutex;

use super::replica::Address;

/// How far a failover is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Handing {
    /// There is none.
    #[default]
    None,
    /// No replica is known to have all.
    Waits,
    /// The replica is asked to take this server's place.
    UnderWay,
}

impl Handing {
    /// The word that INFO and the log have for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Handing::None => "no-failover",
            Handing::Waits => "waiting-for-sync",
            Handing::UnderWay => "failover-in-progress",
        }
    }
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Failover(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stage: Handing,
    /// The replica; None while any may be it.
    target: Option<Address>,
    /// How many there have been.
    number: u64,
}

impl Failover {
    /// How far it is.
    pub(crate) fn stage(&self) -> Handing {
        self.0.lock().stage
    }

    /// True while the failover of this number lasts.
    pub(crate) fn is(&self, number: u64) -> bool {
        let now = self.0.lock();
        now.stage != Handing::None && now.number == number
    }

    /// Begins one, to this replica or to any, with what `hold` does; gives its number. None, and nothing is done, if one lasts.
    pub(crate) fn begin(&self, target: Option<Address>, hold: impl FnOnce()) -> Option<u64> {
        let mut now = self.0.lock();
        if now.stage != Handing::None {
            return None;
        }
        *now = Inner { stage: Handing::Waits, target, number: now.number + 1 };
        hold();
        Some(now.number)
    }

    /// The replica of the waiting failover of this number is known: `follow` has this server follow it, if it still waits.
    ///
    /// # Errors
    /// That of `follow`.
    pub(crate) fn proceed<E>(
        &self,
        number: u64,
        target: &Address,
        follow: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut now = self.0.lock();
        if now.number != number || now.stage != Handing::Waits {
            return Ok(());
        }
        (now.stage, now.target) = (Handing::UnderWay, Some(target.clone()));
        follow()
    }

    /// Ends the one that lasts, if it has this number or none is given: `settle` is told how far it was, and the replica.
    pub(crate) fn end(&self, number: Option<u64>, settle: impl FnOnce(Handing, Option<Address>)) {
        let mut now = self.0.lock();
        if now.stage == Handing::None || number.is_some_and(|number| number != now.number) {
            return;
        }
        let (stage, target) = (std::mem::take(&mut now.stage), now.target.take());
        settle(stage, target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_one_that_has_ended_does_not_go_on() {
        let failover = Failover::default();
        let target = Address { host: "127.0.0.1".to_owned(), port: 1 };
        let first = failover.begin(None, || {}).expect("there is none");
        assert_eq!(failover.begin(Some(target.clone()), || panic!("one at a time")), None);
        let mut seen = None;
        failover.end(None, |stage, target| seen = Some((stage, target)));
        assert_eq!(seen, Some((Handing::Waits, None)));
        failover.end(None, |_, _| panic!("it has ended"));
        let second = failover.begin(None, || {}).expect("there is none");
        assert!(!failover.is(first) && failover.is(second));
        failover.end(Some(first), |_, _| panic!("the second lasts"));
        failover.proceed(first, &target, || Err("the first has ended")).expect("nothing is done");
        assert_eq!(failover.stage(), Handing::Waits);
        failover.proceed(second, &target, || Ok::<_, ()>(())).expect("it goes on");
        failover.end(Some(second), |stage, of| seen = Some((stage, of)));
        assert_eq!(seen, Some((Handing::UnderWay, Some(target))));
    }
}
