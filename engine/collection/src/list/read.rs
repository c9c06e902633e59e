//! Reading a list: one element, a range, positions of equal elements. A compressed node on the way is expanded into the
//! press, and stays as it is.
//!
//! A search encodes what it looks for once and compares bytes of entries node by node: equal texts have equal bytes.

use crate::ReadCtx;
use varve_packed::node::{Coded, Node, PackedEntry};

use super::{CompressScratch, End, Leaf, Quicklist, open};

/// A list with what opens its nodes.
pub struct QuicklistReader<'a> {
    /// The list.
    pub list: &'a Quicklist,
    /// The context that opens its nodes.
    pub ctx: ReadCtx<'a>,
    /// Where compressed nodes are expanded.
    pub scratch: &'a mut CompressScratch,
}

/// The element to search for, and how far.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The element to search for.
    pub needle: Coded<'a>,
    /// Where the search starts.
    pub from: End,
    /// Matches to pass over first.
    pub skip: u64,
    /// Matches to report at most.
    pub count: u64,
    /// Elements to compare at most.
    pub compare: u64,
}

impl Search<'_> {
    /// Searches one node, and goes on from there. Reports how many entries lie between a match and the node's end where
    /// the search comes in.
    pub fn node(&mut self, node: Node<'_>, mut emit: impl FnMut(usize)) {
        let within = usize::try_from(self.compare).unwrap_or(usize::MAX).min(node.len());
        debug_assert!(within > 0 || self.compare == 0, "no node is empty");
        let Search { needle, from, skip, count, .. } = self;
        each_match(node, needle, *from, |at| {
            if at >= within || *count == 0 {
                return false;
            }
            if *skip > 0 {
                *skip -= 1;
            } else {
                *count -= 1;
                emit(at);
            }
            true
        });
        self.compare -= within as u64;
    }
}

impl QuicklistReader<'_> {
    /// The element at a position, which there is.
    pub fn get(&mut self, position: u64, emit: impl FnOnce(PackedEntry<'_>)) {
        let (leaf, offset) = self.list.tree.locate(position).expect("the caller compared with the length");
        let node = self.node(leaf);
        emit(node.get(node.nth(offset as usize).expect("the tree counts the node's entries")));
    }

    /// Elements from a position on, `count` of them, towards the other end.
    pub fn range(&mut self, first: u64, count: u64, from: End, mut emit: impl FnMut(PackedEntry<'_>)) {
        let Some((leaf, offset)) = self.list.tree.locate(first) else { return };
        let (mut next, mut offset, mut left) = (Some(leaf), Some(offset as usize), count);
        while let Some(leaf) = next.filter(|_| left > 0) {
            let node = self.node(leaf);
            let many = usize::try_from(left).unwrap_or(usize::MAX);
            left -= emit_from(node, offset.take(), many, from, &mut emit);
            next = self.list.inward(leaf, from);
        }
    }

    /// Reports the positions of equal elements, counted from the front, in the order in which they are met.
    pub fn search(&mut self, s: &Search<'_>, mut emit: impl FnMut(u64)) {
        let (from, mut s, mut next) = (s.from, *s, self.list.end(s.from));
        let (mut passed, len) = (0, self.list.len());
        while let Some(leaf) = next.filter(|_| s.count > 0 && s.compare > 0) {
            let node = self.node(leaf);
            s.node(node, |at| {
                let distance = passed + at as u64;
                emit(if from == End::Front { distance } else { len - 1 - distance });
            });
            passed += node.len() as u64;
            next = self.list.inward(leaf, from);
        }
    }

    /// The first element equal to this one: its node, and its number there.
    pub fn find(&mut self, needle: &Coded<'_>) -> Option<(Leaf, usize)> {
        let mut next = self.list.tree.first();
        while let Some(leaf) = next {
            let node = self.node(leaf);
            if let Some((_, at)) = node.find(needle, node.first().expect("no node is empty"), 1) {
                return Some((leaf, at));
            }
            next = self.list.tree.next(leaf);
        }
        None
    }

    fn node(&mut self, leaf: Leaf) -> Node<'_> {
        open(self.ctx.access.open(self.ctx.log, self.list.tree.leaf_ref(leaf)).value(), &mut self.scratch.node)
    }
}

/// Emits entries of a node, from number `offset` on or from the end where the walk comes in; returns how many.
pub fn emit_from(
    node: Node<'_>,
    offset: Option<usize>,
    many: usize,
    from: End,
    emit: &mut impl FnMut(PackedEntry<'_>),
) -> u64 {
    let many = match (from, offset) {
        (End::Front, None) => node.iter().take(many).map(&mut *emit).count(),
        (End::Back, None) => node.iter().rev().take(many).map(&mut *emit).count(),
        (End::Front, Some(offset)) => {
            let place = node.nth(offset).expect("the tree counts the node's entries");
            node.iter_from(place).take(many).map(&mut *emit).count()
        }
        (End::Back, Some(offset)) => {
            let first = node.nth(offset).expect("the tree counts the node's entries");
            let places = std::iter::successors(Some(first), |place| node.prev(*place));
            places.take(many).map(|place| emit(node.get(place))).count()
        }
    };
    many as u64
}

/// Tells of each equal entry how many lie between it and the end where the search starts, until told to stop.
pub(crate) fn each_match(node: Node<'_>, needle: &Coded<'_>, from: End, mut found: impl FnMut(usize) -> bool) {
    let (mut at, mut next) = match from {
        End::Front => (0, node.first()),
        End::Back => (0, node.last()),
    };
    while let Some(start) = next {
        let hit = match from {
            End::Front => node.find(needle, start, 1),
            End::Back => node.rfind(needle, start),
        };
        let Some((place, passed)) = hit else { return };
        at += passed;
        if !found(at) {
            return;
        }
        at += 1;
        next = match from {
            End::Front => node.next(place),
            End::Back => node.prev(place),
        };
    }
}
