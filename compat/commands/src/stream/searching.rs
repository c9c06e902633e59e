//! The searches of XAUTOCLAIM and XPENDING among a group's pending entries, in one hold of the shard or in several.
//!
//! ```text
//!   XAUTOCLAIM   claims part by part, while the key is occupied; the reply comes at the end
//!   XPENDING     reads a copy of the group, of the instant of the first part: the copy shares the nodes of its tree, and
//!                nobody is kept from the key
//! ```
//! Not here: their words and replies (`pending`), and the change of an entry that is claimed (`claim`).

use varve_exec::{Occupied, OccupiedWork, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{Key, PendingEntry, PendingFilter, StreamGroup, StreamId, StreamReader, Tx};

use super::claim::Claim;
use super::id_text;
use super::nack::NOBODY;

/// An entry that is claimed takes as long as showing this number of elements, one that is replied as pending as long as four.
const CLAIM_COST: u64 = 8;
const SHOW_COST: u64 = 4;
/// Entries that one XAUTOCLAIM looks at for each that it may claim, where some may be gone from the stream.
const LOOKS: u64 = 10;

/// An XAUTOCLAIM, as far as it has come.
pub(super) struct Search {
    /// Entries that were delivered then or before are claimed, milliseconds of Unix time.
    pub(super) until_ms: i64,
    pub(super) just_id: bool,
    /// Where the search goes on; `None` at the end.
    pub(super) next: Option<StreamId>,
    /// Entries that may still be claimed, and looked at.
    left: u64,
    looks: u64,
    /// The entries that were claimed, and the IDs of those that are gone from the stream.
    pub(super) entries: Reply,
    pub(super) shown: usize,
    pub(super) gone: Vec<StreamId>,
}

impl Search {
    pub(super) fn new(from: StreamId, (until_ms, just_id): (i64, bool), count: u64, out: &Reply) -> Search {
        let (looks, entries) = (count.saturating_mul(LOOKS), out.like());
        Search { until_ms, just_id, next: Some(from), left: count, looks, entries, shown: 0, gone: Vec::new() }
    }

    /// Claims at most `most` entries of a group; whether there may be more. Nothing is done if the stream or its group is gone.
    pub(super) fn some(&mut self, tx: &mut Tx<'_>, key: &Key<'_>, names: (&[u8], &[u8]), most: u64) -> bool {
        let mut claim = Claim::new(names.0, names.1, tx.now_ms());
        claim.just_id = self.just_id;
        let done = tx.stream_mut(key, |stream| {
            let reader = stream.read();
            let found = self.candidates(reader, reader.group(names.0)?, most);
            for pending in found {
                if stream.read().has(pending.id) {
                    claim.take(stream, Some(pending), pending.id, &mut self.entries);
                } else {
                    claim.drop(stream, pending);
                    self.gone.push(pending.id);
                }
            }
            Some(())
        });
        if !matches!(done, Ok(Some(Some(())))) {
            return false;
        }
        claim.report(tx, key, false);
        self.shown += claim.shown;
        self.left > 0 && self.looks > 0 && self.next.is_some()
    }

    /// The next entries to claim, in order. Where an entry may be gone from the stream each is looked at, since these are dropped
    /// whatever their time; else those that are idle, which are found at once.
    fn candidates(&mut self, stream: StreamReader<'_>, group: &StreamGroup, most: u64) -> Vec<PendingEntry> {
        let Search { until_ms, next, left, looks, .. } = self;
        let Some(from) = next.take() else { return Vec::new() };
        let (mut all, mut filter) = (Vec::new(), PendingFilter::ALL);
        let mut part = most.saturating_mul(LOOKS);
        let takes_looks = !has_all(stream, group, from);
        if !takes_looks {
            filter.until_ms = *until_ms;
        }
        group.scan(from, filter, |entry| {
            if *left == 0 || *looks == 0 || part == 0 || all.len() as u64 == most {
                *next = Some(entry.id);
                return false;
            }
            if takes_looks {
                (*looks, part) = (*looks - 1, part - 1);
            }
            if entry.time_ms <= *until_ms || !stream.has(entry.id) {
                *left -= 1;
                all.push(entry);
            }
            true
        });
        debug_assert!(all.len() as u64 <= most, "a part claims no more than it may");
        all
    }

    /// Replies with what was found.
    pub(super) fn reply(&mut self, out: &mut Reply) {
        out.array(3);
        out.bulk(&id_text(self.next.unwrap_or(StreamId::MIN)));
        out.array(self.shown);
        out.append(std::mem::take(&mut self.entries));
        out.array(self.gone.len());
        self.gone.iter().for_each(|id| out.bulk(&id_text(*id)));
    }
}

/// Whether every pending entry of a group from an ID on is in the stream for certain.
fn has_all(stream: StreamReader<'_>, group: &StreamGroup, from: StreamId) -> bool {
    let mut least = None;
    group.scan_some(from, PendingFilter::ALL, 1, |entry| least = Some(entry.id));
    let first = stream.first().map(|entry| entry.id);
    least.is_none_or(|least| first.is_some_and(|first| first <= least) && stream.state().max_deleted < least)
}

/// Entries that one hold of a shard claims.
pub(super) fn claims_of_a_part(tx: &Tx<'_>) -> u64 {
    (tx.hold_elements() / CLAIM_COST).max(1)
}

/// An XAUTOCLAIM that goes on.
pub(super) struct RestOfClaiming {
    pub(super) name: Box<[u8]>,
    pub(super) group: Box<[u8]>,
    pub(super) consumer: Box<[u8]>,
    pub(super) search: Search,
}

impl OccupiedWork for RestOfClaiming {
    fn part(&mut self, occupied: &mut Occupied, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let RestOfClaiming { name, group, consumer, search } = self;
        let key = tx.key(name);
        if !tx.try_hold_one(tx.shard_of(key.hash)) {
            return Progress::Busy;
        }
        let most = claims_of_a_part(tx);
        if search.some(tx, &key, (group, consumer), most) {
            return Progress::More;
        }
        occupied.end(tx, &key);
        search.reply(out);
        Progress::Done
    }

    fn held_bytes(&self) -> usize {
        let names = self.name.len() + self.group.len() + self.consumer.len();
        names + self.search.entries.held_bytes() + size_of_val(&*self.search.gone)
    }
}

/// An XPENDING of a range, as far as it has come.
pub(super) struct Listing {
    /// Where the next part begins.
    pub(super) from: StreamId,
    pub(super) high: StreamId,
    pub(super) filter: PendingFilter,
    /// Entries that may still be replied.
    pub(super) left: u64,
    pub(super) now_ms: i64,
    pub(super) shown: usize,
}

impl Listing {
    /// Replies with at most `most` entries, without the head of their array; whether there may be more.
    pub(super) fn some(&mut self, group: &StreamGroup, most: u64, out: &mut Reply) -> bool {
        let Listing { from, high, filter, left, now_ms, shown } = self;
        let (mut room, mut next) = (most.min(*left), None);
        group.scan(*from, *filter, |entry| {
            if entry.id > *high || *left == 0 {
                return false;
            }
            if room == 0 {
                next = Some(entry.id);
                return false;
            }
            out.array(4);
            out.bulk(&id_text(entry.id));
            let name = group.name(entry.consumer);
            out.bulk(name);
            let is_free = name == NOBODY && entry.time_ms == 0;
            out.integer(if is_free { -1 } else { now_ms.saturating_sub(entry.time_ms).max(0) });
            out.integer(entry.count as i64);
            (room, *left, *shown) = (room - 1, *left - 1, *shown + 1);
            true
        });
        debug_assert!(next.is_none_or(|next| next > *from), "a part goes on");
        *from = next.unwrap_or(*from);
        next.is_some()
    }
}

/// Entries that one part replies.
pub(super) fn shown_in_a_part(tx: &Tx<'_>) -> u64 {
    (tx.hold_elements() / SHOW_COST).max(1)
}

/// An XPENDING that goes on, with a copy of the group. Its reply comes at the end, since its length is not known before.
pub(super) struct RestOfListing {
    pub(super) group: StreamGroup,
    pub(super) listing: Listing,
    pub(super) entries: Reply,
}

impl Ongoing for RestOfListing {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        if self.listing.some(&self.group, shown_in_a_part(tx), &mut self.entries) {
            return Progress::More;
        }
        out.array(self.listing.shown);
        out.append(std::mem::take(&mut self.entries));
        Progress::Done
    }

    fn held_bytes(&self) -> usize {
        self.entries.held_bytes()
    }

    /// Only nodes that change meanwhile are its own, and it ends after some turns, since it waits for nobody.
    fn kept_bytes(&self) -> usize {
        0
    }
}
