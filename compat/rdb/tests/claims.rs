//! Values of some kilobytes that say to be millions of things: a step does a bounded work, and the memory is that of the strings that
//! are there.

use proptest::collection::vec;
use proptest::prelude::*;
use varve_rdb::{Dialect, Part, ReadStep, ValueReader};
use varve_testkit::payload::{compressed, length, listpack, number, numbers, stream, text};

/// Numbers of types.
const SET: u8 = 2;
const STREAM: u8 = 15;
const QUICKLIST2: u8 = 18;
const STREAM_WITH_NAMES: u8 = 26;

/// The work of one step, at most: bytes that are read or expanded, and things that are passed over.
const STEP_WORK: u64 = 130 << 10;

/// Figures of a reading.
struct Seen {
    parts: usize,
    steps: usize,
    /// The most memory that it has had.
    held: usize,
    wanted: u64,
}

/// Reads a value step by step; `each` is shown the parts.
fn read(number: u8, value: &[u8], mut each: impl FnMut(Part<'_>)) -> Result<Seen, String> {
    let mut reader = ValueReader::new(Dialect::OURS, number, value)
        .or_else(|_| ValueReader::new(Dialect::of_dump(13).expect("it is read"), number, value))
        .expect("a type");
    let mut seen = Seen { parts: 0, steps: 0, held: 0, wanted: 0 };
    loop {
        let (before, wanted) = (reader.work(), reader.wanted_bytes());
        match reader.step() {
            Ok(ReadStep::Part(part)) => {
                each(part);
                seen.parts += 1;
            }
            Ok(ReadStep::More) => {}
            Ok(ReadStep::End) => return Ok(seen),
            Err(error) => return Err(error.to_string()),
        }
        seen.steps += 1;
        seen.wanted = seen.wanted.max(wanted);
        seen.held = seen.held.max(reader.held_bytes());
        assert!(reader.work() - before < STEP_WORK, "{} of work in one step", reader.work() - before);
    }
}

#[test]
fn master_fields_are_not_collected() {
    const FIELDS: usize = 1_000_000;
    // One entry, no deleted ones, a million master fields; an entry with the field 6 and the value 7.
    let front = [numbers(&[1, 0]), number(FIELDS), numbers(&[1])];
    let node = listpack(&front, 2, FIELDS - 1, &[numbers(&[0, 0, 0, 0, 1, 6, 7, 6])]);
    let value = stream(&node, &[1, 1, 1, 0]);
    assert!(value.len() < FIELDS / 40, "{} bytes", value.len());
    let mut found = Vec::new();
    let seen = read(STREAM, &value, |part| found.push(format!("{part:?}"))).expect("it is sound");
    assert_eq!(found[0], "Entry((1, 1), 1)");
    assert!(found[1].starts_with("Pair([54], [55])") && found[2].starts_with("Tail"), "{found:?}");
    assert!(seen.held < 2 * FIELDS + (1 << 20), "{} bytes are held, of a listpack of {}", seen.held, 2 * FIELDS);
    assert!(seen.steps > FIELDS / 300, "{} steps", seen.steps);
    assert!(seen.wanted >= 2 * FIELDS as u64, "its memory is wanted before it is taken: {}", seen.wanted);
}

#[test]
fn an_entry_with_the_master_fields_has_them_in_their_order_each_time() {
    let front = [numbers(&[2, 1, 2, 11, 12, 0])];
    let entries = [
        numbers(&[2, 0, 0, 21, 22, 5]),
        // A deleted one with fields of its own, and one that has the master fields.
        numbers(&[1, 0, 1, 1, 6, 7, 6]),
        numbers(&[2, 0, 2, 31, 32, 5]),
    ];
    let body = [&front.concat()[..], &entries.concat()].concat();
    let head = [&(7 + body.len() as u32).to_le_bytes()[..], &(body.len() as u16 / 2).to_le_bytes()].concat();
    let node = text(&[&head, &body[..], &[0xff]].concat());
    let mut found = Vec::new();
    read(STREAM, &stream(&node, &[2, 1, 3, 0]), |part| {
        if let Part::Pair(field, value) = part {
            found.push((String::from_utf8_lossy(field).into_owned(), String::from_utf8_lossy(value).into_owned()));
        }
    })
    .expect("it is sound");
    let pair = |field: &str, value: &str| (field.to_owned(), value.to_owned());
    assert_eq!(found, [pair("11", "21"), pair("12", "22"), pair("11", "31"), pair("12", "32")]);
}

#[test]
fn deleted_entries_between_others_are_work_too() {
    const ENTRIES: usize = 100;
    // After each live entry a deleted one with a hundred texts.
    let live = |n| numbers(&[2, 0, n, 1, 4]);
    let deleted = |n: u8| [numbers(&[1, 0, n, 50]), numbers(&[9; 100]), numbers(&[104])].concat();
    let entries: Vec<u8> = (0..ENTRIES as u8).flat_map(|n| [live(n), deleted(n)].concat()).collect();
    let body = [numbers(&[ENTRIES as u8, ENTRIES as u8, 1, 7, 0]), entries].concat();
    let head = [&(7 + body.len() as u32).to_le_bytes()[..], &u16::MAX.to_le_bytes()].concat();
    let value = stream(&text(&[&head, &body[..], &[0xff]].concat()), &[1, 1, 0x40, 200, 0]);
    let mut reader = ValueReader::new(Dialect::OURS, STREAM, &value).expect("a stream");
    while !matches!(reader.step().expect("it is sound"), ReadStep::End) {}
    assert!(reader.work() > (ENTRIES * 100 * 32) as u64, "{} of work", reader.work());
}

#[test]
fn deleted_entries_are_passed_over_in_steps() {
    const DELETED: usize = 200_000;
    // A master field; one live entry; then deleted ones. An entry is one word, since all are equal but for their IDs.
    let live = numbers(&[2, 0, 0, 1, 4]);
    let front = [numbers(&[1]), number(DELETED), numbers(&[1, 7, 0]), live, numbers(&[3, 0, 0, 1, 4])];
    let value = stream(&listpack(&front, 10, DELETED - 1, &[]), &[1, 1, 1, 0]);
    let seen = read(STREAM, &value, |_| ()).expect("it is sound");
    assert_eq!(seen.parts, 3, "an entry, its pair, the tail");
    assert!(seen.steps > DELETED / 100, "{} steps", seen.steps);
    // One deleted entry that has them all as its texts.
    let front = [numbers(&[1, 1, 1, 7, 0, 2, 0, 0, 1, 4, 1, 0, 0]), number(DELETED), numbers(&[9])];
    let end = number(2 * DELETED + 4);
    let value = stream(&listpack(&front, 2, 2 * DELETED - 1, &[end]), &[1, 1, 1, 0]);
    let seen = read(STREAM, &value, |_| ()).expect("it is sound");
    assert!(seen.parts == 3 && seen.steps > 2 * DELETED / 300, "{} steps", seen.steps);
}

#[test]
fn nodes_without_elements_are_passed_over_in_steps() {
    const NODES: usize = 100_000;
    let empty = [vec![2], text(&[7, 0, 0, 0, 0, 0, 0xff])].concat();
    let value = [length(NODES + 1), empty.repeat(NODES), vec![1], text(b"x")].concat();
    let seen = read(QUICKLIST2, &value, |_| ()).expect("it is sound");
    assert!(seen.parts == 1 && seen.steps > NODES / 300, "{} steps", seen.steps);
}

#[test]
fn a_long_element_is_expanded_in_steps_and_its_memory_is_wanted_before() {
    const BYTES: usize = 10 << 20;
    let value = [&[2][..], &text(b"short"), &compressed(b"a", 1, BYTES - 1, b"")].concat();
    assert!(value.len() < BYTES / 80);
    let mut lengths = Vec::new();
    let seen = read(SET, &value, |part| {
        let Part::Element(element) = part else { panic!("{part:?}") };
        lengths.push(element.len());
    });
    let seen = seen.expect("it is sound");
    assert_eq!(lengths, [5, BYTES]);
    assert!(seen.steps >= BYTES >> 16 && seen.wanted >= BYTES as u64, "{} steps, {} wanted", seen.steps, seen.wanted);
    // The second reading takes no memory that the first one has not had.
    let mut reader = ValueReader::new(Dialect::OURS, SET, &value).expect("a set");
    while !matches!(reader.step().expect("it is sound"), ReadStep::End) {}
    let held = reader.held_bytes();
    reader.again(&value[..]);
    let mut parts = 0;
    loop {
        assert_eq!((reader.held_bytes(), reader.wanted_bytes() < 1 << 20), (held, true));
        match reader.step().expect("it is sound") {
            ReadStep::Part(_) => parts += 1,
            ReadStep::More => {}
            ReadStep::End => break,
        }
    }
    assert_eq!(parts, 2);
}

#[test]
fn names_of_messages_come_some_at_a_time() {
    const NAMES: usize = 2000;
    let node = [numbers(&[1, 0, 1, 7, 0, 2, 0, 0, 1, 4])].concat();
    let node = text(&[&(7 + node.len() as u32).to_le_bytes()[..], &10u16.to_le_bytes(), &node, &[0xff]].concat());
    let with = |producer: &[u8]| {
        let names: Vec<u8> = (0..NAMES).flat_map(|n| [text(&n.to_le_bytes()), vec![1, 1]].concat()).collect();
        // The tail and no groups; seconds, names that are kept, one producer; how many were added and came again.
        let tail = [1, 1, 1, 1, 1, 0, 0, 1, 0, 9, 20, 1];
        stream(&node, &[&tail[..], producer, &length(NAMES), &names, &[7, 3]].concat())
    };
    let (mut sizes, mut counts) = (Vec::new(), Vec::new());
    let producer = compressed(b"p", 1, 19_999, b"");
    let seen = read(STREAM_WITH_NAMES, &with(&producer), |part| {
        if let Part::Names(bytes) = part {
            sizes.push(bytes.len());
            counts.push((bytes[9], bytes[17]));
        }
    });
    let seen = seen.expect("it is sound");
    assert!(sizes.iter().all(|bytes| *bytes < 90 << 10), "{sizes:?}");
    assert!(sizes.iter().sum::<usize>() > NAMES * 20_000 && seen.held < 1 << 20, "{} bytes are held", seen.held);
    let (last, others) = counts.split_last().expect("names");
    assert!(*last == (7, 3) && others.iter().all(|counts| *counts == (0, 0)));
    // Short ones: 64 a part.
    let mut parts = 0;
    read(STREAM_WITH_NAMES, &with(&text(b"p")), |part| parts += usize::from(matches!(part, Part::Names(_))))
        .expect("sound");
    assert_eq!(parts, NAMES.div_ceil(64));
    // A producer whose name is longer than any that is read at once is refused before it is expanded.
    let error = read(STREAM_WITH_NAMES, &with(&compressed(b"p", 1, 10 << 20, b"")), |_| ()).map(|seen| seen.parts);
    assert!(error.as_ref().is_err_and(|error| error.contains("is more than anything has")), "{error:?}");
}

/// All parts of a value as text, and how it ended.
fn parts(reader: &mut ValueReader<&[u8]>, in_steps: bool) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let part = if in_steps {
            match reader.step() {
                Ok(ReadStep::Part(part)) => Ok(Some(part)),
                Ok(ReadStep::More) => continue,
                Ok(ReadStep::End) => Ok(None),
                Err(error) => Err(error),
            }
        } else {
            reader.next_part()
        };
        match part {
            Ok(Some(part)) => seen.push(format!("{part:?}")),
            end => {
                seen.push(format!("{:?}", end.map(|_| ()).map_err(|error| error.to_string())));
                return seen;
            }
        }
    }
}

proptest! {
    /// Any bytes are answered, and steps show what one reading shows, the second time as well.
    #[test]
    fn steps_show_what_one_reading_shows(number in 0u8..28, bytes in vec(any::<u8>(), 0..300), small in any::<bool>()) {
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| if small { byte & 0x0f } else { byte }).collect();
        let dialect = Dialect::of_dump(13).expect("it is read");
        if let Ok(mut reader) = ValueReader::new(dialect, number, &bytes) {
            let whole = parts(&mut reader, false);
            reader.again(&bytes[..]);
            prop_assert_eq!(&parts(&mut reader, true), &whole);
            let mut again = ValueReader::new(dialect, number, &bytes).expect("the type is known");
            prop_assert_eq!(&parts(&mut again, true), &whole);
        }
    }
}
