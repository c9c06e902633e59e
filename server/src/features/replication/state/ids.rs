//! The identity of the stream: the id of its history, the id that the history had before, and its offset.
//!
//! ```text
//!   first id    bbbb..   this history
//!   second id   aaaa..   the history that this one went on with: the same bytes before offset `second_end`
//!   offset               bytes since the history began, on whichever server
//! ```
//! While nobody replicates, nothing is counted, as in redis-server: the offset rests. Not here: the bytes (the journal), and
//! which of them are still there.

use parking_lot::Mutex;

/// The second id of a history that is no other one's continuation.
const NO_ID: &str = "0000000000000000000000000000000000000000";

/// See the module's picture.
#[derive(Debug)]
pub(crate) struct Ids {
    now: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    history: History,
    /// Bytes of the stream since the history began.
    offset: u64,
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

impl Ids {
    /// The history of this id begins, at offset 0.
    pub(crate) fn new(id: String) -> Ids {
        assert_eq!(id.len(), NO_ID.len(), "an id has 40 digits");
        let history = History { id, second_id: NO_ID.to_owned(), second_end: -1 };
        Ids { now: Mutex::new(Inner { history, offset: 0 }) }
    }

    /// Which history the stream is.
    pub(crate) fn history(&self) -> History {
        self.now.lock().history.clone()
    }

    /// The offset of the stream's end.
    pub(crate) fn offset(&self) -> u64 {
        self.now.lock().offset
    }
}
