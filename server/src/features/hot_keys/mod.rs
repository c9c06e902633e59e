//! The HOTKEYS family: which keys cost most. Redis 8.6 has a collection that is begun and ended; TOP is Varve's own and always
//! there.
//!
//! ```text
//! HOTKEYS START METRICS n [CPU] [NET] [COUNT k] [DURATION s] [SAMPLE ratio]     a collection (state.rs) begins
//! HOTKEYS STOP | GET | RESET                                                    it ends, is read, is forgotten
//! HOTKEYS TOP [COUNT k]                                                         the last minutes, by the samples that are always taken
//! ```
//! The samples are `varve_exec::hot_keys`. Time is what commands took on their worker, bytes are those of requests and replies.

pub(crate) mod state;

use std::time::{Duration, Instant};

use varve_base::heavy::HeavyName;
use varve_base::number::parse_i64;
use varve_catalog::{ArgKind, Flags, Group, Row, arg, block, word};
use varve_commands::grammar::{help as reply_help, is};
use varve_exec::hot_keys::{collected, hottest};
use varve_exec::{CmdResult, CommandError};

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use crate::state::{ServerState, WorkerHandle};
use crate::system::sys::{Whose, cpu_time};
use state::{Collection, Metrics, Sums};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[HOTKEYS];

const HOTKEYS: ServerCommand = ServerCommand::container(
    Row::new("hotkeys", Group::Server, -2, "8.6.0").about("The keys that cost most.", ""),
    &[SUBCOMMANDS],
);

const SUBCOMMANDS: ServerRows = &[START, STOP, GET, RESET, TOP, HELP];

/// Keys of a ranking where no COUNT is given, and at most.
const COUNT: usize = 10;
const COUNT_MAX: i64 = 64;

/// A number behind an argument's name.
fn number(ctx: &ServerCtx<'_>, at: usize, range: std::ops::RangeInclusive<i64>, error: CommandError) -> CmdResult<i64> {
    let given = ctx.args.opt(at).ok_or(CommandError::SYNTAX)?;
    parse_i64(given).filter(|number| range.contains(number)).ok_or(error)
}

/// `HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio]`
fn start(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let collection = requested(ctx)?;
    let begun = ctx.state.hot_keys().begin(collection, Instant::now());
    if !begun {
        return Err(errors::HOTKEYS_UNDER_WAY);
    }
    for worker in ctx.state.workers() {
        worker.commands().hot_keys.collect(collection.ratio);
    }
    ctx.out.ok();
    Ok(After::Done)
}

/// The collection that the arguments of START ask for.
fn requested(ctx: &ServerCtx<'_>) -> CmdResult<Collection> {
    if !ctx.args.opt(2).is_some_and(|word| is(word, "METRICS")) {
        return Err(errors::HOTKEYS_METRICS);
    }
    let given = number(ctx, 3, 1..=2, errors::HOTKEYS_METRICS_COUNT)? as usize;
    let mut metrics = Metrics::default();
    for at in 4..4 + given {
        let word = ctx.args.opt(at).ok_or(errors::HOTKEYS_METRICS_MISSING)?;
        let twice = match word {
            word if is(word, "CPU") => std::mem::replace(&mut metrics.cpu, true),
            word if is(word, "NET") => std::mem::replace(&mut metrics.net, true),
            // A metric of a later version is passed over, where one that is known stands beside it.
            _ => false,
        };
        if twice {
            return Err(if is(word, "CPU") { errors::HOTKEYS_CPU_TWICE } else { errors::HOTKEYS_NET_TWICE });
        }
    }
    if !metrics.cpu && !metrics.net {
        return Err(errors::HOTKEYS_METRICS_UNKNOWN);
    }
    let mut collection = Collection::new(metrics, COUNT, ctx.now.unix_ms, sums(ctx.state));
    let mut at = 4 + given;
    while let Some(word) = ctx.args.opt(at) {
        if is(word, "COUNT") {
            let error = errors::HOTKEYS_COUNT;
            collection.count = number(ctx, at + 1, 1..=COUNT_MAX, error)? as usize;
        } else if is(word, "DURATION") {
            let seconds = number(ctx, at + 1, 1..=1_000_000_000, errors::HOTKEYS_DURATION)?;
            collection.lasts = Some(Duration::from_secs(seconds as u64));
        } else if is(word, "SAMPLE") {
            let error = errors::HOTKEYS_SAMPLE;
            collection.ratio = number(ctx, at + 1, 1..=i64::from(i32::MAX), error)? as u32;
        } else if is(word, "SLOTS") {
            return Err(errors::HOTKEYS_SLOTS);
        } else {
            return Err(CommandError::SYNTAX);
        }
        at += 2;
    }
    Ok(collection)
}

const START: ServerCommand = ServerCommand::new(
    start,
    Row::sub("hotkeys|start", "start", Group::Server, -2, "8.6.0")
        .about("Begins to collect which keys cost most.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT])
        .args(&[
            block(
                "metrics",
                &[arg("count", ArgKind::Integer), word("cpu", "CPU").optional(), word("net", "NET").optional()],
            )
            .token("METRICS"),
            arg("k", ArgKind::Integer).token("COUNT").optional(),
            arg("seconds", ArgKind::Integer).token("DURATION").optional(),
            arg("ratio", ArgKind::Integer).token("SAMPLE").optional(),
        ]),
);

/// The sums of all commands as they are now.
fn sums(state: &ServerState) -> Sums {
    let nanos = |worker: &WorkerHandle| -> u64 {
        state.commands().each().map(|row| worker.commands().of(row).nanos.get()).sum()
    };
    let cpu = cpu_time(Whose::Process);
    Sums {
        command_us: state.workers().iter().map(nanos).sum::<u64>() / 1000,
        net_bytes: state.total(|stats| &stats.input_bytes) + state.total(|stats| &stats.output_bytes),
        user_us: cpu.user_us,
        system_us: cpu.system_us,
    }
}

/// Ends the collection if its time is up: looked at by the clock, since its samples cost time.
pub(crate) fn follow(state: &ServerState) {
    if state.hot_keys().end_if_over(Instant::now(), || sums(state)) {
        end_on_workers(state);
    }
}

fn end_on_workers(state: &ServerState) {
    state.workers().iter().for_each(|worker| worker.commands().hot_keys.end_collection());
}

/// `HOTKEYS STOP`
fn stop(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    follow(ctx.state);
    if ctx.state.hot_keys().end(Instant::now(), sums(ctx.state)) {
        end_on_workers(ctx.state);
        ctx.out.ok();
    } else {
        ctx.out.null();
    }
    Ok(After::Done)
}

const STOP: ServerCommand = ServerCommand::new(
    stop,
    Row::sub("hotkeys|stop", "stop", Group::Server, 2, "8.6.0")
        .about("Collects no longer; what was collected stays.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT]),
);

/// `HOTKEYS RESET`
fn reset(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    follow(ctx.state);
    if !ctx.state.hot_keys().forget() {
        return Err(errors::HOTKEYS_NOT_STOPPED);
    }
    ctx.state.workers().iter().for_each(|worker| worker.commands().hot_keys.forget_collection());
    ctx.out.ok();
    Ok(After::Done)
}

const RESET: ServerCommand = ServerCommand::new(
    reset,
    Row::sub("hotkeys|reset", "reset", Group::Server, 2, "8.6.0")
        .about("Forgets what was collected.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT]),
);

/// A key's name as it may be shown.
fn shown(state: &ServerState, name: &[u8]) -> Vec<u8> {
    if state.store().hides_names() { state.store().number_of_name(name) } else { name.to_vec() }
}

/// `HOTKEYS GET`
fn get(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    follow(ctx.state);
    let Some(report) = ctx.state.hot_keys().report(Instant::now(), || sums(ctx.state)) else {
        ctx.out.null();
        return Ok(After::Done);
    };
    let (collection, sums) = (report.collection, report.sums);
    let (nanos, bytes) = collected(ctx.state.workers().iter().map(|worker| &worker.commands().hot_keys));
    let mut figures = vec![
        ("tracking-active", u64::from(report.is_active)),
        ("sample-ratio", collection.ratio.into()),
        ("all-commands-all-slots-us", sums.command_us),
        ("net-bytes-all-commands-all-slots", sums.net_bytes),
        ("collection-start-time-unix-ms", collection.began_unix_ms.max(0) as u64),
        ("collection-duration-ms", report.lasted.as_millis() as u64),
    ];
    if collection.metrics.cpu {
        figures.push(("total-cpu-time-user-ms", sums.user_us / 1000));
        figures.push(("total-cpu-time-sys-ms", sums.system_us / 1000));
    }
    if collection.metrics.net {
        figures.push(("total-net-bytes", sums.net_bytes));
    }
    let rankings =
        [("by-cpu-time-us", collection.metrics.cpu, &nanos, 1000), ("by-net-bytes", collection.metrics.net, &bytes, 1)];
    let rankings: Vec<_> = rankings.into_iter().filter(|(_, wanted, ..)| *wanted).collect();
    ctx.out.array(1);
    ctx.out.map(figures.len() + 1 + rankings.len());
    for (at, (name, figure)) in figures.into_iter().enumerate() {
        ctx.out.bulk(name.as_bytes());
        ctx.out.integer(figure as i64);
        if at == 1 {
            ctx.out.bulk(b"selected-slots");
            ctx.out.array(0);
        }
    }
    for (name, _, ranking, unit) in rankings {
        let known: Vec<&HeavyName> =
            ranking.iter().filter(|one| one.weight / unit > 0).take(collection.count).collect();
        ctx.out.bulk(name.as_bytes());
        ctx.out.array(2 * known.len());
        for one in known {
            ctx.out.bulk(&shown(ctx.state, &one.name));
            ctx.out.integer((one.weight / unit) as i64);
        }
    }
    Ok(After::Done)
}

const GET: ServerCommand = ServerCommand::new(
    get,
    Row::sub("hotkeys|get", "get", Group::Server, 2, "8.6.0")
        .about("Answers what was collected: the keys that cost most.", "O(K) in the keys answered")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT])
        .tips(&["nondeterministic_output"]),
);

/// `HOTKEYS TOP [COUNT k]`
fn top(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let count = match ctx.args.len() {
        2 => COUNT,
        4 if is(ctx.args.get(2), "COUNT") => number(ctx, 3, 1..=COUNT_MAX, errors::HOTKEYS_COUNT)? as usize,
        _ => return Err(CommandError::SYNTAX),
    };
    let hot = hottest(ctx.state.workers().iter().map(|worker| &worker.commands().hot_keys), Instant::now(), count);
    let rankings = [
        ("by-calls", &hot.calls, hot.all_calls),
        ("by-cpu-time-ns", &hot.nanos, hot.all_nanos),
        ("by-net-bytes", &hot.bytes, hot.all_bytes),
    ];
    ctx.out.map(rankings.len());
    for (name, ranking, all) in rankings {
        ctx.out.bulk(name.as_bytes());
        ctx.out.array(ranking.len());
        for one in ranking {
            ctx.out.map(4);
            ctx.out.bulk(b"key");
            ctx.out.bulk(&shown(ctx.state, &one.name));
            let percent = 100 * one.weight / all.max(1);
            for (name, figure) in [("db", one.group.into()), ("a-second", one.weight), ("percent", percent)] {
                ctx.out.bulk(name.as_bytes());
                ctx.out.integer(figure as i64);
            }
        }
    }
    Ok(After::Done)
}

const TOP: ServerCommand = ServerCommand::new(
    top,
    Row::sub("hotkeys|top", "top", Group::Server, -2, "8.6.0")
        .about("Answers the keys that cost most in the last minutes.", "O(K) in the keys answered")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT])
        .tips(&["nondeterministic_output"])
        .args(&[arg("k", ArgKind::Integer).token("COUNT").optional()]),
);

/// `HOTKEYS HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(
        ctx.out,
        "HOTKEYS",
        &[
            "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
            "    Begin to collect which keys cost most, by time of commands or bytes of requests and",
            "    replies. One of <ratio> commands is looked at (1 unless told).",
            "STOP",
            "    Collect no longer.",
            "GET",
            "    The <k> keys that cost most (10 unless told).",
            "RESET",
            "    Forget what was collected.",
            "TOP [COUNT <k>]",
            "    The keys that cost most in the last minutes, by samples that are always taken.",
        ],
    );
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("hotkeys|help", "help", Group::Server, 2, "8.6.0")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE]),
);
