//! The first reading of a value that is read twice: nothing is kept of it, and everything is found that is wrong with it.
//!
//! ```text
//! step ─▶ step ─▶ .. ─▶ the size          each reads, expands or passes over a bounded number of bytes, parts and other things
//! ```

use std::io::Read;

use varve_rdb::{Distinct, Kind, Part, ReadError, ReadFault, ReadStep, ValueReader};

use super::check::{CLAIMED_FIELDS_MAX, Check, GroupCheck};
use super::spent::Spent;

/// Elements that are looked at in one step.
pub(super) const STEP_PARTS: u64 = 2048;
/// Bytes of elements that are looked at in one step, and the work of reading them ([`ValueReader::work`]).
pub(super) const STEP_BYTES: u64 = 256 << 10;
/// Groups of a value that is small, at most.
const SMALL_GROUPS: u64 = 64;
/// Parts of groups of a value that is made with its shard held, at most.
const QUICK_GROUP_PARTS: u64 = 512;
/// Bytes that an element costs at most beside its own.
const ELEMENT_BYTES: u64 = 64;
/// Bytes of a group or a consumer beside its name, at most.
const GROUP_BYTES: usize = 512;
/// Elements that a part with names of a stream's messages counts as: it has 64 names at most.
const NAMES_PARTS: u64 = 64;

/// A value that is read to its end, of which nothing is kept.
pub(super) struct Measure<R> {
    reader: ValueReader<R>,
    distinct: Distinct,
    check: Check,
    groups: GroupCheck,
    size: Size,
    /// Fields that an entry of a stream may have.
    fields_max: u64,
}

/// The size of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// A bound on the bytes that it needs in the store.
    pub(super) bytes: u64,
    /// Its elements, members or fields; 1 of a string.
    pub(super) parts: u64,
    /// The work of reading it ([`ValueReader::work`]), which may be much for few parts.
    work: u64,
    groups: u64,
    /// Parts of groups, and of the names of messages: each costs a microsecond to make.
    group_parts: u64,
}

impl Size {
    /// Whether all of it may be inserted with its shard held: parts up to a number that is 2048 or more, and bytes.
    pub(super) fn is_small(&self, parts_max: u64) -> bool {
        self.parts <= STEP_PARTS.max(parts_max) && self.bytes <= STEP_BYTES && self.groups <= SMALL_GROUPS
    }

    /// Whether all of it may even be read with its shard held.
    pub(super) fn is_quick(&self) -> bool {
        self.is_small(0) && self.work <= STEP_BYTES && self.group_parts <= QUICK_GROUP_PARTS
    }
}

impl<R: Read> Measure<R> {
    /// A value at its first byte, of a payload with this number of bytes.
    ///
    /// # Errors
    /// It is a module's.
    pub(super) fn new(reader: ValueReader<R>, bytes: usize) -> Result<Measure<R>, ReadError> {
        if reader.kind() == Kind::Module {
            return Err(reader.error(ReadFault::Unsupported(reader.kind().name())));
        }
        let mut distinct = Distinct::default();
        distinct.begin(reader.kind());
        let (check, groups, size) = (Check::default(), GroupCheck::default(), Size::default());
        let fields_max = CLAIMED_FIELDS_MAX.max(bytes as u64);
        Ok(Measure { reader, distinct, check, groups, size, fields_max })
    }

    /// Reads on; gives the size of the value when it has been read to its end. In front of a step that takes memory for a long string
    /// it ends, and [`Measure::wanted_bytes`] says how much that is.
    ///
    /// # Errors
    /// The value has no parts, has one twice, or is nothing that the store keeps; or the system refuses memory.
    pub(super) fn step(&mut self) -> Result<Option<Size>, ReadError> {
        let begin = self.size;
        loop {
            let Measure { reader, distinct, check, groups, size, fields_max } = self;
            let looked_at = match reader.step()? {
                ReadStep::Part(Part::Entry(_, fields)) if fields > *fields_max => Err(ReadFault::TooLong(fields)),
                ReadStep::Part(part) => look_at(&part, (check, groups, distinct), size),
                ReadStep::More => Ok(()),
                ReadStep::End => break,
            };
            looked_at.map_err(|fault| reader.error(fault))?;
            size.work = reader.work();
            let is_long = size.bytes - begin.bytes >= STEP_BYTES || size.work - begin.work >= STEP_BYTES;
            if is_long || size.parts - begin.parts >= STEP_PARTS || reader.wanted_bytes() > 0 {
                return Ok(None);
            }
        }
        self.groups.close().map_err(|fault| self.reader.error(fault))?;
        if self.size.parts > 0 { Ok(Some(self.size)) } else { Err(self.reader.error(ReadFault::Empty)) }
    }

    /// See [`ValueReader::wanted_bytes`].
    pub(super) fn wanted_bytes(&self) -> u64 {
        self.reader.wanted_bytes()
    }

    /// Bytes of memory that it has at present.
    pub(super) fn held_bytes(&self) -> usize {
        self.reader.held_bytes() + self.distinct.held_bytes() + self.groups.held_bytes()
    }

    /// The reader, for the second reading, and what is to be given back in steps.
    pub(super) fn into_parts(self) -> (ValueReader<R>, Spent) {
        let Measure { reader, distinct: names, groups, .. } = self;
        (reader, Spent { names, checked: groups.into_pending(), ..Spent::default() })
    }
}

/// Looks at a part of a value, and counts it: what the store would not take is found here, so that a value is inserted without a fault
/// or not at all.
#[inline]
fn look_at(
    part: &Part<'_>,
    (check, groups, distinct): (&mut Check, &mut GroupCheck, &mut Distinct),
    size: &mut Size,
) -> Result<(), ReadFault> {
    check.part(part)?;
    // A producer and a name have two maps' places and two allocations each, beside 32 bytes of the part at least.
    const NAMES_TIMES: usize = 10;
    let bytes = match *part {
        Part::Whole(text) | Part::Element(text) | Part::Scored(text, _) => text.len(),
        Part::Pair(field, value) | Part::DatedPair(field, value, _) => field.len() + value.len(),
        Part::Entry(..) | Part::Tail(_) | Part::Pending(..) | Part::Owned(_) => 0,
        Part::Names(names) => names.len() * NAMES_TIMES,
        Part::Group(name, ..) | Part::Consumer(name, ..) => name.len() + GROUP_BYTES,
    };
    match part {
        Part::Group(..) | Part::Consumer(..) | Part::Pending(..) | Part::Owned(_) | Part::Names(_) => {
            groups.part(part, distinct)?;
            size.group_parts += parts_of(part);
        }
        _ => distinct.add(part)?,
    }
    size.bytes += bytes as u64 + ELEMENT_BYTES;
    size.parts += parts_of(part);
    size.groups += u64::from(matches!(part, Part::Group(..)));
    Ok(())
}

/// How many elements are as much work as a part.
#[inline]
pub(super) fn parts_of(part: &Part<'_>) -> u64 {
    if matches!(part, Part::Names(_)) { NAMES_PARTS } else { 1 }
}

#[cfg(test)]
mod tests {
    use varve_rdb::Dialect;

    use super::*;

    /// The number of a set's type.
    const SET: u8 = 2;

    /// A set of this number of members with eight bytes each.
    fn set(members: u32) -> Vec<u8> {
        let mut value = [&[0x80][..], &members.to_be_bytes()].concat();
        (0..u64::from(members)).for_each(|n| value.extend([&[8][..], &n.to_le_bytes()].concat()));
        value
    }

    fn measure(value: &[u8]) -> Measure<&[u8]> {
        let reader = ValueReader::new(Dialect::OURS, SET, value).expect("a set");
        Measure::new(reader, value.len()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_step_is_bounded_and_what_it_holds_is_known_before_the_end() {
        const MEMBERS: u32 = 100_000;
        let value = set(MEMBERS);
        let (mut measure, mut steps, mut most) = (measure(&value), 1, 0);
        let size = loop {
            let before = measure.size;
            if let Some(size) = measure.step().expect("it is sound") {
                break size;
            }
            assert!(measure.size.parts - before.parts <= STEP_PARTS);
            steps += 1;
            most = most.max(measure.held_bytes());
        };
        assert_eq!(size.parts, u64::from(MEMBERS));
        assert!(steps > size.parts / STEP_PARTS, "{steps} steps");
        assert!(most > 9 * MEMBERS as usize, "{most} bytes of names are held before the end");
    }

    /// An entry of more texts than a node may have ended the process in a transaction: the first reading had not looked at their
    /// number, and the second one refused it.
    #[test]
    fn an_entry_of_too_many_fields_is_found_by_the_first_reading() {
        const STREAM: u8 = 15;
        const FIELDS: u32 = (1 << 22) + 1;
        let fields = [&[0xf3][..], &FIELDS.to_le_bytes(), &[5]].concat();
        // A live entry, the master field 7, an entry with fields of its own.
        let body = [&[1, 1, 0, 1, 1, 1, 7, 1, 0, 1, 0, 1, 0, 1, 0, 1][..], &fields].concat();
        let node = [&(7 + body.len() as u32).to_le_bytes()[..], &[0xff, 0xff], &body, &[0xff]].concat();
        let id = [1_u64.to_be_bytes(), 1_u64.to_be_bytes()].concat();
        let value = [&[1, 16][..], &id, &[node.len() as u8], &node, &[1, 1, 1, 0]].concat();
        let reader = ValueReader::new(Dialect::OURS, STREAM, &value).expect("a stream");
        let mut measure = Measure::new(reader, value.len()).unwrap_or_else(|error| panic!("{error}"));
        let error = measure.step().expect_err("more texts than a node may have");
        assert!(matches!(error.fault(), ReadFault::TooLong(fields) if *fields == u64::from(FIELDS)), "{error}");
    }

    #[test]
    fn a_value_is_quick_to_read_only_if_all_of_it_is() {
        let value = set(1000);
        let small = measure(&value).step().expect("it is sound").expect("one step");
        assert!(small.is_quick() && small.is_small(0));
        let much = Size { work: STEP_BYTES + 1, ..small };
        assert!(!much.is_quick() && much.is_small(0), "few parts that are much work to read");
        assert!(!Size { groups: SMALL_GROUPS + 1, ..small }.is_small(0));
        let much = Size { group_parts: QUICK_GROUP_PARTS + 1, ..small };
        assert!(!much.is_quick() && much.is_small(0), "few parts that are much work to make");
        assert!(!Size { parts: STEP_PARTS + 1, ..small }.is_small(0));
        assert!(Size { parts: STEP_PARTS + 1, ..small }.is_small(STEP_PARTS + 1), "where settings allow as many");
    }
}
