//! Numbers that others published, with their sources. They are from other machines: shapes compare, heights do not.
//!
//! | source | here |
//! |---|---|
//! | the result sheets of "Redis Quicklist" and "Accelerating Encodings" (2014) | `quicklist.csv`, every row of both rules |
//! | Redis in Action, 9.1.3 with listings 9.5 and 9.6 | the one rate and the one ratio that its text states |
//! | the paper on Redis++ (segments, two-level hash index), Tables 1 to 5, Fig. 1 and 5 to 8 | Table 2, and the numbers in its text |

use crate::report::{Role, Series};

/// A server of the quicklist's sheets.
const RULES: [(&str, &str); 2] = [("adaptive", "published: adaptive"), ("length-only", "published: length only")];
const SHEETS: &str = include_str!("quicklist.csv");

/// Rate at which listing 9.6 still runs with lists of at most 1000 entries: "around 50,000 operations per second or
/// better". The rates of its other lines are not in the text.
pub(crate) const LISTING_RATE: f64 = 50_000.0;
/// Longest list that this rate is stated for.
pub(crate) const LISTING_LENGTH: u64 = 1000;

/// Part of RPOPLPUSH's rate at which LINDEX of the middle runs in the book, "roughly".
pub(crate) const LINDEX_PART: f64 = 0.5;
/// Shortest list that this part is stated for.
pub(crate) const LINDEX_LENGTH: u64 = 5000;

/// The paper's Fig. 7, microseconds of a request of one client with the Tiny set: Redis++ and Redis 4.0.6.
pub(crate) const DELAY_US: [f64; 2] = [22.47, 68.74];
/// The paper's Fig. 8, Tiny set: requests a second of Redis++ and Redis 4.0.6, for the mix of writes in percent and the draw.
pub(crate) const THROUGHPUT: [(usize, &str, [f64; 2]); 4] = [
    (50, "uniform", [430_000.0, 120_000.0]),
    (50, "zipf", [480_000.0, 120_000.0]),
    (5, "uniform", [480_000.0, 140_000.0]),
    (5, "zipf", [570_000.0, 150_000.0]),
];
/// The paper's Table 2: percent of Redis's cache misses by function.
pub(crate) const CACHE_MISSES: [(&str, f64); 7] = [
    ("siphash", 22.5),
    ("dictFind", 18.9),
    ("dictSdsHash", 15.8),
    ("dictSdsKeyCompare", 15.8),
    ("dictRehash", 8.5),
    ("memcmp", 6.0),
    ("other", 12.5),
];

/// Names of the paper's two servers.
pub(crate) const PAPER: [&str; 2] = ["published: Redis++", "published: Redis 4.0.6"];

/// Quantity of the sheets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sheet {
    /// Operations a second.
    Rate,
    /// used_memory in bytes, after the operation.
    Memory,
}

/// The sheets' series of one column: a value for each of the fills that a rule has, "original" among them.
pub(crate) fn sheet(sheet: Sheet, op: &str, bytes: usize, pipeline: usize, fills: &[String]) -> Vec<Series> {
    let metric = if sheet == Sheet::Rate { "ops_per_s" } else { "used_memory_bytes" };
    let mut lines = SHEETS.lines();
    let heads = lines.next().unwrap_or_default().split(',');
    let wanted = format!("{op} {bytes}");
    let Some(column) = heads.into_iter().position(|head| head == wanted) else { return Vec::new() };
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let pipeline = pipeline.to_string();
    let of_rule = |(rule, name): (&str, &str)| {
        let mut series = Series::new(name, Role::Published);
        for (place, fill) in fills.iter().enumerate() {
            let same = |row: &&Vec<&str>| row[..4] == [metric, rule, &pipeline, fill];
            if let Some(value) = rows.iter().find(same).and_then(|row| row[column].parse::<f64>().ok()) {
                series.push(place, value);
            }
        }
        series
    };
    RULES.map(of_rule).into_iter().filter(|series| !series.points.is_empty()).collect()
}

/// Elements that the sheets pushed in a row of this fill: the pipelined rows with 1 KB from 1024 entries on have a tenth.
pub(crate) fn elements(bytes: usize, pipeline: usize, fill: &str) -> f64 {
    let long = fill.parse::<i64>().is_ok_and(|fill| fill >= 1024);
    if pipeline == 1 {
        // The columns of unpipelined pushes have the same tenth, of a million.
        return if bytes == 1024 && long { 100_000.0 } else { 1_000_000.0 };
    }
    if bytes == 1024 && long { 1_000_000.0 } else { 10_000_000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sheets_have_every_row() {
        let fills = ["original", "-2", "16384"].map(String::from);
        let rates = sheet(Sheet::Rate, "LPUSH", 40, 1000, &fills);
        assert_eq!((rates[0].points.len(), rates[1].points.len()), (3, 2));
        assert_eq!(rates[1].at(0).unwrap().median, 1_541_307.0);
        let all: usize = ["LPUSH", "RPUSH", "LPOP", "RPOP"]
            .iter()
            .map(|op| {
                let column = |bytes| sheet(Sheet::Memory, op, bytes, 1, &fills);
                [40, 1024].map(column).iter().flatten().map(|series| series.points.len()).sum::<usize>()
            })
            .sum();
        assert_eq!(all, 40);
        assert!((CACHE_MISSES.iter().map(|(_, part)| part).sum::<f64>() - 100.0).abs() < 0.1);
    }

    #[test]
    fn bytes_an_element_are_those_of_the_rows_own_count() {
        // 1 KB an element, whatever the number of elements.
        let fills: Vec<String> = ["512", "1024", "16384"].map(String::from).to_vec();
        for pipeline in [1000, 1] {
            for series in sheet(Sheet::Memory, "LPUSH", 1024, pipeline, &fills) {
                for point in &series.points {
                    let each = point.value.median / elements(1024, pipeline, &fills[point.place]);
                    assert!((1000.0..2100.0).contains(&each), "{} {pipeline} {each}", fills[point.place]);
                }
            }
        }
    }
}
