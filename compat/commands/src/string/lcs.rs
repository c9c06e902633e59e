//! LCS: the longest common subsequence of two strings, by the table of all prefixes.
//!
//! Redis keeps the whole table, four bytes a cell, and refuses what would pass `proto-max-bulk-len`; the same strings
//! are refused here. But of each cell only one bit is needed on the way back (is the cell above longer than the one to
//! the left), so the table is 1/32 of that and one row of lengths.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key, word};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::{Args, Reply};

use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[LCS];

/// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]
fn lcs(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (first, second) = (ctx.key(1), ctx.key(2));
    let Ok(a_len) = ctx.tx.get(&first).map(|value| value.unwrap_or_default().len()) else {
        // Both keys are looked up, whatever the first one holds.
        ctx.tx.touch(&second);
        return Err(errors::LCS_TYPES);
    };
    let b_len = ctx.tx.get(&second).map_err(|_| errors::LCS_TYPES)?.unwrap_or_default().len();
    let options = Options::parse(&ctx.args)?;
    if a_len.max(b_len) >= u32::MAX as usize - 1 {
        return Err(errors::LCS_LENGTH);
    }
    let cells = (a_len as u64 + 1) * (b_len as u64 + 1);
    if cells.checked_mul(4).is_none_or(|bytes| bytes > ctx.session.string_bytes_max() as u64) {
        return Err(errors::LCS_MEMORY);
    }
    // Two values of one keyspace cannot be borrowed at once. The first one is small beside the table, but where one of them is empty,
    // however long the other is.
    let (a, b) = match a_len.min(b_len) {
        0 => (Vec::new(), &[][..]),
        _ => (ctx.tx.peek(&first)?.unwrap_or_default().to_vec(), ctx.tx.peek(&second)?.unwrap_or_default()),
    };
    let table = Table::new(&a, b);
    if options.ranges {
        reply_ranges(ctx.out, &table.ranges(&a, b), table.length, &options);
    } else if options.length {
        ctx.out.integer(table.length as i64);
    } else {
        ctx.out.bulk(&table.text(&a, b));
    }
    Ok(())
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

/// For each pair of prefixes, whether the way back goes up.
struct Table {
    up: Vec<u64>,
    width: usize,
    length: usize,
}

/// A stretch that both strings have, as positions of its first byte, and its length.
#[derive(Clone, Copy)]
struct Match {
    a: usize,
    b: usize,
    length: usize,
}

impl Table {
    fn new(a: &[u8], b: &[u8]) -> Table {
        let width = b.len();
        let mut up = vec![0u64; (a.len() * width).div_ceil(64)];
        let mut row = vec![0u32; width + 1];
        for (i, &left) in a.iter().enumerate() {
            let mut diagonal = 0;
            for (j, &right) in b.iter().enumerate() {
                let above = row[j + 1];
                let before = row[j];
                let cell = i * width + j;
                if left == right {
                    row[j + 1] = diagonal + 1;
                } else if above > before {
                    up[cell / 64] |= 1 << (cell % 64);
                } else {
                    row[j + 1] = before;
                }
                diagonal = above;
            }
        }
        Table { up, width, length: row[width] as usize }
    }

    /// Walks back from the ends and calls with the positions of each common byte, last first.
    fn walk(&self, a: &[u8], b: &[u8], mut each: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            let cell = (i - 1) * self.width + j - 1;
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                each(i, j);
            } else if self.up[cell / 64] >> (cell % 64) & 1 == 1 {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }

    fn text(&self, a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.length);
        self.walk(a, b, |i, _| text.push(a[i]));
        text.reverse();
        text
    }

    /// The stretches, last first.
    fn ranges(&self, a: &[u8], b: &[u8]) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        self.walk(a, b, |i, j| match matches.last_mut() {
            Some(last) if last.a == i + 1 && last.b == j + 1 => {
                *last = Match { a: i, b: j, length: last.length + 1 };
            }
            _ => matches.push(Match { a: i, b: j, length: 1 }),
        });
        matches
    }
}

fn reply_ranges(out: &mut Reply, matches: &[Match], length: usize, options: &Options) {
    let wanted = || matches.iter().filter(|m| m.length >= options.shortest);
    out.map(2);
    out.bulk(b"matches");
    out.array(wanted().count());
    for m in wanted() {
        out.array(if options.with_length { 3 } else { 2 });
        for start in [m.a, m.b] {
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
