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

/// Reads a file and sums up what is in it.
///
/// # Errors
/// The file cannot be opened. A file that is damaged has a summary of the part before.
pub(crate) fn check(path: &Path, largest: usize) -> io::Result<Summary> {
    let file = File::open(path)?;
    let mut summary = Summary::new(largest);
    summary.file_bytes = file.metadata()?.len();
    let bar = progress(summary.file_bytes);
    let mut reader = Reader::new(file);
    if let Err(error) = read(&mut reader, &mut summary, &bar) {
        summary.fault = Some(Damage {
            offset: error.offset(),
            type_name: error.type_name(),
            key: error.key().map(<[u8]>::to_vec),
            reason: error.fault().to_string(),
        });
    }
    summary.dialect = Some(reader.dialect());
    summary.read_bytes = reader.offset();
    bar.finish_and_clear();
    Ok(summary)
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
                Some(Open { key, .. }) if key.elements == 0 && !matches!(key.kind, Kind::Stream | Kind::Module) => {
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
    };
    bytes as u64
}
