//! The grammar of blocking commands, and the first attempt, with the client's own hands.

use std::ops::Range;

use varve_base::number::{Extended, parse_f64, parse_i64};
use varve_catalog::{Acl, ArgKind, Argument, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, arg, key, one_of, word};
use varve_exec::blocking::{Wish, block};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::{Args, Reply};
use varve_store::{Type, Wants};

use crate::errors;
use crate::grammar::is;

pub(crate) const ROWS: FileRows = &[BLPOP, BRPOP, BZPOPMIN, BZPOPMAX, BLMOVE, BRPOPLPUSH, BLMPOP, BZMPOP];

const TAKEN: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);

const ENDS: &[Argument] = &[word("left", "LEFT"), word("right", "RIGHT")];

const EXTREMES: &[Argument] = &[word("min", "MIN"), word("max", "MAX")];

const TIMEOUT: Argument = arg("timeout", ArgKind::Double);

const COUNT: Argument = arg("count", ArgKind::Integer).token("COUNT").optional();

const SOURCE_AND_TARGET: &[KeySpec] = &[KeySpec::one(1, TAKEN), KeySpec::one(2, KeyFlags::RW.and(KeyFlags::INSERT))];

const KEYS: &[KeySpec] = &[KeySpec::range(1, -2, 1, TAKEN)];

const KEYS_THEN_TIMEOUT: &[Argument] = &[key("key", 0).multiple(), TIMEOUT];

const FRACTIONS: &[(&str, &str)] = &[("6.0.0", "The timeout may have a fraction.")];

const fn pop_row(name: &'static str, since: &'static str, about: &'static str) -> Row {
    Row::new(name, Group::List, -3, since)
        .about(about, "O(N) in the keys")
        .flags(&[Flags::WRITE, Flags::NOSCRIPT, Flags::BLOCKING])
        .acl(&[Acl::LIST])
        .keys(KEYS)
        .history(FRACTIONS)
        .args(KEYS_THEN_TIMEOUT)
}

const fn pop_score_row(name: &'static str, about: &'static str) -> Row {
    Row::new(name, Group::SortedSet, -3, "5.0.0")
        .about(about, "O(log(N)) in the members")
        .flags(&[Flags::WRITE, Flags::NOSCRIPT, Flags::FAST, Flags::BLOCKING])
        .acl(&[Acl::SORTEDSET])
        .keys(KEYS)
        .history(FRACTIONS)
        .args(KEYS_THEN_TIMEOUT)
}

/// A blocking command, its arguments understood.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The wish of the client that waits, if no key has anything.
    pub(super) wish: Wish,
    /// The type of the collections that it takes from.
    pub(super) ty: Type,
    pub(super) what: What,
}

/// The part that is taken from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// One element, replied with the key.
    One(Side),
    /// At most this number of elements, as an array beside the key.
    Many(Side, u64),
    /// One element, which goes to this side of the destination.
    Move(Side, Side),
}

/// An end of a list; of a sorted set, First is the lowest score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    First,
    Last,
}

/// BLPOP key [key ...] timeout
fn blpop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    pop(ctx, Type::List, Side::First)
}

const BLPOP: Command = Command::new(
    Exec::Keys(blpop),
    pop_row("blpop", "2.0.0", "Takes the first element of the first of the lists that has one, once there is any."),
);

/// BRPOP key [key ...] timeout
fn brpop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    pop(ctx, Type::List, Side::Last)
}

const BRPOP: Command = Command::new(
    Exec::Keys(brpop),
    pop_row("brpop", "2.0.0", "Takes the last element of the first of the lists that has one, once there is any."),
);

/// BZPOPMIN key [key ...] timeout
fn bzpopmin(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    pop(ctx, Type::Zset, Side::First)
}

const BZPOPMIN: Command = Command::new(
    Exec::Keys(bzpopmin),
    pop_score_row("bzpopmin", "Takes the member with the lowest score from the first of the sorted sets that has one."),
);

/// BZPOPMAX key [key ...] timeout
fn bzpopmax(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    pop(ctx, Type::Zset, Side::Last)
}

const BZPOPMAX: Command = Command::new(
    Exec::Keys(bzpopmax),
    pop_score_row(
        "bzpopmax",
        "Takes the member with the highest score from the first of the sorted sets that has one.",
    ),
);

/// BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout
fn blmove(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let call = ends(ctx.args).and_then(|(from, to)| {
        let timeout_ms = timeout(ctx.args.get(5))?;
        Ok(Call::of(Type::List, 1..2, timeout_ms, What::Move(from, to)))
    });
    run(ctx, call)
}

const BLMOVE: Command = Command::new(
    Exec::Keys(blmove),
    Row::new("blmove", Group::List, 6, "6.2.0")
        .about("Takes an element from a list and adds it to another, once there is one.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::NOSCRIPT, Flags::BLOCKING])
        .acl(&[Acl::LIST])
        .keys(SOURCE_AND_TARGET)
        .args(&[key("source", 0), key("destination", 1), one_of("wherefrom", ENDS), one_of("whereto", ENDS), TIMEOUT])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// BRPOPLPUSH source destination timeout
fn brpoplpush(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let what = What::Move(Side::Last, Side::First);
    let call = timeout(ctx.args.get(3)).map(|ms| Call::of(Type::List, 1..2, ms, what));
    run(ctx, call)
}

const BRPOPLPUSH: Command = Command::new(
    Exec::Keys(brpoplpush),
    Row::new("brpoplpush", Group::List, 4, "2.2.0")
        .about("Takes a list's last element and makes it the first of another, once there is one.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::NOSCRIPT, Flags::BLOCKING])
        .acl(&[Acl::LIST])
        .keys(SOURCE_AND_TARGET)
        .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")
        .history(FRACTIONS)
        .args(&[key("source", 0), key("destination", 1), TIMEOUT])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]
fn blmpop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let call = pop_many(ctx.args, Type::List, "LEFT", "RIGHT");
    run(ctx, call)
}

const BLMPOP: Command = Command::new(
    Exec::Keys(blmpop),
    Row::new("blmpop", Group::List, -5, "7.0.0")
        .about(
            "Takes elements from the first of the lists that has some, once there are any.",
            "O(N+M) for N keys, M elements",
        )
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .acl(&[Acl::LIST])
        .keys(&[KeySpec::counted(2, 1, TAKEN)])
        .args(&[TIMEOUT, arg("numkeys", ArgKind::Integer), key("key", 0).multiple(), one_of("where", ENDS), COUNT]),
);

/// BZMPOP timeout numkeys key [key ...] MIN | MAX [COUNT count]
fn bzmpop(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let call = pop_many(ctx.args, Type::Zset, "MIN", "MAX");
    run(ctx, call)
}

const BZMPOP: Command = Command::new(Exec::Keys(bzmpop), Row::new("bzmpop", Group::SortedSet, -5, "7.0.0")
        .about(
            "Takes members with the lowest or highest scores from the first of the sorted sets that has some, once there are any.",
            "O(K+M*log(N)) for K keys, M members taken, N in the set",
        )
        .flags(&[Flags::WRITE, Flags::BLOCKING])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(2, 1, TAKEN)])
        .args(&[TIMEOUT, arg("numkeys", ArgKind::Integer), key("key", 0).multiple(), one_of("where", EXTREMES), COUNT]));

fn pop(ctx: &mut Ctx<'_, '_>, wants: Type, side: Side) -> CmdResult {
    let last = ctx.args.len() - 1;
    let call = timeout(ctx.args.get(last)).map(|ms| Call::of(wants, 1..last, ms, What::One(side)));
    run(ctx, call)
}

fn ends(args: Args<'_>) -> CmdResult<(Side, Side)> {
    Ok((side(args, 3, "LEFT", "RIGHT")?, side(args, 4, "LEFT", "RIGHT")?))
}

fn side(args: Args<'_>, at: usize, first: &str, last: &str) -> CmdResult<Side> {
    if args.is(at, first) {
        Ok(Side::First)
    } else if args.is(at, last) {
        Ok(Side::Last)
    } else {
        Err(CommandError::SYNTAX)
    }
}

fn pop_many(args: Args<'_>, wants: Type, first: &str, last: &str) -> CmdResult<Call> {
    let keys = positive(args.get(2)).ok_or(errors::NUMKEYS_POSITIVE)?;
    if keys > args.len() as u64 {
        return Err(CommandError::SYNTAX);
    }
    let behind = 3 + keys as usize;
    let side = side(args, behind, first, last)?;
    let mut count = None;
    let mut at = behind + 1;
    while at < args.len() {
        if count.is_some() || !is(args.get(at), "COUNT") || at + 1 == args.len() {
            return Err(CommandError::SYNTAX);
        }
        count = Some(positive(args.get(at + 1)).ok_or(errors::COUNT_POSITIVE)?);
        at += 2;
    }
    let timeout_ms = timeout(args.get(1))?;
    Ok(Call::of(wants, 3..behind, timeout_ms, What::Many(side, count.unwrap_or(1))))
}

fn positive(text: &[u8]) -> Option<u64> {
    parse_i64(text).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0)
}

/// Seconds, as milliseconds. What no count of milliseconds holds has become negative in the peer.
fn timeout(text: &[u8]) -> CmdResult<u64> {
    let Some(seconds) = parse_f64(text) else {
        let huge = Extended::parse(text).is_some();
        return Err(if huge { CommandError::TIMEOUT_NEGATIVE } else { errors::TIMEOUT_NO_FLOAT });
    };
    let ms = (seconds * 1000.0).ceil();
    if ms < 0.0 || ms > i64::MAX as f64 {
        return Err(CommandError::TIMEOUT_NEGATIVE);
    }
    Ok(ms as u64)
}

impl Call {
    fn of(ty: Type, keys: Range<usize>, timeout_ms: u64, what: What) -> Call {
        // A destination stands behind the source.
        let target = matches!(what, What::Move(..)).then_some(2);
        Call { wish: Wish { wants: Wants::Element(ty), keys, target, timeout_ms }, ty, what }
    }

    /// Replies what the command answers inside EXEC when there is nothing.
    fn reply_nothing(&self, out: &mut Reply) {
        match self.what {
            What::Move(..) => out.null(),
            What::One(_) | What::Many(..) => out.null_array(),
        }
    }
}

fn run(ctx: &mut Ctx<'_, '_>, call: CmdResult<Call>) -> CmdResult {
    call.and_then(|call| attempt(ctx, call))
}

/// Takes from the first key, in the order of the request, that has something; blocks if none has.
fn attempt(ctx: &mut Ctx<'_, '_>, call: Call) -> CmdResult {
    for at in call.wish.keys.clone() {
        let key = ctx.key(at);
        match ctx.tx.type_of(&key) {
            None => {}
            Some(ty) if ty == call.ty => return call.take_at_once(ctx, &key),
            Some(_) => return Err(CommandError::WRONG_TYPE),
        }
    }
    if ctx.session.is_in_exec() {
        call.reply_nothing(ctx.out);
    } else {
        let wish = call.wish.clone();
        return block(ctx, &wish, Box::new(call));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::timeout;

    #[test]
    fn timeouts() {
        assert_eq!(timeout(b"0").unwrap(), 0);
        assert_eq!(timeout(b"0.0001").unwrap(), 1);
        assert_eq!(timeout(b"1.5").unwrap(), 1500);
        assert_eq!(timeout(b"0x1p-7").unwrap(), 8);
        assert_eq!(timeout(b"9223372036854775").unwrap(), 1 << 63);
        for negative in ["-1", "-0.5", "inf", "1e400", "99999999999999999999"] {
            let mut out = varve_protocol::Reply::new();
            timeout(negative.as_bytes()).unwrap_err().reply(&mut out);
            assert_eq!(out.to_vec(), b"-ERR timeout is negative\r\n", "{negative}");
        }
        for wrong in ["", "abc", "nan", " 1", "1 "] {
            let mut out = varve_protocol::Reply::new();
            timeout(wrong.as_bytes()).unwrap_err().reply(&mut out);
            assert_eq!(out.to_vec(), b"-ERR timeout is not a float or out of range\r\n", "{wrong}");
        }
    }
}
