//! Several workers append, change and kill under shard mutexes while one drains: short enough for the sanitizers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{bytes_of, tiny};
use crate::{Access, Appender, DrainState, Log, NewObject, ObjectHead, Ref, Relocate, Relocated, SegmentClass};

const SHARDS: usize = 8;
const KEYS: u64 = 400;

/// Key to place, and the number that its value repeats.
struct Shard {
    access: Access,
    map: HashMap<u64, (Ref, u64, usize)>,
}

type Shards = [Mutex<Shard>; SHARDS];

fn shard_of(key: u64) -> usize {
    (key % SHARDS as u64) as usize
}

fn value(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

struct Owner<'a> {
    log: &'a Log,
    shards: &'a Shards,
    appender: Appender,
    seed: u64,
}

impl Relocate for Owner<'_> {
    fn prepare(&mut self, heads: &[ObjectHead<'_>]) {
        assert!(heads.iter().all(|head| head.key.len() == 8));
    }

    fn relocate(&mut self, head: &ObjectHead<'_>) -> Relocated {
        let key = u64::from_le_bytes(head.key.try_into().unwrap());
        let Some(mut shard) = self.shards[shard_of(key)].try_lock() else { return Relocated::Busy };
        let Shard { access, map } = &mut *shard;
        if map.get(&key).is_none_or(|found| found.0 != head.r) {
            return Relocated::Dead;
        }
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if self.seed >> 60 == 0 {
            map.remove(&key);
            access.kill(self.log, head.r);
            return Relocated::Evicted;
        }
        map.get_mut(&key).unwrap().0 = self.appender.relocate(self.log, access, head.r, SegmentClass::Survivor);
        Relocated::Moved
    }
}

fn worker(log: &Log, shards: &Shards, mut seed: u64, steps: usize) {
    let mut appender = Appender::new();
    let mut pins = vec![];
    for step in 0..steps {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let key = (seed >> 33) % KEYS;
        let len = match seed >> 20 & 31 {
            0 => 2000 + (seed >> 40 & 0xfff) as usize,
            1..4 => (seed >> 40 & 0x7ff) as usize,
            _ => (seed >> 40 & 0x7f) as usize,
        };
        let mut shard = shards[shard_of(key)].lock();
        let Shard { access, map } = &mut *shard;
        let found = map.get(&key).copied();
        if let Some((r, number, len)) = found {
            let object = access.open(log, r);
            assert_eq!(object.key(), key.to_le_bytes());
            assert!(object.value() == value(number, len), "the value of {key}");
        }
        match (seed >> 27 & 7, found) {
            (0, Some((r, ..))) => {
                access.kill(log, r);
                map.remove(&key);
            }
            (1, Some((r, number, len))) => pins.extend(log.pin(access, r).map(|pin| (pin, value(number, len)))),
            (2 | 3, Some((r, ..))) if access.open_mut(log, r).set_value(&value(seed, len)) => {
                map.insert(key, (r, seed, len));
            }
            (_, found) => {
                let (name, value) = (key.to_le_bytes(), value(seed, len));
                let room = len + (seed >> 50 & 31) as usize;
                let r = appender.append(log, &NewObject { room, ..super::plain(&name, &value) });
                map.insert(key, (r, seed, len));
                if let Some((old, ..)) = found {
                    access.kill(log, old);
                }
            }
        }
        drop(shard);
        if step % 7 == 0 {
            appender.park(log);
        }
        if step % 64 == 0 {
            pins.drain(..).for_each(|(pin, value)| assert!(bytes_of(&pin) == value, "a pinned value"));
        }
    }
    appender.park(log);
}

fn reclaim(log: &Log, shards: &Shards, stop: &AtomicBool) -> usize {
    let mut owner = Owner { log, shards, appender: Appender::new(), seed: 7 };
    let mut drained = 0;
    while !stop.load(Ordering::Relaxed) {
        log.release_step(8192);
        let Some(mut drain) = log.choose_victim() else {
            std::thread::yield_now();
            continue;
        };
        while log.drain_step(&mut drain, &mut owner, 16) != DrainState::Done {
            owner.appender.park(log);
        }
        owner.appender.park(log);
        drained += 1;
    }
    drained
}

#[test]
fn workers_and_reclaim_at_once() {
    let log = Log::new(tiny()).unwrap();
    let shards: Shards = std::array::from_fn(|_| Mutex::new(Shard { access: log.access(), map: HashMap::new() }));
    let stop = AtomicBool::new(false);
    // Orders the threads' ends before what follows for a sanitizer that does not see into the standard library.
    let ended = Mutex::new(0);
    let ended = &ended;
    let steps = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let drained: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=3)
            .map(|n| {
                let (log, shards) = (&log, &shards);
                scope.spawn(move || {
                    worker(log, shards, n * 0x1234_5678_9abc_def1, steps);
                    *ended.lock() += 1;
                })
            })
            .collect();
        let drains: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let drained = reclaim(&log, &shards, &stop);
                    *ended.lock() += 1;
                    drained
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        let drained = drains.into_iter().map(|drain| drain.join().unwrap()).sum();
        results.into_iter().for_each(|result| result.unwrap());
        drained
    });
    assert_eq!(*ended.lock(), 5);
    assert!(drained > 10, "{drained} segments drained");
    while log.release_step(1 << 20) {}
    let alive: HashMap<Ref, u64> = shards
        .iter()
        .flat_map(|shard| shard.lock().map.iter().map(|(key, v)| (v.0, *key)).collect::<Vec<_>>())
        .collect();
    log.verify_with(|head, _| alive.get(&head.r).is_some_and(|key| head.key == key.to_le_bytes()));
    assert_eq!(log.stats().live_objects, alive.len() as u64);
}
