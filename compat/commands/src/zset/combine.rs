//! Several sets at once: ZUNION, ZINTER, ZDIFF, those that store their result, and ZINTERCARD, by one grammar.
//!
//! Sources are sorted sets or sets, whose members have the score 1. They are read from the smallest to the largest,
//! which decides how scores that rounding makes depend on the order add up; the difference reads them as they are named.
//!
//! A score that is no number is 0: an infinity that weighs 0, or two infinities that cancel. But the product of a later
//! source of an intersection is not looked at by itself, and a MIN or MAX with it keeps the other score.

use std::collections::{HashMap, HashSet};

use smallvec::{SmallVec, smallvec};
use varve_base::number::parse_f64;
use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, KeySpec, Row, arg, key, one_of, word};
use varve_exec::notify::Class;
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_store::{Key, Tx, Type};

use super::aggregate::{Aggregate, Op, or_zero};
use super::combine_parts::{Asked, LongCombination, Part, Weights, Wish, score};
use super::scratch::Scratch;
use super::{ALL, READS, REPLACES, reply_head, reply_member};
use crate::errors;
use crate::generic::building::Building;
use crate::grammar::{integer, is};

pub(super) const ROWS: FileRows = &[ZUNION, ZINTER, ZDIFF, ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE, ZINTERCARD];

/// The destination of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Answer,
    Store,
    Count,
}

/// Gathering a member takes as long as showing this number of them.
const MEMBER_COST: u64 = 16;
/// A set is asked for the members of the leading one, and not read, from this number of its members for one question on.
const WALKED_IN_ONE_QUESTION: usize = 64;

/// Factors of the sets' scores.
const WEIGHTS: Argument = arg("weight", ArgKind::Integer).token("WEIGHTS").optional().multiple();
/// How the scores of one member in several sets become one.
const AGGREGATE: Argument = one_of(
    "aggregate",
    &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX"), word("count", "COUNT").since("8.8.0")],
)
.token("AGGREGATE")
.optional();

/// ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX | COUNT] [WITHSCORES]
fn zunion(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, "zunion", Op::Union)
}

const ZUNION: Command = Command::new(
    Exec::Keys(zunion),
    Row::new("zunion", Group::SortedSet, -3, "6.2.0")
        .about(
            "Answers the members that any of the sets has.",
            "O(N) in the members of all sets, and the sorting of those answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .history(&[("8.8.0", "`COUNT`.")])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            WEIGHTS,
            AGGREGATE,
            word("withscores", "WITHSCORES").optional(),
        ]),
);

/// ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX | COUNT] [WITHSCORES]
fn zinter(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, "zinter", Op::Inter)
}

const ZINTER: Command = Command::new(
    Exec::Keys(zinter),
    Row::new("zinter", Group::SortedSet, -3, "6.2.0")
        .about(
            "Answers the members that all sets have.",
            "O(N*K) in the members of the smallest set and the sets, and the sorting of those answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .history(&[("8.8.0", "`COUNT`.")])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            WEIGHTS,
            AGGREGATE,
            word("withscores", "WITHSCORES").optional(),
        ]),
);

/// ZDIFF numkeys key [key ...] [WITHSCORES]
fn zdiff(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    answer(ctx, "zdiff", Op::Diff)
}

const ZDIFF: Command = Command::new(
    Exec::Keys(zdiff),
    Row::new("zdiff", Group::SortedSet, -3, "6.2.0")
        .about(
            "Answers the members of the first set that no other one has.",
            "O(L) in the members of all sets, and the sorting of those answered",
        )
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            word("withscores", "WITHSCORES").optional(),
        ]),
);

/// The row of a command that stores its result, but for the texts that differ and the arguments.
const fn storing(name: &'static str, since: &'static str) -> Row {
    Row::new(name, Group::SortedSet, -4, since)
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::SORTEDSET])
        .keys(const { &[KeySpec::one(1, REPLACES), KeySpec::counted(2, 1, READS)] })
}

/// ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX | COUNT]
fn zunionstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, "zunionstore", Op::Union)
}

const ZUNIONSTORE: Command = Command::new(
    Exec::Keys(zunionstore),
    storing("zunionstore", "2.0.0")
        .about(
            "Stores the members that any of the sets has.",
            "O(N) in the members of all sets, and the sorting of those stored",
        )
        .history(&[("8.8.0", "`COUNT`.")])
        .args(&[key("destination", 0), arg("numkeys", ArgKind::Integer), key("key", 1).multiple(), WEIGHTS, AGGREGATE]),
);

/// ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX | COUNT]
fn zinterstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, "zinterstore", Op::Inter)
}

const ZINTERSTORE: Command = Command::new(
    Exec::Keys(zinterstore),
    storing("zinterstore", "2.0.0")
        .about(
            "Stores the members that all sets have.",
            "O(N*K) in the members of the smallest set and the sets, and the sorting of those stored",
        )
        .history(&[("8.8.0", "`COUNT`.")])
        .args(&[key("destination", 0), arg("numkeys", ArgKind::Integer), key("key", 1).multiple(), WEIGHTS, AGGREGATE]),
);

/// ZDIFFSTORE destination numkeys key [key ...]
fn zdiffstore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    store(ctx, "zdiffstore", Op::Diff)
}

const ZDIFFSTORE: Command = Command::new(
    Exec::Keys(zdiffstore),
    storing("zdiffstore", "6.2.0")
        .about(
            "Stores the members of the first set that no other one has.",
            "O(L) in the members of all sets, and the sorting of those stored",
        )
        .args(&[key("destination", 0), arg("numkeys", ArgKind::Integer), key("key", 1).multiple()]),
);

/// ZINTERCARD numkeys key [key ...] [LIMIT limit]
fn zintercard(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let plan = Plan::parse(ctx, "zintercard", 1, Op::Inter, Aim::Count)?;
    if go_on_in_parts(ctx, &plan, Wish::Count { limit: plan.limit }) {
        return Ok(());
    }
    let (first, others) = plan.sources.split_first().expect("at least one key");
    let (others, _) = distinct(others);
    let mut members = Scratch::new(first.key.hash);
    first.for_each(&mut ctx.tx, &mut |member, score| members.push(member, score))?;
    let most = if plan.limit == 0 { usize::MAX } else { plan.limit };
    let mut count = 0;
    for (member, _) in members.iter() {
        let mut everywhere = true;
        for other in &others {
            everywhere = everywhere && other.score(&mut ctx.tx, member)?.is_some();
        }
        count += usize::from(everywhere);
        if count == most {
            break;
        }
    }
    ctx.out.integer(count as i64);
    Ok(())
}

const ZINTERCARD: Command = Command::new(
    Exec::Keys(zintercard),
    Row::new("zintercard", Group::SortedSet, -3, "7.0.0")
        .about("Counts the members that all sets have.", "O(N*K) in the members of the smallest set and the sets")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::counted(1, 1, READS)])
        .args(&[
            arg("numkeys", ArgKind::Integer),
            key("key", 0).multiple(),
            arg("limit", ArgKind::Integer).token("LIMIT").optional(),
        ]),
);

/// A set that is read.
#[derive(Clone, Copy)]
struct Source<'a> {
    key: Key<'a>,
    weight: f64,
    /// False: a set, whose scores are 1. What is not there is an empty sorted set.
    scored: bool,
    len: usize,
}

/// How the sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In one hold of their shards.
    AtOnce,
    /// Over several turns, in which all sets are read.
    Read,
    /// Over several turns, in which the leading set is read, and the others are asked for its members.
    Asked,
}

/// A request.
struct Plan<'a> {
    op: Op,
    sources: SmallVec<[Source<'a>; 8]>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Of ZINTERCARD; 0 for none.
    limit: usize,
}

impl<'a> Plan<'a> {
    /// Reads a request whose number of keys is argument `at`. The types of the keys are checked before the options are.
    fn parse(ctx: &mut Ctx<'_, 'a>, name: &str, at: usize, op: Op, aim: Aim) -> CmdResult<Plan<'a>> {
        let keys = integer(ctx.args.get(at))?;
        if keys < 1 {
            return Err(errors::no_input_key(name));
        }
        let behind = at + 1;
        let keys = usize::try_from(keys).ok().filter(|n| *n <= ctx.args.len() - behind).ok_or(CommandError::SYNTAX)?;
        let sources = (behind..behind + keys).map(|at| Source::find(ctx, at)).collect::<CmdResult<_>>()?;
        let mut plan = Plan { op, sources, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        plan.options(&ctx.args, behind + keys, aim)?;
        if op != Op::Diff {
            plan.sources.sort_by_key(|source| source.len);
        }
        Ok(plan)
    }

    fn options(&mut self, args: &Args<'_>, mut at: usize, aim: Aim) -> CmdResult {
        let weighs = self.op != Op::Diff && aim != Aim::Count;
        while let Some(word) = args.opt(at) {
            at += 1;
            let behind = args.len() - at;
            if weighs && behind >= self.sources.len() && is(word, "WEIGHTS") {
                for source in &mut self.sources {
                    source.weight = weight(args.get(at))?;
                    at += 1;
                }
            } else if weighs && behind >= 1 && is(word, "AGGREGATE") {
                self.aggregate = Aggregate::parse(args.get(at))?;
                at += 1;
            } else if aim == Aim::Answer && is(word, "WITHSCORES") {
                self.with_scores = true;
            } else if aim == Aim::Count && behind >= 1 && is(word, "LIMIT") {
                self.limit = limit(args.get(at))?;
                at += 1;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(())
    }

    /// The way to do it. An intersection or a difference whose leading set is much shorter than another one asks that one,
    /// which takes less time in all than reading it.
    fn way(&self, tx: &Tx<'_>) -> Way {
        let all: usize = self.sources.iter().map(|source| source.len).sum();
        let leading = self.sources[0].len;
        let asks = leading.saturating_mul(self.sources.len());
        let work = if self.op == Op::Union { all } else { asks.min(all) };
        if !tx.is_long_work(work as u64, MEMBER_COST) {
            Way::AtOnce
        } else if self.op == Op::Union || all / WALKED_IN_ONE_QUESTION <= asks {
            Way::Read
        } else {
            Way::Asked
        }
    }

    /// Gathers the result.
    fn run(&self, tx: &mut Tx<'_>, members: &mut Scratch) -> CmdResult {
        match self.op {
            Op::Union => self.unite(tx, members),
            Op::Inter => self.intersect(tx, members),
            Op::Diff => self.subtract(tx, members),
        }?;
        members.check()
    }

    fn unite(&self, tx: &mut Tx<'_>, members: &mut Scratch) -> CmdResult {
        for (source, weights) in in_runs(self) {
            let (first, again) = weights.split_first().expect("it was named");
            source.for_each(tx, &mut |member, score| {
                let share = |weight: &f64| or_zero(self.aggregate.share(*weight, score));
                let fold = |old, new| self.aggregate.fold(old, new);
                members.merge(member, share(first), fold);
                again.iter().for_each(|weight| members.merge(member, share(weight), fold));
            })?;
        }
        Ok(())
    }

    fn intersect(&self, tx: &mut Tx<'_>, members: &mut Scratch) -> CmdResult {
        let (first, others) = self.sources.split_first().expect("at least one key");
        let (sets, places) = distinct(others);
        first.for_each(tx, &mut |member, score| members.push(member, score))?;
        let (mut fault, mut scores) = (None, Vec::with_capacity(sets.len()));
        members.retain(|member, score| {
            scores.clear();
            for set in &sets {
                scores.push(set.score(tx, member).unwrap_or_else(|wrong| {
                    fault = Some(wrong);
                    None
                })?);
            }
            let sum = or_zero(self.aggregate.share(first.weight, score));
            let shares = others.iter().zip(&places).map(|(other, &at)| self.aggregate.share(other.weight, scores[at]));
            Some(shares.fold(sum, |sum, new| self.aggregate.fold(sum, new)))
        });
        fault.map_or(Ok(()), Err)
    }

    /// Each other set costs what is less: reading it, or asking it for the members that are left. All asked for each member
    /// were 1 s for 10 000 members and 1000 sets of one.
    fn subtract(&self, tx: &mut Tx<'_>, members: &mut Scratch) -> CmdResult {
        let (first, others) = self.sources.split_first().expect("at least one key");
        let (others, _) = distinct(others);
        let (short, long): (Vec<&Source<'_>>, Vec<&Source<'_>>) =
            others.into_iter().partition(|other| other.len < first.len);
        if short.is_empty() {
            first.for_each(tx, &mut |member, score| members.push(member, score))?;
        } else {
            first.for_each(tx, &mut |member, score| members.insert(member, score))?;
            for other in short {
                other.for_each(tx, &mut |member, _| members.strike(member))?;
            }
            members.drop_struck();
        }
        for other in long {
            if members.len() == 0 {
                break;
            }
            let mut fault = None;
            members.retain(|member, score| match other.score(tx, member) {
                Ok(found) => found.is_none().then_some(score),
                Err(wrong) => {
                    fault = Some(wrong);
                    Some(score)
                }
            });
            fault.map_or(Ok(()), Err)?;
        }
        Ok(())
    }
}

impl<'a> Source<'a> {
    fn ty(&self) -> Type {
        if self.scored { Type::Zset } else { Type::Set }
    }

    /// The set that argument `at` names; looking it up counts as a hit or miss.
    fn find(ctx: &mut Ctx<'_, 'a>, at: usize) -> CmdResult<Source<'a>> {
        let key = ctx.key(at);
        let ty = ctx.tx.type_of(&key);
        ctx.tx.touch(&key);
        let (scored, len) = match ty {
            None => (true, 0),
            Some(Type::Zset) => (true, ctx.tx.zset_range_len(&key, &ALL, false, 0, usize::MAX)?),
            Some(Type::Set) => (false, ctx.tx.set_peek(&key)?.map_or(0, |set| set.len())),
            Some(_) => return Err(CommandError::WRONG_TYPE),
        };
        Ok(Source { key, weight: 1.0, scored, len })
    }

    fn for_each(&self, tx: &mut Tx<'_>, each: &mut dyn FnMut(&[u8], f64)) -> CmdResult {
        if self.scored {
            tx.zset_for_each(&self.key, each)?;
        } else {
            let set = tx.set_peek(&self.key)?;
            set.inspect(|set| set.for_each(|member| each(member.text(&mut [0; 20]), 1.0)));
        }
        Ok(())
    }

    /// The score of a member.
    fn score(&self, tx: &mut Tx<'_>, member: &[u8]) -> CmdResult<Option<f64>> {
        score(tx, (&self.key, self.ty()), member)
    }
}

fn weight(text: &[u8]) -> CmdResult<f64> {
    parse_f64(text).ok_or(errors::WEIGHT_NO_FLOAT)
}

fn limit(text: &[u8]) -> CmdResult<usize> {
    integer(text).ok().and_then(|n| usize::try_from(n).ok()).ok_or(errors::LIMIT_NEGATIVE)
}

fn answer(ctx: &mut Ctx<'_, '_>, name: &str, op: Op) -> CmdResult {
    let plan = Plan::parse(ctx, name, 1, op, Aim::Answer)?;
    if go_on_in_parts(ctx, &plan, Wish::Members { with_scores: plan.with_scores }) {
        return Ok(());
    }
    let mut members = Scratch::new(plan.sources[0].key.hash);
    plan.run(&mut ctx.tx, &mut members)?;
    members.sort();
    reply_head(ctx.out, members.len(), plan.with_scores);
    for (member, score) in members.iter() {
        reply_member(ctx.out, member, score, plan.with_scores);
    }
    Ok(())
}

/// The sets, each once, and for each time that one is named its place among these.
fn distinct<'p, 'a>(sources: &'p [Source<'a>]) -> (Vec<&'p Source<'a>>, Vec<usize>) {
    let (mut sets, mut places) = (Vec::new(), HashMap::new());
    let place_of = |source: &'p Source<'a>| {
        *places.entry(source.key.bytes).or_insert_with(|| {
            sets.push(source);
            sets.len() - 1
        })
    };
    let places = sources.iter().map(place_of).collect();
    (sets, places)
}

/// The sets in the order in which their scores fold. One that follows itself stands once, with all its weights. The order
/// counts: sums of floating point are rounded at each step. Of a difference, each of the others stands once.
fn in_runs<'p, 'a>(plan: &'p Plan<'a>) -> Vec<(&'p Source<'a>, Weights)> {
    let (mut runs, mut named): (Vec<(&Source<'_>, Weights)>, _) = (Vec::new(), HashSet::new());
    for source in &plan.sources {
        match runs.last_mut() {
            Some((last, weights)) if plan.op != Op::Diff && last.key.bytes == source.key.bytes => {
                weights.push(source.weight);
            }
            Some(_) if plan.op == Op::Diff && !named.insert(source.key.bytes) => {}
            _ => runs.push((source, smallvec![source.weight])),
        }
    }
    runs
}

/// Begins an operation on long sets over several turns; false, and nothing is done, if it is to be done at once.
fn go_on_in_parts(ctx: &mut Ctx<'_, '_>, plan: &Plan<'_>, wish: Wish) -> bool {
    let way = if ctx.session.takes_parts() { plan.way(&ctx.tx) } else { Way::AtOnce };
    if way == Way::AtOnce {
        return false;
    }
    let (mut parts, mut asked): (Vec<Part>, Vec<Asked>) = (Vec::new(), Vec::new());
    let mut places = HashMap::new();
    for (source, weights) in in_runs(plan) {
        if way == Way::Asked && !parts.is_empty() {
            asked.push(Asked::new(source.key.bytes, source.ty(), weights));
            continue;
        }
        let before = places.insert(source.key.bytes, parts.len());
        match before.filter(|_| plan.op != Op::Diff) {
            Some(at) => {
                let again = Part::again(&mut parts, at, weights);
                parts.push(again);
            }
            None => parts.push(Part::begin(&mut ctx.tx, &source.key, source.ty(), weights)),
        }
    }
    let mut rest = LongCombination::new((plan.op, plan.aggregate), (parts, asked), plan.sources[0].key.hash, wish);
    if let Wish::Stored { .. } = wish {
        let sources = (3..3 + plan.sources.len()).collect();
        ctx.go_on_building(|tx, args, keeps| {
            rest.store_in(Building::begin(tx, args, (1, Type::Zset), sources, keeps));
            Box::new(rest)
        });
    } else {
        let keeps = ctx.keeps_sources();
        rest.watch(&mut ctx.tx, keeps);
        ctx.go_on(Box::new(rest));
    }
    true
}

fn store(ctx: &mut Ctx<'_, '_>, name: &'static str, op: Op) -> CmdResult {
    let plan = Plan::parse(ctx, name, 2, op, Aim::Store)?;
    if go_on_in_parts(ctx, &plan, Wish::Stored { event: name }) {
        return Ok(());
    }
    let mut parsed = Some(plan);
    let members = Scratch::admitted(ctx, |ctx, members| {
        // Where the shards were let go for room, the sets are looked up anew.
        let plan = parsed.take().map_or_else(|| Plan::parse(ctx, name, 2, op, Aim::Store), Ok)?;
        plan.run(&mut ctx.tx, members)
    })?;
    let to = ctx.key(1);
    let (taken, count) = (ctx.tx.exists(&to), members.len());
    ctx.out.integer(count as i64);
    ctx.tx.zset_store(&to, &mut members.iter().collect::<Vec<_>>());
    ctx.did_store(Class::Zset, name, &to, u64::from(count > 0), taken);
    Ok(())
}
