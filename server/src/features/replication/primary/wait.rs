//! WAIT and WAITAOF: clients wait until others have what was written.
//!
//! ```text
//!   WAIT n     the journal's end --> REPLCONF GETACK to all --> acknowledged by n replicas, or the time is up
//!   WAITAOF    the same of files: of this server's once it is synced, of replicas' once they say so (ACK .. FACK ..)
//! ```
//! A client waits for all that was written when it asks, not for its own writes alone, of which nobody keeps count: what
//! others write behind does not matter. Not here: connections that stand still (`clients/blocked.rs`),
//! and whether there are as many copies (`state/awaited.rs`).

use varve_base::number::parse_i64;
use varve_catalog::{Acl, ArgKind, Flags, Group, Row, arg};
use varve_commands::grammar::integer;
use varve_exec::{Awaited, Blocked, CmdResult, CommandError};
use varve_protocol::Reply;
use varve_store::EffectSink;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::state::{ServerState, awaited};

/// The commands of this part.
pub(in super::super) const ROWS: ServerRows = &[WAIT, WAITAOF];

/// `WAIT numreplicas timeout`
fn wait(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.state.replication().replica().primary().is_some() {
        return Err(errors::WAIT_ON_REPLICA);
    }
    let replicas = integer(ctx.args.get(1))?.max(0) as u64;
    await_copies(ctx, replicas, None, 2)
}

const WAIT: ServerCommand = ServerCommand::new(
    wait,
    Row::new("wait", Group::Generic, 3, "3.0.0")
        .about("Waits until this number of replicas has what the connection wrote.", "O(1)")
        .flags(&[Flags::NOSCRIPT])
        .acl(&[Acl::CONNECTION])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .args(&[arg("numreplicas", ArgKind::Integer), arg("timeout", ArgKind::Integer)]),
);

/// `WAITAOF numlocal numreplicas timeout`
fn waitaof(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.state.replication().replica().primary().is_some() {
        return Err(errors::WAITAOF_ON_REPLICA);
    }
    let local = integer(ctx.args.get(1))?;
    if !(0..=1).contains(&local) {
        return Err(errors::WAITAOF_LOCAL);
    }
    let replicas = u64::try_from(integer(ctx.args.get(2))?).map_err(|_| errors::NOT_POSITIVE)?;
    if local > 0 && !ctx.config.append.on {
        return Err(errors::WAITAOF_WITHOUT_FILE);
    }
    await_copies(ctx, replicas, Some(local > 0), 3)
}

const WAITAOF: ServerCommand = ServerCommand::new(
    waitaof,
    Row::new("waitaof", Group::Generic, 4, "7.2.0")
        .about("Waits until append-only files have what the connection wrote: this server's, and of replicas.", "O(1)")
        .flags(&[Flags::NOSCRIPT, Flags::BLOCKING])
        .acl(&[Acl::CONNECTION])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .args(&[
            arg("numlocal", ArgKind::Integer),
            arg("numreplicas", ArgKind::Integer),
            arg("timeout", ArgKind::Integer),
        ]),
);

/// Replies if there are enough copies, else waits for them until the time is up that stands in the argument at this place.
fn await_copies(ctx: &mut ServerCtx<'_>, replicas: u64, files: Option<bool>, timeout_at: usize) -> CmdResult<After> {
    let timeout_ms = parse_i64(ctx.args.get(timeout_at)).ok_or(CommandError::TIMEOUT_NOT_INTEGER)?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| CommandError::TIMEOUT_NEGATIVE)?;
    let journal = ctx.state.persist().aof.journal();
    let awaited = Awaited { replicas, files, position: journal.end() };
    if ctx.conn.session().is_in_exec() || awaited::is_reached(ctx.state, awaited) {
        reply(ctx.state, awaited, ctx.out);
        return Ok(After::Done);
    }
    if !ctx.state.pauses().is_held() && ctx.state.replication().is_to_ask(awaited.position) {
        journal.talk(&[b"REPLCONF", b"GETACK", b"*"]);
    }
    let row = ctx.conn.session().last_command().expect("it runs");
    Ok(After::Block(Blocked::for_copies(row, timeout_ms, awaited)))
}

/// Replies how many copies there are.
pub(crate) fn reply(state: &ServerState, awaited: Awaited, out: &mut Reply) {
    let replicas = awaited::replicas(state, awaited) as i64;
    if awaited.files.is_some() {
        out.array(2);
        out.integer(i64::from(awaited::is_filed(state, awaited)));
    }
    out.integer(replicas);
}
