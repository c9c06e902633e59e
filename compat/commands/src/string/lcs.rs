//! LCS: the longest common subsequence of two strings, by the table of all prefixes (`table`).
//!
//! Redis keeps the whole table, four bytes a cell, and refuses what would pass `proto-max-bulk-len`; the same strings
//! are refused here. Strings that take more than some hundred microseconds are read once, and worked on without their shards.

mod table;

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key, word};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress};
use varve_protocol::{Args, Reply};
use varve_store::Tx;

use self::table::{Match, Table, Text};
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[LCS];

/// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]
fn lcs(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (first, second) = (ctx.key(1), ctx.key(2));
    let Ok(first_len) = ctx.tx.get(&first).map(|value| value.unwrap_or_default().len()) else {
        // Both keys are looked up, whatever the first one holds.
        let _ = ctx.tx.get(&second);
        return Err(errors::LCS_TYPES);
    };
    let second_len = ctx.tx.get(&second).map_err(|_| errors::LCS_TYPES)?.unwrap_or_default().len();
    let options = Options::parse(&ctx.args)?;
    if first_len.max(second_len) >= u32::MAX as usize - 1 {
        return Err(errors::LCS_LENGTH);
    }
    let cells = (first_len as u64 + 1) * (second_len as u64 + 1);
    if cells.checked_mul(4).is_none_or(|bytes| bytes > ctx.session.string_bytes_max() as u64) {
        return Err(errors::LCS_MEMORY);
    }
    let first_is_rows = first_len >= second_len;
    let (longer, shorter) = if first_is_rows { (first, second) } else { (second, first) };
    let columns = ctx.tx.peek(&shorter)?.unwrap_or_default().to_vec();
    let rows = match (columns.is_empty(), ctx.tx.pin(&longer)) {
        // There is nothing in common, however long the other is.
        (true, _) => Text::Copied(Vec::new()),
        (false, Some(pin)) => Text::Pinned(pin),
        (false, None) => Text::Copied(ctx.tx.peek(&longer)?.unwrap_or_default().to_vec()),
    };
    let mut search = Search { table: Table::new(rows, columns, first_is_rows, options.length)?, options };
    while !search.table.work() {
        if ctx.session.takes_parts() {
            ctx.go_on(Box::new(search));
            return Ok(());
        }
    }
    search.reply(ctx.out);
    Ok(())
}

/// The rest of LCS of long strings: its shards are not held.
struct Search {
    table: Table,
    options: Options,
}

impl Search {
    fn reply(&self, out: &mut Reply) {
        let (table, options) = (&self.table, &self.options);
        if options.ranges {
            reply_ranges(out, table.matches(), table.length(), options);
        } else if options.length {
            out.integer(table.length() as i64);
        } else {
            out.bulk(&table.text());
        }
    }
}

impl Ongoing for Search {
    fn go_on(&mut self, _: &mut Tx<'_>, out: &mut Reply) -> Progress {
        if !self.table.work() {
            return Progress::More;
        }
        self.reply(out);
        Progress::Done
    }

    fn held_bytes(&self) -> usize {
        self.table.bytes()
    }

    fn kept_bytes(&self) -> usize {
        0
    }
}

const LCS: Command = Command::new(
    Exec::Keys(lcs),
    Row::new("lcs", Group::String, -3, "7.0.0")
        .about("Finds the longest common subsequence of two strings.", "O(N*M) in the lengths of the two strings")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::STRING])
        .keys(&[KeySpec::range(1, 1, 1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[
            key("key1", 0),
            key("key2", 0),
            word("len", "LEN").optional(),
            word("idx", "IDX").optional(),
            arg("len", ArgKind::Integer).token("MINMATCHLEN").optional(),
            word("withmatchlen", "WITHMATCHLEN").optional(),
        ]),
);

#[derive(Default)]
struct Options {
    length: bool,
    ranges: bool,
    with_length: bool,
    shortest: usize,
}

impl Options {
    fn parse(args: &Args<'_>) -> CmdResult<Options> {
        let mut options = Options::default();
        let mut at = 3;
        while at < args.len() {
            let word = args.get(at);
            if is(word, "IDX") {
                options.ranges = true;
            } else if is(word, "LEN") {
                options.length = true;
            } else if is(word, "WITHMATCHLEN") {
                options.with_length = true;
            } else if is(word, "MINMATCHLEN") && at + 1 < args.len() {
                at += 1;
                options.shortest = usize::try_from(integer(args.get(at))?).unwrap_or(0);
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        }
        if options.length && options.ranges { Err(errors::LCS_LEN_AND_IDX) } else { Ok(options) }
    }
}

fn reply_ranges(out: &mut Reply, matches: &[Match], length: usize, options: &Options) {
    let wanted = || matches.iter().filter(|m| m.length >= options.shortest);
    out.map(2);
    out.bulk(b"matches");
    out.array(wanted().count());
    for m in wanted() {
        out.array(if options.with_length { 3 } else { 2 });
        for start in [m.first, m.second] {
            out.array(2);
            out.integer(start as i64);
            out.integer((start + m.length - 1) as i64);
        }
        if options.with_length {
            out.integer(m.length as i64);
        }
    }
    out.bulk(b"len");
    out.integer(length as i64);
}
