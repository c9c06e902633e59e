//! Single positions: GEOADD, GEOPOS, GEOHASH, GEODIST.

use varve_base::number::push_u64;
use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::{Again, Words};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_store::ZAdd;

use super::cell::Point;
use super::sphere::distance;
use super::{position, reply_distance, reply_position, unit};
use crate::grammar::is;
use crate::zset::{READS, Tally, UPDATES};

pub(super) const ROWS: FileRows = &[GEOADD, GEODIST, GEOHASH, GEOPOS];

/// GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]
///
/// It is a ZADD of the positions' scores, and is done again as one.
fn geoadd(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (mut how, mut changed, mut first) = (ZAdd::default(), false, 2);
    while let Some(word) = ctx.args.opt(first) {
        let flag = match word {
            word if is(word, "NX") => &mut how.nx,
            word if is(word, "XX") => &mut how.xx,
            word if is(word, "CH") => &mut changed,
            _ => break,
        };
        *flag = true;
        first += 1;
    }
    let words = ctx.args.len() - first;
    if words == 0 || !words.is_multiple_of(3) || how.nx && how.xx {
        return Err(CommandError::SYNTAX);
    }
    // All positions are read before the first member is added.
    let args = ctx.args;
    let triples = || (first..args.len()).step_by(3);
    let scores = triples().map(|at| position(&args, at).map(Point::score)).collect::<CmdResult<Vec<f64>>>()?;
    let (key, mut tally) = (ctx.key(1), Tally::default());
    let pairs = || scores.iter().zip(triples()).map(|(&score, at)| (args.get(at + 2), score));
    ctx.tx.zset_add_all(&key, pairs(), how, |outcome| tally.count(outcome))?;
    let as_zadd = |words: &mut Words<'_>| {
        words.add(b"zadd");
        (1..first).for_each(|at| _ = words.add(args.get(at)));
        for (member, score) in pairs() {
            let mut text = Vec::new();
            push_u64(&mut text, score as u64);
            words.add(&text).add(member);
        }
    };
    tally.reply(ctx, &key, how, changed, Again::Words(&as_zadd));
    Ok(())
}

const GEOADD: Command = Command::new(
    Exec::Keys(geoadd),
    Row::new("geoadd", Group::Geo, -5, "3.2.0")
        .about("Adds members with their positions, or moves those that are there.", "O(log(N)) a member")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::GEO])
        .keys(&[KeySpec::one(1, UPDATES)])
        .history(&[("6.2.0", "`CH`, `NX` and `XX`.")])
        .args(&[
            key("key", 0),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).since("6.2.0").optional(),
            word("change", "CH").since("6.2.0").optional(),
            block(
                "longitude_latitude_member",
                &[arg("longitude", ArgKind::Double), arg("latitude", ArgKind::Double), arg("member", ArgKind::String)],
            )
            .multiple(),
        ]),
);

/// GEODIST key member1 member2 [M | KM | FT | MI]
fn geodist(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let metres = match ctx.args.len() {
        4 => 1.0,
        5 => unit(ctx.args.get(4))?,
        _ => return Err(CommandError::SYNTAX),
    };
    let (key, args) = (ctx.key(1), ctx.args);
    let Ctx { tx, out, .. } = ctx;
    let set = tx.zset_ranges(&key)?;
    let score = |at| set.and_then(|set| set.score(args.get(at)));
    match (score(2), score(3)) {
        (Some(a), Some(b)) => reply_distance(out, distance(Point::of_score(a), Point::of_score(b)) / metres),
        _ => out.null(),
    }
    Ok(())
}

const GEODIST: Command = Command::new(
    Exec::Keys(geodist),
    reading("geodist", -4).about("Answers the distance of two members.", "O(log(N))").args(&[
        key("key", 0),
        arg("member1", ArgKind::String),
        arg("member2", ArgKind::String),
        super::query::UNIT.optional(),
    ]),
);

/// GEOHASH key [member [member ...]]
fn geohash(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    each(ctx, |out, score| match score {
        Some(score) => out.bulk(&Point::of_score(score).text()),
        None => out.null(),
    })
}

const GEOHASH: Command = Command::new(
    Exec::Keys(geohash),
    reading("geohash", -2)
        .about("Answers the positions of members as geohashes of 11 letters.", "O(log(N)) a member")
        .args(&[key("key", 0), arg("member", ArgKind::String).multiple()]),
);

/// GEOPOS key [member [member ...]]
fn geopos(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    each(ctx, |out, score| match score {
        Some(score) => reply_position(out, Point::of_score(score)),
        None => out.null_array(),
    })
}

const GEOPOS: Command = Command::new(
    Exec::Keys(geopos),
    reading("geopos", -2)
        .about("Answers the longitudes and latitudes of members.", "O(log(N)) a member")
        .args(&[key("key", 0), arg("member", ArgKind::String).multiple()]),
);

/// The row of a command that reads positions, but for its texts and arguments.
const fn reading(name: &'static str, arity: i32) -> Row {
    Row::new(name, Group::Geo, arity, "3.2.0")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::GEO])
        .keys(const { &[KeySpec::one(1, READS)] })
}

/// Answers something for each member that is named.
fn each(ctx: &mut Ctx<'_, '_>, reply: impl Fn(&mut varve_protocol::Reply, Option<f64>)) -> CmdResult {
    let (key, args) = (ctx.key(1), ctx.args);
    let Ctx { tx, out, .. } = ctx;
    let set = tx.zset_ranges(&key)?;
    out.array(args.len() - 2);
    for at in 2..args.len() {
        reply(out, set.and_then(|set| set.score(args.get(at))));
    }
    Ok(())
}
