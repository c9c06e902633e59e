//! Taking the shards of a command before it runs, or putting it back.
//!
//! ```text
//!   shards of its keys --busy--> put back             nothing of it was done: its connection is tried again
//!         | taken
//!   a key occupied ------------> put back             another command works on it over several holds
//!   a hash, many fields due ---> put back             some of them were removed
//!   it writes, and somebody waits for a key: the shards that serving may need as well; a key frozen --> put back
//! ```
//! Not here: the gate (`alone.rs`), EXEC (`transaction.rs`), scripts (`script.rs`).

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use varve_catalog::{Flags, Group};
use varve_protocol::Args;
use varve_store::{Key, Overdue, ShardSet, Store, StoreWorker, Tx};

use crate::blocking;
use crate::command::Command;
use crate::ctx::{Ctx, KeyArg};

/// Tries that found a shard busy before a request with several insists: of many shards, one is always busy.
pub(super) const TRIES_MAX: u32 = 3;
/// How long such a request keeps the shards that it has got while it waits for the others. The worker stands still
/// meanwhile, and so does a command that wants one of these shards: it is short.
const INSIST: Duration = Duration::from_micros(100);

/// Takes the shards of a request's keys; false if one is busy. A request that `insists` looks for a little longer.
#[inline]
pub(super) fn hold(ctx: &mut Ctx<'_, '_>, d: &Command, shards: &mut ShardSet, insists: bool) -> bool {
    let taken = if let [only] = ctx.keys {
        let shard = ctx.tx.shard_of(only.hash);
        ctx.tx.try_hold_one(shard)
    } else {
        list_shards(ctx, shards);
        take(&mut ctx.tx, shards, insists)
    };
    taken
        && !(ctx.tx.store().has_occupied() && is_occupied(ctx))
        && !(ctx.tx.store().has_dated_hashes() && meets_due_fields(ctx, d))
        && (!d.flags.has(Flags::WRITE) || !ctx.tx.any_waiters() || hold_for_waiters(ctx, shards, insists))
}

/// Whether another command works on one of the keys, whose shards are held.
#[cold]
fn is_occupied(ctx: &Ctx<'_, '_>) -> bool {
    ctx.tx.any_occupied(ctx.names())
}

/// Removes fields of hashes among the keys whose time has come, no more than one hold removes; true if more are due. Commands on
/// hashes see to it by themselves, and to those on strings a hash is a key of another type; the few of these that ask whether a key is
/// there, or remove it, look by themselves ([`Ctx::meets_due_fields`]). DEL, EXISTS, RENAME and their kin would remove all of a
/// million fields in one hold.
#[cold]
fn meets_due_fields(ctx: &mut Ctx<'_, '_>, d: &Command) -> bool {
    if matches!(d.group, Group::Hash | Group::String) {
        return false;
    }
    let key = |key: &KeyArg| ctx.tx.key_hashed(ctx.args.get(key.arg as usize), key.hash);
    let keys: SmallVec<[Key<'_>; 8]> = ctx.keys.iter().map(key).collect();
    sheds_due_fields(&mut ctx.tx, keys.into_iter())
}

/// Removes fields of hashes at keys, whose shards are held, where their time has come, no more than one hold removes, and hands that
/// on; true if more are due.
fn sheds_due_fields<'k>(tx: &mut Tx<'_>, keys: impl Iterator<Item = Key<'k>>) -> bool {
    let more = tx.sheds_due_fields_of(keys);
    if tx.has_effects() {
        tx.hand_on();
    }
    more
}

/// [`sheds_due_fields`] of keys with their logical databases.
#[cold]
pub(super) fn sheds_due_fields_in(tx: &mut Tx<'_>, named: &[(u32, &[u8])]) -> bool {
    let keys: SmallVec<[Key<'_>; 8]> = named.iter().map(|(db, bytes)| tx.key_in(*db, bytes)).collect();
    sheds_due_fields(tx, keys.into_iter())
}

/// [`sheds_due_fields_in`] beside others, in front of a transaction or a script that cannot be put back in its midst: it would remove
/// all of a million fields, some of them with the gate held alone. True if more are due, or shards are busy. The worker holds
/// nothing and is outside the gate.
#[cold]
pub(super) fn sheds_due_fields_beside(
    worker: &mut StoreWorker,
    named: &[(u32, &[u8])],
    overdue: Overdue,
    insists: bool,
) -> bool {
    /// Keys whose shards are held at a time.
    const AT_ONCE: usize = 1024;
    let store = Arc::clone(worker.store());
    let Some(_inside) = store.gate().try_enter(worker.id()) else { return true };
    let mut tx = Tx::new(&store, worker.parts().1, 0);
    tx.set_overdue(overdue);
    // Shards in which nothing is due are not asked for: others may hold them for long.
    let may_be_due = |(db, bytes): &&(u32, &[u8])| tx.may_have_due_fields(&tx.key_in(*db, bytes));
    let named: Vec<(u32, &[u8])> = named.iter().filter(may_be_due).copied().collect();
    let mut shards = ShardSet::default();
    let more = named.chunks(AT_ONCE).any(|some| {
        shards.fill(some.iter().map(|(db, bytes)| tx.shard_of(tx.key_in(*db, bytes).hash)));
        let more = !take(&mut tx, &shards, insists) || sheds_due_fields_in(&mut tx, some);
        tx.release();
        more
    });
    tx.finish();
    more
}

/// Whether another command works on a key that a command names whose shards are not held, or keeps writers from it and this one
/// `writes`.
#[cold]
pub(super) fn names_frozen(d: &Command, args: Args<'_>, store: &Store, writes: bool) -> bool {
    let mut keys = Vec::new();
    let named = d.for_each_key(args, |at| keys.push(args.get(at)));
    let keys = keys.into_iter();
    named.is_ok() && if writes { store.any_frozen(keys) } else { store.any_occupied(keys) }
}

pub(super) fn list_shards(ctx: &Ctx<'_, '_>, shards: &mut ShardSet) {
    shards.fill(ctx.keys.iter().map(|k| ctx.tx.shard_of(k.hash)));
}

#[inline]
pub(super) fn take(tx: &mut Tx<'_>, shards: &[u16], insists: bool) -> bool {
    if insists { tx.hold_within(shards, INSIST) } else { tx.try_hold(shards) }
}

/// Takes also what serving those may need who wait for the keys of a command that is about to write.
#[cold]
fn hold_for_waiters(ctx: &mut Ctx<'_, '_>, shards: &mut ShardSet, insists: bool) -> bool {
    list_shards(ctx, shards);
    let names = ctx.names();
    blocking::widen(&mut ctx.tx, shards, || names.clone(), |tx, shards| take(tx, shards, insists))
}
