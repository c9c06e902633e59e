//! WATCH, and the rows of MULTI, EXEC, DISCARD and UNWATCH, which the executor runs itself.

use varve_catalog::{Acl, Behaviour, Flags, Group, KeyFlags, KeySpec, Row, key};
use varve_exec::{CmdResult, Command, Ctx, Exec, FileRows, Step};

pub(crate) const ROWS: FileRows = &[WATCH, DISCARD, EXEC, MULTI, UNWATCH];

/// WATCH key [key ...]
fn watch(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    ctx.session.watch(&mut ctx.tx, ctx.args.skip(1).iter());
    ctx.out.ok();
    Ok(())
}

const WATCH: Command = Command::new(
    Exec::Keys(watch),
    Row::new("watch", Group::Transactions, -2, "2.2.0")
        .about("Has EXEC do nothing if one of these keys changes before.", "O(1) for each key")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY])
        .acl(&[Acl::TRANSACTION])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .args(&[key("key", 0).multiple()])
        .behaviour(Behaviour::NEVER_QUEUED.and(Behaviour::TAKES_MEMORY)),
);

const DISCARD: Command = Command::new(
    Exec::Transaction(Step::Discard),
    Row::new("discard", Group::Transactions, 1, "2.0.0")
        .about("Drops the queued commands and forgets the watched keys.", "O(N) in the queued commands")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY])
        .acl(&[Acl::TRANSACTION])
        .behaviour(Behaviour::NEVER_QUEUED),
);

const EXEC: Command = Command::new(
    Exec::Transaction(Step::Exec),
    Row::new("exec", Group::Transactions, 1, "1.2.0")
        .about("Runs the queued commands in one instant.", "Depends on the commands")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::SKIP_SLOWLOG])
        .acl(&[Acl::TRANSACTION])
        .behaviour(Behaviour::NEVER_QUEUED),
);

const MULTI: Command = Command::new(
    Exec::Transaction(Step::Multi),
    Row::new("multi", Group::Transactions, 1, "1.2.0")
        .about("Queues the commands that follow, up to EXEC.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY])
        .acl(&[Acl::TRANSACTION])
        .behaviour(Behaviour::NEVER_QUEUED),
);

const UNWATCH: Command = Command::new(
    Exec::Transaction(Step::Unwatch),
    Row::new("unwatch", Group::Transactions, 1, "2.2.0")
        .about("Forgets the watched keys.", "O(N) in the watched keys")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY])
        .acl(&[Acl::TRANSACTION]),
);
