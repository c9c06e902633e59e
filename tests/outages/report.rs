//! Figures of many rounds: how long it took, what was lost of which class, by the kind of fault.

use std::collections::BTreeMap;

use super::faults::Fault;
use super::history::{Class, Count, Verdict};

/// Rounds of one kind of fault, or of all.
#[derive(Default)]
struct Row {
    /// Milliseconds from the fault until the switch was announced, and until the new primary had answered a write.
    announced_ms: Vec<u64>,
    written_ms: Vec<u64>,
    counts: BTreeMap<Class, Count>,
    /// Rounds in which a write that one replica had acknowledged is missing.
    rounds_missing_one: u64,
    reads: u64,
    stale_reads: u64,
}

/// All rounds of a program.
#[derive(Default)]
pub(crate) struct Report {
    rows: BTreeMap<Fault, Row>,
    /// Rounds in which a server that had started without data became the primary.
    pub(crate) emptied: u64,
    /// Rounds in which a second server became the primary behind the first one.
    twice: u64,
    pub(crate) broken: Vec<String>,
}

impl Report {
    /// Adds a round, and returns a line on it.
    pub(crate) fn add(&mut self, fault: Fault, [announced_ms, written_ms]: [u64; 2], verdict: Verdict) -> String {
        self.twice += u64::from(verdict.promotions > 1);
        let row = self.rows.entry(fault).or_default();
        row.announced_ms.push(announced_ms);
        row.written_ms.push(written_ms);
        for (class, count) in &verdict.counts {
            let sum = row.counts.entry(*class).or_default();
            sum.answered += count.answered;
            sum.missing += count.missing;
        }
        row.rounds_missing_one += u64::from(verdict.counts.get(&Class::One).is_some_and(|one| one.missing > 0));
        row.reads += verdict.reads;
        row.stale_reads += verdict.stale_reads;
        let line = format!(
            "{fault:?}: announced after {announced_ms} ms, written after {written_ms} ms; missing of answered: {}; {} reads, {} stale",
            classes(&verdict.counts),
            verdict.reads,
            verdict.stale_reads
        );
        self.broken.extend(verdict.broken);
        line
    }

    /// The figures, a line for each kind of fault and one for all.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut all = Row::default();
        for (fault, row) in &self.rows {
            text.push_str(&row.line(&format!("{fault:?}")));
            all.announced_ms.extend(&row.announced_ms);
            all.written_ms.extend(&row.written_ms);
            for (class, count) in &row.counts {
                let sum = all.counts.entry(*class).or_default();
                sum.answered += count.answered;
                sum.missing += count.missing;
            }
            all.rounds_missing_one += row.rounds_missing_one;
            all.reads += row.reads;
            all.stale_reads += row.stale_reads;
        }
        text.push_str(&all.line("all"));
        format!(
            "{text}two promotions in a row: {} rounds; an empty server promoted: {} rounds\n",
            self.twice, self.emptied
        )
    }
}

impl Row {
    fn line(&self, name: &str) -> String {
        let [announced, written] = [&self.announced_ms, &self.written_ms].map(|times| {
            let mut times = times.clone();
            times.sort_unstable();
            format!("{}, {}", times[times.len() / 2], times[times.len() - 1])
        });
        format!(
            "{name}: {} rounds; ms to the announcement {announced}, to the first write {written} (median, longest); missing of \
             answered: {}; rounds that lost some of one replica {}; {} reads, {} stale\n",
            self.announced_ms.len(),
            classes(&self.counts),
            self.rounds_missing_one,
            self.reads,
            self.stale_reads
        )
    }
}

fn classes(counts: &BTreeMap<Class, Count>) -> String {
    let text = |class: &Class| {
        let count = counts.get(class).copied().unwrap_or_default();
        format!("{class:?} {}/{}", count.missing, count.answered).to_lowercase()
    };
    Class::ALL.iter().map(text).collect::<Vec<_>>().join(", ")
}
