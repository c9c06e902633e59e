//! Sets against a naive model: few keys, a limit of integers that changes in mid-run, tiny segments, reclaim and freeing
//! in between. The model knows when a set turns big, those that are stored from others too. `verify()` follows the steps.
//!
//! The seed is printed; `VARVE_SEED` sets it, `VARVE_STEPS` the number of commands. At the end: what is drawn at random
//! is close enough to even.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use varve_base::number::parse_i64;
use varve_base::rng::Rng;
use varve_store::{
    Key, Limits, PackedEntry, Pick, Policy, SetOp, Store, StoreWorker, StringForm, Ttl, Tx, Type, WrongType,
};

use crate::small_store::small_store;

use crate::setting;

const KEYS: u64 = 9;
/// A verification costs more than a step.
const VERIFY_EVERY: u64 = 50;

#[derive(Clone, Default)]
struct Set {
    members: BTreeSet<Vec<u8>>,
    big: bool,
    expiry: Option<i64>,
}

impl Set {
    /// Adds a member as the store should; true if it is new.
    fn add(&mut self, member: &[u8], limits: &Limits) -> bool {
        let new = self.members.insert(member.to_vec());
        self.big |= new && (parse_i64(member).is_none() || self.members.len() as u64 > limits.small[Type::Set].entries);
        new
    }
}

enum Value {
    Set(Set),
    String,
}

struct Pair {
    store: Arc<Store>,
    worker: StoreWorker,
    model: BTreeMap<u64, Value>,
    limits: Limits,
    now: i64,
    rng: Rng,
}

fn name(n: u64) -> Vec<u8> {
    format!("set:{n}").into_bytes()
}

fn text(member: PackedEntry<'_>) -> Vec<u8> {
    member.text(&mut [0; 20]).to_vec()
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let store = small_store(1, seed);
        store.set_limit(1 << 20, Policy::NoEviction);
        let worker = store.worker(0);
        let limits = Limits::default();
        Pair { store, worker, model: BTreeMap::new(), limits, now: 1_000_000, rng: Rng::seeded(seed) }
    }

    fn member(&mut self) -> Vec<u8> {
        match self.rng.below(300) {
            0 => vec![b'm'; 2000 + self.rng.below(3000) as usize],
            1..=9 => (0..self.rng.below(6)).map(|_| self.rng.next_u64() as u8).collect(),
            10..=20 => format!("member:{}", self.rng.below(60)).into_bytes(),
            21..=60 => (self.rng.next_u64() as i64 >> self.rng.below(64)).to_string().into_bytes(),
            _ => (self.rng.below(60) as i64 - 20).to_string().into_bytes(),
        }
    }

    /// Some members; integers alone, or texts among them.
    fn members(&mut self) -> Vec<Vec<u8>> {
        let many = if self.rng.below(4) == 0 { self.rng.below(60) } else { 1 };
        let texts = self.rng.below(8) == 0;
        let one = |pair: &mut Pair| match texts {
            true => format!("member:{}", pair.rng.below(60)).into_bytes(),
            false => pair.member(),
        };
        (0..many).map(|_| one(self)).collect()
    }

    /// Runs `f` with the keys of these numbers, their shards held.
    fn on<R>(&mut self, numbers: &[u64], f: impl FnOnce(&mut Tx<'_>, &[Key<'_>]) -> R) -> R {
        self.worker.set_now(self.now);
        let names: Vec<Vec<u8>> = numbers.iter().map(|&n| name(n)).collect();
        let (store, local) = self.worker.parts();
        let mut tx = Tx::new(store, local, 0);
        let keys: Vec<Key<'_>> = names.iter().map(|name| tx.key(name)).collect();
        let mut shards: Vec<u16> = keys.iter().map(|key| tx.shard_of(key.hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        assert!(tx.try_hold(&shards), "one worker meets no busy shard");
        let result = f(&mut tx, &keys);
        tx.finish();
        result
    }

    /// The model's set, empty if absent.
    fn set(&mut self, n: u64) -> Result<Set, WrongType> {
        self.expire(n);
        match self.model.get(&n) {
            None => Ok(Set::default()),
            Some(Value::Set(set)) => Ok(set.clone()),
            Some(Value::String) => Err(WrongType),
        }
    }

    fn expire(&mut self, n: u64) {
        let now = self.now;
        if matches!(self.model.get(&n), Some(Value::Set(set)) if set.expiry.is_some_and(|at| at <= now)) {
            self.model.remove(&n);
        }
    }

    fn put(&mut self, n: u64, set: Set) {
        if set.members.is_empty() {
            self.model.remove(&n);
        } else {
            self.model.insert(n, Value::Set(set));
        }
    }

    fn step(&mut self) {
        let n = self.rng.below(KEYS);
        match self.rng.below(40) {
            0..=9 => self.add(n),
            10..=13 => self.remove(n),
            14 | 15 => self.read(n),
            16 => self.walk(n),
            17 | 18 => self.pick(n),
            19 | 20 => self.scan(n),
            21 | 22 => self.pop(n),
            23 | 24 => self.move_one(n),
            25 | 26 => self.show(),
            27..=29 => self.combine(n),
            30 => self.rename_or_copy(n),
            31 => self.rare(n),
            32 if self.rng.below(4) == 0 => {
                self.limits.small[Type::Set].entries = self.rng.below(80);
                self.store.shapes().set(&self.limits);
                let bytes = [0, 60, 400, 8 << 10][self.rng.below(4) as usize];
                self.store.shapes().small(Type::Set).set_outgrown_bytes(bytes);
            }
            33 => self.now += self.rng.below(50) as i64,
            34 | 35 => {
                // A full log is drained; one that cannot be is full for real.
                let _ = self.worker.admit(60_000);
            }
            _ => {
                self.worker.background(self.now, Duration::from_millis(1));
            }
        }
    }

    fn add(&mut self, n: u64) {
        let (members, limits) = (self.members(), self.limits);
        let expected = self.set(n).map(|mut set| {
            let new = members.iter().filter(|member| set.add(member, &limits)).count();
            self.put(n, set);
            new
        });
        let added = self.on(&[n], |tx, keys| tx.set_add(&keys[0], members.iter().map(Vec::as_slice)));
        assert_eq!(added, expected);
    }

    fn remove(&mut self, n: u64) {
        let many = if self.rng.below(6) == 0 { self.rng.below(200) } else { 2 };
        let members: Vec<Vec<u8>> = (0..many).map(|_| self.member()).collect();
        let expected = self.set(n).map(|mut set| {
            let gone = members.iter().filter(|&member| set.members.remove(member)).count();
            self.put(n, set);
            gone
        });
        let removed = self.on(&[n], |tx, keys| tx.set_remove(&keys[0], members.iter().map(Vec::as_slice)));
        assert_eq!(removed, expected);
    }

    fn read(&mut self, n: u64) {
        let members = self.members();
        let expected = self.set(n).map(|set| {
            let has: Vec<bool> = members.iter().map(|member| set.members.contains(member)).collect();
            (!set.members.is_empty()).then_some((set.members.len(), has))
        });
        let found = self.on(&[n], |tx, keys| {
            let set = tx.set_view(&keys[0])?;
            Ok(set.map(|set| (set.len(), members.iter().map(|member| set.contains(member)).collect())))
        });
        assert_eq!(found, expected);
    }

    /// All members, and the encoding.
    fn walk(&mut self, n: u64) {
        let Ok(expected) = self.set(n) else { return };
        let (members, encoding) = self.on(&[n], |tx, keys| {
            let mut members = vec![];
            if let Some(set) = tx.set_view(&keys[0]).expect("a set") {
                set.for_each(|member| members.push(text(member)));
            }
            (members, tx.object(&keys[0]).map(|object| object.encoding))
        });
        let encodings = ["intset", "hashtable"];
        let wanted = (!expected.members.is_empty()).then_some(encodings[usize::from(expected.big)]);
        assert_eq!(encoding, wanted, "set {n}");
        assert_eq!(members.len(), expected.members.len());
        assert!(members.into_iter().collect::<BTreeSet<_>>() == expected.members);
    }

    fn pick(&mut self, n: u64) {
        let Ok(expected) = self.set(n) else { return };
        let many = self.rng.below(40) as usize;
        let pick = if self.rng.below(2) == 0 { Pick::Any(many) } else { Pick::Distinct(many) };
        let mut members = vec![];
        let found = self.on(&[n], |tx, keys| {
            let (set, rng) = tx.set_view_and_rng(&keys[0]).expect("a set");
            if let Some(set) = set {
                set.pick(rng, pick, |member| members.push(text(member)));
            }
            set.is_some()
        });
        assert_eq!(found, !expected.members.is_empty());
        assert!(members.iter().all(|member| expected.members.contains(member)));
        match pick {
            Pick::Any(many) => assert!(!found || members.len() == many),
            Pick::Distinct(many) => {
                assert_eq!(members.len(), many.min(expected.members.len()));
                assert_eq!(members.iter().collect::<BTreeSet<_>>().len(), members.len(), "one came twice");
            }
        }
    }

    fn scan(&mut self, n: u64) {
        let Ok(expected) = self.set(n) else { return };
        let (mut cursor, mut seen) = (0, BTreeSet::new());
        loop {
            let count = 1 + self.rng.below(20) as usize;
            cursor = self.on(&[n], |tx, keys| {
                let set = tx.set_view(&keys[0]).expect("a set");
                set.map_or(0, |set| set.scan(cursor, count, |member| seen.extend([text(member)])))
            });
            if cursor == 0 {
                break;
            }
            if self.rng.below(8) == 0 {
                self.worker.background(self.now, Duration::from_micros(50));
            }
        }
        assert!(seen == expected.members, "a scan with nothing in between shows everything");
    }

    fn pop(&mut self, n: u64) {
        let mut set = match self.set(n) {
            Ok(set) => set,
            Err(wrong) => {
                return assert_eq!(self.on(&[n], |tx, keys| tx.set_pop(&keys[0], 1, |_| ())), Err(wrong));
            }
        };
        let count = if self.rng.below(2) == 0 { 1 } else { self.rng.below(60) };
        let mut popped = vec![];
        let many = self.on(&[n], |tx, keys| tx.set_pop(&keys[0], count, |member| popped.push(text(member))));
        assert_eq!(many, Ok(popped.len()));
        assert_eq!(popped.len(), set.members.len().min(count as usize));
        assert!(popped.iter().all(|member| set.members.remove(member)), "{popped:?}");
        self.put(n, set);
    }

    fn move_one(&mut self, from: u64) {
        let (to, limits) = (self.rng.below(KEYS), self.limits);
        let source = self.set(from).map(|set| set.members);
        let member = match &source {
            Ok(members) if !members.is_empty() && self.rng.below(4) > 0 => {
                members.iter().nth(self.rng.below(members.len() as u64) as usize).expect("below its length").clone()
            }
            _ => self.member(),
        };
        let expected = match (self.set(from), self.set(to)) {
            (Ok(source), _) if source.members.is_empty() => Ok(false),
            (Ok(mut source), Ok(_)) => {
                let there = source.members.contains(&member);
                if there && from != to {
                    source.members.remove(&member);
                    self.put(from, source);
                    let mut target = self.set(to).expect("a set");
                    target.add(&member, &limits);
                    self.put(to, target);
                }
                Ok(there)
            }
            _ => Err(WrongType),
        };
        assert_eq!(
            self.on(&[from, to], |tx, keys| {
                let there = tx.set_take_to_move(&keys[0], &keys[1], &member)?;
                if there {
                    tx.set_add(&keys[1], [&*member])?;
                }
                Ok(there)
            }),
            expected
        );
    }

    /// An operation and its sets; at times the same one twice, and one that is not there.
    fn operation(&mut self) -> (SetOp, Vec<u64>, Result<Vec<Set>, WrongType>) {
        let op = [SetOp::Intersection, SetOp::Union, SetOp::Difference][self.rng.below(3) as usize];
        let many = [1, 2, 2, 3, 8][self.rng.below(5) as usize];
        let numbers: Vec<u64> = (0..many).map(|_| self.rng.below(KEYS)).collect();
        let sets = numbers.iter().map(|&n| self.set(n)).collect();
        (op, numbers, sets)
    }

    fn show(&mut self) {
        let (op, numbers, sets) = self.operation();
        let expected = sets.map(|sets| combined(op, &sets));
        let (mut shown, enough) = (vec![], self.rng.below(40) as usize);
        let stops = op == SetOp::Intersection && enough > 0;
        let found = self.on(&numbers, |tx, keys| {
            tx.set_views(keys)?.show(op, |member| {
                shown.push(text(member));
                stops && shown.len() == enough
            });
            Ok::<(), WrongType>(())
        });
        assert_eq!(found.is_err(), expected.is_err());
        let Ok(expected) = expected else { return };
        let many = if stops { expected.len().min(enough) } else { expected.len() };
        assert_eq!(shown.len(), many, "{op:?} of {numbers:?}");
        let shown: BTreeSet<Vec<u8>> = shown.into_iter().collect();
        assert!(shown.len() == many && shown.is_subset(&expected), "{op:?} of {numbers:?}");
    }

    fn combine(&mut self, to: u64) {
        let (op, numbers, sets) = self.operation();
        let limits = self.limits;
        let expected = sets.map(|sets| {
            let mut result = Set::default();
            for member in combined(op, &sets) {
                result.add(&member, &limits);
            }
            result.big |= op == SetOp::Difference && begins_with_all(&sets, &limits);
            let len = result.members.len();
            self.put(to, result);
            len
        });
        let keys: Vec<u64> = std::iter::once(to).chain(numbers.iter().copied()).collect();
        let stored = self.on(&keys, |tx, keys| {
            tx.set_op_bytes(op, &keys[1..])?;
            tx.set_store(op, &keys[0], &keys[1..])
        });
        assert_eq!(stored, expected, "{op:?} of {numbers:?}");
        self.walk(to);
    }

    fn rename_or_copy(&mut self, from: u64) {
        let (to, rename) = (self.rng.below(KEYS), self.rng.below(2) == 0);
        self.expire(from);
        self.expire(to);
        let done = self.on(&[from, to], |tx, keys| match rename {
            true => tx.rename(&keys[0], &keys[1]),
            false => tx.copy(&keys[0], &keys[1]),
        });
        let copy = match self.model.get(&from) {
            None => return assert!(!done),
            Some(Value::Set(set)) => Value::Set(set.clone()),
            Some(Value::String) => Value::String,
        };
        assert!(done);
        if rename && from != to {
            self.model.remove(&from);
        }
        self.model.insert(to, copy);
    }

    fn rare(&mut self, n: u64) {
        self.expire(n);
        match self.rng.below(8) {
            0 => {
                self.on(&[n], |tx, keys| tx.set(&keys[0], b"a string", Ttl::Clear, StringForm::Auto));
                self.model.insert(n, Value::String);
            }
            1 => {
                let there = self.on(&[n], |tx, keys| tx.remove(&keys[0]));
                assert_eq!(there, self.model.remove(&n).is_some());
            }
            2 if matches!(self.model.get(&n), Some(Value::String)) => {
                assert_eq!(self.on(&[n], |tx, keys| tx.type_of(&keys[0])), Some(Type::String));
                self.on(&[n], |tx, keys| tx.remove(&keys[0]));
                self.model.remove(&n);
            }
            _ => {
                let at = Some(self.now + 1 + self.rng.below(600) as i64).filter(|_| self.rng.below(3) > 0);
                let there = self.on(&[n], |tx, keys| tx.set_expiry(&keys[0], at));
                assert_eq!(there, self.model.contains_key(&n));
                match self.model.get_mut(&n) {
                    Some(Value::Set(set)) => set.expiry = at,
                    Some(Value::String) => drop(self.on(&[n], |tx, keys| tx.set_expiry(&keys[0], None))),
                    None => {}
                }
            }
        }
    }
}

fn combined(op: SetOp, sets: &[Set]) -> BTreeSet<Vec<u8>> {
    let mut all = sets.iter().map(|set| set.members.clone());
    let first = all.next().expect("one set at least");
    all.fold(first, |result, set| match op {
        SetOp::Intersection => result.intersection(&set).cloned().collect(),
        SetOp::Union => result.union(&set).cloned().collect(),
        SetOp::Difference => result.difference(&set).cloned().collect(),
    })
}

/// Whether Redis makes a difference by removing from all of the first set, and those make a hash table.
fn begins_with_all(sets: &[Set], limits: &Limits) -> bool {
    let first = &sets[0].members;
    let there: Vec<usize> = sets.iter().map(|set| set.members.len()).filter(|&len| len > 0).collect();
    let way_two = first.len() * there.len() / 2 > there.iter().sum();
    let table =
        first.len() as u64 > limits.small[Type::Set].entries || first.iter().any(|member| parse_i64(member).is_none());
    way_two && table
}

#[test]
fn sets_are_those_of_the_model() {
    let seed = setting("VARVE_SEED", 0x5e75);
    println!("VARVE_SEED={seed}");
    let mut pair = Pair::new(seed);
    let mut moved = 0;
    for step in 0..setting("VARVE_STEPS", 30_000) {
        pair.step();
        if step % VERIFY_EVERY == 0 {
            (0..KEYS).for_each(|n| pair.walk(n));
            pair.worker.park();
            pair.store.verify();
        }
        moved = moved.max(pair.store.totals().moved);
    }
    assert!(moved > 100, "reclaim came across the sets: {moved} objects moved");
    pair.store.flush_all(&mut pair.worker);
    while pair.worker.background(pair.now, Duration::from_millis(5)) == Some(0) {}
    pair.worker.park();
    pair.store.verify();
}

/// The statistic of a chi-square test over these cells, as a distance from its mean in standard deviations. A count
/// that is drawn without repeats, a share of all each time, varies less by what is not drawn.
fn unevenness(counts: &[u64], share: f64) -> f64 {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let statistic: f64 = counts.iter().map(|&n| (n as f64 - mean).powi(2) / mean / (1.0 - share)).sum();
    let freedom = (counts.len() - 1) as f64;
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

/// Every member is as likely as any other, drawn alone, among others, first of others, or taken out.
#[test]
fn what_is_drawn_is_even() {
    let seed = setting("VARVE_SEED", 77);
    println!("VARVE_SEED={seed}");
    for (prefix, len) in [("", 60usize), ("", 400), ("m", 60), ("m", 400), ("m", 3000)] {
        let mut pair = Pair::new(seed);
        pair.store.set_limit(0, Policy::NoEviction);
        let members: Vec<Vec<u8>> = (0..len).map(|i| format!("{prefix}{i}").into_bytes()).collect();
        let number = |member: PackedEntry<'_>| {
            std::str::from_utf8(&text(member)[prefix.len()..]).expect("digits").parse::<usize>().expect("a number")
        };
        let mut counts = [(); 6].map(|()| vec![0u64; len]);
        pair.on(&[0], |tx, keys| {
            let fill = |tx: &mut Tx<'_>| tx.set_add(&keys[0], members.iter().map(Vec::as_slice)).expect("a set");
            fill(tx);
            for _ in 0..300 {
                let (set, rng) = tx.set_view_and_rng(&keys[0]).expect("a set");
                let set = set.expect("it is there");
                set.pick(rng, Pick::Any(len), |member| counts[0][number(member)] += 1);
                set.pick(rng, Pick::Distinct(len / 5), |member| counts[1][number(member)] += 1);
                set.pick(rng, Pick::Distinct(len / 2), |member| counts[2][number(member)] += 1);
            }
            for _ in 0..len * 20 {
                let (set, rng) = tx.set_view_and_rng(&keys[0]).expect("a set");
                let mut first = None;
                set.expect("it is there").pick(rng, Pick::Distinct(len / 2), |member| {
                    first.get_or_insert(number(member));
                });
                counts[3][first.expect("one at least")] += 1;
                if len > 400 && counts[3].iter().sum::<u64>() > 20_000 {
                    break;
                }
            }
            for round in 0..200 {
                let count = [len / 5, len / 2][round % 2] as u64;
                tx.set_pop(&keys[0], count, |member| counts[4 + round % 2][number(member)] += 1).expect("a set");
                assert_eq!(fill(tx), count as usize);
            }
        });
        for (what, counts) in counts.iter().enumerate() {
            let by = unevenness(counts, [0.0, 0.2, 0.5, 0.0, 0.2, 0.5][what]);
            println!("{prefix:?} {len} {what}: {by:.2} standard deviations");
            assert!(by.abs() < 5.0, "{prefix:?} {len} {what}: {by:.2} standard deviations from even");
        }
    }
}
