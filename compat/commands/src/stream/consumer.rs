//! A consumer of a group reads a stream: entries that the group was not given, those that it may claim, or those pending for it.
//!
//! Each function works in one hold of the shard, and reports its effects. Not here: the words of XREADGROUP and its waiting (`read`),
//! and how many entries are given over several holds (`giving`).

use varve_exec::CmdResult;
use varve_exec::notify::{Again, Class, Effect, Words};
use varve_protocol::Reply;
use varve_store::{Key, PendingEntry, PendingFilter, StreamEntry, StreamId, Tx};

use super::claim::{Claim, DELIVERIES_MAX, report_consumer};
use super::group::{Claimed, claim_words, set_id_words};
use super::{id_text, reply_entry, reply_entry_with_times};

/// Entries that one XREADGROUP claims at most, the oldest deliveries: each takes some 13 us with the shard held.
const CLAIMS_MAX: u64 = 4096;

/// Where the entries of one stream begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Behind this ID.
    Behind(StreamId),
    /// Behind what the group was given.
    Given,
}

/// A consumer that reads.
pub(super) struct Consumer<'a> {
    pub(super) group: &'a [u8],
    pub(super) consumer: &'a [u8],
    pub(super) noack: bool,
    /// For how many milliseconds an entry is pending that is claimed.
    pub(super) claim_ms: Option<i64>,
}

/// Replies with at most `count` entries of a stream whose group is there, and moves `from` behind them; their number.
pub(super) fn read_some(
    tx: &mut Tx<'_>,
    key: &Key<'_>,
    consumer: &Consumer<'_>,
    from: &mut From,
    count: u64,
    out: &mut Reply,
) -> CmdResult<u64> {
    match from {
        From::Given => give(tx, key, consumer, count, out),
        From::Behind(behind) => reply_pending(tx, key, consumer, (behind, count), out),
    }
}

/// Makes entries the consumer's that were delivered for long, and replies with them; their number. Those that the stream does
/// not have any more are pending no more.
fn claim(tx: &mut Tx<'_>, key: &Key<'_>, consumer: &Consumer<'_>, count: u64, out: &mut Reply) -> CmdResult<u64> {
    let (Some(claim_ms), now_ms) = (consumer.claim_ms, tx.now_ms()) else { return Ok(0) };
    let mut claim = Claim::new(consumer.group, consumer.consumer, now_ms);
    claim.with_times = true;
    let claimed = tx.stream_mut(key, |stream| {
        let group = stream.read().group(consumer.group)?;
        let old = group.oldest(now_ms.saturating_sub(claim_ms), count);
        for pending in &old {
            if stream.read().has(pending.id) {
                claim.take(stream, Some(*pending), pending.id, out);
            } else {
                claim.drop(stream, *pending);
            }
        }
        Some(old.len())
    })?;
    if claimed.flatten().is_some_and(|count| count > 0) {
        claim.report(tx, key, false);
    }
    Ok(claim.shown as u64)
}

/// Gives a consumer of a group that is there at most `count` entries that it may claim, or that the group was not given, and
/// replies with them, without the head of their array; their number.
pub(super) fn give(
    tx: &mut Tx<'_>,
    key: &Key<'_>,
    consumer: &Consumer<'_>,
    count: u64,
    out: &mut Reply,
) -> CmdResult<u64> {
    let claimed = claim(tx, key, consumer, count.min(CLAIMS_MAX), out)?;
    let Consumer { group, consumer, noack, claim_ms } = *consumer;
    let (now_ms, keeps) = (tx.now_ms(), tx.has_journal() && !noack);
    let mut given = Vec::new();
    let done = tx.stream_mut(key, |stream| {
        let is_new = stream.change_group(group, |group| group.meet(consumer, now_ms, true));
        let number = stream.read().group(group).and_then(|group| group.consumer(consumer)).map(|own| own.number());
        let mut shown = claimed;
        let to = (number.filter(|_| !noack), now_ms);
        stream.deliver(group, to, count - claimed, |entry: StreamEntry<'_>| {
            if keeps {
                given.push(entry.id);
            }
            match claim_ms {
                Some(_) => reply_entry_with_times(out, entry, 0, 0),
                None => reply_entry(out, entry),
            }
            shown += 1;
        });
        let last = stream.read().group(group).map(|group| (group.last(), group.read()));
        (is_new == Some(true), shown, last)
    })?;
    let Some((is_new, shown, Some((last, read)))) = done else { unreachable!("the caller has found the group") };
    let gave = shown > claimed;
    report_consumer(tx, key, (group, consumer), is_new, noack || !gave);
    if !gave {
        tx.did_nothing(key);
        return Ok(shown);
    }
    if noack {
        let words = |words: &mut Words<'_>| set_id_words(words, key.bytes, group, last, read);
        tx.did(key, Effect::quiet(Class::Stream, 1, Again::Words(&words)));
        return Ok(shown);
    }
    let words = |words: &mut Words<'_>| {
        for (at, id) in given.iter().enumerate() {
            if at > 0 {
                words.next_effect();
            }
            let claimed = Claimed { consumer, id: *id, time_ms: now_ms, count: 1, last: *id };
            claim_words(words, key.bytes, group, &claimed);
        }
    };
    tx.did(key, Effect::quiet(Class::Stream, 1, Again::Words(&words)));
    Ok(shown)
}

/// Replies with entries that are pending for a consumer, which has them delivered once more, without the head of their array; their
/// number. Those that the stream does not have any more are replied without fields.
fn reply_pending(
    tx: &mut Tx<'_>,
    key: &Key<'_>,
    consumer: &Consumer<'_>,
    (behind, count): (&mut StreamId, u64),
    out: &mut Reply,
) -> CmdResult<u64> {
    let Consumer { group: name, consumer, noack, .. } = *consumer;
    let (now_ms, mut shown) = (tx.now_ms(), 0);
    let is_new = tx.stream_mut(key, |stream| {
        let is_new = stream.change_group(name, |group| group.meet(consumer, now_ms, true));
        let mut own: Vec<PendingEntry> = Vec::new();
        if let Some(group) = stream.read().group(name)
            && let (Some(consumer), Some(from)) = (group.consumer(consumer), behind.next())
        {
            let filter = PendingFilter { consumer: Some(consumer.number()), ..PendingFilter::ALL };
            group.scan_some(from, filter, count.min(consumer.pending), |entry| own.push(entry));
        }
        shown = own.len() as u64;
        *behind = own.last().map_or(*behind, |last| last.id);
        let reader = stream.read();
        own.retain(|pending| {
            let is_there = reader.get(pending.id).map(|entry| reply_entry(out, entry)).is_some();
            if !is_there {
                out.array(2);
                out.bulk(&id_text(pending.id));
                out.null_array();
            }
            is_there
        });
        stream.change_group(name, |group| {
            for pending in own {
                group.set_pending(PendingEntry {
                    time_ms: now_ms,
                    count: pending.count.saturating_add(1).min(DELIVERIES_MAX),
                    ..pending
                });
            }
        });
        is_new == Some(true)
    })?;
    report_consumer(tx, key, (name, consumer), is_new == Some(true), noack);
    // The new delivery is not written to files, as by redis-server.
    tx.did(key, Effect::quiet(Class::Stream, 1, Again::Covered));
    Ok(shown)
}
