//! Searches: GEOSEARCH, GEOSEARCHSTORE, and what they replaced: GEORADIUS, GEORADIUSBYMEMBER and their `_RO` forms.

use varve_catalog::{Acl, ArgKind, Argument, Begin, Find, Flags, Group, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::Class;
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};
use varve_protocol::Reply;
use varve_store::{Key, Type};

use super::find::{Harvest, spans};
use super::query::{COUNT, COUNT_OF_OLD, Destination, Family, Grammar, ORDER, Query, UNIT, count};
use super::reply_found;
use super::search_parts::LongSearch;
use crate::generic::building::Building;
use crate::zset::{READS, REPLACES, Scratch};

pub(super) const ROWS: FileRows =
    &[GEORADIUS, GEORADIUSBYMEMBER, GEORADIUSBYMEMBER_RO, GEORADIUS_RO, GEOSEARCH, GEOSEARCHSTORE];

/// A member that is looked at takes as long as showing this number of members: its distance is computed.
const MEMBER_COST: u64 = 8;

/// GEOSEARCH key FROMMEMBER member | FROMLONLAT longitude latitude BYRADIUS radius unit | BYBOX width height unit
/// [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]
fn geosearch(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    search(ctx, Grammar { family: Family::Search, stores: false })
}

/// GEOSEARCHSTORE destination source FROM.. BY.. [ASC | DESC] [COUNT count [ANY]] [STOREDIST]
fn geosearchstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    search(ctx, Grammar { family: Family::Search, stores: true })
}

/// GEORADIUS key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]
/// [STORE key | STOREDIST key]
fn georadius(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    search(ctx, Grammar { family: Family::Radius, stores: true })
}

/// GEORADIUS_RO, which stores nothing
fn georadius_ro(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    search(ctx, Grammar { family: Family::Radius, stores: false })
}

/// GEORADIUSBYMEMBER key member radius unit and the words of GEORADIUS
fn georadiusbymember(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    search(ctx, Grammar { family: Family::RadiusByMember, stores: true })
}

/// GEORADIUSBYMEMBER_RO, which stores nothing
fn georadiusbymember_ro(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    search(ctx, Grammar { family: Family::RadiusByMember, stores: false })
}

fn search(ctx: &mut Ctx<'_, '_>, grammar: Grammar) -> CmdResult {
    let (source, args) = (ctx.key(grammar.source()), ctx.args);
    let set = ctx.tx.zset_ranges(&source)?;
    let is_there = set.is_some();
    let mut score = |member: &[u8]| set.and_then(|set| set.score(member));
    let query = Query::parse(&args, grammar, (is_there, &mut score))?;
    let members = set.map_or(0, |set| set.len());
    // Most sets are not so long that what is near the area would have to be counted.
    if ctx.session.takes_parts() && ctx.tx.is_long_work(members, MEMBER_COST) && is_long(ctx, &source, &query)? {
        return go_on_in_parts(ctx, grammar, query, &source);
    }
    match query.destination {
        Some(destination) => store(ctx, &source, &query, destination, event(grammar)),
        None => {
            let set = ctx.tx.zset_ranges_again(&source)?;
            let harvest = set.map_or_else(Harvest::default, |set| Harvest::of(set, &query));
            answer(ctx.out, &harvest, &query);
            Ok(())
        }
    }
}

/// Whether there are many members near the area, in a set that is no single object.
fn is_long(ctx: &mut Ctx<'_, '_>, source: &Key<'_>, query: &Query) -> CmdResult<bool> {
    let set = ctx.tx.zset_ranges_again(source)?.filter(|set| set.is_big());
    let members = set.map_or(0, |set| spans(set, query).iter().map(|(from, to)| to - from).sum());
    Ok(ctx.tx.is_long_work(members, MEMBER_COST))
}

/// Goes on with a search of many members.
fn go_on_in_parts(ctx: &mut Ctx<'_, '_>, grammar: Grammar, query: Query, source: &Key<'_>) -> CmdResult {
    let set = ctx.tx.zset_ranges_again(source)?.expect("a set that was looked at");
    let spans = spans(set, &query);
    let readers = ctx.tx.begin_zset_spans(source, &spans)?;
    let destination = query.destination;
    let mut rest = LongSearch::new(query, readers, event(grammar));
    match destination {
        None => ctx.go_on(Box::new(rest)),
        Some(Destination { argument, .. }) => ctx.go_on_building(|tx, args, keeps| {
            rest.store_in(Building::begin(tx, args, (argument, Type::Zset), vec![grammar.source()], keeps));
            Box::new(rest)
        }),
    }
    Ok(())
}

/// The event of a search that stores what it finds.
fn event(grammar: Grammar) -> &'static str {
    if grammar.family == Family::Search { "geosearchstore" } else { "georadiusstore" }
}

fn answer(out: &mut Reply, harvest: &Harvest, query: &Query) {
    out.array(harvest.len());
    for found in harvest.iter() {
        reply_found(out, query, found);
        if out.is_overflown() {
            break;
        }
    }
}

fn store(
    ctx: &mut Ctx<'_, '_>,
    source: &Key<'_>,
    query: &Query,
    Destination { argument, distances }: Destination,
    event: &'static str,
) -> CmdResult {
    let members = Scratch::admitted(ctx, |ctx, members| {
        let set = ctx.tx.zset_ranges_again(source)?;
        for (member, found) in set.map_or_else(Harvest::default, |set| Harvest::of(set, query)).iter() {
            members.push(member, if distances { found.metres / query.shape.unit } else { found.score });
        }
        Ok(())
    })?;
    let to = ctx.key(argument);
    let (taken, count) = (ctx.tx.exists(&to), members.len());
    ctx.out.integer(count as i64);
    ctx.tx.zset_store(&to, &mut members.iter().collect::<Vec<_>>());
    ctx.did_store(Class::Zset, event, &to, count as u64, taken);
    Ok(())
}

/// The key behind a word of GEORADIUS, which may stand from argument `from` on.
const fn stored(word: &'static str, from: i16) -> KeySpec {
    let find = Find::Range { last: 0, step: 1, limit: 0 };
    KeySpec { begin: Begin::LastStore(word, from), find, flags: REPLACES, notes: "" }
}

/// The cost of a search, in COMMAND DOCS.
const COMPLEXITY: &str = "O(N+log(M)) in the N members near the area and the M of the set";

/// The words of the older commands that say what is answered.
const WITH: [Argument; 3] = [
    word("withcoord", "WITHCOORD").optional(),
    word("withdist", "WITHDIST").optional(),
    word("withhash", "WITHHASH").optional(),
];

/// Where a search begins.
const FROM: Argument = one_of(
    "from",
    &[
        arg("member", ArgKind::String).token("FROMMEMBER"),
        block("longitude_latitude", &[arg("longitude", ArgKind::Double), arg("latitude", ArgKind::Double)])
            .token("FROMLONLAT"),
    ],
);

/// How far it goes.
const BY: Argument = one_of(
    "by",
    &[
        block("circle", &[arg("radius", ArgKind::Double).token("BYRADIUS"), UNIT]),
        block("box", &[arg("width", ArgKind::Double).token("BYBOX"), arg("height", ArgKind::Double), UNIT]),
    ],
);

/// The row of a search, but for its texts and keys.
const fn searching(name: &'static str, arity: i32, since: &'static str) -> Row {
    Row::new(name, Group::Geo, arity, since).acl(&[Acl::GEO])
}

const WRITES: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];

const GEOSEARCH: Command = Command::new(
    Exec::Keys(geosearch),
    searching("geosearch", -7, "6.2.0")
        .about("Answers the members in a circle or a rectangle.", COMPLEXITY)
        .flags(&[Flags::READONLY])
        .keys(&[KeySpec::one(1, READS)])
        .history(&[("7.0.0", "Units in capital letters.")])
        .args(&[key("key", 0), FROM, BY, ORDER, count(COUNT), WITH[0], WITH[1], WITH[2]]),
);

const GEOSEARCHSTORE: Command = Command::new(
    Exec::Keys(geosearchstore),
    searching("geosearchstore", -8, "6.2.0")
        .about("Stores the members in a circle or a rectangle under another key.", COMPLEXITY)
        .flags(WRITES)
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::one(2, READS)])
        .history(&[("7.0.0", "Units in capital letters.")])
        .args(&[
            key("destination", 0),
            key("source", 1),
            FROM,
            BY,
            ORDER,
            count(COUNT),
            word("storedist", "STOREDIST").optional(),
        ]),
);

const GEORADIUS: Command = Command::new(
    Exec::Keys(georadius),
    searching("georadius", -6, "3.2.0")
        .about("Answers or stores the members in a circle around a position.", COMPLEXITY)
        .flags(WRITES)
        .keys(&[KeySpec::one(1, READS), stored("STORE", 6), stored("STOREDIST", 6)])
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument")
        .history(&[("6.2.0", "`ANY` behind `COUNT`."), ("7.0.0", "Units in capital letters.")])
        .args(&[
            key("key", 0),
            arg("longitude", ArgKind::Double),
            arg("latitude", ArgKind::Double),
            arg("radius", ArgKind::Double),
            UNIT,
            WITH[0],
            WITH[1],
            WITH[2],
            count(COUNT_OF_OLD),
            ORDER,
            key("key", 1).token("STORE").optional(),
            key("key", 2).token("STOREDIST").optional(),
        ]),
);

const GEORADIUSBYMEMBER: Command = Command::new(
    Exec::Keys(georadiusbymember),
    searching("georadiusbymember", -5, "3.2.0")
        .about("Answers or stores the members in a circle around a member.", COMPLEXITY)
        .flags(WRITES)
        .keys(&[KeySpec::one(1, READS), stored("STORE", 5), stored("STOREDIST", 5)])
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments")
        .history(&[("7.0.0", "Units in capital letters.")])
        .args(&[
            key("key", 0),
            arg("member", ArgKind::String),
            arg("radius", ArgKind::Double),
            UNIT,
            WITH[0],
            WITH[1],
            WITH[2],
            count(COUNT),
            ORDER,
            key("key", 1).token("STORE").optional(),
            key("key", 2).token("STOREDIST").optional(),
        ]),
);

const GEORADIUS_RO: Command = Command::new(
    Exec::Keys(georadius_ro),
    searching("georadius_ro", -6, "3.2.10")
        .about("Answers the members in a circle around a position.", COMPLEXITY)
        .flags(&[Flags::READONLY])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument")
        .history(&[("6.2.0", "`ANY` behind `COUNT`.")])
        .args(&[
            key("key", 0),
            arg("longitude", ArgKind::Double),
            arg("latitude", ArgKind::Double),
            arg("radius", ArgKind::Double),
            UNIT,
            WITH[0],
            WITH[1],
            WITH[2],
            count(COUNT_OF_OLD),
            ORDER,
        ]),
);

const GEORADIUSBYMEMBER_RO: Command = Command::new(
    Exec::Keys(georadiusbymember_ro),
    searching("georadiusbymember_ro", -5, "3.2.10")
        .about("Answers the members in a circle around a member.", COMPLEXITY)
        .flags(&[Flags::READONLY])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments")
        .args(&[
            key("key", 0),
            arg("member", ArgKind::String),
            arg("radius", ArgKind::Double),
            UNIT,
            WITH[0],
            WITH[1],
            WITH[2],
            count(COUNT),
            ORDER,
        ]),
);
