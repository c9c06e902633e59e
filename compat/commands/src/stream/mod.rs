//! The commands of streams.
//!
//! ```text
//!  id      IDs as they are written          trim   the words of a trimming
//!  add     XADD                             edit   XTRIM XDEL XSETID
//!  range   XLEN XRANGE XREVRANGE            info   XINFO
//!  read    XREAD XREADGROUP                 group  XGROUP
//!  pending XACK XPENDING XCLAIM XAUTOCLAIM
//! ```

mod add;
mod edit;
mod group;
mod id;
mod info;
mod pending;
mod range;
mod read;
mod trim;

use varve_catalog::KeyFlags;
use varve_exec::FileRows;
use varve_protocol::Reply;
use varve_store::StreamEntry;

pub(crate) use id::id_text;

/// The rows of the files.
pub(crate) const ROWS: &[FileRows] =
    &[add::ROWS, edit::ROWS, range::ROWS, read::ROWS, group::ROWS, pending::ROWS, info::ROWS];

const READS: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const UPDATES: KeyFlags = KeyFlags::RW.and(KeyFlags::UPDATE);
const DELETES: KeyFlags = KeyFlags::RW.and(KeyFlags::DELETE);

/// Answers an entry: its ID, its fields and values.
fn reply_entry(out: &mut Reply, entry: StreamEntry<'_>) {
    out.array(2);
    out.bulk(&id_text(entry.id));
    out.array(2 * entry.fields.len());
    for (name, value) in entry.fields {
        out.bulk(name);
        out.bulk(value);
    }
}
