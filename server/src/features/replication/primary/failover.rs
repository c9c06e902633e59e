//! FAILOVER: a replica takes this server's place, and nothing that was answered is lost.
//!
//! ```text
//!   FAILOVER --> writes are held back; a thread waits until a replica has all (state/copies.rs)
//!            --> this server follows it; its link asks: PSYNC id offset FAILOVER     replica/handshake.rs
//!            --> the replica leads, and goes on with this server                     primary/mod.rs, as it is asked
//!            --> writes are held back no longer: they are refused by now
//! ```
//! If the replica does not take over, this server leads again. Not here: the stages
//! (`state/failover.rs`), the end (`handing.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use varve_base::number::parse_i64;
use varve_catalog::{ArgKind, Argument, Flags, Group, Row, arg, block, word};
use varve_exec::{CmdResult, CommandError};

use crate::errors;
use crate::features::pause::state::Hold;
use crate::features::replication::handing::abort;
use crate::features::replication::replica;
use crate::features::replication::state::failover::Handing;
use crate::features::replication::state::replica::Address;
use crate::features::replication::state::replicas::Stage;
use crate::state::ServerState;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::copies::{self, Wait};
use crate::state::ctx::{After, ServerCtx};
use crate::system::error_text;

/// The command of this part.
pub(in super::super) const ROWS: ServerRows = &[FAILOVER];

/// The options of a FAILOVER that is to begin.
#[derive(Debug, Default)]
struct Options {
    target: Option<Address>,
    timeout: Option<Duration>,
    forced: bool,
}

/// `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`: answered when it has begun.
fn failover(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    if ctx.args.len() == 2 && ctx.args.is(1, "ABORT") {
        if ctx.state.replication().failover().stage() == Handing::None {
            return Err(errors::NO_FAILOVER);
        }
        abort(ctx.state, None, "Failover manually aborted");
        ctx.out.ok();
        return Ok(After::Done);
    }
    let options = Options::parse(ctx)?;
    if ctx.state.replication().failover().stage() != Handing::None {
        return Err(errors::FAILOVER_UNDER_WAY);
    }
    options.check(ctx.state)?;
    begin(ctx.state, options)?;
    ctx.out.ok();
    Ok(After::Done)
}

const FAILOVER: ServerCommand = ServerCommand::new(
    failover,
    Row::new("failover", Group::Server, -1, "6.2.0")
        .about("Gives the place of the master to one of its replicas.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::STALE])
        .args(OPTIONS),
);

/// The arguments.
const OPTIONS: &[Argument] = &[
    block("target", &[arg("host", ArgKind::String), arg("port", ArgKind::Integer), word("force", "FORCE").optional()])
        .token("TO")
        .optional(),
    word("abort", "ABORT").optional(),
    arg("milliseconds", ArgKind::Integer).token("TIMEOUT").optional(),
];

impl Options {
    fn parse(ctx: &ServerCtx<'_>) -> CmdResult<Options> {
        let (args, mut options, mut at) = (ctx.args, Options::default(), 1);
        let integer = |at| parse_i64(args.get(at)).ok_or(CommandError::NOT_INTEGER);
        while at < args.len() {
            let left = args.len() - at - 1;
            if args.is(at, "TIMEOUT") && left >= 1 && options.timeout.is_none() {
                let ms = integer(at + 1)?;
                let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0).ok_or(errors::FAILOVER_TIMEOUT)?;
                options.timeout = Some(Duration::from_millis(ms));
                at += 2;
            } else if args.is(at, "TO") && left >= 2 && options.target.is_none() {
                let port = integer(at + 2)?;
                let host = String::from_utf8_lossy(args.get(at + 1)).into_owned();
                // A port that is none is that of no replica.
                options.target = Some(Address { host, port: u16::try_from(port).unwrap_or(0) });
                at += 3;
            } else if args.is(at, "FORCE") && !options.forced {
                options.forced = true;
                at += 1;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Whether there is a replica for it.
    fn check(&self, state: &ServerState) -> CmdResult {
        let replication = state.replication();
        if replication.replica().primary().is_some() {
            return Err(errors::FAILOVER_ON_REPLICA);
        }
        let all = replication.replicas().all();
        if all.is_empty() {
            return Err(errors::FAILOVER_ALONE);
        }
        if self.forced && (self.timeout.is_none() || self.target.is_none()) {
            return Err(errors::FAILOVER_FORCE);
        }
        let Some(target) = &self.target else { return Ok(()) };
        let found = all.iter().find(|replica| replica.now().is_at(target)).ok_or(errors::FAILOVER_TARGET)?;
        let is_online = matches!(found.now().stage, Stage::Online);
        if is_online { Ok(()) } else { Err(errors::FAILOVER_OFFLINE) }
    }
}

/// Holds writes back, and has a thread see to the rest.
fn begin(state: &Arc<ServerState>, options: Options) -> CmdResult {
    let replication = state.replication();
    let hold = || state.hold_writes(Hold::Failover);
    let number = replication.failover().begin(options.target.clone(), hold).ok_or(errors::FAILOVER_UNDER_WAY)?;
    let driver = Arc::clone(state);
    let spawned =
        std::thread::Builder::new().name("failover".to_owned()).spawn(move || drive(&driver, number, options));
    if let Err(error) = spawned {
        abort(state, Some(number), &error_text(&error));
        return Err(errors::FAILOVER_THREAD);
    }
    Ok(())
}

/// Sees a failover through, up to where this server follows the replica.
fn drive(state: &Arc<ServerState>, number: u64, options: Options) {
    let failover = state.replication().failover();
    let until = options.timeout.map(|timeout| Instant::now() + timeout);
    let wanted = || failover.is(number);
    match copies::wait(state, until, wanted, |end| synced(state, options.target.as_ref(), end)) {
        Wait::GivenUp => {}
        Wait::Reached(target) => {
            tracing::info!("Failover target {}:{} is synced, failing over.", target.host, target.port);
            hand_over(state, number, &target, None);
        }
        Wait::TimeUp => match options.target.filter(|_| options.forced) {
            None => abort(state, Some(number), "Replica never caught up before timeout"),
            Some(target) => {
                tracing::info!("Failover to {}:{} time out exceeded, failing over.", target.host, target.port);
                hand_over(state, number, &target, acknowledged(state, &target));
            }
        },
    }
}

/// A replica that has the stream up to this offset, its end: this one, or any.
fn synced(state: &ServerState, wanted: Option<&Address>, end: u64) -> Option<Address> {
    let all = state.replication().replicas().all();
    let found = all.iter().map(|replica| replica.now()).find(|now| {
        let is_wanted = wanted.is_none_or(|wanted| now.is_at(wanted));
        is_wanted && matches!(now.stage, Stage::Online) && now.acked == end
    })?;
    Some(Address { host: found.address.clone(), port: found.port })
}

/// The offset that the replica at this address has acknowledged; None if it is not there any more.
fn acknowledged(state: &ServerState, target: &Address) -> Option<u64> {
    let all = state.replication().replicas().all();
    all.iter().map(|replica| replica.now()).find(|now| now.is_at(target)).map(|now| now.acked)
}

/// This server follows the replica from now on, which is asked to take its place. If the replica may lack something, that is what lies
/// behind this offset, and it is given up.
fn hand_over(state: &Arc<ServerState>, number: u64, target: &Address, given_up_behind: Option<u64>) {
    let follow = || replica::follow_noted(state, target.clone());
    let done = state.replication().failover().proceed(number, target, given_up_behind, follow);
    if let Err(error) = done {
        abort(state, Some(number), &error_text(&error));
    }
}
