//! DEL, UNLINK, EXISTS, TOUCH, TYPE, RANDOMKEY.

use varve_catalog::{Acl, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, key};
use varve_exec::notify::{Class, Effect};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows};
use varve_store::{Drawn, Key, Tx};

pub(super) const ROWS: FileRows = &[DEL, UNLINK, EXISTS, TOUCH, TYPE, RANDOMKEY];

/// DEL key [key ...]
fn del(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, remove);
    Ok(())
}

const DEL: Command = Command::new(
    Exec::Keys(del),
    Row::new("del", Group::Generic, -2, "1.0.0")
        .about("Removes keys.", "O(N) in the keys")
        .flags(&[Flags::WRITE])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RM.and(KeyFlags::DELETE))])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .args(&[key("key", 0).multiple()]),
);

/// UNLINK key [key ...]: the same as DEL, which never frees more than a step while it is waited for.
fn unlink(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, remove);
    Ok(())
}

const UNLINK: Command = Command::new(
    Exec::Keys(unlink),
    Row::new("unlink", Group::Generic, -2, "4.0.0")
        .about("Removes keys and frees their memory later.", "O(1) a key")
        .flags(&[Flags::WRITE, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RM.and(KeyFlags::DELETE))])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .args(&[key("key", 0).multiple()]),
);

fn remove(tx: &mut Tx<'_>, key: &Key<'_>) -> bool {
    let there = tx.remove(key);
    if there {
        tx.did(key, Effect::sent(Class::Generic, "del", 1));
    }
    there
}

/// EXISTS key [key ...]
fn exists(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, |tx, key| {
        let found = tx.exists(key);
        tx.note_read(key, found);
        found
    });
    Ok(())
}

const EXISTS: Command = Command::new(
    Exec::Keys(exists),
    Row::new("exists", Group::Generic, -2, "1.0.0")
        .about("Counts which of the keys exist, a key named twice counting twice.", "O(N) in the keys")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .history(&[("3.0.3", "Several keys.")])
        .args(&[key("key", 0).multiple()]),
);

/// TOUCH key [key ...]
fn touch(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    count(ctx, |tx, key| tx.touch(key));
    Ok(())
}

const TOUCH: Command = Command::new(
    Exec::Keys(touch),
    Row::new("touch", Group::Generic, -2, "3.2.1")
        .about("Moves the access times of keys and counts those that exist.", "O(N) in the keys")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .args(&[key("key", 0).multiple()]),
);

/// Replies with the number of arguments for which `act` is true, one named twice twice.
fn count(ctx: &mut Ctx<'_, '_>, act: impl Fn(&mut Tx<'_>, &Key<'_>) -> bool) {
    let mut sum = 0;
    for at in 1..ctx.args.len() {
        let key = ctx.key(at);
        sum += i64::from(act(&mut ctx.tx, &key));
    }
    ctx.out.integer(sum);
}

/// TYPE key
fn type_name(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let key = ctx.key(1);
    let ty = ctx.tx.type_of(&key);
    ctx.tx.note_read(&key, ty.is_some());
    let name = ty.map_or("none", |ty| ty.name());
    ctx.out.simple(name);
    Ok(())
}

const TYPE: Command = Command::new(
    Exec::Keys(type_name),
    Row::new("type", Group::Generic, 2, "1.0.0")
        .about("Answers the type of a key's value.", "O(1)")
        .flags(&[Flags::READONLY, Flags::FAST])
        .acl(&[Acl::KEYSPACE])
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .args(&[key("key", 0)]),
);

/// RANDOMKEY
fn randomkey(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    match ctx.tx.random_key() {
        Drawn::Key(key) => ctx.out.bulk(&key),
        Drawn::Nothing => ctx.out.null(),
        Drawn::Busy => return ctx.put_back(),
    }
    Ok(())
}

const RANDOMKEY: Command = Command::new(
    Exec::Keyspace(randomkey),
    Row::new("randomkey", Group::Generic, 1, "1.0.0")
        .about("Answers a key chosen at random.", "O(1)")
        .flags(&[Flags::READONLY, Flags::TOUCHES_ARBITRARY_KEYS])
        .acl(&[Acl::KEYSPACE])
        .tips(&["request_policy:all_shards", "nondeterministic_output"])
        .behaviour(Behaviour::CONSTANT_TIME),
);
