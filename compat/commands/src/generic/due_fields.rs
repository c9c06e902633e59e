//! Due fields of a hash that a command is about to replace, where its key is none of those whose shards were taken in front of it.

use varve_store::{Key, Tx};

/// Removes due fields of the hash at a key, whose shard is held, no more than one hold removes; true if more are due: those of a
/// million are not removed in one part.
pub(crate) fn meets_due_fields(tx: &mut Tx<'_>, key: &Key<'_>) -> bool {
    tx.store().has_dated_hashes() && tx.sheds_due_fields(key)
}
