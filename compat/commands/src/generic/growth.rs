//! Growth of strings: admitted where it is known, which for many commands is behind the admission of the request.

use varve_exec::{CmdResult, CommandError};
use varve_store::{Key, Tx};

/// Growth that is admitted with the request, by whose bytes it is not bound.
const GROWTH_MIN: usize = 4096;

/// Admits that a string of `old` bytes grows to `new` bytes by zeros, against the limit and from the system. The shards may be
/// released for it and taken again: nothing that was read before holds any more.
///
/// # Errors
/// There is no room for that.
pub(crate) fn admit(tx: &mut Tx<'_>, key: &Key<'_>, old: usize, new: usize) -> CmdResult {
    let bytes = new.saturating_sub(old);
    if bytes >= GROWTH_MIN {
        tx.admit_more(bytes as u64).map_err(|_| CommandError::OUT_OF_MEMORY)?;
    }
    admit_place(tx, key, new)
}

/// Admits that a string has `new` bytes, by which it grows no more than its request is long. It may have to move as a whole:
/// the system may refuse memory for that, and a write that was not admitted ends the server.
///
/// # Errors
/// The system gives no memory for it.
pub(crate) fn admit_place(tx: &mut Tx<'_>, key: &Key<'_>, new: usize) -> CmdResult {
    if tx.may_grow(key, new) { Ok(()) } else { Err(CommandError::OUT_OF_MEMORY) }
}
