//! ROLE and REPLICAOF of a server that is nobody's replica and has none.
//!
//! `REPLICAOF NO ONE` changes nothing then, here and in redis-server. Naming a master is refused: replication is not
//! there yet, and a client that got OK would count on a copy.

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Argument, Flags, Group, Row, arg, block, one_of, word};
use varve_exec::CmdResult;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[REPLICAOF, ROLE, SLAVEOF];

/// `ROLE`: a master, at offset 0 of its stream, without replicas.
fn role(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.array(3);
    ctx.out.bulk(b"master");
    ctx.out.integer(0);
    ctx.out.array(0);
    Ok(After::Done)
}

const ROLE: ServerCommand = ServerCommand::new(
    role,
    Row::new("role", Group::Server, 1, "2.8.12")
        .about("Answers whether this is a master or a replica, and of whom.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::ADMIN, Acl::DANGEROUS]),
);

/// `REPLICAOF NO ONE`, `REPLICAOF host port`
fn replicaof(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if !(ctx.args.is(1, "NO") && ctx.args.is(2, "ONE")) {
        let port = parse_i64(ctx.args.get(2)).filter(|port| (0..=65535).contains(port));
        return Err(if port.is_some() { errors::NO_REPLICATION } else { errors::MASTER_PORT });
    }
    ctx.out.ok();
    Ok(After::Done)
}

/// The master, or none.
const MASTER: &[Argument] = &[one_of(
    "args",
    &[
        block("host-port", &[arg("host", ArgKind::String), arg("port", ArgKind::Integer)]),
        block("no-one", &[word("no", "NO"), word("one", "ONE")]),
    ],
)];
/// The flags of both names.
const FLAGS: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::STALE, Flags::NO_ASYNC_LOADING];

const REPLICAOF: ServerCommand = ServerCommand::new(
    replicaof,
    Row::new("replicaof", Group::Server, 3, "5.0.0")
        .about("Makes the server a replica of another one, or a master.", "O(1)")
        .flags(FLAGS)
        .args(MASTER),
);

const SLAVEOF: ServerCommand = ServerCommand::new(
    replicaof,
    Row::new("slaveof", Group::Server, 3, "1.0.0")
        .about("Makes the server a replica of another one, or a master.", "O(1)")
        .flags(FLAGS)
        .deprecated("5.0.0", "`REPLICAOF`")
        .args(MASTER),
);
