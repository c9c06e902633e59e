//! XACK, XPENDING, XCLAIM, XAUTOCLAIM: the entries that are pending in a group.

use varve_catalog::{Acl, ArgKind, Argument, Flags, Group as CommandGroup, KeySpec, Row, arg, block, key, word};
use varve_exec::notify::{Again, Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Occupied, WhileOccupied};
use varve_protocol::{Args, Reply};
use varve_store::{PendingEntry, PendingFilter, StreamGroup, StreamId};

use super::claim::Claim;
use super::group::no_group;
use super::id::{parse_end, parse_strict};
use super::searching::{Listing, RestOfClaiming, RestOfListing, Search, claims_of_a_part, shown_in_a_part};
use super::{DELETES, READS, UPDATES, id_text};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[XACK, XPENDING, XCLAIM, XAUTOCLAIM];

/// The greatest COUNT that redis-server takes.
const COUNT_MAX: u64 = i64::MAX as u64 / 16;

const GROUP: Argument = arg("group", ArgKind::String);

const CONSUMER: Argument = arg("consumer", ArgKind::String);

/// XACK key group id [id ...]
fn xack(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args) = (ctx.key(1), ctx.args);
    if ctx.tx.stream(&key, |stream| stream.group(args.get(2)).is_some())? != Some(true) {
        ctx.out.integer(0);
        return Ok(());
    }
    let ids = (3..args.len()).map(|at| parse_strict(args.get(at), 0)).collect::<CmdResult<Vec<StreamId>>>()?;
    let acknowledge = |group: &mut StreamGroup| ids.iter().filter(|id| group.acknowledge(**id)).count();
    let done = ctx.tx.stream_mut(&key, |stream| stream.change_group(args.get(2), acknowledge))?.flatten();
    match done {
        Some(count @ 1..) => {
            ctx.did(&key, Effect::quiet(Class::Stream, count as u64, Again::Sent));
        }
        _ => ctx.tx.did_nothing(&key),
    }
    ctx.out.integer(done.unwrap_or(0) as i64);
    Ok(())
}

const XACK: Command = Command::new(
    Exec::Keys(xack),
    Row::new("xack", CommandGroup::Stream, -4, "5.0.0")
        .about("Ends that entries are pending in a group.", "O(log(N)) an ID")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, UPDATES)])
        .args(&[key("key", 0), GROUP, arg("id", ArgKind::String).multiple()]),
);

/// The range of XPENDING.
struct Range<'a> {
    low: StreamId,
    high: StreamId,
    idle_ms: i64,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Range<'a> {
    fn parse(args: Args<'a>) -> CmdResult<Option<Range<'a>>> {
        if args.len() == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&args.len()) {
            return Err(CommandError::SYNTAX);
        }
        let (mut at, mut idle_ms) = (3, 0);
        if is(args.get(3), "IDLE") {
            idle_ms = integer(args.get(4))?;
            at = 5;
            if args.len() < 8 {
                return Err(CommandError::SYNTAX);
            }
        }
        let count = u64::try_from(integer(args.get(at + 2))?).unwrap_or(0);
        let (low, high) = (parse_end(args.get(at), true)?, parse_end(args.get(at + 1), false)?);
        Ok(Some(Range { low, high, idle_ms, count, consumer: args.opt(at + 3) }))
    }

    /// The listing of it; `None` if the group does not know the consumer.
    fn listing(&self, group: &StreamGroup, now_ms: i64) -> Option<Listing> {
        let mut filter = PendingFilter::ALL;
        if self.idle_ms != 0 {
            filter.until_ms = now_ms.saturating_sub(self.idle_ms);
        }
        if let Some(name) = self.consumer {
            filter.consumer = Some(group.consumer(name)?.number());
        }
        Some(Listing { from: self.low, high: self.high, filter, left: self.count, now_ms, shown: 0 })
    }

    /// Replies with the entries, at most `most`; if there may be more, nothing is replied, and they go on with a copy of the group.
    fn reply(&self, group: &StreamGroup, (now_ms, most): (i64, u64), out: &mut Reply) -> Option<RestOfListing> {
        let Some(mut listing) = self.listing(group, now_ms) else {
            out.array(0);
            return None;
        };
        let (reply, head) = (out.mark(), out.defer());
        let entries = out.mark();
        if listing.some(group, most, out) {
            let entries = out.split_off(entries);
            out.truncate(reply);
            return Some(RestOfListing { group: group.clone(), listing, entries });
        }
        out.end_array(head, listing.shown);
        None
    }
}

/// XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
fn xpending(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let range = Range::parse(ctx.args)?;
    let (key, name, now_ms) = (ctx.key(1), ctx.args.get(2), ctx.tx.now_ms());
    let most = if ctx.session.takes_parts() { shown_in_a_part(&ctx.tx) } else { u64::MAX };
    let Ctx { tx, out, .. } = ctx;
    let found = tx.stream(&key, |stream| {
        let group = stream.group(name)?;
        Some(match &range {
            Some(range) => range.reply(group, (now_ms, most), out),
            None => {
                summary(group, out);
                None
            }
        })
    })?;
    if let Some(rest) = found.flatten().ok_or_else(|| no_group(key.bytes, name))? {
        ctx.go_on(Box::new(rest));
    }
    Ok(())
}

fn summary(group: &StreamGroup, out: &mut Reply) {
    out.array(4);
    out.integer(group.pending() as i64);
    let Some((first, last)) = group.pending_ends() else {
        out.null();
        out.null();
        return out.null_array();
    };
    out.bulk(&id_text(first.id));
    out.bulk(&id_text(last.id));
    let busy = || group.consumers().filter(|(_, consumer)| consumer.pending > 0);
    out.array(busy().count());
    for (name, consumer) in busy() {
        out.array(2);
        out.bulk(name);
        out.bulk_i64(consumer.pending as i64);
    }
}

const XPENDING: Command = Command::new(
    Exec::Keys(xpending),
    Row::new("xpending", CommandGroup::Stream, -3, "5.0.0")
        .about("Answers what is pending in a group.", "O(log(N)), and O(M) in the entries answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, READS)])
        .tips(&["nondeterministic_output"])
        .history(&[("6.2.0", "`IDLE` and ends that are excluded.")])
        .args(&[
            key("key", 0),
            GROUP,
            block(
                "filters",
                &[
                    arg("min-idle-time", ArgKind::Integer).token("IDLE").since("6.2.0").optional(),
                    arg("start", ArgKind::String),
                    arg("end", ArgKind::String),
                    arg("count", ArgKind::Integer),
                    CONSUMER.optional(),
                ],
            )
            .optional(),
        ]),
);

/// The words of XCLAIM.
struct Options {
    ids: Vec<StreamId>,
    time_ms: i64,
    count: Option<u64>,
    force: bool,
    just_id: bool,
    last: StreamId,
}

impl Options {
    fn parse(args: Args<'_>, now_ms: i64) -> CmdResult<Options> {
        let ids: Vec<StreamId> = (5..args.len()).map_while(|at| parse_strict(args.get(at), 0).ok()).collect();
        let mut at = 5 + ids.len();
        let (mut time_ms, last) = (None, StreamId::MIN);
        let mut options = Options { ids, time_ms: now_ms, count: None, force: false, just_id: false, last };
        while at < args.len() {
            let (word, value) = (args.get(at), args.opt(at + 1));
            let number = |error: CommandError| value.map(|text| integer(text).map_err(|_| error)).transpose();
            at += 2;
            if is(word, "FORCE") {
                options.force = true;
                at -= 1;
            } else if is(word, "JUSTID") {
                options.just_id = true;
                at -= 1;
            } else if is(word, "IDLE") && value.is_some() {
                time_ms = number(errors::CLAIM_IDLE)?.map(|idle| now_ms.wrapping_sub(idle));
            } else if is(word, "TIME") && value.is_some() {
                time_ms = number(errors::CLAIM_TIME)?;
            } else if is(word, "RETRYCOUNT") && value.is_some() {
                options.count = number(errors::CLAIM_COUNT)?.and_then(|count| u64::try_from(count).ok());
            } else if let (true, Some(id)) = (is(word, "LASTID"), value) {
                options.last = parse_strict(id, 0)?;
            } else {
                return Err(errors::unknown_claim_option(word));
            }
        }
        // A time that cannot be is the time of now.
        options.time_ms = time_ms.filter(|ms| (0..=now_ms).contains(ms)).unwrap_or(now_ms);
        Ok(options)
    }
}

/// XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-ms] [RETRYCOUNT count] [FORCE] [JUSTID]
/// [LASTID id]
fn xclaim(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args, now_ms) = (ctx.key(1), ctx.args, ctx.tx.now_ms());
    let name = args.get(2);
    let last = ctx.tx.stream(&key, |stream| stream.group(name).map(|group| (group.last(), group.read())))?;
    let Some((last, read)) = last.flatten() else { return Err(no_group(key.bytes, name)) };
    let min_idle_ms = integer(args.get(4)).map_err(|_| errors::CLAIM_MIN_IDLE)?;
    let options = Options::parse(args, now_ms)?;
    let mut claim = Claim::new(name, args.get(3), now_ms);
    (claim.just_id, claim.time_ms, claim.count) = (options.just_id, options.time_ms, options.count);
    let sets_last = options.last > last;
    let Ctx { tx, out, .. } = ctx;
    let head = out.defer();
    tx.stream_mut(&key, |stream| {
        if sets_last {
            stream.change_group(name, |group| group.set_last(options.last, read));
        }
        for &id in &options.ids {
            let pending = stream.read().group(name).and_then(|group| group.pending_at(id));
            if !stream.read().has(id) {
                if let Some(pending) = pending {
                    claim.drop(stream, pending);
                }
                continue;
            }
            let is_idle =
                |pending: PendingEntry| min_idle_ms <= 0 || now_ms.saturating_sub(pending.time_ms) >= min_idle_ms;
            if pending.map_or(options.force, is_idle) {
                claim.take(stream, pending, id, out);
            }
        }
    })?;
    out.end_array(head, claim.shown);
    claim.report(&mut ctx.tx, &key, sets_last);
    Ok(())
}

const XCLAIM: Command = Command::new(
    Exec::Keys(xclaim),
    Row::new("xclaim", CommandGroup::Stream, -6, "5.0.0")
        .about("Makes pending entries another consumer's.", "O(log(N)) an ID")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, UPDATES)])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            GROUP,
            CONSUMER,
            arg("min-idle-time", ArgKind::String),
            arg("id", ArgKind::String).multiple(),
            arg("ms", ArgKind::Integer).token("IDLE").optional(),
            arg("unix-time-milliseconds", ArgKind::UnixTime).token("TIME").optional(),
            arg("count", ArgKind::Integer).token("RETRYCOUNT").optional(),
            word("force", "FORCE").optional(),
            word("justid", "JUSTID").optional(),
            arg("id", ArgKind::String).token("LASTID").optional(),
        ]),
);

/// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
fn xautoclaim(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args, now_ms) = (ctx.key(1), ctx.args, ctx.tx.now_ms());
    let name = args.get(2);
    // The key is looked up before the words are read, and counts as a hit or a miss; its type is refused behind them.
    let found = ctx.tx.stream(&key, |stream| stream.group(name).is_some());
    let min_idle_ms = integer(args.get(4)).map_err(|_| errors::AUTOCLAIM_MIN_IDLE)?.max(0);
    let from = parse_end(args.get(5), true)?;
    let (mut count, mut at, mut just_id) = (100, 6, false);
    while at < args.len() {
        if is(args.get(at), "COUNT") && at + 1 < args.len() {
            let value = integer(args.get(at + 1)).map_err(|_| errors::COUNT_TOO_SMALL)?;
            count = u64::try_from(value).ok().filter(|n| (1..=COUNT_MAX).contains(n)).ok_or(errors::COUNT_TOO_SMALL)?;
            at += 1;
        } else if is(args.get(at), "JUSTID") {
            just_id = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
        at += 1;
    }
    if found? != Some(true) {
        return Err(no_group(key.bytes, name));
    }
    let mut search = Search::new(from, (now_ms - min_idle_ms, just_id), count, ctx.out);
    let names = (name, args.get(3));
    let most = if ctx.session.takes_parts() { claims_of_a_part(&ctx.tx) } else { u64::MAX };
    if count > most && ctx.gives_way() {
        return ctx.put_back();
    }
    if search.some(&mut ctx.tx, &key, names, most) {
        if let Some(occupied) = Occupied::begin(&mut ctx.tx, &key) {
            let (group, consumer) = (names.0.into(), names.1.into());
            let work = RestOfClaiming { name: key.bytes.into(), group, consumer, search };
            ctx.go_on_behind(Box::new(WhileOccupied { occupied, work }));
            return Ok(());
        }
        search.some(&mut ctx.tx, &key, names, u64::MAX);
    }
    search.reply(ctx.out);
    Ok(())
}

const XAUTOCLAIM: Command = Command::new(
    Exec::Keys(xautoclaim),
    Row::new("xautoclaim", CommandGroup::Stream, -6, "6.2.0")
        .about(
            "Makes entries that are pending for long another consumer's.",
            "O(log(N)), and O(M) in the entries claimed",
        )
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, DELETES)])
        .tips(&["nondeterministic_output"])
        .history(&[("7.0.0", "The IDs of entries that are gone from the stream.")])
        .args(&[
            key("key", 0),
            GROUP,
            CONSUMER,
            arg("min-idle-time", ArgKind::String),
            arg("start", ArgKind::String),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
            word("justid", "JUSTID").optional(),
        ]),
);
