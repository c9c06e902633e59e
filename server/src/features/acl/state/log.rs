//! ACL LOG: requests and logins that were denied, the newest first.
//!
//! ```text
//!   newest                                              oldest
//!   | 3 x get, alice | key a, bob | login, carol | ... |        at most acllog-max-len entries
//! ```
//! A denial like one of the newest ten of the last minute counts with it. Behind a leaf lock that is taken for denials only.

use std::collections::VecDeque;

use varve_acl::Denial;
use varve_base::counted::HeapBytes;
use varve_exec::denials::Origin;

/// Why something was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Command,
    Key,
    Channel,
    /// A login with a wrong password, or of nobody.
    Login,
    /// A certificate that names no user.
    Certificate,
}

impl From<Denial> for Reason {
    fn from(denial: Denial) -> Reason {
        match denial {
            Denial::Command => Reason::Command,
            Denial::Key(_) => Reason::Key,
            Denial::Channel(_) => Reason::Channel,
        }
    }
}

impl Reason {
    /// All of them.
    pub(crate) const ALL: [Reason; 5] =
        [Reason::Login, Reason::Command, Reason::Key, Reason::Channel, Reason::Certificate];

    fn place(self) -> usize {
        Reason::ALL.iter().position(|other| *other == self).expect("the list has all reasons")
    }

    /// The field of INFO that counts it: of Redis 7.2, the last one of Valkey 9.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Reason::Command => "acl_access_denied_cmd",
            Reason::Key => "acl_access_denied_key",
            Reason::Channel => "acl_access_denied_channel",
            Reason::Login => "acl_access_denied_auth",
            Reason::Certificate => "acl_access_denied_tls_cert",
        }
    }

    /// The name in a reply.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Login => "auth",
            Reason::Certificate => "tls-cert",
        }
    }
}

/// A request or a login that was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) reason: Reason,
    pub(crate) origin: Origin,
    /// The name of the command, the key or the channel.
    pub(crate) object: Vec<u8>,
    /// The user's name.
    pub(crate) user: Vec<u8>,
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    /// How often it happened.
    pub(crate) count: u64,
    /// When it last happened, milliseconds of Unix time.
    pub(crate) at_ms: i64,
    /// The connection of the last time, as CLIENT LIST shows it.
    pub(crate) client: String,
}

impl Entry {
    /// Bytes that it takes.
    fn memory(&self) -> usize {
        size_of::<Entry>() + self.event.object.capacity() + self.event.user.capacity() + self.client.capacity()
    }
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct AclLog {
    entries: VecDeque<Entry>,
    /// Bytes of the entries: their number is a setting, and so they count against the memory limit.
    bytes: usize,
    /// Events since the start, by the places of their reasons in [`Reason::ALL`].
    counts: [u64; Reason::ALL.len()],
}

/// The newest entries that a new one may be like.
const LOOKED_AT: usize = 10;
/// Bytes that are kept of a denied key, channel or command, and of what is said of its connection.
const TEXT_BYTES_MAX: usize = 1024;
/// Milliseconds within which events are alike.
const ALIKE_MS: i64 = 60_000;

impl HeapBytes for AclLog {
    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

impl AclLog {
    /// Adds an event, and drops the oldest entries over `len_max`.
    /// Long texts are cut: whoever is denied could else fill memory that no limit counts.
    pub(crate) fn add(&mut self, mut event: Event, at_ms: i64, mut client: String, len_max: usize) {
        event.object.truncate(TEXT_BYTES_MAX);
        event.object.shrink_to_fit();
        client.truncate(client.floor_char_boundary(TEXT_BYTES_MAX));
        client.shrink_to_fit();
        self.counts[event.reason.place()] += 1;
        let alike = |entry: &Entry| entry.event == event && (at_ms - entry.at_ms).abs() <= ALIKE_MS;
        let known = self.entries.iter().take(LOOKED_AT).position(alike).and_then(|at| self.entries.remove(at));
        self.bytes -= known.as_ref().map_or(0, Entry::memory);
        let count = known.map_or(0, |entry| entry.count) + 1;
        let entry = Entry { event, count, at_ms, client };
        self.bytes += entry.memory();
        self.entries.push_front(entry);
        while self.entries.len() > len_max {
            self.bytes -= self.entries.pop_back().map_or(0, |oldest| oldest.memory());
        }
    }

    /// The entries, newest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Events of this reason since the start.
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts[reason.place()]
    }

    /// Forgets all entries; the counts stay.
    pub(crate) fn reset(&mut self) {
        (self.entries, self.bytes) = (VecDeque::new(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(object: &str) -> Event {
        Event { reason: Reason::Key, origin: Origin::Client, object: object.into(), user: b"u".to_vec() }
    }

    #[test]
    fn issue_16_long_texts_are_cut() {
        let mut log = AclLog::default();
        log.add(event(&"k".repeat(1 << 20)), 0, "\u{e9}".repeat(1 << 20), 3);
        log.add(event(&"k".repeat(2 << 20)), 1, String::new(), 3);
        assert!(
            log.heap_bytes() > TEXT_BYTES_MAX && log.heap_bytes() < 4 * TEXT_BYTES_MAX,
            "{} bytes",
            log.heap_bytes()
        );
        let kept: Vec<_> = log.iter().map(|entry| (entry.event.object.capacity(), entry.client.capacity())).collect();
        assert_eq!(kept.len(), 1, "they are alike as far as they are kept");
        assert!(kept[0].0 <= TEXT_BYTES_MAX && kept[0].1 <= TEXT_BYTES_MAX, "{kept:?}");
    }

    #[test]
    fn like_events_count_together_within_a_minute_and_the_log_is_bounded() {
        let mut log = AclLog::default();
        for (object, at_ms) in [("a", 0), ("b", 1), ("a", 60_000), ("a", 120_001)] {
            log.add(event(object), at_ms, String::new(), 3);
        }
        let seen = |log: &AclLog| log.iter().map(|e| (e.event.object.clone(), e.count, e.at_ms)).collect::<Vec<_>>();
        assert_eq!(seen(&log), [(b"a".to_vec(), 1, 120_001), (b"a".to_vec(), 2, 60_000), (b"b".to_vec(), 1, 1)]);
        log.add(event("c"), 120_002, String::new(), 3);
        assert_eq!(seen(&log).len(), 3);
        assert_eq!(log.heap_bytes(), log.iter().map(Entry::memory).sum::<usize>());
        log.reset();
        assert_eq!((log.iter().len(), log.heap_bytes()), (0, 0));
        assert_eq!((log.count(Reason::Key), log.count(Reason::Login)), (5, 0));
    }
}
