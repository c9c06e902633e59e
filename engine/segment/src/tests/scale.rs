//! The cost of decisions in a log of very many segments, counted in entries of the segment table that are looked at.

use std::sync::atomic::Ordering;

use varve_base::Ref;

use super::*;
use crate::NewValue;

/// The number of segments of 8 MB that a terabyte of data has.
const SEGMENTS: usize = 131_072;
/// A choice of a victim looks at twelve segments of each of 32 rungs at most, and at the open ones, twice.
const CHOICE_LOOKS: u64 = 800;

fn looks<R>(log: &Log, act: impl FnOnce() -> R) -> (u64, R) {
    let table = &log.shared.memory.table;
    let before = table.looks.load(Ordering::Relaxed);
    let result = act();
    (table.looks.load(Ordering::Relaxed) - before, result)
}

/// Segments of one page.
fn small_segments() -> LogGeometry {
    LogGeometry {
        segment_bytes: 4096,
        piece_bytes: 1024,
        extent_min_bytes: 2048,
        release_bytes: 4096,
        reserve_bytes: 4 * SEGMENTS * 4096,
    }
}

/// Fills `segments` segments with three objects each, and kills the first of every segment whose number is even.
fn fill(log: &Log, segments: usize) {
    let (mut access, mut appender) = (log.access(), Appender::new());
    let value = [7; 1300];
    while (log.shared.space.lock().ids.middle().start as usize) < segments {
        for _ in 0..512 {
            let r = appender.append(log, &plain(b"key", &value));
            let place = r.bits() % 4096;
            if place < 1024 && (r.bits() / 4096) % 2 == 0 {
                access.kill(log, r);
            }
        }
        appender.park(log);
    }
}

#[test]
fn decisions_look_at_few_segments_however_many_there_are() {
    for segments in [100, SEGMENTS] {
        let log = Log::new(small_segments()).unwrap();
        fill(&log, segments);
        let (sum, (live, extents)) = looks(&log, || log.unreclaimable_bytes());
        assert_eq!((sum, extents), (0, 0), "the sums are at hand");
        let in_one_hold = log.shared.space.lock().segments(&log.shared.memory.table, 0).count();
        assert_eq!((log.segments().len(), log.stats().segments as usize), (in_one_hold, in_one_hold));
        let exact = log.live_bytes();
        assert!(live >= exact && live <= exact + segments as u64 * 16 + 64, "{live} of {exact} bytes live");
        assert_eq!(looks(&log, || log.has_addresses(1 << 20)), (0, true));
        let (chosen, drain) = looks(&log, || log.choose_victim().expect("half of the segments are a third dead"));
        assert!(chosen <= CHOICE_LOOKS, "{chosen} looks for a victim among {segments}");
        assert_eq!(drain.chosen().segment % 2, 0, "one of the emptier half");
        log.abandon(drain);
        let mut appender = Appender::new();
        let (appended, _) = looks(&log, || parked_append(&log, &mut appender));
        assert!(appended <= 20, "{appended} looks for an append");
    }
}

fn parked_append(log: &Log, appender: &mut Appender) {
    appender.append(log, &plain(b"key", b"value"));
    appender.park(log);
}

/// Each value that once grew has addresses for 64 segments. When all but the last one are gone, what they leave free is
/// not looked at.
#[test]
fn what_grown_values_leave_free_costs_nothing() {
    let log = Log::new(LogGeometry { reserve_bytes: 4096 * 64 * 3000, ..small_segments() }).unwrap();
    let (mut access, mut appender) = (log.access(), Appender::new());
    let grown = |appender: &mut Appender| {
        let value = NewValue::Bytes(&[7; 2500]);
        appender.append(&log, &NewObject { value, room: 5000, ..plain(b"grown", b"") })
    };
    let values: Vec<Ref> = (0..700).map(|_| grown(&mut appender)).collect();
    assert!(log.stats().extent_segments >= 700 * 64);
    for &r in &values[..699] {
        access.kill(&log, r);
    }
    while log.release_step(1 << 20) {}
    parked_append(&log, &mut appender);
    let (walked, all) = looks(&log, || log.segments().len());
    assert_eq!(all, 2, "a segment and an extent");
    assert!(walked <= 3 * 2 * 4, "{walked} looks at two segments");
    let (sum, (_, extents)) = looks(&log, || log.unreclaimable_bytes());
    assert!(sum == 0 && extents > 2500 && extents < 6000, "{extents} bytes of one extent");
    let (taken, again) = looks(&log, || grown(&mut appender));
    assert!(taken <= 64 * 4 + 20, "{taken} looks for a place of 64 segments");
    [values[699], again].into_iter().for_each(|r| access.kill(&log, r));
    while log.release_step(1 << 20) {}
    log.verify();
}

/// Large values come and go at random for long: a place is found in stretches of all lengths.
#[test]
fn extents_of_all_lengths_find_places_among_many_holes() {
    let log = Log::new(small_segments()).unwrap();
    let (mut access, mut appender) = (log.access(), Appender::new());
    let mut rng = varve_base::rng::Rng::seeded(11);
    let value = vec![7; 40_000];
    let mut values: Vec<Ref> = Vec::new();
    for round in 0..6000 {
        if round > 2000 && rng.below(2) == 0 {
            let at = rng.below(values.len() as u64) as usize;
            access.kill(&log, values.swap_remove(at));
            while log.release_step(1 << 20) {}
        } else {
            let len = 2100 + rng.below(37_000) as usize;
            let (taken, r) = looks(&log, || appender.append(&log, &plain(b"key", &value[..len])));
            assert!(taken <= 4 * 12 + 20, "{taken} looks for a place of {len} bytes");
            values.push(r);
        }
    }
    log.verify();
    let reached = log.shared.space.lock().ids.reached();
    assert!(reached[1] < 45_000, "{reached:?} numbers for {} values", values.len());
}
