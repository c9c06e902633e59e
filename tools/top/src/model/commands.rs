//! Commands by the time that they took between two looks, with a latency map of each.

use std::collections::HashMap;

use varve_testkit::RespValue;

use super::info::Info;
use super::reply::{field, shown};
use super::{Asked, Model};

/// Columns of a latency map: up to 1 us, and each twice as long as the one before; the last has all beyond half a second.
pub(crate) const COLUMNS: usize = 21;

/// The durations of a command's calls since the server's start.
#[derive(Debug)]
pub(crate) struct Histogram {
    name: String,
    calls: [u64; COLUMNS],
}

/// A command as a view shows it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) calls_a_second: f64,
    /// Percent of the time of all commands.
    pub(crate) share: f64,
    pub(crate) mean_us: f64,
    /// Since the server's start; 0 where it does not track latency.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Calls in each column of the latency map.
    pub(crate) heat: [u64; COLUMNS],
}

/// Of LATENCY HISTOGRAM's reply: each command's counts are sums over all shorter calls.
pub(crate) fn histograms(reply: &RespValue) -> Vec<Histogram> {
    let commands = reply.elements().unwrap_or_default().chunks_exact(2);
    let of = |pair: &[RespValue]| {
        let mut calls = [0; COLUMNS];
        let (mut before, sums) = (0, field(&pair[1], "histogram_usec")?.elements()?);
        for bucket in sums.chunks_exact(2) {
            let (limit, sum) = (unsigned(&bucket[0])?, unsigned(&bucket[1])?);
            calls[column(limit)] += sum.saturating_sub(before);
            before = sum;
        }
        Some(Histogram { name: shown(pair[0].bytes()?), calls })
    };
    commands.filter_map(of).collect()
}

fn unsigned(reply: &RespValue) -> Option<u64> {
    u64::try_from(reply.integer()?).ok()
}

/// The column of calls that took at most this long.
fn column(limit_us: u64) -> usize {
    (limit_us.max(1).next_power_of_two().trailing_zeros() as usize).min(COLUMNS - 1)
}

/// The commands that were called between the last two looks, most time first; since the server's start after one look alone.
pub(crate) fn rows(model: &Model) -> Vec<Row> {
    let Ok(info) = model.info() else { return Vec::new() };
    let before = model.before.as_ref().and_then(|look| look.info.as_ref().ok());
    let maps = calls_between(model);
    let seconds = model.seconds().unwrap_or_else(|| info.number("uptime_in_seconds").max(1.0));
    let mut rows: Vec<(f64, Row)> = Vec::new();
    for (name, stats) in info.family("cmdstat_") {
        let since = |figure: &str| {
            let old = before.map_or(0.0, |before| of_command(before, name, figure));
            // CONFIG RESETSTAT sets them back.
            let now = stats.number(figure);
            if now < old { now } else { now - old }
        };
        let (calls, micros) = (since("calls"), since("usec"));
        if calls == 0.0 {
            continue;
        }
        let percentile = |percent: &str| {
            let field = format!("latency_percentiles_usec_{name}");
            super::info::List(info.text(&field)).number(percent)
        };
        rows.push((
            micros,
            Row {
                name: name.to_owned(),
                calls_a_second: calls / seconds,
                share: 0.0,
                mean_us: micros / calls,
                p50_us: percentile("p50"),
                p99_us: percentile("p99"),
                heat: maps.get(name).copied().unwrap_or_default(),
            },
        ));
    }
    let all: f64 = rows.iter().map(|(micros, _)| micros).sum::<f64>().max(1.0);
    rows.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.name.cmp(&other.name)));
    rows.into_iter().map(|(micros, row)| Row { share: 100.0 * micros / all, ..row }).collect()
}

fn of_command(info: &Info, name: &str, figure: &str) -> f64 {
    super::info::List(info.text(&format!("cmdstat_{name}"))).number(figure)
}

/// The latency map of each command between the last two looks.
fn calls_between(model: &Model) -> HashMap<&str, [u64; COLUMNS]> {
    fn of(asked: &Asked<Vec<Histogram>>) -> &[Histogram] {
        asked.as_ref().and_then(|answer| answer.as_deref().ok()).unwrap_or_default()
    }
    let now = model.now.as_ref().map(|look| of(&look.histograms)).unwrap_or_default();
    let before = model.before.as_ref().map(|look| of(&look.histograms)).unwrap_or_default();
    let old: HashMap<&str, &[u64; COLUMNS]> = before.iter().map(|map| (&*map.name, &map.calls)).collect();
    let since = |map: &Histogram| {
        let old = old.get(&*map.name).copied().unwrap_or(&[0; COLUMNS]);
        std::array::from_fn(|column| map.calls[column].saturating_sub(old[column]))
    };
    now.iter().map(|map| (&*map.name, since(map))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::recorded;
    use super::*;

    #[test]
    fn columns_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 66, 1 << 19, 1 << 30].map(column), [0, 0, 1, 2, 2, 7, 19, 20]);
    }

    #[test]
    fn a_row_is_the_difference_of_two_looks() {
        let model = recorded::model();
        let rows = rows(&model);
        let get = rows.iter().find(|row| row.name == "get").expect("it was called");
        assert_eq!(get.heat.iter().sum::<u64>(), 1000, "calls between the looks: {get:?}");
        assert!((get.mean_us - 0.25).abs() < 1e-9 && get.p99_us == 0.991, "{get:?}");
        assert!((rows.iter().map(|row| row.share).sum::<f64>() - 100.0).abs() < 1e-6);
        assert_eq!(rows[0].name, "zadd", "most time first");
        assert!(rows.iter().all(|row| row.name != "ping"), "it was not called since");
    }
}
