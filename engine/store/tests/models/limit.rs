//! Room at the limit in odd cases: most of what is used is not the log's (connection buffers), or the limit is out of reach.

use std::sync::Arc;

use crate::string_writes::set;
use varve_store::{LogGeometry, Options, Policy, Store, StoreWorker, StringForm, Ttl, Tx};

fn store() -> (Arc<Store>, StoreWorker) {
    let geometry = LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() };
    let store = Store::new(&Options { seed: 3, geometry, ..Options::default() }).expect("an address range");
    let worker = store.worker(0);
    (store, worker)
}

fn fill(worker: &mut StoreWorker, keys: usize) {
    (0..keys).for_each(|n| set(worker, n, 1000));
}

/// A limit that no draining reaches: refused at once, not after copying what lives over and over.
#[test]
fn a_limit_far_below_what_lives_is_refused_without_work() {
    let (store, mut worker) = store();
    fill(&mut worker, 30_000);
    // Half of it dead, so that the log is not full by its own measure.
    fill(&mut worker, 15_000);
    let moved = store.totals().moved;
    store.set_limit(1, Policy::NoEviction);
    for _ in 0..100 {
        assert!(worker.admit(100).is_err());
    }
    assert_eq!(store.totals().moved, moved);
    worker.park();
    store.verify();
}

#[test]
fn keys_are_evicted_for_what_buffers_take() {
    let (store, mut worker) = store();
    fill(&mut worker, 2000);
    let full = store.used_memory();
    // Buffers take half a limit that keys alone would fit in.
    store.set_limit(full + 100_000, Policy::AllKeysRandom);
    store.set_outside_bytes(full / 2);
    for _ in 0..10 {
        assert!(worker.admit(1000).is_ok(), "there are keys to evict: {} left", store.len(0));
    }
    assert!(store.len(0) > 200, "no more than needed: {} left", store.len(0));
    assert!(store.used_memory() <= full + 100_000);
    // With buffers over the limit, or for more bytes than fit in any case, no key's place would help: none is taken.
    let left = store.len(0);
    store.set_outside_bytes(full * 2);
    assert!(worker.admit(1000).is_err());
    store.set_outside_bytes(0);
    assert!(worker.admit(full + 200_000).is_err());
    assert_eq!(store.len(0), left);
    worker.park();
    store.verify();
}

#[test]
fn a_write_over_the_limit_is_refused_without_eviction() {
    let (store, mut worker) = store();
    fill(&mut worker, 100);
    store.set_limit(store.used_memory(), Policy::NoEviction);
    assert!(worker.admit(1000).is_err());
    assert_eq!(store.len(0), 100);
    worker.park();
    store.verify();
}

/// Two segments' worth of limit: pieces, not segments, are what is opened and drained, so it holds and is of use.
#[test]
fn a_limit_of_two_segments_holds() {
    const LIMIT: u64 = 16 << 20;
    for policy in [Policy::NoEviction, Policy::AllKeysRandom] {
        let (store, mut worker) = store();
        store.set_limit(LIMIT, policy);
        let mut refused = 0;
        for n in 0..80_000_u32 {
            // Without eviction nine MB live, each key written anew again and again.
            let name = format!("key:{}", if policy == Policy::NoEviction { n % 9000 } else { n }).into_bytes();
            if worker.admit(1100).is_err() {
                refused += 1;
                continue;
            }
            let (store, local) = worker.parts();
            let _inside = store.gate().enter(local.id());
            let mut tx = Tx::new(store, local, 0);
            let key = tx.key(&name);
            tx.hold(&[tx.shard_of(key.hash)]);
            tx.remove(&key);
            tx.set(&key, &[b'v'; 1000], Ttl::Clear, StringForm::Auto);
            tx.finish();
        }
        assert!(store.used_memory() <= LIMIT, "{policy:?}: {} in use", store.used_memory());
        assert_eq!(refused, 0, "{policy:?}: there was room to make");
        let least = if policy == Policy::NoEviction { 9000 } else { 12_000 };
        assert!(store.len(0) >= least, "{policy:?}: {} keys", store.len(0));
        worker.park();
        store.verify();
    }
}

/// The keys of a database that was emptied are swept in the background: a write that came before that was refused, though nothing
/// that lives was in its way.
#[test]
fn issue_11_a_write_behind_flushdb_sweeps_what_it_needs() {
    for policy in [Policy::NoEviction, Policy::AllKeysLru, Policy::VolatileRandom] {
        let (store, mut worker) = store();
        // One key of another database keeps the log from being cleared at once.
        worker.inside(1, |tx| {
            let key = tx.key(b"stays");
            tx.hold(&[tx.shard_of(key.hash)]);
            tx.set(&key, b"value", Ttl::Clear, StringForm::Auto);
        });
        fill(&mut worker, 20_000);
        store.set_limit(store.used_memory(), policy);
        worker.exclusive(|worker| store.flush_db(worker, 0));
        for n in 0..15_000 {
            assert_eq!(worker.admit(1100), Ok(()), "{policy:?}: write {n}");
            set(&mut worker, n, 1000);
            assert!(n > 1000 || store.totals().evicted == 0, "{policy:?}: no key goes while others are gone already");
        }
        worker.park();
        store.verify();
    }
}

/// A range of addresses that large values use up though they take little memory: writes are refused, and go on once some
/// are gone.
#[test]
fn addresses_that_are_used_up_are_an_error() {
    let geometry = LogGeometry {
        segment_bytes: 64 << 10,
        piece_bytes: 4 << 10,
        extent_min_bytes: 8 << 10,
        release_bytes: 4 << 10,
        reserve_bytes: 16 << 20,
    };
    let store = Store::new(&Options { seed: 3, geometry, ..Options::default() }).expect("an address range");
    let mut worker = store.worker(0);
    let value = vec![b'v'; 10_000];
    let act = |worker: &mut StoreWorker, n: u32, write: bool| {
        if write && worker.admit(10_100).is_err() {
            return false;
        }
        let name = format!("key:{n}").into_bytes();
        let _inside = store.gate().enter(worker.id());
        let mut tx = Tx::new(&store, worker.parts().1, 0);
        let key = tx.key(&name);
        tx.hold(&[tx.shard_of(key.hash)]);
        let done = if write { tx.append(&key, &value).is_ok() } else { tx.remove(&key) };
        tx.finish();
        done
    };
    let written = (0..1000).take_while(|&n| act(&mut worker, n, true)).count() as u32;
    assert!((100..260).contains(&written), "{written} values in 256 segments");
    assert!(store.used_memory() < 4 << 20, "{} bytes in use", store.used_memory());
    assert!(!act(&mut worker, 1000, true), "still refused");
    (0..60).for_each(|n| assert!(act(&mut worker, n, false)));
    assert!(act(&mut worker, 1000, true), "what died has made room");
    worker.park();
    store.verify();
}
