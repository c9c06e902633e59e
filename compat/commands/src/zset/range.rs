//! The commands that answer or store a range, by one grammar: ZRANGE and what it replaced, ZRANGESTORE.
//!
//! ```text
//!  command           ends     direction   options
//!  ZRANGE            said     said        BYSCORE BYLEX REV LIMIT WITHSCORES
//!  ZRANGESTORE       said     said        BYSCORE BYLEX REV LIMIT
//!  ZREVRANGE         rank     reverse     WITHSCORES (LIMIT is refused with its own text)
//!  Z[REV]RANGEBY..   named    named       LIMIT WITHSCORES (the latter is refused with members)
//! ```

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::Class;
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows, Ongoing, Progress, Sources};
use varve_protocol::{Args, Reply};
use varve_store::{Key, StoreWorker, Tx, Type, ZShown, ZsetReader};

use super::bounds::{Bounds, By};
use super::scratch::Scratch;
use super::{READS, REPLACES, reply_head, reply_member};
use crate::errors;
use crate::generic::building::{Building, Report, after_read};
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows =
    &[ZRANGE, ZREVRANGE, ZRANGEBYSCORE, ZREVRANGEBYSCORE, ZRANGEBYLEX, ZREVRANGEBYLEX, ZRANGESTORE];

/// Storing a member takes as long as showing this number of them.
const MEMBER_COST: u64 = 16;

/// The kind of range that a command's name gives; None: the options give it.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    rev: Option<bool>,
    /// It stores what it finds: scores are not to be asked for.
    stores: bool,
}

/// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
fn zrange(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, Form { by: None, rev: None, stores: false })
}

const ZRANGE: Command = Command::new(
    Exec::Keys(zrange),
    Row::new("zrange", Group::SortedSet, -4, "1.2.0")
        .about("Answers the members in a range of ranks, scores or names.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .history(&[("6.2.0", "`REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")])
        .args(&[
            key("key", 0),
            arg("start", ArgKind::String),
            arg("stop", ArgKind::String),
            one_of("sortby", &[word("byscore", "BYSCORE"), word("bylex", "BYLEX")]).since("6.2.0").optional(),
            word("rev", "REV").since("6.2.0").optional(),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .since("6.2.0")
                .optional(),
            word("withscores", "WITHSCORES").optional(),
        ]),
);

/// ZREVRANGE key start stop [WITHSCORES]
fn zrevrange(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, Form { by: Some(By::Rank), rev: Some(true), stores: false })
}

const ZREVRANGE: Command = Command::new(
    Exec::Keys(zrevrange),
    Row::new("zrevrange", Group::SortedSet, -4, "1.2.0")
        .about("Answers the members in a range of ranks, highest score first.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument")
        .args(&[
            key("key", 0),
            arg("start", ArgKind::Integer),
            arg("stop", ArgKind::Integer),
            word("withscores", "WITHSCORES").optional(),
        ]),
);

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
fn zrangebyscore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, Form { by: Some(By::Score), rev: Some(false), stores: false })
}

const ZRANGEBYSCORE: Command = Command::new(
    Exec::Keys(zrangebyscore),
    Row::new("zrangebyscore", Group::SortedSet, -4, "1.0.5")
        .about("Answers the members whose scores lie in a range.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument")
        .history(&[("2.0.0", "`WITHSCORES`.")])
        .args(&[
            key("key", 0),
            arg("min", ArgKind::Double),
            arg("max", ArgKind::Double),
            word("withscores", "WITHSCORES").since("2.0.0").optional(),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
);

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
fn zrevrangebyscore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, Form { by: Some(By::Score), rev: Some(true), stores: false })
}

const ZREVRANGEBYSCORE: Command = Command::new(
    Exec::Keys(zrevrangebyscore),
    Row::new("zrevrangebyscore", Group::SortedSet, -4, "2.2.0")
        .about("Answers the members whose scores lie in a range, highest first.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")
        .history(&[("2.1.6", "Bounds that are not in the range themselves.")])
        .args(&[
            key("key", 0),
            arg("max", ArgKind::Double),
            arg("min", ArgKind::Double),
            word("withscores", "WITHSCORES").optional(),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
);

/// ZRANGEBYLEX key min max [LIMIT offset count]
fn zrangebylex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, Form { by: Some(By::Lex), rev: Some(false), stores: false })
}

const ZRANGEBYLEX: Command = Command::new(
    Exec::Keys(zrangebylex),
    Row::new("zrangebylex", Group::SortedSet, -4, "2.8.9")
        .about("Answers the members in a range of names, scores being equal.", "O(log(N)+M) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument")
        .args(&[
            key("key", 0),
            arg("min", ArgKind::String),
            arg("max", ArgKind::String),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
);

/// ZREVRANGEBYLEX key max min [LIMIT offset count]
fn zrevrangebylex(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, Form { by: Some(By::Lex), rev: Some(true), stores: false })
}

const ZREVRANGEBYLEX: Command = Command::new(
    Exec::Keys(zrevrangebylex),
    Row::new("zrevrangebylex", Group::SortedSet, -4, "2.8.9")
        .about(
            "Answers the members in a range of names, last first, scores being equal.",
            "O(log(N)+M) in the members answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")
        .args(&[
            key("key", 0),
            arg("max", ArgKind::String),
            arg("min", ArgKind::String),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
);

/// ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]
fn zrangestore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx)
}

const ZRANGESTORE: Command = Command::new(
    Exec::Keys(zrangestore),
    Row::new("zrangestore", Group::SortedSet, -5, "6.2.0")
        .about(
            "Stores the members in a range of ranks, scores or names under another key.",
            "O(log(N)+M) in the members stored",
        )
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REPLACES), KeySpec::one(2, READS)])
        .args(&[
            key("dst", 0),
            key("src", 1),
            arg("min", ArgKind::String),
            arg("max", ArgKind::String),
            one_of("sortby", &[word("byscore", "BYSCORE"), word("bylex", "BYLEX")]).optional(),
            word("rev", "REV").optional(),
            block("offset_count", &[arg("offset", ArgKind::Integer), arg("count", ArgKind::Integer)])
                .token("LIMIT")
                .optional(),
        ]),
);

/// The range and the options that were asked for.
#[derive(Debug, PartialEq)]
struct Query<'a> {
    bounds: Bounds<'a>,
    rev: bool,
    with_scores: bool,
    skip: usize,
    limit: usize,
}

/// The options, as they are read.
struct Options {
    by: Option<By>,
    rev: Option<bool>,
    with_scores: bool,
    offset: i64,
    /// Negative: no limit.
    limit: i64,
}

impl Options {
    /// Reads the options from argument `at` on.
    fn parse(args: &Args<'_>, mut at: usize, form: Form) -> CmdResult<Options> {
        let mut options = Options { by: form.by, rev: form.rev, with_scores: false, offset: 0, limit: -1 };
        while let Some(word) = args.opt(at) {
            at += 1;
            if !form.stores && is(word, "WITHSCORES") {
                options.with_scores = true;
            } else if is(word, "LIMIT") && at + 2 <= args.len() {
                (options.offset, options.limit) = (integer(args.get(at))?, integer(args.get(at + 1))?);
                at += 2;
            } else if options.rev.is_none() && is(word, "REV") {
                options.rev = Some(true);
            } else if options.by.is_none() && is(word, "BYLEX") {
                options.by = Some(By::Lex);
            } else if options.by.is_none() && is(word, "BYSCORE") {
                options.by = Some(By::Score);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }
}

impl<'a> Query<'a> {
    /// Reads the bounds at argument `at` and the options behind them, which come first where both are wrong.
    fn parse(args: &Args<'a>, at: usize, form: Form) -> CmdResult<Query<'a>> {
        let options = Options::parse(args, at + 2, form)?;
        let (by, rev) = (options.by.unwrap_or(By::Rank), options.rev.unwrap_or(false));
        // -1 is what LIMIT is when it is not there.
        if options.limit != -1 && by == By::Rank {
            return Err(errors::LIMIT_WITHOUT_BY);
        }
        if options.with_scores && by == By::Lex {
            return Err(errors::WITHSCORES_BYLEX);
        }
        let bounds = Bounds::parse(args, at, by, rev)?;
        // A negative offset skips everything, a negative limit is none; neither means anything to ranks.
        let ranks = by == By::Rank;
        let all = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
        let skip = if ranks { 0 } else { all(options.offset) };
        let limit = if ranks { usize::MAX } else { all(options.limit) };
        Ok(Query { bounds, rev, with_scores: options.with_scores, skip, limit })
    }
}

fn answer(ctx: &mut Ctx<'_, '_>, form: Form) -> CmdResult {
    Query::parse(&ctx.args, 2, form).and_then(|query| reply_range(ctx, &query))
}

/// The reply of a range.
struct Shown<'o> {
    out: &'o mut Reply,
    with_scores: bool,
    takes_parts: bool,
}

impl ZShown for Shown<'_> {
    fn begin(&mut self, members: usize) {
        reply_head(self.out, members, self.with_scores);
    }

    fn takes_parts(&self) -> bool {
        self.takes_parts
    }

    #[inline]
    fn member(&mut self, member: &[u8], score: f64) {
        reply_member(self.out, member, score, self.with_scores);
    }
}

fn reply_range(ctx: &mut Ctx<'_, '_>, query: &Query<'_>) -> CmdResult {
    let key = ctx.key(1);
    let Query { rev, with_scores, skip, limit, .. } = *query;
    let takes_parts = ctx.session.takes_parts();
    let Ctx { tx, out, .. } = ctx;
    let (range, shown) = (|len| query.bounds.within(len), &mut Shown { out, with_scores, takes_parts });
    if let (_, Some(reader)) = tx.zset_range(&key, range, rev, (skip, limit), shown)? {
        ctx.go_on(Box::new(RestOfRange { reader, with_scores }));
    }
    Ok(())
}

/// The members of a long range that are still to be replied.
struct RestOfRange {
    reader: ZsetReader,
    with_scores: bool,
}

impl Ongoing for RestOfRange {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let with_scores = self.with_scores;
        tx.read_members_on(&mut self.reader, |member, score| reply_member(out, member, score, with_scores)).into()
    }

    fn kept_bytes(&self) -> usize {
        self.reader.kept_bytes()
    }
}

fn store(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let query = Query::parse(&ctx.args, 3, Form { by: None, rev: None, stores: true })?;
    let (to, from) = (ctx.key(1), ctx.key(2));
    if store_in_parts(ctx, &query, &from) {
        return Ok(());
    }
    let mut members = Scratch::admitted(ctx, |ctx, members| {
        let Query { rev, skip, limit, .. } = query;
        ctx.tx.zset_range(&from, |len| query.bounds.within(len), rev, (skip, limit), &mut |member: &[u8], score| {
            members.push(member, score)
        })?;
        Ok(())
    })?;
    let (taken, count) = (ctx.tx.exists(&to), members.len());
    let shape = ctx.tx.store().shapes().small(Type::Zset);
    // The peer knows before it begins how many ranks there are, and nothing of other ranges.
    if !matches!(query.bounds, Bounds::Rank(..)) || count as u64 <= shape.entries() {
        members.lose_zero_signs(shape.entries() as usize, shape.value_bytes() as usize);
    }
    ctx.out.integer(count as i64);
    ctx.tx.zset_store(&to, &mut members.iter().collect::<Vec<_>>());
    ctx.did_store(Class::Zset, "zrangestore", &to, u64::from(count > 0), taken);
    Ok(())
}

/// Begins to store a long range over several turns; false, and nothing is done, if it is to be stored at once.
fn store_in_parts(ctx: &mut Ctx<'_, '_>, query: &Query<'_>, from: &Key<'_>) -> bool {
    if !ctx.session.takes_parts() {
        return false;
    }
    let Query { rev, skip, limit, .. } = *query;
    let range = |len| query.bounds.within(len);
    // A key of another type is counted and refused by the caller.
    let Ok(Some(reader)) = ctx.tx.begin_zset_range(from, range, rev, (skip, limit), MEMBER_COST) else { return false };
    let shape = ctx.tx.store().shapes().small(Type::Zset);
    // A range of ranks is longer than a packed set, which the peer knows before it begins.
    let zeros = if matches!(query.bounds, Bounds::Rank(..)) { 0 } else { shape.entries() as usize };
    let value_bytes = shape.value_bytes() as usize;
    ctx.go_on_building(|tx, args, keeps| {
        let building = Building::begin(tx, args, (1, Type::Zset), vec![2], keeps);
        Box::new(StoredRange { reader: Some(reader), zeros, value_bytes, building })
    });
    true
}

/// A long range that is stored.
struct StoredRange {
    /// None once all was read.
    reader: Option<ZsetReader>,
    /// Members whose score -0 becomes 0, if they are no longer than this ([`Scratch::lose_zero_signs`]).
    zeros: usize,
    value_bytes: usize,
    building: Building,
}

impl Ongoing for StoredRange {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        let StoredRange { reader, zeros, value_bytes, building } = self;
        let Some(reading) = reader else {
            return building.publish(tx, &Report::new(Class::Zset, "zrangestore"), |_, _| (), out);
        };
        if building.is_full(tx) {
            return building.add_on(tx);
        }
        let read = tx.read_members_on(reading, |member, score| {
            *zeros = if member.len() <= *value_bytes { *zeros } else { 0 };
            building.push_scored(member, if *zeros > 0 { score + 0.0 } else { score });
            *zeros = zeros.saturating_sub(1);
        });
        tx.release();
        after_read(reader, read)
    }

    fn sources(&self) -> Option<&Sources> {
        Some(self.building.sources())
    }

    fn abandon(&mut self, worker: &mut StoreWorker) {
        self.building.abandon(worker);
    }

    fn held_bytes(&self) -> usize {
        self.building.held_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.reader.as_ref().map_or(0, ZsetReader::kept_bytes)
    }
}
