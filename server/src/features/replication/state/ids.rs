//! The identity of the stream: the id of its history, the id that the history had before, and how offsets lie to positions.
//!
//! ```text
//!   first id    bbbb..   this history
//!   second id   aaaa..   the history that this one went on with: the same bytes before offset `second_end`
//!
//!   positions of the journal   0 ......... p        bytes since the start of this process
//!   offsets of the stream      base ...... base + p bytes since the history began, on whichever server
//! ```
//! While nobody replicates, nothing is counted, as in redis-server: the offset rests, whatever the journal takes for a file.
//! Not here: the bytes (the journal), and which of them are still there (`backlog.rs`).

use varve_aof::StreamPlace;
use varve_base::shared::SharedMutex;
use varve_exec::journal::Origin;

/// The second id of a history that is no other one's continuation.
const NO_ID: &str = "0000000000000000000000000000000000000000";

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Ids {
    now: SharedMutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    history: History,
    offsets: Offsets,
}

/// Which history the stream is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// 40 hexadecimal digits.
    pub(crate) id: String,
    /// 40 hexadecimal digits, all of them 0 where there is no second id.
    pub(crate) second_id: String,
    /// The first offset at which the second history is not this one; -1 where there is no second id.
    pub(crate) second_end: i64,
}

impl History {
    fn of(id: String) -> History {
        assert_eq!(id.len(), NO_ID.len(), "an id has 40 digits");
        History { id, second_id: NO_ID.to_owned(), second_end: -1 }
    }
}

/// How offsets lie to positions of the journal.
#[derive(Clone, Copy, Debug)]
enum Offsets {
    /// Nothing is counted: the offset.
    Rest(i64),
    /// Behind this number of bytes the journal's first byte stands. All bytes from offset `since` on were appended.
    Count { base: i64, since: u64 },
}

impl Offsets {
    fn at(self, end: u64) -> i64 {
        match self {
            Offsets::Rest(offset) => offset,
            Offsets::Count { base, .. } => base + end as i64,
        }
    }
}

impl Ids {
    /// The history of this id begins, at offset 0.
    pub(crate) fn new(id: String) -> Ids {
        Ids { now: SharedMutex::new(Inner { history: History::of(id), offsets: Offsets::Rest(0) }) }
    }

    /// Which history the stream is.
    pub(crate) fn history(&self) -> History {
        self.now.lock().history.clone()
    }

    /// The offset of the stream's end, which is or was at this position of the journal: 0 if the stream begins behind that.
    pub(crate) fn offset(&self, end: u64) -> u64 {
        self.now.lock().offsets.at(end).max(0) as u64
    }

    /// The offset of what stands at this position of the journal; None if that is before the first byte that is counted.
    pub(crate) fn offset_of(&self, position: u64) -> Option<u64> {
        match self.now.lock().offsets {
            Offsets::Rest(_) => None,
            Offsets::Count { base, since } => {
                u64::try_from(base + position as i64).ok().filter(|offset| *offset >= since)
            }
        }
    }

    /// The position of the journal behind this number of bytes of the stream; None if they were never counted here.
    pub(crate) fn position(&self, offset: i64) -> Option<u64> {
        match self.now.lock().offsets {
            Offsets::Rest(_) => None,
            Offsets::Count { base, .. } => u64::try_from(offset.checked_sub(base)?).ok(),
        }
    }

    /// Somebody replicates from here on, where nobody did: another history begins, since nobody knows the bytes of before.
    pub(crate) fn begin(&self, id: String, end: u64) {
        let mut now = self.now.lock();
        let offset = now.offsets.at(end);
        let offsets = Offsets::Count { base: offset - end as i64, since: offset as u64 };
        *now = Inner { history: History::of(id), offsets };
    }

    /// The history of before the start goes on under this id, from here on.
    pub(crate) fn carry_on(&self, id: String, carried: &StreamPlace, end: u64) {
        let offset = carried.offset as i64;
        let history = History { second_id: carried.id.clone(), second_end: offset + 1, ..History::of(id) };
        let offsets = Offsets::Count { base: offset - end as i64, since: carried.since };
        *self.now.lock() = Inner { history, offsets };
    }

    /// The history of before the start, which is a primary's, goes on from here on.
    pub(crate) fn carry_on_following(&self, carried: &StreamPlace, end: u64) {
        let offsets = Offsets::Count { base: carried.offset as i64 - end as i64, since: carried.since };
        *self.now.lock() = Inner { history: History::of(carried.id.clone()), offsets };
    }

    /// Which stream the journal's bytes are, as files note it; None while nothing is counted.
    pub(crate) fn origin(&self) -> Option<Origin> {
        let now = self.now.lock();
        match now.offsets {
            Offsets::Rest(_) => None,
            Offsets::Count { base, since } => Some(Origin { id: now.history.id.clone(), base, since }),
        }
    }

    /// Nobody has replicated for long: the bytes are gone, and the history with them.
    pub(crate) fn rest(&self, id: String, end: u64) {
        let mut now = self.now.lock();
        *now = Inner { history: History::of(id), offsets: Offsets::Rest(now.offsets.at(end)) };
    }

    /// The stream is this history from now on, up to this offset: a primary's, whose data is here. Nothing is counted yet.
    pub(crate) fn adopt(&self, id: &str, offset: u64) {
        *self.now.lock() = Inner { history: History::of(id.to_owned()), offsets: Offsets::Rest(offset as i64) };
    }

    /// The bytes of the history are appended to the journal from this position on, which is the end of those that are known.
    pub(crate) fn count(&self, end: u64) {
        let mut now = self.now.lock();
        let offset = now.offsets.at(end);
        now.offsets = Offsets::Count { base: offset - end as i64, since: offset as u64 };
    }

    /// The history goes on under this id from this position on, here or at the primary that is followed.
    pub(crate) fn go_on_as(&self, id: String, end: u64) {
        let mut now = self.now.lock();
        let second_end = now.offsets.at(end) + 1;
        let second_id = std::mem::take(&mut now.history.id);
        now.history = History { second_id, second_end, ..History::of(id) };
    }

    /// True if a replica that has the history of this id up to `offset` can go on with this one.
    pub(crate) fn admits(&self, id: &[u8], offset: i64) -> bool {
        let History { id: first, second_id, second_end } = &self.now.lock().history;
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(id);
        is(first) || *second_end >= 0 && is(second_id) && offset < *second_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_a_history_goes_on_behind_a_start() {
        let ids = Ids::new("a".repeat(40));
        let old = "b".repeat(40);
        ids.carry_on("c".repeat(40), &StreamPlace { id: old.clone(), offset: 700, since: 400, db: 0 }, 30);
        assert_eq!((ids.offset(30), ids.position(690), ids.position(669)), (700, Some(20), None));
        assert!(ids.admits(old.as_bytes(), 700) && !ids.admits(old.as_bytes(), 701), "it had no more than that");
        assert_eq!(ids.history().second_end, 701);
        assert_eq!(ids.origin().map(|origin| origin.since), Some(400));
        // A replica asks its primary by the id that this one knows.
        ids.carry_on_following(&StreamPlace { id: old.clone(), offset: 900, since: 400, db: 0 }, 30);
        assert_eq!((ids.history(), ids.offset(31)), (History::of(old), 901));
    }

    #[test]
    fn offsets_go_on_where_they_rested() {
        let ids = Ids::new("a".repeat(40));
        assert_eq!((ids.offset(500), ids.position(0)), (0, None), "a file has taken 500 bytes");
        ids.begin("b".repeat(40), 500);
        assert_eq!((ids.offset(500), ids.offset(620), ids.position(100)), (0, 120, Some(600)));
        assert_eq!(ids.offset(499), 0, "each replica has the data of before the stream");
        ids.rest("c".repeat(40), 620);
        assert_eq!(ids.offset(900), 120);
        ids.begin("d".repeat(40), 1000);
        assert_eq!((ids.offset_of(999), ids.offset_of(1000)), (None, Some(120)), "nothing of it is there yet");
        assert_eq!((ids.offset(1001), ids.position(120), ids.position(-900)), (121, Some(1000), None));
        assert_eq!(ids.origin(), Some(Origin { id: "d".repeat(40), base: -880, since: 120 }));
        assert!(ids.admits("D".repeat(40).as_bytes(), 7) && !ids.admits("c".repeat(40).as_bytes(), 7));
    }

    /// A replica counts as its primary does, and is known by the primary's id where it was one history with it.
    #[test]
    fn a_promoted_replica_has_two_ids() {
        let ids = Ids::new("a".repeat(40));
        ids.adopt(&"b".repeat(40), 1000);
        assert_eq!((ids.offset(70), ids.position(1000)), (1000, None));
        ids.count(70);
        assert_eq!((ids.offset(80), ids.position(1010)), (1010, Some(80)));
        ids.go_on_as("c".repeat(40), 80);
        let second_id = "b".repeat(40);
        assert_eq!(ids.history(), History { id: "c".repeat(40), second_id: second_id.clone(), second_end: 1011 });
        assert!(ids.admits(second_id.as_bytes(), 1010) && !ids.admits(second_id.as_bytes(), 1011));
        assert!(ids.admits("c".repeat(40).as_bytes(), 1011) && !ids.admits("a".repeat(40).as_bytes(), 5));
    }
}
