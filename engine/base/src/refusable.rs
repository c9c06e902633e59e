//! Memory that may be refused: for what a client decides the size of, which gets an error in place of the room.
//!
//! Most allocations have no way back, so the process's allocator ends the process where the system refuses one, before the
//! standard library could tell whoever asks. It asks here first whether this one has a way back.
//!
//! A process that is short of memory lives on what it had in reserve. Whoever would keep memory for long asks for that.

use std::cell::Cell;
use std::collections::TryReserveError;
use std::sync::atomic::{AtomicBool, Ordering};

/// The process is short of memory.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// True if the system has refused memory, and what was spent of the reserve is not back yet.
#[inline]
pub fn is_short() -> bool {
    // Nothing else is read because of it.
    IS_SHORT.load(Ordering::Relaxed)
}

/// Notes whether the process is short of memory. Allocates nothing.
pub fn set_short(is_short: bool) {
    IS_SHORT.store(is_short, Ordering::Relaxed);
}

thread_local! {
    /// This thread asks for memory that it can do without.
    static HAS_WAY_BACK: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread asks for memory that it can do without: an allocator is to hand a refusal on. Allocates nothing.
pub fn has_way_back() -> bool {
    HAS_WAY_BACK.get()
}

/// Makes room for `more` elements behind those that are there, and for no others.
///
/// # Errors
/// The system refuses the memory, or it is more than a vector can have; the vector is as it was.
pub fn reserve_exact<T>(vec: &mut Vec<T>, more: usize) -> Result<(), TryReserveError> {
    asking(|| vec.try_reserve_exact(more))
}

/// Makes room for `more` elements behind those that are there, and for as many again if it grows: pushing costs amortised O(1).
///
/// # Errors
/// The system refuses the memory, or it is more than a vector can have; the vector is as it was.
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<(), TryReserveError> {
    asking(|| vec.try_reserve(more))
}

/// True if the system gives this many bytes in one piece now. They are given back at once: it is a look ahead for whoever asks for
/// memory in many places, none of which can be refused.
pub fn is_given(bytes: usize) -> bool {
    let mut looked: Vec<u8> = Vec::new();
    let given = reserve_exact(&mut looked, bytes);
    // Unused, the room would be left out by the compiler, and none asked for.
    std::hint::black_box(looked.as_ptr());
    given.is_ok()
}

fn asking<R>(ask: impl FnOnce() -> R) -> R {
    let before = HAS_WAY_BACK.replace(true);
    debug_assert!(!before, "a vector's room is asked for by nothing else");
    let given = ask();
    HAS_WAY_BACK.set(false);
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_is_open_while_it_is_asked() {
        assert!(!has_way_back());
        assert!(asking(has_way_back));
        assert!(!has_way_back());
        let mut room: Vec<u8> = vec![1];
        assert!(reserve_exact(&mut room, usize::MAX).is_err() && reserve(&mut room, usize::MAX).is_err());
        assert!(!has_way_back());
        assert!(reserve_exact(&mut room, 100).is_ok() && room.capacity() >= 101);
        assert_eq!(room, [1]);
        assert!(is_given(1 << 20) && !is_given(usize::MAX));
    }
}
