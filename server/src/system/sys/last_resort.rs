//! The end that nobody asked for: a panic, or memory that the system refuses.
//!
//! ```text
//!   panic ──────────────────▶ hook ─┐
//!                                   ├──▶ report: standard error, log (crash.rs) ──▶ abort
//!   allocation refused ─────────────┘   unless it has a way back, or what is held in reserve helps (reserve.rs)
//! ```
//! The standard library's own way may print a backtrace, which allocates and takes a lock: a server that was refused memory
//! stood still in the middle of one, with its port open, and no supervisor started it anew.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;

use varve_base::refusable;

use super::{crash, report, reserve};

/// From now on a panic of any thread ends the process at once, with a report in the log. `log_file` is absolute.
pub(crate) fn watch_panics(log_file: Option<&Path>) {
    log_file.into_iter().for_each(report::set_log_file);
    std::panic::set_hook(Box::new(|info| crash::die(format_args!("=== VARVE PANIC: {info}. Aborting."))));
}

/// The system's allocator. Where it is refused memory and whoever asks has no way back (`varve_base::refusable`), it spends what is
/// held in reserve and asks again. If that does not help, the process says how many bytes it was refused and aborts at once. The
/// standard library's own way may print a backtrace, which allocates and takes locks.
#[derive(Debug)]
pub struct LastResort;

/// How often a thread looks whether others have given a block of the reserve back, when it finds none itself.
const LOOKS: usize = 100;

/// The memory that `ask` gives. The process ends where the system refuses memory without which the thread cannot go on.
#[inline]
fn given(bytes: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
    let at = ask();
    if at.is_null() { refused(bytes, ask) } else { at }
}

#[cold]
fn refused(bytes: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
    if refusable::has_way_back() {
        return std::ptr::null_mut();
    }
    let mut looks = 0;
    while reserve::spend() || looks < LOOKS {
        let at = ask();
        if !at.is_null() {
            return at;
        }
        looks += 1;
        std::thread::yield_now();
    }
    crash::die(format_args!("Out of memory: the system refuses {bytes} bytes. Aborting."))
}

// SAFETY: every call is passed on to the system's allocator, under the same contract; what it gives is handed on.
unsafe impl GlobalAlloc for LastResort {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        given(layout.size(), || unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        given(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on to the caller; where it is refused, `at` is as it was, and may be asked for again.
        given(size, || unsafe { System.realloc(at, layout, size) })
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(at, layout) }
    }
}
