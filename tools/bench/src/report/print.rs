//! Findings as tables in the terminal.

use super::verdict::verdict;
use super::{Figure, Findings, short};
use crate::say;

/// Prints every figure with its verdict, then the notes.
pub(crate) fn show(findings: &Findings) {
    for figure in &findings.figures {
        say!("\n{}", table(figure));
        say!("  {}", verdict(figure).1);
    }
    for note in findings.notes.iter().chain(&findings.lost).chain(&findings.took_note()) {
        say!("\n{note}");
    }
}

/// A line for each place, a column for each series. A value whose runs differ too much has a tilde.
fn table(figure: &Figure) -> String {
    let width = figure.places.iter().map(|place| place.len()).max().unwrap_or(0).max(10);
    let columns: Vec<usize> = figure.series.iter().map(|series| series.name.len().max(10)).collect();
    let mut text = format!("{} [{}]\n{:<width$}", figure.title, figure.unit, figure.axis);
    for (series, column) in figure.series.iter().zip(&columns) {
        text += &format!("  {:>column$}", series.name);
    }
    for (place, name) in figure.places.iter().enumerate() {
        text += &format!("\n{name:<width$}");
        for (series, column) in figure.series.iter().zip(&columns) {
            let cell = series.at(place).map_or("-".to_string(), |value| {
                format!("{}{}", if value.is_wide() { "~" } else { "" }, short(value.median))
            });
            text += &format!("  {cell:>column$}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Form, Role, Series, Value};

    #[test]
    fn a_figure_is_a_table_with_a_tilde_at_what_is_unsure() {
        let mut figure = Figure::new("CPU", "us", Better::Less, Form::Lines).over("fill", ["-2", "16"]);
        let mut series = Series::new("Varve", Role::Varve);
        series.push(0, Value::of(vec![0.5, 1.0, 1.5]));
        figure.series.push(series);
        let lines: Vec<String> = table(&figure).lines().map(str::to_string).collect();
        assert_eq!(lines[0], "CPU [us]");
        assert!(lines[2].ends_with("~1") && lines[3].ends_with('-'), "{lines:?}");
    }
}
