//! Rates a second, as INFO's `instantaneous_*` fields show them.

use std::time::Instant;

/// Samples that a rate is the mean of, one each 100 ms.
const SAMPLES: usize = 16;

/// A rate as INFO's `instantaneous_*` show it: the mean over the last [`SAMPLES`] samples.
#[derive(Debug, Default)]
struct Rate {
    last: u64,
    per_s: [u64; SAMPLES],
    next: usize,
}

impl Rate {
    fn sample(&mut self, total: u64, passed_us: u64) {
        let grown = total.saturating_sub(self.last);
        self.last = total;
        self.per_s[self.next] = (u128::from(grown) * 1_000_000 / u128::from(passed_us.max(1))) as u64;
        self.next = (self.next + 1) % SAMPLES;
    }

    fn mean(&self) -> u64 {
        self.per_s.iter().sum::<u64>() / SAMPLES as u64
    }
}

#[derive(Debug, Default)]
pub(super) struct Rates {
    at: Option<Instant>,
    commands: Rate,
    input: Rate,
    output: Rate,
    replica_input: Rate,
    replica_output: Rate,
}

/// Rates a second over the last 1.6 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RatesNow {
    pub(crate) commands: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    /// Bytes received from a primary.
    pub(crate) replica_input_bytes: u64,
    /// Bytes sent to replicas.
    pub(crate) replica_output_bytes: u64,
}

/// The counts since the start that rates are made of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) commands: u64,
    pub(super) input_bytes: u64,
    pub(super) output_bytes: u64,
    pub(super) replica_input_bytes: u64,
    pub(super) replica_output_bytes: u64,
}

impl Rates {
    /// Takes a sample.
    pub(super) fn sample(&mut self, totals: Totals) {
        let now = Instant::now();
        let passed_us = self.at.map_or(0, |at| now.duration_since(at).as_micros() as u64).max(1);
        self.at = Some(now);
        self.commands.sample(totals.commands, passed_us);
        self.input.sample(totals.input_bytes, passed_us);
        self.output.sample(totals.output_bytes, passed_us);
        self.replica_input.sample(totals.replica_input_bytes, passed_us);
        self.replica_output.sample(totals.replica_output_bytes, passed_us);
    }

    /// The means of the last samples.
    pub(super) fn now(&self) -> RatesNow {
        RatesNow {
            commands: self.commands.mean(),
            input_bytes: self.input.mean(),
            output_bytes: self.output.mean(),
            replica_input_bytes: self.replica_input.mean(),
            replica_output_bytes: self.replica_output.mean(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_its_mean() {
        let mut rate = Rate::default();
        let mut total = 0;
        for _ in 0..SAMPLES {
            total += 500;
            rate.sample(total, 100_000);
        }
        assert_eq!(rate.mean(), 5_000);
        rate.sample(0, 100_000);
        assert!(rate.mean() < 5_000, "a counter that was reset gives no rate");
    }
}
