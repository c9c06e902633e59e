//! Operations on streams, and their model.

use super::value::{Entries, Plain};
use super::{Name, Op, World, word, words};
use varve_store::{StreamId, Trim, Type};

impl World {
    pub(super) fn streams(&mut self, op: Op, name: &Name, number: u8) {
        match number {
            0..=2 => self.stream_add(op, name),
            3 => self.stream_remove(op, name),
            4 => self.stream_trim(op, name),
            _ => self.stream_range(op, name),
        }
    }

    fn stream_add(&mut self, op: Op, name: &Name) {
        let (fields, value) = (words(op), word(op.number));
        if fields.is_empty() {
            return;
        }
        let made = self.with(op, &[name], |tx| {
            let k = tx.key(&name.1);
            let state = tx.stream_peek(&k, |stream| stream.facts().state)?;
            if state.is_none() {
                tx.make_stream(&k);
            }
            let last = state.unwrap_or_default().last;
            let id = StreamId::new(last.ms + u64::from(op.two % 3), last.seq + 1);
            let pairs = fields.iter().map(|field| (&field[..], &value[..]));
            tx.stream_mut(&k, |stream| stream.add(id, pairs))?;
            Ok(id)
        });
        let expected = self.typed(name, Type::Stream, true).map(|stream| {
            let Entries { entries, last } = stream.expect("made").stream();
            let id = StreamId::new(last.ms + u64::from(op.two % 3), last.seq + 1);
            entries.insert(id, fields.into_iter().map(|field| (field, value.clone())).collect());
            *last = id;
            id
        });
        assert_eq!(made, expected);
    }

    /// The ID of an entry of the model, or one near it.
    fn some_id(&mut self, op: Op, name: &Name, number: u8) -> StreamId {
        let Ok(Some(value)) = self.typed(name, Type::Stream, false) else { return StreamId::new(u64::from(op.two), 0) };
        let entries = &value.stream().entries;
        let at = usize::from(number) % entries.len().max(1);
        let id = entries.keys().nth(at).copied().unwrap_or(StreamId::new(1, 1));
        if op.two.is_multiple_of(5) { id.next().expect("a small one") } else { id }
    }

    fn stream_remove(&mut self, op: Op, name: &Name) {
        let id = self.some_id(op, name, op.number);
        let removed = self.with(op, &[name], |tx| tx.stream_mut(&tx.key(&name.1), |stream| stream.remove(id)));
        let expected = self.typed(name, Type::Stream, false);
        assert_eq!(removed, expected.map(|value| value.map(|value| value.stream().entries.remove(&id).is_some())));
    }

    fn stream_trim(&mut self, op: Op, name: &Name) {
        let id = self.some_id(op, name, op.number);
        let most = u64::from(op.number % 64);
        let trim = if op.two.is_multiple_of(2) { Trim::ToLength(most) } else { Trim::Below(id) };
        let gone = self.with(op, &[name], |tx| tx.stream_mut(&tx.key(&name.1), |stream| stream.trim(trim, None)));
        let expected = self.typed(name, Type::Stream, false).map(|value| {
            value.map(|value| {
                let entries = &mut value.stream().entries;
                let len = entries.len() as u64;
                match trim {
                    Trim::ToLength(most) => (most..len).for_each(|_| _ = entries.pop_first()),
                    Trim::Below(id) => *entries = entries.split_off(&id),
                }
                len - entries.len() as u64
            })
        });
        assert_eq!(gone, expected);
    }

    fn stream_range(&mut self, op: Op, name: &Name) {
        let (from, to) = (self.some_id(op, name, op.number), self.some_id(op, name, op.two));
        let (rev, count) = (op.number.is_multiple_of(2), 1 + usize::from(op.two % 16));
        let mut shown = Vec::new();
        let found = self.with(op, &[name], |tx| {
            tx.stream(&tx.key(&name.1), |stream| {
                stream.range(from, to, rev, |entry| {
                    shown.push(entry.id);
                    shown.len() < count
                });
                stream.has(from)
            })
        });
        let expected = self.typed(name, Type::Stream, false).map(|value| {
            value.map(|value| {
                let entries = &value.stream().entries;
                let mut ids: Vec<StreamId> = entries.keys().copied().filter(|id| (from..=to).contains(id)).collect();
                if rev {
                    ids.reverse();
                }
                ids.truncate(count);
                (entries.contains_key(&from), ids)
            })
        });
        let (has, ids) = match expected {
            Err(wrong) => (Err(wrong), Vec::new()),
            Ok(None) => (Ok(None), Vec::new()),
            Ok(Some((has, ids))) => (Ok(Some(has)), ids),
        };
        assert_eq!((found, shown), (has, ids));
    }
}

impl Plain {
    pub(crate) fn stream(&mut self) -> &mut Entries {
        let Plain::Stream(entries) = self else { unreachable!("a stream") };
        entries
    }
}
