//! Lists against a naive model: few keys, fills and depths that change in mid-run, small segments, reclaim and freeing
//! in between, expiry, names that move between shards and databases. `verify()` follows the steps.
//!
//! The seed is printed; `VARVE_SEED` sets it, `VARVE_STEPS` the number of commands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use varve_base::rng::Rng;
use varve_store::{
    Key, Limits, ListEnd, ListPart, LogGeometry, Options, Policy, Store, StoreWorker, StringForm, Ttl, Tx, WrongType,
};

use crate::setting;

const KEYS: u64 = 6;
const DATABASES: u32 = 2;
/// A verification costs more than a step.
const VERIFY_EVERY: u64 = 40;
/// Lists are cut when they get longer.
const LENGTH_MAX: usize = 1500;

type Id = (u32, u64);

#[derive(Clone, Default)]
struct List {
    elements: VecDeque<Vec<u8>>,
    expiry: Option<i64>,
    /// It is no list at all.
    is_string: bool,
}

struct Pair {
    store: Arc<Store>,
    worker: StoreWorker,
    model: BTreeMap<Id, List>,
    now: i64,
    rng: Rng,
}

fn name(n: u64) -> Vec<u8> {
    format!("list:{n}").into_bytes()
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let geometry = LogGeometry {
            segment_bytes: 64 << 10,
            piece_bytes: 4 << 10,
            extent_min_bytes: 16 << 10,
            release_bytes: 4 << 10,
            reserve_bytes: 1 << 30,
        };
        let options = Options { databases: DATABASES, shards: 4, seed, geometry, ..Options::default() };
        let store = Store::new(&options).expect("an address range");
        store.set_limit(8 << 20, Policy::NoEviction);
        let worker = store.worker(0);
        Pair { store, worker, model: BTreeMap::new(), now: 1_000_000, rng: Rng::seeded(seed) }
    }

    fn element(&mut self) -> Vec<u8> {
        match self.rng.below(14) {
            0..=4 => self.rng.below(30).to_string().into_bytes(),
            5 => (self.rng.next_u64() as i64 >> self.rng.below(64)).to_string().into_bytes(),
            6 if self.rng.below(40) == 0 => vec![b'w'; 3000 + self.rng.below(30_000) as usize],
            7 => (0..self.rng.below(6)).map(|_| self.rng.next_u64() as u8).collect(),
            8 => vec![b'v'; self.rng.below(100) as usize],
            _ => format!("element:{:04}", self.rng.below(30)).into_bytes(),
        }
    }

    fn end(&mut self) -> ListEnd {
        if self.rng.below(2) == 0 { ListEnd::Front } else { ListEnd::Back }
    }

    /// An index that is often in the list, from either end.
    fn index(&mut self, id: Id) -> i64 {
        let length = self.model.get(&id).map_or(0, |list| list.elements.len()) as i64;
        self.rng.below(2 * length as u64 + 6) as i64 - length - 3
    }

    /// Runs `f` on a key, with the shards of these keys held.
    fn with<R>(&mut self, db: u32, ids: &[Id], f: impl FnOnce(&mut Tx<'_>) -> R) -> R {
        self.worker.set_now(self.now);
        let (store, local) = self.worker.parts();
        let mut tx = Tx::new(store, local, db);
        let mut shards: Vec<u16> = ids.iter().map(|(db, n)| tx.shard_of(tx.key_in(*db, &name(*n)).hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        assert!(tx.try_hold(&shards), "one worker meets no busy shard");
        let result = f(&mut tx);
        tx.finish();
        result
    }

    fn on<R>(&mut self, id: Id, f: impl FnOnce(&mut Tx<'_>, &Key<'_>) -> R) -> R {
        let bytes = name(id.1);
        self.with(id.0, &[id], |tx| {
            let key = tx.key(&bytes);
            f(tx, &key)
        })
    }

    fn id(&mut self) -> Id {
        let id = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        self.expire(id);
        id
    }

    fn expire(&mut self, id: Id) {
        if self.model.get(&id).and_then(|list| list.expiry).is_some_and(|at| at <= self.now) {
            self.model.remove(&id);
        }
    }

    /// Whether the operation must refuse, for a key that is no list.
    fn refuses(&self, id: Id) -> bool {
        self.model.get(&id).is_some_and(|list| list.is_string)
    }

    fn prune(&mut self, id: Id) {
        if self.model.get(&id).is_some_and(|list| list.elements.is_empty() && !list.is_string) {
            self.model.remove(&id);
        }
    }

    fn step(&mut self) {
        let id = self.id();
        match self.rng.below(48) {
            0..=11 => self.push(id),
            12..=16 => self.pop(id),
            17 | 18 => self.pop_many(id),
            19..=22 => self.set(id),
            23..=26 => self.insert(id),
            27 | 28 => self.remove(id),
            29 => self.trim(id),
            30..=32 => self.search(id),
            33..=35 => self.read(id),
            36..=39 => self.move_one(id),
            40 => self.rename(id),
            41 => self.copy(id),
            42 => self.set_expiry(id),
            43 => self.limits(),
            44 => self.replace_all(id),
            45 if self.rng.below(6) == 0 => self.rare(id),
            46 => self.now += self.rng.below(30) as i64,
            _ => {
                self.worker.background(self.now, Duration::from_millis(1));
            }
        }
        self.prune(id);
        if self.model.get(&id).is_some_and(|list| list.elements.len() > LENGTH_MAX) {
            self.cut(id, 100, -100);
        }
    }

    fn limits(&mut self) {
        let list_fill = match self.rng.below(3) {
            0 => -1 - self.rng.below(5) as i64,
            _ => 1 + self.rng.below(40) as i64,
        };
        let limits = Limits { list_fill, list_depth: self.rng.below(3), ..Limits::default() };
        self.store.shapes().set(&limits);
    }

    fn push(&mut self, id: Id) {
        let many = if self.rng.below(4) == 0 { self.rng.below(200) } else { 1 + self.rng.below(3) };
        let (end, xx) = (self.end(), self.rng.below(5) == 0);
        let elements: Vec<Vec<u8>> = (0..many.max(1)).map(|_| self.element()).collect();
        let got = self.on(id, |tx, key| tx.list_push(key, end, elements.iter().map(Vec::as_slice), xx));
        if self.refuses(id) {
            return assert_eq!(got, Err(WrongType));
        }
        if xx && !self.model.contains_key(&id) {
            return assert_eq!(got, Ok(0));
        }
        let list = &mut self.model.entry(id).or_default().elements;
        for element in elements {
            match end {
                ListEnd::Front => list.push_front(element),
                ListEnd::Back => list.push_back(element),
            }
        }
        assert_eq!(got, Ok(list.len() as u64));
    }

    fn pop(&mut self, id: Id) {
        let end = self.end();
        let mut got = None;
        let found = self.on(id, |tx, key| tx.list_pop(key, end, |text| got = Some(text.to_vec())));
        if self.refuses(id) {
            return assert_eq!(found, Err(WrongType));
        }
        let want = self.model.get_mut(&id).and_then(|list| match end {
            ListEnd::Front => list.elements.pop_front(),
            ListEnd::Back => list.elements.pop_back(),
        });
        assert_eq!((found, got), (Ok(want.is_some()), want));
    }

    fn pop_many(&mut self, id: Id) {
        let (end, count) = (self.end(), self.rng.below(120));
        let mut got = Parts::default();
        let found = self.on(id, |tx, key| tx.list_pop_many(key, end, count, |part| got.add(part)));
        if self.refuses(id) {
            return assert_eq!(found, Err(WrongType));
        }
        assert_eq!(found, Ok(self.model.contains_key(&id)));
        let Some(list) = self.model.get_mut(&id) else { return };
        let all = list.elements.len();
        let count = all.min(count as usize);
        let want: Vec<Vec<u8>> = match end {
            ListEnd::Front => list.elements.drain(..count).collect(),
            ListEnd::Back => list.elements.drain(all - count..).rev().collect(),
        };
        assert_eq!(got.elements, want);
        assert_eq!(got.told, Some(want.len() as u64));
    }

    fn set(&mut self, id: Id) {
        let (index, element) = (self.index(id), self.element());
        let got = self.on(id, |tx, key| tx.list_set(key, index, &element));
        if self.refuses(id) {
            return assert_eq!(got, Err(WrongType));
        }
        let Some(list) = self.model.get_mut(&id) else { return assert_eq!(got, Ok(None)) };
        let at = if index < 0 { index + list.elements.len() as i64 } else { index };
        let cell = usize::try_from(at).ok().and_then(|at| list.elements.get_mut(at));
        assert_eq!(got, Ok(Some(cell.is_some())));
        cell.into_iter().for_each(|cell| *cell = element.clone());
    }

    fn insert(&mut self, id: Id) {
        let (pivot, element, before) = (self.element(), self.element(), self.rng.below(2) == 0);
        let got = self.on(id, |tx, key| tx.list_insert(key, &pivot, before, &element));
        if self.refuses(id) {
            return assert_eq!(got, Err(WrongType));
        }
        let Some(list) = self.model.get_mut(&id) else { return assert_eq!(got, Ok(None)) };
        match list.elements.iter().position(|e| *e == pivot) {
            None => assert_eq!(got, Ok(Some(0))),
            Some(at) => {
                list.elements.insert(at + usize::from(!before), element);
                assert_eq!(got, Ok(Some(list.elements.len() as u64)));
            }
        }
    }

    fn remove(&mut self, id: Id) {
        let (element, end) = (self.element(), self.end());
        let count = if self.rng.below(4) == 0 { u64::MAX } else { 1 + self.rng.below(3) };
        let got = self.on(id, |tx, key| tx.list_remove(key, &element, count, end));
        if self.refuses(id) {
            return assert_eq!(got, Err(WrongType));
        }
        let Some(list) = self.model.get_mut(&id) else { return assert_eq!(got, Ok(0)) };
        let mut doomed: Vec<usize> = (0..list.elements.len()).filter(|at| list.elements[*at] == element).collect();
        if end == ListEnd::Back {
            doomed.reverse();
        }
        doomed.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        doomed.sort_unstable();
        for at in doomed.iter().rev() {
            list.elements.remove(*at);
        }
        assert_eq!(got, Ok(doomed.len() as u64));
    }

    fn trim(&mut self, id: Id) {
        let (start, stop) = (self.index(id), self.index(id));
        self.cut(id, start, stop);
    }

    fn cut(&mut self, id: Id, start: i64, stop: i64) {
        let got = self.on(id, |tx, key| tx.list_trim(key, start, stop));
        if self.refuses(id) {
            return assert_eq!(got, Err(WrongType));
        }
        let Some(list) = self.model.get_mut(&id) else { return };
        list.elements = slice(&list.elements, start, stop).into();
        self.prune(id);
    }

    fn search(&mut self, id: Id) {
        let (element, from) = (self.element(), self.end());
        let (skip, count) = (self.rng.below(3), 1 + self.rng.below(3));
        let compare = if self.rng.below(2) == 0 { u64::MAX } else { self.rng.below(300) };
        let mut got = Vec::new();
        let limits = (skip, count, compare);
        let done = self.on(id, |tx, key| tx.list_positions(key, &element, from, limits, |at| got.push(at)));
        if self.refuses(id) {
            return assert_eq!(done, Err(WrongType));
        }
        let empty = VecDeque::new();
        let list = self.model.get(&id).map_or(&empty, |list| &list.elements);
        let mut places: Vec<usize> = (0..list.len()).collect();
        if from == ListEnd::Back {
            places.reverse();
        }
        places.truncate(compare.min(1 << 30) as usize);
        let hits = places.into_iter().filter(|at| list[*at] == element).map(|at| at as u64);
        assert_eq!(got, hits.skip(skip as usize).take(count as usize).collect::<Vec<_>>());
    }

    fn read(&mut self, id: Id) {
        let (start, stop) = (self.index(id), self.index(id));
        self.read_range(id, start, stop);
        let mut got = None;
        let found = self.on(id, |tx, key| tx.list_get(key, start, |text| got = Some(text.to_vec())));
        if !self.refuses(id) {
            let list = self.model.get(&id).cloned().unwrap_or_default().elements;
            let at = if start < 0 { start + list.len() as i64 } else { start };
            let want = usize::try_from(at).ok().and_then(|at| list.get(at).cloned());
            assert_eq!((found, got), (Ok(want.is_some()), want));
            assert_eq!(self.on(id, |tx, key| tx.list_len(key)), Ok(list.len() as u64));
        }
    }

    fn read_range(&mut self, id: Id, start: i64, stop: i64) {
        let mut got = Parts::default();
        let done = self.on(id, |tx, key| tx.list_range(key, start, stop, |part| got.add(part)));
        if self.refuses(id) {
            return assert_eq!(done, Err(WrongType));
        }
        let want = self.model.get(&id).map_or(Vec::new(), |list| slice(&list.elements, start, stop));
        assert_eq!(got.told, Some(want.len() as u64));
        assert_eq!(got.elements, want);
    }

    fn move_one(&mut self, id: Id) {
        let to = if self.rng.below(3) == 0 { id } else { (id.0, self.rng.below(KEYS)) };
        self.expire(to);
        let (from_end, to_end, names) = (self.end(), self.end(), (name(id.1), name(to.1)));
        let mut got = None;
        let done = self.with(id.0, &[id, to], |tx| {
            let (from, to) = (tx.key(&names.0), tx.key(&names.1));
            tx.list_move(&from, &to, from_end, to_end, |text| got = Some(text.to_vec()))
        });
        if self.refuses(id) || (self.model.contains_key(&id) && self.refuses(to)) {
            return assert_eq!(done, Err(WrongType));
        }
        let popped = self.model.get_mut(&id).and_then(|list| match from_end {
            ListEnd::Front => list.elements.pop_front(),
            ListEnd::Back => list.elements.pop_back(),
        });
        assert_eq!((done, &got), (Ok(popped.is_some()), &popped));
        let Some(element) = popped else { return };
        let list = &mut self.model.entry(to).or_default().elements;
        match to_end {
            ListEnd::Front => list.push_front(element),
            ListEnd::Back => list.push_back(element),
        }
    }

    fn rename(&mut self, id: Id) {
        let to = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        let names = (name(id.1), name(to.1));
        let done = self.with(id.0, &[id, to], |tx| {
            let (from, to) = (tx.key(&names.0), tx.key_in(to.0, &names.1));
            tx.rename(&from, &to)
        });
        let value = self.model.remove(&id);
        assert_eq!(done, value.is_some());
        value.into_iter().for_each(|value| drop(self.model.insert(to, value)));
    }

    fn copy(&mut self, id: Id) {
        let to = (self.rng.below(DATABASES.into()) as u32, self.rng.below(KEYS));
        let names = (name(id.1), name(to.1));
        let done = self.with(id.0, &[id, to], |tx| {
            let (from, to) = (tx.key(&names.0), tx.key_in(to.0, &names.1));
            tx.copy(&from, &to)
        });
        let value = self.model.get(&id).cloned();
        assert_eq!(done, value.is_some());
        value.into_iter().for_each(|value| drop(self.model.insert(to, value)));
    }

    fn set_expiry(&mut self, id: Id) {
        let at = (self.rng.below(3) > 0).then(|| self.now + 1 + self.rng.below(400) as i64);
        let done = self.on(id, |tx, key| tx.set_expiry(key, at));
        assert_eq!(done, self.model.contains_key(&id));
        self.model.entry(id).and_modify(|list| list.expiry = at);
    }

    fn replace_all(&mut self, id: Id) {
        if self.rng.below(4) == 0 {
            self.on(id, |tx, key| tx.set(key, b"text", Ttl::Clear, StringForm::Auto));
            self.model.insert(id, List { is_string: true, ..List::default() });
            return;
        }
        let many = self.rng.below(300);
        let elements: VecDeque<Vec<u8>> = (0..many).map(|_| self.element()).collect();
        let got = self.on(id, |tx, key| tx.list_store(key, elements.iter().map(Vec::as_slice)));
        assert_eq!(got, many);
        self.model.insert(id, List { elements, ..List::default() });
    }

    fn rare(&mut self, id: Id) {
        match self.rng.below(4) {
            0 => {
                self.store.flush_db(&mut self.worker, id.0);
                self.model.retain(|other, _| other.0 != id.0);
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
                let there = self.model.remove(&id).is_some();
                assert_eq!(self.on(id, |tx, key| tx.remove(key)), there);
            }
        }
    }

    fn verify(&mut self) {
        for id in (0..DATABASES).flat_map(|db| (0..KEYS).map(move |n| (db, n))) {
            self.expire(id);
            self.read_range(id, 0, -1);
        }
        self.worker.park();
        self.store.verify();
    }
}

/// The elements that an operation showed.
#[derive(Default)]
struct Parts {
    told: Option<u64>,
    elements: Vec<Vec<u8>>,
}

impl Parts {
    fn add(&mut self, part: ListPart<'_>) {
        match part {
            ListPart::Len(count) => assert_eq!(self.told.replace(count), None),
            ListPart::Element(text) => self.elements.push(text.to_vec()),
        }
    }
}

/// Elements from `start` to `stop`, both included, counted from the end where negative.
fn slice(list: &VecDeque<Vec<u8>>, start: i64, stop: i64) -> Vec<Vec<u8>> {
    let place = |at: i64| if at < 0 { at + list.len() as i64 } else { at };
    let inside = |at: &i64| (place(start)..=place(stop)).contains(at);
    (0..list.len() as i64).filter(inside).map(|at| list[at as usize].clone()).collect()
}

#[test]
fn lists_are_those_of_the_model() {
    let seed = setting("VARVE_SEED", 0x115);
    println!("VARVE_SEED={seed}");
    let mut pair = Pair::new(seed);
    for step in 0..setting("VARVE_STEPS", 20_000) {
        pair.step();
        if step % VERIFY_EVERY == 0 {
            pair.verify();
        }
    }
    let moved = pair.store.totals().moved;
    assert!(moved > 100, "reclaim came across the lists: {moved} objects moved");
    pair.store.flush_all(&mut pair.worker);
    while pair.worker.background(pair.now, Duration::from_millis(5)) == Some(0) {}
    pair.worker.park();
    pair.store.verify();
}
