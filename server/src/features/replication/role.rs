//! ROLE: which end of replication this server is, how far its stream is, and who follows it.

use varve_catalog::{Acl, Flags, Group, Row};
use varve_exec::CmdResult;
use varve_store::EffectSink;

use super::state::replica::{Address, LinkStage};
use super::state::replicas::Stage;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};

/// The command of this part.
pub(super) const ROWS: ServerRows = &[ROLE];

/// `ROLE`: a master, the offset of its stream, and the replicas that get it: where they are reached, and how far they are.
/// A replica: its primary's address, how the link stands, and the offset up to which it has the stream; -1 while it is down.
fn role(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let facts = ctx.state.replication().facts(ctx.state.persist().aof.journal().end(), ctx.now.steady_ms);
    if let Some((Address { host, port }, link)) = &facts.primary {
        ctx.out.array(5);
        ctx.out.bulk(b"slave");
        ctx.out.bulk(host.as_bytes());
        ctx.out.integer((*port).into());
        ctx.out.bulk(link.stage.name().as_bytes());
        ctx.out.integer(if link.stage == LinkStage::Up { facts.offset as i64 } else { -1 });
        return Ok(After::Done);
    }
    ctx.out.array(3);
    ctx.out.bulk(b"master");
    ctx.out.integer(facts.offset as i64);
    let online: Vec<_> = facts.replicas.iter().filter(|replica| matches!(replica.stage, Stage::Online)).collect();
    ctx.out.array(online.len());
    for replica in online {
        ctx.out.array(3);
        ctx.out.bulk(replica.address.as_bytes());
        ctx.out.bulk_i64(i64::from(replica.port));
        ctx.out.bulk_i64(replica.acked as i64);
    }
    Ok(After::Done)
}

const ROLE: ServerCommand = ServerCommand::new(
    role,
    Row::new("role", Group::Server, 1, "2.8.12")
        .about("Answers whether this is a master or a replica, and of whom.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&[Acl::ADMIN, Acl::DANGEROUS]),
);
