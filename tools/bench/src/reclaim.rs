//! `reclaim`: what the three formulas of the paper cost under its two loads, at 70 to 95% full.
//!
//! ```text
//! fill -> limit such that so much of it lives -> keys replaced (deleted, set anew), uniform or hot-cold -> INFO background
//! ```
//! ReclaimCost is the paper's formula (2): the sum of the victims' utilisation. Each formula has the same writes behind it,
//! so that sums compare. Hot-cold: 80% of the writes go to 20% of the keys. No peer has the like. A write that is refused since
//! no room was made in time is counted: its key is gone, so that a little less is alive than the place says.

use crate::load::{self, Traffic};
use crate::report::{Better, Figure, Findings, Form, Role, Series};
use crate::turns::{must, push, used_memory};
use crate::{kept, say};
use std::io;
use varve_testkit::{Launch, Random, Server, client::Client};

struct Scale {
    keys: u64,
    segment: &'static str,
    /// Replacements that bring it to its steady state, and measured ones, a key.
    warm: f64,
    measured: f64,
}

const VALUE_BYTES: usize = 120;
const FORMULAS: [&str; 3] = ["original", "greedy", "modified"];
/// Percent of the limit that is alive.
const FULL: &[u32] = &[70, 75, 80, 85, 90, 95];
const QUICK_FULL: &[u32] = &[70, 80, 90, 95];
const QUANTITIES: [(&str, &str); 4] = [
    ("ReclaimCost", "ReclaimCost: sum of the victims' utilisation"),
    ("copies per insert", "copies per insert"),
    ("CPU", "microseconds of CPU per write"),
    ("refused writes", "percent of the writes"),
];

/// Runs the experiment.
///
/// # Errors
/// When the server cannot be started or is lost.
pub(crate) fn run(quick: bool) -> io::Result<Findings> {
    let scale = match quick {
        true => Scale { keys: 120_000, segment: "64kb", warm: 1.0, measured: 1.5 },
        false => Scale { keys: 5_000_000, segment: "8mb", warm: 2.0, measured: 4.0 },
    };
    let full = if quick { QUICK_FULL } else { FULL };
    let mut findings = Findings::new("reclaim", "The paper's Fig. 6: three formulas");
    for (hot, load) in [(false, "Uniform"), (true, "Hot-Cold")] {
        let mut figures = QUANTITIES.map(|(name, unit)| {
            let figure = Figure::new(format!("{load} load: {name}"), unit, Better::Less, Form::Lines);
            figure.over("percent of the limit that is alive", full)
        });
        for formula in FORMULAS {
            let mut series = QUANTITIES.map(|_| Series::new(formula, Role::Other));
            for (place, full) in full.iter().enumerate() {
                let name = format!("{load}, {full}%, {formula}");
                let found = kept::case(&name, || one(&scale, hot, f64::from(*full) / 100.0, formula))?;
                series.iter_mut().zip(found).for_each(|(series, value)| series.push(place, value));
            }
            figures.iter_mut().zip(series).for_each(|(figure, series)| figure.series.push(series));
        }
        let [cost, others @ ..] = figures;
        let order = order(&cost).join(", ");
        let papers = if hot { "Modified first and Greedy last" } else { "Greedy first and Original last" };
        let cost = cost.about(format!("From the cheapest on, over all places: {order}. The paper has {papers}."));
        findings.add(kept::figures([cost].into_iter().chain(others).collect())?);
    }
    Ok(findings
        .note("Each formula has the same writes behind it, so that sums compare; where writes were refused, they compare less.")
        .lost(
            "The heights of the paper's bars: only its text is at hand, which states their order. Under Uniform it has \
             Greedy first and Original last, under Hot-Cold Modified first and Greedy last.",
        ))
}

/// Names of a figure's series, that with the least values first: by the geometric mean, so that no place outweighs the others.
fn order(figure: &Figure) -> Vec<&str> {
    let mean = |series: &Series| series.points.iter().map(|point| point.value.median.ln()).sum::<f64>();
    let mut all: Vec<&Series> = figure.series.iter().collect();
    all.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
    all.into_iter().map(|series| series.name.as_str()).collect()
}

/// The figures that [`QUANTITIES`] names, of one server.
fn one(scale: &Scale, hot: bool, full: f64, formula: &str) -> io::Result<[f64; 4]> {
    let launch = Launch::varve().config("io-threads 1").config(format!("varve-segment-bytes {}", scale.segment));
    let server = launch.config(format!("reclaim-policy {formula}")).start()?;
    let mut client = server.connect()?;
    let traffic = |requests: u64| Traffic { connections: 4, pipeline: 32, requests };
    let value = [b'v'; VALUE_BYTES];
    let mut next = 0u64;
    refuse(load::drive(server.address(), traffic(scale.keys), &mut |out| {
        push(out, &[b"SET", format!("key:{next:012}").as_bytes(), &value]);
        next += 1;
    })?)?;
    let limit = (used_memory(&mut client)? / full) as u64;
    must(&mut client, &format!("CONFIG SET maxmemory {limit}"))?;
    replace(&server, scale, hot, scale.warm)?;
    must(&mut client, "CONFIG RESETSTAT")?;
    let before = (server.cpu_ns()?, field(&mut client, "reclaim_moved_objects")?);
    let (written, refused) = replace(&server, scale, hot, scale.measured)?;
    let cpu_us = (server.cpu_ns()? - before.0) as f64 / 1000.0 / written as f64;
    let moved = field(&mut client, "reclaim_moved_objects")? - before.1;
    let (cost, mean) = (field(&mut client, "reclaim_cost")?, field(&mut client, "reclaim_cost_mean")?);
    let victims = field(&mut client, "reclaim_victims")?;
    say!(
        "{} {full} {formula}: {victims} victims of mean utilisation {mean:.3}, {refused} of {written} writes refused",
        if hot { "hot-cold" } else { "uniform" }
    );
    Ok([cost, moved / written as f64, cpu_us, refused as f64 * 100.0 / written as f64])
}

/// Deletes and sets keys, on average each of them `times` times; how often in all, and how many were refused.
fn replace(server: &Server, scale: &Scale, hot: bool, times: f64) -> io::Result<(u64, u64)> {
    let count = (scale.keys as f64 * times) as u64;
    let mut random = Random::new(9);
    let mut doomed: Option<u64> = None;
    let value = [b'w'; VALUE_BYTES];
    let plan = Traffic { connections: 4, pipeline: 32, requests: count * 2 };
    let outcome = load::drive(server.address(), plan, &mut |out| match doomed.take() {
        Some(key) => push(out, &[b"SET", format!("key:{key:012}").as_bytes(), &value]),
        None => {
            let key = draw(&mut random, scale.keys, hot);
            push(out, &[b"DEL", format!("key:{key:012}").as_bytes()]);
            doomed = Some(key);
        }
    })?;
    Ok((count, outcome.errors))
}

fn draw(random: &mut Random, keys: u64, hot: bool) -> u64 {
    let fifth = keys as usize / 5;
    let key = match hot {
        false => random.below(keys as usize),
        true if random.below(5) < 4 => random.below(fifth),
        true => fifth + random.below(keys as usize - fifth),
    };
    // Hot keys lie among the cold ones.
    (key as u64).wrapping_mul(0x9e37_79b1) % keys
}

fn refuse(outcome: load::Outcome) -> io::Result<()> {
    if outcome.errors == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("{} of {} replies were errors", outcome.errors, outcome.replies)))
}

fn field(client: &mut Client, name: &str) -> io::Result<f64> {
    let info = must(client, "INFO background")?.text();
    let found = info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')?.parse().ok());
    found.ok_or_else(|| io::Error::other(format!("INFO has no {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_ordered_by_all_places_alike() {
        let mut figure = Figure::new("t", "u", Better::Less, Form::Lines).over("", ["70", "95"]);
        for (name, values) in [("a", [10.0, 1000.0]), ("b", [20.0, 400.0]), ("c", [9.0, 1100.0])] {
            let mut series = Series::new(name, Role::Other);
            values.iter().enumerate().for_each(|(place, &value)| series.push(place, value));
            figure.series.push(series);
        }
        assert_eq!(order(&figure), ["b", "c", "a"]);
    }
}
