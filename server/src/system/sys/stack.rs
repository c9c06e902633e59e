//! The stack of a thread: its calls, innermost first, with the names that the program's file has.

use std::ops::Range;

use parking_lot::Mutex;

use super::super::symbols::{Function, NAME_BYTES_MAX, SymbolRoom, Symbols};
use super::report::Report;

unsafe extern "C" {
    /// Where the program begins in memory, and where it ends: the linker defines both.
    static __executable_start: u8;
    static _end: u8;
}

/// Calls that are shown at most.
const CALLS_MAX: usize = 64;

/// Room for one report at a time: the stack of a signal has none.
struct Room {
    calls: [usize; CALLS_MAX],
    addresses: [u64; CALLS_MAX],
    functions: [Function; CALLS_MAX],
    symbols: SymbolRoom,
    name: [u8; NAME_BYTES_MAX],
}

static ROOM: Mutex<Room> = Mutex::new(Room {
    calls: [0; CALLS_MAX],
    addresses: [0; CALLS_MAX],
    functions: [Function::NONE; CALLS_MAX],
    symbols: SymbolRoom::new(),
    name: [0; NAME_BYTES_MAX],
});

/// The addresses of the program.
pub(crate) fn program() -> Range<usize> {
    (&raw const __executable_start as usize)..(&raw const _end as usize)
}

/// Has the library that walks stacks loaded, which a signal's handler must not do.
pub(super) fn prepare() {
    let _ = calls(&mut [0; CALLS_MAX]);
}

/// The return addresses of the calling thread; their number.
fn calls(into: &mut [usize; CALLS_MAX]) -> usize {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: there is room for this number of addresses, and backtrace writes no more. It takes no lock once its library
        // has been loaded (`prepare`).
        let count = unsafe { libc::backtrace(into.as_mut_ptr().cast(), CALLS_MAX as i32) };
        usize::try_from(count).unwrap_or(0)
    }
    #[cfg(not(target_env = "gnu"))]
    {
        let _ = into;
        0
    }
}

/// Writes the calling thread's stack. While another thread writes one, only a word about it.
pub(super) fn write(report: &mut Report) {
    let Some(mut room) = ROOM.try_lock() else {
        return report.line(format_args!("(another stack is being written)"));
    };
    let Room { calls: found, addresses, functions, symbols: work, name } = &mut *room;
    let count = calls(found);
    let program = program();
    for (address, call) in addresses.iter_mut().zip(&found[..count]) {
        // The call stands before the address to which it returns.
        *address = if program.contains(call) { (call - program.start) as u64 - 1 } else { 0 };
    }
    functions[..count].fill(Function::NONE);
    let symbols = Symbols::open();
    if let Ok(symbols) = &symbols {
        // Names that were found before an error are shown.
        let _ = symbols.find(&addresses[..count], functions, work);
    }
    for at in 0..count {
        if !program.contains(&found[at]) {
            report.line(format_args!("#{at:<2} {:#x} in a library", found[at]));
            continue;
        }
        let offset = addresses[at];
        let named = match &symbols {
            Ok(symbols) => symbols.name(functions[at], name),
            Err(_) => None,
        };
        match named {
            Some(name) => {
                report.line(format_args!("#{at:<2} {:#} varve-server+{offset:#x}", rustc_demangle::demangle(name)))
            }
            None => report.line(format_args!("#{at:<2} varve-server+{offset:#x}")),
        }
    }
}
