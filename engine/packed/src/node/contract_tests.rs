//! Contracts of nodes and of sets of integers that are broken here once: the assertion that states each is seen to stop
//! it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::header::{Form, Header};
use super::{Coded, EntryPos, Grow, Node, NodeMut, buffer_bytes};
use crate::intset::{IntSet, IntSetMut};

/// Runs `broken` and checks that a panic with `message` in it stops it.
fn stops<T>(message: &str, broken: impl FnOnce() -> T) {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(broken()))).expect_err(message);
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(text.is_some_and(|text| text.contains(message)), "{text:?} in place of {message:?}");
}

/// A node of two entries, and the place of an entry of a longer one.
fn node(work: impl FnOnce(NodeMut<'_>, EntryPos)) {
    let (mut short, mut long) = (vec![0; 40], vec![0; buffer_bytes(200)]);
    let mut other = NodeMut::init(&mut long, Grow::Back).unwrap();
    (0..50).for_each(|_| other.push_back(&Coded::of(b"xy")).unwrap());
    let mut node = NodeMut::init(&mut short, Grow::Back).unwrap();
    (0..2).for_each(|_| node.push_back(&Coded::of(b"ab")).unwrap());
    work(node, other.node().last().unwrap());
}

#[test]
fn a_place_is_of_this_node() {
    let other = "is of another node";
    let coded = Coded::of(b"z");
    node(|node, place| stops(other, || node.node().get(place).text(&mut [0; 20]).len()));
    node(|node, place| stops(other, || node.node().next(place)));
    node(|node, place| stops(other, || node.node().prev(place)));
    node(|node, place| stops(other, || node.node().size(place)));
    node(|node, place| stops("th entry from", || node.node().find(&coded, place, 1)));
    node(|node, place| stops(other, || node.node().rfind(&coded, place)));
    node(|node, place| stops(other, || node.node().iter_from(place).count()));
    node(|mut node, place| stops(other, || node.insert_after(place, &coded)));
    node(|mut node, place| stops(other, || node.replace(place, &coded)));
    node(|mut node, place| stops(other, || node.remove_range(place, 1)));
    node(|mut node, place| stops("place ", || node.insert_before(place, &coded)));
}

#[test]
fn entries_have_numbers_below_their_count() {
    node(|mut node, _| stops("entries 2..1", || node.remove_indices(2, 1)));
    node(|mut node, _| stops("entry 3 of 2", || node.remove_indices(2, 3)));
    node(|mut node, _| stops("entry 3 of 2", || node.split_at(3, &mut [0; 40], Grow::Back)));
}

#[test]
fn a_header_states_what_is_there() {
    let header = Header { form: Form::Tiny, start: 3, end: 9, count: 2 };
    stops("the entries end in the buffer", || header.write(&mut [0; 8]));
    stops("the entries end in the buffer", || Header { end: 300, ..header }.write(&mut [0; 400]));
    stops("the entries start behind the header", || Header { start: 2, ..header }.write(&mut [0; 20]));
    stops("no entry is shorter than a byte", || Header { count: 7, ..header }.write(&mut [0; 20]));
    stops("a compressed node is expanded before it is opened", || Node::open(&[2, 0, 0, 0]).len());
}

#[test]
fn a_set_of_integers_lies_in_its_bytes() {
    let mut bytes = [0; 8];
    let mut set = IntSetMut::init(&mut bytes).unwrap();
    assert_eq!((set.insert(1), set.insert(2)), (Ok(true), Ok(true)));
    stops("integer 2 of 2", || set.set().get(2));
    stops("integer 2 of 2", || set.remove_at(2));
    stops("the set lies in its bytes", || IntSetMut::open(&mut bytes[..4]).set().len());
    assert_eq!(IntSet::open(&bytes).len(), 2);
}
