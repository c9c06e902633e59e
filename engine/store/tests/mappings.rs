//! The kernel's mappings of the process do not grow with collections or large values: at `vm.max_map_count`, 65 530 by
//! default, it refuses every further one.
//!
//! One test, alone in its process. `VARVE_MAPPINGS_SCALE` multiplies the numbers of collections and values.

use std::sync::Arc;
use std::time::Duration;

use varve_store::{Limits, ListEnd, LogGeometry, Options, Store, StoreWorker, Tx, Type, ZAdd};

/// Mappings of this process.
fn mappings() -> usize {
    std::fs::read("/proc/self/maps").expect("Linux").iter().filter(|&&byte| byte == b'\n').count()
}

fn with_key(worker: &mut StoreWorker, name: &str, act: impl FnOnce(&mut Tx<'_>, &varve_store::Key<'_>)) {
    let (store, local) = worker.parts();
    let _inside = store.gate().enter(local.id());
    let mut tx = Tx::new(store, local, 0);
    let key = tx.key(name.as_bytes());
    tx.hold(&[tx.shard_of(key.hash)]);
    act(&mut tx, &key);
    tx.finish();
}

fn settle(worker: &mut StoreWorker) {
    for turn in 0..200_000 {
        let now = 1_795_000_000_000 + turn;
        if worker.background(now, Duration::from_millis(1)).is_none_or(|next| next > now) {
            return;
        }
    }
    panic!("the background does not come to rest");
}

fn name(kind: &str, n: usize) -> String {
    format!("{kind}:{n}")
}

/// The types of collections, but for streams, which have no table of their own.
const TYPES: [&str; 4] = ["set", "hash", "zset", "list"];

/// Adds members, fields or elements `from..to` to a collection of this type.
fn add(worker: &mut StoreWorker, ty: &str, n: usize, from: usize, to: usize) {
    with_key(worker, &name(ty, n), |tx, key| {
        let texts: Vec<String> = (from..to).map(|member| format!("m{member}")).collect();
        let texts = texts.iter().map(String::as_bytes);
        match ty {
            "set" => drop(tx.set_add(key, texts).expect("a set")),
            "hash" => drop(tx.hash_set(key, texts.clone().zip(texts)).expect("a hash")),
            "list" => drop(tx.list_push(key, ListEnd::Back, texts, false).expect("a list")),
            _ => tx.zset_add_all(key, texts.zip((from..).map(|n| n as f64)), ZAdd::default(), |_| ()).expect("a set"),
        }
    });
}

/// Collections that are made, grow in turns, and of which every second one is deleted; in the end all are. The mappings that
/// the process has at the most. Sorted sets have tables in spans, which would be mappings if each were one of its own.
fn churn(worker: &mut StoreWorker, ty: &str, collections: usize) -> usize {
    let mut most = 0;
    for (from, to) in [(0, 400), (400, 500)] {
        (0..collections).for_each(|n| add(worker, ty, n, from, to));
        most = most.max(mappings());
    }
    let spans = varve_base::span::pool_bytes().1;
    assert!(
        ty != "zset" || spans > collections * 2048,
        "{spans} bytes of spans: the {collections} sets have no tables"
    );
    for odd in [1, 0] {
        for n in (odd..collections).step_by(2) {
            with_key(worker, &name(ty, n), |tx, key| assert!(tx.remove(key)));
        }
        settle(worker);
        most = most.max(mappings());
    }
    most
}

/// Values of six megabytes by their addresses: of each some pages are written.
fn churn_values(worker: &mut StoreWorker, values: usize) -> usize {
    let mut most = 0;
    for end in [5 << 20, 6 << 20] {
        for n in 0..values {
            with_key(worker, &name("value", n), |tx, key| {
                tx.set_range(key, end - 10, b"0123456789").expect("a string");
            });
        }
        most = most.max(mappings());
    }
    for odd in [1, 0] {
        for n in (odd..values).step_by(2) {
            with_key(worker, &name("value", n), |tx, key| assert!(tx.remove(key)));
        }
        settle(worker);
        most = most.max(mappings());
    }
    most
}

#[test]
fn mappings_do_not_grow_with_collections_or_values() {
    let scale: usize = std::env::var("VARVE_MAPPINGS_SCALE").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let geometry = LogGeometry { reserve_bytes: 2 << 40, ..LogGeometry::default() };
    let options = Options { seed: 3, geometry, ..Options::default() };
    let store: Arc<Store> = Store::new(&options).expect("an address range");
    // Each collection has nodes and tables of its own, also where it is so small that it would be one object.
    store.shapes().set(&Limits { list_fill: 8, ..Limits::default() });
    [Type::Hash, Type::Set, Type::Zset].into_iter().for_each(|ty| store.shapes().small(ty).set_outgrown_bytes(0));
    let mut worker = store.worker(0);
    for ty in TYPES {
        let [few, many] = [400, 800].map(|count| churn(&mut worker, ty, count * scale));
        println!("{ty}s: {few} mappings, then {many}");
        assert!(many <= few + 12, "{many} mappings for twice as many {ty}s, before {few}");
    }
    let [few, many] = [50, 100].map(|values| churn_values(&mut worker, values * scale));
    println!("values: {few} mappings, then {many}");
    assert!(many <= few + 4, "{many} mappings for twice as many values, before {few}");
    // All memory has gone back: the log's bytes, and the spans of the tables.
    worker.park();
    assert_eq!(store.log().live_bytes(), 0);
    let (regions, spans) = varve_base::span::pool_bytes();
    assert!(spans < 4 << 20, "{spans} bytes of spans for empty tables");
    assert!(regions < 64 << 20, "{regions} bytes of regions");
    store.verify();
}
