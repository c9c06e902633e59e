//! The last hour of the server, a sample a second.
//!
//! ```text
//!   number of a sample   0 ........ first ................ next
//!                        (forgotten) |<--- 3600 at most --->|
//! ```
//! The metrics port's own thread takes the samples, so no worker pays for them. A page asks for those behind the last one
//! that it has. A second in which the machine gave the thread no time has no sample: the next one is the mean of both.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::state::ServerState;
use crate::system::memory::resident_bytes;
use crate::system::sys::{Whose, cpu_time};

/// Samples that are kept: one hour.
const SAMPLES_MAX: usize = 3600;
/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counters since the start, as they stood when a sample was taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) commands: u64,
    pub(super) input_bytes: u64,
    pub(super) output_bytes: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) cpu_us: u64,
}

/// Figures that are no counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) used_bytes: u64,
    pub(super) resident_bytes: u64,
    pub(super) clients: u64,
}

/// One second. Rates are a second's; 40 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    commands: u32,
    input_bytes: u32,
    output_bytes: u32,
    hits: u32,
    misses: u32,
    /// Thousandths of one core.
    cpu_permille: u32,
    used_kb: u32,
    resident_kb: u32,
    clients: u32,
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    /// The number of the next sample.
    next: u64,
    last: Option<(Instant, Totals)>,
}

impl History {
    /// Takes a sample if a second has passed since the last one.
    pub(super) fn follow(&mut self, state: &ServerState, now: Instant) {
        if self.last.is_none_or(|(at, _)| now.duration_since(at) >= INTERVAL) {
            self.add(now, totals(state), levels(state));
        }
    }

    fn add(&mut self, now: Instant, totals: Totals, levels: Levels) {
        let Some((at, before)) = self.last.replace((now, totals)) else { return };
        let passed_us = now.duration_since(at).as_micros().max(1);
        let rate = |now: u64, before: u64| {
            u32::try_from(u128::from(now.saturating_sub(before)) * 1_000_000 / passed_us).unwrap_or(u32::MAX)
        };
        let kb = |bytes: u64| u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            commands: rate(totals.commands, before.commands),
            input_bytes: rate(totals.input_bytes, before.input_bytes),
            output_bytes: rate(totals.output_bytes, before.output_bytes),
            hits: rate(totals.hits, before.hits),
            misses: rate(totals.misses, before.misses),
            cpu_permille: rate(totals.cpu_us, before.cpu_us) / 1000,
            used_kb: kb(levels.used_bytes),
            resident_kb: kb(levels.resident_bytes),
            clients: u32::try_from(levels.clients).unwrap_or(u32::MAX),
        });
        self.next += 1;
    }

    /// The samples from this number on as columns, oldest first. A number that is not there yet, as after a restart, gives all.
    pub(super) fn since(&self, number: u64) -> Value {
        let first = self.next - self.samples.len() as u64;
        let from = if number > self.next { first } else { number.max(first) };
        let column = |of: fn(&Sample) -> u32| -> Vec<u32> {
            self.samples.iter().skip((from - first) as usize).map(of).collect()
        };
        json!({
            "next": self.next,
            "commands": column(|sample| sample.commands),
            "input_bytes": column(|sample| sample.input_bytes),
            "output_bytes": column(|sample| sample.output_bytes),
            "hits": column(|sample| sample.hits),
            "misses": column(|sample| sample.misses),
            "cpu_permille": column(|sample| sample.cpu_permille),
            "used_kb": column(|sample| sample.used_kb),
            "resident_kb": column(|sample| sample.resident_kb),
            "clients": column(|sample| sample.clients),
        })
    }
}

fn totals(state: &ServerState) -> Totals {
    let (store, cpu) = (state.store().totals(), cpu_time(Whose::Process));
    Totals {
        commands: state.total(|stats| &stats.commands),
        input_bytes: state.total(|stats| &stats.input_bytes),
        output_bytes: state.total(|stats| &stats.output_bytes),
        hits: store.hits,
        misses: store.misses,
        cpu_us: cpu.system_us + cpu.user_us,
    }
}

fn levels(state: &ServerState) -> Levels {
    Levels {
        used_bytes: state.store().used_memory(),
        resident_bytes: resident_bytes(),
        clients: state.total(|stats| &stats.connected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(seconds: u64) -> History {
        let (mut history, start) = (History::default(), Instant::now());
        for second in 0..=seconds {
            let totals = Totals { commands: second * 500, cpu_us: second * 250_000, ..Totals::default() };
            let levels = Levels { used_bytes: second << 20, ..Levels::default() };
            history.add(start + INTERVAL * second as u32, totals, levels);
        }
        history
    }

    #[test]
    fn rates_are_of_a_second_and_levels_as_they_are() {
        let shown = filled(3).since(0);
        assert_eq!(shown["commands"], json!([500, 500, 500]));
        assert_eq!(shown["cpu_permille"], json!([250, 250, 250]));
        assert_eq!(shown["used_kb"], json!([1024, 2048, 3072]));
        assert_eq!(shown["next"], 3);
    }

    #[test]
    fn a_page_gets_what_it_does_not_have() {
        let history = filled(10);
        assert_eq!(history.since(8)["commands"], json!([500, 500]));
        assert_eq!(history.since(10)["commands"], json!([]));
        assert_eq!(history.since(99)["commands"].as_array().map(Vec::len), Some(10), "the server began anew");
    }

    #[test]
    fn an_hour_is_kept() {
        let history = filled(SAMPLES_MAX as u64 + 5);
        let shown = history.since(0);
        assert_eq!(shown["used_kb"].as_array().map(Vec::len), Some(SAMPLES_MAX));
        assert_eq!(shown["used_kb"][0], 6 << 10, "the oldest five are forgotten");
        assert_eq!(shown["next"], SAMPLES_MAX as u64 + 5);
    }
}
