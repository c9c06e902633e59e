//! Reading a whole collection over several holds of its shard, as it was when the reader began.
//!
//! ```text
//!   its shard held:  begin_reading --> CollectionReader      then, with no shard held before:
//!   read_.._on:        find the root, try its shard --> some thousand elements --> let go    (again until all were shown)
//! ```
//! Whatever becomes of the key meanwhile, the root stays where its number says until the last reader has ended. A
//! collection under the bounds is shown in one hold.

use std::time::Instant;

use varve_collection::list::{NodePart, Search, emit_from};
use varve_collection::stream::StreamPart;
use varve_collection::zset::SortedSet;
use varve_collection::{Collection, ReaderBytes, ReaderNumber, WriteCtx};
use varve_packed::node::{Coded, PackedEntry};

use super::{Found, Tx};
use crate::ListEnd;
use crate::keyspace::store::Store;
use crate::state::key::Key;
use crate::state::link::Link;
use crate::state::readers::{CollectionReader, ReadBounds};
use crate::state::types::{Type, WrongType};

/// Bytes of elements from which on it is: they are copied in a fifth of a millisecond.
const LONG_BYTES: u64 = 2 << 20;
/// Bytes of elements that are shown in one hold.
const HOLD_BYTES: usize = 128 << 10;
/// Leaves that one hold looks at, where most are empty.
const HOLD_LEAVES: usize = 1024;

/// How far a reader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOn {
    /// The shard is busy: nothing was shown.
    Busy,
    /// There is more. Of a hash or a set all elements whose hashes are below this one were shown, and no other.
    More(u64),
    /// All was shown: the reader has ended.
    All,
}

/// The elements that one hold has shown so far, and how many it may.
struct HoldBudget {
    elements: usize,
    bytes: usize,
    elements_max: usize,
}

impl HoldBudget {
    fn new(store: &Store) -> HoldBudget {
        HoldBudget { elements: 0, bytes: 0, elements_max: store.ground().readers().bounds().hold_elements }
    }

    /// Counts an element; whether there may be more.
    #[inline]
    fn takes(&mut self, parts: [usize; 2]) -> bool {
        self.takes_many(1, parts[0] + parts[1])
    }

    /// Counts elements of these bytes together; whether there may be more.
    #[inline]
    fn takes_many(&mut self, elements: usize, bytes: usize) -> bool {
        self.elements += elements;
        self.bytes += bytes;
        self.elements < self.elements_max && self.bytes < HOLD_BYTES
    }
}

/// Whether showing all of a collection takes too long for one hold.
pub(super) fn is_long(collection: &Collection, bounds: ReadBounds) -> bool {
    let (len, bytes) = match collection {
        Collection::Hash(elements) | Collection::Set(elements) => (elements.len() as u64, elements.object_bytes()),
        Collection::List(list) => (list.len(), list.object_bytes()),
        Collection::Zset(set) => (set.len() as u64, set.object_bytes()),
        Collection::Stream(stream) => (stream.len() + stream.parts_behind(bounds.long_elements), stream.object_bytes()),
    };
    len >= bounds.long_elements || bytes >= LONG_BYTES
}

/// Whether showing `count` of `len` elements, which have `bytes` bytes, takes too long for one hold, going by their average.
fn is_long_range((count, len): (u64, u64), bytes: u64, bounds: ReadBounds) -> bool {
    // The average is not computed: a division of this width costs as much as the rest of a short ZRANGE's search.
    let is_large = || u128::from(bytes) * u128::from(count) >= u128::from(LONG_BYTES) * u128::from(len.max(1));
    count >= bounds.long_elements || is_large()
}

/// Whether showing the positions `from..to` of a sorted set takes too long for one hold.
#[inline]
pub(super) fn is_long_zset_range(set: &SortedSet, (from, to): (u64, u64), bounds: ReadBounds) -> bool {
    from < to && is_long_range((to - from, set.len() as u64), set.object_bytes(), bounds)
}

/// A reader of a range of a list.
#[derive(Debug)]
pub struct ListReader {
    reader: CollectionReader,
    from: ListEnd,
}

/// A reader of a range of a sorted set.
#[derive(Debug)]
pub struct ZsetReader {
    reader: CollectionReader,
    rev: bool,
}

impl ZsetReader {
    /// Bytes that the set keeps for it ([`CollectionReader::kept_bytes`]).
    pub fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}

/// A reader of a range of a stream.
#[derive(Debug)]
pub struct EntryReader {
    reader: CollectionReader,
    rev: bool,
}

impl EntryReader {
    /// Bytes that the stream keeps for it ([`CollectionReader::kept_bytes`]).
    pub fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}

impl ListReader {
    /// Bytes that the list keeps for it ([`CollectionReader::kept_bytes`]).
    pub fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}

/// A search in a list over several holds, as it stands.
#[derive(Debug)]
pub struct ListSearch {
    /// The element to search for.
    pub needle: Vec<u8>,
    /// Matches to pass over.
    pub skip: u64,
    /// Matches to show at most.
    pub count: u64,
    /// Elements to compare at most.
    pub compare: u64,
    /// Elements of the list when the search began.
    pub len: u64,
    /// Elements that were compared.
    pub compared: u64,
}

impl Store {
    /// Reads collections over several holds from other sizes on, for tests of few elements.
    pub fn set_read_bounds(&self, bounds: ReadBounds) {
        self.ground().readers().set_bounds(bounds);
    }

    /// Whether somebody reads a collection over several holds.
    pub fn has_readers(&self) -> bool {
        self.ground().readers().any()
    }
}

impl Tx<'_> {
    /// True if any shard is held.
    pub fn holds_shards(&self) -> bool {
        self.held.ids().next().is_some()
    }

    /// Nanoseconds for which the shard was held for the last part that a reader was shown, if that was not asked since.
    pub fn take_part_ns(&mut self) -> Option<u64> {
        self.local.take_part_ns()
    }

    /// Begins to read the collection at a key, whose shard is held, over several holds; `None` if there is none, or one
    /// that is short enough to be shown at once. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn begin_reading(&mut self, k: &Key<'_>, ty: Type) -> Result<Option<CollectionReader>, WrongType> {
        let Some(opened) = self.open(k, ty)? else { return Ok(None) };
        let Some(link) = opened.link else { return Ok(None) };
        let ground = self.store.ground();
        let shard = self.held.at_mut(opened.at.shard);
        if !is_long(&shard.root(link.place).body, ground.readers().bounds()) {
            return Ok(None);
        }
        Ok(Some(self.begin_elements_reading((opened.at, link))))
    }

    /// Begins to read all of a big hash or set that was opened.
    pub(super) fn begin_elements_reading(&mut self, (at, link): (Found, Link)) -> CollectionReader {
        let begin = |collection: &mut Collection, (number, bytes)| match collection {
            Collection::Hash(elements) | Collection::Set(elements) => elements.begin_reading(number, bytes),
            _ => unreachable!("elements in an order of their own"),
        };
        self.held.at_mut(at.shard).begin_reading(self.store.ground(), link.place, ReaderBytes::default(), begin)
    }

    /// Begins to read `count` elements of a big list that was opened, from position `first` on, if that takes too long for
    /// one hold.
    pub(super) fn begin_list_reading(
        &mut self,
        (at, link): (Found, Link),
        (first, count): (u64, u64),
        from: ListEnd,
    ) -> Option<ListReader> {
        let ground = self.store.ground();
        let list = self.held.at(at.shard).root(link.place).body.list();
        if count == 0 || !is_long_range((count, list.len()), list.object_bytes(), ground.readers().bounds()) {
            return None;
        }
        Some(self.begin_list_part((at, link), (first, count), from))
    }

    /// Begins to read `count` elements of a big list that was opened, at least one, from position `first` on.
    pub(super) fn begin_list_part(
        &mut self,
        (at, link): (Found, Link),
        (first, count): (u64, u64),
        from: ListEnd,
    ) -> ListReader {
        let begin = |list: &mut Collection, reader| list.list_mut().begin_reading(reader, first, count, from);
        ListReader {
            reader: self.held.at_mut(at.shard).begin_reading(
                self.store.ground(),
                link.place,
                ReaderBytes::default(),
                begin,
            ),
            from,
        }
    }

    /// Begins to read the positions `from..to` of a big sorted set that was opened, at least one, downwards if `rev`.
    pub(super) fn begin_zset_part(
        &mut self,
        (at, link): (Found, Link),
        (from, to): (u64, u64),
        rev: bool,
    ) -> ZsetReader {
        let first = if rev { to - 1 } else { from };
        let begin = |set: &mut Collection, reader| set.zset_mut().begin_reading(reader, first, to - from, rev);
        ZsetReader {
            reader: self.held.at_mut(at.shard).begin_reading(
                self.store.ground(),
                link.place,
                ReaderBytes::default(),
                begin,
            ),
            rev,
        }
    }

    /// Begins to read the positions `from..to` of a stream that was opened, downwards if `rev`, if that takes too long for one
    /// hold.
    pub(super) fn begin_entry_reading(
        &mut self,
        (at, link): (Found, Link),
        (from, to): (u64, u64),
        rev: bool,
    ) -> Option<EntryReader> {
        let (ground, count) = (self.store.ground(), to - from);
        let stream = self.held.at(at.shard).root(link.place).body.stream();
        if count == 0 || !is_long_range((count, stream.len()), stream.object_bytes(), ground.readers().bounds()) {
            return None;
        }
        Some(self.begin_entry_part((at, link), (from, to), rev))
    }

    /// Begins to read the positions `from..to` of a stream that was opened, at least one, downwards if `rev`.
    pub(super) fn begin_entry_part(
        &mut self,
        (at, link): (Found, Link),
        (from, to): (u64, u64),
        rev: bool,
    ) -> EntryReader {
        let first = if rev { to - 1 } else { from };
        let begin = |stream: &mut Collection, reader| stream.stream_mut().begin_reading(reader, first, to - from, rev);
        let (ground, shard) = (self.store.ground(), self.held.at_mut(at.shard));
        EntryReader { reader: shard.begin_reading(ground, link.place, ReaderBytes::default(), begin), rev }
    }

    /// Shows the reader of a stream some more entries.
    pub fn read_entries_on(&mut self, reader: &mut EntryReader, mut show: impl FnMut(StreamPart<'_>)) -> ReadOn {
        let (mut budget, rev) = (HoldBudget::new(self.store), reader.rev);
        let read = self.with_reader_root(&mut reader.reader, |collection, ctx, number| {
            let show = |part: StreamPart<'_>| {
                show(part);
                budget.takes_many(part.len(), part.node.bytes())
            };
            collection.stream_mut().read_on(ctx.read(), (number, rev), show).then_some(())
        });
        match read {
            None => ReadOn::Busy,
            Some(Some(())) => ReadOn::More(0),
            Some(None) => ReadOn::All,
        }
    }

    /// Shows the reader of a sorted set some more members.
    pub fn read_members_on(&mut self, reader: &mut ZsetReader, mut show: impl FnMut(&[u8], f64)) -> ReadOn {
        let (mut budget, rev) = (HoldBudget::new(self.store), reader.rev);
        let read = self.with_reader_root(&mut reader.reader, |collection, ctx, number| {
            let show = |member: &[u8], score: f64| {
                show(member, score);
                budget.takes([member.len(), size_of::<f64>()])
            };
            collection.zset_mut().read_on(ctx, (number, rev), show).then_some(())
        });
        match read {
            None => ReadOn::Busy,
            Some(Some(())) => ReadOn::More(0),
            Some(None) => ReadOn::All,
        }
    }

    /// Shows the reader of a list some more elements.
    pub fn read_range_on(&mut self, reader: &mut ListReader, mut show: impl FnMut(PackedEntry<'_>)) -> ReadOn {
        let mut budget = HoldBudget::new(self.store);
        let from = reader.from;
        self.read_nodes_on(reader, |NodePart { node, offset, many }| {
            let mut wants_more = true;
            let shown = emit_from(node, offset, many, from, &mut |entry| {
                wants_more = budget.takes([entry.text_len(), 0]);
                show(entry);
            });
            (shown, wants_more)
        })
    }

    /// Goes on with a search in a list: shows the positions of equal elements.
    pub fn search_on(&mut self, reader: &mut ListReader, search: &mut ListSearch, mut emit: impl FnMut(u64)) -> ReadOn {
        let ListSearch { needle, skip, count, compare, len, compared } = search;
        let needle = Coded::of(needle);
        let mut budget = HoldBudget::new(self.store);
        let from = reader.from;
        let read = self.read_nodes_on(reader, |NodePart { node, many, .. }| {
            debug_assert_eq!(many, node.len(), "a search reads all of a list");
            let mut search = Search { needle, from, skip: *skip, count: *count, compare: *compare };
            search.node(node, |at| {
                let distance = *compared + at as u64;
                emit(if from == ListEnd::Front { distance } else { *len - 1 - distance });
            });
            (*skip, *count, *compare) = (search.skip, search.count, search.compare);
            *compared += many as u64;
            let wants_more = budget.takes_many(many, node.bytes()) && *count > 0 && *compare > 0;
            (many as u64, wants_more)
        });
        if *count == 0 || *compare == 0 { ReadOn::All } else { read }
    }

    /// Shows the reader of a list the next nodes.
    fn read_nodes_on(&mut self, reader: &mut ListReader, show: impl FnMut(NodePart<'_>) -> (u64, bool)) -> ReadOn {
        let ListReader { reader, from } = reader;
        let read = self.with_compress(|tx, scratch| {
            tx.with_reader_root(reader, |collection, ctx, number| {
                collection.list_mut().read_on(ctx.read(), scratch, (number, *from), show).then_some(())
            })
        });
        match read {
            None => ReadOn::Busy,
            Some(Some(())) => ReadOn::More(0),
            Some(None) => ReadOn::All,
        }
    }

    /// Shows a reader of a hash or a set some more elements, their values and when they expire. The shards that were held are let go, and
    /// that of the collection is held afterwards.
    pub fn read_elements_on(
        &mut self,
        reader: &mut CollectionReader,
        mut show: impl FnMut(PackedEntry<'_>, PackedEntry<'_>, Option<i64>),
    ) -> ReadOn {
        let mut budget = HoldBudget::new(self.store);
        let read = self.with_reader_root(reader, |collection, ctx, number| {
            let (Collection::Hash(elements) | Collection::Set(elements)) = collection else {
                unreachable!("elements in order of their hashes")
            };
            elements.read_on(ctx, number, HOLD_LEAVES, |name, value, expiry_ms| {
                let lengths = [name.text_len(), value.text_len()];
                show(name, value, expiry_ms);
                budget.takes(lengths)
            })
        });
        match read {
            None => ReadOn::Busy,
            Some(Some(below)) => ReadOn::More(below),
            Some(None) => ReadOn::All,
        }
    }

    /// Holds the shard of a reader's collection and reads on; `None`, and nothing is done, if it is busy. A reader that
    /// was shown all, for which `read` returns `None`, has ended.
    pub(super) fn with_reader_root<R>(
        &mut self,
        reader: &mut CollectionReader,
        read: impl FnOnce(&mut Collection, &mut WriteCtx<'_>, ReaderNumber) -> Option<R>,
    ) -> Option<Option<R>> {
        let (store, id) = (self.store, reader.id());
        debug_assert!(!reader.has_ended(), "a reader that has ended reads nothing");
        let at = store.collections().get(id).expect("the root of a reader stays");
        // RENAME moves a root: it is where it was found if that is still so with the shard held.
        if !self.try_hold_one(at.shard as u16) || store.collections().get(id) != Some(at) {
            return None;
        }
        let begin = Instant::now();
        let (ground, appender) = (store.ground(), self.local.appender());
        let shard = self.held.at_mut(0);
        let number = reader.number();
        let shown = shard.with_root(ground, appender, at.place, |root, ctx| read(&mut root.body, ctx, number));
        if shown.is_none() {
            reader.end();
            shard.follow_reader_end(ground, at.place);
        }
        self.local.note_part_ns(begin.elapsed().as_nanos() as u64);
        Some(shown)
    }
}
