//! Addresses that are held so that there is memory when the system refuses some.
//!
//! ```text
//!   allocation refused --> spend: one block of the reserve goes back to the system --> asked again
//!                          the process is short of memory: commands that have it keep memory beside the data are refused
//!   each 100 ms        --> refill: the blocks are asked for again; some seconds behind half of them it is short no more
//! ```
//! Small allocations have no way back, so a refusal of one ended the process (`last_resort.rs`), although clients could have been
//! told. A block is mapped and never touched: it counts against RLIMIT_DATA and in strict overcommit, and takes no memory. Where the
//! system refuses nothing but kills (a cgroup's limit), this has no part. Not here: the commands that are refused meanwhile
//! (`varve_exec::checks`).

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use varve_base::refusable;

/// Bytes of a block.
const BLOCK_BYTES: usize = 4 << 20;
/// Several threads may need a block at the same moment.
const BLOCKS: usize = 4;

/// The blocks that are held; null where one is missing.
#[derive(Debug)]
struct Reserve([AtomicPtr<libc::c_void>; BLOCKS]);

static RESERVE: Reserve = Reserve::empty();

/// Gives a block back to the system; false if there is none. Asks for no memory and takes no lock.
pub(super) fn spend() -> bool {
    let is_spent = RESERVE.spend();
    refusable::set_short(true);
    is_spent
}

/// Asks for the blocks that are missing. True if half of them are held.
pub(crate) fn refill() -> bool {
    RESERVE.refill() >= BLOCKS / 2
}

impl Reserve {
    const fn empty() -> Reserve {
        Reserve([const { AtomicPtr::new(ptr::null_mut()) }; BLOCKS])
    }

    fn spend(&self) -> bool {
        self.0.iter().any(|block| {
            // Acquires: the block was mapped before it is given back.
            let at = block.swap(ptr::null_mut(), Ordering::Acquire);
            // Where a process has all the mappings that it may have, the system does not take a part of one back.
            let is_back = !at.is_null() && unmap(at);
            if !at.is_null() && !is_back {
                block.store(at, Ordering::Release);
            }
            is_back
        })
    }

    /// The number of blocks that are held.
    fn refill(&self) -> usize {
        self.0.iter().filter(|block| !block.load(Ordering::Relaxed).is_null() || hold(block)).count()
    }
}

/// Maps a block for an empty place; false if the system refuses it.
fn hold(block: &AtomicPtr<libc::c_void>) -> bool {
    let (kind, rights) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping at an address of the system's choice touches no other.
    let at = unsafe { libc::mmap(ptr::null_mut(), BLOCK_BYTES, rights, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        return false;
    }
    // Releases: whoever gives the block back finds it mapped.
    let placed = block.compare_exchange(ptr::null_mut(), at, Ordering::Release, Ordering::Relaxed);
    // Another thread has filled the place, in a process with several servers.
    placed.is_ok() || unmap(at)
}

/// Gives a block back; false if the system does not take it.
fn unmap(at: *mut libc::c_void) -> bool {
    // SAFETY: `at` is a mapping of this length that `hold` made, and nobody else has it: it is in no place of the reserve.
    unsafe { libc::munmap(at, BLOCK_BYTES) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_11_each_block_is_spent_once_and_comes_back() {
        let reserve = Reserve::empty();
        assert!(!reserve.spend(), "it has none");
        for _ in 0..3 {
            assert_eq!((reserve.refill(), reserve.refill()), (BLOCKS, BLOCKS));
            assert!((0..BLOCKS).all(|_| reserve.spend()) && !reserve.spend(), "there were four");
        }
        assert!(reserve.refill() == BLOCKS && reserve.spend() && reserve.refill() == BLOCKS);
        assert!(reserve.0.iter().all(|block| unmap(block.swap(ptr::null_mut(), Ordering::Relaxed))));
    }
}
