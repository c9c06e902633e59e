//! Contracts of sorted sets and of their elements' table that are broken here once, and damage that `verify` must find:
//! the assertion that states each is seen to stop it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use varve_packed::node::{Grow, NodeMut};
use varve_segment::{Log, LogGeometry};

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
    stops(none, || packed::pair_bytes(b"x", f64::NAN));
    stops(none, || packed::insert(&mut NodeMut::init(&mut [0; 40], Grow::Back).unwrap(), b"x", f64::NAN));
    stops("NaN has no place in the order", || order_key(f64::NAN));
}

#[test]
fn a_small_set_is_pairs_of_members_that_differ() {
    let mut bytes = [0; 60];
    let mut node = NodeMut::init(&mut bytes, Grow::Back).unwrap();
    packed::insert(&mut node, b"x", 1.5).unwrap();
    packed::insert(&mut node, b"y", 2.5).unwrap();
    stops("a member is there once", || packed::insert(&mut node, b"x", 3.5));
    stops("positions 2..1 of 2", || packed::remove_span(&mut node, (2, 1)));
    stops("positions 1..3 of 2", || packed::remove_span(&mut node, (1, 3)));
    stops("2 pairs from 1 of 2", || packed::walk(node.node(), 1, false, 2, &mut |_, _| ()));
    node.pop_back();
    stops("entries come in pairs", || packed::push(&mut node, b"z", 9.5));
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
        stops("an element carries its collection's id", || {
            set.elements.verify(ctx.read(), other, &mut HashSet::new());
        })
    });
    set(|set, ctx| {
        stops("an object of the collection", || {
            ctx.id = other;
            let r = set.elements.find(ctx.read(), b"3").expect("a member").r;
            ctx.relocate(r)
        })
    });
    set(|set, ctx| stops("an element is there once", || set.elements.insert(ctx, b"3", b"")));
}

#[test]
fn damage_is_found() {
    set(|set, ctx| {
        stops("an element is in one cell only", || {
            let mut live = HashSet::new();
            set.elements.verify(ctx.read(), ID, &mut live);
            set.elements.verify(ctx.read(), ID, &mut live);
        })
    });
    let known_leaf = |set: &SortedSet| HashSet::from_iter(set.tree.leaves().take(1));
    set(|set, ctx| stops("a leaf has one number", || set.verify(ctx.read(), ID, &mut known_leaf(set))));
    set(|set, ctx| {
        stops("a leaf has one number", || {
            set.freeing = true;
            set.verify(ctx.read(), ID, &mut known_leaf(set));
        })
    });
    set(|set, ctx| {
        stops("every element has a cell", || {
            set.elements.insert(ctx, b"no cell", b"");
            set.verify(ctx.read(), ID, &mut HashSet::new());
        })
    });
}
