//! Small hashes, sets and sorted sets: what OBJECT ENCODING answers follows from the settings, once and for all; where the
//! elements lie follows from bytes; the order in which a small hash came is kept.

use std::sync::Arc;

use varve_store::{Key, Limits, Store, StoreWorker, Tx, Type, ZAdd, ZAdded};

/// Bytes of a value that no setting takes for small.
const LONG: usize = 100;

fn store() -> (Arc<Store>, StoreWorker) {
    crate::one_store::store(&Limits::default())
}

/// Runs on the key "key"; returns what `run` gives and the key's encoding afterwards.
fn on<R>(worker: &mut StoreWorker, run: impl FnOnce(&mut Tx<'_>, &Key<'_>) -> R) -> (R, &'static str) {
    crate::one_store::on(worker, "key", run)
}

fn set_field(worker: &mut StoreWorker, field: &str, value: &[u8]) -> &'static str {
    on(worker, |tx, key| tx.hash_set(key, std::iter::once((field.as_bytes(), value))).expect("a hash")).1
}

fn fields(worker: &mut StoreWorker) -> Vec<String> {
    let mut shown = Vec::new();
    on(worker, |tx, key| {
        tx.hash_for_each(key, |field, _| shown.push(String::from_utf8(field.to_vec()).expect("a text")))
            .expect("a hash");
    });
    shown
}

/// True if the key's elements lie in objects of their own.
fn is_big(worker: &mut StoreWorker) -> bool {
    on(worker, |tx, key| tx.collection(key.hash).is_some()).0
}

#[test]
fn a_small_hash_shows_its_fields_in_the_order_in_which_they_came() {
    let (store, mut worker) = store();
    let names: Vec<String> = (0..200).map(|n| format!("field {}", n * 7919 % 1000)).collect();
    for name in &names {
        assert_eq!(set_field(&mut worker, name, b"a value"), "listpack");
    }
    assert_eq!(fields(&mut worker), names);
    // Another value leaves a field in its place, a longer one as well; one that was removed comes last.
    set_field(&mut worker, &names[17], b"a value that is longer than it was");
    on(&mut worker, |tx, key| tx.hash_remove(key, [names[3].as_bytes()].into_iter()).expect("a hash"));
    set_field(&mut worker, &names[3], b"again");
    let mut expected = names.clone();
    expected.remove(3);
    expected.push(names[3].clone());
    assert_eq!(fields(&mut worker), expected);
    store.verify();
}

#[test]
fn a_hash_beyond_the_settings_is_named_so_for_good_and_stays_one_object() {
    let (store, mut worker) = store();
    assert_eq!(set_field(&mut worker, "a", b"short"), "listpack");
    assert_eq!(set_field(&mut worker, "b", &[b'x'; LONG]), "hashtable");
    on(&mut worker, |tx, key| tx.hash_remove(key, [&b"b"[..]].into_iter()).expect("a hash"));
    assert_eq!(set_field(&mut worker, "c", b"short"), "hashtable", "it does not go back");
    assert_eq!((fields(&mut worker), is_big(&mut worker)), (vec!["a".to_string(), "c".to_string()], false));
    store.verify();
    let bytes_max = 8 << 10;
    for n in 0..bytes_max / LONG {
        assert_eq!(set_field(&mut worker, &format!("field {n}"), &[b'x'; LONG]), "hashtable");
    }
    assert!(is_big(&mut worker), "as many bytes lie in leaves of their own");
    assert_eq!(fields(&mut worker).len(), 2 + bytes_max / LONG);
    store.verify();
}

#[test]
fn settings_are_looked_at_when_a_hash_is_written_to() {
    let (store, mut worker) = store();
    for n in 0..20 {
        assert_eq!(set_field(&mut worker, &format!("field {n}"), b"short"), "listpack");
    }
    store.shapes().set(&Limits::default().with(Type::Hash, 4, 64));
    let (_, encoding) = on(&mut worker, |tx, key| tx.hash_remove(key, [&b"field 5"[..]].into_iter()).expect("a hash"));
    assert_eq!(encoding, "listpack", "a removal is no reason");
    assert_eq!(set_field(&mut worker, "field 3", b"other"), "hashtable", "any write is one");
    assert_eq!((fields(&mut worker).len(), is_big(&mut worker)), (19, false));
    store.verify();
}

#[test]
fn one_command_may_lead_through_all_forms_of_a_hash() {
    let (store, mut worker) = store();
    let pairs: Vec<(String, Vec<u8>)> = (0..700).map(|n| (format!("field {n}"), vec![b'x'; 50])).collect();
    let (new, encoding) = on(&mut worker, |tx, key| {
        tx.hash_set(key, pairs.iter().map(|(field, value)| (field.as_bytes(), value.as_slice()))).expect("a hash")
    });
    assert_eq!((new, encoding, is_big(&mut worker)), (700, "hashtable", true));
    store.verify();
}

#[test]
fn a_sorted_set_of_long_members_is_one_object_and_keeps_the_sign_of_zero() {
    let (store, mut worker) = store();
    let add = |worker: &mut StoreWorker, member: &[u8], score: f64| {
        on(worker, |tx, key| tx.zset_add(key, member, score, ZAdd::default()).expect("a sorted set")).1
    };
    let score = |worker: &mut StoreWorker, member: &[u8]| {
        on(worker, |tx, key| tx.zset_score(key, member).expect("a sorted set")).0.expect("it is there")
    };
    assert_eq!(add(&mut worker, b"first", -0.0), "listpack");
    assert!(score(&mut worker, b"first").is_sign_positive(), "a listpack has an integer there");
    for n in 0..5 {
        assert_eq!(add(&mut worker, format!("{n:080}").as_bytes(), f64::from(n)), "skiplist");
    }
    assert_eq!(add(&mut worker, b"last", -0.0), "skiplist");
    assert!(score(&mut worker, b"first").is_sign_positive() && score(&mut worker, b"last").is_sign_negative());
    assert!(!is_big(&mut worker));
    store.verify();
    for n in 0..100 {
        assert_eq!(add(&mut worker, format!("{n:081}").as_bytes(), f64::from(n)), "skiplist");
    }
    assert!(is_big(&mut worker) && score(&mut worker, b"last").is_sign_negative());
    store.verify();
}

#[test]
fn a_sorted_set_beyond_the_settings_is_one_object_up_to_a_number_of_bytes() {
    let (store, mut worker) = store();
    let mut last_small = 0;
    for n in 0..1000u32 {
        let encoding = on(&mut worker, |tx, key| {
            tx.zset_add(key, format!("{n:010}").as_bytes(), 1.0, ZAdd::default()).expect("a sorted set");
        });
        assert_eq!(encoding.1 == "listpack", n < 128, "{n}");
        if !is_big(&mut worker) {
            last_small = n;
        }
    }
    // Ten bytes, a tag and a size; equal scores take nothing.
    assert_eq!(last_small, ((8 << 10) - 16) / 12 - 1, "members of a small one, from 0");
    store.verify();
}

#[test]
fn a_small_sorted_set_gets_wider_scores_than_it_has_bytes_for() {
    let (store, mut worker) = store();
    let mut add = |n: u32, score: f64| {
        on(&mut worker, |tx, key| tx.zset_add(key, format!("{n:010}").as_bytes(), score, ZAdd::default()).expect("one"))
    };
    for n in 0..650 {
        add(n, 7.0);
    }
    assert_eq!(add(3, 1.0 / 3.0), (ZAdded::Updated(1.0 / 3.0), "skiplist"));
    assert_eq!(add(4, 7.0), (ZAdded::Same(7.0), "skiplist"));
    assert!(is_big(&mut worker), "650 scores of eight bytes are too many");
    let rank = |worker: &mut StoreWorker, n: u32| {
        on(worker, |tx, key| tx.zset_rank(key, format!("{n:010}").as_bytes(), false).expect("a sorted set")).0
    };
    assert_eq!((rank(&mut worker, 3), rank(&mut worker, 0)), (Some((0, 1.0 / 3.0)), Some((1, 7.0))));
    store.verify();
}

#[test]
fn a_set_stays_one_object_up_to_a_number_of_bytes() {
    let (store, mut worker) = store();
    let add = |worker: &mut StoreWorker, n: usize, bytes: usize| {
        on(worker, |tx, key| tx.set_add(key, [format!("{n:0bytes$} text").as_bytes()]).expect("a set")).1
    };
    for n in 0..40 {
        assert_eq!(add(&mut worker, n, 20), "hashtable");
    }
    assert_eq!((add(&mut worker, 1, 3000), is_big(&mut worker)), ("hashtable", false));
    assert_eq!((add(&mut worker, 2, 9000), is_big(&mut worker)), ("hashtable", true));
    store.verify();
}

/// Issue 12: a set that had lost nine of ten members kept up to four times the bytes that they took, which no reclaim found.
#[test]
fn what_a_small_collection_loses_is_given_back_without_writing() {
    let names: Vec<String> = (0..200).map(|n| format!("a name of 20 B {n:05}")).collect();
    let bytes = |from: usize| names[from..].iter().map(|name| name.as_bytes());
    for kind in ["hash", "set", "zset"] {
        let (store, mut worker) = store();
        on(&mut worker, |tx, key| match kind {
            "hash" => assert_eq!(tx.hash_set(key, bytes(0).map(|name| (name, name))), Ok(200)),
            "set" => assert_eq!(tx.set_add(key, bytes(0)), Ok(200)),
            _ => tx.zset_add_all(key, bytes(0).zip((0..).map(f64::from)), ZAdd::default(), |_| ()).expect("a zset"),
        });
        let (live, written) = (store.log().live_bytes(), store.log().written_bytes());
        for name in bytes(20) {
            on(&mut worker, |tx, key| match kind {
                "hash" => assert_eq!(tx.hash_remove(key, [name].into_iter()), Ok(1)),
                "set" => assert_eq!(tx.set_remove(key, [name].into_iter()), Ok(1)),
                _ => assert_eq!(tx.zset_remove(key, name), Ok(true)),
            });
        }
        store.verify();
        let left = store.log().live_bytes();
        assert!(left * 10 < live * 25 / 10, "{kind}: {left} live bytes of {live} for a tenth");
        assert_eq!(store.log().written_bytes(), written, "{kind}: the object stays where it is");
        // It grows into the room that it has.
        on(&mut worker, |tx, key| match kind {
            "hash" => assert_eq!(tx.hash_set(key, bytes(150).map(|name| (name, name))), Ok(50)),
            "set" => assert_eq!(tx.set_add(key, bytes(150)), Ok(50)),
            _ => tx.zset_add_all(key, bytes(150).zip((0..).map(f64::from)), ZAdd::default(), |_| ()).expect("a zset"),
        });
        assert_eq!(store.log().written_bytes(), written, "{kind}: the object has the room");
        store.verify();
    }
}
