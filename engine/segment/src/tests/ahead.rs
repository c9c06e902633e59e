//! Memory ahead of the frontiers: the thread that puts it in place is the test itself, between two pieces.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::ahead::AREA_BYTES;
use crate::memory::SMALL_PAGES_BELOW;
use crate::{DrainState, SegmentClass};

/// Whole segments, since only whole huge pages are made ahead.
fn whole() -> Log {
    let log = Log::new(LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() }).unwrap();
    log.set_helper(thread::current());
    log
}

/// Cuts a piece and spends it; its begin, and whether there may be no memory behind it.
fn cut(log: &Log, class: SegmentClass) -> (u64, bool) {
    let memory = &log.shared.memory;
    let mut piece = log.shared.space.lock().checkout(memory, class, 1000);
    let cut = (piece.begin, piece.fresh);
    piece.spend(&memory.mapping);
    log.shared.space.lock().take_back(memory, class, &piece);
    cut
}

/// Cuts pieces, with nothing ahead of them, until one begins at `end` or behind.
fn cut_to(log: &Log, end: u64) {
    while cut(log, SegmentClass::Ordinary).0 < end {}
}

fn put_all_in_place(log: &Log) {
    while log.populate_ahead() {}
}

#[test]
fn pieces_find_their_memory_in_place_across_segments() {
    let log = whole();
    let first = SMALL_PAGES_BELOW as u64;
    while cut(&log, SegmentClass::Ordinary).0 < first - AREA_BYTES - 128 * 1024 {
        put_all_in_place(&log);
        assert_eq!(log.cached_bytes(), 0, "small pages: nothing is made ahead");
    }
    put_all_in_place(&log);
    for nth in 0..1000 {
        let (begin, fresh) = cut(&log, SegmentClass::Ordinary);
        put_all_in_place(&log);
        assert!(begin < first || !fresh, "piece {nth} at {begin} has no memory");
        assert!(log.cached_bytes() as u64 <= 2 * AREA_BYTES, "{} bytes are kept", log.cached_bytes());
    }
    assert!(log.opens() > 18, "{} segments", log.opens());
    log.verify();
}

#[test]
fn classes_that_come_to_one_segment_ask_once() {
    let log = whole();
    cut_to(&log, SMALL_PAGES_BELOW as u64);
    for nth in 0..600 {
        cut(&log, SegmentClass::Survivor);
        let (begin, fresh) = cut(&log, SegmentClass::Ordinary);
        put_all_in_place(&log);
        assert!(nth < 40 || !fresh || begin % log.geometry().segment_bytes as u64 == 0, "piece {nth} at {begin}");
    }
    log.verify();
}

#[test]
fn what_is_ahead_goes_back_with_all_that_is_kept_and_is_asked_for_again() {
    let log = whole();
    cut_to(&log, SMALL_PAGES_BELOW as u64 + AREA_BYTES / 2);
    put_all_in_place(&log);
    let ahead = log.cached_bytes() as u64;
    assert_eq!(ahead, AREA_BYTES);
    while log.release_cached_step(false) {}
    assert_eq!(log.cached_bytes() as u64, ahead, "appenders come there next");
    while log.release_cached_step(true) {}
    assert_eq!(log.cached_bytes(), 0);
    log.verify();
    cut(&log, SegmentClass::Ordinary);
    put_all_in_place(&log);
    assert_eq!(log.cached_bytes() as u64, AREA_BYTES, "asked for again");
    // The first area of the segment that is opened next goes as well.
    cut_to(&log, SMALL_PAGES_BELOW as u64 + log.geometry().segment_bytes as u64 - AREA_BYTES);
    put_all_in_place(&log);
    assert!(log.cached_bytes() > 0 && !log.shared.space.lock().cached_segments().is_empty());
    while log.release_cached_step(false) {}
    assert_eq!(log.cached_bytes() as u64, AREA_BYTES);
    while log.release_cached_step(true) {}
    assert_eq!(log.cached_bytes(), 0);
    log.verify();
}

/// An area of which the memory is wanted, taken by a helper that is slow.
fn taken(log: &Log) -> Range<u64> {
    log.shared.space.lock().take_wanted(&log.shared.memory).expect("an area is wanted")
}

fn populated(log: &Log, area: &Range<u64>) {
    log.shared.space.lock().populated(&log.shared.memory, area);
}

#[test]
fn a_helper_that_comes_late_keeps_nothing_that_is_cut() {
    let log = whole();
    cut_to(&log, SMALL_PAGES_BELOW as u64);
    put_all_in_place(&log);
    cut_to(&log, SMALL_PAGES_BELOW as u64 + AREA_BYTES);
    let (area, kept) = (taken(&log), log.cached_bytes());
    // The frontier stands in the middle of a release unit of the area: what lies behind that unit is kept.
    cut_to(&log, area.start + 300 * 1024);
    let unit = log.geometry().release_bytes;
    let (before, left) = (log.cached_bytes(), AREA_BYTES as usize - 2 * unit);
    populated(&log, &area);
    assert_eq!(log.cached_bytes() - before, left, "{kept} bytes were kept before");
    // The next areas are cut before the helper looks at them: they are not touched any more.
    let (in_time, late) = log.stats().made_ahead;
    cut_to(&log, area.end + 2 * AREA_BYTES);
    put_all_in_place(&log);
    assert_eq!(log.stats().made_ahead, (in_time + 1, late + 3));
    log.verify();
}

#[test]
fn memory_that_comes_when_its_segment_is_sealed_goes_back_with_it() {
    for drains_before in [false, true] {
        let log = whole();
        cut_to(&log, SMALL_PAGES_BELOW as u64 + AREA_BYTES);
        let area = taken(&log);
        log.clear();
        let segment = (area.start / log.geometry().segment_bytes as u64) as u32;
        let mut begun = drains_before.then(|| log.choose_this(segment).expect("it is sealed"));
        populated(&log, &area);
        assert!(log.cached_bytes() as u64 >= AREA_BYTES, "{} bytes are kept", log.cached_bytes());
        log.verify();
        if let Some(drain) = &mut begun {
            while log.release_drained_step(drain) {}
            while log.drain_step(drain, &mut Nobody, 1000) != DrainState::Done {}
        }
        while let Some(mut drain) = log.choose_victim() {
            while log.drain_step(&mut drain, &mut Nobody, 1000) != DrainState::Done {}
        }
        log.release_cached();
        assert_eq!((log.cached_bytes(), log.used_bytes()), (0, 0));
        log.verify();
    }
}

#[test]
fn memory_that_comes_to_an_extents_segment_is_the_extents() {
    let log = whole();
    let memory = &log.shared.memory;
    cut_to(&log, SMALL_PAGES_BELOW as u64 + log.geometry().segment_bytes as u64 - AREA_BYTES);
    let area = taken(&log);
    let segment = (area.start / log.geometry().segment_bytes as u64) as u32;
    assert!(log.shared.space.lock().ids.is_free(segment), "the area is the next segment's first");
    let rows = log.shared.space.lock().ids.in_middle();
    let first = log.shared.space.lock().take_empty(memory, rows).expect("all that is free");
    populated(&log, &area);
    assert_eq!(log.cached_bytes(), 0);
    log.shared.space.lock().give_empty(memory, first, rows);
    log.verify();
}

/// Memory that was made ahead counted with the memory that drains keep, and drains kept none any more: each segment's went
/// back to the system, and was made again.
#[test]
fn drains_keep_memory_beside_what_is_ahead() {
    let log = whole();
    cut_to(&log, SMALL_PAGES_BELOW as u64 + 16 * AREA_BYTES + 300 * 1024);
    put_all_in_place(&log);
    let segment_bytes = log.geometry().segment_bytes;
    let ahead = log.cached_bytes();
    assert!(ahead as u64 >= AREA_BYTES);
    let first_with_ahead = (SMALL_PAGES_BELOW / segment_bytes) as u32;
    let mut drain = log.choose_this(first_with_ahead).expect("it is sealed");
    assert_eq!(log.cached_bytes(), ahead + segment_bytes, "the drain plans to keep all of it");
    while log.drain_step(&mut drain, &mut Nobody, 1000) != DrainState::Done {}
    assert_eq!(log.cached_bytes(), ahead + segment_bytes);
    // One segment's memory is enough: the next drain keeps none.
    let drain = log.choose_this(first_with_ahead + 1).expect("it is sealed");
    assert_eq!(log.cached_bytes(), ahead + segment_bytes);
    log.abandon(drain);
    while log.release_cached_step(false) {}
    let left = log.cached_bytes() as u64;
    assert!(left <= 3 * AREA_BYTES, "{left} bytes are left of {ahead} ahead and a segment");
    log.release_cached();
    log.verify();
}

#[test]
fn objects_stay_as_they_are_while_memory_is_made_and_given_back_around_them() {
    let log = Log::new(LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() }).unwrap();
    let (mut appender, access, end) = (Appender::new(), log.access(), AtomicBool::new(false));
    let value = |nth: usize| vec![nth as u8 | 1; 20_000 + nth % 7];
    thread::scope(|scope| {
        let helper = scope.spawn(|| {
            log.set_helper(thread::current());
            while !end.load(Ordering::Relaxed) {
                if !log.populate_ahead() {
                    thread::park_timeout(Duration::from_millis(1));
                }
            }
        });
        let mut refs = Vec::new();
        for nth in 0..9000 {
            refs.push(appender.append(&log, &plain(b"key", &value(nth))));
            if nth % 500 == 0 {
                appender.park(&log);
                log.release_cached();
            }
        }
        appender.park(&log);
        end.store(true, Ordering::Relaxed);
        helper.thread().unpark();
        helper.join().expect("the helper");
        log.release_cached();
        assert!(refs.iter().enumerate().all(|(nth, r)| access.open(&log, *r).value() == value(nth)));
    });
    assert!(log.shared.memory.cached_units() <= 8, "the huge page in which the frontier stands is kept");
    log.verify();
}

#[test]
fn without_a_thread_nothing_is_made_ahead() {
    let log = Log::new(LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() }).unwrap();
    cut_to(&log, SMALL_PAGES_BELOW as u64 + 8 * AREA_BYTES);
    assert!(!log.populate_ahead());
    assert_eq!(log.cached_bytes(), 0);
}
