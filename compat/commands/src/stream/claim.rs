//! The claiming of one command: pending entries become a consumer's, or end because the stream does not have them any more.
//!
//! Not here: which entries are claimed (XCLAIM, XAUTOCLAIM, XREADGROUP CLAIM).

use varve_exec::notify::{Again, Class, Effect, Words};
use varve_protocol::Reply;
use varve_store::{Key, PendingEntry, StreamId, StreamWriter, Tx};

use super::group::{Claimed, claim_words, did_quietly, set_id_words};
use super::{id_text, reply_entry, reply_entry_with_times};

/// The most deliveries of an entry that are counted: the greatest number of a reply, and of an entry that nobody is to try again.
pub(super) const DELIVERIES_MAX: u64 = i64::MAX as u64;

/// The claiming of one command: what it does to each entry, and the effects of it.
pub(super) struct Claim<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    /// The number of the consumer, once it has claimed something.
    number: Option<u32>,
    made: bool,
    now_ms: i64,
    pub(super) just_id: bool,
    /// Whether each entry is replied with its idle time and its deliveries before.
    pub(super) with_times: bool,
    /// The delivery that is noted, and how often it was, if that is given.
    pub(super) time_ms: i64,
    pub(super) count: Option<u64>,
    pub(super) shown: usize,
    /// Effects that are made again: entries that are pending now, or have ended.
    again: Vec<(PendingEntry, Box<[u8]>)>,
}

impl<'a> Claim<'a> {
    pub(super) fn new(group: &'a [u8], consumer: &'a [u8], now_ms: i64) -> Claim<'a> {
        Claim {
            group,
            consumer,
            number: None,
            made: false,
            now_ms,
            just_id: false,
            with_times: false,
            time_ms: now_ms,
            count: None,
            shown: 0,
            again: Vec::new(),
        }
    }

    /// Makes an entry of the stream the consumer's, and replies with it.
    pub(super) fn take(
        &mut self,
        stream: &mut StreamWriter<'_, '_>,
        pending: Option<PendingEntry>,
        id: StreamId,
        out: &mut Reply,
    ) {
        let Claim { group, consumer, now_ms, .. } = *self;
        let number = match self.number {
            Some(number) => number,
            None => {
                self.made = stream.change_group(group, |group| group.meet(consumer, now_ms, true)) == Some(true);
                let own = stream.read().group(group).and_then(|group| group.consumer(consumer));
                *self.number.insert(own.expect("it was met").number())
            }
        };
        // An entry that was not pending has been delivered once.
        let before = pending.map_or(1, |pending| pending.count);
        let count = self.count.unwrap_or((before + u64::from(!self.just_id)).min(DELIVERIES_MAX));
        let entry = PendingEntry { id, time_ms: self.time_ms, count, consumer: number };
        stream.change_group(group, |group| group.set_pending(entry));
        self.again.push((entry, Box::from(consumer)));
        if self.just_id {
            out.bulk(&id_text(id));
        } else if let Some(entry) = stream.read().get(id) {
            let idle_ms = pending.map_or(0, |pending| now_ms.saturating_sub(pending.time_ms).max(0));
            match self.with_times {
                true => reply_entry_with_times(out, entry, idle_ms, before),
                false => reply_entry(out, entry),
            }
        }
        self.shown += 1;
    }

    /// Ends that an entry is pending which the stream does not have any more.
    pub(super) fn drop(&mut self, stream: &mut StreamWriter<'_, '_>, pending: PendingEntry) {
        let name = stream.read().group(self.group).map(|group| Box::from(group.name(pending.consumer)));
        stream.change_group(self.group, |group| group.acknowledge(pending.id));
        self.again.push((pending, name.expect("the group is there")));
    }

    /// Reports the claims, and the last ID that the group was given if a command has set it.
    pub(super) fn report(&self, tx: &mut Tx<'_>, key: &Key<'_>, sets_last: bool) {
        report_consumer(tx, key, (self.group, self.consumer), self.made, false);
        let group = tx.stream_peek(key, |stream| stream.group(self.group).map(|group| (group.last(), group.read())));
        let Ok(Some(Some((last, read)))) = group else { unreachable!("the group is there") };
        if !self.again.is_empty() {
            let words = |words: &mut Words<'_>| {
                for (at, (entry, consumer)) in self.again.iter().enumerate() {
                    if at > 0 {
                        words.next_effect();
                    }
                    let PendingEntry { id, time_ms, count, .. } = *entry;
                    claim_words(words, key.bytes, self.group, &Claimed { consumer, id, time_ms, count, last });
                }
            };
            did_quietly(tx, key, self.again.len() as u64, &words);
        } else if sets_last {
            let words = |words: &mut Words<'_>| set_id_words(words, key.bytes, self.group, last, read);
            did_quietly(tx, key, 1, &words);
        } else {
            tx.did_nothing(key);
        }
    }
}

/// Reports a consumer that a command has made on the way; it is made again by itself if `alone`.
pub(super) fn report_consumer(
    tx: &mut Tx<'_>,
    key: &Key<'_>,
    (group, consumer): (&[u8], &[u8]),
    is_new: bool,
    alone: bool,
) {
    if !is_new {
        return;
    }
    let words =
        |words: &mut Words<'_>| _ = words.add(b"XGROUP").add(b"CREATECONSUMER").add(key.bytes).add(group).add(consumer);
    let again = if alone { Again::Words(&words) } else { Again::Covered };
    tx.did(key, Effect { modified: false, ..Effect::new(Class::Stream, "xgroup-createconsumer", 1, again) });
}
