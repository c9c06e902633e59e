//! The last minutes: a sample a look, each the rates between two looks.

use std::collections::VecDeque;
use std::time::Instant;

use super::info::Info;

/// Samples that are kept: ten minutes of looks each second.
const SAMPLES_MAX: usize = 600;

/// Rates of a second between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) commands: f64,
    /// Percent of one core.
    pub(crate) cpu: f64,
    pub(crate) input_bytes: f64,
    pub(crate) output_bytes: f64,
    pub(crate) hits: f64,
    pub(crate) misses: f64,
}

/// Counters of the server since its start.
#[derive(Clone, Debug)]
struct Totals {
    at: Instant,
    run_id: String,
    commands: f64,
    cpu_s: f64,
    input_bytes: f64,
    output_bytes: f64,
    hits: f64,
    misses: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct History {
    samples: VecDeque<Sample>,
    last: Option<Totals>,
}

impl History {
    /// Adds a look. One of a server that has been started anew begins a new history.
    pub(crate) fn add(&mut self, at: Instant, info: &Info) {
        let totals = Totals::of(at, info);
        if self.last.as_ref().is_some_and(|last| last.run_id != totals.run_id) {
            *self = History::default();
        }
        if let Some(last) = self.last.replace(totals.clone()) {
            if self.samples.len() == SAMPLES_MAX {
                self.samples.pop_front();
            }
            self.samples.push_back(totals.since(&last));
        }
    }

    /// Looks have failed: the next one has no rate.
    pub(crate) fn interrupt(&mut self) {
        self.last = None;
    }

    /// The newest sample; None before the second look.
    pub(crate) fn last(&self) -> Option<Sample> {
        self.samples.back().copied()
    }

    /// A figure of each sample, the newest first.
    pub(crate) fn newest_first(&self, figure: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().rev().map(figure).collect()
    }
}

impl Totals {
    fn of(at: Instant, info: &Info) -> Totals {
        Totals {
            at,
            run_id: info.text("run_id").to_owned(),
            commands: info.number("total_commands_processed"),
            cpu_s: info.number("used_cpu_sys") + info.number("used_cpu_user"),
            input_bytes: info.number("total_net_input_bytes"),
            output_bytes: info.number("total_net_output_bytes"),
            hits: info.number("keyspace_hits"),
            misses: info.number("keyspace_misses"),
        }
    }

    /// The rates since an earlier look. CONFIG RESETSTAT sets counters back: a rate is never less than 0.
    fn since(&self, before: &Totals) -> Sample {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(0.001);
        let rate = |now: f64, before: f64| ((now - before) / seconds).max(0.0);
        Sample {
            commands: rate(self.commands, before.commands),
            cpu: 100.0 * rate(self.cpu_s, before.cpu_s),
            input_bytes: rate(self.input_bytes, before.input_bytes),
            output_bytes: rate(self.output_bytes, before.output_bytes),
            hits: rate(self.hits, before.hits),
            misses: rate(self.misses, before.misses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn info(run_id: &str, commands: u32) -> Info {
        Info::parse(&format!(
            "run_id:{run_id}\r\ntotal_commands_processed:{commands}\r\nused_cpu_user:{}.5\r\n",
            commands / 100
        ))
    }

    #[test]
    fn rates_are_differences() {
        let (mut history, begin) = (History::default(), Instant::now());
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        history.add(at(0), &info("a", 100));
        assert_eq!(history.last(), None);
        history.add(at(2), &info("a", 300));
        assert_eq!(history.last(), Some(Sample { commands: 100.0, cpu: 100.0, ..Sample::default() }));
        history.add(at(3), &info("a", 50));
        assert_eq!(history.last().map(|sample| sample.commands), Some(0.0), "counters were set back");
        history.add(at(4), &info("b", 7));
        assert!(history.newest_first(|sample| sample.commands).is_empty(), "another server");
        for second in 5..1000 {
            history.add(at(second), &info("b", 0));
        }
        assert_eq!(history.newest_first(|sample| sample.commands).len(), SAMPLES_MAX);
    }
}
