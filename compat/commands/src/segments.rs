//! SEGMENTS: the table of the segment log, for tools that draw it.
//!
//! ```text
//! SEGMENTS [LIST]   one map a segment: segment, state, class, used, live-bytes, live-objects, age, pins
//! SEGMENTS HELP
//! ```
//! Varve's own; no peer has it.

use varve_catalog::{Flags, Group, Row, one_of, word};
use varve_exec::{CmdResult, Command, CommandError, Exec, FileRows, WideCtx};
use varve_protocol::Reply;
use varve_store::{LogStats, SegmentClass, SegmentInfo, SegmentState as State};

use crate::grammar::{help, is};

pub(crate) const ROWS: FileRows = &[SEGMENTS];

/// The classes of utilisation as one text, from 0-10% on.
pub fn utilisation(log: &LogStats) -> String {
    log.tenths.map(|count| count.to_string()).join(",")
}

/// SEGMENTS [LIST | HELP]
fn segments(ctx: &mut WideCtx<'_>) -> CmdResult {
    match ctx.args.len() {
        1 => list(ctx.out, &ctx.store.log().segments()),
        2 if is(ctx.args.get(1), "LIST") => list(ctx.out, &ctx.store.log().segments()),
        2 if is(ctx.args.get(1), "HELP") => help(
            ctx.out,
            "SEGMENTS",
            &[
                "[LIST]",
                "    Tell of each segment in use its number, state, class, used and live bytes, live",
                "    objects, its age in segments sealed since, and the pins on a large value.",
            ],
        ),
        _ => return Err(CommandError::SYNTAX),
    }
    Ok(())
}

const SEGMENTS: Command = Command::new(
    Exec::Figures(segments),
    Row::new("segments", Group::Server, -1, "7.0.15")
        .about("Lists the segments of the log.", "O(N) in the segments")
        .flags(&[Flags::ADMIN, Flags::LOADING, Flags::STALE])
        .tips(&["nondeterministic_output"])
        .args(&[one_of("subcommand", &[word("list", "LIST"), word("help", "HELP")]).optional()]),
);

fn list(out: &mut Reply, segments: &[SegmentInfo]) {
    let shown = || segments.iter().filter(|info| !matches!(info.state, State::Free | State::Tail));
    out.array(shown().count());
    for info in shown() {
        let figures = [
            ("segment", u64::from(info.segment)),
            ("used", info.used),
            ("live-bytes", info.live_bytes),
            ("live-objects", info.live_objects),
            ("age", info.age),
            ("pins", info.pins.into()),
        ];
        out.map(figures.len() + 2);
        for (name, text) in [("state", state_name(info.state)), ("class", class_name(info.class))] {
            out.bulk(name.as_bytes());
            out.bulk(text.as_bytes());
        }
        for (name, value) in figures {
            out.bulk(name.as_bytes());
            out.integer(value as i64);
        }
    }
}

/// A state's name, as SEGMENTS lists it.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::Free => "free",
        State::Open => "open",
        State::Sealed => "sealed",
        State::Draining => "draining",
        State::Extent => "run",
        State::Tail => "tail",
        State::Retired => "retired",
    }
}

/// A class's name, as SEGMENTS lists it.
pub fn class_name(class: SegmentClass) -> &'static str {
    match class {
        SegmentClass::Ordinary => "ordinary",
        SegmentClass::Volatile => "volatile",
        SegmentClass::Survivor => "survivor",
    }
}
