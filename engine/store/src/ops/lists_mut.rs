//! Lists at their ends: elements pushed, popped and moved; lists made.
//!
//! ```text
//! push   to a quicklist: in place in the end's node  ->  in a new node  ->  push_all (compressed nodes, huge elements)
//!        to a packed list: in place while the fill takes it, else it becomes a quicklist first
//! pop    from a quicklist: in place in the end's node  ->  pop_any (nodes joined, a quicklist made packed)
//! ```
//! The first way does nothing and says so where it is not enough, and the next one follows. An element that is larger than
//! a fill makes a quicklist at once, so that it is not copied when a second one comes. A list that becomes empty is removed
//! with its key.

use varve_collection::Collection;
use varve_collection::list::{ListCtx, Popped, Pushed, Quicklist, Shape, compact, pop_from, push_at};
use varve_packed::node::{Coded, Grow, NodeMut, PackedEntry, Short, buffer_bytes};

use super::lists::ListPart;
use super::opened::Opened;
use super::reading::ListReader;
use super::writable::Writable;
use super::{Found, Tx};
use crate::ListEnd;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::types::{Type, WrongType};

/// The list at a key, to change.
pub(super) struct ListViewMut<'t, 's> {
    pub(super) tx: &'t mut Tx<'s>,
    pub(super) k: &'t Key<'t>,
    pub(super) w: Writable,
}

impl<'s> Tx<'s> {
    /// The list at a key, to change.
    pub(super) fn list_mut<'t>(&'t mut self, k: &'t Key<'t>) -> Result<Option<ListViewMut<'t, 's>>, WrongType> {
        let w = self.open_mut(k, Type::List)?;
        Ok(w.map(|w| ListViewMut { tx: self, k, w }))
    }

    /// Adds elements at an end, one after the other; gives the new length. Without the key the list is made, or with
    /// `only_existing` nothing done, which gives 0.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; so with all operations on lists.
    #[inline(always)]
    pub fn list_push<'e>(
        &mut self,
        k: &Key<'_>,
        end: ListEnd,
        elements: impl Iterator<Item = &'e [u8]> + Clone,
        only_existing: bool,
    ) -> Result<u64, WrongType> {
        match self.open_mut_inlined(k, Type::List)? {
            Some(w) => Ok(ListViewMut { tx: self, k, w }.push(end, elements)),
            None if only_existing => Ok(0),
            None => {
                let length = self.create_list(k, None, end, elements);
                self.wrote(k);
                Ok(length)
            }
        }
    }

    /// Takes the element at an end away and shows it; false without the key.
    #[inline(always)]
    pub fn list_pop(&mut self, k: &Key<'_>, end: ListEnd, emit: impl FnOnce(&[u8])) -> Result<bool, WrongType> {
        let w = self.open_mut_inlined(k, Type::List)?;
        let found = w.is_some();
        if let Some(w) = w {
            ListViewMut { tx: self, k, w }.pop(end, |entry| match entry {
                PackedEntry::Bytes(text) => emit(text),
                PackedEntry::Int(_) => emit(entry.text(&mut [0; 20])),
            });
        }
        Ok(found)
    }

    /// Takes up to `count` elements at an end away, in the order of single pops; false without the key.
    pub fn list_pop_many(
        &mut self,
        k: &Key<'_>,
        end: ListEnd,
        count: u64,
        emit: impl FnMut(ListPart<'_>),
    ) -> Result<bool, WrongType> {
        let list = self.list_mut(k)?;
        let found = list.is_some();
        if let Some(list) = list {
            list.pop_many(end, count, emit);
        }
        Ok(found)
    }

    /// Takes what [`Tx::list_pop_many`] would away, and gives a reader of it, and how many elements it shows; `None`, and
    /// nothing is done, if they are few enough to be shown at once.
    pub fn list_pop_in_parts(
        &mut self,
        k: &Key<'_>,
        end: ListEnd,
        count: u64,
    ) -> Result<Option<(u64, ListReader)>, WrongType> {
        let Some(mut list) = self.list_mut(k)? else { return Ok(None) };
        let Opened { at, link: Some(link) } = list.w.opened() else { return Ok(None) };
        let length = list.len();
        let count = count.min(length);
        let first = if end == ListEnd::Front { 0 } else { length - 1 };
        let Some(reader) = list.tx.begin_list_reading((at, link), (first, count), end) else { return Ok(None) };
        if count == length {
            list.remove_key();
        } else {
            list.change(|list, ctx| list.cut(ctx, end, count));
            list.after_removal(count);
        }
        Ok(Some((count, reader)))
    }

    /// Moves an element from an end of one list to an end of another, or of the same, and shows it; false without the
    /// source.
    pub fn list_move(
        &mut self,
        from: &Key<'_>,
        to: &Key<'_>,
        from_end: ListEnd,
        to_end: ListEnd,
        emit: impl FnOnce(&[u8]),
    ) -> Result<bool, WrongType> {
        let same = (from.db, from.bytes) == (to.db, to.bytes);
        if !same {
            // Both types are checked before anything changes; that of the destination only if there is a source.
            if !self.list_exists(from)? {
                return Ok(false);
            }
            self.list_exists(to)?;
        }
        let done = self.lend(
            |buffers| &mut buffers.moved,
            |tx, moved| {
                let Some(mut list) = tx.list_mut(from)? else { return Ok(false) };
                moved.clear();
                list.pop_any(from_end, |entry| moved.extend_from_slice(entry.text(&mut [0; 20])));
                if same {
                    // The key stays, and its expiry, even if this was its only element.
                    list.push_all(to_end, std::iter::once(&moved[..]));
                    tx.wrote(from);
                } else {
                    list.after_removal(1);
                    tx.list_push(to, to_end, std::iter::once(&moved[..]), false)?;
                }
                emit(moved);
                Ok(true)
            },
        );
        self.local.buffers().shrink_moved();
        done
    }

    /// Makes a list of these elements in the place of whatever the key held, without expiry; gives its length. Without
    /// elements the key is removed.
    pub fn list_store<'e>(&mut self, k: &Key<'_>, elements: impl Iterator<Item = &'e [u8]> + Clone) -> u64 {
        if elements.clone().next().is_none() {
            self.remove(k);
            return 0;
        }
        let old = self.live(k);
        let length = self.create_list(k, old, ListEnd::Back, elements);
        self.wrote(k);
        length
    }

    /// The settings of the moment.
    #[inline(always)]
    pub(super) fn list_shape(&self) -> Shape {
        let shapes = self.store.shapes();
        Shape::of(shapes.list_fill(), shapes.list_depth(), shapes.list_alone())
    }

    /// Makes a list of at least one element in the place of what the key held. Counts no change.
    fn create_list<'e>(
        &mut self,
        k: &Key<'_>,
        old: Option<Found>,
        end: ListEnd,
        elements: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> u64 {
        let (shape, mut entries, mut bytes) = (self.list_shape(), 0, 0);
        for element in elements.clone() {
            let size = Coded::of(element).size();
            if !shape.takes(entries, bytes, size) {
                break;
            }
            (entries, bytes) = (entries + 1, bytes + size);
        }
        let mut rest = elements;
        let w = if entries == 0 {
            self.put_big(k, old, Type::List, |_| Collection::List(Quicklist::empty()))
        } else {
            self.with_scratch(buffer_bytes(bytes), |tx, value| {
                let mut node = NodeMut::init(value, Grow::Back).expect("the bytes were counted");
                rest.by_ref().take(entries).for_each(|element| push_at(&mut node, end, &Coded::of(element)));
                tx.put_small(k, old, Type::List, Encoding::Small, value)
            })
        };
        ListViewMut { tx: self, k, w }.push_all(end, rest)
    }
}

impl ListViewMut<'_, '_> {
    /// Number of elements.
    pub(super) fn len(&mut self) -> u64 {
        self.tx.read_list(self.w.opened(), |list| list.len())
    }

    /// Changes a quicklist.
    #[inline]
    pub(super) fn change<R>(&mut self, work: impl FnOnce(&mut Quicklist, &mut ListCtx<'_, '_>) -> R) -> R {
        let shape = self.tx.list_shape();
        let w = &self.w;
        self.tx.with_compress(|tx, scratch| {
            tx.change_big(w, |collection, write| work(collection.list_mut(), &mut ListCtx { write, scratch, shape }))
        })
    }

    /// Turns a packed list into a quicklist.
    pub(super) fn make_big(&mut self) {
        self.tx.make_big(self.k, &mut self.w, |ctx, node| Collection::List(Quicklist::of_node(ctx, node)));
    }

    /// Adds elements at an end; gives the new length.
    #[inline(always)]
    fn push<'e>(mut self, end: ListEnd, mut elements: impl Iterator<Item = &'e [u8]> + Clone) -> u64 {
        if !self.w.is_big() {
            let length = self.push_all(end, elements);
            self.tx.wrote(self.k);
            return length;
        }
        let shape = self.tx.list_shape();
        let mut length = 0;
        let left = loop {
            let left = elements.clone();
            let Some(element) = elements.next() else { break None };
            let (collection, log, access) = self.tx.change_near(&self.w);
            let list = collection.list_mut();
            let pushed = match Short::of(element) {
                Some(short) => list.push_in_place(log, access, &shape, end, &short),
                None => list.push_in_place(log, access, &shape, end, &Coded::of(element)),
            };
            length = match pushed {
                Pushed::Yes => list.len(),
                Pushed::Full => self.push_in_new_node(&shape, end, element),
                Pushed::No => break Some(left),
            };
        };
        if let Some(left) = left {
            length = self.push_all(end, left);
        }
        self.tx.wrote(self.k);
        length
    }

    /// Begins a node at an end of a quicklist with an element; gives the list's length.
    #[inline(never)]
    fn push_in_new_node(&mut self, shape: &Shape, end: ListEnd, element: &[u8]) -> u64 {
        self.tx.change_big(&self.w, |collection, ctx| {
            let list = collection.list_mut();
            list.push_in_new_node(ctx, shape, end, &Coded::of(element));
            list.len()
        })
    }

    /// Adds elements, whatever follows from it: the list may become a quicklist on the way. Gives the new length.
    #[inline(never)]
    fn push_all<'e>(&mut self, end: ListEnd, mut elements: impl Iterator<Item = &'e [u8]> + Clone) -> u64 {
        let shape = self.tx.list_shape();
        while !self.w.is_big() {
            let rest = elements.clone();
            let (element, node) = (elements.next(), self.tx.packed(&self.w));
            let Some(element) = element else { return node.len() as u64 };
            let entry = Coded::of(element);
            if shape.takes(node.len(), node.bytes(), entry.size()) {
                self.tx.edit_packed(self.k, &mut self.w, entry.size(), |node| push_at(node, end, &entry));
            } else {
                self.make_big();
                elements = rest;
            }
        }
        self.change(|list, ctx| {
            for element in elements {
                list.push(ctx, end, &Coded::of(element));
            }
            list.len()
        })
    }

    /// Takes the element at an end away and shows it.
    #[inline(always)]
    fn pop(mut self, end: ListEnd, mut show: impl FnOnce(PackedEntry<'_>)) {
        if self.w.is_big() {
            let shape = self.tx.list_shape();
            let (collection, log, access) = self.tx.change_near(&self.w);
            match collection.list_mut().pop_in_place(log, access, &shape, end, show) {
                Ok(popped) => {
                    if popped == Popped::Last {
                        self.drop_empty(end);
                    }
                    return self.tx.wrote(self.k);
                }
                Err(again) => show = again,
            }
        }
        self.pop_any(end, show);
        self.after_removal(1);
    }

    /// Drops the node that a pop has emptied.
    #[inline(never)]
    fn drop_empty(&mut self, end: ListEnd) {
        self.tx.change_big(&self.w, |collection, ctx| collection.list_mut().drop_empty(ctx, end));
    }

    /// Takes the element at an end away, whatever follows from it but for the key. Counts no change.
    #[inline(never)]
    fn pop_any(&mut self, end: ListEnd, show: impl FnOnce(PackedEntry<'_>)) {
        if self.w.is_big() {
            self.change(|list, ctx| list.pop(ctx, end, show));
        } else {
            self.tx.edit_packed(self.k, &mut self.w, 0, |node| show(pop_from(node, end)));
        }
    }

    /// Takes up to `count` elements at an end away, in the order of single pops.
    fn pop_many(mut self, end: ListEnd, count: u64, mut emit: impl FnMut(ListPart<'_>)) {
        let length = self.len();
        let count = count.min(length);
        emit(ListPart::Len(count));
        let mut show = |entry: PackedEntry<'_>| emit(ListPart::Element(entry.text(&mut [0; 20])));
        if count == length {
            let first = if end == ListEnd::Front { 0 } else { length - 1 };
            self.tx.read_list(self.w.opened(), |mut list| list.range(first, count, end, show));
            return self.remove_key();
        }
        if self.w.is_big() {
            self.change(|list, ctx| list.take(ctx, end, count, show));
        } else {
            self.tx.edit_packed(self.k, &mut self.w, 0, |node| (0..count).for_each(|_| show(pop_from(node, end))));
        }
        if count > 0 {
            self.after_removal(count);
        }
    }

    /// Removes the key with its last elements.
    pub(super) fn remove_key(self) {
        self.tx.remove_opened(self.k, &self.w);
    }

    /// Follows a removal of `count` elements: an empty list goes, a small quicklist becomes packed.
    #[inline(never)]
    pub(super) fn after_removal(mut self, count: u64) {
        let (left, is_single) = self.tx.read_list(self.w.opened(), |list| (list.len(), list.is_single()));
        if left == 0 {
            return self.remove_key();
        }
        if count > 0 {
            self.tx.wrote(self.k);
        }
        if is_single {
            self.repack();
        }
    }

    #[cold]
    fn repack(&mut self) {
        let ListViewMut { tx, k, w } = self;
        let shape = tx.list_shape();
        tx.with_scratch(0, |tx, scratch| {
            let small = tx.read_list(w.opened(), |list| match list.single(shape) {
                Some(node) => {
                    compact(node, scratch);
                    true
                }
                None => false,
            });
            if small {
                tx.make_small(k, w, Encoding::Small, scratch);
            }
        });
    }
}
