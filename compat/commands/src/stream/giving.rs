//! XREADGROUP of one stream, part by part: entries that the group was not given, or those pending for the consumer.
//!
//! ```text
//!   XREADGROUP .. STREAMS key >     some hundred entries --> reported --> the next ones .. the reply at the end
//! ```
//! The key is occupied meanwhile: no other client sees a part of it, or adds an entry. Not here: the entries of
//! one part ([`super::consumer`]); CLAIM, several streams, EXEC and scripts, whose commands run whole.

use varve_exec::{Ctx, Occupied, OccupiedWork, Progress, WhileOccupied};
use varve_protocol::{Mark, Reply};
use varve_store::{Key, Tx};

use super::begin_stream;
use super::consumer::{Consumer, From, read_some};

/// An entry that is given takes as long as showing this number of elements: one part gives some 512.
const GIVE_COST: u64 = 8;

/// Entries that one hold of a shard gives.
pub(super) fn entries_of_a_part(tx: &Tx<'_>) -> u64 {
    (tx.hold_elements() / GIVE_COST).max(1)
}

/// How far the reading of a stream has come.
pub(super) struct Given {
    /// Where the next entries begin.
    pub(super) from: From,
    /// Entries that were read.
    pub(super) read: u64,
    /// Entries that may still be read.
    pub(super) left: u64,
}

/// Goes on behind the first part, which has written its entries behind `entries` and its whole reply behind `reply`; false, and
/// nothing is done, if the key is kept for another command.
pub(super) fn give_on(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    consumer: &Consumer<'_>,
    given: Given,
    (reply, entries): (Mark, Mark),
) -> bool {
    debug_assert!(given.left > 0 && consumer.claim_ms.is_none(), "there is something to go on with");
    let Some(occupied) = Occupied::begin(&mut ctx.tx, key) else { return false };
    let entries = ctx.out.split_off(entries);
    ctx.out.truncate(reply);
    let work = RestOfGiving {
        name: key.bytes.into(),
        group: consumer.group.into(),
        consumer: consumer.consumer.into(),
        noack: consumer.noack,
        given,
        entries,
    };
    ctx.go_on_behind(Box::new(WhileOccupied { occupied, work }));
    true
}

/// An XREADGROUP that goes on. Its reply comes at the end.
struct RestOfGiving {
    name: Box<[u8]>,
    group: Box<[u8]>,
    consumer: Box<[u8]>,
    noack: bool,
    given: Given,
    entries: Reply,
}

impl RestOfGiving {
    /// Reads some entries; whether there may be more. The shard of the key is held.
    fn some(&mut self, tx: &mut Tx<'_>, key: &Key<'_>) -> bool {
        let RestOfGiving { group, consumer, noack, given, entries, .. } = self;
        // The stream has gone if its time has come, and so has its group; another type is there if databases were exchanged.
        if !matches!(tx.stream_peek(key, |stream| stream.group(group).is_some()), Ok(Some(true))) {
            return false;
        }
        let most = entries_of_a_part(tx).min(given.left);
        let consumer = Consumer { group, consumer, noack: *noack, claim_ms: None };
        let Ok(now) = read_some(tx, key, &consumer, &mut given.from, most, entries) else { return false };
        debug_assert!(now <= most, "a part reads no more than it may");
        (given.read, given.left) = (given.read + now, given.left - now);
        now == most && given.left > 0
    }
}

impl OccupiedWork for RestOfGiving {
    fn part(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let name = std::mem::take(&mut self.name);
        let key = tx.key(&name);
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            self.name = name;
            return Progress::Busy;
        }
        if self.some(tx, &key) {
            self.name = name;
            return Progress::More;
        }
        occupied.end(tx, &key);
        if out.is_resp3() {
            out.map(1);
        } else {
            out.array(1);
        }
        begin_stream(out, key.bytes);
        out.array(self.given.read as usize);
        out.append(std::mem::take(&mut self.entries));
        Progress::Done
    }

    fn held_bytes(&self) -> usize {
        self.name.len() + self.group.len() + self.consumer.len() + self.entries.held_bytes()
    }
}
