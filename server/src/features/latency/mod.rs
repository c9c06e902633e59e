//! The LATENCY family: what the latency monitor has seen (latency.rs of the crate), and the commands' histograms.
//!
//! ```text
//!   #        a spike's height between the lowest and the highest of the series, 12 steps in 4 rows;
//!  _|        below each its age, read downwards: 1s, 0s
//!
//!  10
//!  ss
//! ```

pub(crate) mod state;

use std::fmt::Write;

use varve_base::hist::Counts;
use varve_catalog::{ArgKind, Behaviour, Flags, Group, Row, arg};
use varve_commands::grammar::{asked_names, help as reply_help};
use varve_exec::CmdResult;
use varve_exec::Command;

use crate::errors;
use crate::state::command::{ServerCommand, ServerRows};
use crate::state::ctx::{After, ServerCtx};
use state::{Event, Sample, Series};

/// The commands of this matter.
pub(super) const ROWS: ServerRows = &[LATENCY];

const LATENCY: ServerCommand = ServerCommand::container(
    Row::new("latency", Group::Server, -2, "2.8.13").about("What took long.", ""),
    &[SUBCOMMANDS],
);

const SUBCOMMANDS: ServerRows = &[DOCTOR, GRAPH, HELP, HISTOGRAM, HISTORY, LATEST, RESET];

/// Rows of a graph, and steps that one row tells apart.
const GRAPH_ROWS: u64 = 4;
const STEPS: [char; 3] = ['_', 'o', '#'];
/// Samples that a graph shows.
const COLUMNS: usize = 80;
/// The first limit of a histogram is 1024 ns; each is twice the one before.
const FIRST_LIMIT_NS: u64 = 1024;
/// Limits of a histogram: the last one is over 9 minutes.
const LIMITS: u32 = 30;

/// `LATENCY LATEST`
fn latest(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let monitor = ctx.state.latency();
    ctx.out.array(monitor.series().count());
    for (event, series) in monitor.series() {
        let last = series.samples.back().expect("listed series have samples");
        ctx.out.array(4);
        ctx.out.bulk(event.name().as_bytes());
        ctx.out.integer(last.at_s);
        ctx.out.integer(last.millis as i64);
        ctx.out.integer(series.worst_ms as i64);
    }
    Ok(After::Done)
}

const LATEST: ServerCommand = ServerCommand::new(
    latest,
    Row::sub("latency|latest", "latest", Group::Server, 2, "2.8.13")
        .about("Tells what took long last, by event.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `LATENCY HISTORY event`
fn history(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let monitor = ctx.state.latency();
    let Some((_, series)) = monitor.find(ctx.args.get(2)) else {
        ctx.out.array(0);
        return Ok(After::Done);
    };
    ctx.out.array(series.samples.len());
    for sample in &series.samples {
        ctx.out.array(2);
        ctx.out.integer(sample.at_s);
        ctx.out.integer(sample.millis as i64);
    }
    Ok(After::Done)
}

const HISTORY: ServerCommand = ServerCommand::new(
    history,
    Row::sub("latency|history", "history", Group::Server, 3, "2.8.13")
        .about("Lists when an event took long.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
        .args(&[arg("event", ArgKind::String)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `LATENCY RESET [event ...]`
fn reset(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let names = ctx.args.skip(2);
    let named = |event: Event| names.iter().any(|name| event.name().as_bytes().eq_ignore_ascii_case(name));
    let count = ctx.state.latency().reset(|event| names.is_empty() || named(event));
    ctx.out.integer(count as i64);
    Ok(After::Done)
}

const RESET: ServerCommand = ServerCommand::new(
    reset,
    Row::sub("latency|reset", "reset", Group::Server, -2, "2.8.13")
        .about("Forgets what took long.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .args(&[arg("event", ArgKind::String).optional().multiple()])
        .behaviour(Behaviour::CONSTANT_TIME),
);

/// `LATENCY GRAPH event`
fn graph(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let monitor = ctx.state.latency();
    let name = ctx.args.get(2);
    let (event, series) = monitor.find(name).ok_or_else(|| errors::no_samples(name))?;
    let text = draw(event, series, ctx.now.unix_ms / 1000);
    ctx.out.verbatim(*b"txt", text.as_bytes());
    Ok(After::Done)
}

const GRAPH: ServerCommand = ServerCommand::new(
    graph,
    Row::sub("latency|graph", "graph", Group::Server, 3, "2.8.13")
        .about("Draws what took long.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
        .args(&[arg("event", ArgKind::String)])
        .behaviour(Behaviour::CONSTANT_TIME),
);

fn draw(event: Event, series: &Series, now_s: i64) -> String {
    let first = series.samples.len().saturating_sub(COLUMNS);
    let shown: Vec<Sample> = series.samples.iter().skip(first).copied().collect();
    let low = shown.iter().map(|sample| sample.millis).min().unwrap_or(0);
    let high = shown.iter().map(|sample| sample.millis).max().unwrap_or(0);
    let mut text = format!("{} - high {high} ms, low {low} ms (all time high {} ms)\n", event.name(), series.worst_ms);
    text.extend(std::iter::repeat_n('-', COLUMNS));
    text.push('\n');
    let steps = STEPS.len() as u64;
    let height = |sample: &Sample| (sample.millis - low) * (GRAPH_ROWS * steps - 1) / (high - low).max(1);
    for row in (0..GRAPH_ROWS).rev() {
        let line = shown.iter().map(|sample| match height(sample) {
            height if height / steps > row => '|',
            height if height / steps == row => STEPS[(height % steps) as usize],
            _ => ' ',
        });
        push_line(&mut text, line);
    }
    text.push('\n');
    let ages: Vec<Vec<char>> = shown.iter().map(|sample| age((now_s - sample.at_s).max(0)).chars().collect()).collect();
    for row in 0..ages.iter().map(Vec::len).max().unwrap_or(0) {
        push_line(&mut text, ages.iter().map(|age| age.get(row).copied().unwrap_or(' ')));
    }
    text
}

/// A line without the spaces at its end.
fn push_line(text: &mut String, line: impl Iterator<Item = char>) {
    let line: String = line.collect();
    text.push_str(line.trim_end());
    text.push('\n');
}

fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `LATENCY DOCTOR`
fn doctor(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let mut text = String::new();
    if ctx.config.latency_threshold_ms == 0 {
        text.push_str(
            "The latency monitor is off. CONFIG SET latency-monitor-threshold <milliseconds> has it remember what takes \
             at least that long.\n",
        );
    }
    let monitor = ctx.state.latency();
    for (event, series) in monitor.series() {
        let summary = series.summary().expect("listed series have samples");
        writeln!(
            text,
            "{}: {} spikes, {} ms on average, {} ms from it on average, one each {:.2} s, the worst {} ms.",
            event.name(),
            summary.count,
            summary.mean_ms,
            summary.deviation_ms,
            summary.period_s,
            series.worst_ms
        )
        .and_then(|()| writeln!(text, "  {}", advice(event)))
        .expect("a String takes all that is written");
    }
    if text.is_empty() {
        text.push_str("Nothing took longer than the threshold since the start or the last LATENCY RESET.\n");
    }
    ctx.out.verbatim(*b"txt", text.as_bytes());
    Ok(After::Done)
}

const DOCTOR: ServerCommand = ServerCommand::new(
    doctor,
    Row::sub("latency|doctor", "doctor", Group::Server, 2, "2.8.13")
        .about("Describes what took long.", "O(1)")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
        .behaviour(Behaviour::CONSTANT_TIME),
);

fn advice(event: Event) -> &'static str {
    match event {
        Event::Command => "SLOWLOG GET shows which commands are slow; those over many elements can be cut in parts.",
        Event::FastCommand => {
            "Fast commands are held up by the machine: other processes, swapping, a busy host. Or their values are large."
        }
        Event::Unblocking => {
            "Clients that wait are served with much at once: smaller elements or counts would spare it."
        }
        Event::Expire => "Many keys end at the same time: spread their times to live.",
        Event::Evict => "Commands wait for room: a larger maxmemory, or shorter lives for keys, would spare them that.",
        Event::AofWrite | Event::AofWriteAlone => "The disk takes long to take bytes: other processes may write to it.",
        Event::AofWriteBesideSave => "The disk is busy with a save: no-appendfsync-on-rewrite spares syncs meanwhile.",
        Event::AofSync => "Replies wait for the disk: appendfsync everysec does not, and may lose a second.",
        Event::AofRename => "The file system takes long to rename and to sync a folder.",
        Event::RdbUnlink => "The file system takes long to remove a large file, as after a save that was given up.",
        Event::Background => "Background steps were held up: are there more workers than processors?",
    }
}

/// `LATENCY HISTOGRAM [command ...]`
fn histogram(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    let from = ctx.out.defer();
    let mut shown = 0;
    let rows = ctx.state.commands().commands();
    let mut show = |row: &Command| {
        if let Some(counts) = ctx.state.call_durations(row).filter(|counts| counts.count() > 0) {
            ctx.out.bulk(row.full_name.as_bytes());
            write_histogram(ctx.out, &counts);
            shown += 1;
        }
    };
    let names = asked_names(ctx.args, 2)?;
    if names.is_empty() {
        ctx.state.commands().each().for_each(&mut show);
    }
    for name in names.iter() {
        let is = |row: &&Command| row.full_name.as_bytes().eq_ignore_ascii_case(name);
        if let Some(row) = rows.iter().find(is) {
            std::iter::once(row).chain(row.subcommands).for_each(&mut show);
        } else if let Some(row) = rows.iter().flat_map(|row| row.subcommands).find(is) {
            show(row);
        }
    }
    ctx.out.end_map(from, shown);
    Ok(After::Done)
}

const HISTOGRAM: ServerCommand = ServerCommand::new(
    histogram,
    Row::sub("latency|histogram", "histogram", Group::Server, -2, "7.0.0")
        .about("How long the calls of commands took.", "O(N) in the commands answered")
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"])
        .args(&[arg("command", ArgKind::String).optional().multiple()]),
);

/// One command's durations: how many ended within each power of two, as far as that grows.
fn write_histogram(out: &mut varve_protocol::Reply, counts: &Counts) {
    out.map(2);
    out.bulk(b"calls");
    out.integer(counts.count() as i64);
    out.bulk(b"histogram_usec");
    let from = out.defer();
    let (mut before, mut shown) = (0, 0);
    for limit in (0..LIMITS).map(|step| FIRST_LIMIT_NS << step) {
        let within = if limit == FIRST_LIMIT_NS << (LIMITS - 1) { counts.count() } else { counts.below_ns(limit) };
        if within > before {
            out.integer((limit_label_ns(limit) / 1000) as i64);
            out.integer(within as i64);
            shown += 1;
        }
        before = within;
    }
    out.end_map(from, shown);
}

/// The limit as Redis prints it: the last value of the first of the 128 steps that its histograms cut each power of two
/// in.
fn limit_label_ns(limit: u64) -> u64 {
    limit + limit / 128 - 1
}

/// `LATENCY HELP`
fn help(ctx: &mut ServerCtx<'_>) -> CmdResult<After> {
    reply_help(
        ctx.out,
        "LATENCY",
        &[
            "DOCTOR",
            "    What the spikes come to, in words.",
            "GRAPH <event>",
            "    The event's spikes, drawn.",
            "HISTOGRAM [<command> [...]]",
            "    How long the calls of commands took, as cumulative counts by microseconds.",
            "HISTORY <event>",
            "    The event's spikes: Unix time and milliseconds.",
            "LATEST",
            "    Each event's last spike: name, Unix time, milliseconds, milliseconds of the worst.",
            "RESET [<event> [...]]",
            "    Forget the spikes of these events, or of all.",
        ],
    );
    Ok(After::Done)
}

const HELP: ServerCommand = ServerCommand::new(
    help,
    Row::sub("latency|help", "help", Group::Server, 2, "2.8.13")
        .about("Lists the subcommands.", "O(1)")
        .flags(&[Flags::LOADING, Flags::STALE])
        .behaviour(Behaviour::CONSTANT_TIME),
);

#[cfg(test)]
mod tests {
    use super::*;
    use state::Monitor;

    #[test]
    fn labels_are_those_of_redis() {
        let labels: Vec<u64> =
            [0, 2, 3, 5, 10, 16, 19].map(|step| limit_label_ns(FIRST_LIMIT_NS << step) / 1000).to_vec();
        assert_eq!(labels, [1, 4, 8, 33, 1056, 67633, 541_065]);
    }

    #[test]
    fn a_graph_has_a_column_a_sample() {
        let mut monitor = Monitor::default();
        monitor.add(Event::Command, 99, 200);
        monitor.add(Event::Command, 100, 350);
        let (event, series) = monitor.find(b"command").expect("it has samples");
        let text = draw(event, series, 100);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 350 ms, low 200 ms (all time high 350 ms)");
        assert_eq!(lines[2..], [" #", " |", " |", "_|", "", "10", "ss"]);
    }
}
