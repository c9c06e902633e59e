//! The slow log: the last commands that took longer than `slowlog-log-slower-than`.
//!
//! ```text
//!   newest                                oldest
//!   | id 17 | id 16 | id 15 | ...        | id n  |   at most slowlog-max-len entries
//! ```
//!
//! One ring for the server, behind a leaf lock that is taken only for slow commands and by SLOWLOG. Arguments are kept
//! cut as Redis cuts them: 32 of them, 128 bytes each. Not here: timing (the executor), the SLOWLOG command
//! (handlers/slowlog.rs).

use std::collections::VecDeque;

/// Arguments kept of one entry, the last place saying how many more there were.
const ARGS_MAX: usize = 32;
/// Bytes kept of one argument.
const ARG_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Grows by one each entry, over resets too.
    pub(crate) id: u64,
    /// When it ran, in seconds of Unix time.
    pub(crate) time_s: i64,
    /// How long it took.
    pub(crate) took_us: u64,
    /// Its arguments, cut.
    pub(crate) args: Vec<Vec<u8>>,
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

/// Copies arguments as an entry keeps them.
pub(crate) fn cut_args<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = args.len();
    let kept = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
    let mut out: Vec<Vec<u8>> = args.take(kept).map(cut_arg).collect();
    if count > ARGS_MAX {
        out.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    out
}

fn cut_arg(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= ARG_BYTES_MAX {
        return arg.to_vec();
    }
    let mut cut = arg[..ARG_BYTES_MAX].to_vec();
    cut.extend_from_slice(format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX).as_bytes());
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(took_us: u64) -> Entry {
        Entry { id: 0, time_s: 1, took_us, args: Vec::new(), peer: String::new(), name: Vec::new() }
    }

    #[test]
    fn newest_first_bounded_and_ids_go_on_after_a_reset() {
        let mut log = Slowlog::default();
        for took in 0..5 {
            log.add(entry(took), 3);
        }
        assert_eq!(log.iter().map(|e| (e.id, e.took_us)).collect::<Vec<_>>(), [(4, 4), (3, 3), (2, 2)]);
        log.reset();
        assert_eq!(log.len(), 0);
        log.add(entry(9), 3);
        assert_eq!(log.iter().next().unwrap().id, 5);
        log.add(entry(9), 0);
        assert_eq!(log.len(), 0);
    }

    #[test]
    fn arguments_are_cut_as_redis_cuts_them() {
        let long = vec![b'x'; 130];
        let args: Vec<&[u8]> = std::iter::repeat_n(&long[..], 33).collect();
        let cut = cut_args(args.into_iter());
        assert_eq!(cut.len(), 32);
        assert_eq!(cut[31], b"... (2 more arguments)");
        assert!(cut[0].ends_with(b"... (2 more bytes)") && cut[0].len() == 128 + 18);
    }
}
