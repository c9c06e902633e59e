//! SCAN and KEYS: all keys of a database, filtered.
//!
//! SCAN goes shard by shard, as far as they are free, and promises what Redis promises: a key that is there from the first call
//! to the last is told. KEYS begins with the keyspace at rest,
//! which is its instant; many keys are listed shard by shard, as they were then.
//!
//! The options of HSCAN, SSCAN and ZSCAN are read here too: [`Options`], [`parse_cursor`].

use varve_base::glob::Glob;
use varve_catalog::{Acl, ArgKind, Flags, Group, Row, arg};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress, WideCtx};
use varve_protocol::{Args, Reply};
use varve_store::{KeyListing, KeyNames, Store, Tx, Type, WantsName};

use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[SCAN, KEYS];

/// Elements that one call looks at, whatever its COUNT, and what stands in one leaf or bucket with the last one: COUNT is a hint,
/// and the shard is held for the whole call, some hundred microseconds.
const PAGE_MAX: usize = 4096;

/// The command that scans: each one of the family takes options of its own beside MATCH and COUNT.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// SCAN: TYPE.
    Keys,
    /// HSCAN: NOVALUES.
    Hash,
    /// SSCAN: nothing more.
    Set,
    /// ZSCAN: NOSCORES.
    Zset,
}

/// The options of a command of the SCAN family.
pub(crate) struct Options<'a> {
    pattern: Option<Glob<&'a [u8]>>,
    /// How many elements a call should look at, at most [`PAGE_MAX`].
    pub(crate) count: usize,
    ty: Option<&'a [u8]>,
    /// Only names are wanted: fields without values, members without scores.
    pub(crate) bare: bool,
}

impl<'a> Options<'a> {
    /// Reads the options, which start with argument `at`.
    pub(crate) fn parse(args: &Args<'a>, mut at: usize, family: Family) -> CmdResult<Options<'a>> {
        let mut options = Options { pattern: None, count: 10, ty: None, bare: false };
        while let Some(word) = args.opt(at) {
            at += 1;
            if family == Family::Hash && is(word, "NOVALUES") || family == Family::Zset && is(word, "NOSCORES") {
                options.bare = true;
                continue;
            }
            let value = args.opt(at).ok_or(CommandError::SYNTAX)?;
            at += 1;
            if is(word, "COUNT") {
                let count = integer(value)?;
                let count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(CommandError::SYNTAX)?;
                options.count = count.min(PAGE_MAX);
            } else if is(word, "MATCH") {
                options.pattern = Some(value).filter(|pattern| *pattern != b"*").map(Glob::new);
            } else if family == Family::Keys && is(word, "TYPE") {
                options.ty = Some(value);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Whether a key, field or member of this name is wanted.
    #[inline]
    pub(crate) fn wants(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    }

    fn wants_type(&self, ty: Type) -> bool {
        self.ty.is_none_or(|name| is(name, ty.name()))
    }
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
fn scan(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let store = ctx.tx.store();
    let cursor = parse_cursor(store, ctx.args.get(1))?;
    let options = Options::parse(&ctx.args, 2, Family::Keys)?;
    let mut found = 0;
    let page = ctx.out.defer();
    let next = ctx.tx.scan(cursor, options.count, &mut |key, ty| {
        if options.wants_type(ty) && options.wants(key) {
            ctx.out.bulk(key);
            found += 1;
        }
    });
    let Some(next) = next else { return ctx.put_back() };
    ctx.out.end_page(page, store.seal_cursor(next), found);
    Ok(())
}

const SCAN: Command = Command::new(
    Exec::Keyspace(scan),
    Row::new("scan", Group::Generic, -2, "2.8.0")
        .about("Walks over the keys of the database, a few in each call.", "O(1) a call, O(N) for the whole walk")
        .flags(&[Flags::READONLY, Flags::TOUCHES_ARBITRARY_KEYS])
        .acl(&[Acl::KEYSPACE])
        .tips(&["nondeterministic_output", "request_policy:special"])
        .history(&[("6.0.0", "`TYPE`.")])
        .args(&[
            arg("cursor", ArgKind::Integer),
            arg("pattern", ArgKind::Pattern).token("MATCH").optional(),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
            arg("type", ArgKind::String).token("TYPE").since("6.0.0").optional(),
        ]),
);

/// Reads a cursor that a client has named, and opens it.
pub(crate) fn parse_cursor(store: &Store, text: &[u8]) -> CmdResult<u64> {
    read_cursor(text).map(|sealed| store.open_cursor(sealed))
}

/// Reads a cursor with the liberties of C's `strtoul`, which clients rely on: empty is 0, a sign may stand in front,
/// and a negative number wraps. Leading space is refused.
fn read_cursor(text: &[u8]) -> CmdResult<u64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return if text.is_empty() { Ok(0) } else { Err(errors::CURSOR) };
    }
    let mut value = 0u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit)));
        value = next.filter(|_| digit < 10).ok_or(errors::CURSOR)?;
    }
    Ok(if negative { value.wrapping_neg() } else { value })
}

/// KEYS pattern
fn keys(ctx: &mut WideCtx<'_>) -> CmdResult {
    if ctx.session.takes_parts() && ctx.store.is_long_listing() {
        let wants: WantsName = match ctx.args.get(1) {
            b"*" => Box::new(|_| true),
            pattern => {
                let pattern = Glob::new(Box::<[u8]>::from(pattern));
                Box::new(move |key| pattern.matches(key))
            }
        };
        let listing = ctx.store.begin_listing(ctx.session.db(), ctx.worker.now_ms(), wants);
        ctx.go_on(Box::new(LongKeys::List(listing)));
        return Ok(());
    }
    let all = ctx.args.get(1) == b"*";
    let pattern = Glob::new(ctx.args.get(1));
    let mut count = 0;
    let keys = ctx.out.defer();
    ctx.store.for_each_key(ctx.worker, ctx.session.db(), &mut |key, _, _| {
        if all || pattern.matches(key) {
            ctx.out.bulk(key);
            count += 1;
        }
    });
    ctx.out.end_array(keys, count);
    Ok(())
}

/// A KEYS that is under way.
enum LongKeys {
    List(KeyListing),
    Reply(KeyNames),
}

impl Ongoing for LongKeys {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        match self {
            LongKeys::List(listing) => match tx.list_on(listing) {
                None => return Progress::Busy,
                Some(true) => {}
                Some(false) => {
                    let names = listing.take_names();
                    out.array(names.len());
                    *self = LongKeys::Reply(names);
                }
            },
            LongKeys::Reply(names) => {
                if names.take_some(|name| out.bulk(name)) == 0 {
                    return Progress::Done;
                }
            }
        }
        Progress::More
    }

    fn held_bytes(&self) -> usize {
        match self {
            LongKeys::List(listing) => listing.held_bytes(),
            LongKeys::Reply(names) => names.held_bytes(),
        }
    }

    fn kept_bytes(&self) -> usize {
        0
    }
}

const KEYS: Command = Command::new(
    Exec::Exclusive(keys),
    Row::new("keys", Group::Generic, 2, "1.0.0")
        .about("Lists the keys that match a pattern.", "O(N) in the keys of the database")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .args(&[arg("pattern", ArgKind::Pattern)]),
);

#[cfg(test)]
mod tests {
    use super::read_cursor;
    use crate::errors;

    #[test]
    fn cursors_are_read_as_strtoul_reads_them() {
        assert_eq!(read_cursor(b""), Ok(0));
        assert_eq!(read_cursor(b"+7"), Ok(7));
        assert_eq!(read_cursor(b"-1"), Ok(u64::MAX));
        assert_eq!(read_cursor(b"18446744073709551615"), Ok(u64::MAX));
        for bad in ["-", " 1", "1 ", "x", "1x", "18446744073709551616"] {
            assert_eq!(read_cursor(bad.as_bytes()), Err(errors::CURSOR), "{bad:?}");
        }
    }
}
