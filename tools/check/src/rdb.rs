//! Reads an RDB file to its end or to its first fault.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};
use varve_rdb::{Distinct, Event, Kind, Part, ReadError, ReadFault, Reader};

use crate::summary::{Damage, LargeKey, Summary};

/// Keys between two looks at the progress bar.
const KEYS_A_LOOK: u64 = 4096;
/// Bytes of the magic word and the version.
const HEADER_BYTES: u64 = 9;

/// Reads a file and sums up what is in it.
///
/// # Errors
/// The file cannot be opened. A file that is damaged has a summary of the part before.
pub(crate) fn check(path: &Path, largest: usize) -> io::Result<Summary> {
    let file = File::open(path)?;
    let mut summary = Summary::new(largest);
    summary.file_bytes = file.metadata()?.len();
    let bar = progress(summary.file_bytes);
    fill(file, &mut summary, &bar);
    bar.finish_and_clear();
    Ok(summary)
}

/// Reads a file into its summary, to the end or to the first fault.
fn fill(file: impl io::Read, summary: &mut Summary, bar: &ProgressBar) {
    let mut reader = Reader::new(file);
    if let Err(error) = read(&mut reader, summary, bar) {
        summary.fault = Some(Damage {
            offset: error.offset(),
            type_name: error.type_name(),
            key: error.key().map(<[u8]>::to_vec),
            reason: error.fault().to_string(),
        });
    }
    // The first bytes say it.
    summary.dialect = (reader.offset() >= HEADER_BYTES).then(|| reader.dialect());
    summary.read_bytes = reader.offset();
}

/// A bar over the bytes of the file; where standard error is no terminal, nothing is shown.
fn progress(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
    ProgressBar::new(bytes).with_style(style.expect("a template that is known to be right"))
}

/// A key whose value is being read.
struct Open {
    key: LargeKey,
    expiry_ms: Option<i64>,
}

fn read<R: io::Read>(reader: &mut Reader<R>, summary: &mut Summary, bar: &ProgressBar) -> Result<(), ReadError> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64);
    let (mut db, mut open, mut distinct, mut keys) = (0, None::<Open>, Distinct::default(), 0u64);
    loop {
        let fault = match reader.next_event()? {
            // It belongs to a key, and not to the file.
            Event::Aux { name: varve_rdb::format::MESSAGE_NAMES, .. } => None,
            Event::Aux { name, value } => {
                summary.aux.push((name.to_vec(), value.to_vec()));
                None
            }
            Event::SelectDb(number) => {
                db = number;
                None
            }
            Event::Function(_) => {
                summary.functions += 1;
                None
            }
            Event::ModuleAux(_) => {
                summary.module_aux += 1;
                None
            }
            Event::ResizeDb { .. } | Event::Slot => None,
            Event::Key(head) => {
                let bytes = head.key.len() as u64;
                let key = LargeKey { bytes, elements: 0, kind: head.kind, db, key: head.key.to_vec() };
                distinct.begin(head.kind);
                open = Some(Open { key, expiry_ms: head.expiry_ms });
                None
            }
            Event::Part(part) => {
                if let Some(Open { key, .. }) = &mut open {
                    key.elements += 1;
                    key.bytes += bytes_of(&part);
                }
                distinct.add(&part).err()
            }
            Event::ValueEnd => match open.take() {
                Some(Open { key, .. }) if key.elements == 0 && key.kind != Kind::Module => {
                    open = Some(Open { key, expiry_ms: None });
                    Some(ReadFault::Empty)
                }
                Some(Open { key, expiry_ms }) => {
                    summary.add(key, expiry_ms, now_ms);
                    None
                }
                None => None,
            },
            Event::End => return Ok(()),
        };
        if let Some(fault) = fault {
            let error = ReadError::new(fault, reader.offset());
            return Err(match &open {
                Some(Open { key, .. }) => error.of_type(key.kind.name()).of_key(&key.key),
                None => error,
            });
        }
        keys += 1;
        if keys.is_multiple_of(KEYS_A_LOOK) {
            bar.set_position(reader.offset());
        }
    }
}

fn bytes_of(part: &Part<'_>) -> u64 {
    let bytes = match part {
        Part::Whole(text) | Part::Element(text) => text.len(),
        Part::Pair(field, value) => field.len() + value.len(),
        Part::DatedPair(field, value, _) => field.len() + value.len() + size_of::<i64>(),
        Part::Scored(member, _) => member.len() + size_of::<f64>(),
        Part::Entry(..) | Part::Pending(..) | Part::Owned(_) => 16,
        Part::Tail(_) => 0,
        Part::Group(name, ..) | Part::Consumer(name, ..) => name.len(),
    };
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;
    use varve_rdb::{RdbBuffer, Writer};

    fn file(write: impl FnOnce(&mut RdbBuffer)) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), true);
        let mut buffer = RdbBuffer::new(true);
        writer.header(10).unwrap();
        write(&mut buffer);
        writer.put(&mut buffer).unwrap();
        writer.end().unwrap()
    }

    fn sum_up(file: &[u8]) -> Summary {
        let mut summary = Summary::new(2);
        summary.file_bytes = file.len() as u64;
        fill(file, &mut summary, &ProgressBar::hidden());
        summary
    }

    #[test]
    fn a_sound_file_is_summed_up() {
        let file = file(|to| {
            to.aux(b"redis-ver", b"7.0.15");
            to.select_db(3);
            to.begin(Kind::String, b"text", Some(5), None);
            to.string(b"four");
            to.begin(Kind::Hash, b"hash", None, None);
            to.count(2);
            to.pair(b"a", b"1");
            to.pair(b"b", &[b'x'; 100]);
            to.begin(Kind::List, b"l", None, None);
            to.count(1);
            to.string(b"e");
        });
        let summary = sum_up(&file);
        assert_eq!(summary.fault, None);
        assert_eq!((summary.keys(), summary.read_bytes), (3, file.len() as u64));
        let hash = summary.kinds[&Kind::Hash];
        assert_eq!((hash.keys, hash.elements, hash.bytes), (1, 2, 4 + 1 + 1 + 1 + 100));
        assert_eq!((summary.expiries.keys, summary.expiries.over, summary.expiries.range_ms), (1, 1, Some((5, 5))));
        let largest: Vec<&[u8]> = summary.largest().into_iter().map(|key| &key.key[..]).collect();
        assert_eq!(largest, [&b"hash"[..], b"text"]);
        assert!(report::table(&summary).ends_with("sound: every byte was read\n"));
        let json: serde_json::Value = serde_json::from_str(&report::json(&summary)).unwrap();
        assert_eq!(json["types"]["hash"]["elements"], 2);
        assert_eq!(json["databases"]["3"]["keys"], 3);
        assert!(json["damage"].is_null());
    }

    #[test]
    fn damage_is_placed() {
        let twice = file(|to| {
            to.begin(Kind::Set, b"s", None, None);
            to.count(2);
            to.string(b"m");
            to.string(b"m");
        });
        let damage = sum_up(&twice).fault.unwrap();
        assert_eq!((damage.type_name, damage.key.as_deref()), (Some("set"), Some(&b"s"[..])));
        assert_eq!(damage.reason, "an element comes twice");
        let empty = file(|to| {
            to.begin(Kind::List, b"l", None, None);
            to.count(0);
        });
        assert_eq!(sum_up(&empty).fault.unwrap().reason, "a collection has no elements");
        let summary = sum_up(b"no such file");
        assert_eq!((summary.dialect, summary.fault.is_some()), (None, true));
        assert!(report::table(&summary).contains("damaged at byte 5: this is no RDB file"));
    }
}
