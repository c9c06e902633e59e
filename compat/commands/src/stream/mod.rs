//! The commands of streams.
//!
//! ```text
//!  id      IDs as they are written          trim   the words of a trimming
//!  add     XADD                             edit   XTRIM XSETID
//!  delete  XDEL XDELEX XACKDEL              references   KEEPREF DELREF ACKED
//!  range   XLEN XRANGE XREVRANGE            info   XINFO
//!  read    XREAD XREADGROUP                 giving XREADGROUP of many entries
//!  consumer  entries that a consumer reads at once
//!  group   XGROUP                           searching  XAUTOCLAIM and XPENDING of many entries
//!  pending XACK XPENDING XCLAIM XAUTOCLAIM  claim  what these and CLAIM do to an entry
//!  nack    XNACK                            idempotence  XCFGSET XIDMPRECORD, and IDMP of XADD
//! ```

mod add;
mod claim;
mod consumer;
mod delete;
mod edit;
mod giving;
mod group;
mod id;
mod idempotence;
mod info;
mod nack;
mod pending;
mod range;
mod read;
mod references;
mod searching;
mod trim;

use varve_catalog::KeyFlags;
use varve_exec::FileRows;
use varve_protocol::Reply;
use varve_store::StreamEntry;

pub(crate) use id::id_text;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] = &[
    add::ROWS,
    edit::ROWS,
    idempotence::ROWS,
    delete::ROWS,
    range::ROWS,
    read::ROWS,
    group::ROWS,
    pending::ROWS,
    nack::ROWS,
    info::ROWS,
];

const READS: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const UPDATES: KeyFlags = KeyFlags::RW.and(KeyFlags::UPDATE);
const DELETES: KeyFlags = KeyFlags::RW.and(KeyFlags::DELETE);

/// Begins the part of a reply that has one stream of several; its entries follow.
fn begin_stream(out: &mut Reply, key: &[u8]) {
    if !out.is_resp3() {
        out.array(2);
    }
    out.bulk(key);
}

/// Answers an entry: its ID, its fields and values.
fn reply_entry(out: &mut Reply, entry: StreamEntry<'_>) {
    out.array(2);
    reply_parts(out, entry);
}

/// Answers an entry, for how many milliseconds it is idle, and how often it was delivered.
fn reply_entry_with_times(out: &mut Reply, entry: StreamEntry<'_>, idle_ms: i64, count: u64) {
    out.array(4);
    reply_parts(out, entry);
    out.integer(idle_ms);
    out.integer(count as i64);
}

fn reply_parts(out: &mut Reply, entry: StreamEntry<'_>) {
    out.bulk(&id_text(entry.id));
    out.array(2 * entry.fields.len());
    for (name, value) in entry.fields {
        out.bulk(name);
        out.bulk(value);
    }
}
