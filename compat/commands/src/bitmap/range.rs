//! BITCOUNT and BITPOS: the bits of a string, or of a range of it.
//!
//! ```text
//! BitRange   | first byte, of which some bits count | whole bytes .. | last byte, of which some bits count |
//! ```

use std::ops::Range;

use varve_base::bits::{first_other, ones};
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress};
use varve_protocol::{Args, Reply};
use varve_store::{Pin, Tx};

use super::PART_BYTES;
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[BITCOUNT, BITPOS];

/// Bits of a string: whole bytes but for the first one and the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BitRange {
    bytes: Range<usize>,
    /// The bits of the first byte that are in the range.
    first: u8,
    /// The bits of the last byte that are in the range.
    last: u8,
}

impl BitRange {
    /// The bits from `start` to `end`, both included, of a string of `len` bytes; negative ones count from the end. They
    /// count bits, or bytes.
    fn clip(len: usize, start: i64, end: i64, in_bits: bool) -> Option<BitRange> {
        let total = if in_bits { 8 * len as i64 } else { len as i64 };
        let place = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
        let (start, end) = (place(start), place(end).min(total - 1));
        if start > end {
            return None;
        }
        if !in_bits {
            return Some(BitRange { bytes: start as usize..end as usize + 1, first: 0xff, last: 0xff });
        }
        let bytes = (start >> 3) as usize..(end >> 3) as usize + 1;
        Some(BitRange { bytes, first: 0xff >> (start & 7), last: 0xff << (7 - (end & 7)) })
    }

    /// The bits of a byte that are in the range.
    fn mask(&self, at: usize) -> u8 {
        let first = if at == self.bytes.start { self.first } else { 0xff };
        let last = if at + 1 == self.bytes.end { self.last } else { 0xff };
        first & last
    }

    /// The bits that are set in a part of the range, which begins at byte `at` of the string.
    fn count(&self, at: usize, part: &[u8]) -> u64 {
        let outside = |nth: usize| u64::from((part[nth] & !self.mask(at + nth)).count_ones());
        let (mut edges, end) = (0, at + part.len());
        if at == self.bytes.start {
            edges += outside(0);
        }
        if end == self.bytes.end && end - 1 != self.bytes.start {
            edges += outside(part.len() - 1);
        }
        ones(part) - edges
    }

    /// The first bit that is set, or is not, in a part of the range that begins at byte `at` of the string.
    fn find(&self, at: usize, part: &[u8], bit: bool) -> Option<u64> {
        let mut from = 0;
        while let Some(nth) = first_other(&part[from..], if bit { 0 } else { 0xff }).map(|behind| from + behind) {
            let bits = if bit { part[nth] } else { !part[nth] } & self.mask(at + nth);
            if bits != 0 {
                return Some(8 * (at + nth) as u64 + u64::from(bits.leading_zeros()));
            }
            from = nth + 1;
        }
        None
    }
}

/// Whether the word says that a range is of bits; else it is of bytes.
fn in_bits(unit: &[u8]) -> CmdResult<bool> {
    match () {
        () if is(unit, "BIT") => Ok(true),
        () if is(unit, "BYTE") => Ok(false),
        () => Err(CommandError::SYNTAX),
    }
}

/// The range of BITCOUNT in a string of `len` bytes.
fn range_to_count(args: Args<'_>, len: usize) -> CmdResult<Option<BitRange>> {
    match args.len() {
        2 => Ok(BitRange::clip(len, 0, -1, false)),
        4 | 5 => {
            let (start, end) = (integer(args.get(2))?, integer(args.get(3))?);
            // Tested before the positions are clipped, and before the unit is looked at.
            if start < 0 && end < 0 && start > end {
                return Ok(None);
            }
            let in_bits = args.len() == 5 && in_bits(args.get(4))?;
            Ok(BitRange::clip(len, start, end, in_bits))
        }
        _ => Err(CommandError::SYNTAX),
    }
}

/// BITCOUNT key [start end [BYTE | BIT]]
fn bitcount(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, args) = (ctx.key(1), ctx.args);
    let Some(value) = ctx.tx.get(&key)? else {
        ctx.out.integer(0);
        return Ok(());
    };
    let Some(range) = range_to_count(args, value.len())? else {
        ctx.out.integer(0);
        return Ok(());
    };
    if range.bytes.len() <= PART_BYTES {
        let count = range.count(range.bytes.start, &value[range.bytes.clone()]);
        ctx.out.integer(count as i64);
        return Ok(());
    }
    scan_large(ctx, range, Scan::Count(0))
}

const BITCOUNT: Command = Command::new(
    Exec::Keys(bitcount),
    Row::new("bitcount", Group::Bitmap, -2, "2.6.0")
        .about("Answers how many bits of a string, or of a range of it, are set.", "O(N) in the bytes of the range")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::BITMAP])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .history(&[("7.0.0", "`BYTE` and `BIT`.")])
        .args(&[
            key("key", 0),
            block("index", &[arg("start", ArgKind::Integer), arg("end", ArgKind::Integer), INDEX_UNIT]).optional(),
        ]),
);

const INDEX_UNIT: varve_catalog::Argument =
    one_of("index_unit", &[word("byte", "BYTE"), word("bit", "BIT")]).since("7.0.0").optional();

/// BITPOS key bit [start [end [BYTE | BIT]]]
fn bitpos(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let bit = match integer(ctx.args.get(2))? {
        0 => false,
        1 => true,
        _ => return Err(errors::BIT_WANTED),
    };
    let (key, args) = (ctx.key(1), ctx.args);
    let Some(value) = ctx.tx.get(&key)? else {
        // Zeros without an end.
        ctx.out.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let (range, has_end) = match args.len() {
        3 => (BitRange::clip(value.len(), 0, -1, false), false),
        4..=6 => {
            let start = integer(args.get(3))?;
            let in_bits = args.len() == 6 && in_bits(args.get(5))?;
            let end = if args.len() > 4 { integer(args.get(4))? } else { -1 };
            (BitRange::clip(value.len(), start, end, in_bits), args.len() > 4)
        }
        _ => return Err(CommandError::SYNTAX),
    };
    let Some(range) = range else {
        ctx.out.integer(-1);
        return Ok(());
    };
    if range.bytes.len() <= PART_BYTES {
        let found = range.find(range.bytes.start, &value[range.bytes.clone()], bit);
        ctx.out.integer(position(found, &range, bit, has_end));
        return Ok(());
    }
    scan_large(ctx, range, Scan::Find { bit, has_end })
}

const BITPOS: Command = Command::new(
    Exec::Keys(bitpos),
    Row::new("bitpos", Group::Bitmap, -3, "2.8.7")
        .about("Answers where the first bit stands that is set, or is not.", "O(N) in the bytes of the range")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::BITMAP])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .history(&[("7.0.0", "`BYTE` and `BIT`.")])
        .args(&[
            key("key", 0),
            arg("bit", ArgKind::Integer),
            block(
                "index",
                &[
                    arg("start", ArgKind::Integer),
                    block("end_index", &[arg("end", ArgKind::Integer), INDEX_UNIT]).optional(),
                ],
            )
            .optional(),
        ]),
);

/// The reply of BITPOS. Behind a string whose end was not named, zeros go on.
fn position(found: Option<u64>, range: &BitRange, bit: bool, has_end: bool) -> i64 {
    match found {
        Some(at) => at as i64,
        None if bit || has_end => -1,
        None => 8 * range.bytes.end as i64,
    }
}

/// A question about the bits of a large value.
#[derive(Clone, Copy)]
enum Scan {
    /// How many are set, and how many were found so far.
    Count(u64),
    Find {
        bit: bool,
        has_end: bool,
    },
}

impl Scan {
    /// Looks at all bytes of a range: the reply.
    fn whole(self, bytes: &[u8], range: &BitRange) -> i64 {
        match self {
            Scan::Count(count) => (count + range.count(range.bytes.start, bytes)) as i64,
            Scan::Find { bit, has_end } => position(range.find(range.bytes.start, bytes, bit), range, bit, has_end),
        }
    }

    /// Looks at some `most` bytes of a range, from byte `done` on, which moves behind them; the reply, if there is one now. Bytes
    /// that were never written are passed over: none of their bits is set.
    fn step(&mut self, value: &Pin, range: &BitRange, done: &mut usize, most: usize) -> Option<i64> {
        let (end, mut left) = (range.bytes.end, most);
        while *done < end && left > 0 {
            let mut part = match self {
                // The first zero is found where nothing was written, at the latest.
                Scan::Find { bit: false, .. } => *done..end,
                _ => value.next_written(*done),
            };
            part.end = part.end.min(end).min(part.start.saturating_add(left.min(Pin::READ_BYTES)));
            if part.is_empty() {
                *done = end;
                break;
            }
            let read = value.read(part.clone());
            (*done, left) = (part.start + read.len(), left - read.len());
            match self {
                Scan::Count(count) => *count += range.count(part.start, &read),
                Scan::Find { bit, has_end } => {
                    let found = range.find(part.start, &read, *bit);
                    if found.is_some() {
                        return Some(position(found, range, *bit, *has_end));
                    }
                }
            }
        }
        let is_over = *done == end;
        is_over.then(|| match self {
            Scan::Count(count) => *count as i64,
            Scan::Find { bit, has_end } => position(None, range, *bit, *has_end),
        })
    }
}

/// The rest of a large value whose bits are looked at.
struct LongScan {
    value: Pin,
    range: BitRange,
    done: usize,
    scan: Scan,
}

/// Looks at many bits of the first key's value: over several turns, if the value has a run to be pinned in and was written in many
/// places. Runs are for values of fewer bytes than come here, unless the settings say otherwise.
#[cold]
fn scan_large(ctx: &mut Ctx<'_, '_>, range: BitRange, mut scan: Scan) -> CmdResult {
    let key = ctx.key(1);
    let mut done = range.bytes.start;
    let most = if ctx.session.takes_parts() { PART_BYTES } else { usize::MAX };
    let Some(value) = ctx.tx.pin(&key) else {
        let value = ctx.tx.peek(&key)?.unwrap_or_default();
        ctx.out.integer(scan.whole(&value[range.bytes.clone()], &range));
        return Ok(());
    };
    match scan.step(&value, &range, &mut done, most) {
        Some(reply) => ctx.out.integer(reply),
        None => ctx.go_on(Box::new(LongScan { value, range, done, scan })),
    }
    Ok(())
}

impl Ongoing for LongScan {
    fn go_on(&mut self, _: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let LongScan { value, range, done, scan } = self;
        match scan.step(value, range, done, PART_BYTES) {
            Some(reply) => {
                out.integer(reply);
                Progress::Done
            }
            None => Progress::More,
        }
    }

    fn kept_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_and_find_as_bits_one_by_one_do() {
        let value = [0x0f, 0x00, 0xff, 0x80, 0x01, 0xff];
        let is_set = |bit: i64| value[(bit >> 3) as usize] >> (7 - (bit & 7)) & 1 == 1;
        for start in 0..48 {
            for end in start..48 {
                let range = BitRange::clip(value.len(), start, end, true).expect("bits");
                for cut in range.bytes.clone() {
                    let parts = [range.bytes.start..cut, cut..range.bytes.end];
                    let parts = || parts.iter().filter(|part| !part.is_empty()).cloned();
                    let counted: u64 = parts().map(|part| range.count(part.start, &value[part])).sum();
                    assert_eq!(counted, (start..=end).filter(|&bit| is_set(bit)).count() as u64, "{start} {end} {cut}");
                    for bit in [false, true] {
                        let found = parts().find_map(|part| range.find(part.start, &value[part], bit));
                        let wanted = (start..=end).find(|&at| is_set(at) == bit);
                        assert_eq!(found, wanted.map(|at| at as u64), "{bit} in {start} {end} {cut}");
                    }
                }
            }
        }
        assert_eq!(BitRange::clip(0, 0, -1, false), None);
        assert_eq!(BitRange::clip(3, i64::MAX, i64::MAX, true), None);
        assert_eq!(BitRange::clip(3, i64::MIN, i64::MAX, false).expect("all").bytes, 0..3);
    }
}
