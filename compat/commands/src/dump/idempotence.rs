//! The names of a stream's messages, as fields of an RDB file that stand before the stream's entry.
//!
//! ```text
//!   1 | duration, s (4) | most names (4) | added (8) | duplicates (8) | message ..        numbers: low byte first
//!   message   length (4) | producer | length (4) | name | ID: ms (8), number (8) | time, ms of Unix time (8)
//! ```
//! Many names stand in several fields, each with the numbers in front: what is written of a stream in steps has one a step.
//!
//! The formats of RDB that we write have no place for them, and redis-server passes over a field that it does not know. DUMP's
//! payload has no fields: what it makes elsewhere has no names.

use varve_rdb::ReadFault;
use varve_store::{Idempotence, IdempotenceCounts, IdempotenceLimits, NamePlace, NamedMessage, StreamId};

/// The first byte.
const FORM: u8 = 1;

/// The value of a field with names from a place on, until they take `bytes`; and the place of the name behind these, None if those
/// were the last ones.
pub(super) fn bytes_of(kept: &Idempotence, from: Option<&NamePlace>, bytes: usize) -> (Vec<u8>, Option<NamePlace>) {
    let mut to = vec![FORM];
    to.extend_from_slice(&kept.limits().duration_s.to_le_bytes());
    to.extend_from_slice(&kept.limits().names_max.to_le_bytes());
    to.extend_from_slice(&kept.counts().added.to_le_bytes());
    to.extend_from_slice(&kept.counts().duplicates.to_le_bytes());
    let next = kept.for_some(from, &mut |NamedMessage { producer, name, id, time_ms }| {
        for text in [producer, name] {
            to.extend_from_slice(&(text.len() as u32).to_le_bytes());
            to.extend_from_slice(text);
        }
        to.extend_from_slice(&id.ms.to_le_bytes());
        to.extend_from_slice(&id.seq.to_le_bytes());
        to.extend_from_slice(&time_ms.to_le_bytes());
        to.len() < bytes
    });
    (to, next)
}

/// The names in the values of the fields of one stream, in their order; `None` if one is damaged, or if there is none.
pub fn idempotence_of<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Option<Idempotence> {
    fields.into_iter().try_fold(None, |kept, bytes| add_names(kept, bytes).map(Some)).flatten()
}

/// The names of a field beside those that were there before; `None` if the field is damaged, or a name was there.
pub(super) fn add_names(kept: Option<Idempotence>, bytes: &[u8]) -> Option<Idempotence> {
    let Field { limits, counts, mut from } = Field::of(bytes)?;
    let mut kept = kept.unwrap_or_else(|| Idempotence::new(limits));
    if kept.limits() != limits {
        return None;
    }
    while !from.is_empty() {
        let message = message(&mut from)?;
        // Nothing is due at the beginning of time: what is due is forgotten later.
        if kept.find(message.producer, message.name, i64::MIN).is_some() {
            return None;
        }
        kept.add(message, i64::MIN);
    }
    kept.set_counts(counts);
    Some(kept)
}

/// Looks at the names of a field, of which nothing is kept. `each` is shown what stands there of each producer and name.
///
/// # Errors
/// The field is damaged; those of `each`.
pub(super) fn check_names(bytes: &[u8], mut each: impl FnMut(&[u8]) -> Result<(), ReadFault>) -> Result<(), ReadFault> {
    const DAMAGED: ReadFault = ReadFault::Odd("the names of a stream's messages are damaged");
    let Field { mut from, .. } = Field::of(bytes).ok_or(DAMAGED)?;
    while !from.is_empty() {
        let before = from;
        message(&mut from).ok_or(DAMAGED)?;
        each(&before[..before.len() - from.len() - NUMBERS_BYTES])?;
    }
    Ok(())
}

/// A field: its numbers, and its messages, which nobody has looked at.
struct Field<'a> {
    limits: IdempotenceLimits,
    counts: IdempotenceCounts,
    from: &'a [u8],
}

impl Field<'_> {
    /// `None` if it is damaged, or has limits beyond those of the settings.
    fn of(bytes: &[u8]) -> Option<Field<'_>> {
        let mut from = bytes.strip_prefix(&[FORM])?;
        let (duration_s, names_max) = (u32::from_le_bytes(array(&mut from)?), u32::from_le_bytes(array(&mut from)?));
        if !(1..=86_400).contains(&duration_s) || !(1..=10_000).contains(&names_max) {
            return None;
        }
        let limits = IdempotenceLimits { duration_s, names_max };
        let (added, duplicates) = (u64::from_le_bytes(array(&mut from)?), u64::from_le_bytes(array(&mut from)?));
        Some(Field { limits, counts: IdempotenceCounts { added, duplicates }, from })
    }
}

/// Bytes of a message behind its texts.
const NUMBERS_BYTES: usize = 24;

/// The next message; `None` if it is damaged.
fn message<'a>(from: &mut &'a [u8]) -> Option<NamedMessage<'a>> {
    let (producer, name) = (text(from)?, text(from)?);
    let id = StreamId::new(u64::from_le_bytes(array(from)?), u64::from_le_bytes(array(from)?));
    let time_ms = i64::from_le_bytes(array(from)?);
    if producer.is_empty() || name.is_empty() { None } else { Some(NamedMessage { producer, name, id, time_ms }) }
}

fn array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*bytes)
}

fn text<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(array(from)?) as usize;
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written_and_damage_is_found() {
        let mut kept = Idempotence::new(IdempotenceLimits { duration_s: 5, names_max: 2 });
        for (n, name) in [b"a", b"b", b"c"].into_iter().enumerate() {
            kept.add(NamedMessage { producer: b"p", name, id: StreamId::new(7, n as u64), time_ms: 9 }, 9);
        }
        kept.set_counts(IdempotenceCounts { added: 8, duplicates: 4 });
        let whole = |kept: &Idempotence| bytes_of(kept, None, usize::MAX).0;
        let (bytes, read_one) = (whole(&kept), |bytes: &[u8]| idempotence_of([bytes]));
        let read = read_one(&bytes).expect("as it was written");
        assert_eq!((whole(&read), read.figures(9)), (bytes.clone(), kept.figures(9)));
        assert_eq!(read.find(b"p", b"c", 9), Some(StreamId::new(7, 2)));
        for cut in (0..bytes.len()).filter(|cut| *cut != 25 && *cut != 25 + 34) {
            assert!(read_one(&bytes[..cut]).is_none(), "{cut} bytes");
        }
        let twice = [&bytes[..], &bytes[25..25 + 34]].concat();
        assert!(read_one(&twice).is_none(), "a name comes twice");
        let other = [&[2], &bytes[1..]].concat();
        assert!(read_one(&other).is_none(), "another form");
    }

    #[test]
    fn many_names_are_written_in_several_fields_and_are_read_as_one() {
        let mut kept = Idempotence::new(IdempotenceLimits { duration_s: 5, names_max: 100 });
        for n in 0..1000_u64 {
            let (producer, name) = (format!("producer {}", n % 7), n.to_string());
            let (producer, name, id) = (producer.as_bytes(), name.as_bytes(), StreamId::new(n, 0));
            kept.add(NamedMessage { producer, name, id, time_ms: 9 }, 9);
        }
        // The first numbers of a producer are free, and one in the middle.
        kept.forget(b"producer 3", b"990");
        for least in [1, 1000, 10_000, usize::MAX] {
            let (mut fields, mut from) = (Vec::new(), None);
            loop {
                let (bytes, next) = bytes_of(&kept, from.as_ref(), least);
                fields.push(bytes);
                from = next;
                if from.is_none() {
                    break;
                }
            }
            let (last, others) = fields.split_last().expect("there are names");
            assert!(
                others.iter().all(|field| (least..least + 100).contains(&field.len()))
                    && last.len() < least.saturating_add(100)
            );
            assert_eq!(least == 1, fields.len() == 699, "a field for each name");
            assert_eq!(least == usize::MAX, fields.len() == 1);
            let read = idempotence_of(fields.iter().map(Vec::as_slice)).expect("as they were written");
            assert_eq!(bytes_of(&read, None, usize::MAX).0, bytes_of(&kept, None, usize::MAX).0);
            if fields.len() > 1 {
                let twice = fields.iter().chain(&fields[..1]).map(Vec::as_slice);
                assert!(idempotence_of(twice).is_none(), "a name comes twice");
            }
        }
        assert!(idempotence_of([]).is_none(), "no field");
    }
}
