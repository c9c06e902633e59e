//! The end that nobody asked for: a panic, or memory that the system refuses.
//!
//! ```text
//!   panic ──────────────────▶ hook ─┐
//!                                   ├──▶ one line: standard error, log file ──▶ abort
//!   allocation refused ─────────────┘
//! ```
//! The standard library's own way may print a backtrace, which allocates and takes a lock: a server that was refused memory
//! stood still in the middle of one, with its port open, and no supervisor started it anew. What an operator needs to
//! find the place is in the line; a core dump has the rest.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CString;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// The log file, if there is one, as the system wants its path.
static LOG_FILE: OnceLock<CString> = OnceLock::new();

/// From now on a panic of any thread ends the process at once, with a line in the log. `log_file` is absolute.
pub(crate) fn watch_panics(log_file: Option<&Path>) {
    if let Some(path) = log_file.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok()) {
        // A second start of the log in one process keeps the first file.
        let _ = LOG_FILE.set(path);
    }
    std::panic::set_hook(Box::new(|info| die(format_args!("=== VARVE PANIC: {info}. Aborting."))));
}

/// Bytes of a last line; a longer one is cut.
const LAST_LINE_MAX: usize = 2048;

/// Text in a place of fixed size.
struct LastLine {
    bytes: [u8; LAST_LINE_MAX],
    len: usize,
}

impl Write for LastLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let count = text.len().min(LAST_LINE_MAX - self.len);
        self.bytes[self.len..self.len + count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}

/// Writes a last line to standard error and to the end of the log file, and aborts the process. Nothing is allocated and no
/// lock is taken: memory may be what is missing, and another thread may have stopped anywhere.
fn die(line: fmt::Arguments<'_>) -> ! {
    let mut text = LastLine { bytes: [0; LAST_LINE_MAX], len: 0 };
    // A part that cannot be formatted is left out.
    let _ = Write::write_fmt(&mut text, line);
    let last = text.len.min(LAST_LINE_MAX - 1);
    text.bytes[last] = b'\n';
    // SAFETY: the bytes are initialised and live for the calls; a failing call changes nothing of ours. The path is a C
    // string. The descriptor is not closed: the process ends.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.bytes.as_ptr().cast(), last + 1);
        if let Some(path) = LOG_FILE.get() {
            let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC);
            if file >= 0 {
                libc::write(file, text.bytes.as_ptr().cast(), last + 1);
            }
        }
    }
    std::process::abort();
}

/// The system's allocator, for which a refusal is the end: the process says how many bytes it was refused and aborts at
/// once. The standard library's own way may print a backtrace, which allocates and takes locks.
#[derive(Debug)]
pub struct LastResort;

/// `at`, unless the system has refused.
fn given(at: *mut u8, bytes: usize) -> *mut u8 {
    if at.is_null() {
        die(format_args!("Out of memory: the system refuses {bytes} bytes. Aborting."));
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
