//! Members of one set: SADD, SREM, SISMEMBER, SMISMEMBER, SMEMBERS, SCARD. And SMOVE.

use varve_catalog::{Acl, ArgKind, Flags, Group, KeySpec, Row, arg, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows, Ongoing, Progress};
use varve_protocol::Reply;
use varve_store::{CollectionReader, SetView, Tx, Type};

use super::{ADDS, ASKS, MEMBERS, READS, REMOVES, TAKES, UNORDERED, reply_member};
use crate::generic::many_arguments::{self, Done, Each, run_in_parts};

pub(super) const ROWS: FileRows = &[SADD, SREM, SCARD, SISMEMBER, SMISMEMBER, SMEMBERS, SMOVE];

/// SADD key member [member ...]
fn sadd(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len() > many_arguments::FEW && run_in_parts(ctx, 2, &ADD_EACH)? {
        return Ok(());
    }
    let key = ctx.key(1);
    let added = ctx.tx.set_add(&key, ctx.args.skip(2).iter());
    if let Ok(count @ 1..) = added {
        ctx.did(&key, Effect::sent(Class::Set, "sadd", count as u64));
    }
    reply_count(ctx, added.map_err(Into::into))
}

const ADD_EACH: Each = Each {
    class: Class::Set,
    event: "sadd",
    word: b"SADD",
    texts: 1,
    check: None,
    run: |tx, key, part| Ok(Done::counted(tx.set_add(key, part.texts.iter())?)),
    reply: many_arguments::reply_count,
};

const SADD: Command = Command::new(
    Exec::Keys(sadd),
    Row::new("sadd", Group::Set, -3, "1.0.0")
        .element(2)
        .about("Adds members to a set, which is created if absent.", "O(N) in the members given")
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, ADDS)])
        .history(&[("2.4.0", "Several members.")])
        .args(MEMBERS),
);

/// SREM key member [member ...]
fn srem(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    if ctx.args.len() > many_arguments::FEW && run_in_parts(ctx, 2, &REMOVE_EACH)? {
        return Ok(());
    }
    let key = ctx.key(1);
    let removed = ctx.tx.set_remove(&key, ctx.args.skip(2).iter());
    if let Ok(count @ 1..) = removed {
        ctx.did_taken(&key, Effect::sent(Class::Set, "srem", count as u64));
    }
    reply_count(ctx, removed.map_err(Into::into))
}

const REMOVE_EACH: Each = Each {
    event: "srem",
    word: b"SREM",
    run: |tx, key, part| Ok(Done::counted(tx.set_remove(key, part.texts.iter())?)),
    ..ADD_EACH
};

const SREM: Command = Command::new(
    Exec::Keys(srem),
    Row::new("srem", Group::Set, -3, "1.0.0")
        .element(2)
        .about("Removes members of a set, which goes with the last one.", "O(N) in the members given")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, REMOVES)])
        .history(&[("2.4.0", "Several members.")])
        .args(MEMBERS),
);

fn reply_count(ctx: &mut Ctx<'_, '_>, outcome: CmdResult<usize>) -> CmdResult {
    outcome.map(|count| ctx.out.integer(count as i64))
}

/// SCARD key
fn scard(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let len = ctx.tx.set_view(&key).map(|set| set.map_or(0, |set| set.len()));
    reply_count(ctx, len.map_err(Into::into))
}

const SCARD: Command = Command::new(
    Exec::Keys(scard),
    Row::new("scard", Group::Set, 2, "1.0.0")
        .about("Counts the members.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, ASKS)])
        .args(&[key("key", 0)]),
);

/// SISMEMBER key member
fn sismember(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, member) = (ctx.key(1), ctx.args.get(2));
    let there = ctx.tx.set_view(&key).map(|set| usize::from(has(set, member)));
    reply_count(ctx, there.map_err(Into::into))
}

const SISMEMBER: Command = Command::new(
    Exec::Keys(sismember),
    Row::new("sismember", Group::Set, 3, "1.0.0")
        .element(2)
        .about("Answers whether a set has a member.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, ASKS)])
        .args(&[key("key", 0), arg("member", ArgKind::String)]),
);

#[inline]
fn has(set: Option<SetView<'_>>, member: &[u8]) -> bool {
    set.is_some_and(|set| set.contains(member))
}

/// SMISMEMBER key member [member ...]
fn smismember(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (key, members) = (ctx.key(1), ctx.args.skip(2));
    let set = ctx.tx.set_view(&key)?;
    ctx.out.array(members.len());
    members.iter().for_each(|member| ctx.out.integer(i64::from(has(set, member))));
    Ok(())
}

const SMISMEMBER: Command = Command::new(
    Exec::Keys(smismember),
    Row::new("smismember", Group::Set, -3, "6.2.0")
        .element(2)
        .about("Answers of each given member whether a set has it.", "O(N) in the members given")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, READS)])
        .args(MEMBERS),
);

/// SMEMBERS key
fn smembers(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let Some(set) = ctx.tx.set_view(&key)? else {
        ctx.out.set(0);
        return Ok(());
    };
    ctx.out.set(set.len());
    if !set.is_big() || !ctx.session.takes_parts() {
        set.for_each(|member| reply_member(ctx.out, member));
        return Ok(());
    }
    if let Some(reader) = ctx.tx.begin_reading(&key, Type::Set)? {
        ctx.go_on(Box::new(RestOfMembers(reader)));
    } else if let Some(set) = ctx.tx.set_peek(&key)? {
        set.for_each(|member| reply_member(ctx.out, member));
    }
    Ok(())
}

/// The members of a long set that are still to be replied.
pub(super) struct RestOfMembers(pub(super) CollectionReader);

impl Ongoing for RestOfMembers {
    fn go_on(&mut self, tx: &mut Tx<'_>, out: &mut Reply) -> Progress {
        tx.read_elements_on(&mut self.0, |member, _, _| reply_member(out, member)).into()
    }

    /// Members that SPOP has taken are out of their set.
    fn writes(&self) -> bool {
        false
    }

    fn kept_bytes(&self) -> usize {
        self.0.kept_bytes()
    }
}

const SMEMBERS: Command = Command::new(
    Exec::Keys(smembers),
    Row::new("smembers", Group::Set, 2, "1.0.0")
        .about("Answers all members.", "O(N) in the members")
        .flags(&[Flags::READONLY])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, READS)])
        .tips(UNORDERED)
        .args(&[key("key", 0)]),
);

/// SMOVE source destination member
fn smove(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let (from, to) = (ctx.key(1), ctx.key(2));
    let member = ctx.args.get(3);
    let moves = ctx.tx.set_take_to_move(&from, &to, member)?;
    if moves && from.bytes != to.bytes {
        ctx.did_taken(&from, Effect::sent(Class::Set, "srem", 1));
        // A destination that had the member is not touched.
        if ctx.tx.set_add(&to, [member])? > 0 {
            ctx.did(&to, Effect::sent(Class::Set, "sadd", 1));
        }
    }
    reply_count(ctx, Ok(usize::from(moves)))
}

const SMOVE: Command = Command::new(
    Exec::Keys(smove),
    Row::new("smove", Group::Set, 4, "1.0.0")
        .about("Moves a member from one set to another.", "O(1)")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::SET])
        .keys(&[KeySpec::one(1, TAKES), KeySpec::one(2, ADDS)])
        .args(&[key("source", 0), key("destination", 1), arg("member", ArgKind::String)]),
);
