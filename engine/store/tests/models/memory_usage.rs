//! The bytes that MEMORY USAGE reports of all keys together are those that the store counts as used, for each type and
//! size: nothing that a collection needs is left out, and nothing is counted twice.

use std::time::Duration;

use crate::one_store::{NOW, on, store};
use varve_store::{Limits, ListEnd, ZAdd};

/// Elements of all collections of a store together.
const ELEMENTS: usize = 50_000;
/// Elements that one command brings.
const STEP: usize = 50;
/// The sum may differ from what is used by one part in this number.
const PART: u64 = 10;

/// Adds the elements `from..to` to a collection of this type.
fn add(worker: &mut varve_store::StoreWorker, kind: &str, key: &str, from: usize, to: usize) {
    let names: Vec<String> = (from..to).map(|n| format!("element {n:08}")).collect();
    let bytes = || names.iter().map(|name| name.as_bytes());
    let (new, _) = on(worker, key, |tx, key| match kind {
        "hash" => tx.hash_set(key, bytes().map(|name| (name, &b"a value of 22 bytes. /"[..]))).expect("a hash"),
        "set" => tx.set_add(key, bytes()).expect("a set"),
        "integers" => {
            let numbers: Vec<String> = (from..to).map(|n| (n * 7919).to_string()).collect();
            tx.set_add(key, numbers.iter().map(|number| number.as_bytes())).expect("a set")
        }
        "list" => tx.list_push(key, ListEnd::Back, bytes(), false).expect("a list") as usize - from,
        _ => {
            let (mut new, scored) = (0, bytes().zip((from..).map(|n| (n * 7919 % 100_003) as f64)));
            tx.zset_add_all(key, scored, ZAdd::default(), |_| new += 1).expect("a sorted set");
            new
        }
    });
    assert_eq!(new, to - from, "elements of a {kind}");
}

#[test]
fn the_sum_over_all_keys_is_what_the_store_uses() {
    for kind in ["hash", "set", "integers", "zset", "list"] {
        for size in [1, 3, 10, 50, 200, 1_000, 5_000, 50_000] {
            let (store, mut worker) = store(&Limits::default());
            let empty = store.used_memory();
            let keys: Vec<String> = (0..ELEMENTS / size).map(|n| format!("collection {n:05}")).collect();
            for from in (0..size).step_by(STEP) {
                keys.iter().for_each(|key| add(&mut worker, kind, key, from, (from + STEP).min(size)));
            }
            // In a rest the store gives back all that died, down to a floor.
            for ms in 0..4_000 {
                worker.background(NOW + ms, Duration::from_micros(100));
            }
            let dead = store.log().used_bytes() - store.log().live_bytes();
            let used = store.used_memory() - empty - dead;
            let bytes = |key: &String| on(&mut worker, key, |tx, key| tx.object(key).expect("it is there").bytes).0;
            let sum: u64 = keys.iter().map(bytes).sum::<usize>() as u64;
            println!("{kind} of {size}: {sum} of {used} bytes, {dead} dead ones beside them");
            assert!(sum.abs_diff(used) <= used / PART, "{kind} of {size}: {sum} of {used} bytes");
            assert!(dead <= store.log().used_bytes() / 50 + (256 << 10), "{kind} of {size}: {dead} dead bytes");
            store.verify();
        }
    }
}
