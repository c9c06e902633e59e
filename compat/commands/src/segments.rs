//! SEGMENTS: the table of the segment log, for tools that draw it, and the census that MEMORY tells of.
//!
//! ```text
//! SEGMENTS [LIST]   one map a segment: segment, state, class, used, live-bytes, live-objects, age, pins
//! SEGMENTS HELP
//! ```
//! Varve's own; no peer has it.

use varve_catalog::{Flags, Group, Row, one_of, word};
use varve_exec::{CmdResult, Command, CommandError, Exec, FileRows, WideCtx};
use varve_protocol::Reply;
use varve_store::{SegmentClass, SegmentInfo, SegmentState as State, Store};

use crate::grammar::{help, is};

pub(crate) const ROWS: FileRows = &[SEGMENTS];

/// Classes of utilisation in the census.
pub(crate) const TENTHS: usize = 10;

/// How many segments there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Being appended to.
    pub open: u64,
    /// Full or closed early.
    pub sealed: u64,
    /// Being drained.
    pub draining: u64,
    /// Large values.
    pub runs: u64,
    /// Large values that died and are given back in steps.
    pub retired: u64,
    /// Open, sealed and draining segments by utilisation: live over used bytes, in tenths.
    pub tenths: [u64; TENTHS],
}

impl Census {
    /// Looks at all segments.
    pub fn of(store: &Store) -> Census {
        let mut census = Census::default();
        store.log().segments().iter().for_each(|info| census.count(info));
        census
    }

    fn count(&mut self, info: &SegmentInfo) {
        let cell = match info.state {
            State::Open => &mut self.open,
            State::Sealed => &mut self.sealed,
            State::Draining => &mut self.draining,
            State::Extent => &mut self.runs,
            State::Retired => &mut self.retired,
            State::Free | State::Tail => return,
        };
        *cell += 1;
        if matches!(info.state, State::Open | State::Sealed | State::Draining) && info.used > 0 {
            // Pieces that are out count as live whole, and their bytes as used only later.
            let live = info.live_bytes.min(info.used);
            self.tenths[((live * TENTHS as u64 / info.used) as usize).min(TENTHS - 1)] += 1;
        }
    }

    /// The counts by utilisation, from 0-10% on, as one text.
    pub fn utilisation(&self) -> String {
        self.tenths.map(|count| count.to_string()).join(",")
    }
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
    Exec::Keyspace(segments),
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
        for (name, text) in [("state", state(info.state)), ("class", class(info.class))] {
            out.bulk(name.as_bytes());
            out.bulk(text.as_bytes());
        }
        for (name, value) in figures {
            out.bulk(name.as_bytes());
            out.integer(value as i64);
        }
    }
}

fn state(state: State) -> &'static str {
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

fn class(class: SegmentClass) -> &'static str {
    match class {
        SegmentClass::Ordinary => "ordinary",
        SegmentClass::Volatile => "volatile",
        SegmentClass::Survivor => "survivor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_census_counts_states_and_tenths() {
        let info = |state, used, live_bytes| SegmentInfo {
            segment: 1,
            state,
            class: SegmentClass::Ordinary,
            used,
            live_bytes,
            live_objects: 1,
            sealed: 0,
            age: 0,
            pins: 0,
        };
        let mut census = Census::default();
        for segment in [
            info(State::Open, 10, 65536),
            info(State::Sealed, 100, 0),
            info(State::Sealed, 100, 95),
            info(State::Draining, 100, 29),
            info(State::Extent, 1000, 1000),
            info(State::Tail, 0, 0),
        ] {
            census.count(&segment);
        }
        assert_eq!((census.open, census.sealed, census.draining, census.runs, census.retired), (1, 2, 1, 1, 0));
        assert_eq!(census.utilisation(), "1,0,1,0,0,0,0,0,0,2");
    }
}
