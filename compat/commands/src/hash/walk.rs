//! HGETALL, HKEYS, HVALS, HSCAN, HRANDFIELD: whole hashes, and parts of them that the hash chooses.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key, word};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{CollectionReader, Pick, Tx, Type};

use crate::errors;
use crate::generic::draw::{Draw, Drawn, Form, draw_in_parts};
use crate::generic::scan::{Family, Options, parse_cursor};
use crate::grammar::{integer, is, parts};

pub(super) const ROWS: FileRows = &[HGETALL, HKEYS, HVALS, HSCAN, HRANDFIELD];

/// HGETALL key
fn hgetall(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    reply_all(ctx, Reply::map, |out, field, value| {
        out.bulk(field);
        out.bulk(value);
    })
}

const HGETALL: Command = Command::new(
    Exec::Keys(hgetall),
    Row::new("hgetall", Group::Hash, 2, "2.0.0")
        .about("Answers all fields and values of a hash.", "O(N) in the fields")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output_order"])
        .args(&[key("key", 0)]),
);

/// HKEYS key
fn hkeys(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    reply_all(ctx, Reply::array, |out, field, _| out.bulk(field))
}

const HKEYS: Command = Command::new(
    Exec::Keys(hkeys),
    Row::new("hkeys", Group::Hash, 2, "2.0.0")
        .about("Answers all fields of a hash.", "O(N) in the fields")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output_order"])
        .args(&[key("key", 0)]),
);

/// HVALS key
fn hvals(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    reply_all(ctx, Reply::array, |out, _, value| out.bulk(value))
}

const HVALS: Command = Command::new(
    Exec::Keys(hvals),
    Row::new("hvals", Group::Hash, 2, "2.0.0")
        .about("Answers all values of a hash.", "O(N) in the fields")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output_order"])
        .args(&[key("key", 0)]),
);

/// Replies with all fields and values, each pair by `reply`; a long hash over several turns.
fn reply_all(ctx: &mut Ctx<'_, '_>, head: fn(&mut Reply, usize), reply: ReplyPair) -> CmdResult {
    let key = ctx.key(1);
    let (len, is_big) = ctx.tx.hash_size(&key)?;
    head(ctx.out, len);
    if is_big
        && ctx.session.takes_parts()
        && let Some(reader) = ctx.tx.begin_reading(&key, Type::Hash)?
    {
        ctx.go_on(Box::new(RestOfPairs { reader, reply }));
        return Ok(());
    }
    let out = &mut *ctx.out;
    ctx.tx.hash_for_each(&key, |field, value| reply(out, field, value))?;
    Ok(())
}

/// Replies with a field and its value, or with one of them.
type ReplyPair = fn(&mut Reply, &[u8], &[u8]);

/// The pairs of a long hash that are still to be replied.
struct RestOfPairs {
    reader: CollectionReader,
    reply: ReplyPair,
}

impl Ongoing for RestOfPairs {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let reply = self.reply;
        let read = tx.read_elements_on(&mut self.reader, |field, value, _| {
            reply(out, field.text(&mut [0; 20]), value.text(&mut [0; 20]));
        });
        read.into()
    }

    fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}

/// HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]
fn hscan(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let cursor = parse_cursor(ctx.tx.store(), ctx.args.get(2))?;
    let key = ctx.key(1);
    if ctx.tx.hash_len(&key)? == 0 {
        let page = ctx.out.defer();
        ctx.out.end_page(page, 0, 0);
        return Ok(());
    }
    let options = Options::parse(&ctx.args, 3, Family::Hash)?;
    let out = &mut *ctx.out;
    let page = out.defer();
    let mut found = 0;
    let next = ctx.tx.hash_scan(&key, cursor, options.count, |field, value| {
        if options.wants(field) {
            out.bulk(field);
            found += 1;
            if !options.bare {
                out.bulk(value);
                found += 1;
            }
        }
    })?;
    ctx.out.end_page(page, ctx.tx.store().seal_cursor(next), found);
    Ok(())
}

const HSCAN: Command = Command::new(
    Exec::Keys(hscan),
    Row::new("hscan", Group::Hash, -3, "2.8.0")
        .about("Goes over a hash's fields and values, some at each call.", "O(1) a call, O(N) in the fields for all")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            arg("cursor", ArgKind::Integer),
            arg("pattern", ArgKind::Pattern).token("MATCH").optional(),
            arg("count", ArgKind::Integer).token("COUNT").optional(),
        ]),
);

/// HRANDFIELD key [count [WITHVALUES]]
fn hrandfield(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len() == 2 { one_field(ctx) } else { some_fields(ctx) }
}

const HRANDFIELD: Command = Command::new(
    Exec::Keys(hrandfield),
    Row::new("hrandfield", Group::Hash, -2, "6.2.0")
        .about("Answers fields chosen at random.", "O(N) in the fields answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::HASH])
        .keys(&[KeySpec::one(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            block("options", &[arg("count", ArgKind::Integer), word("withvalues", "WITHVALUES").optional()]).optional(),
        ]),
);

fn one_field(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    if ctx.tx.hash_len(&key)? == 0 {
        ctx.out.null();
        return Ok(());
    }
    let out = &mut *ctx.out;
    ctx.tx.hash_pick(&key, Pick::Any(1), |field, _| out.bulk(field))?;
    Ok(())
}

fn some_fields(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (pick, values) = parse_pick(ctx)?;
    let key = ctx.key(1);
    let len = ctx.tx.hash_len(&key)?;
    let form @ (head, reply) = form(values);
    if draw_in_parts(ctx, &key, Type::Hash, Draw { pick, values, form })? {
        return Ok(());
    }
    let many = match pick {
        _ if len == 0 => 0,
        Pick::Any(n) => n,
        Pick::Distinct(n) => n.min(len),
    };
    let out = &mut *ctx.out;
    head(out, many);
    let pick = if len == 0 { Pick::Distinct(0) } else { pick };
    for part in parts(pick) {
        if out.is_overflown() {
            break;
        }
        ctx.tx.hash_pick(&key, part, |name, value| reply(out, Drawn { name, value, score: 0.0 }))?;
    }
    Ok(())
}

/// How fields that were chosen are replied, with their values or without: the head, and each of them.
fn form(values: bool) -> Form {
    if !values {
        return (Reply::array, |out, drawn| out.bulk(drawn.name));
    }
    let head = |out: &mut Reply, fields| out.array(if out.is_resp3() { fields } else { 2 * fields });
    let pair = |out: &mut Reply, drawn: Drawn<'_>| {
        if out.is_resp3() {
            out.array(2);
        }
        out.bulk(drawn.name);
        out.bulk(drawn.value);
    };
    (head, pair)
}

/// Reads the count, negative for fields that may repeat, and WITHVALUES.
fn parse_pick(ctx: &Ctx<'_, '_>) -> CmdResult<(Pick, bool)> {
    let count = integer(ctx.args.get(2))?;
    if count == i64::MIN {
        let most = i64::MAX;
        return Err(errors::not_between(-most, most));
    }
    let values = ctx.args.len() > 3;
    if values && (ctx.args.len() > 4 || !is(ctx.args.get(3), "WITHVALUES")) {
        return Err(CommandError::SYNTAX);
    }
    // Twice the count must fit where values stand beside the fields.
    if values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(errors::VALUE_RANGE);
    }
    let many = count.unsigned_abs() as usize;
    Ok((if count < 0 { Pick::Any(many) } else { Pick::Distinct(many) }, values))
}
