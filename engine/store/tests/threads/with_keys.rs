//! The shards of keys, held while something is done.

use varve_store::{ShardSet, StoreWorker, Tx};

/// The shards of these keys.
pub(crate) fn shards(tx: &Tx<'_>, keys: &[&[u8]]) -> ShardSet {
    keys.iter().map(|key| tx.shard_of_bytes(key)).collect()
}

/// Runs with the shards of these keys held.
pub(crate) fn with<R>(worker: &mut StoreWorker, db: u32, keys: &[&[u8]], run: impl FnOnce(&mut Tx<'_>) -> R) -> R {
    let (store, local) = worker.parts();
    let _inside = store.gate().enter(local.id());
    let mut tx = Tx::new(store, local, db);
    let shards = shards(&tx, keys);
    tx.hold(&shards);
    let result = run(&mut tx);
    tx.finish();
    result
}
