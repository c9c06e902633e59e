//! ROLE: which end of replication this server is, how far its stream is, and who follows it.

use varve_catalog::{Acl, Flags, Group, Row};
use varve_exec::CmdResult;

use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The command of this part.
pub(super) const ROWS: ServerRows = &[ROLE];

/// `ROLE`: a master, the offset of its stream, and its replicas, of whom there are none.
fn role(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    ctx.out.array(3);
    ctx.out.bulk(b"master");
    ctx.out.integer(ctx.state.replication().ids().offset() as i64);
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
