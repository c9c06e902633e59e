//! XREAD and XREADGROUP: the entries behind an ID, or those that a group was not given yet; and waiting for them.
//!
//! ```text
//!   XREAD        entries behind an ID of each stream                            waits: Wants::Entries, all are served
//!   XREADGROUP   > : what the group was not given; pending for the consumer      waits: Wants::Group, in order
//!                ID: what is pending for the consumer                            never waits
//! ```
//! Without COUNT all entries are answered that there are, however many. XREAD replies with many in parts, of one instant; a
//! consumer is given many part by part, while the key is occupied (`giving`). Several streams of one XREADGROUP, CLAIM, and what
//! a client is served that has waited, are read in one hold of the shards.
//!
//! By CLAIM a consumer is first given what others have had pending for long, the oldest delivery first. A client that waits is
//! told that its time is up when an entry becomes as old as that, and asks again.

use std::collections::HashSet;
use std::ops::Range;

use varve_catalog::{
    Acl, ArgKind, Argument, Begin, Find, Flags, Group as CommandGroup, KeySpec, KeysOption, Row, arg, block, key, word,
};
use varve_exec::blocking::{Resume, Wish, block as wait};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress, Session};
use varve_protocol::{Args, Reply};
use varve_store::{EntryReader, Key, StreamId, StreamReader, Tx, Wants, WrongType};

use super::consumer::{Consumer, From, give, read_some};
use super::giving::{Given, entries_of_a_part, give_on};
use super::id::parse_strict;
use super::{READS, begin_stream, reply_entry};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[XREAD, XREADGROUP];

/// A client that waits by CLAIM does so for at least this number of milliseconds.
const CLAIM_WAIT_MIN_MS: i64 = 100;

/// The request of either command. Group and consumer are texts of the request.
struct Request<'a> {
    /// 0 for all.
    count: u64,
    block_ms: Option<u64>,
    group: Option<(&'a [u8], &'a [u8])>,
    noack: bool,
    /// For how many milliseconds an entry is pending that is claimed.
    claim_ms: Option<i64>,
    /// The arguments that are keys; their IDs follow.
    keys: Range<usize>,
}

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, session: &Session, is_group: bool) -> CmdResult<Request<'a>> {
        let (mut count, mut block_ms, mut group, mut noack, mut claim_ms) = (0, None, None, false, None);
        let mut at = 1;
        while at < args.len() {
            let (word, more) = (args.get(at), args.len() - 1 - at);
            if is(word, "BLOCK") && more > 0 {
                if session.is_script() {
                    return Err(errors::blocks_in_script(args.get(0)));
                }
                at += 1;
                let ms = integer(args.get(at)).map_err(|_| CommandError::TIMEOUT_NOT_INTEGER)?;
                block_ms = Some(u64::try_from(ms).map_err(|_| CommandError::TIMEOUT_NEGATIVE)?);
            } else if is(word, "COUNT") && more > 0 {
                at += 1;
                count = u64::try_from(integer(args.get(at))?).unwrap_or(0);
            } else if is(word, "STREAMS") && more > 0 {
                if !more.is_multiple_of(2) {
                    return Err(errors::STREAMS_UNBALANCED);
                }
                if is_group && group.is_none() {
                    return Err(errors::GROUP_MISSING);
                }
                let keys = at + 1..at + 1 + more / 2;
                return Ok(Request { count, block_ms, group, noack, claim_ms, keys });
            } else if is(word, "GROUP") && more >= 2 {
                if !is_group {
                    return Err(errors::GROUP_IN_XREAD);
                }
                group = Some((args.get(at + 1), args.get(at + 2)));
                at += 2;
            } else if is_group && is(word, "CLAIM") && more > 0 {
                at += 1;
                let ms = integer(args.get(at)).map_err(|_| errors::CLAIM_IDLE_NUMBER)?;
                claim_ms = Some(if ms < 0 { return Err(errors::CLAIM_IDLE_NEGATIVE) } else { ms });
            } else if is(word, "NOACK") {
                if !is_group {
                    return Err(errors::NOACK_IN_XREAD);
                }
                noack = true;
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        }
        Err(CommandError::SYNTAX)
    }

    /// The greatest number of entries to answer of each stream.
    fn most(&self) -> u64 {
        if self.count == 0 { u64::MAX } else { self.count }
    }

    /// Where the entries of the stream at each key begin. All keys are looked at before anything is replied.
    fn begins(&self, ctx: &mut Ctx<'_, '_>) -> CmdResult<Vec<From>> {
        let mut begins = Vec::with_capacity(self.keys.len());
        for at in self.keys.clone() {
            let key = ctx.key(at);
            let found = ctx.tx.stream(&key, |stream| {
                (stream.state().last, self.group.is_some_and(|(name, _)| stream.group(name).is_some()))
            })?;
            if let (Some((name, _)), None | Some((_, false))) = (self.group, found) {
                return Err(errors::no_group_to_read(key.bytes, name));
            }
            let id = ctx.args.get(at + self.keys.len());
            begins.push(match (id, self.group.is_some()) {
                (b"$", true) => return Err(errors::LAST_ID_IN_GROUP),
                (b"$", false) => From::Behind(found.map_or(StreamId::MIN, |(last, _)| last)),
                (b">", true) => From::Given,
                (b">", false) => return Err(errors::GIVEN_ID_IN_XREAD),
                // redis-server has the greatest ID stand for what was not given.
                (id, is_group) => match parse_strict(id, 0)? {
                    StreamId::MAX if is_group => From::Given,
                    id => From::Behind(id),
                },
            });
        }
        Ok(begins)
    }
}

/// The streams of a reply: arrays of a key and its entries, in RESP3 a map.
fn end_streams(out: &mut Reply, head: varve_protocol::Deferred, count: usize) {
    if out.is_resp3() { out.end_map(head, count) } else { out.end_array(head, count) }
}

/// Replies with the entries behind an ID, at most `count`; their number.
fn reply_behind(out: &mut Reply, stream: StreamReader<'_>, behind: StreamId, count: u64) -> u64 {
    let (head, mut shown) = (out.defer(), 0);
    if let Some(from) = behind.next() {
        stream.range(from, StreamId::MAX, false, |entry| {
            reply_entry(out, entry);
            shown += 1;
            shown < count && !out.is_overflown()
        });
    }
    out.end_array(head, shown as usize);
    shown
}

fn has_behind(stream: StreamReader<'_>, behind: StreamId) -> bool {
    stream.last().is_some_and(|last| last.id > behind)
}

/// XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
fn xread(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let request = Request::parse(ctx.args, ctx.session, false)?;
    let begins = request.begins(ctx)?;
    let count = request.most();
    let mut found = Vec::new();
    for (at, begin) in request.keys.clone().zip(&begins) {
        let From::Behind(behind) = *begin else { unreachable!("no group is given anything") };
        let key = ctx.key(at);
        // It is looked up once more, as by redis-server, which counts that.
        if ctx.tx.stream(&key, |stream| has_behind(stream, behind))? == Some(true) {
            found.push((at, behind));
        }
    }
    if found.is_empty() {
        return nothing(ctx, &request, &begins);
    }
    if ctx.session.takes_parts() && in_parts(ctx, &found, count)? {
        return Ok(());
    }
    let head = ctx.out.defer();
    for (at, behind) in &found {
        let key = ctx.key(*at);
        let Ctx { tx, out, .. } = ctx;
        begin_stream(out, key.bytes);
        tx.stream_peek(&key, |stream| reply_behind(out, stream, *behind, count))?;
    }
    end_streams(ctx.out, head, found.len());
    Ok(())
}

const STREAMS: Argument =
    block("streams", &[key("key", 0).multiple(), arg("id", ArgKind::String).multiple()]).token("STREAMS");

const COUNT: Argument = arg("count", ArgKind::Integer).token("COUNT").optional();

const BLOCK: Argument = arg("milliseconds", ArgKind::Integer).token("BLOCK").optional();

/// The keys behind STREAMS, which is looked for by clients from argument `told_from` on.
const fn streams(told_from: i16) -> KeySpec {
    let takes = &[("BLOCK", 1), ("COUNT", 1), ("GROUP", 2), ("CLAIM", 1)];
    KeySpec {
        begin: Begin::Option(KeysOption { word: "STREAMS", from: 1, takes, told_from }),
        find: Find::Range { last: -1, step: 1, limit: 2 },
        flags: READS,
        notes: "",
    }
}

const XREAD: Command = Command::new(
    Exec::Keys(xread),
    Row::new("xread", CommandGroup::Stream, -4, "5.0.0")
        .about(
            "Answers the entries behind an ID in each of several streams, once there are any.",
            "O(N) in the entries",
        )
        .flags(&[Flags::READONLY, Flags::BLOCKING])
        .acl(&[Acl::STREAM])
        .keys(&[streams(1)])
        .args(&[COUNT, BLOCK, STREAMS]),
);

/// No stream has anything: the client waits if it wants to.
fn nothing(ctx: &mut Ctx<'_, '_>, request: &Request<'_>, begins: &[From]) -> CmdResult {
    let Some(mut timeout_ms) = request.block_ms.filter(|_| !ctx.session.is_in_exec()) else {
        ctx.out.null_array();
        return Ok(());
    };
    if let Some(claim_ms) = request.claim_ms {
        let longest = claimable_in(ctx, request, claim_ms)? as u64;
        timeout_ms = if timeout_ms == 0 { longest } else { timeout_ms.min(longest) };
    }
    let ids = begins.iter().filter_map(|begin| match begin {
        From::Behind(id) => Some(*id),
        From::Given => None,
    });
    let ids: Box<[StreamId]> = ids.collect();
    let group = request.group.map(|(group, consumer)| Membership {
        group: group.into(),
        consumer: consumer.into(),
        noack: request.noack,
        claim_ms: request.claim_ms,
    });
    let wants = match &group {
        Some(group) => Wants::Group(group.group.clone()),
        None => Wants::Entries(ids.clone()),
    };
    let count = request.most();
    let wish = Wish { wants, keys: request.keys.clone(), target: None, timeout_ms };
    wait(ctx, &wish, Box::new(Waited { keys: request.keys.clone(), ids, count, group }))
}

/// A group and a consumer of it.
#[derive(Debug)]
struct Membership {
    group: Box<[u8]>,
    consumer: Box<[u8]>,
    noack: bool,
    claim_ms: Option<i64>,
}

/// After how many milliseconds an entry of these streams may be claimed that is pending now, or is going to be.
fn claimable_in(ctx: &mut Ctx<'_, '_>, request: &Request<'_>, claim_ms: i64) -> CmdResult<i64> {
    let (group, now_ms) = (request.group.expect("the grammar asks for it").0, ctx.tx.now_ms());
    let mut oldest_ms = now_ms;
    for at in request.keys.clone() {
        let key = ctx.key(at);
        let oldest = ctx.tx.stream_peek(&key, |stream| stream.group(group).map(|group| group.oldest(i64::MAX, 1)))?;
        if let Some(Some(&[first])) = oldest.as_ref().map(|found| found.as_ref().map(|found| &found[..])) {
            oldest_ms = oldest_ms.min(first.time_ms);
        }
    }
    Ok(oldest_ms.saturating_add(claim_ms).saturating_sub(now_ms).max(CLAIM_WAIT_MIN_MS))
}

/// The rest of the command of a client that waits.
#[derive(Debug)]
struct Waited {
    keys: Range<usize>,
    /// The ID behind which each stream is read, without a group.
    ids: Box<[StreamId]>,
    count: u64,
    group: Option<Membership>,
}

impl Resume for Waited {
    fn resume(&self, tx: &mut Tx<'_>, args: Args<'_>, key: &Key<'_>, out: &mut Reply) -> CmdResult {
        if let Some(member) = &self.group {
            match tx.stream_peek(key, |stream| stream.group(&member.group).is_some()) {
                Ok(Some(true)) => {}
                Ok(Some(false)) => return Err(errors::GROUP_GONE),
                Ok(None) | Err(WrongType) => return Err(errors::STREAM_GONE),
            }
        }
        let head = out.defer();
        begin_stream(out, key.bytes);
        match &self.group {
            Some(Membership { group, consumer, noack, claim_ms }) => {
                let consumer = Consumer { group, consumer, noack: *noack, claim_ms: *claim_ms };
                let entries = out.defer();
                let shown = give(tx, key, &consumer, self.count, out)?;
                out.end_array(entries, shown as usize);
            }
            None => {
                let at = self.keys.clone().position(|at| args.get(at) == key.bytes).expect("one of its keys");
                tx.stream_peek(key, |stream| reply_behind(out, stream, self.ids[at], self.count))?;
            }
        }
        end_streams(out, head, 1);
        Ok(())
    }
}

/// Entries of several streams, and bytes of them, that are replied with at once; behind them the streams are read in parts,
/// however few entries each has, but for those in one object, of a kilobyte at most.
const SHOWN_AT_ONCE: u64 = 4096;
const BYTES_AT_ONCE: usize = 256 << 10;
/// How often keys may be named that were named before, in a reply in parts: each time is a reader of the stream, and every change
/// of the stream looks at all its readers.
const AGAIN_MAX: usize = 256;

/// The streams of a reply that is long, those that are left.
struct RestOfStreams {
    /// The bytes in front of the entries, and a reader of these; without one all of them are in front too.
    left: std::vec::IntoIter<(Vec<u8>, Option<EntryReader>)>,
    reader: Option<EntryReader>,
}

/// Begins a long reply, of one instant; false if it is short.
fn in_parts(ctx: &mut Ctx<'_, '_>, found: &[(usize, StreamId)], count: u64) -> CmdResult<bool> {
    let (mut long, mut entries, mut again, mut kept) = (Vec::with_capacity(found.len()), 0_u64, 0, 0);
    let mut named = HashSet::new();
    for (at, behind) in found {
        let (key, from) = (ctx.key(*at), behind.next().expect("there are entries behind it"));
        again += usize::from(found.len() > 1 && !named.insert(key.bytes));
        // Those that are too many are an error below, of which one reader tells.
        let reader = if again > AGAIN_MAX {
            None
        } else {
            ctx.tx.begin_reading_stream(&key, (from, StreamId::MAX), false, count)?
        };
        kept += reader.as_ref().map_or(0, |(reader, _)| reader.kept_bytes());
        long.push(reader);
        if found.len() > 1 {
            let there = ctx.tx.stream_peek(&key, |stream| stream.len() - stream.rank(from))?;
            entries += there.unwrap_or_default().min(count);
        }
        if !ctx.out.admits(kept) {
            // The reply is lost, and the connection ends.
            return Ok(true);
        }
    }
    if long.iter().all(Option::is_none) && !ctx.tx.is_long_work(entries, 1) {
        return Ok(false);
    }
    if again > AGAIN_MAX {
        return Err(errors::STREAMS_AGAIN);
    }
    let (mut left, mut shown, mut bytes) = (Vec::with_capacity(found.len()), 0, 0);
    for ((at, behind), long) in found.iter().zip(long) {
        let (key, from) = (ctx.key(*at), behind.next().expect("there are entries behind it"));
        let mut front = ctx.out.like();
        begin_stream(&mut front, key.bytes);
        let reader = match long {
            None if shown >= SHOWN_AT_ONCE || bytes >= BYTES_AT_ONCE => {
                let few = ctx.tx.begin_reading_few(&key, (from, StreamId::MAX), count)?;
                few.inspect(|(reader, _)| kept += reader.kept_bytes())
            }
            long => long,
        };
        let reader = match reader {
            Some((reader, count)) => {
                front.array(count as usize);
                Some(reader)
            }
            None => {
                let now = ctx.tx.stream_peek(&key, |stream| reply_behind(&mut front, stream, *behind, count))?;
                shown += now.unwrap_or_default();
                None
            }
        };
        bytes += front.len();
        if front.is_overflown() {
            ctx.out.append(front);
            return Ok(true);
        }
        if !ctx.out.admits(bytes + kept) {
            return Ok(true);
        }
        left.push((front.to_vec(), reader));
    }
    if ctx.out.is_resp3() {
        ctx.out.map(left.len())
    } else {
        ctx.out.array(left.len())
    }
    ctx.go_on(Box::new(RestOfStreams { left: left.into_iter(), reader: None }));
    Ok(true)
}

impl Ongoing for RestOfStreams {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let Some(reader) = &mut self.reader else {
            let Some((front, reader)) = self.left.next() else { return Progress::Done };
            out.raw(&front);
            self.reader = reader;
            return Progress::More;
        };
        let read = tx.read_entries_on(reader, |part| part.for_each(|entry| reply_entry(out, entry)));
        match Progress::from(read) {
            Progress::Done => {
                self.reader = None;
                Progress::More
            }
            other => other,
        }
    }

    fn held_bytes(&self) -> usize {
        let fronts = self.left.as_slice().iter().map(|(front, _)| front.capacity());
        fronts.sum::<usize>() + size_of_val(self.left.as_slice())
    }

    fn kept_bytes(&self) -> usize {
        let waiting = self.left.as_slice().iter().filter_map(|(_, reader)| reader.as_ref());
        waiting.chain(&self.reader).map(EntryReader::kept_bytes).sum()
    }
}

/// XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]
fn xreadgroup(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let request = Request::parse(ctx.args, ctx.session, true)?;
    let begins = request.begins(ctx)?;
    let (group, consumer) = request.group.expect("the grammar asks for it");
    let consumer = Consumer { group, consumer, noack: request.noack, claim_ms: request.claim_ms };
    let count = request.most();
    let reply = ctx.out.mark();
    let (head, mut streams) = (ctx.out.defer(), 0);
    for (at, begin) in request.keys.clone().zip(&begins) {
        let key = ctx.key(at);
        match begin {
            From::Behind(_) => _ = ctx.tx.stream(&key, |_| ())?,
            From::Given if !has_more(&mut ctx.tx, &key, &consumer)? => continue,
            From::Given => {}
        }
        begin_stream(ctx.out, key.bytes);
        let (shown, entries, mut from) = (ctx.out.defer(), ctx.out.mark(), *begin);
        let goes_on = request.keys.len() == 1 && consumer.claim_ms.is_none() && ctx.session.takes_parts();
        let most = if goes_on { count.min(entries_of_a_part(&ctx.tx)) } else { count };
        if count > most && ctx.gives_way() {
            return ctx.put_back();
        }
        let mut read = read_some(&mut ctx.tx, &key, &consumer, &mut from, most, ctx.out)?;
        if read == most && count > most {
            let left = count - read;
            if give_on(ctx, &key, &consumer, Given { from, read, left }, (reply, entries)) {
                return Ok(());
            }
            read += read_some(&mut ctx.tx, &key, &consumer, &mut from, left, ctx.out)?;
        }
        ctx.out.end_array(shown, read as usize);
        streams += 1;
    }
    if streams == 0 {
        return nothing(ctx, &request, &begins);
    }
    end_streams(ctx.out, head, streams);
    Ok(())
}

/// Whether a consumer would be given something of a stream. It counts as a lookup of the key.
fn has_more(tx: &mut Tx<'_>, key: &Key<'_>, consumer: &Consumer<'_>) -> CmdResult<bool> {
    let until_ms = consumer.claim_ms.map(|ms| tx.now_ms().saturating_sub(ms));
    let found = tx.stream(key, |stream| {
        stream.group(consumer.group).is_some_and(|group| {
            let has_old = until_ms.is_some_and(|until_ms| !group.oldest(until_ms, 1).is_empty());
            has_old || has_behind(stream, group.last())
        })
    })?;
    Ok(found == Some(true))
}

const XREADGROUP: Command = Command::new(
    Exec::Keys(xreadgroup),
    Row::new("xreadgroup", CommandGroup::Stream, -7, "5.0.0")
        .about(
            "Gives a consumer entries that its group was not given, once there are any, or those pending for it.",
            "O(M) in the entries answered",
        )
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .acl(&[Acl::STREAM])
        .keys(&[streams(4)])
        .history(&[("8.4.0", "`CLAIM`.")])
        .args(&[
            block("group_consumer", &[arg("group", ArgKind::String), arg("consumer", ArgKind::String)]).token("GROUP"),
            COUNT,
            BLOCK,
            arg("min-idle-time", ArgKind::Integer).token("CLAIM").since("8.4.0").optional(),
            word("noack", "NOACK").optional(),
            STREAMS,
        ]),
);
