//! FAILOVER: this server gives its place to one of its replicas.
//!
//! ```text
//!   none --FAILOVER--> waits: writes are held back --a replica has all--> under way: this server follows it, and PSYNC asks it
//!     ^                  |                                                  |          to take its place
//!     |                  | ABORT, the time is up                            | it has, or does not want to; ABORT
//!     +------------------+--------------------------------------------------+
//! ```
//! Once the replica has been asked, it may lead, although its answer never came: the link may have broken in between. It is asked
//! again then, and this server leads no more until the replica has said that it does not. With FORCE the replica may be one that has
//! not all: what lies behind its last acknowledgement is given up.
//!
//! Each failover has a number, by which the thread that drives it finds out that it has ended. Not here: the commands and the
//! thread (`primary/failover.rs`).

use varve_base::shared::SharedMutex;

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
pub(crate) struct Failover(SharedMutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stage: Handing,
    /// The replica; None while any may be it.
    target: Option<Address>,
    /// The offset that the replica had acknowledged, if it may take the place without having all.
    given_up_behind: Option<u64>,
    /// The replica has been asked to take the place, and may have taken it.
    is_asked: bool,
    /// How many there have been.
    number: u64,
}

/// The replica of a failover is asked to take the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The failover's.
    pub(crate) number: u64,
    /// It was asked before, and no answer came.
    pub(crate) was_asked: bool,
    /// The offset that it had acknowledged, if what lies behind that is given up.
    pub(crate) given_up_behind: Option<u64>,
}

/// How a failover stood that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) stage: Handing,
    /// The replica; None while any might have been it.
    pub(crate) target: Option<Address>,
    /// The replica was asked to take the place.
    pub(crate) is_asked: bool,
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
        *now = Inner { stage: Handing::Waits, target, number: now.number + 1, ..Inner::default() };
        hold();
        Some(now.number)
    }

    /// The replica of the waiting failover of this number is known: `follow` has this server follow it, if it still waits. Where it has
    /// not all, what lies behind the offset `given_up_behind` is given up.
    ///
    /// # Errors
    /// That of `follow`.
    pub(crate) fn proceed<E>(
        &self,
        number: u64,
        target: &Address,
        given_up_behind: Option<u64>,
        follow: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut now = self.0.lock();
        if now.number != number || now.stage != Handing::Waits {
            return Ok(());
        }
        (now.stage, now.target) = (Handing::UnderWay, Some(target.clone()));
        now.given_up_behind = given_up_behind;
        follow()
    }

    /// The replica is asked to take the place from now on, if a failover is under way: None if none is. Called before the request
    /// goes: whatever becomes of the link, the replica may have it. `leads_there` returns whether the link is one to the replica of
    /// this failover: it is asked while no other failover can begin, whose replica another one would be.
    pub(crate) fn ask(&self, leads_there: impl FnOnce() -> bool) -> Option<Asked> {
        let mut now = self.0.lock();
        if now.stage != Handing::UnderWay || !leads_there() {
            return None;
        }
        let was_asked = std::mem::replace(&mut now.is_asked, true);
        Some(Asked { number: now.number, was_asked, given_up_behind: now.given_up_behind })
    }

    /// Ends the one that lasts, if it has this number or none is given: `settle` is told how it stood.
    pub(crate) fn end(&self, number: Option<u64>, settle: impl FnOnce(Ended)) {
        let mut now = self.0.lock();
        if now.stage == Handing::None || number.is_some_and(|number| number != now.number) {
            return;
        }
        let (stage, is_asked) = (std::mem::take(&mut now.stage), std::mem::take(&mut now.is_asked));
        settle(Ended { stage, target: now.target.take(), is_asked });
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
        assert_eq!(failover.ask(|| true), None);
        failover.end(None, |ended| seen = Some(ended));
        assert_eq!(seen, Some(Ended { stage: Handing::Waits, target: None, is_asked: false }));
        failover.end(None, |_| panic!("it has ended"));
        let second = failover.begin(None, || {}).expect("there is none");
        assert!(!failover.is(first) && failover.is(second));
        failover.end(Some(first), |_| panic!("the second lasts"));
        failover.proceed(first, &target, None, || Err("the first has ended")).expect("nothing is done");
        assert_eq!(failover.stage(), Handing::Waits);
        failover.proceed(second, &target, None, || Ok::<_, ()>(())).expect("it goes on");
        assert_eq!(failover.ask(|| true), Some(Asked { number: second, was_asked: false, given_up_behind: None }));
        assert_eq!(failover.ask(|| true), Some(Asked { number: second, was_asked: true, given_up_behind: None }));
        failover.end(Some(second), |ended| seen = Some(ended));
        assert_eq!(seen, Some(Ended { stage: Handing::UnderWay, target: Some(target.clone()), is_asked: true }));
        assert_eq!(failover.ask(|| true), None);
        let third = failover.begin(None, || {}).expect("there is none");
        failover.proceed(third, &target, Some(7), || Ok::<_, ()>(())).expect("it goes on");
        assert_eq!(failover.ask(|| false), None, "the link is still one to the replica of the second");
        assert_eq!(
            failover.ask(|| true),
            Some(Asked { number: third, was_asked: false, given_up_behind: Some(7) }),
            "another failover, another question"
        );
    }
}
