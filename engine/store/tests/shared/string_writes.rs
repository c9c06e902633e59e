//! Strings written one by one, as commands of a batch of their own write them.

use varve_store::{StoreWorker, StringForm, Ttl, Tx};

/// Sets key number `n` to `bytes` bytes.
pub(crate) fn set(worker: &mut StoreWorker, n: usize, bytes: usize) {
    let name = format!("key:{n}").into_bytes();
    let (store, local) = worker.parts();
    let _inside = store.gate().enter(local.id());
    let mut tx = Tx::new(store, local, 0);
    let key = tx.key(&name);
    tx.hold(&[tx.shard_of(key.hash)]);
    tx.set(&key, &vec![b'v'; bytes], Ttl::Clear, StringForm::Auto);
    tx.finish();
}
