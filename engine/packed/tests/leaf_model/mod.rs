//! A packed leaf beside a list of what it holds, taking the same operations. Shared with the fuzz target.

use varve_packed::Full;
use varve_packed::leaf::{LeafElement, PackedLeaf, PackedLeafMut, leaf_bytes};

/// One operation on a leaf. Numbers are reduced to what there is.
#[derive(Clone, Debug)]
pub enum LeafOp {
    /// Adds an element, in two parts that are cut at the number.
    Push(u8, Vec<u8>, usize),
    PushElsewhere(u8, u64),
    /// Adds an element before the one of this number.
    Insert(usize, u8, Vec<u8>),
    InsertElsewhere(usize, u8, u64),
    Replace(usize, Vec<u8>),
    ReplaceElsewhere(usize, u64),
    Remove(usize),
    /// Copies the leaf into a buffer with this number of bytes of room.
    Copy(usize),
    /// Searches for a tag and an element of more bytes than this.
    Find(u8, usize),
}

/// An element as the list has it.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Here(Vec<u8>),
    Elsewhere(u64),
}

impl Owned {
    fn of(element: LeafElement<'_>) -> Owned {
        match element {
            LeafElement::Here(bytes) => Owned::Here(bytes.to_vec()),
            LeafElement::Elsewhere(number) => Owned::Elsewhere(number),
        }
    }

    fn size(&self) -> usize {
        match self {
            Owned::Here(bytes) => bytes.len(),
            Owned::Elsewhere(_) => 8,
        }
    }

    fn element(&self) -> LeafElement<'_> {
        match self {
            Owned::Here(bytes) => LeafElement::Here(bytes),
            Owned::Elsewhere(number) => LeafElement::Elsewhere(*number),
        }
    }

    /// The size that its sizes must be able to hold.
    fn wide_as(&self) -> usize {
        match self {
            Owned::Here(bytes) => bytes.len(),
            Owned::Elsewhere(_) => 256,
        }
    }
}

/// A leaf in a buffer, and its elements.
pub struct LeafWorld {
    buf: Vec<u8>,
    elements: Vec<(u8, Owned)>,
}

impl LeafWorld {
    /// An empty leaf in a buffer of `bytes` bytes, at least a head's.
    pub fn new(bytes: usize) -> LeafWorld {
        let mut buf = vec![0xa5; bytes.max(4)];
        PackedLeafMut::init(&mut buf).expect("room for a head");
        LeafWorld { buf, elements: Vec::new() }
    }

    /// The bytes of the leaf.
    pub fn bytes(&self) -> &[u8] {
        &self.buf
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Does one operation to both, and compares them.
    pub fn apply(&mut self, op: &LeafOp) {
        let count = self.elements.len();
        let index = |number: usize| number % count.max(1);
        match op {
            LeafOp::Push(tag, element, cut) => {
                let (front, back) = element.split_at(cut % (element.len() + 1));
                self.grow(|leaf| leaf.push(*tag, &[front, &[], back]));
                self.elements.push((*tag, Owned::Here(element.clone())));
            }
            LeafOp::PushElsewhere(tag, number) => {
                self.grow(|leaf| leaf.push_elsewhere(*tag, *number));
                self.elements.push((*tag, Owned::Elsewhere(*number)));
            }
            LeafOp::Insert(number, tag, element) => {
                self.insert(*number, *tag, Owned::Here(element.clone()));
            }
            LeafOp::InsertElsewhere(number, tag, elsewhere) => {
                self.insert(*number, *tag, Owned::Elsewhere(*elsewhere));
            }
            LeafOp::Replace(number, element) if count > 0 => {
                self.grow(|leaf| leaf.replace(leaf.leaf().pos(index(*number)), &[element]));
                self.elements[index(*number)].1 = Owned::Here(element.clone());
            }
            LeafOp::ReplaceElsewhere(number, elsewhere) if count > 0 => {
                self.grow(|leaf| leaf.replace_elsewhere(leaf.leaf().pos(index(*number)), *elsewhere));
                self.elements[index(*number)].1 = Owned::Elsewhere(*elsewhere);
            }
            LeafOp::Remove(number) if count > 0 => {
                let mut leaf = PackedLeafMut::open(&mut self.buf);
                leaf.remove(leaf.leaf().pos(index(*number)));
                self.elements.remove(index(*number));
            }
            LeafOp::Copy(room) => {
                let leaf = PackedLeaf::open(&self.buf);
                let mut copy = vec![0xee; leaf.copied_bytes() + room];
                leaf.copy_into(&mut copy).expect("it fits");
                self.buf = copy;
            }
            LeafOp::Find(tag, longer) => self.find(*tag, *longer),
            LeafOp::Replace(..) | LeafOp::ReplaceElsewhere(..) | LeafOp::Remove(_) => {}
        }
        self.compare();
    }

    fn insert(&mut self, number: usize, tag: u8, new: Owned) {
        let (index, leaf) = (number % (self.elements.len() + 1), PackedLeaf::open(&self.buf));
        let needed = leaf.needed_with(new.element()).expect("a leaf may be so large");
        self.grow(|leaf| leaf.insert(index, tag, new.element()));
        let leaf = PackedLeaf::open(&self.buf);
        assert!(needed >= self.buf.len() - leaf.room(), "more than the {needed} bytes that it was said to need");
        self.elements.insert(index, (tag, new));
    }

    fn find(&self, tag: u8, longer: usize) {
        let found = PackedLeaf::open(&self.buf).find(tag, |e| Owned::of(e).size() > longer).map(|pos| pos.index());
        assert_eq!(found, self.elements.iter().position(|(t, e)| *t == tag && e.size() > longer));
    }

    fn compare(&self) {
        let leaf = PackedLeaf::check(&self.buf).expect("a sound leaf");
        assert_eq!(leaf.len(), self.elements.len());
        assert_eq!(leaf.bytes(), self.elements.iter().map(|(_, e)| e.size()).sum::<usize>());
        assert!(leaf.iter().map(|(tag, e)| (tag, Owned::of(e))).eq(self.elements.iter().cloned()));
        for (index, (tag, element)) in self.elements.iter().enumerate() {
            assert_eq!(Owned::of(leaf.nth(index)), *element);
            assert!(leaf.tagged(*tag).any(|at| at == index));
        }
        let owned = |from: usize, to: usize| self.elements[from..to].iter().map(|(_, element)| element.clone());
        for index in [0, self.elements.len() / 2, self.elements.len()] {
            assert!(leaf.from(index).map(Owned::of).eq(owned(index, self.elements.len())));
            assert!(leaf.down_from(index).map(Owned::of).eq(owned(0, index).rev()));
        }
        let mut whole = vec![0x3c; leaf.copied_bytes()];
        let again = PackedLeafMut::init_with(&mut whole, leaf.iter()).expect("it fits");
        assert!(again.leaf().iter().eq(leaf.iter()));
        let longest = self.elements.iter().map(|(_, e)| e.wide_as()).max().unwrap_or(0);
        assert_eq!(leaf.copied_bytes(), leaf_bytes(leaf.len(), leaf.bytes(), longest));
    }

    /// Does `change` with a buffer that has just the bytes that it needs, if it needs more.
    fn grow(&mut self, change: impl Fn(&mut PackedLeafMut<'_>) -> Result<(), Full>) {
        let before = self.buf.clone();
        let Err(Full { needed }) = change(&mut PackedLeafMut::open(&mut self.buf)) else { return };
        assert_eq!(self.buf, before, "a refusal changes nothing");
        assert!(needed > self.buf.len() && needed != usize::MAX, "{needed} of {} bytes", self.buf.len());
        let mut larger = vec![0x5a; needed];
        PackedLeaf::open(&self.buf).copy_into(&mut larger).expect("it fits");
        self.buf = larger;
        change(&mut PackedLeafMut::open(&mut self.buf)).expect("it has what it asked for");
    }
}
