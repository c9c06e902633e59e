//! Strings of the store against a naive model: random commands on one worker, tiny segments, background steps in between.
//!
//! The seed is printed; `VARVE_SEED` sets it, `VARVE_STEPS` the number of commands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use varve_base::rng::Rng;
use varve_store::{
    Drawn, FilledExtent, LogGeometry, Options, Pin, Policy, Store, StoreWorker, StringForm, Ttl, Tx, Type, Way,
};

use crate::setting;

type Model = BTreeMap<(u32, Vec<u8>), (Vec<u8>, Option<i64>)>;

/// All bytes of a pinned value, read as they lie together.
fn bytes_of(pin: &Pin) -> Vec<u8> {
    let mut bytes = Vec::new();
    pin.each_part(0..pin.len(), |part| bytes.extend_from_slice(part));
    bytes
}

struct Pair {
    store: Arc<Store>,
    worker: StoreWorker,
    model: Model,
    now: i64,
    rng: Rng,
    /// Replies on their way: values as they were when they were read.
    pins: Vec<(Pin, Vec<u8>)>,
    /// Arguments in runs, some of them adopted.
    bodies: Vec<(FilledExtent, Vec<u8>)>,
}

fn tiny() -> LogGeometry {
    LogGeometry {
        segment_bytes: 16 << 10,
        piece_bytes: 1 << 10,
        extent_min_bytes: 2 << 10,
        release_bytes: 4 << 10,
        reserve_bytes: 1 << 30,
    }
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let options = Options { databases: 3, shards: 4, seed, geometry: tiny(), ..Options::default() };
        let store = Store::new(&options).expect("an address range");
        let worker = store.worker(0);
        Pair {
            store,
            worker,
            model: Model::new(),
            now: 1_000_000,
            rng: Rng::seeded(seed),
            pins: vec![],
            bodies: vec![],
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.rng.below(300);
        if n == 0 { vec![b'k'; 3000] } else { format!("key:{n}").into_bytes() }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(40) {
            0 => 2000 + self.rng.below(5000),
            1..=5 => self.rng.below(300),
            _ => self.rng.below(40),
        };
        (0..len).map(|_| self.rng.next_u64() as u8).collect()
    }

    fn model_live(&mut self, db: u32, key: &[u8]) -> Option<&mut (Vec<u8>, Option<i64>)> {
        let id = (db, key.to_vec());
        let now = self.now;
        if self.model.get(&id).is_some_and(|v| v.1.is_some_and(|t| t <= now)) {
            self.model.remove(&id);
        }
        self.model.get_mut(&id)
    }

    /// Runs `f` with the shards of these keys held.
    fn with<R>(&mut self, db: u32, keys: &[(u32, &[u8])], f: impl FnOnce(&mut Tx<'_>) -> R) -> R {
        self.worker.set_now(self.now);
        let (store, local) = self.worker.parts();
        let mut tx = Tx::new(store, local, db);
        let mut shards: Vec<u16> = keys.iter().map(|(db, k)| tx.shard_of(tx.key_in(*db, k).hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        assert!(tx.try_hold(&shards), "one worker meets no busy shard");
        f(&mut tx)
    }

    fn ttl(&mut self) -> Option<i64> {
        match self.rng.below(4) {
            0 => None,
            1 => Some(self.now + 1 + self.rng.below(200) as i64),
            2 => Some(self.now + self.rng.below(100_000) as i64 + 1),
            _ => Some(i64::MAX - self.rng.below(10) as i64),
        }
    }

    fn step(&mut self) {
        let db = self.rng.below(3) as u32;
        let key = self.key();
        match self.rng.below(29) {
            25 | 26 => self.write_within(db, &key),
            27 => self.read_pin(),
            22 => self.adopt(db, &key),
            23 => self.pin(db, &key),
            24 => self.unpin(),
            0..=5 => self.set(db, &key),
            6..=9 => self.read(db, &key),
            10 | 11 => self.append(db, &key),
            12 => self.set_range(db, &key),
            13 | 14 => self.remove(db, &key),
            15 | 16 => self.expire(db, &key),
            17 => self.rename(db, &key, false),
            18 => self.rename(db, &key, true),
            19 => self.now += self.rng.below(60) as i64,
            20 => {
                self.worker.background(self.now, Duration::from_millis(1));
            }
            _ => self.rare(db),
        }
    }

    fn set(&mut self, db: u32, key: &[u8]) {
        let value = self.value();
        let keep = self.rng.below(4) == 0;
        let at = self.ttl();
        let ttl = if keep { Ttl::Keep } else { at.map_or(Ttl::Clear, Ttl::At) };
        self.with(db, &[(db, key)], |tx| tx.set(&tx.key(key), &value, ttl, StringForm::Auto));
        let at = if keep { self.model_live(db, key).and_then(|v| v.1) } else { at };
        self.model.insert((db, key.to_vec()), (value, at));
    }

    fn read(&mut self, db: u32, key: &[u8]) {
        let expected = self.model_live(db, key).cloned();
        self.with(db, &[(db, key)], |tx| {
            let k = tx.key(key);
            assert_eq!(tx.get(&k).unwrap().map(<[u8]>::to_vec), expected.as_ref().map(|v| v.0.clone()));
            assert_eq!(tx.expiry(&k), expected.map(|v| v.1));
        });
    }

    /// A large argument: half of it comes, or all, and then it is some key's value or nobody's.
    fn adopt(&mut self, db: u32, key: &[u8]) {
        let value: Vec<u8> = (0..2049 + self.rng.below(8000)).map(|_| self.rng.next_u64() as u8).collect();
        let mut run = self.store.log().begin_extent(value.len()).expect("addresses");
        let come = if self.rng.below(5) == 0 { value.len() / 2 } else { value.len() };
        run.rest()[..come].copy_from_slice(&value[..come]);
        run.advance(come);
        if come < value.len() {
            return;
        }
        let run = run.finish();
        let at = self.ttl();
        self.with(db, &[(db, key)], |tx| {
            tx.adopt(&tx.key(key), &run, at.map_or(Ttl::Clear, Ttl::At), StringForm::Auto)
        });
        self.model.insert((db, key.to_vec()), (value.clone(), at));
        if self.rng.below(2) == 0 {
            self.bodies.push((run, value));
        }
    }

    fn pin(&mut self, db: u32, key: &[u8]) {
        let expected = self.model_live(db, key).map(|v| v.0.clone());
        if let Some(pin) = self.with(db, &[(db, key)], |tx| tx.pin(&tx.key(key))) {
            let value = expected.expect("a key that is there");
            self.pins.push((pin, value));
        }
    }

    /// A write into the middle of a value, over a few bytes; of a large one that somebody reads, blocks alone are copied.
    fn write_within(&mut self, db: u32, key: &[u8]) {
        let Some(len) = self.model_live(db, key).map(|v| v.0.len()).filter(|&len| len > 0) else { return };
        let at = self.rng.below(len as u64) as usize;
        let part = vec![self.rng.next_u64() as u8; 1 + self.rng.below(200) as usize];
        let end = len.min(at + part.len());
        let (kept, whole) = (self.store.log().kept_bytes(), !self.bodies.is_empty());
        self.with(db, &[(db, key)], |tx| {
            let key = tx.key(key);
            if at.is_multiple_of(2) {
                let way = tx.make_way(&key, std::iter::once(at..end));
                assert!(way == Way::Free || (whole && way == Way::Never), "{way:?}: nobody reads");
            }
            tx.set_range(&key, at, &part).expect("a string");
        });
        assert!(self.store.log().kept_bytes() <= kept + 6 * 4096, "{} bytes were written", part.len());
        let model = self.model.get_mut(&(db, key.to_vec())).expect("it lives");
        model.0.resize(len.max(at + part.len()), 0);
        model.0[at..at + part.len()].copy_from_slice(&part);
    }

    /// Some bytes of a pinned value.
    fn read_pin(&mut self) {
        if self.pins.is_empty() {
            return;
        }
        let (pin, value) = &self.pins[self.rng.below(self.pins.len() as u64) as usize];
        let from = self.rng.below(value.len() as u64) as usize;
        let part = pin.read(from..value.len());
        assert!(*part == value[from..from + part.len()], "a pinned value changed at {from}");
    }

    fn unpin(&mut self) {
        if !self.pins.is_empty() {
            let (pin, value) = self.pins.swap_remove(self.rng.below(self.pins.len() as u64) as usize);
            assert!(bytes_of(&pin) == value, "a pinned value changed");
        }
        if !self.bodies.is_empty() {
            let (run, value) = self.bodies.swap_remove(self.rng.below(self.bodies.len() as u64) as usize);
            assert!(*run == value[..], "an argument changed");
        }
    }

    /// Runs background steps until nothing is left to do now.
    fn work_off(&mut self) {
        while self.worker.background(self.now, Duration::from_millis(1)).is_some_and(|at| at <= self.now) {}
    }

    fn append(&mut self, db: u32, key: &[u8]) {
        let tail = self.value();
        let n = self.with(db, &[(db, key)], |tx| tx.append(&tx.key(key), &tail).unwrap());
        match self.model_live(db, key) {
            Some(v) => v.0.extend_from_slice(&tail),
            None => {
                self.model.insert((db, key.to_vec()), (tail, None));
            }
        }
        assert_eq!(self.model[&(db, key.to_vec())].0.len(), n);
    }

    fn set_range(&mut self, db: u32, key: &[u8]) {
        let part = self.value();
        let offset = self.rng.below(400) as usize;
        let n = self.with(db, &[(db, key)], |tx| tx.set_range(&tx.key(key), offset, &part).unwrap());
        if self.model_live(db, key).is_none() {
            self.model.insert((db, key.to_vec()), (Vec::new(), None));
        }
        let v = self.model_live(db, key).expect("just made");
        let end = offset + part.len();
        if v.0.len() < end {
            v.0.resize(end, 0);
        }
        v.0[offset..end].copy_from_slice(&part);
        assert_eq!(v.0.len(), n);
    }

    fn remove(&mut self, db: u32, key: &[u8]) {
        let there = self.model_live(db, key).is_some();
        self.model.remove(&(db, key.to_vec()));
        assert_eq!(self.with(db, &[(db, key)], |tx| tx.remove(&tx.key(key))), there);
    }

    fn expire(&mut self, db: u32, key: &[u8]) {
        let at = self.ttl();
        let there = self.model_live(db, key).map(|v| v.1 = at).is_some();
        assert_eq!(self.with(db, &[(db, key)], |tx| tx.set_expiry(&tx.key(key), at)), there);
    }

    fn rename(&mut self, db: u32, key: &[u8], copy: bool) {
        let (other_db, other) = (self.rng.below(3) as u32, self.key());
        let expected = self.model_live(db, key).cloned();
        let done = self.with(db, &[(db, key), (other_db, &other)], |tx| {
            let (from, to) = (tx.key(key), tx.key_in(other_db, &other));
            if copy { tx.copy(&from, &to) } else { tx.rename(&from, &to) }
        });
        assert_eq!(done, expected.is_some());
        if let Some(v) = expected {
            if !copy {
                self.model.remove(&(db, key.to_vec()));
            }
            self.model.insert((other_db, other), v);
        }
    }

    fn rare(&mut self, db: u32) {
        match self.rng.below(12) {
            0 => {
                self.store.flush_db(&mut self.worker, db);
                self.model.retain(|k, _| k.0 != db);
            }
            1 if self.rng.below(5) == 0 => {
                self.store.flush_all(&mut self.worker);
                self.model.clear();
            }
            2 => {
                let other = self.rng.below(3) as u32;
                self.store.swap_db(db, other);
                let swap = |d: u32| {
                    if d == db {
                        other
                    } else if d == other {
                        db
                    } else {
                        d
                    }
                };
                self.model = std::mem::take(&mut self.model).into_iter().map(|((d, k), v)| ((swap(d), k), v)).collect();
            }
            3 => self.check_scan(db),
            4 => {
                let now = self.now;
                self.worker.set_now(now);
                let some = self.model.iter().any(|(k, v)| k.0 == db && v.1.is_none_or(|t| t > now));
                self.worker.set_now(now);
                let drawn = self.worker.inside(db, |tx| tx.random_key());
                assert!(drawn != Drawn::Nothing || !some || self.store.len(db) > 0, "a key at random");
                if let Drawn::Key(key) = drawn {
                    assert!(self.model_live(db, &key).is_some(), "a random key exists");
                }
            }
            _ => self.worker.park(),
        }
    }

    fn check_scan(&mut self, db: u32) {
        let mut seen = Vec::new();
        let mut cursor = 0;
        let count = 1 + self.rng.below(20) as usize;
        self.worker.set_now(self.now);
        loop {
            let mut emit = |key: &[u8], _: Type| seen.push(key.to_vec());
            cursor = self.worker.inside(db, |tx| tx.scan(cursor, count, &mut emit)).expect("nobody holds a shard");
            if cursor == 0 {
                break;
            }
        }
        seen.sort();
        let now = self.now;
        let live = self.model.iter().filter(|(k, v)| k.0 == db && v.1.is_none_or(|t| t > now));
        let expected: Vec<_> = live.map(|(k, _)| k.1.clone()).collect();
        assert_eq!(seen, expected, "a scan of a table at rest gives each key once");
    }

    fn check_all(&mut self) {
        for db in 0..3 {
            self.check_scan(db);
        }
        self.worker.park();
        self.store.verify();
        assert!(self.pins.iter().all(|(pin, value)| bytes_of(pin) == *value), "a pinned value changed");
    }
}

#[test]
fn random_commands_agree_with_a_map() {
    let seed = setting("VARVE_SEED", 0x5eed);
    println!("VARVE_SEED={seed}");
    let mut pair = Pair::new(seed);
    for n in 0..setting("VARVE_STEPS", 60_000) {
        pair.step();
        if n % 5_000 == 0 {
            pair.check_all();
        }
    }
    pair.check_all();
}

#[test]
fn background_work_ends_and_gives_memory_back() {
    let mut pair = Pair::new(9);
    for n in 0..20_000u32 {
        let key = n.to_le_bytes();
        pair.with(0, &[(0, &key)], |tx| tx.set(&tx.key(&key), &[7; 50], Ttl::Clear, StringForm::Auto));
    }
    pair.worker.park();
    let full = pair.store.used_memory();
    for n in 0..20_000u32 {
        let key = n.to_le_bytes();
        if n % 10 != 0 {
            assert!(pair.with(0, &[(0, &key)], |tx| tx.remove(&tx.key(&key))));
        }
    }
    for _ in 0..100_000 {
        if pair.worker.background(pair.now, Duration::from_micros(100)).is_none() {
            break;
        }
    }
    assert!(pair.worker.background(pair.now, Duration::from_micros(100)).is_none(), "background work ends");
    pair.store.verify();
    let left = pair.store.used_memory();
    assert!(left < full / 5, "a tenth of the keys keeps {left} of {full} bytes");
}

#[test]
fn large_values_leave_nothing_behind() {
    let mut pair = Pair::new(10);
    let value = vec![3; 20_000];
    for n in 0..50u32 {
        let key = n.to_le_bytes();
        pair.with(0, &[(0, &key)], |tx| {
            tx.set(&tx.key(&key), &value, Ttl::Clear, StringForm::Auto);
            tx.append(&tx.key(&key), &value).unwrap();
        });
        if n % 2 == 0 {
            let pin = pair.with(0, &[(0, &key)], |tx| tx.pin(&tx.key(&key))).expect("a run");
            pair.pins.push((pin, [3; 40_000].to_vec()));
        }
        pair.adopt(1, &key);
    }
    for db in 0..2 {
        for n in 0..50u32 {
            let key = n.to_le_bytes();
            pair.with(db, &[(db, &key)], |tx| tx.remove(&tx.key(&key)));
        }
    }
    pair.worker.park();
    pair.work_off();
    assert!(pair.store.log().stats().runs as usize >= pair.pins.len(), "what is pinned stays");
    assert!(pair.pins.len() == 25 && pair.pins.iter().all(|(pin, value)| bytes_of(pin) == *value));
    pair.pins.clear();
    pair.bodies.clear();
    pair.work_off();
    pair.store.verify();
    assert_eq!((pair.store.log().used_bytes(), pair.store.log().stats().runs), (0, 0));
}

#[test]
fn a_large_value_is_renamed_and_grows_where_it_lies() {
    let mut pair = Pair::new(12);
    let value = vec![5; 20_000];
    pair.with(0, &[(0, b"a")], |tx| tx.set_range(&tx.key(b"a"), 0, &value)).unwrap();
    let at = |pair: &mut Pair, db: u32, key: &[u8]| {
        pair.with(db, &[(db, key)], |tx| tx.pin(&tx.key(key)).map(|pin| pin.read(0..1).as_ptr().addr()))
    };
    let place = at(&mut pair, 0, b"a");
    assert!(place.is_some());
    pair.with(0, &[(0, b"a"), (0, b"b")], |tx| assert!(tx.rename(&tx.key(b"a"), &tx.key(b"b"))));
    pair.with(0, &[(0, b"b"), (2, b"b")], |tx| assert!(tx.rename(&tx.key(b"b"), &tx.key_in(2, b"b"))));
    assert_eq!((at(&mut pair, 2, b"b"), at(&mut pair, 0, b"a")), (place, None));
    let pin = pair.with(2, &[(2, b"b")], |tx| tx.pin(&tx.key(b"b"))).unwrap();
    pair.with(2, &[(2, b"b")], |tx| {
        let key = tx.key(b"b");
        assert!(tx.set_expiry(&key, Some(i64::MAX)) && tx.set_expiry(&key, None));
        assert_eq!(tx.append(&key, &[6; 100]), Ok(20_100));
        assert_eq!(tx.set_range(&key, 20_200, &[7]), Ok(20_201));
    });
    assert_eq!(at(&mut pair, 2, b"b"), place, "it grows behind its pin");
    let (used, runs) = (pair.store.log().used_bytes(), pair.store.log().stats().runs);
    pair.with(2, &[(2, b"b")], |tx| assert_eq!(tx.set_range(&tx.key(b"b"), 3, b"xyz"), Ok(20_201)));
    assert_eq!(at(&mut pair, 2, b"b"), place, "a change copies what it touches");
    assert_eq!(pair.store.log().used_bytes(), used + 4096, "one small block, in a page");
    assert_eq!(bytes_of(&pin), [5; 20_000]);
    drop(pin);
    pair.work_off();
    assert_eq!((pair.store.log().used_bytes(), pair.store.log().stats().runs), (used, runs));
    let expected = [&[5; 3][..], b"xyz", &[5; 19_994], &[6; 100], &[0; 100], &[7]].concat();
    pair.with(2, &[(2, b"b")], |tx| assert!(tx.get(&tx.key(b"b")).unwrap() == Some(&expected[..])));
    // An argument that a command still has stays as it is.
    let mut open = pair.store.log().begin_extent(20_000).expect("addresses");
    open.push(&value);
    let whole = open.finish();
    pair.with(2, &[(2, b"b")], |tx| tx.adopt(&tx.key(b"b"), &whole, Ttl::Clear, StringForm::Raw));
    let place = at(&mut pair, 2, b"b");
    pair.with(2, &[(2, b"b")], |tx| assert_eq!(tx.set_range(&tx.key(b"b"), 3, b"xyz"), Ok(20_000)));
    assert_ne!(at(&mut pair, 2, b"b"), place, "a change is a copy where all bytes are to stay");
    assert!(*whole == value[..]);
    pair.store.verify();
}

#[test]
fn noeviction_refuses_and_random_eviction_makes_room() {
    let mut pair = Pair::new(11);
    pair.store.set_limit(2 << 20, Policy::NoEviction);
    let mut written = 0u32;
    let mut key = written.to_le_bytes();
    while pair.worker.admit(100).is_ok() {
        key = written.to_le_bytes();
        pair.with(0, &[(0, &key)], |tx| tx.set(&tx.key(&key), &[7; 50], Ttl::Clear, StringForm::Auto));
        pair.worker.park();
        written += 1;
        assert!(written < 100_000, "the limit is never reached");
    }
    assert!(written > 10_000, "only {written} keys under 2 MB");
    assert!(pair.with(0, &[(0, &key)], |tx| tx.exists(&tx.key(&key))));
    pair.store.set_limit(2 << 20, Policy::AllKeysRandom);
    for n in written..written * 3 {
        pair.worker.admit(100).expect("eviction makes room");
        let key = n.to_le_bytes();
        pair.with(0, &[(0, &key)], |tx| tx.set(&tx.key(&key), &[8; 50], Ttl::Clear, StringForm::Auto));
        pair.worker.park();
    }
    pair.store.verify();
    assert!(pair.store.used_memory() <= (2 << 20) + 4096);
    assert!(pair.store.len(0) > u64::from(written) * 7 / 10, "{} of {written} keys are left", pair.store.len(0));
}

#[test]
fn keys_due_at_one_instant_leave_the_index_sound() {
    // Enough keys that chance makes many twelve-bit tags equal within a bucket: each entry of the wheel removes its own
    // key.
    let mut pair = Pair::new(13);
    for n in 0..100_000u32 {
        let key = n.to_le_bytes();
        let due = if n % 3 == 0 { pair.now + 50_000 } else { pair.now + 10 };
        pair.with(0, &[(0, &key)], |tx| tx.set(&tx.key(&key), b"value", Ttl::At(due), StringForm::Auto));
        pair.worker.park();
    }
    // Entries that `verify` files again come out a tick later, so time goes on.
    for round in 0..10_000 {
        if pair.worker.background(pair.now, Duration::from_micros(100)).is_none_or(|at| at > pair.now) {
            pair.now += 1;
        }
        if round % 200 == 0 {
            pair.store.verify();
        }
    }
    pair.store.verify();
    assert_eq!(pair.store.len(0), 100_000u64.div_ceil(3));
    assert_eq!(pair.store.totals().expired, 100_000 - 100_000u64.div_ceil(3));
}
