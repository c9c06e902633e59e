//! Settings of any size leave small collections small: whatever the limits allow, one that is searched and converted by a
//! single command has no more than `SMALL_ENTRIES_MAX` entries and `SMALL_BYTES_MAX` bytes.

use std::sync::Arc;

use varve_store::{
    Key, Limits, PerType, SMALL_BYTES_MAX, SMALL_ENTRIES_MAX, SmallLimits, Store, StoreWorker, Tx, ZAdd,
};

fn store() -> (Arc<Store>, StoreWorker) {
    let all = u64::MAX;
    let small = PerType::new(|_| SmallLimits { entries: all, value_bytes: all });
    crate::one_store::store(&Limits { small, ..Limits::default() })
}

/// Runs with the key's shard held; returns the key's encoding afterwards.
fn on(worker: &mut StoreWorker, key: &str, run: impl FnOnce(&mut Tx<'_>, &Key<'_>)) -> &'static str {
    crate::one_store::on(worker, key, run).1
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
