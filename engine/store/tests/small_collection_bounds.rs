//! Settings of any size leave small collections small: whatever the limits allow, one that is searched and converted by a
//! single command has no more than `SMALL_ENTRIES_MAX` entries and `SMALL_BYTES_MAX` bytes.

use std::sync::Arc;

use varve_store::{
    Limits, LogGeometry, Options, PerType, SMALL_BYTES_MAX, SMALL_ENTRIES_MAX, SmallLimits, Store, StoreWorker, Tx,
    ZAdd,
};

const NOW: i64 = 1_000_000;

fn store() -> (Arc<Store>, StoreWorker) {
    let geometry = LogGeometry {
        segment_bytes: 1 << 20,
        piece_bytes: 64 << 10,
        extent_min_bytes: 256 << 10,
        release_bytes: 64 << 10,
        reserve_bytes: 1 << 30,
    };
    let options = Options { databases: 1, workers: 1, shards: 4, seed: 5, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    let all = u64::MAX;
    let small = PerType::new(|_| SmallLimits { entries: all, value_bytes: all });
    let limits = Limits { small, ..Limits::default() };
    store.shapes().set(&limits);
    let mut worker = store.worker(0);
    worker.set_now(NOW);
    (store, worker)
}

/// Runs with the key's shard held, and tells the key's encoding afterwards.
fn on(worker: &mut StoreWorker, key: &str, run: impl FnOnce(&mut Tx<'_>, &varve_store::Key<'_>)) -> &'static str {
    let (store, local) = worker.parts();
    let _inside = store.gate().enter(local.id());
    let mut tx = Tx::new(store, local, 0);
    let key = tx.key(key.as_bytes());
    assert!(tx.try_hold(&[tx.shard_of(key.hash)]));
    run(&mut tx, &key);
    let encoding = tx.object(&key).expect("it is there").encoding;
    tx.finish();
    encoding
}

fn add(worker: &mut StoreWorker, kind: &str, from: u64, to: u64, bytes: usize) -> &'static str {
    on(worker, kind, |tx, key| {
        for n in from..to {
            let name = format!("{n:0bytes$}");
            match kind {
                "hash" => drop(tx.hash_set(key, std::iter::once((name.as_bytes(), &b"value"[..]))).expect("a hash")),
                "set" => drop(tx.set_add(key, [n.to_string().as_bytes()]).expect("a set")),
                _ => drop(tx.zset_add(key, name.as_bytes(), n as f64, ZAdd::default()).expect("a sorted set")),
            }
        }
    })
}

#[test]
fn entries_are_bounded_whatever_the_limits() {
    let (store, mut worker) = store();
    for (kind, small, big) in
        [("hash", "listpack", "hashtable"), ("set", "intset", "hashtable"), ("zset", "listpack", "skiplist")]
    {
        assert_eq!(add(&mut worker, kind, 0, SMALL_ENTRIES_MAX, 1), small);
        assert_eq!(add(&mut worker, kind, SMALL_ENTRIES_MAX, SMALL_ENTRIES_MAX + 1, 1), big);
    }
    store.verify();
}

#[test]
fn bytes_are_bounded_whatever_the_limits() {
    let (store, mut worker) = store();
    for (kind, big) in [("hash", "hashtable"), ("zset", "skiplist")] {
        let many = SMALL_BYTES_MAX as u64 / 4096;
        assert_eq!(add(&mut worker, kind, 0, many - 1, 4000), "listpack");
        assert_eq!(add(&mut worker, kind, many - 1, many + 2, 4000), big);
    }
    let long = vec![b'x'; SMALL_BYTES_MAX + 1];
    let hash = on(&mut worker, "one field", |tx, key| {
        tx.hash_set(key, std::iter::once((&b"field"[..], &long[..]))).expect("a hash");
    });
    let zset = on(&mut worker, "one member", |tx, key| {
        tx.zset_add(key, &long, 1.0, ZAdd::default()).expect("a sorted set");
    });
    assert_eq!((hash, zset), ("hashtable", "skiplist"));
    store.verify();
}
