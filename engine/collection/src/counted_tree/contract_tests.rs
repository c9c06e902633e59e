//! Contracts of the tree that are broken here once, and damage that `verify` must find: the assertion that states each
//! is seen to stop it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// Runs `broken` and checks that a panic with `message` in it stops it.
fn stops<T>(message: &str, broken: impl FnOnce() -> T) {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(broken()))).expect_err(message);
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(text.is_some_and(|text| text.contains(message)), "{text:?} in place of {message:?}");
}

/// A tree of `leaves` leaves with two elements each, and the first leaf.
fn tree(keyed: bool, leaves: u64) -> (CountedTree<u64>, Leaf) {
    let mut tree = if keyed { CountedTree::keyed() } else { CountedTree::new() };
    let mut all = Vec::new();
    for n in 0..leaves {
        all.push(tree.insert_after(all.last().copied(), n, 2, if keyed { n } else { 0 }));
    }
    tree.verify();
    (tree, all[0])
}

#[test]
fn a_leaf_is_of_this_tree() {
    let (mut tree, first) = tree(false, 3);
    stops("a tree with keys", || tree.set_separator(first, 1));
    tree.remove(first);
    stops("a leaf of this tree", || tree.set_ref(first, 9));
    stops("a leaf of this tree", || tree.leaf_ref(first));
    stops("a leaf of this tree", || tree.remove(first));
}

#[test]
fn damage_is_found() {
    let damaged = |message, damage: fn(&mut CountedTree<u64>, Leaf)| {
        let (mut tree, first) = tree(true, 200);
        damage(&mut tree, first);
        stops(message, || tree.verify());
    };
    damaged("nothing lies above the root", |tree, _| tree.nodes[tree.root as usize].parent = 0);
    damaged("every leaf is in the tree or in detached", |tree, first| tree.refs[first.0 as usize] = None);
    damaged("cells", |tree, _| tree.parents.push(NONE));
    damaged("keys", |tree, _| tree.separators.push([0; FAN]));
    damaged("leaves and elements", |tree, _| tree.count += 1);
    damaged("the ends", |tree, _| tree.ends.swap(FIRST, LAST));
    damaged("the leaf's parent", |tree, first| tree.parents[first.0 as usize] = tree.root);
    damaged("keys in order", |tree, first| {
        let (node, _) = tree.above(first);
        tree.separators[node as usize][1] = u64::MAX;
    });
    damaged("the node's parent and level", |tree, first| {
        let (node, _) = tree.above(first);
        tree.nodes[node as usize].parent = node;
    });
    damaged("the sum below", |tree, first| {
        let (node, index) = tree.above(first);
        tree.nodes[node as usize].sums[index] += 1;
    });
}
