//! Taking from a key that has something: the part of a blocking command that runs on the client's behalf, too.

use varve_exec::blocking::Resume;
use varve_exec::notify::{Class, Effect, Words};
use varve_exec::{CmdResult, Ctx};
use varve_protocol::{Args, Reply};
use varve_store::{Key, ListEnd, ListPart, Tx, Type};

use super::call::{Call, Side, What};
use crate::{list, zset};

impl Resume for Call {
    fn resume(&self, tx: &mut Tx<'_>, args: Args<'_>, key: &Key<'_>, out: &mut Reply) -> CmdResult {
        self.take(tx, args, key, out, true)
    }
}

impl Call {
    /// Takes and replies, for a client that finds something at once: over several turns where it takes many.
    pub(super) fn take_at_once(&self, ctx: &mut Ctx<'_, '_>, key: &Key<'_>) -> CmdResult {
        match (self.ty, self.what) {
            (Type::List, What::Many(side, count)) => {
                let there = list::ends::pop_named(ctx, key, (end(side), count))?;
                debug_assert!(there, "the caller has seen the list");
                Ok(())
            }
            (Type::Zset, What::Many(side, count)) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                zset::pop::pop_named(ctx, key, (side == Side::Last, count))
            }
            _ => self.take(&mut ctx.tx, ctx.args, key, ctx.out, false),
        }
    }

    /// Takes and replies, for a client that has `waited` or that finds something at once.
    pub(super) fn take(
        &self,
        tx: &mut Tx<'_>,
        args: Args<'_>,
        key: &Key<'_>,
        out: &mut Reply,
        waited: bool,
    ) -> CmdResult {
        match (self.ty, self.what) {
            (Type::List, What::One(side)) => list_one(tx, key, side, out)?,
            (Type::List, What::Many(side, count)) => list_many(tx, key, side, count, out)?,
            (Type::List, What::Move(from, to)) => {
                let target = tx.key(args.get(self.wish.target.expect("a move has a destination")));
                tx.list_move(key, &target, end(from), end(to), |element| out.bulk(element))?;
                let words = |words: &mut Words<'_>| move_again(args, waited, words);
                tx.did(&target, Effect::covered(Class::List, name(to, "lpush", "rpush"), 0));
                tx.did(key, Effect::words(Class::List, name(from, "lpop", "rpop"), 1, &words));
            }
            (Type::Zset, What::One(side)) => zset_one(tx, key, side, out)?,
            (Type::Zset, What::Many(side, count)) => zset_many(tx, key, side, count, out)?,
            (ty, what) => unreachable!("no command takes {what:?} from a {}", ty.name()),
        }
        if !tx.exists(key) {
            tx.did(key, Effect::event(Class::Generic, "del"));
        }
        Ok(())
    }
}

/// Writes the move that does not wait: LMOVE for BLMOVE, RPOPLPUSH for BRPOPLPUSH. The sides are written as they were
/// sent, but in small letters for a client that has waited, as redis-server writes them.
fn move_again(args: Args<'_>, waited: bool, words: &mut Words<'_>) {
    if args.len() == 4 {
        words.add(b"RPOPLPUSH").add(args.get(1)).add(args.get(2));
        return;
    }
    words.add(b"LMOVE").add(args.get(1)).add(args.get(2));
    for side in [args.get(3), args.get(4)] {
        if waited {
            words.add(&side.to_ascii_lowercase());
        } else {
            words.add(side);
        }
    }
}

fn list_one(tx: &mut Tx<'_>, key: &Key<'_>, side: Side, out: &mut Reply) -> CmdResult {
    out.array(2);
    out.bulk(key.bytes);
    tx.list_pop(key, end(side), |element| out.bulk(element))?;
    let words = |words: &mut Words<'_>| _ = words.add(again(side, b"LPOP", b"RPOP")).add(key.bytes);
    tx.did(key, Effect::words(Class::List, name(side, "lpop", "rpop"), 1, &words));
    Ok(())
}

fn list_many(tx: &mut Tx<'_>, key: &Key<'_>, side: Side, count: u64, out: &mut Reply) -> CmdResult {
    out.array(2);
    out.bulk(key.bytes);
    let mut taken = 0;
    tx.list_pop_many(key, end(side), count, |part| match part {
        ListPart::Len(len) => {
            taken = len;
            out.array(len as usize);
        }
        ListPart::Element(element) => out.bulk(element),
    })?;
    let name_again = again(side, b"LPOP", b"RPOP");
    let words = |words: &mut Words<'_>| _ = words.add(name_again).add(key.bytes).number(taken as i64);
    tx.did(key, Effect::words(Class::List, name(side, "lpop", "rpop"), taken, &words));
    Ok(())
}

fn zset_one(tx: &mut Tx<'_>, key: &Key<'_>, side: Side, out: &mut Reply) -> CmdResult {
    out.array(3);
    out.bulk(key.bytes);
    tx.zset_pop(key, side == Side::Last, 1, &mut |member, score| {
        out.bulk(member);
        out.double(score);
    })?;
    let words = |words: &mut Words<'_>| _ = words.add(again(side, b"ZPOPMIN", b"ZPOPMAX")).add(key.bytes);
    tx.did(key, Effect::words(Class::Zset, name(side, "zpopmin", "zpopmax"), 1, &words));
    Ok(())
}

fn zset_many(tx: &mut Tx<'_>, key: &Key<'_>, side: Side, count: u64, out: &mut Reply) -> CmdResult {
    out.array(2);
    out.bulk(key.bytes);
    let head = out.defer();
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let popped = tx.zset_pop(key, side == Side::Last, count, &mut |member, score| {
        out.array(2);
        out.bulk(member);
        out.double(score);
    })?;
    out.end_array(head, popped);
    let name_again = again(side, b"ZPOPMIN", b"ZPOPMAX");
    let words = |words: &mut Words<'_>| _ = words.add(name_again).add(key.bytes).number(popped as i64);
    tx.did(key, Effect::words(Class::Zset, name(side, "zpopmin", "zpopmax"), popped as u64, &words));
    Ok(())
}

fn end(side: Side) -> ListEnd {
    if side == Side::First { ListEnd::Front } else { ListEnd::Back }
}

fn name(side: Side, first: &'static str, last: &'static str) -> &'static str {
    if side == Side::First { first } else { last }
}

/// The name of the command that takes from an end without waiting.
fn again(side: Side, first: &'static [u8], last: &'static [u8]) -> &'static [u8] {
    if side == Side::First { first } else { last }
}
