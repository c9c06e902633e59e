//! Counts of all databases in one pass over the shards, where logical and physical numbers differ and a database is
//! being swept.

use varve_store::{LogGeometry, Options, Store, StoreWorker, StringForm, Ttl};

const DATABASES: u32 = 5;

/// Each database's keys are those that DBSIZE counts.
fn check(store: &Store, expected: [(u64, u64); DATABASES as usize]) {
    assert_eq!(store.counts_of_all(), expected);
    let sizes: Vec<u64> = (0..DATABASES).map(|db| store.len(db)).collect();
    assert_eq!(sizes, expected.map(|(keys, _)| keys));
}

#[test]
fn one_pass_counts_what_each_database_holds() {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    let store = Store::new(&Options { databases: DATABASES, geometry, seed: 3, ..Options::default() }).unwrap();
    let mut worker = store.worker(0);
    let fill = |worker: &mut StoreWorker, db: u32, keys: u64, volatile: u64| {
        for n in 0..keys {
            let ttl = if n < volatile { Ttl::At(i64::MAX / 2) } else { Ttl::Clear };
            worker.inside(db, |tx| {
                let name = n.to_string();
                let key = tx.key(name.as_bytes());
                tx.hold(&[tx.shard_of(key.hash)]);
                tx.set(&key, b"v", ttl, StringForm::Auto);
            });
        }
    };
    check(&store, [(0, 0); 5]);
    fill(&mut worker, 0, 300, 20);
    fill(&mut worker, 3, 1000, 0);
    fill(&mut worker, 4, 7, 7);
    check(&store, [(300, 20), (0, 0), (0, 0), (1000, 0), (7, 7)]);
    worker.exclusive(|_| store.swap_db(0, 3));
    check(&store, [(1000, 0), (0, 0), (0, 0), (300, 20), (7, 7)]);
    // The keys that are being swept are nobody's, although the shards still count them.
    worker.exclusive(|worker| store.flush_db(worker, 0));
    check(&store, [(0, 0), (0, 0), (0, 0), (300, 20), (7, 7)]);
    fill(&mut worker, 0, 2, 1);
    check(&store, [(2, 1), (0, 0), (0, 0), (300, 20), (7, 7)]);
    worker.park();
    store.verify();
}
