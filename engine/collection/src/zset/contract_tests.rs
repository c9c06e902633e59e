//! Contracts of sorted sets and of their elements' table that are broken here once, and damage that `verify` must find:
//! the assertion that states each is seen to stop it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use varve_segment::{Log, LogGeometry};

use super::small::{SmallMembers, SmallZset};
use super::*;

const ID: CollectionId = CollectionId::new(5);

/// Runs `broken` and checks that a panic with `message` in it stops it.
fn stops<T>(message: &str, broken: impl FnOnce() -> T) {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(broken()))).expect_err(message);
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(text.is_some_and(|text| text.contains(message)), "{text:?} in place of {message:?}");
}

/// A sorted set of ten members `0` to `9`, whose scores are their numbers.
fn set(work: impl FnOnce(&mut SortedSet, &mut WriteCtx<'_>)) {
    let log = Log::new(LogGeometry { reserve_bytes: 1 << 30, ..LogGeometry::default() }).expect("addresses");
    let (mut access, mut appender) = (log.access(), Appender::new());
    let mut set = SortedSet::with_leaves(ID, 1, 4);
    let mut ctx = WriteCtx { log: &log, access: &mut access, appender: &mut appender, seed: 1, id: ID };
    for n in 0..10 {
        set.add(&mut ctx, n.to_string().as_bytes(), f64::from(n), ZAdd::default());
    }
    set.verify(ctx.read(), ID, &mut HashSet::new());
    work(&mut set, &mut ctx);
    appender.park(&log);
}

#[test]
fn a_score_is_a_number() {
    let none = "no score is NaN";
    set(|set, ctx| stops(none, || set.add(ctx, b"x", f64::NAN, ZAdd::default())));
    stops("NaN has no place in the order", || order_key(f64::NAN));
}

#[test]
fn a_small_set_is_members_that_differ_in_order() {
    let members: [(&[u8], f64); 2] = [(b"x", 1.5), (b"y", 2.5)];
    let mut bytes = [0; 60];
    SmallMembers::of(1, members.into_iter()).write(&mut bytes);
    stops("a member is there once", || small::insert(&mut bytes.clone(), 1, (b"x", 3.5)));
    stops("the member of this rank", || small::set_score(&mut bytes.clone(), 1, 1, (b"x", 3.5)));
    let set = SmallZset::open(&bytes);
    stops("2..1 of 2", || set.without((2, 1)));
    stops("1..3 of 2", || set.without((1, 3)));
    stops("Some(2) of 2", || set.with(1, Some(2), (b"z", 1.0)));
    stops("2 members from 1 of 2", || set.walk(1, false, 2, &mut |_, _| ()));
    stops("members in order, none twice", || SmallMembers::of(1, members.into_iter().rev()).write(&mut [0; 60]));
    stops("the tag is of the member's hash", || set.verify(2));
}

#[test]
fn a_set_is_asked_for_positions_that_it_has() {
    set(|set, ctx| stops("positions 3..2 of 10", || set.take_span(ctx, (3, 2), false, &mut |_, _| ())));
    set(|set, ctx| stops("positions 3..11 of 10", || set.take_span(ctx, (3, 11), false, &mut |_, _| ())));
}

#[test]
fn a_set_that_dies_is_not_changed() {
    set(|set, ctx| {
        assert!(!set.free_step(ctx, 1));
        stops("a set that dies is not changed", || set.add(ctx, b"x", 1.0, ZAdd::default()));
        stops("a set that dies is not changed", || set.remove(ctx, b"1"));
    });
}

#[test]
fn objects_are_of_their_collection() {
    let other = CollectionId::new(6);
    set(|set, ctx| {
        stops("an object carries its collection's id", || set.verify(ctx.read(), other, &mut HashSet::new()))
    });
    set(|set, ctx| {
        stops("an object of the collection", || {
            ctx.id = other;
            let leaf = set.tree.counted.first().expect("a leaf");
            set.relocate_leaf(ctx, leaf);
        })
    });
    set(|set, ctx| stops("a member is there once", || set.insert(ctx, b"3", 3.0)));
}

#[test]
fn damage_is_found() {
    let known_leaf =
        |set: &SortedSet| HashSet::from_iter(set.tree.leaves().take(1).map(|l| set.tree.counted.leaf_ref(l)));
    set(|set, ctx| stops("an object has one place only", || set.verify(ctx.read(), ID, &mut known_leaf(set))));
    let broken = |message: &str, work: &dyn Fn(&mut SortedSet, &mut WriteCtx<'_>)| {
        set(|set, ctx| {
            work(set, ctx);
            stops(message, || set.verify(ctx.read(), ID, &mut HashSet::new()));
        });
    };
    broken("every member is in the index", &|set, ctx| {
        let leaf = set.tree.counted.first().expect("a leaf");
        set.index.insert(hash64(ctx.seed, b"nowhere"), leaf);
    });
    broken("the index leads to the member", &|set, ctx| {
        let [first, last] = [set.tree.counted.first(), set.tree.counted.last()].map(|leaf| leaf.expect("a leaf"));
        set.index.repoint(hash64(ctx.seed, b"0"), first, last);
    });
    broken("bytes of the objects", &|set, _| set.object_bytes += 1);
    broken("a least key over what is in the leaf", &|set, _| {
        let last = set.tree.counted.last().expect("a leaf");
        set.tree.counted.set_separator(last, u64::MAX);
    });
    broken("members in order", &|set, ctx| {
        let first = set.tree.counted.first().expect("a leaf");
        assert!(leaf::set_key(set.leaf_mut(ctx, first).value_mut(), 1, exact_key(0.0)));
        assert!(leaf::set_key(set.leaf_mut(ctx, first).value_mut(), 0, exact_key(1.0)));
    });
}

#[test]
fn a_cell_names_what_it_was_given() {
    set(|set, ctx| {
        let first = set.tree.counted.first().expect("a leaf");
        stops("a member is in the index", || set.index.remove_of(hash64(ctx.seed, b"nowhere"), first));
        let last = set.tree.counted.last().expect("a leaf");
        stops("a member is in the index", || set.index.repoint(hash64(ctx.seed, b"0"), last, first));
    });
}
