//! The names of a stream's messages, as a field of an RDB file that stands before the stream's entry.
//!
//! ```text
//!   1 | duration, s (4) | most names (4) | added (8) | duplicates (8) | message ..        numbers: low byte first
//!   message   length (4) | producer | length (4) | name | ID: ms (8), number (8) | time, ms of Unix time (8)
//! ```
//! The formats of RDB that we write have no place for them, and redis-server passes over a field that it does not know. DUMP's
//! payload has no fields: what it makes elsewhere has no names.

use varve_store::{Idempotence, IdempotenceLimits, NamedMessage, StreamId};

/// The first byte.
const FORM: u8 = 1;

/// The field's value.
pub(super) fn bytes_of(kept: &Idempotence) -> Vec<u8> {
    let figures = kept.figures(i64::MIN);
    let mut to = vec![FORM];
    to.extend_from_slice(&figures.limits.duration_s.to_le_bytes());
    to.extend_from_slice(&figures.limits.names_max.to_le_bytes());
    to.extend_from_slice(&figures.added.to_le_bytes());
    to.extend_from_slice(&figures.duplicates.to_le_bytes());
    kept.for_each(|NamedMessage { producer, name, id, time_ms }| {
        for text in [producer, name] {
            to.extend_from_slice(&(text.len() as u32).to_le_bytes());
            to.extend_from_slice(text);
        }
        to.extend_from_slice(&id.ms.to_le_bytes());
        to.extend_from_slice(&id.seq.to_le_bytes());
        to.extend_from_slice(&time_ms.to_le_bytes());
    });
    to
}

/// The names in a field's value; `None` if it is damaged.
pub fn idempotence_of(bytes: &[u8]) -> Option<Idempotence> {
    let mut from = bytes.strip_prefix(&[FORM])?;
    let (duration_s, names_max) = (u32::from_le_bytes(array(&mut from)?), u32::from_le_bytes(array(&mut from)?));
    if !(1..=86_400).contains(&duration_s) || !(1..=10_000).contains(&names_max) {
        return None;
    }
    let mut kept = Idempotence::new(IdempotenceLimits { duration_s, names_max });
    let (added, duplicates) = (u64::from_le_bytes(array(&mut from)?), u64::from_le_bytes(array(&mut from)?));
    while !from.is_empty() {
        let (producer, name) = (text(&mut from)?, text(&mut from)?);
        let id = StreamId::new(u64::from_le_bytes(array(&mut from)?), u64::from_le_bytes(array(&mut from)?));
        let time_ms = i64::from_le_bytes(array(&mut from)?);
        // Nothing is due at the beginning of time: what is due is forgotten later.
        if producer.is_empty() || name.is_empty() || kept.find(producer, name, i64::MIN).is_some() {
            return None;
        }
        kept.add(NamedMessage { producer, name, id, time_ms }, i64::MIN);
    }
    kept.set_counts(added, duplicates);
    Some(kept)
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
        kept.set_counts(8, 4);
        let bytes = bytes_of(&kept);
        let read = idempotence_of(&bytes).expect("as it was written");
        assert_eq!((bytes_of(&read), read.figures(9)), (bytes.clone(), kept.figures(9)));
        assert_eq!(read.find(b"p", b"c", 9), Some(StreamId::new(7, 2)));
        for cut in (0..bytes.len()).filter(|cut| *cut != 25 && *cut != 25 + 34) {
            assert!(idempotence_of(&bytes[..cut]).is_none(), "{cut} bytes");
        }
        let twice = [&bytes[..], &bytes[25..25 + 34]].concat();
        assert!(idempotence_of(&twice).is_none(), "a name comes twice");
        let other = [&[2], &bytes[1..]].concat();
        assert!(idempotence_of(&other).is_none(), "another form");
    }
}
