//! Hashes against a naive model: few keys, tiny limits that change in mid-run, tiny segments, reclaim and freeing in
//! between. The model knows when a hash turns big. `verify()` follows the steps.
//!
//! The seed is printed; `VARVE_SEED` sets it, `VARVE_STEPS` the number of commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use varve_base::number::{Extended, parse_i64};
use varve_base::rng::Rng;
use varve_store::{AddError, Limits, Pick, Policy, Store, StoreWorker, StringForm, Ttl, Tx, Type, WrongType};

use crate::small_store::small_store;

use crate::setting;

const KEYS: u64 = 8;
const DATABASES: u32 = 2;
/// A verification costs more than a step.
const VERIFY_EVERY: u64 = 50;

#[derive(Clone, Default)]
struct Hash {
    fields: BTreeMap<Vec<u8>, Vec<u8>>,
    /// When fields expire.
    dates: BTreeMap<Vec<u8>, i64>,
    big: bool,
    expiry: Option<i64>,
}

enum Value {
    Hash(Hash),
    String,
}

struct Pair {
    store: Arc<Store>,
    worker: StoreWorker,
    model: BTreeMap<(u32, u64), Value>,
    limits: Limits,
    now: i64,
    rng: Rng,
}

fn name(n: u64) -> Vec<u8> {
    format!("hash:{n}").into_bytes()
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let store = small_store(DATABASES, seed);
        store.set_limit(1 << 20, Policy::NoEviction);
        let worker = store.worker(0);
        let limits = Limits::default();
        Pair { store, worker, model: BTreeMap::new(), limits, now: 1_000_000, rng: Rng::seeded(seed) }
    }

    fn field(&mut self) -> Vec<u8> {
        match self.rng.below(10) {
            0 => self.rng.below(20).to_string().into_bytes(),
            1 => vec![b'f'; self.rng.below(30) as usize],
            2 => (0..self.rng.below(6)).map(|_| self.rng.next_u64() as u8).collect(),
            _ => format!("field:{}", self.rng.below(120)).into_bytes(),
        }
    }

    fn text(&mut self) -> Vec<u8> {
        match self.rng.below(12) {
            0..=3 => (self.rng.next_u64() as i64 >> self.rng.below(64)).to_string().into_bytes(),
            4 => vec![b'v'; self.rng.below(40) as usize],
            5 if self.rng.below(20) == 0 => vec![b'w'; 2000 + self.rng.below(3000) as usize],
            6 => format!("{}.5", self.rng.below(100)).into_bytes(),
            _ => (0..self.rng.below(12)).map(|_| self.rng.next_u64() as u8).collect(),
        }
    }

    /// Runs `f` on a key, with the shards of all these keys held.
    fn with<R>(&mut self, db: u32, keys: &[(u32, u64)], f: impl FnOnce(&mut Tx<'_>) -> R) -> R {
        self.worker.set_now(self.now);
        let (store, local) = self.worker.parts();
        let mut tx = Tx::new(store, local, db);
        let mut shards: Vec<u16> = keys.iter().map(|(db, n)| tx.shard_of(tx.key_in(*db, &name(*n)).hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        assert!(tx.try_hold(&shards), "one worker meets no busy shard");
        let result = f(&mut tx);
        tx.finish();
        result
    }

    /// Runs `f` on one key.
    fn on<R>(&mut self, db: u32, n: u64, f: impl FnOnce(&mut Tx<'_>, &varve_store::Key<'_>) -> R) -> R {
        let bytes = name(n);
        self.with(db, &[(db, n)], |tx| {
            let key = tx.key(&bytes);
            f(tx, &key)
        })
    }

    /// The model's hash, made if absent; `None` where the key is a string.
    fn hash(&mut self, db: u32, n: u64) -> Option<&mut Hash> {
        self.expire(db, n);
        match self.model.entry((db, n)).or_insert_with(|| Value::Hash(Hash::default())) {
            Value::Hash(hash) => Some(hash),
            Value::String => None,
        }
    }

    fn expire(&mut self, db: u32, n: u64) {
        let now = self.now;
        if let Some(Value::Hash(hash)) = self.model.get(&(db, n))
            && hash.expiry.is_some_and(|at| at <= now)
        {
            self.model.remove(&(db, n));
        }
        if let Some(Value::Hash(hash)) = self.model.get_mut(&(db, n)) {
            let Hash { fields, dates, .. } = hash;
            dates.retain(|field, date| {
                if *date <= now {
                    fields.remove(field);
                }
                *date > now
            });
        }
        self.prune(db, n);
    }

    /// Drops the model's hash if it is empty.
    fn prune(&mut self, db: u32, n: u64) {
        if matches!(self.model.get(&(db, n)), Some(Value::Hash(hash)) if hash.fields.is_empty()) {
            self.model.remove(&(db, n));
        }
    }

    fn step(&mut self) {
        let (db, n) = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        match self.rng.below(44) {
            0..=9 => self.set(db, n),
            10 | 11 => self.set_new(db, n),
            12..=15 => self.remove(db, n),
            16 | 17 => self.add(db, n),
            18 => self.add_float(db, n),
            19..=22 => self.read(db, n),
            23 => self.walk(db, n),
            24 | 25 => self.pick(db, n),
            26 | 27 => self.scan(db, n),
            28 => self.rename(db, n),
            29 => self.copy(db, n),
            30 => self.expiry(db, n),
            31 => self.take(db, n),
            40 | 41 => self.set_dated(db, n),
            42 | 43 => self.date(db, n),
            32 if self.rng.below(8) == 0 => self.string(db, n),
            33 if self.rng.below(4) == 0 => self.shape(),
            34 => self.now += self.rng.below(50) as i64,
            35 if self.rng.below(10) == 0 => self.rare(db),
            36 | 37 => {
                // A full log is drained; one that cannot be is full for real.
                let _ = self.worker.admit(60_000);
            }
            _ => {
                self.worker.background(self.now, Duration::from_millis(1));
            }
        }
    }

    fn shape(&mut self) {
        self.limits.small[Type::Hash].entries = self.rng.below(24);
        self.limits.small[Type::Hash].value_bytes = if self.rng.below(3) == 0 { self.rng.below(24) } else { 5000 };
        self.store.shapes().set(&self.limits);
        let bytes = [0, 60, 400, 8 << 10][self.rng.below(4) as usize];
        self.store.shapes().small(Type::Hash).set_outgrown_bytes(bytes);
    }

    fn set(&mut self, db: u32, n: u64) {
        let many = if self.rng.below(4) == 0 { self.rng.below(30) } else { 1 };
        let pairs: Vec<_> = (0..many).map(|_| (self.field(), self.text())).collect();
        self.put(db, n, &pairs, |tx, key| {
            tx.hash_set(key, pairs.iter().map(|(field, value)| (field.as_slice(), value.as_slice())))
        });
    }

    /// Sets pairs in the model and, by `set`, in the store; both must find as many new ones.
    fn put(
        &mut self,
        db: u32,
        n: u64,
        pairs: &[(Vec<u8>, Vec<u8>)],
        set: impl FnOnce(&mut Tx<'_>, &varve_store::Key<'_>) -> Result<usize, WrongType>,
    ) {
        let limits = self.limits;
        let mut new = 0;
        let expected = self.hash(db, n).map(|hash| {
            hash.big |= pairs
                .iter()
                .any(|(field, value)| field.len().max(value.len()) as u64 > limits.small[Type::Hash].value_bytes);
            for (field, value) in pairs {
                new += usize::from(hash.fields.insert(field.clone(), value.clone()).is_none());
                hash.dates.remove(field);
                hash.big |= hash.fields.len() as u64 > limits.small[Type::Hash].entries;
            }
            new
        });
        self.prune(db, n);
        let done = self.on(db, n, set);
        assert_eq!(done, expected.ok_or(WrongType));
    }

    /// Sets pairs that expire.
    fn set_dated(&mut self, db: u32, n: u64) {
        let pairs: Vec<_> = (0..1 + self.rng.below(5)).map(|_| (self.field(), self.text())).collect();
        let date = self.now + 1 + self.rng.below(200) as i64;
        self.put(db, n, &pairs, |tx, key| {
            tx.hash_set_dated(key, pairs.iter().map(|(field, value)| (&field[..], &value[..], Some(date))))
        });
        if let Some(Value::Hash(hash)) = self.model.get_mut(&(db, n)) {
            hash.big = true;
            hash.dates.extend(pairs.into_iter().map(|(field, _)| (field, date)));
        }
    }

    /// Sets when a field expires, or that it does not, and asks for it.
    fn date(&mut self, db: u32, n: u64) {
        let field = self.field();
        let date = (self.rng.below(3) > 0).then(|| self.now + 1 + self.rng.below(200) as i64);
        let expected = self.hash(db, n).map(|hash| {
            let is_there = hash.fields.contains_key(&field);
            if is_there {
                hash.big |= date.is_some();
                hash.dates.remove(&field);
                hash.dates.extend(date.map(|date| (field.clone(), date)));
            }
            is_there
        });
        self.prune(db, n);
        let done = self.on(db, n, |tx, key| tx.hash_set_expiry(key, &field, date));
        assert_eq!(done, expected.ok_or(WrongType));
        let said = self.on(db, n, |tx, key| tx.hash_expiry(key, &field));
        assert_eq!(said, expected.map(|is_there| is_there.then_some(date)).ok_or(WrongType));
    }

    fn set_new(&mut self, db: u32, n: u64) {
        let (field, value) = (self.field(), self.text());
        let there = self.hash(db, n).is_some_and(|hash| hash.fields.contains_key(&field));
        self.prune(db, n);
        if there {
            assert_eq!(self.on(db, n, |tx, key| tx.hash_set_new(key, &field, &value)), Ok(false));
        } else {
            let pair = [(field.clone(), value.clone())];
            self.put(db, n, &pair, |tx, key| tx.hash_set_new(key, &field, &value).map(usize::from));
        }
    }

    fn remove(&mut self, db: u32, n: u64) {
        let fields: Vec<_> = (0..self.rng.below(12)).map(|_| self.field()).collect();
        let hash = self.hash(db, n);
        let expected = hash.map(|hash| {
            fields.iter().for_each(|field| _ = hash.dates.remove(field));
            fields.iter().filter(|field| hash.fields.remove(*field).is_some()).count()
        });
        self.prune(db, n);
        let removed = self.on(db, n, |tx, key| tx.hash_remove(key, fields.iter().map(Vec::as_slice)));
        assert_eq!(removed, expected.ok_or(WrongType));
    }

    fn take(&mut self, db: u32, n: u64) {
        let fields: Vec<_> = (0..self.rng.below(5)).map(|_| self.field()).collect();
        let expected: Option<Vec<_>> = self.hash(db, n).map(|hash| {
            fields.iter().for_each(|field| _ = hash.dates.remove(field));
            fields.iter().map(|field| hash.fields.remove(field)).collect()
        });
        self.prune(db, n);
        let mut shown = Vec::new();
        let done = self.on(db, n, |tx, key| {
            fields.iter().try_for_each(|field| {
                tx.hash_take_or_get(key, field, true, |value| shown.push(value.map(<[u8]>::to_vec)))
            })
        });
        match expected {
            Some(expected) => assert_eq!(shown, expected),
            None => assert!(done.is_err() || fields.is_empty()),
        }
    }

    fn add(&mut self, db: u32, n: u64) {
        let (field, by) = (self.field(), self.rng.next_u64() as i64 >> self.rng.below(60));
        let sum = self.hash(db, n).map(|hash| {
            let old = hash.fields.get(&field).map_or(Some(0), |text| parse_i64(text));
            old.ok_or(AddError::NoNumber)?.checked_add(by).ok_or(AddError::Overflow)
        });
        self.prune(db, n);
        match sum.unwrap_or(Err(AddError::WrongType)) {
            Ok(sum) => {
                let pair = [(field.clone(), sum.to_string().into_bytes())];
                let date = self.date_of(db, n, &field);
                self.put_one_more(db, n, &pair, |tx, key| {
                    assert_eq!(tx.hash_add(key, &field, by), Ok(sum));
                });
                self.keep_date(db, n, field, date);
            }
            error => assert_eq!(self.on(db, n, |tx, key| tx.hash_add(key, &field, by)), error),
        }
    }

    fn add_float(&mut self, db: u32, n: u64) {
        let (field, by) = (self.field(), Extended::parse(b"0.25").expect("a number"));
        let sum = self.hash(db, n).map(|hash| {
            let old = hash.fields.get(&field).map_or(Some(Extended::ZERO), |text| Extended::parse(text));
            let sum = old.ok_or(AddError::NoNumber)? + by;
            let mut text = Vec::new();
            sum.push_human(&mut text);
            sum.is_finite().then_some(text).ok_or(AddError::Overflow)
        });
        self.prune(db, n);
        let mut text = Vec::new();
        match sum.unwrap_or(Err(AddError::WrongType)) {
            Ok(sum) => {
                let date = self.date_of(db, n, &field);
                self.put_one_more(db, n, &[(field.clone(), sum.clone())], |tx, key| {
                    assert_eq!(tx.hash_add_float(key, &field, by, &mut text), Ok(date));
                });
                self.keep_date(db, n, field, date);
                assert_eq!(text, sum);
            }
            Err(error) => {
                let done = self.on(db, n, |tx, key| tx.hash_add_float(key, &field, by, &mut text));
                assert_eq!((done, text), (Err(error), Vec::new()));
            }
        }
    }

    /// When a field expires.
    fn date_of(&self, db: u32, n: u64, field: &[u8]) -> Option<i64> {
        match self.model.get(&(db, n)) {
            Some(Value::Hash(hash)) => hash.dates.get(field).copied(),
            _ => None,
        }
    }

    /// An operation has left a field's date as it was.
    fn keep_date(&mut self, db: u32, n: u64, field: Vec<u8>, date: Option<i64>) {
        if let Some(Value::Hash(hash)) = self.model.get_mut(&(db, n)) {
            hash.dates.extend(date.map(|date| (field, date)));
        }
    }

    /// Puts a field by an operation that does not return whether the field is new.
    fn put_one_more(
        &mut self,
        db: u32,
        n: u64,
        pair: &[(Vec<u8>, Vec<u8>)],
        set: impl FnOnce(&mut Tx<'_>, &varve_store::Key<'_>),
    ) {
        let new = self.hash(db, n).is_some_and(|hash| !hash.fields.contains_key(&pair[0].0));
        self.put(db, n, pair, |tx, key| {
            set(tx, key);
            Ok(usize::from(new))
        });
    }

    fn read(&mut self, db: u32, n: u64) {
        let fields: Vec<_> = (0..1 + self.rng.below(4)).map(|_| self.field()).collect();
        let expected = self.hash(db, n).map(|hash| {
            let values: Vec<_> = fields.iter().map(|field| hash.fields.get(field).cloned()).collect();
            (values, hash.fields.len())
        });
        self.prune(db, n);
        let mut shown = Vec::new();
        let len = self.on(db, n, |tx, key| {
            let first = tx.hash_value_len(key, &fields[0])?;
            tx.hash_get_many(key, fields.iter().map(Vec::as_slice), |v| shown.push(v.map(<[u8]>::to_vec)))?;
            assert_eq!(first, shown[0].as_ref().map(Vec::len));
            tx.hash_len(key)
        });
        match expected {
            Some((values, fields)) => assert_eq!((shown, len), (values, Ok(fields))),
            None => assert_eq!(len, Err(WrongType)),
        }
    }

    /// All fields of the store's hash, each once.
    fn walk(&mut self, db: u32, n: u64) {
        let expected = self.hash(db, n).map(|hash| hash.clone());
        self.prune(db, n);
        let Some(expected) = expected else { return };
        let mut shown = BTreeMap::new();
        let (encoding, expiry) = self.on(db, n, |tx, key| {
            tx.hash_for_each(key, |field, value| {
                assert!(shown.insert(field.to_vec(), value.to_vec()).is_none(), "each field is shown once");
            })
            .expect("a hash");
            (tx.object(key).map(|object| object.encoding), tx.expiry(key).flatten())
        });
        assert_eq!(shown, expected.fields);
        let name = if expected.big { "hashtable" } else { "listpack" };
        assert_eq!(encoding, (!expected.fields.is_empty()).then_some(name), "{:?}", self.limits);
        assert_eq!(expiry, expected.expiry);
    }

    fn pick(&mut self, db: u32, n: u64) {
        let expected = self.hash(db, n).map(|hash| hash.fields.clone());
        self.prune(db, n);
        let Some(expected) = expected else { return };
        let many = self.rng.below(40) as usize;
        for pick in [Pick::Any(many), Pick::Distinct(many)] {
            let mut shown = Vec::new();
            self.on(db, n, |tx, key| {
                tx.hash_pick(key, pick, |field, value| shown.push((field.to_vec(), value.to_vec())))
            })
            .expect("a hash");
            assert!(shown.iter().all(|(field, value)| expected.get(field) == Some(value)));
            match pick {
                _ if expected.is_empty() => assert!(shown.is_empty()),
                Pick::Any(many) => assert_eq!(shown.len(), many),
                Pick::Distinct(many) => {
                    let different: BTreeSet<_> = shown.iter().collect();
                    assert_eq!((different.len(), shown.len()), (many.min(expected.len()), many.min(expected.len())));
                }
            }
        }
    }

    /// A scan of a hash at rest, background steps in between, shows each field; a packed one shows it once.
    fn scan(&mut self, db: u32, n: u64) {
        let expected = self.hash(db, n).map(|hash| (hash.fields.clone(), hash.big));
        self.prune(db, n);
        let Some((expected, big)) = expected else { return };
        let (mut shown, mut calls, mut cursor) = (BTreeSet::new(), 0, 0);
        let count = 1 + self.rng.below(20) as usize;
        loop {
            cursor = self
                .on(db, n, |tx, key| {
                    tx.hash_scan(key, cursor, count, |field, value| {
                        assert_eq!(expected.get(field).map(Vec::as_slice), Some(value));
                        shown.insert(field.to_vec());
                    })
                })
                .expect("a hash");
            calls += 1;
            if cursor == 0 {
                break;
            }
            assert!(big && cursor < 1 << 53);
            self.worker.background(self.now, Duration::from_micros(50));
        }
        assert!(calls == 1 || big);
        assert_eq!(shown.len(), expected.len());
    }

    fn rename(&mut self, db: u32, n: u64) {
        let (to_db, to) = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        self.expire(db, n);
        let (from_name, to_name) = (name(n), name(to));
        let done = self.with(db, &[(db, n), (to_db, to)], |tx| {
            let (from, to) = (tx.key(&from_name), tx.key_in(to_db, &to_name));
            tx.rename(&from, &to)
        });
        match self.model.remove(&(db, n)) {
            Some(value) => {
                assert!(done);
                self.model.insert((to_db, to), value);
            }
            None => assert!(!done),
        }
    }

    fn copy(&mut self, db: u32, n: u64) {
        let (to_db, to) = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        self.expire(db, n);
        let (from_name, to_name) = (name(n), name(to));
        let done = self.with(db, &[(db, n), (to_db, to)], |tx| {
            let (from, to) = (tx.key(&from_name), tx.key_in(to_db, &to_name));
            tx.copy(&from, &to)
        });
        let copy = self.model.get(&(db, n)).map(|value| match value {
            Value::Hash(hash) => Value::Hash(hash.clone()),
            Value::String => Value::String,
        });
        assert_eq!(done, copy.is_some());
        if let Some(copy) = copy {
            self.model.insert((to_db, to), copy);
        }
    }

    fn expiry(&mut self, db: u32, n: u64) {
        self.expire(db, n);
        let at = (self.rng.below(3) > 0).then(|| self.now + 1 + self.rng.below(3000) as i64);
        let Some(Value::Hash(hash)) = self.model.get_mut(&(db, n)) else { return };
        hash.expiry = at;
        assert!(self.on(db, n, |tx, key| tx.set_expiry(key, at)));
    }

    /// A string in a hash's place.
    fn string(&mut self, db: u32, n: u64) {
        self.on(db, n, |tx, key| tx.set(key, b"text", Ttl::Clear, StringForm::Auto));
        self.model.insert((db, n), Value::String);
        if self.rng.below(3) > 0 {
            assert!(self.on(db, n, |tx, key| tx.remove(key)));
            self.model.remove(&(db, n));
        }
    }

    fn rare(&mut self, db: u32) {
        match self.rng.below(6) {
            0 => {
                self.store.flush_db(&mut self.worker, db);
                self.model.retain(|id, _| id.0 != db);
            }
            1 if self.rng.below(4) == 0 => {
                self.store.flush_all(&mut self.worker);
                self.model.clear();
            }
            2 => {
                self.store.swap_db(0, 1);
                self.model = std::mem::take(&mut self.model).into_iter().map(|((d, n), v)| ((1 - d, n), v)).collect();
            }
            _ => {
                let n = self.rng.below(KEYS);
                self.expire(db, n);
                let there = self.model.remove(&(db, n)).is_some();
                assert_eq!(self.on(db, n, |tx, key| tx.remove(key)), there);
            }
        }
    }
}

#[test]
fn hashes_are_those_of_the_model() {
    let seed = setting("VARVE_SEED", 0x4a54);
    println!("VARVE_SEED={seed}");
    let mut pair = Pair::new(seed);
    let mut moved_bytes_seen = 0;
    for step in 0..setting("VARVE_STEPS", 30_000) {
        pair.step();
        if step % VERIFY_EVERY == 0 {
            for (db, n) in (0..DATABASES).flat_map(|db| (0..KEYS).map(move |n| (db, n))) {
                pair.walk(db, n);
            }
            pair.worker.park();
            pair.store.verify();
        }
        moved_bytes_seen = moved_bytes_seen.max(pair.store.totals().moved);
    }
    assert!(moved_bytes_seen > 100, "reclaim came across the hashes: {moved_bytes_seen} objects moved");
    pair.store.flush_all(&mut pair.worker);
    while pair.worker.background(pair.now, Duration::from_millis(5)) == Some(0) {}
    pair.worker.park();
    pair.store.verify();
}

/// A field goes by itself: also the second time that the same hash has one, and under the name that RENAME gave it.
#[test]
fn fields_go_by_themselves_again_and_again() {
    let mut pair = Pair::new(7);
    for round in 0..4 {
        let until = pair.now + 30;
        pair.on(0, round, |tx, key| tx.hash_set(key, [(&b"stays"[..], &b"1"[..]), (b"goes", b"2")].into_iter()))
            .expect("a hash");
        assert_eq!(pair.on(0, round, |tx, key| tx.hash_set_expiry(key, b"goes", Some(until))), Ok(true));
        let (from, to) = (name(round), name(round + 1));
        assert!(pair.with(0, &[(0, round), (0, round + 1)], |tx| {
            let (from, to) = (tx.key(&from), tx.key(&to));
            tx.rename(&from, &to)
        }));
        pair.now += 100;
        let before = pair.store.totals().expired_fields;
        for _ in 0..100 {
            pair.worker.background(pair.now, Duration::from_millis(1));
        }
        assert_eq!(pair.store.totals().expired_fields, before + 1, "round {round}");
        assert_eq!(pair.on(0, round + 1, |tx, key| tx.hash_len(key)), Ok(1));
    }
    pair.worker.park();
    pair.store.verify();
}

/// More fields are due than one hold removes: a command that may wait is put back, all others see none of them.
#[test]
fn a_command_that_meets_many_due_fields_is_put_back() {
    let mut pair = Pair::new(8);
    pair.store.set_limit(64 << 20, Policy::NoEviction);
    let until = pair.now + 10;
    let names: Vec<_> = (0..20_000).map(|n| format!("field:{n}").into_bytes()).collect();
    let fill = |pair: &mut Pair, n| {
        pair.on(0, n, |tx, key| {
            tx.hash_set(key, std::iter::once((&b"stays"[..], &b"1"[..]))).expect("a hash");
            tx.hash_set_dated(key, names.iter().map(|name| (&name[..], &b"v"[..], Some(until))))
        })
    };
    assert_eq!(fill(&mut pair, 0), Ok(names.len()));
    assert_eq!(fill(&mut pair, 1), Ok(names.len()));
    pair.now += 20;
    assert_eq!(pair.on(0, 0, |tx, key| tx.hash_len(key)), Ok(1));
    let mut tries = 0;
    loop {
        let (len, again) = pair.on(0, 1, |tx, key| {
            tx.set_patient(true);
            (tx.hash_len(key), tx.take_put_back())
        });
        tries += 1;
        if !again {
            assert_eq!(len, Ok(1));
            break;
        }
        assert!(len.is_err() && tries < 1000);
    }
    assert!(tries > 3, "{tries} holds for {} fields", names.len());
    pair.worker.park();
    pair.store.verify();
}

/// The times of a hash that is its key's object take six bytes each, and six for all.
#[test]
fn issue_14_times_of_small_hashes_take_few_bytes() {
    const HASHES: u64 = 400;
    const FIELDS: u64 = 10;
    let mut pair = Pair::new(8);
    pair.store.set_limit(64 << 20, Policy::NoEviction);
    let field = |n: u64| format!("field:{n}").into_bytes();
    for n in 0..HASHES {
        let pairs: Vec<_> = (0..FIELDS).map(|n| (field(n), b"12345678".to_vec())).collect();
        let pairs = pairs.iter().map(|(field, value)| (&field[..], &value[..]));
        assert_eq!(pair.on(0, n, |tx, key| tx.hash_set(key, pairs)), Ok(FIELDS as usize));
    }
    pair.worker.park();
    let before = pair.store.log().live_bytes();
    let until = pair.now + 1000;
    for n in 0..HASHES {
        for nth in 0..FIELDS {
            let until = until + (nth * 1000) as i64;
            assert_eq!(pair.on(0, n, |tx, key| tx.hash_set_expiry(key, &field(nth), Some(until))), Ok(true));
        }
    }
    pair.worker.park();
    pair.store.verify();
    let more = pair.store.log().live_bytes().saturating_sub(before) as f64 / (HASHES * FIELDS) as f64;
    assert!(more <= 10.0, "{more:.1} bytes a field");
    // Changes and names keep the times; what is set anew has none.
    assert_eq!(pair.on(0, 3, |tx, key| tx.hash_add(key, &field(2), 1)), Ok(12_345_679));
    let set = |tx: &mut varve_store::Tx<'_>, key: &varve_store::Key<'_>| {
        tx.hash_set(key, [(&b"field:0"[..], &b"v"[..]), (b"new", b"v")].into_iter())
    };
    assert_eq!(pair.on(0, 3, set), Ok(1));
    let (from, to) = (name(3), name(HASHES));
    assert!(pair.with(0, &[(0, 3), (0, HASHES)], |tx| {
        let (from, to) = (tx.key(&from), tx.key(&to));
        tx.rename(&from, &to)
    }));
    let times = [Some(None), Some(Some(until + 1000)), Some(Some(until + 2000)), None];
    for (wanted, nth) in times.into_iter().zip([0, 1, 2, 99]) {
        assert_eq!(pair.on(0, HASHES, |tx, key| tx.hash_expiry(key, &field(nth))), Ok(wanted));
    }
    // The fields go by themselves, and the keys with their last ones.
    pair.now += 1500;
    for _ in 0..2000 {
        pair.worker.background(pair.now, Duration::from_millis(1));
    }
    assert_eq!(pair.store.totals().expired_fields, HASHES - 1);
    assert_eq!(pair.on(0, 5, |tx, key| tx.hash_len(key)), Ok(FIELDS as usize - 1));
    pair.worker.park();
    pair.store.verify();
    pair.now += 100_000;
    assert_eq!(pair.on(0, 5, |tx, key| tx.hash_len(key)), Ok(0));
    assert_eq!(pair.on(0, HASHES, |tx, key| tx.hash_len(key)), Ok(2));
    for _ in 0..2000 {
        pair.worker.background(pair.now, Duration::from_millis(1));
    }
    assert_eq!(pair.store.totals().expired_fields, HASHES * FIELDS - 1);
    pair.worker.park();
    pair.store.verify();
}
