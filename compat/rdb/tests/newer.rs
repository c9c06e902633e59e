//! Files that newer servers write, byte by byte: types whose numbers mean different things to Redis and Valkey, what is refused
//! and how its error names it, and files that are compressed whole.

use std::io::{Cursor, Read};

use lz4_flex::block::{compress, compress_into_with_dict};
use varve_rdb::{Event, Part, Reader, is_rdb};
use xxhash_rust::xxh32::xxh32;

/// A file without a sum, which eight zeros say.
fn file(magic: &str, body: &[&[u8]]) -> Vec<u8> {
    [magic.as_bytes(), &body.concat(), &[0xff; 1], &[0; 8]].concat()
}

/// A string as a file has it.
fn text(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8], text].concat()
}

/// A number as a file has it.
fn long(number: u64) -> Vec<u8> {
    [&[0x81][..], &number.to_be_bytes()].concat()
}

fn raw_id(id: (u64, u64)) -> Vec<u8> {
    [id.0.to_be_bytes(), id.1.to_be_bytes()].concat()
}

/// A listpack of small numbers and short texts.
fn listpack(entries: &[Result<u8, &[u8]>]) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in entries {
        match entry {
            Ok(number) => body.extend_from_slice(&[*number, 1]),
            Err(text) => {
                body.push(0x80 | text.len() as u8);
                body.extend_from_slice(text);
                body.push(text.len() as u8 + 1);
            }
        }
    }
    let bytes = 7 + body.len() as u32;
    [&bytes.to_le_bytes()[..], &(entries.len() as u16).to_le_bytes(), &body, &[0xff]].concat()
}

/// All parts of a file's values as text, or the error; and where the reader was then.
fn parts(file: impl Read) -> (Result<Vec<String>, String>, u64) {
    let (mut reader, mut found) = (Reader::new(file), Vec::new());
    let result = loop {
        match reader.next_event() {
            Ok(Event::Part(part)) => found.push(shown(part)),
            Ok(Event::End) => break Ok(found),
            Ok(_) => {}
            Err(error) => break Err(error.to_string()),
        }
    };
    (result, reader.offset())
}

fn shown(part: Part<'_>) -> String {
    let text = |text: &[u8]| text.escape_ascii().to_string();
    match part {
        Part::Whole(whole) => text(whole),
        Part::Pair(field, value) => format!("{}={}", text(field), text(value)),
        Part::DatedPair(field, value, until) => format!("{}={} until {until}", text(field), text(value)),
        Part::Consumer(name, ..) => format!("consumer '{}'", text(name)),
        part => format!("{part:?}"),
    }
}

fn read(file: &[u8]) -> Vec<String> {
    parts(file).0.expect("a file that is read")
}

fn refusal(file: &[u8]) -> String {
    parts(file).0.expect_err("a file that is refused")
}

#[test]
fn types_22_and_23_are_another_servers_by_the_magic_word() {
    // Redis before 7.4: the time in front, absolute.
    let redis = [text(b"h"), vec![2], long(5000), text(b"a"), text(b"1"), vec![0], text(b"b"), text(b"2")].concat();
    assert_eq!(read(&file("REDIS0012", &[&[22], &redis])), ["a=1 until 5000", "b=2"]);
    // Valkey 9: the time behind, -1 for never.
    let valkey = [&text(b"h")[..], &[2], &text(b"a"), &text(b"1"), &5000i64.to_le_bytes()].concat();
    let valkey = [&valkey[..], &text(b"b"), &text(b"2"), &(-1i64).to_le_bytes()].concat();
    for magic in ["VALKEY080", "VALKEY081"] {
        assert_eq!(read(&file(magic, &[&[22], &valkey])), ["a=1 until 5000", "b=2"]);
    }
    // A packed hash of Redis, with the least time in front since 7.4.
    let packed = text(&listpack(&[Err(b"a"), Err(b"1"), Ok(9), Err(b"b"), Err(b"2"), Ok(0)]));
    assert_eq!(read(&file("REDIS0012", &[&[23], &text(b"h"), &packed])), ["a=1 until 9", "b=2"]);
    for version in ["REDIS0012", "REDIS0013", "REDIS0014", "REDIS0015"] {
        let dated = [&text(b"h")[..], &9i64.to_le_bytes(), &packed].concat();
        assert_eq!(read(&file(version, &[&[25], &dated])), ["a=1 until 9", "b=2"]);
        let plain = [&text(b"h")[..], &9i64.to_le_bytes(), &[1, 3], &text(b"a"), &text(b"1")].concat();
        assert_eq!(read(&file(version, &[&[24], &plain])), ["a=1 until 11"]);
    }
    for number in [23, 24, 25, 26, 27] {
        let error = refusal(&file("VALKEY080", &[&[number], &text(b"h"), &packed]));
        assert_eq!(
            error,
            format!("at byte 12, in the value at key \"h\": type {number} of version 80 of Valkey is not known")
        );
    }
}

/// A stream of the form with this number: two entries, two pending ones, of which the second was given back in form 5.
fn stream(number: u8, names: &[u8]) -> Vec<u8> {
    let entry = |seq: u8| [Ok(2), Ok(0), Ok(seq), Err(&b"v"[..]), Ok(4)];
    let master = [Ok(2), Ok(0), Ok(1), Err(&b"f"[..]), Ok(0)];
    let node = listpack(&[&master[..], &entry(0), &entry(1)].concat());
    let pending = |id| [raw_id(id), 7i64.to_le_bytes().to_vec(), vec![3]].concat();
    let owned: &[(u64, u64)] = if number == 27 { &[(5, 0)] } else { &[(5, 0), (5, 1)] };
    let owned: Vec<u8> = owned.iter().flat_map(|&id| raw_id(id)).collect();
    let times = [7i64.to_le_bytes(), 8i64.to_le_bytes()].concat();
    let mut bytes = [vec![number], text(b"s"), vec![1], text(&raw_id((5, 0))), text(&node)].concat();
    // Length, last ID, first ID, greatest deleted ID, entries added, groups.
    bytes.extend_from_slice(&[2, 5, 1, 5, 0, 0, 0, 2, 1]);
    bytes.extend([text(b"g"), vec![5, 1, 2, 2], pending((5, 0)), pending((5, 1)), vec![1]].concat());
    bytes.extend([text(b"c"), times, vec![owned.len() as u8 / 16], owned].concat());
    if number == 27 {
        bytes.extend([vec![1], raw_id((5, 1))].concat());
    }
    [&bytes[..], names].concat()
}

#[test]
fn streams_of_redis_8_have_names_of_messages_and_entries_that_were_given_back() {
    let usual = [0x40, 100, 0x40, 100, 0, 0, 0];
    let found = read(&file("REDIS0013", &[&stream(26, &usual)]));
    assert_eq!(found.last().unwrap(), "Owned((5, 1))");
    assert!(found.contains(&"consumer 'c'".to_owned()) && !found.iter().any(|part| part.starts_with("Names")));

    // Seconds, names that are kept, one producer with one message, and how many came and came again.
    let named = [&[9, 20, 1][..], &text(b"p"), &[1], &text(b"n"), &[5, 1, 6, 2]].concat();
    let found = read(&file("REDIS0014", &[&stream(27, &named)]));
    let end: Vec<_> = found[found.len() - 5..found.len() - 1].to_vec();
    assert_eq!(end, ["consumer 'c'", "Owned((5, 0))", "consumer ''", "Owned((5, 1))"]);
    let number = |n: u64| n.to_le_bytes();
    let counts = [number(6), number(2)].concat();
    let message = [&[1, 0, 0, 0][..], b"p", &[1, 0, 0, 0], b"n", &number(5), &number(1), &number(5)].concat();
    let field = [&[1, 9, 0, 0, 0, 20, 0, 0, 0][..], &counts, &message].concat();
    assert_eq!(*found.last().unwrap(), format!("{:?}", Part::Names(&field)));
}

/// Candidates of Redis 5.0 have gone on counting what XTRIM has removed, and later servers have written that again.
#[test]
fn a_stream_of_an_early_redis_5_has_the_entries_that_are_there() {
    let stream = |form: u8, length: u8| {
        let master = [Ok(1), Ok(0), Ok(1), Err(&b"f"[..]), Ok(0), Ok(2), Ok(0), Ok(0), Err(&b"v"[..]), Ok(4)];
        let tail: &[u8] = if form == 19 { &[length, 5, 1, 5, 0, 0, 0, 1, 0] } else { &[length, 5, 1, 0] };
        file("REDIS0009", &[&[form], &text(b"s"), &[1], &text(&raw_id((5, 0))), &text(&listpack(&master)), tail])
    };
    let found = read(&stream(15, 3));
    assert!(
        found[2].starts_with("Tail(StreamTail { len: 1, last: (5, 1)") && found[2].contains("added: 1"),
        "{found:?}"
    );
    assert_eq!(found, read(&stream(15, 1)));
    assert_eq!(read(&stream(19, 3)), read(&stream(19, 1)));
    let mut late = stream(15, 1);
    // The last ID in front of the number of groups, the end mark and the sum.
    let at = late.len() - 12;
    late[at..at + 2].copy_from_slice(&[4, 9]);
    assert!(refusal(&late).ends_with("a stream has entries behind its last ID"), "{}", refusal(&late));
}

#[test]
fn streams_of_redis_8_are_passed_over_whole() {
    let named = [&[9, 20, 1][..], &text(b"p"), &[1], &text(b"n"), &[5, 1, 6, 2]].concat();
    for number in [26, 27] {
        let file = file("REDIS0014", &[&stream(number, &named), &[0], &text(b"k"), &text(b"v")]);
        let (mut reader, mut keys) = (Reader::new(&file[..]), Vec::new());
        loop {
            match reader.next_event().unwrap() {
                Event::Key(head) => {
                    keys.push(head.key.to_vec());
                    reader.skip_value().unwrap();
                }
                Event::End => break,
                _ => {}
            }
        }
        assert_eq!((keys, reader.offset()), (vec![b"s".to_vec(), b"k".to_vec()], file.len() as u64));
    }
}

/// Whatever a damaged byte makes of such a stream, it is read or refused; and where it is read, its value was passed over to the
/// same end.
#[test]
fn a_damaged_stream_of_redis_8_is_answered() {
    let named = [&[9, 20, 1][..], &text(b"p"), &[1], &text(b"n"), &[5, 1, 6, 2]].concat();
    let skipped = |file: &[u8]| {
        let mut reader = Reader::new(file);
        loop {
            match reader.next_event() {
                Ok(Event::Key(_)) => _ = reader.skip_value(),
                Ok(Event::End) => return Some(reader.offset()),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    };
    for number in [26, 27] {
        let whole = file("REDIS0014", &[&stream(number, &named)]);
        for (at, bit) in (9..whole.len() - 8).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let (found, offset) = parts(&damaged[..]);
            assert!(found.is_err() || skipped(&damaged) == Some(offset), "type {number}, byte {at}, bit {bit}");
        }
    }
}

#[test]
fn a_value_that_is_not_known_is_refused_by_key_type_and_offset() {
    for (number, name) in [(28, "array"), (29, "hash by a template"), (32, "hash by a template"), (33, "value")] {
        let error =
            refusal(&file("REDIS0015", &[&[0], &text(b"k"), &text(b"v"), &[number], &text(b"key"), &[1, 2, 3]]));
        let expected =
            format!("at byte 19, in the {name} at key \"key\": type {number} of version 15 of Redis is not known");
        assert_eq!(error, expected);
    }
    let error = refusal(&file("REDIS0015", &[&[200], &text(b"key")]));
    assert_eq!(error, "at byte 10: type 200 of version 15 of Redis is not known");
    for magic in ["REDIS0016", "VALKEY079", "VALKEY082"] {
        assert!(refusal(&file(magic, &[])).ends_with("is not known"), "{magic}");
    }
}

#[test]
fn opcodes_242_to_244_are_another_servers_by_the_magic_word() {
    // Data of modules about a key: the number of modules; each a number of four bytes, its data, and 0.
    let about = [&[243, 1, 1, 2, 3, 4, 5][..], &text(b"data"), &[0, 0], &text(b"key"), &text(b"v")].concat();
    let error = refusal(&file("REDIS0013", &[&about]));
    assert_eq!(error, "at byte 27, in the value at key \"key\": a module's data about a key cannot be kept here");
    let error = refusal(&file("VALKEY080", &[&about]));
    assert_eq!(error, "at byte 10: a slot that was being imported cannot be kept here");
    let error = refusal(&file("VALKEY081", &[&[242], &text(b"key")]));
    assert_eq!(error, "at byte 10: a change of a key in the middle of a data set cannot be kept here");
    let error = refusal(&file("REDIS0015", &[&[242], &text(b"key")]));
    assert_eq!(error, "at byte 10: type 242 of version 15 of Redis is not known");
    for magic in ["REDIS0012", "VALKEY080"] {
        assert_eq!(read(&file(magic, &[&[244, 1, 2, 3, 0], &text(b"k"), &text(b"v")])), ["v"]);
    }
}

/// How a compressed file is made.
#[derive(Clone, Copy)]
struct Form {
    block_bytes: usize,
    sums: bool,
    linked: bool,
    /// The whole's length and sum stand in the frame.
    whole: bool,
}

/// A file in the envelope of Valkey.
fn enclosed(file: &[u8], form: Form) -> Vec<u8> {
    let mut to = vec![b'V', b'C', b'S', 1, 1, u8::from(form.sums), 1];
    to.extend_from_slice(&0x184d_2204u32.to_le_bytes());
    let flags = 1 << 6 | u8::from(!form.linked) << 5 | u8::from(form.sums) << 4 | if form.whole { 0b1100 } else { 0 };
    let mut descriptor = vec![flags, 4 << 4];
    if form.whole {
        descriptor.extend_from_slice(&(file.len() as u64).to_le_bytes());
    }
    to.extend_from_slice(&descriptor);
    to.push((xxh32(&descriptor, 0) >> 8) as u8);
    let mut from = 0usize;
    for (at, block) in file.chunks(form.block_bytes).enumerate() {
        let window = &file[from.saturating_sub(64 << 10)..from];
        let packed = if form.linked && !window.is_empty() {
            let mut packed = vec![0; 2 * block.len() + 64];
            let bytes = compress_into_with_dict(block, &mut packed, window).expect("room");
            packed.truncate(bytes);
            packed
        } else {
            compress(block)
        };
        // One block in three is as it is.
        let (bytes, length) = match at % 3 {
            1 => (block, block.len() as u32 | 1 << 31),
            _ => (&packed[..], packed.len() as u32),
        };
        to.extend_from_slice(&length.to_le_bytes());
        to.extend_from_slice(bytes);
        if form.sums {
            to.extend_from_slice(&xxh32(bytes, 0).to_le_bytes());
        }
        from += block.len();
    }
    to.extend_from_slice(&[0; 4]);
    if form.whole {
        to.extend_from_slice(&xxh32(file, 0).to_le_bytes());
    }
    to
}

/// A file of several hundred kilobytes, whose strings repeat what came long before.
fn long_file() -> (Vec<u8>, Vec<String>) {
    let (mut bodies, mut values) = (Vec::new(), Vec::new());
    for n in 0..20000u32 {
        let value = format!("value {} of {}", n % 700, n * n % 7919);
        bodies.push([&[0][..], &text(format!("key:{n}").as_bytes()), &text(value.as_bytes())].concat());
        values.push(value);
    }
    (file("VALKEY081", &bodies.iter().map(Vec::as_slice).collect::<Vec<_>>()), values)
}

#[test]
fn a_compressed_file_is_read_like_the_file_that_it_has() {
    let (plain, values) = long_file();
    assert!(plain.len() > 256 << 10);
    for bits in 0..8 {
        let form = Form { block_bytes: 60_000 - bits, sums: bits & 1 > 0, linked: bits & 2 > 0, whole: bits & 4 > 0 };
        let packed = enclosed(&plain, form);
        assert!(is_rdb(&packed) && packed.len() < plain.len());
        let (found, offset) = parts(&packed[..]);
        assert_eq!(found.as_ref(), Ok(&values), "form {bits}");
        assert_eq!(offset, packed.len() as u64, "bytes of the file, and not of what it unpacks to");
        // Commands may stand behind it, and are nobody's here.
        assert_eq!(parts(Cursor::new([&packed[..], b"*1\r\n"].concat())).1, packed.len() as u64);
    }
}

#[test]
fn a_compressed_file_that_is_cut_or_damaged_is_refused() {
    let form = Form { block_bytes: 40, sums: true, linked: true, whole: true };
    let bodies = [&[0][..], &text(b"key"), &text(b"a value, a value, a value, a value")].concat();
    let packed = enclosed(&file("REDIS0010", &[&bodies, &bodies]), form);
    let all = read(&packed);
    assert_eq!(all.len(), 2);
    // The sum of the whole is not compared: the last four bytes only have to be there.
    for at in 0..packed.len() {
        assert!(parts(&packed[..at]).0.is_err(), "cut at {at}");
        let mut damaged = packed.clone();
        damaged[at] ^= 0x14;
        if at < packed.len() - 4 {
            assert!(parts(&damaged[..]).0.is_err(), "damaged at {at}");
        }
    }
    let behind = [&file("REDIS0010", &[&bodies])[..], b"more"].concat();
    assert!(refusal(&enclosed(&behind, form)).ends_with("something follows the end of the compressed file"));
}

#[test]
fn an_error_in_a_compressed_file_has_its_place_in_the_uncompressed_one() {
    let form = Form { block_bytes: 60_000, sums: false, linked: false, whole: false };
    let error = refusal(&enclosed(&file("VALKEY080", &[&[28], &text(b"key")]), form));
    let expected = "at byte 14 of the uncompressed file, in the value at key \"key\": type 28 of version 80 of Valkey";
    assert_eq!(error, format!("{expected} is not known"));
    let inside = enclosed(&enclosed(&file("VALKEY080", &[]), form), form);
    assert!(refusal(&inside).contains("compressed"), "{}", refusal(&inside));
}

#[test]
fn what_is_compressed_otherwise_is_refused_in_words() {
    let form = Form { block_bytes: 60_000, sums: false, linked: false, whole: false };
    let packed = enclosed(&file("VALKEY081", &[]), form);
    let with = |at: usize, byte: u8| {
        let mut other = packed.clone();
        other[at] = byte;
        refusal(&other)
    };
    assert_eq!(with(3, 2), "at byte 7: the file is compressed, with a version that is not known");
    assert!(with(4, 2).starts_with("at byte 7: the file is compressed, with Zstandard, which is not read"));
    assert_eq!(with(4, 3), "at byte 7: the file is compressed, with a codec that is not known");
    assert_eq!(with(5, 2), "at byte 7: the file is compressed, with a flag that is not known");
    assert_eq!(with(6, 2), "at byte 7: the file is compressed, with something that is no RDB file");
    assert!(with(7, 0).ends_with("behind the envelope stands no frame of LZ4"));
}
