//! XINFO.

use std::collections::HashMap;

use varve_catalog::{Acl, ArgKind, Flags, Group as CommandGroup, KeySpec, Row, arg, block, key};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, SessionCtx};
use varve_protocol::{Args, Reply};
use varve_store::{
    Consumer, IdempotenceFigures, PendingEntry, PendingFilter, StreamFacts, StreamGroup, StreamId, StreamReader,
    StreamState,
};

use super::range::{ALL, RestOfEntries};
use super::{READS, id_text, reply_entry};
use crate::errors;
use crate::grammar::{help, integer, is};

pub(super) const ROWS: FileRows = &[XINFO];

const SUBCOMMANDS: FileRows = &[XINFO_STREAM, XINFO_GROUPS, XINFO_CONSUMERS, XINFO_HELP];

/// Entries that XINFO STREAM FULL answers.
const FULL_ENTRIES: u64 = 10;

/// XINFO STREAM key [FULL [COUNT count]]
fn xinfo_stream(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(2);
    let full = match full_entries(&ctx.args) {
        Ok(full) => full,
        Err(error) => {
            // The key is looked up before the words are.
            ctx.tx.stream(&key, |_| ())?.ok_or(CommandError::NO_KEY)?;
            return Err(error);
        }
    };
    if let Some(count @ (0 | 1024..)) = full
        && ctx.session.takes_parts()
        && full_in_parts(ctx, if count == 0 { u64::MAX } else { count })?
    {
        return Ok(());
    }
    let now_ms = ctx.tx.now_ms();
    let Ctx { tx, out, .. } = ctx;
    tx.stream(&key, |stream| match full {
        None => summary(out, stream, now_ms),
        Some(count) => {
            out.map(9 + more_figures(stream));
            figures(out, stream, now_ms);
            out.bulk(b"entries");
            let count = if count == 0 { u64::MAX } else { count };
            out.array(count.min(stream.len()) as usize);
            let mut shown = 0;
            stream.range(ALL.0, ALL.1, false, |entry| {
                reply_entry(out, entry);
                shown += 1;
                shown < count
            });
            behind_entries(out, stream, count);
        }
    })?
    .ok_or(CommandError::NO_KEY)
}

/// How many entries are answered, 0 for all; None without FULL.
fn full_entries(args: &Args<'_>) -> CmdResult<Option<u64>> {
    match args.len() {
        3 => Ok(None),
        4 | 6 if is(args.get(3), "FULL") && (args.len() == 4 || is(args.get(4), "COUNT")) => {
            let count = args.opt(5).map_or(Ok(FULL_ENTRIES as i64), integer)?;
            Ok(Some(u64::try_from(count).unwrap_or(FULL_ENTRIES)))
        }
        _ => Err(errors::wrong_subcommand("XINFO", args.get(1))),
    }
}

const XINFO_STREAM: Command = Command::new(
    Exec::Keys(xinfo_stream),
    Row::sub("xinfo|stream", "stream", CommandGroup::Stream, -3, "5.0.0")
        .about("Answers the figures of a stream.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, READS)])
        .history(&[
            ("6.0.0", "`FULL`."),
            ("7.0.0", "`max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`."),
            (
                "8.6.0",
                "`idmp-duration`, `idmp-maxsize`, `pids-tracked`, `iids-tracked`, `iids-added`, `iids-duplicates`.",
            ),
        ])
        .args(&[
            key("key", 0),
            block("full", &[arg("count", ArgKind::Integer).token("COUNT").optional()]).token("FULL").optional(),
        ]),
);

/// Begins a long answer; false if it is short.
fn full_in_parts(ctx: &mut Ctx<'_, '_>, shown: u64) -> CmdResult<bool> {
    let key = ctx.key(2);
    // A key of another type is counted and refused by the caller.
    let Ok(Some((reader, count))) = ctx.tx.begin_reading_stream(&key, ALL, false, shown) else { return Ok(false) };
    let now_ms = ctx.tx.now_ms();
    let Ctx { tx, out, .. } = ctx;
    tx.stream(&key, |stream| {
        out.map(9 + more_figures(stream));
        figures(out, stream, now_ms);
    })?;
    out.bulk(b"entries");
    out.array(count as usize);
    let mut behind = out.like();
    tx.stream_peek(&key, |stream| behind_entries(&mut behind, stream, shown))?;
    let behind = behind.to_vec();
    ctx.go_on(Box::new(RestOfEntries { reader, behind }));
    Ok(true)
}

fn summary(out: &mut Reply, stream: StreamReader<'_>, now_ms: i64) {
    out.map(10 + more_figures(stream));
    figures(out, stream, now_ms);
    out.bulk(b"groups");
    out.integer(stream.facts().groups as i64);
    for (name, entry) in [("first-entry", stream.first()), ("last-entry", stream.last())] {
        out.bulk(name.as_bytes());
        match entry {
            Some(entry) => reply_entry(out, entry),
            None => out.null(),
        }
    }
}

/// Figures beyond seven that both answers begin with: a stream that never kept names of messages is shown as by 7.0.15.
fn more_figures(stream: StreamReader<'_>) -> usize {
    if stream.idempotence().is_some() { 6 } else { 0 }
}

/// The figures that both answers begin with.
fn figures(out: &mut Reply, stream: StreamReader<'_>, now_ms: i64) {
    let (facts, nodes) = (stream.facts(), stream.nodes() as i64);
    let StreamState { last, max_deleted, added } = facts.state;
    out.bulk(b"length");
    out.integer(facts.len as i64);
    out.bulk(b"radix-tree-keys");
    out.integer(nodes);
    out.bulk(b"radix-tree-nodes");
    out.integer(nodes + 1);
    out.bulk(b"last-generated-id");
    out.bulk(&id_text(last));
    out.bulk(b"max-deleted-entry-id");
    out.bulk(&id_text(max_deleted));
    out.bulk(b"entries-added");
    out.integer(added as i64);
    out.bulk(b"recorded-first-entry-id");
    out.bulk(&id_text(facts.first));
    if let Some(kept) = stream.idempotence() {
        let IdempotenceFigures { limits, producers, names, added, duplicates } = kept.figures(now_ms);
        for (name, number) in [
            ("idmp-duration", u64::from(limits.duration_s)),
            ("idmp-maxsize", u64::from(limits.names_max)),
            ("pids-tracked", producers),
            ("iids-tracked", names),
            ("iids-added", added),
            ("iids-duplicates", duplicates),
        ] {
            out.bulk(name.as_bytes());
            out.integer(number as i64);
        }
    }
}

/// The groups of XINFO STREAM FULL, of each at most `count` pending entries, and as many of each consumer.
fn behind_entries(out: &mut Reply, stream: StreamReader<'_>, count: u64) {
    let facts = stream.facts();
    out.bulk(b"groups");
    out.array(facts.groups);
    for (name, group) in stream.groups().into_iter().flat_map(|groups| groups.iter()) {
        out.map(7);
        out.bulk(b"name");
        out.bulk(name);
        given(out, group, &facts);
        out.bulk(b"pel-count");
        out.integer(group.pending() as i64);
        out.bulk(b"pending");
        out.array(group.pending().min(count) as usize);
        group.scan_some(StreamId::MIN, PendingFilter::ALL, count, |entry| {
            out.array(4);
            out.bulk(&id_text(entry.id));
            out.bulk(group.name(entry.consumer));
            out.integer(entry.time_ms);
            out.integer(entry.count as i64);
        });
        out.bulk(b"consumers");
        out.array(group.consumer_count());
        let pending = pending_of_each(group, count);
        for (name, consumer) in group.consumers() {
            full_consumer(out, (name, consumer), pending.get(&consumer.number()).map_or(&[], Vec::as_slice));
        }
    }
}

/// Consumers up to this number are searched for one by one: a search passes over parts of the group that have none of the
/// consumer's entries.
const SEARCHED_MAX: usize = 16;

/// The first pending entries of each consumer of a group, at most `count` of one, by its number. Those of many consumers are
/// found in one pass: a search for each of 30 000 took seconds.
fn pending_of_each(group: &StreamGroup, count: u64) -> HashMap<u32, Vec<PendingEntry>> {
    let mut found: HashMap<u32, Vec<PendingEntry>> = HashMap::new();
    // How many of a consumer's entries are still to be found, if any.
    let mut wanted: HashMap<u32, u64> =
        group.consumers().map(|(_, one)| (one.number(), one.pending.min(count))).collect();
    wanted.retain(|_, left| *left > 0);
    if wanted.len() > SEARCHED_MAX {
        group.scan(StreamId::MIN, PendingFilter::ALL, |entry| {
            if let Some(left) = wanted.get_mut(&entry.consumer) {
                found.entry(entry.consumer).or_default().push(entry);
                *left -= 1;
                if *left == 0 {
                    wanted.remove(&entry.consumer);
                }
            }
            wanted.len() > SEARCHED_MAX
        });
    }
    for (consumer, left) in wanted {
        let list = found.entry(consumer).or_default();
        let from = list.last().map_or(Some(StreamId::MIN), |last| last.id.next());
        let filter = PendingFilter { consumer: Some(consumer), ..PendingFilter::ALL };
        from.into_iter().for_each(|from| group.scan_some(from, filter, left, |entry| list.push(entry)));
    }
    found
}

fn full_consumer(out: &mut Reply, (name, consumer): (&[u8], Consumer), pending: &[PendingEntry]) {
    out.map(4);
    out.bulk(b"name");
    out.bulk(name);
    out.bulk(b"seen-time");
    out.integer(consumer.seen_ms);
    out.bulk(b"pel-count");
    out.integer(consumer.pending as i64);
    out.bulk(b"pending");
    out.array(pending.len());
    for entry in pending {
        out.array(3);
        out.bulk(&id_text(entry.id));
        out.integer(entry.time_ms);
        out.integer(entry.count as i64);
    }
}

/// Shows how far a group was given the entries.
fn given(out: &mut Reply, group: &StreamGroup, facts: &StreamFacts) {
    let (read, lag) = (group.read().map(|read| read as i64), group.lag(facts));
    out.bulk(b"last-delivered-id");
    out.bulk(&id_text(group.last()));
    for (name, number) in [(&b"entries-read"[..], read), (b"lag", lag)] {
        out.bulk(name);
        match number {
            Some(number) => out.integer(number),
            None => out.null(),
        }
    }
}

/// XINFO GROUPS key
fn xinfo_groups(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(2);
    let Ctx { tx, out, .. } = ctx;
    let found = tx.stream(&key, |stream| {
        let facts = stream.facts();
        out.array(facts.groups);
        for (name, group) in stream.groups().into_iter().flat_map(|groups| groups.iter()) {
            out.map(6);
            out.bulk(b"name");
            out.bulk(name);
            out.bulk(b"consumers");
            out.integer(group.consumer_count() as i64);
            out.bulk(b"pending");
            out.integer(group.pending() as i64);
            given(out, group, &facts);
        }
    })?;
    found.ok_or(CommandError::NO_KEY)
}

const XINFO_GROUPS: Command = Command::new(
    Exec::Keys(xinfo_groups),
    Row::sub("xinfo|groups", "groups", CommandGroup::Stream, 3, "5.0.0")
        .about("Answers the figures of a stream's groups.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, READS)])
        .history(&[("7.0.0", "`entries-read` and `lag`.")])
        .args(&[key("key", 0)]),
);

/// XINFO CONSUMERS key group
fn xinfo_consumers(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, name, now_ms) = (ctx.key(2), ctx.args.get(3), ctx.tx.now_ms());
    let Ctx { tx, out, .. } = ctx;
    let found = tx.stream(&key, |stream| {
        let group = stream.group(name)?;
        out.array(group.consumer_count());
        for (name, consumer) in group.consumers() {
            out.map(3);
            out.bulk(b"name");
            out.bulk(name);
            out.bulk(b"pending");
            out.integer(consumer.pending as i64);
            out.bulk(b"idle");
            out.integer(now_ms.saturating_sub(consumer.seen_ms).max(0));
        }
        Some(())
    })?;
    found.ok_or(CommandError::NO_KEY)?.ok_or_else(|| errors::no_group_of(name, key.bytes))
}

const XINFO_CONSUMERS: Command = Command::new(
    Exec::Keys(xinfo_consumers),
    Row::sub("xinfo|consumers", "consumers", CommandGroup::Stream, 4, "5.0.0")
        .about("Answers the figures of a group's consumers.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, READS)])
        .tips(&["nondeterministic_output"])
        .args(&[key("key", 0), arg("groupname", ArgKind::String)]),
);

/// XINFO HELP
fn xinfo_help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    help(
        ctx.out,
        "XINFO",
        &[
            "CONSUMERS <key> <groupname>",
            "    Show figures of the group's consumers.",
            "GROUPS <key>",
            "    Show figures of the stream's groups.",
            "STREAM <key> [FULL [COUNT <count>]]",
            "    Show figures of the stream at <key>; with FULL its first entries too.",
        ],
    );
    Ok(())
}

const XINFO_HELP: Command = Command::new(
    Exec::Session(xinfo_help),
    Row::sub("xinfo|help", "help", CommandGroup::Stream, 2, "5.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::STREAM]),
);

const XINFO: Command = Command::container(
    Row::new("xinfo", CommandGroup::Stream, -2, "5.0.0").about("Figures of streams.", ""),
    SUBCOMMANDS,
);
