//! Leaves beside a list of what they hold.

use std::panic::catch_unwind;

use varve_base::rng::Rng;

use super::pair::{LeafField, check as check_pair, pair_size, split};
use super::{LEAF_ELEMENTS_MAX, LeafElement, PackedLeaf, PackedLeafMut, leaf_bytes};
use crate::Full;

/// A leaf in a buffer, and its elements.
struct Model {
    buf: Vec<u8>,
    elements: Vec<(u8, Owned)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Here(Vec<u8>),
    Elsewhere(u64),
}

impl Owned {
    fn of(element: LeafElement<'_>) -> Owned {
        match element {
            LeafElement::Here(bytes) => Owned::Here(bytes.to_vec()),
            LeafElement::Elsewhere(number) => Owned::Elsewhere(number),
        }
    }

    fn size(&self) -> usize {
        match self {
            Owned::Here(bytes) => bytes.len(),
            Owned::Elsewhere(_) => 8,
        }
    }

    /// The size that its sizes must be able to hold.
    fn wide_as(&self) -> usize {
        match self {
            Owned::Here(bytes) => bytes.len(),
            Owned::Elsewhere(_) => 256,
        }
    }
}

impl Model {
    fn new(bytes: usize) -> Model {
        let mut buf = vec![0xa5; bytes];
        PackedLeafMut::init(&mut buf).expect("room for a head");
        Model { buf, elements: Vec::new() }
    }

    fn compare(&self) {
        let leaf = PackedLeaf::check(&self.buf).expect("a sound leaf");
        assert_eq!(leaf.len(), self.elements.len());
        assert_eq!(leaf.bytes(), self.elements.iter().map(|(_, e)| e.size()).sum::<usize>());
        assert!(leaf.iter().map(|(tag, e)| (tag, Owned::of(e))).eq(self.elements.iter().cloned()));
        for (index, (_, element)) in self.elements.iter().enumerate() {
            assert_eq!(Owned::of(leaf.nth(index)), *element);
        }
        let longest = self.elements.iter().map(|(_, e)| e.wide_as()).max().unwrap_or(0);
        assert_eq!(leaf.copied_bytes(), leaf_bytes(leaf.len(), leaf.bytes(), longest));
    }

    /// Does `change` with a buffer that has just the bytes that it needs, if it needs more.
    fn grow(&mut self, change: impl Fn(&mut PackedLeafMut<'_>) -> Result<(), Full>) {
        let before = self.buf.clone();
        let Err(Full { needed }) = change(&mut PackedLeafMut::open(&mut self.buf)) else { return };
        assert_eq!(self.buf, before, "a refusal changes nothing");
        assert!(needed > self.buf.len() && needed != usize::MAX, "{needed} of {} bytes", self.buf.len());
        let mut larger = vec![0x5a; needed];
        PackedLeaf::open(&self.buf).copy_into(&mut larger).expect("it fits");
        self.buf = larger;
        change(&mut PackedLeafMut::open(&mut self.buf)).expect("it has what it asked for");
    }
}

fn random_element(rng: &mut Rng, longest: u64) -> Vec<u8> {
    let len = if rng.below(8) == 0 { rng.below(longest + 1) } else { rng.below(12) };
    (0..len).map(|_| rng.below(3) as u8).collect()
}

#[test]
fn leaves_do_as_lists_do() {
    for seed in 0..60 {
        let mut rng = Rng::seeded(seed);
        let mut model = Model::new(4 + rng.below(64) as usize);
        let longest = [10, 255, 256, 700][seed as usize % 4];
        for _ in 0..400 {
            let (element, tag) = (random_element(&mut rng, longest), rng.below(6) as u8);
            let count = model.elements.len() as u64;
            match rng.below(10) {
                0..=4 if count < 120 => {
                    let cut = rng.below(element.len() as u64 + 1) as usize;
                    model.grow(|leaf| leaf.push(tag, &[&element[..cut], &[], &element[cut..]]));
                    model.elements.push((tag, Owned::Here(element)));
                }
                5 if seed % 8 == 7 && count < 120 => {
                    let number = rng.next_u64();
                    model.grow(|leaf| leaf.push_elsewhere(tag, number));
                    model.elements.push((tag, Owned::Elsewhere(number)));
                }
                5..=6 if count > 0 => {
                    let index = rng.below(count) as usize;
                    if seed % 8 == 7 && rng.below(4) == 0 {
                        model.grow(|leaf| leaf.replace_elsewhere(leaf.leaf().pos(index), 77));
                        model.elements[index].1 = Owned::Elsewhere(77);
                        continue;
                    }
                    model.grow(|leaf| leaf.replace(leaf.leaf().pos(index), &[&element]));
                    model.elements[index].1 = Owned::Here(element);
                }
                7..=8 if count > 0 => {
                    let index = rng.below(count) as usize;
                    let mut leaf = PackedLeafMut::open(&mut model.buf);
                    leaf.remove(leaf.leaf().pos(index));
                    model.elements.remove(index);
                }
                _ => {
                    let leaf = PackedLeaf::open(&model.buf);
                    let mut copy = vec![0xee; leaf.copied_bytes() + rng.below(9) as usize];
                    leaf.copy_into(&mut copy).expect("it fits");
                    model.buf = copy;
                }
            }
            model.compare();
            let leaf = PackedLeaf::open(&model.buf);
            let found = leaf.find(tag, |e| Owned::of(e).size() > 3).map(|pos| pos.index());
            assert_eq!(found, model.elements.iter().position(|(t, e)| *t == tag && e.size() > 3));
        }
    }
}

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
fn damage_is_found() {
    let mut model = Model::new(64);
    model.grow(|leaf| leaf.push(7, &[b"seven"]));
    model.grow(|leaf| leaf.push(8, &[b"eight"]));
    for (at, what) in [(1, "no count"), (2, "the sizes are not"), (3, "more elements than bytes"), (6, "the sizes")] {
        let mut buf = model.buf.clone();
        buf[at] ^= 0x10;
        let fault = PackedLeaf::check(&buf).expect_err("damage");
        assert!(fault.what.starts_with(what), "{at}: {fault:?}");
    }
    assert_eq!(PackedLeaf::check(&[0; 3]).expect_err("too short").what, "no head");
    assert!(catch_unwind(|| PackedLeaf::open(&[2, 0, 9, 0, 1]).len()).is_err(), "elements beyond the buffer");
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
        for (m, other) in texts.iter().enumerate() {
            assert_eq!(LeafField::of(other).is_of(&element), other == field, "{n} and {m}");
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
