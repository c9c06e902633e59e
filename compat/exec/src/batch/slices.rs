//! The slices in which a script runs. Not here: the worker between two of them (stage.rs).

use std::cell::Cell;
use std::time::{Duration, Instant};

use corosensei::Yielder;

/// Time of a script after which it rests.
const SLICE: Duration = Duration::from_millis(1);

/// The slices of a script.
pub(super) struct Slices<'y> {
    /// None: it never rests.
    yielder: Option<&'y Yielder<(), ()>>,
    /// When the slice ends.
    until: Cell<Instant>,
    rested: Cell<bool>,
}

impl<'y> Slices<'y> {
    /// One slice without an end, for a script that cannot rest: its worker serves nobody before it ends.
    pub(super) fn endless() -> Slices<'y> {
        Slices { yielder: None, until: Cell::new(Instant::now()), rested: Cell::new(false) }
    }

    /// The slices of a script that begins now.
    pub(super) fn begin(yielder: &'y Yielder<(), ()>, now: Instant) -> Slices<'y> {
        Slices { yielder: Some(yielder), until: Cell::new(now + SLICE), rested: Cell::new(false) }
    }

    /// True if the script is to rest now.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.yielder.is_some() && now >= self.until.get()
    }

    /// True if the script has rested.
    pub(super) fn has_rested(&self) -> bool {
        self.rested.get()
    }

    /// Rests until the worker goes on with the script.
    pub(super) fn rest(&self) {
        let yielder = self.yielder.expect("a script that may rest");
        self.rested.set(true);
        yielder.suspend(());
        self.until.set(Instant::now() + SLICE);
    }
}
