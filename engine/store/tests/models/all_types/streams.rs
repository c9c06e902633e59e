//! Operations on streams, and their model.

use std::ops::Bound;

use super::value::{Entries, Plain};
use super::{Name, Op, World, word, words};
use varve_store::{PendingEntry, StreamGroup, StreamId, StreamNeed, StreamWriter, Trim, Type};

impl World {
    pub(super) fn streams(&mut self, op: Op, name: &Name, number: u8) {
        match number {
            0..=2 => self.stream_add(op, name),
            3 => self.stream_remove(op, name),
            4 => self.stream_trim(op, name),
            5 => self.stream_range(op, name),
            _ => self.stream_group(op, name),
        }
    }

    /// Makes a group, gives it entries, acknowledges or claims one, removes a consumer or the group.
    fn stream_group(&mut self, op: Op, name: &Name) {
        let (group, consumer) = (vec![b'g', b'0' + op.two % 2], vec![b'c', b'0' + op.number % 3]);
        let (verb, now, count) = (op.number / 3 % 7, self.now, u64::from(op.two % 9));
        let id = self.some_id(op, name, op.number);
        let done = self.with(op, &[name], |tx| {
            let need = if verb == 0 { StreamNeed::Everything } else { StreamNeed::Nothing };
            let k = tx.key(&name.1);
            tx.stream_mut_for(&k, need, |stream| {
                let met = |group: &mut StreamGroup| {
                    group.meet(&consumer, now, true);
                    group.consumer(&consumer).expect("it was met").number()
                };
                match verb {
                    0 => u64::from(stream.add_group(&group, StreamGroup::new(StreamId::MIN, None))),
                    1 | 2 => {
                        let (number, mut shown) = (stream.change_group(&group, met), 0);
                        stream.deliver(&group, (number, now), count, |_| shown += 1);
                        shown
                    }
                    3 => u64::from(stream.change_group(&group, |group| group.acknowledge(id)) == Some(true)),
                    4 => {
                        let claim = |group: &mut StreamGroup| {
                            let consumer = met(group);
                            group.set_pending(PendingEntry { id, time_ms: now, count, consumer });
                        };
                        u64::from(stream.change_group(&group, claim).is_some())
                    }
                    5 => stream.change_group(&group, |group| group.remove_consumer(&consumer)).flatten().unwrap_or(0),
                    _ => u64::from(op.two.is_multiple_of(5) && stream.remove_group(&group)),
                }
            })
        });
        let change = GroupChange { verb, count, now, id, drops: op.two.is_multiple_of(5) };
        let expected = self.typed(name, Type::Stream, false);
        let expected = expected.map(|value| value.map(|value| value.stream().change_group(&change, group, consumer)));
        assert_eq!(done, expected);
    }

    fn stream_add(&mut self, op: Op, name: &Name) {
        let (fields, value) = (words(op), word(op.number));
        if fields.is_empty() {
            return;
        }
        let made = self.with(op, &[name], |tx| {
            let k = tx.key(&name.1);
            let state = tx.stream_peek(&k, |stream| stream.facts().state)?;
            let last = state.unwrap_or_default().last;
            let id = StreamId::new(last.ms + u64::from(op.two % 3), last.seq + 1);
            let pairs = fields.iter().map(|field| (&field[..], &value[..]));
            let (need, is_new) = (StreamNeed::entry(pairs.clone()), state.is_none());
            let add = |stream: &mut StreamWriter<'_, '_>| stream.add(id, pairs);
            if is_new {
                tx.make_stream(&k, need, add);
            } else {
                tx.stream_mut_for(&k, need, add)?;
            }
            Ok(id)
        });
        let expected = self.typed(name, Type::Stream, true).map(|stream| {
            let Entries { entries, last, .. } = stream.expect("made").stream();
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

/// The change of a group by an operation.
struct GroupChange {
    verb: u8,
    count: u64,
    now: i64,
    id: StreamId,
    drops: bool,
}

impl Entries {
    fn change_group(&mut self, change: &GroupChange, group: Vec<u8>, consumer: Vec<u8>) -> u64 {
        let GroupChange { verb, count, now, id, drops } = *change;
        let Entries { entries, groups, .. } = self;
        if verb == 0 {
            return u64::from(groups.insert_if_new(group));
        }
        let Some(known) = groups.0.get_mut(&group) else { return 0 };
        match verb {
            1 | 2 => {
                known.consumers.insert(consumer.clone());
                let behind = (Bound::Excluded(known.last), Bound::Unbounded);
                let given: Vec<StreamId> = entries.range(behind).map(|(id, _)| *id).take(count as usize).collect();
                known.last = given.last().copied().unwrap_or(known.last);
                given.iter().for_each(|id| _ = known.pending.insert(*id, (consumer.clone(), now, 1)));
                given.len() as u64
            }
            3 => u64::from(known.pending.remove(&id).is_some()),
            4 => {
                known.consumers.insert(consumer.clone());
                known.pending.insert(id, (consumer, now, count));
                1
            }
            5 => {
                let had = known.pending.len();
                known.consumers.remove(&consumer);
                known.pending.retain(|_, (owner, ..)| *owner != consumer);
                (had - known.pending.len()) as u64
            }
            _ if drops => u64::from(groups.0.remove(&group).is_some()),
            _ => 0,
        }
    }
}

impl Plain {
    pub(crate) fn stream(&mut self) -> &mut Entries {
        let Plain::Stream(entries) = self else { unreachable!("a stream") };
        entries
    }
}
