//! XINFO.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, block, key};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, SessionCtx};
use varve_protocol::{Args, Reply};
use varve_store::{StreamReader, StreamState};

use super::range::{ALL, RestOfEntries};
use super::{READS, id_text, reply_entry};
use crate::errors;
use crate::grammar::{help, integer, is};

pub(super) const ROWS: FileRows = &[XINFO];

const SUBCOMMANDS: FileRows = &[XINFO_STREAM, XINFO_HELP];

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
    let Ctx { tx, out, .. } = ctx;
    tx.stream(&key, |stream| match full {
        None => summary(out, stream),
        Some(count) => {
            out.map(9);
            figures(out, stream);
            out.bulk(b"entries");
            let count = if count == 0 { u64::MAX } else { count };
            out.array(count.min(stream.stream.len()) as usize);
            let mut shown = 0;
            stream.range(ALL.0, ALL.1, false, |entry| {
                reply_entry(out, entry);
                shown += 1;
                shown < count
            });
            behind_entries(out);
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
    Row::sub("xinfo|stream", "stream", Group::Stream, -3, "5.0.0")
        .about("Answers the figures of a stream.", "O(1)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(2, READS)])
        .history(&[
            ("6.0.0", "`FULL`."),
            ("7.0.0", "`max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`."),
        ])
        .args(&[
            key("key", 0),
            block("full", &[arg("count", ArgKind::Integer).token("COUNT").optional()]).token("FULL").optional(),
        ]),
);

/// Begins a long answer; false if it is short.
fn full_in_parts(ctx: &mut Ctx<'_, '_>, count: u64) -> CmdResult<bool> {
    let key = ctx.key(2);
    // A key of another type is counted and refused by the caller.
    let Ok(Some((reader, count))) = ctx.tx.begin_reading_stream(&key, ALL, false, count) else { return Ok(false) };
    let Ctx { tx, out, .. } = ctx;
    tx.stream(&key, |stream| {
        out.map(9);
        figures(out, stream);
    })?;
    out.bulk(b"entries");
    out.array(count as usize);
    let mut behind = out.like();
    behind_entries(&mut behind);
    let behind = behind.parts().collect::<Vec<_>>().concat();
    ctx.go_on(Box::new(RestOfEntries { reader, behind }));
    Ok(true)
}

fn summary(out: &mut Reply, stream: StreamReader<'_>) {
    out.map(10);
    figures(out, stream);
    out.bulk(b"groups");
    out.integer(0);
    for (name, entry) in [("first-entry", stream.first()), ("last-entry", stream.last())] {
        out.bulk(name.as_bytes());
        match entry {
            Some(entry) => reply_entry(out, entry),
            None => out.null(),
        }
    }
}

/// The seven figures that both answers begin with.
fn figures(out: &mut Reply, stream: StreamReader<'_>) {
    let (facts, nodes) = (stream.facts(), stream.stream.nodes() as i64);
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
}

fn behind_entries(out: &mut Reply) {
    out.bulk(b"groups");
    out.array(0);
}

/// XINFO HELP
fn xinfo_help(ctx: &mut SessionCtx<'_>) -> CmdResult {
    help(
        ctx.out,
        "XINFO",
        &[
            "STREAM <key> [FULL [COUNT <count>]]",
            "    Show figures of the stream at <key>; with FULL its first entries too.",
        ],
    );
    Ok(())
}

const XINFO_HELP: Command = Command::new(
    Exec::Session(xinfo_help),
    Row::sub("xinfo|help", "help", Group::Stream, 2, "5.0.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .acl(&[Acl::STREAM]),
);

const XINFO: Command =
    Command::container(Row::new("xinfo", Group::Stream, -2, "5.0.0").about("Figures of streams.", ""), SUBCOMMANDS);
