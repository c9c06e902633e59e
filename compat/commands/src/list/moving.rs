//! LMOVE and its old name for one of its cases, RPOPLPUSH.

use varve_catalog::{Acl, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, key, one_of};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};
use varve_store::ListEnd;

use super::{SIDES, end_of, popped, pushed};

pub(super) const ROWS: FileRows = &[LMOVE, RPOPLPUSH];

/// LMOVE source destination LEFT|RIGHT LEFT|RIGHT
fn lmove(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let ends = end_of(ctx.args.get(3)).and_then(|from| Ok((from, end_of(ctx.args.get(4))?)));
    ends.and_then(|(from, to)| move_one(ctx, from, to))
}

const LMOVE: Command = Command::new(
    Exec::Keys(lmove),
    Row::new("lmove", Group::List, 5, "6.2.0")
        .about("Takes an element off one list and adds it to another.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::LIST])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.and(KeyFlags::INSERT)),
        ])
        .args(&[key("source", 0), key("destination", 1), one_of("wherefrom", SIDES), one_of("whereto", SIDES)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// RPOPLPUSH source destination
fn rpoplpush(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    move_one(ctx, ListEnd::Back, ListEnd::Front)
}

const RPOPLPUSH: Command = Command::new(
    Exec::Keys(rpoplpush),
    Row::new("rpoplpush", Group::List, 3, "1.2.0")
        .about("Takes the last element off one list and adds it to the front of another.", "O(1)")
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .acl(&[Acl::LIST])
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::RW.and(KeyFlags::INSERT)),
        ])
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments")
        .args(&[key("source", 0), key("destination", 1)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// Moves one element and replies with it, or with null without the source.
fn move_one(ctx: &mut Ctx<'_, '_>, from_end: ListEnd, to_end: ListEnd) -> CmdResult {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    let out = &mut *ctx.out;
    if ctx.tx.list_move(&source, &destination, from_end, to_end, |text| out.bulk(text))? {
        // The move counts as one change.
        ctx.did(&destination, Effect::sent(Class::List, pushed(to_end), 0));
        ctx.did_taken(&source, Effect::sent(Class::List, popped(from_end), 1));
    } else {
        ctx.out.null();
    }
    Ok(())
}
