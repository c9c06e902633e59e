//! Every width of every field, against the plain meaning.

use proptest::prelude::*;

use super::*;
use crate::kind::SegmentClass;

/// All kinds but the bare one.
const KINDS: [ObjectKind; 13] = {
    let mut kinds = [ObjectKind::key(1); 13];
    let mut at = 0;
    while at < 13 {
        kinds[at] = match at as u8 + 1 {
            key @ 1..=7 => ObjectKind::key(key),
            part @ 8..=10 => ObjectKind::part(part),
            before => ObjectKind::part(before + 1),
        };
        at += 1;
    }
    kinds
};

/// All tags.
const TAGS: [ObjectTag; 4] = [ObjectTag::new(0), ObjectTag::new(1), ObjectTag::new(2), ObjectTag::new(3)];

fn key_object<'a>(key: &'a [u8], value: &'a [u8]) -> NewObject<'a> {
    NewObject::new(ObjectKind::key(1), Owner::Database(0), key, value)
}

/// Writes into a buffer of exactly the object's size, so that the address sanitizer sees any read past its end.
fn written(plan: &Plan, o: &NewObject<'_>) -> Box<[u8]> {
    let mut bytes = vec![0xa5; plan.size()].into_boxed_slice();
    // SAFETY: the buffer has the plan's size.
    unsafe { plan.write(bytes.as_mut_ptr(), o, false) };
    bytes
}

fn value_of(place: ObjectPtr) -> Vec<u8> {
    // SAFETY: an object that this test wrote.
    unsafe {
        let first = place.first();
        let at = place.value_at(&first);
        let len = first.size() - place.slack(&first) - at;
        std::slice::from_raw_parts(place.0.add(at), len).to_vec()
    }
}

fn bare(number: u32, key: &[u8]) -> NewObject<'_> {
    NewObject { kind: ObjectKind::BARE, owner: Owner::Collection(number), ..key_object(key, b"") }
}

fn check(place: ObjectPtr, o: &NewObject<'_>, value: &[u8]) {
    // SAFETY: an object that this test wrote.
    unsafe {
        let first = place.first();
        assert_eq!(first.kind(), o.kind);
        assert_eq!(place.owner(&first), o.owner);
        assert_eq!(place.key(&first), o.key);
        assert_eq!(place.expiry_ms(&first), o.expiry_ms);
        assert_eq!(place.clock(&first), if o.kind.is_key() { o.clock & 0xff_ffff } else { 0 });
        assert_eq!(place.tag(&first), o.tag);
        assert_eq!(first.size() - place.value_at(&first), o.room);
        assert!(!place.is_dead(&first) && place.saved(&first) == o.saved);
    }
    assert!(value_of(place) == value, "the value came back different");
}

#[test]
fn every_width_of_every_field() {
    let keys = [0, 1, 16, 255, 256, 70_000].map(|len| vec![b'k'; len]);
    let values = [0usize, 1, 100, 244, 251, 4000, 4096, 65_000, 65_536, 0xff_fff0, 0x100_0010];
    let extras = [0usize, 1, 3, 4, 5, 255, 256, 300, 70_000];
    let expiries =
        [None, Some(0), Some(1_700_000_000_000), Some((1 << 48) - 1), Some(1 << 48), Some(-5), Some(i64::MIN)];
    for (n, kind) in KINDS.into_iter().enumerate() {
        let owners = match kind.is_key() {
            true => [0, 1, 2, 255, u16::MAX].map(Owner::Database),
            false => [
                Owner::Collection(0),
                Owner::Collection(7),
                Owner::Collection(0xffff),
                Owner::Collection(0x1_0000),
                Owner::Collection(u32::MAX),
            ],
        };
        for (v, &len) in values.iter().enumerate() {
            let value: Vec<u8> = (0..len).map(|i| i as u8).collect();
            for (e, &extra) in extras.iter().enumerate() {
                // Everything meets everything else somewhere; the large values only a few times.
                if len > 1 << 20 && (n + v + e) % 9 != 0 {
                    continue;
                }
                let o = NewObject {
                    kind,
                    owner: owners[(v + e) % 5],
                    key: &keys[(n + v + e) % 6],
                    value: NewValue::Bytes(&value),
                    room: len + extra,
                    expiry_ms: expiries[(n + 2 * v + 3 * e) % 7],
                    clock: 0x12_3456 + (n as u32) * 0x0fff_ffff,
                    tag: TAGS[(n + e) % 4],
                    saved: (n + v + e) % 2 == 1,
                    class: SegmentClass::Ordinary,
                };
                let mut bytes = written(&Plan::new(&o), &o);
                check(ObjectPtr(bytes.as_mut_ptr()), &o, &value);
            }
        }
    }
}

#[test]
fn every_width_of_a_bare() {
    for number in [0, 1, 255, 256, 0xffff, 0x1_0000, u32::MAX] {
        for len in [0, 1, 16, 255, 256, 70_000] {
            let key = vec![b'm'; len];
            for tag in TAGS {
                let o = NewObject { tag, clock: 77, ..bare(number, &key) };
                let mut bytes = written(&Plan::new(&o), &o);
                let place = ObjectPtr(bytes.as_mut_ptr());
                check(place, &o, b"");
                assert_eq!(
                    bytes.len(),
                    1 + if number < 65_536 { 2 } else { 4 } + if len < 256 { 1 } else { 4 } + len + 1
                );
                // SAFETY: an object that this test wrote and has alone.
                unsafe {
                    let first = place.first();
                    assert!(matches!(place.item(), Item::Object(other) if other.size() == bytes.len()));
                    assert_eq!((first.room, place.slack(&first)), (1, 0));
                    assert_eq!(
                        (place.set_expiry_ms(&first, Some(9)), place.set_expiry_ms(&first, None)),
                        (None, Some(0))
                    );
                    place.set_saved(&first, true);
                    assert!(place.saved(&first) && !place.is_dead(&first));
                    place.set_saved(&first, false);
                }
                check(place, &o, b"");
            }
        }
    }
}

#[test]
#[should_panic(expected = "neither value nor expiry")]
fn a_bare_part_has_no_room() {
    Plan::new(&NewObject { room: 1, ..bare(1, b"m") });
}

#[test]
fn a_short_key_costs_seven_bytes() {
    let o = key_object(b"key:0000000000001", b"value");
    assert_eq!(Plan::new(&o).size(), 7 + 17 + 5);
    let volatile = NewObject { expiry_ms: Some(1_700_000_000_000), ..o };
    assert_eq!(Plan::new(&volatile).size(), 13 + 17 + 5);
    let part = NewObject { kind: ObjectKind::part(8), owner: Owner::Collection(3), ..o };
    assert_eq!(Plan::new(&part).size(), 6 + 17 + 5);
    assert_eq!(Plan::new(&NewObject { owner: Owner::Collection(65_536), ..part }).size(), 8 + 17 + 5);
    assert_eq!(Plan::new(&bare(3, b"0123456789abcdef")).size(), 21);
}

#[test]
fn fillers_of_all_lengths() {
    for len in (1..2000).chain([65_000, 65_537, 65_538, 65_539, 65_540, 1 << 24, (1 << 24) + 3, (1 << 24) + 4]) {
        let mut bytes = vec![0u8; len].into_boxed_slice();
        let place = ObjectPtr(bytes.as_mut_ptr());
        // SAFETY: the buffer has that length.
        let item = unsafe {
            place.write_filler(len);
            place.item()
        };
        assert!(matches!(item, Item::Filler(found) if found == len), "{item:?} of {len}");
    }
}

#[test]
#[should_panic(expected = "no object")]
fn zeroed_memory_is_no_object() {
    let mut bytes = [0u8; 16];
    // SAFETY: the first part of a head of 0 is shorter than this.
    unsafe { ObjectPtr(bytes.as_mut_ptr()).item() };
}

#[derive(Clone, Debug)]
enum Change {
    Expiry(Option<i64>),
    Slack(usize),
    Clock(u32),
    Tag(ObjectTag),
    Saved(bool),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        prop_oneof![Just(None), (0..1i64 << 48).prop_map(Some), any::<i64>().prop_map(Some)].prop_map(Change::Expiry),
        (0..600usize).prop_map(Change::Slack),
        any::<u32>().prop_map(Change::Clock),
        prop::sample::select(&TAGS[..]).prop_map(Change::Tag),
        any::<bool>().prop_map(Change::Saved),
    ]
}

proptest! {
    /// Changes in place leave everything else as it was.
    #[test]
    fn changes_in_place(
        key in prop::collection::vec(any::<u8>(), 0..300),
        value in prop::collection::vec(any::<u8>(), 0..600),
        extra in 0..600usize,
        big in any::<bool>(),
        expiry in prop::option::of(0..1i64 << 50),
        changes in prop::collection::vec(change(), 1..20),
    ) {
        let room = value.len() + extra + if big { PLACE_FROM } else { 0 };
        let o = NewObject { room, expiry_ms: expiry, ..key_object(&key, &value) };
        let mut bytes = written(&Plan::new(&o), &o);
        let place = ObjectPtr(bytes.as_mut_ptr());
        let (mut value, mut expiry, mut clock, mut tag, mut saved) = (value.clone(), expiry, 0, TAGS[0], false);
        for change in changes {
            // SAFETY: an object that this test wrote and has alone.
            unsafe {
                let first = place.first();
                let slack = place.slack(&first);
                match change {
                    Change::Expiry(to) => match place.set_expiry_ms(&first, to) {
                        Some(grown) => {
                            expiry = to;
                            prop_assert_eq!(place.slack(&first) as isize, slack as isize - grown);
                        }
                        None => prop_assert!(slack < 8 && room < PLACE_FROM),
                    },
                    Change::Slack(to) => {
                        let room = first.size() - place.value_at(&first);
                        let to = to.min(room);
                        place.set_slack(&first, to, false);
                        value.truncate(room - to);
                        let kept = value.len();
                        value.resize(room - to, 0);
                        let at = place.value_at(&first);
                        std::ptr::write_bytes(place.0.add(at + kept), 0, room - to - kept);
                    }
                    Change::Clock(to) => {
                        place.set_clock(&first, to);
                        clock = to & 0xff_ffff;
                    }
                    Change::Tag(to) => {
                        place.set_tag(&first, to);
                        tag = to;
                    }
                    Change::Saved(to) => {
                        place.set_saved(&first, to);
                        saved = to;
                    }
                }
                prop_assert_eq!(place.expiry_ms(&first), expiry);
                prop_assert_eq!(place.clock(&first), clock);
                prop_assert_eq!(place.tag(&first), tag);
                prop_assert_eq!(place.saved(&first), saved);
                prop_assert_eq!(place.key(&first), &key[..]);
                prop_assert!(value_of(place) == value);
            }
        }
    }
}
