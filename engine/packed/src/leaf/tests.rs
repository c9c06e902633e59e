//! Leaves at their limits, and pairs. Leaves beside a list of what they hold: `tests/leaves.rs`.

use varve_base::rng::Rng;

use super::pair::{LeafField, PAIR_EXPIRY_MAX, check as check_pair, expiry_ms, pair_size, split};
use super::{LEAF_ELEMENTS_MAX, PackedLeafMut};
use crate::Full;

#[test]
fn a_leaf_says_what_a_push_needs() {
    let mut buf = vec![0; 4];
    let mut leaf = PackedLeafMut::init(&mut buf).expect("a head");
    assert_eq!(leaf.push(1, &[b"abc"]), Err(Full { needed: 4 + 2 + 3 }));
    assert_eq!(leaf.leaf().needed_to_push(300), Some(4 + 3 + 300));
    assert_eq!(leaf.leaf().needed_to_push(32_768), None);
    assert_eq!(leaf.push(1, &[&[0; 32_768]]), Err(Full { needed: usize::MAX }));
    assert_eq!(PackedLeafMut::init(&mut [0; 3]).err(), Some(Full { needed: 4 }));
    let mut full = vec![0; 4 + 3 * LEAF_ELEMENTS_MAX];
    let mut leaf = PackedLeafMut::init(&mut full).expect("a head");
    for n in 0..LEAF_ELEMENTS_MAX {
        leaf.push(n as u8, &[b"x"]).expect("room");
    }
    assert_eq!(leaf.push(0, &[b""]), Err(Full { needed: usize::MAX }), "as many elements as a leaf may have");
    leaf.leaf().verify();
}

#[test]
fn pairs_read_back() {
    let mut rng = Rng::seeded(3);
    let mut texts: Vec<Vec<u8>> = [0i64, 9, -1, 127, 128, -128, 32_768, i64::MAX, i64::MIN, 1 << 31]
        .iter()
        .map(|value| value.to_string().into_bytes())
        .collect();
    texts.extend(["", "-", "-0", "007", "1.5", "x", "99999999999999999999"].map(|text| text.as_bytes().to_vec()));
    texts.extend([29, 30, 31, 255, 256, 5000].map(|len| vec![b'y'; len]));
    texts.extend((0..200).map(|_| (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes()));
    for (n, field) in texts.iter().enumerate() {
        let value = &texts[rng.below(texts.len() as u64) as usize];
        let coded = LeafField::of(field);
        let element = coded.with_value(value, |parts| parts.concat());
        assert_eq!(element.len(), pair_size(field, value));
        check_pair(&element).expect("a pair as it is written");
        let (f, v) = split(&element);
        assert_eq!((f.text(&mut [0; 20]), v.text(&mut [0; 20])), (&field[..], &value[..]));
        let until = [0, 1, 1 << 40, PAIR_EXPIRY_MAX][n % 4];
        let dated = coded.with_expiring(value, until, |parts| parts.concat());
        check_pair(&dated).expect("a pair that expires as it is written");
        assert_eq!((split(&dated), dated.len()), ((f, v), element.len() + 6));
        assert_eq!((expiry_ms(&element), expiry_ms(&dated)), (None, Some(until)));
        for (m, other) in texts.iter().enumerate() {
            assert_eq!(LeafField::of(other).is_of(&element), other == field, "{n} and {m}");
            assert_eq!(LeafField::of(other).is_of(&dated), other == field, "{n} and {m}");
        }
        assert!(field.len() + value.len() + 3 >= element.len(), "no text is longer than it was");
    }
}

#[test]
fn damaged_pairs_are_found() {
    for (bytes, what) in [
        (&b""[..], "an element without a head"),
        (&[30], "the head reaches past the element"),
        (&[3, b'a'], "the field reaches past the element"),
        (&[2, b'1', b'2'], "an integer that is kept as a text"),
        (&[0x83, 1, 2, 3], "an integer of no width"),
        (&[0x82, 12, 0], "not the shortest form"),
        (&[0x81, 5], "not the shortest form"),
        (&[30, 1, b'a'], "not the shortest head"),
    ] {
        assert_eq!(check_pair(bytes), Err(what), "{bytes:?}");
    }
}
