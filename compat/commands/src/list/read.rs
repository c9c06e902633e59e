//! LLEN, LINDEX, LRANGE, LPOS.

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, key};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{Key, ListEnd, ListReader, ListSearch, ReadOn, Tx};

use super::write_part;
use crate::errors;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[LLEN, LINDEX, LRANGE, LPOS];

/// LLEN key
fn llen(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    ctx.tx.list_len(&key).map(|length| ctx.out.integer(length as i64)).map_err(Into::into)
}

const LLEN: Command = Command::new(
    Exec::Keys(llen),
    Row::new("llen", Group::List, 2, "1.0.0")
        .about("Answers the number of elements.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
);

/// LINDEX key index
fn lindex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let Ok(index) = integer(ctx.args.get(2)) else {
        // The key is looked at first: without it, even what is no number answers null.
        if ctx.tx.list_len(&key)? > 0 {
            return Err(CommandError::NOT_INTEGER);
        }
        ctx.out.null();
        return Ok(());
    };
    let out = &mut *ctx.out;
    if !ctx.tx.list_get(&key, index, |text| out.bulk(text))? {
        ctx.out.null();
    }
    Ok(())
}

const LINDEX: Command = Command::new(
    Exec::Keys(lindex),
    Row::new("lindex", Group::List, 3, "1.0.0")
        .about("Answers the element at a position.", "O(log N)")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("index", ArgKind::Integer)]),
);

/// LRANGE key start stop
fn lrange(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (start, stop) = (integer(ctx.args.get(2))?, integer(ctx.args.get(3))?);
    let (key, in_parts, out) = (ctx.key(1), ctx.session.takes_parts(), &mut *ctx.out);
    if let Some(reader) = ctx.tx.list_range_in_parts(&key, (start, stop), in_parts, |part| write_part(out, part))? {
        ctx.go_on(Box::new(RestOfRange(reader)));
    }
    Ok(())
}

/// The elements of a long range that are still to be replied.
pub(super) struct RestOfRange(pub(super) ListReader);

impl Ongoing for RestOfRange {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        tx.read_range_on(&mut self.0, |entry| out.bulk(entry.text(&mut [0; 20]))).into()
    }

    /// Elements that were popped are out of their list.
    fn writes(&self) -> bool {
        false
    }

    fn kept_bytes(&self) -> usize {
        self.0.kept_bytes()
    }
}

const LRANGE: Command = Command::new(
    Exec::Keys(lrange),
    Row::new("lrange", Group::List, 4, "1.0.0")
        .about(
            "Answers the elements from one position to another.",
            "O(log N + M) in the length and the elements answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("stop", ArgKind::Integer)]),
);

/// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
fn lpos(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let options = PositionOptions::parse(ctx)?;
    let (key, element) = (ctx.key(1), ctx.args.get(2));
    let limits = (options.skip, options.count.unwrap_or(1), options.compare);
    if ctx.session.takes_parts() && search_in_parts(ctx, &key, &options) {
        return Ok(());
    }
    let out = &mut *ctx.out;
    match options.count {
        Some(_) => {
            let (head, mut found) = (out.defer(), 0);
            ctx.tx.list_positions(&key, element, options.from, limits, |at| {
                out.integer(at as i64);
                found += 1;
            })?;
            ctx.out.end_array(head, found);
        }
        None => {
            let mut found = None;
            ctx.tx.list_positions(&key, element, options.from, limits, |at| found = Some(at))?;
            match found {
                Some(at) => ctx.out.integer(at as i64),
                None => ctx.out.null(),
            }
        }
    }
    Ok(())
}

/// Elements that are compared within a tenth of a millisecond.
const COMPARED_AT_ONCE: u64 = 4096;

/// Begins to search in parts, if the list is long and the first match, where one is wanted, is not near the end from which
/// the search goes.
fn search_in_parts(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, options: &PositionOptions) -> bool {
    let PositionOptions { from, skip, count, compare } = *options;
    let element = ctx.args.get(2);
    if compare <= COMPARED_AT_ONCE {
        return false;
    }
    let near = if count.is_none() { Some((skip, COMPARED_AT_ONCE)) } else { None };
    let Some((reader, len)) = ctx.tx.begin_list_search(key, (element, from), near) else { return false };
    ctx.tx.note_read(key, true);
    let needle = element.to_vec();
    let search = ListSearch { needle, skip, count: count.unwrap_or(1), compare, len, compared: 0 };
    let found = ctx.out.like();
    ctx.go_on(Box::new(RestOfSearch { reader, search, found, matches: 0, answers_all: count.is_some() }));
    true
}

/// A search in a long list. Its reply waits for the end: an array begins with its length.
struct RestOfSearch {
    reader: ListReader,
    search: ListSearch,
    /// The positions that were found.
    found: Reply,
    matches: usize,
    /// An array of positions is answered, not the first one.
    answers_all: bool,
}

impl Ongoing for RestOfSearch {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let RestOfSearch { reader, search, found, matches, answers_all } = self;
        let read = tx.search_on(reader, search, |at| {
            found.integer(at as i64);
            *matches += 1;
        });
        if read == ReadOn::All {
            match (*answers_all, *matches) {
                (true, matches) => out.array(matches),
                (false, 0) => out.null(),
                (false, _) => {}
            }
            out.append(std::mem::take(found));
        }
        read.into()
    }

    fn held_bytes(&self) -> usize {
        self.found.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}

const LPOS: Command = Command::new(
    Exec::Keys(lpos),
    Row::new("lpos", Group::List, -3, "6.0.6")
        .about("Answers the positions of elements equal to one.", "O(N) in the elements compared")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .args(&[
            key("key", 0),
            arg("element", ArgKind::String),
            arg("rank", ArgKind::Integer).token("RANK").optional(),
            arg("num-matches", ArgKind::Integer).token("COUNT").optional(),
            arg("len", ArgKind::Integer).token("MAXLEN").optional(),
        ]),
);

struct PositionOptions {
    from: ListEnd,
    /// Matches to pass over.
    skip: u64,
    /// Matches to answer, if several may be.
    count: Option<u64>,
    /// Elements to compare.
    compare: u64,
}

impl PositionOptions {
    fn parse(ctx: &Ctx<'_, '_>) -> CmdResult<PositionOptions> {
        let natural = |text, fault| parse_i64(text).and_then(|n| u64::try_from(n).ok()).ok_or(fault);
        // None at all means all.
        let bound = |n| if n == 0 { u64::MAX } else { n };
        let mut options = PositionOptions { from: ListEnd::Front, skip: 0, count: None, compare: u64::MAX };
        let mut at = 3;
        while at < ctx.args.len() {
            let word = ctx.args.get(at);
            if at + 1 == ctx.args.len() {
                return Err(CommandError::SYNTAX);
            }
            let value = ctx.args.get(at + 1);
            if is(word, "RANK") {
                let rank = integer(value)?;
                options.from = if rank < 0 { ListEnd::Back } else { ListEnd::Front };
                // The least integer has no absolute value: the peer then takes the last match.
                options.skip =
                    rank.checked_abs().unwrap_or(1).checked_sub(1).filter(|n| *n >= 0).ok_or(errors::RANK_ZERO)? as u64;
            } else if is(word, "COUNT") {
                options.count = Some(bound(natural(value, errors::COUNT_NEGATIVE)?));
            } else if is(word, "MAXLEN") {
                options.compare = bound(natural(value, errors::MAXLEN_NEGATIVE)?);
            } else {
                return Err(CommandError::SYNTAX);
            }
            at += 2;
        }
        Ok(options)
    }
}
