//! Reads an RDB file to its end or to its first fault.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};
use varve_rdb::{Event, Part, ReadError, Reader};

use crate::judge::{Judge, Refusal};
use crate::summary::{Damage, LargeKey, Summary};

/// Keys between two looks at the progress bar.
const KEYS_A_LOOK: u64 = 4096;
/// Bytes of the magic word and the version.
const HEADER_BYTES: u64 = 9;

/// Reads a file and sums up what is in it, for a server with this number of databases.
///
/// # Errors
/// The file cannot be opened, or there is no memory. A file that is damaged has a summary of the part before.
pub(crate) fn check(path: &Path, largest: usize, databases: u64) -> io::Result<Summary> {
    let file = File::open(path)?;
    let mut judge = Judge::new(databases, now_ms()).map_err(io::Error::other)?;
    let mut summary = Summary::new(largest);
    summary.file_bytes = file.metadata()?.len();
    let bar = progress(summary.file_bytes);
    fill(file, &mut judge, &mut summary, &bar);
    bar.finish_and_clear();
    Ok(summary)
}

/// Milliseconds of Unix time.
fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64)
}

/// Reads a file into its summary, to the end or to the first fault.
fn fill(file: impl io::Read, judge: &mut Judge, summary: &mut Summary, bar: &ProgressBar) {
    let mut reader = Reader::new(file);
    summary.fault = read(&mut reader, judge, summary, bar).err();
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

fn read<R: io::Read>(
    reader: &mut Reader<R>,
    judge: &mut Judge,
    summary: &mut Summary,
    bar: &ProgressBar,
) -> Result<(), Damage> {
    let (now_ms, mut db, mut open, mut keys) = (now_ms(), 0, None::<Open>, 0u64);
    loop {
        let judged = match reader.next_event().map_err(|error| of_reader(&error))? {
            // It belongs to a key, and not to the file.
            Event::Aux { name: varve_rdb::format::MESSAGE_NAMES, value } => {
                judge.message_names(value);
                Ok(())
            }
            Event::Aux { name, value } => {
                summary.aux.push((name.to_vec(), value.to_vec()));
                Ok(())
            }
            Event::SelectDb(number) => {
                db = number;
                Ok(())
            }
            Event::Function(text) => {
                summary.functions += 1;
                judge.function(text)
            }
            Event::ModuleAux(_) => {
                summary.module_aux += 1;
                judge.module_aux()
            }
            Event::ResizeDb { .. } | Event::Slot => Ok(()),
            Event::Key(head) => {
                let bytes = head.key.len() as u64;
                let key = LargeKey { bytes, elements: 0, kind: head.kind, db, key: head.key.to_vec() };
                open = Some(Open { key, expiry_ms: head.expiry_ms });
                judge.begin(db, &head)
            }
            Event::Part(part) => {
                if let Some(Open { key, .. }) = &mut open {
                    key.elements += 1;
                    key.bytes += bytes_of(&part);
                }
                judge.add(part)
            }
            Event::ValueEnd => {
                let judged = judge.end(open.as_ref().map_or(0, |open| open.key.bytes));
                if let Ok(has_elements) = judged {
                    let Open { key, expiry_ms } = open.take().expect("a key stands before its value");
                    match has_elements {
                        true => summary.add(key, expiry_ms, now_ms),
                        false => summary.empty += 1,
                    }
                }
                judged.map(drop)
            }
            Event::End => return Ok(()),
        };
        if let Err(refusal) = judged {
            return Err(of_judge(&refusal, reader.offset(), open.map(|open| open.key)));
        }
        keys += 1;
        if keys.is_multiple_of(KEYS_A_LOOK) {
            bar.set_position(reader.offset());
        }
    }
}

/// Damage that the reader of files has found.
fn of_reader(error: &ReadError) -> Damage {
    let of = if error.is_in_unpacked() { " (the byte is one of the uncompressed file)" } else { "" };
    Damage {
        offset: error.offset(),
        type_name: error.type_name(),
        key: error.key().map(<[u8]>::to_vec),
        reason: format!("{}{of}", error.fault()),
    }
}

/// Something that a start refuses.
fn of_judge(refusal: &Refusal, offset: u64, key: Option<LargeKey>) -> Damage {
    let reason = match refusal {
        Refusal::Fault(fault) => fault.to_string(),
        Refusal::Said(reason) => reason.clone(),
    };
    Damage { offset, type_name: key.as_ref().map(|key| key.kind.name()), key: key.map(|key| key.key), reason }
}

fn bytes_of(part: &Part<'_>) -> u64 {
    let bytes = match part {
        Part::Whole(text) | Part::Element(text) => text.len(),
        Part::Pair(field, value) => field.len() + value.len(),
        Part::DatedPair(field, value, _) => field.len() + value.len() + size_of::<i64>(),
        Part::Scored(member, _) => member.len() + size_of::<f64>(),
        Part::Entry(..) | Part::Pending(..) | Part::Owned(_) => 16,
        Part::Tail(_) => 0,
        Part::Group(name, ..) | Part::Consumer(name, ..) | Part::Names(name) => name.len(),
    };
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;
    use varve_rdb::{Kind, RdbBuffer, Writer};

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
        let mut judge = Judge::new(16, now_ms()).unwrap();
        fill(file, &mut judge, &mut summary, &ProgressBar::hidden());
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
        assert!(report::table(&summary).ends_with("sound: every byte was read, and a start takes it\n"));
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
        let summary = sum_up(b"no such file");
        assert_eq!((summary.dialect, summary.fault.is_some()), (None, true));
        assert!(report::table(&summary).contains("damaged at byte 5: this is no RDB file"));
    }
    /// The fault of a file, in words.
    fn refused(write: impl FnOnce(&mut RdbBuffer)) -> String {
        sum_up(&file(write)).fault.expect("a start refuses it").reason
    }

    fn text(to: &mut RdbBuffer, key: &[u8], expiry_ms: Option<i64>) {
        to.begin(Kind::String, key, expiry_ms, None);
        to.string(b"v");
    }

    #[test]
    fn what_a_start_refuses_is_no_sound_file() {
        let twice = |to: &mut RdbBuffer| {
            text(to, b"k", None);
            text(to, b"k", None);
        };
        assert_eq!(refused(twice), "the key comes twice");
        let beyond = |to: &mut RdbBuffer| {
            to.select_db(16);
            text(to, b"k", None);
        };
        assert_eq!(refused(beyond), "database 16 of a server that has 16");
        assert!(refused(|to| to.function(b"#!lua name=a\nthis is no Lua")).contains("Error compiling function"));
        assert!(refused(|to| to.function(b"return 1")).contains("Missing library metadata"));
        let library = b"#!lua name=a\nredis.register_function('f', function() return 1 end)";
        let again = |to: &mut RdbBuffer| {
            to.function(library);
            to.function(library);
        };
        assert_eq!(refused(again), "ERR Library 'a' already exists");
        let names = |to: &mut RdbBuffer| {
            to.aux(varve_rdb::format::MESSAGE_NAMES, b"x");
            text(to, b"k", None);
        };
        assert_eq!(refused(names), "names of messages stand before a value that is no stream");
    }

    #[test]
    fn what_a_start_takes_is_a_sound_file() {
        let summary = sum_up(&file(|to| {
            to.function(b"#!lua name=a\nredis.register_function('f', function() return 1 end)");
            // Of a key whose time has come nothing is left.
            text(to, b"k", Some(1));
            text(to, b"k", None);
            to.select_db(15);
            text(to, b"k", None);
            to.begin(Kind::List, b"empty", None, None);
            to.count(0);
        }));
        assert_eq!(summary.fault, None);
        assert_eq!((summary.keys(), summary.functions, summary.empty), (3, 1, 1));
        assert!(report::table(&summary).contains("collections without elements, which a start passes over: 1"));
    }

    #[test]
    fn the_memory_of_a_file_is_that_of_its_largest_value() {
        let file = file(|to| {
            for key in 0..1000u32 {
                to.begin(Kind::Set, &key.to_le_bytes(), None, None);
                to.count(2000);
                (0..2000u32).for_each(|member| to.string(format!("member {member} of {key}").as_bytes()));
            }
        });
        let (mut judge, mut summary) = (Judge::new(16, now_ms()).unwrap(), Summary::new(2));
        fill(&file[..], &mut judge, &mut summary, &ProgressBar::hidden());
        assert_eq!((summary.fault.as_ref(), summary.keys()), (None, 1000));
        let (all, used) = (summary.kinds[&Kind::Set].bytes, judge.used_bytes());
        assert!(all > 30 << 20 && used < 16 << 20, "{used} bytes in use after {all}");
    }
}
