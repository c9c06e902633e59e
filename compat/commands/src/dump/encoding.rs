//! DUMP: a key's value as a payload, of a long value over several holds of its shard.
//!
//! ```text
//!  short:  shard held: value --> Payload                                            --> reply
//!  long:   shard held: reader or pin    shard held: some elements --> Payload ..    --> reply
//! ```
//! The payload is compressed and summed part by part, with no shard held. A string that lies in a run of its own is not
//! compressed: a compressed string cannot be made in parts, and one of megabytes would keep its worker for as long.

use varve_exec::{CmdResult, Ongoing, Progress};
use varve_protocol::Reply;
use varve_rdb::Payload;
use varve_store::{EntryReader, Key, Pin, StreamId, StreamPart, Tx, Type, ValuePart, WholeReader};

use super::outline::OutlineEncoder;
use super::value::{begin_payload, put_count, put_entries, put_part, put_value};
use crate::errors;

/// Bytes of a long string that are taken over at once.
const TEXT_PART_BYTES: usize = 512 << 10;

/// Bytes of a payload from which on it is sent from where it lies, and not copied among the replies.
const PINNED_MIN_BYTES: usize = 256 << 10;

/// A value as a payload, in the version that is pinned, if one is; None without the key. No hit or miss is counted.
///
/// # Errors
/// The pinned version has no place for the value.
pub(crate) fn whole(tx: &mut Tx<'_>, key: &Key<'_>, pinned: Option<u16>) -> CmdResult<Option<Vec<u8>>> {
    let payload = tx.look(key, |value| {
        let mut payload = begin_payload(value, pinned)?;
        put_value(value, payload.encoded());
        Ok(payload)
    });
    let payload = payload.transpose().map_err(errors::rdb_version)?;
    Ok(payload.map(Payload::seal))
}

/// Where the parts of a long value come from.
enum Source {
    Elements(WholeReader),
    /// The entries of a stream, unless all are done, and the rest of it.
    Entries(Option<EntryReader>, Box<OutlineEncoder>),
    /// A string, and how many of its bytes are done.
    Text(Pin, usize),
}

/// A DUMP of a long value that is under way.
pub(crate) struct LongDump {
    source: Source,
    payload: Payload,
    /// A time before which no field of a hash expires.
    least_ms: Option<i64>,
}

impl LongDump {
    /// Begins the payload of a key's value, if it is long and the version that is pinned has a place for it. No hit or miss
    /// is counted.
    pub(crate) fn begin(tx: &mut Tx<'_>, key: &Key<'_>, pinned: Option<u16>) -> Option<LongDump> {
        let (ty, pin, stream, least_ms, mut payload) = tx.look(key, |value| {
            let mut payload = begin_payload(value, pinned).ok()?;
            put_count(value, payload.encoded());
            Some((value.ty(), value.pin(), value.stream(), value.fields_due_ms(), payload))
        })??;
        let source = match ty {
            Type::String => Source::Text(pin?, 0),
            _ if !tx.is_long(key) => return None,
            Type::Stream => {
                let range = (StreamId::MIN, StreamId::MAX);
                let begun = tx.begin_reading_stream(key, range, false, u64::MAX).expect("the key has this type");
                let outline = Box::new(OutlineEncoder::new(stream?));
                if begun.is_none() {
                    // Its groups are what is long.
                    tx.look(key, |value| put_entries(value, payload.encoded()));
                }
                Source::Entries(begun.map(|(reader, _)| reader), outline)
            }
            _ => Source::Elements(tx.begin_reading_whole(key, ty).expect("the key has this type")?),
        };
        if let Source::Text(pin, _) = &source {
            payload.encoded().count(pin.len() as u64);
        }
        payload.settle();
        Some(LongDump { source, payload, least_ms })
    }
}

impl LongDump {
    /// Reads some more of the value, and lets go of its shard; `Done` when the payload has all of it.
    pub(crate) fn read_on(&mut self, tx: &mut Tx<'_>) -> Progress {
        let LongDump { source, payload, least_ms } = self;
        let progress: Progress = match source {
            Source::Elements(reader) => {
                let encoded = payload.encoded();
                tx.read_whole_on(reader, |part| put_part(part, *least_ms, encoded)).into()
            }
            Source::Entries(Some(reader), _) => {
                let encoded = payload.encoded();
                let show = |part: StreamPart<'_>| put_part(ValuePart::Entries(part.node), None, encoded);
                let progress: Progress = tx.read_entries_on(reader, show).into();
                if let (Progress::Done, Source::Entries(reader, _)) = (&progress, source) {
                    *reader = None;
                    Progress::More
                } else {
                    progress
                }
            }
            Source::Entries(None, outline) => {
                if outline.put_some(payload.encoded()) {
                    Progress::More
                } else {
                    Progress::Done
                }
            }
            Source::Text(pin, done) => {
                let end = pin.len().min(*done + TEXT_PART_BYTES);
                pin.each_part(*done..end, |part| payload.settle_raw(part));
                *done = end;
                if end == pin.len() { Progress::Done } else { Progress::More }
            }
        };
        tx.release();
        if matches!(progress, Progress::More) {
            payload.settle();
        }
        progress
    }

    /// The payload, of which all was read.
    pub(crate) fn seal(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.payload, Payload::new(varve_rdb::Kind::String)).seal()
    }
}

impl Ongoing for LongDump {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let progress = self.read_on(tx);
        if matches!(progress, Progress::Done) {
            let payload = self.seal();
            if payload.len() < PINNED_MIN_BYTES {
                out.bulk(&payload);
            } else {
                out.bulk_pinned(Box::new(payload));
            }
        }
        progress
    }

    fn held_bytes(&self) -> usize {
        let noted = match &self.source {
            Source::Entries(_, outline) => outline.held_bytes(),
            _ => 0,
        };
        self.payload.held_bytes() + noted
    }

    fn kept_bytes(&self) -> usize {
        match &self.source {
            Source::Elements(reader) => reader.kept_bytes(),
            Source::Entries(reader, _) => reader.as_ref().map_or(0, EntryReader::kept_bytes),
            Source::Text(..) => 0,
        }
    }
}
