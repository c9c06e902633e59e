//! The set commands.
//!
//! `one` is members of one set, `random` those taken at random, `scan` SSCAN, `many` what is made of several sets.
//!
//! Replies that are sets are so in RESP3 too; what may repeat a member (SRANDMEMBER) is an array.

mod many;
mod one;
mod random;
mod scan;

pub use many::{sdiff, sdiffstore, sinter, sintercard, sinterstore, sunion, sunionstore};
pub use one::{sadd, scard, sismember, smembers, smismember, smove, srem};
pub use random::{spop, srandmember};
pub use scan::sscan;

use varve_protocol::Reply;
use varve_store::PackedEntry;

/// Replies with a member.
#[inline]
fn reply_member(out: &mut Reply, member: PackedEntry<'_>) {
    match member {
        PackedEntry::Int(value) => out.bulk_i64(value),
        PackedEntry::Bytes(text) => out.bulk(text),
    }
}
