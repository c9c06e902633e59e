//! Every rule of the log that the other tests keep is broken here once, and the assertion that states it stops it.
//!
//! Not here: assertions that a damaged log or a mistake in the crate itself fires (see docs/testing.md).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use super::{parked, plain, tiny};
use crate::kind::{ObjectKind, ObjectTag};
use crate::releases::Releases;
use crate::space::Piece;
use crate::table::{Live, SegmentEntry};
use crate::{Appender, FilledExtent, Log, LogGeometry, NewObject, Owner, Ref, SegmentClass};
use varve_base::mem::{Mapping, PAGE_BYTES};

/// Runs `broken` and checks that a panic with `message` in it stops it.
fn stops<T>(message: &str, broken: impl FnOnce() -> T) {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(broken()))).expect_err(message);
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(text.is_some_and(|text| text.contains(message)), "{text:?} in place of {message:?}");
}

fn filled(log: &Log, len: usize) -> FilledExtent {
    let mut open = log.begin_extent(len).unwrap();
    open.advance(len);
    open.finish()
}

fn never_followed(bits: u64) -> Ref {
    // SAFETY: in range for a Ref, and the assertion under test stops whoever would follow it.
    unsafe { Ref::from_bits(bits) }
}

#[test]
fn a_geometry_is_checked() {
    let bad = |message, geometry: LogGeometry| stops(message, || Log::new(geometry));
    bad("is no power of two", LogGeometry { segment_bytes: 12 << 10, ..tiny() });
    bad("segment_bytes 16777216", LogGeometry { segment_bytes: 16 << 20, ..tiny() });
    bad("piece_bytes 32", LogGeometry { piece_bytes: 32, ..tiny() });
    bad("extent_min_bytes 8192", LogGeometry { extent_min_bytes: 8192, ..tiny() });
    bad("over extent_min_bytes 512", LogGeometry { extent_min_bytes: 512, ..tiny() });
    bad("release_bytes 1000", LogGeometry { release_bytes: 1000, ..tiny() });
    bad("release_bytes 12288", LogGeometry { release_bytes: 3 * PAGE_BYTES, ..tiny() });
    bad("release_bytes 4096", LogGeometry { segment_bytes: 1 << 20, ..tiny() });
    bad("reserve_bytes 4096", LogGeometry { reserve_bytes: 4096, ..tiny() });
    bad("reserve_bytes 67112960", LogGeometry { reserve_bytes: (64 << 20) + 4096, ..tiny() });
    stops("bytes are reserved for a log", || {
        crate::memory::LogMemory::new(Mapping::zeroed(PAGE_BYTES).unwrap(), tiny())
    });
}

#[test]
fn kinds_and_tags_have_their_numbers() {
    stops("a key's kind is 1 to 7", || ObjectKind::key(8));
    stops("a part's kind is 8 to 14", || ObjectKind::part(15));
    stops("a tag has two bits", || ObjectTag::new(4));
    stops("a kind has four bits", || ObjectKind::from_bits(16));
}

#[test]
fn an_object_states_the_owner_that_its_kind_has() {
    let log = Log::new(tiny()).unwrap();
    let of_a_collection = NewObject { owner: Owner::Collection(1), ..plain(b"key", b"value") };
    stops("Collection(1)", || Appender::new().append(&log, &of_a_collection));
}

#[test]
fn an_extent_is_filled_once_and_adopted_by_its_log() {
    let (log, other) = (Log::new(tiny()).unwrap(), Log::new(tiny()).unwrap());
    stops("an extent for a value of 100 bytes", || log.begin_extent(100));
    stops("5001 bytes more than 0 of 5000", || log.begin_extent(5000).unwrap().advance(5001));
    stops("0 of 5000 bytes are there", || log.begin_extent(5000).unwrap().finish());
    let value = filled(&log, 5000);
    stops("an extent of another log", || Appender::new().adopt(&other, &value, &plain(b"key", b"")));
}

#[test]
fn a_pinned_value_is_not_changed_in_place() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    parked(&log, |appender| {
        let r = appender.append(&log, &plain(b"key", &[7; 5000]));
        let pin = log.pin(&access, r).unwrap();
        stops("the value of a pinned extent would change", || access.open_mut(&log, r).value_mut()[0] = 0);
        stops("what stands already is not extended", || access.open_mut(&log, r).extend_value(4999, b"x"));
        stops("0 of blocks", || access.open_mut(&log, r).write_value(0, b"x"));
        stops("5000..5000 of 5000 bytes", || pin.read(5000..5000));
        stops("0..5001 of 5000 bytes", || pin.part(0..5001));
    });
}

#[test]
fn a_ref_is_of_this_log() {
    let log = Log::new(tiny()).unwrap();
    stops("r.bits() <", || log.prefetch(never_followed(64 << 20)));
    stops("bits 0x4000000 of no Ref", || log.recall(64 << 20));
    stops("bits 0x0 of no Ref", || log.recall(0));
}

#[test]
fn an_object_is_moved_to_another_place() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    let mut appender = Appender::new();
    let r = appender.append(&log, &plain(b"key", b"value"));
    access.kill(&log, r);
    stops("killed twice", || access.kill(&log, r));
    appender.park(&log);
}

/// An entry of the segments' table that still has something of its life before is not opened.
#[test]
fn a_free_segment_is_clean() {
    let opened = |dirty: fn(&SegmentEntry)| {
        let entry = SegmentEntry::default();
        dirty(&entry);
        entry.open(SegmentClass::ALL[0], 0, 0);
    };
    stops("objects live in a free segment", || {
        opened(|entry| {
            entry.add_live(Live::new(1, 8));
        });
    });
    stops("bytes are used in a free segment", || opened(|entry| entry.used.store(8, Ordering::Relaxed)));
    stops("pieces of a free segment are out", || opened(|entry| entry.out.store(1, Ordering::Relaxed)));
    stops("a free segment is pinned", || opened(|entry| entry.pins.store(1, Ordering::Relaxed)));
    let cached = SegmentEntry::default();
    cached.cached.store(1, Ordering::Relaxed);
    stops("a tail begins with pages of other objects", || cached.begin_tail());
    stops("an extent begins with pages of other objects", || cached.begin_extent(1, 0, 0, 0));
    stops("an extent of 0 segments", || SegmentEntry::default().begin_extent(0, 0, 0, 0));
}

#[test]
fn a_segment_is_freed_when_nothing_needs_it() {
    let drained = SegmentEntry::default();
    drained.open(SegmentClass::ALL[0], 0, 0);
    drained.seal(1);
    drained.choose();
    drained.used.store(8, Ordering::Relaxed);
    stops("drained, and bytes used", || drained.finish());
    drained.add_live(Live::new(1, 8));
    stops("drained, and 1 objects of 8 bytes live", || drained.finish());
    let retired = SegmentEntry::default();
    retired.begin_extent(1, 0, 0, 0);
    retired.retire();
    retired.pins.store(1, Ordering::Relaxed);
    stops("an extent is freed that is pinned", || retired.free_extent());
    let mut releases = Releases::default();
    releases.push(3, 4096);
    let mut release = releases.take(0);
    release.done = 4096;
    stops("segment 3 is released whole", || releases.put_back(release));
}

#[test]
fn pieces_and_segments_are_given_back_as_they_were_taken() {
    let log = Log::new(tiny()).unwrap();
    let mut appender = Appender::new();
    appender.append(&log, &plain(b"key", b"value"));
    let memory = &log.shared.memory;
    let class = SegmentClass::ALL[0];
    let mut space = log.shared.space.lock();
    stops("no numbers are taken", || space.take_empty(memory, 0));
    let piece = Piece { begin: 8, at: 4, end: 16, ..Piece::default() };
    stops("begin: 8", || space.take_back(memory, class, &piece));
    stops("segment 0 is given back and in use", || space.give(memory, 0));
    let entry = memory.table.entry(0);
    entry.cached.store(1, Ordering::Relaxed);
    stops("a piece of 16..8", || memory.use_cached(entry, 16, 8));
    entry.cached.store(0, Ordering::Relaxed);
    drop(space);
    appender.park(&log);
    log.verify();
}
