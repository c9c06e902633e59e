//! Writes to values that are being read by range: what is copied, what readers see, and what comes back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use varve_base::rng::Rng;

use super::{bytes_of, parked, plain, tiny};
use crate::{Access, Appender, KeptForPins, Log, LogGeometry, NewObject, NewValue, Pin, Ref, Way};

/// Writes over bytes of a value as an owner does who cannot be put back.
fn write(log: &Log, access: &mut Access, r: Ref, at: usize, part: &[u8]) {
    let mut object = access.open_mut(log, r);
    while object.make_way(at..at + part.len(), &mut usize::MAX.clone()) != Way::Free {
        std::thread::yield_now();
    }
    object.write_value(at, part);
}

fn largest() -> Log {
    Log::new(LogGeometry { reserve_bytes: 4 << 30, ..LogGeometry::default() }).unwrap()
}

const LARGEST: usize = 512 << 20;

#[test]
fn issue_14_a_bit_of_the_largest_value_costs_one_block() {
    let log = largest();
    let mut access = log.access();
    parked(&log, |appender| {
        let value = NewValue::Patched { old: &[], at: LARGEST - 1, part: b"!" };
        let r = appender.append(&log, &NewObject { value, room: LARGEST, ..plain(b"bits", b"") });
        // Some blocks that were written, at the beginning of 128 KB each.
        (0..16).for_each(|nth| write(&log, &mut access, r, nth << 25, b"x"));
        let (pin, used) = (log.pin(&access, r).unwrap(), log.used_bytes());
        write(&log, &mut access, r, (5 << 25) + 1, b"y");
        assert_eq!((log.kept_bytes(), log.used_bytes()), (64 << 10, used + (64 << 10)), "one block was copied");
        write(&log, &mut access, r, (5 << 25) + 2, b"z");
        assert_eq!(log.kept_bytes(), 64 << 10, "and once");
        // Blocks that were never written are not copied, and read as zeros without memory.
        write(&log, &mut access, r, (5 << 25) + (1 << 20), b"far");
        assert_eq!(log.kept_bytes(), 64 << 10);
        let newer = log.pin(&access, r).unwrap();
        let (of_old, of_new) = ([b"x\0\0", b"\0\0\0"], [b"xyz", b"far"]);
        for (pin, values) in [(&pin, of_old), (&newer, of_new)] {
            let at = [5 << 25, (5 << 25) + (1 << 20)];
            assert_eq!(at.map(|at| pin.read(at..at + 3).to_vec()), values.map(|value| value.to_vec()));
        }
        drop(pin);
        assert!(log.owes_release());
        while log.release_step(1) {}
        assert_eq!((log.kept_bytes(), log.used_bytes()), (0, used));
        assert_eq!(&newer.read(5 << 25..LARGEST)[..3], b"xyz");
        access.kill(&log, r);
    });
}

/// Of two pins that are counted, each counts what it reads and no key has any more.
#[test]
fn issue_13_what_is_kept_for_a_pin_is_counted_until_it_is_dropped() {
    const LEN: usize = 40 << 20;
    const BLOCK: usize = 64 << 10;
    let log = largest();
    let mut access = log.access();
    parked(&log, |appender| {
        let r = appender.append(&log, &plain(b"bits", &vec![1; LEN]));
        let sums = [KeptForPins::default(), KeptForPins::default()];
        let read = || sums.each_ref().map(KeptForPins::get);
        let first = log.pin(&access, r).unwrap().counted_in(&sums[0]);
        let uncounted = first.clone();
        assert_eq!(read(), [0, 0], "all bytes are the key's");
        write(&log, &mut access, r, 0, b"x");
        let second = log.pin(&access, r).unwrap().counted_in(&sums[1]);
        assert_eq!(read(), [BLOCK, 0], "the second one is of a later instant");
        write(&log, &mut access, r, 1, b"y");
        write(&log, &mut access, r, 5 * BLOCK, b"z");
        assert_eq!(read(), [2 * BLOCK, 2 * BLOCK], "one old block each, and one that both read");
        write(&log, &mut access, r, 5 * BLOCK + 1, b"z");
        assert_eq!(read(), [2 * BLOCK, 2 * BLOCK], "a block is kept once");
        access.kill(&log, r);
        assert_eq!(read(), [LEN, LEN], "nothing but pins keeps a value that is dead");
        drop(first);
        assert_eq!(read(), [0, LEN]);
        drop((second, uncounted));
        assert_eq!(read(), [0, 0]);
    });
}

#[test]
fn issue_14_a_write_of_many_blocks_comes_further_with_each_try() {
    let log = largest();
    let mut access = log.access();
    parked(&log, |appender| {
        let value: Vec<u8> = (0..4 << 20).map(|i: usize| i as u8 | 1).collect();
        let r = appender.append(&log, &plain(b"key", &value));
        let pin = log.pin(&access, r).unwrap();
        let mut tries = 0;
        loop {
            let kept = log.kept_bytes();
            let way = access.open_mut(&log, r).make_way(0..value.len(), &mut (512 << 10));
            assert!(log.kept_bytes() <= kept + (512 << 10));
            if way == Way::Free {
                break;
            }
            tries += 1;
        }
        assert!((7..=9).contains(&tries), "{tries} tries for 4 MB");
        access.open_mut(&log, r).write_value(0, &vec![0; value.len()]);
        assert!(bytes_of(&pin) == value && access.open(&log, r).value().iter().all(|&byte| byte == 0));
        drop(pin);
        let mut steps = 0;
        while log.kept_bytes() > 0 {
            log.release_step(256 << 10);
            steps += 1;
        }
        assert!((16..=17).contains(&steps), "{steps} steps of 256 KB");
        log.verify();
    });
}

#[test]
fn issue_14_a_writer_waits_for_a_reader_of_its_block() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    parked(&log, |appender| {
        let r = appender.append(&log, &plain(b"key", &[7; 9000]));
        let pin = log.pin(&access, r).unwrap();
        let held = pin.read(1000..1010);
        let mut object = access.open_mut(&log, r);
        assert_eq!(object.make_way(1003..1004, &mut usize::MAX.clone()), Way::Later);
        assert_eq!(object.make_way(5000..5001, &mut usize::MAX.clone()), Way::Free);
        object.write_value(5000, b"!");
        // Readers that come now read the copy.
        let newer = log.pin(&access, r).unwrap();
        let others = [&pin, &newer].map(|pin| pin.read(1000..1010));
        assert!(others.iter().all(|bytes| **bytes == [7; 10]));
        drop(others);
        drop(held);
        write(&log, &mut access, r, 1003, b"?");
        assert_eq!(bytes_of(&pin), [7; 9000]);
        access.kill(&log, r);
        drop((pin, newer));
        while log.release_step(1 << 20) {}
        assert_eq!((log.stats().runs, log.kept_bytes()), (0, 0));
    });
}

#[test]
fn issue_14_a_value_without_a_key_is_kept_whole_and_then_by_ranges() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    parked(&log, |appender| {
        let mut open = log.begin_extent(9000).unwrap();
        open.push(&[7; 9000]);
        let filled = open.finish();
        let (whole, by_ranges) = (filled.pin(), filled.pin().by_ranges());
        let r = appender.adopt(&log, &filled, &plain(b"key", b""));
        drop(filled);
        assert_eq!(access.open_mut(&log, r).make_way(1003..1004, &mut usize::MAX.clone()), Way::Never);
        assert_eq!(*whole, [7; 9000]);
        drop(whole);
        write(&log, &mut access, r, 1003, b"?");
        assert_eq!((access.open(&log, r).value()[1003], bytes_of(&by_ranges)), (b'?', vec![7; 9000]));
        access.kill(&log, r);
        drop(by_ranges);
        while log.release_step(1 << 20) {}
        assert_eq!((log.stats().runs, log.kept_bytes()), (0, 0));
    });
}

#[test]
fn issue_14_a_copy_of_a_block_that_grows_is_of_older_pins_alone() {
    let log = Log::new(tiny()).unwrap();
    let mut access = log.access();
    parked(&log, |appender| {
        for value in [NewValue::Bytes(&[7; 9000]), NewValue::Zeroed(9000)] {
            let r = appender.append(&log, &NewObject { value, room: 20_000, ..plain(b"key", b"") });
            let old = access.open(&log, r).value().to_vec();
            let pin = log.pin(&access, r).unwrap();
            let held = pin.read(8990..9000);
            assert_eq!(access.open_mut(&log, r).make_way(8990..9000, &mut usize::MAX.clone()), Way::Later);
            assert!(access.open_mut(&log, r).extend_value(9003, b"more"));
            let longer = log.pin(&access, r).unwrap();
            let grown = [&old[..], b"\0\0\0more"].concat();
            assert_eq!((bytes_of(&pin), bytes_of(&longer)), (old.clone(), grown.clone()));
            drop(held);
            write(&log, &mut access, r, 8995, b"over the end");
            assert_eq!((bytes_of(&pin), bytes_of(&longer)), (old, grown));
            assert_eq!(&access.open(&log, r).value()[8995..], b"over the end");
            access.kill(&log, r);
        }
    });
    while log.release_step(1 << 20) {}
    assert_eq!((log.stats().runs, log.kept_bytes()), (0, 0));
}

/// Workers write to one value under its lock and pin it; readers look at the pins meanwhile, and compare with copies.
#[test]
fn issue_14_readers_and_writers_at_once() {
    const LEN: usize = 20_000;
    let log = Log::new(tiny()).unwrap();
    let mut appender = Appender::new();
    let r = appender.append(&log, &plain(b"key", &[0; LEN]));
    appender.park(&log);
    let shard = Mutex::new((log.access(), vec![0u8; LEN]));
    let pins: Mutex<Vec<(Pin, Vec<u8>)>> = Mutex::default();
    let (stop, compared) = (AtomicBool::new(false), AtomicU64::new(0));
    let steps = if cfg!(debug_assertions) { 3_000 } else { 30_000 };
    let writer = |seed: u64| {
        let mut rng = Rng::seeded(seed);
        for _ in 0..steps {
            let mut shard = shard.lock();
            let (access, value) = &mut *shard;
            let at = rng.below(LEN as u64 - 100) as usize;
            let part = vec![rng.below(256) as u8; 1 + rng.below(99) as usize];
            write(&log, access, r, at, &part);
            value[at..at + part.len()].copy_from_slice(&part);
            if rng.below(8) == 0 {
                let pin = (log.pin(access, r).unwrap(), value.clone());
                let mut pins = pins.lock();
                pins.truncate(20);
                pins.push(pin);
            }
        }
    };
    let reader = |seed: u64| {
        let mut rng = Rng::seeded(seed);
        while !stop.load(Ordering::Relaxed) {
            let taken = pins.lock().pop();
            let Some((pin, value)) = taken else {
                std::thread::yield_now();
                continue;
            };
            for _ in 0..4 {
                let from = rng.below(LEN as u64) as usize;
                let part = pin.read(from..LEN);
                assert!(*part == value[from..from + part.len()], "bytes from {from} on");
            }
            assert!(bytes_of(&pin.clone()) == value, "all bytes");
            compared.fetch_add(1, Ordering::Relaxed);
            log.release_step(8192);
        }
    };
    std::thread::scope(|scope| {
        let (reader, writer) = (&reader, &writer);
        (0..2).for_each(|seed| drop(scope.spawn(move || reader(seed))));
        let writers: Vec<_> = (2..4).map(|seed| scope.spawn(move || writer(seed))).collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    assert!(compared.load(Ordering::Relaxed) > 10, "{compared:?} pins were compared");
    pins.lock().clear();
    while log.release_step(1 << 20) {}
    assert_eq!(log.kept_bytes(), 0);
    log.verify();
}
