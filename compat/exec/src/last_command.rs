//! The command that a thread ran last, for the report of a crash.
//!
//! A store into memory of the thread, once a command; it is never taken back, so between commands it names the one before.

use std::cell::Cell;

use varve_catalog::Row;

thread_local! {
    static LAST: Cell<Option<&'static Row>> = const { Cell::new(None) };
}

/// The calling thread is about to run a command, which is returned.
#[inline]
pub fn note(row: &'static Row) -> &'static Row {
    LAST.set(Some(row));
    row
}

/// The full name of the command that the calling thread ran last. A signal's handler may ask.
pub fn name() -> Option<&'static str> {
    LAST.get().map(|row| row.full_name)
}
