//! A store beside a model of it: four bytes an operation, over keys of every type, with two workers, segments of a few
//! kilobytes, limits of encodings at which everything changes, and steps of the background in between. For tests and for
//! the fuzz target `world`.
//!
//! ```text
//! what (7 bits) | worker (1)   key      other key, or element      number
//! ```
//! Every outcome is compared, then the key that it was about; `verify()` comes every `VERIFY_EVERY` operations.

mod streams;
pub(crate) mod value;
mod zsets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use value::{Plain, combine};
use varve_store::{
    AddError, Limits, ListEnd, ListPart, LogGeometry, NodeLimits, Options, PerType, Policy, SetOp, SmallLimits, Store,
    StoreWorker, StringForm, Ttl, Tx, Type, WrongType,
};

const DATABASES: u32 = 3;
const START_MS: i64 = 1_000_000;
const VERIFY_EVERY: u32 = 48;

/// A key of the model: database and name.
pub(crate) type Name = (u32, Vec<u8>);

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) what: u8,
    pub(crate) one: u8,
    pub(crate) two: u8,
    pub(crate) number: u8,
}

/// The numbers of a type's operations, of 70. Those that no type has are of all types, and of the store.
pub(crate) fn operations(ty: Type) -> std::ops::Range<u8> {
    match ty {
        Type::List => 0..12,
        Type::Set => 12..22,
        Type::Hash => 22..30,
        Type::Zset => 30..43,
        Type::String => 43..45,
        Type::Stream => 62..70,
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    pub(crate) workers: Vec<StoreWorker>,
    pub(crate) model: BTreeMap<Name, (Plain, Option<i64>)>,
    pub(crate) now: i64,
    done: u32,
}

impl World {
    pub(crate) fn new(shape: u8) -> World {
        let geometry = LogGeometry {
            segment_bytes: 8 << 10,
            piece_bytes: 512 << (shape % 3),
            extent_min_bytes: 2048,
            release_bytes: 4096,
            reserve_bytes: 256 << 20,
        };
        let shards = 1 << (shape / 4 % 3);
        let options = Options {
            databases: DATABASES,
            workers: 2,
            workers_a_drain: 1,
            shards,
            first_buckets: 2,
            seed: 7,
            geometry,
        };
        let store = Store::new(&options).expect("an address range");
        store.set_limit(0, Policy::NoEviction);
        let workers = (0..2).map(|id| store.worker(id)).collect();
        let mut world = World { store, workers, model: BTreeMap::new(), now: START_MS, done: 0 };
        world.limits(shape / 16);
        world
    }

    /// Does one operation to both.
    pub(crate) fn apply(&mut self, op: Op) {
        let (name, what) = (name(op.one), op.what % 128 % 70);
        let op = Op { what: op.what & 128 | what, ..op };
        match Type::ALL.into_iter().find(|ty| operations(*ty).contains(&what)) {
            Some(ty) => self.apply_to(ty, what - operations(ty).start, op, &name),
            None => self.apply_to_all(what, op, &name),
        }
        self.compare(&name, op);
        self.done += 1;
        if self.done.is_multiple_of(VERIFY_EVERY) {
            self.verify();
        }
    }

    /// Does an operation of one type, by its number among the type's operations.
    fn apply_to(&mut self, ty: Type, number: u8, op: Op, name: &Name) {
        match (ty, number) {
            (Type::List, 0..=2) => self.push(op, name),
            (Type::List, 3..=5) => self.pop(op, name),
            (Type::List, 6) => self.list_set(op, name),
            (Type::List, 7) => self.list_insert(op, name),
            (Type::List, 8) => self.list_remove(op, name),
            (Type::List, 9) => self.list_trim(op, name),
            (Type::List, _) => self.list_move(op, name),
            (Type::Set, 0..=3) => self.set_add(op, name),
            (Type::Set, 4 | 5) => self.set_remove(op, name),
            (Type::Set, 6) => self.set_pop(op, name),
            (Type::Set, 7) => self.set_move(op, name),
            (Type::Set, _) => self.set_store(op, name),
            (Type::Hash, 0..=3) => self.hash_set(op, name),
            (Type::Hash, 4 | 5) => self.hash_remove(op, name),
            (Type::Hash, 6) => self.hash_add(op, name),
            (Type::Hash, _) => self.hash_scan(op, name),
            (Type::Zset, _) => self.sorted(op, name, number),
            (Type::String, _) => self.string(op, name),
            (Type::Stream, _) => self.streams(op, name, number),
        }
    }

    /// Does an operation that every type has, or one of the store.
    fn apply_to_all(&mut self, what: u8, op: Op, name: &Name) {
        match what {
            45 | 46 => self.remove(op, name),
            47 | 48 => self.rename(op, name),
            49 => self.copy(op, name),
            50 | 51 => self.expire(op, name),
            52 => self.now += i64::from(op.number),
            53..=57 => self.step(op),
            58 => self.limits(op.number),
            59 if op.number < 32 => self.flush(op),
            60 => self.swap(op),
            61 => self.workers[usize::from(op.what >> 7)].park(),
            _ => {}
        }
    }

    /// Compares everything, lets the background end, and compares again.
    pub(crate) fn finish(mut self) {
        self.verify();
        self.check_all();
        self.now += 1;
        for _ in 0..100_000 {
            let now = self.now;
            let owes = |w: &mut StoreWorker| w.background(now, Duration::from_millis(1)).is_some_and(|at| at <= now);
            if !self.workers.iter_mut().fold(false, |left, w| owes(w) | left) {
                self.verify();
                return self.check_all();
            }
        }
        panic!("the background does not end");
    }

    pub(crate) fn verify(&mut self) {
        self.workers.iter_mut().for_each(StoreWorker::park);
        self.store.verify();
    }

    fn check_all(&mut self) {
        let now = self.now;
        self.model.retain(|_, value| value.1.is_none_or(|at| at > now));
        let mut shown = Vec::new();
        for db in 0..DATABASES {
            self.workers[0].set_now(now);
            self.store.for_each_key(&mut self.workers[0], db, &mut |key, _, _| shown.push((db, key.to_vec())));
        }
        shown.sort();
        assert!(self.model.keys().eq(&shown), "the keys: {shown:?}, {:?}", self.model.keys());
        for name in shown {
            self.compare(&name, Op { what: 0, one: 0, two: 0, number: 0 });
        }
    }

    /// Runs `f` on a worker with the shards of these keys held, the first one's database selected.
    fn with<R>(&mut self, op: Op, names: &[&Name], f: impl FnOnce(&mut Tx<'_>) -> R) -> R {
        let worker = &mut self.workers[usize::from(op.what >> 7)];
        worker.set_now(self.now);
        let (store, local) = worker.parts();
        let _inside = store.gate().enter(local.id());
        let mut tx = Tx::new(store, local, names[0].0);
        let mut shards: Vec<u16> = names.iter().map(|(db, key)| tx.shard_of(tx.key_in(*db, key).hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        assert!(tx.try_hold(&shards), "nobody else is there");
        let result = f(&mut tx);
        // Some batches leave their pieces with the worker.
        if op.number.is_multiple_of(2) {
            tx.finish();
        }
        result
    }

    /// The model's value of a live key.
    fn live(&mut self, name: &Name) -> Option<&mut (Plain, Option<i64>)> {
        let now = self.now;
        if self.model.get(name).is_some_and(|value| value.1.is_some_and(|at| at <= now)) {
            self.model.remove(name);
        }
        self.model.get_mut(name)
    }

    /// The model's value of this type, made if `make`; `None` without it.
    fn typed(&mut self, name: &Name, ty: Type, make: bool) -> Result<Option<&mut Plain>, WrongType> {
        if self.live(name).is_none() && make {
            self.model.insert(name.clone(), (Plain::empty(ty), None));
        }
        match self.model.get_mut(name) {
            Some((value, _)) if value.ty() == ty => Ok(Some(value)),
            Some(_) => Err(WrongType),
            None => Ok(None),
        }
    }

    /// Removes an empty collection.
    fn settle(&mut self, name: &Name) {
        if self.model.get(name).is_some_and(|value| value.0.is_gone()) {
            self.model.remove(name);
        }
    }

    fn compare(&mut self, name: &Name, op: Op) {
        let expected = self.live(name).cloned();
        self.with(op, &[name], |tx| {
            let k = tx.key(&name.1);
            assert_eq!(tx.expiry(&k), expected.as_ref().map(|value| value.1), "expiry of {name:?}");
            let Some((expected, _)) = expected else { return };
            assert_eq!(tx.type_of(&k), Some(expected.ty()), "{name:?}");
            assert!(Plain::read(tx, &name.1, expected.ty()) == expected, "{name:?} is not {expected:?}");
            assert!(tx.object(&k).expect("it is there").bytes > 0);
        });
    }

    fn push(&mut self, op: Op, name: &Name) {
        let (end, words) = (end(op.what), words(op));
        let only_existing = op.what % 128 == 2;
        let slices = || words.iter().map(Vec::as_slice);
        let pushed = self.with(op, &[name], |tx| tx.list_push(&tx.key(&name.1), end, slices(), only_existing));
        let expected = self.typed(name, Type::List, !only_existing).map(|value| {
            value.map_or(0, |value| {
                let list = value.list();
                words.iter().for_each(|word| push(list, end, word.clone()));
                list.len() as u64
            })
        });
        assert_eq!(pushed, expected);
    }

    fn pop(&mut self, op: Op, name: &Name) {
        let (end, count, mut shown) = (end(op.two), u64::from(op.number), Vec::new());
        let single = op.what % 128 == 3;
        let popped = self.with(op, &[name], |tx| match single {
            true => tx.list_pop(&tx.key(&name.1), end, |element| shown.push(element.to_vec())),
            false => tx.list_pop_many(&tx.key(&name.1), end, count, |part| {
                if let ListPart::Element(element) = part {
                    shown.push(element.to_vec());
                }
            }),
        });
        let expected = self.typed(name, Type::List, false).map(|value| {
            value.map(|value| {
                let count = if single { 1 } else { count };
                (0..count).map_while(|_| pop(value.list(), end)).collect::<Vec<_>>()
            })
        });
        assert_eq!(popped, expected.as_ref().map(Option::is_some).map_err(|e| *e));
        assert_eq!(shown, expected.ok().flatten().unwrap_or_default());
        self.settle(name);
    }

    fn list_set(&mut self, op: Op, name: &Name) {
        let (index, element) = (i64::from(op.number as i8), word(op.two));
        let set = self.with(op, &[name], |tx| tx.list_set(&tx.key(&name.1), index, &element));
        let expected = self.typed(name, Type::List, false).map(|value| {
            value.map(|value| {
                let list = value.list();
                let at = if index < 0 { index + list.len() as i64 } else { index };
                let cell = usize::try_from(at).ok().and_then(|at| list.get_mut(at));
                let found = cell.is_some();
                cell.into_iter().for_each(|cell| cell.clone_from(&element));
                found
            })
        });
        assert_eq!(set, expected);
    }

    fn list_insert(&mut self, op: Op, name: &Name) {
        let (pivot, element, before) = (word(op.two), word(op.number), op.number.is_multiple_of(2));
        let inserted = self.with(op, &[name], |tx| tx.list_insert(&tx.key(&name.1), &pivot, before, &element));
        let expected = self.typed(name, Type::List, false).map(|value| {
            value.map(|value| {
                let list = value.list();
                let Some(at) = list.iter().position(|have| *have == pivot) else { return 0 };
                list.insert(if before { at } else { at + 1 }, element);
                list.len() as u64
            })
        });
        assert_eq!(inserted, expected);
    }

    fn list_remove(&mut self, op: Op, name: &Name) {
        let (element, end) = (word(op.two), end(op.number));
        let count = if op.number % 4 < 2 { u64::MAX } else { u64::from(op.number / 4) };
        let removed = self.with(op, &[name], |tx| tx.list_remove(&tx.key(&name.1), &element, count, end));
        let expected = self.typed(name, Type::List, false).map(|value| {
            value.map_or(0, |value| {
                let (list, mut gone) = (value.list(), 0);
                let mut keep = |have: &Vec<u8>| {
                    let hit = *have == element && gone < count;
                    gone += u64::from(hit);
                    !hit
                };
                let kept: Vec<Vec<u8>> = match end {
                    ListEnd::Front => list.drain(..).filter(&mut keep).collect(),
                    ListEnd::Back => list.drain(..).rev().filter(&mut keep).collect(),
                };
                list.extend(kept);
                if end == ListEnd::Back {
                    list.make_contiguous().reverse();
                }
                gone
            })
        });
        assert_eq!(removed, expected);
        self.settle(name);
    }

    fn list_trim(&mut self, op: Op, name: &Name) {
        let (start, stop) = (i64::from(op.two as i8), i64::from(op.number as i8));
        let trimmed = self.with(op, &[name], |tx| tx.list_trim(&tx.key(&name.1), start, stop));
        let expected = self.typed(name, Type::List, false).map(|value| {
            value.map_or(0, |value| {
                let list = value.list();
                let len = list.len() as i64;
                let place = |at: i64| if at < 0 { at + len } else { at };
                let (start, end) = (place(start).max(0), (place(stop) + 1).clamp(0, len));
                let kept =
                    if start < end { list.range(start as usize..end as usize).cloned().collect() } else { [].into() };
                *list = kept;
                (len - list.len() as i64) as u64
            })
        });
        assert_eq!(trimmed, expected);
        self.settle(name);
    }

    fn list_move(&mut self, op: Op, name: &Name) {
        let (to, from_end, to_end) = (self::name(op.two), end(op.number), end(op.number / 2));
        let mut shown = None;
        let moved = self.with(op, &[name, &to], |tx| {
            let (from, to) = (tx.key(&name.1), tx.key_in(to.0, &to.1));
            tx.list_move(&from, &to, from_end, to_end, |element| shown = Some(element.to_vec()))
        });
        let expected = self.model_move(
            name,
            &to,
            |plain| pop(plain.list(), from_end),
            Type::List,
            |plain, element| {
                push(plain.list(), to_end, element);
            },
        );
        assert_eq!(moved, expected.as_ref().map(Option::is_some).map_err(|e| *e));
        assert_eq!(shown, expected.ok().flatten());
        self.compare(&to, op);
    }

    /// Takes an element out of one key and puts it in another of the same type, if it is there.
    fn model_move(
        &mut self,
        from: &Name,
        to: &Name,
        take: impl FnOnce(&mut Plain) -> Option<Vec<u8>>,
        ty: Type,
        put: impl FnOnce(&mut Plain, Vec<u8>),
    ) -> Result<Option<Vec<u8>>, WrongType> {
        if self.typed(from, ty, false)?.is_none() {
            return Ok(None);
        }
        self.typed(to, ty, false)?;
        let Some(element) = take(&mut self.model.get_mut(from).expect("it is there").0) else { return Ok(None) };
        put(self.typed(to, ty, true)?.expect("made"), element.clone());
        self.settle(from);
        Ok(Some(element))
    }

    fn set_add(&mut self, op: Op, name: &Name) {
        let words = words(op);
        let added = self.with(op, &[name], |tx| tx.set_add(&tx.key(&name.1), words.iter().map(Vec::as_slice)));
        let expected = self.typed(name, Type::Set, true).map(|value| {
            let set = value.expect("made").set();
            words.into_iter().filter(|word| set.insert(word.clone())).count()
        });
        assert_eq!(added, expected);
    }

    fn set_remove(&mut self, op: Op, name: &Name) {
        let words = words(op);
        let removed = self.with(op, &[name], |tx| tx.set_remove(&tx.key(&name.1), words.iter().map(Vec::as_slice)));
        let expected = self
            .typed(name, Type::Set, false)
            .map(|value| value.map_or(0, |value| words.iter().filter(|&word| value.set().remove(word)).count()));
        assert_eq!(removed, expected);
        self.settle(name);
    }

    fn set_pop(&mut self, op: Op, name: &Name) {
        let mut shown = Vec::new();
        let count = u64::from(op.number);
        let popped = self.with(op, &[name], |tx| {
            tx.set_pop(&tx.key(&name.1), count, |member| shown.push(member.text(&mut [0; 20]).to_vec()))
        });
        let expected = self.typed(name, Type::Set, false).map(|value| {
            value.map_or(0, |value| {
                let set = value.set();
                let many = (count as usize).min(set.len());
                shown.iter().for_each(|member| assert!(set.remove(member), "a member was popped that is not there"));
                many
            })
        });
        assert_eq!((popped, popped.unwrap_or(0)), (expected, shown.len()));
        self.settle(name);
    }

    fn set_move(&mut self, op: Op, name: &Name) {
        let (to, member) = (self::name(op.two), word(op.number));
        let moved = self.with(op, &[name, &to], |tx| {
            let (from, to) = (tx.key(&name.1), tx.key_in(to.0, &to.1));
            let there = tx.set_take_to_move(&from, &to, &member)?;
            if there {
                tx.set_add(&to, [&*member])?;
            }
            Ok(there)
        });
        let take = |plain: &mut Plain| plain.set().take(&member);
        let expected = self.model_move(name, &to, take, Type::Set, |plain, member| _ = plain.set().insert(member));
        assert_eq!(moved, expected.map(|member| member.is_some()));
        self.compare(&to, op);
    }

    fn set_store(&mut self, op: Op, name: &Name) {
        let set_op = [SetOp::Intersection, SetOp::Union, SetOp::Difference][usize::from(op.number % 3)];
        let sources = [self::name(op.two), self::name(op.number / 3), name.clone()];
        let sources = &sources[..1 + usize::from(op.number % 8 / 3)];
        let names: Vec<&Name> = std::iter::once(name).chain(sources).collect();
        let stored = self.with(op, &names, |tx| {
            let keys: Vec<_> = sources.iter().map(|(db, key)| tx.key_in(*db, key)).collect();
            tx.set_store(set_op, &tx.key(&name.1), &keys)
        });
        let sets: Result<Vec<_>, _> = sources
            .iter()
            .map(|source| {
                self.typed(source, Type::Set, false).map(|v| v.map_or(Default::default(), |v| v.set().clone()))
            })
            .collect();
        let expected = sets.map(|sets| {
            let result = combine(set_op, &sets);
            let len = result.len();
            self.model.insert(name.clone(), (Plain::Set(result), None));
            len
        });
        assert_eq!(stored, expected);
        self.settle(name);
    }

    fn hash_set(&mut self, op: Op, name: &Name) {
        let words = words(op);
        let pairs = || words.iter().map(Vec::as_slice).zip(words.iter().rev().map(Vec::as_slice));
        let set = self.with(op, &[name], |tx| match op.what % 128 {
            22 => tx.hash_set_new(&tx.key(&name.1), &words[0], &words[0]).map(usize::from),
            _ => tx.hash_set(&tx.key(&name.1), pairs()),
        });
        let expected = self.typed(name, Type::Hash, true).map(|value| {
            let hash = value.expect("made").hash();
            if op.what % 128 == 22 {
                let new = !hash.contains_key(&words[0]);
                hash.entry(words[0].clone()).or_insert(words[0].clone());
                return usize::from(new);
            }
            pairs().filter(|(field, value)| hash.insert(field.to_vec(), value.to_vec()).is_none()).count()
        });
        assert_eq!(set, expected);
    }

    fn hash_remove(&mut self, op: Op, name: &Name) {
        let words = words(op);
        let removed = self.with(op, &[name], |tx| tx.hash_remove(&tx.key(&name.1), words.iter().map(Vec::as_slice)));
        let expected = self.typed(name, Type::Hash, false).map(|value| {
            value.map_or(0, |value| words.iter().filter(|&word| value.hash().remove(word).is_some()).count())
        });
        assert_eq!(removed, expected);
        self.settle(name);
    }

    fn hash_add(&mut self, op: Op, name: &Name) {
        let (field, by) = (word(op.two), i64::from(op.number) << (op.number % 56));
        let sum = self.with(op, &[name], |tx| tx.hash_add(&tx.key(&name.1), &field, by));
        let expected = self.typed(name, Type::Hash, false).map_err(AddError::from).and_then(|value| {
            let old = value.and_then(|value| value.hash().get(&field).cloned());
            let old = old.map_or(Some(0), |old| integer(&old)).ok_or(AddError::NoNumber)?;
            old.checked_add(by).ok_or(AddError::Overflow)
        });
        assert_eq!(sum, expected);
        if let Ok(sum) = sum {
            let hash = self.typed(name, Type::Hash, true).expect("a hash").expect("made").hash();
            hash.insert(field, sum.to_string().into_bytes());
        }
    }

    /// A whole scan of a hash at rest shows each field once, whatever its table is doing.
    fn hash_scan(&mut self, op: Op, name: &Name) {
        let Ok(Some(value)) = self.typed(name, Type::Hash, false) else { return };
        let expected = value.hash().clone();
        let mut seen = BTreeMap::new();
        self.with(op, &[name], |tx| {
            let mut cursor = 0;
            loop {
                let show = |field: &[u8], value: &[u8]| {
                    assert!(seen.insert(field.to_vec(), value.to_vec()).is_none(), "a field twice");
                };
                cursor = tx.hash_scan(&tx.key(&name.1), cursor, 1 + usize::from(op.number), show).expect("a hash");
                if cursor == 0 {
                    return;
                }
            }
        });
        assert_eq!(seen, expected);
    }

    fn string(&mut self, op: Op, name: &Name) {
        let (text, keep) = (word(op.two), op.number.is_multiple_of(4));
        let at = self.now + i64::from(op.number) * 3 - 30;
        let ttl = if keep {
            Ttl::Keep
        } else if at > self.now {
            Ttl::At(at)
        } else {
            Ttl::Clear
        };
        let old = self.live(name).and_then(|value| value.1);
        self.with(op, &[name], |tx| tx.set(&tx.key(&name.1), &text, ttl, StringForm::Auto));
        let expiry = if keep { old } else { (at > self.now).then_some(at) };
        self.model.insert(name.clone(), (Plain::String(text), expiry));
    }

    fn remove(&mut self, op: Op, name: &Name) {
        let there = self.live(name).is_some();
        assert_eq!(self.with(op, &[name], |tx| tx.remove(&tx.key(&name.1))), there);
        self.model.remove(name);
    }

    fn rename(&mut self, op: Op, name: &Name) {
        let to = self::name(op.two);
        let done = self.with(op, &[name, &to], |tx| tx.rename(&tx.key(&name.1), &tx.key_in(to.0, &to.1)));
        assert_eq!(done, self.live(name).is_some());
        if let Some(value) = self.model.remove(name) {
            self.model.insert(to.clone(), value);
        }
        self.compare(&to, op);
    }

    fn copy(&mut self, op: Op, name: &Name) {
        let to = self::name(op.two);
        let done = self.with(op, &[name, &to], |tx| tx.copy(&tx.key(&name.1), &tx.key_in(to.0, &to.1)));
        assert_eq!(done, self.live(name).is_some());
        if let Some(value) = self.model.get(name).cloned() {
            self.model.insert(to.clone(), value);
        }
        self.compare(&to, op);
    }

    fn expire(&mut self, op: Op, name: &Name) {
        let at = (!op.number.is_multiple_of(8)).then_some(self.now + 1 + i64::from(op.number) * i64::from(op.two % 16));
        let there = self.live(name).map(|value| value.1 = at).is_some();
        assert_eq!(self.with(op, &[name], |tx| tx.set_expiry(&tx.key(&name.1), at)), there);
    }

    /// Some rounds of background steps of one worker.
    fn step(&mut self, op: Op) {
        let now = self.now;
        for _ in 0..1 + op.number % 16 {
            let _ = self.workers[usize::from(op.what >> 7)].background(now, Duration::ZERO);
        }
    }

    fn limits(&mut self, number: u8) {
        let few = u64::from(number % 4) * 3;
        let value_bytes = if number.is_multiple_of(2) { 64 } else { 8 };
        self.store.shapes().set(&Limits {
            list_fill: [-1, 1, 2, 5, 30, -2, -5, 128][usize::from(number / 4 % 8)],
            list_depth: u64::from(number / 32 % 3),
            small: PerType::new(|ty| SmallLimits { entries: if ty == Type::Set { few * 2 } else { few }, value_bytes }),
            stream: NodeLimits { bytes: 400, entries: 1 + few },
            ..Limits::default()
        });
        for ty in [Type::Hash, Type::Set, Type::Zset] {
            let bytes = [0, 40, 200, 4 << 10][usize::from(number / 8 % 4)];
            self.store.shapes().small(ty).set_outgrown_bytes(bytes);
        }
    }

    fn flush(&mut self, op: Op) {
        let db = u32::from(op.one) % DATABASES;
        let worker = &mut self.workers[0];
        // Others' pieces are parked by who leaves the gate.
        worker.park();
        let store = Arc::clone(&self.store);
        self.workers[1].park();
        let _alone = store.gate().exclusive(0);
        if op.number < 8 {
            store.flush_all(&mut self.workers[0]);
            self.model.clear();
        } else {
            store.flush_db(&mut self.workers[0], db);
            self.model.retain(|name, _| name.0 != db);
        }
    }

    fn swap(&mut self, op: Op) {
        let (a, b) = (u32::from(op.one) % DATABASES, u32::from(op.two) % DATABASES);
        {
            let _alone = self.store.gate().exclusive(0);
            self.store.swap_db(a, b);
        }
        let other = |db| {
            if db == a {
                b
            } else if db == b {
                a
            } else {
                db
            }
        };
        self.model = std::mem::take(&mut self.model).into_iter().map(|((db, key), v)| ((other(db), key), v)).collect();
    }
}

fn end(n: u8) -> ListEnd {
    if n.is_multiple_of(2) { ListEnd::Front } else { ListEnd::Back }
}

fn push(list: &mut std::collections::VecDeque<Vec<u8>>, end: ListEnd, element: Vec<u8>) {
    match end {
        ListEnd::Front => list.push_front(element),
        ListEnd::Back => list.push_back(element),
    }
}

fn pop(list: &mut std::collections::VecDeque<Vec<u8>>, end: ListEnd) -> Option<Vec<u8>> {
    match end {
        ListEnd::Front => list.pop_front(),
        ListEnd::Back => list.pop_back(),
    }
}

/// An integer as the store takes one: its shortest text only.
fn integer(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.to_string().as_bytes() == text).then_some(value)
}

/// A key: few of them, so that operations meet; one long enough for a run.
fn name(n: u8) -> Name {
    let db = u32::from(n % 8 / 6);
    let key = match n / 8 % 12 {
        11 => vec![b'k'; 2500],
        n => format!("k{n}").into_bytes(),
    };
    (db, key)
}

/// An element: integers of every width, short and long texts, a few for a run of their own.
fn word(n: u8) -> Vec<u8> {
    match n {
        0..100 => (i64::from(n) - 50).to_string().into_bytes(),
        100..120 => ((i64::from(n) - 110) << (3 * (n - 100))).to_string().into_bytes(),
        120..220 => format!("word {n}").into_bytes(),
        220..250 => vec![n; usize::from(n) - 190],
        250..254 => vec![n; 400],
        _ => vec![n; 2600],
    }
}

/// The words of an operation: some, seldom many.
fn words(op: Op) -> Vec<Vec<u8>> {
    let many = if op.number < 250 { 1 + op.number % 9 } else { 100 };
    (0..many).map(|n| word(op.two.wrapping_add(n.wrapping_mul(op.number | 1)))).collect()
}
