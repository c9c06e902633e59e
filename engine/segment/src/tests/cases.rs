//! One promise a test.

use std::sync::atomic::Ordering::Relaxed;

use super::{Nobody, bytes_of, parked, plain, tiny};
use crate::{
    Access, Appender, DrainState, FilledExtent, Greedy, Log, LogGeometry, NewObject, NewValue, ObjectHead, ObjectKind,
    ObjectTag, Owner, Relocate, Relocated, SegmentClass, SegmentState,
};

#[test]
fn used_counts_to_the_byte_after_park() {
    let log = Log::new(tiny()).unwrap();
    let mut appender = Appender::new();
    appender.append(&log, &plain(b"key", b"value"));
    assert_eq!(log.used_bytes(), 0);
    appender.park(&log);
    assert_eq!((log.used_bytes(), log.live_bytes()), (7 + 8, 7 + 8));
    log.verify();
}

#[test]
fn no_ref_is_zero_and_an_extent_may_have_the_first_segment() {
    let log = Log::new(LogGeometry { reserve_bytes: 2 * 8192, ..tiny() }).unwrap();
    parked(&log, |appender| {
        let value = vec![7; 10_000];
        let r = appender.append(&log, &plain(b"first", &value));
        assert_eq!(log.access().open(&log, r).value(), value);
    });
    log.verify();
    // A key that leaves no room before the value: its object begins where the segment does, but for the first.
    let log = Log::new(LogGeometry { reserve_bytes: 4 * 8192, ..tiny() }).unwrap();
    let mut appender = Appender::new();
    let refs = [0, 1].map(|_| appender.append(&log, &plain(&[b'k'; 5000], &[7; 10_000])));
    assert_eq!(refs.map(|r| r.bits()), [2 * 8192, 1], "from the top of the range");
    log.verify();
}

#[test]
fn parked_pieces_are_used_first() {
    let log = Log::new(tiny()).unwrap();
    let (mut one, mut two) = (Appender::new(), Appender::new());
    let a = one.append(&log, &plain(b"a", b"1"));
    one.park(&log);
    let b = two.append(&log, &plain(b"b", b"2"));
    assert_eq!(b.bits(), a.bits() + 9);
    let c = one.append(&log, &plain(b"c", b"3"));
    assert!(c.bits() >= 1024, "the piece was out");
    one.park(&log);
    two.park(&log);
    log.verify();
}

#[test]
fn classes_have_segments_of_their_own() {
    let log = Log::new(tiny()).unwrap();
    parked(&log, |appender| {
        for class in SegmentClass::ALL {
            appender.append(&log, &NewObject { class, ..plain(b"key", b"value") });
        }
    });
    let classes: Vec<SegmentClass> = log.segments().iter().map(|segment| segment.class).collect();
    assert_eq!(classes, SegmentClass::ALL);
}

#[test]
fn objects_between_a_piece_and_a_run_are_cut_to_size() {
    let log = Log::new(tiny()).unwrap();
    let value = vec![1; 1500];
    parked(&log, |appender| {
        let small = appender.append(&log, &plain(b"s", b"1"));
        for _ in 0..20 {
            appender.append(&log, &plain(b"large", &value));
        }
        // The held piece is still there.
        assert_eq!(appender.append(&log, &plain(b"s", b"2")).bits(), small.bits() + 9);
    });
    log.verify();
    assert_eq!(log.used_bytes(), 20 * (8 + 5 + 1500) + 2 * 9 + fillers(&log));
}

/// Bytes that are used and do not live.
fn fillers(log: &Log) -> u64 {
    log.used_bytes() - log.live_bytes()
}

#[test]
fn an_open_segment_is_a_victim_too() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    parked(&log, |appender| {
        let refs: Vec<_> = (0..10).map(|_| appender.append(&log, &plain(b"key", b"value"))).collect();
        assert!(log.choose_victim().is_none(), "its piece is out");
        for r in refs {
            access.kill(&log, r);
        }
        assert!(log.choose_victim().is_none(), "its piece is out");
    });
    let mut drain = log.choose_victim().unwrap();
    assert_eq!((drain.chosen().used, drain.chosen().live_bytes, drain.chosen().state), (150, 0, SegmentState::Open));
    assert_eq!(log.drain_step(&mut drain, &mut Nobody, 1), DrainState::Done);
    assert_eq!((log.used_bytes(), log.stats().segments), (0, 0));
}

#[test]
fn a_large_filler_is_not_counted() {
    let geometry = LogGeometry {
        segment_bytes: 1 << 20,
        piece_bytes: 64 << 10,
        extent_min_bytes: 64 << 10,
        release_bytes: 64 << 10,
        ..tiny()
    };
    let log = Log::new(geometry).unwrap();
    parked(&log, |appender| {
        appender.append(&log, &plain(b"key", b"value"));
    });
    log.seal_all();
    assert_eq!(log.used_bytes(), 15);
    log.verify();
}

struct Mover<'a> {
    log: &'a Log,
    access: crate::Access,
    appender: Appender,
    moved: usize,
    busy_at: Option<usize>,
}

impl Relocate for Mover<'_> {
    fn prepare(&mut self, _: &[ObjectHead<'_>]) {}

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        if self.busy_at == Some(self.moved) {
            return Relocated::Busy;
        }
        self.moved += 1;
        self.appender.relocate(self.log, &mut self.access, head.r, SegmentClass::Survivor);
        Relocated::Moved
    }
}

#[test]
fn reclaim_needs_no_more_room_than_a_slice() {
    let log = Log::new(tiny()).unwrap();
    let mut mover = Mover { log: &log, access: log.access(), appender: Appender::new(), moved: 0, busy_at: Some(40) };
    let refs: Vec<_> = (0..500).map(|_| mover.appender.append(&log, &plain(b"key", b"some value"))).collect();
    for r in refs.iter().step_by(2) {
        mover.access.kill(&log, *r);
    }
    mover.appender.park(&log);
    let before = log.used_bytes();
    let mut drain = log.choose_victim().unwrap();
    let mut most = 0;
    loop {
        let state = log.drain_step(&mut drain, &mut mover, 8);
        mover.appender.park(&log);
        log.verify();
        most = most.max(log.used_bytes());
        match state {
            DrainState::Done => break,
            DrainState::Busy => assert_eq!((mover.moved, mover.busy_at.take()), (40, Some(40))),
            DrainState::More => {}
        }
    }
    assert!(most <= before + 8 * 20, "{most} used at most, {before} before");
    assert!(log.used_bytes() < before);
    assert_eq!(log.stats().live_objects, 250);
}

#[test]
#[should_panic(expected = "was settled and lives")]
fn settled_objects_must_be_dead() {
    struct Liar;
    impl Relocate for Liar {
        fn prepare(&mut self, _: &[ObjectHead<'_>]) {}
        fn relocate(&mut self, _: &ObjectHead<'_>) -> Relocated {
            Relocated::Dead
        }
    }
    let log = Log::new(tiny()).unwrap();
    parked(&log, |appender| {
        let dead = appender.append(&log, &plain(b"key", b"value"));
        appender.append(&log, &plain(b"key", b"value"));
        log.access().kill(&log, dead);
    });
    let mut drain = log.choose_victim().unwrap();
    log.drain_step(&mut drain, &mut Liar, 8);
}

#[test]
#[should_panic(expected = "killed twice")]
fn killing_twice_is_caught() {
    let log = Log::new(tiny()).unwrap();
    let mut appender = Appender::new();
    let r = appender.append(&log, &plain(b"key", b"value"));
    let mut access = log.access();
    access.kill(&log, r);
    access.kill(&log, r);
}

#[test]
#[should_panic(expected = "are exhausted")]
fn the_range_has_an_end() {
    let log = Log::new(LogGeometry { reserve_bytes: 16 << 10, ..tiny() }).unwrap();
    let mut appender = Appender::new();
    for _ in 0..1000 {
        appender.append(&log, &plain(b"key", &[0; 100]));
    }
}

#[test]
fn a_run_grows_in_place_and_counts_what_it_touches() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    let mut appender = Appender::new();
    let value = vec![1u8; 30_000];
    let r = appender.append(&log, &NewObject { room: 30_001, ..plain(b"big", &value) });
    let head = log.used_bytes() - 30_000;
    assert!(access.open(&log, r).room() >= 60_000, "twice the need");
    let mut object = access.open_mut(&log, r);
    assert!(object.resize_value(50_000));
    assert_eq!(log.used_bytes(), head + 50_000);
    assert!(object.value()[30_000..].iter().all(|&byte| byte == 0));
    object.value_mut().fill(2);
    assert!(object.resize_value(25_000) && !object.resize_value(20_000));
    assert_eq!((log.used_bytes(), log.live_bytes()), (head + 50_000, head + 25_000));
    assert!(object.resize_value(50_001));
    assert!(object.value()[25_000..].iter().all(|&byte| byte == 0));
    assert!(object.set_expiry_ms(Some(-1)) && object.set_expiry_ms(None) && object.set_expiry_ms(Some(5)));
    assert_eq!(object.value().len(), 50_001);
    log.verify();
    access.kill(&log, r);
    assert_eq!(log.used_bytes(), head + 50_001);
    assert!(log.release_step(4096));
    // The object begins behind the first 4096 bytes, so that a value of the largest size would end where the extent does.
    assert_eq!(log.used_bytes(), head + 50_001);
    while log.release_step(4096) {}
    assert_eq!((log.used_bytes(), log.stats().runs), (0, 0));
    log.verify();
}

#[test]
fn a_pinned_run_stays() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    let mut appender = Appender::new();
    let value = vec![9u8; 5000];
    let r = appender.append(&log, &plain(b"big", &value));
    let small = appender.append(&log, &plain(b"small", b"value"));
    appender.park(&log);
    assert!(log.pin(&access, small).is_none());
    let (pin, again) = (log.pin(&access, r).unwrap(), log.pin(&access, r).unwrap());
    let mut object = access.open_mut(&log, r);
    assert!(object.pinned() && !object.resize_value(5001) && !object.set_value(&value));
    assert!(object.set_expiry_ms(Some(77)));
    object.set_clock(5);
    access.kill(&log, r);
    assert!(!log.release_step(1 << 20), "nothing that could be released");
    drop(again);
    assert!(!log.release_step(1 << 20));
    assert_eq!(bytes_of(&pin), value);
    assert_eq!(log.stats().runs, 1);
    drop(pin);
    log.release_step(1 << 20);
    assert_eq!((log.stats().runs, log.used_bytes()), (0, 17));
}

#[test]
fn a_run_is_adopted() {
    let log = Log::new(tiny()).unwrap();
    let mut appender = Appender::new();
    let header = NewObject { expiry_ms: Some(9), tag: ObjectTag::new(2), clock: 3, ..plain(b"key", b"") };
    for (key, copied) in [(&b"key"[..], false), (&[b'k'; 3000][..], true)] {
        let run = filled(&log, 9000, 4);
        let r = appender.adopt(&log, &run, &NewObject { key, ..header });
        let mut access = log.access();
        assert_eq!(access.open_mut(&log, r).pinned(), !copied);
        drop(run);
        assert!(!access.open_mut(&log, r).pinned());
        let object = access.open(&log, r);
        assert_eq!((object.key(), object.value()), (key, &[4u8; 9000][..]));
        assert_eq!((object.expiry_ms(), object.tag(), object.clock()), (Some(9), ObjectTag::new(2), 3));
        assert_eq!(log.release_step(1 << 20) || copied, copied, "the copied one's run is given back");
        log.verify();
    }
    let used = log.used_bytes();
    let mut half = log.begin_extent(9000).unwrap();
    half.rest()[..4000].fill(1);
    half.advance(4000);
    assert_eq!((half.len(), half.filled(), half.rest().len(), log.used_bytes()), (9000, 4000, 5000, used + 4000));
    log.verify();
    drop(half);
    drop(filled(&log, 9000, 5));
    assert_eq!(log.stats().runs, 4);
    while log.release_step(1 << 20) {}
    assert_eq!((log.stats().runs, log.used_bytes()), (2, used));
}

#[test]
fn an_adopted_run_is_adopted_once() {
    let log = Log::new(tiny()).unwrap();
    let (mut access, mut appender) = (log.access(), Appender::new());
    let run = filled(&log, 9000, 4);
    let refs = [b"one", b"two"].map(|key| appender.adopt(&log, &run, &plain(key, b"")));
    assert!(access.open_mut(&log, refs[0]).pinned() && !access.open_mut(&log, refs[1]).pinned());
    access.kill(&log, refs[0]);
    assert!(!log.release_step(1 << 20));
    assert_eq!(*run, [4; 9000]);
    drop(run);
    while log.release_step(1 << 20) {}
    assert_eq!(access.open(&log, refs[1]).value(), [4; 9000]);
    assert_eq!(log.stats().runs, 1);
    log.verify();
}

/// A run full of one byte.
fn filled(log: &Log, len: usize, byte: u8) -> FilledExtent {
    let mut run = log.begin_extent(len).unwrap();
    run.rest().fill(byte);
    run.advance(len);
    run.finish()
}

/// The parts of a value that may hold anything but zeros.
fn written(log: &Log, value: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut parts = vec![];
    let mut done = 0;
    while done < value.len() {
        let part = log.next_written(value, done);
        done = part.end;
        parts.extend((!part.is_empty()).then_some(part));
    }
    parts
}

#[test]
fn blocks_of_a_run_that_were_never_written_are_known_and_left_out_of_copies() {
    // Blocks of 128 bytes.
    let log = Log::new(tiny()).unwrap();
    let (mut access, mut appender) = (log.access(), Appender::new());
    let far = NewValue::Patched { old: &[], at: 100_000, part: b"far" };
    let o = NewObject { value: far, room: 120_000, ..plain(b"key", b"") };
    let r = appender.append(&log, &o);
    let one =
        |parts: &[std::ops::Range<usize>], at: usize| parts.iter().any(|part| part.contains(&at) && part.len() <= 256);
    let parts = written(&log, access.open(&log, r).value());
    assert!(parts.len() == 1 && one(&parts, 100_001), "{parts:?}");
    let mut object = access.open_mut(&log, r);
    object.write_value(50_000, b"middle");
    assert!(object.extend_value(110_000, b"end"));
    let parts = written(&log, object.value());
    assert!(parts.len() == 3 && [50_001, 100_001, 110_001].iter().all(|&at| one(&parts, at)), "{parts:?}");
    log.verify();
    // A copy of it is as sparse, wherever its value is changed on the way.
    let object = access.open(&log, r);
    let copied = NewValue::Patched { old: object.value(), at: 49_999, part: b"MIDDLE." };
    let copy = appender.append(&log, &NewObject { value: copied, room: 120_000, ..plain(b"copy", b"") });
    let (old, new) = (access.open(&log, r).value(), access.open(&log, copy).value());
    let parts = written(&log, new);
    assert!(parts.iter().map(ExactSizeIterator::len).sum::<usize>() <= 3 * 256, "{parts:?}");
    assert_eq!((&new[49_999..50_007], &new[50_007..]), (&b"MIDDLE.\0"[..], &old[50_007..]));
    assert!(new[..49_999].iter().all(|&byte| byte == 0));
    // A value that grows shorter and longer again is zero there, and one that is written whole is written.
    let mut object = access.open_mut(&log, copy);
    assert!(object.resize_value(90_000) && object.resize_value(110_000));
    assert!(object.value()[90_000..].iter().all(|&byte| byte == 0));
    object.value_mut()[7] = 1;
    let is_whole = |value: &[u8]| log.next_written(value, 0) == (0..value.len());
    assert!(is_whole(access.open(&log, copy).value()));
    log.verify();
    // Others than values of runs are one part.
    assert!(is_whole(&[0; 5000]));
    let small = appender.append(&log, &plain(b"small", &[0; 500]));
    assert!(is_whole(access.open(&log, small).value()));
    // The next run in these segments begins without marks.
    [r, copy].into_iter().for_each(|r| access.kill(&log, r));
    while log.release_step(1 << 20) {}
    let mut open = log.begin_extent(20_000).unwrap();
    open.push(&[0; 10_000]);
    open.push(&[5]);
    open.push(&[0; 9_999]);
    let run = open.finish();
    let parts = written(&log, &run);
    assert!(parts.len() == 1 && parts[0].contains(&10_000) && parts[0].len() <= 4096 + 128, "{parts:?}");
    assert_eq!(run.pin().by_ranges().part(9_000..11_000).next_written(0).end.min(1_001), 1_001);
    appender.park(&log);
    log.verify();
}

#[test]
fn a_value_of_the_largest_size_ends_where_its_run_does() {
    let log = Log::new(tiny()).unwrap();
    let (mut access, mut appender) = (log.access(), Appender::new());
    let growing = log.geometry().growing_bytes();
    let far = NewValue::Patched { old: &[], at: growing - 1, part: b"!" };
    let r = appender.append(&log, &NewObject { value: far, room: growing / 4 * 5, ..plain(b"key", b"") });
    let object = access.open(&log, r);
    assert_eq!((object.room() - object.value().len(), object.value()[growing - 1]), (64, b'!'));
    let near = NewValue::Patched { old: &[], at: 9000, part: b"!" };
    let near = appender.append(&log, &NewObject { value: near, room: 10_000, ..plain(b"near", b"") });
    assert!(access.open_mut(&log, near).extend_value(growing - 1, b"?"), "it grows to that size in place");
    log.verify();
    appender.park(&log);
}

#[test]
fn begun_runs_leave_half_of_the_addresses() {
    let log = Log::new(tiny()).unwrap();
    let begun: Vec<_> = std::iter::from_fn(|| log.begin_extent(9000)).collect();
    let (geometry, taken) = (log.geometry(), log.stats().extent_segments as usize * log.geometry().segment_bytes);
    assert!(taken <= geometry.reserve_bytes / 2 && taken > geometry.reserve_bytes / 2 - 10 * geometry.segment_bytes);
    assert_eq!(log.used_bytes(), 0);
    drop(begun);
    while log.release_step(1 << 20) {}
    assert_eq!(log.stats().runs, 0);
    assert!(log.begin_extent(9000).is_some());
}

#[test]
fn a_run_is_renamed_where_it_lies() {
    let log = Log::new(tiny()).unwrap();
    let (mut access, mut appender) = (log.access(), Appender::new());
    let o = NewObject { expiry_ms: Some(9), clock: 3, ..plain(b"name", &[7; 9000]) };
    let mut r = appender.append(&log, &o);
    let small = appender.append(&log, &plain(b"small", b"value"));
    appender.park(&log);
    assert_eq!(log.rename(&mut access, small, Owner::Database(0), b"other"), None);
    let pin = log.pin(&access, r).unwrap();
    let at = access.open(&log, r).value().as_ptr();
    let mut before = log.used_bytes() - 4;
    for (key, db) in [(&b"a longer name"[..], 0), (&[b'k'; 300], 7), (b"x", 9), (b"", 0)] {
        r = log.rename(&mut access, r, Owner::Database(db), key).unwrap();
        let object = access.open(&log, r);
        assert_eq!((object.key(), object.owner(), object.value()), (key, Owner::Database(db), &[7; 9000][..]));
        assert_eq!((object.expiry_ms(), object.clock(), object.value().as_ptr()), (Some(9), 3, at));
        let extra = key.len() + if db == 0 { 0 } else { 2 } + if key.len() > 255 { 3 } else { 0 };
        assert_eq!(log.used_bytes(), before + extra as u64);
        before = log.used_bytes() - extra as u64;
        log.verify();
    }
    assert_eq!(log.rename(&mut access, r, Owner::Database(0), &[b'k'; 3000]), None, "no room before it");
    assert_eq!(bytes_of(&pin), [7; 9000]);
    access.kill(&log, r);
    drop(pin);
    while log.release_step(1 << 20) {}
    assert_eq!(log.stats().runs, 0);
}

#[test]
fn a_pinned_value_grows_behind_its_pins() {
    let log = Log::new(tiny()).unwrap();
    let (mut access, mut appender) = (log.access(), Appender::new());
    let r = appender.append(&log, &NewObject { room: 6000, ..plain(b"big", &[9; 5000]) });
    assert!(access.open_mut(&log, r).resize_value(6000) && access.open_mut(&log, r).resize_value(5000));
    access.open_mut(&log, r).value_mut().fill(9);
    let pin = log.pin(&access, r).unwrap().part(1000..5000);
    assert!(access.open_mut(&log, r).extend_value(5000, &[1; 10]) && access.open_mut(&log, r).extend_value(7000, &[2]));
    let longer = log.pin(&access, r).unwrap();
    let room = access.open(&log, r).room();
    assert!(!access.open_mut(&log, r).extend_value(room, &[1]) && access.open_mut(&log, r).extend_value(room, &[]));
    assert_eq!(bytes_of(&pin), [9; 4000]);
    assert_eq!(bytes_of(&longer), [&[9; 5000][..], &[1; 10], &[0; 1990], &[2]].concat());
    assert!(access.open(&log, r).value()[7001..].iter().all(|&byte| byte == 0));
    log.verify();
}

#[test]
fn zeroed_values_touch_nothing_in_runs() {
    let log = Log::new(LogGeometry { reserve_bytes: 4 << 30, ..LogGeometry::default() }).unwrap();
    let mut appender = Appender::new();
    let o = NewObject { value: NewValue::Zeroed(512 << 20), room: (512 << 20) + 1, ..plain(b"big", b"") };
    let r = appender.append(&log, &o);
    let access = log.access();
    assert_eq!(access.open(&log, r).value().len(), 512 << 20);
    assert_eq!(access.open(&log, r).room(), (512 << 20) + 64, "nothing is larger");
    log.verify();
}

#[test]
fn fresh_memory_is_zero_again() {
    let log = Log::new(tiny()).unwrap();
    let (mut access, mut appender) = (log.access(), Appender::new());
    for round in 0..5 {
        let r =
            appender.append(&log, &NewObject { value: NewValue::Zeroed(20_000), room: 20_000, ..plain(b"run", b"") });
        let mut object = access.open_mut(&log, r);
        assert!(object.value().iter().all(|&byte| byte == 0), "round {round}");
        object.value_mut().fill(0xff);
        access.kill(&log, r);
        while log.release_step(1) {}
    }
    assert_eq!(log.stats().free_segments, 0);
}

#[test]
fn members_of_all_sizes_move_and_die() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    let mut all = vec![];
    parked(&log, |appender| {
        for (n, number) in [0, 0xffff, 0x1_0000, u32::MAX].into_iter().enumerate() {
            for len in [0, 9, 255, 256, 3000, 20_000] {
                let key = vec![n as u8; len];
                let owner = Owner::Collection(number);
                let o = NewObject { kind: ObjectKind::BARE, owner, ..plain(&key, b"") };
                let r = appender.append(&log, &o);
                let r = appender.relocate(&log, &mut access, r, SegmentClass::Survivor);
                let object = access.open(&log, r);
                assert_eq!((object.kind(), object.owner(), object.key()), (ObjectKind::BARE, owner, &key[..]));
                assert_eq!((object.value(), object.room(), object.expiry_ms()), (&b""[..], 0, None));
                assert_eq!(object.bytes(), object.live_bytes());
                all.push(r);
            }
        }
    });
    log.verify();
    all.into_iter().for_each(|r| access.kill(&log, r));
    while log.release_step(1) {}
    assert_eq!(log.live_bytes(), 0);
    log.verify();
}

#[test]
fn elements_and_nodes_have_no_clock() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    parked(&log, |appender| {
        for kind in [ObjectKind::part(8), ObjectKind::part(9), ObjectKind::part(14)] {
            let o = NewObject { kind, owner: Owner::Collection(77), clock: 9, expiry_ms: Some(5), ..plain(b"f", b"v") };
            let r = appender.append(&log, &o);
            let mut object = access.open_mut(&log, r);
            object.set_clock(8);
            let object = object.read();
            assert_eq!((object.clock(), object.owner(), object.value()), (0, Owner::Collection(77), &b"v"[..]));
            assert_eq!(object.expiry_ms(), Some(5));
        }
    });
    log.verify();
}

#[test]
fn large_nodes_have_no_place_for_an_expiry_and_stale_values_all_their_bytes() {
    let geometry =
        LogGeometry { piece_bytes: 32 << 10, extent_min_bytes: 32 << 10, segment_bytes: 256 << 10, ..tiny() };
    let log = Log::new(LogGeometry { release_bytes: 4 << 10, reserve_bytes: 1 << 30, ..geometry }).unwrap();
    let mut access = log.access();
    parked(&log, |appender| {
        let mut bytes = |appender: &mut Appender, kind, owner| {
            let o = NewObject { kind, owner, value: NewValue::Stale(5000), room: 5000, ..plain(b"1234", b"") };
            let r = appender.append(&log, &o);
            let mut object = access.open_mut(&log, r);
            object.value_mut().fill(7);
            assert_eq!(object.value(), [7; 5000]);
            object.read().bytes()
        };
        let key = bytes(appender, ObjectKind::key(2), Owner::Database(0));
        // Two bytes of owner in place of three of clock and eight for an expiry.
        assert_eq!(bytes(appender, ObjectKind::part(9), Owner::Collection(7)), key + 2 - 3 - 8);
    });
    log.verify();
}

#[test]
fn greedy_takes_the_emptiest() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    let mut appender = Appender::new();
    let refs: Vec<_> = (0..2000).map(|_| appender.append(&log, &plain(b"key", b"some value"))).collect();
    appender.park(&log);
    let third: Vec<_> = refs.iter().filter(|r| r.bits() / 8192 == 2).collect();
    for r in third.iter().skip(10) {
        access.kill(&log, **r);
    }
    access.kill(&log, refs[0]);
    let drain = log.choose_victim().unwrap();
    assert_eq!((drain.chosen().segment, drain.chosen().live_objects), (2, 10));
    log.abandon(drain);
    assert!(log.segments().iter().all(|segment| matches!(segment.state, SegmentState::Open | SegmentState::Sealed)));
}

#[test]
fn clearing_leaves_nothing() {
    let log = Log::new(tiny()).unwrap();
    let mut filling = log.begin_extent(5000).unwrap();
    filling.advance(3000);
    parked(&log, |appender| {
        for len in [3, 1500, 6000, 40, 300] {
            let value = vec![1; len];
            for _ in 0..20 {
                appender.append(&log, &plain(b"key", &value));
            }
        }
    });
    log.clear();
    assert_eq!((log.stats().live_objects, log.stats().open_segments), (0, 0));
    while log.release_step(1 << 20) {}
    while let Some(mut drain) = log.choose_victim() {
        while log.drain_step(&mut drain, &mut Nobody, 8) != DrainState::Done {}
    }
    filling.rest().fill(1);
    filling.advance(2000);
    assert_eq!((log.stats().segments, log.stats().runs, log.used_bytes()), (0, 1, 5000));
    log.verify();
}

/// FLUSHALL stops everybody: clearing looked at every segment, 8192 of them for 64 GB.
#[test]
fn issue_11_clearing_costs_the_same_however_large_the_log_is() {
    let log = Log::new(tiny()).unwrap();
    let memory = &log.shared.memory;
    let fill = |objects: usize| {
        parked(&log, |appender| {
            for n in 0..objects {
                appender.append(&log, &plain(b"key", &vec![1; if n % 20 == 0 { 6000 } else { 500 }]));
            }
        });
    };
    let drain_one = || {
        let Some(mut drain) = log.choose_victim_by(&Greedy, |segment| segment.live_bytes == 0) else { return false };
        while log.drain_step(&mut drain, &mut Nobody, 8) != DrainState::Done {}
        true
    };
    let mut filling = log.begin_extent(5000).unwrap();
    let looks_of = |objects: usize| {
        fill(objects);
        let before = memory.table.looks.load(Relaxed);
        log.clear();
        let looks = memory.table.looks.load(Relaxed) - before;
        (log.stats().segments + log.stats().runs, looks)
    };
    let (few, looks_few) = looks_of(30);
    let (many, looks_many) = looks_of(3000);
    assert!(many > 10 * few && many > 300, "{few} and {many} segments");
    assert!(looks_many < 50, "{looks_few} looks, then {looks_many}");
    // Nothing lives at once, whatever the segments say; and what is written now does.
    assert_eq!((log.live_bytes(), memory.live_granules()), (0, 0));
    log.verify();
    fill(200);
    filling.rest().fill(1);
    filling.advance(5000);
    let filled = filling.finish();
    log.adopt(&filled, &plain(b"adopted", b"")).expect("a short key");
    let live = log.stats().live_objects;
    assert_eq!(live, 201);
    // Drains meet segments that are settled and others.
    let mut steps = 0;
    while log.release_step(1) {
        steps += 1;
        drain_one();
        log.verify();
    }
    assert!(steps > 1, "it was settled in {steps} steps");
    while drain_one() {}
    assert_eq!(log.stats().live_objects, live);
    log.clear();
    assert_eq!(log.stats().live_objects, 0);
    while log.release_step(1 << 20) || drain_one() {}
    drop(filled);
    while log.release_step(1 << 20) {}
    assert_eq!((log.stats().segments, log.used_bytes()), (0, 0));
    log.verify();
}

/// An age has 16 bits: clearings that are never settled between must not make what is dead live again.
#[test]
fn issue_11_clearings_in_a_row_are_settled_in_time() {
    let log = Log::new(tiny()).unwrap();
    parked(&log, |appender| {
        drop((0..200).map(|_| appender.append(&log, &plain(b"key", &[1; 500]))).collect::<Vec<_>>())
    });
    for n in 0..70_000 {
        log.clear();
        assert!(n % 10_000 != 0 || log.live_bytes() == 0, "after {n}");
    }
    assert_eq!(log.live_bytes(), 0);
    while log.release_step(1 << 20) {}
    log.verify();
}

/// Reclaim came between a killer's mark and his count, and found a drained segment with a live object.
#[test]
fn a_drain_waits_for_a_killer_to_count() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    let mut dead = None;
    parked(&log, |appender| {
        appender.append(&log, &plain(b"key", b"value"));
        dead = Some(appender.append(&log, &plain(b"key", b"value")));
    });
    access.kill(&log, dead.unwrap());
    let mut drain = log.choose_victim().unwrap();
    let entry = log.shared.memory.table.entry(0);
    let count = |(before, after)| log.shared.memory.count_granules(before, after);
    // An object that a killer on another thread has not subtracted yet.
    count(entry.add_live(crate::table::Live::new(1, 15)));
    let mut mover = Mover { log: &log, access, appender: Appender::new(), moved: 0, busy_at: None };
    assert_eq!(log.drain_step(&mut drain, &mut mover, 8), DrainState::Busy);
    count(entry.sub_live(crate::table::Live::new(1, 15)));
    assert_eq!(log.drain_step(&mut drain, &mut mover, 8), DrainState::Done);
    mover.appender.park(&log);
    log.verify();
}

/// A note about a segment can be told from one about a later segment in its place by the number of its seal: that number stays
/// whatever is sealed afterwards, and an open segment never shows the one of its life before.
#[test]
fn the_number_of_its_seal_is_a_segments_own() {
    let log = Log::new(tiny()).unwrap();
    let fill = |segments: u64| {
        let until = log.seals() + segments;
        parked(&log, |appender| {
            while log.seals() < until {
                appender.append(&log, &plain(b"key", &[7; 500]));
            }
        });
    };
    let sealed = || log.segments().into_iter().filter(|info| info.state == SegmentState::Sealed).collect::<Vec<_>>();
    fill(2);
    let before = sealed();
    fill(5);
    for old in before {
        let now = log.segments().into_iter().find(|info| info.segment == old.segment).expect("it is still there");
        assert_eq!((now.sealed, now.age), (old.sealed, log.seals() - old.sealed));
        assert!(now.age >= old.age + 5);
    }
    let numbers: Vec<u64> = sealed().iter().map(|info| info.sealed).collect();
    assert!(numbers.iter().all(|&n| numbers.iter().filter(|&&m| m == n).count() == 1), "{numbers:?}");
    // Everything dies, and what was sealed is opened again.
    log.clear();
    fill(1);
    let open = log.segments().into_iter().filter(|info| info.state == SegmentState::Open);
    assert!(open.map(|info| (info.sealed, info.age)).all(|young| young == (log.seals(), 0)));
}

/// Every way to make an object from another one keeps the owner's mark, in a piece and in an extent of its own.
#[test]
fn saved_survives_every_copy() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    for (saved, len) in [(false, 50), (true, 50), (false, 5000), (true, 5000)] {
        parked(&log, |appender| {
            let value = vec![7; len];
            let of = |access: &Access, r| {
                let object = access.open(&log, r);
                (object.saved(), object.value().len())
            };
            let first = appender.append(&log, &NewObject { saved, ..plain(b"key", &value) });
            assert_eq!(of(&access, first), (saved, len), "appended");
            let like = NewObject { key: b"another", ..NewObject::like(&access.open(&log, first)) };
            let copy = appender.append(&log, &like);
            assert_eq!(of(&access, copy), (saved, len), "like another one");
            let moved = appender.relocate(&log, &mut access, copy, SegmentClass::Survivor);
            assert_eq!(of(&access, moved), (saved, len), "relocated");
            let shorter = appender.relocate_with(&log, &mut access, moved, SegmentClass::Survivor, Some(b"short"));
            assert_eq!(of(&access, shorter), (saved, 5), "relocated with another value");
            let renamed = log.rename(&mut access, first, Owner::Database(3), b"a name").unwrap_or(first);
            assert_eq!(of(&access, renamed), (saved, len), "renamed");
            let mut open = log.begin_extent(5000).unwrap();
            open.rest().fill(9);
            open.advance(5000);
            let filled = open.finish();
            for _ in 0..2 {
                let like = NewObject::like(&access.open(&log, renamed));
                let adopted = appender.adopt(&log, &filled, &like);
                assert_eq!(of(&access, adopted), (saved, 5000), "an extent adopted, or copied");
                access.kill(&log, adopted);
            }
            let mut object = access.open_mut(&log, renamed);
            object.set_saved(!saved);
            assert!(object.set_expiry_ms(Some(1 << 50)) || len == 50);
            assert_eq!(of(&access, renamed), (!saved, len), "set");
            access.kill(&log, renamed);
            access.kill(&log, shorter);
        });
    }
    log.verify();
}
