//! The slow log: the last commands that took longer than `slowlog-log-slower-than`.
//!
//! ```text
//!   newest                                oldest
//!   | id 17 | id 16 | id 15 | ...        | id n  |   at most slowlog-max-len entries
//! ```
//!
//! One ring for the server, behind a leaf lock that is taken only for slow commands and by SLOWLOG. Not
//! here: timing and cutting of the arguments (varve_exec::stats), the SLOWLOG command (mod.rs).

use std::collections::VecDeque;

use varve_exec::stats::SlowCommand;

/// One slow command.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Grows by one each entry, over resets too.
    pub(crate) id: u64,
    pub(crate) command: SlowCommand,
    /// The client's address and name.
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Slowlog {
    entries: VecDeque<Entry>,
    next: u64,
}

impl Slowlog {
    /// Adds an entry, and drops the oldest over `len_max`.
    pub(crate) fn add(&mut self, mut entry: Entry, len_max: usize) {
        entry.id = self.next;
        self.next += 1;
        self.entries.push_front(entry);
        self.entries.truncate(len_max);
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets all entries; ids go on.
    pub(crate) fn reset(&mut self) {
        self.entries.clear();
    }

    /// The entries, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(took_us: u64) -> Entry {
        let command = SlowCommand { at_s: 1, micros: took_us, args: Vec::new() };
        Entry { id: 0, command, peer: String::new(), name: Vec::new() }
    }

    #[test]
    fn newest_first_bounded_and_ids_go_on_after_a_reset() {
        let mut log = Slowlog::default();
        for took in 0..5 {
            log.add(entry(took), 3);
        }
        assert_eq!(log.iter().map(|e| (e.id, e.command.micros)).collect::<Vec<_>>(), [(4, 4), (3, 3), (2, 2)]);
        log.reset();
        assert_eq!(log.len(), 0);
        log.add(entry(9), 3);
        assert_eq!(log.iter().next().unwrap().id, 5);
        log.add(entry(9), 0);
        assert_eq!(log.len(), 0);
    }
}
