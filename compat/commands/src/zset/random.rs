//! ZRANDMEMBER: members that the set picks.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, block, key, word};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};
use varve_protocol::Reply;
use varve_store::{Pick, Type};

use super::{READS, reply_head, reply_member, reply_pair};
use crate::errors;
use crate::generic::draw::{Draw, Form, draw_in_parts};
use crate::grammar::{integer, parts};

pub(super) const ROWS: FileRows = &[ZRANDMEMBER];

/// ZRANDMEMBER key [count [WITHSCORES]]
fn zrandmember(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len() == 2 { pick_one(ctx) } else { pick_many(ctx) }
}

const ZRANDMEMBER: Command = Command::new(
    Exec::Keys(zrandmember),
    Row::new("zrandmember", Group::SortedSet, -2, "6.2.0")
        .about("Answers members picked at random.", "O(M*log(N)) in the members answered")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SORTEDSET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(&["nondeterministic_output"])
        .args(&[
            key("key", 0),
            block("options", &[arg("count", ArgKind::Integer), word("withscores", "WITHSCORES").optional()]).optional(),
        ]),
);

fn pick_one(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    if ctx.tx.zset_len(&key)? == 0 {
        ctx.out.null();
        return Ok(());
    }
    let Ctx { tx, out, .. } = ctx;
    tx.zset_pick(&key, Pick::Any(1), &mut |member, _| out.bulk(member))?;
    Ok(())
}

fn pick_many(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (pick, with_scores) = parse(ctx)?;
    let key = ctx.key(1);
    let length = ctx.tx.zset_len(&key)?;
    let form: Form = if with_scores {
        (|out, members| reply_head(out, members, true), |out, drawn| reply_pair(out, drawn.name, drawn.score))
    } else {
        (Reply::array, |out, drawn| out.bulk(drawn.name))
    };
    if draw_in_parts(ctx, &key, Type::Zset, Draw { pick, values: false, form })? {
        return Ok(());
    }
    let members = match pick {
        _ if length == 0 => 0,
        Pick::Any(n) => n,
        Pick::Distinct(n) => n.min(length),
    };
    let Ctx { tx, out, .. } = ctx;
    reply_head(out, members, with_scores);
    let pick = if length == 0 { Pick::Distinct(0) } else { pick };
    for part in parts(pick) {
        if out.is_overflown() {
            break;
        }
        tx.zset_pick(&key, part, &mut |member, score| reply_member(out, member, score, with_scores))?;
    }
    Ok(())
}

/// The count, negative for members that may repeat, and whether scores are wanted.
fn parse(ctx: &Ctx<'_, '_>) -> CmdResult<(Pick, bool)> {
    let count = integer(ctx.args.get(2))?;
    if count == i64::MIN {
        let most = i64::MAX;
        return Err(errors::not_between(-most, most));
    }
    let with_scores = ctx.args.len() > 3;
    if with_scores && (ctx.args.len() > 4 || !ctx.args.is(3, "WITHSCORES")) {
        return Err(CommandError::SYNTAX);
    }
    // Twice the count must fit where scores stand beside the members.
    if with_scores && count.unsigned_abs() > (i64::MAX / 2) as u64 {
        return Err(errors::VALUE_RANGE);
    }
    let many = count.unsigned_abs() as usize;
    Ok((if count < 0 { Pick::Any(many) } else { Pick::Distinct(many) }, with_scores))
}
