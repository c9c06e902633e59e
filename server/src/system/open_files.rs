//! How many descriptors the process may have open.

use super::sys;

/// Descriptors that the server needs beside its clients' (as Redis reckons).
const RESERVED_FILES: u64 = 32;

/// Asks the system for the descriptors of `wanted` clients. Returns the number of clients that it allows.
pub(crate) fn allow_clients(wanted: u32) -> u32 {
    let Ok(limit) = sys::open_files() else {
        return wanted;
    };
    let needed = u64::from(wanted) + RESERVED_FILES;
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
    let possible = soft.saturating_sub(RESERVED_FILES).max(1);
    u32::try_from(possible).unwrap_or(u32::MAX).min(wanted)
}
