//! The sorted-set commands.
//!
//! `members` are the commands on single members, `bounds` the ends of ranges as requests write them, `range` the one
//! grammar of all commands that answer a range, `parts` the commands that count or remove one, `pop` those that take
//! members from an end, `random` and `scan` what their names say, `combine` the operations on several sets, over the
//! scratch space of `scratch`, those on long ones over several turns in `combine_parts`.
//!
//! Pairs of member and score are flat in RESP2 and arrays of two in RESP3; [`reply_pair`] is the one place that knows.

mod aggregate;
mod bounds;
mod combine;
mod combine_parts;
mod members;
mod parts;
pub(crate) mod pop;
mod random;
mod range;
mod scan;
mod scratch;

pub(crate) use members::Tally;
pub(crate) use scratch::Scratch;
use varve_catalog::KeyFlags;
use varve_exec::FileRows;
use varve_protocol::{Reply, Resp};
use varve_store::ZRange;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] =
    &[combine::ROWS, members::ROWS, parts::ROWS, pop::ROWS, random::ROWS, range::ROWS, scan::ROWS];

/// Members or scores are answered.
pub(crate) const READS: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);

/// Members are added, scores changed.
pub(crate) const UPDATES: KeyFlags = KeyFlags::RW.and(KeyFlags::UPDATE);

/// A score is changed and answered.
const CHANGES: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE);

/// The key becomes the result.
pub(crate) const REPLACES: KeyFlags = KeyFlags::OW.and(KeyFlags::UPDATE);

/// Members are removed.
const REMOVES: KeyFlags = KeyFlags::RW.and(KeyFlags::DELETE);

/// Members are removed and answered.
const TAKES: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);

/// The whole set.
const ALL: ZRange<'static> = ZRange::Rank { start: 0, stop: u64::MAX };

/// Writes the head of an array of `members` members, with or without their scores.
fn reply_head(out: &mut Reply, members: usize, with_scores: bool) {
    let flat = with_scores && out.resp() == Resp::V2;
    out.array(if flat { 2 * members } else { members });
}

/// A member and its score, as the protocol pairs them.
#[inline]
fn reply_pair(out: &mut Reply, member: &[u8], score: f64) {
    if out.is_resp3() {
        out.array(2);
    }
    out.bulk(member);
    out.double(score);
}

/// A member, with its score if asked for.
#[inline]
fn reply_member(out: &mut Reply, member: &[u8], score: f64, with_scores: bool) {
    if with_scores {
        reply_pair(out, member, score);
    } else {
        out.bulk(member);
    }
}
