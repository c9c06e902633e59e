//! Lists at their ends and to read; `lists_middle` has the changes in between.
//!
//! ```text
//!   one packed node in the key's object  --passes the fill-->  chain (varve_collection::list)
//!                                        <--one node, under half a fill--
//! ```
//! An element that is larger than a fill makes a chain at once, so that it is not copied when a second one comes. A list
//! that becomes empty is removed with its key.

use varve_collection::Collection;
use varve_collection::list::{
    CompressScratch, ListCtx, Popped, Pushed, Quicklist, QuicklistReader, Search, Shape, compact, emit_from, pop_from,
    push_at,
};
use varve_packed::node::{Coded, Grow, NodeMut, PackedEntry, Short, buffer_bytes};

use super::{Found, Tx};
use crate::ListEnd;
use crate::state::key::Key;
use crate::state::link::{Encoding, Link};
use crate::state::types::{Type, WrongType};

/// What an operation over several elements tells: first how many, then each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPart<'a> {
    /// So many elements follow.
    Len(u64),
    /// One of them.
    Element(&'a [u8]),
}

impl Tx<'_> {
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
        let length = match self.look(k, Type::List)? {
            Some((p, Some(link))) => self.push_big(k, p, link, end, elements),
            Some((mut p, None)) => {
                let (added, length) = self.push_all(k, &mut p, end, elements);
                self.changed(k, added);
                length
            }
            None if only_existing => 0,
            None => {
                let length = self.create_list(k, end, elements);
                self.changed(k, length);
                length
            }
        };
        Ok(length)
    }

    /// Takes the element at an end away and shows it; false without the key.
    #[inline(always)]
    pub fn list_pop(&mut self, k: &Key<'_>, end: ListEnd, emit: impl FnOnce(&[u8])) -> Result<bool, WrongType> {
        let Some((mut p, link)) = self.look(k, Type::List)? else { return Ok(false) };
        let mut show = |entry: PackedEntry<'_>| match entry {
            PackedEntry::Bytes(text) => emit(text),
            PackedEntry::Int(_) => emit(entry.text(&mut [0; 20])),
        };
        if let Some(link) = link {
            match self.pop_near(p, link, end, show) {
                Ok(popped) => {
                    if popped == Popped::Last {
                        self.drop_empty(p, link, end);
                    }
                    self.changed_at(k, p, 1);
                    return Ok(true);
                }
                Err(again) => show = again,
            }
        }
        self.pop_at(k, &mut p, end, show);
        self.settle_list(k, &mut p, 1);
        Ok(true)
    }

    /// Takes up to `count` elements at an end away, in the order of single pops; false without the key.
    pub fn list_pop_many(
        &mut self,
        k: &Key<'_>,
        end: ListEnd,
        count: u64,
        mut emit: impl FnMut(ListPart<'_>),
    ) -> Result<bool, WrongType> {
        let Some(mut p) = self.typed(k, Type::List)? else { return Ok(false) };
        let length = self.list_len_at(p);
        let count = count.min(length);
        emit(ListPart::Len(count));
        let mut show = |entry: PackedEntry<'_>| emit(ListPart::Element(entry.text(&mut [0; 20])));
        if count == length {
            self.emit_range(p, if end == ListEnd::Front { 0 } else { length - 1 }, count, end, show);
            self.remove_at(k, self.before(p));
            self.changed(k, count - 1);
            return Ok(true);
        }
        match self.encoding(p) {
            Some(Encoding::Big) => self.with_chain(p, |chain, t| chain.take(t, end, count, show)),
            _ => self.edit_packed(k, &mut p, 0, |node| {
                for _ in 0..count {
                    show(pop_from(node, end));
                }
            }),
        }
        if count > 0 {
            self.settle_list(k, &mut p, count);
        }
        Ok(true)
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
        let Some(mut p) = self.typed(from, Type::List)? else { return Ok(false) };
        let same = (from.db, from.bytes) == (to.db, to.bytes);
        if !same {
            // The destination is looked at before anything changes; looking may remove it, and a place is valid only until
            // a change.
            self.typed(to, Type::List)?;
            p = self.typed(from, Type::List)?.expect("it was there just now");
        }
        let mut moved = self.local.lend_moved();
        moved.clear();
        self.pop_at(from, &mut p, from_end, |entry| moved.extend_from_slice(entry.text(&mut [0; 20])));
        if same {
            // The key stays, and its expiry, even if this was its only element.
            self.push_all(from, &mut p, to_end, std::iter::once(&moved[..]));
            self.changed(from, 1);
        } else {
            self.settle_list(from, &mut p, 1);
            self.list_push(to, to_end, std::iter::once(&moved[..]), false)?;
        }
        emit(&moved);
        if moved.capacity() <= MOVED_KEPT {
            self.local.return_moved(moved);
        }
        Ok(true)
    }

    /// Makes a list of these elements in the place of whatever the key held, without expiry; gives its length. Without
    /// elements the key is removed.
    pub fn list_store<'e>(&mut self, k: &Key<'_>, elements: impl Iterator<Item = &'e [u8]> + Clone) -> u64 {
        self.remove(k);
        if elements.clone().next().is_none() {
            return 0;
        }
        let length = self.create_list(k, ListEnd::Back, elements);
        self.changed(k, length);
        length
    }

    /// Number of elements, 0 without the key. For readers: counts a hit or miss.
    pub fn list_len(&mut self, k: &Key<'_>) -> Result<u64, WrongType> {
        Ok(self.typed_read(k, Type::List)?.map_or(0, |p| self.list_len_at(p)))
    }

    /// Whether there is such a list. For writers: no hit or miss is counted.
    pub fn list_exists(&mut self, k: &Key<'_>) -> Result<bool, WrongType> {
        Ok(self.typed(k, Type::List)?.is_some())
    }

    /// Shows the element at an index, counted from the end where it is negative; false if there is none.
    pub fn list_get(&mut self, k: &Key<'_>, index: i64, emit: impl FnOnce(&[u8])) -> Result<bool, WrongType> {
        let Some(p) = self.typed_read(k, Type::List)? else { return Ok(false) };
        let Some(at) = position(index, self.list_len_at(p)) else { return Ok(false) };
        let show = |entry: PackedEntry<'_>| emit(entry.text(&mut [0; 20]));
        match self.encoding(p) {
            Some(Encoding::Big) => self.with_view(p, |mut view| view.get(at, show)),
            _ => {
                let node = self.packed(p);
                show(node.get(node.nth(at as usize).expect("an index below the length")));
            }
        }
        Ok(true)
    }

    /// Shows the elements from `start` to `stop`, both included, counted from the end where negative.
    pub fn list_range(
        &mut self,
        k: &Key<'_>,
        start: i64,
        stop: i64,
        mut emit: impl FnMut(ListPart<'_>),
    ) -> Result<(), WrongType> {
        let Some(p) = self.typed_read(k, Type::List)? else {
            emit(ListPart::Len(0));
            return Ok(());
        };
        let (first, count) = clip(start, stop, self.list_len_at(p));
        emit(ListPart::Len(count));
        self.emit_range(p, first, count, ListEnd::Front, |entry| emit(ListPart::Element(entry.text(&mut [0; 20]))));
        Ok(())
    }

    /// Shows all elements in order. No hit or miss is counted.
    pub fn list_for_each(&mut self, k: &Key<'_>, mut show: impl FnMut(&[u8])) -> Result<(), WrongType> {
        if let Some(p) = self.typed(k, Type::List)? {
            let all = self.list_len_at(p);
            self.emit_range(p, 0, all, ListEnd::Front, |entry| show(entry.text(&mut [0; 20])));
        }
        Ok(())
    }

    /// Shows positions of equal elements, from an end on: `skip` are passed over, `count` shown at most, `compare`
    /// elements looked at.
    pub fn list_positions(
        &mut self,
        k: &Key<'_>,
        element: &[u8],
        from: ListEnd,
        (skip, count, compare): (u64, u64, u64),
        mut emit: impl FnMut(u64),
    ) -> Result<(), WrongType> {
        let Some(p) = self.typed_read(k, Type::List)? else { return Ok(()) };
        let mut search = Search { needle: Coded::of(element), from, skip, count, compare };
        match self.encoding(p) {
            Some(Encoding::Big) => self.with_view(p, |mut view| view.search(&search, emit)),
            _ => {
                let node = self.packed(p);
                let last = node.len() - 1;
                search.node(node, |at| emit(if from == ListEnd::Front { at } else { last - at } as u64));
            }
        }
        Ok(())
    }

    /// Length of a list.
    #[inline]
    pub(super) fn list_len_at(&self, p: Found) -> u64 {
        match self.encoding(p) {
            Some(Encoding::Big) => self.big_ref(p, |body, _| chain(body).len()),
            _ => self.packed(p).len() as u64,
        }
    }

    /// The settings of the moment.
    #[inline(always)]
    pub(super) fn list_shape(&self) -> Shape {
        let shapes = self.store.shapes();
        Shape::of(shapes.list_fill(), shapes.list_depth(), shapes.list_alone())
    }

    /// Changes a chain.
    #[inline]
    pub(super) fn with_chain<R>(
        &mut self,
        p: Found,
        work: impl FnOnce(&mut Quicklist, &mut ListCtx<'_, '_>) -> R,
    ) -> R {
        let shape = self.list_shape();
        let mut press = self.local.lend_compress();
        let done = self.big(p, |body, hands| {
            let Collection::List(chain) = body else { unreachable!("a list's root is a chain") };
            work(chain, &mut ListCtx { write: hands, scratch: &mut press, shape })
        });
        press.relax();
        self.local.return_compress(press);
        done
    }

    /// Reads a chain.
    pub(super) fn with_view<R>(&mut self, p: Found, read: impl FnOnce(QuicklistReader<'_>) -> R) -> R {
        let mut press: Box<CompressScratch> = self.local.lend_compress();
        let done = self.big_ref(p, |body, ctx| read(QuicklistReader { list: chain(body), ctx, scratch: &mut press }));
        press.relax();
        self.local.return_compress(press);
        done
    }

    /// Turns a packed list into a chain.
    pub(super) fn make_chain(&mut self, k: &Key<'_>, p: &mut Found) {
        self.make_big(k, p, |hands, node| Collection::List(Quicklist::of_node(hands, node)));
    }

    /// Follows a removal of `count` elements: an empty list goes, a small chain becomes packed.
    #[inline(never)]
    pub(super) fn settle_list(&mut self, k: &Key<'_>, p: &mut Found, count: u64) {
        let (left, is_single) = match self.encoding(*p) {
            Some(Encoding::Big) => self.big_ref(*p, |body, _| (chain(body).len(), chain(body).is_single())),
            _ => (self.packed(*p).len() as u64, false),
        };
        if left == 0 {
            self.remove_at(k, self.before(*p));
            return self.changed(k, count - 1);
        }
        self.changed(k, count);
        if is_single {
            self.repack(k, p);
        }
    }

    #[cold]
    fn repack(&mut self, k: &Key<'_>, p: &mut Found) {
        let (shape, mut scratch) = (self.list_shape(), self.local.lend_scratch());
        let small = self.big_ref(*p, |body, ctx| match chain(body).single(ctx, shape) {
            Some(node) => {
                compact(node, &mut scratch);
                true
            }
            None => false,
        });
        if small {
            self.make_small(k, p, Encoding::Packed, &scratch);
        }
        self.local.return_scratch(scratch);
    }

    /// Takes an element out of an end's node if nothing else follows from it; else gives `emit` back, and has done nothing.
    #[inline(always)]
    fn pop_near<F: FnOnce(PackedEntry<'_>)>(
        &mut self,
        p: Found,
        link: Link,
        end: ListEnd,
        emit: F,
    ) -> Result<Popped, F> {
        let (shape, log) = (self.list_shape(), self.store.log());
        let shown = self.before(p).shown;
        let (body, access) = self.held.at_mut(p.shard).change_near(link.place, shown);
        chain_mut(body).pop_in_place(log, access, &shape, end, emit)
    }

    /// Adds elements to a chain; gives its length.
    #[inline(always)]
    fn push_big<'e>(
        &mut self,
        k: &Key<'_>,
        mut p: Found,
        link: Link,
        end: ListEnd,
        mut elements: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> u64 {
        let (shape, log) = (self.list_shape(), self.store.log());
        let (mut added, mut length) = (0, 0);
        let shown = self.before(p).shown;
        let left = loop {
            let left = elements.clone();
            let Some(element) = elements.next() else { break None };
            let (body, access) = self.held.at_mut(p.shard).change_near(link.place, shown);
            let chain = chain_mut(body);
            let pushed = match Short::of(element) {
                Some(short) => chain.push_in_place(log, access, &shape, end, &short),
                None => chain.push_in_place(log, access, &shape, end, &Coded::of(element)),
            };
            length = match pushed {
                Pushed::Yes => chain.len(),
                Pushed::Full => self.push_apart(p, link, &shape, end, element),
                Pushed::No => break Some(left),
            };
            added += 1;
        };
        if let Some(left) = left {
            let (more, all) = self.push_all(k, &mut p, end, left);
            (added, length) = (added + more, all);
        }
        self.changed_at(k, p, added);
        length
    }

    /// Begins a node at an end with an element; gives the list's length.
    #[inline(never)]
    fn push_apart(&mut self, p: Found, link: Link, shape: &Shape, end: ListEnd, element: &[u8]) -> u64 {
        self.big_at(p, link, |body, hands| {
            let chain = chain_mut(body);
            chain.push_in_new_node(hands, shape, end, &Coded::of(element));
            chain.len()
        })
    }

    /// Drops the node that a pop has emptied.
    #[inline(never)]
    fn drop_empty(&mut self, p: Found, link: Link, end: ListEnd) {
        self.big_at(p, link, |body, hands| chain_mut(body).drop_empty(hands, end));
    }

    #[inline(never)]
    fn pop_at(&mut self, k: &Key<'_>, p: &mut Found, end: ListEnd, show: impl FnOnce(PackedEntry<'_>)) {
        match self.encoding(*p) {
            Some(Encoding::Big) => {
                self.with_chain(*p, |chain, t| chain.pop(t, end, show));
            }
            _ => self.edit_packed(k, p, 0, |node| show(pop_from(node, end))),
        }
    }

    /// Adds elements to a list, which may become a chain on the way; gives how many, and the new length. Counts no change.
    #[inline(never)]
    fn push_all<'e>(
        &mut self,
        k: &Key<'_>,
        p: &mut Found,
        end: ListEnd,
        mut elements: impl Iterator<Item = &'e [u8]> + Clone,
    ) -> (u64, u64) {
        let mut added = 0;
        if self.encoding(*p) == Some(Encoding::Packed) {
            let shape = self.list_shape();
            loop {
                let rest = elements.clone();
                let (element, node) = (elements.next(), self.packed(*p));
                let Some(element) = element else { return (added, node.len() as u64) };
                let entry = Coded::of(element);
                if !shape.takes(node.len(), node.bytes(), entry.size()) {
                    self.make_chain(k, p);
                    elements = rest;
                    break;
                }
                self.edit_packed(k, p, entry.size(), |node| push_at(node, end, &entry));
                added += 1;
            }
        }
        self.with_chain(*p, |chain, t| {
            for element in elements {
                chain.push(t, end, &Coded::of(element));
                added += 1;
            }
            (added, chain.len())
        })
    }

    /// Makes a list of at least one element under a key that is free. Counts no change.
    fn create_list<'e>(&mut self, k: &Key<'_>, end: ListEnd, elements: impl Iterator<Item = &'e [u8]> + Clone) -> u64 {
        let (shape, mut entries, mut bytes) = (self.list_shape(), 0, 0);
        for element in elements.clone() {
            let size = Coded::of(element).size();
            if !shape.takes(entries, bytes, size) {
                break;
            }
            (entries, bytes) = (entries + 1, bytes + size);
        }
        let mut rest = elements;
        let mut p = if entries == 0 {
            self.put_big(k, None, Type::List, |_| Collection::List(Quicklist::empty()))
        } else {
            let mut value = self.local.lend_scratch();
            value.clear();
            value.resize(buffer_bytes(bytes), 0);
            let mut node = NodeMut::init(&mut value, Grow::Back).expect("the bytes were counted");
            rest.by_ref().take(entries).for_each(|element| push_at(&mut node, end, &Coded::of(element)));
            let p = self.put_small(k, None, Type::List, Encoding::Packed, &value);
            self.local.return_scratch(value);
            p
        };
        self.push_all(k, &mut p, end, rest).1
    }

    /// Shows `count` elements from position `first` on, towards the other end.
    fn emit_range(&mut self, p: Found, first: u64, count: u64, from: ListEnd, mut show: impl FnMut(PackedEntry<'_>)) {
        if count == 0 {
            return;
        }
        match self.encoding(p) {
            Some(Encoding::Big) => self.with_view(p, |mut view| view.range(first, count, from, show)),
            _ => {
                emit_from(self.packed(p), Some(first as usize), count as usize, from, &mut show);
            }
        }
    }
}

/// A moved element's buffer that is larger is given back.
const MOVED_KEPT: usize = 256 << 10;

fn chain(body: &Collection) -> &Quicklist {
    let Collection::List(chain) = body else { unreachable!("a list's root is a chain") };
    chain
}

#[inline]
fn chain_mut(body: &mut Collection) -> &mut Quicklist {
    let Collection::List(chain) = body else { unreachable!("a list's root is a chain") };
    chain
}

/// The position that an index means in a list of this length.
pub(super) fn position(index: i64, length: u64) -> Option<u64> {
    let at = if index < 0 { index.checked_add_unsigned(length)? } else { index };
    u64::try_from(at).ok().filter(|at| *at < length)
}

/// The first position and the number of elements from `start` to `stop`.
pub(super) fn clip(start: i64, stop: i64, length: u64) -> (u64, u64) {
    let place = |at: i64| if at < 0 { at.saturating_add_unsigned(length) } else { at };
    let start = place(start).max(0) as u64;
    let end = u64::try_from(place(stop)).map_or(0, |stop| stop.saturating_add(1).min(length));
    if start >= end { (0, 0) } else { (start, end - start) }
}

#[cfg(test)]
mod tests {
    use super::{clip, position};

    #[test]
    fn positions_clip_as_the_peer_clips_them() {
        let cases: [(i64, i64, (u64, u64)); 12] = [
            (0, -1, (0, 5)),
            (0, 0, (0, 1)),
            (-2, -1, (3, 2)),
            (1, 3, (1, 3)),
            (3, 1, (0, 0)),
            (5, 9, (0, 0)),
            (-100, 100, (0, 5)),
            (0, -6, (0, 0)),
            (-6, -5, (0, 1)),
            (i64::MIN, i64::MAX, (0, 5)),
            (i64::MAX, i64::MAX, (0, 0)),
            (i64::MIN, i64::MIN, (0, 0)),
        ];
        for (start, stop, want) in cases {
            assert_eq!(clip(start, stop, 5), want, "{start} {stop}");
        }
        assert_eq!([position(0, 5), position(-5, 5), position(4, 5)], [Some(0), Some(0), Some(4)]);
        assert_eq!([position(5, 5), position(-6, 5), position(i64::MIN, 5)], [None; 3]);
    }
}
