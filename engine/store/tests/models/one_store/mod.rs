//! A store of one worker and four shards, with work on one of its keys at a time: for tests of one collection's forms.

use std::sync::Arc;

use varve_store::{Key, Limits, LogGeometry, Options, Store, StoreWorker, Tx};

/// The time at which these stores begin, in ms of Unix time.
pub(crate) const NOW: i64 = 1_000_000;

/// A store with these limits of small collections.
pub(crate) fn store(limits: &Limits) -> (Arc<Store>, StoreWorker) {
    let geometry = LogGeometry {
        segment_bytes: 1 << 20,
        piece_bytes: 64 << 10,
        extent_min_bytes: 256 << 10,
        release_bytes: 64 << 10,
        reserve_bytes: 1 << 30,
    };
    let options = Options { databases: 1, workers: 1, shards: 4, seed: 5, geometry, ..Options::default() };
    let store = Store::new(&options).expect("an address range");
    store.shapes().set(limits);
    let mut worker = store.worker(0);
    worker.set_now(NOW);
    (store, worker)
}

/// Runs with the shard of a key held; returns what `run` gives and the key's encoding afterwards, "none" without the key.
pub(crate) fn on<R>(
    worker: &mut StoreWorker,
    key: &str,
    run: impl FnOnce(&mut Tx<'_>, &Key<'_>) -> R,
) -> (R, &'static str) {
    let (store, local) = worker.parts();
    let _inside = store.gate().enter(local.id());
    let mut tx = Tx::new(store, local, 0);
    let key = tx.key(key.as_bytes());
    assert!(tx.try_hold(&[tx.shard_of(key.hash)]));
    let done = run(&mut tx, &key);
    let encoding = tx.object(&key).map_or("none", |object| object.encoding);
    tx.finish();
    (done, encoding)
}
