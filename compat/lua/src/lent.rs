//! A host that is lent for one run: the functions of `redis` are made once and find it here.
//!
//! The safe way was tried: functions that borrow the host, made anew for each run, cost about 1 us a run.

#![allow(unsafe_code, reason = "a pointer outlives its type's lifetime; each block says why that holds")]

use crate::host::Host;
use std::cell::Cell;
use std::mem::transmute;
use std::ptr::NonNull;

/// A host that is there while a script runs, and not before or after.
#[derive(Default)]
pub(crate) struct Lent(Cell<Option<NonNull<dyn Host>>>);

/// Puts a value back into the cell when it goes.
struct Back<'a>(&'a Lent, Option<NonNull<dyn Host>>);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.0.0.set(self.1);
    }
}

impl Lent {
    /// Runs `run`, in which [`Lent::with`] finds `host`.
    pub(crate) fn lend<R>(&self, host: &mut dyn Host, run: impl FnOnce() -> R) -> R {
        let host: NonNull<dyn Host + '_> = NonNull::from(host);
        // SAFETY: the two types differ in a lifetime only. The pointer leaves the cell before `host` ends: `_back` takes it
        // out when this function returns or unwinds, and `with` keeps no copy.
        let host = unsafe { transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host + 'static>>(host) };
        let _back = Back(self, self.0.replace(Some(host)));
        run()
    }

    /// The host's answer; None while no script runs, or while the host itself is asking.
    pub(crate) fn with<R>(&self, ask: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        let mut host = self.0.take()?;
        let _back = Back(self, Some(host));
        // SAFETY: `lend` holds the host's only reference and uses it no more until its `run` is over. The cell is empty
        // meanwhile, so no second reference comes to be.
        Some(ask(unsafe { host.as_mut() }))
    }
}
