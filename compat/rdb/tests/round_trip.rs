//! Files of random entries, written in pieces and read back; and every damaged byte of a file answered.

use proptest::collection::vec;
use proptest::prelude::*;
use varve_rdb::write::LastUse;
use varve_rdb::{Event, Kind, Part, RdbBuffer, Reader, Writer};

/// A value, as the test keeps it.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    Zset(Vec<(Vec<u8>, f64)>),
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    key: Vec<u8>,
    expiry_ms: Option<i64>,
    access: Option<LastUse>,
    value: Value,
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..30),
        any::<i64>().prop_map(|n| (n >> (n & 63)).to_string().into_bytes()),
        (any::<u8>(), 0..40_000usize).prop_map(|(byte, len)| vec![byte; len]),
        vec(0u8..3, 0..300),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let score = prop_oneof![any::<i32>().prop_map(f64::from), Just(f64::INFINITY), Just(-0.5), Just(f64::MIN_POSITIVE)];
    prop_oneof![
        text().prop_map(Value::String),
        vec(text(), 1..20).prop_map(Value::List),
        vec(text(), 1..20).prop_map(Value::Set),
        vec((text(), text()), 1..20).prop_map(Value::Hash),
        vec((text(), score), 1..20).prop_map(Value::Zset),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let access = prop_oneof![any::<u64>().prop_map(LastUse::Idle), any::<u8>().prop_map(LastUse::Freq)];
    (text(), proptest::option::of(any::<i64>()), proptest::option::of(access), value())
        .prop_map(|(key, expiry_ms, access, value)| Entry { key, expiry_ms, access, value })
}

/// Writes an entry; behind each element `each` may put the buffer elsewhere.
fn encode(entry: &Entry, to: &mut RdbBuffer, mut each: impl FnMut(&mut RdbBuffer)) {
    let kind = match &entry.value {
        Value::String(_) => Kind::String,
        Value::List(_) => Kind::List,
        Value::Set(_) => Kind::Set,
        Value::Hash(_) => Kind::Hash,
        Value::Zset(_) => Kind::Zset,
    };
    to.begin(kind, &entry.key, entry.expiry_ms, entry.access);
    each(to);
    match &entry.value {
        Value::String(text) => to.string(text),
        Value::List(elements) | Value::Set(elements) => {
            to.count(elements.len() as u64);
            for element in elements {
                to.string(element);
                each(to);
            }
        }
        Value::Hash(pairs) => {
            to.count(pairs.len() as u64);
            for (field, value) in pairs {
                to.pair(field, value);
                each(to);
            }
        }
        Value::Zset(members) => {
            to.count(members.len() as u64);
            for (member, score) in members {
                to.scored(member, *score);
                each(to);
            }
        }
    }
    each(to);
}

fn file(entries: &[Entry], compress: bool, pieces: bool) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), true);
    writer.header(10).unwrap();
    let mut encoded = RdbBuffer::new(compress);
    encoded.aux(b"redis-ver", b"7.0.15");
    encoded.select_db(3);
    encoded.resize_db(entries.len() as u64, 0);
    writer.put(&mut encoded).unwrap();
    for entry in entries {
        encode(entry, &mut encoded, |encoded| {
            if pieces {
                writer.put(encoded).unwrap();
            }
        });
        writer.put(&mut encoded).unwrap();
    }
    let len = writer.len();
    let file = writer.end().unwrap();
    assert_eq!(file.len() as u64, len + 9);
    file
}

/// Reads a file, of which nothing is left.
fn read(file: &[u8]) -> Result<Vec<Entry>, varve_rdb::ReadError> {
    let (entries, read) = read_to_end(file)?;
    assert_eq!(read, file.len() as u64);
    Ok(entries)
}

/// Reads a file up to its end, behind which there may be more; its entries, and how many bytes it has.
fn read_to_end(file: &[u8]) -> Result<(Vec<Entry>, u64), varve_rdb::ReadError> {
    let (mut reader, mut entries) = (Reader::new(file), Vec::<Entry>::new());
    loop {
        match reader.next_event()? {
            Event::Key(head) => {
                let value = match head.kind {
                    Kind::String => Value::String(Vec::new()),
                    Kind::List => Value::List(Vec::new()),
                    Kind::Set => Value::Set(Vec::new()),
                    Kind::Hash => Value::Hash(Vec::new()),
                    Kind::Zset => Value::Zset(Vec::new()),
                    Kind::Stream | Kind::Module => continue,
                };
                let (key, access) = (head.key.to_vec(), head.access);
                entries.push(Entry { key, expiry_ms: head.expiry_ms, access, value });
            }
            Event::Part(part) => match (part, &mut entries.last_mut().expect("a key comes first").value) {
                (Part::Whole(text), Value::String(to)) => *to = text.to_vec(),
                (Part::Element(element), Value::List(to) | Value::Set(to)) => to.push(element.to_vec()),
                (Part::Pair(field, value), Value::Hash(to)) => to.push((field.to_vec(), value.to_vec())),
                (Part::DatedPair(field, value, _), Value::Hash(to)) => to.push((field.to_vec(), value.to_vec())),
                (Part::Scored(member, score), Value::Zset(to)) => to.push((member.to_vec(), score)),
                (part, value) => panic!("{part:?} in {value:?}"),
            },
            Event::End => return Ok((entries, reader.offset())),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(entries in vec(entry(), 0..12), compress: bool) {
        let whole = file(&entries, compress, false);
        prop_assert_eq!(&file(&entries, compress, true), &whole);
        prop_assert_eq!(read(&whole).unwrap(), entries);
    }

    #[test]
    fn no_damaged_byte_goes_unseen(entries in vec(entry(), 1..4), at: prop::sample::Index, bit in 0u8..8) {
        let mut damaged = file(&entries, true, false);
        let at = at.index(damaged.len());
        damaged[at] ^= 1 << bit;
        // A changed digit of the version may be another version that is known.
        prop_assert!(read(&damaged).is_err() || (5..9).contains(&at), "byte {}", at);
    }

    #[test]
    fn no_end_too_early_goes_unseen(entries in vec(entry(), 1..4), at: prop::sample::Index) {
        let whole = file(&entries, true, false);
        prop_assert!(read(&whole[..at.index(whole.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_answered(version in 1u16..16, body in vec(any::<u8>(), 0..400)) {
        let mut bytes = format!("REDIS{version:04}").into_bytes();
        bytes.extend_from_slice(&body);
        let _ = read_to_end(&bytes);
    }
}

#[test]
fn values_are_cut_out_and_passed_over() {
    let entries = [
        Entry {
            key: b"a".to_vec(),
            expiry_ms: None,
            access: None,
            value: Value::List(vec![vec![b'x'; 100], b"7".to_vec()]),
        },
        Entry { key: b"b".to_vec(), expiry_ms: Some(5), access: None, value: Value::Zset(vec![(b"m".to_vec(), 1.5)]) },
    ];
    let file = file(&entries, true, false);
    let mut reader = Reader::new(&file[..]);
    let mut raw = b"front".to_vec();
    let number = loop {
        if let Event::Key(head) = reader.next_event().unwrap() {
            break head.type_number;
        }
    };
    reader.raw_value(&mut raw).unwrap();
    let mut value = varve_rdb::ValueReader::new(reader.dialect(), number, &raw[5..]).unwrap();
    assert_eq!(value.next_part().unwrap(), Some(Part::Element(&[b'x'; 100])));
    assert_eq!(value.next_part().unwrap(), Some(Part::Element(b"7")));
    assert_eq!(value.next_part().unwrap(), None);
    assert!(matches!(reader.next_event().unwrap(), Event::Key(head) if head.key == b"b"));
    reader.skip_value().unwrap();
    assert_eq!(reader.next_event().unwrap(), Event::End);
    assert_eq!(reader.next_event().unwrap(), Event::End);
}

#[test]
fn a_file_without_a_checksum_is_read() {
    let mut writer = Writer::new(Vec::new(), false);
    writer.header(10).unwrap();
    let file = writer.end().unwrap();
    assert_eq!(&file[file.len() - 8..], [0; 8]);
    assert_eq!(read(&file).unwrap(), []);
}

#[test]
fn an_error_names_place_type_and_key() {
    let mut writer = Writer::new(Vec::new(), true);
    writer.header(10).unwrap();
    let mut encoded = RdbBuffer::new(false);
    encoded.begin(Kind::Zset, b"scores", None, None);
    encoded.count(1);
    encoded.scored(b"m", f64::NAN);
    writer.put(&mut encoded).unwrap();
    let error = read(&writer.end().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "at byte 28, in the sorted set at key \"scores\": a score is not a number");
    assert_eq!(error.key(), Some(&b"scores"[..]));
}

#[test]
fn an_error_shows_the_front_of_a_long_key() {
    let error = varve_rdb::ReadError::new(varve_rdb::ReadFault::Truncated, 7).of_key(&[b'k'; 1000]);
    assert_eq!(error.to_string(), format!("at byte 7 at key \"{}..\": the bytes end too early", "k".repeat(128)));
}

#[test]
fn a_large_string_is_shown_by_pieces_and_a_short_one_is_cut_out() {
    let noise = |bytes: u32| (0..bytes).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect::<Vec<u8>>();
    let texts = [vec![b'x'; 5000], b"70000".to_vec(), noise(3000), vec![b'y'; 200_000], noise(300_000), Vec::new()];
    let string = |text: &Vec<u8>| {
        let value = Value::String(text.clone());
        Entry { key: b"key".to_vec(), expiry_ms: None, access: None, value }
    };
    for compressed in [false, true] {
        let file = file(&texts.iter().map(string).collect::<Vec<_>>(), compressed, false);
        for large in [1, 5001, 200_000, 1 << 20] {
            let (mut reader, mut found) = (Reader::new(&file[..]), Vec::new());
            while let Some(number) = match reader.next_event().unwrap() {
                Event::Key(head) => Some(Some(head.type_number)),
                Event::End => None,
                _ => Some(None),
            } {
                let Some(number) = number else { continue };
                let mut raw = b"front".to_vec();
                found.push(match reader.raw_unless_large(&mut raw, large).unwrap() {
                    Some(length) => {
                        let mut text = Vec::new();
                        while let Some(piece) = reader.next_piece().unwrap() {
                            text.extend_from_slice(piece);
                        }
                        assert!(raw == b"front" && length >= large && length == text.len() as u64);
                        text
                    }
                    None => {
                        let mut value = varve_rdb::ValueReader::new(reader.dialect(), number, &raw[5..]).unwrap();
                        let Some(Part::Whole(text)) = value.next_part().unwrap() else { panic!("a string is whole") };
                        assert!((text.len() as u64) < large);
                        text.to_vec()
                    }
                });
            }
            assert!(found == texts, "large from {large} bytes on");
        }
        for end in (0..file.len()).step_by(977) {
            let mut reader = Reader::new(&file[..end]);
            let ended = loop {
                match reader.next_event() {
                    Ok(Event::Key(_)) => {
                        let mut result = reader.raw_unless_large(&mut Vec::new(), 100);
                        while let Ok(Some(_)) = result {
                            result = reader.next_piece().map(|piece| piece.map(|piece| piece.len() as u64));
                        }
                        if result.is_err() {
                            break false;
                        }
                    }
                    Ok(Event::End) => break true,
                    Ok(_) => {}
                    Err(_) => break false,
                }
            };
            assert!(!ended, "{end} bytes are not the file");
        }
    }
}
