//! Single members: ZADD, ZINCRBY, ZREM, ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK.

use smallvec::SmallVec;
use varve_base::number::parse_f64;
use varve_catalog::{Acl, ArgKind, Flags, Group, KeyFlags, KeySpec, Row, arg, block, key, one_of, word};
use varve_exec::notify::{Again, Class, Effect};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Args;
use varve_store::{Key, Tx, ZAdd, ZAdded};

use super::{CHANGES, READS, REMOVES, UPDATES};
use crate::errors;
use crate::generic::many_arguments::{self, Done, Each, Part, PartOfReply, run_in_parts};
use crate::grammar::is;

pub(super) const ROWS: FileRows = &[ZADD, ZINCRBY, ZREM, ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK];

/// Members of one ZADD whose scores are read without an allocation.
const SCORES_INLINE: usize = 16;

/// ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]
fn zadd(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    add(ctx, ZAdd::default())
}

const ZADD: Command = Command::new(
    Exec::Keys(zadd),
    Row::new("zadd", Group::SortedSet, -4, "1.2.0")
        .element(3)
        .about("Adds members with their scores, or changes the scores of those that are there.", "O(log(N)) a member")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, UPDATES)])
        .history(&[
            ("2.4.0", "Several members."),
            ("3.0.2", "`XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "`GT` and `LT`."),
        ])
        .args(&[
            key("key", 0),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).since("3.0.2").optional(),
            one_of("comparison", &[word("gt", "GT"), word("lt", "LT")]).since("6.2.0").optional(),
            word("change", "CH").since("3.0.2").optional(),
            word("increment", "INCR").since("3.0.2").optional(),
            block("score_member", &[arg("score", ArgKind::Double), arg("member", ArgKind::String)]).multiple(),
        ]),
);

/// ZINCRBY key increment member: ZADD with INCR, down to the options that it would take if there were room for them.
fn zincrby(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    add(ctx, ZAdd { incr: true, ..ZAdd::default() })
}

const ZINCRBY: Command = Command::new(
    Exec::Keys(zincrby),
    Row::new("zincrby", Group::SortedSet, 4, "1.2.0")
        .element(3)
        .about("Adds to the score of a member.", "O(log(N))")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, CHANGES)])
        .args(&[key("key", 0), arg("increment", ArgKind::Integer), arg("member", ArgKind::String)]),
);

/// The options between the key and the first score.
struct Options {
    how: ZAdd,
    /// The reply counts changed scores too.
    changed: bool,
    /// The first score's argument.
    first: usize,
}

impl Options {
    fn parse(args: &Args<'_>, how: ZAdd) -> CmdResult<Options> {
        let options = Options::words(args, how, 2);
        options.check(args.len() - options.first).map(|()| options)
    }

    /// Reads the words from argument `first` on, up to the first that is none.
    fn words(args: &Args<'_>, how: ZAdd, first: usize) -> Options {
        let mut options = Options { how, changed: false, first };
        while let Some(word) = args.opt(options.first) {
            let flag = match word.len() {
                2 if is(word, "NX") => &mut options.how.nx,
                2 if is(word, "XX") => &mut options.how.xx,
                2 if is(word, "GT") => &mut options.how.gt,
                2 if is(word, "LT") => &mut options.how.lt,
                2 if is(word, "CH") => &mut options.changed,
                4 if is(word, "INCR") => &mut options.how.incr,
                _ => break,
            };
            *flag = true;
            options.first += 1;
        }
        options
    }

    /// Checks whether the options go together, and with this number of arguments behind them.
    fn check(&self, behind: usize) -> CmdResult {
        let ZAdd { nx, xx, gt, lt, incr } = self.how;
        if behind == 0 || behind % 2 == 1 {
            Err(CommandError::SYNTAX)
        } else if nx && xx {
            Err(errors::ZADD_NX_XX)
        } else if nx && (gt || lt) || gt && lt {
            Err(errors::ZADD_GT_LT_NX)
        } else if incr && behind > 2 {
            Err(errors::ZADD_ONE_PAIR)
        } else {
            Ok(())
        }
    }
}

/// The counts of an addition: its members by what became of them.
#[derive(Default)]
pub(crate) struct Tally {
    added: i64,
    updated: i64,
    /// The score of the last one, unless it was refused.
    last: Option<f64>,
}

impl Tally {
    #[inline(always)]
    fn add(&mut self, ctx: &mut Ctx<'_, '_>, key: &Key<'_>, member: &[u8], score: f64, how: ZAdd) -> CmdResult {
        let outcome = ctx.tx.zset_add(key, member, score, how)?;
        if outcome == ZAdded::NotANumber {
            return Err(errors::SCORE_NAN);
        }
        self.count(outcome);
        Ok(())
    }

    /// Counts one member.
    #[inline(always)]
    pub(crate) fn count(&mut self, outcome: ZAdded) {
        self.last = match outcome {
            ZAdded::Added(score) => {
                self.added += 1;
                Some(score)
            }
            ZAdded::Updated(score) => {
                self.updated += 1;
                Some(score)
            }
            ZAdded::Same(score) => Some(score),
            ZAdded::Refused | ZAdded::NotANumber => None,
        };
    }

    /// Reports the addition, which is done `again` so, and answers it.
    #[inline(always)]
    pub(crate) fn reply(self, ctx: &mut Ctx<'_, '_>, key: &Key<'_>, how: ZAdd, changed: bool, again: Again<'_>) {
        let changes = self.added + self.updated;
        if changes > 0 {
            let event = if how.incr { "zincr" } else { "zadd" };
            ctx.did(key, Effect::new(Class::Zset, event, changes as u64, again));
        }
        match self.last {
            Some(score) if how.incr => ctx.out.double(score),
            None if how.incr => ctx.out.null(),
            _ => ctx.out.integer(if changed { self.added + self.updated } else { self.added }),
        }
    }
}

fn add(ctx: &mut Ctx<'_, '_>, how: ZAdd) -> CmdResult {
    // One score and one member, as mostly: what reads as a number is no option.
    if ctx.args.len() == 4
        && let Some(score) = parse_f64(ctx.args.get(2))
    {
        let (key, mut tally) = (ctx.key(1), Tally::default());
        let member = ctx.args.get(3);
        tally.add(ctx, &key, member, score, how)?;
        tally.reply(ctx, &key, how, false, Again::Sent);
        return Ok(());
    }
    let Options { how, changed, first } = Options::parse(&ctx.args, how)?;
    if ctx.args.len() > many_arguments::FEW && run_in_parts(ctx, first, &ADD_EACH)? {
        return Ok(());
    }
    let key = ctx.key(1);
    // All scores are read before the first member is added.
    let scores =
        (first..ctx.args.len()).step_by(2).map(|at| parse_f64(ctx.args.get(at)).ok_or(CommandError::NOT_FLOAT));
    let scores: SmallVec<[f64; SCORES_INLINE]> = scores.collect::<CmdResult<_>>()?;
    let mut tally = Tally::default();
    if let [score] = scores[..] {
        let member = ctx.args.get(first + 1);
        tally.add(ctx, &key, member, score, how)?;
    } else {
        // A sum that is no number comes of INCR alone, which takes one member.
        let Ctx { args, tx, .. } = ctx;
        let members = scores.iter().enumerate().map(|(i, &score)| (args.get(first + 2 * i + 1), score));
        tx.zset_add_all(&key, members, how, |outcome| tally.count(outcome))?;
    }
    tally.reply(ctx, &key, how, changed, Again::Sent);
    Ok(())
}

const ADD_EACH: Each = Each {
    class: Class::Zset,
    event: "zadd",
    word: b"ZADD",
    texts: 2,
    check: Some(|texts| {
        let mut scores = (0..texts.len()).step_by(2).map(|at| parse_f64(texts.get(at)));
        if scores.all(|score| score.is_some()) { Ok(()) } else { Err(CommandError::NOT_FLOAT) }
    }),
    run: add_part,
    reply: many_arguments::reply_count,
};

/// Adds some members of many, whose scores were all read before.
fn add_part(tx: &mut Tx<'_>, key: &Key<'_>, part: Part<'_>) -> CmdResult<Done> {
    let Options { how, changed, .. } = Options::words(&part.options, ZAdd::default(), 0);
    let members = part.pairs().map(|(score, member)| (member, parse_f64(score).expect("a score that was read before")));
    let mut tally = Tally::default();
    tx.zset_add_all(key, members, how, |outcome| tally.count(outcome))?;
    let (added, changes) = (tally.added as usize, (tally.added + tally.updated) as usize);
    Ok(Done { reply: PartOfReply::More(if changed { changes } else { added }), changes })
}

/// ZREM key member [member ...]
fn zrem(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len() > many_arguments::FEW && run_in_parts(ctx, 2, &REMOVE_EACH)? {
        return Ok(());
    }
    let key = ctx.key(1);
    let mut removed = 0;
    for at in 2..ctx.args.len() {
        removed += i64::from(ctx.tx.zset_remove(&key, ctx.args.get(at))?);
    }
    if removed > 0 {
        ctx.did_taken(&key, Effect::sent(Class::Zset, "zrem", removed as u64));
    }
    ctx.out.integer(removed);
    Ok(())
}

const REMOVE_EACH: Each = Each {
    class: Class::Zset,
    event: "zrem",
    word: b"ZREM",
    texts: 1,
    check: None,
    run: |tx, key, part| {
        let mut members = part.texts.iter();
        let removed = members.try_fold(0, |removed, member| {
            tx.zset_remove(key, member).map(|was_there| removed + usize::from(was_there))
        })?;
        Ok(Done::counted(removed))
    },
    reply: many_arguments::reply_count,
};

const ZREM: Command = Command::new(
    Exec::Keys(zrem),
    Row::new("zrem", Group::SortedSet, -3, "1.2.0")
        .element(2)
        .about("Removes members.", "O(log(N)) a member")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .history(&[("2.4.0", "Several members.")])
        .args(&[key("key", 0), arg("member", ArgKind::String).multiple()]),
);

/// ZCARD key
fn zcard(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    ctx.tx.zset_len(&key).map(|n| ctx.out.integer(n as i64)).map_err(Into::into)
}

const ZCARD: Command = Command::new(
    Exec::Keys(zcard),
    Row::new("zcard", Group::SortedSet, 2, "1.2.0")
        .about("Counts the members.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
);

/// ZSCORE key member
fn zscore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let score = ctx.tx.zset_score(&key, ctx.args.get(2));
    score.map(|score| reply_score(ctx, score)).map_err(Into::into)
}

const ZSCORE: Command = Command::new(
    Exec::Keys(zscore),
    Row::new("zscore", Group::SortedSet, 3, "1.2.0")
        .element(2)
        .about("Answers the score of a member.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .args(&[key("key", 0), arg("member", ArgKind::String)]),
);

#[inline]
fn reply_score(ctx: &mut Ctx<'_, '_>, score: Option<f64>) {
    match score {
        Some(score) => ctx.out.double(score),
        None => ctx.out.null(),
    }
}

/// ZMSCORE key member [member ...]
fn zmscore(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    // The first one counts as the lookup of the key, and tells a key of another type.
    let first = ctx.tx.zset_score(&key, ctx.args.get(2))?;
    ctx.out.array(ctx.args.len() - 2);
    reply_score(ctx, first);
    for at in 3..ctx.args.len() {
        let score = ctx.tx.zset_peek(&key, ctx.args.get(at))?;
        reply_score(ctx, score);
    }
    Ok(())
}

const ZMSCORE: Command = Command::new(
    Exec::Keys(zmscore),
    Row::new("zmscore", Group::SortedSet, -3, "6.2.0")
        .element(2)
        .about("Answers the scores of several members.", "O(M) in the members asked for")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .args(&[key("key", 0), arg("member", ArgKind::String).multiple()]),
);

/// The row of a command that answers a rank, but for its texts.
const fn ranking(name: &'static str) -> Row {
    Row::new(name, Group::SortedSet, -3, "2.0.0")
        .element(2)
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SORTEDSET])
        .keys(const { &[KeySpec::one(1, READS)] })
        .history(&[("7.2.0", "`WITHSCORE`.")])
        .args(
            const {
                &[
                    key("key", 0),
                    arg("member", ArgKind::String),
                    word("withscore", "WITHSCORE").since("7.2.0").optional(),
                ]
            },
        )
}

/// ZRANK key member [WITHSCORE]
fn zrank(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    rank(ctx, "zrank", false)
}

const ZRANK: Command = Command::new(
    Exec::Keys(zrank),
    ranking("zrank").about("Answers the rank of a member, lowest score first.", "O(log(N))"),
);

/// ZREVRANK key member [WITHSCORE]
fn zrevrank(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    rank(ctx, "zrevrank", true)
}

const ZREVRANK: Command = Command::new(
    Exec::Keys(zrevrank),
    ranking("zrevrank").about("Answers the rank of a member, highest score first.", "O(log(N))"),
);

fn rank(ctx: &mut Ctx<'_, '_>, name: &str, rev: bool) -> CmdResult {
    let with_score = match ctx.args.len() {
        3 => false,
        4 if ctx.args.is(3, "WITHSCORE") => true,
        4 => return Err(CommandError::SYNTAX),
        _ => return Err(CommandError::arity(name)),
    };
    let key = ctx.key(1);
    match ctx.tx.zset_rank(&key, ctx.args.get(2), rev)? {
        None if with_score => ctx.out.null_array(),
        None => ctx.out.null(),
        Some((rank, score)) => {
            if with_score {
                ctx.out.array(2);
            }
            ctx.out.integer(rank as i64);
            if with_score {
                ctx.out.double(score);
            }
        }
    }
    Ok(())
}
