//! Sorted sets against a naive model: few keys, tiny limits that change in mid-run, tiny segments, reclaim and freeing in
//! between. The model knows when a set turns big, and that a small one forgets the sign of zero. `verify()` follows the
//! steps.
//!
//! The seed is printed; `VARVE_SEED` sets it, `VARVE_STEPS` the number of commands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use varve_base::rng::Rng;
use varve_store::{
    LexBound, Limits, Pick, Policy, ScoreBound, Store, StoreWorker, StringForm, Ttl, Tx, Type, WrongType, ZAdd, ZAdded,
    ZRange, ZShown,
};

use crate::small_store::small_store;

use crate::setting;

const KEYS: u64 = 6;
const DATABASES: u32 = 2;
/// A verification costs more than a step.
const VERIFY_EVERY: u64 = 50;

/// Members in order, with their scores.
type Members = Vec<(Vec<u8>, f64)>;

/// The members that a range showed.
#[derive(Default)]
struct Shown {
    told: Option<usize>,
    members: Members,
}

impl ZShown for Shown {
    fn begin(&mut self, members: usize) {
        assert_eq!(self.told.replace(members), None, "once");
    }

    fn member(&mut self, member: &[u8], score: f64) {
        self.members.push((member.to_vec(), score));
    }
}

#[derive(Clone, Default)]
struct Zset {
    members: Members,
    big: bool,
    expiry: Option<i64>,
}

impl Zset {
    fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.iter().find(|(m, _)| m == member).map(|(_, score)| *score)
    }

    fn put(&mut self, member: &[u8], score: f64) {
        self.members.retain(|(m, _)| m != member);
        self.members.push((member.to_vec(), if self.big { score } else { score + 0.0 }));
        sort(&mut self.members);
    }

    fn span(&self, range: &ZRange<'_>, rev: bool) -> Members {
        let mut all: Vec<_> = self.members.clone();
        if rev {
            all.reverse();
        }
        let inside = |(rank, (member, score)): &(usize, (Vec<u8>, f64))| match *range {
            ZRange::Rank { start, stop } => (start..=stop).contains(&(*rank as u64)),
            ZRange::Score { min, max } => {
                let low = if min.open { *score > min.value } else { *score >= min.value };
                low && if max.open { *score < max.value } else { *score <= max.value }
            }
            ZRange::Lex { min, max } => {
                let low = match min {
                    LexBound::Min => true,
                    LexBound::Max => false,
                    LexBound::Incl(bound) => &member[..] >= bound,
                    LexBound::Excl(bound) => &member[..] > bound,
                };
                low && match max {
                    LexBound::Min => false,
                    LexBound::Max => true,
                    LexBound::Incl(bound) => &member[..] <= bound,
                    LexBound::Excl(bound) => &member[..] < bound,
                }
            }
        };
        all.into_iter().enumerate().filter(inside).map(|(_, pair)| pair).collect()
    }
}

fn sort(members: &mut Members) {
    members.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("no NaN").then_with(|| a.0.cmp(&b.0)));
}

/// As they are compared: zeros with their sign.
fn bits(members: &[(Vec<u8>, f64)]) -> Vec<(&[u8], u64)> {
    members.iter().map(|(member, score)| (&member[..], score.to_bits())).collect()
}

enum Value {
    Zset(Zset),
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
    format!("zset:{n}").into_bytes()
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let store = small_store(DATABASES, seed);
        store.set_limit(1 << 20, Policy::NoEviction);
        let worker = store.worker(0);
        let limits = Limits::default();
        Pair { store, worker, model: BTreeMap::new(), limits, now: 1_000_000, rng: Rng::seeded(seed) }
    }

    fn member(&mut self) -> Vec<u8> {
        match self.rng.below(12) {
            0 => self.rng.below(20).to_string().into_bytes(),
            1 => vec![b'f'; self.rng.below(30) as usize],
            2 => (0..self.rng.below(6)).map(|_| self.rng.next_u64() as u8).collect(),
            _ => format!("member:{}", self.rng.below(300)).into_bytes(),
        }
    }

    fn score(&mut self) -> f64 {
        match self.rng.below(16) {
            0 => -0.0,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => self.rng.unit_f64(),
            4 => f64::from_bits(self.rng.next_u64() >> 2),
            5..=8 => self.rng.below(1 << 40) as f64 / 8.0,
            _ => self.rng.below(6) as f64 - 2.0,
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

    /// The model's set, made if absent; `None` where the key is a string.
    fn zset(&mut self, db: u32, n: u64) -> Option<&mut Zset> {
        self.expire(db, n);
        match self.model.entry((db, n)).or_insert_with(|| Value::Zset(Zset::default())) {
            Value::Zset(zset) => Some(zset),
            Value::String => None,
        }
    }

    fn expire(&mut self, db: u32, n: u64) {
        let now = self.now;
        if let Some(Value::Zset(zset)) = self.model.get(&(db, n))
            && zset.expiry.is_some_and(|at| at <= now)
        {
            self.model.remove(&(db, n));
        }
    }

    /// Drops the model's set if it is empty.
    fn prune(&mut self, db: u32, n: u64) {
        if matches!(self.model.get(&(db, n)), Some(Value::Zset(zset)) if zset.members.is_empty()) {
            self.model.remove(&(db, n));
        }
    }

    fn step(&mut self) {
        let (db, n) = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        match self.rng.below(40) {
            0..=13 => self.add(db, n),
            14..=17 => self.remove(db, n),
            18..=20 => self.read(db, n),
            21..=24 => self.ranges(db, n),
            25 => self.remove_range(db, n),
            26 | 27 => self.pop(db, n),
            28 => self.scan(db, n),
            29 => self.pick(db, n),
            30 => self.store_all(db, n),
            31 => self.rename(db, n),
            32 => self.copy(db, n),
            33 => self.expiry(db, n),
            34 if self.rng.below(8) == 0 => self.string(db, n),
            35 if self.rng.below(4) == 0 => self.shape(),
            36 => self.now += self.rng.below(50) as i64,
            _ => {
                self.worker.background(self.now, Duration::from_micros(50));
            }
        }
        self.prune(db, n);
    }

    fn add(&mut self, db: u32, n: u64) {
        for _ in 0..1 + self.rng.below(8) {
            let (member, score, how) = (self.member(), self.score(), self.rng.below(32));
            let how = ZAdd { nx: how == 1, xx: how % 8 == 2, gt: how % 8 == 3, lt: how % 8 == 4, incr: how % 4 == 3 };
            let outcome = self.on(db, n, |tx, key| tx.zset_add(key, &member, score, how));
            let limits = self.limits;
            let Some(zset) = self.zset(db, n) else {
                assert_eq!(outcome, Err(WrongType));
                return;
            };
            let expected = expected_add(zset, &member, score, how);
            assert_eq!(outcome, Ok(expected), "{how:?} {score} of {member:?}");
            match expected {
                ZAdded::Added(new) => {
                    zset.big |= zset.members.len() as u64 + 1 > limits.small[Type::Zset].entries
                        || member.len() as u64 > limits.small[Type::Zset].value_bytes;
                    zset.put(&member, new);
                }
                ZAdded::Updated(new) => zset.put(&member, new),
                _ => {}
            }
            self.prune(db, n);
        }
        self.encoding(db, n);
    }

    fn encoding(&mut self, db: u32, n: u64) {
        let Some(zset) = self.zset(db, n).map(|zset| zset.clone()) else { return };
        let told = self.on(db, n, |tx, key| tx.object(key).map(|object| object.encoding));
        let expected = (!zset.members.is_empty()).then_some(if zset.big { "skiplist" } else { "listpack" });
        assert_eq!(told, expected);
        self.prune(db, n);
    }

    fn remove(&mut self, db: u32, n: u64) {
        let mut member = self.member();
        let some = self.rng.below(400) as usize;
        if let Some(zset) = self.zset(db, n)
            && let Some((known, _)) = zset.members.get(some)
        {
            member = known.clone();
        }
        let removed = self.on(db, n, |tx, key| tx.zset_remove(key, &member));
        match self.zset(db, n) {
            Some(zset) => {
                assert_eq!(removed, Ok(zset.score(&member).is_some()));
                zset.members.retain(|(m, _)| *m != member);
            }
            None => assert_eq!(removed, Err(WrongType)),
        }
    }

    fn read(&mut self, db: u32, n: u64) {
        let member = self.member();
        let (len, score, rank, down) = self.on(db, n, |tx, key| {
            let (rank, down) = (tx.zset_rank(key, &member, false), tx.zset_rank(key, &member, true));
            (tx.zset_len(key), tx.zset_score(key, &member), rank, down)
        });
        let Some(zset) = self.zset(db, n) else {
            assert_eq!((len, score, rank, down), (Err(WrongType), Err(WrongType), Err(WrongType), Err(WrongType)));
            return;
        };
        assert_eq!(len, Ok(zset.members.len()));
        assert_eq!(score.map(|s| s.map(f64::to_bits)), Ok(zset.score(&member).map(f64::to_bits)));
        let at = zset.members.iter().position(|(m, _)| *m == member);
        assert_eq!(rank, Ok(at.map(|at| (at as u64, zset.members[at].1))));
        assert_eq!(down, Ok(at.map(|at| ((zset.members.len() - 1 - at) as u64, zset.members[at].1))));
    }

    /// A range of any kind; one by member only if all scores are equal.
    fn with_range(&mut self, db: u32, n: u64, f: impl FnOnce(&mut Pair, &ZRange<'_>)) {
        let (a, b) = (self.score(), self.score());
        let (low, high) = (self.member(), self.member());
        let (start, stop) = (self.rng.below(30), self.rng.below(300));
        let kind = self.rng.below(12);
        let even = self.zset(db, n).is_some_and(|zset| zset.members.windows(2).all(|w| w[0].1 == w[1].1));
        let (min, max) = if kind.is_multiple_of(2) {
            (LexBound::Incl(&low[..]), LexBound::Excl(&high[..]))
        } else {
            (LexBound::Excl(&low[..]), LexBound::Incl(&high[..]))
        };
        let open = kind.is_multiple_of(4);
        let range = match kind {
            0..=3 => ZRange::Rank { start, stop },
            4 if even => ZRange::Lex { min: LexBound::Min, max: LexBound::Max },
            5 if even => ZRange::Lex { min: LexBound::Max, max: LexBound::Min },
            6..=8 if even => ZRange::Lex { min, max },
            _ => ZRange::Score { min: ScoreBound { value: a, open }, max: ScoreBound { value: b, open: !open } },
        };
        f(self, &range);
    }

    fn ranges(&mut self, db: u32, n: u64) {
        let rev = self.rng.below(2) == 0;
        let (skip, limit) = match self.rng.below(3) {
            0 => (self.rng.below(5) as usize, self.rng.below(20) as usize),
            _ => (0, usize::MAX),
        };
        self.with_range(db, n, |pair, range| {
            let mut shown = Shown::default();
            let (told, count, all) = pair.on(db, n, |tx, key| {
                let (told, len) = (tx.zset_range_len(key, range, rev, skip, limit), tx.zset_len(key));
                let asked = |of: usize| {
                    assert_eq!(Ok(of), len, "a range is told how many members there are");
                    *range
                };
                let done = tx.zset_range(key, asked, rev, (skip, limit), &mut shown).map(|(count, _)| count);
                assert_eq!((told, shown.told), (done, done.ok()));
                (told, tx.zset_count(key, range), tx.zset_for_each(key, &mut |_, _| {}))
            });
            let Some(zset) = pair.zset(db, n) else {
                assert_eq!((told, count, all), (Err(WrongType), Err(WrongType), Err(WrongType)));
                return;
            };
            assert_eq!(all, Ok(!zset.members.is_empty()));
            assert_eq!(count, Ok(zset.span(range, false).len()));
            let expected: Members = zset.span(range, rev).into_iter().skip(skip).take(limit).collect();
            assert_eq!(bits(&shown.members), bits(&expected), "{range:?} rev {rev}");
            assert_eq!(told, Ok(expected.len()));
        });
    }

    fn remove_range(&mut self, db: u32, n: u64) {
        self.with_range(db, n, |pair, range| {
            let removed = pair.on(db, n, |tx, key| tx.zset_remove_range(key, range));
            let Some(zset) = pair.zset(db, n) else {
                assert_eq!(removed, Err(WrongType));
                return;
            };
            let gone = zset.span(range, false);
            assert_eq!(removed, Ok(gone.len()));
            zset.members.retain(|pair| !gone.contains(pair));
        });
    }

    fn pop(&mut self, db: u32, n: u64) {
        let (max, count) = (self.rng.below(2) == 0, self.rng.below(12) as usize);
        let count = if self.rng.below(20) == 0 { usize::MAX } else { count };
        let mut shown = Members::new();
        let popped = self.on(db, n, |tx, key| tx.zset_pop(key, max, count, &mut |m, s| shown.push((m.to_vec(), s))));
        let Some(zset) = self.zset(db, n) else {
            assert_eq!(popped, Err(WrongType));
            return;
        };
        let mut expected = zset.members.clone();
        if max {
            expected.reverse();
        }
        expected.truncate(count);
        assert_eq!(bits(&shown), bits(&expected));
        assert_eq!(popped, Ok(expected.len()));
        zset.members.retain(|pair| !expected.contains(pair));
    }

    fn scan(&mut self, db: u32, n: u64) {
        let count = 1 + self.rng.below(10) as usize;
        let mut seen = BTreeMap::new();
        let mut cursor = 0;
        let end = self.on(db, n, |tx, key| {
            loop {
                cursor = tx.zset_scan(key, cursor, count, &mut |m, s| {
                    seen.insert(m.to_vec(), s.to_bits());
                })?;
                if cursor == 0 {
                    return Ok(());
                }
            }
        });
        match self.zset(db, n) {
            Some(zset) => {
                assert_eq!(seen, zset.members.iter().map(|(m, s)| (m.clone(), s.to_bits())).collect());
            }
            None => assert_eq!(end, Err(WrongType)),
        }
    }

    fn pick(&mut self, db: u32, n: u64) {
        let many = self.rng.below(30) as usize;
        let pick = if self.rng.below(2) == 0 { Pick::Any(many) } else { Pick::Distinct(many) };
        let mut shown = Members::new();
        let outcome = self.on(db, n, |tx, key| tx.zset_pick(key, pick, &mut |m, s| shown.push((m.to_vec(), s))));
        let Some(zset) = self.zset(db, n) else {
            assert_eq!(outcome, Err(WrongType));
            return;
        };
        let len = zset.members.len();
        assert!(shown.iter().all(|pair| zset.members.contains(pair)));
        if let Pick::Distinct(_) = pick {
            assert_eq!(shown.len(), many.min(len));
            sort(&mut shown);
            shown.dedup();
            assert_eq!(shown.len(), many.min(len));
        } else {
            assert_eq!(shown.len(), if len == 0 { 0 } else { many });
        }
    }

    fn store_all(&mut self, db: u32, n: u64) {
        let mut members = Members::new();
        let many = if self.rng.below(3) == 0 { 400 } else { 10 };
        for _ in 0..self.rng.below(many) {
            let (member, score) = (self.member(), self.score());
            members.retain(|(m, _)| *m != member);
            members.push((member, score));
        }
        let mut items = members.clone();
        self.on(db, n, |tx, key| tx.zset_store(key, &mut items));
        let longest = members.iter().map(|(m, _)| m.len()).max().unwrap_or(0) as u64;
        let big = members.len() as u64 > self.limits.small[Type::Zset].entries
            || longest > self.limits.small[Type::Zset].value_bytes;
        if !big {
            members.iter_mut().for_each(|(_, score)| *score += 0.0);
        }
        sort(&mut members);
        self.model.insert((db, n), Value::Zset(Zset { members, big, expiry: None }));
        self.prune(db, n);
        self.encoding(db, n);
    }

    fn rename(&mut self, db: u32, n: u64) {
        let (other_db, other) = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        let (from, to) = (name(n), name(other));
        self.expire(db, n);
        let done = self.with(db, &[(db, n), (other_db, other)], |tx| {
            let (from, to) = (tx.key(&from), tx.key_in(other_db, &to));
            tx.rename(&from, &to)
        });
        let there = self.model.remove(&(db, n));
        assert_eq!(done, there.is_some());
        if let Some(value) = there {
            self.model.insert((other_db, other), value);
        }
    }

    fn copy(&mut self, db: u32, n: u64) {
        let (other_db, other) = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        let (from, to) = (name(n), name(other));
        self.expire(db, n);
        let done = self.with(db, &[(db, n), (other_db, other)], |tx| {
            let (from, to) = (tx.key(&from), tx.key_in(other_db, &to));
            tx.copy(&from, &to)
        });
        let copy = match self.model.get(&(db, n)) {
            Some(Value::Zset(zset)) => Some(Value::Zset(zset.clone())),
            Some(Value::String) => Some(Value::String),
            None => None,
        };
        assert_eq!(done, copy.is_some());
        if let Some(value) = copy {
            self.model.insert((other_db, other), value);
        }
    }

    fn expiry(&mut self, db: u32, n: u64) {
        let at = (self.rng.below(2) == 0).then(|| self.now + 1 + self.rng.below(300) as i64);
        let Some(zset) = self.zset(db, n) else { return };
        let there = !zset.members.is_empty();
        zset.expiry = at;
        assert_eq!(self.on(db, n, |tx, key| tx.set_expiry(key, at)), there);
    }

    fn string(&mut self, db: u32, n: u64) {
        self.on(db, n, |tx, key| {
            tx.set(key, b"text", Ttl::Clear, StringForm::Auto);
        });
        self.model.insert((db, n), Value::String);
    }

    fn shape(&mut self) {
        self.limits.small[Type::Zset].entries = [0, 3, 20, 128, 200][self.rng.below(5) as usize];
        self.limits.small[Type::Zset].value_bytes = [0, 10, 64, 64][self.rng.below(4) as usize];
        self.store.shapes().set(&self.limits);
        let bytes = [0, 60, 400, 8 << 10][self.rng.below(4) as usize];
        self.store.shapes().small(Type::Zset).set_outgrown_bytes(bytes);
    }
}

fn expected_add(zset: &Zset, member: &[u8], score: f64, how: ZAdd) -> ZAdded {
    let Some(old) = zset.score(member) else {
        return if how.xx { ZAdded::Refused } else { ZAdded::Added(score) };
    };
    let new = if how.incr { old + score } else { score };
    if how.nx {
        ZAdded::Refused
    } else if new.is_nan() {
        ZAdded::NotANumber
    } else if how.gt && new <= old || how.lt && new >= old {
        ZAdded::Refused
    } else if new == old {
        ZAdded::Same(new)
    } else {
        ZAdded::Updated(new)
    }
}

#[test]
fn behaves_like_the_model() {
    let seed = setting("VARVE_SEED", 1);
    println!("VARVE_SEED={seed}");
    let mut pair = Pair::new(seed);
    for n in 0..setting("VARVE_STEPS", 20_000) {
        pair.step();
        if n % VERIFY_EVERY == 0 {
            pair.store.verify();
        }
    }
    pair.store.verify();
    assert!(pair.store.totals().moved > 1000, "reclaim has moved little: {:?}", pair.store.totals());
}
