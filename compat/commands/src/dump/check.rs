//! Whether the store takes the parts of a value: what is no question of the format, but of our own bounds, and of parts that have
//! to fit each other.
//!
//! ```text
//! Check        each part by itself, and an entry of a stream as a whole
//! GroupCheck   the groups of a stream: names, pending entries, whose these are         flat memory, given back by `spent.rs`
//! ```
//! A value that is read twice is checked the first time, so that the second time finds nothing but what the system refuses.

use varve_rdb::format::ENTRY_FIELDS_MAX;
use varve_rdb::{Distinct, Part, ReadFault};
use varve_store::{FIELD_EXPIRY_MS_MAX, VALUE_BYTES_MAX};

use super::idempotence::check_names;

/// Fields that RESTORE takes at least: of more, a payload has a byte for each. An entry is added at once.
pub(super) const CLAIMED_FIELDS_MAX: u64 = 1 << 22;

/// Looks at the parts of a value, each by itself.
#[derive(Debug, Default)]
pub(super) struct Check {
    /// Bytes of the texts of the entry whose pairs are coming.
    entry_bytes: Option<usize>,
}

impl Check {
    /// Looks at the next part.
    ///
    /// # Errors
    /// A text is longer than the longest value, an entry has more texts or bytes than a node may have, or a field expires later
    /// than any that is kept.
    #[inline]
    pub(super) fn part(&mut self, part: &Part<'_>) -> Result<(), ReadFault> {
        match *part {
            Part::Whole(text) | Part::Element(text) | Part::Scored(text, _) => is_short(text.len()),
            Part::DatedPair(.., expiry_ms) if expiry_ms > FIELD_EXPIRY_MS_MAX => {
                Err(ReadFault::Odd("a field expires beyond all times"))
            }
            Part::Pair(field, value) | Part::DatedPair(field, value, _) => {
                is_short(field.len())?;
                is_short(value.len())?;
                match &mut self.entry_bytes {
                    None => Ok(()),
                    // XADD refuses an entry of more bytes too.
                    Some(bytes) => {
                        *bytes += field.len() + value.len();
                        is_short(*bytes)
                    }
                }
            }
            Part::Entry(_, 0) => Err(ReadFault::Odd("an entry of a stream has no fields")),
            Part::Entry(_, fields) if fields > ENTRY_FIELDS_MAX => Err(ReadFault::TooLong(fields)),
            Part::Entry(..) => {
                self.entry_bytes = Some(0);
                Ok(())
            }
            Part::Tail(_) | Part::Group(..) | Part::Pending(..) | Part::Consumer(..) | Part::Owned(_) => Ok(()),
            Part::Names(_) => Ok(()),
        }
    }
}

fn is_short(bytes: usize) -> Result<(), ReadFault> {
    if bytes <= VALUE_BYTES_MAX { Ok(()) } else { Err(ReadFault::TooLong(bytes as u64)) }
}

/// The ID of a pending entry, and whether a consumer has it.
pub(super) type CheckedEntry = ((u64, u64), bool);

/// Looks at the groups of a stream, and at the names of its messages.
#[derive(Debug, Default)]
pub(super) struct GroupCheck {
    /// Groups that have begun.
    groups: u64,
    /// The pending entries of the group, in the order of their IDs.
    pending: Vec<CheckedEntry>,
    /// How many of them a consumer has.
    owned: usize,
}

/// Says to [`Distinct`] what a name is the name of: beyond these numbers, of a consumer of the group with a number.
const OF_GROUP: u64 = 1;
const OF_MESSAGE: u64 = 2;
const OF_CONSUMER: u64 = 3;

impl GroupCheck {
    /// Looks at the next part; `names` has those that came before.
    ///
    /// # Errors
    /// The group cannot be so, or the system refuses the memory.
    pub(super) fn part(&mut self, part: &Part<'_>, names: &mut Distinct) -> Result<(), ReadFault> {
        match *part {
            Part::Group(name, ..) => {
                self.close()?;
                self.groups += 1;
                is_first(names, (OF_GROUP, name), "a stream has a group twice")
            }
            Part::Pending(id, ..) => {
                if self.pending.last().is_some_and(|(before, _)| *before >= id) {
                    return Err(ReadFault::Odd("the pending entries of a group are not in order"));
                }
                self.pending.try_reserve(1).map_err(|_| ReadFault::Memory)?;
                self.pending.push((id, false));
                Ok(())
            }
            Part::Consumer(name, ..) => {
                let of = OF_CONSUMER + self.groups;
                is_first(names, (of, name), "Duplicate stream consumer detected in a group")
            }
            Part::Owned(id) => {
                let at = self.pending.binary_search_by_key(&id, |(id, _)| *id);
                let at = at.map_err(|_| ReadFault::Odd("a consumer has an entry that is not pending"))?;
                if std::mem::replace(&mut self.pending[at].1, true) {
                    return Err(ReadFault::Odd("a pending entry has two consumers"));
                }
                self.owned += 1;
                Ok(())
            }
            Part::Names(bytes) => check_names(bytes, |name| {
                is_first(names, (OF_MESSAGE, name), "the names of a stream's messages are damaged")
            }),
            _ => Ok(()),
        }
    }

    /// All parts of the last group have come.
    ///
    /// # Errors
    /// It cannot be so.
    pub(super) fn close(&mut self) -> Result<(), ReadFault> {
        if std::mem::take(&mut self.owned) != self.pending.len() {
            return Err(ReadFault::Odd("a pending entry has no consumer"));
        }
        self.pending.clear();
        Ok(())
    }

    /// Bytes of memory that it has.
    pub(super) fn held_bytes(&self) -> usize {
        self.pending.capacity() * size_of::<CheckedEntry>()
    }

    /// The room of pending entries, which is to be given back in steps.
    pub(super) fn into_pending(self) -> Vec<CheckedEntry> {
        self.pending
    }
}

fn is_first(names: &mut Distinct, (of, name): (u64, &[u8]), else_why: &'static str) -> Result<(), ReadFault> {
    if names.is_new(of, name)? { Ok(()) } else { Err(ReadFault::Odd(else_why)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_more_texts_or_bytes_than_a_node_may_have_is_refused() {
        let mut check = Check::default();
        assert!(check.part(&Part::Entry((1, 1), ENTRY_FIELDS_MAX)).is_ok());
        assert!(matches!(check.part(&Part::Entry((1, 1), ENTRY_FIELDS_MAX + 1)), Err(ReadFault::TooLong(_))));
        assert!(matches!(check.part(&Part::Entry((1, 1), 0)), Err(ReadFault::Odd(_))));
        // Many pairs, of which each is short.
        let value = vec![0; 16 << 20];
        let mut check = Check::default();
        assert!((0..100).all(|_| check.part(&Part::Pair(b"f", &value)).is_ok()), "a hash has any number of them");
        for _ in 0..2 {
            assert!(check.part(&Part::Entry((1, 2), 100)).is_ok());
            assert!((0..63).all(|_| check.part(&Part::Pair(b"", &value)).is_ok()));
        }
        assert!(check.part(&Part::Pair(b"", &value)).is_ok());
        assert!(matches!(check.part(&Part::Pair(b"", b"1")), Err(ReadFault::TooLong(_))));
    }

    #[test]
    fn the_parts_of_groups_fit_each_other() {
        let (a, b): (Part<'_>, Part<'_>) = (Part::Group(b"a", (1, 1), None), Part::Group(b"b", (1, 1), None));
        let pending = |n| Part::Pending((1, n), 5, 1);
        let (consumer, owned) = (Part::Consumer(b"c", 1, 1), |n| Part::Owned((1, n)));
        let fits = |parts: &[Part<'_>]| {
            let (mut check, mut names) = (GroupCheck::default(), Distinct::default());
            parts.iter().all(|part| check.part(part, &mut names).is_ok()) && check.close().is_ok()
        };
        assert!(fits(&[a, pending(1), pending(2), consumer, owned(2), owned(1), b, consumer]));
        assert!(fits(&[a, Part::Consumer(b"b", 1, 1), b]), "a consumer may have the name of a group");
        for wrong in [
            &[a, b, a][..],
            &[a, consumer, consumer],
            &[a, pending(1)],
            &[a, pending(1), b],
            &[a, pending(2), pending(1)],
            &[a, pending(1), pending(1)],
            &[a, pending(1), consumer, owned(2)],
            &[a, pending(1), consumer, owned(1), owned(1)],
        ] {
            assert!(!fits(wrong), "{wrong:?}");
        }
    }
}
