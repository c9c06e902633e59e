//! The names of a stream's messages, some at a time.
//!
//! ```text
//! duration | most names | producers | producer: name, messages, each: name, ID | .. | added | duplicates
//! shown    [`MESSAGE_NAMES`](crate::format::MESSAGE_NAMES): the limits, counts, up to 64 names; the last one has the counts
//! ```
//! Each name is shown with its producer. So neither has more bytes than a string
//! that is read in one step, and a part has a bounded number of names.

use std::io::Read;

use crate::read::fault::ReadFault;
use crate::read::source::Source;
use crate::read::strings::{STEP_BYTES, Text};

const FORM: u8 = 1;
/// Bytes in front of the first name, and where the counts are among them.
const HEAD_BYTES: usize = COUNTS_AT + 16;
const COUNTS_AT: usize = 9;
/// Seconds for which a name is known and names that a producer may have, where nobody has set them.
const USUAL_LIMITS: (u64, u64) = (100, 100);
/// The most of both that a server has a setting for.
const DURATION_S_MAX: u64 = 86_400;
const NAMES_MAX: u64 = 10_000;
/// Names of a part, and bytes from which on it has no more of them.
const PART_NAMES: u64 = 64;
const PART_BYTES: usize = 64 << 10;

/// Names that are being read.
#[derive(Debug)]
pub(super) struct Names {
    /// Producers that are left, and names that are left of the one that was read last.
    producers: u64,
    names: u64,
    /// Names that the part has, and whether it was shown.
    in_part: u64,
    is_shown: bool,
    /// Something stands there that is worth a part, whatever is behind it.
    says: bool,
    producer: Text,
    name: Text,
}

/// The end of a step.
pub(super) enum Said {
    More,
    /// A part is there, and more follow.
    Some,
    /// All was read; the last part is to be shown if this is true.
    Last(bool),
}

impl Names {
    /// Reads the limits and the number of producers.
    pub(super) fn begin<R: Read>(source: &mut Source<R>, to: &mut Vec<u8>) -> Result<Names, ReadFault> {
        let limits = (source.length()?, source.length()?);
        let producers = source.length()?;
        // Where nothing is named, limits beyond all settings are found by whoever is shown them.
        let limit = |number: u64| u32::try_from(number).map_err(|_| ReadFault::TooLong(number));
        let (duration_s, names_max) = (limit(limits.0)?, limit(limits.1)?);
        if producers > 0 && (limits.0 > DURATION_S_MAX || limits.1 > NAMES_MAX) {
            return Err(ReadFault::TooLong(limits.0.max(limits.1)));
        }
        to.clear();
        to.push(FORM);
        to.extend_from_slice(&duration_s.to_le_bytes());
        to.extend_from_slice(&names_max.to_le_bytes());
        to.extend_from_slice(&[0; HEAD_BYTES - COUNTS_AT]);
        let says = producers > 0 || limits != USUAL_LIMITS;
        let (producer, name) = (Text::default(), Text::default());
        Ok(Names { producers, names: 0, in_part: 0, is_shown: false, says, producer, name })
    }

    /// Bytes of the texts that are being read.
    pub(super) fn held_bytes(&self) -> usize {
        self.producer.bytes.capacity() + self.name.bytes.capacity()
    }

    /// Reads on; `to` has the part.
    pub(super) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
        to: &mut Vec<u8>,
        small: &mut Vec<u8>,
    ) -> Result<Said, ReadFault> {
        if std::mem::take(&mut self.is_shown) {
            to.truncate(HEAD_BYTES);
            self.in_part = 0;
        }
        let begun = source.work();
        for _ in 0..PART_NAMES {
            if source.work() - begun >= STEP_BYTES {
                break;
            }
            if let Some(names) = self.names.checked_sub(1) {
                self.names = names;
                short(&mut self.name, source, small)?;
                self.add(source, to)?;
                if self.in_part == PART_NAMES || to.len() >= PART_BYTES {
                    self.is_shown = true;
                    return Ok(Said::Some);
                }
            } else if let Some(producers) = self.producers.checked_sub(1) {
                self.producers = producers;
                short(&mut self.producer, source, small)?;
                self.names = source.length()?;
            } else {
                return self.end(source, to).map(Said::Last);
            }
        }
        Ok(Said::More)
    }

    /// Appends a name and its producer to the part. A message counts as named when its ID says that it was added.
    fn add<R: Read>(&mut self, source: &mut Source<R>, to: &mut Vec<u8>) -> Result<(), ReadFault> {
        for text in [&self.producer.bytes, &self.name.bytes] {
            to.extend_from_slice(&(text.len() as u32).to_le_bytes());
            to.extend_from_slice(text);
            source.worked(text.len() as u64);
        }
        let (ms, seq) = (source.length()?, source.length()?);
        for number in [ms, seq, ms.min(i64::MAX as u64)] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        self.in_part += 1;
        Ok(())
    }

    /// Reads the counts behind the last name into the part; whether it is shown: unless nothing was ever named and the limits are
    /// those that each stream has.
    fn end<R: Read>(&mut self, source: &mut Source<R>, to: &mut [u8]) -> Result<bool, ReadFault> {
        let (added, duplicates) = (source.length()?, source.length()?);
        to[COUNTS_AT..COUNTS_AT + 8].copy_from_slice(&added.to_le_bytes());
        to[COUNTS_AT + 8..HEAD_BYTES].copy_from_slice(&duplicates.to_le_bytes());
        Ok(self.says || added > 0 || duplicates > 0)
    }
}

/// Reads a text that is no longer than a producer's or a message's name may be.
fn short<R: Read>(text: &mut Text, source: &mut Source<R>, small: &mut Vec<u8>) -> Result<(), ReadFault> {
    if text.begin(source, small)? { Ok(()) } else { Err(ReadFault::TooLong(text.wanted_bytes(u64::MAX))) }
}
