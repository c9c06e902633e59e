//! Parts of a set that are counted or removed: ZCOUNT, ZLEXCOUNT, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};

use super::bounds::{Bounds, By};
use super::{ALL, READS, REMOVES};

pub(super) const ROWS: FileRows = &[ZCOUNT, ZLEXCOUNT, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX];

/// ZCOUNT key min max
fn zcount(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, By::Score)
}

const ZCOUNT: Command = Command::new(
    Exec::Keys(zcount),
    Row::new("zcount", Group::SortedSet, 4, "2.0.0")
        .about("Counts the members whose scores lie in a range.", "O(log(N))")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .args(&[key("key", 0), arg("min", ArgKind::Double), arg("max", ArgKind::Double)]),
);

/// ZLEXCOUNT key min max
fn zlexcount(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, By::Lex)
}

const ZLEXCOUNT: Command = Command::new(
    Exec::Keys(zlexcount),
    Row::new("zlexcount", Group::SortedSet, 4, "2.8.9")
        .about("Counts the members that lie in a range of names, scores being equal.", "O(log(N))")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .args(&[key("key", 0), arg("min", ArgKind::String), arg("max", ArgKind::String)]),
);

fn count(ctx: &mut Ctx<'_, '_>, by: By) -> CmdResult {
    let bounds = Bounds::parse(&ctx.args, 2, by, false)?;
    let key = ctx.key(1);
    // Neither scores nor members depend on the length.
    let count = ctx.tx.zset_count(&key, &bounds.within(0))?;
    ctx.out.integer(count as i64);
    Ok(())
}

/// ZREMRANGEBYRANK key start stop
fn zremrangebyrank(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    remove(ctx, By::Rank)
}

const ZREMRANGEBYRANK: Command = Command::new(
    Exec::Keys(zremrangebyrank),
    Row::new("zremrangebyrank", Group::SortedSet, 4, "2.0.0")
        .about("Removes the members in a range of ranks.", "O(log(N)+M) in the members removed")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .args(&[key("key", 0), arg("start", ArgKind::Integer), arg("stop", ArgKind::Integer)]),
);

/// ZREMRANGEBYSCORE key min max
fn zremrangebyscore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    remove(ctx, By::Score)
}

const ZREMRANGEBYSCORE: Command = Command::new(
    Exec::Keys(zremrangebyscore),
    Row::new("zremrangebyscore", Group::SortedSet, 4, "1.2.0")
        .about("Removes the members whose scores lie in a range.", "O(log(N)+M) in the members removed")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .args(&[key("key", 0), arg("min", ArgKind::Double), arg("max", ArgKind::Double)]),
);

/// ZREMRANGEBYLEX key min max
fn zremrangebylex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    remove(ctx, By::Lex)
}

const ZREMRANGEBYLEX: Command = Command::new(
    Exec::Keys(zremrangebylex),
    Row::new("zremrangebylex", Group::SortedSet, 4, "2.8.9")
        .about("Removes the members in a range of names, scores being equal.", "O(log(N)+M) in the members removed")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .args(&[key("key", 0), arg("min", ArgKind::String), arg("max", ArgKind::String)]),
);

fn remove(ctx: &mut Ctx<'_, '_>, by: By) -> CmdResult {
    let bounds = Bounds::parse(&ctx.args, 2, by, false)?;
    let key = ctx.key(1);
    let length = match bounds {
        Bounds::Rank(..) => ctx.tx.zset_range_len(&key, &ALL, false, 0, usize::MAX)?,
        Bounds::Other(_) => 0,
    };
    let removed = ctx.tx.zset_remove_range(&key, &bounds.within(length))?;
    if removed > 0 {
        let event = match by {
            By::Rank => "zremrangebyrank",
            By::Score => "zremrangebyscore",
            By::Lex => "zremrangebylex",
        };
        ctx.did_taken(&key, Effect::sent(Class::Zset, event, removed as u64));
    }
    ctx.out.integer(removed as i64);
    Ok(())
}
