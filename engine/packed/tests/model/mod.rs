//! A node and a set of integers beside what they mean, taking the same operations. Shared with the fuzz target.

use std::collections::BTreeSet;
use varve_packed::intset::{self, IntSet, IntSetMut};
use varve_packed::node::{
    Coded, CompressedNode, Compressor, Grow, Node, NodeMut, PackedEntry, buffer_bytes, compress_bound, expand,
};

/// One operation on a node. Numbers are reduced to what there is.
#[derive(Clone, Debug)]
pub enum Op {
    PushFront(Text),
    PushBack(Text),
    PopFront,
    PopBack,
    InsertBefore(usize, Text),
    InsertAfter(usize, Text),
    Replace(usize, Text),
    Remove(usize),
    RemoveRange(usize, usize),
    RemoveIndices(usize, usize),
    Find(usize, usize),
    FindText(Text),
    Split(usize, bool),
    Halves(usize, bool),
    Resize(usize, u8),
    GrowInPlace(usize),
    Trim,
    Compress,
    Clear(u8),
}

/// The text that an entry is made of.
#[derive(Clone, Debug)]
pub enum Text {
    Int(i64),
    Bytes(u8, usize),
    Digits(usize),
}

impl Text {
    pub fn bytes(&self) -> Vec<u8> {
        match *self {
            Text::Int(value) => value.to_string().into_bytes(),
            Text::Bytes(byte, len) => (0..len).map(|i| byte.wrapping_add((i / 7) as u8)).collect(),
            Text::Digits(len) => (0..len).map(|i| b'0' + (i % 10) as u8).collect(),
        }
    }
}

pub fn grow(n: u8) -> Grow {
    [Grow::Front, Grow::Back, Grow::Both][usize::from(n % 3)]
}

/// The node, and the texts that it should hold.
pub struct World {
    buf: Vec<u8>,
    model: Vec<Vec<u8>>,
}

impl World {
    pub fn new(capacity: usize, at: Grow) -> World {
        let mut buf = vec![0xa5; capacity.max(3)];
        NodeMut::init(&mut buf, at).expect("room for a header");
        World { buf, model: Vec::new() }
    }

    fn node(&self) -> Node<'_> {
        Node::open(&self.buf)
    }

    /// An index below `many`, or none.
    fn pick(&self, index: usize) -> Option<usize> {
        index.checked_rem(self.model.len())
    }

    /// Does something that needs room: fits or says how much would do, and then does fit in exactly that.
    fn with_room(
        &mut self,
        more: usize,
        less: usize,
        act: impl Fn(&mut NodeMut<'_>) -> Result<(), varve_packed::Full>,
    ) {
        let before = self.buf.clone();
        let room = self.node().room();
        match act(&mut NodeMut::open(&mut self.buf)) {
            Ok(()) => assert!(more <= room + less, "{more} bytes went into {room}"),
            Err(full) => {
                assert!(more > room + less, "{more} bytes had no room in {room}");
                assert_eq!(self.buf, before, "nothing is changed");
                assert_eq!(full.needed, buffer_bytes(self.node().bytes() + more - less));
                self.resize(full.needed, Grow::Both);
                act(&mut NodeMut::open(&mut self.buf)).expect("what was needed is there");
            }
        }
    }

    fn resize(&mut self, capacity: usize, at: Grow) {
        let mut larger = vec![0x5a; capacity.max(self.node().needed_bytes(0))];
        self.node().copy_into(&mut larger, at).expect("large enough");
        self.buf = larger;
    }

    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::PushFront(text) => self.push(text, true),
            Op::PushBack(text) => self.push(text, false),
            Op::PopFront | Op::PopBack => self.pop(matches!(op, Op::PopFront)),
            Op::InsertBefore(index, text) => self.insert(*index, text, 0),
            Op::InsertAfter(index, text) => self.insert(*index, text, 1),
            Op::Replace(index, text) => self.replace(*index, text),
            Op::Remove(index) => self.remove(*index, 1),
            Op::RemoveRange(index, many) => self.remove(*index, *many),
            Op::RemoveIndices(a, b) => self.remove_indices(*a, *b),
            Op::Find(index, stride) => self.find(*index, *stride),
            Op::FindText(text) => self.find_text(text),
            Op::Split(index, keep_tail) => self.split(*index, *keep_tail),
            Op::Halves(index, front) => self.halves(*index, *front),
            Op::Resize(capacity, at) => self.resize(*capacity, grow(*at)),
            Op::GrowInPlace(more) => self.buf.resize(self.buf.len() + more, 0),
            Op::Trim => self.buf.truncate(self.node().used()),
            Op::Compress => self.compress(),
            Op::Clear(at) => {
                NodeMut::open(&mut self.buf).clear(grow(*at));
                self.model.clear();
            }
        }
        self.compare();
    }

    fn push(&mut self, text: &Text, front: bool) {
        let text = text.bytes();
        let coded = Coded::of(&text);
        let head = self.node();
        let moves_nothing = coded.size() <= if front { head.front_room() } else { head.back_room() };
        let untouched = moves_nothing.then(|| (head.first(), head.last()));
        self.with_room(coded.size(), 0, |node| if front { node.push_front(&coded) } else { node.push_back(&coded) });
        let node = self.node();
        if let Some((Some(first), Some(last))) = untouched {
            assert_eq!(if front { node.last() } else { node.first() }, Some(if front { last } else { first }));
        }
        self.model.insert(if front { 0 } else { self.model.len() }, text);
    }

    fn pop(&mut self, front: bool) {
        let mut node = NodeMut::open(&mut self.buf);
        let popped = if front { node.pop_front() } else { node.pop_back() };
        let at = if front { 0 } else { self.model.len().saturating_sub(1) };
        let wanted = (!self.model.is_empty()).then(|| self.model.remove(at));
        assert_eq!(popped.map(text_of), wanted);
    }

    fn insert(&mut self, index: usize, text: &Text, after: usize) {
        let (Some(index), text) = (self.pick(index), text.bytes()) else { return };
        let coded = Coded::of(&text);
        self.with_room(coded.size(), 0, |node| {
            let place = node.node().nth(index).expect("there");
            let new = if after == 1 { node.insert_after(place, &coded) } else { node.insert_before(place, &coded) }?;
            assert_eq!(node.node().nth(index + after), Some(new));
            Ok(())
        });
        self.model.insert(index + after, text);
    }

    fn replace(&mut self, index: usize, text: &Text) {
        let (Some(index), text) = (self.pick(index), text.bytes()) else { return };
        let coded = Coded::of(&text);
        let old = self.node().size(self.node().nth(index).expect("there"));
        self.with_room(coded.size(), old, |node| {
            let new = node.replace(node.node().nth(index).expect("there"), &coded)?;
            assert_eq!(node.node().nth(index), Some(new));
            Ok(())
        });
        self.model[index] = text;
    }

    fn remove(&mut self, index: usize, many: usize) {
        let Some(index) = self.pick(index) else { return };
        let mut node = NodeMut::open(&mut self.buf);
        let place = node.node().nth(index).expect("there");
        let next = if many == 1 { node.remove(place) } else { node.remove_range(place, many) };
        self.model.drain(index..self.model.len().min(index + many));
        assert_eq!(next, self.node().nth(index));
    }

    fn remove_indices(&mut self, a: usize, b: usize) {
        let (a, b) = (a % (self.model.len() + 1), b % (self.model.len() + 1));
        NodeMut::open(&mut self.buf).remove_indices(a.min(b), a.max(b));
        self.model.drain(a.min(b)..a.max(b));
    }

    fn find(&mut self, index: usize, stride: usize) {
        let Some(index) = self.pick(index) else { return };
        let text = self.model[index].clone();
        self.find_all(&text, stride.max(1));
    }

    fn find_text(&mut self, text: &Text) {
        self.find_all(&text.bytes(), 1);
    }

    /// Every start, forward and backward.
    fn find_all(&self, text: &[u8], stride: usize) {
        let (node, coded) = (self.node(), Coded::of(text));
        for from in 0..self.model.len() {
            let place = node.nth(from).expect("there");
            let wanted = (from..self.model.len()).step_by(stride).find(|&i| self.model[i] == text);
            let wanted = wanted.map(|i| (node.nth(i).expect("there"), i - from));
            assert_eq!(node.find(&coded, place, stride), wanted, "from {from} by {stride}");
            let wanted = (0..=from).rev().find(|&i| self.model[i] == text);
            let wanted = wanted.map(|i| (node.nth(i).expect("there"), from - i));
            assert_eq!(node.rfind(&coded, place), wanted, "back from {from}");
        }
    }

    /// Splits, and goes on with one part.
    fn split(&mut self, index: usize, keep_tail: bool) {
        let index = index % (self.model.len() + 1);
        let mut tail = vec![0x77; self.node().needed_bytes(0)];
        NodeMut::open(&mut self.buf).split_at(index, &mut tail, Grow::Both).expect("room for all");
        let rest = self.model.split_off(index);
        if keep_tail {
            (self.buf, self.model) = (tail, rest);
        } else {
            check(&tail, &rest);
        }
    }

    /// Splits, and puts the parts together again by adding the one to the other.
    fn halves(&mut self, index: usize, into_front: bool) {
        let index = index % (self.model.len() + 1);
        let mut tail = vec![0x77; self.node().needed_bytes(0)];
        NodeMut::open(&mut self.buf).split_at(index, &mut tail, Grow::Front).expect("room for all");
        if into_front {
            NodeMut::open(&mut self.buf).append(Node::open(&tail)).expect("it came from there");
        } else {
            NodeMut::open(&mut tail).prepend(self.node()).expect("room for all");
            self.buf = tail;
        }
    }

    fn compress(&mut self) {
        let node = self.node();
        let mut out = vec![0; compress_bound(node.bytes())];
        let Some(size) = Compressor::default().compress(node, &mut out) else { return };
        assert!(size + 8 <= node.needed_bytes(0));
        let compressed = CompressedNode::open(&out[..size]).expect("just written");
        let mut again = vec![0; node.needed_bytes(0)];
        expand(compressed, &mut again, Grow::Back).expect("large enough");
        self.buf = again;
    }

    fn compare(&self) {
        check(&self.buf, &self.model);
    }
}

fn text_of(entry: PackedEntry<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    entry.push_to(&mut text);
    assert_eq!(entry.text(&mut [0; 20]), text);
    assert_eq!(entry.text_len(), text.len());
    text
}

/// The node is sound and holds `model`, read in every way.
fn check(buf: &[u8], model: &[Vec<u8>]) {
    let node = Node::check(buf).unwrap_or_else(|fault| panic!("{fault:?} in {buf:x?}"));
    node.verify();
    assert_eq!((node.len(), node.is_empty()), (model.len(), model.is_empty()));
    assert!(node.iter().map(text_of).eq(model.iter().cloned()));
    assert!(node.iter().rev().map(text_of).eq(model.iter().rev().cloned()));
    let (mut forward, mut backward) = (node.first(), node.last());
    for index in 0..model.len() {
        let place = forward.expect("an entry");
        assert_eq!(node.nth(index), Some(place));
        assert_eq!(text_of(node.get(place)), model[index]);
        forward = node.next(place);
        let place = backward.expect("an entry");
        assert_eq!(node.nth(model.len() - 1 - index), Some(place));
        backward = node.prev(place);
    }
    assert_eq!((forward, backward, node.nth(model.len())), (None, None, None));
    assert!(node.front_room() + node.back_room() <= node.room() + 16);
    assert!(node.needed_bytes(node.room()) <= buf.len());
}

/// A set of integers and what it means.
pub struct Ints {
    buf: Vec<u8>,
    model: BTreeSet<i64>,
}

impl Ints {
    pub fn new() -> Ints {
        let mut buf = vec![0; intset::buffer_bytes(0, intset::Width::Two)];
        IntSetMut::init(&mut buf).expect("room for a header");
        Ints { buf, model: BTreeSet::new() }
    }

    pub fn insert(&mut self, value: i64) {
        let new = self.model.insert(value);
        let needed = IntSet::open(&self.buf).needed_bytes(value);
        match IntSetMut::open(&mut self.buf).insert(value) {
            Ok(was_new) => assert_eq!(was_new, new),
            Err(full) => {
                assert_eq!(full.needed, needed);
                self.buf.resize(needed, 0xcc);
                assert_eq!(IntSetMut::open(&mut self.buf).insert(value), Ok(new));
            }
        }
        self.compare();
    }

    pub fn remove(&mut self, value: i64) {
        assert_eq!(IntSetMut::open(&mut self.buf).remove(value), self.model.remove(&value));
        self.compare();
    }

    pub fn narrow(&mut self) {
        let mut copy = vec![0; IntSet::open(&self.buf).copied_bytes()];
        IntSet::open(&self.buf).copy_into(&mut copy).expect("large enough");
        self.buf = copy;
        self.compare();
    }

    fn compare(&self) {
        let set = IntSet::check(&self.buf).expect("a sound set");
        set.verify();
        assert!(set.iter().eq(self.model.iter().copied()));
        assert!(set.iter().rev().eq(self.model.iter().rev().copied()));
        for (index, &value) in self.model.iter().enumerate() {
            assert_eq!((set.get(index), set.search(value)), (value, Ok(index)));
            if let Some(next) = value.checked_add(1).filter(|next| !self.model.contains(next)) {
                assert_eq!(set.search(next), Err(index + 1));
            }
        }
    }
}
