//! Streams: a view for reading and one for changing. Their keys stay when they have no entries.
//!
//! ```text
//! small   some entries, no groups: the value of the key's object     a change is made on a copy, which is written back
//! big     nodes under a tree, and groups                             from the first change on that a small one cannot have
//! ```
//! A change says beforehand what it needs ([`StreamNeed`]). A stream that has become big stays so.

use varve_collection::stream::{
    Idempotence, NodeLimits, SmallStream, SmallStreamCopy, Stream, StreamEntry, StreamGroup, StreamGroups, StreamId,
    StreamNeed, StreamReader, StreamState, Trim,
};
use varve_collection::{Collection, WriteCtx};

use super::Tx;
use super::opened::{Opened, big, small};
use super::reading::EntryReader;
use super::writable::Writable;
use crate::state::key::Key;
use crate::state::link::Encoding;
use crate::state::types::{Type, WrongType};

/// A stream to change, its shard held.
pub struct StreamWriter<'a, 'h> {
    form: Form<'a, 'h>,
    limits: NodeLimits,
    has_changed: bool,
}

enum Form<'a, 'h> {
    Small(&'a mut SmallStreamCopy),
    Big(&'a mut Stream, &'a mut WriteCtx<'h>),
}

impl<'a, 'h> StreamWriter<'a, 'h> {
    pub(super) fn big(stream: &'a mut Stream, ctx: &'a mut WriteCtx<'h>, limits: NodeLimits) -> StreamWriter<'a, 'h> {
        StreamWriter { form: Form::Big(stream, ctx), limits, has_changed: false }
    }

    fn small(copy: &'a mut SmallStreamCopy, limits: NodeLimits) -> StreamWriter<'a, 'h> {
        StreamWriter { form: Form::Small(copy), limits, has_changed: false }
    }

    /// The stream, to read.
    pub fn read(&self) -> StreamReader<'_> {
        match &self.form {
            Form::Small(copy) => StreamReader::Small(copy.read()),
            Form::Big(stream, ctx) => StreamReader::Big(stream, ctx.read()),
        }
    }

    /// The facts that do not follow from the entries.
    pub fn state(&self) -> StreamState {
        self.read().state()
    }

    /// Sets these facts.
    pub fn set_state(&mut self, state: StreamState) {
        self.has_changed = true;
        match &mut self.form {
            Form::Small(copy) => copy.set_state(state),
            Form::Big(stream, _) => stream.set_state(state),
        }
    }

    /// Adds an entry with a greater ID than any other has ever had. The change has said that it needs its room.
    pub fn add<'f>(&mut self, id: StreamId, fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone) {
        self.has_changed = true;
        match &mut self.form {
            Form::Small(copy) => copy.add(id, fields),
            Form::Big(stream, ctx) => stream.add(ctx, self.limits, id, fields),
        }
    }

    /// Adds a node of another stream ([`Stream::append_node`]) to one that is being built.
    pub fn append_node(&mut self, node: &[u8]) {
        self.has_changed = true;
        match &mut self.form {
            Form::Small(_) => unreachable!("what is built in parts is big"),
            Form::Big(stream, ctx) => _ = stream.append_node(ctx, node),
        }
    }

    /// Removes an entry; false if there is none with this ID.
    pub fn remove(&mut self, id: StreamId) -> bool {
        let removed = match &mut self.form {
            Form::Small(copy) => copy.remove(id),
            Form::Big(stream, ctx) => stream.remove(ctx, self.limits, id),
        };
        self.has_changed |= removed;
        removed
    }

    /// The form that may have groups; the change has said that it needs it.
    fn with_groups(&mut self) -> &mut Stream {
        match &mut self.form {
            Form::Small(_) => unreachable!("a change that makes groups says so"),
            Form::Big(stream, _) => stream,
        }
    }

    /// Adds a group; false if there is one of this name.
    pub fn add_group(&mut self, name: &[u8], group: StreamGroup) -> bool {
        let added = self.with_groups().add_group(name, group);
        self.has_changed |= added;
        added
    }

    /// Gives the stream, which has no groups, these.
    pub fn set_groups(&mut self, groups: StreamGroups) {
        self.has_changed = true;
        self.with_groups().set_groups(groups);
    }

    /// Changes the names of messages that are added once. The change has said that it needs everything.
    pub fn change_idempotence<R>(
        &mut self,
        begin: impl FnOnce() -> Idempotence,
        change: impl FnOnce(&mut Idempotence) -> R,
    ) -> R {
        self.has_changed = true;
        self.with_groups().change_idempotence(begin, change)
    }

    /// Counts a message that was added before. It is no change of the stream.
    pub fn count_duplicate(&mut self) {
        let Form::Big(stream, _) = &mut self.form else { return };
        if stream.idempotence().is_some() {
            stream.change_idempotence(|| unreachable!("it is there"), Idempotence::count_duplicate);
        }
    }

    /// Removes a group; false if there is none of this name.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let Form::Big(stream, _) = &mut self.form else { return false };
        let removed = stream.remove_group(name);
        self.has_changed |= removed;
        removed
    }

    /// Changes a group; None without it.
    pub fn change_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut StreamGroup) -> R) -> Option<R> {
        let Form::Big(stream, _) = &mut self.form else { return None };
        let done = stream.change_group(name, change);
        self.has_changed |= done.is_some();
        done
    }

    /// Gives entries to a group ([`Stream::deliver`]).
    pub fn deliver(&mut self, name: &[u8], to: (Option<u32>, i64), count: u64, show: impl FnMut(StreamEntry<'_>)) {
        let Form::Big(stream, ctx) = &mut self.form else { return };
        self.has_changed = true;
        stream.deliver(ctx.read(), name, to, count, show);
    }

    /// Removes entries from the least ID on ([`Stream::trim`]); the number of them.
    pub fn trim(&mut self, trim: Trim, whole_nodes: Option<u64>) -> u64 {
        let gone = match &mut self.form {
            Form::Small(copy) => copy.trim(trim, whole_nodes),
            Form::Big(stream, ctx) => stream.trim(ctx, trim, whole_nodes),
        };
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
        match opened.link {
            Some(link) => {
                let (collection, ctx) = big(&self.held, self.store, opened.at, link);
                StreamReader::Big(collection.stream(), ctx)
            }
            None => StreamReader::Small(SmallStream::open(small(&self.held, self.store, opened.at))),
        }
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
        let Some(opened @ Opened { at, link: Some(link) }) = self.open(k, Type::Stream)? else { return Ok(None) };
        let (range, count) = self.positions(opened, (low, high), rev, count);
        let reader = self.begin_entry_reading((at, link), range, rev);
        Ok(reader.map(|reader| (reader, count)))
    }

    /// Begins to read entries like [`Tx::begin_reading_stream`], from the least up, however few they are: one of several streams
    /// that take too long together. `None` if there are none, and for a stream in one object, which is shown at once.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn begin_reading_few(
        &mut self,
        k: &Key<'_>,
        ids: (StreamId, StreamId),
        count: u64,
    ) -> Result<Option<(EntryReader, u64)>, WrongType> {
        let Some(opened @ Opened { at, link: Some(link) }) = self.open(k, Type::Stream)? else { return Ok(None) };
        let (range, count) = self.positions(opened, ids, false, count);
        Ok((count > 0).then(|| (self.begin_entry_part((at, link), range, false), count)))
    }

    /// The positions of the entries between these IDs, `count` at most, those of the greatest IDs if `rev`; their number.
    fn positions(&self, opened: Opened, (low, high): (StreamId, StreamId), rev: bool, count: u64) -> ((u64, u64), u64) {
        let stream = self.stream_at(opened);
        let from = stream.rank(low);
        let to = high.next().map_or(stream.len(), |behind| stream.rank(behind));
        let count = count.min(to.saturating_sub(from));
        let range = if rev { (to.max(count) - count, to.max(count)) } else { (from, from + count) };
        (range, count)
    }

    /// Changes the stream at a key; `None` without the key. The change adds neither entries nor groups.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn stream_mut<R>(
        &mut self,
        k: &Key<'_>,
        change: impl FnOnce(&mut StreamWriter<'_, '_>) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.stream_mut_for(k, StreamNeed::Nothing, change)
    }

    /// Changes the stream at a key by what has this need; `None` without the key.
    ///
    /// # Errors
    /// [`WrongType`] if the key holds another type.
    pub fn stream_mut_for<R>(
        &mut self,
        k: &Key<'_>,
        need: StreamNeed,
        change: impl FnOnce(&mut StreamWriter<'_, '_>) -> R,
    ) -> Result<Option<R>, WrongType> {
        let Some(mut w) = self.open_mut(k, Type::Stream)? else { return Ok(None) };
        let limits = self.store.shapes().stream();
        if !w.is_big() {
            let mut copy = SmallStreamCopy::of(self.small_value(&w));
            if copy.serves(need, limits) {
                let mut writer = StreamWriter::small(&mut copy, limits);
                let done = change(&mut writer);
                if writer.has_changed {
                    self.with_scratch(0, |tx, value| {
                        copy.write(value);
                        tx.put_small_value(k, &mut w, value);
                    });
                    self.wrote(k);
                }
                return Ok(Some(done));
            }
            self.make_big(k, &mut w, |ctx, value| {
                Collection::Stream(Box::new(Stream::of_small(ctx, SmallStream::open(value))))
            });
        }
        let (done, has_changed) = self.change_big_stream(&w, limits, change);
        if has_changed {
            self.wrote(k);
        }
        Ok(Some(done))
    }

    fn change_big_stream<R>(
        &mut self,
        w: &Writable,
        limits: NodeLimits,
        change: impl FnOnce(&mut StreamWriter<'_, '_>) -> R,
    ) -> (R, bool) {
        self.change_big(w, |collection, ctx| {
            let mut writer = StreamWriter::big(collection.stream_mut(), ctx, limits);
            let done = change(&mut writer);
            (done, writer.has_changed)
        })
    }

    /// Makes a stream at a key that is not there, and changes it by what has this need.
    pub fn make_stream<R>(
        &mut self,
        k: &Key<'_>,
        need: StreamNeed,
        change: impl FnOnce(&mut StreamWriter<'_, '_>) -> R,
    ) -> R {
        let (limits, mut copy) = (self.store.shapes().stream(), SmallStreamCopy::empty());
        let done = if copy.serves(need, limits) {
            let done = change(&mut StreamWriter::small(&mut copy, limits));
            self.with_scratch(0, |tx, value| {
                copy.write(value);
                tx.put_small(k, None, Type::Stream, Encoding::Small, value);
            });
            done
        } else {
            let w = self.put_big(k, None, Type::Stream, |_| Collection::Stream(Box::new(Stream::empty())));
            self.change_big_stream(&w, limits, change).0
        };
        self.wrote(k);
        done
    }
}
