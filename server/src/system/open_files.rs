//! How many descriptors the process may have open.

use super::sys;

/// Descriptors that the server needs beside its clients' and its threads' (as Redis reckons), and beside its links'.
const RESERVED_FILES: u64 = 32;
/// Sockets to other servers that the process has at most.
pub(crate) const LINK_FILES: u64 = 64;
/// Descriptors of a thread: its poll, and what wakes it.
const THREAD_FILES: u64 = 2;

/// Descriptors beside those of clients.
fn reserved(workers: usize) -> u64 {
    // The workers, and the thread that accepts.
    RESERVED_FILES + LINK_FILES + THREAD_FILES * (workers as u64 + 1)
}

/// The descriptors that a server with this number of clients and workers needs, and those that it may have.
pub(crate) fn needed_and_allowed(clients: u32, workers: usize) -> (u64, u64) {
    let needed = u64::from(clients) + reserved(workers);
    (needed, sys::open_files().map_or(u64::MAX, |limit| limit.hard))
}

/// Asks the system for the descriptors of `wanted` clients, beside those of a server with `workers` workers. Returns the
/// number of clients that it allows.
pub(crate) fn allow_clients(wanted: u32, workers: usize) -> u32 {
    let Ok(limit) = sys::open_files() else {
        return wanted;
    };
    let reserved = reserved(workers);
    let needed = u64::from(wanted) + reserved;
    let mut soft = limit.soft;
    if soft < needed {
        let hard = limit.hard.max(needed);
        for (soft_wanted, hard_wanted) in [(needed, hard), (limit.hard.min(needed), limit.hard)] {
            if soft_wanted > soft
                && sys::set_open_files(sys::OpenFiles { soft: soft_wanted, hard: hard_wanted }).is_ok()
            {
                soft = soft_wanted;
                break;
            }
        }
    }
    let possible = soft.saturating_sub(reserved).max(1);
    u32::try_from(possible).unwrap_or(u32::MAX).min(wanted)
}
