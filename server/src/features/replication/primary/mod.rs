//! The primary's end: servers that follow this one.
//!
//! ```text
//!   REPLCONF .., PSYNC ? -1        +FULLRESYNC id offset, the data set of that instant, the stream from there on
//!   REPLCONF .., PSYNC id offset   +CONTINUE id, the stream from there on, if the backlog or the append-only file still has it
//!   SYNC                           like the first, without the line
//! ```
//! A replica is a connection of a worker, which sends it what its stage says (`worker/replicas.rs`). The data set is that of a
//! save, whose instant and walk replicas that wait share (`features/persist/save.rs`): its file, or with `repl-diskless-sync` a
//! file without a name, which is sent while it is written. Not here: the bytes of the stream (the
//! journal), where each replica is (`state/replicas.rs`).

mod clock;
mod courier;
pub(crate) mod failover;
mod reader;
pub(crate) mod send;
pub(crate) mod wait;

pub(crate) use clock::tick;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_base::number::parse_i64;
use varve_catalog::{ArgKind, Behaviour, Flags, Group, Row, arg};
use varve_commands::grammar::integer;
use varve_exec::{CmdResult, CommandError};
use varve_store::EffectSink;

use super::handing::lead_noted;
use super::replica;
use super::state::failover::Handing;
use super::state::peer::{DataFilter, Following};
use super::state::replica::LinkStage;
use super::state::replicas::{Replica, ReplicaNow, Stage};
use crate::errors;
use crate::features::persist::aof::stream::{self, NoStream};
use crate::features::persist::filtered;
use crate::net::stream::Ends;
use crate::state::awaited;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::system::error_text;

/// The commands of this part.
pub(super) const ROWS: ServerRows = &[PSYNC, REPLCONF, SYNC];

/// Bytes of an address that a replica may want to be known by.
const ADDRESS_BYTES_MAX: usize = 255;
/// The flags of PSYNC and SYNC.
const FLAGS: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING, Flags::NO_MULTI];

/// `PSYNC replicationid offset`: the offset is that of the first byte that is wanted, from 1 on; -1 for a data set.
fn psync(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let wanted = integer(ctx.args.get(2)).inspect_err(|_| {
        let peer = ctx.conn.socket().ends().peer();
        tracing::warn!("Replica {peer} asks for synchronization but with a wrong offset");
    })?;
    let id = ctx.args.get(1).to_vec();
    follow(ctx, Some((id, wanted)))
}

const PSYNC: ServerCommand = ServerCommand::new(
    psync,
    Row::new("psync", Group::Server, -3, "2.8.0")
        .about("Makes the connection a replica's that has this history up to this offset.", "")
        .flags(FLAGS)
        .args(&[arg("replicationid", ArgKind::String), arg("offset", ArgKind::Integer)]),
);

/// `SYNC`
fn sync(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    follow(ctx, None)
}

const SYNC: ServerCommand = ServerCommand::new(
    sync,
    Row::new("sync", Group::Server, 1, "1.0.0")
        .about("Makes the connection a replica's, in the way of old versions.", "")
        .flags(FLAGS),
);

/// Makes the connection a replica's. `has` is the history and the first offset that it wants; None: it has sent SYNC.
fn follow(ctx: &mut ServerCtx<'_>, has: Option<(Vec<u8>, i64)>) -> CmdResult<After> {
    if ctx.conn.following().is_some() {
        return Ok(After::Done);
    }
    if !ctx.out.is_empty() {
        return Err(errors::SYNC_BEHIND_REPLIES);
    }
    let replica = ctx.state.replication().replica();
    if ctx.state.replication().failover().stage() != Handing::None {
        return Err(errors::FAILING_OVER);
    }
    if !may_take_over(ctx)? {
        return Ok(After::Busy);
    }
    if replica.primary().is_some() && replica.facts().stage != LinkStage::Up {
        return Err(errors::NO_PRIMARY_LINK);
    }
    match stream::begin(ctx.state, ctx.store, ctx.conn.session().busy_tries()) {
        Ok(()) => {}
        Err(NoStream::Busy) => return Ok(After::Busy),
        // This server leads by now: an error would have the one that asked for it lead as well.
        Err(NoStream::Refused) if ctx.conn.peer_mut().has_promoted => return Ok(After::Close),
        Err(NoStream::Refused) => return Err(errors::NO_STREAM),
    }
    if let Some(filter) = ctx.conn.peer_mut().filter {
        return follow_filtered(ctx, filter, has.is_none());
    }
    // The stream may have ended in between.
    let Some(shared) = register(ctx) else { return Ok(After::Busy) };
    let (replication, end) = (ctx.state.replication(), ctx.state.persist().aof.journal().end());
    let is_old = has.is_none();
    let goes_on =
        has.as_ref().is_some_and(|(id, wanted)| replication.go_on(&shared, (id, wanted.saturating_sub(1)), end));
    if goes_on {
        replication.counts.partial.fetch_add(1, Relaxed);
        match ctx.conn.peer_mut().takes_ids {
            true => ctx.out.simple(&format!("CONTINUE {}", replication.ids().history().id)),
            false => ctx.out.simple("CONTINUE"),
        }
        tracing::info!("Partial resynchronization request from {} accepted.", shown(&shared));
    } else {
        if has.is_some_and(|(id, _)| id != b"?") {
            replication.counts.refused.fetch_add(1, Relaxed);
        }
        replication.counts.full.fetch_add(1, Relaxed);
        shared.await_walk();
        tracing::info!("Full resync requested by replica {}", shown(&shared));
    }
    become_replica(ctx, Following::new(shared, is_old));
    Ok(After::Done)
}

/// Makes the connection a replica's that wants only these things of the data set: they are written at once.
fn follow_filtered(ctx: &mut ServerCtx<'_>, filter: DataFilter, is_old: bool) -> CmdResult<After> {
    let (store, journal) = (Arc::clone(ctx.state.store()), ctx.state.persist().aof.journal());
    let Some(_alone) = store.gate().try_exclusive(ctx.store.id(), ctx.conn.session().busy_tries()) else {
        return Ok(After::Busy);
    };
    if !ctx.state.replication().replica().hold_instant(journal) {
        return Ok(After::Busy);
    }
    let written = filtered::without_keys(ctx.state, filter.functions);
    let (replication, end) = (ctx.state.replication(), journal.end());
    ctx.state.release_instant();
    let file = written.map_err(|error| {
        tracing::warn!("A data set without keys can't be written: {}", error_text(&error));
        errors::NO_STREAM
    })?;
    let Some(shared) = register(ctx) else { return Ok(After::Busy) };
    replication.counts.full.fetch_add(1, Relaxed);
    shared.set_cursor(end);
    {
        let mut now = shared.now();
        (now.stage, now.instant) = (Stage::Gets(Arc::new(file)), replication.ids().offset(end));
    }
    tracing::info!("Full resync requested by replica {}", shown(&shared));
    become_replica(ctx, Following::new(shared, is_old));
    Ok(After::Done)
}

/// `PSYNC id offset FAILOVER`: the primary of this server asks it to take its place, and becomes its replica. False while this
/// server is about to lead: the request is tried again.
///
/// # Errors
/// It is not the primary's stream that this server has.
fn may_take_over(ctx: &mut ServerCtx<'_>) -> CmdResult<bool> {
    let replica = ctx.state.replication().replica();
    let is_asked = ctx.args.len() > 3 && ctx.args.is(0, "PSYNC") && ctx.args.is(3, "FAILOVER");
    if !is_asked {
        return Ok(true);
    }
    if !ctx.conn.peer_mut().has_promoted {
        tracing::warn!("Failover request received for replid {}.", String::from_utf8_lossy(ctx.args.get(1)));
        if replica.primary().is_none() {
            return Err(errors::FAILOVER_TO_MASTER);
        }
        let id = ctx.state.replication().ids().history().id;
        if !id.as_bytes().eq_ignore_ascii_case(ctx.args.get(1)) {
            return Err(errors::FAILOVER_OF_ANOTHER);
        }
        ctx.conn.peer_mut().has_promoted = true;
        lead_noted(ctx.state);
        tracing::info!("MASTER MODE enabled (failover request from '{}')", replica::asker(ctx));
    }
    // All that was received is applied first, and the history goes on under another id.
    Ok(!replica.leaves())
}

/// The connection is a replica's from now on, which asks for nothing that is replied to, and for no keys.
fn become_replica(ctx: &mut ServerCtx<'_>, following: Following) {
    ctx.conn.session_mut().begin_following();
    ctx.conn.peer_mut().replica = Some(following);
}

/// Makes the connection a replica that all threads see. The stream is kept from where it stands from now on; None, and
/// nothing is done, if there is none any more.
fn register(ctx: &mut ServerCtx<'_>) -> Option<Arc<Replica>> {
    let (worker, now_ms) = (ctx.store.id(), ctx.now.steady_ms);
    if ctx.config.replication.gathers_writes {
        ctx.conn.socket().gather_writes();
    }
    let own = match ctx.conn.socket().ends() {
        Ends::Tcp { peer, .. } => peer.ip().to_canonical().to_string(),
        Ends::Unix(path) => path.display().to_string(),
    };
    let peer = ctx.conn.peer_mut();
    let address = if peer.address.is_empty() { own } else { peer.address.clone() };
    let now = ReplicaNow::online(address, peer.port, now_ms);
    let replica = Arc::new(Replica::new(worker, peer, now));
    let replication = ctx.state.replication();
    if replication.replicas().all().is_empty() {
        // The first PING comes a period behind the first replica.
        replication.pinged_ms.store(now_ms, Relaxed);
    }
    replication.add(&replica).then_some(replica)
}

/// A replica as the log names it.
fn shown(replica: &Replica) -> String {
    let now = replica.now();
    format!("{}:{}", now.address, now.port)
}

/// `REPLCONF option value ...`: what a server says of itself before it replicates this one, and how far it is.
fn replconf(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    for at in (1..ctx.args.len()).step_by(2) {
        if ctx.args.is(at, "ACK") {
            acknowledge(ctx, at + 1);
            return Ok(After::Done);
        }
        if ctx.args.is(at, "GETACK") {
            // A replica's link answers it; of a client it asks nothing.
            return Ok(After::Done);
        }
        note(ctx, at)?;
    }
    ctx.out.ok();
    Ok(After::Done)
}

const REPLCONF: ServerCommand = ServerCommand::new(
    replconf,
    Row::new("replconf", Group::Server, -1, "3.0.0")
        .about("What a replica says of itself, and how far it has come.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::ALLOW_BUSY])
        .system()
        .behaviour(Behaviour::ASKS_REPLICAS),
);

/// Notes one option of REPLCONF.
fn note(ctx: &mut ServerCtx<'_>, at: usize) -> CmdResult {
    let value = ctx.args.get(at + 1);
    if ctx.args.is(at, "listening-port") {
        ctx.conn.peer_mut().port = integer(value)? as u16;
    } else if ctx.args.is(at, "ip-address") {
        if value.len() > ADDRESS_BYTES_MAX {
            return Err(errors::long_address(value.len()));
        }
        ctx.conn.peer_mut().address = String::from_utf8_lossy(value).into_owned();
    } else if ctx.args.is(at, "capa") {
        ctx.conn.peer_mut().takes_ids |= value.eq_ignore_ascii_case(b"psync2");
        ctx.conn.peer_mut().takes_mark |= value.eq_ignore_ascii_case(b"eof");
    } else if ctx.args.is(at, "rdb-only") {
        let wanted = integer(value)?;
        ctx.conn.peer_mut().wants_file_only = wanted != 0;
    } else if ctx.args.is(at, "rdb-filter-only") {
        ctx.conn.peer_mut().filter = Some(filter(value)?);
    } else if !ctx.args.is(at, "version") {
        return Err(errors::replconf_option(ctx.args.get(at)));
    }
    Ok(())
}

/// The things that are wanted of a data set, by their names.
fn filter(names: &[u8]) -> CmdResult<DataFilter> {
    let mut filter = DataFilter::default();
    for name in names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty()) {
        if !name.eq_ignore_ascii_case(b"functions") {
            return Err(errors::data_filter(name));
        }
        filter.functions = true;
    }
    Ok(filter)
}

/// A replica has the stream up to an offset, the argument at this place, and its file up to the one behind FACK. It gets no
/// reply.
fn acknowledge(ctx: &mut ServerCtx<'_>, at: usize) {
    let offset_at = |at| (at < ctx.args.len()).then(|| parse_i64(ctx.args.get(at)))?.map(|offset| offset.max(0) as u64);
    let (Some(following), Some(offset)) = (ctx.conn.following(), offset_at(at)) else { return };
    let filed = if at + 1 < ctx.args.len() && ctx.args.is(at + 1, "FACK") { offset_at(at + 2) } else { None };
    {
        let mut now = following.shared.now();
        now.acked = now.acked.max(offset);
        now.filed = now.filed.max(filed);
        now.acked_ms = ctx.now.steady_ms;
        // It has found the mark: whatever follows is the stream.
        if following.is_marked && matches!(now.stage, Stage::Gets(_)) {
            now.stage = Stage::Online;
            tracing::info!("Synchronization with replica {}:{} succeeded", now.address, now.port);
        }
    }
    // It may be one more that follows closely.
    ctx.state.replication().replicas().count_good(ctx.now.steady_ms, ctx.config.replication.lag_ms());
    awaited::look(ctx.state);
    ctx.state.replication().watchers().wake();
}
