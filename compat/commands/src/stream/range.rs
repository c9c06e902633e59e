//! XLEN, XRANGE, XREVRANGE.

use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{EntryReader, StreamId, Tx};

use super::id::parse_end;
use super::{READS, reply_entry};
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[XLEN, XRANGE, XREVRANGE];

/// XLEN key
fn xlen(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let len = ctx.tx.stream(&key, |stream| stream.len())?;
    ctx.out.integer(len.unwrap_or(0) as i64);
    Ok(())
}

const XLEN: Command = Command::new(
    Exec::Keys(xlen),
    Row::new("xlen", Group::Stream, 2, "5.0.0")
        .about("Answers the number of entries.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
);

const COUNT: Argument = arg("count", ArgKind::Integer).token("COUNT").optional();

/// XRANGE key start end [COUNT count]
fn xrange(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    range(ctx, false)
}

const XRANGE: Command = Command::new(
    Exec::Keys(xrange),
    Row::new("xrange", Group::Stream, -4, "5.0.0")
        .about("Answers the entries from one ID to another.", "O(log(N)), and O(M) in the entries answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, READS)])
        .history(&[("6.2.0", "Ends that are excluded.")])
        .args(&[key("key", 0), arg("start", ArgKind::String), arg("end", ArgKind::String), COUNT]),
);

/// XREVRANGE key end start [COUNT count]
fn xrevrange(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    range(ctx, true)
}

const XREVRANGE: Command = Command::new(
    Exec::Keys(xrevrange),
    Row::new("xrevrange", Group::Stream, -4, "5.0.0")
        .about("Answers the entries from one ID down to another.", "O(log(N)), and O(M) in the entries answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STREAM])
        .keys(&[KeySpec::one(1, READS)])
        .history(&[("6.2.0", "Ends that are excluded.")])
        .args(&[key("key", 0), arg("end", ArgKind::String), arg("start", ArgKind::String), COUNT]),
);

fn range(ctx: &mut Ctx<'_, '_>, rev: bool) -> CmdResult {
    let args = ctx.args;
    let (low, high) = if rev { (3, 2) } else { (2, 3) };
    let low = parse_end(args.get(low), true)?;
    let high = parse_end(args.get(high), false)?;
    let mut count = u64::MAX;
    let mut at = 4;
    while at < args.len() {
        if !is(args.get(at), "COUNT") || at + 1 == args.len() {
            return Err(CommandError::SYNTAX);
        }
        count = u64::try_from(integer(args.get(at + 1))?).unwrap_or(0);
        at += 2;
    }
    let key = ctx.key(1);
    if count > 0 && ctx.session.takes_parts() {
        // A key of another type is counted and refused below.
        let long = ctx.tx.begin_reading_stream(&key, (low, high), rev, count);
        if let Ok(Some((reader, count))) = long {
            ctx.tx.note_read(&key, true);
            ctx.out.array(count as usize);
            ctx.go_on(Box::new(RestOfEntries { reader, behind: Vec::new() }));
            return Ok(());
        }
    }
    let Ctx { tx, out, .. } = ctx;
    let found = tx.stream(&key, |stream| {
        if count == 0 {
            out.null_array();
        } else {
            let head = out.defer();
            let mut shown = 0;
            stream.range(low, high, rev, |entry| {
                reply_entry(out, entry);
                shown += 1;
                shown < count && !out.is_overflown()
            });
            out.end_array(head, shown as usize);
        }
    })?;
    if found.is_none() {
        out.array(0);
    }
    Ok(())
}

/// The entries of a long range that are still to be replied, and what stands behind them.
pub(super) struct RestOfEntries {
    pub(super) reader: EntryReader,
    pub(super) behind: Vec<u8>,
}

impl Ongoing for RestOfEntries {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let read = tx.read_entries_on(&mut self.reader, |part| part.for_each(|entry| reply_entry(out, entry)));
        let progress = Progress::from(read);
        if matches!(progress, Progress::Done) {
            out.raw(&self.behind);
        }
        progress
    }

    fn held_bytes(&self) -> usize {
        self.behind.capacity()
    }

    fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}

/// All IDs.
pub(super) const ALL: (StreamId, StreamId) = (StreamId::MIN, StreamId::MAX);
