//! Forms and bounds of entries and headers, slides, damage. The operations are tested against a model in
//! `tests/packed.rs`.

use super::entry::{check_at, entry_at, size_at, size_before};
use super::header::{Form, Header};
use super::walk;
use super::{
    Coded, CompressedNode, Compressor, Encoded, Grow, Node, NodeMut, PackedEntry, Short, buffer_bytes, compress_bound,
    expand, is_compressed,
};
use crate::Full;
use varve_base::rng::Rng;

fn written(coded: &Coded<'_>) -> Vec<u8> {
    let mut bytes = vec![0x55; coded.size()];
    coded.write(&mut bytes);
    bytes
}

/// The entry reads back from both ends and passes the check; returns its size.
fn round_trip(coded: &Coded<'_>, entry: PackedEntry<'_>) -> usize {
    let bytes = [&[0xaa; 3][..], &written(coded), &[0xbb; 3]].concat();
    let (size, end) = (coded.size(), 3 + coded.size());
    assert_eq!(size_at(&bytes, 3), size, "{entry:?}");
    assert_eq!(size_before(&bytes, end), size, "{entry:?}");
    assert_eq!(entry_at(&bytes, 3), entry);
    assert_eq!(check_at(&bytes, 3, end), Ok(size), "{entry:?}");
    assert!(coded.is_at(&bytes, 3));
    for cut in 0..size.min(20) {
        assert!(check_at(&bytes, 3, 3 + cut).is_err(), "{entry:?} cut to {cut}");
    }
    size
}

#[test]
fn strings_of_every_length_form() {
    let data = vec![b'x'; 70_000];
    for (len, size) in [
        (0, 2),
        (1, 3),
        (63, 65),
        (64, 67),
        (110, 113),
        (111, 115),
        (3694, 3698),
        (3695, 3700),
        (4095, 4100),
        (4096, 4104),
        (65_530, 65_538),
        (65_531, 65_541),
        (70_000, 70_010),
    ] {
        let text = &data[..len];
        assert_eq!(round_trip(&Coded::of(text), PackedEntry::Bytes(text)), size, "{len} bytes");
    }
}

#[test]
fn integers_of_every_form() {
    for (value, size) in [
        (0, 1),
        (127, 1),
        (128, 3),
        (-1, 3),
        (4095, 3),
        (-4096, 3),
        (4096, 4),
        (-4097, 4),
        (i64::from(i16::MAX), 4),
        (i64::from(i16::MAX) + 1, 5),
        ((1 << 23) - 1, 5),
        (1 << 23, 6),
        (i64::from(i32::MIN), 6),
        (i64::from(i32::MIN) - 1, 7),
        (1 << 39, 8),
        (1 << 47, 9),
        ((1 << 55) - 1, 9),
        (1 << 55, 10),
        (i64::MAX, 10),
        (i64::MIN, 10),
    ] {
        let text = value.to_string();
        assert_eq!(round_trip(&Coded::of(text.as_bytes()), PackedEntry::Int(value)), size, "{value}");
        assert_eq!(PackedEntry::Int(value).text(&mut [0; 20]), text.as_bytes());
        assert_eq!(PackedEntry::Int(value).text_len(), text.len());
        round_trip(&Coded::raw(text.as_bytes()), PackedEntry::Bytes(text.as_bytes()));
    }
}

#[test]
fn only_canonical_text_is_an_integer() {
    for text in ["", "007", "-0", "+1", " 1", "1 ", "9223372036854775808", "1e3", "-", "--1"] {
        round_trip(&Coded::of(text.as_bytes()), PackedEntry::Bytes(text.as_bytes()));
    }
}

#[test]
fn every_width_of_integer_is_the_least() {
    for bits in 0..64 {
        for value in [1i64 << bits, (1i64 << bits).wrapping_sub(1), -(1i64 << (bits % 63)), !(1i64 << bits)] {
            round_trip(&Coded::int(value), PackedEntry::Int(value));
        }
    }
}

#[test]
fn a_larger_buffer_never_has_less_room() {
    for around in [255usize, 65_535] {
        let room = |len: usize| len.min(Form::for_buffer(len).limit()) - Form::for_buffer(len).header_bytes();
        for len in around - 10..around + 20 {
            assert!(room(len) <= room(len + 1), "{len}");
            let needed = buffer_bytes(room(len));
            assert!(needed <= len && room(needed) >= room(len), "{len}");
        }
    }
}

#[test]
fn headers_read_back() {
    for (form, start, end, count) in [
        (Form::Tiny, 3, 255, 252),
        (Form::Small, 7, 65_535, 65_528),
        (Form::Small, 300, 300, 0),
        (Form::Large, 13, 70_000, 69_000),
    ] {
        let mut buf = vec![0; 70_000];
        let header = Header { form, start, end, count };
        header.write(&mut buf);
        assert_eq!(Header::read(&buf), header);
        assert_eq!(Header::check(&buf), Ok(header));
    }
}

fn node_of(buf: &mut [u8], texts: &[&str]) {
    let mut node = NodeMut::init(buf, Grow::Back).unwrap();
    texts.iter().for_each(|text| node.push_back(&Coded::of(text.as_bytes())).unwrap());
}

fn texts(node: Node<'_>) -> Vec<String> {
    let mut scratch = [0; 20];
    node.iter().map(|entry| String::from_utf8(entry.text(&mut scratch).to_vec()).unwrap()).collect()
}

#[test]
fn a_slide_gives_the_end_that_asks_three_quarters() {
    let mut buf = [0; 203];
    node_of(&mut buf, &["abc"]);
    let mut node = NodeMut::open(&mut buf);
    assert_eq!((node.node().front_room(), node.node().back_room()), (0, 195));
    node.push_front(&Coded::of(b"def")).unwrap();
    assert_eq!((node.node().front_room(), node.node().back_room()), (142, 48));
    assert_eq!(texts(node.node()), ["def", "abc"]);
}

#[test]
fn a_node_outgrows_its_header_in_place() {
    let mut buf = vec![0; 300];
    node_of(&mut buf[..200], &["some", "few", "entries"]);
    let mut node = NodeMut::open(&mut buf);
    assert_eq!(node.node().head.form, Form::Tiny);
    let room = node.node().room();
    let long = vec![b'y'; 40];
    while node.push_back(&Coded::of(&long)).is_ok() {}
    assert_eq!(node.node().head.form, Form::Small);
    assert_eq!(node.node().len(), 3 + room / 42);
    node.node().verify();
    assert_eq!(node.push_front(&Coded::of(&long)), Err(Full { needed: node.node().needed_bytes(42) }));
}

#[test]
fn a_node_cut_behind_its_entries_is_still_one() {
    let mut buf = vec![0; 1000];
    node_of(&mut buf, &["a", "b", "12345"]);
    buf.truncate(Node::open(&buf).used());
    assert_eq!(texts(Node::check(&buf).unwrap()), ["a", "b", "12345"]);
    let mut node = NodeMut::open(&mut buf);
    assert!(node.node().room() < 5);
    assert!(node.push_back(&Coded::of(b"more")).is_err());
    assert_eq!(node.pop_front(), Some(PackedEntry::Bytes(b"a")));
    node.push_back(&Coded::int(7)).unwrap();
    assert_eq!(texts(node.node()), ["b", "12345", "7"]);
}

#[test]
fn pairs_are_searched_by_field() {
    let mut buf = [0; 100];
    node_of(&mut buf, &["f", "g", "g", "1", "h", "g"]);
    let node = Node::open(&buf);
    let first = node.first().unwrap();
    let field = |text: &'static str, stride| node.find(&Coded::of(text.as_bytes()), first, stride).map(|(_, n)| n);
    assert_eq!([field("f", 2), field("g", 2), field("h", 2), field("1", 2)], [Some(0), Some(2), Some(4), None]);
    assert_eq!([field("g", 1), field("1", 1), field("no", 1)], [Some(1), Some(3), None]);
    assert_eq!(node.rfind(&Coded::of(b"f"), node.last().unwrap()), Some((first, 5)));
    assert_eq!(node.rfind(&Coded::of(b"no"), node.last().unwrap()), None);
}

#[test]
fn damage_is_found() {
    for (bytes, what) in [
        (&[][..], "no bytes"),
        (&[2, 0, 0], "a compressed node"),
        (&[0, 7, 0, 7, 0, 0], "the header is cut off"),
        (&[3, 2, 0], "the entries start or end too early"),
        (&[0, 3, 0, 7, 0, 0, 0], "the entries start or end too early"),
        (&[3, 9, 0, 1], "the entries end too late"),
        (&[3, 4, 2, 1], "the count is not that of the entries"),
        (&[3, 5, 1, 1, 1], "the count is not that of the entries"),
        (&[3, 4, 1, 0xff], "no entry starts so"),
        (&[3, 4, 1, 0xf0], "the head reaches past the end"),
        (&[3, 5, 1, 0x82, b'a'], "the entry reaches past the end"),
        (&[3, 6, 1, 0xc0, 5, 0x81], "not the shortest form"),
        (&[3, 6, 1, 0xe0, 0, 0x81], "not the shortest form"),
        (&[3, 6, 1, 0x81, b'a', 0x80], "the back length is not the entry's"),
    ] {
        assert_eq!(Node::check(bytes).unwrap_err().what, what, "{bytes:x?}");
    }
}

#[test]
fn compression_keeps_what_it_is_worth() {
    let mut buf = vec![0; 8000];
    let mut node = NodeMut::init(&mut buf, Grow::Back).unwrap();
    let mut out = vec![0; compress_bound(8000)];
    let mut compressor = Compressor::default();
    assert_eq!(compressor.compress(node.node(), &mut out), None);
    for i in 0..100 {
        node.push_back(&Coded::of(format!("a value much like the others: {i}").as_bytes())).unwrap();
    }
    let size = compressor.compress(node.node(), &mut out).expect("worth it");
    assert!(is_compressed(&out) && !is_compressed(&buf));
    let node = Node::open(&buf);
    let compressed = CompressedNode::open(&out[..size]).unwrap();
    assert_eq!((compressed.len(), compressed.bytes()), (100, node.bytes()));
    assert!(size < node.bytes() / 2);
    for grow in [Grow::Front, Grow::Back, Grow::Both] {
        let mut again = vec![0; 6000];
        expand(compressed, &mut again, grow).unwrap();
        assert!(Node::check(&again).unwrap().iter().eq(node.iter()));
    }
    let mut tight = vec![0; node.needed_bytes(0)];
    expand(compressed, &mut tight, Grow::Both).unwrap();
    assert!(Node::check(&tight).unwrap().iter().eq(node.iter()));
    tight.pop();
    assert!(expand(compressed, &mut tight, Grow::Both).is_err());
    assert!(CompressedNode::open(&out[..9]).is_err());
    let cut = CompressedNode::open(&out[..size - 1]).unwrap();
    assert!(expand(cut, &mut vec![0; 6000], Grow::Both).is_err());
    for wrong in [node.bytes() - 1, node.bytes() + 1] {
        out[5..9].copy_from_slice(&(wrong as u32).to_le_bytes());
        assert!(expand(CompressedNode::open(&out[..size]).unwrap(), &mut vec![0; 6000], Grow::Both).is_err());
    }
}

/// A node in `buf` whose entries, of two bytes each, fill it.
fn full_of_pairs_of_bytes(buf: &mut [u8], many: usize) {
    let mut node = NodeMut::init(buf, Grow::Back).unwrap();
    (0..many).for_each(|i| node.push_back(&Coded::int(i as i64 % 100)).unwrap());
}

#[test]
fn a_slide_under_a_wider_header_moves_the_back_part_first() {
    let mut buf = vec![0; 300];
    full_of_pairs_of_bytes(&mut buf[..255], 252);
    let mut node = NodeMut::open(&mut buf);
    assert_eq!((node.node().front_room(), node.node().back_room(), node.node().room()), (0, 0, 41));
    let place = node.node().nth(100).unwrap();
    node.insert_before(place, &Coded::of(b"eighteen bytes long")).unwrap();
    node.node().verify();
    let mut wanted: Vec<String> = (0..252).map(|i| (i % 100).to_string()).collect();
    wanted.insert(100, "eighteen bytes long".into());
    assert_eq!(texts(node.node()), wanted);
}

#[test]
fn a_slide_under_a_narrower_header_moves_the_front_part_first() {
    let mut buf = vec![0; 300];
    full_of_pairs_of_bytes(&mut buf, 251);
    buf.truncate(258);
    let mut node = NodeMut::open(&mut buf);
    assert_eq!((node.node().front_room(), node.node().back_room(), node.node().room()), (0, 0, 1));
    let place = node.node().nth(100).unwrap();
    node.insert_before(place, &Coded::int(77)).unwrap();
    node.node().verify();
    let mut wanted: Vec<String> = (0..251).map(|i| (i % 100).to_string()).collect();
    wanted.insert(100, "77".into());
    assert_eq!(texts(node.node()), wanted);
}

#[test]
fn the_longer_part_moves_where_only_its_end_has_room() {
    let mut buf = vec![0; 40];
    let mut node = NodeMut::init(&mut buf, Grow::Front).unwrap();
    (0..9).for_each(|i| node.push_front(&Coded::int(i)).unwrap());
    let last = node.node().last().unwrap();
    node.insert_before(last, &Coded::of(b"x")).unwrap();
    assert_eq!((node.node().front_room(), node.node().back_room()), (25, 0));
    assert_eq!(texts(node.node()), ["8", "7", "6", "5", "4", "3", "2", "1", "x", "0"]);
}

/// Nodes of one size or of pairs of two, with others strewn in: what the walks guess and must not believe.
#[test]
fn guessing_walks_agree_with_plain_ones() {
    let seed = std::env::var("VARVE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed);
    println!("VARVE_SEED={seed}");
    let mut rng = Rng::seeded(seed);
    for _ in 0..1000 {
        let sizes = [1 + rng.below(9), 1 + rng.below(9)].map(|size| size as usize);
        let (odd, many) = (rng.below(12), 1 + rng.below(30) as usize);
        // Bytes that look like heads and back lengths to a walk that has lost its way.
        let filler = [b'q', 1, 0x80 + sizes[0] as u8, 0x80 + sizes[1] as u8][rng.below(4) as usize];
        let mut buf = vec![0; 8000];
        let mut node = NodeMut::init(&mut buf, Grow::Both).unwrap();
        for i in 0..many {
            let len = if rng.below(12) < odd / 3 { rng.below(90) as usize } else { sizes[i % 2] };
            // Few different texts, so that many are alike in all but one byte somewhere.
            let mut text = vec![filler; len];
            if len > 0 {
                text[rng.below(len as u64) as usize] = b'a' + rng.below(3) as u8;
            }
            let small = len == 1 && filler == 1;
            node.push_back(&if small { Coded::int(1) } else { Coded::of(&text) }).unwrap();
        }
        compare_walks(node.node());
    }
}

fn compare_walks(node: Node<'_>) {
    let (buf, start, end) = (&node.buf[..node.head.end], node.head.start, node.head.end);
    let mut offsets = vec![start];
    while offsets[offsets.len() - 1] < end {
        let at = offsets[offsets.len() - 1];
        offsets.push(at + size_at(buf, at));
    }
    for (i, &from) in offsets.iter().enumerate() {
        for (j, &to) in offsets.iter().enumerate().skip(i) {
            assert_eq!(walk::forward(buf, from, j - i), to);
            assert_eq!(walk::backward(buf, to, start, j - i), from);
        }
    }
    let entries: Vec<PackedEntry<'_>> = node.iter().collect();
    for wanted in &entries {
        for stride in 1..4 {
            for (from, &at) in offsets.iter().enumerate() {
                let found = (from..entries.len()).step_by(stride).find(|&i| entries[i] == *wanted);
                let found = found.map(|i| (offsets[i], i - from));
                assert_eq!(walk::find(buf, &wanted.coded(), at, stride), found);
            }
        }
    }
}

#[test]
fn short_strings_are_written_as_coded_ones() {
    let texts: [&[u8]; 9] =
        [b"", b"x", b"xxx", b"-", b"-x1", b"12a", b"element:000000012345", &[b'y'; 33], &[b'z'; 63]];
    for text in texts {
        let short = Short::of(text).expect("a short string");
        let coded = Coded::of(text);
        assert_eq!(Encoded::size(&short), coded.size());
        let mut written = [vec![0; coded.size()], vec![0; coded.size()]];
        Encoded::write(&short, &mut written[0]);
        Encoded::write(&coded, &mut written[1]);
        assert_eq!(written[0], written[1]);
    }
    let others: [&[u8]; 5] = [b"0", b"-7", b"123456", b"9223372036854775807", &[b'z'; 64]];
    assert!(others.iter().all(|text| Short::of(text).is_none()));
}

/// Every sequence of four operations with three entries of one, two and many bytes, in a buffer that is often too small,
/// against a list.
#[test]
fn every_short_history() {
    const STEPS: u32 = 4;
    const OPS: u32 = 15;
    let texts: [&[u8]; 3] = [b"7", b"x", &[b'y'; 70]];
    for history in 0..OPS.pow(STEPS) {
        let mut buf = vec![0; buffer_bytes(145)];
        let mut node = NodeMut::init(&mut buf, Grow::Both).unwrap();
        let mut model: Vec<&[u8]> = vec![];
        for step in 0..STEPS {
            let op = history / OPS.pow(step) % OPS;
            let (text, kind) = (texts[op as usize % 3], op / 3);
            let coded = Coded::of(text);
            let fits = node.node().room() >= coded.size();
            let middle = node.node().nth(model.len() / 2);
            let done = match (kind, middle) {
                (0, _) => node.push_front(&coded).is_ok().then(|| model.insert(0, text)),
                (1, _) => node.push_back(&coded).is_ok().then(|| model.push(text)),
                (2, Some(place)) => {
                    node.insert_before(place, &coded).is_ok().then(|| model.insert(model.len() / 2, text))
                }
                (3, Some(place)) => {
                    node.remove(place);
                    model.remove(model.len() / 2);
                    Some(())
                }
                (4, _) => {
                    assert_eq!(node.pop_back().is_some(), !model.is_empty());
                    model.pop();
                    Some(())
                }
                _ => Some(()),
            };
            let adds = kind < 2 || (kind == 2 && middle.is_some());
            assert!(!adds || done.is_some() == fits, "history {history}, step {step}: what fits is added");
            node.node().verify();
            let mut scratch = [0; 20];
            let found: Vec<Vec<u8>> = node.node().iter().map(|entry| entry.text(&mut scratch).to_vec()).collect();
            assert!(found.iter().eq(model.iter()), "history {history}, step {step}");
            assert!(node.node().iter().rev().count() == model.len());
        }
    }
}
