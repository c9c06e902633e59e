//! Lists to read: a view that has resolved type and encoding, and the operations that ask it.
//!
//! ```text
//!   one packed node in the key's object  --passes the fill-->  quicklist (varve_collection::list)
//!                                        <--one node, under half a fill--
//! ```
//! Changes of a list are in `lists_mut` (its ends) and `lists_middle`.

use varve_collection::list::{QuicklistReader, Search, Shape, emit_from};
use varve_packed::node::{Coded, Node, PackedEntry};

use super::Tx;
use super::opened::{Opened, big, small};
use super::reading::ListReader;
use crate::ListEnd;
use crate::state::key::Key;
use crate::state::types::{Type, WrongType};

/// The output of an operation over several elements: first their number, then each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPart<'a> {
    /// This many elements follow.
    Len(u64),
    /// One of them.
    Element(&'a [u8]),
}

/// A list to read, its shard held.
pub(super) enum ListView<'a> {
    Packed(Node<'a>),
    Big(QuicklistReader<'a>),
}

impl ListView<'_> {
    /// Number of elements.
    pub(super) fn len(&self) -> u64 {
        match self {
            ListView::Packed(node) => node.len() as u64,
            ListView::Big(reader) => reader.list.len(),
        }
    }

    /// Whether a quicklist has one node only.
    pub(super) fn is_single(&self) -> bool {
        matches!(self, ListView::Big(reader) if reader.list.is_single())
    }

    /// The node of a quicklist that has become so small that the key's object may hold it.
    pub(super) fn single(&self, shape: Shape) -> Option<&[u8]> {
        match self {
            ListView::Packed(_) => None,
            ListView::Big(reader) => reader.list.single(reader.ctx, shape),
        }
    }

    /// Shows the element at a position, which there is.
    pub(super) fn get(&mut self, at: u64, show: impl FnOnce(PackedEntry<'_>)) {
        match self {
            ListView::Packed(node) => show(node.get(node.nth(at as usize).expect("an index below the length"))),
            ListView::Big(reader) => reader.get(at, show),
        }
    }

    /// Shows `count` elements from position `first` on, towards the other end.
    pub(super) fn range(&mut self, first: u64, count: u64, from: ListEnd, mut show: impl FnMut(PackedEntry<'_>)) {
        if count == 0 {
            return;
        }
        match self {
            ListView::Packed(node) => {
                emit_from(*node, Some(first as usize), count as usize, from, &mut show);
            }
            ListView::Big(reader) => reader.range(first, count, from, show),
        }
    }

    /// Shows the positions of equal elements.
    fn search(&mut self, mut search: Search<'_>, mut emit: impl FnMut(u64)) {
        match self {
            ListView::Packed(node) => {
                let (from, last) = (search.from, node.len() - 1);
                search.node(*node, |at| emit(if from == ListEnd::Front { at } else { last - at } as u64));
            }
            ListView::Big(reader) => reader.search(&search, emit),
        }
    }
}

impl Tx<'_> {
    /// Reads a list that was opened.
    #[inline]
    pub(super) fn read_list<R>(&mut self, opened: Opened, read: impl FnOnce(ListView<'_>) -> R) -> R {
        let Some(link) = opened.link else {
            return read(ListView::Packed(Node::open(small(&self.held, self.store, opened.at))));
        };
        self.with_compress(|tx, scratch| {
            let (collection, ctx) = big(&tx.held, tx.store, opened.at, link);
            read(ListView::Big(QuicklistReader { list: collection.list(), ctx, scratch }))
        })
    }

    /// Number of elements, 0 without the key. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; so with all operations on lists.
    pub fn list_len(&mut self, k: &Key<'_>) -> Result<u64, WrongType> {
        let Some(opened) = self.open_read(k, Type::List)? else { return Ok(0) };
        Ok(self.read_list(opened, |list| list.len()))
    }

    /// Whether there is such a list. For writers: no hit or miss is counted.
    pub fn list_exists(&mut self, k: &Key<'_>) -> Result<bool, WrongType> {
        Ok(self.open(k, Type::List)?.is_some())
    }

    /// Shows the element at an index, counted from the end where it is negative; false if there is none.
    pub fn list_get(&mut self, k: &Key<'_>, index: i64, emit: impl FnOnce(&[u8])) -> Result<bool, WrongType> {
        let Some(opened) = self.open_read(k, Type::List)? else { return Ok(false) };
        Ok(self.read_list(opened, |mut list| {
            let Some(at) = position(index, list.len()) else { return false };
            list.get(at, |entry| emit(entry.text(&mut [0; 20])));
            true
        }))
    }

    /// Shows the elements from `start` to `stop`, both included, counted from the end where negative.
    pub fn list_range(
        &mut self,
        k: &Key<'_>,
        start: i64,
        stop: i64,
        emit: impl FnMut(ListPart<'_>),
    ) -> Result<(), WrongType> {
        self.list_range_in_parts(k, (start, stop), false, emit).map(drop)
    }

    /// Shows a range like [`Tx::list_range`]. Of a range that takes
    /// too long for one hold only the length is shown, if it may come `in_parts`: its reader is given back.
    pub fn list_range_in_parts(
        &mut self,
        k: &Key<'_>,
        (start, stop): (i64, i64),
        in_parts: bool,
        mut emit: impl FnMut(ListPart<'_>),
    ) -> Result<Option<ListReader>, WrongType> {
        let Some(opened) = self.open_read(k, Type::List)? else {
            emit(ListPart::Len(0));
            return Ok(None);
        };
        if let (true, Some(link)) = (in_parts, opened.link) {
            let length = self.read_list(opened, |list| list.len());
            let range = clip(start, stop, length);
            if let Some(reader) = self.begin_list_reading((opened.at, link), range, ListEnd::Front) {
                emit(ListPart::Len(range.1));
                return Ok(Some(reader));
            }
        }
        self.read_list(opened, |mut list| {
            let (first, count) = clip(start, stop, list.len());
            emit(ListPart::Len(count));
            let show = |entry: PackedEntry<'_>| emit(ListPart::Element(entry.text(&mut [0; 20])));
            list.range(first, count, ListEnd::Front, show);
        });
        Ok(None)
    }

    /// Shows all elements in order. No hit or miss is counted.
    pub fn list_for_each(&mut self, k: &Key<'_>, mut show: impl FnMut(&[u8])) -> Result<(), WrongType> {
        if let Some(opened) = self.open(k, Type::List)? {
            self.read_list(opened, |mut list| {
                let all = list.len();
                list.range(0, all, ListEnd::Front, |entry| show(entry.text(&mut [0; 20])));
            });
        }
        Ok(())
    }

    /// Begins to search in a list from an end on over several holds, if that takes too long for one; gives its length too.
    /// It is not begun where the key holds another type, or where a match is `near`: among that many elements, `skip` of
    /// them passed over. No hit or miss is counted.
    pub fn begin_list_search(
        &mut self,
        k: &Key<'_>,
        (element, from): (&[u8], ListEnd),
        near: Option<(u64, u64)>,
    ) -> Option<(ListReader, u64)> {
        let opened = self.open(k, Type::List).ok()??;
        let link = opened.link?;
        let (mut is_near, mut len) = (false, 0);
        self.read_list(opened, |mut list| {
            len = list.len();
            if let Some((skip, compare)) = near {
                let search = Search { needle: Coded::of(element), from, skip, count: 1, compare };
                list.search(search, |_| is_near = true);
            }
        });
        let first = if from == ListEnd::Front { 0 } else { len - 1 };
        let reader = if is_near { None } else { self.begin_list_reading((opened.at, link), (first, len), from) };
        reader.map(|reader| (reader, len))
    }

    /// Shows positions of equal elements, from an end on: `skip` are passed over, `count` shown at most, `compare`
    /// elements looked at.
    pub fn list_positions(
        &mut self,
        k: &Key<'_>,
        element: &[u8],
        from: ListEnd,
        (skip, count, compare): (u64, u64, u64),
        emit: impl FnMut(u64),
    ) -> Result<(), WrongType> {
        let Some(opened) = self.open_read(k, Type::List)? else { return Ok(()) };
        let search = Search { needle: Coded::of(element), from, skip, count, compare };
        self.read_list(opened, |mut list| list.search(search, emit));
        Ok(())
    }
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
    fn positions_clip_as_in_redis() {
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
