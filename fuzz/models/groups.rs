//! A plain model of a stream's groups of consumers, and one change done to a stream and to it.

use std::collections::BTreeMap;
use std::ops::Bound;

use varve_collection::WriteCtx;
use varve_collection::stream::{PendingEntry, PendingFilter, Stream, StreamGroup, StreamId, StreamReader};

/// The groups of a stream, by name.
#[derive(Debug, Default)]
pub struct PlainGroups(BTreeMap<Vec<u8>, PlainGroup>);

/// A group: the last ID that it was given; when its consumers were last heard of; of each pending entry whose it is, when it was
/// delivered last and how often.
#[derive(Debug, Default, PartialEq, Eq)]
struct PlainGroup {
    last: StreamId,
    consumers: BTreeMap<Vec<u8>, i64>,
    pending: BTreeMap<StreamId, (Vec<u8>, i64, u64)>,
}

/// A change: two numbers say which group and consumer, `verb` what is done.
pub struct GroupChange {
    pub verb: u8,
    pub one: u8,
    pub two: u8,
    pub now_ms: i64,
}

impl PlainGroups {
    /// Does a change to the stream and to its model, whose entries have these IDs.
    pub fn change<'i>(
        &mut self,
        (stream, ctx): (&mut Stream, &mut WriteCtx<'_>),
        ids: impl DoubleEndedIterator<Item = &'i StreamId> + Clone,
        change: &GroupChange,
    ) {
        let GroupChange { verb, one, two, now_ms } = *change;
        let (name, consumer) = (vec![b'g', b'0' + one % 3], vec![b'c', b'0' + one / 3 % 4]);
        let count = u64::from(two % 16);
        let met = |group: &mut StreamGroup| {
            group.meet(&consumer, now_ms, true);
            group.consumer(&consumer).expect("it was met").number()
        };
        let known = self.0.contains_key(&name);
        match verb % 8 {
            0 => {
                let last = if two % 2 == 0 { StreamId::MIN } else { stream.state().last };
                assert_eq!(stream.add_group(&name, StreamGroup::new(last, None)), !known);
                self.0.entry(name).or_insert_with(|| PlainGroup { last, ..PlainGroup::default() });
            }
            1 | 2 => {
                let number = stream.change_group(&name, met);
                // Without a consumer the group is given entries that are not pending (NOACK).
                let kept = number.filter(|_| two < 200);
                let mut shown = Vec::new();
                stream.deliver(ctx.read(), &name, (kept, now_ms), count, |entry| shown.push(entry.id));
                let Some(group) = self.0.get_mut(&name) else { return assert!(number.is_none() && shown.is_empty()) };
                group.consumers.insert(consumer.clone(), now_ms);
                let given: Vec<StreamId> = ids.copied().filter(|id| *id > group.last).take(count as usize).collect();
                assert_eq!(shown, given);
                group.last = given.last().copied().unwrap_or(group.last);
                if kept.is_some() {
                    group.pending.extend(given.into_iter().map(|id| (id, (consumer.clone(), now_ms, 1))));
                }
            }
            3 | 4 => {
                let Some(group) = self.0.get_mut(&name) else { return };
                let pending = group.pending.keys().nth(usize::from(two) % group.pending.len().max(1)).copied();
                let id = pending.filter(|_| two % 8 != 0).unwrap_or(StreamId::new(u64::from(two), 1));
                let ended = group.pending.remove(&id).is_some();
                assert_eq!(stream.change_group(&name, |group| group.acknowledge(id)), Some(ended));
            }
            5 => {
                let Some(group) = self.0.get_mut(&name) else { return };
                let Some(&id) = ids.clone().nth(usize::from(two) % ids.count().max(1)) else { return };
                let claim = |group: &mut StreamGroup| {
                    let consumer = met(group);
                    group.set_pending(PendingEntry { id, time_ms: now_ms - count as i64, count, consumer });
                };
                assert!(stream.change_group(&name, claim).is_some());
                group.consumers.insert(consumer.clone(), now_ms);
                group.pending.insert(id, (consumer, now_ms - count as i64, count));
            }
            6 => {
                let removed = stream.change_group(&name, |group| group.remove_consumer(&consumer)).flatten();
                let expected = self.0.get_mut(&name).and_then(|group| {
                    let before = group.pending.len();
                    group.consumers.remove(&consumer)?;
                    group.pending.retain(|_, (owner, _, _)| *owner != consumer);
                    Some((before - group.pending.len()) as u64)
                });
                assert_eq!(removed, expected);
            }
            _ if two % 8 == 0 => assert_eq!(stream.remove_group(&name), self.0.remove(&name).is_some()),
            _ => self.search(stream, &name, &consumer, (StreamId::new(u64::from(two), 0), now_ms - count as i64)),
        }
    }

    /// A group finds its pending entries by consumer, by ID and by time.
    fn search(&self, stream: &Stream, name: &[u8], consumer: &[u8], (from, until_ms): (StreamId, i64)) {
        let (Some(plain), Some(group)) = (self.0.get(name), stream.group(name)) else {
            return assert!(stream.group(name).is_none());
        };
        let mut shown = Vec::new();
        let filter = PendingFilter { consumer: group.consumer(consumer).map(|consumer| consumer.number()), until_ms };
        group.scan(from, filter, |entry| {
            shown.push(entry.id);
            true
        });
        let takes = |owner: &[u8], time_ms| time_ms <= until_ms && (filter.consumer.is_none() || owner == consumer);
        let behind = plain.pending.range((Bound::Included(from), Bound::Unbounded));
        let wanted = behind.filter(|(_, (owner, time_ms, _))| takes(owner, *time_ms)).map(|(&id, _)| id);
        assert!(wanted.eq(shown.iter().copied()), "{shown:?}");
        let oldest: Vec<(i64, StreamId)> =
            group.oldest(until_ms, 5).into_iter().map(|entry| (entry.time_ms, entry.id)).collect();
        let mut by_time: Vec<(i64, StreamId)> =
            plain.pending.iter().map(|(&id, &(_, time_ms, _))| (time_ms, id)).collect();
        by_time.retain(|(time_ms, _)| *time_ms <= until_ms);
        by_time.sort_unstable();
        by_time.truncate(5);
        assert_eq!(oldest, by_time);
    }

    /// The stream's groups are those of the model.
    pub fn compare(&self, reader: &StreamReader<'_>) {
        let groups = reader.groups().cloned().unwrap_or_default();
        assert!(groups.iter().map(|(name, _)| &**name).eq(self.0.keys().map(Vec::as_slice)));
        for ((name, group), plain) in groups.iter().zip(self.0.values()) {
            let mut shown = PlainGroup { last: group.last(), ..PlainGroup::default() };
            group.scan(StreamId::MIN, PendingFilter::ALL, |entry| {
                let owner = group.name(entry.consumer).to_vec();
                shown.pending.insert(entry.id, (owner, entry.time_ms, entry.count)).is_none()
            });
            shown.consumers = group.consumers().map(|(name, consumer)| (name.to_vec(), consumer.seen_ms)).collect();
            assert_eq!(shown, *plain, "{}", name.escape_ascii());
            for (name, consumer) in group.consumers() {
                let owned = plain.pending.values().filter(|(owner, _, _)| owner == name).count();
                assert_eq!(consumer.pending, owned as u64, "{}", name.escape_ascii());
            }
        }
    }
}
