//! Which removals of a key are written as UNLINK in effects, and not as DEL: the settings `lazyfree-lazy-*`.
//!
//! The store frees every value in steps, so the settings change nothing here. They matter to a replica or to the reader of
//! an append-only file: redis-server 7.0.15 writes the word by them, and frees a value at once where it reads DEL.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Why a key is removed without a command that says so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Removal {
    /// A command has taken the whole value: `lazyfree-lazy-user-del`.
    Taken = 1 << 0,
    /// Its time has come: `lazyfree-lazy-expire`.
    Expired = 1 << 1,
    /// It made room: `lazyfree-lazy-eviction`.
    Evicted = 1 << 2,
    /// A command has removed it as DEL does, whatever the settings are.
    Deleted = 0,
}

/// The removals that are written as UNLINK, changed while workers run.
#[derive(Debug, Default)]
pub struct Lazyfree(AtomicU8);

impl Lazyfree {
    /// Sets whether removals of a kind are written as UNLINK.
    pub fn set(&self, removal: Removal, lazy: bool) {
        let bit = removal as u8;
        let _ = self.0.fetch_update(Relaxed, Relaxed, |old| Some(if lazy { old | bit } else { old & !bit }));
    }

    /// The word that does a removal again.
    pub fn word(&self, removal: Removal) -> &'static [u8] {
        if self.0.load(Relaxed) & removal as u8 != 0 { b"UNLINK" } else { b"DEL" }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lazyfree, Removal};

    #[test]
    fn each_kind_has_a_setting_of_its_own() {
        let lazy = Lazyfree::default();
        lazy.set(Removal::Expired, true);
        lazy.set(Removal::Deleted, true);
        let words = [Removal::Taken, Removal::Expired, Removal::Evicted, Removal::Deleted].map(|r| lazy.word(r));
        assert_eq!(words, [&b"DEL"[..], b"UNLINK", b"DEL", b"DEL"]);
        lazy.set(Removal::Expired, false);
        assert_eq!(lazy.word(Removal::Expired), b"DEL");
    }
}
