//! The title of the process: the text that others see in the place of its command line.
//!
//! ```text
//!   the stack's end, as the system made it      after [`prepare`]
//!   argv[0] 0 argv[1] 0 .. | env[0] 0 env[1] 0  title 0 0 0 0 0 0 0 0 0 0 0 0      the environment has been copied away
//!   arg_start        arg_end = env_start  env_end
//! ```
//! The system shows these bytes as the command line; if the last one of the arguments is not 0, it reads on to the first 0
//! behind them. [`prepare`] runs once, while the process has one thread; `std::env::args` is of no use behind it.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use parking_lot::Mutex;

unsafe extern "C" {
    /// The environment as the C library has it: pointers to strings, then a null.
    static mut environ: *mut *mut c_char;
}

/// The bytes that others see.
struct Area {
    start: usize,
    len: usize,
}

static AREA: OnceLock<Mutex<Area>> = OnceLock::new();

/// Copies the environment away, so that its bytes can hold a title. Where the system does not say where they are, nothing
/// is done, and titles are not shown. The process must have one thread.
pub(crate) fn prepare() {
    let Some([arg_start, arg_end, env_start, env_end]) = places() else { return };
    // SAFETY: `environ` is set before main and this is the only thread; its entries are C strings up to the null.
    unsafe {
        let first = if environ.is_null() { std::ptr::null_mut() } else { *environ };
        // An instrumented run has another stack than the one that the system speaks of.
        if arg_end != env_start || first as usize != env_start || super::threads() > 1 {
            return;
        }
        let mut entry = environ;
        while !(*entry).is_null() {
            *entry = CStr::from_ptr(*entry).to_owned().into_raw();
            entry = entry.add(1);
        }
    }
    assert!(arg_start < env_end, "arguments stand before the environment");
    let _ = AREA.set(Mutex::new(Area { start: arg_start, len: env_end - arg_start }));
}

/// Shows a title, or as much of it as has room.
pub(crate) fn set(title: &str) {
    let Some(area) = AREA.get() else { return };
    let area = area.lock();
    let shown = title.len().min(area.len - 1);
    // SAFETY: `prepare` found these bytes on the first thread's stack, above all its frames, and nobody else refers to them any
    // more; the lock keeps other titles away.
    let bytes = unsafe { std::slice::from_raw_parts_mut(area.start as *mut u8, area.len) };
    bytes[..shown].copy_from_slice(&title.as_bytes()[..shown]);
    bytes[shown..].fill(0);
}

/// Begin and end of the arguments and of the environment, fields 48 to 51 of the system's line about this process.
fn places() -> Option<[usize; 4]> {
    let line = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field may have blanks; it ends with the last parenthesis.
    let (_, rest) = line.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace().skip(48 - 3).map(|field| field.parse().ok());
    let places = [fields.next()??, fields.next()??, fields.next()??, fields.next()??];
    (places[0] > 0 && places.is_sorted()).then_some(places)
}
