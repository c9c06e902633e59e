//! Commands by time, each with a map of how long its calls took between the last two looks.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};

use super::rows::{self, Column};
use super::words;
use crate::model::Model;
use crate::model::commands::{self, COLUMNS};

/// Letters of the map: no call, up to an eighth of the calls, a quarter, a half, all of them.
const SHADES: [char; 5] = ['\u{b7}', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, scroll: usize) {
    let shown = commands::rows(model).into_iter().map(|row| {
        vec![
            row.name,
            words::number(row.calls_a_second),
            format!("{:.1} %", row.share),
            words::micros(row.mean_us),
            since_start(row.p50_us),
            since_start(row.p99_us),
            map(&row.heat),
        ]
    });
    let columns = [
        Column::Text("command", Constraint::Min(8)),
        Column::Figure("calls/s", 7),
        Column::Figure("of time", 7),
        Column::Figure("mean", 7),
        Column::Figure("p50", 7),
        Column::Figure("p99", 7),
        Column::Text("1us  30us   1ms  30ms", Constraint::Length(COLUMNS as u16)),
    ];
    let title = "Commands since the last look; p50, p99 since the start; map of durations";
    rows::draw(frame, area, title, &columns, (shown.collect(), scroll), "no commands since the last look");
}

/// A percentile; nothing where the server does not track it.
fn since_start(micros: f64) -> String {
    if micros > 0.0 { words::micros(micros) } else { String::new() }
}

/// A letter a column: the darker, the more of the calls took that long.
fn map(calls: &[u64; COLUMNS]) -> String {
    let all = calls.iter().sum::<u64>();
    let shade = |&count: &u64| match count {
        0 => SHADES[0],
        count if count * 8 <= all => SHADES[1],
        count if count * 4 <= all => SHADES[2],
        count if count * 2 <= all => SHADES[3],
        _ => SHADES[4],
    };
    calls.iter().map(shade).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_darkest_column_has_most_calls() {
        let mut calls = [0; COLUMNS];
        (calls[0], calls[1], calls[20]) = (900, 99, 1);
        let map = map(&calls);
        let letters: Vec<char> = map.chars().collect();
        assert_eq!((letters[0], letters[1], letters[2], letters[20]), ('\u{2588}', '\u{2591}', '\u{b7}', '\u{2591}'));
    }
}
