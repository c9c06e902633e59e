//! The set commands.
//!
//! `one` is members of one set, `random` those taken at random, `scan` SSCAN, `many` what is made of several sets.
//!
//! Replies that are sets are so in RESP3 too; what may repeat a member (SRANDMEMBER) is an array.

mod many;
mod one;
mod random;
mod scan;

use varve_catalog::{ArgKind, Argument, KeyFlags, KeySpec, arg, key};
use varve_exec::FileRows;
use varve_protocol::Reply;
use varve_store::PackedEntry;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[many::ROWS, one::ROWS, random::ROWS, scan::ROWS];

/// Only existence and numbers are answered.
const ASKS: KeyFlags = KeyFlags::RO;

/// Members are answered.
const READS: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);

/// Members are added.
const ADDS: KeyFlags = KeyFlags::RW.and(KeyFlags::INSERT);

/// Members are removed.
const REMOVES: KeyFlags = KeyFlags::RW.and(KeyFlags::DELETE);

/// Members are removed and answered.
const TAKES: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);

/// The key becomes the result.
const REPLACES: KeyFlags = KeyFlags::OW.and(KeyFlags::UPDATE);

const ALL_SETS: &[KeySpec] = &[KeySpec::range(1, -1, 1, READS)];

const MEMBERS: &[Argument] = &[key("key", 0), arg("member", ArgKind::String).multiple()];

const KEYS: &[Argument] = &[key("key", 0).multiple()];

const STORED: &[Argument] = &[key("destination", 0), key("key", 1).multiple()];

const UNORDERED: &[&str] = &["nondeterministic_output_order"];

const RANDOM: &[&str] = &["nondeterministic_output"];

/// Replies with a member.
#[inline]
fn reply_member(out: &mut Reply, member: PackedEntry<'_>) {
    match member {
        PackedEntry::Int(value) => out.bulk_i64(value),
        PackedEntry::Bytes(text) => out.bulk(text),
    }
}
