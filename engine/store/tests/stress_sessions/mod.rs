//! The sessions of the stress test: transfers under WATCH, clients that wait for lists, an observer, events.
//!
//! ```text
//! accounts   numbers, all in all 0: a transfer watches two, reads them, and writes where nothing was touched, and then
//!            they must be as they were read
//! brief      keys with a time of some milliseconds, written anew all the time: untouched says the same of them
//! jobs       two lists and a third that some waiters have elements moved to; who pushes serves those who wait, and
//!            every number comes out once: popped, served, or left
//! observer   hears of each change of a counter once
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use varve_base::rng::Rng;
use varve_store::events::Event;
use varve_store::{
    Author, Effect, EventClass, EventSink, Key, ListEnd, ListPart, NextWaiter, Observer, Store, StringForm, Ttl, Tx,
    Type,
};
use varve_store::{ShardSet, StoreWorker, Waiter, Waiting, Watcher};

use super::{command, number};

const ACCOUNTS: u64 = 6;
const BRIEF: u64 = 8;
const JOBS: [&[u8]; 2] = [b"jobs:a", b"other jobs"];
const MOVED: &[u8] = b"jobs that were moved";

/// The state that all workers share.
pub(crate) struct Mixed {
    /// By worker: what those who waited there were served with.
    posts: Vec<Mutex<Vec<u64>>>,
    pushed: AtomicU64,
    popped: AtomicU64,
    /// Transfers made and refused, waits that ended served and cancelled.
    made: AtomicU64,
    refused: AtomicU64,
    served: AtomicU64,
    cancelled: AtomicU64,
    observer: Arc<Counting>,
    heard: Arc<Heard>,
}

/// Counts what it is told.
struct Counting {
    counters: Vec<AtomicU64>,
    emptied: AtomicU64,
}

impl Observer for Counting {
    fn read(&self, _client: u64, _key: &[u8]) {
        panic!("nobody says that a client has read");
    }

    fn changed(&self, _by: Author, key: &[u8]) {
        if let Some(n) = key.strip_prefix(b"counter:") {
            self.counters[number(n) as usize].fetch_add(1, Relaxed);
        }
    }

    fn emptied(&self, _by: Author) {
        self.emptied.fetch_add(1, Relaxed);
    }
}

/// The state of one worker.
#[derive(Default)]
pub(crate) struct Hand {
    waits: Option<Arc<Waiter>>,
}

/// Numbers of events that were published, by all workers.
#[derive(Default)]
struct Heard {
    expired: AtomicU64,
    evicted: AtomicU64,
}

impl Mixed {
    /// Observes the store, and wants all of its events.
    pub(crate) fn new(store: &Store, workers: usize, counters: usize) -> Mixed {
        let counters = (0..counters).map(|_| AtomicU64::new(0)).collect();
        let observer = Arc::new(Counting { counters, emptied: AtomicU64::new(0) });
        store.set_observer(Arc::clone(&observer) as Arc<dyn Observer>);
        store.observe(true);
        store.set_event_mask(u32::MAX);
        let none = || AtomicU64::new(0);
        Mixed {
            posts: (0..workers).map(|_| Mutex::default()).collect(),
            pushed: none(),
            popped: none(),
            made: none(),
            refused: none(),
            served: none(),
            cancelled: none(),
            observer,
            heard: Arc::default(),
        }
    }

    /// Counts the events of a worker.
    pub(crate) fn listen(&self, worker: &mut StoreWorker) {
        worker.set_event_sink(Box::new(Ear(Arc::clone(&self.heard))));
    }

    /// One command, or what comes of an earlier one.
    pub(crate) fn step(&self, worker: &mut StoreWorker, rng: &mut Rng, hand: &mut Hand, admitted: bool) {
        match rng.below(7) {
            0 | 1 => self.transfer(worker, rng),
            2 => brief(worker, rng, admitted),
            3 if admitted => self.push(worker, rng),
            4 => self.pop(worker, rng),
            _ => self.wait(worker, rng, hand),
        }
    }

    /// Moves an amount from one account to another, if both are still as they were when it looked.
    fn transfer(&self, worker: &mut StoreWorker, rng: &mut Rng) {
        let from = rng.below(ACCOUNTS);
        let names = [from, (from + 1 + rng.below(ACCOUNTS - 1)) % ACCOUNTS].map(|n| format!("account:{n}"));
        let names = [names[0].as_bytes(), names[1].as_bytes()];
        let (watcher, held) = watch(worker, &names);
        if rng.below(4) == 0 {
            std::thread::yield_now();
        }
        let amount = rng.below(100) as i64;
        let made = unwatch(worker, &names, &watcher, &held, |tx, keys| {
            for (key, (held, by)) in keys.iter().zip(held.iter().zip([-amount, amount])) {
                let balance = held.as_ref().map_or(0, |text| balance(text)) + by;
                tx.set(key, balance.to_string().as_bytes(), Ttl::Keep, StringForm::Auto);
                report(tx, key);
            }
        });
        if made { &self.made } else { &self.refused }.fetch_add(1, Relaxed);
    }

    /// Pushes numbers, and serves those who wait for the list.
    fn push(&self, worker: &mut StoreWorker, rng: &mut Rng) {
        let key = JOBS[rng.below(2) as usize];
        let numbers: Vec<u64> = (0..1 + rng.below(3)).map(|_| rng.below(1 << 40)).collect();
        let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
        self.pushed.fetch_add(numbers.iter().sum(), Relaxed);
        let (store, local) = worker.parts();
        let _inside = store.gate().enter(local.id());
        let mut tx = Tx::new(store, local, 0);
        let mut shards = ShardSet::from_iter([tx.shard_of_bytes(key)]);
        loop {
            while !tx.try_hold(&shards) {
                std::thread::yield_now();
            }
            if !tx.any_waiters() || !tx.widen(&mut shards, [key]) {
                break;
            }
        }
        let list = tx.key(key);
        tx.list_push(&list, ListEnd::Back, texts.iter().map(String::as_bytes), false).expect("a list");
        report(&mut tx, &list);
        self.serve(&mut tx);
        tx.hand_on();
        drop(tx);
        local.park(store);
    }

    fn serve(&self, tx: &mut Tx<'_>) {
        while let Some(ready) = tx.next_ready() {
            let key = tx.key(&ready.bytes);
            loop {
                match tx.next_waiter(&key) {
                    NextWaiter::Nobody => break,
                    NextWaiter::Later => unreachable!("no command works on a key in parts"),
                    NextWaiter::Far => panic!("all that serving needs was held before"),
                    NextWaiter::Take(waiter) if waiter.claim() => self.give(tx, &waiter, &key),
                    NextWaiter::Take(_) => {}
                }
            }
        }
    }

    /// Gives one element to a waiter, or moves it for it.
    fn give(&self, tx: &mut Tx<'_>, waiter: &Waiter, key: &Key<'_>) {
        let mut given = 0;
        let found = match waiter.task::<bool>().expect("what it was made with") {
            false => tx.list_pop(key, ListEnd::Front, |text| given = number(text)),
            true => {
                let moved = tx.list_move(key, &tx.key(MOVED), ListEnd::Front, ListEnd::Back, |_| ());
                report(tx, &tx.key(MOVED));
                moved
            }
        };
        assert_eq!(found, Ok(true), "who is served finds something");
        self.posts[waiter.who().worker].lock().push(given);
    }

    fn pop(&self, worker: &mut StoreWorker, rng: &mut Rng) {
        let names = [JOBS[0], JOBS[1], MOVED];
        let name = names[rng.below(3) as usize];
        let mut sum = 0;
        command(worker, &[name], |tx| tx.list_pop(&tx.key(name), ListEnd::Back, |text| sum += number(text)))
            .expect("a list");
        self.popped.fetch_add(sum, Relaxed);
    }

    /// Begins to wait, or looks whether it was served, or has enough of it.
    fn wait(&self, worker: &mut StoreWorker, rng: &mut Rng, hand: &mut Hand) {
        if let Some(waiter) = &hand.waits {
            if !waiter.is_waiting() || rng.below(10) == 0 {
                self.end(worker, hand);
            }
            return;
        }
        let both = rng.below(2) == 0;
        let keys = if both { &JOBS[..] } else { &JOBS[..1] };
        let moves = rng.below(3) == 0;
        let target = moves.then_some(MOVED);
        let who = Waiting { worker: worker.id(), client: 1, db: 0 };
        let waiter = Arc::new(Waiter::new(who, Type::List, keys.iter().copied(), target, Box::new(moves)));
        // As BLPOP: what is there is taken, else the client waits.
        let mut found = 0;
        let waits = command(worker, keys, |tx| {
            for key in keys {
                if tx.list_pop(&tx.key(key), ListEnd::Front, |text| found = number(text)).expect("a list") {
                    return false;
                }
            }
            tx.wait(&waiter);
            true
        });
        self.popped.fetch_add(found, Relaxed);
        hand.waits = waits.then_some(waiter);
    }

    /// Ends the wait; who was claimed gets what was taken for it, once.
    fn end(&self, worker: &mut StoreWorker, hand: &mut Hand) {
        let Some(waiter) = hand.waits.take() else { return };
        let post = &self.posts[worker.id()];
        if waiter.cancel() {
            self.cancelled.fetch_add(1, Relaxed);
        } else {
            self.served.fetch_add(1, Relaxed);
            let given = loop {
                match post.lock().pop() {
                    Some(given) => break given,
                    None => std::thread::yield_now(),
                }
            };
            self.popped.fetch_add(given, Relaxed);
        }
        assert!(post.lock().is_empty(), "served once");
        worker.forget(&waiter);
        // Where another thread held the shard, the entry is owed: the background removes it.
        for _ in 0..1_000_000 {
            if Arc::strong_count(&waiter) == 1 {
                break;
            }
            let now = worker.now_ms() + 1;
            worker.background(now, std::time::Duration::ZERO);
            std::thread::yield_now();
        }
        assert_eq!(Arc::strong_count(&waiter), 1, "no queue has it any more");
    }

    /// The end of a worker's part.
    pub(crate) fn finish(&self, worker: &mut StoreWorker, mut hand: Hand) {
        self.end(worker, &mut hand);
    }

    /// After all workers' parts: nothing was lost, nothing doubled, nobody is left.
    pub(crate) fn check(&self, worker: &mut StoreWorker, counters: &[AtomicU64]) {
        println!(
            "transfers {:?} made, {:?} refused; waits {:?} served, {:?} cancelled",
            self.made, self.refused, self.served, self.cancelled
        );
        let names: Vec<Vec<u8>> = (0..ACCOUNTS).map(|n| format!("account:{n}").into_bytes()).collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let sum: i64 = command(worker, &names, |tx| {
            names.iter().map(|name| tx.get(&tx.key(name)).expect("a string").map_or(0, balance)).sum()
        });
        assert_eq!(sum, 0, "sum of the accounts");
        let mut left = self.popped.load(Relaxed);
        for name in [JOBS[0], JOBS[1], MOVED] {
            let show = |part: ListPart<'_>| {
                if let ListPart::Element(text) = part {
                    left += number(text);
                }
            };
            command(worker, &[name], |tx| {
                assert!(!tx.any_waiters(), "nobody waits any more");
                tx.list_range(&tx.key(name), 0, -1, show).expect("a list");
            });
        }
        assert_eq!(left, self.pushed.load(Relaxed), "sum of the jobs");
        assert_eq!(worker.store().watched_keys(), 0, "nobody watches any more");
        let totals = worker.store().totals();
        let heard = (self.heard.expired.load(Relaxed), self.heard.evicted.load(Relaxed));
        assert!(heard.0 <= totals.expired && heard.1 <= totals.evicted, "no more events than there was");
        for (n, (told, raised)) in self.observer.counters.iter().zip(counters).enumerate() {
            assert_eq!(told.load(Relaxed), raised.load(Relaxed), "changes of counter {n} that were told");
        }
    }
}

/// Counts the events of one worker.
struct Ear(Arc<Heard>);

impl EventSink for Ear {
    fn publish(&mut self, _mask: u32, event: &Event<'_>) {
        match event.name {
            "expired" => self.0.expired.fetch_add(1, Relaxed),
            "evicted" => self.0.evicted.fetch_add(1, Relaxed),
            _ => 0,
        };
    }
}

/// Reports a change of a key, without an effect to keep.
fn report(tx: &mut Tx<'_>, key: &Key<'_>) {
    tx.did(key, Effect::covered(EventClass::Generic, "change", 1));
}

fn balance(text: &[u8]) -> i64 {
    std::str::from_utf8(text).expect("digits").parse().expect("a number")
}

fn read_all(tx: &mut Tx<'_>, keys: &[Key<'_>]) -> Vec<Option<Vec<u8>>> {
    keys.iter().map(|key| tx.get(key).expect("a string").map(<[u8]>::to_vec)).collect()
}

/// Watches keys and reads them.
fn watch(worker: &mut StoreWorker, names: &[&[u8]]) -> (Watcher, Vec<Option<Vec<u8>>>) {
    let watcher = Watcher::default();
    let held = command(worker, names, |tx| {
        let keys: Vec<Key<'_>> = names.iter().map(|name| tx.key(name)).collect();
        keys.iter().for_each(|key| tx.watch(key, &watcher));
        read_all(tx, &keys)
    });
    (watcher, held)
}

/// Ends the watch as EXEC does, and does `then` if nothing was touched: then all is as it was `held`.
fn unwatch(
    worker: &mut StoreWorker,
    names: &[&[u8]],
    watcher: &Watcher,
    held: &[Option<Vec<u8>>],
    then: impl FnOnce(&mut Tx<'_>, &[Key<'_>]),
) -> bool {
    command(worker, names, |tx| {
        let keys: Vec<Key<'_>> = names.iter().map(|name| tx.key(name)).collect();
        for key in &keys {
            tx.exists(key);
            tx.unwatch(key, watcher);
        }
        if watcher.is_touched() {
            return false;
        }
        assert_eq!(read_all(tx, &keys), held, "a watched key that nobody has touched");
        then(tx, &keys);
        true
    })
}

/// Writes a key that is gone soon, or watches two over some steps of the background.
fn brief(worker: &mut StoreWorker, rng: &mut Rng, admitted: bool) {
    let names = [rng.below(BRIEF), rng.below(BRIEF)].map(|n| format!("brief:{n}").into_bytes());
    if rng.below(2) == 0 {
        let (value, until) = (rng.next_u64().to_string(), worker.now_ms() + rng.below(6) as i64);
        if admitted {
            command(worker, &[&names[0]], |tx| {
                let key = tx.key(&names[0]);
                tx.set(&key, value.as_bytes(), Ttl::At(until), StringForm::Auto);
                report(tx, &key);
            });
        }
        return;
    }
    let names = [names[0].as_slice(), names[1].as_slice()];
    let (watcher, held) = watch(worker, &names);
    let now = worker.now_ms() + rng.below(3) as i64;
    worker.background(now, std::time::Duration::from_micros(50));
    worker.set_now(now);
    unwatch(worker, &names, &watcher, &held, |_, _| ());
}
