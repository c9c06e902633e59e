//! The logs of commands: the last ones that took long, had a long request, or had a long reply.
//!
//! ```text
//!                   newest                                oldest
//!   slow            | id 17 | id 16 | id 15 | ...        | id n  |   at most slowlog-max-len entries
//!   large-request   | id 2  | id 1  | id 0  |                        at most commandlog-large-request-max-len
//!   large-reply     | id 0  |                                        at most commandlog-large-reply-max-len
//! ```
//!
//! Three rings for the server, behind one leaf lock that is taken only for such commands, and by SLOWLOG and COMMANDLOG. Not
//! here: timing, measuring and cutting of the arguments (varve_exec::stats), the commands (mod.rs).

use std::collections::VecDeque;

use varve_base::counted::HeapBytes;
use varve_exec::stats::{CommandLog, LoggedCommand};

/// One command.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Grows by one each entry, over resets too.
    pub(crate) id: u64,
    pub(crate) command: LoggedCommand,
    /// The client's address and name.
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

impl Entry {
    /// Bytes that it takes.
    fn memory(&self) -> usize {
        let args = &self.command.args;
        let words: usize = args.iter().map(Vec::capacity).sum();
        size_of::<Entry>()
            + args.capacity() * size_of::<Vec<u8>>()
            + words
            + self.peer.capacity()
            + self.name.capacity()
    }
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct CommandLogs([Ring; 3]);

impl CommandLogs {
    /// One of the logs.
    pub(crate) fn of(&mut self, log: CommandLog) -> &mut Ring {
        &mut self.0[log as usize]
    }
}

impl HeapBytes for CommandLogs {
    fn heap_bytes(&self) -> usize {
        self.0.iter().map(|ring| ring.bytes).sum()
    }
}

/// One log.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    next: u64,
    /// Bytes of the entries: their number is a setting, and so they count against the memory limit.
    bytes: usize,
}

impl Ring {
    /// Adds an entry, and drops the oldest over `len_max`.
    pub(crate) fn add(&mut self, mut entry: Entry, len_max: usize) {
        entry.id = self.next;
        self.next += 1;
        self.bytes += entry.memory();
        self.entries.push_front(entry);
        while self.entries.len() > len_max {
            self.bytes -= self.entries.pop_back().map_or(0, |oldest| oldest.memory());
        }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets all entries; ids go on.
    pub(crate) fn reset(&mut self) {
        (self.entries, self.bytes) = (VecDeque::new(), 0);
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
        let command = LoggedCommand { log: CommandLog::Slow, at_s: 1, amount: took_us, args: Vec::new() };
        Entry { id: 0, command, peer: String::new(), name: Vec::new() }
    }

    #[test]
    fn newest_first_bounded_and_ids_go_on_after_a_reset() {
        let mut logs = CommandLogs::default();
        let log = logs.of(CommandLog::Slow);
        for took in 0..5 {
            log.add(entry(took), 3);
        }
        assert_eq!(log.iter().map(|e| (e.id, e.command.amount)).collect::<Vec<_>>(), [(4, 4), (3, 3), (2, 2)]);
        log.reset();
        assert_eq!(log.len(), 0);
        log.add(entry(9), 3);
        assert_eq!(log.iter().next().unwrap().id, 5);
        log.add(entry(9), 0);
        assert_eq!(log.len(), 0);
        assert_eq!(logs.heap_bytes(), 0);
        logs.of(CommandLog::LargeReply).add(entry(1), 1);
        assert_eq!([CommandLog::LargeReply, CommandLog::Slow].map(|log| logs.of(log).len()), [1, 0]);
    }

    #[test]
    fn issue_11_entries_are_counted_as_they_come_and_go() {
        let mut logs = CommandLogs::default();
        let mut long = entry(7);
        long.command.args = vec![vec![b'a'; 1000], vec![b'b'; 500]];
        long.name = vec![b'n'; 300];
        let mut most = 0;
        for nth in 0..10 {
            logs.of(CommandLog::Slow).add(long.clone(), 4);
            most = most.max(logs.heap_bytes());
            assert!(logs.heap_bytes() >= (nth + 1).min(4) * 1800);
        }
        assert_eq!(logs.heap_bytes(), most, "as much as four take");
        logs.of(CommandLog::LargeRequest).add(long, 4);
        assert!(logs.heap_bytes() > most);
        logs.of(CommandLog::Slow).reset();
        logs.of(CommandLog::LargeRequest).reset();
        assert_eq!(logs.heap_bytes(), 0);
    }
}
