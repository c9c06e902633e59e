//! The replica's end: REPLICAOF of a server that is nobody's replica.
//!
//! `REPLICAOF NO ONE` changes nothing then, here and in redis-server. Naming a master is refused: a replica's end is not
//! there yet, and a client that got OK would count on a copy.

use varve_base::number::parse_i64;
use varve_catalog::{ArgKind, Argument, Flags, Group, Row, arg, block, one_of, word};
use varve_exec::CmdResult;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The commands of this part.
pub(super) const ROWS: ServerRows = &[REPLICAOF, SLAVEOF];

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
