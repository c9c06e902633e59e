//! The end that nobody asked for: a panic, or memory that the system refuses.
//!
//! ```text
//!   panic ──────────────────▶ hook ─┐
//!                                   ├──▶ report: standard error, log (crash.rs) ──▶ abort
//!   allocation refused ─────────────┘   unless it has a way back
//! ```
//! The standard library's own way may print a backtrace, which allocates and takes a lock: a server that was refused memory
//! stood still in the middle of one, with its port open, and no supervisor started it anew.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;

use varve_base::refusable;

use super::{crash, report};

/// From now on a panic of any thread ends the process at once, with a report in the log. `log_file` is absolute.
pub(crate) fn watch_panics(log_file: Option<&Path>) {
    log_file.into_iter().for_each(report::set_log_file);
    std::panic::set_hook(Box::new(|info| crash::die(format_args!("=== VARVE PANIC: {info}. Aborting."))));
}

/// The system's allocator, for which a refusal is the end, unless whoever asks has a way back (`varve_base::refusable`): the process says how many bytes it was refused and aborts at
/// once. The standard library's own way may print a backtrace, which allocates and takes locks.
#[derive(Debug)]
pub struct LastResort;

/// `at`, unless the system has refused memory without which the thread cannot go on.
fn given(at: *mut u8, bytes: usize) -> *mut u8 {
    if at.is_null() && !refusable::has_way_back() {
        crash::die(format_args!("Out of memory: the system refuses {bytes} bytes. Aborting."));
    }
    at
}

// SAFETY: every call is passed on to the system's allocator, under the same contract; what it gives is handed on.
unsafe impl GlobalAlloc for LastResort {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on to the caller.
        given(unsafe { System.realloc(at, layout, size) }, size)
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(at, layout) }
    }
}
