//! Effects of what the store removes by itself leave with the shard of the key held: nobody's change of the key can come
//! between.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use varve_store::events::Event;
use varve_store::{
    Audience, Effect, EffectSink, EventClass, EventSink, LogGeometry, Options, Policy, Prepared, Store, StoreWorker,
    StringForm, Ttl, Tx, Unit,
};

const NOW: i64 = 1_000_000;

/// Whether another worker got the key's shard each time that something was handed on. The store owns a copy of its sinks,
/// so a copy refers to the store's other worker weakly: the store is freed at the end of the test.
#[derive(Clone)]
struct Probe {
    other: Weak<Mutex<StoreWorker>>,
    seen: Arc<Mutex<Vec<(String, bool)>>>,
}

impl Probe {
    /// Another thread tries to hold the key's shard.
    fn look(&self, what: String, key: &[u8]) {
        let other = self.other.upgrade().expect("the test keeps the other worker");
        let got = std::thread::scope(|scope| {
            let attempt = || {
                let mut other = other.lock().expect("one at a time");
                let store = Arc::clone(other.store());
                let mut tx = Tx::new(&store, other.parts().1, 0);
                let shard = tx.shard_of_bytes(key);
                tx.try_hold(&[shard])
            };
            scope.spawn(attempt).join().expect("the attempt ends")
        });
        self.seen.lock().expect("one at a time").push((what, got));
    }
}

impl EventSink for Probe {
    fn publish(&mut self, _mask: u32, event: &Event<'_>) {
        self.look(event.name.to_owned(), event.key);
    }
}

impl EffectSink for Probe {
    fn prepare(&self, _unit: &Unit, _prepared: &mut Option<Prepared>) {
        unreachable!("no command takes parts")
    }

    fn append_prepared(&self, _prepared: Prepared) -> u64 {
        unreachable!("nothing was prepared")
    }

    fn append(&self, _worker: usize, unit: &Unit) -> u64 {
        for (db, words) in unit.effects() {
            let words: Vec<&[u8]> = words.collect();
            let line: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(db, 0);
            self.look(line.join(" "), words[1]);
        }
        1
    }

    fn end(&self) -> u64 {
        1
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// A worker whose changes a probe looks at, and the other worker, which the probe needs as long as there are changes.
fn probe() -> (StoreWorker, Arc<Mutex<StoreWorker>>, Probe) {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    let options = Options { seed: 11, workers: 2, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    let mut worker = store.worker(0);
    worker.set_now(NOW);
    let other = Arc::new(Mutex::new(store.worker(1)));
    let probe = Probe { other: Arc::downgrade(&other), seen: Arc::default() };
    store.set_event_mask(u32::MAX >> 1);
    store.set_effect_sink(Arc::new(probe.clone()));
    store.keep_effects(true);
    worker.set_event_sink(Box::new(probe.clone()));
    (worker, other, probe)
}

fn set(worker: &mut StoreWorker, key: &[u8], value: &[u8], ttl: Ttl) {
    worker.inside(0, |tx| {
        let key = tx.key(key);
        tx.hold(&[tx.shard_of(key.hash)]);
        tx.set(&key, value, ttl, StringForm::Auto);
        tx.end_command(&|_| unreachable!("nothing was reported"));
    });
}

/// The effects that were handed on, without those of keys that were new.
fn taken(probe: &Probe) -> Vec<(String, bool)> {
    let seen = std::mem::take(&mut *probe.seen.lock().expect("one at a time"));
    seen.into_iter().filter(|(what, _)| what != "new").collect()
}

#[test]
fn expiry_in_the_background_is_handed_on_with_the_shard_held() {
    let (mut worker, _other, probe) = probe();
    // Half of the shards are this worker's.
    (0..32).for_each(|n| set(&mut worker, format!("key:{n}").as_bytes(), b"1", Ttl::At(NOW + 10)));
    assert_eq!(taken(&probe), []);
    let now = NOW + 1000;
    while worker.background(now, Duration::from_millis(1)).is_some_and(|due| due <= now) {}
    let seen = taken(&probe);
    let expired = worker.store().totals().expired;
    assert!(expired > 0 && seen.len() as u64 == 2 * expired, "an event and a DEL each: {seen:?}");
    assert!(seen.iter().all(|(_, got)| !got), "no shard was free meanwhile: {seen:?}");
}

/// A key whose time is over goes for all, whatever the script that meets it has said of its own effects.
#[test]
fn issue_17_what_the_store_removes_is_for_all_readers() {
    let (mut worker, _other, probe) = probe();
    set(&mut worker, b"due", b"1", Ttl::At(NOW + 10));
    worker.set_now(NOW + 1000);
    worker.keep_effects_for(Audience::Nobody);
    worker.inside(0, |tx| {
        let (due, own) = (tx.key(b"due"), tx.key(b"own"));
        tx.hold(&[tx.shard_of(due.hash), tx.shard_of(own.hash)]);
        assert!(!tx.exists(&due));
        tx.set(&own, b"1", Ttl::Clear, StringForm::Auto);
        tx.did(&own, Effect::sent(EventClass::Silent, "", 1));
        tx.end_command(&|_| unreachable!("the script's own effects are for nobody"));
    });
    let seen: Vec<_> = taken(&probe).into_iter().map(|(what, _)| what).collect();
    assert_eq!(seen, ["expired", "DEL due"]);
}

/// A round of the background removes more keys with more effort.
#[test]
fn rounds_of_expiry_follow_the_effort() {
    let rounds = |effort: u32| {
        let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
        let store = Store::new(&Options { shards: 1, geometry, ..Options::default() }).expect("an address range");
        store.set_expire_effort(effort);
        let mut worker = store.worker(0);
        worker.set_now(NOW);
        (0..2000).for_each(|n| set(&mut worker, format!("key:{n}").as_bytes(), b"1", Ttl::At(NOW + 10)));
        let now = NOW + 1000;
        let mut count = 0;
        while store.totals().expired < 2000 {
            worker.background(now, Duration::ZERO);
            count += 1;
        }
        count
    };
    let (least, most) = (rounds(1), rounds(10));
    assert!(most * 2 < least, "{most} rounds with all effort, {least} with the least");
}

#[test]
fn eviction_is_handed_on_with_the_shard_held() {
    let (mut worker, _other, probe) = probe();
    worker.store().set_limit(24 << 20, Policy::AllKeysLru);
    let store = Arc::clone(worker.store());
    for n in 0..20_000 {
        let admitted = worker.inside(0, |tx| tx.admit(3000)).is_ok();
        assert!(admitted, "keys go for room");
        set(&mut worker, format!("key:{n}").as_bytes(), &[b'x'; 2000], Ttl::Clear);
    }
    let seen = taken(&probe);
    assert!(store.totals().evicted > 0 && seen.len() as u64 == 2 * store.totals().evicted, "an event and a DEL each");
    assert!(seen.iter().all(|(_, got)| !got), "no shard was free meanwhile");
}
