//! Streams: a view for reading and one for changing. A stream is big from its first entry on, and its key stays when it
//! has none.

use varve_collection::stream::{
    Groups, NodeLimits, Stream, StreamEntry, StreamGroup, StreamId, StreamReader, StreamState, Trim,
};
use varve_collection::{Collection, WriteCtx};

use super::Tx;
use super::opened::{Opened, big};
use super::reading::EntryReader;
use crate::state::key::Key;
use crate::state::types::{Type, WrongType};

const IS_BIG: &str = "a stream has a root";

/// A stream to change, its shard held.
pub struct StreamWriter<'a, 'h> {
    stream: &'a mut Stream,
    ctx: &'a mut WriteCtx<'h>,
    limits: NodeLimits,
    has_changed: bool,
}

impl<'a, 'h> StreamWriter<'a, 'h> {
    pub(super) fn new(stream: &'a mut Stream, ctx: &'a mut WriteCtx<'h>, limits: NodeLimits) -> StreamWriter<'a, 'h> {
        StreamWriter { stream, ctx, limits, has_changed: false }
    }

    /// The stream, to read.
    pub fn read(&self) -> StreamReader<'_> {
        StreamReader { stream: self.stream, ctx: self.ctx.read() }
    }

    /// The facts that do not follow from the entries.
    pub fn state(&self) -> StreamState {
        self.stream.state()
    }

    /// Sets these facts.
    pub fn set_state(&mut self, state: StreamState) {
        self.has_changed = true;
        self.stream.set_state(state);
    }

    /// Adds an entry with a greater ID than any other has ever had.
    pub fn add<'f>(&mut self, id: StreamId, fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone) {
        self.has_changed = true;
        self.stream.add(self.ctx, self.limits, id, fields);
    }

    /// Removes an entry; false if there is none with this ID.
    pub fn remove(&mut self, id: StreamId) -> bool {
        let removed = self.stream.remove(self.ctx, self.limits, id);
        self.has_changed |= removed;
        removed
    }

    /// Adds a group; false if there is one of this name.
    pub fn add_group(&mut self, name: &[u8], group: StreamGroup) -> bool {
        let added = self.stream.add_group(name, group);
        self.has_changed |= added;
        added
    }

    /// Gives the stream, which has no groups, these.
    pub fn set_groups(&mut self, groups: Groups) {
        self.has_changed = true;
        self.stream.set_groups(groups);
    }

    /// Removes a group; false if there is none of this name.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let removed = self.stream.remove_group(name);
        self.has_changed |= removed;
        removed
    }

    /// Changes a group; None without it.
    pub fn change_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut StreamGroup) -> R) -> Option<R> {
        let done = self.stream.change_group(name, change);
        self.has_changed |= done.is_some();
        done
    }

    /// Gives entries to a group ([`Stream::deliver`]).
    pub fn deliver(&mut self, name: &[u8], to: (Option<u32>, i64), count: u64, show: impl FnMut(StreamEntry<'_>)) {
        self.has_changed = true;
        self.stream.deliver(self.ctx.read(), name, to, count, show);
    }

    /// Removes entries from the least ID on ([`Stream::trim`]); the number of them.
    pub fn trim(&mut self, trim: Trim, whole_nodes: Option<u64>) -> u64 {
        let gone = self.stream.trim(self.ctx, trim, whole_nodes);
        self.has_changed |= gone > 0;
        gone
    }
}

impl Tx<'_> {
    /// Reads the stream at a key; `None` without the key. For readers: counts a hit or miss.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type; so with all operations on streams.
    pub fn stream<R>(&mut self, k: &Key<'_>, read: impl FnOnce(StreamReader<'_>) -> R) -> Result<Option<R>, WrongType> {
        let opened = self.open_read(k, Type::Stream)?;
        Ok(opened.map(|opened| read(self.stream_at(opened))))
    }

    /// Reads the stream at a key like [`Tx::stream`]. For writers: no hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn stream_peek<R>(
        &mut self,
        k: &Key<'_>,
        read: impl FnOnce(StreamReader<'_>) -> R,
    ) -> Result<Option<R>, WrongType> {
        let opened = self.open(k, Type::Stream)?;
        Ok(opened.map(|opened| read(self.stream_at(opened))))
    }

    fn stream_at(&self, opened: Opened) -> StreamReader<'_> {
        let (collection, ctx) = big(&self.held, self.store, opened.at, opened.link.expect(IS_BIG));
        StreamReader { stream: collection.stream(), ctx }
    }

    /// Begins to read the entries from one ID to another over several holds, at most `count` of them and from the greatest
    /// down if `rev`, if that takes too long for one hold; gives their number too. No hit or miss is counted.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn begin_reading_stream(
        &mut self,
        k: &Key<'_>,
        (low, high): (StreamId, StreamId),
        rev: bool,
        count: u64,
    ) -> Result<Option<(EntryReader, u64)>, WrongType> {
        let Some(opened) = self.open(k, Type::Stream)? else { return Ok(None) };
        let StreamReader { stream, ctx } = self.stream_at(opened);
        let from = stream.rank(ctx, low);
        let to = high.next().map_or(stream.len(), |behind| stream.rank(ctx, behind));
        let count = count.min(to.saturating_sub(from));
        let range = if rev { (to.max(count) - count, to.max(count)) } else { (from, from + count) };
        let reader = self.begin_entry_reading((opened.at, opened.link.expect(IS_BIG)), range, rev);
        Ok(reader.map(|reader| (reader, count)))
    }

    /// Changes the stream at a key; `None` without the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn stream_mut<R>(
        &mut self,
        k: &Key<'_>,
        change: impl FnOnce(&mut StreamWriter<'_, '_>) -> R,
    ) -> Result<Option<R>, WrongType> {
        let Some(w) = self.open_mut(k, Type::Stream)? else { return Ok(None) };
        let limits = self.store.shapes().stream();
        let (done, has_changed) = self.change_big(&w, |collection, ctx| {
            let mut writer = StreamWriter::new(collection.stream_mut(), ctx, limits);
            let done = change(&mut writer);
            (done, writer.has_changed)
        });
        if has_changed {
            self.wrote(k);
        }
        Ok(Some(done))
    }

    /// Makes a stream without entries at a key that is not there.
    pub fn make_stream(&mut self, k: &Key<'_>) {
        self.put_big(k, None, Type::Stream, |_| Collection::Stream(Box::new(Stream::empty())));
        self.wrote(k);
    }
}
