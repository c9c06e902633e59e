//! The latency monitor: what took longer than `latency-monitor-threshold`, a series for each kind of event.
//!
//! ```text
//!   command       (at, ms) (at, ms) ... (at, ms)     at most 160, one a second: the worst of its second
//!   expire-cycle  (at, ms)                           and the worst of all since the last reset
//! ```
//!
//! One table for the server, behind a leaf lock that is taken only when something took long and by LATENCY. Not here:
//! the measuring (varve_exec::stats, the worker's loop), the commands (mod.rs).

use std::collections::VecDeque;

use varve_exec::stats::{Spike, SpikeEvent};

/// Samples that a series keeps.
pub(crate) const SAMPLES: usize = 160;

/// Events that take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Command,
    FastCommand,
    /// Serving a client that waited.
    Unblocking,
    /// Removing keys whose time has come, in the background.
    Expire,
    /// Making room by evicting keys.
    Evict,
    /// A write to the append-only file, whatever went on beside it.
    AofWrite,
    /// One beside nothing else.
    AofWriteAlone,
    /// One beside a save or a rewrite: redis-server has a child process then.
    AofWriteBesideSave,
    /// A sync of the append-only file under `appendfsync always`.
    AofSync,
    /// A base of the append-only file takes its place.
    AofRename,
    /// The unfinished file of a save that was given up or failed is removed.
    RdbUnlink,
    /// Other background steps of the store: draining segments, growing tables, freeing collections.
    Background,
}

impl Event {
    const ALL: [Event; 12] = [
        Event::Command,
        Event::FastCommand,
        Event::Unblocking,
        Event::Expire,
        Event::Evict,
        Event::AofWrite,
        Event::AofWriteAlone,
        Event::AofWriteBesideSave,
        Event::AofSync,
        Event::AofRename,
        Event::RdbUnlink,
        Event::Background,
    ];

    /// The name by which LATENCY knows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Event::Command => "command",
            Event::FastCommand => "fast-command",
            Event::Unblocking => "command-unblocking",
            Event::Expire => "expire-cycle",
            Event::Evict => "eviction-cycle",
            Event::AofWrite => "aof-write",
            Event::AofWriteAlone => "aof-write-alone",
            Event::AofWriteBesideSave => "aof-write-active-child",
            Event::AofSync => "aof-fsync-always",
            Event::AofRename => "aof-rename",
            Event::RdbUnlink => "rdb-unlink-temp-file",
            Event::Background => "background-cycle",
        }
    }
}

impl From<SpikeEvent> for Event {
    fn from(event: SpikeEvent) -> Event {
        match event {
            SpikeEvent::Command => Event::Command,
            SpikeEvent::FastCommand => Event::FastCommand,
            SpikeEvent::Unblocking => Event::Unblocking,
            SpikeEvent::Eviction => Event::Evict,
        }
    }
}

/// One spike, or the worst of several in one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Seconds of Unix time.
    pub(crate) at_s: i64,
    pub(crate) millis: u64,
}

/// The spikes of one event, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Series {
    pub(crate) samples: VecDeque<Sample>,
    /// The worst since the last reset.
    pub(crate) worst_ms: u64,
}

impl Series {
    fn add(&mut self, sample: Sample) {
        self.worst_ms = self.worst_ms.max(sample.millis);
        if let Some(last) = self.samples.back_mut().filter(|last| last.at_s == sample.at_s) {
            last.millis = last.millis.max(sample.millis);
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The summary that LATENCY DOCTOR reports; None without a sample.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let count = self.samples.len() as u64;
        let mean_ms = self.samples.iter().map(|s| s.millis).sum::<u64>() / count;
        let deviation_ms = self.samples.iter().map(|s| s.millis.abs_diff(mean_ms)).sum::<u64>() / count;
        let period_s = (last.at_s - first.at_s).max(0) as f64 / count as f64;
        Some(Summary { count, mean_ms, deviation_ms, period_s })
    }
}

/// A series in short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) mean_ms: u64,
    /// Mean distance from the mean.
    pub(crate) deviation_ms: u64,
    /// Mean time between two spikes.
    pub(crate) period_s: f64,
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Monitor([Series; Event::ALL.len()]);

impl Monitor {
    /// Adds a spike.
    pub(crate) fn add(&mut self, event: Event, at_s: i64, millis: u64) {
        self.0[event as usize].add(Sample { at_s, millis });
    }

    /// Adds the spikes of a turn.
    pub(crate) fn add_all(&mut self, spikes: &[Spike]) {
        spikes.iter().for_each(|spike| self.add(spike.event.into(), spike.at_s, spike.millis));
    }

    /// The events that have samples, with their series.
    pub(crate) fn series(&self) -> impl Iterator<Item = (Event, &Series)> {
        Event::ALL.into_iter().zip(&self.0).filter(|(_, series)| !series.samples.is_empty())
    }

    /// The series of this name, if it has samples. Names are taken in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(Event, &Series)> {
        self.series().find(|(event, _)| event.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Forgets the series that `wanted` wants; how many had samples.
    pub(crate) fn reset(&mut self, wanted: impl Fn(Event) -> bool) -> usize {
        let mut count = 0;
        for (event, series) in Event::ALL.into_iter().zip(&mut self.0) {
            if wanted(event) && !series.samples.is_empty() {
                *series = Series::default();
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_its_place_and_its_name() {
        for (nth, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, nth);
            assert_eq!(Event::ALL.iter().filter(|other| other.name() == event.name()).count(), 1);
        }
    }

    #[test]
    fn a_second_keeps_its_worst_and_a_series_its_last() {
        let mut monitor = Monitor::default();
        for at in 0..200 {
            monitor.add(Event::Command, at, 10);
            monitor.add(Event::Command, at, 30);
            monitor.add(Event::Command, at, 20);
        }
        monitor.add(Event::Expire, 7, 5);
        let (_, series) = monitor.find(b"COMMAND").expect("it has samples");
        assert_eq!((series.samples.len(), series.worst_ms), (SAMPLES, 30));
        assert_eq!(series.samples[0], Sample { at_s: 40, millis: 30 });
        assert_eq!(monitor.series().count(), 2);
        assert!(monitor.find(b"fast-command").is_none());
        assert_eq!(monitor.reset(|event| event == Event::Command), 1);
        assert_eq!(monitor.reset(|_| true), 1);
        assert_eq!(monitor.reset(|_| true), 0);
    }

    #[test]
    fn a_summary_is_of_all_samples() {
        let mut series = Series::default();
        assert_eq!(series.summary(), None);
        series.add(Sample { at_s: 10, millis: 200 });
        series.add(Sample { at_s: 11, millis: 350 });
        let summary = Summary { count: 2, mean_ms: 275, deviation_ms: 75, period_s: 0.5 };
        assert_eq!(series.summary(), Some(summary));
    }
}
